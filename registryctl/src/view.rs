//! The output of read commands. The fields of `--output json` are stable.

mod approval;
mod budget;
mod commit;
mod gateway;
mod token;
mod usage;

use std::fmt;

use registry_core::{Kind, SettingChange};
use registry_proto::{convert, v1};
use serde::Serialize;
use serde_json::{Value, value::RawValue};

pub(crate) use approval::{ApprovalStepView, ApprovalView, DecisionView, GrantView};
pub(crate) use budget::{AccountView, BudgetAlertView, BudgetChangeView, BudgetView};
pub(crate) use commit::{ChangeView, CommitView, EventView, OriginView};
pub(crate) use gateway::{GatewayView, span};
pub(crate) use token::{AccessEventView, TokenView, roles};
pub(crate) use usage::UsageView;

/// The key of an entity.
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

/// A registered entity.
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
    /// Present for policies in the results of `get` and `list`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) in_force: Option<bool>,
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
    pub(crate) sunset_date: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) force_reason: Option<String>,
    pub(crate) revision: u64,
    pub(crate) changed_at: Option<String>,
}

impl LifecycleView {
    /// The reasons of the last change, on one line.
    pub(crate) fn reasons(&self) -> String {
        let reasons = [&self.message, &self.replacement, &self.sunset_date, &self.force_reason];
        parts(reasons).collect::<Vec<_>>().join("; ")
    }
}

/// The present ones of message, replacement, sunset and force reason, with labels.
fn parts(reasons: [&Option<String>; 4]) -> impl Iterator<Item = String> {
    let named = ["", "replacement: ", "sunset: ", "forced: "].into_iter().zip(reasons);
    let parts = named.filter_map(|(name, part)| part.as_ref().map(|part| format!("{name}{part}")));
    parts.filter(|part| !part.is_empty())
}

impl From<v1::Lifecycle> for LifecycleView {
    fn from(lifecycle: v1::Lifecycle) -> Self {
        let v1::Lifecycle {
            state,
            message,
            revision,
            replacement,
            sunset_date,
            force_reason,
            change_time,
        } = lifecycle;
        let state = convert::state(state).map_or("unknown", registry_core::LifecycleState::as_str);
        let replacement = replacement.map(key_text);
        let changed_at = time_text(change_time);
        Self { state, message, replacement, sunset_date, force_reason, revision, changed_at }
    }
}

impl From<v1::EntityRecord> for RecordView {
    fn from(record: v1::EntityRecord) -> Self {
        let v1::EntityRecord {
            key,
            entity: _, // the document has the same content
            digest,
            owner,
            registered_revision,
            register_time,
            lifecycle,
            document,
        } = record;
        let document = document.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Self {
            key: key.unwrap_or_default().into(),
            digest,
            owner,
            registered_revision,
            registered_at: time_text(register_time),
            lifecycle: lifecycle.unwrap_or_default().into(),
            in_force: None,
            document,
        }
    }
}

/// A key as one text: `tool/fetch@1.0.0`.
fn key_text(key: v1::EntityKey) -> String {
    KeyView::from(key).to_string()
}

/// A change of settings. Of a setting of a newer registry, only the target is known.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum SettingView {
    Known(SettingChange),
    Unknown { target: String },
}

impl From<v1::SettingChange> for SettingView {
    fn from(setting: v1::SettingChange) -> Self {
        let target = setting.target.clone();
        SettingChange::try_from(setting).map_or(Self::Unknown { target }, Self::Known)
    }
}

impl fmt::Display for SettingView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(setting) => setting.fmt(f),
            Self::Unknown { target } => write!(f, "a setting of {target}"),
        }
    }
}

/// The name of a compatibility mode. `None`: inherited or unknown.
pub(crate) fn mode_text(number: i32) -> Option<String> {
    convert::compatibility_mode(number).ok().flatten().map(|mode| mode.to_string())
}

/// RFC 3339. `None`: missing or out of range.
pub(crate) fn time_text(time: Option<prost_types::Timestamp>) -> Option<String> {
    convert::read_timestamp(time?).ok().map(|time| time.to_string())
}

/// The first twelve hexadecimal digits of a digest.
pub(crate) fn short_digest(digest: &str) -> &str {
    let digits = digest.strip_prefix("sha256:").unwrap_or(digest);
    digits.get(..12).unwrap_or(digits)
}

/// A JSON value on one line, cut at 60 characters.
pub(crate) fn short_value(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}
