//! Messages between followers and the feed.

use std::{net::SocketAddr, sync::Arc};

use registry_core::{
    Attestation, Digest, Revision, Scope, SealedCommit,
    chain::Position,
    checkpoint::VerifierKey,
    follower::{CacheState, Nack},
};

use super::{ScopeDelta, SharedMessage, SnapshotChunk};
use crate::access::QuotaKey;

/// First message of a follower, with its authentication.
#[derive(Debug, Clone)]
pub struct Hello {
    /// Name of the follower.
    pub gateway: String,
    /// Software version of the follower.
    pub gateway_version: String,
    /// Name of the authenticated principal.
    pub principal: Arc<str>,
    /// Key of the scope quota.
    pub caller: QuotaKey,
    /// Client address.
    pub address: Option<SocketAddr>,
    /// Requested scope.
    pub scope: Scope,
    /// Whether the follower is an observer, which is not listed as a gateway.
    pub is_observer: bool,
    /// Position of the follower's state.
    pub position: Option<Position>,
    /// Content digest of the follower's state, in a scope.
    pub content: Option<Digest>,
    /// Whether the follower needs every commit since the beginning.
    pub history: bool,
    /// Whether the follower needs only the signatures of a scope's states.
    pub signatures: bool,
    /// Whether the follower enforces policies.
    pub policies: PolicySupport,
}

/// Whether a follower enforces policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicySupport {
    /// It does.
    Enforced,
    /// It ignores them.
    Missing,
}

/// A later message of a follower.
#[derive(Debug, Clone, PartialEq)]
pub enum Signal {
    /// Acknowledges revisions.
    Ack {
        /// Last applied revision.
        applied: Revision,
        /// Last persisted revision.
        persisted: Revision,
        /// State of the persistent cache.
        cache: CacheState,
    },
    /// Rejects a revision.
    Nack(Nack),
    /// Changes the scope.
    Scope(Scope),
}

/// A commit with an optional signature of the resulting state.
#[derive(Debug)]
pub struct Delta {
    /// The commit.
    pub commit: SealedCommit,
    /// Signature of the resulting state, if it was published.
    pub attestation: Option<Attestation>,
}

/// Position of a follower, without new data.
#[derive(Debug, PartialEq)]
pub struct Heartbeat {
    /// Position.
    pub position: Position,
    /// Content digest of the scope at this position.
    pub content: Option<Digest>,
    /// Signature of the state at this position.
    pub attestation: Option<Attestation>,
    /// Age of a relay's knowledge of its registry, in milliseconds.
    pub age_ms: u64,
}

/// A message to a follower, shared with other followers.
#[derive(Debug, Clone)]
pub enum Message {
    /// Key that verifies the signatures of this registry.
    ServerHello(Arc<SharedMessage<VerifierKey>>),
    /// A chunk of a snapshot.
    Snapshot(Arc<SharedMessage<SnapshotChunk>>),
    /// A commit.
    Delta(Arc<SharedMessage<Delta>>),
    /// A change of a scope.
    ScopeDelta(Arc<SharedMessage<ScopeDelta>>),
    /// A position without new data.
    Heartbeat(Arc<SharedMessage<Heartbeat>>),
}
