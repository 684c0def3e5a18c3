//! Who follows this server, and how far each has come.
//!
//! Deliberately absent: followers of other servers, and those that left longer ago than it takes to
//! note that (`memory.rs`).

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use registry_core::{Revision, Timestamp};
use registry_proto::convert::{CacheState, Nack};

use super::{
    Error, Hello, Signal,
    changes::{Changes, Mark},
};
use crate::{
    clock::Clock,
    store::{GatewayQuery, KnownGateway, Presence},
};

/// Most gateways whose refusals are remembered when they come again.
const REFUSALS: usize = 10_000;

/// Everybody who follows.
#[derive(Debug)]
pub struct Roster {
    shared: Arc<Shared>,
    limit: usize,
    next: AtomicU64,
}

struct Shared {
    server: Arc<str>,
    clock: Arc<dyn Clock>,
    seats: Mutex<BTreeMap<u64, Arc<State>>>,
    changes: Changes,
    /// The last refusals of those that have applied nothing since, by name and principal.
    refused: Mutex<HashMap<(String, Arc<str>), Nack>>,
}

/// A follower's place on the roster; when the last clone goes, so does the follower.
#[derive(Debug)]
pub(super) struct Seat {
    number: u64,
    shared: Arc<Shared>,
    state: Arc<State>,
}

/// One follower.
#[derive(Debug)]
pub(super) struct State {
    gateway: String,
    gateway_version: String,
    scope: String,
    principal: Arc<str>,
    address: Option<SocketAddr>,
    is_observer: bool,
    connected_at: Timestamp,
    sent: AtomicU64,
    applied: AtomicU64,
    persisted: AtomicU64,
    said: Mutex<Said>,
    left_at: OnceLock<Timestamp>,
    pub(super) mark: Mark,
}

/// What else it says of itself.
#[derive(Debug, Default)]
struct Said {
    cache: CacheState,
    nack: Option<Nack>,
}

impl Roster {
    pub(super) fn new(limit: usize, server: Arc<str>, clock: Arc<dyn Clock>) -> Self {
        let shared = Shared {
            server,
            clock,
            seats: Mutex::default(),
            changes: Changes::default(),
            refused: Mutex::default(),
        };
        Self { shared: Arc::new(shared), limit, next: AtomicU64::new(0) }
    }

    /// What this server calls itself.
    pub fn server(&self) -> &str {
        &self.shared.server
    }

    /// Those that follow and fit a query, by name and principal: at most its limit, each with what
    /// tells several of one name apart, which must be past this where they are of the query's place.
    pub fn page(&self, query: &GatewayQuery, past: u64) -> Vec<(u64, KnownGateway)> {
        let (gateway, principal) = &query.after;
        let after = (gateway.as_str(), principal.as_str(), past);
        let seats: Vec<_> = lock(&self.shared.seats).iter().map(|(n, s)| (*n, s.clone())).collect();
        let mut fitting: Vec<_> = seats.iter().filter(|(_, state)| state.fits(query)).collect();
        fitting.retain(|(number, state)| state.place(*number) > after);
        fitting.sort_by(|(a, left), (b, right)| left.place(*a).cmp(&right.place(*b)));
        let now = self.shared.clock.now();
        let page = fitting.into_iter().take(query.limit);
        page.map(|(number, state)| (number + 1, self.known(state, now))).collect()
    }

    /// Those that left and fit a query, of whom that is not noted yet.
    pub fn leavers(&self, query: &GatewayQuery) -> Vec<KnownGateway> {
        let now = self.shared.clock.now();
        let left = self.shared.changes.waiting(|state| {
            let place = (state.gateway.as_str(), &*state.principal);
            let after = (query.after.0.as_str(), query.after.1.as_str());
            state.left_at.get().is_some() && state.fits(query) && place > after
        });
        left.iter().map(|state| self.known(state, now)).collect()
    }

    /// All gateways that follow, by name and principal; since when the last of one name does.
    pub fn names(&self) -> HashMap<(String, String), Timestamp> {
        let followers = self.followers().into_iter();
        followers.map(|(key, state)| (key, state.connected_at)).collect()
    }

    /// How many follow.
    pub fn len(&self) -> usize {
        lock(&self.shared.seats).len()
    }

    /// Whether nobody follows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The last revision that all have applied, if there are any, and how many refuse the next one.
    pub fn slowest(&self) -> (Option<Revision>, usize) {
        let seats = lock(&self.shared.seats);
        let applied = seats.values().map(|state| load(&state.applied)).min();
        let refusing = seats.values().filter(|state| lock(&state.said).nack.is_some()).count();
        (applied, refusing)
    }

