//! Rows in their stored form, for comparison with the log.

use registry_core::Key;
use sqlx::{FromRow, Row as _, postgres::PgRow, sqlite::SqliteRow};

use super::text::Text;
use crate::store::{
    Error,
    row::{key, row},
    sql_timestamp::RawTimestamp,
};

row!(
    /// A commit in its stored form.
    CommitRow {
        revision: i64,
        author: Text,
        committed_at: RawTimestamp,
        message: Text,
        request_id: Option<Text>,
        changes: i64,
        chain: Text,
        canonical: Vec<u8>,
    }
);
row!(
    /// A change in its stored form.
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
    /// A setting in its stored form.
    SetRow { revision: i64, ordinal: i64, selector: Text, setting: Text }
);
row!(
    /// An entity with its state in its stored form.
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
    /// Head of the log.
    HeadRow { revision: i64, chain: Text }
);
row!(
    /// Identity of the registry.
    RegistryRow { id: Text, needs_version: i64, checkpoint_key: Option<Text> }
);
row!(
    /// Number of rows of a revision without a commit.
    StrayRow { revision: i64, strays: i64 }
);

impl StateRow {
    pub(super) fn key(&self) -> Result<Key, Error> {
        key(&self.kind.lossy(), &self.name.lossy(), &self.version.lossy())
    }
}
