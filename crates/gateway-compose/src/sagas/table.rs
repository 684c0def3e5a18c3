//! The sagas in memory: the histories of open sagas and the ends of the others.

mod usage;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
};

use registry_core::Name;
use tokio::sync::watch;

use self::usage::{CALLER_FRACTION, Usage};
use super::{
    RetryError, SagaCompletion,
    journal::{Entry, EntryKind, JournalContent, SavedSaga},
};
use crate::{
    Cause,
    clock::now_ms,
    history::{Event, History, SagaEnd, SagaStart, SagaStatus},
};

/// How long the end of a saga is kept, in milliseconds: 7 days.
const KEPT_MS: i64 = 7 * 24 * 60 * 60 * 1_000;
/// Maximum number of ended sagas.
const MAX_SETTLED: usize = 100_000;
/// Maximum total size of their ends, in bytes.
const MAX_BYTES: usize = 256 * 1024 * 1024;
/// Maximum number of ended sagas without an id. Only operators can look at them.
const MAX_WITHOUT_ID: usize = 1_000;
/// The tool, the pointer of the saga in its spec, and the saga id.
type InstanceKey = (Name, String, String);

/// All sagas.
#[derive(Debug, Default)]
pub(super) struct SagaTable {
    /// The sagas by id. Ids sort by time.
    sagas: BTreeMap<Box<str>, SagaEntry>,
    by_instance: HashMap<InstanceKey, Box<str>>,
    /// The open sagas per caller.
    usage: HashMap<Option<Box<str>>, Usage>,
    /// The size of the settled sagas, in bytes.
    bytes: usize,
    /// The sagas whose successful end is on disk, the oldest first.
    settled: BTreeSet<Box<str>>,
    /// The settled sagas without a saga id.
    without_id: BTreeSet<Box<str>>,
    /// The number of damaged lines in the journal.
    pub(super) damaged: usize,
}

/// One saga.
#[derive(Debug)]
pub(super) struct SagaEntry {
    pub(super) history: Arc<History>,
    pub(super) at_ms: i64,
    /// The size of its last line in the journal, in bytes. A settled saga keeps only that.
    last_bytes: usize,
    /// The size of the lines whose values it keeps, in bytes.
    all_bytes: usize,
    /// Whether its end is on disk. Before that, a crash causes another compensation.
    is_settled: bool,
    /// Whether the disk may have entries of it.
    pub(super) is_sent: bool,
    ended: watch::Sender<Option<Arc<SagaEnd>>>,
}

fn instance_key(began: &SagaStart) -> Option<InstanceKey> {
    // All versions of a tool share the id space.
    let instance = began.instance.clone()?;
    Some((began.tool.name.clone(), began.pointer.clone(), instance))
}

impl SagaTable {
    /// Builds the table from a journal.
    pub(super) fn from_journal(content: JournalContent) -> Self {
        let mut table = Self { damaged: content.damaged.len(), ..Self::default() };
        let mut doubtful = BTreeSet::new();
        for (i, (entry, bytes)) in content.entries.into_iter().enumerate() {
            let Entry { saga, at_ms, what } = entry;
            let (saga, line) = (Box::<str>::from(saga), (bytes, at_ms));
            if i < content.doubtful {
                doubtful.insert(saga.clone());
            } else {
                doubtful.remove(&saga);
            }
            match what {
                // In a rewritten journal, the first line of a saga can follow its history.
                EntryKind::Started(_) if table.sagas.contains_key(&saga) => {}
                EntryKind::Started(began) => table.begin(saga, began.into_owned(), line),
                EntryKind::Saved(history) => table.insert(saga, history.into_owned(), line),
                EntryKind::Event(event) => {
                    if table.apply(&saga, &event, line).is_none() {
                        table.damaged += 1;
                    }
                }
            }
        }
        for id in doubtful {
            if let Some(known) = table.sagas.get_mut(&id) {
                Arc::make_mut(&mut known.history).mark_doubtful();
            }
        }
        let ids: Vec<_> = table.sagas.keys().cloned().collect();
        for id in ids {
            table.mark_sent(&id, true);
            table.mark_settled(&id);
        }
        table.sagas.values().for_each(SagaEntry::notify);
        table.evict();
        table
    }

