//! Sessions of browsers, in the memory of one server.
//!
//! Only the digest of a session's id is stored. A restart ends all sessions.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use registry_core::{Digest, Timestamp};

use super::secret::{RandomFailed, random_text};
use crate::access::Principal;

/// A session without a request ends after this time.
const IDLE: Duration = Duration::from_mins(30);
/// A session ends after this time.
const LIFETIME: Duration = Duration::from_hours(8);
/// Maximum number of sessions. Above it, the least recently used one of the same account is removed, else of all.
const SESSIONS: usize = 1_000;

#[derive(Debug)]
struct Session {
    principal: Principal,
    started_at: Timestamp,
    used_at: Timestamp,
}

impl Session {
    fn is_over(&self, now: Timestamp) -> bool {
        now.since(self.used_at) >= IDLE
            || now.since(self.started_at) >= LIFETIME
            || self.principal.until.is_some_and(|until| until <= now)
    }
}

/// The sessions by the digests of their ids.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<Digest, Session>>);

impl Sessions {
    /// Starts a session with a new id, and returns the id. `earlier` is the id that the browser had.
    pub(super) fn start(
        &self,
        principal: Principal,
        earlier: Option<&str>,
        now: Timestamp,
    ) -> Result<String, RandomFailed> {
        let id = random_text()?;
        // The map is consistent even if another thread panicked.
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(earlier) = earlier {
            sessions.remove(&key(earlier));
        }
        if sessions.len() >= SESSIONS {
            sessions.retain(|_, session| !session.is_over(now));
        }
        if sessions.len() >= SESSIONS {
            let account = principal.rate_key();
            let rank =
                |session: &Session| (session.principal.rate_key() != account, session.used_at);
            let last = sessions.iter().min_by_key(|(_, session)| rank(session));
            if let Some(last) = last.map(|(key, _)| *key) {
                sessions.remove(&last);
            }
        }
        sessions.insert(key(&id), Session { principal, started_at: now, used_at: now });
        Ok(id)
    }

    /// Finds the session of an id, and records the use. Returns its key and its principal.
    pub(super) fn find(&self, id: &str, now: Timestamp) -> Option<(Digest, Principal)> {
        let key = key(id);
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.get_mut(&key)?;
        if session.is_over(now) {
            sessions.remove(&key);
            return None;
        }
        session.used_at = now;
        Some((key, session.principal.clone()))
    }

    /// Ends a session.
    pub(super) fn end(&self, key: &Digest) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

fn key(id: &str) -> Digest {
    Digest::compute(id.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::testing::principal;

    fn minutes(count: i64) -> Timestamp {
        Timestamp::from_millis(count * 60_000)
    }

    fn start(sessions: &Sessions, name: &str, now: Timestamp) -> String {
        sessions.start(principal(name), None, now).unwrap()
    }

    #[test]
    fn session_ends_without_use_or_after_eight_hours() {
        let sessions = Sessions::default();
        let (idle, used) =
            (start(&sessions, "ann", minutes(0)), start(&sessions, "bob", minutes(0)));
        assert!(sessions.find(&idle, minutes(29)).is_some());
        assert_eq!(sessions.find(&idle, minutes(59)), None);
        assert_eq!(sessions.find(&idle, minutes(29)), None, "an ended session does not return");
        for now in (20..480).step_by(20) {
            let found = sessions.find(&used, minutes(now));
            assert_eq!(found.map(|(_, principal)| principal), Some(principal("bob")), "{now}");
        }
        assert_eq!(sessions.find(&used, minutes(480)), None);
    }

    #[test]
    fn session_ends_with_its_token() {
        let sessions = Sessions::default();
        let until = Some(minutes(10));
        let id = sessions.start(Principal { until, ..principal("ann") }, None, minutes(0)).unwrap();
        assert!(sessions.find(&id, minutes(9)).is_some());
        assert_eq!(sessions.find(&id, minutes(10)), None);
    }

    #[test]
    fn sign_in_replaces_the_earlier_session() {
        let sessions = Sessions::default();
        let first = start(&sessions, "ann", minutes(0));
        let second = sessions.start(principal("ann"), Some(&first), minutes(1)).unwrap();
        assert_ne!(first, second);
        assert_eq!(sessions.find(&first, minutes(1)), None);
        let fixed = sessions.start(principal("ann"), Some("chosen"), minutes(1)).unwrap();
        assert_ne!(fixed, "chosen");
        assert_eq!(sessions.find("chosen", minutes(1)), None);
    }

    #[test]
    fn ended_session_is_unknown() {
        let sessions = Sessions::default();
        let id = start(&sessions, "ann", minutes(0));
        let (key, _) = sessions.find(&id, minutes(0)).unwrap();
        sessions.end(&key);
        assert_eq!(sessions.find(&id, minutes(0)), None);
    }

    #[test]
    fn ids_are_not_stored() {
        let sessions = Sessions::default();
        let id = start(&sessions, "ann", minutes(0));
        assert_eq!(id.len(), 43, "256 bits");
        assert!(!format!("{sessions:?}").contains(&id));
    }

    #[test]
    fn account_with_many_sessions_evicts_its_own() {
        let sessions = Sessions::default();
        let other = start(&sessions, "bob", minutes(0));
        for _ in 0..2 * SESSIONS {
            start(&sessions, "ann", minutes(1));
        }
        assert_eq!(sessions.0.lock().unwrap().len(), SESSIONS);
        assert!(sessions.find(&other, minutes(1)).is_some());
    }
}
