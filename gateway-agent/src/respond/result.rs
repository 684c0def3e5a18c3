//! Results as each era wants them, put together from raw bytes.
//!
//! A tool's own result is passed on as it came; only what an era adds or does not know changes:
//! `resultType`, and in `_meta` the keys that the protocol reserves, because there an upstream
//! could pose as this gateway. Deliberately absent: failures.

use bytes::Bytes;
use http::StatusCode;

use super::http::{Answer, json, json_parts};
use crate::{
    jsonrpc::{self, Id, Object, ObjectWriter},
    upstream::{Era, ResultType, ToolResult},
    view::Listing,
};

/// How this gateway calls itself.
macro_rules! server_info {
    () => {
        concat!(
            r#"{"name":"gateway-agent","title":"Registry gateway","version":""#,
            env!("CARGO_PKG_VERSION"),
            r#""}"#
        )
    };
}

/// The gateway's `serverInfo`.
pub const SERVER_INFO: &str = server_info!();
/// The member of a modern `_meta` that says who answers.
pub const MODERN_META: &str = concat!(r#""io.modelcontextprotocol/serverInfo":"#, server_info!());
/// What every modern result says.
const MODERN: &str =
    concat!(r#""_meta":{"io.modelcontextprotocol/serverInfo":"#, server_info!(), "}");
/// What a complete modern result says.
const MODERN_COMPLETE: &str = concat!(
    r#""resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":"#,
    server_info!(),
    "}"
);
/// What a modern list says besides: it differs from caller to caller, and may change at any moment.
const MODERN_LIST: &str = r#""ttlMs":0,"cacheScope":"private","#;

/// A result that is JSON text already.
pub fn raw(id: Id<'_>, result: &str) -> Answer {
    json(StatusCode::OK, jsonrpc::result(id, result))
}

/// One page of `tools/list`. The page itself is not copied.
pub fn listing(id: Id<'_>, era: Era, listing: Listing) -> Answer {
    let head = match era {
        Era::Modern => [MODERN_LIST, MODERN_COMPLETE, ","],
        Era::Legacy => [""; 3],
    };
    let (id, head) = (id.as_raw(), head.concat());
    let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{head}"tools":"#);
    let end = match listing.next {
        // A cursor needs no escapes.
        Some(next) => Bytes::from(format!(r#","nextCursor":"{}"}}}}"#, next.to_text())),
        None => Bytes::from_static(b"}}"),
    };
    json_parts([Bytes::from(start), listing.tools, end])
}

/// A result with `isError` that the gateway itself gives.
pub fn failed(id: Id<'_>, era: Era, text: &str) -> Answer {
    let mut block = ObjectWriter::with_capacity(text.len() + 32);
    block.raw("type", r#""text""#).string("text", text);
    let content = format!("[{}]", block.finish_string());
    let mut result = ObjectWriter::with_capacity(content.len() + 256);
    result.raw("content", &content).raw("isError", "true");
    let result = result.finish_string();
    raw(id, &dressed(era, &result))
}

/// Puts what an era wants at the start of an object that has none of it.
fn dressed(era: Era, object: &str) -> String {
    match (era, object.strip_prefix('{')) {
        (Era::Modern, Some(rest)) => format!("{{{MODERN_COMPLETE},{rest}"),
        _ => object.to_owned(),
    }
}

/// The result of a tool.
pub fn tool(id: Id<'_>, era: Era, result: &ToolResult) -> Answer {
    let raw = result.result.get();
    let id = id.as_raw();
    let mut out = Vec::with_capacity(raw.len() + id.len() + 256);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(br#","result":"#);
    match (era, result.result_type, result.has_meta) {
        (Era::Legacy, ResultType::Absent, false) => out.extend_from_slice(raw.as_bytes()),
        (Era::Modern, ResultType::Absent, false) => prefixed(&mut out, MODERN_COMPLETE, raw),
        (Era::Modern, _, false) => prefixed(&mut out, MODERN, raw),
        (era, ..) => rewritten(&mut out, era, result),
    }
    out.push(b'}');
    json(StatusCode::OK, Bytes::from(out))
}

/// An object with some members put before its own.
fn prefixed(out: &mut Vec<u8>, members: &str, object: &str) {
    let own = object.trim_ascii_start().strip_prefix('{').unwrap_or("}").trim_ascii_start();
    out.push(b'{');
    out.extend_from_slice(members.as_bytes());
    if !own.starts_with('}') {
        out.push(b',');
    }
    out.extend_from_slice(own.as_bytes());
}

/// An object whose members are copied one by one, because some have to change.
fn rewritten(out: &mut Vec<u8>, era: Era, result: &ToolResult) {
    let members = Object::parse(&result.result).unwrap_or_default();
    let mut object = ObjectWriter::with_capacity(result.result.get().len() + 256);
    let meta = members.find("_meta").and_then(|raw| Object::parse(raw).ok());
    if let Some(meta) = own_meta(era, &meta.unwrap_or_default()) {
        object.raw("_meta", &meta);
    }
    if era == Era::Modern {
        object.raw("resultType", r#""complete""#);
    }
    for member in members.members() {
        let value = member.value.get();
        let is_copied = match &*member.name {
            "_meta" | "resultType" => false,
            // Before 2026-07-28 only objects are allowed here; the text block says the same.
            "structuredContent" => era == Era::Modern || value.starts_with('{'),
            _ => true,
        };
        if is_copied {
            object.member(&member.name, value);
        }
    }
    out.extend_from_slice(&object.finish());
}

/// The upstream's `_meta` without what the protocol reserves, and with who answers.
fn own_meta(era: Era, upstream: &Object<'_>) -> Option<String> {
    let mut meta = ObjectWriter::with_capacity(256);
    if era == Era::Modern {
        meta.raw("io.modelcontextprotocol/serverInfo", SERVER_INFO);
    }
    let kept = upstream.members().iter().filter(|member| !is_reserved(&member.name));
    let mut is_empty = era == Era::Legacy;
    for member in kept {
        meta.member(&member.name, member.value.get());
        is_empty = false;
    }
    (!is_empty).then(|| meta.finish_string())
}

/// Whether a key belongs to the protocol: the second label of its prefix says so.
fn is_reserved(key: &str) -> bool {
    let prefix = key.split_once('/').map(|(prefix, _)| prefix);
    let label = prefix.and_then(|prefix| prefix.split('.').nth(1));
    matches!(label, Some("modelcontextprotocol" | "mcp"))
}
