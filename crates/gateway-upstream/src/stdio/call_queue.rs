//! Serialization of the calls of tools whose questions cannot be correlated.
//!
//! Before 2026-07-28 a server sends questions as requests of its own. Over HTTP they arrive on the
//! stream of the call they belong to. Over stdio nothing connects the two, unless the server repeats
//! the progress token. The calls of a tool that asks without the token run one at a time in a child.
//! The gateway learns from calls how a tool asks; the first call of a tool is serialized too.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use gateway_policy::{QuotaExceeded, QuotaKey, QuotaKind, Quotas};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, timeout_at},
};

use crate::error::CallNotStarted;

/// Maximum wait for the slot of an unknown tool, so that a slow first call does not block others.
const LEARN: Duration = Duration::from_secs(5);

/// How a tool asks questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// Its calls have asked nothing.
    Quiet,
    /// Its questions repeat the progress token of their call.
    Correlates,
    /// Its questions carry nothing that identifies the call.
    Asks,
}

/// The observed habits of a target's tools, shared by its children.
#[derive(Debug)]
pub(super) struct Habits {
    known: Mutex<HashMap<Box<str>, Habit>>,
    changed: watch::Sender<()>,
}

impl Default for Habits {
    fn default() -> Self {
        Self { known: Mutex::default(), changed: watch::channel(()).0 }
    }
}

impl Habits {
    /// Records a call that ended without a question.
    pub(super) fn asked_nothing(&self, tool: &str) {
        if !self.lock().contains_key(tool) {
            self.learn(tool, Habit::Quiet);
        }
    }

    /// Records a question, with or without the progress token of its call.
    pub(super) fn has_asked(&self, tool: &str, has_token: bool) {
        let habit = if has_token { Habit::Correlates } else { Habit::Asks };
        let known = self.get(tool);
        if known != Some(habit) && known != Some(Habit::Asks) {
            self.learn(tool, habit);
        }
    }

    /// Records that a tool may have asked without a progress token, unless more is known of it.
    pub(super) fn may_ask(&self, tool: &str) {
        if self.get(tool).is_none() {
            self.learn(tool, Habit::Asks);
        }
    }

    /// Whether the tool asks without a progress token.
    pub(super) fn asks(&self, tool: &str) -> bool {
        self.get(tool) == Some(Habit::Asks)
    }

    fn learn(&self, tool: &str, habit: Habit) {
        self.lock().insert(tool.into(), habit);
        self.changed.send_replace(());
    }

