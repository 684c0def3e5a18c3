//! Skills as tools and steps of compositions: one message to a skill, and the result of its reply or
//! task.
//!
//! The gateway asks for an immediate reply and polls the task until it ends, so that it knows which
//! task to cancel when the call is abandoned. Replies to an agent that requests input are not
//! supported.

use std::sync::Arc;

use a2a::{
    Operation, Request,
    tool::{self, SendResponse, Text},
};
use gateway_protocol::mcp::{Era, Method};
use http::{HeaderName, HeaderValue};
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};
use uuid::Uuid;

use super::{AgentLink, RequestMeta, send::permitted};
use crate::{
    error::{Error, ProtocolViolation},
    message::Outgoing,
    reply::Reply,
};

/// The tool list of an agent: its skills are registered, not listed.
const NO_TOOLS: &str = r#"{"tools":[]}"#;

impl AgentLink {
    /// Sends a message and returns the outcome as a tool result. Listing only checks that the agent
    /// responds. Error codes of an agent are not MCP codes.
    pub(crate) async fn request(
        self: &Arc<Self>,
        outgoing: &Outgoing<'_>,
        trace: &[(HeaderName, HeaderValue)],
    ) -> Result<(Reply, Era), Error> {
        let result = if let Outgoing::Asked { subject: skill, request, send_state } = outgoing {
            let (takes_text, gives_text) = match request.method {
                Method::SendMessage { takes_text, gives_text } => (takes_text, gives_text),
                _ => (false, false),
            };
            let meta = RequestMeta {
                subject: self.transport.caller(outgoing)?,
                trace: trace.to_vec(),
                buffered: request.context.buffered.clone(),
                ..RequestMeta::default()
            };
            let arguments = request.arguments.map_or("{}", RawValue::get);
            let message = message(arguments, takes_text)?;
            let message = permitted(&message, skill, request.context.hops);
            let text = if gives_text { Text::AsItIs } else { Text::MayBeJson };
            let send_state = send_state.cloned().unwrap_or_default();
            let mut pending = self.deliver(message, meta, send_state).await?;
            let answer = Box::pin(pending.ended(request.channel)).await?;
            result_of(answer, text)?
        } else {
            self.probe_dialect().await?;
            NO_TOOLS.to_owned()
        };
        // The writer produces JSON.
        let raw =
            RawValue::from_string(result).map_err(|_| ProtocolViolation::Shape("SendMessage"))?;
        Ok((Reply::Result(raw), Era::Modern))
    }
}

fn result_of(answer: &SendResponse, text: Text) -> Result<String, Error> {
    match answer {
        SendResponse::Message(message) => Ok(tool::of_message(message, text)),
        SendResponse::Task(task) => tool::of_task(task, text)
            .map_err(|open| Error::OpenTask { why: open.why, said: open.said }),
    }
}

/// The message with these arguments, with an immediate response.
fn message(arguments: &str, takes_text: bool) -> Result<Request, Error> {
    let shape = |_| Error::from(ProtocolViolation::Shape("SendMessage"));
    let arguments: Value = serde_json::from_str(arguments).map_err(shape)?;
    let text = arguments.get("text").filter(|text| takes_text && text.is_string());
    let part = match text {
        Some(text) => json!({ "text": text }),
        None => json!({ "data": arguments }),
    };
    let message = json!({
        "messageId": Uuid::new_v4().to_string(),
        "role": "ROLE_USER",
        "parts": [part],
    });
    let params = Map::from_iter([
        ("message".to_owned(), message),
        ("configuration".to_owned(), json!({ "returnImmediately": true })),
    ]);
    Ok(Request::new(Operation::SendMessage, params))
}

/// Reads an answer in its internal form.
pub(super) fn read_response(answer: &Value) -> Result<SendResponse, Error> {
    let raw = to_raw_value(answer).ok();
    let response = raw.and_then(|raw| SendResponse::read(&raw));
    response.ok_or_else(|| ProtocolViolation::Shape("SendMessage").into())
}
