//! The HTTP client that targets share: pooled connections, TLS where a target wants it. A target
//! with `tls` or `addresses` of its own has a client of its own.
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

use super::{Breach, Error, Phase, connector::Connector};
use crate::{
    Addresses, TargetConfig, TargetId, UpstreamLimits, departure::Body, lanes,
    secret::UnusableSecret,
};

/// How long a connection may stay idle. Common servers close theirs after five seconds, and a
/// request that meets a closing connection is lost.
const IDLE: Duration = Duration::from_secs(4);

/// How the gateway introduces itself.
pub(super) const AGENT: &str = concat!("gateway-agent/", env!("CARGO_PKG_VERSION"));

/// The client; clones share the connections.
#[derive(Debug, Clone)]
pub struct Client {
    /// One for each lane: a connection belongs to the thread that made it.
    places: Arc<[legacy::Client<Connector, Body>]>,
    connector: Connector,
    limits: UpstreamLimits,
    tasks: TaskTracker,
}

impl Client {
    /// A client for these targets.
    pub(crate) fn new(
        targets: &[TargetConfig],
        limits: UpstreamLimits,
        tasks: TaskTracker,
    ) -> Self {
        Self::over(Connector::shared(targets, limits), limits, tasks)
    }

    /// The client for a target that may have certificates or addresses of its own.
    pub(crate) fn with(
        &self,
        tls: Option<ClientFiles>,
        addresses: Addresses,
    ) -> Result<Self, InvalidFile> {
        if tls.is_none() && addresses == Addresses::Usual {
            return Ok(self.clone());
        }
        let tls = tls.map(|files| files.open(count_tls_change)).transpose()?;
        let connector = self.connector.with(tls, addresses, self.limits);
        Ok(Self::over(connector, self.limits, self.tasks.clone()))
    }

    fn over(connector: Connector, limits: UpstreamLimits, tasks: TaskTracker) -> Self {
        let client = || {
            legacy::Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE)
                .build(connector.clone())
        };
        let places = (0..lanes::places()).map(|_| client()).collect();
        Self { places, connector, limits, tasks }
    }

    pub(crate) fn limits(&self) -> UpstreamLimits {
        self.limits
    }

    /// Sends a request and waits for the head of the answer. A pooled connection that was closed
    /// before anything was sent is replaced without a word.
    pub(super) async fn send(
        &self,
        server: &TargetId,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, Error> {
        self.places[lanes::current()]
            .request(request)
            .await
            .map_err(|error| self.describe(server, &error))
    }

    /// A client for an endpoint that is not a target. Connections stay open for `idle`.
    pub fn alone(
        is_https: bool,
        tls: Option<ClientFiles>,
        idle: Duration,
    ) -> Result<legacy::Client<Connector, Full<Bytes>>, InvalidFile> {
        let tls = tls.map(|files| files.open(count_tls_change)).transpose()?;
        Ok(legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(idle)
            .build(Connector::alone(is_https, tls)))
    }

    /// Does something in the background that ends with the gateway.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(work);
    }

    fn describe(&self, server: &TargetId, error: &legacy::Error) -> Error {
        if let Some(alert) = causes(error).find_map(refused_certificate) {
            let source =
                format!("it refused the gateway's certificate, or that there is none: {alert:?}");
            return Error::Unavailable { target: server.clone(), source: source.into() };
        }
        if !error.is_connect() {
            return Breach::Closed.into();
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

fn count_tls_change(outcome: &'static str) {
    metrics::counter!("gateway_tls_reloads_total", "outcome" => outcome).increment(1);
}

/// An error and what led to it.
fn causes(error: &legacy::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(Some(error as &(dyn StdError + 'static)), |cause| (*cause).source())
}

/// How an upstream says that it does not take the certificate that it was shown. With TLS 1.3 it
/// comes when the first answer is due.
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

/// Where an upstream listens, and what is sent with every request, credentials apart.
#[derive(Debug)]
pub(crate) struct Address {
    uri: Uri,
    pub(crate) headers: HeaderMap,
}

/// A target's configuration that makes no sense.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidAddress {
    #[error("`{0}` is not an http or https URL")]
    Url(String),
    #[error("`{0}` is not a header, or its value is not one")]
    Header(String),
    #[error(transparent)]
    Secret(#[from] UnusableSecret),
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

    /// A request that carries a message.
    pub(crate) fn post(&self, headers: HeaderMap, body: Bytes) -> Request<Body> {
        self.request(Method::POST, headers, body)
    }

    /// The request that ends a session.
    pub(super) fn delete(&self, headers: HeaderMap) -> Request<Body> {
        self.request(Method::DELETE, headers, Bytes::new())
    }

    /// A request for a stream of events.
    pub(super) fn get(&self, mut headers: HeaderMap) -> Request<Body> {
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        self.request(Method::GET, headers, Bytes::new())
    }

    fn request(&self, method: Method, headers: HeaderMap, body: Bytes) -> Request<Body> {
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        request
    }
}
