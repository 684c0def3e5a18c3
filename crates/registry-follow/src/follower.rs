//! Connects to the servers in turn and reconnects after failures.

use std::time::Duration;

use registry_tls::{ClientPem, InvalidFile};
use retry_backoff::{Backoff, full_jitter, jittered};
use tokio_util::sync::CancellationToken;
use tonic::{
    metadata::MetadataValue,
    transport::{Certificate, ClientTlsConfig, Endpoint, Identity},
};

use crate::{
    Credentials, Follow, StreamState,
    session::{Ended, Session, Target, reason_of},
    timing::Timing,
};

/// The connection to a registry: its servers, the credentials and the timing.
#[derive(Debug, Clone)]
pub struct Follower {
    /// The servers: `http(s)://host:port`.
    pub addresses: Vec<String>,
    /// The credentials.
    pub credentials: Credentials,
    /// Timeouts and retry delays.
    pub timing: Timing,
    /// The setting of the CA bundle, for messages: `registry.caFile`.
    pub ca_setting: &'static str,
    /// The user agent: `gateway-agent/1.2.3`.
    pub agent: &'static str,
}

impl Follower {
    /// Follows until it is stopped.
    pub async fn run(&self, mut who: impl Follow, stop: CancellationToken) {
        let unusable = |address: &&String| Endpoint::from_shared((*address).clone()).is_err();
        if let Some(address) = self.addresses.iter().find(unusable) {
            who.on_status(StreamState::Rejected(&format!("`{address}` is not an address")));
            return stop.cancelled().await;
        }
        let mut backoff = Backoff::new(self.timing.retry_first, self.timing.retry_longest);
        // Failures since the last address that served messages.
        let (mut failed, mut refused) = (0, 0);
        for address in self.addresses.iter().cycle() {
            let session = Session::new(&mut who, self.timing, address.starts_with("https://"));
            let outcome = tokio::select! {
                outcome = session.run(self.connect(address)) => outcome,
                () = stop.cancelled() => return,
            };
            if outcome.was_useful {
                backoff.reset();
                (failed, refused) = (0, 0);
            }
            failed += 1;
            let longer = self.note(&mut who, address, &outcome.ended);
            refused += usize::from(longer.is_some());
            let wait = if failed < self.addresses.len() {
                full_jitter(self.timing.retry_first * 2)
            } else {
                // One server that lags, like a relay, must not delay the attempts at the others.
                let longer = longer.filter(|_| refused == failed);
                (failed, refused) = (0, 0);
                longer.unwrap_or_else(|| backoff.next_spread_delay())
            };
            let parked = async {
                match outcome.parked {
                    Some(parked) => parked.ignore().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = parked => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Reports why a stream ended. Returns the delay if it does not depend on the number of
    /// failures.
    fn note(&self, who: &mut impl Follow, address: &str, ended: &Ended) -> Option<Duration> {
        let told = |reason: &str| match self.addresses.len() {
            1 => reason.to_owned(),
            _ => format!("{address}: {reason}"),
        };
        match ended {
            Ended::Lost(reason) => who.on_status(StreamState::Down(&told(reason))),
            Ended::ScopeLimit(reason) => who.on_status(StreamState::ScopeLimit(&told(reason))),
            Ended::Rejected(reason) => who.on_status(StreamState::Rejected(&told(reason))),
            Ended::Final(reason) => {
                who.on_status(StreamState::Rejected(&told(reason)));
                return Some(jittered(self.timing.retry_final));
            }
        }
        None
    }

    /// Connects with the current credentials.
    pub(crate) async fn connect(&self, address: &str) -> Result<Target, Ended> {
        let unusable =
            |e: &dyn ToString| Ended::Final(format!("invalid credentials: {}", e.to_string()));
        let endpoint = self.endpoint(address).map_err(|e| unusable(&reason_of(&*e)))?;
        let authorization = self.credentials.authorization().map_err(|e| unusable(&e))?;
        let authorization = authorization.map(|value| MetadataValue::try_from(value.as_bytes()));
        let mut authorization = authorization.transpose().map_err(|e| unusable(&e))?;
        if let Some(value) = &mut authorization {
            value.set_sensitive(true);
        }
        let channel = endpoint.connect().await.map_err(|e| Ended::Lost(self.unconnected(&e)))?;
        Ok(Target { channel, authorization })
    }

    fn endpoint(&self, address: &str) -> Result<Endpoint, Box<dyn std::error::Error>> {
        let mut endpoint = Endpoint::from_shared(address.to_owned())?;
        if address.starts_with("https://") {
            // The timeout of connecting below ends with TCP.
            endpoint = endpoint.tls_config(self.tls()?.timeout(self.timing.connect))?;
        }
        Ok(endpoint
            .user_agent(self.agent)?
            .connect_timeout(self.timing.connect)
            .tcp_nodelay(true)
            .tcp_keepalive(Some(Duration::from_secs(30)))
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(5))
            .keep_alive_while_idle(true)
            .http2_adaptive_window(true))
    }

    fn tls(&self) -> Result<ClientTlsConfig, InvalidFile> {
        let ClientPem { ca, identity } = self.credentials.tls.read_pem()?;
        let tls = match ca {
            Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        Ok(match identity {
            Some((certificate, key)) => tls.identity(Identity::from_pem(certificate, key)),
            None => tls,
        })
    }

    /// Describes why there is no connection.
    fn unconnected(&self, error: &tonic::transport::Error) -> String {
        let reason = reason_of(error);
        // rustls reports this for a response without TLS.
        let remedy = if reason.contains("InvalidContentType") {
            "if the server does not use TLS, write grpc://".to_owned()
        } else if let Some(remedy) = certificate_remedy(&reason, self.ca_setting) {
            remedy
        } else if reason.contains("Connection refused") {
            "start the registry, or correct its address".to_owned()
        } else {
            return reason;
        };
        format!("{reason}; {remedy}")
    }
}

/// The remedy if the reason of a failed connection is the certificate of the registry. `setting` names
/// the CA bundle.
pub fn certificate_remedy(reason: &str, setting: &str) -> Option<String> {
    if registry_tls::is_ca_certificate(reason) {
        let remedy = "the certificate of the registry is a CA certificate; issue one with \
                      basicConstraints=CA:FALSE";
        return Some(remedy.to_owned());
    }
    registry_tls::is_untrusted_ca(reason).then(|| {
        format!("set `{setting}` to the CA bundle that verifies the certificate of the registry")
    })
}
