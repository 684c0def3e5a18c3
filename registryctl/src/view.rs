//! What the reading commands show: the fields of `--output json`, which are stable, and the same
//! as text.
//!
//! Deliberately absent: proof; what must be proven (`export`, `watch`) goes through `follow`.

mod token;

use std::fmt;

use registry_core::{Kind, SettingChange};
use registry_proto::{convert, v1};
use serde::Serialize;
use serde_json::{Value, value::RawValue};

pub(crate) use token::{AccessEventView, TokenView, roles};

/// What names an entity.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct KeyView {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) version: String,
}

impl fmt::Display for KeyView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.kind, self.name, self.version)
    }
}

impl From<v1::EntityKey> for KeyView {
    fn from(key: v1::EntityKey) -> Self {
        let v1::EntityKey { kind, name, version } = key;
        let kind = convert::kind(kind).map_or("unknown", Kind::as_str).to_owned();
        Self { kind, name, version }
    }
}

/// An entity as the registry keeps it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordView {
    #[serde(flatten)]
    pub(crate) key: KeyView,
    pub(crate) digest: String,
    pub(crate) owner: String,
    pub(crate) registered_revision: u64,
    pub(crate) registered_at: Option<String>,
    pub(crate) lifecycle: LifecycleView,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) document: Option<Box<RawValue>>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LifecycleView {
    pub(crate) state: &'static str,
    pub(crate) message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replacement: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sunset: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) forced: Option<String>,
    pub(crate) revision: u64,
    pub(crate) changed_at: Option<String>,
}

impl From<v1::Lifecycle> for LifecycleView {
    fn from(lifecycle: v1::Lifecycle) -> Self {
        let v1::Lifecycle { state, message, revision, replacement, sunset, forced, changed_at } =
            lifecycle;
        let state = convert::state(state).map_or("unknown", registry_core::LifecycleState::as_str);
        let replacement = replacement.map(key_text);
        let changed_at = time_text(changed_at);
        Self { state, message, replacement, sunset, forced, revision, changed_at }
    }
}

impl From<v1::EntityRecord> for RecordView {
    fn from(record: v1::EntityRecord) -> Self {
        let v1::EntityRecord {
            key,
            entity: _, // the canonical document below says the same
            digest,
            owner,
            registered_revision,
            registered_at,
            lifecycle,
            document,
        } = record;
        let document = document.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Self {
            key: key.unwrap_or_default().into(),
            digest,
            owner,
            registered_revision,
            registered_at: time_text(registered_at),
            lifecycle: lifecycle.unwrap_or_default().into(),
            document,
        }
    }
}

/// A commit.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommitView {
    pub(crate) revision: u64,
    pub(crate) author: String,
    pub(crate) committed_at: Option<String>,
    pub(crate) message: String,
    pub(crate) request_id: Option<String>,
    pub(crate) chain: String,
    pub(crate) changes: Vec<ChangeView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) settings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<OriginView>,
}

/// How an author was authenticated, and from where it came.
#[derive(Debug, Serialize)]
pub(crate) struct OriginView {
    pub(crate) method: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) team: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
}

/// One change of a commit.
#[derive(Debug, Serialize)]
pub(crate) struct ChangeView {
    pub(crate) action: String,
    #[serde(flatten)]
    pub(crate) key: KeyView,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replacement: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sunset: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) forced: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
}

impl From<v1::Commit> for CommitView {
    fn from(commit: v1::Commit) -> Self {
        let v1::Commit {
            revision,
            author,
            committed_at,
            message,
            request_id,
            changes,
            chain,
            canonical: _, // never asked for
            origin,
            settings,
        } = commit;
        let origin =
            origin.map(|v1::Origin { method, team, address }| OriginView { method, team, address });
        Self {
            revision,
            author,
            committed_at: time_text(committed_at),
            message,
            request_id,
            chain,
            changes: changes.into_iter().map(ChangeView::from).collect(),
            settings: settings.into_iter().map(setting_text).collect(),
            origin,
        }
    }
}

impl From<v1::CommittedChange> for ChangeView {
    fn from(change: v1::CommittedChange) -> Self {
        let v1::CommittedChange {
            key,
            action,
            digest,
            message,
            replacement,
            sunset,
            forced,
            owner,
        } = change;
        let key = key.unwrap_or_default().into();
        let replacement = replacement.map(key_text);
        Self { action, key, digest, reason: message, replacement, sunset, forced, owner }
    }
}

