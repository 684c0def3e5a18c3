//! Validation: a pure function of a catalog and proposed changes.
//!
//! The same code runs at registration in the server, at start-up in a gateway and offline in the
//! command line. It costs in proportion to the batch and its neighbourhood, never to the size of
//! the registry: entities are immutable and references exact, so what was valid stays valid.
//! Deliberately absent: the reading of documents, which reports its own problems.

mod edges;

use std::{collections::HashMap, sync::Arc};

pub use edges::{Reference, Relation, edges, references};

use crate::{
    catalog::{Catalog, Lifecycle, LifecycleState},
    commit::{Action, Change, Revision},
    diagnostic::{Code, Diagnostic},
    document::Document,
    entity::Entity,
    limits,
    reference::Key,
};

/// A change that somebody wants.
#[derive(Debug, Clone, PartialEq)]
pub enum Proposed {
    /// Register this document.
    Register(Arc<Document>),
    /// Change the lifecycle of something registered (or registered by the same batch).
    SetLifecycle {
        /// Of what.
        key: Key,
        /// To which state.
        state: LifecycleState,
        /// Why.
        message: Option<String>,
    },
}

impl Proposed {
    /// What it is about.
    pub fn key(&self) -> &Key {
        match self {
            Self::Register(document) => document.key(),
            Self::SetLifecycle { key, .. } => key,
        }
    }
}

/// What a batch would do.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// For each proposed change, in order: the change of the log, or `None` where it would change
    /// nothing (equal content, or the lifecycle state that it has).
    pub effects: Vec<Option<Change>>,
    /// Everything that validation found, errors first.
    pub diagnostics: Vec<Diagnostic>,
}

impl Plan {
    /// Whether the batch may be committed.
    pub fn is_acceptable(&self) -> bool {
        !self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// The changes that would be committed.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.effects.iter().flatten()
    }
}

/// Decides what a batch would do to a catalog, and everything that is wrong with it.
pub fn plan(catalog: &Catalog, batch: &[Proposed]) -> Plan {
    let mut diagnostics = Vec::new();
    if batch.len() > limits::BATCH_CHANGES {
        let (size, limit) = (batch.len(), limits::BATCH_CHANGES);
        let message = format!("the batch has {size} changes, {limit} are allowed");
        let found = Diagnostic::error(Code::DocumentInvalid, "", message);
        diagnostics.push(found.with_help("apply it in several batches, dependencies first"));
        return Plan { effects: Vec::new(), diagnostics };
    }
    let proposal = Proposal::new(catalog, batch);
    let effects = batch
        .iter()
        .enumerate()
        .map(|(i, proposed)| proposal.effect(i, proposed, &mut diagnostics))
        .collect();
    diagnostics.sort_by_key(|d| (std::cmp::Reverse(d.severity), d.change));
    Plan { effects, diagnostics }
}

/// A catalog with a batch on top: what the rules look at.
pub(crate) struct Proposal<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) batch: &'a [Proposed],
    new: HashMap<&'a Key, usize>,
}

impl<'a> Proposal<'a> {
    fn new(catalog: &'a Catalog, batch: &'a [Proposed]) -> Self {
        let registers = |(i, proposed): (usize, &'a Proposed)| match proposed {
            Proposed::Register(document) => Some((document.key(), i)),
            Proposed::SetLifecycle { .. } => None,
        };
        let new = batch.iter().enumerate().filter_map(registers).collect();
        Self { catalog, batch, new }
    }

    /// The entity with this key, in the batch or in the catalog.
    pub(crate) fn find(&self, key: &Key) -> Option<&'a Entity> {
        self.document(key).map(|document| document.entity())
    }

    fn document(&self, key: &Key) -> Option<&'a Arc<Document>> {
        if let Some(&i) = self.new.get(key)
            && let Proposed::Register(document) = &self.batch[i]
        {
            return Some(document);
        }
        self.catalog.find(key).map(|record| &record.document)
    }

    fn effect(&self, i: usize, proposed: &Proposed, found: &mut Vec<Diagnostic>) -> Option<Change> {
        match proposed {
            Proposed::Register(document) => self.registration(i, document, found),
            Proposed::SetLifecycle { key, state, message } => {
                self.transition(i, key, (*state, message.as_deref()), found)
            }
        }
    }

    fn registration(
        &self,
        i: usize,
        document: &Arc<Document>,
        found: &mut Vec<Diagnostic>,
    ) -> Option<Change> {
        let key = document.key();
        let twin = match self.new.get(key) {
            Some(&first) if first != i => self.document(key),
            _ => self.catalog.find(key).map(|record| &record.document),
        };
        if let Some(twin) = twin {
            if twin.digest() != document.digest() {
                found.push(already_registered(self, key).about(i, key));
            }
            return None;
        }
        let digest = document.digest();
        Some(Change { key: key.clone(), action: Action::Register { digest } })
    }

    fn transition(
        &self,
        i: usize,
        key: &Key,
        (state, message): (LifecycleState, Option<&str>),
        found: &mut Vec<Diagnostic>,
    ) -> Option<Change> {
        let current = match (self.catalog.find(key), self.new.get(key)) {
            (Some(record), _) => record.lifecycle.clone(),
            (None, Some(_)) => fresh(),
            (None, None) => {
                let message = format!("{key} is not registered");
                let unknown = Diagnostic::error(Code::NotRegistered, "", message).with_help(
                    "check kind, name and version; `registryctl list` shows what there is",
                );
                found.push(unknown.about(i, key));
                return None;
            }
        };
        if current.state == state && current.message.as_deref() == message {
            return None;
        }
        let message = message.map(str::to_owned);
        let action = match state {
            LifecycleState::Active => Action::Restore,
            LifecycleState::Deprecated => Action::Deprecate { message },
            LifecycleState::Retired => Action::Retire { message },
        };
        Some(Change { key: key.clone(), action })
    }
}

fn fresh() -> Lifecycle {
    Lifecycle { state: LifecycleState::Active, message: None, revision: Revision(0) }
}

fn already_registered(proposal: &Proposal<'_>, key: &Key) -> Diagnostic {
    let message = match proposal.catalog.find(key) {
        Some(record) => format!(
            "{key} was registered with other content in revision {}; what is registered never changes",
            record.registered,
        ),
        None => format!("{key} appears twice in this batch, with different content"),
    };
    Diagnostic::error(Code::AlreadyRegistered, "/version", message)
        .with_help("give the new content a new version")
}