    fn get(&self, tool: &str) -> Option<Habit> {
        self.lock().get(tool).copied()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Habit>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slot of a serialized call. Dropping it admits the next call.
pub(super) type CallSlot = OwnedSemaphorePermit;

/// A delivered question without an answer, until this is dropped.
#[derive(Debug)]
pub(super) struct Unanswered(Arc<AtomicUsize>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The queue of the serialized calls of one child.
#[derive(Debug)]
pub(super) struct CallQueue {
    habits: Arc<Habits>,
    one: Arc<Semaphore>,
    /// Whether an ambiguous question waits; meanwhile no request starts.
    is_ambiguous: watch::Sender<bool>,
    /// Each caller gets a quarter of the queue.
    queue: Arc<Quotas>,
    /// Delivered questions without an answer.
    unanswered: Arc<AtomicUsize>,
    learn: Duration,
}

impl CallQueue {
    pub(super) fn new(habits: Arc<Habits>, most_waiting: usize) -> Self {
        Self {
            habits,
            one: Arc::new(Semaphore::new(1)),
            is_ambiguous: watch::channel(false).0,
            queue: Quotas::new(QuotaKind::Answers, most_waiting),
            unanswered: Arc::default(),
            learn: LEARN,
        }
    }

    pub(super) fn habits(&self) -> &Habits {
        &self.habits
    }

    /// Sets whether an ambiguous question waits.
    pub(super) fn set_ambiguous(&self, is_ambiguous: bool) {
        self.is_ambiguous.send_replace(is_ambiguous);
    }

    /// Counts a delivered question until the result is dropped.
    pub(super) fn unanswered(&self) -> Unanswered {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        Unanswered(Arc::clone(&self.unanswered))
    }

    fn late(&self) -> CallNotStarted {
        let is_unanswered =
            *self.is_ambiguous.borrow() || self.unanswered.load(Ordering::Relaxed) > 0;
        if is_unanswered { CallNotStarted::Unanswered } else { CallNotStarted::Running }
    }

    /// Waits until a call of this tool may start, at most this long.
    pub(super) async fn enter(
        &self,
        tool: &str,
        (quota_key, within): (&QuotaKey, Duration),
    ) -> Result<Option<CallSlot>, CallNotStarted> {
        let slot = if self.is_free(tool) {
            None
        } else if let Ok(slot) = Arc::clone(&self.one).try_acquire_owned() {
            Some(slot)
        } else {
            let full = |why: QuotaExceeded| match why {
                QuotaExceeded::PerCaller { limit: most, .. }
                | QuotaExceeded::Total { limit: most, .. } => CallNotStarted::Full { most },
            };
            let _place = self.queue.acquire(quota_key).map_err(full)?;
            self.queued(tool, Instant::now() + within).await.map_err(|_| self.late())?
        };
        if !*self.is_ambiguous.borrow() {
            return Ok(slot);
        }
        let mut is_ambiguous = self.is_ambiguous.subscribe();
        let clear =
            tokio::time::timeout(within, is_ambiguous.wait_for(|is_ambiguous| !is_ambiguous));
        // The sender is owned by `self`.
        clear.await.map_err(|_| self.late()).map(|_| slot)
    }

    fn is_free(&self, tool: &str) -> bool {
        matches!(self.habits.get(tool), Some(Habit::Quiet | Habit::Correlates))
    }

    /// Waits for the slot while the tool needs one.
    async fn queued(
        &self,
        tool: &str,
        until: Instant,
    ) -> Result<Option<CallSlot>, tokio::time::error::Elapsed> {
        let learnt = Instant::now() + self.learn;
        let mut changed = self.habits.changed.subscribe();
        let mut slot = Box::pin(Arc::clone(&self.one).acquire_owned());
        loop {
            let habit = self.habits.get(tool);
            if self.is_free(tool) {
                return Ok(None);
            }
            let until = if habit.is_none() { until.min(learnt) } else { until };
            let next = async {
                tokio::select! {
                    slot = &mut slot => Some(slot.ok()),
                    _ = changed.changed() => None,
                }
            };
            match timeout_at(until, next).await {
                // The tool may have become known as not needing a slot.
                Ok(Some(slot)) => return Ok(slot.filter(|_| !self.is_free(tool))),
                Ok(None) => {}
                Err(_) if habit.is_none() && Instant::now() >= learnt => return Ok(None),
                Err(late) => return Err(late),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const LONG: Duration = Duration::from_mins(1);
    const SHORT: Duration = Duration::from_millis(50);

    fn queue() -> CallQueue {
        CallQueue { learn: SHORT, ..CallQueue::new(Arc::default(), 8) }
    }

    #[tokio::test]
    async fn asking_tool_has_one_call_at_a_time() {
        let queue = queue();
        queue.habits().has_asked("asks", false);
        queue.habits().asked_nothing("quiet");
        let first = queue.enter("asks", (&None, LONG)).await.unwrap();
        assert!(first.is_some());
        let mut second = Box::pin(queue.enter("asks", (&None, LONG)));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(queue.enter("quiet", (&None, LONG)).await.unwrap().is_none());
        drop(first);
        assert!(second.await.unwrap().is_some());
    }

    #[tokio::test]
    async fn first_calls_wait_until_the_tool_is_known() {
        let queue = queue();
        let first = queue.enter("new", (&None, LONG)).await.unwrap();
        let mut second = Box::pin(queue.enter("new", (&None, LONG)));
        assert!(second.as_mut().now_or_never().is_none());
        queue.habits().has_asked("new", true);
        assert!(second.await.unwrap().is_none(), "its questions identify their call");
        // A slow first call does not block other tools.
        assert!(queue.enter("other", (&None, LONG)).await.unwrap().is_none());
        drop(first);
    }

    #[tokio::test]
    async fn nothing_starts_while_a_question_is_ambiguous() {
        let queue = queue();
        queue.habits().asked_nothing("quiet");
        queue.set_ambiguous(true);
        let mut call = Box::pin(queue.enter("quiet", (&None, LONG)));
        assert!(call.as_mut().now_or_never().is_none());
        queue.set_ambiguous(false);
        assert!(call.await.unwrap().is_none());
    }

    #[tokio::test]
    async fn wait_times_out_and_queue_is_shared_fairly() {
        let queue = queue();
        queue.habits().has_asked("asks", false);
        let _first = queue.enter("asks", (&None, LONG)).await.unwrap();
        let ann = Some(Arc::from("ann"));
        let mut waiting = [0, 1].map(|_| Box::pin(queue.enter("asks", (&ann, LONG))));
        assert!(waiting.iter_mut().all(|call| call.as_mut().now_or_never().is_none()));
        let full = queue.enter("asks", (&ann, LONG)).await.unwrap_err();
        assert_eq!(full, CallNotStarted::Full { most: 2 }, "a quarter of eight");
        let running = queue.enter("asks", (&None, SHORT)).await.unwrap_err();
        assert_eq!(running, CallNotStarted::Running);
        let question = queue.unanswered();
        let unanswered = queue.enter("asks", (&None, SHORT)).await.unwrap_err();
        assert_eq!(unanswered, CallNotStarted::Unanswered);
        drop(question);
        assert_eq!(queue.late(), CallNotStarted::Running);
    }
}
