//! What tools promise, and whether their upstreams still say so: each registered tool against the
//! definition that its server lists now.
//!
//! What is registered of a tool is its contract; what the registration leaves open is pinned as
//! the upstream first said it. A definition that differs is classified, counted and reported, and
//! may be quarantined until a commit or a person accepts it. Schemas that differ are compared on
//! another thread (`keep.rs`), and callers get the last judgement meanwhile.

mod definition;
mod judge;
mod keep;
mod metric;
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
use gateway_policy::{CheckRules, Checks, Mode, ToolSelector};
use gateway_upstream::Definitions;
use registry_core::{Catalog, Digest, Document, Key, Kind, Record, edges::edges};
use tokio::sync::{Notify, watch};

pub use self::{
    definition::{Fingerprint, Part},
    judge::{Drift, DriftClass, Judgement, Live, State},
    observed::Observed,
    report::{Report, ToolReport},
};
use self::{
    judge::{Basis, Comparison},
    observed::AllObserved,
    pin::Pins,
    pin_file::PinFile,
};

/// What is known of every tool's contract.
#[derive(Debug, Default)]
pub struct Contracts {
    settings: ArcSwap<Settings>,
    known: Mutex<Known>,
    observed: AllObserved,
    /// `None`: the pins are kept in memory only.
    file: Option<Mutex<PinFile>>,
    /// The upstreams' definitions, once they were judged.
    passed: watch::Sender<Arc<Definitions>>,
    again: Notify,
}

/// The settings of contracts.
#[derive(Debug, Default)]
pub struct Settings {
    rules: CheckRules,
    /// The tools with limits of their own.
    limited: Vec<ToolSelector>,
}

impl Settings {
    /// Creates settings. `limited` are the tools with limits of their own.
    pub fn new(rules: CheckRules, limited: Vec<ToolSelector>) -> Self {
        Self { rules, limited }
    }
}

#[derive(Debug, Default)]
struct Known {
    pins: Pins,
    /// What was judged last, and of what.
    judged: BTreeMap<Key, (Basis, Arc<Judgement>)>,
    /// The requested tools that are not judged yet.
    wanted: BTreeSet<Key>,
    /// Whether a caller got a provisional answer since the last look.
    is_awaited: bool,
}

/// An answer about a tool's contract at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Whether it is so.
    pub is_so: bool,
    /// Whether the next look may answer otherwise. The definitions are published again after it.
    pub is_provisional: bool,
}

impl Answer {
    fn certain(is_so: bool) -> Self {
        Self { is_so, is_provisional: false }
    }
}

/// Why a definition is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum NotAccepted {
    /// Nothing that could be accepted.
    #[error("no definition of {0} is known; is it registered, and was its server reached?")]
    Unknown(Key),
    /// The upstream says something else by now.
    #[error("the definition of {tool} that its server gives now is {live}, not that one")]
    Another {
        /// The tool.
        tool: Key,
        /// What there is to accept.
        live: Digest,
    },
    /// It would not survive a restart.
    #[error("cannot write the pins: {0}")]
    Io(#[from] std::io::Error),
}

impl Contracts {
    /// By these settings, with the pins that are beside the cache.
    pub fn open(cache: &Path, settings: Settings, definitions: Arc<Definitions>) -> Self {
        let (file, pins) = PinFile::open(cache);
        let known = Known { pins, ..Known::default() };
        Self {
            settings: ArcSwap::from_pointee(settings),
            known: Mutex::new(known),
            file: Some(Mutex::new(file)),
            passed: watch::channel(definitions).0,
            ..Self::default()
        }
    }

    /// Goes on by another configuration.
    pub fn configure(&self, settings: Settings) {
        self.settings.store(Arc::new(settings));
        self.again.notify_one();
    }

    /// What is checked of a tool.
    pub fn checks(&self, tool: &Key) -> Checks {
        self.settings.load().rules.of(tool)
    }

    /// What was seen of a tool's calls.
    pub fn observed(&self, tool: &Key) -> Arc<Observed> {
        self.observed.of(tool)
    }

    /// The upstreams' definitions, each passed on once it was judged.
    pub fn definitions(&self) -> watch::Receiver<Arc<Definitions>> {
        self.passed.subscribe()
    }

    /// Whether calls of a tool are refused for what its server lists now. Without any judgement they
    /// are, unless a person has accepted exactly this definition.
    pub fn is_quarantined(&self, catalog: &Catalog, record: &Record, live: Live<'_>) -> Answer {
        if self.checks(record.document.key()).contract != Mode::Error {
            return Answer::certain(false);
        }
        self.answer(catalog, record, live, |judged| judged.is_broken)
    }

