//! Token requests: client credentials (RFC 6749, section 4.4) and token exchange (RFC 8693).
//!
//! Redirects are not followed. Refresh tokens are not used, because these grants do not need them.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use gateway_policy::SubjectToken;
use http::{
    HeaderMap, HeaderValue, Method, Request, StatusCode, Uri,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT},
};
use tokio::{task::spawn_blocking, time::timeout};

use super::{
    super::{
        Client, Error, answer,
        client::{AGENT, InvalidAddress, parse_url, path},
        pool::ConnectionPool,
    },
    issued::{ACCESS_TOKEN, Issued, read, refusal, sensitive},
};
use crate::{
    Addresses, AuthConfig, ClientAuthentication, TargetId, error::TokenError, secret::redact_url,
    send_state::Body,
};

const REQUESTS: &str = "gateway_token_requests_total";
/// Maximum size of a response, in bytes.
const ANSWER_BYTES: usize = 64 * 1024;

/// A client of one token endpoint.
#[derive(Debug)]
pub(super) struct TokenEndpoint {
    server: TargetId,
    config: AuthConfig,
    path: Uri,
    connections: ConnectionPool,
    timeout_ms: u64,
}

fn count(server: &TargetId, outcome: &'static str, requests: u64) {
    let server = server.name.as_str().to_owned();
    metrics::counter!(REQUESTS, "server" => server, "outcome" => outcome).increment(requests);
}

impl TokenEndpoint {
    /// Must be called inside a Tokio runtime.
    pub(super) fn open(
        server: &TargetId,
        config: &AuthConfig,
        shared: &Client,
    ) -> Result<Self, InvalidAddress> {
        metrics::describe_counter!(REQUESTS, "Requests for access tokens of upstreams");
        // Operators alert on increases, and the step from no series to 1 is none.
        for outcome in ["issued", "rejected", "failed"] {
            count(server, outcome, 0);
        }
        let invalid = |_| InvalidAddress::Url(redact_url(&config.token_url));
        let url = parse_url(&config.token_url).map_err(invalid)?;
        let tls = match &config.tls {
            // The connector of the targets may have been created without TLS.
            None if url.scheme_str() == Some("http") => None,
            files => Some(files.clone().unwrap_or_default()),
        };
        Ok(Self {
            server: server.clone(),
            config: config.clone(),
            path: path(&url),
            connections: shared.pool(&url, tls, Addresses::Usual, false)?,
            timeout_ms: shared.limits().connect_timeout_ms,
        })
    }

    /// The address for messages.
    pub(super) fn shown(&self) -> String {
        redact_url(&self.config.token_url)
    }

    /// Requests a new token: in exchange for this one, or the gateway's own.
    pub(super) async fn fetch(&self, subject: Option<&SubjectToken>) -> Result<Issued, TokenError> {
        let after_ms = self.timeout_ms;
        let asked = timeout(Duration::from_millis(after_ms), self.ask(subject)).await;
        let asked = asked.unwrap_or(Err(TokenError::Late { after_ms }));
        let outcome = match &asked {
            Ok(_) => "issued",
            Err(TokenError::Refused { .. }) => "rejected",
            Err(_) => "failed",
        };
        count(&self.server, outcome, 1);
        asked
    }

    async fn ask(&self, subject: Option<&SubjectToken>) -> Result<Issued, TokenError> {
        let secret = self.config.client_secret.clone();
        let secret = spawn_blocking(move || secret.read()).await;
        let secret =
            secret.map_err(|_| TokenError::Unreachable("the gateway is stopping".into()))??;
        let request = self.request(&secret, subject)?;
        let answer = self.connections.send(&self.server, request).await.map_err(unreachable)?;
        let status = answer.status();
        let body = answer::read_whole(answer.into_body(), ANSWER_BYTES, None).await;
        let body = body.map_err(|e| match e {
            Error::TooLarge { .. } => TokenError::Unusable("the response exceeds 64 KiB"),
            e => unreachable(e),
        })?;
        let body = body.bytes;
        if status == StatusCode::OK { read(&body, subject) } else { Err(refusal(status, &body)) }
    }

    fn request(
        &self,
        secret: &str,
        subject: Option<&SubjectToken>,
    ) -> Result<Request<Body>, TokenError> {
        let config = &self.config;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        let mut form = form(config, subject);
        match config.client_authentication {
            ClientAuthentication::Post => {
                form.add("client_id", &config.client_id).add("client_secret", secret);
            }
            ClientAuthentication::Basic => {
                let pair = format!("{}:{}", encoded(&config.client_id), encoded(secret));
                headers.insert(AUTHORIZATION, sensitive("Basic", &BASE64_STANDARD.encode(pair))?);
            }
        }
        let mut request = Request::new(Body::from(Bytes::from(form.0)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.path.clone();
        *request.headers_mut() = headers;
        Ok(request)
    }
}

fn unreachable(error: Error) -> TokenError {
    match error {
        Error::Timeout { after_ms, .. } => TokenError::Late { after_ms },
        Error::Unavailable { source, .. } => TokenError::Unreachable(source.to_string()),
        _ => TokenError::Unreachable(
            "the connection closed before the response was complete".to_owned(),
        ),
    }
}

/// `application/x-www-form-urlencoded`.
struct Form(String);

impl Form {
    fn add(&mut self, name: &str, value: &str) -> &mut Self {
        if !self.0.is_empty() {
            self.0.push('&');
        }
        self.0.push_str(name);
        self.0.push('=');
        self.0.push_str(&encoded(value));
        self
    }
}

fn form(config: &AuthConfig, subject: Option<&SubjectToken>) -> Form {
    let mut form = Form(String::new());
    match subject {
        None => form.add("grant_type", "client_credentials"),
        Some(subject) => form
            .add("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange")
            .add("subject_token", subject.expose())
            .add("subject_token_type", ACCESS_TOKEN)
            .add("requested_token_type", ACCESS_TOKEN),
    };
    if !config.scopes.is_empty() {
        form.add("scope", &config.scopes.join(" "));
    }
    for audience in &config.audience {
        form.add("audience", audience);
    }
    for resource in &config.resource {
        form.add("resource", resource);
    }
    form
}

/// RFC 6749, appendix B.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' => {
                encoded.push(char::from(byte));
            }
            b' ' => encoded.push('+'),
            byte => {
                let digit = |four: u8| char::from(b"0123456789ABCDEF"[usize::from(four)]);
                encoded.extend(['%', digit(byte >> 4), digit(byte & 0xf)]);
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_values_are_encoded() {
        let mut form = Form(String::new());
        form.add("a", "b c&d=e+f%/é").add("scope", "x:y z");
        assert_eq!(form.0, "a=b+c%26d%3De%2Bf%25%2F%C3%A9&scope=x%3Ay+z");
    }
}
