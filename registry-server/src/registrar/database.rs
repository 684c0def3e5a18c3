//! Whether the database takes writes.

use crate::store;

/// The database, as the writer last saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Database {
    /// It answers and takes writes.
    Writable,
    /// It did not; reads and streams go on from memory.
    ReadOnly(store::Error),
}

impl Database {
    /// Why a write need not even be tried. What only a write can find out is always tried.
    pub fn refusal(&self) -> Option<&store::Error> {
        use store::Error;
        match self {
            Self::ReadOnly(
                error @ (Error::Unavailable { .. }
                | Error::Moved { .. }
                | Error::Corrupt { .. }
                | Error::Newer { .. }),
            ) => Some(error),
            Self::ReadOnly(
                Error::ReadOnly { .. }
                | Error::Full { .. }
                | Error::SchemaVersion { .. }
                | Error::OtherSchema { .. }
                | Error::NotOurs { .. }
                | Error::Config { .. }
                | Error::Refused { .. },
            )
            | Self::Writable => None,
        }
    }
}
