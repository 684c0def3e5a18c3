//! The sagas in memory: the histories of open sagas and the ends of the others.

mod held;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
};

use registry_core::Name;
use tokio::sync::watch;

use self::held::{Held, SHARE};
use super::{
    Ended, NotRetried,
    journal::{Entry, Found, Kept, What},
};
use crate::{
    Cause,
    clock::now_ms,
    history::{Began, End, Event, History, Status},
};

/// How long the end of a saga is kept, in milliseconds: 7 days.
const KEPT_MS: i64 = 7 * 24 * 60 * 60 * 1_000;
/// Maximum number of ended sagas.
const MOST: usize = 100_000;
/// Maximum total size of their ends, in bytes.
const MOST_BYTES: usize = 256 * 1024 * 1024;
/// Maximum number of ended sagas without an id. Only operators can look at them.
const MOST_NAMELESS: usize = 1_000;
/// The tool, the pointer of the saga in its spec, and the saga id.
type Named = (Name, String, String);

/// All sagas.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// The sagas by id. Ids sort by time.
    sagas: BTreeMap<Box<str>, Known>,
    named: HashMap<Named, Box<str>>,
    /// The open sagas per caller.
    shares: HashMap<Option<Box<str>>, Held>,
    /// The size of the settled sagas, in bytes.
    bytes: usize,
    /// The sagas whose successful end is on disk, the oldest first.
    settled: BTreeSet<Box<str>>,
    /// The settled sagas without a saga id.
    nameless: BTreeSet<Box<str>>,
    /// The number of damaged lines in the journal.
    pub(super) damaged: usize,
}

/// One saga.
#[derive(Debug)]
pub(super) struct Known {
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
    ended: watch::Sender<Option<Arc<End>>>,
}

fn name_of(began: &Began) -> Option<Named> {
    // All versions of a tool share the id space.
    let instance = began.instance.clone()?;
    Some((began.tool.name.clone(), began.pointer.clone(), instance))
}

impl Table {
    /// Builds the table from a journal.
    pub(super) fn of(found: Found) -> Self {
        let mut table = Self { damaged: found.damaged.len(), ..Self::default() };
        let mut doubtful = BTreeSet::new();
        for (i, (entry, bytes)) in found.entries.into_iter().enumerate() {
            let Entry { saga, at_ms, what } = entry;
            let (saga, line) = (Box::<str>::from(saga), (bytes, at_ms));
            if i < found.doubtful {
                doubtful.insert(saga.clone());
            } else {
                doubtful.remove(&saga);
            }
            match what {
                // In a rewritten journal, the first line of a saga can follow its history.
                What::Began(_) if table.sagas.contains_key(&saga) => {}
                What::Began(began) => table.begin(saga, began.into_owned(), line),
                What::Kept(history) => table.insert(saga, history.into_owned(), line),
                What::Event(event) => {
                    if table.apply(&saga, &event, line).is_none() {
                        table.damaged += 1;
                    }
                }
            }
        }
        for id in doubtful {
            if let Some(known) = table.sagas.get_mut(&id) {
                Arc::make_mut(&mut known.history).doubt();
            }
        }
        let ids: Vec<_> = table.sagas.keys().cloned().collect();
        for id in ids {
            table.mark_sent(&id, true);
            table.settle(&id);
        }
        table.sagas.values().for_each(Known::tell);
        table.forget();
        table
    }

    /// Adds a saga, with the length and the time of its line in the journal.
    pub(super) fn begin(&mut self, id: Box<str>, began: Began, line: (usize, i64)) {
        self.insert(id, History::new(began), line);
    }

    fn insert(&mut self, id: Box<str>, history: History, (bytes, at_ms): (usize, i64)) {
        if let Some(name) = name_of(history.began()) {
            self.named.insert(name, id.clone());
        }
        let (history, ended) = (Arc::new(history), watch::channel(None).0);
        let (last_bytes, all_bytes, is_settled, is_sent) = (bytes, bytes, false, false);
        let known = Known { history, at_ms, last_bytes, all_bytes, is_settled, is_sent, ended };
        self.count_in(&known);
        self.sagas.insert(id, known);
        self.forget();
    }

    fn count_in(&mut self, known: &Known) {
        if known.history.is_settled() {
            self.bytes = self.bytes.saturating_add(known.last_bytes);
            return;
        }
        let whose = known.history.began().principal.clone();
        self.shares.entry(whose).or_default().add(known.all_bytes);
    }

