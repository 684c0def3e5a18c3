//! Upstream sessions of single callers.
//!
//! An upstream that supports both eras is used in the client's era: legacy support is probed at the
//! first legacy client. A legacy-only upstream also sends questions to callers without sessions.
//! Each of their requests leases a session while it runs, and a later request of a caller with the
//! same capabilities reuses it. A new session replaces the one that was idle longest, never one
//! with a running request. One caller gets at most a quarter of the sessions.

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

use super::{Error, HttpLink, Phase, Session, Subject, listen};
use crate::{concurrency::LimitReached, request::RequestContext};

/// How long the first request of a session waits for the stream of questions. Some servers respond
/// to the `GET` only when they have a message.
const STREAM: Duration = Duration::from_secs(1);

/// The sessions of single callers at one upstream.
#[derive(Debug)]
pub(super) struct CallerSessions {
    table: Mutex<HashMap<Arc<str>, Entry>>,
    limit: usize,
    /// Whether the upstream rejected the legacy era.
    is_modern_only: AtomicBool,
    /// Unused sessions: the kind of caller and the id.
    free: Mutex<Vec<(Box<str>, Arc<str>)>>,
    /// Sessions whose last request got no response. They are not reused.
    abandoned: Mutex<Vec<Arc<str>>>,
    lent: AtomicU64,
}

/// A lease of a session for one request.
#[derive(Debug)]
pub(super) struct Lease<'a> {
    own: &'a CallerSessions,
    /// The kind of caller: its subject, if that matters, and its capabilities.
    for_whom: Box<str>,
    id: Arc<str>,
    /// Whether the request got its response, so that nothing of it continues in the session.
    is_over: bool,
}

