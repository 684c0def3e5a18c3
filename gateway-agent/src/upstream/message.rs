//! What the gateway sends: each message is written once, from raw parts, for the era of its target.
//!
//! Deliberately absent: HTTP headers, and ids (the transports count).

use std::io::Write as _;

use bytes::Bytes;

use crate::jsonrpc;

/// The modern protocol version.
pub(super) const MODERN: &str = "2026-07-28";

/// The versions with a handshake, newest first.
pub(super) const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The two ways in which MCP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// Stateless, every request says all (2026-07-28).
    Modern,
    /// A session with a handshake (2025-11-25 and before).
    Legacy,
}

/// The W3C trace context of the caller, passed on in `_meta`.
#[derive(Debug, Clone, Copy, Default)]
pub struct TraceContext<'a> {
    /// `traceparent`.
    pub parent: Option<&'a str>,
    /// `tracestate`.
    pub state: Option<&'a str>,
    /// `baggage`.
    pub baggage: Option<&'a str>,
}

/// A request without its id.
#[derive(Debug, Clone, Copy)]
pub(super) enum Outgoing<'a> {
    /// `tools/call` with the JSON text of the arguments.
    Call { tool: &'a str, arguments: &'a str, trace: TraceContext<'a> },
    /// `tools/list` from a cursor.
    List { cursor: Option<&'a str> },
    /// `server/discover`.
    Discover,
    /// `initialize`.
    Initialize,
    /// `subscriptions/listen` for changes of the list of tools.
    Listen,
}

macro_rules! client_info {
    () => {
        concat!(r#"{"name":"gateway-agent","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#)
    };
}

const MODERN_META: &str = concat!(
    r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientCapabilities":{},"#,
    r#""io.modelcontextprotocol/clientInfo":"#,
    client_info!(),
);

const INITIALIZE: &str =
    concat!(r#""protocolVersion":"2025-11-25","capabilities":{},"clientInfo":"#, client_info!(),);

/// `notifications/initialized`.
pub(super) fn initialized() -> Bytes {
    jsonrpc::notification("notifications/initialized", None)
}

/// `notifications/cancelled` for one request.
pub(super) fn cancelled(id: u64) -> Bytes {
    let params = format!(r#"{{"requestId":{id},"reason":"the caller went away"}}"#);
    jsonrpc::notification("notifications/cancelled", Some(&params))
}

/// The answer to what a server asks of the gateway: a ping is answered, nothing else is served.
pub(super) fn answer(request: &jsonrpc::Request<'_>) -> Bytes {
    if request.method == "ping" {
        return jsonrpc::result(request.id, "{}");
    }
    let error = jsonrpc::ErrorObject {
        code: jsonrpc::code::METHOD_NOT_FOUND,
        message: "the gateway serves no requests of its upstreams".into(),
        data: None,
    };
    jsonrpc::error(Some(request.id), &error)
}

impl<'a> Outgoing<'a> {
    /// The method's name.
    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::Call { .. } => "tools/call",
            Self::List { .. } => "tools/list",
            Self::Discover => "server/discover",
            Self::Initialize => "initialize",
            Self::Listen => "subscriptions/listen",
        }
    }

    /// What the `Mcp-Name` header repeats.
    pub(super) fn name(&self) -> Option<&'a str> {
        match self {
            Self::Call { tool, .. } => Some(tool),
            _ => None,
        }
    }

    /// Whether it is worth cancelling; the handshake must not be.
    pub(super) fn is_cancellable(&self) -> bool {
        matches!(self, Self::Call { .. } | Self::List { .. })
    }

    /// The whole message, on one line if the arguments are.
    pub(super) fn write(&self, id: u64, era: Era) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size_hint());
        write!(out, r#"{{"jsonrpc":"2.0","id":{id},"method":"{}","params":{{"#, self.method())
            .expect("a Vec takes everything");
        let members = out.len();
        self.write_members(&mut out);
        let has_members = out.len() > members;
        self.write_meta(&mut out, era, if has_members { "," } else { "" });
        out.extend_from_slice(b"}}");
        out
    }

    fn size_hint(&self) -> usize {
        let content = match self {
            Self::Call { tool, arguments, .. } => tool.len() + arguments.len() + 256,
            Self::List { cursor } => cursor.map_or(0, str::len),
            Self::Discover | Self::Initialize | Self::Listen => 0,
        };
        content + MODERN_META.len() + 128
    }

    fn write_members(&self, out: &mut Vec<u8>) {
        match self {
            Self::Call { tool, arguments, .. } => {
                out.extend_from_slice(br#""name":"#);
                jsonrpc::write_string(out, tool);
                out.extend_from_slice(br#","arguments":"#);
                out.extend_from_slice(arguments.as_bytes());
            }
            Self::List { cursor: Some(cursor) } => {
                out.extend_from_slice(br#""cursor":"#);
                jsonrpc::write_string(out, cursor);
            }
            Self::Initialize => out.extend_from_slice(INITIALIZE.as_bytes()),
            Self::Listen => {
                out.extend_from_slice(br#""notifications":{"toolsListChanged":true}"#);
            }
            Self::List { cursor: None } | Self::Discover => {}
        }
    }

    fn write_meta(&self, out: &mut Vec<u8>, era: Era, before: &str) {
        let trace = match self {
            Self::Call { trace, .. } => *trace,
            _ => TraceContext::default(),
        };
        let start = out.len();
        out.extend_from_slice(before.as_bytes());
        out.extend_from_slice(br#""_meta":{"#);
        let empty = out.len();
        if era == Era::Modern {
            out.extend_from_slice(MODERN_META.as_bytes());
        }
        let context = [
            ("traceparent", trace.parent),
            ("tracestate", trace.state),
            ("baggage", trace.baggage),
        ];
        for (name, value) in context {
            let Some(value) = value else { continue };
            if out.len() > empty {
                out.push(b',');
            }
            write!(out, r#""{name}":"#).expect("a Vec takes everything");
            jsonrpc::write_string(out, value);
        }
        if out.len() == empty {
            out.truncate(start);
        } else {
            out.push(b'}');
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(outgoing: &Outgoing<'_>, era: Era) -> Value {
        serde_json::from_slice(&outgoing.write(7, era)).unwrap()
    }

    #[test]
    fn a_modern_call_says_everything() {
        let trace = TraceContext { parent: Some("00-a\"b"), state: None, baggage: Some("k=v") };
        let call = Outgoing::Call { tool: "f\"x", arguments: r#"{"a":1.0}"#, trace };
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo":
                {"name": "gateway-agent", "version": env!("CARGO_PKG_VERSION")},
            "traceparent": "00-a\"b",
            "baggage": "k=v",
        });
        let params = json!({"name": "f\"x", "arguments": {"a": 1.0}, "_meta": meta});
        assert_eq!(
            written(&call, Era::Modern),
            json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
        );
    }

    #[test]
    fn legacy_requests_carry_no_modern_metadata() {
        let params = |outgoing: &Outgoing<'_>| written(outgoing, Era::Legacy)["params"].clone();
        assert_eq!(params(&Outgoing::List { cursor: None }), json!({}));
        assert_eq!(params(&Outgoing::List { cursor: Some("") }), json!({"cursor": ""}));
        assert_eq!(params(&Outgoing::Initialize)["protocolVersion"], LEGACY[0]);
        let trace = TraceContext { parent: Some("p"), ..TraceContext::default() };
        let call = Outgoing::Call { tool: "f", arguments: "{}", trace };
        assert_eq!(params(&call)["_meta"], json!({"traceparent": "p"}));
    }
}
