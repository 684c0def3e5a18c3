//! Event streams of all versions and bindings: server-sent events, or the messages of gRPC.

use a2a_grpc::Messages;
use bytes::Bytes;
use gateway_protocol::{
    content,
    jsonrpc::{Id, Limits},
    sse::Events,
};
use http::HeaderMap;
use serde_json::Value;

use crate::{
    body,
    error::Failure,
    grpc,
    operation::Operation,
    rpc,
    translate::{self, Untranslatable},
    version::{Binding, Dialect, Version},
};

/// The operation whose answers are the events of all streams.
const EVENTS: Operation = Operation::SubscribeToTask;

/// The media type of streams.
pub const MEDIA_TYPE: &str = "text/event-stream";

/// A comment that keeps a connection open.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// Reads the stream of an agent from chunks of any size.
#[derive(Debug)]
pub struct EventReader {
    dialect: Dialect,
    /// The id of the JSON-RPC request.
    id: u64,
    limits: Limits,
    framing: Framing,
    /// Whether the last event is `final` in 0.3.
    is_final: bool,
}

#[derive(Debug)]
enum Framing {
    Sse(Events),
    Grpc(Messages),
}

impl EventReader {
    /// Creates a reader of the answer to the request with this id. Only JSON-RPC has ids. The limits
    /// apply to each event.
    pub fn new(dialect: Dialect, id: u64, limits: Limits) -> Self {
        let framing = match dialect.binding {
            Binding::Grpc => Framing::Grpc(Messages::new(limits.bytes)),
            Binding::JsonRpc | Binding::HttpJson => Framing::Sse(Events::new(limits.bytes)),
        };
        Self { dialect, id, limits, framing, is_final: false }
    }

    /// Adds the next bytes. Take all events before the next chunk, so that the memory is bounded by
    /// a chunk and an event. After an error the stream is unusable.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), Failure> {
        let pushed = match &mut self.framing {
            Framing::Sse(events) => events.push(chunk).is_ok(),
            Framing::Grpc(messages) => messages.push(chunk).is_ok(),
        };
        if pushed {
            return Ok(());
        }
        let problem = format!("an event is longer than {} bytes", self.limits.bytes);
        Err(Failure::invalid_answer(problem))
    }

    /// The next complete event, unparsed, or the error of an invalid frame, which ends the stream.
    pub fn next_event(&mut self) -> Option<Result<Vec<u8>, Failure>> {
        match &mut self.framing {
            Framing::Sse(events) => events.pop().map(Ok),
            Framing::Grpc(messages) => {
                messages.pop().map(|message| message.map_err(Failure::invalid_answer))
            }
        }
    }

    /// Estimates the memory of an event after parsing, in bytes.
    pub fn parsed_bytes(&self, data: &[u8]) -> usize {
        match self.framing {
            // Parsing rejects other text than UTF-8.
            Framing::Sse(_) => std::str::from_utf8(data).map_or(0, content::tree_bytes),
            Framing::Grpc(_) => grpc::message_bytes(EVENTS, data),
        }
    }

    /// Whether the agent ends the stream with the last event, in any state of the task. Only 0.3 has
    /// such events.
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// Reads the trailers after the events. Only gRPC has them, with the error of the agent.
    pub fn end(&self, trailers: &HeaderMap) -> Result<(), Failure> {
        match self.framing {
            Framing::Sse(_) => Ok(()),
            Framing::Grpc(_) => grpc::read_status(trailers),
        }
    }

    /// The bytes that are held.
    pub fn held_bytes(&self) -> usize {
        match &self.framing {
            Framing::Sse(events) => events.held_bytes(),
            Framing::Grpc(messages) => messages.held_bytes(),
        }
    }

    /// Parses an event into its internal form. The error of the agent, or of an invalid event, ends the
    /// stream.
    pub fn read(&mut self, data: &[u8]) -> Result<Value, Failure> {
        let event = match self.dialect.binding {
            Binding::JsonRpc => rpc::read_result(self.id, data, self.limits)?,
            Binding::Grpc => grpc::read_message(EVENTS, data)?,
            Binding::HttpJson => {
                let event = body::parse(data, self.limits).map_err(Failure::invalid_answer)?;
                if let Some(failure) = failure_of(&event) {
                    return Err(failure);
                }
                event
            }
        };
        let is_final = |update: &Value| update["final"] == true;
        self.is_final = self.dialect.version == Version::V03
            && (is_final(&event) || is_final(&event["statusUpdate"]));
        translate::event_in(self.dialect, event).map_err(Untranslatable::into_answer_failure)
    }
}

/// The error in a stream over HTTP+JSON: `google.rpc.Status`, or the shape of 0.3.
fn failure_of(event: &Value) -> Option<Failure> {
    let is_status = event.get("error").is_some_and(Value::is_object);
    let is_legacy = event.get("message").is_some_and(Value::is_string);
    let code = event.get("error").and_then(|error| error.get("code")).and_then(Value::as_u64);
    let status = code.and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
    (is_status || is_legacy).then(|| Failure::of_rest(status, event, None))
}

/// Appends a server-sent event. The id is the one of the JSON-RPC request. After an error, nothing is
/// appended.
pub fn write_event(
    out: &mut Vec<u8>,
    version: Version,
    rpc_id: Option<Id<'_>>,
    event: Value,
) -> Result<(), Untranslatable> {
    let dialect =
        if rpc_id.is_some() { Dialect::json_rpc(version) } else { Dialect::http_json(version) };
    let event = translate::event_out(dialect, event)?;
    out.extend_from_slice(b"data: ");
    match rpc_id {
        Some(id) => rpc::append_result(out, id, &event),
        None => serde_json::to_writer(&mut *out, &event).expect("a value always serializes"),
    }
    out.extend_from_slice(b"\n\n");
    Ok(())
}

/// Writes an error as the last event.
pub fn write_failure(version: Version, rpc_id: Option<Id<'_>>, failure: &Failure) -> Bytes {
    match rpc_id {
        Some(_) => framed(&rpc::write_failure(rpc_id, failure)),
        None => framed(failure.to_rest(version).body.to_string().as_bytes()),
    }
}

/// JSON on one line as an event.
fn framed(json: &[u8]) -> Bytes {
    let mut event = Vec::with_capacity(json.len() + 8);
    event.extend_from_slice(b"data: ");
    event.extend_from_slice(json);
    event.extend_from_slice(b"\n\n");
    event.into()
}

#[cfg(test)]
mod tests;
