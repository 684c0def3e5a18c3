//! Connections to upstreams: TCP to allowed addresses, and TLS with the current files.

use std::{
    future::ready,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector};
use hyper_util::client::legacy::connect::HttpConnector;
use registry_tls::Reloaded;
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use tower::Service;

use super::address_filter::Resolver;
use crate::{Addresses, TargetConfig, TransportConfig, UpstreamLimits};

/// The time before the first TCP keep-alive probe of an HTTP/2 connection, and between two of them.
/// Servers of gRPC close connections with HTTP/2 PING more often than every 5 minutes.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The number of unanswered probes after which a connection is lost.
const KEEP_ALIVE_PROBES: u32 = 3;
/// The time without acknowledgement of sent data after which an HTTP/2 connection is lost. All
/// requests to an upstream share the connection.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(20);

/// Opens connections. Copies share the settings.
#[derive(Debug, Clone)]
pub struct Connector(Arc<Settings>);

#[derive(Debug, Clone)]
struct Settings {
    tcp: HttpConnector<Resolver>,
    tls: Reloaded<ClientConfig>,
    addresses: Addresses,
    is_http2: bool,
}

impl Connector {
    /// Creates the connector of all targets without their own certificates or addresses.
    pub(super) fn shared(targets: &[TargetConfig], limits: UpstreamLimits) -> Self {
        // The CAs of the platform are loaded only if a target needs them.
        let wants_tls = targets.iter().any(|target| match &target.transport {
            TransportConfig::Http { url, tls: None, .. } => url.starts_with("https:"),
            TransportConfig::DataAgent(Some(endpoint)) => endpoint.url.starts_with("https:"),
            TransportConfig::Http { .. }
            | TransportConfig::Stdio { .. }
            | TransportConfig::DataAgent(None) => false,
        });
        Self::new(Reloaded::fixed(tls(wants_tls)), Addresses::Usual, limits)
    }

    /// Creates a connector for endpoints that are not targets.
    pub(super) fn alone(
        is_https: bool,
        tls: Option<Reloaded<ClientConfig>>,
        addresses: Addresses,
    ) -> Self {
        let tls = tls.unwrap_or_else(|| Reloaded::fixed(self::tls(is_https)));
        Self::new(tls, addresses, UpstreamLimits::default())
    }

    /// Creates a connector for a target with its own certificates or addresses.
    pub(super) fn with(
        &self,
        tls: Option<Reloaded<ClientConfig>>,
        addresses: Addresses,
        limits: UpstreamLimits,
    ) -> Self {
        Self::new(tls.unwrap_or_else(|| self.0.tls.clone()), addresses, limits)
    }

    fn new(tls: Reloaded<ClientConfig>, addresses: Addresses, limits: UpstreamLimits) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(Resolver::new(addresses));
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(Duration::from_millis(limits.connect_timeout_ms)));
        Self(Arc::new(Settings { tcp, tls, addresses, is_http2: false }))
    }

    /// The connector for HTTP/2 only: with prior knowledge without TLS, else with ALPN.
    pub(super) fn over_http2(self) -> Self {
        let mut settings = Arc::unwrap_or_clone(self.0);
        settings.tcp.set_keepalive(Some(KEEP_ALIVE));
        settings.tcp.set_keepalive_interval(Some(KEEP_ALIVE));
        settings.tcp.set_keepalive_retries(Some(KEEP_ALIVE_PROBES));
        #[cfg(target_os = "linux")]
        settings.tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
        settings.is_http2 = true;
        Self(Arc::new(settings))
    }

    pub(super) fn is_http2(&self) -> bool {
        self.0.is_http2
    }

    /// The current TLS configuration. Servers may prefer HTTP/1.1 if a client offers both.
    fn tls(&self) -> Arc<ClientConfig> {
        let tls = self.0.tls.get();
        if !self.0.is_http2 {
            return tls;
        }
        let mut tls = ClientConfig::clone(&tls);
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(tls)
    }

    /// Opens a connection to the host of a URL.
    pub(super) fn connect(&self, url: Uri) -> <Self as Service<Uri>>::Future {
        if let Err(refused) = self.0.addresses.check(&url) {
            return Box::pin(ready(Err(refused.into())));
        }
        HttpsConnector::from((self.0.tcp.clone(), self.tls())).call(url)
    }
}

impl Service<Uri> for Connector {
    type Response = <HttpsConnector<HttpConnector<Resolver>> as Service<Uri>>::Response;
    type Error = <HttpsConnector<HttpConnector<Resolver>> as Service<Uri>>::Error;
    type Future = <HttpsConnector<HttpConnector<Resolver>> as Service<Uri>>::Future;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // The system's resolver is always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        self.connect(uri)
    }
}

fn tls(wants_tls: bool) -> ClientConfig {
    let builder = || {
        ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("the provider has the default versions")
    };
    if wants_tls {
        match builder().try_with_platform_verifier() {
            Ok(config) => {
                let mut config = config.with_no_client_auth();
                config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
                return config;
            }
            Err(error) => {
                tracing::warn!(%error, "no CA certificates found; https connections will fail");
            }
        }
    }
    builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http2_is_the_only_offer_over_http2() {
        let connector = Connector::alone(false, None, Addresses::Usual);
        assert!(!connector.is_http2());
        let connector = connector.over_http2();
        assert_eq!(
            (connector.is_http2(), &connector.tls().alpn_protocols),
            (true, &vec![b"h2".to_vec()])
        );
    }
}
