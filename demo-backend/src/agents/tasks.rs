//! The tasks of an agent. They are in memory, and their ids are counters.

use std::collections::HashMap;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};
use std::task::Poll;

use tokio::sync::watch;

use super::hosted_agent::{Event, Step};
use super::wire::{Failure, State, Task};
use crate::clock::Clock;

/// All tasks of one agent.
#[derive(Debug)]
pub(super) struct Tasks {
    clock: Clock,
    next: AtomicU64,
    all: Mutex<HashMap<String, Arc<RunningTask>>>,
}

/// A task and its events so far.
#[derive(Debug)]
pub(super) struct RunningTask {
    id: String,
    context_id: String,
    clock: Clock,
    log: Mutex<Vec<(Event, String)>>,
    changed: watch::Sender<()>,
}

impl Tasks {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, next: AtomicU64::new(1), all: Mutex::default() }
    }

    /// A number that no other task, conversation or message has.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Starts a task, which works without its client.
    pub(super) fn start(&self, context_id: String, steps: Vec<Step>) -> Arc<RunningTask> {
        let id = format!("task-{}", self.number());
        let (clock, log) = (self.clock, Mutex::default());
        let changed = watch::Sender::new(());
        let task = Arc::new(RunningTask { id: id.clone(), context_id, clock, log, changed });
        locked(&self.all).insert(id, Arc::clone(&task));
        let worker = Arc::clone(&task);
        tokio::spawn(async move {
            for step in steps {
                tokio::time::sleep(step.after).await;
                if !worker.push(step.event) {
                    return;
                }
            }
        });
        task
    }

    /// The task with this id.
    pub(super) fn find(&self, id: &str) -> Result<Arc<RunningTask>, Failure> {
        locked(&self.all).get(id).cloned().ok_or_else(|| Failure::no_task(id))
    }
}

impl RunningTask {
    /// Adds an event, unless the task has ended.
    fn push(&self, event: Event) -> bool {
        let mut log = locked(&self.log);
        if has_ended(&log) {
            return false;
        }
        log.push((event, self.clock.timestamp()));
        drop(log);
        self.changed.send_replace(());
        true
    }

    /// Cancels the task, unless it has ended.
    pub(super) fn cancel(&self) -> Result<(), Failure> {
        let is_canceled = self.push(Event::Status(State::Canceled, None));
        is_canceled.then_some(()).ok_or_else(|| Failure::not_cancelable(&self.id))
    }

    /// The task now, and the number of its events.
    pub(super) fn now(&self) -> (Task, usize) {
        let count = locked(&self.log).len();
        (self.after(count), count)
    }

    /// The task after this number of events.
    pub(super) fn after(&self, count: usize) -> Task {
        let mut task = Task {
            id: self.id.clone(),
            context_id: self.context_id.clone(),
            state: State::Working,
            words: None,
            timestamp: self.clock.timestamp(),
            artifacts: Vec::new(),
        };
        for (event, at) in locked(&self.log).iter().take(count) {
            match event.clone() {
                Event::Status(state, words) => {
                    (task.state, task.words) = (state, words);
                    task.timestamp.clone_from(at);
                }
                Event::Artifact(part) => task.artifacts.push(part),
            }
        }
        task
    }

    /// Waits for the event after this number of events. `None` at the end of the task.
    pub(super) async fn next(&self, seen: usize) -> Option<Event> {
        // Changes after this line wake the loop.
        let mut changed = self.changed.subscribe();
        loop {
            if let Poll::Ready(next) = self.look(seen) {
                return next;
            }
            // The sender is a member of this task.
            changed.changed().await.ok()?;
        }
    }

    fn look(&self, seen: usize) -> Poll<Option<Event>> {
        let log = locked(&self.log);
        match log.get(seen) {
            Some((event, _)) => Poll::Ready(Some(event.clone())),
            None if has_ended(&log) => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Waits for the end of the task.
    pub(super) async fn ended(&self) {
        let mut seen = 0;
        while self.next(seen).await.is_some() {
            seen += 1;
        }
    }
}

fn has_ended(log: &[(Event, String)]) -> bool {
    matches!(log.last(), Some((Event::Status(state, _), _)) if state.is_final())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::wire::Part;

    fn steps() -> Vec<Step> {
        let result = Step::result(1, Part::Text("done".into()));
        [Step::progress(0, "begun")].into_iter().chain(result).collect()
    }

    #[tokio::test]
    async fn followers_see_all_events_in_order() {
        let tasks = Tasks::new(Clock::System);
        let task = tasks.start("context-1".into(), steps());
        let mut states = Vec::new();
        while let Some(event) = task.next(states.len()).await {
            states.push(match event {
                Event::Status(state, _) => Some(state),
                Event::Artifact(_) => None,
            });
        }
        assert_eq!(states, [Some(State::Working), None, Some(State::Completed)]);
        let (now, count) = task.now();
        assert_eq!((now.state, now.artifacts.len(), count), (State::Completed, 1, 3));
        assert_eq!(task.after(1).words.as_deref(), Some("begun"));
    }

    #[tokio::test]
    async fn canceled_task_has_no_further_events() {
        let tasks = Tasks::new(Clock::System);
        let endless = vec![Step::progress(3_600_000, "never")];
        let task = tasks.start("context-1".into(), endless);
        task.cancel().unwrap();
        task.ended().await;
        assert_eq!(task.cancel().unwrap_err().code, -32002);
        assert!(!task.push(Event::Artifact(Part::Text("late".into()))));
        assert_eq!(tasks.find("task-1").unwrap().now().0.state, State::Canceled);
        assert_eq!(tasks.find("task-2").unwrap_err().code, -32001);
    }
}
