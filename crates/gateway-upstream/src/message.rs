//! Messages to upstreams. Each one is written once, from raw parts, for the era of its target.

#[cfg(test)]
mod tests;

use std::{cell::Cell, io::Write as _};

use bytes::Bytes;
use gateway_protocol::{
    jsonrpc::{self, Id, Object},
    mcp::{Era, HOPS, Method},
};
use serde_json::value::RawValue;

use super::{client_channel::ClientAnswer, request::Request, send_state::SendState};

/// The kinds of lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Catalogue {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl Catalogue {
    fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }
}

/// A request without its id.
#[derive(Debug, Clone, Copy)]
pub(super) enum Outgoing<'a> {
    /// A caller's request about a subject, with the state to update when it is sent.
    Asked { subject: &'a str, request: Request<'a>, send_state: Option<&'a SendState> },
    /// A page of a list.
    List { what: Catalogue, cursor: Option<&'a str> },
    /// `server/discover`.
    Discover,
    /// `ping`, before 2026-07-28.
    Ping,
    /// `initialize` with these client capabilities (JSON text).
    Initialize { capabilities: &'a str },
    /// `subscriptions/listen` with this filter (JSON text).
    Listen { notifications: &'a str },
}

/// Maximum capacity of the kept buffer, in bytes.
const KEPT_BYTES: usize = 16 * 1024;

thread_local! {
    /// The buffer of the last message. The size of a message is known after it was written.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The prefix of progress tokens, followed by the request id. Servers number their own requests, so
/// a bare number could be mistaken for one of those.
const TOKEN: &str = "gateway-";

/// The id of the request of a message's progress token, in `params` or its `_meta`.
pub(super) fn request_of_token(params: &RawValue) -> Option<u64> {
    let members = Object::parse(params).ok()?;
    let meta = members.find("_meta").and_then(|raw| Object::parse(raw).ok());
    let own = members.find("progressToken");
    let token = own.or_else(|| meta.as_ref()?.find("progressToken"))?;
    let token: &str = serde_json::from_str(token.get()).ok()?;
    token.strip_prefix(TOKEN)?.parse().ok()
}

/// The `clientInfo` of the gateway.
macro_rules! client_info {
    () => {
        concat!(r#"{"name":"gateway-agent","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#)
    };
}

const MODERN_META: &str = concat!(
    r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientInfo":"#,
    client_info!(),
    r#","io.modelcontextprotocol/clientCapabilities":"#,
);

const INITIALIZE: &str = concat!(
    r#""protocolVersion":"2025-11-25","clientInfo":"#,
    client_info!(),
    r#","capabilities":"#
);

/// `notifications/initialized`.
pub(super) fn initialized() -> Bytes {
    jsonrpc::notification("notifications/initialized", None)
}

/// `notifications/cancelled` for one request.
pub(super) fn cancelled(id: u64) -> Bytes {
    let params = format!(r#"{{"requestId":{id},"reason":"the gateway cancelled the request"}}"#);
    jsonrpc::notification("notifications/cancelled", Some(&params))
}

/// The response to a server's request to the gateway itself. Only `ping` is supported.
pub(super) fn answer(request: &jsonrpc::Request<'_>) -> Bytes {
    if request.method == "ping" {
        return jsonrpc::result(request.id, "{}");
    }
    let error = jsonrpc::ErrorObject {
        code: jsonrpc::code::METHOD_NOT_FOUND,
        message: "no client is available to answer this request".into(),
        data: None,
    };
    jsonrpc::error(Some(request.id), &error)
}

/// The response of a caller to a server's request.
pub(super) fn answered(id: Id<'_>, answered: &ClientAnswer) -> Bytes {
    match answered {
        Ok(result) => jsonrpc::result(id, result.get()),
        Err(error) => jsonrpc::error(Some(id), &error.object()),
    }
}

impl<'a> Outgoing<'a> {
    /// The method's name.
    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::Asked { request, .. } => request.method.as_str(),
            Self::List { what, .. } => what.method(),
            Self::Discover => "server/discover",
            Self::Ping => "ping",
            Self::Initialize { .. } => "initialize",
            Self::Listen { .. } => "subscriptions/listen",
        }
    }

    /// The value of the `Mcp-Name` header.
    pub(super) fn name(&self) -> Option<&'a str> {
        match self {
            Self::Asked { subject, request, .. } => request.method.subject().map(|_| *subject),
            _ => None,
        }
    }

    /// The caller's request, if it is one.
    pub(super) fn request(&self) -> Option<&Request<'a>> {
        match self {
            Self::Asked { request, .. } => Some(request),
            _ => None,
        }
    }

    /// The state to update when the message is sent.
    pub(super) fn send_state(&self) -> Option<&'a SendState> {
        match self {
            Self::Asked { send_state, .. } => *send_state,
            _ => None,
        }
    }

    /// Whether the request may be cancelled. The handshake must not be.
    pub(super) fn is_cancellable(&self) -> bool {
        matches!(self, Self::Asked { .. } | Self::List { .. })
    }

    /// Writes the message; on one line if the parameters are.
    pub(super) fn write(&self, id: u64, era: Era) -> Vec<u8> {
        self.write_with(id, (era, false))
    }

    /// Writes the message with a progress token, even if the caller wants no progress.
    pub(super) fn write_with_token(&self, id: u64, era: Era) -> Vec<u8> {
        self.write_with(id, (era, true))
    }

    fn write_with(&self, id: u64, (era, has_token): (Era, bool)) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size_hint());
        self.write_to(&mut out, id, (era, has_token));
        out
    }

    /// Writes the message with its exact size: spare capacity would take a second allocation.
    pub(super) fn encode(&self, id: u64, era: Era) -> Bytes {
        if self.size_hint() > KEPT_BYTES {
            return self.write(id, era).into_boxed_slice().into();
        }
        let mut buffer = BUFFER.take();
        self.write_to(&mut buffer, id, (era, false));
        let message = Bytes::copy_from_slice(&buffer);
        if buffer.capacity() <= KEPT_BYTES {
            buffer.clear();
            BUFFER.set(buffer);
        }
        message
    }

    fn write_to(&self, out: &mut Vec<u8>, id: u64, (era, has_token): (Era, bool)) {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        write!(out, "{id}").expect("writing to a Vec succeeds");
        for text in [r#","method":""#, self.method(), r#"","params":{"#] {
            out.extend_from_slice(text.as_bytes());
        }
        let members = out.len();
        self.write_members(out);
        let has_members = out.len() > members;
        self.write_meta(out, (id, era, has_token), if has_members { "," } else { "" });
        out.extend_from_slice(b"}}");
    }

    fn size_hint(&self) -> usize {
        let content = match self {
            Self::Asked { subject, request, .. } => {
                let params = request.params.iter().map(|param| param.value.get().len() + 32);
                let arguments = request.arguments.map_or(0, |raw| raw.get().len());
                subject.len() + arguments + params.sum::<usize>() + 256
            }
            Self::List { cursor, .. } => cursor.map_or(0, str::len),
            Self::Initialize { capabilities: text } | Self::Listen { notifications: text } => {
                text.len()
            }
            Self::Discover | Self::Ping => 0,
        };
        content + MODERN_META.len() + 128
    }

    fn write_members(&self, out: &mut Vec<u8>) {
        match self {
            Self::Asked { subject, request, .. } => write_params(out, subject, request),
            Self::List { cursor: Some(cursor), .. } => {
                out.extend_from_slice(br#""cursor":"#);
                jsonrpc::write_string(out, cursor);
            }
            Self::Initialize { capabilities } => {
                out.extend_from_slice(INITIALIZE.as_bytes());
                out.extend_from_slice(capabilities.as_bytes());
            }
            Self::Listen { notifications } => {
                out.extend_from_slice(br#""notifications":"#);
                out.extend_from_slice(notifications.as_bytes());
            }
            Self::List { cursor: None, .. } | Self::Discover | Self::Ping => {}
        }
    }

    fn write_meta(&self, out: &mut Vec<u8>, (id, era, has_token): (u64, Era, bool), before: &str) {
        let request = self.request();
        let context = request.map(|request| request.context);
        let start = out.len();
        out.extend_from_slice(before.as_bytes());
        out.extend_from_slice(br#""_meta":{"#);
        let empty = out.len();
        if era == Era::Modern {
            out.extend_from_slice(MODERN_META.as_bytes());
            let capabilities = context.map_or("{}", |context| context.capabilities.as_json());
            out.extend_from_slice(capabilities.as_bytes());
        }
        if let Some(request) = request {
            write_context(out, request, (id, era, has_token), empty);
        }
        if out.len() == empty {
            out.truncate(start);
        } else {
            out.push(b'}');
        }
    }
}

fn write_params(out: &mut Vec<u8>, subject: &str, request: &Request<'_>) {
    let empty = out.len();
    if let Some(name) = request.method.subject() {
        write_member(out, empty, name, "");
        jsonrpc::write_string(out, subject);
    }
    // The specification allows to omit them, but many servers require them.
    if request.method == Method::CallTool {
        write_member(out, empty, "arguments", request.arguments.map_or("{}", RawValue::get));
    }
    for param in request.params {
        write_member(out, empty, &param.name, param.value.get());
    }
}

/// The `_meta` of a caller's request. The progress token is the gateway's request id, because
/// tokens of different callers can be equal.
fn write_context(
    out: &mut Vec<u8>,
    request: &Request<'_>,
    (id, era, has_token): (u64, Era, bool),
    empty: usize,
) {
    let context = request.context;
    if let (Era::Modern, Some(level)) = (era, &context.log_level) {
        write_member(out, empty, "io.modelcontextprotocol/logLevel", level.get());
    }
    if context.wants_progress || has_token {
        write_member(out, empty, "progressToken", &format!(r#""{TOKEN}{id}""#));
    }
    let trace = request.trace;
    if let Some(parent) = trace.parent {
        write_member(out, empty, "traceparent", "");
        write!(out, r#""{parent}""#).expect("writing to a Vec succeeds");
    }
    for (name, value) in [("tracestate", &trace.state), ("baggage", &trace.baggage)] {
        let Some(value) = value else { continue };
        write_member(out, empty, name, "");
        jsonrpc::write_string(out, value);
    }
    if let Some(hops) = context.hops {
        write_member(out, empty, HOPS, &hops.saturating_add(1).to_string());
    }
    for member in &context.meta {
        write_member(out, empty, &member.name, member.value.get());
    }
}

fn write_member(out: &mut Vec<u8>, empty: usize, name: &str, value: &str) {
    if out.len() > empty {
        out.push(b',');
    }
    jsonrpc::write_string(out, name);
    out.push(b':');
    out.extend_from_slice(value.as_bytes());
}
