//! Sessions at an upstream that belong to one caller each.
//!
//! An upstream of both eras is spoken to in the caller's: whether it has the older one shows when
//! the first such caller comes. Deliberately absent: who the callers are; an id stands for one.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::value::RawValue;
use tokio::{
    sync::{OnceCell, oneshot},
    time::timeout,
};

use super::{Error, HttpLink, Phase, Session, listen};
use crate::upstream::request::Context;

/// How long a session may be idle before it gives way to a new one.
const IDLE: Duration = Duration::from_mins(30);
/// How long the first request of a session waits for the stream of the server's questions. There
/// are servers that answer the `GET` only when they have something to say.
const STREAM: Duration = Duration::from_secs(1);

/// All of them.
#[derive(Debug)]
pub(super) struct OwnSessions {
    table: Mutex<HashMap<Arc<str>, Entry>>,
    limit: usize,
    /// The upstream refused the older era.
    is_modern_only: AtomicBool,
}

#[derive(Debug)]
struct Entry {
    session: Arc<OnceCell<Arc<Session>>>,
    used: Instant,
}

impl OwnSessions {
    pub(super) fn new(limit: usize) -> Self {
        Self { table: Mutex::default(), limit, is_modern_only: AtomicBool::new(false) }
    }

    /// Nothing is known of the upstream any more.
    pub(super) fn reset(&self) {
        self.is_modern_only.store(false, Ordering::Relaxed);
    }

    /// Forgets a session, and says whether it was known.
    pub(super) fn forget(&self, session: &Arc<Session>) -> bool {
        let mut table = self.table();
        let before = table.len();
        table.retain(|_, entry| !entry.session.get().is_some_and(|s| Arc::ptr_eq(s, session)));
        table.len() < before
    }

    /// A caller's session, if it was opened.
    pub(super) fn find(&self, id: &str) -> Option<Arc<Session>> {
        self.table().get(id)?.session.get().cloned()
    }

    /// Takes out a caller's session.
    pub(super) fn remove(&self, id: &str) -> Option<Arc<Session>> {
        self.table().remove(id)?.session.get().cloned()
    }

    /// Takes out all.
    pub(super) fn drain(&self) -> Vec<Arc<Session>> {
        self.table().drain().filter_map(|(_, entry)| entry.session.get().cloned()).collect()
    }

    /// A caller's place, and the sessions that gave way to it.
    fn place(&self, id: &Arc<str>) -> (Arc<OnceCell<Arc<Session>>>, Vec<Arc<Session>>) {
        let mut table = self.table();
        let now = Instant::now();
        if let Some(entry) = table.get_mut(id) {
            entry.used = now;
            return (Arc::clone(&entry.session), Vec::new());
        }
        let mut gone = Vec::new();
        if table.len() >= self.limit {
            let idle = |entry: &Entry| now.duration_since(entry.used) > IDLE;
            let oldest = table.values().map(|entry| entry.used).min();
            let leaves = |entry: &Entry| idle(entry) || Some(entry.used) == oldest;
            table.retain(|_, entry| {
                let stays = !leaves(entry);
                gone.extend(entry.session.get().filter(|_| !stays).cloned());
                stays
            });
        }
        let session = Arc::new(OnceCell::new());
        table.insert(Arc::clone(id), Entry { session: Arc::clone(&session), used: now });
        (session, gone)
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Arc<str>, Entry>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session of a caller; the shared one where the upstream knows none.
pub(super) async fn session(
    link: &HttpLink,
    shared: &Arc<Session>,
    (id, context): (&Arc<str>, &Context),
) -> Result<Arc<Session>, Error> {
    if link.own.is_modern_only.load(Ordering::Relaxed) {
        return Ok(Arc::clone(shared));
    }
    let (place, gone) = link.own.place(id);
    for session in gone {
        link.end_in_background(&session);
    }
    match place.get_or_try_init(|| open(link, context)).await {
        Ok(session) => Ok(Arc::clone(session)),
        Err(error) => {
            link.own.table().remove(id);
            let is_refused = matches!(error, Error::Rpc { .. } | Error::Protocol { .. });
            if shared.is_legacy() || !is_refused {
                return Err(error);
            }
            link.own.is_modern_only.store(true, Ordering::Relaxed);
            Ok(Arc::clone(shared))
        }
    }
}

async fn open(link: &HttpLink, context: &Context) -> Result<Arc<Session>, Error> {
    let capabilities = context.capabilities.as_deref().map_or("{}", RawValue::get);
    let after_ms = link.way.client.limits().list_timeout_ms;
    let opened = timeout(Duration::from_millis(after_ms), link.initialize(capabilities)).await;
    let (session, _) = opened.unwrap_or(Err(Error::Timeout { phase: Phase::Connect, after_ms }))?;
    let session = Arc::new(session);
    if capabilities != "{}" {
        let (way, weak) = (Arc::clone(&link.way), Arc::downgrade(&session));
        let (answered, stream) = oneshot::channel();
        link.way.client.spawn(listen::own(way, (weak, session.ended()), answered));
        // What a server asks before the stream is there is lost.
        let _ = timeout(STREAM, stream).await;
    }
    Ok(session)
}
