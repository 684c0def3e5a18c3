//! Sessions at an upstream that belong to one caller each.
//!
//! An upstream of both eras is spoken to in the caller's: whether it has the older one shows when
//! the first such caller comes. An upstream of the older era alone asks callers without sessions,
//! too: each request of theirs has a session for itself while it runs, and the next request of a
//! caller with the same capabilities reuses it. A new session replaces the one that was
//! idle longest, and never one with a running request. A quarter of the sessions is the most for
//! one caller.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use gateway_policy::{QuotaKey, SubjectToken};
use tokio::{
    sync::{OnceCell, oneshot},
    time::timeout,
};

use super::{Error, HttpLink, OnBehalf, Phase, Session, listen};
use crate::{gate::Overloaded, request::Context};

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
    /// For whom, and the id of a session of that kind that nobody has now.
    free: Mutex<Vec<(Box<str>, Arc<str>)>>,
    /// Sessions whose last request was not answered; nobody has them any more.
    abandoned: Mutex<Vec<Arc<str>>>,
    lent: AtomicU64,
}

/// The id of a session that one request has for itself, until this is dropped.
#[derive(Debug)]
pub(super) struct Lease<'a> {
    own: &'a OwnSessions,
    /// A caller, if that matters, and what it can be asked.
    for_whom: Box<str>,
    id: Arc<str>,
    /// The request was answered: nothing of it goes on in the session.
    is_over: bool,
}

impl Lease<'_> {
    pub(super) fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// The request was answered, so that the session may be another one's.
    pub(super) fn over(&mut self) {
        self.is_over = true;
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            // The upstream may still ask in it, for a caller who is gone.
            let mut abandoned = self.own.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
            return abandoned.push(Arc::clone(&self.id));
        }
        let mut free = self.own.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() >= self.own.limit {
            free.remove(0);
        }
        free.push((std::mem::take(&mut self.for_whom), Arc::clone(&self.id)));
    }
}

/// The session of a caller, which is opened once.
type Place = Arc<OnceCell<Arc<Session>>>;

#[derive(Debug)]
struct Entry {
    session: Place,
    /// The caller against whose share it counts.
    principal: QuotaKey,
    used: Instant,
}

impl Entry {
    /// Whether a request opens it or runs in it. Requests hold it; other holders do so for moments.
    fn is_in_use(&self) -> bool {
        let has_holders = |session: &Arc<Session>| Arc::strong_count(session) > 1;
        Arc::strong_count(&self.session) > 1 || self.session.get().is_some_and(has_holders)
    }
}

