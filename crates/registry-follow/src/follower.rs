//! Streams one after another, at one server or the next.

use std::{io, time::Duration};

use retry_backoff::{Backoff, full_jitter, jittered};
use tokio_util::sync::CancellationToken;
use tonic::{
    metadata::MetadataValue,
    transport::{Certificate, ClientTlsConfig, Endpoint, Identity},
};

use crate::{
    Credentials, Follow, Heard,
    session::{Ended, Session, Target, reason_of},
    timing::Timing,
};

/// How to reach a registry: its servers, what they are shown, and how long things take.
#[derive(Debug, Clone)]
pub struct Follower {
    /// Its servers: `http(s)://host:port`.
    pub addresses: Vec<String>,
    /// What they are shown.
    pub credentials: Credentials,
    /// How long things take.
    pub timing: Timing,
    /// What the follower calls its software: `gateway-agent/1.2.3`.
    pub agent: &'static str,
}

impl Follower {
    /// Follows until it is stopped.
    pub async fn run(&self, mut who: impl Follow, stop: CancellationToken) {
        let unusable = |address: &&String| Endpoint::from_shared((*address).clone()).is_err();
        if let Some(address) = self.addresses.iter().find(unusable) {
            who.heard(Heard::Refused(&format!("`{address}` is no address")));
            return stop.cancelled().await;
        }
        let mut backoff = Backoff::new(self.timing.retry_first, self.timing.retry_longest);
        // Of the addresses, since the last of them that was of use.
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
                // One that only lags, as a relay may, is no reason to stay away from the others.
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

    /// Tells why a stream ended; the wait, where it does not depend on how often that happened.
    fn note(&self, who: &mut impl Follow, address: &str, ended: &Ended) -> Option<Duration> {
        let told = |reason: &str| match self.addresses.len() {
            1 => reason.to_owned(),
            _ => format!("{address}: {reason}"),
        };
        match ended {
            Ended::Lost(reason) => who.heard(Heard::Down(&told(reason))),
            Ended::NoRoom(reason) => who.heard(Heard::NoRoom(&told(reason))),
            Ended::Refused(reason) => who.heard(Heard::Refused(&told(reason))),
            Ended::Final(reason) => {
                who.heard(Heard::Refused(&told(reason)));
                return Some(jittered(self.timing.retry_final));
            }
        }
        None
    }

    /// Connects, with the credentials as they are now.
    async fn connect(&self, address: &str) -> Result<Target, Ended> {
        let unusable = |e: &dyn ToString| {
            Ended::Final(format!("the credentials cannot be used: {}", e.to_string()))
        };
        let endpoint = self.endpoint(address).map_err(|e| unusable(&e))?;
        let authorization = self.credentials.authorization().map_err(|e| unusable(&e))?;
        let authorization = authorization.map(|value| MetadataValue::try_from(value.as_bytes()));
        let mut authorization = authorization.transpose().map_err(|e| unusable(&e))?;
        if let Some(value) = &mut authorization {
            value.set_sensitive(true);
        }
        let channel = endpoint.connect().await.map_err(|e| Ended::Lost(unconnected(&e)))?;
        Ok(Target { channel, authorization })
    }

    fn endpoint(&self, address: &str) -> Result<Endpoint, Box<dyn std::error::Error>> {
        let mut endpoint = Endpoint::from_shared(address.to_owned())?;
        if address.starts_with("https://") {
            endpoint = endpoint.tls_config(self.tls()?)?;
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

    fn tls(&self) -> io::Result<ClientTlsConfig> {
        let tls = match self.credentials.roots()? {
            Some(roots) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(roots)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        let identity = self.credentials.certificate()?;
        Ok(match identity {
            Some((certificate, key)) => tls.identity(Identity::from_pem(certificate, key)),
            None => tls,
        })
    }
}

/// Why there is no connection.
fn unconnected(error: &tonic::transport::Error) -> String {
    let reason = reason_of(error);
    // rustls, of an answer that is no TLS.
    if reason.contains("InvalidContentType") {
        return format!("{reason}; if the server speaks no TLS, write grpc://");
    }
    reason
}
