//! Results in the form of each protocol era, assembled from raw bytes.
//!
//! A tool's result is forwarded unchanged, except for members that one era adds or lacks:
//! `resultType`, and reserved keys of `_meta`, because an upstream could use them to impersonate the
//! gateway. Results that a stale catalog authorized carry its age in `_meta`.

use std::time::Duration;

use bytes::Bytes;
use gateway_compose::CompositionError;
use gateway_policy::{StaleCatalog, format_age};
use gateway_protocol::{
    content,
    jsonrpc::{self, Id, Object, ObjectWriter},
    mcp::{Era, Method, RELATED_TASK, RawResult, ResultType},
};
use http::StatusCode;
use registry_core::entity::tool::is_reserved_meta_key;
use serde_json::value::RawValue;

use super::{
    http::{SizedResponse, json, json_parts},
    names::{self, CallerNames},
};
use crate::{
    pipeline::{OperationResult, TaskNames, message},
    view::Listing,
};

/// The gateway's `serverInfo`.
macro_rules! server_info {
    () => {
        concat!(
            r#"{"name":"gateway-agent","title":"Registry gateway","version":""#,
            env!("CARGO_PKG_VERSION"),
            r#""}"#
        )
    };
}

pub(crate) const SERVER_INFO: &str = server_info!();
/// The member of a stateless `_meta` that identifies the server.
pub(crate) const MODERN_META: &str =
    concat!(r#""io.modelcontextprotocol/serverInfo":"#, server_info!());
/// The members of every stateless result.
const MODERN: &str =
    concat!(r#""_meta":{"io.modelcontextprotocol/serverInfo":"#, server_info!(), "}");
/// The members of a complete stateless result.
const MODERN_COMPLETE: &str = concat!(
    r#""resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":"#,
    server_info!(),
    "}"
);
/// The members of a stateless list: it differs per caller and can change at any time.
const MODERN_LIST: &str = r#""ttlMs":0,"cacheScope":"private","#;

/// The `_meta` key for the catalog of a decision.
const CATALOG: &str = "registry/catalog";
/// The `_meta` key for the executed steps of a composition.
const STEPS: &str = "registry/steps";
/// The `_meta` key for the status, the duration and the task of a call of `agent.execute`.
const EXECUTION: &str = "registry/execution";
/// The `_meta` key of a failed composition's error: its step, reason and message.
const FAILURE: &str = "registry/failure";

/// The key of the text that models read while a task runs (2025-11-25). It is content of the
/// upstream, like the result.
const IMMEDIATE: &str = "io.modelcontextprotocol/model-immediate-response";

/// A result that is already JSON.
pub(crate) fn raw(id: Id<'_>, result: &str) -> SizedResponse {
    json(StatusCode::OK, jsonrpc::result(id, result))
}

/// One page of `tools/list`, without a copy of the page.
pub(crate) fn listing(id: Id<'_>, era: Era, listing: Listing) -> SizedResponse {
    let head = match era {
        Era::Modern => [MODERN_LIST, MODERN_COMPLETE, ","],
        Era::Legacy => [""; 3],
    };
    let (id, head) = (id.as_raw(), head.concat());
    let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{head}"tools":"#);
    let end = match listing.next {
        // A cursor contains no characters to escape.
        Some(next) => Bytes::from(format!(r#","nextCursor":"{}"}}}}"#, next.to_text())),
        None => Bytes::from_static(b"}}"),
    };
    json_parts([Bytes::from(start), listing.tools, end])
}

pub(crate) fn entries(
    id: Id<'_>,
    era: Era,
    (name, page, next): (&str, &[&RawValue], Option<String>),
) -> SizedResponse {
    let bytes: usize = page.iter().map(|raw| raw.get().len() + 1).sum();
    let mut list = String::with_capacity(bytes + 2);
    for raw in page {
        list.push(if list.is_empty() { '[' } else { ',' });
        list.push_str(raw.get());
    }
    list.push_str(if list.is_empty() { "[]" } else { "]" });
    let mut result = ObjectWriter::with_capacity(bytes + 1024);
    if era == Era::Modern {
        result.raw("resultType", r#""complete""#).raw("ttlMs", "0");
        result.raw("cacheScope", r#""private""#).raw("_meta", &format!("{{{MODERN_META}}}"));
    }
    result.raw(name, &list);
    drop(list);
    if let Some(next) = next {
        result.string("nextCursor", &next);
    }
    raw(id, &result.finish_string())
}

/// The result of a forwarded request, in the caller's era and names.
pub(crate) fn relayed(
    id: Id<'_>,
    era: Era,
    method: Method,
    outcome: &OperationResult,
) -> SizedResponse {
    let result = &outcome.result;
    let mut added = added(outcome);
    if method == Method::TaskResult
        && let Some(id) = outcome.tasks.as_ref().and_then(TaskNames::id)
    {
        added.push((RELATED_TASK, serde_json::json!({ "taskId": id }).to_string()));
    }
    let renamed = renamed(outcome);
    let result = renamed.as_ref().unwrap_or(result);
    let out = started(id, result);
    finished(rewritten(out, (era, method), result, &added))
}

/// The start of a response, with capacity for the rest: large results are written once.
fn started(id: Id<'_>, result: &RawResult) -> Vec<u8> {
    let (raw, id) = (result.result.get(), id.as_raw());
    let mut out = Vec::with_capacity(raw.len() + id.len() + 512);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(br#","result":"#);
    out
}

fn finished(mut out: Vec<u8>) -> SizedResponse {
    out.push(b'}');
    json(StatusCode::OK, Bytes::from(out))
}

/// The state of a task, as parameters of `notifications/tasks` without `_meta`.
pub(crate) fn task(outcome: &OperationResult) -> String {
    let renamed = renamed(outcome);
    let result = renamed.as_ref().unwrap_or(&outcome.result);
    let members = Object::parse(&result.result).unwrap_or_default();
    let mut task = ObjectWriter::with_capacity(result.result.get().len());
    for member in members.members() {
        if !matches!(&*member.name, "_meta" | "resultType") {
            task.member(&member.name, member.value.get());
        }
    }
    task.finish_string()
}

/// The result with the caller's URIs and task ids, if any differ.
fn renamed(outcome: &OperationResult) -> Option<RawResult> {
    let result = &outcome.result;
    let known = CallerNames { resources: outcome.names.as_ref(), tasks: outcome.tasks.as_ref() };
    let changed = names::renamed(&result.result, known)?;
    Some(RawResult { result: changed, ..*result })
}

/// A result with `isError` of the gateway itself.
pub(crate) fn failed(id: Id<'_>, era: Era, text: &str) -> SizedResponse {
    let content = content::text_content(text);
    let mut result = ObjectWriter::with_capacity(content.len() + 256);
    result.raw("content", &content).raw("isError", "true");
    let result = result.finish_string();
    raw(id, &with_era_members(era, &result))
}

/// A result with `isError` of the gateway itself, with one member of `_meta` for programs.
pub(crate) fn failed_with(
    id: Id<'_>,
    era: Era,
    text: &str,
    member: (&'static str, String),
) -> SizedResponse {
    let content = content::text_content(text);
    let mut result = ObjectWriter::with_capacity(content.len() + member.1.len() + 256);
    if era == Era::Modern {
        result.raw("resultType", r#""complete""#);
    }
    if let Some(meta) = meta_with(era, &Object::default(), &[member]) {
        result.raw("_meta", &meta);
    }
    result.raw("content", &content).raw("isError", "true");
    raw(id, &result.finish_string())
}

/// The result for a call that the age of the catalog forbids: as text, and in `_meta` for programs.
pub(crate) fn stale_catalog(
    id: Id<'_>,
    era: Era,
    tool: &str,
    stale: &StaleCatalog,
) -> SizedResponse {
    let StaleCatalog { age, limit, is_read_only } = stale;
    let kind = if *is_read_only { "calls of all tools" } else { "tools that may change something" };
    let text = format!(
        "{tool} was not called: the registry last confirmed the catalog {} ago, and this gateway \
         rejects {kind} after {}. Retry later, or report to the gateway's operator that the \
         registry is unreachable.",
        format_age(*age),
        format_age(*limit),
    );
    let seconds = |time: Option<Duration>| {
        time.map_or_else(|| "null".to_owned(), |time| time.as_secs().to_string())
    };
    let mut catalog = ObjectWriter::with_capacity(128);
    catalog.raw("reason", r#""STALE_CATALOG""#);
    catalog.raw("ageSeconds", &seconds(*age)).raw("maxAgeSeconds", &seconds(*limit));
    let catalog = catalog.finish_string();
    failed_with(id, era, &text, (CATALOG, catalog))
}

/// Adds the members of an era to a JSON object.
fn with_era_members(era: Era, object: &str) -> String {
    match (era, object.strip_prefix('{')) {
        (Era::Modern, Some(rest)) => format!("{{{MODERN_COMPLETE},{rest}"),
        _ => object.to_owned(),
    }
}

/// The result of a tool. `execution`: that of a call of `agent.execute`.
pub(crate) fn tool(
    id: Id<'_>,
    era: Era,
    outcome: &OperationResult,
    execution: Option<String>,
) -> SizedResponse {
    let renamed = renamed(outcome);
    let result = renamed.as_ref().unwrap_or(&outcome.result);
    let mut added = added(outcome);
    added.extend(execution.map(|execution| (EXECUTION, execution)));
    let text = result.result.get();
    let is_absent = result.result_type == ResultType::Absent;
    match (era, is_absent, result.has_meta || !added.is_empty()) {
        (Era::Legacy, true, false) => raw(id, text),
        (Era::Modern, true, false) => prefixed(id, MODERN_COMPLETE, text),
        (Era::Modern, false, false) => prefixed(id, MODERN, text),
        (era, ..) => {
            let out = started(id, result);
            finished(rewritten(out, (era, Method::CallTool), result, &added))
        }
    }
}

/// The result of a failed composition: the message as text, the error and the steps in `_meta`.
///
/// `structuredContent` must match the tool's `outputSchema` even with `isError`: the TypeScript
/// SDK validates both and throws.
pub(crate) fn failed_composition(
    id: Id<'_>,
    era: Era,
    tool: &str,
    failed: &CompositionError,
) -> SizedResponse {
    let text = message::failed_composition(tool, failed);
    let (failure, steps) = if let Some(shown) = &failed.shown {
        (shown.failure.clone(), shown.steps.clone())
    } else {
        let steps = serde_json::to_string(&failed.steps).unwrap_or_default();
        (failed.failure.to_value().to_string(), steps)
    };
    let mut result = ObjectWriter::with_capacity(text.len() + failure.len() + steps.len() + 512);
    if era == Era::Modern {
        result.raw("resultType", r#""complete""#);
    }
    if let Some(meta) = meta_with(era, &Object::default(), &[(FAILURE, failure), (STEPS, steps)]) {
        result.raw("_meta", &meta);
    }
    result.raw("content", &content::text_content(&text)).raw("isError", "true");
    raw(id, &result.finish_string())
}

/// The keys that the gateway adds to `_meta`.
fn added(outcome: &OperationResult) -> Vec<(&'static str, String)> {
    let mut added = Vec::new();
    if outcome.freshness.is_stale() {
        added.push((CATALOG, dated(outcome)));
    }
    let shown = outcome.shown_steps.as_deref().map(str::to_owned);
    let written = || serde_json::to_string(outcome.steps.as_ref()?).ok();
    if let Some(steps) = shown.or_else(written) {
        added.push((STEPS, steps));
    }
    added
}

/// The catalog of a decision, and its age.
fn dated(OperationResult { revision, freshness, .. }: &OperationResult) -> String {
    let mut catalog = ObjectWriter::with_capacity(64);
    catalog.raw("revision", &revision.0.to_string());
    if let Some(age) = freshness.age {
        catalog.raw("ageSeconds", &age.as_secs().to_string());
    }
    catalog.finish_string()
}

/// A result with additional members at the start. It is written with its exact size, because a buffer
/// with spare capacity would need a second allocation.
fn prefixed(id: Id<'_>, members: &str, object: &str) -> SizedResponse {
    let own = object.trim_ascii_start().strip_prefix('{').unwrap_or("}").trim_ascii_start();
    let comma = if own.starts_with('}') { "" } else { "," };
    let start = r#"{"jsonrpc":"2.0","id":"#;
    let text = [start, id.as_raw(), r#","result":{"#, members, comma, own, "}"].concat();
    json(StatusCode::OK, Bytes::from(text))
}

/// Appends a result to `out`, member by member, because some members change.
fn rewritten(
    out: Vec<u8>,
    (era, method): (Era, Method),
    result: &RawResult,
    added: &[(&str, String)],
) -> Vec<u8> {
    let members = Object::parse(&result.result).unwrap_or_default();
    let mut object = ObjectWriter::after(out);
    let meta = members.find("_meta").and_then(|raw| Object::parse(raw).ok());
    if let Some(meta) = meta_with(era, &meta.unwrap_or_default(), added) {
        object.raw("_meta", &meta);
    }
    if era == Era::Modern {
        object.raw("resultType", result.result_type.as_raw());
        if method == Method::ReadResource && result.result_type.is_final() {
            // Other callers may see other contents.
            let ttl = members.find("ttlMs").map_or("0", RawValue::get);
            object.raw("ttlMs", ttl).raw("cacheScope", r#""private""#);
        }
    }
    for member in members.members() {
        let value = member.value.get();
        let is_copied = match &*member.name {
            "_meta" | "resultType" => false,
            "ttlMs" | "cacheScope" => method != Method::ReadResource,
            // Before 2026-07-28, only objects are allowed here; the text block has the same value.
            "structuredContent" => era == Era::Modern || value.starts_with('{'),
            _ => true,
        };
        if is_copied {
            object.member(&member.name, value);
        }
    }
    object.finish_text()
}

/// The upstream's `_meta` without reserved keys, plus the gateway's own keys.
fn meta_with(era: Era, upstream: &Object<'_>, added: &[(&str, String)]) -> Option<String> {
    let mut meta = ObjectWriter::with_capacity(256);
    if era == Era::Modern {
        meta.raw("io.modelcontextprotocol/serverInfo", SERVER_INFO);
    }
    let kept = upstream
        .members()
        .iter()
        .filter(|member| !is_reserved_meta_key(&member.name) || member.name == IMMEDIATE);
    for (name, value) in added {
        meta.raw(name, value);
    }
    let mut is_empty = era == Era::Legacy && added.is_empty();
    for member in kept {
        meta.member(&member.name, member.value.get());
        is_empty = false;
    }
    (!is_empty).then(|| meta.finish_string())
}
