//! Rows of either database and their conversion to domain types.
//!
//! An invalid row is [`Error::Corrupt`] with its revision or key.

use std::{fmt::Display, str::FromStr, sync::Arc};

use registry_core::{
    Action, ChainHash, Digest, Document, Key, Kind, Lifecycle, LifecycleState, Notice, Record,
    Revision, Selector, Setting, SettingChange, document::InvalidDocument,
};
use serde::{Deserialize, Serialize};
use sqlx::{FromRow, Row as _, postgres::PgRow, sqlite::SqliteRow};

use super::{EntityEvent, Error, SettingEvent, StoredCommitHeader, sql_timestamp::SqlTimestamp};

/// Defines a struct that is read by column name from both databases.
macro_rules! row {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(super) struct $name { $(pub(super) $field: $type),* }
        row!(@ $name SqliteRow $($field)*);
        row!(@ $name PgRow $($field)*);
    };
    (@ $name:ident $row:ident $($field:ident)*) => {
        impl FromRow<'_, $row> for $name {
            fn from_row(row: &$row) -> Result<Self, sqlx::Error> {
                Ok(Self { $($field: row.try_get(stringify!($field))?),* })
            }
        }
    };
}

pub(super) use row;

row!(
    /// A revision and its chain hash.
    HeadRow { revision: i64, chain: String }
);
row!(
    /// A commit in the form covered by the chain.
    SealRow { revision: i64, chain: String, previous: Option<String>, canonical: Vec<u8> }
);
row!(
    /// A commit for queries.
    HeaderRow {
        revision: i64,
        author: String,
        committed_at: SqlTimestamp,
        message: String,
        request_id: Option<String>,
        changes: i32,
        chain: String,
    }
);
row!(
    /// A registered document.
    DocumentRow {
        revision: i64,
        kind: String,
        name: String,
        version: String,
        digest: String,
        document: Vec<u8>,
    }
);
row!(
    /// An entity with its state.
    EntityRow {
        kind: String,
        name: String,
        version: String,
        digest: String,
        owner: String,
        registered_revision: i64,
        registered_at: SqlTimestamp,
        lifecycle: String,
        lifecycle_revision: i64,
        lifecycle_reason: Option<String>,
        lifecycle_notice: Option<String>,
        lifecycle_at: SqlTimestamp,
        document: Vec<u8>,
    }
);
row!(
    /// A setting.
    SettingRow { revision: i64, selector: String, setting: String }
);
row!(
    /// A setting with the data of its commit.
    SettingEventRow {
        revision: i64,
        ordinal: i32,
        selector: String,
        setting: String,
        author: String,
        committed_at: SqlTimestamp,
        message: String,
    }
);
row!(
    /// A change with the data of its commit.
    EventRow {
        revision: i64,
        ordinal: i32,
        action: String,
        kind: String,
        name: String,
        version: String,
        digest: String,
        reason: Option<String>,
        detail: Option<String>,
        author: String,
        committed_at: SqlTimestamp,
        message: String,
    }
);

row!(
    /// An API token.
    TokenRow {
        id: String,
        digest: String,
        name: String,
        team: String,
        roles: String,
        scopes: String,
        created_at: SqlTimestamp,
        created_by: String,
        expires_at: Option<SqlTimestamp>,
        revoked_at: Option<SqlTimestamp>,
        revoked_by: Option<String>,
        last_used_at: Option<SqlTimestamp>,
    }
);

row!(
    /// An access event.
    AccessEventRow {
        number: i64,
        at: SqlTimestamp,
        principal: String,
        method: String,
        address: String,
        event: String,
        subject: String,
        detail: String,
    }
);

pub(super) fn corrupt(what: impl Display, detail: impl Display) -> Error {
    Error::Corrupt { what: what.to_string(), detail: detail.to_string() }
}

/// Error for data with a correct digest or chain hash that cannot be parsed.
pub(super) fn newer(what: impl Display, detail: impl Display) -> Error {
    Error::NewerData { what: what.to_string(), detail: detail.to_string() }
}

/// Converts a revision from the signed integer of the database.
pub(super) fn revision(stored: i64) -> Result<Revision, Error> {
    u64::try_from(stored)
        .map(Revision)
        .map_err(|_| corrupt(format!("revision {stored}"), "a revision cannot be negative"))
}

