//! The feed: every follower gets every commit, in order, once.
//!
//! A stream keeps only its position. What it lacks comes from the ring of recent commits, else
//! from the log, else as a snapshot; one message at a time, as fast as the follower reads. One that
//! does not read is cut off and resumes. Deliberately absent: scopes smaller than everything, and
//! the wire form.

mod follow;
mod hub;
mod outbox;
mod recent;
mod roster;
mod snapshot;
mod start;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt};
use registry_core::{Digest, Record, RegistryId, Revision, SealedCommit};
use registry_proto::convert::{Nack, Position};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use hub::Hub;
pub use outbox::Outgoing;
pub use roster::{Follower, Roster};

use crate::{
    clock::Clock,
    config::FeedConfig,
    registrar::Registrar,
    store::{self, Store},
};
use follow::Following;
use roster::Seat;

/// How many streams read the log at the same time; the others wait their turn.
const LOG_READERS: usize = 4;

/// Who wants to follow, and from where.
#[derive(Debug, Clone)]
pub struct Hello {
    /// Its name.
    pub gateway: String,
    /// Its software version.
    pub gateway_version: String,
    /// From which address it comes.
    pub address: Option<SocketAddr>,
    /// What it has already.
    pub position: Option<Position>,
}

/// What a follower says after its hello.
#[derive(Debug, Clone, PartialEq)]
pub enum Signal {
    /// It has applied everything up to a revision, and has another on its disk.
    Ack {
        /// Applied.
        applied: Revision,
        /// On its disk.
        persisted: Revision,
    },
    /// It refused a revision.
    Nack(Nack),
}

/// What a follower is told.
#[derive(Debug, Clone)]
pub enum Message {
    /// A snapshot begins.
    SnapshotBegin {
        /// The state that it holds.
        position: Position,
        /// How many entities it has.
        entities: usize,
    },
    /// Entities of the snapshot.
    SnapshotChunk(Vec<Arc<Record>>),
    /// The snapshot is complete; the digest of the catalog.
    SnapshotEnd(Digest),
    /// A commit.
    Delta(Arc<SealedCommit>),
    /// Nothing new up to here.
    Progress(Position),
}

/// Why a stream does not begin, or ends.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The follower holds another registry's catalog.
    #[error(
        "the follower holds registry {theirs}, this is registry {ours}; connect it to its own \
         registry, or delete its cache if the change is on purpose"
    )]
    OtherRegistry {
        /// This registry.
        ours: RegistryId,
        /// The follower's.
        theirs: RegistryId,
    },
    /// The follower's history is not ours.
    #[error(
        "the follower's history differs from this registry's at revision {revision}; one of them \
         was restored or edited: find out which, then delete the follower's cache"
    )]
    OtherHistory {
        /// Where they differ.
        revision: Revision,
    },
    /// The follower knows more than we do.
    #[error(
        "the follower is at revision {theirs}, this registry ends at {ours}; if the registry was \
         restored from an older backup, delete the follower's cache"
    )]
    Ahead {
        /// Where this registry ends.
        ours: Revision,
        /// Where the follower is.
        theirs: Revision,
    },
    /// The follower acknowledged what it was not sent.
    #[error("revision {acknowledged} was acknowledged, the last that was sent is {sent}")]
    NotSent {
        /// What it acknowledged.
        acknowledged: Revision,
        /// What was sent.
        sent: Revision,
    },
    /// What the follower said cannot be read.
    #[error("the follower's message cannot be read: {0}")]
    Unreadable(String),
    /// Too many streams.
    #[error("{limit} followers are connected already, which is the limit; try another server")]
    TooManyStreams {
        /// The limit.
        limit: usize,
    },
    /// The follower does not read.
    #[error("the follower took no message for {limit:?} and was cut off; it may resume")]
    SlowReader {
        /// The limit.
        limit: Duration,
    },
    /// The caller's deadline has passed.
    #[error("the deadline of the stream has passed")]
    Deadline,
    /// The server is shutting down.
    #[error("the server is shutting down; connect to another one and resume")]
    Draining,
    /// The follower's position could not be checked against the log.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The follower is gone.
    #[error("the follower is gone")]
    Gone,
}

impl Error {
    /// One word for logs and metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::OtherRegistry { .. } => "other_registry",
            Self::OtherHistory { .. } => "other_history",
            Self::Ahead { .. } => "ahead",
            Self::NotSent { .. } => "not_sent",
            Self::Unreadable(_) => "unreadable",
            Self::TooManyStreams { .. } => "too_many_streams",
            Self::SlowReader { .. } => "slow_reader",
            Self::Deadline => "deadline",
            Self::Draining => "draining",
            Self::Store(_) => "store",
            Self::Gone => "gone",
        }
    }
}

/// Everything that streams share.
pub struct Feed {
    hub: Arc<Hub>,
    store: Store,
    registrar: Registrar,
    clock: Arc<dyn Clock>,
    config: FeedConfig,
    roster: Roster,
    log_readers: Semaphore,
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
        let roster = Roster::new(config.max_streams);
        let log_readers = Semaphore::new(LOG_READERS);
        Self { hub, store, registrar, clock, config, roster, log_readers, draining }
    }

    /// Who follows.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// How long a new stream may take to say hello.
    pub fn hello_timeout(&self) -> Duration {
        self.config.hello_timeout
    }

    /// Takes on a follower. What it is told comes out of the stream that is given back; dropping
    /// that ends the following.
    pub async fn follow<S>(self: Arc<Self>, hello: Hello, signals: S) -> Result<Outgoing, Error>
    where
        S: Stream<Item = Result<Signal, Error>> + Send + 'static,
    {
        if self.draining.is_cancelled() {
            return Err(Error::Draining);
        }
        let seat = self.roster.seat(&hello, self.clock.now())?;
        let start = start::decide(&self, hello.position).await?;
        let (outbox, outgoing) = outbox::pair(seat.clone());
        let following = Following::new(self, seat.clone(), start, outbox.clone());
        tokio::spawn(async move {
            let signals = std::pin::pin!(signals);
            let end = tokio::select! {
                end = following.run() => end,
                end = note(&seat, signals) => end,
            };
            crate::metrics::stream_ended(end.label());
            outbox.end(end);
        });
        Ok(outgoing)
    }
}

/// Notes what the follower says, for as long as it says something.
async fn note<S>(seat: &Seat, mut signals: std::pin::Pin<&mut S>) -> Error
where
    S: Stream<Item = Result<Signal, Error>>,
{
    while let Some(signal) = signals.next().await {
        if let Err(end) = signal.and_then(|signal| seat.note(signal)) {
            return end;
        }
    }
    // A follower may close its side after the hello and only listen.
    std::future::pending().await
}