    fn count_out(&mut self, known: &Known) {
        if known.history.is_settled() {
            self.bytes = self.bytes.saturating_sub(known.last_bytes);
            return;
        }
        let whose = &known.history.began().principal;
        let Some(share) = self.shares.get_mut(whose) else { return };
        share.remove(known.all_bytes);
        if share.count == 0 {
            self.shares.remove(whose);
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
        self.count_out(&known);
        if known.history.keeps(event) {
            known.all_bytes += bytes;
        }
        Arc::make_mut(&mut known.history).apply(event);
        (known.at_ms, known.last_bytes) = (at_ms, bytes);
        self.count_in(&known);
        self.sagas.insert(id.into(), known);
        Some(())
    }

    /// Sets whether the disk may have entries of a saga. Returns the previous value.
    pub(super) fn mark_sent(&mut self, id: &str, is_sent: bool) -> bool {
        let known = self.sagas.get_mut(id);
        known.is_some_and(|known| std::mem::replace(&mut known.is_sent, is_sent))
    }

    /// Records that all entries of a saga are on disk.
    pub(super) fn settle(&mut self, id: &str) {
        let Some(known) = self.sagas.get_mut(id).filter(|known| known.history.is_settled()) else {
            return;
        };
        Arc::make_mut(&mut known.history).settle();
        known.is_settled = true;
        self.settled.insert(id.into());
        if known.history.began().instance.is_none() {
            self.nameless.insert(id.into());
        }
    }

    /// Returns the completion of the saga with the same id. A compensated saga frees its id once
    /// its end is on disk.
    pub(super) fn find(&self, began: &Began) -> Option<Ended> {
        let known = self.sagas.get(self.named.get(&name_of(began)?)?)?;
        let was_undone = known.history.ended().is_some_and(|e| e.status == Status::Compensated);
        (!was_undone || !known.is_settled).then(|| known.ended.subscribe())
    }

    /// Checks the limits of open sagas, in total and per caller. Inner sagas are always admitted
    /// and do not count.
    pub(super) fn check_room(&self, began: &Began) -> Result<(), Cause> {
        if began.parent.is_some() {
            return Ok(());
        }
        let own = self.shares.get(&began.principal).copied().unwrap_or_default();
        let whose = match (Held::of_all(self.shares.values()).is_full(1), own.is_full(SHARE)) {
            (false, false) => return Ok(()),
            (true, _) => "",
            (false, true) => " of this caller",
        };
        Err(Cause::TooManySagas { whose })
    }

    /// Starts the retry of failed compensations. Returns the history before.
    pub(super) fn claim(&mut self, id: &str) -> Result<Arc<History>, NotRetried> {
        let known = self.get(id).ok_or_else(|| NotRetried::Unknown(id.to_owned()))?;
        let before = match known.history.ended() {
            None => return Err(NotRetried::UnderWay(id.to_owned())),
            Some(end) if end.status == Status::CompensationFailed => Arc::clone(&known.history),
            Some(_) => return Err(NotRetried::Settled(id.to_owned())),
        };
        // Applied at once, so that a concurrent retry is rejected.
        self.apply(id, &Event::Again, (0, now_ms()));
        Ok(before)
    }

    /// Undoes [`Self::claim`].
    pub(super) fn restore(&mut self, id: &str, before: Arc<History>) {
        if let Some(known) = self.sagas.get_mut(id) {
            known.history = before;
        }
    }

    /// Removes a saga without effects and without entries on disk.
    pub(super) fn abandon(&mut self, id: &str, end: End) {
        self.apply(id, &Event::Ended(end), (0, now_ms()));
        if let Some(known) = self.get(id) {
            known.tell();
        }
        self.remove(id);
    }

    /// Evicts the oldest settled sagas beyond the limits.
    fn forget(&mut self) {
        let now = now_ms();
        while let Some((id, known)) =
            self.settled.first().and_then(|id| self.sagas.get_key_value(id))
        {
            let is_old = now.saturating_sub(known.at_ms) > KEPT_MS;
            let is_much = self.settled.len() > MOST || self.bytes > MOST_BYTES;
            if !is_old && !is_much {
                break;
            }
            self.remove(&id.clone());
        }
        while self.nameless.len() > MOST_NAMELESS
            && let Some(id) = self.nameless.first().cloned()
        {
            self.remove(&id);
        }
    }

    fn remove(&mut self, id: &str) {
        self.settled.remove(id);
        self.nameless.remove(id);
        let Some(known) = self.sagas.remove(id) else { return };
        self.count_out(&known);
        if let Some(name) = name_of(known.history.began())
            && self.named.get(&name).is_some_and(|named| **named == *id)
        {
            self.named.remove(&name);
        }
    }

    pub(super) fn get(&self, id: &str) -> Option<&Known> {
        self.sagas.get(id)
    }

    /// The running sagas directly inside this one. All of them started later.
    pub(super) fn inside_of(&self, id: &str) -> Vec<Ended> {
        let later = self.sagas.range::<str, _>((Bound::Excluded(id), Bound::Unbounded));
        let is_inner = |known: &Known| {
            known.history.ended().is_none() && known.history.began().parent.as_deref() == Some(id)
        };
        later.filter(|(_, known)| is_inner(known)).map(|(_, known)| known.subscribe()).collect()
    }

    /// Open sagas first, then settled ones; the newest of each first.
    pub(super) fn by_need(&self) -> impl Iterator<Item = (&str, &Known)> {
        let settled =
            |is: bool| self.iter().rev().filter(move |(_, k)| k.history.is_settled() == is);
        settled(false).chain(settled(true))
    }

    /// The sagas for a rewritten journal: those that the current one may have.
    pub(super) fn kept(&self) -> Vec<Kept> {
        let kept = |(id, known): (&str, &Known)| {
            let (saga, history) = (id.into(), Arc::clone(&known.history));
            Kept { saga, at_ms: known.at_ms, history }
        };
        self.iter().filter(|(_, known)| known.is_sent).map(kept).collect()
    }

    /// All sagas, the oldest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &Known)> {
        self.sagas.iter().map(|(id, known)| (&**id, known))
    }
}

impl Known {
    pub(super) fn subscribe(&self) -> Ended {
        self.ended.subscribe()
    }

    /// Notifies waiting callers of the end, or of a new run.
    pub(super) fn tell(&self) {
        self.ended.send_replace(self.history.ended().cloned().map(Arc::new));
    }
}

#[cfg(test)]
mod tests;
