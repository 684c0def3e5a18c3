//! Sessions of clients before 2026-07-28. The id itself says what the session is, sealed, so that no
//! store is needed: a table only holds what is going on in the sessions that are in use.
//!
//! A session is bound to the caller that opened it. For other callers its id is unknown. One caller has
//! at most a quarter of the table. A caller
//! with its share, or a full table, evicts sessions that were idle longest; their state is lost,
//! and they continue with their next request. Sessions with running requests or an open event stream are not
//! evicted, nor are those with watched resources for half an hour. Other gateways do not share the
//! table.

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

use gateway_policy::{Exhausted, HeaderClaim, Principal, Scarce, Share, Shares};
use gateway_protocol::mcp::{Capabilities, header};
use gateway_upstream::{Answered, Subscribed};
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Rejection, tasks::Begun};
use crate::{
    audit::{Gauge, Held},
    identity::ClientInfo,
    seal::Sealer,
};

/// The header that names the session.
/// What its id is sealed for.
const PURPOSE: &[u8] = b"mcp-session-1";
/// How long watched resources protect an idle session from eviction.
const IDLE: Duration = Duration::from_mins(30);
/// The part of a caller's idle sessions that is evicted at once, so that a caller with many of
/// them does not cause a search for each new one.
const EVICTED: usize = 16;
/// What the client of a session of another process last saw of its list: perhaps another list.
const UNKNOWN_LIST: u64 = 1;
/// Most sessions that were ended and are remembered as such.
const ENDED: usize = 100_000;
/// Most questions that wait for the answer of one client.
const QUESTIONS: usize = 256;

/// The content of a session id.
#[derive(Debug, Serialize, Deserialize)]
struct Sealed<P> {
    /// The process that opened the session.
    home: Box<str>,
    passport: P,
}

/// What a session is, as its id says it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Passport {
    /// Makes two sessions of one client two.
    number: Box<str>,
    /// Who the headers said that it is.
    claim: HeaderClaim,
    /// What the client said that it is.
    client: Option<Arc<ClientInfo>>,
    /// What the client said that it can be asked.
    capabilities: Capabilities,
}

impl Passport {
    pub(super) fn new(
        claim: HeaderClaim,
        client: Option<Arc<ClientInfo>>,
        capabilities: Capabilities,
    ) -> Self {
        Self { number: unique(), claim, client, capabilities }
    }

    /// The number as 16 bytes; every id that a gateway sealed has one.
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
    passport: Passport,
    used_ms: AtomicU64,
    /// What the client last saw of its list; 0 before it asked.
    listed: AtomicU64,
    /// Counts event streams: only the newest one is served.
    streams: watch::Sender<u64>,
    requests: Mutex<HashMap<Box<str>, CancellationToken>>,
    questions: Mutex<HashMap<u64, oneshot::Sender<Answered>>>,
    asked: AtomicU64,
    log_level: Mutex<Option<Box<RawValue>>>,
    watched: Mutex<BTreeMap<Box<str>, Subscribed>>,
    begun: Mutex<Begun>,
    /// The caller against whose share it counts.
    principal: Principal,
    _share: Share,
    _held: Held,
}

impl Session {
    pub(super) fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Who the headers said that it is.
    pub(super) fn claim(&self) -> &HeaderClaim {
        &self.passport.claim
    }

    /// What the client said that it is.
    pub(super) fn client(&self) -> Option<Arc<ClientInfo>> {
        self.passport.client.clone()
    }

    /// What the client said that it can be asked.
    pub(super) fn capabilities(&self) -> Capabilities {
        self.passport.capabilities.clone()
    }

    /// Takes over the session's event stream; the one before ends.
    pub(super) fn take_stream(&self) -> watch::Receiver<u64> {
        self.streams.send_modify(|count| *count += 1);
        let mut stream = self.streams.subscribe();
        stream.mark_unchanged();
        stream
    }

    /// Remembers what the client saw.
    pub(super) fn listed(&self, fingerprint: u64) {
        self.listed.store(fingerprint, Ordering::Relaxed);
    }

    pub(super) fn last_listed(&self) -> Option<u64> {
        Some(self.listed.load(Ordering::Relaxed)).filter(|fingerprint| *fingerprint != 0)
    }

