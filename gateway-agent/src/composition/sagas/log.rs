//! One saga's way into the journal.
//!
//! Deliberately absent: the journal itself.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot::Receiver;

use super::{
    Began, End, Ended, Event, History, JOURNAL_BYTES, Sagas, all_ended,
    journal::{Entry, Journal, What, Written},
    table::{Table, now_ms},
};

/// The sagas that ended.
const ENDED: &str = "gateway_sagas_total";

/// Tells the recorder what the metric means.
pub(super) fn describe_metrics() {
    metrics::describe_counter!(ENDED, "Sagas that ended, by how they did.");
}

/// Where one saga is noted.
#[derive(Debug)]
pub(in crate::composition) struct Log {
    sagas: Arc<Sagas>,
    id: Box<str>,
    /// What is known, and goes to the disk with what comes next.
    pending: Mutex<Vec<What>>,
}

impl Log {
    pub(super) fn new(sagas: Arc<Sagas>, id: Box<str>, began: Option<Began>) -> Self {
        let pending = began.into_iter().map(What::Began).collect();
        Self { sagas, id, pending: Mutex::new(pending) }
    }

    /// By what operators know it.
    pub(in crate::composition) fn id(&self) -> &str {
        &self.id
    }

    /// What has happened to it.
    pub(in crate::composition) fn history(&self) -> History {
        let table = self.sagas.lock();
        // It is open, and only what is settled is forgotten.
        table.get(&self.id).expect("an open saga is known").history.clone()
    }

    /// Tells when it has ended.
    pub(in crate::composition) fn ended(&self) -> Ended {
        self.sagas.lock().get(&self.id).expect("an open saga is known").subscribe()
    }

    /// Waits until all sagas that it began itself have ended.
    pub(in crate::composition) async fn inner_ended(&self) {
        let inner = self.sagas.lock().inside_of(&self.id);
        all_ended(inner).await;
    }

    /// Notes what has happened; it goes to the disk with what is written next.
    pub(in crate::composition) fn note(&self, event: Event) {
        self.sagas.lock().apply(&self.id, &event, now_ms());
        self.pending().push(What::Event(event));
    }

    /// Notes what happens next, and waits until the disk has all of it.
    pub(in crate::composition) async fn write(&self, event: Event) -> Written {
        let noted = std::mem::take(&mut *self.pending());
        let written = self.send(&noted, event)?.await;
        let written = written.unwrap_or_else(|_| Err("nobody writes it any more".to_owned()));
        if written.is_err() {
            // What has happened goes with the next one; what was to happen has not.
            self.pending().splice(0..0, noted);
        }
        written
    }

    fn send(&self, noted: &[What], event: Event) -> Result<Receiver<Written>, String> {
        let mut table = self.sagas.lock();
        let journal = self.sagas.journal.as_ref().ok_or("there is none")?;
        let at_ms = now_ms();
        table.apply(&self.id, &event, at_ms);
        let mut lines = Vec::new();
        for what in noted.iter().cloned().chain([What::Event(event)]) {
            let entry = Entry { saga: self.id.clone(), at_ms, what };
            entry.write(&mut lines).map_err(|error| error.to_string())?;
        }
        table.written += lines.len();
        // Under the lock: what is written anew and what follows it are in one order.
        let written = journal.append(lines);
        table.write_anew(journal);
        Ok(written)
    }

    /// It is over, and whoever waits is told, once the disk knows.
    pub(in crate::composition) async fn end(&self, end: End) -> Written {
        let status = end.status.as_str();
        self.write(Event::Ended(end)).await?;
        metrics::counter!(ENDED, "status" => status).increment(1);
        self.sagas.lock().settle(&self.id);
        self.tell();
        Ok(())
    }

    /// Whether the disk has anything of it. Before that nothing is done.
    pub(in crate::composition) fn is_on_disk(&self) -> bool {
        !self.pending().iter().any(|what| matches!(what, What::Began(_)))
    }

    /// It is over, and was nothing.
    pub(in crate::composition) fn abandon(&self, end: End) {
        self.sagas.lock().abandon(&self.id, end);
    }

    /// What could not be undone is tried again; where that cannot be written, it has ended as before.
    pub(super) async fn again(&self, end: End) -> Written {
        let written = self.write(Event::Again).await;
        if written.is_err() {
            self.note(Event::Ended(end));
        }
        written
    }

    /// Tells whoever waits how it ended.
    pub(in crate::composition) fn tell(&self) {
        if let Some(known) = self.sagas.lock().get(&self.id) {
            known.tell();
        }
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, Vec<What>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Has the journal replaced by what is still known, where it has grown to much more than that.
    fn write_anew(&mut self, journal: &Journal) {
        if self.written <= JOURNAL_BYTES + 2 * self.anew {
            return;
        }
        let mut content = Vec::new();
        for (id, known) in self.iter() {
            let what = What::Kept(known.history.clone());
            let entry = Entry { saga: id.into(), at_ms: known.at_ms, what };
            // What was written once can be written again.
            let _ = entry.write(&mut content);
        }
        (self.written, self.anew) = (0, content.len());
        journal.replace(content);
    }
}

#[cfg(test)]
mod tests;
