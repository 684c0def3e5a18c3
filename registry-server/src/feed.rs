//! The feed: every follower gets every commit, in order, once.
//!
//! A stream keeps only its position. Missing commits come from the ring of recent commits, else from the
//! log, else as a snapshot. One message is sent at a time, as fast as the follower reads. A follower that
//! does not read is disconnected and resumes. A follower of a scope receives one step from the state that
//! it holds to the current state. Streams share messages with their encoded form.

mod admission;
mod changes;
mod contact;
mod error;
mod follow;
mod follow_scope;
mod holders;
mod hub;
mod memory;
mod message;
mod outbox;
mod pages;
mod pulse;
mod recent;
mod retention;
mod roster;
mod scopes;
mod settings;
mod shared;
mod snapshot;
mod start;
mod step;
mod teller;
mod voucher;

use std::{sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt};
use registry_core::{Revision, Scope, Timestamp};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use contact::Contact;
pub use error::Error;
pub use hub::{Hub, Passed};
pub use memory::Memory;
pub use message::{Delta, Hello, Message, Place, Signal};
pub use outbox::Outgoing;
pub use roster::{Roster, Slowest};
pub use settings::FeedConfig;
pub use shared::Shared;
pub use snapshot::Piece;
pub use step::Step;
pub use voucher::{Said, Voucher, Witness, Word};

use crate::{access::Caller, clock::Clock, host::process_name, store::Store};
use admission::Admission;
use holders::{Hold, Holders};
use pages::Pages;
use pulse::Pulse;
use retention::Retention;
use roster::Seat;
use scopes::Scopes;
use shared::Reached;
use teller::{Teller, Wants};

/// Everything that streams share.
pub struct Feed {
    hub: Arc<Hub>,
    store: Store,
    clock: Arc<dyn Clock>,
    config: FeedConfig,
    roster: Roster,
    scopes: Scopes,
    holders: Holders,
    retention: Retention,
    reached: Reached,
    pulse: Pulse,
    admission: Admission,
    pages: Pages,
    draining: CancellationToken,
}

impl Feed {
    /// A feed without followers.
    pub fn new(
        hub: Arc<Hub>,
        store: Store,
        clock: Arc<dyn Clock>,
        config: FeedConfig,
        draining: CancellationToken,
    ) -> Self {
        let roster = Roster::new(config.max_streams, process_name().into(), clock.clone());
        let scopes = Scopes::new(config.max_scopes);
        let holders = Holders::new(config.caller_scopes());
        let retention = Retention::new(&config);
        let now = clock.now();
        let pulse = if store.is_shared() { Pulse::shared(now) } else { Pulse::alone(now) };
        Self {
            hub,
            store,
            clock,
            config,
            roster,
            scopes,
            holders,
            retention,
            reached: Reached::default(),
            pulse,
            admission: Admission::default(),
            pages: Pages::default(),
            draining,
        }
    }

    /// Begins to forget commits by their age, where they are forgotten at all.
    pub fn start_forgetting(self: &Arc<Self>) {
        if let Some(age) = self.config.keep_deltas_for {
            tokio::spawn(retention::run(self.clone(), age));
        }
    }

    /// Whether what is served was the registry's latest state once; in a new relay that takes a while.
    pub fn is_synced(&self) -> bool {
        self.hub.catalog().attestation().is_some()
    }

    /// The oldest revision whose commit followers can still have.
    pub fn oldest_delta(&self) -> Revision {
        let kept = self.retention.before(self.hub.catalog().revision());
        kept.min(self.hub.begins_after()).next()
    }

    /// Who follows.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// How many scopes are kept up to date for followers.
    pub fn scopes(&self) -> usize {
        self.scopes.len()
    }

    /// Since when a server must have been heard of to count as alive.
    pub fn alive_since(&self) -> Timestamp {
        self.pulse.alive_since()
    }

    /// How long a new stream may take to say hello.
    pub fn hello_timeout(&self) -> Duration {
        self.config.hello_timeout
    }

    /// Takes on a follower, until `ended`: its credentials hold no more. What it is told comes out of
    /// the stream that is given back; dropping that ends the following.
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
            return Err(Error::Syncing);
        }
        let held = self.holders.hold(&hello.caller, &hello.scope)?;
        let seat = self.roster.seat(&hello)?;
        let start = start::decide(&self, &hello).await?;
        let (outbox, outgoing) = outbox::pair(seat.clone());
        let (scope, wanted) = watch::channel(hello.scope);
        let wants = Wants { history: hello.history, signatures: hello.signatures };
        let caller = hello.caller.clone();
        let listener =
            Listener { feed: self.clone(), seat: seat.clone(), caller: hello.caller, held, scope };
        let teller = Teller { feed: self, seat, outbox: outbox.clone(), wants, caller };
        tokio::spawn(async move {
            let signals = std::pin::pin!(signals);
            let end = tokio::select! {
                end = follow::run(teller, start, wanted) => end,
                end = listener.listen(signals) => end,
                () = ended => Error::CredentialsEnded,
            };
            crate::metrics::stream_ended(end.label());
            outbox.end(end);
        });
        Ok(outgoing)
    }
}

/// Notes what one follower says.
struct Listener {
    feed: Arc<Feed>,
    seat: Arc<Seat>,
    caller: Caller,
    held: Option<Hold>,
    scope: watch::Sender<Scope>,
}

impl Listener {
    /// For as long as it says something.
    async fn listen<S>(mut self, mut signals: std::pin::Pin<&mut S>) -> Error
    where
        S: Stream<Item = Result<Signal, Error>>,
    {
        while let Some(signal) = signals.next().await {
            if let Err(end) = signal.and_then(|signal| self.note(signal)) {
                return end;
            }
        }
        // A follower may close its side after the hello and only listen.
        std::future::pending().await
    }

    fn note(&mut self, signal: Signal) -> Result<(), Error> {
        match &signal {
            Signal::Scope(scope) => {
                self.held = None;
                self.held = self.feed.holders.hold(&self.caller, scope)?;
                self.scope.send_replace(scope.clone());
            }
            Signal::Nack(nack) => {
                // It is of what comes after what the follower holds, which may be more than it was sent.
                let head = self.feed.hub.catalog().revision();
                if nack.revision > head.next() {
                    return Err(Error::NotThere { refused: nack.revision, head });
                }
            }
            Signal::Ack { .. } => {}
        }
        self.seat.note(signal)
    }
}
