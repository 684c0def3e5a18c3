//! Questions of agents in calls of skills: a task that needs input continues with the answer of the
//! client as its next message. The client receives an elicitation, like those of MCP servers.

use a2a::{
    Request, TaskState, model,
    tool::{SendResponse, Task},
};
use gateway_protocol::{
    jsonrpc::{self, ObjectWriter},
    mcp::Capabilities,
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use uuid::Uuid;

use super::{
    pending::PendingResponse,
    send::restrict,
    step::{send_message, user_message},
};
use crate::{
    error::Error,
    request::{self, CalledSkill},
};

/// Maximum questions of one call.
const MAX_QUESTIONS: usize = 16;
const ELICIT: &str = "elicitation/create";

/// The call of a skill whose client may answer questions of the agent.
#[derive(Debug, Clone, Copy)]
pub(super) struct SkillCall<'a> {
    pub(super) skill: CalledSkill<'a>,
    pub(super) request: &'a request::Request<'a>,
}

impl PendingResponse {
    /// Waits for the end of the task, and forwards the questions of the agent to the client. An
    /// unanswered question ends the wait.
    pub(super) async fn concluded(&mut self, call: SkillCall<'_>) -> Result<SendResponse, Error> {
        let mut response = Box::pin(self.ended(call.request.channel)).await?;
        for _ in 0..MAX_QUESTIONS {
            let SendResponse::Task(task) = &response else { break };
            let Some(part) = call.answer(task).await else { break };
            let hops = call.request.context.hops;
            Box::pin(self.continue_with(&part, (call.skill.name, hops))).await?;
            response = Box::pin(self.ended(call.request.channel)).await?;
        }
        Ok(response)
    }
}

impl SkillCall<'_> {
    /// The part with the client's answer to the question of a task. `None`: the task has no question,
    /// or the client does not answer.
    async fn answer(&self, task: &Task) -> Option<Value> {
        let channel = self.request.channel?;
        if !is_asking(task, &self.request.context.capabilities) {
            return None;
        }
        let params = RawValue::from_string(elicitation(task)).ok()?;
        let answer = channel.ask(ELICIT, Some(&*params)).await?.ok()?;
        Some(part(&accepted(&answer)?, self.skill))
    }
}

/// Whether a task has a question that the client can answer.
pub(super) fn is_asking(task: &Task, capabilities: &Capabilities) -> bool {
    task.state() == TaskState::InputRequired && capabilities.has("elicitation")
}

/// The question of a task as the input requests of a task of MCP.
pub(super) fn input_requests(task: &Task, key: &str) -> String {
    let mut request = ObjectWriter::with_capacity(256);
    request.string("method", ELICIT).raw("params", &elicitation(task));
    let mut requests = ObjectWriter::with_capacity(256);
    requests.member(key, &request.finish_string());
    requests.finish_string()
}

/// The id of the question of a task, which no other question of the task has.
pub(super) fn question_id(task: model::Task<'_>) -> Option<&str> {
    let message = task.status_message().and_then(model::Message::id);
    message.or_else(|| task.timestamp())
}

/// The key of the question in the input requests of a task.
pub(super) fn key(task: model::Task<'_>) -> &str {
    question_id(task).unwrap_or("input")
}

/// The parameters of the elicitation.
fn elicitation(task: &Task) -> String {
    let mut message = task.words();
    let data = task.status_message().into_iter().flat_map(|message| &message.parts);
    for data in data.filter_map(|part| part.data.as_deref()) {
        if !message.is_empty() {
            message.push('\n');
        }
        message.push_str(data.get());
    }
    if message.is_empty() {
        message.push_str("The agent needs more input.");
    }
    let answer = json!({ "type": "string", "title": "Answer" });
    let schema =
        json!({ "type": "object", "properties": { "answer": answer }, "required": ["answer"] });
    json!({ "mode": "form", "message": message, "requestedSchema": schema }).to_string()
}

/// The answer, if the user gave one.
pub(super) fn accepted(answer: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Elicited {
        action: String,
        content: Option<Content>,
    }
    #[derive(Deserialize)]
    struct Content {
        answer: String,
    }
    let Elicited { action, content } = jsonrpc::read_object(answer)?;
    content.filter(|_| action == "accept").map(|content| content.answer)
}

/// The part with an answer: an object is data, unless the skill takes only text.
pub(super) fn part(answer: &str, skill: CalledSkill<'_>) -> Value {
    match serde_json::from_str(answer) {
        Ok(data @ Value::Object(_)) if !skill.takes_text => json!({ "data": data }),
        _ => json!({ "text": answer }),
    }
}

/// The message that continues a task.
pub(super) fn next_message(
    task: model::Task<'_>,
    part: &Value,
    (skill, hops): (&str, Option<u32>),
) -> Request {
    let mut message = user_message(Uuid::new_v4(), part);
    for (name, id) in [("taskId", task.id()), ("contextId", task.context_id())] {
        if let Some(id) = id {
            message[name] = id.into();
        }
    }
    let mut request = send_message(message);
    restrict(&mut request, skill, hops);
    request
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;

    fn task(parts: &Value) -> Task {
        let task = json!({ "id": "t", "status": { "state": "TASK_STATE_INPUT_REQUIRED",
            "message": { "messageId": "m", "parts": parts } } });
        Task::read(&to_raw_value(&task).unwrap()).unwrap()
    }

    #[test]
    fn question_has_text_and_data() {
        let message = |parts: Value| {
            let params: Value = serde_json::from_str(&elicitation(&task(&parts))).unwrap();
            params["message"].clone()
        };
        assert_eq!(message(json!([{ "text": "which" }, { "text": "one?" }])), "whichone?");
        assert_eq!(
            message(json!([{ "text": "which?" }, { "data": { "one": 1 } }])),
            "which?\n{\"one\":1}"
        );
        assert_ne!(message(json!([])), "");
    }

    #[test]
    fn only_accepted_answers_are_sent() {
        let answer = |answer: Value| accepted(&to_raw_value(&answer).unwrap());
        let content = json!({ "answer": "red" });
        let accepted = json!({ "action": "accept", "content": content });
        assert_eq!(answer(accepted).as_deref(), Some("red"));
        for other in [
            json!({ "action": "decline" }),
            json!({ "action": "cancel", "content": content }),
            json!({ "action": "accept" }),
            json!({ "action": "accept", "content": { "answer": 7 } }),
            json!([]),
        ] {
            assert_eq!(answer(other.clone()), None, "{other}");
        }
    }

    #[test]
    fn answer_is_data_only_for_skills_with_data() {
        let part = |answer: &str, takes_text| part(answer, CalledSkill { name: "s", takes_text });
        assert_eq!(part("{\"n\":1}", false), json!({ "data": { "n": 1 } }));
        assert_eq!(part("{\"n\":1}", true), json!({ "text": "{\"n\":1}" }));
        assert_eq!(part("7", false), json!({ "text": "7" }));
    }
}