    /// The least severity of log messages that the client wants, as a JSON string.
    pub(super) fn log_level(&self) -> Option<Box<RawValue>> {
        lock(&self.log_level).clone()
    }

    pub(super) fn set_log_level(&self, level: &RawValue) {
        *lock(&self.log_level) = Some(level.to_owned());
    }

    /// Watches a resource until it is told otherwise, or ends.
    pub(super) fn watch(&self, uri: &str, subscribed: Subscribed) {
        lock(&self.watched).insert(uri.into(), subscribed);
    }

    pub(super) fn unwatch(&self, uri: &str) {
        lock(&self.watched).remove(uri);
    }

    pub(super) fn watches(&self, uri: &str) -> bool {
        lock(&self.watched).contains_key(uri)
    }

    /// The tasks that the client began.
    pub(super) fn begun<T>(&self, look: impl FnOnce(&mut Begun) -> T) -> T {
        look(&mut lock(&self.begun))
    }

    /// Notes a request, so that it can be cancelled until what is returned is dropped; a cancellation
    /// could not tell it from another one with its id.
    pub(super) fn begin(self: &Arc<Self>, id: &str) -> Result<Running, Rejection> {
        let mut requests = lock(&self.requests);
        let Entry::Vacant(place) = requests.entry(id.into()) else {
            return Err(Rejection::IdInUse);
        };
        let token = place.insert(CancellationToken::new()).clone();
        Ok(Running { session: self.clone(), id: id.into(), token })
    }

    /// Cancels a request; one that is not running any more is ignored.
    pub(super) fn cancel(&self, id: &str) {
        if let Some(token) = lock(&self.requests).get(id) {
            token.cancel();
        }
    }

    /// Notes a question to the client, and gives its id; `None` where too many wait already.
    pub(super) fn ask(&self, answer: oneshot::Sender<Answered>) -> Option<u64> {
        let mut questions = lock(&self.questions);
        questions.retain(|_, waiting| !waiting.is_closed());
        if questions.len() >= QUESTIONS {
            return None;
        }
        let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        questions.insert(number, answer);
        Some(number)
    }

    /// Takes the client's answer; one for which nobody waits is ignored.
    pub(super) fn answer(&self, id: &str, answered: Answered) {
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

/// A request under way in a session.
#[derive(Debug)]
pub(super) struct Running {
    session: Arc<Session>,
    id: Box<str>,
    token: CancellationToken,
}

impl Running {
    /// Resolves when the client cancels the request.
    pub(super) async fn cancelled(&self) {
        self.token.cancelled().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.session.requests).remove(&self.id);
    }
}

/// All sessions.
#[derive(Debug)]
pub(super) struct Sessions {
    sealer: Arc<Sealer>,
    table: RwLock<Table>,
    limit: usize,
    shares: Arc<Shares>,
    started: Instant,
    /// Distinguishes this process from earlier ones and from replicas.
    home: Box<str>,
}

#[derive(Debug, Default)]
struct Table {
    in_use: HashMap<Arc<str>, Arc<Session>>,
    /// The numbers of sessions that ended; their ids would still open.
    ended: HashSet<Uuid>,
    /// The same, the oldest first.
    ended_in_order: VecDeque<Uuid>,
}

impl Sessions {
    pub(super) fn new(limit: usize, sealer: Arc<Sealer>) -> Self {
        let (table, started, limit) = (RwLock::default(), Instant::now(), limit.max(1));
        let shares = Shares::quarters(Scarce::Sessions, limit);
        Self { sealer, table, limit, shares, started, home: unique() }
    }

    /// Opens a session and gives its id.
    pub(super) fn open(&self, passport: &Passport) -> Result<String, Rejection> {
        let sealed = Sealed { home: self.home.clone(), passport };
        let content = serde_json::to_vec(&sealed).map_err(|_| Rejection::NoRandomness)?;
        self.sealer.seal(PURPOSE, &content).map_err(|_| Rejection::NoRandomness)
    }

