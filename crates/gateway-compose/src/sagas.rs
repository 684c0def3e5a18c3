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

use tokio::sync::watch;
use uuid::Uuid;

pub(super) use self::log::Log;
pub use self::summary::{SagaDetail, SagaList};
use self::{
    journal::{Entry, Journal, What},
    table::Table,
};
use crate::{
    Cause,
    history::{Began, End, History},
};

/// A saga that cannot be retried.
#[derive(Debug, thiserror::Error)]
pub enum NotRetried {
    /// The saga is unknown.
    #[error("there is no saga {0}")]
    Unknown(String),
    /// The saga has ended, and nothing is left to undo.
    #[error("the saga {0} has ended and nothing is left to undo")]
    Settled(String),
    /// The saga is running.
    #[error("the saga {0} is under way")]
    UnderWay(String),
    /// The retry cannot be written to the journal.
    #[error("the journal of sagas cannot be written: {0}")]
    Journal(String),
}

/// Tells how a saga ended, once it has.
pub(super) type Ended = watch::Receiver<Option<Arc<End>>>;

/// Waits until all of these have ended. Who does not tell any more is gone.
pub(super) async fn all_ended(sagas: Vec<Ended>) {
    for mut ended in sagas {
        let _ = ended.wait_for(Option::is_some).await;
    }
}

/// The sagas of this gateway.
#[derive(Debug, Default)]
pub struct Sagas {
    table: Mutex<Table>,
    /// `None`: there is none; then no saga begins.
    journal: Option<Journal>,
}

/// What there is for one that wants to begin a saga.
pub(super) enum Begun {
    /// It is the first with this id.
    First(Log),
    /// There is one, or was.
    Known(Ended),
}

/// Where the journal is: beside the cache, whose lock keeps other gateways out.
fn journal_path(cache: &Path) -> PathBuf {
    journal::beside(cache, ".sagas")
}

impl Sagas {
    /// Opens the journal beside this cache, and reads what it knows.
    pub fn open(cache: &Path) -> io::Result<Self> {
        log::describe_metrics();
        let (journal, found) = Journal::open(&journal_path(cache))?;
        let is_damaged = !found.damaged.is_empty();
        let table = Table::of(found);
        if is_damaged {
            // It is kept aside, and what is in doubt now is so at the next start.
            journal.replace(table.kept());
        }
        Ok(Self { table: Mutex::new(table), journal: Some(journal) })
    }

    /// Begins a saga, or finds the one with its id.
    pub(super) fn begin(self: &Arc<Self>, began: Began) -> Result<Begun, Cause> {
        if self.journal.is_none() {
            return Err(Cause::Journal("there is none".to_owned()));
        }
        // It grows with time.
        let (id, mut lines) = (Box::<str>::from(Uuid::now_v7().to_string()), Vec::new());
        let entry = Entry::now(&id, What::Began(Cow::Borrowed(&began)));
        let line = (entry.write(&mut lines).map_err(Cause::Journal)?, entry.at_ms);
        let mut table = self.lock();
        if let Some(ended) = table.find(&began) {
            return Ok(Begun::Known(ended));
        }
        table.check_room(&began)?;
        table.begin(id.clone(), began, line);
        drop(table);
        Ok(Begun::First(Log::new(Arc::clone(self), id, lines)))
    }

    /// The sagas that were under way when the journal ended.
    pub(super) fn interrupted(&self) -> Vec<Box<str>> {
        let table = self.lock();
        let open = table.iter().filter(|(_, known)| known.history.ended().is_none());
        open.map(|(id, _)| id.into()).collect()
    }

    /// Starts the retry of a saga, and returns its history.
    pub(super) fn claim(&self, id: &str) -> Result<Arc<History>, NotRetried> {
        self.lock().claim(id)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
