//! HTTP to live servers, without redirects and proxies, and with size limits.

use std::{collections::HashMap, string::FromUtf8Error, time::Duration};

use reqwest::{
    Client, Url,
    header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
    redirect::Policy,
};

use super::{BYTES, Target};
use crate::{
    cli::live::Header,
    failure::{Failure, root_cause},
};

const CONNECT: Duration = Duration::from_secs(10);
/// Timeout of the first event of a stream.
const FIRST_EVENT: Duration = Duration::from_secs(2);

/// Parses an HTTP URL without credentials.
pub(super) fn check(text: &str) -> Result<Url, Failure> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.filter(Url::has_host);
    let Some(url) = url else {
        let help = "invalid URL; write https://HOST/mcp";
        return Err(Failure::Usage(help.to_owned()));
    };
    if !url.username().is_empty() || url.password().is_some() {
        let help = "the URL contains credentials; use --header or --bearer-file";
        return Err(Failure::Usage(help.to_owned()));
    }
    Ok(url)
}

pub(super) fn client(target: &Target) -> Result<Client, Failure> {
    Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT.min(target.timeout))
        .timeout(target.timeout)
        .user_agent(concat!("registryctl/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|e| target.unreachable(root_cause(&e)))
}

/// The headers of `--header`.
pub(super) fn headers(target: &Target) -> Result<HashMap<HeaderName, HeaderValue>, Failure> {
    let header = |Header { name, value }: &Header| {
        // The message omits an invalid name: it may be a secret.
        let no_name = "--header: invalid name; write `Name: value`";
        let name = HeaderName::try_from(name).map_err(|_| Failure::Usage(no_name.to_owned()))?;
        let mut value = HeaderValue::try_from(value).map_err(|_| {
            Failure::Usage(format!("--header {name}: the value contains invalid characters"))
        })?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    target.headers.iter().map(header).collect()
}

/// Whether a GET opens an event stream whose first event is `endpoint`, as HTTP+SSE (2024-11-05) has it.
pub(super) async fn is_http_sse(target: &Target, url: &str) -> bool {
    /// Maximum size of the response up to the first event.
    const BYTES: usize = 4_096;
    let is_endpoint = async {
        let headers: HeaderMap = headers(target).ok()?.into_iter().collect();
        let mut request = client(target).ok()?.get(url).headers(headers);
        request = request.header(ACCEPT, "text/event-stream");
        if let Some(bearer) = &target.bearer {
            request = request.bearer_auth(bearer);
        }
        let mut response = request.send().await.ok()?.error_for_status().ok()?;
        let mut received = Vec::new();
        while received.len() < BYTES {
            received.extend_from_slice(&response.chunk().await.ok()??);
            let text = String::from_utf8_lossy(&received);
            let mut lines =
                text.split_inclusive(['\n', '\r']).filter(|line| line.ends_with(['\n', '\r']));
            if let Some(name) = lines.find_map(|line| line.strip_prefix("event:")) {
                return Some(name.trim() == "endpoint");
            }
        }
        None
    };
    tokio::time::timeout(FIRST_EVENT, is_endpoint).await.ok().flatten().unwrap_or(false)
}

/// Gets a text. `None`: not found (404). The headers of `--header` override `own`.
pub(super) async fn get_text(
    target: &Target,
    url: &str,
    own: HeaderMap,
) -> Result<Option<String>, Failure> {
    let url = check(url)?;
    let mut all = own;
    for (name, value) in headers(target)? {
        all.insert(name, value);
    }
    if let Some(bearer) = &target.bearer {
        let value = HeaderValue::try_from(format!("Bearer {bearer}"));
        let value = value
            .map_err(|_| Failure::Usage("the bearer token contains invalid characters".into()))?;
        all.insert(AUTHORIZATION, value);
    }
    let request = client(target)?.get(url).headers(all);
    let response = request.send().await.map_err(|e| broken(target, &e))?;
    let status = response.status();
    if status == reqwest::StatusCode::NOT_FOUND {
        return Ok(None);
    }
    if !status.is_success() {
        return Err(target.invalid_response(format!("HTTP status {status}")));
    }
    let bytes = body(target, response).await?;
    let text = String::from_utf8(bytes);
    let invalid =
        |e: FromUtf8Error| target.invalid_response(format!("not valid JSON: {}", e.utf8_error()));
    text.map(Some).map_err(invalid)
}

async fn body(target: &Target, mut response: reqwest::Response) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|e| broken(target, &e))? {
        if bytes.len() + chunk.len() > BYTES {
            return Err(
                target.invalid_response(format!("the response exceeds {} MiB", BYTES >> 20))
            );
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The failure of a request. Connecting has a separate, shorter timeout.
pub(super) fn broken(target: &Target, error: &reqwest::Error) -> Failure {
    if error.is_timeout() && !error.is_connect() {
        return target.timed_out();
    }
    target.unreachable(root_cause(error))
}
