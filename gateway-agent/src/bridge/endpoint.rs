//! The MCP endpoint of a gateway: over HTTP, or the router of an embedded gateway.
//!
//! The client follows no redirects and uses no proxies, because both could send the token
//! elsewhere.

use std::{
    error::Error as StdError, fs, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration,
};

use arc_swap::ArcSwapOption;
use axum::{Router, body::Body};
use bytes::Bytes;
use gateway_upstream::{Addresses, Client, Connector, redact_url};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT},
};
use http_body_util::Full;
use hyper_util::client::legacy;
use registry_core::Secret;
use registry_follow::Credentials;
use registry_tls::{ClientFiles, InvalidFile};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::failure::connection_remedy;
use crate::identity::sender::{ClientConnection, RequestSender};

/// Idle timeout of connections, below the 30 s of the gateway.
const IDLE: Duration = Duration::from_secs(20);
/// Maximum wait of the first requests for a starting gateway.
const START: Duration = Duration::from_secs(5);
/// Interval between attempts to reach a starting gateway.
const PAUSE: Duration = Duration::from_millis(100);
/// The default path of the endpoint.
const PATH: &str = "/mcp";
const AGENT_NAME: HeaderName = HeaderName::from_static("x-agent-name");
const AGENT_VERSION: HeaderName = HeaderName::from_static("x-agent-version");

/// The address of a gateway.
#[derive(Debug, Clone)]
pub struct Address {
    /// The URL of the MCP endpoint.
    pub url: String,
    /// The CA bundle and the client certificate. `None`: the CAs of the system.
    pub tls: Option<ClientFiles>,
}

/// How the bridge identifies itself to the gateway.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// The bearer token.
    pub token: Option<Token>,
    /// The value of `X-Agent-Name`, and that of `X-Agent-Version`.
    pub agent: Option<(String, Option<String>)>,
    /// Whether the token may be sent in plain text to another machine.
    pub allows_insecure_token: bool,
}

/// The source of the bearer token.
#[derive(Debug, Clone)]
pub enum Token {
    /// The literal token.
    Text(Secret),
    /// A file with the token. It is read again if the gateway rejects the token.
    File(PathBuf),
}

/// Why an endpoint or a credential is invalid.
#[derive(Debug, thiserror::Error)]
pub enum InvalidEndpoint {
    /// The URL is invalid.
    #[error("--gateway or GATEWAY_URL: `{0}` is not a URL such as http://127.0.0.1:7080/mcp")]
    Url(String),
    /// The token would cross the network in plain text.
    #[error(
        "the token would be sent to {0} unencrypted; use https://, or --allow-insecure-token on a \
         trusted network"
    )]
    InsecureToken(String),
    /// The token cannot be read or sent.
    #[error("the token {0}")]
    Token(String),
    /// The agent's name or version cannot be a header.
    #[error("--agent or GATEWAY_AGENT: `{0}` is not the name or the version of an agent")]
    Agent(String),
    /// The TLS files are invalid.
    #[error(transparent)]
    Tls(#[from] InvalidFile),
}

/// Why a request has no response.
#[derive(Debug)]
pub(super) enum SendError {
    /// The request was not sent.
    NotSent(String),
    /// The request may have been processed.
    Unknown(String),
}

impl SendError {
    /// A failure of the connection. A server can reject a handshake after the client has connected.
    pub(super) fn new(is_connect: bool, reason: String) -> Self {
        if is_connect || connection_remedy(&reason).is_some() {
            Self::NotSent(reason)
        } else {
            Self::Unknown(reason)
        }
    }
}

/// A client of the endpoint. Clones share connections.
#[derive(Debug, Clone)]
pub struct Endpoint {
    transport: Transport,
    uri: Uri,
    headers: HeaderMap,
    authorization: Arc<ArcSwapOption<HeaderValue>>,
    token_file: Option<PathBuf>,
    /// Requests retry an unreachable gateway until this time.
    start_until: Instant,
    /// Cancelled to stop these retries.
    started: CancellationToken,
}

#[derive(Debug, Clone)]
enum Transport {
    Http(Box<legacy::Client<Connector, Full<Bytes>>>),
    Routes(Router),
}

