//! Health of the database.

use crate::store;

/// State of the database at the last access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Database {
    /// Reads and writes work.
    Writable,
    /// The last access failed; reads and streams continue from memory.
    ReadOnly(store::Error),
}

impl Database {
    /// Failure that makes every write fail. Failures that only a write can detect are excluded, so the next
    /// write is attempted.
    pub fn write_failure(&self) -> Option<&store::Error> {
        use store::Error;
        match self {
            Self::ReadOnly(
                error @ (Error::Unavailable { .. }
                | Error::FileReplaced { .. }
                | Error::Corrupt { .. }
                | Error::NewerData { .. }),
            ) => Some(error),
            Self::ReadOnly(
                Error::ReadOnly { .. }
                | Error::Full { .. }
                | Error::SchemaTooNew { .. }
                | Error::SchemaMismatch { .. }
                | Error::NotARegistry { .. }
                | Error::Config { .. }
                | Error::StatementRejected { .. },
            )
            | Self::Writable => None,
        }
    }

    /// Whether this server cannot serve the stored commits that it has not read yet.
    pub fn is_unreadable(&self) -> bool {
        use store::Error;
        matches!(self, Self::ReadOnly(Error::Corrupt { .. } | Error::NewerData { .. }))
    }
}
