//! The HTTP client that targets share: pooled connections, and TLS where a target needs it. A
//! target with `tls` or `addresses` has its own client.
//!
//! Redirects, proxies, cookies and compression are not supported.

use std::{error::Error as StdError, io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, Uri,
    header::{ACCEPT, CONTENT_TYPE, USER_AGENT},
};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::{
    client::legacy,
    rt::{TokioExecutor, TokioTimer},
};
use registry_tls::{ClientFiles, InvalidFile};
use rustls::AlertDescription;
use tokio_util::task::TaskTracker;

use super::{Error, Phase, ProtocolViolation, connector::Connector};
use crate::{
    Addresses, TargetConfig, TargetId, UpstreamLimits, secret::SecretError, send_state::Body,
    workers,
};

/// Maximum idle time of a connection. Common servers close theirs after five seconds, and a request
/// on a closing connection is lost.
const IDLE: Duration = Duration::from_secs(4);
/// That time over HTTP/2, whose servers announce the end of a connection. Load balancers forget idle
/// connections after 350 s and more.
const HTTP2_IDLE: Duration = Duration::from_mins(5);
/// Maximum unread bytes of one response of a client for HTTP/2 only, and of all responses of a
/// connection. A caller that does not read its stream must not block those of others.
const HTTP2_STREAM_WINDOW: u32 = 128 * 1024;
const HTTP2_CONNECTION_WINDOW: u32 = 128 * HTTP2_STREAM_WINDOW;

/// The `User-Agent`.
pub(super) const AGENT: &str = concat!("gateway-agent/", env!("CARGO_PKG_VERSION"));

/// The client; clones share the connections.
#[derive(Debug, Clone)]
pub struct Client {
    /// One per worker, because a connection belongs to the thread that opened it.
    clients: Arc<[legacy::Client<Connector, Body>]>,
    connector: Connector,
    limits: UpstreamLimits,
    tasks: TaskTracker,
}

impl Client {
    /// Creates a client for these targets.
    pub(crate) fn new(
        targets: &[TargetConfig],
        limits: UpstreamLimits,
        tasks: TaskTracker,
    ) -> Self {
        Self::over(Connector::shared(targets, limits), limits, tasks)
    }

    /// The client for a target, which may have its own certificates or addresses, or use HTTP/2 only.
    pub(crate) fn with(
        &self,
        tls: Option<ClientFiles>,
        addresses: Addresses,
        is_http2: bool,
    ) -> Result<Self, InvalidFile> {
        if tls.is_none() && addresses == Addresses::Usual && !is_http2 {
            return Ok(self.clone());
        }
        let tls = tls.map(|files| files.open(count_tls_reload)).transpose()?;
        let connector = self.connector.with(tls, addresses, self.limits);
        let connector = if is_http2 { connector.over_http2() } else { connector };
        Ok(Self::over(connector, self.limits, self.tasks.clone()))
    }

    fn over(connector: Connector, limits: UpstreamLimits, tasks: TaskTracker) -> Self {
        let is_http2 = connector.is_http2();
        let client = || {
            legacy::Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(if is_http2 { HTTP2_IDLE } else { IDLE })
                .http2_only(is_http2)
                .http2_initial_stream_window_size(is_http2.then_some(HTTP2_STREAM_WINDOW))
                .http2_initial_connection_window_size(is_http2.then_some(HTTP2_CONNECTION_WINDOW))
                .build(connector.of_worker())
        };
        let clients = (0..workers::slot_count()).map(|_| client()).collect();
        Self { clients, connector, limits, tasks }
    }

    pub(crate) fn limits(&self) -> UpstreamLimits {
        self.limits
    }

    /// Sends a request and waits for the head of the response. A pooled connection that was closed
    /// before anything was sent is replaced silently.
    pub(super) async fn send(
        &self,
        server: &TargetId,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, Error> {
        self.clients[workers::current_slot()]
            .request(request)
            .await
            .map_err(|error| self.describe(server, &error))
    }

    /// Creates a client for endpoints that are not targets. Connections stay open for `idle`.
    pub fn alone(
        is_https: bool,
        tls: Option<ClientFiles>,
        addresses: Addresses,
        idle: Duration,
    ) -> Result<legacy::Client<Connector, Full<Bytes>>, InvalidFile> {
        let tls = tls.map(|files| files.open(count_tls_reload)).transpose()?;
        Ok(legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(idle)
            .build(Connector::alone(is_https, tls, addresses)))
    }

    /// Runs a future in the background until the gateway stops.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }

    fn describe(&self, server: &TargetId, error: &legacy::Error) -> Error {
        if let Some(alert) = causes(error).find_map(refused_certificate) {
            let source = format!(
                "the server rejected the gateway's client certificate or requires one: {alert:?}"
            );
            return Error::Unavailable { target: server.clone(), source: source.into() };
        }
        if let Some(refused) = causes(error).find_map(unprocessed) {
            let source = refused.to_string().into();
            return Error::Unavailable { target: server.clone(), source };
        }
        if !error.is_connect() {
            return ProtocolViolation::Closed.into();
        }
        let is_timeout = |cause: &(dyn StdError + 'static)| {
            cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::TimedOut)
        };
        let mut last = String::new();
        for cause in causes(error) {
            if is_timeout(cause) {
                let after_ms = self.limits.connect_timeout_ms;
                return Error::Timeout { phase: Phase::Connect, after_ms };
            }
            last = cause.to_string();
        }
        Error::Unavailable { target: server.clone(), source: last.into() }
    }
}

