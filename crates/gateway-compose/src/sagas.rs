//! All known sagas: those in progress, those that need an operator, and for a while those that have
//! ended, so that a second call with the same id gets the first result.
//!
//! Events are recorded here and written to the disk in one order.

mod journal;
mod log;
mod summary;
mod table;

use std::{
    borrow::Cow,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use atomic_file::with_suffix;
use tokio::sync::watch;
use uuid::Uuid;

pub(super) use self::log::SagaLog;
pub use self::summary::{SagaDetail, SagaList};
use self::{
    journal::{Entry, EntryKind, Journal},
    table::SagaTable,
};
use crate::{
    Cause, ResultOrigin,
    history::{History, SagaEnd, SagaStart},
};

/// A saga that cannot be retried.
#[derive(Debug, thiserror::Error)]
pub enum RetryError {
    /// The saga is unknown.
    #[error("unknown saga {0}")]
    Unknown(String),
    /// The saga has ended, and nothing is left to undo.
    #[error("saga {0} has ended and has no failed compensations")]
    Settled(String),
    /// The saga is running.
    #[error("saga {0} is still running")]
    UnderWay(String),
    /// The retry cannot be written to the journal.
    #[error("cannot write the saga journal: {0}")]
    Journal(String),
}

/// Resolves with the end of a saga.
pub(super) type SagaCompletion = watch::Receiver<Option<Arc<SagaEnd>>>;

/// Waits until all sagas have ended. A dropped sender counts as an end.
pub(super) async fn all_ended(sagas: Vec<SagaCompletion>) {
    for mut ended in sagas {
        let _ = ended.wait_for(Option::is_some).await;
    }
}

/// The sagas of this gateway.
#[derive(Debug, Default)]
pub struct Sagas {
    table: Mutex<SagaTable>,
    /// `None`: no saga can start.
    journal: Option<Journal>,
}

/// The result of starting a saga.
pub(super) enum StartResult {
    /// The saga is new.
    Started(SagaLog),
    /// A saga with the same id is running or has ended.
    Existing { ended: SagaCompletion, origin: Arc<ResultOrigin> },
}

/// The journal is next to the cache, whose lock excludes other gateways.
fn journal_path(cache: &Path) -> PathBuf {
    with_suffix(cache, ".sagas")
}

impl Sagas {
    /// Opens the journal next to the cache file and reads the sagas in it.
    pub fn open(cache: &Path) -> io::Result<Self> {
        log::describe_metrics();
        let (journal, content) = Journal::open(&journal_path(cache))?;
        let is_damaged = !content.damaged.is_empty();
        let table = SagaTable::from_journal(content);
        if is_damaged {
            // The damaged file was copied aside, and the rewritten one keeps the doubts of this
            // start.
            journal.replace(table.saved());
        }
        Ok(Self { table: Mutex::new(table), journal: Some(journal) })
    }

    /// Starts a saga, or returns the existing one with the same id.
    pub(super) fn begin(self: &Arc<Self>, began: SagaStart) -> Result<StartResult, Cause> {
        if self.journal.is_none() {
            return Err(Cause::Journal("no journal is open".to_owned()));
        }
        // Ids of version 7 sort by time.
        let (id, mut lines) = (Box::<str>::from(Uuid::now_v7().to_string()), Vec::new());
        let entry = Entry::now(&id, EntryKind::Started(Cow::Borrowed(&began)));
        let line = (entry.write(&mut lines).map_err(Cause::Journal)?, entry.at_ms);
        let mut table = self.lock();
        if let Some(known) = table.find(&began) {
            let origin = known.history.began().origin();
            return Ok(StartResult::Existing {
                ended: known.subscribe(),
                origin: Arc::new(origin),
            });
        }
        table.check_room(&began)?;
        table.begin(id.clone(), began, line);
        drop(table);
        Ok(StartResult::Started(SagaLog::new(Arc::clone(self), id, lines)))
    }

    /// The sagas without an end in the journal.
    pub(super) fn interrupted(&self) -> Vec<Box<str>> {
        let table = self.lock();
        let open = table.iter().filter(|(_, known)| known.history.ended().is_none());
        open.map(|(id, _)| id.into()).collect()
    }

    /// Starts the retry of a saga, and returns its history.
    pub(super) fn claim(&self, id: &str) -> Result<Arc<History>, RetryError> {
        self.lock().claim(id)
    }

    fn lock(&self) -> MutexGuard<'_, SagaTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
