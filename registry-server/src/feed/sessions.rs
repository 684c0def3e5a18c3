//! Sessions of the followers of this server.

mod rejections;
mod session;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use registry_core::{Revision, Timestamp};

pub(super) use self::session::{FollowerSession, FollowerState};
use self::{rejections::Rejections, session::Reports};
use super::{
    Error, Hello,
    pending_changes::{PendingChanges, QueuedFlag},
};
use crate::{
    clock::Clock,
    store::{GatewayQuery, GatewayRecord, Presence},
};

/// All follower sessions.
#[derive(Debug)]
pub struct FollowerSessions {
    inner: Arc<SessionsInner>,
    limit: usize,
    next: AtomicU64,
}

struct SessionsInner {
    server: Arc<str>,
    clock: Arc<dyn Clock>,
    sessions: Mutex<BTreeMap<u64, Arc<FollowerState>>>,
    changes: PendingChanges,
    rejected: Mutex<Rejections>,
}

/// Summary of the gateways that lag behind the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slowest {
    /// Lowest applied revision, of gateways that have applied any.
    pub applied: Option<Revision>,
    /// Earliest connection time of gateways that have applied nothing.
    pub begun_at: Option<Timestamp>,
    /// Number of gateways that rejected the next revision.
    pub rejecting: usize,
}

impl FollowerSessions {
    pub(super) fn new(limit: usize, server: Arc<str>, clock: Arc<dyn Clock>) -> Self {
        let inner = SessionsInner {
            server,
            clock,
            sessions: Mutex::default(),
            changes: PendingChanges::default(),
            rejected: Mutex::default(),
        };
        Self { inner: Arc::new(inner), limit, next: AtomicU64::new(0) }
    }

    /// Name of this server.
    pub fn server(&self) -> &str {
        &self.inner.server
    }

    /// A page of connected followers that match the query, by name and principal. Several sessions with the same
    /// key are ordered by number; those of the query's key must be above `past`.
    pub fn page(&self, query: &GatewayQuery, past: u64) -> Vec<(u64, GatewayRecord)> {
        let (gateway, principal) = &query.after;
        let after = (gateway.as_str(), principal.as_str(), past);
        let sessions: Vec<_> =
            lock(&self.inner.sessions).iter().map(|(n, s)| (*n, s.clone())).collect();
        let mut matching: Vec<_> =
            sessions.iter().filter(|(_, state)| state.matches(query)).collect();
        matching.retain(|(number, state)| state.sort_key(*number) > after);
        let by_key = |(a, left): &&(u64, Arc<FollowerState>),
                      (b, right): &&(u64, Arc<FollowerState>)| {
            left.sort_key(*a).cmp(&right.sort_key(*b))
        };
        if query.limit < matching.len() {
            matching.select_nth_unstable_by(query.limit, by_key);
            matching.truncate(query.limit);
        }
        matching.sort_unstable_by(by_key);
        let now = self.inner.clock.now();
        matching.into_iter().map(|(number, state)| (number + 1, self.row(state, now))).collect()
    }

    /// Followers that match the query and have left, if the database does not have that yet.
    pub fn departed(&self, query: &GatewayQuery) -> Vec<GatewayRecord> {
        let now = self.inner.clock.now();
        let left = self.inner.changes.unwritten(|state| {
            let sort_key = (state.gateway.as_str(), &*state.principal);
            let after = (query.after.0.as_str(), query.after.1.as_str());
            state.left_at.get().is_some() && state.matches(query) && sort_key > after
        });
        left.iter().map(|state| self.row(state, now)).collect()
    }

    /// Connected gateways by name and principal, with the time of the last connection.
    pub fn names(&self) -> HashMap<(String, String), Timestamp> {
        let followers = self.followers().into_iter();
        followers.map(|(key, state)| (key, state.connected_at)).collect()
    }

    /// Number of sessions.
    pub fn len(&self) -> usize {
        lock(&self.inner.sessions).len()
    }

