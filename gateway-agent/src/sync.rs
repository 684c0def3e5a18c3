//! The Sync client: follows a registry server and keeps the cache at its latest revision. The only
//! file, with its folder, that names the API's generated types.
//!
//! Nothing is taken that does not decode and verify: it is answered with a NACK, the last good
//! catalog stays, and the stream is opened anew. Where there are several servers, the next one is
//! tried at once; only when all have failed is the wait longer each time. Deliberately absent: where credentials come from.

mod ahead;
mod incoming;
mod session;
mod snapshot;

use std::{io, time::Duration};

use axum::BoxError;
use registry_core::Scope;
use tokio::sync::watch;
use tonic::{
    metadata::MetadataValue,
    transport::{Certificate, ClientTlsConfig, Endpoint, Identity},
};

use self::session::{Ended, Session, Target};
use crate::{backoff::Backoff, backoff::jittered, config::Credentials, source::Feed};

/// Longest wait for a connection, and for the answer to the first message.
const CONNECT: Duration = Duration::from_secs(5);
/// The server says something at least this often (its progress interval).
const PROGRESS: Duration = Duration::from_secs(10);
/// A stream that says nothing for so long is dead.
const SILENCE: Duration = PROGRESS.saturating_mul(3);
/// The first wait before a new stream; it doubles.
const RETRY_FIRST: Duration = Duration::from_millis(100);
/// The longest such wait.
const RETRY_LONGEST: Duration = Duration::from_secs(15);
/// The wait after what only an operator can mend.
const RETRY_FINAL: Duration = Duration::from_secs(30);

/// How long things take; tests are in a hurry.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Longest wait for a connection, and for the answer to the first message.
    pub connect: Duration,
    /// A stream that says nothing for so long is dead.
    pub silence: Duration,
    /// The first wait before a new stream; it doubles.
    pub retry_first: Duration,
    /// The longest such wait.
    pub retry_longest: Duration,
    /// The wait after what only an operator can mend.
    pub retry_final: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect: CONNECT,
            silence: SILENCE,
            retry_first: RETRY_FIRST,
            retry_longest: RETRY_LONGEST,
            retry_final: RETRY_FINAL,
        }
    }
}

/// Keeps one stream to the registry.
#[derive(Debug)]
pub struct Follower {
    addresses: Vec<String>,
    gateway: String,
    credentials: Credentials,
    feed: Feed,
    scope: watch::Receiver<Scope>,
    timing: Timing,
}

impl Follower {
    /// A follower of the registry whose servers are at these `http(s)://host:port`, under this
    /// gateway's name.
    pub fn new(addresses: Vec<String>, gateway: String, feed: Feed) -> Self {
        let (credentials, timing) = (Credentials::default(), Timing::default());
        let (_, scope) = watch::channel(Scope::Everything);
        Self { addresses, gateway, credentials, feed, scope, timing }
    }

    /// Follows only this part, and another one as soon as that is wanted.
    pub fn with_scope(self, scope: watch::Receiver<Scope>) -> Self {
        Self { scope, ..self }
    }

    /// Shows these to the registry.
    pub fn with_credentials(self, credentials: Credentials) -> Self {
        Self { credentials, ..self }
    }

    /// Changes how long things take.
    pub fn with_timing(self, timing: Timing) -> Self {
        Self { timing, ..self }
    }

    /// Follows until it is stopped.
    pub async fn run(self) {
        let unusable = |address: &&String| Endpoint::from_shared((*address).clone()).is_err();
        if let Some(address) = self.addresses.iter().find(unusable) {
            self.feed.status.refused(&format!("`{address}` is no address"));
            return self.feed.stop.cancelled().await;
        }
        let mut backoff = Backoff::new(self.timing.retry_first, self.timing.retry_longest);
        let mut failed = 0;
        for address in self.addresses.iter().cycle() {
            let session = Session::new(&self.gateway, &self.feed, self.scope.clone(), self.timing);
            let outcome = tokio::select! {
                outcome = session.run(self.endpoint(address)) => outcome,
                () = self.feed.stop.cancelled() => return,
            };
            if outcome.was_useful {
                backoff.reset();
                failed = 0;
            }
            failed += 1;
            let longer = self.note(address, &outcome.ended);
            let wait = if failed < self.addresses.len() {
                jittered(self.timing.retry_first)
            } else {
                failed = 0;
                longer.unwrap_or_else(|| backoff.next())
            };
            let parked = async {
                match outcome.parked {
                    Some(parked) => parked.ignore().await,
                    None => std::future::pending().await,
                }
            };
            let goes_on = tokio::select! {
                goes_on = self.feed.pause(wait) => goes_on,
                () = parked => true,
            };
            if !goes_on {
                return;
            }
            metrics::counter!("gateway_sync_reconnects_total").increment(1);
        }
    }

    /// Tells why a stream ended; the wait, where it does not depend on how often that happened.
    fn note(&self, address: &str, ended: &Ended) -> Option<Duration> {
        let told = |reason: &str| match self.addresses.len() {
            1 => reason.to_owned(),
            _ => format!("{address}: {reason}"),
        };
        match ended {
            Ended::Lost(reason) => {
                self.feed.status.down(&told(reason));
                None
            }
            Ended::Refused(reason) => {
                self.feed.status.refused(&told(reason));
                None
            }
            Ended::Final(reason) => {
                self.feed.status.refused(&told(reason));
                Some(jittered(self.timing.retry_final))
            }
        }
    }

    /// How to connect, with the credentials as they are now.
    fn endpoint(&self, address: &str) -> Result<Target, BoxError> {
        let agent = concat!("gateway-agent/", env!("CARGO_PKG_VERSION"));
        let mut endpoint = Endpoint::from_shared(address.to_owned())?;
        if address.starts_with("https://") {
            endpoint = endpoint.tls_config(self.tls()?)?;
        }
        let endpoint = endpoint
            .user_agent(agent)?
            .connect_timeout(self.timing.connect)
            .tcp_nodelay(true)
            .tcp_keepalive(Some(Duration::from_secs(30)))
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(5))
            .keep_alive_while_idle(true)
            .http2_adaptive_window(true);
        let authorization = self.credentials.authorization()?;
        let authorization = authorization.map(|value| MetadataValue::try_from(value.as_bytes()));
        let mut authorization = authorization.transpose()?;
        if let Some(value) = &mut authorization {
            value.set_sensitive(true);
        }
        Ok(Target { endpoint, authorization })
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
