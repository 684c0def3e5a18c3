//! Fetching the one document that the user named: bounded in size and time, and never from another
//! host than the one that was named.
//!
//! Deliberately absent: credentials; what is fetched is public to whoever runs the command.

use std::{path::PathBuf, time::Duration};

use futures_util::StreamExt as _;
use reqwest::{Client, Response, Url, header::ACCEPT, redirect::Policy};

use crate::failure::{Failure, root_cause};

/// The largest document that is fetched.
const MOST_BYTES: usize = 16 << 20;
const PATIENCE: Duration = Duration::from_secs(30);
const REDIRECTS: usize = 5;

/// Whether a text means something to fetch, not a file.
pub(super) fn is_url(text: &str) -> bool {
    text.contains("://")
}

/// Fetches a document.
pub(super) async fn text(url: &str) -> Result<String, Failure> {
    let failed =
        |reason: String| Failure::File { action: "read", path: PathBuf::from(url), reason };
    let parsed = Url::parse(url).map_err(|e| failed(e.to_string()))?;
    if !["http", "https"].contains(&parsed.scheme()) {
        return Err(failed("only http:// and https:// are read".to_owned()));
    }
    let client = client(&parsed).map_err(|e| failed(root_cause(&e)))?;
    let answer = client.get(parsed).header(ACCEPT, "application/json").send().await;
    let answer = answer.map_err(|e| failed(root_cause(&e)))?;
    if !answer.status().is_success() {
        return Err(failed(format!("the answer is {}", answer.status())));
    }
    let bytes = body(answer).await.map_err(failed)?;
    String::from_utf8(bytes).map_err(|e| failed(format!("it is not UTF-8: {}", e.utf8_error())))
}

fn client(url: &Url) -> reqwest::Result<Client> {
    let from = url.clone();
    let policy = Policy::custom(move |attempt| {
        let to = attempt.url();
        let is_as_safe = to.scheme() == "https" || to.scheme() == from.scheme();
        if attempt.previous().len() > REDIRECTS {
            attempt.error("too many redirects")
        } else if to.host_str() == from.host_str() && is_as_safe {
            attempt.follow()
        } else {
            let elsewhere = format!("it leads elsewhere, to {}; name that URL", attempt.url());
            attempt.error(elsewhere)
        }
    });
    Client::builder()
        .redirect(policy)
        .timeout(PATIENCE)
        .user_agent(concat!("registryctl/", env!("CARGO_PKG_VERSION")))
        .build()
}

async fn body(answer: Response) -> Result<Vec<u8>, String> {
    let (mut parts, mut bytes) = (answer.bytes_stream(), Vec::new());
    while let Some(part) = parts.next().await {
        bytes.extend_from_slice(&part.map_err(|e| root_cause(&e))?);
        if bytes.len() > MOST_BYTES {
            return Err(format!("it has more than {} MiB", MOST_BYTES >> 20));
        }
    }
    Ok(bytes)
}
