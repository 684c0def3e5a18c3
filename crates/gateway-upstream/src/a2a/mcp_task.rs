//! Tasks of agents as tasks of MCP 2026-07-28, for clients that declare the extension.

use a2a::{
    Operation, TaskState, model,
    tool::{self, Task, Text},
};
use gateway_protocol::{
    jsonrpc::{Object, ObjectWriter, code},
    mcp::{Capabilities, RpcError},
};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::{
    AgentLink, RequestMeta,
    check::check_answer,
    exchange::Outbound,
    pending::{about, is_final},
    question::{accepted, input_requests, is_asking, key, next_message, part},
};
use crate::{
    error::{Error, ProtocolViolation},
    reply::Reply,
    request,
    send_state::SendState,
};

/// The suggested time between polls, in milliseconds.
const POLL_INTERVAL_MS: &str = "1000";
/// The result of an operation without one.
const ACKNOWLEDGED: &str = r#"{"resultType":"complete"}"#;

/// The answers of a client to questions of a task.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskUpdate<'a> {
    pub(super) task: &'a str,
    pub(super) request: &'a request::Request<'a>,
    pub(super) meta: &'a RequestMeta,
}

impl AgentLink {
    /// Requests the state of a task, or its cancellation. A task whose client cannot answer its
    /// question is canceled.
    pub(super) async fn task_request(
        &self,
        (operation, task): (Operation, &str),
        (meta, capabilities): (&RequestMeta, &Capabilities),
        send_state: &SendState,
    ) -> Result<Reply, Error> {
        let request = about(operation, task);
        let outbound = Outbound { request: &request, meta, send_state, sink: None };
        let mut answer = match Box::pin(self.call(outbound)).await {
            Ok(answer) => answer,
            Err(Error::Agent(mut failure))
                if operation == Operation::CancelTask || is_final(failure.kind) =>
            {
                self.hidden.replace_in_failure(&mut failure);
                let (code, message) = (code::INVALID_PARAMS, failure.message);
                return Ok(Reply::Error(RpcError { code, message, data: None }));
            }
            Err(error) => return Err(error),
        };
        if operation == Operation::CancelTask {
            return reply(ACKNOWLEDGED.to_owned());
        }
        check_answer(&request, &answer)?;
        self.hide_address(&mut answer, "");
        let current = read(&answer).ok_or(ProtocolViolation::Shape("GetTask"))?;
        if is_asking(&current, capabilities) {
            let key = model::Task::of(&answer).map(key).unwrap_or_default();
            return reply(asking(&current, key));
        }
        if current.state().is_interrupted() {
            self.cancel(task, meta);
        }
        reply(state(&current))
    }

    /// Sends the answer to the current question of a task as its next message, without waiting for the
    /// end of the task. Answers to other questions are ignored. A refusal cancels the task.
    pub(super) async fn update_task(
        &self,
        TaskUpdate { task, request, meta }: TaskUpdate<'_>,
        send_state: &SendState,
    ) -> Result<Reply, Error> {
        let acknowledged = || reply(ACKNOWLEDGED.to_owned());
        let get = about(Operation::GetTask, task);
        let read_state = SendState::default();
        let outbound = Outbound { request: &get, meta, send_state: &read_state, sink: None };
        let mut current = Box::pin(self.call(outbound)).await?;
        check_answer(&get, &current)?;
        self.hide_address(&mut current, "");
        let params = request.params.iter().find(|param| &*param.name == "inputResponses");
        let answers = params.and_then(|param| Object::parse(&param.value).ok()).unwrap_or_default();
        let asked = model::Task::of(&current).filter(|it| it.state() == TaskState::InputRequired);
        let (Some(asked), Some(skill)) = (asked, request.skill) else { return acknowledged() };
        let Some(answer) = answers.find(key(asked)) else { return acknowledged() };
        let Some(answer) = accepted(answer) else {
            self.cancel(task, meta);
            return acknowledged();
        };
        let hops = request.context.hops;
        let mut message = next_message(asked, &part(&answer, skill), (skill.name, hops));
        let at_once = json!({ "returnImmediately": true });
        message.params.insert("configuration".to_owned(), at_once);
        let outbound = Outbound { request: &message, meta, send_state, sink: None };
        let answer = Box::pin(self.call(outbound)).await?;
        check_answer(&message, &answer)?;
        acknowledged()
    }
}