    /// Adds a saga, with the length and the time of its line in the journal.
    pub(super) fn begin(&mut self, id: Box<str>, began: SagaStart, line: (usize, i64)) {
        self.insert(id, History::new(began), line);
    }

    fn insert(&mut self, id: Box<str>, history: History, (bytes, at_ms): (usize, i64)) {
        if let Some(name) = instance_key(history.began()) {
            self.by_instance.insert(name, id.clone());
        }
        let (history, ended) = (Arc::new(history), watch::channel(None).0);
        let (last_bytes, all_bytes, is_settled, is_sent) = (bytes, bytes, false, false);
        let known = SagaEntry { history, at_ms, last_bytes, all_bytes, is_settled, is_sent, ended };
        self.add_usage(&known);
        self.sagas.insert(id, known);
        self.evict();
    }

    fn add_usage(&mut self, known: &SagaEntry) {
        if known.history.is_settled() {
            self.bytes = self.bytes.saturating_add(known.last_bytes);
            return;
        }
        let whose = known.history.began().quota_key.clone();
        self.usage.entry(whose).or_default().add(known.all_bytes);
    }

    fn remove_usage(&mut self, known: &SagaEntry) {
        if known.history.is_settled() {
            self.bytes = self.bytes.saturating_sub(known.last_bytes);
            return;
        }
        let whose = &known.history.began().quota_key;
        let Some(share) = self.usage.get_mut(whose) else { return };
        share.remove(known.all_bytes);
        if share.count == 0 {
            self.usage.remove(whose);
        }
    }

    /// Applies an event, with the length and the time of its line in the journal. Returns `None`
    /// for an unknown saga.
    pub(super) fn apply(
        &mut self,
        id: &str,
        event: &Event,
        (bytes, at_ms): (usize, i64),
    ) -> Option<()> {
        let mut known = self.sagas.remove(id)?;
        self.remove_usage(&known);
        if known.history.keeps(event) {
            known.all_bytes += bytes;
        }
        Arc::make_mut(&mut known.history).apply(event);
        (known.at_ms, known.last_bytes) = (at_ms, bytes);
        self.add_usage(&known);
        self.sagas.insert(id.into(), known);
        Some(())
    }

    /// Sets whether the disk may have entries of a saga. Returns the previous value.
    pub(super) fn mark_sent(&mut self, id: &str, is_sent: bool) -> bool {
        let known = self.sagas.get_mut(id);
        known.is_some_and(|known| std::mem::replace(&mut known.is_sent, is_sent))
    }

    /// Records that all entries of a saga are on disk.
    pub(super) fn mark_settled(&mut self, id: &str) {
        let Some(known) = self.sagas.get_mut(id).filter(|known| known.history.is_settled()) else {
            return;
        };
        Arc::make_mut(&mut known.history).settle();
        known.is_settled = true;
        self.settled.insert(id.into());
        if known.history.began().instance.is_none() {
            self.without_id.insert(id.into());
        }
    }

    /// Returns the saga with the same id. A compensated saga frees its id once its end is on disk.
    pub(super) fn find(&self, began: &SagaStart) -> Option<&SagaEntry> {
        let known = self.sagas.get(self.by_instance.get(&instance_key(began)?)?)?;
        let was_undone = known.history.ended().is_some_and(|e| e.status == SagaStatus::Compensated);
        (!was_undone || !known.is_settled).then_some(known)
    }

    /// Checks the limits of open sagas, in total and per caller. Inner sagas are always admitted
    /// and do not count.
    pub(super) fn check_room(&self, began: &SagaStart) -> Result<(), Cause> {
        if began.parent.is_some() {
            return Ok(());
        }
        let own = self.usage.get(&began.quota_key).copied().unwrap_or_default();
        let whose =
            match (Usage::total(self.usage.values()).is_full(1), own.is_full(CALLER_FRACTION)) {
                (false, false) => return Ok(()),
                (true, _) => "",
                (false, true) => " of this caller",
            };
        Err(Cause::TooManySagas { whose })
    }

