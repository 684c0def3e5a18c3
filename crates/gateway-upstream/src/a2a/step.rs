//! Skills as tools and steps of compositions: one message to a skill, and the result of its reply or
//! task.
//!
//! The gateway streams the answer, or asks for an immediate reply and polls the task until it ends, so
//! that it knows which task to cancel when the call is abandoned. A client that supports tasks of MCP
//! receives the task instead.

use std::sync::Arc;

use a2a::{
    Operation, Request,
    tool::{self, SendResponse, Text},
};
use gateway_protocol::{
    jsonrpc::code,
    mcp::{Era, Method, RpcError, TASKS},
};
use http::{HeaderName, HeaderValue};
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};
use uuid::Uuid;

use super::{
    AgentLink, RequestMeta,
    mcp_task::{TaskUpdate, reply, started},
    question::SkillCall,
    send::restrict,
};
use crate::{
    error::{Error, ProtocolViolation},
    message::Outgoing,
    reply::Reply,
    request::CalledSkill,
};

/// The tool list of an agent: its skills are registered, not listed.
const NO_TOOLS: &str = r#"{"tools":[]}"#;

impl AgentLink {
    /// Sends a message and returns the outcome as a tool result, without the agent's address. Listing
    /// only checks that the agent responds. Error codes of an agent are not MCP codes.
    pub(crate) async fn request(
        self: &Arc<Self>,
        outgoing: &Outgoing<'_>,
        trace: &[(HeaderName, HeaderValue)],
    ) -> Result<(Reply, Era), Error> {
        let outcome = Box::pin(self.requested(outgoing, trace)).await;
        outcome.map_err(|error| self.without_address(error))
    }

    async fn requested(
        self: &Arc<Self>,
        outgoing: &Outgoing<'_>,
        trace: &[(HeaderName, HeaderValue)],
    ) -> Result<(Reply, Era), Error> {
        let Outgoing::Asked { subject, request, send_state } = outgoing else {
            self.probe_dialect().await?;
            return Ok((reply(NO_TOOLS.to_owned())?, Era::Modern));
        };
        let meta = RequestMeta {
            subject: self.transport.caller(outgoing)?,
            trace: trace.to_vec(),
            buffered: request.context.buffered.clone(),
            ..RequestMeta::default()
        };
        let send_state = send_state.cloned().unwrap_or_default();
        let about_task = |operation| {
            let capabilities = &request.context.capabilities;
            self.task_request((operation, *subject), (&meta, capabilities), &send_state)
        };
        let (takes_text, gives_text, streams) = match request.method {
            Method::GetTask => {
                return Ok((Box::pin(about_task(Operation::GetTask)).await?, Era::Modern));
            }
            Method::CancelTask => {
                return Ok((Box::pin(about_task(Operation::CancelTask)).await?, Era::Modern));
            }
            Method::UpdateTask if request.skill.is_some() => {
                let update = TaskUpdate { task: subject, request, meta: &meta };
                return Ok((Box::pin(self.update_task(update, &send_state)).await?, Era::Modern));
            }
            Method::SendMessage { takes_text, gives_text, streams } => {
                (takes_text, gives_text, streams)
            }
            other => {
                let message = format!("agents do not support {}", other.as_str());
                let error = RpcError { code: code::METHOD_NOT_FOUND, message, data: None };
                return Ok((Reply::Error(error), Era::Modern));
            }
        };
        let arguments = request.arguments.map_or("{}", RawValue::get);
        let mut message = message(send_state.message_id(), arguments, takes_text)?;
        restrict(&mut message, subject, request.context.hops);
        let text = if gives_text { Text::AsItIs } else { Text::MayBeJson };
        // A poll of the task would not know that its text is not JSON.
        let takes_task = !gives_text && request.context.capabilities.has_extension(TASKS);
        let streams = streams && !takes_task;
        let mut pending = self.deliver((message, streams), meta, send_state).await?;
        if takes_task && let Some(task) = pending.release() {
            return Ok((reply(started(&task))?, Era::Modern));
        }
        let call = SkillCall { skill: CalledSkill { name: subject, takes_text }, request };
        let answer = Box::pin(pending.concluded(call)).await?;
        Ok((reply(result_of(&answer, text)?)?, Era::Modern))
    }

