//! The sessions of sampling, in memory and within limits. A session belongs to the principal that
//! started it. Sessions of callers without an identity are found by their id only, which is random.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use registry_core::Name;
use tokio::time::Instant;
use uuid::Uuid;

use super::skills::Conversation;
use crate::pipeline::TaskOwner;

/// The time that an unused session is kept.
const KEPT: Duration = Duration::from_hours(1);
/// Maximum sessions of one principal. The least recently used one is removed.
const OWNER_SESSIONS: usize = 64;
/// Maximum sessions of all principals.
const SESSIONS: usize = 4_096;

/// The sessions of all principals by their ids.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<Uuid, Entry>>);

#[derive(Debug)]
struct Entry {
    owner: Option<TaskOwner>,
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

impl Sessions {
    /// Adds a session and returns its id.
    pub(super) fn add(
        &self,
        owner: Option<TaskOwner>,
        agent: &Name,
        state: SessionState,
    ) -> String {
        let (id, used) = (Uuid::new_v4(), Instant::now());
        let mut sessions = self.lock();
        sessions.retain(|_, entry| used.saturating_duration_since(entry.used) < KEPT);
        let own = sessions.values().filter(|entry| entry.owner == owner).count();
        if own >= OWNER_SESSIONS || sessions.len() >= SESSIONS {
            let is_candidate = |entry: &Entry| own < OWNER_SESSIONS || entry.owner == owner;
            let candidates = sessions.iter().filter(|(_, entry)| is_candidate(entry));
            let oldest = candidates.min_by_key(|(_, entry)| entry.used).map(|(id, _)| *id);
            oldest.and_then(|oldest| sessions.remove(&oldest));
        }
        sessions.insert(id, Entry { owner, agent: agent.clone(), used, state: Some(state) });
        id.to_string()
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        let id = sessions.add(None, &agent("a"), state("x"));
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
        let id = sessions.add(None, &agent("a"), state("x"));
        let mut running = sessions.begin_step(None, &agent("a"), &id).unwrap();
        let second = sessions.begin_step(None, &agent("a"), &id);
        assert_eq!(second.unwrap_err(), NoSession::Busy);
        running.state = state("y");
        drop(running);
        assert_eq!(sessions.begin_step(None, &agent("a"), &id).unwrap().state, state("y"));
    }

    #[tokio::test(start_paused = true)]
    async fn least_recently_used_session_is_removed() {
        let sessions = Sessions::default();
        let mut ids = Vec::new();
        for _ in 0..OWNER_SESSIONS {
            advance(Duration::from_millis(1)).await;
            ids.push(sessions.add(None, &agent("a"), state("x")));
        }
        drop(sessions.begin_step(None, &agent("a"), &ids[0]));
        advance(Duration::from_millis(1)).await;
        drop(sessions.begin_step(None, &agent("a"), &ids[0]));
        sessions.add(None, &agent("a"), state("x"));
        assert!(sessions.begin_step(None, &agent("a"), &ids[0]).is_ok());
        assert!(sessions.begin_step(None, &agent("a"), &ids[1]).is_err());
        assert_eq!(sessions.lock().len(), OWNER_SESSIONS);
    }
}
