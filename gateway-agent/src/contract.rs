//! Contracts: compares each registered tool with the definition that its server lists, and each agent
//! with the card that it serves.
//!
//! The registration of a tool is its contract. Members that the registration omits are pinned when
//! first seen. A changed definition is classified, counted and reported, and can be quarantined
//! until a commit or an operator accepts it. Schemas are compared on another thread (`monitor.rs`);
//! callers get the previous result meanwhile.

mod card;
mod comparison;
mod definition;
mod metric;
mod monitor;
mod observed;
mod pin;
mod pin_file;
mod report;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arc_swap::ArcSwap;
use gateway_policy::{ToolSelector, ValidationMode, ValidationModes, ValidationRules};
use gateway_upstream::Definitions;
use registry_core::{Catalog, Digest, Document, Key, Kind, Record, edges::edges};
use tokio::sync::{Notify, watch};

use self::{
    comparison::{Comparison, ComparisonInputs, ComparisonResult},
    observed::ViolationCounters,
    pin::Pins,
    pin_file::PinFile,
};
pub use self::{
    comparison::{ContractState, ContractStatus, Drift, DriftClass, LiveTools},
    definition::{DefinitionPart, Fingerprint},
    observed::ViolationCounter,
    report::{ContractReport, ToolReport},
};

/// The contracts of all tools.
#[derive(Debug, Default)]
pub struct Contracts {
    settings: ArcSwap<Settings>,
    known: Mutex<ContractTable>,
    observed: ViolationCounters,
    /// `None`: pins are kept in memory only.
    file: Option<Mutex<PinFile>>,
    /// The upstreams' definitions, after their comparison.
    published: watch::Sender<Arc<Definitions>>,
    recheck: Notify,
}

/// The settings of contracts.
#[derive(Debug, Default)]
pub struct Settings {
    rules: ValidationRules,
    /// The tools of `limits.tools`.
    limited: Vec<ToolSelector>,
}

impl Settings {
    /// Creates settings. `limited` are the tools of `limits.tools`.
    pub fn new(rules: ValidationRules, limited: Vec<ToolSelector>) -> Self {
        Self { rules, limited }
    }
}

#[derive(Debug, Default)]
struct ContractTable {
    pins: Pins,
    /// The latest comparisons and their inputs.
    compared: BTreeMap<Key, (ComparisonInputs, Arc<ContractStatus>)>,
    /// Requested tools without a comparison.
    wanted: BTreeSet<Key>,
    /// Whether a caller received a provisional answer since the last check.
    has_waiting_callers: bool,
}

/// An answer about a tool's contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContractAnswer {
    /// The answer.
    pub holds: bool,
    /// Whether the next check can change the answer. Definitions are then published again.
    pub is_provisional: bool,
}

impl ContractAnswer {
    fn certain(holds: bool) -> Self {
        Self { holds, is_provisional: false }
    }
}

/// Why a definition is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum NotAccepted {
    /// The tool or its live definition is unknown.
    #[error(
        "no live definition of {0} is known; check that it is registered and that its server is reachable"
    )]
    Unknown(Key),
    /// The live definition has changed again.
    #[error("the live definition of {tool} is now {live}; review it and accept this digest")]
    Another {
        /// The tool.
        tool: Key,
        /// The digest of the live definition.
        live: Digest,
    },
    /// The pins cannot be written.
    #[error("cannot write the pins: {0}")]
    Io(#[from] std::io::Error),
}

impl Contracts {
    /// Opens the contracts with the pins next to the cache.
    pub fn open(cache: &Path, settings: Settings, definitions: Arc<Definitions>) -> Self {
        let (file, pins) = PinFile::open(cache);
        let known = ContractTable { pins, ..ContractTable::default() };
        Self {
            settings: ArcSwap::from_pointee(settings),
            known: Mutex::new(known),
            file: Some(Mutex::new(file)),
            published: watch::channel(definitions).0,
            ..Self::default()
        }
    }

    /// Applies a changed configuration.
    pub fn configure(&self, settings: Settings) {
        self.settings.store(Arc::new(settings));
        self.recheck.notify_one();
    }