    /// Replaces the agent's address in an answer. The ids of the task at the pointer `task` stay,
    /// because requests and the caller's sealed id contain them.
    pub(super) fn hide_address(&self, answer: &mut Value, task: &str) {
        let ids = ["id", "contextId"].map(|name| format!("{task}/{name}"));
        let own = ids.each_ref().map(|id| answer.pointer_mut(id).map(Value::take));
        self.hidden.replace_in(answer);
        for (id, own) in ids.iter().zip(own) {
            if let (Some(place), Some(own)) = (answer.pointer_mut(id), own) {
                *place = own;
            }
        }
    }

    fn without_address(&self, error: Error) -> Error {
        match error {
            Error::Agent(mut failure) => {
                self.hidden.replace_in_failure(&mut failure);
                Error::Agent(failure)
            }
            Error::OpenTask { mut why, mut said } => {
                self.hidden.replace_in_text(&mut why);
                if let Some(text) = &mut said {
                    self.hidden.replace_in_text(text);
                }
                Error::OpenTask { why, said }
            }
            error => error,
        }
    }
}

fn result_of(answer: &SendResponse, text: Text) -> Result<String, Error> {
    match answer {
        SendResponse::Message(message) => Ok(tool::of_message(message, text)),
        SendResponse::Task(task) => tool::of_task(task, text)
            .map_err(|open| Error::OpenTask { why: open.why, said: open.said }),
    }
}

/// The message with these arguments.
fn message(id: Uuid, arguments: &str, takes_text: bool) -> Result<Request, Error> {
    let shape = |_| Error::from(ProtocolViolation::Shape("SendMessage"));
    let arguments: Value = serde_json::from_str(arguments).map_err(shape)?;
    let text = arguments.get("text").filter(|text| takes_text && text.is_string());
    let part = match text {
        Some(text) => json!({ "text": text }),
        None => json!({ "data": arguments }),
    };
    Ok(send_message(user_message(id, &part)))
}

/// A message with one part.
pub(super) fn user_message(id: Uuid, part: &Value) -> Value {
    json!({ "messageId": id.to_string(), "role": "ROLE_USER", "parts": [part] })
}

pub(super) fn send_message(message: Value) -> Request {
    let params = Map::from_iter([("message".to_owned(), message)]);
    Request::new(Operation::SendMessage, params)
}

/// Reads an answer in its internal form.
pub(super) fn read_response(answer: &Value) -> Result<SendResponse, Error> {
    let raw = to_raw_value(answer).ok();
    let response = raw.and_then(|raw| SendResponse::read(&raw));
    response.ok_or_else(|| ProtocolViolation::Shape("SendMessage").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(arguments: &Value, takes_text: bool) -> Value {
        let request = message(Uuid::nil(), &arguments.to_string(), takes_text).unwrap();
        request.params["message"]["parts"].clone()
    }

    #[test]
    fn arguments_are_sent_as_data_or_text() {
        let data = json!({ "text": "x", "n": 1 });
        assert_eq!(parts(&data, false), json!([{ "data": data }]));
        assert_eq!(parts(&json!({ "text": "a \"b\"" }), true), json!([{ "text": "a \"b\"" }]));
        assert_eq!(
            parts(&json!({ "text": "t" }), false),
            json!([{ "data": { "text": "t" } }]),
            "a skill that takes data gets data, even if it is named text"
        );
        // Invalid arguments pass if validation is off.
        assert_eq!(parts(&json!({ "text": 7 }), true), json!([{ "data": { "text": 7 } }]));
    }
}