impl Lease<'_> {
    pub(super) fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Records that the request got its response, so that the session can be reused.
    pub(super) fn over(&mut self) {
        self.is_over = true;
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            // The upstream may still send questions for the disconnected caller.
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

/// The session of a caller, opened once.
type Place = Arc<OnceCell<Arc<Session>>>;

#[derive(Debug)]
struct Entry {
    session: Place,
    /// The quota key of the caller.
    quota_key: QuotaKey,
    used: Instant,
}

impl Entry {
    /// Whether a request opens the session or runs in it. Requests hold a reference; other holders
    /// do so only briefly.
    fn is_in_use(&self) -> bool {
        let has_holders = |session: &Arc<Session>| Arc::strong_count(session) > 1;
        Arc::strong_count(&self.session) > 1 || self.session.get().is_some_and(has_holders)
    }
}

impl CallerSessions {
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

    /// Leases a session to a request whose caller has none and can answer questions.
    pub(super) fn lend(&self, context: &RequestContext, caller: &Subject) -> Option<Lease<'_>> {
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

    /// Removes the abandoned sessions, which must be ended.
    pub(super) fn take_abandoned(&self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.abandoned.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Resets the knowledge about the upstream.
    pub(super) fn reset(&self) {
        self.is_modern_only.store(false, Ordering::Relaxed);
    }

    /// Removes a session. Returns whether it was known.
    pub(super) fn forget(&self, session: &Arc<Session>) -> bool {
        let mut table = self.table();
        let before = table.len();
        table.retain(|_, entry| !entry.session.get().is_some_and(|s| Arc::ptr_eq(s, session)));
        table.len() < before
    }

    /// The session of a caller, if it is open.
    pub(super) fn find(&self, id: &str) -> Option<Arc<Session>> {
        self.table().get(id)?.session.get().cloned()
    }

    /// Removes the session of a caller.
    pub(super) fn remove(&self, id: &str) -> Option<Arc<Session>> {
        self.table().remove(id)?.session.get().cloned()
    }

    /// Removes all sessions.
    pub(super) fn drain(&self) -> Vec<Arc<Session>> {
        self.table().drain().filter_map(|(_, entry)| entry.session.get().cloned()).collect()
    }

    /// The entry of a session, and the session that it replaces.
    fn place(
        &self,
        id: &Arc<str>,
        quota_key: &QuotaKey,
    ) -> Result<(Place, Option<Arc<Session>>), LimitReached> {
        let mut table = self.table();
        let now = Instant::now();
        if let Some(entry) = table.get_mut(id) {
            entry.used = now;
            return Ok((Arc::clone(&entry.session), None));
        }
        let share = (self.limit / 4).max(1);
        let is_own = |entry: &Entry| entry.quota_key == *quota_key;
        let evicted = if table.values().filter(|entry| is_own(entry)).count() >= share {
            let full = LimitReached::CallerSessions { most: share };
            Some(evict(&mut table, is_own).ok_or(full)?)
        } else if table.len() >= self.limit {
            let full = LimitReached::Sessions { most: self.limit };
            Some(evict(&mut table, |_| true).ok_or(full)?)
        } else {
            None
        };
        let replaced = evicted.and_then(|entry| entry.session.get().cloned());
        let session = Place::default();
        let entry =
            Entry { session: Arc::clone(&session), quota_key: quota_key.clone(), used: now };
        table.insert(Arc::clone(id), entry);
        Ok((session, replaced))
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Arc<str>, Entry>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the matching entry that was idle longest. `None`: all are in use.
fn evict(table: &mut HashMap<Arc<str>, Entry>, of: impl Fn(&Entry) -> bool) -> Option<Entry> {
    let idle = table.iter().filter(|(_, entry)| of(entry) && !entry.is_in_use());
    let id = idle.min_by_key(|(_, entry)| entry.used).map(|(id, _)| Arc::clone(id))?;
    table.remove(&id)
}

/// The id of the session that a caller without sessions shares among its requests.
pub(super) fn id_of(caller: &Arc<SubjectToken>) -> Arc<str> {
    format!("of {}", caller.principal()).into()
}

/// The session of a caller, or the shared one if the upstream has no sessions.
pub(super) async fn session(
    link: &HttpLink,
    shared: &Arc<Session>,
    (id, context, caller): (&Arc<str>, &RequestContext, &Subject),
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
            session.set_subject(caller);
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
    context: &RequestContext,
    caller: &Subject,
) -> Result<Arc<Session>, Error> {
    let capabilities = context.capabilities.as_json();
    let after_ms = link.transport.client.limits().list_timeout_ms;
    let opened =
        timeout(Duration::from_millis(after_ms), link.initialize(capabilities, caller)).await;
    let (session, _) =
        opened.unwrap_or(Err(Error::Timeout { phase: Phase::Handshake, after_ms }))?;
    let session = Arc::new(session);
    if capabilities != "{}" {
        let (transport, weak) = (Arc::clone(&link.transport), Arc::downgrade(&session));
        let (answered, stream) = oneshot::channel();
        link.transport.client.spawn(listen::own(transport, (weak, session.ended()), answered));
        // Questions before the stream is open are lost.
        let _ = timeout(STREAM, stream).await;
    }
    Ok(session)
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::tests::subject_token;

    fn who_can(capabilities: &str) -> RequestContext {
        let raw = RawValue::from_string(capabilities.to_owned()).unwrap();
        RequestContext { capabilities: (&*raw).into(), ..RequestContext::default() }
    }

    #[test]
    fn leased_session_matches_caller_and_is_exclusive() {
        let own = CallerSessions::new(2);
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
        assert_ne!(id(own.lend(&sampled, &None)), ids.0, "the capabilities differ");
        assert_eq!(
            id(own.lend(&asked, &None)),
            ids.1,
            "two sessions are kept and the oldest is evicted"
        );
        let of = |name| Some(Arc::new(subject_token(name, "token")));
        let of_ann = id(own.lend(&asked, &of("ann")));
        assert_ne!(of_ann, ids.1, "the session has no subject");
        assert_ne!(id(own.lend(&asked, &of("bob"))), of_ann);
        assert_eq!(id(own.lend(&asked, &of("ann"))), of_ann);
        let agent =
            RequestContext { caller: Some("planner".into()), ..who_can(r#"{"elicitation":{}}"#) };
        let of_planner = id(own.lend(&agent, &None));
        assert_ne!(of_planner, id(own.lend(&asked, &None)), "agents do not share sessions");
        let given_up = own.lend(&agent, &None).unwrap().id().clone();
        assert_eq!(given_up, of_planner);
        assert_ne!(id(own.lend(&agent, &None)), of_planner, "an abandoned session is not reused");
        assert_eq!(own.take_abandoned(), [given_up]);
    }

    #[test]
    fn callers_with_sessions_or_without_capabilities_need_none() {
        let own = CallerSessions::new(1);
        let with_session =
            RequestContext { session: Some("s".into()), ..who_can(r#"{"roots":{}}"#) };
        for context in [with_session, who_can("{}"), RequestContext::default()] {
            assert!(own.lend(&context, &None).is_none(), "{context:?}");
        }
    }
}
