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
    error::{ErrorKind, Failure},
    grpc,
    operation::Operation,
    rpc,
    translate::{self, Untranslatable},
    version::{Binding, Dialect, Version},
};

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
        Self { dialect, id, limits, framing }
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
        let message = format!("an event is longer than {} bytes", self.limits.bytes);
        Err(Failure::new(ErrorKind::InvalidAgentResponse, message))
    }

    /// The next event in its internal form, or the error that the agent or an invalid event
    /// caused, which ends the stream.
    pub fn next_event(&mut self) -> Option<Result<Value, Failure>> {
        let event = match &mut self.framing {
            Framing::Sse(events) => {
                let data = events.pop()?;
                self.read_sse(&data)
            }
            Framing::Grpc(messages) => {
                let message = messages.pop()?.map_err(Failure::invalid_answer);
                message.and_then(|message| grpc::read_message(Operation::SubscribeToTask, &message))
            }
        };
        Some(event.and_then(|event| {
            translate::event_in(self.dialect, event).map_err(Untranslatable::into_answer_failure)
        }))
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

    /// Estimates the memory of the events of the last chunk after parsing, in bytes.
    pub fn tree_bytes(&self, chunk: &[u8]) -> usize {
        match &self.framing {
            Framing::Sse(_) => content::tree_bytes(&String::from_utf8_lossy(chunk)),
            Framing::Grpc(messages) => messages.complete().map(a2a_grpc::tree_bytes).sum(),
        }
    }

    fn read_sse(&self, data: &[u8]) -> Result<Value, Failure> {
        if self.dialect.binding == Binding::JsonRpc {
            return rpc::read_result(self.id, data, self.limits);
        }
        let event = body::parse(data, self.limits).map_err(|failure| {
            let message = format!("the agent's event is invalid: {}", failure.message);
            Failure::new(ErrorKind::InvalidAgentResponse, message)
        })?;
        match failure_of(&event) {
            Some(failure) => Err(failure),
            None => Ok(event),
        }
    }
}

/// The error in a stream over HTTP+JSON: `google.rpc.Status`, or the shape of 0.3.
fn failure_of(event: &Value) -> Option<Failure> {
    let is_status = event.get("error").is_some_and(Value::is_object);
    let is_legacy = event.get("message").is_some_and(Value::is_string);
    let code = event.get("error").and_then(|error| error.get("code")).and_then(Value::as_u64);
    let status = code.and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
    (is_status || is_legacy).then(|| Failure::of_rest(status, event))
}

/// Writes a server-sent event. The id is the one of the JSON-RPC request.
pub fn write_event(
    version: Version,
    rpc_id: Option<Id<'_>>,
    event: Value,
) -> Result<Bytes, Untranslatable> {
    let json = if let Some(id) = rpc_id {
        rpc::write_answer(version, id, Operation::SubscribeToTask, event)?
    } else {
        translate::event_out(Dialect::http_json(version), event)?.to_string().into()
    };
    Ok(framed(&json))
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
