//! Reads batches of changes and writes their plans.

use std::sync::Arc;

use registry_core::{
    Action, Change, Code, Diagnostic, Digest, Key, Notice,
    document::{InvalidDigest, parse_json},
    parallel,
    rules::{Plan, Proposed},
};

use serde_json::Value;

use super::{
    entity,
    key::{self, InvalidEntityKey, filter_kind},
    lifecycle::{self, InvalidNotice, InvalidState},
};
use crate::v1;

/// The length of a name in the subject of an invalid batch.
const SUBJECT_CHARACTERS: usize = 80;

/// An invalid change.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidChange {
    /// No change is set.
    #[error(
        "the change is empty: none of register_entity, register_document and set_lifecycle is set"
    )]
    Unset,
    /// An invalid entity.
    #[error("invalid entity: {}", .0.first().map_or("", |found| found.message.as_str()))]
    Entity(Vec<Diagnostic>),
    /// An invalid key.
    #[error(transparent)]
    Key(#[from] InvalidEntityKey),
    /// An invalid lifecycle state.
    #[error(transparent)]
    State(#[from] InvalidState),
    /// An invalid notice.
    #[error(transparent)]
    Notice(#[from] InvalidNotice),
    /// An invalid precondition.
    #[error("if_digest: {0}")]
    IfDigest(#[from] InvalidDigest),
}

impl InvalidChange {
    /// The error as findings of validation.
    pub fn into_diagnostics(self) -> Vec<Diagnostic> {
        let help = match self {
            Self::Entity(found) => return found,
            Self::Unset => "set one of them",
            Self::Key(_) => "give the kind, the name and the exact version",
            Self::State(_) => "set the state to active, deprecated or retired",
            Self::Notice(_) => {
                "give the replacement's kind, name and version, and the date as 2026-12-31"
            }
            Self::IfDigest(_) => "give the digest as sha256: and 64 hex digits, or empty text",
        };
        vec![Diagnostic::error(Code::DocumentInvalid, "", self.to_string()).with_help(help)]
    }
}

impl TryFrom<v1::EntityChange> for Proposed {
    type Error = InvalidChange;

    fn try_from(change: v1::EntityChange) -> Result<Self, InvalidChange> {
        let v1::EntityChange { change, if_digest: _ } = change;
        match change.ok_or(InvalidChange::Unset)? {
            v1::entity_change::Change::RegisterEntity(entity) => entity::document(entity)
                .map(|document| Self::Register(Arc::new(document)))
                .map_err(InvalidChange::Entity),
            v1::entity_change::Change::RegisterDocument(document) => {
                entity::json_document(&document)
                    .map(|document| Self::Register(Arc::new(document)))
                    .map_err(InvalidChange::Entity)
            }
            v1::entity_change::Change::SetLifecycle(v1::SetLifecycle {
                key,
                state,
                message,
                replacement,
                sunset_date,
                force_reason,
            }) => {
                let (key, state) = (key::required(key)?, lifecycle::state(state)?);
                let notice = lifecycle::notice(message, replacement, sunset_date, force_reason)?;
                Ok(Self::SetLifecycle { key, state, notice })
            }
        }
    }
}

/// Writes a change as a client sends it.
impl From<&Proposed> for v1::EntityChange {
    fn from(proposed: &Proposed) -> Self {
        let change = match proposed {
            Proposed::Register(document) => {
                v1::entity_change::Change::RegisterDocument(document.as_ref().into())
            }
            Proposed::SetLifecycle { key, state, notice } => {
                let Notice { message, replacement, sunset_date, force_reason } = notice.clone();
                v1::entity_change::Change::SetLifecycle(v1::SetLifecycle {
                    key: Some(key.into()),
                    state: v1::LifecycleState::from(*state).into(),
                    message,
                    replacement: replacement.as_ref().map(Into::into),
                    sunset_date: sunset_date.map(|date| date.to_string()),
                    force_reason,
                })
            }
        };
        Self { change: Some(change), if_digest: None }
    }
}

/// The precondition of a change on the registered document of its key.
pub type Precondition = Option<Option<Digest>>;

/// Reads the precondition of each change. The inner `None` requires that the key is not registered.
pub fn precondition(change: &v1::EntityChange) -> Result<Precondition, InvalidChange> {
    match change.if_digest.as_deref() {
        None => Ok(None),
        Some("") => Ok(Some(None)),
        Some(digest) => Ok(Some(Some(Digest::parse(digest)?))),
    }
}

/// A batch that cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub struct InvalidBatch {
    /// The findings of all changes, each with the index of its change and, where it can be read, the key of
    /// its entity.
    pub diagnostics: Vec<Diagnostic>,
    /// The subject of the first finding as the request names it: `tool "a b"`.
    pub subject: Option<String>,
}

/// Reads a whole batch.
pub fn batch(changes: Vec<v1::EntityChange>) -> Result<Vec<Proposed>, InvalidBatch> {
    let read = parallel::map(changes, |change| {
        // A document as JSON shares its bytes, which are parsed again only if it is invalid.
        let document = match &change.change {
            Some(v1::entity_change::Change::RegisterDocument(document)) => Some(document.clone()),
            _ => None,
        };
        let claimed = claimed_key(&change);
        Proposed::try_from(change).map_err(|e| (document.as_ref().map_or(claimed, document_key), e))
    });
    let mut invalid = InvalidBatch { diagnostics: Vec::new(), subject: None };
    let mut proposed = Vec::with_capacity(read.len());
    for (index, change) in read.into_iter().enumerate() {
        match change {
            Ok(change) => proposed.push(change),
            Err((claimed, e)) => {
                if invalid.diagnostics.is_empty() {
                    invalid.subject = claimed.as_ref().and_then(subject);
                }
                let key: Option<Key> = claimed.and_then(|claimed| claimed.try_into().ok());
                invalid.diagnostics.extend(e.into_diagnostics().into_iter().map(|diagnostic| {
                    let entity = diagnostic.entity.clone().or_else(|| key.clone());
                    Diagnostic { change: Some(index), entity, ..diagnostic }
                }));
            }
        }
    }
    if invalid.diagnostics.is_empty() { Ok(proposed) } else { Err(invalid) }
}

/// The kind and name of an entity as text. The name is escaped and shortened, because it can be invalid.
fn subject(key: &v1::EntityKey) -> Option<String> {
    let kind = filter_kind(key.kind).ok()??;
    let name: String = key.name.chars().take(SUBJECT_CHARACTERS).collect();
    Some(format!("{kind} {name:?}"))
}

/// The key that a document as JSON names, valid or not.
fn document_key(document: &v1::JsonDocument) -> Option<v1::EntityKey> {
    let value = parse_json(&document.json).ok()?;
    let text = |field| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(v1::EntityKey { kind: document.kind, name: text("name"), version: text("version") })
}

/// The key that a typed change names, valid or not.
fn claimed_key(change: &v1::EntityChange) -> Option<v1::EntityKey> {
    use v1::entity::Kind;
    match change.change.as_ref()? {
        v1::entity_change::Change::SetLifecycle(change) => change.key.clone(),
        v1::entity_change::Change::RegisterDocument(_) => None,
        v1::entity_change::Change::RegisterEntity(entity) => {
            let (kind, name, version) = match entity.kind.as_ref()? {
                Kind::Schema(schema) => (v1::EntityKind::Schema, &schema.name, &schema.version),
                Kind::Server(server) => (v1::EntityKind::Server, &server.name, &server.version),
                Kind::Tool(tool) => (v1::EntityKind::Tool, &tool.name, &tool.version),
                Kind::Agent(agent) => (v1::EntityKind::Agent, &agent.name, &agent.version),
                Kind::Policy(policy) => (v1::EntityKind::Policy, &policy.name, &policy.version),
            };
            let (name, version) = (name.clone(), version.clone());
            Some(v1::EntityKey { kind: kind.into(), name, version })
        }
    }
}

/// Writes a plan: one entry per requested change, in order.
pub fn plan(batch: &[Proposed], plan: &Plan) -> Vec<v1::PlannedChange> {
    batch
        .iter()
        .zip(&plan.effects)
        .map(|(proposed, effect)| planned(proposed, effect.as_ref()))
        .collect()
}

fn planned(proposed: &Proposed, effect: Option<&Change>) -> v1::PlannedChange {
    let digest = match proposed {
        Proposed::Register(document) => document.digest().to_string(),
        Proposed::SetLifecycle { .. } => String::new(),
    };
    let action = effect.map_or(v1::ChangeAction::Unchanged, |change| (&change.action).into());
    v1::PlannedChange { key: Some(proposed.key().into()), action: action.into(), digest }
}

impl From<&Action> for v1::ChangeAction {
    fn from(action: &Action) -> Self {
        match action {
            Action::Register { .. } => Self::Register,
            Action::Deprecate(_) => Self::Deprecate,
            Action::Retire(_) => Self::Retire,
            Action::Restore => Self::Restore,
        }
    }
}
