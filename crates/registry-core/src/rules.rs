//! Validation: a pure function of a catalog and proposed changes.
//!
//! The same code runs at registration in the server, at start-up in a gateway and offline in the
//! command line. It costs in proportion to the batch and its neighbourhood, never to the size of
//! the registry: entities are immutable and references exact, so what was valid stays valid.

mod ambiguity;
mod archived;
mod breaking;
mod composition;
mod cycle;
mod dependency;
mod effect;
mod flow;
mod header;
mod lifecycle;
mod ownership;
mod proposal;
mod provision;
mod schema;
mod schema_graph;
mod servable;
mod server_json;
mod settings;
mod source;
mod still_needed;
#[cfg(test)]
#[path = "../../registry-fixtures/src/entities.rs"]
#[expect(unreachable_pub, reason = "the file is a module of `registry-fixtures` too")]
pub(crate) mod testing;
mod tool_name;

use std::sync::Arc;

pub use ownership::{Claimant, claim};
use proposal::Proposal;
use schema_graph::SchemaGraph;
use settings::plan_settings;

use crate::{
    catalog::Catalog,
    commit::Change,
    diagnostic::{Code, Diagnostic},
    document::Document,
    lifecycle::{LifecycleState, Notice},
    limits, parallel,
    reference::Key,
    setting::SettingChange,
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
        /// Why, and what to use instead. Of deprecations and retirements only.
        notice: Notice,
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

    /// What it registers, if it does.
    pub fn document(&self) -> Option<&Arc<Document>> {
        match self {
            Self::Register(document) => Some(document),
            Self::SetLifecycle { .. } => None,
        }
    }

    fn patterns(&self) -> usize {
        self.document().map_or(0, |document| schema::patterns(document.entity()))
    }

    fn document_bytes(&self) -> usize {
        self.document().map_or(0, |document| document.bytes().len())
    }
}

/// What a batch would do.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// For each proposed change, in order: the change of the log, or `None` where it would change
    /// nothing (equal content, or the lifecycle state that it has).
    pub effects: Vec<Option<Change>>,
    /// The wanted settings that would change something, in order.
    pub settings: Vec<SettingChange>,
    /// Everything that validation found, errors first.
    pub diagnostics: Vec<Diagnostic>,
}

impl Plan {
    /// Whether the batch may be committed.
    pub fn is_acceptable(&self) -> bool {
        !self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.changes().next().is_none() && self.settings.is_empty()
    }

    /// The changes that would be committed.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.effects.iter().flatten()
    }
}

/// Decides what a batch would do to a catalog, and everything that is wrong with it.
pub fn plan(catalog: &Catalog, batch: &[Proposed]) -> Plan {
    match too_big(batch) {
        Some(found) => Plan { effects: Vec::new(), settings: Vec::new(), diagnostics: vec![found] },
        None => checked(catalog, batch, Scope::Request),
    }
}

/// As [`plan`], with settings, which take effect after the changes.
pub fn plan_with(catalog: &Catalog, batch: &[Proposed], settings: &[SettingChange]) -> Plan {
    let mut plan = plan(catalog, batch);
    let (settings, found) = plan_settings(catalog, settings);
    plan.settings = settings;
    plan.diagnostics.extend(found);
    errors_first(&mut plan.diagnostics);
    plan
}

/// What is wrong with a batch that is too big for one request.
pub fn too_big(batch: &[Proposed]) -> Option<Diagnostic> {
    let bytes = batch.iter().map(Proposed::document_bytes).sum::<usize>();
    let patterns = parallel::map(batch.iter().collect(), Proposed::patterns).iter().sum::<usize>();
    let what = if batch.len() > limits::BATCH_CHANGES {
        format!("{} changes, {} are allowed", batch.len(), limits::BATCH_CHANGES)
    } else if bytes > limits::BATCH_BYTES {
        format!("{bytes} bytes of documents, {} are allowed", limits::BATCH_BYTES)
    } else if patterns > limits::BATCH_PATTERNS {
        format!("{patterns} patterns in its schemas, {} are allowed", limits::BATCH_PATTERNS)
    } else {
        return None;
    };
    let found = Diagnostic::error(Code::DocumentInvalid, "", format!("the batch has {what}"));
    Some(found.with_help("apply it in several batches, dependencies first"))
}

/// As [`plan`], for a batch of any size: a whole file at start-up, not a request. Its versions are
/// not compared with each other, and what it retires may be in use: that was decided when it was
/// registered.
pub fn validate(catalog: &Catalog, batch: &[Proposed]) -> Plan {
    checked(catalog, batch, Scope::File)
}

/// What a batch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Changes that somebody wants now.
    Request,
    /// All that a registry holds.
    File,
}

fn checked(catalog: &Catalog, batch: &[Proposed], scope: Scope) -> Plan {
    let mut diagnostics = Vec::new();
    let effects = effect::effects(catalog, batch, &mut diagnostics);
    let proposal = Proposal::new(catalog, batch);
    for new in &proposal.new {
        provision::check(&proposal, new, &mut diagnostics);
        source::check(&proposal, new, &mut diagnostics);
        dependency::check(&proposal, new, &mut diagnostics);
        ambiguity::check(new, &mut diagnostics);
        lifecycle::check(&proposal, new, scope, &mut diagnostics);
        composition::check(new, &mut diagnostics);
        server_json::check(new, &mut diagnostics);
        archived::check(catalog, new, &mut diagnostics);
    }
    lifecycle::check_restored(&proposal, &mut diagnostics);
    still_needed::check(&proposal, &mut diagnostics);
    let schemas = SchemaGraph::of(&proposal);
    schema::check(&proposal, &schemas, &mut diagnostics);
    header::check(&proposal, &schemas, &mut diagnostics);
    cycle::check(&proposal, &mut diagnostics);
    servable::check(&proposal, &schemas, &mut diagnostics);
    if scope == Scope::Request {
        composition::check_depth(&proposal, &mut diagnostics);
        for active in proposal.new.iter().chain(&proposal.restored) {
            tool_name::check(&proposal, active, &mut diagnostics);
        }
        flow::check(&proposal, &mut diagnostics);
        breaking::check(&proposal, &mut diagnostics);
    }
    errors_first(&mut diagnostics);
    Plan { effects, settings: Vec::new(), diagnostics }
}

/// Puts findings in the order in which everybody gets them.
fn errors_first(found: &mut [Diagnostic]) {
    found.sort_by_key(|d| (std::cmp::Reverse(d.severity), d.change));
}
