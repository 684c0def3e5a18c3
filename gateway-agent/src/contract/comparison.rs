//! Compares one registered tool with the live definition, and classifies the differences.
//!
//! `registryctl verify --live` uses the same code.

use std::{collections::BTreeMap, sync::Arc};

use gateway_upstream::{Definitions, Tools};
use registry_core::{
    Catalog, Digest, Document, Entity, Key, Record,
    entity::Tool,
    live::{Class, compare_tool},
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::definition::{DefinitionPart, Fingerprint, digest_of_value};

/// Maximum length of a stored description, in characters.
pub(super) const KEPT_CHARS: usize = 300;

/// The state of a tool's contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ContractState {
    /// The server was not listed since the gateway started.
    Pending,
    /// The server does not list the tool.
    Missing,
    /// The live definition matches the contract.
    Unchanged,
    /// The live definition differs.
    Drifted,
}

impl ContractState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Missing, Self::Unchanged, Self::Drifted];

    /// The value in metrics and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Missing => "missing",
            Self::Unchanged => "unchanged",
            Self::Drifted => "drifted",
        }
    }
}

/// The class of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DriftClass {
    /// Texts for people.
    Cosmetic,
    /// Accepts or returns more than before, compatibly.
    Compatible,
    /// An unregistered part differs from the pin.
    Changed,
    /// An unregistered part without a known pin.
    Unknown,
    /// Compatibility could not be decided.
    Undecided,
    /// Texts that instruct the model or contain hidden characters.
    Suspicious,
    /// Calls can fail.
    Breaking,
}

impl DriftClass {
    /// All classes, the worst last.
    pub const ALL: [Self; 7] = [
        Self::Cosmetic,
        Self::Compatible,
        Self::Changed,
        Self::Unknown,
        Self::Undecided,
        Self::Suspicious,
        Self::Breaking,
    ];

    /// The value in metrics and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cosmetic => "cosmetic",
            Self::Compatible => "compatible",
            Self::Changed => "changed",
            Self::Unknown => "unknown",
            Self::Undecided => "undecided",
            Self::Suspicious => "suspicious",
            Self::Breaking => "breaking",
        }
    }
}

impl From<Class> for DriftClass {
    fn from(class: Class) -> Self {
        match class {
            Class::Cosmetic => Self::Cosmetic,
            Class::Compatible => Self::Compatible,
            Class::Undecided => Self::Undecided,
            Class::Suspicious => Self::Suspicious,
            Class::Breaking => Self::Breaking,
        }
    }
}

/// A difference of one part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Drift {
    /// The part.
    pub part: DefinitionPart,
    /// The worst class of its differences.
    pub class: DriftClass,
    /// The worst difference.
    pub what: String,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractStatus {
    /// State of the contract.
    pub state: ContractState,
    /// The live definition.
    pub live: Option<Fingerprint>,
    /// The differences by part.
    pub drift: Vec<Drift>,
    /// Whether an operator accepted the live definition.
    pub is_accepted: bool,
    /// Whether it differs and was not accepted.
    pub is_broken: bool,
}

/// The inputs of a comparison. Equal inputs have equal results.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ComparisonInputs {
    pub(super) documents: Digest,
    pub(super) is_listed: bool,
    pub(super) is_provisional: bool,
    pub(super) live: Option<Digest>,
}

/// The tools that a target lists.
#[derive(Debug, Clone, Copy, Default)]
pub struct LiveTools<'a> {
    /// `None`: not listed yet.
    pub tools: Option<&'a Arc<Tools>>,
    /// Whether the target is that of a lower version.
    pub is_provisional: bool,
}

impl<'a> LiveTools<'a> {
    /// The list of a server's target.
    pub fn for_server(definitions: &'a Definitions, server: &Key) -> Self {
        let is_provisional = definitions.route(server).is_some_and(|route| route.is_fallback);
        Self { tools: definitions.find(server), is_provisional }
    }

    /// The card of an agent.
    pub(super) fn card(self) -> Option<&'a str> {
        self.tools.and_then(|tools| tools.card())
    }
}

