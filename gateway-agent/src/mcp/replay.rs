//! Resumable event streams of sessions: the events of a request are kept for a limited time, so
//! that a client whose connection dropped can read the rest by `GET` with `Last-Event-ID`.
//!
//! The bytes of events, and the number of requests without a connection, are limited per caller. If
//! memory is needed, delivered events are evicted.

mod delivered;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use gateway_policy::{QuotaGuard, QuotaKey, QuotaKind, Quotas};
use gateway_protocol::jsonrpc::{self, ErrorObject, Id, code};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, sleep_until},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::delivered::Delivered;
use super::Rejection;
use crate::{
    ingress::event_stream,
    random::{NoRandomness, random_text},
};

/// How long a request continues without a connection, and its events are kept.
pub(super) const GRACE: Duration = Duration::from_mins(1);
/// Maximum requests without a connection. One caller can use a quarter.
const REQUESTS: usize = 256;
/// Maximum size of kept events, in bytes. One caller can use a quarter.
const BYTES: usize = 64 * 1024 * 1024;
/// Overhead per event, in bytes.
const OVERHEAD: usize = 1024;

#[derive(Debug)]
pub(super) struct Replays {
    table: Mutex<HashMap<Box<str>, Arc<Replay>>>,
    budget: Arc<ReplayBudget>,
    /// The tasks that run requests and keep their events.
    pub(super) tasks: TaskTracker,
    /// The running requests.
    pub(super) running: TaskTracker,
    /// Cancelled at shutdown.
    pub(super) stop: CancellationToken,
}

impl Default for Replays {
    fn default() -> Self {
        let (table, tasks, running, stop) = Default::default();
        Self { table, budget: Arc::new(ReplayBudget::new(REQUESTS, BYTES)), tasks, running, stop }
    }
}

impl Replays {
    /// Starts the stream of a request.
    pub(super) fn begin(
        &self,
        session: &Arc<str>,
        principal: &QuotaKey,
        request: Id<'_>,
    ) -> Result<Arc<Replay>, NoRandomness> {
        let number: Box<str> = random_text()?.into();
        let replay = Arc::new(Replay {
            number: number.clone(),
            session: session.clone(),
            principal: principal.clone(),
            budget: Arc::clone(&self.budget),
            dropped: dropped(request),
            state: Mutex::default(),
            changed: watch::channel(()).0,
        });
        self.table().insert(number, replay.clone());
        Ok(replay)
    }

    /// Resumes a stream of this session after an event.
    pub(super) fn resume(&self, session: &str, last_event: &str) -> Result<Reader, Rejection> {
        let found = last_event.rsplit_once('-').and_then(|(number, event)| {
            let replay = self.table().get(number).cloned()?;
            Some((replay, event.parse::<u64>().ok()?))
        });
        let found = found.filter(|(replay, _)| *replay.session == *session);
        found.and_then(|(replay, event)| replay.resume(event)).ok_or(Rejection::EventUnknown)
    }

    pub(super) fn end(&self, replay: &Replay) {
        self.table().remove(&replay.number);
        replay.forget();
    }

    /// Aborts the requests of a session that have no connection.
    pub(super) fn end_session(&self, session: &str) {
        for replay in self.table().values().filter(|replay| *replay.session == *session) {
            replay.abandon_detached();
        }
    }

    /// Waits until no request is running. Kept events do not count.
    pub(super) async fn drained(&self) {
        self.running.close();
        self.running.wait().await;
    }

    /// Cancels all requests, and waits for their end.
    pub(super) async fn shutdown(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Replay>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The limits of all streams, and of each caller.
#[derive(Debug)]
struct ReplayBudget {
    requests: (Arc<Semaphore>, Arc<Quotas>),
    bytes: (Arc<Semaphore>, Arc<Quotas>),
    /// Maximum bytes of one caller.
    own_bytes: usize,
    delivered: Mutex<Delivered>,
}

/// The exceeded limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BudgetExceeded {
    /// The caller's.
    Own,
    /// The one of all callers.
    All,
    /// The event alone exceeds the caller's limit.
    Never,
}

/// A reserved part of the budget, released on drop.
#[derive(Debug)]
struct Reservation {
    _all: OwnedSemaphorePermit,
    _own: QuotaGuard,
}

impl ReplayBudget {
    fn new(requests: usize, bytes: usize) -> Self {
        let of = |what, all| (Arc::new(Semaphore::new(all)), Quotas::new(what, all));
        Self {
            requests: of(QuotaKind::Detached, requests),
            bytes: of(QuotaKind::Events, bytes),
            own_bytes: bytes / 4,
            delivered: Mutex::default(),
        }
    }

