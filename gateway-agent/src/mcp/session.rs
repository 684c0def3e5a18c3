//! Sessions of clients before 2026-07-28: a bounded table with idle expiry.
//!
//! A session is bound to what the headers said when it was opened; somebody else who got hold of
//! its id is told that it does not exist. When the table is full, the session that was idle longest
//! gives way, so that nobody can lock others out by opening many. Deliberately absent: keeping
//! sessions over a restart; clients open a new one on 404.

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use http::{HeaderMap, HeaderName};
use rustls::crypto::SecureRandom;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Rejection;
use crate::{
    audit::{Gauge, Held},
    identity::{ClientInfo, HeaderClaim},
};

/// The header that names the session.
pub(super) const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
/// How long a session may be idle.
const IDLE: Duration = Duration::from_mins(30);
/// Random bytes in an id.
const ID_BYTES: usize = 32;

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    claim: HeaderClaim,
    client: Option<Arc<ClientInfo>>,
    used_ms: AtomicU64,
    /// What the client last saw of its list; 0 before it asked.
    listed: AtomicU64,
    /// Counts event streams: only the newest one is served.
    streams: watch::Sender<u64>,
    calls: Mutex<HashMap<Box<str>, CancellationToken>>,
    _held: Held,
}

impl Session {
    /// Who the headers said that it is.
    pub(super) fn claim(&self) -> &HeaderClaim {
        &self.claim
    }

    /// What the client said that it is.
    pub(super) fn client(&self) -> Option<Arc<ClientInfo>> {
        self.client.clone()
    }

    /// Takes over the session's event stream; the one before ends.
    pub(super) fn take_stream(&self) -> watch::Receiver<u64> {
        self.streams.send_modify(|count| *count += 1);
        let mut stream = self.streams.subscribe();
        stream.mark_unchanged();
        stream
    }

    /// Remembers what the client saw, and gives what it saw before.
    pub(super) fn listed(&self, fingerprint: u64) {
        self.listed.store(fingerprint, Ordering::Relaxed);
    }

    /// What the client last saw.
    pub(super) fn last_listed(&self) -> Option<u64> {
        Some(self.listed.load(Ordering::Relaxed)).filter(|fingerprint| *fingerprint != 0)
    }

    /// Notes a call, so that it can be cancelled until what is returned is dropped.
    pub(super) fn begin(self: &Arc<Self>, id: &str) -> Running {
        let token = CancellationToken::new();
        self.calls().insert(id.into(), token.clone());
        Running { session: self.clone(), id: id.into(), token }
    }

    /// Cancels a call; one that is not running any more is ignored.
    pub(super) fn cancel(&self, id: &str) {
        if let Some(token) = self.calls().get(id) {
            token.cancel();
        }
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, HashMap<Box<str>, CancellationToken>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call under way in a session.
#[derive(Debug)]
pub(super) struct Running {
    session: Arc<Session>,
    id: Box<str>,
    token: CancellationToken,
}

impl Running {
    /// Resolves when the client cancels the call.
    pub(super) async fn cancelled(&self) {
        self.token.cancelled().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.session.calls().remove(&self.id);
    }
}

/// All sessions.
pub(super) struct Sessions {
    table: RwLock<HashMap<Box<str>, Arc<Session>>>,
    limit: usize,
    started: Instant,
    random: &'static dyn SecureRandom,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Sessions {
    pub(super) fn new(limit: usize) -> Self {
        let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
        Self { table: RwLock::default(), limit: limit.max(1), started: Instant::now(), random }
    }

    /// Opens a session and gives its id.
    pub(super) fn open(
        &self,
        claim: HeaderClaim,
        client: Option<Arc<ClientInfo>>,
    ) -> Result<String, Rejection> {
        let id = self.new_id()?;
        let session = Arc::new(Session {
            claim,
            client,
            used_ms: AtomicU64::new(self.now_ms()),
            listed: AtomicU64::new(0),
            streams: watch::channel(0).0,
            calls: Mutex::default(),
            _held: Gauge::Sessions.hold(),
        });
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if table.len() >= self.limit {
            self.make_room(&mut table);
        }
        table.insert(id.as_str().into(), session);
        Ok(id)
    }

    fn make_room(&self, table: &mut HashMap<Box<str>, Arc<Session>>) {
        table.retain(|_, session| !self.is_expired(session));
        if table.len() < self.limit {
            return;
        }
        let idle_longest =
            table.iter().min_by_key(|(_, session)| session.used_ms.load(Ordering::Relaxed));
        if let Some(id) = idle_longest.map(|(id, _)| id.clone()) {
            table.remove(&id);
        }
    }

    /// The session that a request names, if it is the sender's own.
    pub(super) fn find(
        &self,
        headers: &HeaderMap,
        claim: &HeaderClaim,
    ) -> Result<Arc<Session>, Rejection> {
        let mut ids = headers.get_all(&SESSION_HEADER).iter();
        let id = match (ids.next(), ids.next()) {
            (None, _) => return Err(Rejection::SessionRequired),
            (Some(id), None) => id.to_str().map_err(|_| Rejection::SessionUnknown)?,
            (Some(_), Some(_)) => return Err(Rejection::SessionUnknown),
        };
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let session = table.get(id).cloned().ok_or(Rejection::SessionUnknown)?;
        drop(table);
        if self.is_expired(&session) {
            self.remove(id);
            return Err(Rejection::SessionUnknown);
        }
        if session.claim != *claim {
            return Err(Rejection::SessionUnknown);
        }
        self.touch(&session);
        Ok(session)
    }

    /// Counts a session as used.
    pub(super) fn touch(&self, session: &Session) {
        session.used_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// Ends the session that a request names.
    pub(super) fn close(&self, headers: &HeaderMap, claim: &HeaderClaim) -> Result<(), Rejection> {
        self.find(headers, claim)?;
        if let Some(id) = headers.get(&SESSION_HEADER).and_then(|id| id.to_str().ok()) {
            self.remove(id);
        }
        Ok(())
    }

    fn remove(&self, id: &str) {
        self.table.write().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    fn is_expired(&self, session: &Session) -> bool {
        let used = Duration::from_millis(session.used_ms.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(used) > IDLE
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn new_id(&self) -> Result<String, Rejection> {
        let mut bytes = [0; ID_BYTES];
        self.random.fill(&mut bytes).map_err(|_| Rejection::NoRandomness)?;
        Ok(bytes.iter().fold(String::with_capacity(2 * ID_BYTES), |mut id, byte| {
            // Writing into a string cannot fail.
            let _ = write!(id, "{byte:02x}");
            id
        }))
    }
}
