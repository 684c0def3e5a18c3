//! The HTTP client that all targets share: pooled connections, TLS where a target wants it.
//!
//! Deliberately absent: redirects, proxies, cookies and compression; hyper has none of them.

use std::{collections::BTreeMap, io, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri,
    header::{ACCEPT, CONTENT_TYPE, USER_AGENT},
};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use registry_core::Key;
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use tokio_util::task::TaskTracker;

use super::{Breach, Error, Phase};
use crate::config::{LimitsConfig, TargetConfig, TransportConfig};

/// How long a connection may stay idle. Common servers close theirs after five seconds, and a
/// request that meets a closing connection is lost.
const IDLE: Duration = Duration::from_secs(4);

/// How long something may take for which nobody waits.
const BACKGROUND: Duration = Duration::from_secs(5);

/// The client; clones share the connections.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    inner: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    limits: LimitsConfig,
    tasks: TaskTracker,
}

impl Client {
    /// A client for these targets.
    pub(crate) fn new(targets: &[TargetConfig], limits: LimitsConfig, tasks: TaskTracker) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(Duration::from_millis(limits.connect_timeout_ms)));
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls(targets))
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(tcp);
        let inner = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(https);
        Self { inner, limits, tasks }
    }

    pub(super) fn limits(&self) -> LimitsConfig {
        self.limits
    }

    /// Sends a request and waits for the head of the answer. A pooled connection that was closed
    /// before anything was sent is replaced without a word.
    pub(super) async fn send(
        &self,
        server: &Key,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Error> {
        self.inner.request(request).await.map_err(|error| self.describe(server, &error))
    }

    /// Sends a request whose answer does not matter; `held` is dropped afterwards.
    pub(super) fn send_in_background(
        &self,
        server: Key,
        request: Request<Full<Bytes>>,
        held: impl Send + 'static,
    ) {
        let client = self.clone();
        self.tasks.spawn(async move {
            let sent = tokio::time::timeout(BACKGROUND, client.send(&server, request)).await;
            if let Ok(Err(error)) = sent {
                tracing::debug!(target.server = %server, %error, "a notification got lost");
            }
            drop(held);
        });
    }

    fn describe(&self, server: &Key, error: &legacy::Error) -> Error {
        if !error.is_connect() {
            return Breach::Closed.into();
        }
        let causes =
            std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |e| {
                e.source()
            });
        let is_timeout = |cause: &(dyn std::error::Error + 'static)| {
            cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::TimedOut)
        };
        let mut last = String::new();
        for cause in causes {
            if is_timeout(cause) {
                let after_ms = self.limits.connect_timeout_ms;
                return Error::Timeout { phase: Phase::Connect, after_ms };
            }
            last = cause.to_string();
        }
        Error::Unavailable { target: server.clone(), source: last.into() }
    }
}

/// The certificates of the platform are read only when a target needs them.
fn tls(targets: &[TargetConfig]) -> ClientConfig {
    let wants_tls = targets.iter().any(|target| {
        matches!(&target.transport, TransportConfig::Http { url, .. } if url.starts_with("https:"))
    });
    let builder = || {
        ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("the provider has the default versions")
    };
    if wants_tls {
        match builder().try_with_platform_verifier() {
            Ok(config) => return config.with_no_client_auth(),
            Err(error) => {
                tracing::warn!(%error, "no certificates to trust; https targets will fail");
            }
        }
    }
    builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth()
}

/// Where an upstream listens, and what is sent with every request.
#[derive(Debug)]
pub(super) struct Address {
    uri: Uri,
    pub(super) headers: HeaderMap,
}

/// A target's configuration that makes no sense.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidAddress {
    #[error("`{0}` is not an http or https URL")]
    Url(String),
    #[error("`{0}` is not a header, or its value is not one")]
    Header(String),
}

impl Address {
    pub(super) fn parse(
        url: &str,
        configured: &BTreeMap<String, String>,
    ) -> Result<Self, InvalidAddress> {
        let uri: Uri = url.parse().map_err(|_| InvalidAddress::Url(url.to_owned()))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(InvalidAddress::Url(url.to_owned()));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in configured {
            let invalid = || InvalidAddress::Header(name.clone());
            let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| invalid())?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let agent = concat!("gateway-agent/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        Ok(Self { uri, headers })
    }

    /// A request that carries a message.
    pub(super) fn post(&self, headers: HeaderMap, body: Bytes) -> Request<Full<Bytes>> {
        self.request(Method::POST, headers, body)
    }

    /// The request that ends a session.
    pub(super) fn delete(&self, headers: HeaderMap) -> Request<Full<Bytes>> {
        self.request(Method::DELETE, headers, Bytes::new())
    }

    fn request(&self, method: Method, headers: HeaderMap, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        request
    }
}
