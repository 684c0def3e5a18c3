//! Errors that reject or end a stream.

use std::{sync::Arc, time::Duration};

use registry_core::{RegistryId, Revision};

use crate::store;

/// An error that rejects or ends a stream.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A follower with the state of another registry.
    #[error(
        "registry mismatch: the follower has registry {follower}, this server serves {server}. Connect the \
         follower to its registry or, if the change is intended, reset the follower's cache"
    )]
    RegistryMismatch {
        /// Registry of this server.
        server: RegistryId,
        /// Registry of the follower.
        follower: RegistryId,
    },
    /// A follower with another history.
    #[error(
        "history mismatch at revision {revision}: the registry or the follower was restored or edited. Find \
         the cause, then reset the follower's cache"
    )]
    HistoryMismatch {
        /// Revision of the follower's state.
        revision: Revision,
    },
    /// A follower at a later revision than this server.
    #[error(
        "the follower is at revision {follower} but this server is at {server}: the server lags behind, or the \
         registry was restored from a backup"
    )]
    FollowerAhead {
        /// Revision of this server.
        server: Revision,
        /// Revision of the follower.
        follower: Revision,
    },
    /// A follower without support for policies, while one is in force.
    #[error(
        "the registry has policies in force, and the follower does not declare the capability POLICIES, so \
         it would not enforce them; upgrade the follower"
    )]
    PoliciesUnsupported,
    /// An ACK of a revision that was not sent.
    #[error("invalid ACK of revision {acknowledged}: the last sent revision is {sent}")]
    InvalidAck {
        /// Acknowledged revision.
        acknowledged: Revision,
        /// Last sent revision.
        sent: Revision,
    },
    /// A NACK of a revision that does not exist.
    #[error("invalid NACK of revision {rejected}: the registry is at revision {head}")]
    InvalidNack {
        /// Rejected revision.
        rejected: Revision,
        /// Revision of this server.
        head: Revision,
    },
    /// A message that cannot be decoded.
    #[error("invalid message from the follower: {0}")]
    InvalidMessage(String),
    /// A relay without a confirmed state.
    #[error(
        "this relay has not synchronized with its registry yet; retry later or use another server"
    )]
    RelayNotReady,
    /// The limit of streams.
    #[error("the limit of {limit} streams is reached; use another server")]
    TooManyStreams {
        /// The limit.
        limit: usize,
    },
    /// The limit of scopes on this server.
    #[error(
        "the limit of {limit} distinct scopes is reached; follow a scope that others follow, follow \
         everything, or use another server"
    )]
    TooManyScopes {
        /// The limit.
        limit: usize,
    },
    /// The limit of scopes of one caller.
    #[error(
        "this caller follows {limit} distinct scopes, which is the limit; follow one of these scopes, \
         follow everything, or raise --max-scopes-per-caller"
    )]
    ScopeQuotaExceeded {
        /// The limit.
        limit: usize,
    },
    /// A relay whose upstream server rejects the scope.
    #[error("the upstream registry rejected the scope: {reason}")]
    UpstreamScopeLimit {
        /// Message of the upstream server.
        reason: Arc<str>,
    },
    /// A follower that does not read.
    #[error("the follower read no message for {limit:?} and was disconnected; it may resume")]
    SlowReader {
        /// The limit.
        limit: Duration,
    },
    /// The deadline of the call.
    #[error("the deadline of the stream was exceeded")]
    Deadline,
    /// Expired or revoked credentials.
    #[error("the credentials of the stream expired or were revoked; resume with new ones")]
    CredentialsEnded,
    /// A server that is shutting down.
    #[error("the server is shutting down; resume with another server")]
    Draining,
    /// A database failure while checking the position of the follower.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A follower that closed the connection.
    #[error("the follower disconnected")]
    Disconnected,
}

impl Error {
    /// Label of the metric.
    pub fn label(&self) -> &'static str {
        match self {
            Self::RegistryMismatch { .. } => "registry_mismatch",
            Self::HistoryMismatch { .. } => "chain_mismatch",
            Self::FollowerAhead { .. } => "follower_ahead",
            Self::PoliciesUnsupported => "policies_unsupported",
            Self::InvalidAck { .. } | Self::InvalidNack { .. } => "invalid_ack",
            Self::InvalidMessage(_) => "invalid_message",
            Self::TooManyStreams { .. } => "too_many_streams",
            Self::TooManyScopes { .. } => "too_many_scopes",
            Self::ScopeQuotaExceeded { .. } => "scope_quota_exceeded",
            Self::UpstreamScopeLimit { .. } => "upstream_scope_limit",
            Self::SlowReader { .. } => "slow_reader",
            Self::Deadline => "deadline",
            Self::CredentialsEnded => "credentials_ended",
            Self::Draining => "draining",
            Self::RelayNotReady => "relay_not_ready",
            Self::Store(_) => "store",
            Self::Disconnected => "disconnected",
        }
    }
}