    /// The session that a request names, if it is the sender's own. A session that is not in use yet
    /// counts against the share of `payer`.
    pub(super) fn find(
        &self,
        headers: &HeaderMap,
        claim: &HeaderClaim,
        payer: impl FnOnce() -> Principal,
    ) -> Result<Arc<Session>, Rejection> {
        let id = named(headers)?;
        let known =
            self.table.read().unwrap_or_else(PoisonError::into_inner).in_use.get(id).cloned();
        let session = match known {
            Some(session) => session,
            None => self.take_up(id, (claim, payer()))?,
        };
        if session.passport.claim != *claim {
            return Err(Rejection::SessionUnknown);
        }
        self.touch(&session);
        Ok(session)
    }

    /// A session of this claim that is not in use here, as its id describes it.
    fn take_up(
        &self,
        id: &str,
        (claim, payer): (&HeaderClaim, Principal),
    ) -> Result<Arc<Session>, Rejection> {
        let content = self.sealer.open(PURPOSE, id);
        let sealed = content.and_then(|content| serde_json::from_slice(&content).ok());
        let own = sealed.filter(|sealed: &Sealed<Passport>| sealed.passport.claim == *claim);
        let Sealed { home, passport } = own.ok_or(Rejection::SessionUnknown)?;
        let listed = if home == self.home { 0 } else { UNKNOWN_LIST };
        let mut table = self.write();
        if passport.number().is_none_or(|number| table.ended.contains(&number)) {
            return Err(Rejection::SessionUnknown);
        }
        if let Some(known) = table.in_use.get(id) {
            return Ok(known.clone());
        }
        let share = self.share(&mut table, &payer)?;
        let id: Arc<str> = id.into();
        let session = Arc::new(Session {
            id: id.clone(),
            passport,
            used_ms: AtomicU64::new(self.now_ms()),
            listed: AtomicU64::new(listed),
            streams: watch::channel(0).0,
            requests: Mutex::default(),
            questions: Mutex::default(),
            asked: AtomicU64::new(0),
            log_level: Mutex::default(),
            watched: Mutex::default(),
            begun: Mutex::default(),
            principal: payer,
            _share: share,
            _held: Gauge::Sessions.hold(),
        });
        table.in_use.insert(id, session.clone());
        Ok(session)
    }

    /// A share for one more session of a caller, and room for it in the table.
    fn share(&self, table: &mut Table, payer: &Principal) -> Result<Share, Rejection> {
        let share = self.shares.take(payer).or_else(|_| {
            self.evict(table, Some(payer));
            self.shares.take(payer)
        });
        let share = share.map_err(Rejection::TooManySessions)?;
        if table.in_use.len() >= self.limit {
            self.evict(table, None);
        }
        if table.in_use.len() >= self.limit {
            let full = Exhausted::All { what: Scarce::Sessions, most: self.limit };
            return Err(Rejection::TooManySessions(full));
        }
        Ok(share)
    }

    /// Evicts sessions that were idle longest: of this caller, or of the one that has most.
    fn evict(&self, table: &mut Table, of: Option<&Principal>) {
        let mut idle: HashMap<&Principal, Vec<(u64, Arc<str>)>> = HashMap::new();
        for (id, session) in &table.in_use {
            let is_meant = of.is_none_or(|payer| *payer == session.principal);
            if is_meant && self.is_evictable(session) {
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

    /// Requests hold their session; an event stream is seen by its turn. The table is locked, so
    /// that no request finds the session meanwhile.
    fn is_evictable(&self, session: &Arc<Session>) -> bool {
        Arc::strong_count(session) == 1
            && session.streams.receiver_count() == 0
            && (lock(&session.watched).is_empty() || self.is_idle(session))
    }

    /// Counts a session as used.
    pub(super) fn touch(&self, session: &Session) {
        session.used_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// Ends the session that a request names, and gives its id.
    pub(super) fn close(
        &self,
        headers: &HeaderMap,
        claim: &HeaderClaim,
        payer: impl FnOnce() -> Principal,
    ) -> Result<Arc<str>, Rejection> {
        let session = self.find(headers, claim, payer)?;
        let id = session.id.clone();
        let number = session.passport.number().ok_or(Rejection::SessionUnknown)?;
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