    fn request(&self, principal: &QuotaKey) -> Option<Reservation> {
        part(&self.requests, principal, 1).ok()
    }

    fn bytes(&self, principal: &QuotaKey, message: &Bytes) -> Result<Reservation, BudgetExceeded> {
        let count = message.len() + OVERHEAD;
        if count > self.own_bytes {
            return Err(BudgetExceeded::Never);
        }
        part(&self.bytes, principal, count)
    }

    /// Evicts the oldest delivered stream. Returns whether one existed.
    fn evict(&self, principal: &QuotaKey, full: BudgetExceeded) -> bool {
        loop {
            let oldest = match full {
                BudgetExceeded::Own => self.delivered().pop_of(principal),
                BudgetExceeded::All => self.delivered().pop(),
                BudgetExceeded::Never => None,
            };
            match oldest {
                Some(replay) if replay.evict() => return true,
                Some(_) => {}
                None => return false,
            }
        }
    }

    fn delivered(&self) -> MutexGuard<'_, Delivered> {
        self.delivered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn part(
    (all, own): &(Arc<Semaphore>, Arc<Quotas>),
    requester: &QuotaKey,
    count: usize,
) -> Result<Reservation, BudgetExceeded> {
    let permits = u32::try_from(count).map_err(|_| BudgetExceeded::Never)?;
    let own = own.acquire_many(requester, count).map_err(|_| BudgetExceeded::Own)?;
    let all = Arc::clone(all).try_acquire_many_owned(permits).map_err(|_| BudgetExceeded::All)?;
    Ok(Reservation { _all: all, _own: own })
}

/// The error that replaces a response beyond the quota.
fn dropped(request: Id<'_>) -> Bytes {
    let mib = |bytes: usize| bytes / (1024 * 1024);
    let message = format!(
        "the response was dropped: the connection was lost, and at most {} MiB of events are kept \
         per caller ({} MiB for all callers). The outcome of the call is unknown. Repeat it if \
         that is safe, with fewer or smaller concurrent responses",
        mib(BYTES / 4),
        mib(BYTES)
    );
    let error = ErrorObject { code: code::INTERNAL_ERROR, message: message.into(), data: None };
    jsonrpc::error(Some(request), &error)
}

#[derive(Debug)]
pub(super) struct Replay {
    number: Box<str>,
    session: Arc<str>,
    principal: QuotaKey,
    budget: Arc<ReplayBudget>,
    dropped: Bytes,
    state: Mutex<State>,
    /// Notifies of every change of the state.
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<StoredEvent>,
    /// The number of the next event.
    next: u64,
    /// Incremented for each reader: only the newest one is served.
    reader_id: u64,
    /// The reader's next event.
    position: u64,
    /// All events before this one have reached the client, which requested a later one.
    delivered: u64,
    /// The stream's position among the delivered ones, if it is one.
    place: Option<u64>,
    connection: Connection,
    /// Whether the last event exists.
    is_complete: bool,
}

#[derive(Debug)]
struct StoredEvent {
    number: u64,
    message: Bytes,
    is_answer: bool,
    /// `None`: the event is kept only until it is sent.
    part: Option<Reservation>,
}

#[derive(Debug, Default)]
enum Connection {
    #[default]
    Attached,
    /// Since this time. A running request holds a part of the budget.
    Detached(Instant, Option<Reservation>),
    /// The request is aborted and its events are dropped.
    Abandoned,
}

impl Replay {
    /// Reads from an event on. An earlier reader ends: its connection is dead, even if the gateway
    /// has not noticed.
    pub(super) fn reader(self: &Arc<Self>, position: u64) -> Reader {
        self.attach(self.state(), position)
    }