    /// Whether a tool is at the target of a lower version of its server, and that target lists
    /// something else than is registered, or was not listed yet. Other words alone do not count,
    /// because registrations may have their own. The configured mode does not count either.
    pub fn is_undeployed(&self, catalog: &Catalog, record: &Record, live: Live<'_>) -> Answer {
        if !live.is_provisional {
            return Answer::certain(false);
        }
        self.answer(catalog, record, live, |judged| {
            judged.state == State::Unheard
                || judged.drift.iter().any(|drift| drift.class > DriftClass::Cosmetic)
        })
    }

    /// Answers for callers, on their threads. Schemas that differ take a long comparison, which is
    /// left to the next look.
    fn answer(
        &self,
        catalog: &Catalog,
        record: &Record,
        live: Live<'_>,
        is_so: impl Fn(&Judgement) -> bool,
    ) -> Answer {
        let Some(comparison) = Comparison::new(catalog, record, live) else {
            return Answer::certain(false);
        };
        let (key, basis) = (record.document.key(), comparison.basis());
        if let Some(judged) = self.find(key, &basis) {
            return Answer::certain(is_so(&judged));
        }
        let Some(seen) = comparison.with_other_schema() else {
            return Answer::certain(is_so(&self.judged(record, (&comparison, basis))));
        };
        let mut known = self.lock();
        known.wanted.insert(key.clone());
        known.is_awaited = true;
        let is_so = match known.judged.get(key) {
            _ if known.pins.is_accepted(record, &seen) => false,
            Some((_, last)) => is_so(last),
            None => true,
        };
        drop(known);
        self.again.notify_one();
        Answer { is_so, is_provisional: true }
    }

    /// Judges a tool by what its server lists now; `None` where it has none. Compares only what was
    /// not compared before.
    fn judge(&self, catalog: &Catalog, record: &Record, live: Live<'_>) -> Option<Arc<Judgement>> {
        let comparison = Comparison::new(catalog, record, live)?;
        let basis = comparison.basis();
        let known = self.find(record.document.key(), &basis);
        Some(known.unwrap_or_else(|| self.judged(record, (&comparison, basis))))
    }

    fn judged(
        &self,
        record: &Record,
        (comparison, basis): (&Comparison<'_>, Basis),
    ) -> Arc<Judgement> {
        // Outside of the lock: two threads may do it twice, but none waits for it.
        let found = comparison.compare();
        let mut known = self.lock();
        let judged = Arc::new(known.pins.judge(comparison.catalog(), record, found));
        known.judged.insert(record.document.key().clone(), (basis, judged.clone()));
        judged
    }

    fn find(&self, tool: &Key, basis: &Basis) -> Option<Arc<Judgement>> {
        let known = self.lock();
        let (of, judged) = known.judged.get(tool)?;
        (of == basis).then(|| judged.clone())
    }

    /// Takes what a tool's server lists now for its contract, on a person's word. Writes to the
    /// disk, so it must not be called where nothing may block.
    pub fn accept(&self, tool: &Key, live: Digest) -> Result<(), NotAccepted> {
        let mut known = self.lock();
        let (_, judged) =
            known.judged.get(tool).ok_or_else(|| NotAccepted::Unknown(tool.clone()))?;
        let seen = judged.live.clone().ok_or_else(|| NotAccepted::Unknown(tool.clone()))?;
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
        self.lock().judged.remove(tool);
        tracing::info!(%tool, %live, "the upstream's definition of a tool was accepted");
        // Whoever lists or calls it looks again.
        self.passed.send_modify(|all| *all = Arc::new(Definitions::clone(all)));
        self.again.notify_one();
        Ok(())
    }

    /// Writes the pins, if the disk does not have them.
    fn save(&self) -> std::io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        // Whoever writes later has the later pins.
        let file = file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(content) = self.lock().pins.take_unsaved() else { return Ok(()) };
        file.write(&content).inspect_err(|_| self.lock().pins.note_unsaved())
    }

    /// How every tool is whose definition is looked at, and what was seen of its calls.
    pub fn report(&self) -> Report {
        let known = self.lock();
        let judged = known.judged.iter().map(|(tool, (_, judged))| (tool, &**judged));
        Report::new(judged, &self.settings.load().rules, &self.observed)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the pins are, for a cache.
pub fn pins_path(cache: &Path) -> std::path::PathBuf {
    crate::files::beside(cache, ".pins")
}

/// Returns every registered schema that a document refers to, directly or through other schemas.
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
