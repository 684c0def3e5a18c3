//! Sessions of clients before 2026-07-28. The sealed session id contains the session, so no store
//! is needed; a table holds only the state of sessions in use.
//!
//! A session belongs to the caller that opened it; for others its id is unknown. One caller can use
//! a quarter of the table. If its quota or the table is exhausted, its least recently used sessions
//! are evicted: they lose their state and continue with the next request. Sessions with running
//! requests or an open event stream are not evicted, and those with subscribed resources only after
//! 30 minutes. Replicas do not share the table.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque, hash_map::Entry},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use gateway_policy::{CallerIdentity, QuotaExceeded, QuotaGuard, QuotaKey, QuotaKind, Quotas};
use gateway_protocol::mcp::{Capabilities, header};
use gateway_upstream::{ClientAnswer, Subscription};
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Rejection, tasks::SessionTasks};
use crate::{
    audit::{Gauge, GaugeGuard},
    identity::{ClientInfo, authenticator::Authentication},
    seal::Sealer,
};

/// The purpose of sealed session ids.
const PURPOSE: &[u8] = b"mcp-session-1";
/// How long subscribed resources protect an idle session from eviction.
const IDLE: Duration = Duration::from_mins(30);
/// The fraction of a caller's idle sessions that one eviction removes, so that a caller with many
/// sessions does not cause a search for each new one.
const EVICTED: usize = 16;
/// The list fingerprint of a session from another process: differs from every known list.
const UNKNOWN_LIST: u64 = 1;
/// Maximum number of remembered ended sessions.
const ENDED: usize = 100_000;
/// Maximum unanswered questions to one client.
const QUESTIONS: usize = 256;

#[derive(Debug, Serialize, Deserialize)]
struct Sealed<P> {
    /// The process that opened the session.
    home: Box<str>,
    claims: P,
}

/// The permanent facts of a session, stored in its id.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SessionClaims {
    /// Makes session ids unique.
    number: Box<str>,
    /// The identity of the caller.
    claim: CallerIdentity,
    /// The self-description of the client.
    client: Option<Arc<ClientInfo>>,
    capabilities: Capabilities,
}

impl SessionClaims {
    pub(super) fn new(
        claim: CallerIdentity,
        client: Option<Arc<ClientInfo>>,
        capabilities: Capabilities,
    ) -> Self {
        Self { number: unique(), claim, client, capabilities }
    }

    /// The number as 16 bytes. Every sealed id has one.
    fn number(&self) -> Option<Uuid> {
        Uuid::try_parse(&self.number).ok()
    }
}

fn unique() -> Box<str> {
    Uuid::new_v4().simple().to_string().into()
}

#[derive(Debug)]
pub(super) struct Session {
    id: Arc<str>,
    claims: SessionClaims,
    used_ms: AtomicU64,
    /// The fingerprint of the last listed tools; 0 before the first list.
    listed: AtomicU64,
    /// Incremented for each event stream: only the newest one is served.
    streams: watch::Sender<u64>,
    requests: Mutex<HashMap<Arc<str>, CancellationToken>>,
    questions: Mutex<HashMap<u64, oneshot::Sender<ClientAnswer>>>,
    asked: AtomicU64,
    log_level: Mutex<Option<Box<RawValue>>>,
    watched: Mutex<BTreeMap<Box<str>, Subscription>>,
    tasks: Mutex<SessionTasks>,
    /// The quota key of the session.
    principal: QuotaKey,
    _share: QuotaGuard,
    _held: GaugeGuard,
}

impl Session {
    pub(super) fn id(&self) -> &Arc<str> {
        &self.id
    }

    pub(super) fn client(&self) -> Option<Arc<ClientInfo>> {
        self.claims.client.clone()
    }

    pub(super) fn capabilities(&self) -> Capabilities {
        self.claims.capabilities.clone()
    }

    /// Starts a new event stream; the previous one ends.
    pub(super) fn take_stream(&self) -> watch::Receiver<u64> {
        self.streams.send_modify(|count| *count += 1);
        let mut stream = self.streams.subscribe();
        stream.mark_unchanged();
        stream
    }

    /// Stores the fingerprint of the listed tools.
    pub(super) fn listed(&self, fingerprint: u64) {
        self.listed.store(fingerprint, Ordering::Relaxed);
    }

    pub(super) fn last_listed(&self) -> Option<u64> {
        Some(self.listed.load(Ordering::Relaxed)).filter(|fingerprint| *fingerprint != 0)
    }

    /// The minimum severity of log messages, as a JSON string.
    pub(super) fn log_level(&self) -> Option<Box<RawValue>> {
        lock(&self.log_level).clone()
    }

    pub(super) fn set_log_level(&self, level: &RawValue) {
        *lock(&self.log_level) = Some(level.to_owned());
    }