    /// Whether there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Finds the gateways that lag behind the most.
    pub fn slowest(&self) -> Slowest {
        let sessions = lock(&self.inner.sessions);
        let mut slowest = Slowest::default();
        for state in sessions.values().filter(|state| !state.is_observer) {
            match load(&state.applied) {
                Revision(0) => slowest.begun_at = min_option(slowest.begun_at, state.connected_at),
                applied => slowest.applied = min_option(slowest.applied, applied),
            }
            slowest.rejecting += usize::from(lock(&state.reports).nack.is_some());
        }
        slowest
    }

    pub(super) fn open(&self, hello: &Hello) -> Result<Arc<FollowerSession>, Error> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let key = (hello.gateway.clone(), hello.principal.clone());
        let nack = lock(&self.inner.rejected).get(&key).cloned().filter(|_| !hello.is_observer);
        let state = Arc::new(FollowerState {
            gateway: hello.gateway.clone(),
            gateway_version: hello.gateway_version.clone(),
            principal: hello.principal.clone(),
            address: hello.address,
            is_observer: hello.is_observer,
            connected_at: self.inner.clock.now(),
            sent: AtomicU64::new(0),
            applied: AtomicU64::new(0),
            persisted: AtomicU64::new(0),
            reports: Mutex::new(Reports {
                scope: session::displayed(&hello.scope),
                nack,
                ..Reports::default()
            }),
            left_at: OnceLock::new(),
            queued_flag: QueuedFlag::default(),
        });
        let mut sessions = lock(&self.inner.sessions);
        if sessions.len() >= self.limit {
            return Err(Error::TooManyStreams { limit: self.limit });
        }
        sessions.insert(number, state.clone());
        drop(sessions);
        self.inner.connected_or_left(&state);
        Ok(Arc::new(FollowerSession { number, inner: self.inner.clone(), state }))
    }

    pub(super) fn changes(&self) -> &PendingChanges {
        &self.inner.changes
    }

    /// Connected gateways by name and principal; the last connection of a name counts.
    pub(super) fn followers(&self) -> BTreeMap<(String, String), Arc<FollowerState>> {
        let sessions = lock(&self.inner.sessions);
        let gateways = sessions.values().filter(|state| !state.is_observer);
        gateways.map(|state| (state.key(), state.clone())).collect()
    }

    /// Row of the database for a follower.
    pub(super) fn row(&self, state: &FollowerState, now: Timestamp) -> GatewayRecord {
        let Reports { scope, cache, nack, .. } = &*lock(&state.reports);
        let left_at = state.left_at.get().copied();
        GatewayRecord {
            gateway: state.gateway.clone(),
            principal: state.principal.to_string(),
            version: state.gateway_version.clone(),
            address: state.address.map(|address| address.to_string()).unwrap_or_default(),
            scope: scope.clone(),
            server: self.inner.server.to_string(),
            connected_at: state.connected_at,
            seen_at: left_at.unwrap_or(now),
            presence: if left_at.is_some() { Presence::Disconnected } else { Presence::Connected },
            sent: load(&state.sent),
            applied: load(&state.applied),
            persisted: load(&state.persisted),
            cache: cache.clone(),
            nack: nack.clone(),
        }
    }
}

impl SessionsInner {
    /// Queues a follower that connected or left.
    fn connected_or_left(&self, state: &Arc<FollowerState>) {
        if !state.is_observer {
            self.changes.connected_or_left(state);
        }
    }
}

impl fmt::Debug for SessionsInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionsInner").field("server", &self.server).finish_non_exhaustive()
    }
}

fn min_option<T: Ord>(so_far: Option<T>, next: T) -> Option<T> {
    so_far.into_iter().chain([next]).min()
}

fn load(revision: &AtomicU64) -> Revision {
    Revision(revision.load(Ordering::Relaxed))
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
