//! Notifications about the tasks of one subscription. The gateway polls the servers on behalf of
//! the caller, at the requested interval, and sends changes.
//!
//! Subscriptions at upstreams are not used: all callers share an upstream's stream, tasks belong to
//! single callers, and few servers send notifications about tasks.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream, SelectAll},
};
use gateway_policy::{Denial, QuotaGuard, QuotaKind, Quotas};
use gateway_protocol::{
    jsonrpc::{self, Object},
    mcp::Method,
};
use gateway_upstream::RequestContext;
use registry_core::Digest;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use super::super::{Endpoint, requester::Requester};
use crate::{
    audit::CallRecord,
    mcp::render::result,
    pipeline::{self, Error, FeatureSubject, Invocation, OperationResult, Output, Task},
};

/// Maximum tasks per subscription.
pub(super) const MAX_TASKS: usize = 100;
/// Maximum subscribed tasks of all callers. One caller can use a quarter.
const SHARED: usize = 1_000;
/// Maximum concurrent polls when a subscription starts.
const CONCURRENT_POLLS: usize = 8;
/// Maximum wait for the first poll of all tasks. Slower servers are polled again.
const FIRST_POLL_TIMEOUT: Duration = Duration::from_secs(5);
/// Poll interval if the server requests none.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Minimum poll interval.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(1);

pub(in super::super) fn watches() -> Arc<Quotas> {
    Quotas::new(QuotaKind::Tasks, SHARED)
}

pub(super) struct Tasks {
    known: Vec<Box<str>>,
    told: SelectAll<BoxStream<'static, String>>,
}

impl Tasks {
    /// Subscribes to the caller's own tasks within its quota. Tasks that are unknown to their
    /// servers are skipped.
    pub(super) async fn watch(
        endpoint: &Arc<Endpoint>,
        (requester, context): (&Requester, &RequestContext),
        ids: &BTreeSet<Box<str>>,
    ) -> Self {
        let until = Instant::now() + FIRST_POLL_TIMEOUT;
        let begin = |known: Box<str>| {
            WatchedTask::begin(
                endpoint.clone(),
                (requester.clone(), context.clone()),
                (known, until),
            )
        };
        let all: Vec<_> = ids.iter().cloned().map(begin).collect();
        let watched = stream::iter(all).buffered(CONCURRENT_POLLS).filter_map(std::future::ready);
        let watched: Vec<WatchedTask> = watched.collect().await;
        let known = watched.iter().map(|watched| watched.about.known().into()).collect();
        let told = watched.into_iter().map(|watched| {
            let next = async |mut watched: WatchedTask| Some((watched.next().await?, watched));
            stream::unfold(watched, next).boxed()
        });
        Self { known, told: stream::select_all(told) }
    }

    /// The caller's ids of the tasks.
    pub(super) fn known(&self) -> &[Box<str>] {
        &self.known
    }

    /// The next changed state of a task (see [`result::task`]), or `None` when all have ended.
    /// Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<String> {
        self.told.next().await
    }
}

struct WatchedTask {
    endpoint: Arc<Endpoint>,
    requester: Requester,
    context: RequestContext,
    about: FeatureSubject,
    /// Delay before the next poll. `None`: the task has ended.
    wait: Option<Duration>,
    /// The digest of the last sent state.
    last: Option<Digest>,
    _share: QuotaGuard,
}

impl WatchedTask {
    /// Starts polling. `None`: the task belongs to another caller, or its server reports in time
    /// that it is unknown.
    async fn begin(
        endpoint: Arc<Endpoint>,
        (requester, context): (Requester, RequestContext),
        (known, until): (Box<str>, Instant),
    ) -> Option<Self> {
        let task = Task::open(&endpoint.gateway, &requester.caller.claim, &known)?;
        let principal = endpoint.gateway.principal(&requester.caller.claim);
        let share = endpoint.state.task_watches.acquire(&principal).ok()?;
        let about = FeatureSubject::Task(known, Some(task));
        // The current state is sent first, because the task can have ended already.
        let wait = Some(Duration::ZERO);
        let watched = Self { endpoint, requester, context, about, wait, last: None, _share: share };
        let asked = timeout_at(until, watched.poll()).await;
        (!matches!(asked, Ok(Err(error)) if is_over(&error))).then_some(watched)
    }

