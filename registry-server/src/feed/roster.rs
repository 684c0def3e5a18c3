//! Who follows this server, and how far each has come.

mod refusals;
mod seat;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use registry_core::{Revision, Timestamp};

pub(super) use self::seat::{Seat, State};
use self::{refusals::Refusals, seat::Said};
use super::{
    Error, Hello,
    changes::{Changes, Mark},
};
use crate::{
    clock::Clock,
    store::{GatewayQuery, KnownGateway, Presence},
};

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
    refused: Mutex<Refusals>,
}

/// Those gateways that are behind the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slowest {
    /// The last revision that all have applied who have applied anything, if there are any.
    pub applied: Option<Revision>,
    /// Since when the first of those is there who have not, if there are any.
    pub begun_at: Option<Timestamp>,
    /// How many refuse what comes next.
    pub refusing: usize,
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
        let by_place = |(a, left): &&(u64, Arc<State>), (b, right): &&(u64, Arc<State>)| {
            left.place(*a).cmp(&right.place(*b))
        };
        if query.limit < fitting.len() {
            fitting.select_nth_unstable_by(query.limit, by_place);
            fitting.truncate(query.limit);
        }
        fitting.sort_unstable_by(by_place);
        let now = self.shared.clock.now();
        fitting.into_iter().map(|(number, state)| (number + 1, self.known(state, now))).collect()
    }

    /// Those that left and fit a query, of whom that is not noted yet.
    pub fn leavers(&self, query: &GatewayQuery) -> Vec<KnownGateway> {
        let now = self.shared.clock.now();
        let left = self.shared.changes.untold(|state| {
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

    /// Looks for those that are behind the most.
    pub fn slowest(&self) -> Slowest {
        let seats = lock(&self.shared.seats);
        let mut slowest = Slowest::default();
        for state in seats.values().filter(|state| !state.is_observer) {
            match load(&state.applied) {
                Revision(0) => slowest.begun_at = least(slowest.begun_at, state.connected_at),
                applied => slowest.applied = least(slowest.applied, applied),
            }
            slowest.refusing += usize::from(lock(&state.said).nack.is_some());
        }
        slowest
    }

    pub(super) fn seat(&self, hello: &Hello) -> Result<Arc<Seat>, Error> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let key = (hello.gateway.clone(), hello.principal.clone());
        let nack = lock(&self.shared.refused).get(&key).cloned().filter(|_| !hello.is_observer);
        let state = Arc::new(State {
            gateway: hello.gateway.clone(),
            gateway_version: hello.gateway_version.clone(),
            principal: hello.principal.clone(),
            address: hello.address,
            is_observer: hello.is_observer,
            connected_at: self.shared.clock.now(),
            sent: AtomicU64::new(0),
            applied: AtomicU64::new(0),
            persisted: AtomicU64::new(0),
            said: Mutex::new(Said { scope: seat::shown(&hello.scope), nack, ..Said::default() }),
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
        let Said { scope, cache, nack, .. } = &*lock(&state.said);
        let left_at = state.left_at.get().copied();
        KnownGateway {
            gateway: state.gateway.clone(),
            principal: state.principal.to_string(),
            version: state.gateway_version.clone(),
            address: state.address.map(|address| address.to_string()).unwrap_or_default(),
            scope: scope.clone(),
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

impl Shared {
    /// Somebody came or left.
    fn moved(&self, state: &Arc<State>) {
        if !state.is_observer {
            self.changes.came_or_left(state);
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("server", &self.server).finish_non_exhaustive()
    }
}

fn least<T: Ord>(so_far: Option<T>, next: T) -> Option<T> {
    so_far.into_iter().chain([next]).min()
}

fn load(revision: &AtomicU64) -> Revision {
    Revision(revision.load(Ordering::Relaxed))
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
