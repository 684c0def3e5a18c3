//! The errors of reads.

use registry_core::{Catalog, Kind, Name, Revision, Timestamp};

use super::{catalogs::REVISION_WAIT, page::InvalidPage};
use crate::store;

/// The maximum number of versions that an error lists.
const VERSIONS_SHOWN: usize = 5;

/// The reason why a read has no result.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// An invalid page size or page token.
    #[error(transparent)]
    Page(#[from] InvalidPage),
    /// The requested revision does not exist yet.
    #[error("revision {wanted} does not exist yet: the registry is at revision {head}")]
    Ahead {
        /// The requested revision.
        wanted: Revision,
        /// The last revision.
        head: Revision,
    },
    /// The server did not apply the minimum revision in time.
    #[error(
        "this server is at revision {head} and did not reach min_revision {wanted} within {} s; retry, or \
         call another server",
        REVISION_WAIT.as_secs()
    )]
    NotReached {
        /// The minimum revision.
        wanted: Revision,
        /// The last applied revision.
        head: Revision,
    },
    /// The requested time is in the future.
    #[error("{wanted} is in the future: the time of the server is {now}")]
    Future {
        /// The requested time.
        wanted: Timestamp,
        /// The time of this server.
        now: Timestamp,
    },
    /// The requested commit does not exist.
    #[error(transparent)]
    NoCommit(#[from] NoCommit),
    /// The requested entity is not registered.
    #[error("{what} is not registered at revision {revision}{others}")]
    NotRegistered {
        /// The requested entity.
        what: String,
        /// The revision that was read.
        revision: Revision,
        /// The registered versions of that name as text, or nothing.
        others: String,
    },
    /// The server has just started.
    #[error("the search index is still being built; retry later")]
    IndexNotReady,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A bug in the server.
    #[error("the read failed: {0}")]
    Internal(String),
}

/// A revision without a commit.
#[derive(Debug, thiserror::Error)]
#[error("revision {wanted} does not exist: the registry is at revision {head}")]
pub struct NoCommit {
    /// The requested revision.
    pub wanted: Revision,
    /// The last revision.
    pub head: Revision,
}

impl ReadError {
    /// An entity is not registered. The message lists the newest registered versions of its name.
    pub(super) fn not_registered(catalog: &Catalog, what: String, kind: Kind, name: &Name) -> Self {
        let mut versions: Vec<_> =
            catalog.versions(kind, name).map(|(key, _)| key.version.to_string()).collect();
        versions.reverse();
        versions.truncate(VERSIONS_SHOWN);
        let others = if versions.is_empty() {
            "; the name has no registered versions".to_owned()
        } else {
            format!("; registered versions: {}", versions.join(", "))
        };
        Self::NotRegistered { what, revision: catalog.revision(), others }
    }
}
