//! The settings that all HTTP targets share, and the requests to the URL of one. A target with `tls` or
//! `addresses` has its own connector.
//!
//! Redirects, proxies, cookies and compression are not supported.

use std::time::Duration;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Uri,
    header::{ACCEPT, CONTENT_TYPE, USER_AGENT},
    uri::PathAndQuery,
};
use http_body_util::Full;
use hyper_util::{
    client::legacy,
    rt::{TokioExecutor, TokioTimer},
};
use registry_tls::{ClientFiles, InvalidFile};
use tokio_util::task::TaskTracker;

use super::{connector::Connector, pool::ConnectionPool};
use crate::{
    Addresses, TargetConfig, UpstreamLimits, secret::SecretError, send_state::Body,
    workers::PerWorker,
};

/// The `User-Agent`.
pub(super) const AGENT: &str = concat!("gateway-agent/", env!("CARGO_PKG_VERSION"));

/// The settings and background tasks that all targets share. Each target has its own connections.
#[derive(Debug, Clone)]
pub struct Client {
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
        Self { connector: Connector::shared(targets, limits), limits, tasks }
    }

    /// The connections to the host of a URL, which may have its own certificates or addresses, or use
    /// HTTP/2 only.
    pub(super) fn pool(
        &self,
        url: &Uri,
        tls: Option<ClientFiles>,
        addresses: Addresses,
        is_http2: bool,
    ) -> Result<ConnectionPool, InvalidFile> {
        let connector = if tls.is_none() && addresses == Addresses::Usual {
            self.connector.clone()
        } else {
            let tls = tls.map(|files| files.open(count_tls_reload)).transpose()?;
            self.connector.with(tls, addresses, self.limits)
        };
        let connector = if is_http2 { connector.over_http2() } else { connector };
        Ok(ConnectionPool::new(connector, url, self.limits))
    }

    pub(crate) fn limits(&self) -> UpstreamLimits {
        self.limits
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
}

fn count_tls_reload(outcome: &'static str) {
    metrics::counter!("gateway_tls_reloads_total", "outcome" => outcome).increment(1);
}

/// The path of the URL of an upstream and the headers of every request, without credentials.
#[derive(Debug)]
pub(crate) struct Address {
    path: Uri,
    /// Copies of the path.
    paths: PerWorker<Uri>,
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
    pub(super) fn new(url: &Uri) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        Self { path: path(url), paths: PerWorker::default(), headers }
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
        let queries = [self.path.query().unwrap_or_default(), query];
        let queries: Vec<_> = queries.into_iter().filter(|query| !query.is_empty()).collect();
        let mark = if queries.is_empty() { "" } else { "?" };
        let target = format!("{base}{path}{mark}{}", queries.join("&"));
        Self::request_at(&target, method, headers, body)
    }

    /// The path of the URL, without a slash at the end.
    pub(crate) fn base_path(&self) -> &str {
        self.path.path().trim_end_matches('/')
    }

    /// A request to a path of the host, which can have a query. `None`: the URL is too long.
    pub(crate) fn request_at(
        target: &str,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Option<Request<Body>> {
        Some(request(path_uri(target.parse().ok()?), method, headers, body))
    }

    fn request(&self, method: Method, headers: HeaderMap, body: Bytes) -> Request<Body> {
        let copy = || self.path.to_string().parse().unwrap_or_else(|_| self.path.clone());
        request(self.paths.get_or_init(copy).clone(), method, headers, body)
    }
}

fn request(uri: Uri, method: Method, headers: HeaderMap, body: Bytes) -> Request<Body> {
    let mut request = Request::new(Body::from(body));
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    request
}

/// The URL of an upstream.
pub(super) fn parse_url(url: &str) -> Result<Uri, InvalidAddress> {
    let parsed: Option<Uri> = url.parse().ok();
    let is_http = |url: &Uri| matches!(url.scheme_str(), Some("http" | "https"));
    parsed.filter(is_http).ok_or_else(|| InvalidAddress::Url(url.to_owned()))
}

/// The path and the query of a URL, which are the URI of a request.
pub(super) fn path(url: &Uri) -> Uri {
    url.path_and_query().cloned().map(path_uri).unwrap_or_default()
}

/// A URI without a host. An empty path is written as `/`.
fn path_uri(path: PathAndQuery) -> Uri {
    if path.as_str() == "/" { Uri::default() } else { path.into() }
}