fn read(answer: &Value) -> Option<Task> {
    Task::read(&to_raw_value(answer).ok()?)
}

pub(super) fn reply(result: String) -> Result<Reply, Error> {
    // The writers produce JSON.
    let raw = RawValue::from_string(result);
    Ok(Reply::Result(raw.map_err(|_| ProtocolViolation::Shape("SendMessage"))?))
}

/// The result of a call that has started a task.
pub(super) fn started(task: &Task) -> String {
    described("task", "working", task).finish_string()
}

/// The state of a task. A failed one has a result with `isError`, like a failed call.
fn state(task: &Task) -> String {
    let status = match task.state() {
        TaskState::Submitted | TaskState::Working | TaskState::Unspecified => "working",
        TaskState::Canceled => "cancelled",
        TaskState::Completed | TaskState::Failed | TaskState::Rejected => "completed",
        TaskState::InputRequired | TaskState::AuthRequired => "failed",
    };
    let mut out = described("complete", status, task);
    if status == "completed" || status == "failed" {
        match tool::of_task(task, Text::MayBeJson) {
            Ok(result) => out.raw("result", &result),
            Err(open) => {
                let error = json!({ "code": code::INTERNAL_ERROR, "message": open.why });
                out.raw("error", &error.to_string())
            }
        };
    }
    out.finish_string()
}

/// The state of a task whose question the client can answer.
fn asking(task: &Task, key: &str) -> String {
    let mut out = described("complete", "input_required", task);
    out.raw("inputRequests", &input_requests(task, key));
    out.finish_string()
}

fn described(result_type: &str, status: &str, task: &Task) -> ObjectWriter {
    let mut out = ObjectWriter::with_capacity(512);
    out.string("resultType", result_type).string("taskId", &task.id).string("status", status);
    let words = task.words();
    if !words.is_empty() {
        out.string("statusMessage", &words);
    }
    // A2A has no time of creation.
    if let Some(at) = task.timestamp() {
        out.string("createdAt", at).string("lastUpdatedAt", at);
    }
    out.raw("ttlMs", "null").raw("pollIntervalMs", POLL_INTERVAL_MS);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state_of(state: &str) -> Value {
        let task = json!({ "id": "t", "status": { "state": state,
            "timestamp": "2026-01-01T00:00:00Z",
            "message": { "parts": [{ "text": "words" }] } },
            "artifacts": [{ "parts": [{ "data": { "n": 1 } }] }] });
        serde_json::from_str(&super::state(&read(&task).unwrap())).unwrap()
    }

    #[test]
    fn task_has_status_and_outcome() {
        let working = state_of("TASK_STATE_WORKING");
        assert_eq!(
            working,
            json!({ "resultType": "complete", "taskId": "t", "status": "working",
                "statusMessage": "words", "createdAt": "2026-01-01T00:00:00Z",
                "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": null, "pollIntervalMs": 1_000 })
        );
        let completed = state_of("TASK_STATE_COMPLETED");
        assert_eq!(completed["status"], "completed");
        assert_eq!(completed["result"]["structuredContent"], json!({ "n": 1 }));
        let failed = state_of("TASK_STATE_FAILED");
        assert_eq!(
            (&failed["status"], &failed["result"]["isError"]),
            (&json!("completed"), &json!(true))
        );
        let asking = state_of("TASK_STATE_INPUT_REQUIRED");
        assert_eq!(
            (&asking["status"], &asking["error"]["code"]),
            (&json!("failed"), &json!(-32603))
        );
        let canceled = state_of("TASK_STATE_CANCELED");
        assert_eq!((&canceled["status"], canceled.get("result")), (&json!("cancelled"), None));
    }
}