impl Endpoint {
    /// Creates a client for an address. Needs a Tokio runtime.
    pub fn connect(address: Address, identity: &Identity) -> Result<Self, InvalidEndpoint> {
        let uri = endpoint(&address.url)?;
        let url = uri.to_string();
        if identity.token.is_some()
            && !identity.allows_insecure_token
            && !Credentials::is_private(&url)
        {
            return Err(InvalidEndpoint::InsecureToken(url));
        }
        let is_https = uri.scheme_str() == Some("https");
        let client = Client::alone(is_https, address.tls, Addresses::Any, IDLE)?;
        Self::over(Transport::Http(Box::new(client)), uri, identity)
    }

    /// Creates a client for an embedded gateway. `host` must be an allowed `Host` name.
    pub fn embedded(
        routes: Router,
        host: Option<&str>,
        identity: &Identity,
    ) -> Result<Self, InvalidEndpoint> {
        let mut endpoint = Self::over(Transport::Routes(routes), Uri::from_static(PATH), identity)?;
        let host = HeaderValue::from_str(host.unwrap_or("localhost"));
        endpoint.headers.insert(HOST, host.unwrap_or(HeaderValue::from_static("localhost")));
        Ok(endpoint)
    }

    fn over(transport: Transport, uri: Uri, identity: &Identity) -> Result<Self, InvalidEndpoint> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let program = concat!("gateway-agent-stdio/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(program));
        if let Some((name, version)) = &identity.agent {
            let value = |text: &String| {
                HeaderValue::from_str(text).map_err(|_| InvalidEndpoint::Agent(text.clone()))
            };
            headers.insert(AGENT_NAME, value(name)?);
            if let Some(version) = version {
                headers.insert(AGENT_VERSION, value(version)?);
            }
        }
        let authorization = identity.token.as_ref().map(authorization).transpose()?;
        let authorization = Arc::new(ArcSwapOption::from_pointee(authorization));
        let token_file = match &identity.token {
            Some(Token::File(path)) => Some(path.clone()),
            _ => None,
        };
        Ok(Self {
            transport,
            uri,
            headers,
            authorization,
            token_file,
            start_until: Instant::now() + START,
            started: CancellationToken::new(),
        })
    }

    /// The gateway's name in messages.
    pub(super) fn name(&self) -> String {
        match &self.transport {
            Transport::Http(_) => format!("the gateway at {}", self.uri),
            Transport::Routes(_) => "the embedded gateway".to_owned(),
        }
    }

    /// Stops waiting for a starting gateway.
    pub(super) fn end_start(&self) {
        self.started.cancel();
    }

