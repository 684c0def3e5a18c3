//! `http(s)://`: a registry file, polled with its `ETag`.
//!
//! Redirects are not followed: they could send credentials to another host.

use std::time::Duration;

use bytes::BytesMut;
use http::header::{AUTHORIZATION, ETAG, IF_NONE_MATCH};
use registry_follow::{Credentials, certificate_remedy, reason_of};
use registry_tls::{ClientPem, InvalidFile};
use reqwest::{Certificate, Client, Identity, Response, StatusCode, redirect::Policy};
use retry_backoff::{Backoff, jittered};

use super::{CA_SETTING, Feed, SourceConfig, content::ContentRejected, loader::ContentLoader};

/// Maximum body size, in bytes.
const BODY_BYTES: usize = 256 * 1024 * 1024;
/// Connection timeout.
const CONNECT: Duration = Duration::from_secs(5);
/// Read timeout.
const READ: Duration = Duration::from_secs(15);
/// Maximum delay after a failure, independent of the polling interval.
const RETRY_LONGEST: Duration = Duration::from_secs(30);

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("{}", described(.0))]
    Http(reqwest::Error),
    #[error("{0}")]
    Token(#[from] std::io::Error),
    #[error("{0}")]
    Tls(#[from] InvalidFile),
    #[error("unexpected HTTP status {}{}", .0, status_remedy(*.0))]
    Status(StatusCode),
    #[error("the body exceeds {BODY_BYTES} bytes")]
    TooLarge,
}

impl From<reqwest::Error> for FetchError {
    /// Removes the URL, whose query can be a secret; the log names the source.
    fn from(error: reqwest::Error) -> Self {
        Self::Http(error.without_url())
    }
}

/// Describes a failed request, with the remedy for a wrong scheme or an untrusted certificate.
fn described(error: &reqwest::Error) -> String {
    let reason = reason_of(error);
    match connection_remedy(&reason) {
        Some(remedy) => format!("{reason}; {remedy}"),
        None => reason,
    }
}

fn connection_remedy(reason: &str) -> Option<String> {
    // hyper reports a TLS alert as an invalid version, rustls a response without TLS as invalid
    // content.
    if reason.contains("invalid HTTP version") {
        Some("if the server uses TLS, write https:// in `registry.source`".to_owned())
    } else if reason.contains("InvalidContentType") {
        Some("if the server does not use TLS, write http:// in `registry.source`".to_owned())
    } else {
        certificate_remedy(reason, CA_SETTING)
    }
}

fn status_remedy(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => {
            "; set `registry.tokenFile` to a file with a valid token, or set `registry.certFile` and \
             `registry.keyFile`"
        }
        StatusCode::FORBIDDEN => {
            "; the registry rejects the role of the caller: check `registry.tokenFile`, or \
             `registry.certFile` and `registry.keyFile`"
        }
        StatusCode::NOT_FOUND => {
            "; correct the address in `registry.source`: a registry serves its file at /registry.json, \
             by default at port 7070"
        }
        _ => "",
    }
}

enum Fetched {
    Unchanged,
    Content { bytes: Vec<u8>, tag: Option<String> },
}

/// Polls the URL until it is stopped. Fails if the first content is rejected and there is no
/// catalog.
pub(super) async fn poll(
    url: &str,
    config: &SourceConfig,
    feed: Feed,
) -> Result<(), ContentRejected> {
    let (interval, credentials) = (config.poll_interval, &config.credentials);
    let client = match client(credentials) {
        Ok(client) => client,
        Err(e) => {
            feed.status.down(&e.to_string());
            feed.stop.cancelled().await;
            return Ok(());
        }
    };
    // Imports cannot read URLs, so the remedy names a local file.
    let (mut tag, mut loader) = (None, ContentLoader::new(feed.clone(), "FILE".to_owned()));
    let mut backoff = Backoff::new(interval.min(Duration::from_secs(1)), RETRY_LONGEST);
    loop {
        let fetched = tokio::select! {
            fetched = fetch((&client, credentials), url, tag.as_deref()) => fetched,
            () = feed.stop.cancelled() => return Ok(()),
        };
        let wait = match fetched {
            Ok(answer) => {
                match answer {
                    Fetched::Unchanged => loader.unchanged(),
                    Fetched::Content { bytes, tag: new } => {
                        tag = new;
                        loader.content(bytes).await?;
                    }
                }
                backoff.reset();
                jittered(interval)
            }
            Err(e) => {
                feed.status.down(&e.to_string());
                backoff.next_delay()
            }
        };
        if !feed.pause(wait).await {
            return Ok(());
        }
    }
}

fn client(credentials: &Credentials) -> Result<Client, FetchError> {
    let agent = concat!("gateway-agent/", env!("CARGO_PKG_VERSION"));
    let builder = Client::builder().user_agent(agent).redirect(Policy::none());
    let mut builder = builder.connect_timeout(CONNECT).read_timeout(READ);
    let ClientPem { ca, identity } = credentials.tls.read_pem()?;
    if let Some(ca) = ca {
        builder = builder.tls_certs_only(Certificate::from_pem_bundle(&ca)?);
    }
    if let Some((certificate, key)) = identity {
        builder = builder.identity(Identity::from_pem(&[certificate, key].concat())?);
    }
    Ok(builder.build()?)
}

async fn fetch(
    (client, credentials): (&Client, &Credentials),
    url: &str,
    tag: Option<&str>,
) -> Result<Fetched, FetchError> {
    let mut request = client.get(url);
    if let Some(authorization) = credentials.authorization()? {
        request = request.header(AUTHORIZATION, authorization);
    }
    if let Some(tag) = tag {
        request = request.header(IF_NONE_MATCH, tag);
    }
    let response = request.send().await?;
    match response.status() {
        StatusCode::NOT_MODIFIED if tag.is_some() => Ok(Fetched::Unchanged),
        StatusCode::OK => {
            let tag = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok());
            let tag = tag.map(str::to_owned);
            Ok(Fetched::Content { bytes: body(response).await?, tag })
        }
        status => Err(FetchError::Status(status)),
    }
}

async fn body(mut response: Response) -> Result<Vec<u8>, FetchError> {
    let mut body = BytesMut::new();
    while let Some(part) = response.chunk().await? {
        if body.len() + part.len() > BODY_BYTES {
            return Err(FetchError::TooLarge);
        }
        body.extend_from_slice(&part);
    }
    Ok(body.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_remedies_name_the_setting() {
        for (reason, expected) in [
            ("invalid HTTP version parsed", "write https:// in `registry.source`"),
            (
                "received corrupt message of type InvalidContentType",
                "write http:// in `registry.source`",
            ),
            ("invalid peer certificate: UnknownIssuer", CA_SETTING),
            (
                "invalid peer certificate: UnsupportedSignatureAlgorithmForPublicKeyContext { }",
                CA_SETTING,
            ),
            ("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))", "CA:FALSE"),
        ] {
            let remedy = connection_remedy(reason).unwrap();
            assert!(remedy.contains(expected), "{reason}: {remedy}");
        }
        assert_eq!(connection_remedy("connection reset by peer"), None);
    }
}
