//! Validation: a pure function of a catalog and proposed changes.
//!
//! The same code runs in the server at registration, in a gateway at startup, and offline in the
//! command line. Its cost is proportional to the batch and its direct neighbors, not to the
//! registry: entities are immutable and references exact, so valid entities stay valid. Selectors of
//! policies are the exception, because they are compared with all names. Suggestions for unknown
//! names compare a limited number of neighbors in the order of names.

mod ambiguity;
mod annotations;
mod archived;
mod argument;
mod breaking;
mod budget;
mod composition;
mod cycle;
mod dependency;
mod effect;
mod extension;
mod flow;
mod governance;
mod header;
mod lifecycle;
mod ownership;
mod policy;
pub(crate) mod policy_change;
mod projection;
mod proposal;
mod provision;
mod schema;
mod schema_graph;
mod servable;
mod server_json;
mod settings;
mod source;
mod source_schemas;
mod still_needed;
#[cfg(test)]
#[path = "../../registry-fixtures/src/entities.rs"]
#[expect(unreachable_pub, reason = "the file is a module of `registry-fixtures` too")]
pub(crate) mod testing;
mod tool_name;

use std::{collections::BTreeMap, sync::Arc};

pub use ownership::{ANONYMOUS, WritePermissions, authorize};
use proposal::Proposal;
use schema_graph::SchemaGraph;
use serde_json::Value;
use settings::plan_settings;

use crate::{
    catalog::Catalog,
    commit::Change,
    diagnostic::{Code, Diagnostic},
    document::Document,
    kind::Kind,
    lifecycle::{LifecycleState, Notice},
    limits,
    name::Name,
    parallel,
    reference::Key,
    setting::SettingChange,
    version::Version,
};

/// The end of messages about references to entities that are neither registered nor in the batch.
/// A check without a registry replaces it.
const NOT_REGISTERED: &str = "is not registered";

/// Replaces a statement about the registry by one about the files, which were validated without a registry.
/// `help` is the remedy for an entity that the registry has.
pub fn about_files(found: Diagnostic, help: &str) -> Diagnostic {
    let Some(reference) = found.message.strip_suffix(NOT_REGISTERED) else { return found };
    let message = format!("{reference}is not in the files");
    let help = found.help.map(|remedy| format!("{remedy}; {help}"));
    Diagnostic { message, help, ..found }
}

/// A proposed change.
#[derive(Debug, Clone, PartialEq)]
pub enum Proposed {
    /// Registers a document.
    Register(Arc<Document>),
    /// Changes the lifecycle of an entity that is registered, possibly by the same batch.
    SetLifecycle {
        /// The key of the entity.
        key: Key,
        /// The new state.
        state: LifecycleState,
        /// The reason and the replacement; only for deprecations and retirements.
        notice: Notice,
    },
}

impl Proposed {
    /// The key of the changed entity.
    pub fn key(&self) -> &Key {
        match self {
            Self::Register(document) => document.key(),
            Self::SetLifecycle { key, .. } => key,
        }
    }

    /// The document of a registration.
    pub fn document(&self) -> Option<&Arc<Document>> {
        match self {
            Self::Register(document) => Some(document),
            Self::SetLifecycle { .. } => None,
        }
    }

    fn patterns(&self) -> usize {
        self.document().map_or(0, |document| schema::patterns(document.entity()))
    }

    fn may_have_pattern(&self) -> bool {
        self.document().is_some_and(|document| document.may_have_pattern())
    }

    fn document_bytes(&self) -> usize {
        self.document().map_or(0, |document| document.bytes().len())
    }
}

/// The known parts of an entity that could not be read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UnreadEntity {
    kind: Option<Kind>,
    name: Option<Name>,
    version: Option<Version>,
}

impl UnreadEntity {
    /// An entity of this kind with an invalid document.
    pub fn of(kind: Kind, document: &Value) -> Self {
        let text = |member| document.get(member).and_then(Value::as_str);
        Self {
            kind: Some(kind),
            name: text("name").and_then(|name| Name::parse(kind, name).ok()),
            version: text("version").and_then(|version| Version::parse(version).ok()),
        }
    }

    /// Whether a reference to this key may mean it.
    fn may_be(&self, key: &Key) -> bool {
        self.kind.is_none_or(|kind| kind == key.kind)
            && self.name.as_ref().is_none_or(|name| *name == key.name)
            && self.version.as_ref().is_none_or(|version| *version == key.version)
    }
}

/// The effect of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The log change of each proposed change, in order. `None` if it changes nothing: equal
    /// content, or the current lifecycle state.
    pub effects: Vec<Option<Change>>,
    /// The effective settings in order.
    pub settings: Vec<SettingChange>,
    /// The policies in force that the batch breaks because its request allows this, with the index
    /// of the first change that breaks each.
    pub policy_breaks: BTreeMap<Key, usize>,
    /// All findings of validation, errors first.
    pub diagnostics: Vec<Diagnostic>,
}

impl Plan {
    fn new(effects: Vec<Option<Change>>, diagnostics: Vec<Diagnostic>) -> Self {
        let (settings, policy_breaks) = (Vec::new(), BTreeMap::new());
        Self { effects, settings, policy_breaks, diagnostics }
    }

    /// Whether there are no errors, so that the batch may be committed.
    pub fn is_acceptable(&self) -> bool {
        !self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.changes().next().is_none() && self.settings.is_empty()
    }