    /// Reads after an event. `None`: the event is unknown, or the request was aborted.
    fn resume(self: &Arc<Self>, event: u64) -> Option<Reader> {
        let state = self.state();
        let is_there = event < state.next && !matches!(state.connection, Connection::Abandoned);
        is_there.then(|| self.attach(state, event + 1))
    }

    fn attach(self: &Arc<Self>, mut state: MutexGuard<'_, State>, position: u64) -> Reader {
        let signal = self.changed.subscribe();
        state.reader_id += 1;
        state.position = position;
        state.delivered = position;
        self.unlist(&mut state);
        if !matches!(state.connection, Connection::Abandoned) {
            state.connection = Connection::Attached;
        }
        let reader_id = state.reader_id;
        drop(state);
        self.changed.send_replace(());
        Reader { replay: self.clone(), id: reader_id, signal }
    }

    /// Adds an event. If no memory is left, sent events are dropped, and then `push` waits for the
    /// reader. An empty message is an event with only an id.
    pub(super) async fn push(&self, message: Bytes, is_answer: bool) {
        let mut signal = self.changed.subscribe();
        loop {
            let part = self.reserve(&message);
            if self.try_push(&message, is_answer, part) {
                break;
            }
            if signal.changed().await.is_err() {
                return;
            }
        }
        self.changed.send_replace(());
    }

    /// Reserves memory for an event. If none is left, delivered streams are evicted, then sent
    /// events of this stream. Must be called without the state lock, because eviction locks other
    /// streams.
    fn reserve(&self, message: &Bytes) -> Option<Reservation> {
        loop {
            let full = match self.budget.bytes(&self.principal, message) {
                Ok(part) => return Some(part),
                Err(full) => full,
            };
            let is_evicted = self.budget.evict(&self.principal, full);
            if full == BudgetExceeded::Never || !(is_evicted || self.drop_sent()) {
                return None;
            }
        }
    }

    /// Drops the first event if it was sent.
    fn drop_sent(&self) -> bool {
        let mut state = self.state();
        let position = state.position;
        let is_sent = state.events.front().is_some_and(|event| event.number < position);
        is_sent && state.events.pop_front().is_some()
    }

    fn try_push(&self, message: &Bytes, is_answer: bool, part: Option<Reservation>) -> bool {
        let mut state = self.state();
        if part.is_none() && state.events.iter().any(|event| event.number >= state.position) {
            return false;
        }
        let number = state.next;
        state.next += 1;
        let mut event = StoredEvent { number, message: message.clone(), is_answer, part };
        if !matches!(state.connection, Connection::Attached) {
            self.drop_unreserved(&mut event);
        }
        state.events.push_back(event);
        true
    }

    /// Marks the end of the events.
    pub(super) fn complete(self: &Arc<Self>) {
        let mut state = self.state();
        state.is_complete = true;
        if let Connection::Detached(_, part) = &mut state.connection {
            *part = None;
        }
        self.list(&mut state);
        drop(state);
        self.changed.send_replace(());
    }

    /// Makes a completed and delivered stream evictable.
    fn list(self: &Arc<Self>, state: &mut State) {
        let is_delivered = state.is_complete && state.delivered == state.next;
        if is_delivered
            && state.place.is_none()
            && matches!(state.connection, Connection::Detached(..))
        {
            state.place = Some(self.budget.delivered().add(self));
        }
    }

    fn unlist(&self, state: &mut State) {
        if let Some(place) = state.place.take() {
            self.budget.delivered().remove(&self.principal, place);
        }
    }

    /// Drops the events and ends the stream, unless it has a connection again.
    fn evict(&self) -> bool {
        let mut state = self.state();
        if state.place.is_none() {
            return false;
        }
        self.unlist(&mut state);
        state.events.clear();
        state.connection = Connection::Abandoned;
        drop(state);
        self.changed.send_replace(());
        true
    }