impl OwnSessions {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            table: Mutex::default(),
            limit,
            is_modern_only: AtomicBool::new(false),
            free: Mutex::default(),
            abandoned: Mutex::default(),
            lent: AtomicU64::new(0),
        }
    }

    /// Lends a session to a request whose caller has none, but can be asked something.
    pub(super) fn lend(&self, context: &Context, caller: &OnBehalf) -> Option<Lease<'_>> {
        let capabilities = context.capabilities.as_json();
        if context.session.is_some() || capabilities == "{}" {
            return None;
        }
        let principal = caller.as_ref().map_or("", |subject| subject.principal());
        let agent = context.caller.as_deref().unwrap_or_default();
        let wanted = format!("{principal}\n{agent}\n{capabilities}");
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let at = free.iter().rposition(|(known, _)| **known == *wanted);
        let new = || format!("lent {}", self.lent.fetch_add(1, Ordering::Relaxed)).into();
        let id = at.map_or_else(new, |at| free.swap_remove(at).1);
        Some(Lease { own: self, for_whom: wanted.into(), id, is_over: false })
    }

    /// Takes out the sessions that are to be ended, because what goes on in them is nobody's.
    pub(super) fn take_abandoned(&self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.abandoned.lock().unwrap_or_else(PoisonError::into_inner))
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

    /// The place of a session, and the session that it replaces.
    fn place(
        &self,
        id: &Arc<str>,
        principal: &QuotaKey,
    ) -> Result<(Place, Option<Arc<Session>>), Overloaded> {
        let mut table = self.table();
        let now = Instant::now();
        if let Some(entry) = table.get_mut(id) {
            entry.used = now;
            return Ok((Arc::clone(&entry.session), None));
        }
        let share = (self.limit / 4).max(1);
        let is_own = |entry: &Entry| entry.principal == *principal;
        let evicted = if table.values().filter(|entry| is_own(entry)).count() >= share {
            let full = Overloaded::CallerSessions { most: share };
            Some(evict(&mut table, is_own).ok_or(full)?)
        } else if table.len() >= self.limit {
            let full = Overloaded::Sessions { most: self.limit };
            Some(evict(&mut table, |_| true).ok_or(full)?)
        } else {
            None
        };
        let replaced = evicted.and_then(|entry| entry.session.get().cloned());
        let session = Place::default();
        let entry =
            Entry { session: Arc::clone(&session), principal: principal.clone(), used: now };
        table.insert(Arc::clone(id), entry);
        Ok((session, replaced))
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Arc<str>, Entry>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes out the entry of some that was idle longest; `None` if all are in use.
fn evict(table: &mut HashMap<Arc<str>, Entry>, of: impl Fn(&Entry) -> bool) -> Option<Entry> {
    let idle = table.iter().filter(|(_, entry)| of(entry) && !entry.is_in_use());
    let id = idle.min_by_key(|(_, entry)| entry.used).map(|(id, _)| Arc::clone(id))?;
    table.remove(&id)
}

/// The id of the session that all requests of a caller share that has none of its own.
pub(super) fn id_of(caller: &Arc<SubjectToken>) -> Arc<str> {
    format!("of {}", caller.principal()).into()
}

/// The session of a caller; the shared one where the upstream knows none.
pub(super) async fn session(
    link: &HttpLink,
    shared: &Arc<Session>,
    (id, context, caller): (&Arc<str>, &Context, &OnBehalf),
) -> Result<Arc<Session>, Error> {
    if link.own.is_modern_only.load(Ordering::Relaxed) {
        return Ok(Arc::clone(shared));
    }
    let (place, replaced) = link.own.place(id, context.payer())?;
    if let Some(session) = replaced {
        link.end_in_background(&session);
    }
    match place.get_or_try_init(|| open(link, context, caller)).await {
        Ok(session) => {
            session.act_for(caller);
            Ok(Arc::clone(session))
        }
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

async fn open(
    link: &HttpLink,
    context: &Context,
    caller: &OnBehalf,
) -> Result<Arc<Session>, Error> {
    let capabilities = context.capabilities.as_json();
    let after_ms = link.way.client.limits().list_timeout_ms;
    let opened =
        timeout(Duration::from_millis(after_ms), link.initialize(capabilities, caller)).await;
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

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::tests::subject_token;

    fn who_can(capabilities: &str) -> Context {
        let raw = RawValue::from_string(capabilities.to_owned()).unwrap();
        Context { capabilities: (&*raw).into(), ..Context::default() }
    }

    #[test]
    fn one_request_at_a_time_has_a_session_that_suits_it() {
        let own = OwnSessions::new(2);
        let (asked, sampled) = (who_can(r#"{"elicitation":{}}"#), who_can(r#"{"sampling":{}}"#));
        let id = |lease: Option<Lease<'_>>| {
            let mut lease = lease.unwrap();
            lease.over();
            lease.id().clone()
        };
        let first = own.lend(&asked, &None);
        let second = own.lend(&asked, &None);
        let ids = (id(first), id(second));
        assert_ne!(ids.0, ids.1);
        assert_ne!(id(own.lend(&sampled, &None)), ids.0, "it was told something else");
        assert_eq!(id(own.lend(&asked, &None)), ids.1, "two are kept, the oldest gave way");
        let of = |name| Some(Arc::new(subject_token(name, "token")));
        let of_ann = id(own.lend(&asked, &of("ann")));
        assert_ne!(of_ann, ids.1, "it was opened in nobody's name");
        assert_ne!(id(own.lend(&asked, &of("bob"))), of_ann);
        assert_eq!(id(own.lend(&asked, &of("ann"))), of_ann);
        let agent = Context { caller: Some("planner".into()), ..who_can(r#"{"elicitation":{}}"#) };
        let of_planner = id(own.lend(&agent, &None));
        assert_ne!(of_planner, id(own.lend(&asked, &None)), "one agent is not asked for another");
        let given_up = own.lend(&agent, &None).unwrap().id().clone();
        assert_eq!(given_up, of_planner);
        assert_ne!(id(own.lend(&agent, &None)), of_planner, "it may still be asked in there");
        assert_eq!(own.take_abandoned(), [given_up]);
    }

    #[test]
    fn who_has_a_session_or_cannot_be_asked_needs_none() {
        let own = OwnSessions::new(1);
        let with_session = Context { session: Some("s".into()), ..who_can(r#"{"roots":{}}"#) };
        for context in [with_session, who_can("{}"), Context::default()] {
            assert!(own.lend(&context, &None).is_none(), "{context:?}");
        }
    }
}
