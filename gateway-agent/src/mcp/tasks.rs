//! Tasks of 2025-11-25: `tasks/list`, and the wait of `tasks/result`.
//!
//! A session remembers the tasks that it started. `tasks/list` polls their servers, and
//! `notifications/tasks/status` reaches only that session.
//! `notifications/tasks/status` reaches only the session that began the task.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use gateway_protocol::{
    jsonrpc::{self, Object, ObjectWriter},
    mcp::{Method, RELATED_TASK},
};
use gateway_upstream::Phase;
use registry_core::Key;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep};

use super::{
    Endpoint, Rejection,
    incoming::Incoming,
    requester::{self, Requester},
    stream::poll_interval,
};
use crate::{
    audit::CallRecord,
    mcp::render::{self, http::SizedResponse, result},
    pipeline::{self, Error, FeatureSubject, Invocation, Output, Target, Task},
};

/// Maximum remembered tasks per session; the oldest are dropped first.
const MAX_TASKS: usize = 100;
/// Maximum tasks per page of `tasks/list`.
const PAGE_SIZE: usize = 20;
/// Maximum concurrent polls of one `tasks/list`.
const CONCURRENT_POLLS: usize = 8;
/// Timeout of `tasks/result`.
pub(super) const MAX_RESULT_WAIT: Duration = Duration::from_mins(10);

/// The tasks of a session, newest last.
#[derive(Debug, Default)]
pub(super) struct SessionTasks(VecDeque<(Box<str>, Task)>);

impl SessionTasks {
    /// Stores a task under the client's id.
    pub(super) fn add(&mut self, known: &str, task: Task) {
        if self.0.len() >= MAX_TASKS {
            self.0.pop_front();
        }
        self.0.push_back((known.into(), task));
    }

    /// Whether the session has started no task.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn forget(&mut self, known: &str) {
        self.0.retain(|(other, _)| **other != *known);
    }

    pub(super) fn known(&self, server: &Key, id: &str) -> Option<&str> {
        let found = self.0.iter().find(|(_, task)| task.server == *server && *task.id == *id);
        found.map(|(known, _)| &**known)
    }

    /// The tasks after a cursor. `None`: the session does not remember the cursor's task.
    fn after(&self, cursor: Option<&str>) -> Option<Vec<(Box<str>, Task)>> {
        let start = match cursor {
            Some(cursor) => self.0.iter().position(|(known, _)| **known == *cursor)? + 1,
            None => 0,
        };
        Some(self.0.iter().skip(start).cloned().collect())
    }
}

pub(super) async fn list(
    endpoint: &Arc<Endpoint>,
    incoming: &Incoming<'_>,
    requester: &Requester,
) -> Result<SizedResponse, Rejection> {
    let Some(session) = &requester.session else { return Err(Rejection::SessionRequired) };
    let cursor = match incoming.param("cursor").filter(|raw| raw.get() != "null") {
        Some(_) => {
            let text = incoming.text("cursor").unwrap_or_default();
            Some(crate::view::pages::decode_cursor(&text)?)
        }
        None => None,
    };
    let page = session.tasks(|tasks| tasks.after(cursor.as_deref()));
    let unknown = "params.cursor refers to a task that is no longer listed; start without a cursor";
    let mut page = page.ok_or(Rejection::Params { what: unknown })?;
    let has_more = page.len() > PAGE_SIZE;
    page.truncate(PAGE_SIZE);
    let next =
        page.last().filter(|_| has_more).map(|(known, _)| crate::view::pages::encode_cursor(known));
    let context = requester::context(incoming, requester)?;
    let asked = page.into_iter().map(async |(known, task)| {
        let span = endpoint.gateway.tracer().begin(&context.trace);
        let subject = FeatureSubject::Task(known.clone(), Some(task));
        let caller = requester.caller.clone();
        let method = Method::GetTask.as_str();
        let mut record = CallRecord::begin(method, requester.era, &*subject.audited(), 0, span);
        let mut call = Invocation::task_status(caller, subject, context.clone());
        let output = pipeline::invoke(&endpoint.gateway, &mut call, &mut record).await;
        match output.and_then(Output::into_result) {
            Ok(outcome) => Some(result::task(&outcome)),
            Err(error) => {
                if is_gone(&error) {
                    session.tasks(|tasks| tasks.forget(&known));
                }
                None
            }
        }
    });
    let tasks: Vec<_> = stream::iter(asked)
        .buffered(CONCURRENT_POLLS)
        .filter_map(std::future::ready)
        .collect()
        .await;
    let mut result = ObjectWriter::with_capacity(1024);
    result.raw("tasks", &format!("[{}]", tasks.join(",")));
    if let Some(next) = next {
        result.string("nextCursor", &next);
    }
    Ok(render::result::raw(incoming.id, &result.finish_string()))
}