    /// Subscribes to a resource until `unwatch` or the end of the session.
    pub(super) fn watch(&self, uri: &str, subscribed: Subscription) {
        lock(&self.watched).insert(uri.into(), subscribed);
    }

    pub(super) fn unwatch(&self, uri: &str) {
        lock(&self.watched).remove(uri);
    }

    pub(super) fn watches(&self, uri: &str) -> bool {
        lock(&self.watched).contains_key(uri)
    }

    /// Accesses the tasks that the client started.
    pub(super) fn tasks<T>(&self, look: impl FnOnce(&mut SessionTasks) -> T) -> T {
        look(&mut lock(&self.tasks))
    }

    /// Registers a request, so that it can be cancelled until the result is dropped. Ids must be
    /// unique among running requests.
    pub(super) fn begin(self: &Arc<Self>, id: &str) -> Result<RunningRequest, Rejection> {
        let (id, mut requests) = (Arc::<str>::from(id), lock(&self.requests));
        let Entry::Vacant(place) = requests.entry(Arc::clone(&id)) else {
            return Err(Rejection::IdInUse);
        };
        let token = place.insert(CancellationToken::new()).clone();
        Ok(RunningRequest { session: self.clone(), id, token })
    }

    /// Cancels a request. Unknown ids are ignored.
    pub(super) fn cancel(&self, id: &str) {
        if let Some(token) = lock(&self.requests).get(id) {
            token.cancel();
        }
    }

    /// Registers a question, and returns its id. `None`: too many questions are open.
    pub(super) fn ask(&self, answer: oneshot::Sender<ClientAnswer>) -> Option<u64> {
        let mut questions = lock(&self.questions);
        questions.retain(|_, waiting| !waiting.is_closed());
        if questions.len() >= QUESTIONS {
            return None;
        }
        let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        questions.insert(number, answer);
        Some(number)
    }

    /// Withdraws a question. `false`: it has an answer.
    pub(super) fn withdraw(&self, number: u64) -> bool {
        lock(&self.questions).remove(&number).is_some()
    }