fn count_tls_reload(outcome: &'static str) {
    metrics::counter!("gateway_tls_reloads_total", "outcome" => outcome).increment(1);
}

/// An error and its causes.
fn causes(error: &legacy::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(Some(error as &(dyn StdError + 'static)), |cause| (*cause).source())
}

/// The error of a request that the upstream certainly did not process: it refused the request, or
/// ended the connection after earlier ones (RFC 9113, sections 6.8 and 8.7).
fn unprocessed<'a>(cause: &'a (dyn StdError + 'static)) -> Option<&'a h2::Error> {
    let error: &h2::Error = cause.downcast_ref()?;
    let is_refused = error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM);
    (error.is_remote() && is_refused).then_some(error)
}

/// The TLS alert of an upstream that rejects the client certificate. With TLS 1.3 it arrives
/// instead of the first response.
fn refused_certificate(cause: &(dyn StdError + 'static)) -> Option<AlertDescription> {
    use AlertDescription::{
        AccessDenied, BadCertificate, CertificateExpired, CertificateRequired, CertificateRevoked,
        CertificateUnknown, DecryptError, UnknownCA, UnsupportedCertificate,
    };
    let inner = cause.downcast_ref::<io::Error>()?.get_ref()?;
    let rustls::Error::AlertReceived(alert) = inner.downcast_ref::<rustls::Error>()? else {
        return None;
    };
    let is_about_it = matches!(
        alert,
        AccessDenied
            | BadCertificate
            | CertificateExpired
            | CertificateRequired
            | CertificateRevoked
            | CertificateUnknown
            | DecryptError
            | UnknownCA
            | UnsupportedCertificate
    );
    is_about_it.then_some(*alert)
}

/// The URL of an upstream and the headers of every request, without credentials.
#[derive(Debug)]
pub(crate) struct Address {
    uri: Uri,
    pub(crate) headers: HeaderMap,
}

/// An unusable configuration of a target.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidAddress {
    #[error("`{0}` is not an http or https URL")]
    Url(String),
    #[error("`{0}` is not a header, or its value is not one")]
    Header(String),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Tls(#[from] InvalidFile),
    #[error("the target is a child process")]
    Transport,
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self, InvalidAddress> {
        let uri: Uri = url.parse().map_err(|_| InvalidAddress::Url(url.to_owned()))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(InvalidAddress::Url(url.to_owned()));
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        Ok(Self { uri, headers })
    }

    /// A request with a message.
    pub(crate) fn post(&self, headers: HeaderMap, body: Bytes) -> Request<Body> {
        self.request(Method::POST, headers, body)
    }

    /// The request that ends a session.
    pub(super) fn delete(&self, headers: HeaderMap) -> Request<Body> {
        self.request(Method::DELETE, headers, Bytes::new())
    }

    /// A request for an event stream.
    pub(super) fn get(&self, mut headers: HeaderMap) -> Request<Body> {
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        self.request(Method::GET, headers, Bytes::new())
    }

    /// A request to a path below the URL, which can have a query. `None`: the URL is too long.
    pub(crate) fn request_below(
        &self,
        path: &str,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Option<Request<Body>> {
        let base = self.base_path();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let queries = [self.uri.query().unwrap_or_default(), query];
        let queries: Vec<_> = queries.into_iter().filter(|query| !query.is_empty()).collect();
        let mark = if queries.is_empty() { "" } else { "?" };
        let target = format!("{base}{path}{mark}{}", queries.join("&"));
        self.request_at(&target, method, headers, body)
    }

    /// The path of the URL, without a slash at the end.
    pub(crate) fn base_path(&self) -> &str {
        self.uri.path().trim_end_matches('/')
    }

    /// A request to a path of the host, which can have a query. `None`: the URL is too long.
    pub(crate) fn request_at(
        &self,
        target: &str,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Option<Request<Body>> {
        let mut parts = self.uri.clone().into_parts();
        parts.path_and_query = Some(target.parse().ok()?);
        let mut request = self.request(method, headers, body);
        *request.uri_mut() = Uri::from_parts(parts).ok()?;
        Some(request)
    }

    fn request(&self, method: Method, headers: HeaderMap, body: Bytes) -> Request<Body> {
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        request
    }
}
