//! Fetching the one document that the user named: bounded in size and time, and never from another
//! origin (scheme, host and port) than the one that was named.
//!
//! Credentials are not supported: the document must be public to the user of the command.

use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::{Client, Url, header::ACCEPT, redirect::Policy};

use crate::{
    failure::{Failure, root_cause},
    input::Source,
    live::without_query,
};

/// The largest document that is fetched.
const MOST_BYTES: usize = 16 << 20;
const PATIENCE: Duration = Duration::from_secs(30);
const REDIRECTS: usize = 5;

/// Whether a text means something to fetch, not a file.
pub(super) fn is_url(text: &str) -> bool {
    text.contains("://")
}

/// Fetches a document. Messages name it without its query, which may be secret.
pub(super) async fn document(url: &str) -> Result<Source, Failure> {
    let parsed = checked(url)?;
    let shown = without_query(parsed.as_str()).to_owned();
    Ok(Source::made(&shown, text(parsed, &shown).await?))
}

fn checked(url: &str) -> Result<Url, Failure> {
    let parsed = Url::parse(url).map_err(|e| Failure::Usage(format!("this is no URL: {e}")))?;
    if !parsed.username().is_empty() || parsed.password().is_some() {
        let help = "the URL has a user or a password; fetch it otherwise, and import the file";
        return Err(Failure::Usage(help.to_owned()));
    }
    if !["http", "https"].contains(&parsed.scheme()) {
        let scheme = parsed.scheme();
        return Err(Failure::Usage(format!("{scheme}: only http:// and https:// are read")));
    }
    Ok(parsed)
}

async fn text(url: Url, shown: &str) -> Result<String, Failure> {
    let target = || shown.to_owned();
    let lies = |reason: String| Failure::LiveAnswer { target: target(), reason };
    let failed = |e: reqwest::Error| match root_cause(&e) {
        reason if e.is_redirect() => lies(reason),
        reason => Failure::LiveUnreachable { target: target(), reason },
    };
    let answer = client(&url).map_err(failed)?.get(url).header(ACCEPT, "application/json");
    let answer = answer.send().await.map_err(failed)?;
    if !answer.status().is_success() {
        return Err(lies(format!("it answers {}", answer.status())));
    }
    let (mut parts, mut bytes) = (answer.bytes_stream(), Vec::new());
    while let Some(part) = parts.next().await {
        bytes.extend_from_slice(&part.map_err(failed)?);
        if bytes.len() > MOST_BYTES {
            return Err(lies(format!("it has more than {} MiB", MOST_BYTES >> 20)));
        }
    }
    String::from_utf8(bytes).map_err(|e| lies(format!("it is not UTF-8: {}", e.utf8_error())))
}

fn client(url: &Url) -> reqwest::Result<Client> {
    let from = url.clone();
    let policy = Policy::custom(move |attempt| {
        if attempt.previous().len() > REDIRECTS {
            attempt.error("too many redirects")
        } else if attempt.url().origin() == from.origin() {
            attempt.follow()
        } else {
            // A query, a user or a password may be secret.
            let to = attempt.url();
            let to = format!("{}{}", to.origin().ascii_serialization(), to.path());
            attempt.error(format!("it leads elsewhere, to {to}; name that URL"))
        }
    });
    Client::builder()
        .redirect(policy)
        .timeout(PATIENCE)
        .user_agent(concat!("registryctl/", env!("CARGO_PKG_VERSION")))
        .build()
}