    /// The checks of a tool's calls.
    pub fn checks(&self, tool: &Key) -> ValidationModes {
        self.settings.load().rules.for_tool(tool)
    }

    /// The schema violations of a tool's calls.
    pub fn observed(&self, tool: &Key) -> Arc<ViolationCounter> {
        self.observed.for_tool(tool)
    }

    /// The upstreams' definitions, published after their comparison.
    pub fn definitions(&self) -> watch::Receiver<Arc<Definitions>> {
        self.published.subscribe()
    }

    /// Whether calls of a tool are rejected because of its live definition. They are while no
    /// comparison exists, unless an operator accepted exactly this definition.
    pub fn is_quarantined(
        &self,
        catalog: &Catalog,
        record: &Record,
        live: LiveTools<'_>,
    ) -> ContractAnswer {
        if self.checks(record.document.key()).contract != ValidationMode::Error {
            return ContractAnswer::certain(false);
        }
        if record.document.key().kind == Kind::Agent {
            return self.is_card_broken(catalog, record, live);
        }
        self.answer(catalog, record, live, |compared| compared.is_broken)
    }

    /// Whether a tool uses the target of a lower version whose definition differs or was not listed
    /// yet. Cosmetic differences and the configured mode do not count.
    pub fn is_undeployed(
        &self,
        catalog: &Catalog,
        record: &Record,
        live: LiveTools<'_>,
    ) -> ContractAnswer {
        if !live.is_provisional {
            return ContractAnswer::certain(false);
        }
        self.answer(catalog, record, live, |compared| {
            compared.state == ContractState::Pending
                || compared.drift.iter().any(|drift| drift.class > DriftClass::Cosmetic)
        })
    }

    /// Answers from the last comparison of an agent's card. A card that was not compared yet is left
    /// to the next check.
    fn is_card_broken(
        &self,
        catalog: &Catalog,
        record: &Record,
        live: LiveTools<'_>,
    ) -> ContractAnswer {
        let (key, inputs) = (record.document.key(), card::inputs(record, live));
        if let Some(compared) = self.find(key, &inputs) {
            return ContractAnswer::certain(compared.is_broken);
        }
        let Some(seen) = card::fingerprint(live) else {
            let found = card::compare(catalog, record, live);
            let compared = self.compared(catalog, record, (inputs, found));
            return ContractAnswer::certain(compared.is_broken);
        };
        let mut known = self.lock();
        known.has_waiting_callers = true;
        let holds = !known.pins.is_accepted(record, &seen)
            && known.compared.get(key).is_none_or(|(_, last)| last.is_broken);
        drop(known);
        self.recheck.notify_one();
        ContractAnswer { holds, is_provisional: true }
    }

    /// Answers on the caller's thread. A comparison of different schemas takes long and is left to
    /// the next check.
    fn answer(
        &self,
        catalog: &Catalog,
        record: &Record,
        live: LiveTools<'_>,
        holds: impl Fn(&ContractStatus) -> bool,
    ) -> ContractAnswer {
        let Some(comparison) = Comparison::new(catalog, record, live) else {
            return ContractAnswer::certain(false);
        };
        let (key, inputs) = (record.document.key(), comparison.inputs());
        if let Some(compared) = self.find(key, &inputs) {
            return ContractAnswer::certain(holds(&compared));
        }
        let Some(seen) = comparison.with_other_schema() else {
            let compared = self.compared(catalog, record, (inputs, comparison.compare()));
            return ContractAnswer::certain(holds(&compared));
        };
        let mut known = self.lock();
        known.wanted.insert(key.clone());
        known.has_waiting_callers = true;
        let holds = match known.compared.get(key) {
            _ if known.pins.is_accepted(record, &seen) => false,
            Some((_, last)) => holds(last),
            None => true,
        };
        drop(known);
        self.recheck.notify_one();
        ContractAnswer { holds, is_provisional: true }
    }