    /// Sends a message.
    pub(super) async fn post(
        &self,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Body>, SendError> {
        self.send(Method::POST, headers, body).await
    }

    /// Opens an event stream.
    pub(super) async fn get(&self, mut headers: HeaderMap) -> Result<Response<Body>, SendError> {
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        self.send(Method::GET, headers, Bytes::new()).await
    }

    /// Ends a session.
    pub(super) async fn delete(&self, headers: HeaderMap) -> Result<Response<Body>, SendError> {
        self.send(Method::DELETE, headers, Bytes::new()).await
    }

    /// Reads the token file again. Returns `false` if there is none.
    pub(super) fn reload_token(&self) -> bool {
        let Some(file) = &self.token_file else { return false };
        match authorization(&Token::File(file.clone())) {
            Ok(value) => self.authorization.store(Some(Arc::new(value))),
            Err(reason) => tracing::error!("{reason}; the previous token stays in use"),
        }
        true
    }

    async fn send(
        &self,
        method: Method,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Body>, SendError> {
        for (name, value) in &self.headers {
            headers.entry(name).or_insert_with(|| value.clone());
        }
        if let Some(value) = &*self.authorization.load() {
            headers.insert(AUTHORIZATION, HeaderValue::clone(value));
        }
        loop {
            let mut request = Request::new(body.clone());
            *request.method_mut() = method.clone();
            *request.uri_mut() = self.uri.clone();
            *request.headers_mut() = headers.clone();
            match self.transport.send(request).await {
                Err(SendError::NotSent(reason)) => {
                    let pause = self.started.run_until_cancelled(sleep(PAUSE));
                    if Instant::now() >= self.start_until || pause.await.is_none() {
                        return Err(SendError::NotSent(reason));
                    }
                }
                outcome => return outcome,
            }
        }
    }
}

impl Transport {
    async fn send(&self, mut request: Request<Bytes>) -> Result<Response<Body>, SendError> {
        match self {
            Self::Http(client) => {
                let response = client.request(request.map(Full::new)).await;
                response.map(|response| response.map(Body::new)).map_err(|e| describe(&e))
            }
            Self::Routes(routes) => {
                let peer = SocketAddr::from(([127, 0, 0, 1], 0));
                let connection = Arc::new(ClientConnection::new(peer, None));
                request.extensions_mut().insert(RequestSender::on(connection));
                let response = routes.clone().oneshot(request.map(Body::from)).await;
                Ok(response.unwrap_or_else(|never| match never {}))
            }
        }
    }
}

fn endpoint(url: &str) -> Result<Uri, InvalidEndpoint> {
    let invalid = || InvalidEndpoint::Url(redact_url(url));
    let uri: Uri = url.parse().map_err(|_| invalid())?;
    let is_good = matches!(uri.scheme_str(), Some("http" | "https"))
        && uri.host().is_some_and(|host| !host.is_empty())
        && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    if !is_good {
        return Err(invalid());
    }
    if uri.path() != "/" || uri.query().is_some() {
        return Ok(uri);
    }
    let mut parts = uri.into_parts();
    parts.path_and_query = Some(http::uri::PathAndQuery::from_static(PATH));
    Uri::from_parts(parts).map_err(|_| invalid())
}

fn authorization(token: &Token) -> Result<HeaderValue, InvalidEndpoint> {
    let text = match token {
        Token::Text(text) => text.expose().to_owned(),
        Token::File(path) => fs::read_to_string(path).map_err(|e| {
            InvalidEndpoint::Token(format!("cannot be read from {}: {e}", path.display()))
        })?,
    };
    let text = text.trim();
    // The message omits the token.
    let invalid = || InvalidEndpoint::Token("must be visible ASCII without spaces".to_owned());
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(invalid());
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {text}")).map_err(|_| invalid())?;
    value.set_sensitive(true);
    Ok(value)
}

fn describe(error: &legacy::Error) -> SendError {
    let causes = std::iter::successors(Some(error as &dyn StdError), |cause| (*cause).source());
    let reason = causes.last().map(ToString::to_string).unwrap_or_default();
    SendError::new(error.is_connect(), reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_without_path_means_mcp() {
        for (url, expected) in [
            ("http://127.0.0.1:7080", "http://127.0.0.1:7080/mcp"),
            ("http://127.0.0.1:7080/", "http://127.0.0.1:7080/mcp"),
            ("https://gateway.example.com/team/mcp", "https://gateway.example.com/team/mcp"),
        ] {
            assert_eq!(endpoint(url).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn invalid_urls_are_rejected_without_credentials() {
        for url in ["127.0.0.1:7080", "ftp://a/b", "http:///mcp", "http://u:secret@a/mcp", "x y"] {
            let message = endpoint(url).unwrap_err().to_string();
            assert!(message.contains("URL") && !message.contains("secret"), "{message}");
        }
    }

    #[tokio::test]
    async fn token_is_not_sent_in_plain_text() {
        let address = |url: &str| Address { url: url.to_owned(), tls: None };
        let token = Some(Token::Text("t0ken".to_owned().into()));
        let mut identity = Identity { token, ..Identity::default() };
        let refused = Endpoint::connect(address("http://192.0.2.1/mcp"), &identity).unwrap_err();
        assert!(matches!(refused, InvalidEndpoint::InsecureToken(_)), "{refused}");
        Endpoint::connect(address("http://127.0.0.1:1"), &identity).unwrap();
        identity.allows_insecure_token = true;
        Endpoint::connect(address("http://192.0.2.1/mcp"), &identity).unwrap();
        identity.token = Some(Token::Text("two words".to_owned().into()));
        let refused = Endpoint::connect(address("http://127.0.0.1:1"), &identity).unwrap_err();
        assert!(!refused.to_string().contains("two"), "{refused}");
    }
}
