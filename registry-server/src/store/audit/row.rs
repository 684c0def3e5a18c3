//! Rows just as they are kept, to be held against what the log says.

use registry_core::Key;
use sqlx::{FromRow, Row as _, postgres::PgRow, sqlite::SqliteRow};

use super::text::Text;
use crate::store::{
    Error,
    at::Verbatim,
    row::{key, row},
};

row!(
    /// A whole commit, as it is kept.
    CommitRow {
        revision: i64,
        author: Text,
        committed_at: Verbatim,
        message: Text,
        request_id: Option<Text>,
        changes: i64,
        chain: Text,
        canonical: Vec<u8>,
    }
);
row!(
    /// A change, as it is kept.
    ChangeRow {
        revision: i64,
        ordinal: i64,
        action: Text,
        kind: Text,
        name: Text,
        version: Text,
        digest: Option<Text>,
        reason: Option<Text>,
        detail: Option<Text>,
    }
);
row!(
    /// A setting of a commit, as it is kept.
    SetRow { revision: i64, ordinal: i64, selector: Text, setting: Text }
);
row!(
    /// An entity with its state, as it is kept.
    StateRow {
        kind: Text,
        name: Text,
        version: Text,
        digest: Text,
        owner: Text,
        registered_revision: i64,
        lifecycle: Text,
        lifecycle_revision: i64,
        lifecycle_reason: Option<Text>,
        lifecycle_notice: Option<Text>,
        document: Vec<u8>,
    }
);
row!(
    /// Where the log is.
    HeadRow { revision: i64, chain: Text }
);
row!(
    /// Which registry the database is.
    RegistryRow { id: Text, needs_version: i64, checkpoint_key: Option<Text> }
);
row!(
    /// How many rows there are of a revision.
    StrayRow { revision: i64, strays: i64 }
);

impl StateRow {
    pub(super) fn key(&self) -> Result<Key, Error> {
        key(&self.kind.lossy(), &self.name.lossy(), &self.version.lossy())
    }
}
