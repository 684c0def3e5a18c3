//! Rewrites URIs and task ids in results to the callers' names (`gateway_protocol::naming`).
//!
//! Only members that the specification defines are rewritten: resource links, embedded resources,
//! contents, the id of a task, and the result embedded in a task. Other members of a task and of
//! `_meta` that contain the server's task id become null. Texts and structured content are
//! unchanged.

use gateway_protocol::{
    jsonrpc::{Object, ObjectWriter, write_string},
    mcp::RELATED_TASK,
    naming::ResourceNames,
};
use registry_core::entity::tool::is_reserved_meta_key;
use serde::Deserialize as _;
use serde_json::value::RawValue;

use crate::pipeline::TaskNames;

/// The callers' names. Without an entry, names stay unchanged.
#[derive(Clone, Copy)]
pub(super) struct CallerNames<'a> {
    pub(super) resources: Option<&'a ResourceNames>,
    pub(super) tasks: Option<&'a TaskNames>,
}

/// Rewrites a result. `None`: nothing changed.
pub(super) fn renamed(
    result: &RawValue,
    CallerNames { resources, tasks }: CallerNames<'_>,
) -> Option<Box<RawValue>> {
    if resources.is_none() && tasks.is_none() {
        return None;
    }
    let is_task = Object::parse(result).is_ok_and(|members| members.find("taskId").is_some());
    let changed = object(result, |name, value| match name {
        "taskId" => Some(quoted(&tasks?.known(&string(value)?))),
        "statusMessage" => tasks?.rewrite_text(&string(value)?).map(|text| quoted(&text)),
        // The task of a `tools/call` in 2025-11-25.
        "task" => tasks.and_then(|tasks| {
            object(value, |name, value| match name {
                "taskId" => Some(quoted(&tasks.known(&string(value)?))),
                "statusMessage" => tasks.rewrite_text(&string(value)?).map(|text| quoted(&text)),
                _ => tasks.contains_server_id(value.get()).then(|| "null".to_owned()),
            })
        }),
        "_meta" => without_task(value, tasks?),
        // A completed task embeds the result of its tool.
        "result" if is_task => object(value, |name, value| match name {
            "_meta" => unreserved(value),
            _ => part(name, value, resources),
        }),
        _ if is_task && tasks.is_some_and(|tasks| tasks.contains_server_id(value.get())) => {
            Some("null".to_owned())
        }
        _ => part(name, value, resources),
    })?;
    RawValue::from_string(changed).ok()
}

/// A `_meta` with the caller's task id, and without values that contain the server's id. `None`:
/// unchanged.
fn without_task(meta: &RawValue, tasks: &TaskNames) -> Option<String> {
    object(meta, |name, value| {
        if !tasks.contains_server_id(value.get()) {
            return None;
        }
        let known = tasks.id().filter(|_| name == RELATED_TASK);
        Some(known.map_or_else(
            || "null".to_owned(),
            |known| serde_json::json!({ "taskId": known }).to_string(),
        ))
    })
}

/// A `_meta` without reserved keys. `None`: unchanged.
fn unreserved(meta: &RawValue) -> Option<String> {
    let members = Object::parse(meta).ok()?;
    let mut kept = ObjectWriter::with_capacity(meta.get().len());
    let mut is_changed = false;
    for member in members.members() {
        if is_reserved_meta_key(&member.name) {
            is_changed = true;
        } else {
            kept.member(&member.name, member.value.get());
        }
    }
    is_changed.then(|| kept.finish_string())
}

/// Rewrites a member that can contain URIs.
fn part(name: &str, value: &RawValue, resources: Option<&ResourceNames>) -> Option<String> {
    match name {
        "content" => blocks(value, resources),
        "contents" => list(value, |content| located(content, resources)),
        "messages" => list(value, |message| {
            object(message, |name, value| {
                (name == "content").then(|| blocks(value, resources)).flatten()
            })
        }),
        _ => None,
    }
}

/// Rewrites one content block or a list of them.
fn blocks(raw: &RawValue, resources: Option<&ResourceNames>) -> Option<String> {
    if raw.get().starts_with('[') {
        list(raw, |block| self::block(block, resources))
    } else {
        block(raw, resources)
    }
}

