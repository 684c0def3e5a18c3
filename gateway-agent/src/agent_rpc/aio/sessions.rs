//! The sessions of sampling, in memory and within limits. A session belongs to the principal that
//! started it. Sessions of callers without an identity are found by their id only, which is random.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use gateway_policy::QuotaKey;
use registry_core::Name;
use tokio::time::Instant;
use uuid::Uuid;

use super::skills::Conversation;
use crate::pipeline::TaskOwner;

/// The time that an unused session is kept.
const KEPT: Duration = Duration::from_hours(1);
/// Maximum sessions of all callers. One caller can use a quarter.
const SESSIONS: usize = 4_096;

/// The sessions of all principals by their ids.
#[derive(Debug)]
pub(super) struct Sessions {
    table: Mutex<HashMap<Uuid, Entry>>,
    limit: usize,
}

#[derive(Debug)]
struct Entry {
    owner: Option<TaskOwner>,
    /// The caller whose quota the session uses.
    payer: QuotaKey,
    agent: Name,
    used: Instant,
    /// `None`: a step is running.
    state: Option<SessionState>,
}

/// The state that continues a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SessionState {
    /// The conversation with a skill.
    Skill { skill: String, conversation: Conversation },
    /// The tool, and the session that its last result names.
    Tool { tool: String, session: Option<String> },
}

/// Why a session cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoSession {
    /// It has expired, or belongs to another principal or agent.
    Unknown,
    /// Another step is running.
    Busy,
}

/// A session whose step is running. Dropping it lets the session continue with its last state.
#[derive(Debug)]
pub(super) struct RunningStep<'a> {
    sessions: &'a Sessions,
    id: Uuid,
    /// The state before the step.
    pub(super) state: SessionState,
}

impl Default for Sessions {
    fn default() -> Self {
        Self { table: Mutex::default(), limit: SESSIONS }
    }
}

impl Sessions {
    /// Adds a session and returns its id. Without room, the least recently used session of the caller
    /// is removed, or of the caller with the most sessions.
    pub(super) fn add(
        &self,
        (owner, payer): (Option<TaskOwner>, &QuotaKey),
        agent: &Name,
        state: SessionState,
    ) -> String {
        let (id, used) = (Uuid::new_v4(), Instant::now());
        let mut sessions = self.lock();
        sessions.retain(|_, entry| used.saturating_duration_since(entry.used) < KEPT);
        if let Some(payer) = self.evicted_caller(&sessions, payer) {
            let candidates = sessions.iter().filter(|(_, entry)| entry.payer == payer);
            let oldest = candidates.min_by_key(|(_, entry)| entry.used).map(|(id, _)| *id);
            oldest.and_then(|oldest| sessions.remove(&oldest));
        }
        let (payer, agent, state) = (payer.clone(), agent.clone(), Some(state));
        sessions.insert(id, Entry { owner, payer, agent, used, state });
        id.to_string()
    }

    /// The caller that loses a session for another one of `payer`. `None`: there is room.
    fn evicted_caller(
        &self,
        sessions: &HashMap<Uuid, Entry>,
        payer: &QuotaKey,
    ) -> Option<QuotaKey> {
        let own = sessions.values().filter(|entry| entry.payer == *payer).count();
        if own >= self.limit / 4 {
            return Some(payer.clone());
        }
        if sessions.len() < self.limit {
            return None;
        }
        let mut counts: HashMap<&QuotaKey, usize> = HashMap::new();
        for entry in sessions.values() {
            *counts.entry(&entry.payer).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(payer, _)| payer.clone())
    }

