//! Sync streams: every follower receives every commit once, in order.
//!
//! A stream stores only its position. Missing commits come from the ring of recent commits, else from the
//! log, else as a snapshot. A stream sends one message at a time, at the speed of the follower. A follower
//! that does not read is disconnected and may resume. A follower of a scope receives one delta from its
//! state to the current state. Streams share messages and their encoded form.

mod catalog_stream;
mod error;
mod fan_out;
mod fleet_writer;
mod hub;
mod liveness;
mod message;
mod outbox;
mod pages;
mod pending_changes;
mod recent;
mod resume;
mod retention;
mod scope_delta;
mod scope_quotas;
mod scope_stream;
mod scopes;
mod sender;
mod sessions;
mod settings;
mod shared_message;
mod signer;
mod snapshot;
mod stage_limits;
mod upstream_contact;

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::{
    FutureExt as _, Stream, StreamExt, future::BoxFuture, stream::FuturesUnordered,
};
use registry_core::{Revision, Scope, Timestamp};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use error::Error;
pub use fleet_writer::FleetWriter;
pub use hub::{Hub, Superseded};
pub use message::{Delta, Heartbeat, Hello, Message, PolicySupport, Signal};
pub use outbox::Outgoing;
pub use scope_delta::ScopeDelta;
pub use sessions::{FollowerSessions, Slowest};
pub use settings::FeedConfig;
pub use shared_message::SharedMessage;
pub use signer::{ScopeSignature, ScopeSignatureSource, SignedState, StateSigner};
pub use snapshot::SnapshotChunk;
pub use upstream_contact::UpstreamContact;

#[cfg(test)]
pub(crate) use hub::tests as testing;

use crate::{access::QuotaKey, clock::Clock, host::process_name, store::Store};
use fan_out::FanOut;
use liveness::Liveness;
use pages::Pages;
use retention::Retention;
use scope_quotas::{ScopeLease, ScopeQuotas};
use scopes::ScopeChannels;
use sender::{FollowerSender, RelayOptions};
use sessions::FollowerSession;
use shared_message::LastHeartbeat;
use stage_limits::StageLimits;

/// Shared state of all streams.
pub struct Feed {
    hub: Arc<Hub>,
    store: Store,
    clock: Arc<dyn Clock>,
    config: FeedConfig,
    sessions: FollowerSessions,
    fan_out: FanOut,
    scopes: ScopeChannels,
    quotas: ScopeQuotas,
    retention: Retention,
    last_heartbeat: LastHeartbeat,
    liveness: Liveness,
    stages: StageLimits,
    pages: Pages,
    draining: CancellationToken,
}

impl Feed {
    /// Creates a feed without followers.
    pub fn new(
        hub: Arc<Hub>,
        store: Store,
        clock: Arc<dyn Clock>,
        config: FeedConfig,
        draining: CancellationToken,
    ) -> Self {
        let sessions =
            FollowerSessions::new(config.max_streams, process_name().into(), clock.clone());
        let fan_out = FanOut::new(hub.clone());
        let scopes = ScopeChannels::new(config.max_scopes);
        let quotas = ScopeQuotas::new(config.scopes_per_caller());
        let retention = Retention::new(&config);
        let now = clock.now();
        let liveness = if store.is_shared() {
            Liveness::multi_server(now)
        } else {
            Liveness::single_server(now)
        };
        Self {
            hub,
            store,
            clock,
            config,
            sessions,
            fan_out,
            scopes,
            quotas,
            retention,
            last_heartbeat: LastHeartbeat::default(),
            liveness,
            stages: StageLimits::default(),
            pages: Pages::default(),
            draining,
        }
    }

    /// Starts the task that expires old commits for followers, if `--retain-duration` is set.
    pub fn start_retention(self: &Arc<Self>) {
        if let Some(age) = self.config.retain_duration {
            tokio::spawn(retention::run(self.clone(), age));
        }
    }

    /// Whether the served state was confirmed as the registry's latest state. A new relay needs some time.
    pub fn is_synced(&self) -> bool {
        self.hub.catalog().attestation().is_some()
    }

    /// Oldest revision that followers can resume from without a snapshot.
    pub fn oldest_retained(&self) -> Revision {
        let retained = self.retention.before(self.hub.catalog().revision());
        retained.min(self.hub.ring_start()).next()
    }