    pub(super) fn seat(&self, hello: &Hello) -> Result<Arc<Seat>, Error> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let key = (hello.gateway.clone(), hello.principal.clone());
        let nack = lock(&self.shared.refused).get(&key).cloned();
        let state = Arc::new(State {
            gateway: hello.gateway.clone(),
            gateway_version: hello.gateway_version.clone(),
            scope: hello.scope.clone(),
            principal: hello.principal.clone(),
            address: hello.address,
            is_observer: hello.is_observer,
            connected_at: self.shared.clock.now(),
            sent: AtomicU64::new(0),
            applied: AtomicU64::new(0),
            persisted: AtomicU64::new(0),
            said: Mutex::new(Said { nack, ..Said::default() }),
            left_at: OnceLock::new(),
            mark: Mark::default(),
        });
        let mut seats = lock(&self.shared.seats);
        if seats.len() >= self.limit {
            return Err(Error::TooManyStreams { limit: self.limit });
        }
        seats.insert(number, state.clone());
        drop(seats);
        self.shared.moved(&state);
        Ok(Arc::new(Seat { number, shared: self.shared.clone(), state }))
    }

    pub(super) fn changes(&self) -> &Changes {
        &self.shared.changes
    }

    /// All gateways that follow, by name and principal; of several of one name the last that came.
    pub(super) fn followers(&self) -> BTreeMap<(String, String), Arc<State>> {
        let seats = lock(&self.shared.seats);
        let gateways = seats.values().filter(|state| !state.is_observer);
        gateways.map(|state| (state.key(), state.clone())).collect()
    }

    /// What is known of one.
    pub(super) fn known(&self, state: &State, now: Timestamp) -> KnownGateway {
        let Said { cache, nack } = &*lock(&state.said);
        let left_at = state.left_at.get().copied();
        KnownGateway {
            gateway: state.gateway.clone(),
            principal: state.principal.to_string(),
            version: state.gateway_version.clone(),
            address: state.address.map(|address| address.to_string()).unwrap_or_default(),
            scope: state.scope.clone(),
            server: self.shared.server.to_string(),
            connected_at: state.connected_at,
            seen_at: left_at.unwrap_or(now),
            presence: if left_at.is_some() { Presence::Gone } else { Presence::Connected },
            sent: load(&state.sent),
            applied: load(&state.applied),
            persisted: load(&state.persisted),
            cache: cache.clone(),
            nack: nack.clone(),
        }
    }
}

impl Seat {
    /// The follower has come back with what it had.
    pub(super) fn resumed(&self, revision: Revision) {
        self.sent(revision);
        self.state.applied.store(revision.0, Ordering::Relaxed);
        let mut said = lock(&self.state.said);
        if said.nack.as_ref().is_some_and(|nack| nack.revision <= revision) {
            said.nack = None;
            lock(&self.shared.refused).remove(&self.state.refusal_key());
        }
    }

    pub(super) fn sent(&self, revision: Revision) {
        self.state.sent.store(revision.0, Ordering::Relaxed);
    }

    pub(super) fn note(&self, signal: Signal) -> Result<(), Error> {
        match signal {
            Signal::Ack { applied, persisted, cache } => {
                self.acknowledged(applied, persisted, cache)?;
            }
            Signal::Nack(nack) => self.refused(&nack),
        }
        if !self.state.is_observer {
            self.shared.changes.said(&self.state);
        }
        Ok(())
    }

    fn acknowledged(
        &self,
        applied: Revision,
        persisted: Revision,
        cache: CacheState,
    ) -> Result<(), Error> {
        let sent = load(&self.state.sent);
        let acknowledged = applied.max(persisted);
        if acknowledged > sent {
            return Err(Error::NotSent { acknowledged, sent });
        }
        let before = self.state.applied.swap(applied.0, Ordering::Relaxed);
        self.state.persisted.store(persisted.0, Ordering::Relaxed);
        let mut said = lock(&self.state.said);
        said.cache = cache;
        // What is only on its disk by now changes nothing about a refusal.
        if applied.0 > before && said.nack.take().is_some() {
            lock(&self.shared.refused).remove(&self.state.refusal_key());
        }
        Ok(())
    }

    fn refused(&self, nack: &Nack) {
        crate::metrics::nack();
        let mut refused = lock(&self.shared.refused);
        let key = self.state.refusal_key();
        if refused.len() < REFUSALS || refused.contains_key(&key) {
            refused.insert(key, nack.clone());
        }
        drop(refused);
        let before = lock(&self.state.said).nack.replace(nack.clone());
        // A gateway asks again and again; one line says so.
        if before.is_none_or(|before| before.revision != nack.revision) {
            tracing::warn!(
                gateway = self.state.gateway,
                revision = nack.revision.0,
                reason = nack.message,
                "a gateway refused a revision and keeps what it has"
            );
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let _ = self.state.left_at.set(self.shared.clock.now());
        lock(&self.shared.seats).remove(&self.number);
        self.shared.moved(&self.state);
    }
}

impl Shared {
    /// Somebody came or left.
    fn moved(&self, state: &Arc<State>) {
        if !state.is_observer {
            self.changes.came_or_left(state);
        }
    }
}

impl State {
    /// Its name and principal.
    pub(super) fn key(&self) -> (String, String) {
        (self.gateway.clone(), self.principal.to_string())
    }

    fn refusal_key(&self) -> (String, Arc<str>) {
        (self.gateway.clone(), self.principal.clone())
    }

    /// Where it is in a list, after what else is known of its name and principal.
    fn place(&self, number: u64) -> (&str, &str, u64) {
        (&self.gateway, &self.principal, number + 1)
    }

    fn fits(&self, GatewayQuery { prefix, behind, presence, .. }: &GatewayQuery) -> bool {
        let is = if self.left_at.get().is_some() { Presence::Gone } else { Presence::Connected };
        !self.is_observer
            && self.gateway.starts_with(prefix)
            && behind.is_none_or(|behind| load(&self.applied) < behind)
            && presence.is_none_or(|presence| presence == is)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("server", &self.server).finish_non_exhaustive()
    }
}

fn load(revision: &AtomicU64) -> Revision {
    Revision(revision.load(Ordering::Relaxed))
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
