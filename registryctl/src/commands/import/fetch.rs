//! Fetches a document with limits on size and time, and without redirects to other origins.
//!
//! Credentials are not supported.

use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::{Client, Url, header::ACCEPT, redirect::Policy};

use crate::{
    diagnose::with_live_remedy,
    failure::{Failure, root_cause},
    input::Source,
    live::without_query,
};

/// Maximum size of a document.
const MAX_BYTES: usize = 16 << 20;
const TIMEOUT: Duration = Duration::from_secs(30);
const MAX_REDIRECTS: usize = 5;

/// Fetches a document. Messages omit the query of its URL, which may contain a secret.
pub(super) async fn document(url: &str) -> Result<Source, Failure> {
    let parsed = parse(url)?;
    let shown = without_query(parsed.as_str()).to_owned();
    Ok(Source::generated(&shown, text(parsed, &shown).await?))
}

fn parse(url: &str) -> Result<Url, Failure> {
    let parsed = Url::parse(url).map_err(|e| Failure::Usage(format!("invalid URL: {e}")))?;
    if !parsed.username().is_empty() || parsed.password().is_some() {
        let help = "the URL contains credentials; download the file and import it";
        return Err(Failure::Usage(help.to_owned()));
    }
    if !["http", "https"].contains(&parsed.scheme()) {
        let scheme = parsed.scheme();
        return Err(Failure::Usage(format!(
            "unsupported scheme `{scheme}`; use http:// or https://"
        )));
    }
    Ok(parsed)
}

async fn text(url: Url, shown: &str) -> Result<String, Failure> {
    let target = || shown.to_owned();
    let invalid = |reason: String| Failure::InvalidLiveResponse { target: target(), reason };
    let failed = |e: reqwest::Error| match root_cause(&e) {
        reason if e.is_redirect() => invalid(reason),
        reason => Failure::LiveUnreachable { target: target(), reason: with_live_remedy(reason) },
    };
    let answer = client(&url).map_err(failed)?.get(url).header(ACCEPT, "application/json");
    let answer = answer.send().await.map_err(failed)?;
    if !answer.status().is_success() {
        return Err(invalid(format!("HTTP status {}", answer.status())));
    }
    let (mut parts, mut bytes) = (answer.bytes_stream(), Vec::new());
    while let Some(part) = parts.next().await {
        bytes.extend_from_slice(&part.map_err(failed)?);
        if bytes.len() > MAX_BYTES {
            return Err(invalid(format!("larger than {} MiB", MAX_BYTES >> 20)));
        }
    }
    String::from_utf8(bytes).map_err(|e| invalid(format!("not valid UTF-8: {}", e.utf8_error())))
}

fn client(url: &Url) -> reqwest::Result<Client> {
    let from = url.clone();
    let policy = Policy::custom(move |attempt| {
        if attempt.previous().len() > MAX_REDIRECTS {
            attempt.error("too many redirects")
        } else if attempt.url().origin() == from.origin() {
            attempt.follow()
        } else {
            // The query and credentials may be secret.
            let to = attempt.url();
            let to = format!("{}{}", to.origin().ascii_serialization(), to.path());
            attempt.error(format!("redirect to another origin, {to}; import that URL"))
        }
    });
    Client::builder()
        .redirect(policy)
        .timeout(TIMEOUT)
        .user_agent(concat!("registryctl/", env!("CARGO_PKG_VERSION")))
        .build()
}
