//! The catalog as it was after an earlier revision or at an earlier time.
//!
//! Made from the present one, by taking away what came later; a few are kept, because who asks
//! once asks again. Deliberately absent: documents that were removed; nothing ever is.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use registry_core::{At, Catalog, Revision, Timestamp};
use tokio::sync::OnceCell;

use super::{App, beside, turns::Turns};
use crate::store;

/// How many catalogs of the past are kept.
const KEPT: usize = 4;

/// How many catalogs of the past are put together at once: each costs in proportion to the whole catalog.
const LOADS: usize = 2;

/// Catalogs of the past, the last requested first. Each revision is loaded once for all who wait for it,
/// and no revision waits for another one that is kept.
#[derive(Debug)]
pub struct Archive {
    kept: Mutex<VecDeque<(Revision, Arc<Cell>)>>,
    loads: Turns,
}

/// A catalog that is kept, or is being loaded.
type Cell = OnceCell<Arc<Catalog>>;

impl Default for Archive {
    fn default() -> Self {
        Self { kept: Mutex::default(), loads: Turns::new(LOADS) }
    }
}

impl Archive {
    /// The place of a revision, which becomes the last requested.
    fn cell(&self, wanted: Revision) -> Arc<Cell> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|(revision, _)| *revision == wanted);
        let cell = found.and_then(|at| kept.remove(at)).map_or_else(Arc::default, |(_, cell)| cell);
        kept.truncate(KEPT - 1);
        kept.push_front((wanted, cell.clone()));
        cell
    }
}

/// Why the past cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is no past.
    #[error("the registry is at revision {head}; there is no revision {wanted} yet")]
    Ahead {
        /// What was asked for.
        wanted: Revision,
        /// The last revision.
        head: Revision,
    },
    /// It is no past either.
    #[error("{wanted} is in the future: here it is {now}")]
    Future {
        /// What was asked for.
        wanted: Timestamp,
        /// The time here.
        now: Timestamp,
    },
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A bug here.
    #[error("the past could not be put together: {0}")]
    Internal(String),
}

impl App {
    /// The revision of a point in history, which the present one (`head`) has reached.
    pub async fn revision_at(&self, at: Option<At>, head: Revision) -> Result<Revision, Error> {
        match at {
            None => Ok(head),
            Some(At::Revision(wanted)) if wanted > head => Err(Error::Ahead { wanted, head }),
            Some(At::Revision(revision)) => Ok(revision),
            Some(At::Time(wanted)) if wanted > end_of_day(self.clock.now()) => {
                Err(Error::Future { wanted, now: self.clock.now() })
            }
            Some(At::Time(time)) => Ok(self.store.revision_at(time).await?.min(head)),
        }
    }

    /// The catalog of a point in history; without one, the present.
    pub async fn catalog_at(&self, at: Option<At>) -> Result<Arc<Catalog>, Error> {
        let now = self.catalog();
        let wanted = self.revision_at(at, now.revision()).await?;
        if wanted == now.revision() {
            return Ok(now);
        }
        let cell = self.archive.cell(wanted);
        cell.get_or_try_init(|| self.rewound(now, wanted)).await.cloned()
    }

    async fn rewound(&self, now: Arc<Catalog>, wanted: Revision) -> Result<Arc<Catalog>, Error> {
        let _turn = self.archive.loads.take().await;
        let head = now.revision();
        let past = self.store.past(wanted).await?.ok_or(Error::Ahead { wanted, head })?;
        let rewind = move || Arc::new(now.rewound(past.position, &past.changed, past.settings));
        beside(rewind, Error::Internal).await
    }
}

/// The last millisecond of the day, in UTC: a day stands for its end, and today may be asked for.
fn end_of_day(now: Timestamp) -> Timestamp {
    const DAY: i64 = 24 * 60 * 60 * 1000;
    let days = now.as_millis().div_euclid(DAY);
    Timestamp::from_millis((days + 1) * DAY - 1)
}
