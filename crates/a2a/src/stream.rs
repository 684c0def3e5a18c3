//! Event streams of all versions and bindings: server-sent events, or the messages of gRPC.

mod template;

use a2a_grpc::Messages;
use bytes::Bytes;
use gateway_protocol::{
    content,
    jsonrpc::{Id, Limits},
    sse::Events,
};
use http::HeaderMap;
use serde_json::Value;

pub use self::template::Template;
use crate::{
    body,
    error::Failure,
    grpc,
    model::Event,
    operation::Operation,
    rpc,
    translate::{self, Untranslatable},
    version::{Binding, Dialect, Version},
};

/// The operation whose answers are the events of all streams.
const EVENTS: Operation = Operation::SubscribeToTask;

/// The media type of streams.
pub const MEDIA_TYPE: &str = "text/event-stream";

/// The start of a data line of a server-sent event.
const DATA: &[u8] = b"data: ";

/// The text of the first part of an artifact.
const FIRST_TEXT: &str = "/artifactUpdate/artifact/parts/0/text";

/// A comment that keeps a connection open.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// Maximum consecutive events that can be templates without a repetition.
const TEMPLATES: u8 = 8;

/// An event of a stream.
#[derive(Debug)]
pub enum StreamEvent {
    /// An event in its internal form.
    Whole(Value),
    /// The same. The next event can repeat it.
    Template(Value),
    /// The event before it with another text.
    Repeat(Repeat),
}

/// An event that repeats another one with its own text.
#[derive(Debug)]
pub struct Repeat {
    text: String,
    data: Vec<u8>,
    dialect: Dialect,
    id: u64,
    limits: Limits,
}

impl StreamEvent {
    /// The internal form, which repetitions do not have.
    pub fn value(&self) -> Option<&Value> {
        match self {
            Self::Whole(event) | Self::Template(event) => Some(event),
            Self::Repeat(_) => None,
        }
    }

    /// The internal form, into which a repetition is parsed.
    pub fn into_value(self) -> Result<Value, Failure> {
        match self {
            Self::Whole(event) | Self::Template(event) => Ok(event),
            Self::Repeat(Repeat { data, dialect, id, limits, .. }) => {
                EventReader::new(dialect, id, limits).read(&data)
            }
        }
    }
}

impl From<Value> for StreamEvent {
    fn from(event: Value) -> Self {
        Self::Whole(event)
    }
}

impl Repeat {
    /// The text of the only part of the artifact.
    pub fn text(&self) -> &str {
        &self.text
    }
}

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
    /// The event that the next one can repeat.
    template: Option<Template>,
    /// The number of further events without repetitions that can be templates.
    templates_left: u8,
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
        let (is_final, template, templates_left) = (false, None, TEMPLATES);
        Self { dialect, id, limits, framing, is_final, template, templates_left }
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

    /// Reads the next event, which can repeat the event before. The error of the agent, or of an invalid
    /// event, ends the stream.
    pub fn read_next(&mut self, data: Vec<u8>) -> Result<StreamEvent, Failure> {
        if let Some(text) = self.template.as_ref().and_then(|template| template.read(&data)) {
            self.templates_left = TEMPLATES;
            let Self { dialect, id, limits, .. } = *self;
            return Ok(StreamEvent::Repeat(Repeat { text, data, dialect, id, limits }));
        }
        self.template = None;
        let event = self.read(&data)?;
        let is_template = self.templates_left > 0
            && self.dialect.version == Version::V1
            && matches!(Event::of(&event), Some(Event::Artifact { .. }))
            && event.pointer(FIRST_TEXT).is_some_and(Value::is_string);
        if is_template {
            self.templates_left -= 1;
            self.template = Template::of(&data, self.dialect.binding);
        }
        let form = if self.template.is_some() { StreamEvent::Template } else { StreamEvent::Whole };
        Ok(form(event))
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
    out.extend_from_slice(DATA);
    match rpc_id {
        Some(id) => rpc::append_result(out, id, &event),
        None => serde_json::to_writer(&mut *out, &event).expect("a value always serializes"),
    }
    out.extend_from_slice(b"\n\n");
    Ok(())
}

/// The template of an event that [`write_event`] has written in 1.0.
pub fn template(written: &[u8], rpc_id: Option<Id<'_>>) -> Option<Template> {
    let binding = if rpc_id.is_some() { Binding::JsonRpc } else { Binding::HttpJson };
    Template::of(written.strip_prefix(DATA)?, binding)
}

/// Appends the event of a template with another text, like [`write_event`].
pub fn write_repeat(out: &mut Vec<u8>, template: &Template, text: &str) {
    out.extend_from_slice(DATA);
    template.write(out, text);
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
    event.extend_from_slice(DATA);
    event.extend_from_slice(json);
    event.extend_from_slice(b"\n\n");
    event.into()
}

#[cfg(test)]
mod tests;