/// Converts a revision to the signed integer of the database.
pub(super) fn stored(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

pub(super) fn chain(what: impl Display, text: &str) -> Result<ChainHash, Error> {
    let digest = Digest::parse(text).map_err(|e| corrupt(what, e))?;
    Ok(ChainHash::from_bytes(*digest.as_bytes()))
}

fn document(key: &Key, digest: &str, bytes: Vec<u8>) -> Result<Arc<Document>, Error> {
    let digest = Digest::parse(digest).map_err(|e| corrupt(key, e))?;
    let document = Document::verify(key.kind, bytes.into(), digest).map_err(|e| match e {
        InvalidDocument::Digest { .. } => corrupt(key, e),
        InvalidDocument::Json(_) | InvalidDocument::Entity { .. } => newer(key, e),
    })?;
    if document.key() != key {
        return Err(corrupt(key, format!("its document is that of {}", document.key())));
    }
    Ok(Arc::new(document))
}

pub(super) fn key(kind: &str, name: &str, version: &str) -> Result<Key, Error> {
    let what = || format!("{kind}/{name}@{version}");
    let kind = Kind::from_str(kind).map_err(|e| corrupt(what(), e))?;
    Key::parse(kind, name, version).map_err(|e| corrupt(what(), e))
}

/// Notice of a lifecycle change; the message has its own column.
fn notice(
    what: &impl Display,
    reason: Option<String>,
    detail: Option<&str>,
) -> Result<Notice, Error> {
    let Some(detail) = detail else { return Ok(Notice::with_message(reason.as_deref())) };
    let notice: Notice = serde_json::from_str(detail).map_err(|e| corrupt(what, e))?;
    Ok(Notice { message: reason, ..notice })
}

/// Owner of a registered entity, if it is not the author.
fn registration(what: &impl Display, detail: Option<&str>) -> Result<Registration, Error> {
    let read = |detail| serde_json::from_str(detail).map_err(|e| corrupt(what, e));
    detail.map_or_else(|| Ok(Registration::default()), read)
}

/// Content of the `detail` column of a registration. The column is null if all members are absent.
#[derive(Serialize, Deserialize, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(super) struct Registration {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) broken_policies: Vec<Key>,
}

impl DocumentRow {
    pub(super) fn key(&self) -> Result<Key, Error> {
        key(&self.kind, &self.name, &self.version)
    }
}

impl TryFrom<DocumentRow> for Arc<Document> {
    type Error = Error;

    fn try_from(row: DocumentRow) -> Result<Self, Error> {
        document(&row.key()?, &row.digest, row.document)
    }
}

impl TryFrom<EntityRow> for Record {
    type Error = Error;

    fn try_from(row: EntityRow) -> Result<Self, Error> {
        let key = key(&row.kind, &row.name, &row.version)?;
        let state = LifecycleState::from_str(&row.lifecycle).map_err(|e| corrupt(&key, e))?;
        Ok(Self {
            document: document(&key, &row.digest, row.document)?,
            owner: row.owner.into(),
            registered: revision(row.registered_revision)?,
            registered_at: row.registered_at.0,
            lifecycle: Lifecycle::new(
                state,
                notice(&key, row.lifecycle_reason, row.lifecycle_notice.as_deref())?,
                (revision(row.lifecycle_revision)?, row.lifecycle_at.0),
            ),
        })
    }
}

impl TryFrom<SettingRow> for (Revision, SettingChange) {
    type Error = Error;

    fn try_from(row: SettingRow) -> Result<Self, Error> {
        let what = format!("a setting of revision {}", row.revision);
        let target = Selector::from_str(&row.selector).map_err(|e| corrupt(&what, e))?;
        let setting: Setting = serde_json::from_str(&row.setting).map_err(|e| corrupt(&what, e))?;
        Ok((revision(row.revision)?, SettingChange { target, setting }))
    }
}

impl TryFrom<SettingEventRow> for SettingEvent {
    type Error = Error;

    fn try_from(row: SettingEventRow) -> Result<Self, Error> {
        let SettingEventRow { revision, ordinal, selector, setting, author, message, .. } = row;
        let what = format!("a setting of revision {revision}");
        let ordinal = u32::try_from(ordinal).map_err(|e| corrupt(&what, e))?;
        let committed_at = row.committed_at.0;
        let (revision, set) = SettingRow { revision, selector, setting }.try_into()?;
        Ok(Self { revision, ordinal, set, author, committed_at, message })
    }
}

impl TryFrom<HeaderRow> for StoredCommitHeader {
    type Error = Error;

    fn try_from(row: HeaderRow) -> Result<Self, Error> {
        let revision = revision(row.revision)?;
        let what = format!("revision {revision}");
        Ok(Self {
            revision,
            author: row.author,
            committed_at: row.committed_at.0,
            message: row.message,
            request_id: row.request_id,
            changes: usize::try_from(row.changes).map_err(|e| corrupt(&what, e))?,
            chain: chain(&what, &row.chain)?,
        })
    }
}

impl TryFrom<EventRow> for EntityEvent {
    type Error = Error;

    fn try_from(row: EventRow) -> Result<Self, Error> {
        let what = format!("change {} of revision {}", row.ordinal, row.revision);
        let action = match row.action.as_str() {
            "register" => {
                let digest = Digest::parse(&row.digest).map_err(|e| corrupt(&what, e))?;
                let Registration { owner, broken_policies } =
                    registration(&what, row.detail.as_deref())?;
                Action::Register { digest, owner, broken_policies }
            }
            "deprecate" => Action::Deprecate(notice(&what, row.reason, row.detail.as_deref())?),
            "retire" => Action::Retire(notice(&what, row.reason, row.detail.as_deref())?),
            "restore" => Action::Restore,
            action => return Err(corrupt(&what, format!("unknown action `{action}`"))),
        };
        Ok(Self {
            revision: revision(row.revision)?,
            ordinal: u32::try_from(row.ordinal).map_err(|e| corrupt(&what, e))?,
            key: key(&row.kind, &row.name, &row.version)?,
            action,
            author: row.author,
            committed_at: row.committed_at.0,
            message: row.message,
        })
    }
}