    /// Compares a tool or agent with the live definition, unless the inputs are unchanged. `None` for
    /// tools without a server.
    fn evaluate(
        &self,
        catalog: &Catalog,
        record: &Record,
        live: LiveTools<'_>,
    ) -> Option<Arc<ContractStatus>> {
        let key = record.document.key();
        // Compared without the lock: two threads may both compare, but neither waits.
        if key.kind == Kind::Agent {
            let inputs = card::inputs(record, live);
            let known = self.find(key, &inputs);
            let compare = || {
                let found = card::compare(catalog, record, live);
                self.compared(catalog, record, (inputs, found))
            };
            return Some(known.unwrap_or_else(compare));
        }
        let comparison = Comparison::new(catalog, record, live)?;
        let inputs = comparison.inputs();
        let known = self.find(key, &inputs);
        let compare = || self.compared(catalog, record, (inputs, comparison.compare()));
        Some(known.unwrap_or_else(compare))
    }

    /// Completes a comparison by the pins and keeps it.
    fn compared(
        &self,
        catalog: &Catalog,
        record: &Record,
        (inputs, found): (ComparisonInputs, ComparisonResult),
    ) -> Arc<ContractStatus> {
        let mut known = self.lock();
        let compared = Arc::new(known.pins.compare_with_pins(catalog, record, found));
        known.compared.insert(record.document.key().clone(), (inputs, compared.clone()));
        compared
    }

    fn find(&self, tool: &Key, inputs: &ComparisonInputs) -> Option<Arc<ContractStatus>> {
        let known = self.lock();
        let (of, compared) = known.compared.get(tool)?;
        (of == inputs).then(|| compared.clone())
    }

    /// Accepts a tool's live definition on behalf of an operator. Blocks on disk writes.
    pub fn accept(&self, tool: &Key, live: Digest) -> Result<(), NotAccepted> {
        let mut known = self.lock();
        let (_, compared) =
            known.compared.get(tool).ok_or_else(|| NotAccepted::Unknown(tool.clone()))?;
        let seen = compared.live.clone().ok_or_else(|| NotAccepted::Unknown(tool.clone()))?;
        if seen.digest() != live {
            return Err(NotAccepted::Another { tool: tool.clone(), live: seen.digest() });
        }
        let before = known.pins.accept(tool, seen);
        let before = before.ok_or_else(|| NotAccepted::Unknown(tool.clone()))?;
        drop(known);
        if let Err(error) = self.save() {
            self.lock().pins.restore(tool, before);
            return Err(error.into());
        }
        self.lock().compared.remove(tool);
        tracing::info!(%tool, %live, "the live definition of a tool or agent was accepted");
        // Makes callers evaluate the tool again.
        self.published.send_modify(|all| *all = Arc::new(Definitions::clone(all)));
        self.recheck.notify_one();
        Ok(())
    }

    /// Writes changed pins to disk.
    fn save(&self) -> std::io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        // The lock is taken first, so that later pins are written later.
        let file = file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(content) = self.lock().pins.take_unsaved() else { return Ok(()) };
        file.write(&content).inspect_err(|_| self.lock().pins.mark_unsaved())
    }

    /// The state of every tool with its findings.
    pub fn report(&self) -> ContractReport {
        let known = self.lock();
        let compared = known.compared.iter().map(|(tool, (_, compared))| (tool, &**compared));
        ContractReport::new(compared, &self.settings.load().rules, &self.observed)
    }

    fn lock(&self) -> MutexGuard<'_, ContractTable> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The path of the pins for a cache.
pub fn pins_path(cache: &Path) -> std::path::PathBuf {
    atomic_file::with_suffix(cache, ".pins")
}

/// Returns all registered schemas that a document refers to, directly or indirectly.
pub(crate) fn schemas_of(catalog: &Catalog, document: &Document) -> Vec<Arc<Document>> {
    let mut found: Vec<Arc<Document>> = Vec::new();
    let mut waiting = edges(document.entity());
    while let Some(key) = waiting.pop() {
        let is_new = key.kind == Kind::Schema && found.iter().all(|known| *known.key() != key);
        let Some(record) = catalog.find(&key).filter(|_| is_new) else { continue };
        waiting.extend(edges(record.document.entity()));
        found.push(record.document.clone());
    }
    found
}
