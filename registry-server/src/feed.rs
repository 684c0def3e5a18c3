//! The feed: every follower gets every commit, in order, once.
//!
//! A stream keeps only its position. What it lacks comes from the ring of recent commits, else
//! from the log, else as a snapshot; one message at a time, as fast as the follower reads. One that
//! does not read is cut off and resumes. A follower of a scope is brought from what it holds to what
//! is in scope now, in one step. What streams are told they share, with its wire form. Deliberately absent: the wire form.

mod admission;
mod changes;
mod contact;
mod error;
mod follow;
mod follow_scope;
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
pub use shared::Shared;
pub use snapshot::Piece;
pub use step::Step;
pub use voucher::{Voucher, Witness, Word};

use crate::{
    clock::Clock,
    config::{FeedConfig, process_name},
    registrar::Registrar,
    store::Store,
};
use admission::Admission;
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
    registrar: Registrar,
    clock: Arc<dyn Clock>,
    config: FeedConfig,
    roster: Roster,
    scopes: Scopes,
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
        (store, registrar): (Store, Registrar),
        clock: Arc<dyn Clock>,
        config: FeedConfig,
        draining: CancellationToken,
    ) -> Self {
        let roster = Roster::new(config.max_streams, process_name().into(), clock.clone());
        let scopes = Scopes::new(config.max_scopes);
        let retention = Retention::new(&config);
        let now = clock.now();
        let pulse = if store.is_shared() { Pulse::shared(now) } else { Pulse::alone(now) };
        Self {
            hub,
            store,
            registrar,
            clock,
            config,
            roster,
            scopes,
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
        let seat = self.roster.seat(&hello)?;
        let start = start::decide(&self, &hello).await?;
        let (outbox, outgoing) = outbox::pair(seat.clone());
        let (scope, wanted) = watch::channel(hello.scope);
        let wants = Wants { history: hello.history, signatures: hello.signatures };
        let teller = Teller { feed: self, seat: seat.clone(), outbox: outbox.clone(), wants };
        tokio::spawn(async move {
            let signals = std::pin::pin!(signals);
            let end = tokio::select! {
                end = follow::run(teller, start, wanted) => end,
                end = note(&seat, &scope, signals) => end,
                () = ended => Error::CredentialsEnded,
            };
            crate::metrics::stream_ended(end.label());
            outbox.end(end);
        });
        Ok(outgoing)
    }
}

/// Notes what the follower says, for as long as it says something.
async fn note<S>(
    seat: &Seat,
    wants: &watch::Sender<Scope>,
    mut signals: std::pin::Pin<&mut S>,
) -> Error
where
    S: Stream<Item = Result<Signal, Error>>,
{
    while let Some(signal) = signals.next().await {
        if let Ok(Signal::Scope(scope)) = &signal {
            wants.send_replace(scope.clone());
        }
        if let Err(end) = signal.and_then(|signal| seat.note(signal)) {
            return end;
        }
    }
    // A follower may close its side after the hello and only listen.
    std::future::pending().await
}
