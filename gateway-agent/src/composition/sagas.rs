//! All sagas that are known: those under way, those that need somebody, and for a while those that
//! have ended, so that a second call with the id of one gets its result.
//!
//! What happens is noted here and sent to the disk in one order. Deliberately absent: what a saga does
//! (`saga.rs`).

mod history;
mod journal;
mod log;
mod recovery;
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

pub use self::history::{End, Status, StepOutcome};
pub(crate) use self::recovery::{NotRetried, recover, retry};
pub(super) use self::{
    history::{Began, Event, History},
    log::Log,
};
use self::{
    journal::{Entry, Journal, What},
    table::Table,
};
use super::Cause;
use crate::files::beside;

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
    beside(cache, ".sagas")
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

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
