//! Why a stream does not begin, or ends.

use std::{sync::Arc, time::Duration};

use registry_core::{RegistryId, Revision};

use crate::store;

/// Why a stream does not begin, or ends.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The follower holds another registry's catalog.
    #[error(
        "the follower holds registry {theirs}, this is registry {ours}; connect it to its own \
         registry or, if the change is on purpose, have it begin anew"
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
         was restored or edited: find out which, then have the follower begin anew"
    )]
    OtherHistory {
        /// Where they differ.
        revision: Revision,
    },
    /// The follower knows more than we do.
    #[error(
        "the follower is at revision {theirs}, this server ends at {ours}, because it lags or because the \
         registry was put back to an older state; only after the latter have the follower begin anew"
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
    /// The follower refused what there is not.
    #[error("revision {refused} was refused, the registry is at revision {head}")]
    NotThere {
        /// What it refused.
        refused: Revision,
        /// Where this registry ends.
        head: Revision,
    },
    /// What the follower said cannot be read.
    #[error("the follower's message cannot be read: {0}")]
    Unreadable(String),
    /// A relay that does not know yet whether what it has is what its registry has.
    #[error("this relay has yet to hear from its registry; try another server, or again later")]
    Syncing,
    /// Too many streams.
    #[error("{limit} followers are connected already, which is the limit; try another server")]
    TooManyStreams {
        /// The limit.
        limit: usize,
    },
    /// Too many different scopes.
    #[error(
        "{limit} different scopes are followed already, which is the limit; follow one that others \
         follow too, or everything, or try another server"
    )]
    TooManyScopes {
        /// The limit.
        limit: usize,
    },
    /// One caller follows too many different scopes.
    #[error(
        "{limit} different scopes are followed by this caller already, which is the limit of each; \
         follow one of them, or everything, or let the server's operator raise --max-caller-scopes"
    )]
    TooManyOwnScopes {
        /// The limit.
        limit: usize,
    },
    /// In a relay: whoever signs scopes has no room for this one.
    #[error("this relay cannot have the registry's signatures of the scope: {reason}")]
    TooManyUpstreamScopes {
        /// What the server that it follows says.
        reason: Arc<str>,
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
    /// What the follower showed of itself holds no more.
    #[error("the credentials of the stream have expired or were revoked; resume with others")]
    CredentialsEnded,
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
            Self::NotSent { .. } | Self::NotThere { .. } => "not_sent",
            Self::Unreadable(_) => "unreadable",
            Self::TooManyStreams { .. } => "too_many_streams",
            Self::TooManyScopes { .. } => "too_many_scopes",
            Self::TooManyOwnScopes { .. } => "too_many_own_scopes",
            Self::TooManyUpstreamScopes { .. } => "too_many_upstream_scopes",
            Self::SlowReader { .. } => "slow_reader",
            Self::Deadline => "deadline",
            Self::CredentialsEnded => "credentials_ended",
            Self::Draining => "draining",
            Self::Syncing => "syncing",
            Self::Store(_) => "store",
            Self::Gone => "gone",
        }
    }
}