    /// Connected followers.
    pub fn sessions(&self) -> &FollowerSessions {
        &self.sessions
    }

    /// Number of scopes with followers.
    pub fn scopes(&self) -> usize {
        self.scopes.len()
    }

    /// Time of the last heartbeat that a server needs to count as alive.
    pub fn alive_since(&self) -> Timestamp {
        self.liveness.alive_since()
    }

    /// Timeout of the first message of a stream.
    pub fn hello_timeout(&self) -> Duration {
        self.config.hello_timeout
    }

    /// Accepts a follower until `ended` completes, when its credentials expire. Dropping the returned stream
    /// disconnects the follower.
    pub async fn follow<S>(
        self: Arc<Self>,
        hello: Hello,
        signals: S,
        ended: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Outgoing, Error>
    where
        S: Stream<Item = Result<Signal, Error>> + Send + 'static,
    {
        if self.draining.is_cancelled() {
            return Err(Error::Draining);
        }
        if !self.is_synced() {
            return Err(Error::RelayNotReady);
        }
        let lacks_policies = hello.policies == PolicySupport::Missing;
        if lacks_policies && has_policies(&self.hub) {
            return Err(Error::PoliciesUnsupported);
        }
        let lease = self.quotas.acquire(&hello.caller, &hello.scope)?;
        let session = self.sessions.open(&hello)?;
        let start = resume::resume_point(&self, &hello).await?;
        let (outbox, outgoing) = outbox::pair(session.clone());
        let (scope, scope_changes) = watch::channel(hello.scope);
        let options = RelayOptions { history: hello.history, signatures: hello.signatures };
        let caller = hello.caller.clone();
        let handler = SignalHandler {
            feed: self.clone(),
            session: session.clone(),
            caller: hello.caller,
            lease,
            scope,
        };
        let hub = self.hub.clone();
        let sender =
            FollowerSender { feed: self, session, outbox: outbox.clone(), options, caller };
        tokio::spawn(async move {
            let end = {
                // Acknowledgments wake the task most often. They poll no other part, because each of these has its own
                // waker.
                let mut handling = pin!(handler.run(signals));
                let mut parts = FuturesUnordered::<BoxFuture<'_, Error>>::new();
                parts.push(Box::pin(sender.end()));
                parts.push(Box::pin(catalog_stream::run(&sender, start, scope_changes)));
                parts.push(Box::pin(ended.map(|()| Error::CredentialsEnded)));
                if lacks_policies {
                    parts.push(Box::pin(first_policy(&hub).map(|()| Error::PoliciesUnsupported)));
                }
                tokio::select! {
                    end = &mut handling => end,
                    Some(end) = parts.next() => end,
                }
            };
            crate::metrics::stream_ended(end.label());
            outbox.end(end);
        });
        Ok(outgoing)
    }
}

fn has_policies(hub: &Hub) -> bool {
    hub.catalog().policies_in_force().next().is_some()
}

/// Waits until a policy is in force.
async fn first_policy(hub: &Hub) {
    let mut head = hub.watch();
    while !has_policies(hub) {
        if head.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Handles the messages of one follower.
struct SignalHandler {
    feed: Arc<Feed>,
    session: Arc<FollowerSession>,
    caller: QuotaKey,
    lease: Option<ScopeLease>,
    scope: watch::Sender<Scope>,
}

impl SignalHandler {
    /// Runs until a message ends the stream.
    async fn run(mut self, signals: impl Stream<Item = Result<Signal, Error>>) -> Error {
        let mut signals = pin!(signals);
        while let Some(signal) = signals.next().await {
            if let Err(end) = signal.and_then(|signal| self.handle(signal)) {
                return end;
            }
        }
        // A follower may close its side after the hello and only receive.
        std::future::pending().await
    }

    fn handle(&mut self, signal: Signal) -> Result<(), Error> {
        match &signal {
            Signal::Scope(scope) => {
                self.lease = None;
                self.lease = self.feed.quotas.acquire(&self.caller, scope)?;
                self.scope.send_replace(scope.clone());
            }
            Signal::Nack(nack) => {
                // A NACK refers to the revision after the state of the follower, which may be later than the last
                // sent revision.
                let head = self.feed.hub.catalog().revision();
                if nack.revision > head.next() {
                    return Err(Error::InvalidNack { rejected: nack.revision, head });
                }
            }
            Signal::Ack { .. } => {}
        }
        self.session.handle(signal)
    }
}
