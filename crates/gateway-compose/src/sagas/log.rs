//! The journal entries of one saga.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot::Receiver;

use super::{
    SagaCompletion, Sagas, all_ended,
    journal::{Entry, EntryKind, Written},
};
use crate::history::{Event, History, SagaEnd};

const SAGAS_TOTAL: &str = "gateway_sagas_total";

pub(super) fn describe_metrics() {
    metrics::describe_counter!(SAGAS_TOTAL, "Sagas that ended, by status");
}

/// Writes the events of one saga to the table and the journal.
#[derive(Debug)]
pub(crate) struct SagaLog {
    sagas: Arc<Sagas>,
    id: Box<str>,
    /// Lines that are written with the next entry.
    pending: Mutex<Vec<u8>>,
}

impl SagaLog {
    /// Creates the log of a new saga with its first lines, or without lines of a saga in the
    /// journal.
    pub(crate) fn new(sagas: Arc<Sagas>, id: Box<str>, lines: Vec<u8>) -> Self {
        Self { sagas, id, pending: Mutex::new(lines) }
    }

    /// The id for operators.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn history(&self) -> Arc<History> {
        let table = self.sagas.lock();
        // Only ended sagas are evicted.
        Arc::clone(&table.get(&self.id).expect("an open saga is known").history)
    }

    pub(crate) fn ended(&self) -> SagaCompletion {
        self.sagas.lock().get(&self.id).expect("an open saga is known").subscribe()
    }

    /// Waits until the inner sagas have ended.
    pub(crate) async fn await_children(&self) {
        let inner = self.sagas.lock().children(&self.id);
        all_ended(inner).await;
    }

    /// Records an event. It is written to disk with the next entry.
    pub(crate) fn note(&self, event: &Event) -> Written {
        let entry = self.entry(event);
        let bytes = entry.write(&mut self.pending())?;
        self.sagas.lock().apply(&self.id, event, (bytes, entry.at_ms));
        Ok(())
    }

    /// Records an event and waits until it is on disk.
    pub(crate) async fn write(&self, event: &Event) -> Written {
        let lines = self.pending().clone();
        let noted = lines.len();
        let (sent, was_sent) = self.send(lines, event)?;
        let written = sent.await;
        let written = written.unwrap_or_else(|_| Err("the journal writer has stopped".to_owned()));
        match &written {
            Ok(()) => drop(self.pending().drain(..noted)),
            // The pending lines are written with the next entry; this event did not happen.
            Err(_) => _ = self.sagas.lock().mark_sent(&self.id, was_sent),
        }
        written
    }

    /// Queues lines for the disk. Returns whether lines of the saga were queued before.
    fn send(&self, mut lines: Vec<u8>, event: &Event) -> Result<(Receiver<Written>, bool), String> {
        let journal = self.sagas.journal.as_ref().ok_or("no journal is open")?;
        let entry = self.entry(event);
        let bytes = entry.write(&mut lines)?;
        let mut table = self.sagas.lock();
        table.apply(&self.id, event, (bytes, entry.at_ms));
        let was_sent = table.mark_sent(&self.id, true);
        // The lock keeps the order between the rewritten journal and the entries that follow it.
        let written = journal.append(lines);
        if journal.is_overgrown() {
            journal.replace(table.saved());
        }
        Ok((written, was_sent))
    }

    fn entry<'a>(&'a self, event: &'a Event) -> Entry<'a> {
        Entry::now(&self.id, EntryKind::Event(Cow::Borrowed(event)))
    }

    /// Records the end and notifies waiting callers once it is on disk.
    pub(crate) async fn end(&self, end: SagaEnd) -> Written {
        let status = end.status.as_str();
        self.write(&Event::Ended(end)).await?;
        metrics::counter!(SAGAS_TOTAL, "status" => status).increment(1);
        self.sagas.lock().mark_settled(&self.id);
        self.notify();
        Ok(())
    }

    /// Whether the disk may have entries of the saga. No step runs before.
    pub(crate) fn is_on_disk(&self) -> bool {
        self.sagas.lock().get(&self.id).is_some_and(|known| known.is_sent)
    }

    /// Ends a saga without any entry on disk.
    pub(crate) fn abandon(&self, end: SagaEnd) {
        self.sagas.lock().abandon(&self.id, end);
    }

    /// Records that an operator requested a retry. If that cannot be written, the state before is
    /// restored.
    pub(crate) async fn request_retry(&self, before: Arc<History>) -> Written {
        let written = self.write(&Event::RetryRequested).await;
        if written.is_err() {
            self.sagas.lock().restore(&self.id, before);
        }
        written
    }

    /// Notifies waiting callers.
    pub(crate) fn notify(&self) {
        if let Some(known) = self.sagas.lock().get(&self.id) {
            known.notify();
        }
    }

    fn pending(&self) -> MutexGuard<'_, Vec<u8>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