    /// Delivers the client's answer. Unknown ids are ignored.
    pub(super) fn answer(&self, id: &str, answered: ClientAnswer) {
        let number = id.parse().ok();
        if let Some(waiting) = number.and_then(|number: u64| lock(&self.questions).remove(&number))
        {
            let _ = waiting.send(answered);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running request of a session.
#[derive(Debug)]
pub(super) struct RunningRequest {
    session: Arc<Session>,
    id: Arc<str>,
    token: CancellationToken,
}

impl RunningRequest {
    pub(super) async fn cancelled(&self) {
        self.token.cancelled().await;
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        lock(&self.session.requests).remove(&self.id);
    }
}

#[derive(Debug)]
pub(super) struct Sessions {
    sealer: Arc<Sealer>,
    table: RwLock<Table>,
    limit: usize,
    shares: Arc<Quotas>,
    started: Instant,
    /// Distinguishes this process from earlier ones and from replicas.
    home: Box<str>,
}

#[derive(Debug, Default)]
struct Table {
    in_use: HashMap<Arc<str>, Arc<Session>>,
    /// The numbers of ended sessions, whose ids can still be decrypted.
    ended: HashSet<Uuid>,
    /// The same numbers, oldest first.
    ended_in_order: VecDeque<Uuid>,
}

impl Sessions {
    pub(super) fn new(limit: usize, sealer: Arc<Sealer>) -> Self {
        let (table, started, limit) = (RwLock::default(), Instant::now(), limit.max(1));
        let shares = Quotas::new(QuotaKind::Sessions, limit);
        Self { sealer, table, limit, shares, started, home: unique() }
    }

    /// Opens a session, and returns its id.
    pub(super) fn open(&self, claims: &SessionClaims) -> Result<String, Rejection> {
        let sealed = Sealed { home: self.home.clone(), claims };
        let content = serde_json::to_vec(&sealed).map_err(|_| Rejection::NoRandomness)?;
        self.sealer.seal(PURPOSE, &content).map_err(|_| Rejection::NoRandomness)
    }

    /// Finds the session of a request, if it belongs to the sender. A session that is not yet in
    /// use counts against the quota of `caller`.
    pub(super) fn find(
        &self,
        headers: &HeaderMap,
        caller: &Authentication,
    ) -> Result<Arc<Session>, Rejection> {
        let id = named(headers)?;
        let known =
            self.table.read().unwrap_or_else(PoisonError::into_inner).in_use.get(id).cloned();
        let session = match known {
            Some(session) => session,
            None => self.restore(id, caller)?,
        };
        if session.claims.claim != *caller.claim {
            return Err(Rejection::SessionUnknown);
        }
        self.touch(&session);
        Ok(session)
    }

    /// Adds a session to the table from the content of its id.
    fn restore(
        &self,
        id: &str,
        Authentication { claim, payer, .. }: &Authentication,
    ) -> Result<Arc<Session>, Rejection> {
        let content = self.sealer.open(PURPOSE, id);
        let sealed = content.and_then(|content| serde_json::from_slice(&content).ok());
        let own = sealed.filter(|sealed: &Sealed<SessionClaims>| sealed.claims.claim == **claim);
        let Sealed { home, claims } = own.ok_or(Rejection::SessionUnknown)?;
        let listed = if home == self.home { 0 } else { UNKNOWN_LIST };
        let mut table = self.write();
        if claims.number().is_none_or(|number| table.ended.contains(&number)) {
            return Err(Rejection::SessionUnknown);
        }
        if let Some(known) = table.in_use.get(id) {
            return Ok(known.clone());
        }
        let share = self.share(&mut table, payer)?;
        let id: Arc<str> = id.into();
        let session = Arc::new(Session {
            id: id.clone(),
            claims,
            used_ms: AtomicU64::new(self.now_ms()),
            listed: AtomicU64::new(listed),
            streams: watch::channel(0).0,
            requests: Mutex::default(),
            questions: Mutex::default(),
            asked: AtomicU64::new(0),
            log_level: Mutex::default(),
            watched: Mutex::default(),
            tasks: Mutex::default(),
            principal: payer.clone(),
            _share: share,
            _held: Gauge::Sessions.increment(),
        });
        table.in_use.insert(id, session.clone());
        Ok(session)
    }

    /// Reserves quota and space for one more session.
    fn share(&self, table: &mut Table, payer: &QuotaKey) -> Result<QuotaGuard, Rejection> {
        let share = self.shares.acquire(payer).or_else(|_| {
            self.evict(table, Some(payer));
            self.shares.acquire(payer)
        });
        let share = share.map_err(Rejection::TooManySessions)?;
        if table.in_use.len() >= self.limit {
            self.evict(table, None);
        }
        if table.in_use.len() >= self.limit {
            let full = QuotaExceeded::Total { kind: QuotaKind::Sessions, limit: self.limit };
            return Err(Rejection::TooManySessions(full));
        }
        Ok(share)
    }

    /// Evicts the least recently used sessions of a caller, or of the caller with the most
    /// sessions.
    fn evict(&self, table: &mut Table, principal: Option<&QuotaKey>) {
        let mut idle: HashMap<&QuotaKey, Vec<(u64, Arc<str>)>> = HashMap::new();
        for (id, session) in &table.in_use {
            let is_candidate = principal.is_none_or(|payer| *payer == session.principal);
            if is_candidate && self.is_evictable(session) {
                let used = session.used_ms.load(Ordering::Relaxed);
                idle.entry(&session.principal).or_default().push((used, id.clone()));
            }
        }
        let Some(mut most) = idle.into_values().max_by_key(Vec::len) else { return };
        most.sort_unstable();
        for (_, id) in &most[..most.len().div_ceil(EVICTED)] {
            table.in_use.remove(id);
        }
    }

    /// Requests hold an `Arc` of their session, and event streams a receiver. The lock on the table
    /// keeps new requests from finding the session.
    fn is_evictable(&self, session: &Arc<Session>) -> bool {
        Arc::strong_count(session) == 1
            && session.streams.receiver_count() == 0
            && (lock(&session.watched).is_empty() || self.is_idle(session))
    }

    /// Marks a session as recently used.
    pub(super) fn touch(&self, session: &Session) {
        session.used_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// Ends the session of a request, and returns its id.
    pub(super) fn close(
        &self,
        headers: &HeaderMap,
        caller: &Authentication,
    ) -> Result<Arc<str>, Rejection> {
        let session = self.find(headers, caller)?;
        let id = session.id.clone();
        let number = session.claims.number().ok_or(Rejection::SessionUnknown)?;
        let mut table = self.write();
        table.in_use.remove(&id);
        if table.ended.len() >= ENDED
            && let Some(oldest) = table.ended_in_order.pop_front()
        {
            table.ended.remove(&oldest);
        }
        if table.ended.insert(number) {
            table.ended_in_order.push_back(number);
        }
        Ok(id)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_idle(&self, session: &Session) -> bool {
        let used = Duration::from_millis(session.used_ms.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(used) > IDLE
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

fn named(headers: &HeaderMap) -> Result<&str, Rejection> {
    let mut ids = headers.get_all(&header::SESSION_ID).iter();
    match (ids.next(), ids.next()) {
        (None, _) => Err(Rejection::SessionRequired),
        (Some(id), None) => id.to_str().map_err(|_| Rejection::SessionUnknown),
        (Some(_), Some(_)) => Err(Rejection::SessionUnknown),
    }
}