    /// Waits until the state differs from the last sent one.
    async fn next(&mut self) -> Option<String> {
        loop {
            tokio::time::sleep(self.wait?).await;
            while let Some(successor) = self.endpoint.successor() {
                self.endpoint = successor;
            }
            match self.poll().await {
                Ok(outcome) => {
                    let told = self.changed_state(&outcome);
                    if told.is_some() {
                        return told;
                    }
                }
                Err(error) if is_over(&error) => return None,
                Err(_) => self.wait = self.wait.map(|wait| wait.max(POLL_INTERVAL)),
            }
        }
    }

    async fn poll(&self) -> Result<OperationResult, Error> {
        let gateway = &self.endpoint.gateway;
        let span = gateway.tracer().begin(&self.context.trace);
        let caller = self.requester.caller.clone();
        let about = self.about.clone();
        let method = Method::GetTask.as_str();
        let mut record = CallRecord::begin(method, self.requester.era, &*about.audited(), 0, span);
        let mut call = Invocation::task_status(caller, about, self.context.clone());
        let output = pipeline::invoke(gateway, &mut call, &mut record).await;
        output.and_then(Output::into_result)
    }

    /// Stores a state, and returns it if it has changed.
    fn changed_state(&mut self, outcome: &OperationResult) -> Option<String> {
        self.wait = poll_interval(&outcome.result.result);
        let told = result::task(outcome);
        let digest = Digest::compute(told.as_bytes());
        (self.last.replace(digest) != Some(digest)).then_some(told)
    }
}

/// Whether polling must stop: the task is unknown, or the caller is no longer authorized.
fn is_over(error: &Error) -> bool {
    match error {
        Error::Denied(Denial::Stale(_)) => false,
        Error::Denied(_) | Error::Retired(_) => true,
        Error::Upstream(gateway_upstream::Error::Rpc { code, .. }) => {
            *code == jsonrpc::code::INVALID_PARAMS
        }
        _ => false,
    }
}

/// The delay until the next poll of a task in this state. `None`: the task has ended.
pub(in super::super) fn poll_interval(task: &RawValue) -> Option<Duration> {
    let members = Object::parse(task).unwrap_or_default();
    let status = members.find("status").map_or("", RawValue::get);
    if matches!(status, r#""completed""# | r#""failed""# | r#""cancelled""#) {
        return None;
    }
    // The second name is that of 2025-11-25.
    let wanted = members.find("pollIntervalMs").or_else(|| members.find("pollInterval"));
    let wanted = wanted.and_then(|ms| ms.get().parse().ok());
    let wanted = wanted.and_then(|ms: f64| Duration::try_from_secs_f64(ms / 1e3).ok());
    Some(wanted.unwrap_or(POLL_INTERVAL).clamp(SHORTEST, LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poll_interval_follows_server_within_limits() {
        let poll_interval =
            |task: &str| super::poll_interval(&RawValue::from_string(task.to_owned()).unwrap());
        for ended in ["completed", "failed", "cancelled"] {
            let task = format!(r#"{{"status":"{ended}","pollIntervalMs":"x"}}"#);
            assert_eq!(poll_interval(&task), None, "{ended}");
        }
        for (said, seconds) in [("1", 1.0), ("2500.5", 2.5005), ("1e9", 60.0), ("0", 1.0)] {
            let task = format!(r#"{{"status":"working","pollIntervalMs":{said}}}"#);
            assert_eq!(poll_interval(&task), Some(Duration::from_secs_f64(seconds)), "{said}");
        }
        for odd in ["-1", "1e300", "null", "\"1\"", "[]"] {
            let task = format!(r#"{{"status":"working","pollIntervalMs":{odd}}}"#);
            assert_eq!(poll_interval(&task), Some(POLL_INTERVAL), "{odd}");
        }
        assert_eq!(poll_interval("{}"), Some(POLL_INTERVAL));
    }
}
