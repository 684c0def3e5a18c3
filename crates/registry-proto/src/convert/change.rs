//! Batches: wanted changes from the wire, and the plan of what they do to the wire.

use std::sync::Arc;

use registry_core::{
    Action, Change, Code, Diagnostic, Notice, parallel,
    rules::{Plan, Proposed},
};

use super::{
    entity,
    key::{self, InvalidEntityKey},
    lifecycle::{self, InvalidNotice, InvalidState},
};
use crate::v1;

/// Why a message is not a change.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidChange {
    /// Neither `register` nor `set_lifecycle` is set.
    #[error("the change is empty: neither register nor set_lifecycle is set")]
    Unset,
    /// The entity to register.
    #[error("the entity cannot be read: {}", .0.first().map_or("", |found| found.message.as_str()))]
    Entity(Vec<Diagnostic>),
    /// The key of a lifecycle change.
    #[error(transparent)]
    Key(#[from] InvalidEntityKey),
    /// The state of a lifecycle change.
    #[error(transparent)]
    State(#[from] InvalidState),
    /// What a lifecycle change says.
    #[error(transparent)]
    Notice(#[from] InvalidNotice),
}

impl InvalidChange {
    /// The same as findings of validation.
    pub fn into_diagnostics(self) -> Vec<Diagnostic> {
        let help = match self {
            Self::Entity(found) => return found,
            Self::Unset => "set one of them",
            Self::Key(_) => "give the kind, the name and the exact version",
            Self::State(_) => "set the state to active, deprecated or retired",
            Self::Notice(_) => {
                "give the replacement's kind, name and version, and the date as 2026-12-31"
            }
        };
        vec![Diagnostic::error(Code::DocumentInvalid, "", self.to_string()).with_help(help)]
    }
}

impl TryFrom<v1::Change> for Proposed {
    type Error = InvalidChange;

    fn try_from(change: v1::Change) -> Result<Self, InvalidChange> {
        let v1::Change { change } = change;
        match change.ok_or(InvalidChange::Unset)? {
            v1::change::Change::Register(entity) => entity::document(entity)
                .map(|document| Self::Register(Arc::new(document)))
                .map_err(InvalidChange::Entity),
            v1::change::Change::SetLifecycle(v1::SetLifecycle {
                key,
                state,
                message,
                replacement,
                sunset,
                forced,
            }) => {
                let (key, state) = (key::required(key)?, lifecycle::state(state)?);
                let notice = lifecycle::notice(message, replacement, sunset, forced)?;
                Ok(Self::SetLifecycle { key, state, notice })
            }
        }
    }
}

/// Writes a wanted change, as a client sends it.
impl From<&Proposed> for v1::Change {
    fn from(proposed: &Proposed) -> Self {
        let change = match proposed {
            Proposed::Register(document) => v1::change::Change::Register(document.entity().into()),
            Proposed::SetLifecycle { key, state, notice } => {
                let Notice { message, replacement, sunset, forced } = notice.clone();
                v1::change::Change::SetLifecycle(v1::SetLifecycle {
                    key: Some(key.into()),
                    state: v1::LifecycleState::from(*state).into(),
                    message,
                    replacement: replacement.as_ref().map(Into::into),
                    sunset: sunset.map(|date| date.to_string()),
                    forced,
                })
            }
        };
        Self { change: Some(change) }
    }
}

/// Reads a whole batch. Fails with the findings of all changes, each with the index of its change
/// and, where it can be read, the key of its entity.
pub fn batch(changes: Vec<v1::Change>) -> Result<Vec<Proposed>, Vec<Diagnostic>> {
    let read = parallel::map(changes, |change| {
        let key = claimed_key(&change);
        Proposed::try_from(change).map_err(|e| (key, e))
    });
    let (mut proposed, mut found) = (Vec::with_capacity(read.len()), Vec::new());
    for (index, change) in read.into_iter().enumerate() {
        match change {
            Ok(change) => proposed.push(change),
            Err((key, e)) => found.extend(e.into_diagnostics().into_iter().map(|diagnostic| {
                let entity = diagnostic.entity.clone().or_else(|| key.clone());
                Diagnostic { change: Some(index), entity, ..diagnostic }
            })),
        }
    }
    if found.is_empty() { Ok(proposed) } else { Err(found) }
}

/// What a change says that it is about, if that much of it can be read.
fn claimed_key(change: &v1::Change) -> Option<registry_core::Key> {
    use v1::entity::Kind;
    let key = match change.change.as_ref()? {
        v1::change::Change::SetLifecycle(change) => change.key.clone()?,
        v1::change::Change::Register(entity) => {
            let (kind, name, version) = match entity.kind.as_ref()? {
                Kind::Schema(schema) => (v1::Kind::Schema, &schema.name, &schema.version),
                Kind::Server(server) => (v1::Kind::Server, &server.name, &server.version),
                Kind::Tool(tool) => (v1::Kind::Tool, &tool.name, &tool.version),
                Kind::Agent(agent) => (v1::Kind::Agent, &agent.name, &agent.version),
            };
            v1::EntityKey { kind: kind.into(), name: name.clone(), version: version.clone() }
        }
    };
    key.try_into().ok()
}

/// Writes the plan: one line for each wanted change, in order.
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
    let effect = effect.map_or(v1::Effect::Unchanged, |change| (&change.action).into());
    v1::PlannedChange { key: Some(proposed.key().into()), effect: effect.into(), digest }
}

impl From<&Action> for v1::Effect {
    fn from(action: &Action) -> Self {
        match action {
            Action::Register { .. } => Self::Register,
            Action::Deprecate(_) => Self::Deprecate,
            Action::Retire(_) => Self::Retire,
            Action::Restore => Self::Restore,
        }
    }
}
