//! Who follows this server, and how far each has come.
//!
//! Deliberately absent: followers of other servers, and those that have left.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use registry_core::{Revision, Timestamp};
use registry_proto::convert::Nack;

use super::{Error, Hello, Signal};

/// Everybody who follows.
#[derive(Debug)]
pub struct Roster {
    seats: Seats,
    limit: usize,
    next: AtomicU64,
}

type Seats = Arc<Mutex<BTreeMap<u64, Arc<State>>>>;

/// A follower's place on the roster; when the last clone goes, so does the follower.
#[derive(Debug)]
pub(super) struct Seat {
    number: u64,
    seats: Seats,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    gateway: String,
    gateway_version: String,
    principal: Arc<str>,
    address: Option<SocketAddr>,
    connected_at: Timestamp,
    sent: AtomicU64,
    applied: AtomicU64,
    persisted: AtomicU64,
    nack: Mutex<Option<Nack>>,
}

/// A follower as it is at the moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Follower {
    /// Its name.
    pub gateway: String,
    /// Its software version.
    pub gateway_version: String,
    /// As whom it is authenticated.
    pub principal: Arc<str>,
    /// From where it comes.
    pub address: Option<SocketAddr>,
    /// Since when.
    pub connected_at: Timestamp,
    /// The last revision that was sent to it.
    pub sent: Revision,
    /// The last that it applied.
    pub applied: Revision,
    /// The last on its disk.
    pub persisted: Revision,
    /// Its last refusal, if it applied nothing since.
    pub nack: Option<Nack>,
}

impl Roster {
    pub(super) fn new(limit: usize) -> Self {
        Self { seats: Arc::default(), limit, next: AtomicU64::new(0) }
    }

    /// Everybody, by name.
    pub fn followers(&self) -> Vec<Follower> {
        let states: Vec<_> = lock(&self.seats).values().cloned().collect();
        let mut followers: Vec<_> = states.iter().map(|state| state.now()).collect();
        followers.sort_by(|a, b| (&a.gateway, a.connected_at).cmp(&(&b.gateway, b.connected_at)));
        followers
    }

    /// How many follow.
    pub fn len(&self) -> usize {
        lock(&self.seats).len()
    }

    /// Whether nobody follows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn seat(&self, hello: &Hello, now: Timestamp) -> Result<Arc<Seat>, Error> {
        let state = Arc::new(State {
            gateway: hello.gateway.clone(),
            gateway_version: hello.gateway_version.clone(),
            principal: hello.principal.clone(),
            address: hello.address,
            connected_at: now,
            sent: AtomicU64::new(0),
            applied: AtomicU64::new(0),
            persisted: AtomicU64::new(0),
            nack: Mutex::new(None),
        });
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut seats = lock(&self.seats);
        if seats.len() >= self.limit {
            return Err(Error::TooManyStreams { limit: self.limit });
        }
        seats.insert(number, state.clone());
        Ok(Arc::new(Seat { number, seats: self.seats.clone(), state }))
    }
}

impl Seat {
    /// The follower has come back with what it had.
    pub(super) fn resumed(&self, revision: Revision) {
        self.sent(revision);
        self.state.applied.store(revision.0, Ordering::Relaxed);
    }

    pub(super) fn sent(&self, revision: Revision) {
        self.state.sent.store(revision.0, Ordering::Relaxed);
    }

    pub(super) fn note(&self, signal: Signal) -> Result<(), Error> {
        match signal {
            Signal::Ack { applied, persisted } => {
                let sent = Revision(self.state.sent.load(Ordering::Relaxed));
                let acknowledged = applied.max(persisted);
                if acknowledged > sent {
                    return Err(Error::NotSent { acknowledged, sent });
                }
                self.state.applied.store(applied.0, Ordering::Relaxed);
                self.state.persisted.store(persisted.0, Ordering::Relaxed);
                *lock(&self.state.nack) = None;
            }
            // The stream itself is asked.
            Signal::Scope(_) => {}
            Signal::Nack(nack) => {
                crate::metrics::nack();
                let before = lock(&self.state.nack).replace(nack.clone());
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
        Ok(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.seats).remove(&self.number);
    }
}

impl State {
    fn now(&self) -> Follower {
        let load = |revision: &AtomicU64| Revision(revision.load(Ordering::Relaxed));
        Follower {
            gateway: self.gateway.clone(),
            gateway_version: self.gateway_version.clone(),
            principal: self.principal.clone(),
            address: self.address,
            connected_at: self.connected_at,
            sent: load(&self.sent),
            applied: load(&self.applied),
            persisted: load(&self.persisted),
            nack: lock(&self.nack).clone(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
