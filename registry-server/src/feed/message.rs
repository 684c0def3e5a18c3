//! What followers and the feed say to each other.
//!
//! Deliberately absent: the wire form.

use std::{net::SocketAddr, sync::Arc};

use registry_core::{Digest, Record, Revision, SealedCommit, Selector, setting::Set};
use registry_proto::convert::{CacheState, Nack, Position};

/// Who wants to follow, and from where.
#[derive(Debug, Clone)]
pub struct Hello {
    /// Its name.
    pub gateway: String,
    /// Its software version.
    pub gateway_version: String,
    /// As whom it is authenticated.
    pub principal: Arc<str>,
    /// From which address it comes.
    pub address: Option<SocketAddr>,
    /// What it follows, for people; `*`: everything.
    pub scope: String,
    /// Whether it only looks on, and is no gateway.
    pub is_observer: bool,
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
        /// How its disk is.
        cache: CacheState,
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
        /// How many settings.
        settings: usize,
    },
    /// Entities of the snapshot.
    SnapshotChunk(Vec<Arc<Record>>),
    /// Settings of the snapshot, after its entities.
    SnapshotSettings(Vec<(Selector, Set)>),
    /// The snapshot is complete; the digest of the catalog.
    SnapshotEnd(Digest),
    /// A commit.
    Delta(Arc<SealedCommit>),
    /// Nothing new up to here.
    Progress(Position),
}