/// The result of a comparison before pins are considered.
#[derive(Debug)]
pub(super) struct ComparisonResult {
    pub(super) state: ContractState,
    pub(super) live: Option<Fingerprint>,
    /// The differences of registered parts.
    pub(super) drift: Vec<Drift>,
    /// Unregistered parts.
    pub(super) inherited: Vec<DefinitionPart>,
    /// Whether the definition is of a lower version and must not be pinned.
    pub(super) is_provisional: bool,
    /// The worst class that breaks no contract.
    pub(super) tolerated: Option<DriftClass>,
}

pub(super) struct Comparison<'a> {
    catalog: &'a Catalog,
    document: &'a Arc<Document>,
    tool: &'a Tool,
    tools: Option<&'a Arc<Tools>>,
    live: Option<&'a RawValue>,
    is_provisional: bool,
}

impl<'a> Comparison<'a> {
    /// `None` for tools without a server.
    pub(super) fn new(
        catalog: &'a Catalog,
        record: &'a Record,
        LiveTools { tools, is_provisional }: LiveTools<'a>,
    ) -> Option<Self> {
        let Entity::Tool(tool) = record.document.entity() else { return None };
        let live = tools.and_then(|tools| tools.find(&tool.source()?.tool));
        tool.source()?;
        Some(Self { catalog, document: &record.document, tool, tools, live, is_provisional })
    }

    /// The live definition, if its schemas differ from the registered ones. Other parts are cheap
    /// to compare.
    pub(super) fn with_other_schema(&self) -> Option<Fingerprint> {
        let live = Fingerprint::from_definition(self.live?);
        let schemas = [DefinitionPart::InputSchema, DefinitionPart::OutputSchema].into_iter();
        let mut own = schemas.filter(|part| part.registered(self.tool).is_some());
        own.any(|part| !self.is_equal(part, &live)).then_some(live)
    }

    fn is_equal(&self, part: DefinitionPart, live: &Fingerprint) -> bool {
        part.registered(self.tool).as_ref().map(digest_of_value) == live.part(part)
    }

    pub(super) fn inputs(&self) -> ComparisonInputs {
        let schemas = super::schemas_of(self.catalog, self.document);
        let mut digests = self.document.digest().as_bytes().to_vec();
        digests.extend(schemas.iter().flat_map(|schema| *schema.digest().as_bytes()));
        let live = self.live.map(|live| Digest::compute(live.get().as_bytes()));
        let (is_listed, is_provisional) = (self.tools.is_some(), self.is_provisional);
        ComparisonInputs { documents: Digest::compute(&digests), is_listed, is_provisional, live }
    }

    pub(super) fn compare(&self) -> ComparisonResult {
        let live = self.live.map(Fingerprint::from_definition);
        let state = match (&live, self.tools) {
            (Some(_), _) => ContractState::Unchanged,
            (None, Some(_)) => ContractState::Missing,
            (None, None) => ContractState::Pending,
        };
        let is_own = |part: &DefinitionPart| part.registered(self.tool).is_some();
        let (own, inherited): (Vec<_>, Vec<_>) = DefinitionPart::ALL.into_iter().partition(is_own);
        let drift = live.as_ref().map(|live| self.drift(live, &own)).unwrap_or_default();
        let is_provisional = self.is_provisional;
        ComparisonResult { state, live, drift, inherited, is_provisional, tolerated: None }
    }

    /// The worst difference of each registered part.
    fn drift(&self, live: &Fingerprint, own: &[DefinitionPart]) -> Vec<Drift> {
        if own.iter().all(|part| self.is_equal(*part, live)) {
            return Vec::new();
        }
        let definition = self.live.and_then(|live| serde_json::from_str(live.get()).ok());
        let mut worst = BTreeMap::<DefinitionPart, Drift>::new();
        for found in compare_tool(self.catalog, self.tool, &definition.unwrap_or_default()) {
            let Some(part) = DefinitionPart::at(&found.pointer).filter(|part| own.contains(part))
            else {
                continue;
            };
            let class = DriftClass::from(found.class);
            if worst.get(&part).is_none_or(|known| known.class < class) {
                let what = format!("{}: {}", found.pointer, found.what);
                let what = what.chars().take(KEPT_CHARS).collect();
                worst.insert(part, Drift { part, class, what });
            }
        }
        worst.into_values().collect()
    }
}