    /// Rejects all future readers.
    fn forget(&self) {
        let mut state = self.state();
        self.unlist(&mut state);
        state.connection = Connection::Abandoned;
    }

    /// Without memory, a response is replaced by an error, and other events by empty ones.
    fn drop_unreserved(&self, event: &mut StoredEvent) {
        if event.part.is_none() {
            event.message = if event.is_answer { self.dropped.clone() } else { Bytes::new() };
        }
    }

    /// Resolves when the request must end: it had no connection for [`GRACE`], or its caller has no
    /// quota for another request without one.
    pub(super) async fn abandoned(&self) {
        let mut signal = self.changed.subscribe();
        loop {
            let until = match &self.state().connection {
                Connection::Attached => None,
                Connection::Detached(since, _) => Some(*since + GRACE),
                Connection::Abandoned => return,
            };
            let late = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = late => return,
                changed = signal.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Handles a dropped connection.
    fn detach(self: &Arc<Self>, reader_id: u64) {
        let unsent = self.unreserved_event(reader_id);
        let part = unsent.and_then(|(number, message)| Some((number, self.reserve(&message)?)));
        let mut state = self.state();
        if state.reader_id != reader_id || !matches!(state.connection, Connection::Attached) {
            return;
        }
        if let Some((number, part)) = part
            && let Some(event) = state.events.iter_mut().find(|event| event.number == number)
        {
            event.part.get_or_insert(part);
        }
        for event in &mut state.events {
            self.drop_unreserved(event);
        }
        let (now, is_complete) = (Instant::now(), state.is_complete);
        let has_kept = state.events.iter().any(|event| event.part.is_some());
        state.connection = match self.budget.request(&self.principal).filter(|_| !is_complete) {
            None if is_complete && has_kept => Connection::Detached(now, None),
            None => Connection::Abandoned,
            part => Connection::Detached(now, part),
        };
        self.list(&mut state);
        drop(state);
        self.changed.send_replace(());
    }

    /// The event that this reader has not sent and that has no reservation. At most one exists.
    fn unreserved_event(&self, reader_id: u64) -> Option<(u64, Bytes)> {
        let state = self.state();
        if state.reader_id != reader_id {
            return None;
        }
        let position = state.position;
        let is_unreserved = |event: &&StoredEvent| event.part.is_none() && event.number >= position;
        state.events.iter().find(is_unreserved).map(|event| (event.number, event.message.clone()))
    }

    fn abandon_detached(&self) {
        let mut state = self.state();
        if matches!(state.connection, Connection::Detached(..)) {
            state.connection = Connection::Abandoned;
            drop(state);
            self.changed.send_replace(());
        }
    }

    fn take(&self, reader_id: u64) -> NextEvent {
        let mut state = self.state();
        if state.reader_id != reader_id {
            return NextEvent::End;
        }
        let position = state.position;
        state.delivered = position;
        // Only the first event may be empty: it gives the client an id.
        let is_next = |event: &&mut StoredEvent| {
            event.number >= position && (event.number == 0 || !event.message.is_empty())
        };
        let Some(event) = state.events.iter_mut().find(is_next) else {
            return if state.is_complete { NextEvent::End } else { NextEvent::Nothing };
        };
        let (number, message) = (event.number, event.message.clone());
        self.drop_unreserved(event);
        state.position = number + 1;
        drop(state);
        self.changed.send_replace(());
        NextEvent::Event(event_stream::event(Some(&format!("{}-{number}", self.number)), &message))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum NextEvent {
    Event(Bytes),
    Nothing,
    End,
}

/// A connection that reads a stream.
#[derive(Debug)]
pub(super) struct Reader {
    replay: Arc<Replay>,
    id: u64,
    signal: watch::Receiver<()>,
}

impl Reader {
    /// Returns the next event, or `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.replay.take(self.id) {
                NextEvent::Event(event) => return Some(event),
                NextEvent::End => return None,
                NextEvent::Nothing => self.signal.changed().await.ok()?,
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.replay.detach(self.id);
    }
}