impl OriginView {
    /// `token ci, team docs, from 10.0.0.1`.
    pub(crate) fn text(&self) -> String {
        let team = self.team.as_ref().map(|team| format!(", team {team}")).unwrap_or_default();
        let from = self.address.as_ref().map(|from| format!(", from {from}")).unwrap_or_default();
        format!("{}{team}{from}", self.method)
    }
}

impl ChangeView {
    /// Everything that a lifecycle change says, on one line.
    pub(crate) fn said(&self) -> String {
        let part = |name: &str, value: &Option<String>| {
            value.as_ref().map(|value| format!("{name}{value}"))
        };
        let parts = [
            part("", &self.reason),
            part("use ", &self.replacement),
            part("until ", &self.sunset),
            part("forced: ", &self.forced),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        parts.join("; ")
    }
}

impl CommitView {
    /// `3 register, 1 retire`.
    pub(crate) fn summary(&self) -> String {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for change in &self.changes {
            match counts.iter_mut().find(|(action, _)| *action == change.action) {
                Some((_, count)) => *count += 1,
                None => counts.push((&change.action, 1)),
            }
        }
        let mut counts: Vec<_> =
            counts.into_iter().map(|(action, count)| format!("{count} {action}")).collect();
        counts.extend(self.settings.iter().cloned());
        counts.join(", ")
    }
}

/// One change of one entity, with its commit.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventView {
    pub(crate) revision: u64,
    pub(crate) committed_at: Option<String>,
    pub(crate) author: String,
    pub(crate) message: String,
    #[serde(flatten)]
    pub(crate) change: ChangeView,
}

impl From<v1::EntityEvent> for EventView {
    fn from(event: v1::EntityEvent) -> Self {
        let v1::EntityEvent { change, revision, author, committed_at, message } = event;
        let change = change.unwrap_or_default().into();
        Self { revision, committed_at: time_text(committed_at), author, message, change }
    }
}

/// One follower of the registry.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GatewayView {
    pub(crate) gateway: String,
    pub(crate) gateway_version: String,
    pub(crate) address: String,
    pub(crate) connected_at: Option<String>,
    pub(crate) sent_revision: u64,
    pub(crate) applied_revision: u64,
    pub(crate) persisted_revision: u64,
    pub(crate) lag: u64,
    pub(crate) refusal: Option<RefusalView>,
}

/// The last refusal of a follower.
#[derive(Debug, Serialize)]
pub(crate) struct RefusalView {
    pub(crate) revision: u64,
    pub(crate) message: String,
}

impl From<v1::GatewayStatus> for GatewayView {
    fn from(status: v1::GatewayStatus) -> Self {
        let v1::GatewayStatus {
            gateway,
            gateway_version,
            address,
            connected_at,
            sent_revision,
            applied_revision,
            persisted_revision,
            lag,
            last_nack,
        } = status;
        let refusal = last_nack.map(|v1::Nack { revision, message, diagnostics: _ }| RefusalView {
            revision,
            message,
        });
        Self {
            gateway,
            gateway_version,
            address,
            connected_at: time_text(connected_at),
            sent_revision,
            applied_revision,
            persisted_revision,
            lag,
            refusal,
        }
    }
}

/// A key as one text: `tool/fetch@1.0.0`.
fn key_text(key: v1::EntityKey) -> String {
    KeyView::from(key).to_string()
}

/// A setting as a sentence; what this version does not know is named by what it is about.
pub(crate) fn setting_text(setting: v1::SettingChange) -> String {
    let on = setting.on.clone();
    SettingChange::try_from(setting)
        .map_or_else(|_| format!("a setting of {on}"), |s| s.to_string())
}

/// RFC 3339; `None` for a time that was not sent or cannot be written.
fn time_text(time: Option<prost_types::Timestamp>) -> Option<String> {
    convert::read_timestamp(time?).ok().map(|time| time.to_string())
}

/// The first twelve digits of a digest.
pub(crate) fn short_digest(digest: &str) -> &str {
    let digits = digest.strip_prefix("sha256:").unwrap_or(digest);
    digits.get(..12).unwrap_or(digits)
}

/// A JSON value on one line, cut where it is long.
pub(crate) fn short_value(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}
