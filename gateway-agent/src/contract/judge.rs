//! One registered tool against what its server lists: what differs, and what that means.
//!
//! Differences are those of `registryctl drift`, by the same code.

use std::{collections::BTreeMap, sync::Arc};

use gateway_upstream::{Definitions, Tools};
use registry_core::{
    Catalog, Digest, Document, Entity, Key, Record,
    entity::Tool,
    live::{Class, compare_tool},
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::definition::{Fingerprint, Part, digest_of_value};

/// Longest text of a difference that is kept, in characters.
const KEPT_CHARS: usize = 300;

/// How a tool stands to what its server lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The server was not listed yet, since this gateway runs.
    Unheard,
    /// The server does not have it.
    Missing,
    /// It is as it was registered or first seen.
    Same,
    /// It is not.
    Drifted,
}

impl State {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Unheard, Self::Missing, Self::Same, Self::Drifted];

    /// As metrics and reports write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unheard => "unheard",
            Self::Missing => "missing",
            Self::Same => "same",
            Self::Drifted => "drifted",
        }
    }
}

/// What a difference means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DriftClass {
    /// Words, for people.
    Cosmetic,
    /// More than before.
    Compatible,
    /// Nothing is registered, and it is another than the one that was first seen.
    Changed,
    /// Nothing is registered, and what was first seen is not known.
    Unknown,
    /// Neither compatible nor breaking could be shown.
    Undecided,
    /// Words that speak to the model, or hide something.
    Suspicious,
    /// Callers may fail.
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

    /// As metrics and reports write it.
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

/// How one part of a definition differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Drift {
    /// Which part.
    pub part: Part,
    /// The worst that its differences mean.
    pub class: DriftClass,
    /// What differs, where that is the worst.
    pub what: String,
}

/// How a tool is at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// How it stands to what its server lists.
    pub state: State,
    /// Its definition at the server.
    pub live: Option<Fingerprint>,
    /// What differs, part by part.
    pub drift: Vec<Drift>,
    /// Whether a person has accepted it as it is.
    pub is_accepted: bool,
    /// Whether it differs, and nobody has accepted that.
    pub is_broken: bool,
}

/// What a judgement was made of: as long as this is the same, so is the judgement.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Basis {
    documents: Digest,
    is_heard: bool,
    is_provisional: bool,
    live: Option<Digest>,
}

/// The tools that a target lists.
#[derive(Debug, Clone, Copy, Default)]
pub struct Live<'a> {
    /// `None`: it was not listed yet.
    pub tools: Option<&'a Arc<Tools>>,
    /// Whether it is the target of a lower version of the server.
    pub is_provisional: bool,
}

impl<'a> Live<'a> {
    /// The list of a server's target.
    pub fn of(definitions: &'a Definitions, server: &Key) -> Self {
        let is_provisional = definitions.route(server).is_some_and(|route| route.is_fallback);
        Self { tools: definitions.find(server), is_provisional }
    }
}

/// What a comparison found, before anybody looks at what was there earlier.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) state: State,
    pub(super) live: Option<Fingerprint>,
    /// What differs from what is registered.
    pub(super) drift: Vec<Drift>,
    /// The parts of which nothing is registered.
    pub(super) inherited: Vec<Part>,
    /// Whether the definition is that of a lower version of the server, and so must not be pinned.
    pub(super) is_provisional: bool,
}

/// A registered tool beside what its server lists.
pub(super) struct Comparison<'a> {
    catalog: &'a Catalog,
    document: &'a Arc<Document>,
    tool: &'a Tool,
    tools: Option<&'a Arc<Tools>>,
    live: Option<&'a RawValue>,
    is_provisional: bool,
}

impl<'a> Comparison<'a> {
    /// `None` where the registered one has no server.
    pub(super) fn new(
        catalog: &'a Catalog,
        record: &'a Record,
        Live { tools, is_provisional }: Live<'a>,
    ) -> Option<Self> {
        let Entity::Tool(tool) = record.document.entity() else { return None };
        let live = tools.and_then(|tools| tools.find(&tool.source()?.tool));
        tool.source()?;
        Some(Self { catalog, document: &record.document, tool, tools, live, is_provisional })
    }

    pub(super) fn catalog(&self) -> &'a Catalog {
        self.catalog
    }

    /// The definition at the server, if its schemas differ from the registered ones. Other parts are
    /// compared quickly.
    pub(super) fn with_other_schema(&self) -> Option<Fingerprint> {
        let live = Fingerprint::of(self.live?);
        let schemas = [Part::InputSchema, Part::OutputSchema].into_iter();
        let mut own = schemas.filter(|part| part.registered(self.tool).is_some());
        own.any(|part| !self.is_equal(part, &live)).then_some(live)
    }

    fn is_equal(&self, part: Part, live: &Fingerprint) -> bool {
        part.registered(self.tool).as_ref().map(digest_of_value) == live.part(part)
    }

    pub(super) fn basis(&self) -> Basis {
        let schemas = super::schemas_of(self.catalog, self.document);
        let mut digests = self.document.digest().as_bytes().to_vec();
        digests.extend(schemas.iter().flat_map(|schema| *schema.digest().as_bytes()));
        let live = self.live.map(|live| Digest::compute(live.get().as_bytes()));
        let (is_heard, is_provisional) = (self.tools.is_some(), self.is_provisional);
        Basis { documents: Digest::compute(&digests), is_heard, is_provisional, live }
    }

    pub(super) fn compare(&self) -> Found {
        let live = self.live.map(Fingerprint::of);
        let state = match (&live, self.tools) {
            (Some(_), _) => State::Same,
            (None, Some(_)) => State::Missing,
            (None, None) => State::Unheard,
        };
        let is_own = |part: &Part| part.registered(self.tool).is_some();
        let (own, inherited): (Vec<_>, Vec<_>) = Part::ALL.into_iter().partition(is_own);
        let drift = live.as_ref().map(|live| self.drift(live, &own)).unwrap_or_default();
        Found { state, live, drift, inherited, is_provisional: self.is_provisional }
    }

    /// What differs from the registered parts, the worst of each.
    fn drift(&self, live: &Fingerprint, own: &[Part]) -> Vec<Drift> {
        if own.iter().all(|part| self.is_equal(*part, live)) {
            return Vec::new();
        }
        let definition = self.live.and_then(|live| serde_json::from_str(live.get()).ok());
        let mut worst = BTreeMap::<Part, Drift>::new();
        for found in compare_tool(self.catalog, self.tool, &definition.unwrap_or_default()) {
            let Some(part) = Part::at(&found.pointer).filter(|part| own.contains(part)) else {
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