fn block(raw: &RawValue, resources: Option<&ResourceNames>) -> Option<String> {
    object(raw, |name, value| match name {
        "uri" => uri(value, resources),
        "resource" => located(value, resources),
        _ => None,
    })
}

/// Rewrites the `uri` of an object.
fn located(raw: &RawValue, resources: Option<&ResourceNames>) -> Option<String> {
    object(raw, |name, value| (name == "uri").then(|| uri(value, resources)).flatten())
}

fn uri(raw: &RawValue, resources: Option<&ResourceNames>) -> Option<String> {
    let own = string(raw)?;
    let known = resources?.known(&own).filter(|known| *known != own)?;
    Some(quoted(&known))
}

fn string(raw: &RawValue) -> Option<String> {
    String::deserialize(raw).ok()
}

fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_string(&mut out, text);
    String::from_utf8(out).unwrap_or_default()
}

/// Replaces values of an object. `None`: unchanged.
fn object(raw: &RawValue, change: impl Fn(&str, &RawValue) -> Option<String>) -> Option<String> {
    let members = Object::parse(raw).ok()?;
    let mut out = ObjectWriter::with_capacity(raw.get().len() + 64);
    let mut is_changed = false;
    for member in members.members() {
        match change(&member.name, member.value) {
            Some(changed) => {
                is_changed = true;
                out.member(&member.name, &changed);
            }
            None => _ = out.member(&member.name, member.value.get()),
        }
    }
    is_changed.then(|| out.finish_string())
}

/// Replaces entries of a list. `None`: unchanged.
fn list(raw: &RawValue, change: impl Fn(&RawValue) -> Option<String>) -> Option<String> {
    let entries: Vec<&RawValue> = serde_json::from_str(raw.get()).ok()?;
    let changed: Vec<Option<String>> = entries.iter().map(|entry| change(entry)).collect();
    if changed.iter().all(Option::is_none) {
        return None;
    }
    let texts: Vec<&str> = entries
        .iter()
        .zip(&changed)
        .map(|(entry, changed)| changed.as_deref().unwrap_or_else(|| entry.get()))
        .collect();
    Some(format!("[{}]", texts.join(",")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gateway_protocol::naming::Prefix;

    use super::*;

    fn rename(text: &str) -> Option<String> {
        let raw = RawValue::from_string(text.to_owned()).unwrap();
        let prefix = Prefix::parse("docs").unwrap();
        let names = ResourceNames { prefix, interfaces: Arc::default() };
        let known = CallerNames { resources: Some(&names), tasks: None };
        renamed(&raw, known).map(|raw| raw.get().to_owned())
    }

    #[test]
    fn rename_changes_only_uri_members() {
        let text = r#"{"content":[{"type":"text","text":"\"uri\":\"a:1\""},{"type":"resource_link","uri":"a:1","n":1.0},{"type":"resource","resource":{"uri":"b:2","text":"t"}}],"x":{"uri":"c:3"}}"#;
        let changed = r#"{"content":[{"type":"text","text":"\"uri\":\"a:1\""},{"type":"resource_link","uri":"docs+a:1","n":1.0},{"type":"resource","resource":{"uri":"docs+b:2","text":"t"}}],"x":{"uri":"c:3"}}"#;
        assert_eq!(rename(text).as_deref(), Some(changed));
        let prompt = r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"a:1"}}}]}"#;
        assert!(rename(prompt).unwrap().contains(r#""uri":"docs+a:1""#));
        assert_eq!(
            rename(r#"{"contents":[{"uri":"a:1"}]}"#).unwrap(),
            r#"{"contents":[{"uri":"docs+a:1"}]}"#
        );
        assert_eq!(rename(r#"{"taskId":"7"}"#), None, "no task");
        let embedded = r#""result":{"content":[{"type":"resource_link","uri":"a:1"}]}"#;
        let ended = rename(&format!(r#"{{"taskId":"7",{embedded}}}"#)).unwrap();
        assert_eq!(ended, format!(r#"{{"taskId":"7",{}}}"#, embedded.replace("a:1", "docs+a:1")));
        assert_eq!(rename(&format!("{{{embedded}}}")), None, "no task, but a tool's own member");
        assert_eq!(rename(r#"{"content":[{"type":"text","text":"uri"}]}"#), None);
        assert_eq!(rename(r#"{"structuredContent":{"uri":"a:1"},"content":[]}"#), None);
    }
}
