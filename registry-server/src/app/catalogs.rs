//! The catalog now and at any point in history.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use registry_core::{Catalog, PointInTime, Revision, Timestamp};
use tokio::{sync::OnceCell, time::timeout};

use super::{ReadError, concurrency::ConcurrencyLimit, run_blocking};
use crate::{clock::Clock, feed::Hub, store::Store};

/// The longest wait for a revision that another server has committed.
pub const REVISION_WAIT: Duration = Duration::from_secs(5);

/// The number of cached catalogs of the past.
const KEPT: usize = 4;

/// The number of catalogs of the past that load at the same time: each costs in proportion to the whole
/// catalog.
const LOADS: usize = 2;

/// Reads catalogs: the present one from memory, those of the past from the log.
///
/// The last requested catalogs of the past are cached. Concurrent requests for one revision load it
/// once, and requests for cached revisions never wait.
pub struct Catalogs {
    hub: Arc<Hub>,
    store: Store,
    clock: Arc<dyn Clock>,
    kept: Mutex<VecDeque<(Revision, Arc<Cell>)>>,
    loads: ConcurrencyLimit,
}

/// A cached catalog, or one that is loading.
type Cell = OnceCell<Arc<Catalog>>;

impl Catalogs {
    /// The catalogs of this registry.
    pub fn new(hub: Arc<Hub>, store: Store, clock: Arc<dyn Clock>) -> Self {
        Self { hub, store, clock, kept: Mutex::default(), loads: ConcurrencyLimit::new(LOADS) }
    }

    /// The current catalog.
    pub fn now(&self) -> Arc<Catalog> {
        self.hub.catalog()
    }

    /// Waits until this server has applied a revision.
    pub async fn reach(&self, wanted: Revision) -> Result<(), ReadError> {
        let mut head = self.hub.watch();
        if *head.borrow() >= wanted {
            return Ok(());
        }
        self.hub.request_refresh(Some(wanted));
        match timeout(REVISION_WAIT, head.wait_for(|head| *head >= wanted)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => {
                Err(ReadError::NotReached { wanted, head: self.now().revision() })
            }
        }
    }

    /// The catalog at a point in history. `None` is the present.
    pub async fn at(&self, at: Option<PointInTime>) -> Result<Arc<Catalog>, ReadError> {
        let now = self.now();
        let wanted = self.revision_until(now.revision(), at).await?;
        if wanted == now.revision() {
            return Ok(now);
        }
        let cell = self.cell(wanted);
        cell.get_or_try_init(|| self.rewound(now, wanted)).await.cloned()
    }

    /// The revision at a point in history. `None` is the present.
    pub async fn revision_at(&self, at: Option<PointInTime>) -> Result<Revision, ReadError> {
        self.revision_until(self.now().revision(), at).await
    }

    async fn revision_until(
        &self,
        head: Revision,
        at: Option<PointInTime>,
    ) -> Result<Revision, ReadError> {
        match at {
            None => Ok(head),
            Some(PointInTime::Revision(wanted)) if wanted > head => {
                Err(ReadError::Ahead { wanted, head })
            }
            Some(PointInTime::Revision(revision)) => Ok(revision),
            Some(PointInTime::Time(wanted)) if wanted > end_of_day(self.clock.now()) => {
                Err(ReadError::Future { wanted, now: self.clock.now() })
            }
            Some(PointInTime::Time(time)) => Ok(self.store.revision_at(time).await?.min(head)),
        }
    }

    /// The cache entry of a revision, which becomes the last requested one.
    fn cell(&self, wanted: Revision) -> Arc<Cell> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|(revision, _)| *revision == wanted);
        let cell = found.and_then(|at| kept.remove(at)).map_or_else(Arc::default, |(_, cell)| cell);
        kept.truncate(KEPT - 1);
        kept.push_front((wanted, cell.clone()));
        cell
    }

    async fn rewound(
        &self,
        now: Arc<Catalog>,
        wanted: Revision,
    ) -> Result<Arc<Catalog>, ReadError> {
        let _turn = self.loads.take().await;
        let head = now.revision();
        let past = self.store.past(wanted).await?.ok_or(ReadError::Ahead { wanted, head })?;
        run_blocking(move || Arc::new(now.rewound(past.position, &past.changed, past.settings)))
            .await
    }
}

/// The last millisecond of the day, in UTC. A date means the end of that day, so the end of today is not
/// in the future.
fn end_of_day(now: Timestamp) -> Timestamp {
    const DAY: i64 = 24 * 60 * 60 * 1000;
    let days = now.as_millis().div_euclid(DAY);
    Timestamp::from_millis((days + 1) * DAY - 1)
}