/// Whether the server no longer knows a task.
fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Upstream(gateway_upstream::Error::Rpc { code, .. })
        if *code == jsonrpc::code::INVALID_PARAMS)
}

/// Polls a task until it has ended or needs input. A blocking `tasks/result` would occupy one of
/// the upstream's concurrent requests.
pub(super) async fn wait_until_settled(
    endpoint: &Endpoint,
    (call, until): (&Invocation, Instant),
    record: &mut CallRecord,
) -> Result<(), Error> {
    let Target::Feature { subject, .. } = &call.target else { return Ok(()) };
    let caller = call.caller.clone();
    // The wait counts like a subscription, because it polls the server.
    let principal = endpoint.gateway.principal(&caller.claim);
    let _share =
        endpoint.state.task_watches.acquire(&principal).map_err(gateway_upstream::Error::from)?;
    let mut get = Invocation::task_status(caller, subject.clone(), call.context.clone());
    loop {
        let output = pipeline::invoke(&endpoint.gateway, &mut get, record).await?;
        let outcome = output.into_result()?;
        record.reopen();
        let task = &outcome.result.result;
        let status =
            Object::parse(task).ok().and_then(|task| Some(task.find("status")?.get().to_owned()));
        let Some(wait) =
            poll_interval(task).filter(|_| status.as_deref() != Some(r#""input_required""#))
        else {
            return Ok(());
        };
        if Instant::now() + wait > until {
            let after_ms = u64::try_from(MAX_RESULT_WAIT.as_millis()).unwrap_or(u64::MAX);
            return Err(gateway_upstream::Error::Timeout { phase: Phase::Call, after_ms }.into());
        }
        sleep(wait).await;
    }
}

/// Whether a `tasks/result` timed out while the task is still running.
pub(super) fn is_still_running(
    outcome: &Result<pipeline::OperationResult, Error>,
    until: Instant,
) -> bool {
    let is_late = matches!(
        outcome,
        Err(Error::Upstream(gateway_upstream::Error::Timeout { phase: Phase::Call, .. }))
    );
    is_late && Instant::now() < until
}

/// Replaces the server's task id in parameters by the client's.
pub(super) fn with_known_task(params: &str, task: Option<(&str, &str)>) -> Option<String> {
    if !params.contains(RELATED_TASK) {
        return None;
    }
    let renamed = |id: &str| task.filter(|(own, _)| *own == id).map(|(_, known)| known.to_owned());
    related(&RawValue::from_string(params.to_owned()).ok()?, renamed)
}

/// Replaces the client's task id in an answer by the server's.
pub(super) fn with_own_task(
    endpoint: &Endpoint,
    requester: &gateway_policy::CallerIdentity,
    answer: &RawValue,
) -> Option<Box<RawValue>> {
    if !answer.get().contains(RELATED_TASK) {
        return None;
    }
    let own = |known: &str| Some(Task::open(&endpoint.gateway, requester, known)?.id.into());
    RawValue::from_string(related(answer, own)?).ok()
}

fn related(object: &RawValue, renamed: impl Fn(&str) -> Option<String>) -> Option<String> {
    let members = Object::parse(object).ok()?;
    let meta = Object::parse(members.find("_meta")?).ok()?;
    let task = Object::parse(meta.find(RELATED_TASK)?).ok();
    let id = task.and_then(|task| serde_json::from_str::<String>(task.find("taskId")?.get()).ok());
    let mut kept = ObjectWriter::with_capacity(256);
    for member in meta.members().iter().filter(|member| member.name != RELATED_TASK) {
        kept.member(&member.name, member.value.get());
    }
    if let Some(id) = id.as_deref().and_then(renamed) {
        kept.raw(RELATED_TASK, &serde_json::json!({ "taskId": id }).to_string());
    }
    let kept = kept.finish_string();
    let mut out = ObjectWriter::with_capacity(object.get().len() + 64);
    for member in members.members() {
        out.member(&member.name, if member.name == "_meta" { &kept } else { member.value.get() });
    }
    Some(out.finish_string())
}

/// The message in the status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatusMessage {
    Kept,
    Omitted,
}

/// The parameters of `notifications/tasks/status`, under the client's id.
pub(super) fn status(
    params: &str,
    (own, known): (&str, &str),
    message: StatusMessage,
) -> Option<String> {
    let raw = RawValue::from_string(params.to_owned()).ok()?;
    let members = Object::parse(&raw).ok()?;
    let mut out = ObjectWriter::with_capacity(params.len() + known.len());
    out.string("taskId", known);
    for name in ["status", "statusMessage", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"] {
        let value = members.find(name).map(RawValue::get);
        // Messages with the server's id are omitted.
        let is_kept = |value: &&str| {
            name != "statusMessage" || message == StatusMessage::Kept && !value.contains(own)
        };
        if let Some(value) = value.filter(is_kept) {
            out.raw(name, value);
        }
    }
    Some(out.finish_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn task(id: &str) -> Task {
        Task { tool: "t".into(), server: "server/s@1.0.0".parse().unwrap(), id: id.into() }
    }

    #[test]
    fn session_remembers_its_latest_tasks() {
        let mut begun = SessionTasks::default();
        for number in 0..=MAX_TASKS {
            begun.add(&format!("known {number}"), task(&number.to_string()));
        }
        let server = task("").server;
        assert_eq!(begun.known(&server, "0"), None, "the oldest is forgotten");
        assert_eq!(begun.known(&server, "100"), Some("known 100"));
        assert_eq!(begun.after(Some("known 0")), None, "an unknown cursor");
        let after = begun.after(Some("known 98")).unwrap();
        assert_eq!(
            after.iter().map(|(known, _)| &**known).collect::<Vec<_>>(),
            ["known 99", "known 100"]
        );
        begun.forget("known 100");
        assert_eq!(begun.after(None).unwrap().len(), MAX_TASKS - 1);
    }

    #[test]
    fn task_messages_use_client_ids() {
        let params = |id: &str| json!({ "message": "?", "_meta": { RELATED_TASK: { "taskId": id }, "a": 1 } });
        let renamed = |task| -> Value {
            serde_json::from_str(&with_known_task(&params("own").to_string(), task).unwrap())
                .unwrap()
        };
        assert_eq!(renamed(Some(("own", "known"))), params("known"));
        assert_eq!(
            renamed(Some(("other", "known"))),
            json!({ "message": "?", "_meta": { "a": 1 } })
        );
        assert_eq!(renamed(None), json!({ "message": "?", "_meta": { "a": 1 } }));
        assert_eq!(with_known_task(r#"{"message":"?"}"#, None), None);
        let said = json!({ "taskId": "own", "status": "working", "statusMessage": "own runs", "ttl": null });
        let told = status(&said.to_string(), ("own", "known"), StatusMessage::Kept).unwrap();
        assert_eq!(told, r#"{"taskId":"known","status":"working","ttl":null}"#);
    }

    #[test]
    fn status_message_is_omitted_if_policies_inspect() {
        let said = json!({ "status": "working", "statusMessage": "jane.doe@acme-bank.org" });
        let told = |message| status(&said.to_string(), ("own", "known"), message).unwrap();
        assert!(told(StatusMessage::Kept).contains("statusMessage"));
        let omitted = told(StatusMessage::Omitted);
        assert_eq!(omitted, r#"{"taskId":"known","status":"working"}"#);
    }
}
