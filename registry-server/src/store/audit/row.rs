//! Rows just as they are kept, to be held against what the log says.
//!
//! Deliberately absent: their way into the domain, for which the rows of `store/row.rs` are.

use registry_core::Key;
use sqlx::{FromRow, Row as _, postgres::PgRow, sqlite::SqliteRow};

use crate::store::{
    Error,
    at::Verbatim,
    row::{key, row},
};

row!(
    /// A whole commit, as it is kept.
    CommitRow {
        revision: i64,
        author: String,
        committed_at: Verbatim,
        message: String,
        request_id: Option<String>,
        changes: i32,
        chain: String,
        canonical: Vec<u8>,
    }
);
row!(
    /// A change, as it is kept.
    ChangeRow {
        revision: i64,
        ordinal: i32,
        action: String,
        kind: String,
        name: String,
        version: String,
        digest: Option<String>,
        reason: Option<String>,
        detail: Option<String>,
    }
);
row!(
    /// A setting of a commit, as it is kept.
    SetRow { revision: i64, ordinal: i32, selector: String, setting: String }
);
row!(
    /// An entity with its state, as it is kept.
    StateRow {
        kind: String,
        name: String,
        version: String,
        digest: String,
        owner: String,
        registered_revision: i64,
        lifecycle: String,
        lifecycle_revision: i64,
        lifecycle_reason: Option<String>,
        lifecycle_notice: Option<String>,
        document: Vec<u8>,
    }
);
row!(
    /// Which registry the database is.
    RegistryRow { id: String, needs_version: i64, checkpoint_key: Option<String> }
);
row!(
    /// How many rows there are of a revision.
    StrayRow { revision: i64, strays: i64 }
);

impl StateRow {
    pub(super) fn key(&self) -> Result<Key, Error> {
        key(&self.kind, &self.name, &self.version)
    }
}