    /// Starts the retry of failed compensations. Returns the history before.
    pub(super) fn claim(&mut self, id: &str) -> Result<Arc<History>, RetryError> {
        let known = self.get(id).ok_or_else(|| RetryError::Unknown(id.to_owned()))?;
        let before = match known.history.ended() {
            None => return Err(RetryError::UnderWay(id.to_owned())),
            Some(end) if end.status == SagaStatus::CompensationFailed => Arc::clone(&known.history),
            Some(_) => return Err(RetryError::Settled(id.to_owned())),
        };
        // Applied at once, so that a concurrent retry is rejected.
        self.apply(id, &Event::RetryRequested, (0, now_ms()));
        Ok(before)
    }

    /// Undoes [`Self::claim`].
    pub(super) fn restore(&mut self, id: &str, before: Arc<History>) {
        if let Some(known) = self.sagas.get_mut(id) {
            known.history = before;
        }
    }

    /// Removes a saga without effects and without entries on disk.
    pub(super) fn abandon(&mut self, id: &str, end: SagaEnd) {
        self.apply(id, &Event::Ended(end), (0, now_ms()));
        if let Some(known) = self.get(id) {
            known.notify();
        }
        self.remove(id);
    }

    /// Evicts the oldest settled sagas beyond the limits.
    fn evict(&mut self) {
        let now = now_ms();
        while let Some((id, known)) =
            self.settled.first().and_then(|id| self.sagas.get_key_value(id))
        {
            let is_old = now.saturating_sub(known.at_ms) > KEPT_MS;
            let is_much = self.settled.len() > MAX_SETTLED || self.bytes > MAX_BYTES;
            if !is_old && !is_much {
                break;
            }
            self.remove(&id.clone());
        }
        while self.without_id.len() > MAX_WITHOUT_ID
            && let Some(id) = self.without_id.first().cloned()
        {
            self.remove(&id);
        }
    }

    fn remove(&mut self, id: &str) {
        self.settled.remove(id);
        self.without_id.remove(id);
        let Some(known) = self.sagas.remove(id) else { return };
        self.remove_usage(&known);
        if let Some(name) = instance_key(known.history.began())
            && self.by_instance.get(&name).is_some_and(|by_instance| **by_instance == *id)
        {
            self.by_instance.remove(&name);
        }
    }

    pub(super) fn get(&self, id: &str) -> Option<&SagaEntry> {
        self.sagas.get(id)
    }

    /// The running sagas directly inside this one. All of them started later.
    pub(super) fn children(&self, id: &str) -> Vec<SagaCompletion> {
        let later = self.sagas.range::<str, _>((Bound::Excluded(id), Bound::Unbounded));
        let is_inner = |known: &SagaEntry| {
            known.history.ended().is_none() && known.history.began().parent.as_deref() == Some(id)
        };
        later.filter(|(_, known)| is_inner(known)).map(|(_, known)| known.subscribe()).collect()
    }

    /// Open sagas first, then settled ones; the newest of each first.
    pub(super) fn by_urgency(&self) -> impl Iterator<Item = (&str, &SagaEntry)> {
        let settled =
            |is: bool| self.iter().rev().filter(move |(_, k)| k.history.is_settled() == is);
        settled(false).chain(settled(true))
    }

    /// The sagas for a rewritten journal: those that the current one may have.
    pub(super) fn saved(&self) -> Vec<SavedSaga> {
        let save = |(id, known): (&str, &SagaEntry)| {
            let (saga, history) = (id.into(), Arc::clone(&known.history));
            SavedSaga { saga, at_ms: known.at_ms, history }
        };
        self.iter().filter(|(_, known)| known.is_sent).map(save).collect()
    }

    /// All sagas, the oldest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &SagaEntry)> {
        self.sagas.iter().map(|(id, known)| (&**id, known))
    }
}

impl SagaEntry {
    pub(super) fn subscribe(&self) -> SagaCompletion {
        self.ended.subscribe()
    }

    /// Notifies waiting callers of the end, or of a new run.
    pub(super) fn notify(&self) {
        self.ended.send_replace(self.history.ended().cloned().map(Arc::new));
    }
}

#[cfg(test)]
mod tests;
