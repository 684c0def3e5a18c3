//! What followers and the feed say to each other.

use std::{net::SocketAddr, sync::Arc};

use registry_core::{
    Attestation, Digest, Revision, Scope, SealedCommit,
    chain::Position,
    checkpoint::VerifierKey,
    follower::{CacheState, Nack},
};

use super::{Piece, Shared, Step};
use crate::access::Caller;

/// Who wants to follow, and from where.
#[derive(Debug, Clone)]
pub struct Hello {
    /// Its name.
    pub gateway: String,
    /// Its software version.
    pub gateway_version: String,
    /// As whom it is authenticated.
    pub principal: Arc<str>,
    /// With whose scopes its own are counted.
    pub caller: Caller,
    /// From which address it comes.
    pub address: Option<SocketAddr>,
    /// Which part it wants.
    pub scope: Scope,
    /// Whether it only looks on, and is no gateway.
    pub is_observer: bool,
    /// What it has already.
    pub position: Option<Position>,
    /// Of a scope: the content digest of what it has.
    pub content: Option<Digest>,
    /// Whether it wants every commit, however old.
    pub history: bool,
    /// Whether it wants only the signatures of a scope's states.
    pub signatures: bool,
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
    /// From now on it wants another part.
    Scope(Scope),
}

/// A commit on its way to followers.
#[derive(Debug)]
pub struct Delta {
    /// The commit.
    pub commit: SealedCommit,
    /// The registry's word on the state after it, if that was published.
    pub attestation: Option<Attestation>,
}

/// The place that a follower has reached.
#[derive(Debug, PartialEq)]
pub struct Place {
    /// Where.
    pub position: Position,
    /// Of a scope: the digest of what is in it there.
    pub content: Option<Digest>,
    /// The registry's word on the state there.
    pub attestation: Option<Attestation>,
    /// In a relay: how long ago its registry was heard of, in milliseconds.
    pub age_ms: u64,
}

/// What a follower is told; it shares it with others.
#[derive(Debug, Clone)]
pub enum Message {
    /// Which registry this is: the key that its signatures are checked with.
    Welcome(Arc<Shared<VerifierKey>>),
    /// A snapshot, piece by piece.
    Snapshot(Arc<Shared<Piece>>),
    /// A commit.
    Delta(Arc<Shared<Delta>>),
    /// What changed in a scope.
    Step(Arc<Shared<Step>>),
    /// Nothing new up to here.
    Progress(Arc<Shared<Place>>),
}