    /// Adds findings of further checks.
    pub fn report(&mut self, found: Vec<Diagnostic>) {
        self.diagnostics.extend(found);
        errors_first(&mut self.diagnostics);
    }

    /// The changes to commit.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.effects.iter().flatten()
    }
}

/// Validates a batch and determines its effect on a catalog.
pub fn plan(catalog: &Catalog, batch: &[Proposed]) -> Plan {
    plan_readable(catalog, batch, &[])
}

/// Like [`plan`], for a batch with entities that could not be read. References to them are not
/// reported.
pub fn plan_readable(catalog: &Catalog, batch: &[Proposed], unread: &[UnreadEntity]) -> Plan {
    match exceeds_batch_limit(batch) {
        Some(found) => Plan::new(Vec::new(), vec![found]),
        None => checked(&Proposal::new(catalog, batch, unread), batch, BatchOrigin::Request),
    }
}

/// Like [`plan`], with settings, which take effect after the changes.
pub fn plan_with(catalog: &Catalog, batch: &[Proposed], settings: &[SettingChange]) -> Plan {
    let mut plan = plan(catalog, batch);
    let (settings, found) = plan_settings(catalog, settings);
    plan.settings = settings;
    plan.diagnostics.extend(found);
    errors_first(&mut plan.diagnostics);
    plan
}

/// Reports a batch that exceeds a limit for one request.
pub fn exceeds_batch_limit(batch: &[Proposed]) -> Option<Diagnostic> {
    let bytes = batch.iter().map(Proposed::document_bytes).sum::<usize>();
    let with_patterns = batch.iter().filter(|proposed| proposed.may_have_pattern()).collect();
    let patterns = parallel::map(with_patterns, Proposed::patterns).iter().sum::<usize>();
    let what = if batch.len() > limits::BATCH_CHANGES {
        format!("{} changes; the maximum is {}", batch.len(), limits::BATCH_CHANGES)
    } else if bytes > limits::BATCH_BYTES {
        format!("{bytes} bytes of documents; the maximum is {}", limits::BATCH_BYTES)
    } else if patterns > limits::BATCH_PATTERNS {
        format!("{patterns} patterns in its schemas; the maximum is {}", limits::BATCH_PATTERNS)
    } else {
        return None;
    };
    let found = Diagnostic::error(Code::DocumentInvalid, "", format!("the batch has {what}"));
    Some(found.with_help("split it into several batches, dependencies first"))
}

/// Like [`plan`], but for a complete registry of any size, such as a file at startup. Versions are
/// not compared with each other, and retired entities may have dependents, because the original
/// registration decided both.
pub fn validate(catalog: &Catalog, batch: &[Proposed]) -> Plan {
    checked(&Proposal::new(catalog, batch, &[]), batch, BatchOrigin::File)
}

/// The origin of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BatchOrigin {
    /// Changes requested by a client.
    Request,
    /// The complete content of a registry.
    File,
}

fn checked<'a>(proposal: &'a Proposal<'a>, batch: &'a [Proposed], origin: BatchOrigin) -> Plan {
    let mut diagnostics = Vec::new();
    let effects = effect::effects(proposal, batch, &mut diagnostics);
    let mut arguments = argument::Arguments::new(proposal, origin);
    for new in &proposal.new {
        provision::check(proposal, new, &mut diagnostics);
        source::check(proposal, new, &mut diagnostics);
        arguments.check(new, &mut diagnostics);
        dependency::check(proposal, new, &mut diagnostics);
        extension::check(new, &mut diagnostics);
        ambiguity::check(new, &mut diagnostics);
        annotations::check(new, &mut diagnostics);
        lifecycle::check(proposal, new, origin, &mut diagnostics);
        composition::check(new, &mut diagnostics);
        server_json::check(new, &mut diagnostics);
        archived::check(proposal.catalog(), new, &mut diagnostics);
    }
    lifecycle::check_restored(proposal, &mut diagnostics);
    still_needed::check(proposal, &mut diagnostics);
    let schemas = SchemaGraph::new(proposal);
    schema::check(proposal, &schemas, &mut diagnostics);
    header::check(proposal, &schemas, &mut diagnostics);
    cycle::check(proposal, &mut diagnostics);
    policy::check_selectors(proposal, &mut diagnostics);
    policy::check_staleness(proposal, origin, &mut diagnostics);
    budget::check_alerts(proposal, &mut diagnostics);
    servable::check(proposal, &schemas, &mut diagnostics);
    if origin == BatchOrigin::Request {
        composition::check_depth(proposal, &mut diagnostics);
        for active in proposal.new.iter().chain(&proposal.restored) {
            tool_name::check(proposal, active, &mut diagnostics);
        }
        flow::check(proposal, &mut diagnostics);
        projection::check(proposal, &mut diagnostics);
        policy::check_versions(proposal, &mut diagnostics);
        policy::check_changes(proposal, &mut diagnostics);
        budget::check_definitions(proposal, &mut diagnostics);
        breaking::check(proposal, &mut diagnostics);
    }
    errors_first(&mut diagnostics);
    Plan::new(effects, diagnostics)
}

/// Sorts findings into their documented order.
fn errors_first(found: &mut [Diagnostic]) {
    found.sort_by_key(|d| (std::cmp::Reverse(d.severity), d.change));
}
