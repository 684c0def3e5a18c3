//! Calls that may still ask although their request has ended: calls that ended a moment ago, and calls
//! that continue as tasks of 2025-11-25.
//!
//! Cancelled requests that the child has not answered stay in the connection's table.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use gateway_protocol::jsonrpc::Object;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until};

use super::super::request::Request;

/// Grace period after a call, during which a question may belong to that call.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// Maximum time that a task counts as running.
const TASK: Duration = Duration::from_mins(10);
/// Maximum number of tracked tasks.
const MAX_TASKS: usize = 1_024;

/// The caller of a request, as far as the gateway distinguishes callers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Caller {
    /// An agent or another principal.
    Named(Arc<str>),
    /// The session of an unauthenticated caller.
    Session(Arc<str>),
    Unknown,
}

impl Caller {
    pub(super) fn from_request(request: &Request<'_>) -> Self {
        let context = request.context;
        let name = context.caller.as_ref().or(request.quota_key.as_ref());
        match (name, &context.session) {
            (Some(name), _) => Self::Named(Arc::clone(name)),
            (None, Some(session)) => Self::Session(Arc::clone(session)),
            (None, None) => Self::Unknown,
        }
    }

    /// Whether both are certainly one caller.
    pub(super) fn is(&self, other: &Self) -> bool {
        *self != Self::Unknown && self == other
    }
}

/// The former calls of one child.
#[derive(Debug, Default)]
pub(super) struct FormerCalls(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    /// Callers whose calls have ended, and the end of their grace period.
    ended: HashMap<Caller, Instant>,
    /// Running tasks with their callers and expiry.
    tasks: HashMap<Box<str>, (Caller, Instant)>,
}

impl Calls {
    fn forget_old(&mut self) {
        let now = Instant::now();
        self.ended.retain(|_, until| *until > now);
        self.tasks.retain(|_, (_, until)| *until > now);
    }

    fn doubt(&mut self, caller: Caller, until: Instant) {
        let known = self.ended.entry(caller).or_insert(until);
        *known = until.max(*known);
    }
}

impl FormerCalls {
    /// Records the end of a call that has asked nothing.
    pub(super) fn ended(&self, caller: Caller) {
        let mut calls = self.lock();
        calls.forget_old();
        calls.doubt(caller, Instant::now() + GRACE);
    }

    /// Records a task that a call has started.
    pub(super) fn task_started(&self, task: Box<str>, caller: Caller) {
        let mut calls = self.lock();
        calls.forget_old();
        let until = Instant::now() + TASK;
        if calls.tasks.len() < MAX_TASKS {
            calls.tasks.insert(task, (caller, until));
        } else {
            calls.doubt(Caller::Unknown, until);
        }
    }

    /// Records the end of a task.
    pub(super) fn task_ended(&self, task: &str) {
        let ended = self.lock().tasks.remove(task);
        if let Some((caller, _)) = ended {
            self.ended(caller);
        }
    }

    /// Records that the questions of a task name it.
    pub(super) fn task_is_named(&self, task: &str) {
        self.lock().tasks.remove(task);
    }

    /// The reason why a question for one of these callers may belong to a former call of another caller.
    pub(super) fn doubt(&self, callers: &[&Caller]) -> Option<&'static str> {
        let mut calls = self.lock();
        calls.forget_old();
        let is_other = |former: &Caller| callers.iter().any(|caller| !caller.is(former));
        if calls.ended.keys().any(is_other) {
            return Some("a call of another caller that ended less than 5 s ago may have asked it");
        }
        let mut tasks = calls.tasks.values();
        tasks
            .any(|(caller, _)| is_other(caller))
            .then_some("a running task of another caller may have asked it")
    }

    /// Waits until the grace periods of other callers are over, at most one period.
    pub(super) async fn settled(&self, caller: &Caller) {
        let latest = Instant::now() + GRACE;
        loop {
            let until = {
                let mut calls = self.lock();
                calls.forget_old();
                let others = calls.ended.iter().filter(|(former, _)| !caller.is(former));
                others.map(|(_, until)| *until).max()
            };
            let Some(until) = until.filter(|_| Instant::now() < latest) else { return };
            sleep_until(until.min(latest)).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that a call has started, from its result.
pub(super) fn started_task(result: &RawValue) -> Option<Box<str>> {
    let task = Object::parse(Object::parse(result).ok()?.find("task")?).ok()?;
    serde_json::from_str(task.find("taskId")?.get()).ok()
}

/// Whether the result of `tasks/get` or `tasks/cancel` has a final status.
pub(super) fn is_final(result: &RawValue) -> bool {
    let status = Object::parse(result).ok().and_then(|task| task.find("status"));
    status.is_some_and(|status| {
        matches!(status.get(), r#""completed""# | r#""failed""# | r#""cancelled""#)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: &str) -> Caller {
        Caller::Session(id.into())
    }

    #[tokio::test(start_paused = true)]
    async fn ended_call_is_doubted_by_others_for_grace() {
        let (former, alice, bob) = (FormerCalls::default(), session("alice"), session("bob"));
        former.ended(alice.clone());
        assert!(former.doubt(&[&alice]).is_none());
        assert!(former.doubt(&[&bob]).is_some() && former.doubt(&[&alice, &bob]).is_some());
        assert!(former.doubt(&[&Caller::Unknown]).is_some());
        let started = Instant::now();
        former.settled(&alice).await;
        assert_eq!(started.elapsed(), Duration::ZERO);
        former.settled(&bob).await;
        assert!(started.elapsed() >= GRACE && former.doubt(&[&bob]).is_none());
        former.ended(Caller::Unknown);
        assert!(former.doubt(&[&Caller::Unknown]).is_some(), "two unknown callers may differ");
    }

    #[tokio::test(start_paused = true)]
    async fn task_is_doubted_until_it_ends_or_is_named() {
        let (former, alice, bob) = (FormerCalls::default(), session("alice"), session("bob"));
        former.task_started("one".into(), alice.clone());
        tokio::time::advance(GRACE * 2).await;
        assert!(former.doubt(&[&alice]).is_none() && former.doubt(&[&bob]).is_some());
        former.task_ended("one");
        assert!(former.doubt(&[&bob]).is_some(), "the call ended just now");
        tokio::time::advance(GRACE).await;
        assert!(former.doubt(&[&bob]).is_none());
        former.task_started("two".into(), alice);
        former.task_is_named("two");
        assert!(former.doubt(&[&bob]).is_none());
        for task in 0..=MAX_TASKS {
            former.task_started(task.to_string().into(), bob.clone());
        }
        assert!(former.doubt(&[&bob]).is_some(), "too many tasks to distinguish");
        tokio::time::advance(TASK).await;
        assert!(former.doubt(&[&bob]).is_none());
    }
}
