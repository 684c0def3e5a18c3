//! One saga's way into the journal.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot::Receiver;

use super::{
    Ended, Sagas, all_ended,
    journal::{Entry, What, Written},
};
use crate::history::{End, Event, History};

/// The sagas that ended.
const ENDED: &str = "gateway_sagas_total";

/// Tells the recorder what the metric means.
pub(super) fn describe_metrics() {
    metrics::describe_counter!(ENDED, "Sagas that ended, by how they did.");
}

/// Where one saga is noted.
#[derive(Debug)]
pub(crate) struct Log {
    sagas: Arc<Sagas>,
    id: Box<str>,
    /// Lines of what is known, which go to the disk with what comes next.
    pending: Mutex<Vec<u8>>,
}

impl Log {
    /// Of one that begins with these lines, or, without any, of one that the journal has.
    pub(crate) fn new(sagas: Arc<Sagas>, id: Box<str>, lines: Vec<u8>) -> Self {
        Self { sagas, id, pending: Mutex::new(lines) }
    }

    /// By what operators know it.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// What has happened to it.
    pub(crate) fn history(&self) -> Arc<History> {
        let table = self.sagas.lock();
        // It is open, and only what is settled is forgotten.
        Arc::clone(&table.get(&self.id).expect("an open saga is known").history)
    }

    /// Tells when it has ended.
    pub(crate) fn ended(&self) -> Ended {
        self.sagas.lock().get(&self.id).expect("an open saga is known").subscribe()
    }

    /// Waits until all sagas that it began itself have ended.
    pub(crate) async fn inner_ended(&self) {
        let inner = self.sagas.lock().inside_of(&self.id);
        all_ended(inner).await;
    }

    /// Notes what has happened; it goes to the disk with what is written next.
    pub(crate) fn note(&self, event: &Event) -> Written {
        let entry = self.entry(event);
        let bytes = entry.write(&mut self.pending())?;
        self.sagas.lock().apply(&self.id, event, (bytes, entry.at_ms));
        Ok(())
    }

    /// Notes what happens next, and waits until the disk has all of it.
    pub(crate) async fn write(&self, event: &Event) -> Written {
        let lines = self.pending().clone();
        let noted = lines.len();
        let (sent, was_sent) = self.send(lines, event)?;
        let written = sent.await;
        let written = written.unwrap_or_else(|_| Err("nobody writes it any more".to_owned()));
        match &written {
            Ok(()) => drop(self.pending().drain(..noted)),
            // What has happened goes with the next one; what was to happen has not.
            Err(_) => _ = self.sagas.lock().mark_sent(&self.id, was_sent),
        }
        written
    }

    /// Sends lines to the disk, and gives whether that has happened before.
    fn send(&self, mut lines: Vec<u8>, event: &Event) -> Result<(Receiver<Written>, bool), String> {
        let journal = self.sagas.journal.as_ref().ok_or("there is none")?;
        let entry = self.entry(event);
        let bytes = entry.write(&mut lines)?;
        let mut table = self.sagas.lock();
        table.apply(&self.id, event, (bytes, entry.at_ms));
        let was_sent = table.mark_sent(&self.id, true);
        // Under the lock: what is written anew and what follows it are in one order.
        let written = journal.append(lines);
        if journal.is_overgrown() {
            journal.replace(table.kept());
        }
        Ok((written, was_sent))
    }

    fn entry<'a>(&'a self, event: &'a Event) -> Entry<'a> {
        Entry::now(&self.id, What::Event(Cow::Borrowed(event)))
    }

    /// It is over, and whoever waits is told, once the disk knows.
    pub(crate) async fn end(&self, end: End) -> Written {
        let status = end.status.as_str();
        self.write(&Event::Ended(end)).await?;
        metrics::counter!(ENDED, "status" => status).increment(1);
        self.sagas.lock().settle(&self.id);
        self.tell();
        Ok(())
    }

    /// Whether the disk may have anything of it. Before that nothing is done.
    pub(crate) fn is_on_disk(&self) -> bool {
        self.sagas.lock().get(&self.id).is_some_and(|known| known.is_sent)
    }

    /// It is over, and was nothing.
    pub(crate) fn abandon(&self, end: End) {
        self.sagas.lock().abandon(&self.id, end);
    }

    /// What could not be undone is tried again; where that cannot be written, all is as it was before.
    pub(crate) async fn again(&self, before: Arc<History>) -> Written {
        let written = self.write(&Event::Again).await;
        if written.is_err() {
            self.sagas.lock().restore(&self.id, before);
        }
        written
    }

    /// Tells whoever waits how it ended.
    pub(crate) fn tell(&self) {
        if let Some(known) = self.sagas.lock().get(&self.id) {
            known.tell();
        }
    }

    fn pending(&self) -> MutexGuard<'_, Vec<u8>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