    /// Starts a step of a session.
    pub(super) fn begin_step(
        &self,
        owner: Option<TaskOwner>,
        agent: &Name,
        id: &str,
    ) -> Result<RunningStep<'_>, NoSession> {
        let id = Uuid::parse_str(id).map_err(|_| NoSession::Unknown)?;
        let now = Instant::now();
        let mut sessions = self.lock();
        let entry = sessions.get_mut(&id).filter(|entry| {
            entry.owner == owner
                && entry.agent == *agent
                && now.saturating_duration_since(entry.used) < KEPT
        });
        let entry = entry.ok_or(NoSession::Unknown)?;
        entry.used = now;
        let state = entry.state.take().ok_or(NoSession::Busy)?;
        Ok(RunningStep { sessions: self, id, state })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Entry>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunningStep<'_> {
    fn drop(&mut self) {
        // A session with too many others can have been removed.
        if let Some(entry) = self.sessions.lock().get_mut(&self.id) {
            entry.state = Some(self.state.clone());
            entry.used = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use registry_core::Kind;
    use tokio::time::advance;

    use super::*;

    fn agent(name: &str) -> Name {
        Name::parse(Kind::Agent, name).unwrap()
    }

    fn state(tool: &str) -> SessionState {
        SessionState::Tool { tool: tool.to_owned(), session: None }
    }

    #[tokio::test(start_paused = true)]
    async fn session_belongs_to_its_agent_and_expires() {
        let sessions = Sessions::default();
        let id = sessions.add((None, &None), &agent("a"), state("x"));
        let begin = |name: &str| {
            let step = sessions.begin_step(None, &agent(name), &id);
            step.map(|step| step.state.clone())
        };
        assert_eq!(begin("a"), Ok(state("x")));
        assert_eq!(begin("b"), Err(NoSession::Unknown));
        advance(KEPT.saturating_sub(Duration::from_secs(1))).await;
        assert_eq!(begin("a"), Ok(state("x")));
        advance(KEPT).await;
        assert_eq!(begin("a"), Err(NoSession::Unknown));
        assert!(sessions.begin_step(None, &agent("a"), "x").is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn session_has_one_step_at_a_time() {
        let sessions = Sessions::default();
        let id = sessions.add((None, &None), &agent("a"), state("x"));
        let mut running = sessions.begin_step(None, &agent("a"), &id).unwrap();
        let second = sessions.begin_step(None, &agent("a"), &id);
        assert_eq!(second.unwrap_err(), NoSession::Busy);
        running.state = state("y");
        drop(running);
        assert_eq!(sessions.begin_step(None, &agent("a"), &id).unwrap().state, state("y"));
    }

    /// Adds a session of a caller, later than all others.
    async fn added(sessions: &Sessions, caller: &str) -> String {
        advance(Duration::from_millis(1)).await;
        sessions.add((None, &Some(caller.into())), &agent("a"), state("x"))
    }

    fn has(sessions: &Sessions, id: &str) -> bool {
        sessions.begin_step(None, &agent("a"), id).is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn caller_beyond_quarter_replaces_own_session() {
        let sessions = Sessions { limit: 16, ..Sessions::default() };
        let other = added(&sessions, "other").await;
        let mut ids = Vec::new();
        for _ in 0..4 {
            ids.push(added(&sessions, "caller").await);
        }
        advance(Duration::from_millis(1)).await;
        assert!(has(&sessions, &ids[0]), "the step uses it");
        added(&sessions, "caller").await;
        assert!(has(&sessions, &ids[0]) && has(&sessions, &other));
        assert!(!has(&sessions, &ids[1]), "it was used least recently");
        assert_eq!(sessions.lock().len(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn full_table_takes_from_the_largest_caller() {
        let sessions = Sessions { limit: 8, ..Sessions::default() };
        let mut first = Vec::new();
        for caller in ["a", "b", "c", "d", "e", "f"] {
            first.push(added(&sessions, caller).await);
        }
        added(&sessions, "f").await;
        added(&sessions, "g").await;
        let new = added(&sessions, "h").await;
        assert!(!has(&sessions, &first[5]), "the first session of f");
        assert!(first[..5].iter().all(|id| has(&sessions, id)) && has(&sessions, &new));
    }
}
