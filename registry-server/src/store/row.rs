//! The rows that come back from either database, and their way into the domain.
//!
//! An invalid row is [`Error::Corrupt`] with its revision or key.

use std::{fmt::Display, str::FromStr, sync::Arc};

use registry_core::{
    Action, ChainHash, Digest, Document, Key, Kind, Lifecycle, LifecycleState, Notice, Record,
    Revision, Selector, Setting, SettingChange, document::InvalidDocument,
};
use serde::{Deserialize, Serialize};
use sqlx::{FromRow, Row as _, postgres::PgRow, sqlite::SqliteRow};

use super::{EntityEvent, Error, SettingEvent, StoredCommitHeader, at::At};

/// A struct that is read by column name from both databases.
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
    /// A revision and the chain hash after it.
    HeadRow { revision: i64, chain: String }
);
row!(
    /// A commit as the chain covers it.
    SealRow { revision: i64, chain: String, previous: Option<String>, canonical: Vec<u8> }
);
row!(
    /// A commit for reading.
    HeaderRow {
        revision: i64,
        author: String,
        committed_at: At,
        message: String,
        request_id: Option<String>,
        changes: i32,
        chain: String,
    }
);
row!(
    /// A document that a commit registered.
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
        registered_at: At,
        lifecycle: String,
        lifecycle_revision: i64,
        lifecycle_reason: Option<String>,
        lifecycle_notice: Option<String>,
        lifecycle_at: At,
        document: Vec<u8>,
    }
);
row!(
    /// A setting.
    SettingRow { revision: i64, selector: String, setting: String }
);
row!(
    /// A setting with what its commit says.
    SettingEventRow {
        revision: i64,
        ordinal: i32,
        selector: String,
        setting: String,
        author: String,
        committed_at: At,
        message: String,
    }
);
row!(
    /// A change with what its commit says.
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
        committed_at: At,
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
        created_at: At,
        created_by: String,
        expires_at: Option<At>,
        revoked_at: Option<At>,
        revoked_by: Option<String>,
        last_used_at: Option<At>,
    }
);

row!(
    /// A line of the trail.
    AccessEventRow {
        number: i64,
        at: At,
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

/// For what has the right digest or chain hash, and still cannot be read.
pub(super) fn newer(what: impl Display, detail: impl Display) -> Error {
    Error::Newer { what: what.to_string(), detail: detail.to_string() }
}

/// Revisions are stored as the database's signed integers.
pub(super) fn revision(stored: i64) -> Result<Revision, Error> {
    u64::try_from(stored)
        .map(Revision)
        .map_err(|_| corrupt(format!("revision {stored}"), "a revision cannot be negative"))
}

/// The database's signed integer for a revision.
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
        return Err(corrupt(key, format!("its document is the one of {}", document.key())));
    }
    Ok(Arc::new(document))
}

pub(super) fn key(kind: &str, name: &str, version: &str) -> Result<Key, Error> {
    let what = || format!("{kind}/{name}@{version}");
    let kind = Kind::from_str(kind).map_err(|e| corrupt(what(), e))?;
    Key::parse(kind, name, version).map_err(|e| corrupt(what(), e))
}

/// What a lifecycle change says: the reason has a column of its own.
fn notice(
    what: &impl Display,
    reason: Option<String>,
    detail: Option<&str>,
) -> Result<Notice, Error> {
    let Some(detail) = detail else { return Ok(Notice::with_message(reason.as_deref())) };
    let notice: Notice = serde_json::from_str(detail).map_err(|e| corrupt(what, e))?;
    Ok(Notice { message: reason, ..notice })
}

/// Who owns what was registered, where that is not the author.
fn owner(what: &impl Display, detail: Option<&str>) -> Result<Option<String>, Error> {
    let Some(detail) = detail else { return Ok(None) };
    let Owned { owner } = serde_json::from_str(detail).map_err(|e| corrupt(what, e))?;
    Ok(Some(owner))
}

/// The `detail` of a registration.
#[derive(Serialize, Deserialize)]
pub(super) struct Owned {
    pub(super) owner: String,
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
        let on = Selector::from_str(&row.selector).map_err(|e| corrupt(&what, e))?;
        let setting: Setting = serde_json::from_str(&row.setting).map_err(|e| corrupt(&what, e))?;
        Ok((revision(row.revision)?, SettingChange { on, setting }))
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
                Action::Register { digest, owner: owner(&what, row.detail.as_deref())? }
            }
            "deprecate" => Action::Deprecate(notice(&what, row.reason, row.detail.as_deref())?),
            "retire" => Action::Retire(notice(&what, row.reason, row.detail.as_deref())?),
            "restore" => Action::Restore,
            action => return Err(corrupt(&what, format!("`{action}` is no action"))),
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
