//! Parsing of a `server.json`: strict on members that clients rely on, lenient on others.
//!
//! Unknown members are preserved with a warning, because the format grows and its schema allows
//! them. `null` counts as absent at any depth.

use registry_core::{
    decode::{Fields, Problems},
    diagnostic::{Code, Diagnostic},
    document::Document,
    entity::Entity,
    kind::Kind,
    limits,
    server_json::{self, METADATA_KEY},
    text::clean,
    version::Version,
};
use schema_compat::pointer::{Location, escape};
use serde_json::{Map, Value};

use crate::{
    detail::{OFFICIAL_META, SCHEMA, ServerDetail},
    legacy,
    namespace::invalid_reason,
    response::Status,
};

/// The result of parsing: the document, unless there are errors, and all findings.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The document if there are no errors.
    pub detail: Option<ServerDetail>,
    /// Errors and warnings with JSON pointers.
    pub findings: Vec<Diagnostic>,
}

impl ServerDetail {
    /// Parses a `server.json` and reports every problem at its pointer.
    pub fn read(value: &Value) -> Reading {
        let problems = Problems::default();
        let read = read(&problems, value);
        let findings = problems.into_vec();
        let has_errors = findings.iter().any(Diagnostic::is_error);
        Reading { detail: read.filter(|_| !has_errors), findings }
    }
}

fn read(problems: &Problems, value: &Value) -> Option<ServerDetail> {
    let fields = problems.object(value, Location::ROOT)?;
    hidden(problems, value, Location::ROOT);
    let name = name(problems, &fields);
    let description = server_json::text(&fields, "description", limits::MCP_TEXT_CHARACTERS);
    fields.require("description");
    let version = version(problems, &fields);
    schema(problems, &fields);
    let mut more = Map::new();
    for (member, check) in server_json::PARTS {
        if let Some(value) = fields.get(member)
            && let Some(kept) = check(problems, value, fields.at(member))
        {
            more.insert((*member).to_owned(), kept);
        }
    }
    for member in server_json::warn_unknown(&fields) {
        if let Some(kept) = value.get(member).and_then(server_json::without_nulls) {
            more.insert(member.to_owned(), kept);
        }
    }
    Some(ServerDetail { name: name?, description: description?, version: version?, more })
}

/// Rejects invisible characters, and line breaks in single-line texts.
fn hidden(problems: &Problems, value: &Value, at: Location<'_>) {
    let refuse = |at, what: &str| {
        let message = format!("{what} has control or invisible characters");
        problems.invalid(at, message, "remove them");
    };
    match value {
        Value::String(text) if clean(text).removed > 0 => refuse(at, "the text"),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                hidden(problems, item, at.index(index));
            }
        }
        Value::Object(map) => {
            for (name, value) in map {
                if clean(name).removed > 0 {
                    refuse(at, "a member's name");
                } else if is_line(name) && value.as_str().is_some_and(has_control) {
                    refuse(at.member(name), "the text");
                } else {
                    hidden(problems, value, at.member(name));
                }
            }
        }
        _ => {}
    }
}

fn is_line(member: &str) -> bool {
    matches!(member, "name" | "title" | "description" | "version")
}

fn has_control(text: &str) -> bool {
    text.contains(char::is_control)
}

fn name(problems: &Problems, fields: &Fields<'_>) -> Option<String> {
    let at = fields.at("name");
    let name = problems.name(Kind::Server, fields.require("name")?, at)?;
    if let Some(why) = invalid_reason(&name) {
        let found = Diagnostic::error(Code::NameInvalid, at.to_string(), why);
        problems.push(found.with_help(
            "write a reverse-DNS namespace, one `/` and a name, like `com.example/docs`",
        ));
        return None;
    }
    Some(name.to_string())
}

fn version(problems: &Problems, fields: &Fields<'_>) -> Option<Version> {
    if fields.get("version").is_none() && fields.raw("version_detail").is_some() {
        let help = "this is the format from before September 2025: write `version`, and all names \
                    in camelCase, or let `registryctl import server-json` convert it";
        let message = "the required field `version` is missing; `version_detail` is not supported";
        problems.invalid(fields.here(), message, help);
        return None;
    }
    fields.version("version")
}

/// Any version of the schema is accepted, but a schema of another format is an error.
fn schema(problems: &Problems, fields: &Fields<'_>) {
    let at = fields.at("$schema");
    let Some(value) = fields.get("$schema") else { return };
    match problems.string(value, at) {
        None | Some(SCHEMA) => {}
        Some(text) if text.ends_with("/server.schema.json") => {
            let message = format!(
                "the document declares the schema {text}, but is parsed with that of 2025-12-11"
            );
            problems.warn(at, message, format!("write {SCHEMA}"));
        }
        Some(text) => {
            let message = format!("`{text}` is not a schema of a server.json");
            problems.invalid(at, message, format!("write {SCHEMA}"));
        }
    }
}

/// The server entity of a `server.json`, unless there are errors, and all findings with JSON
/// pointers into the `server.json`.
pub fn document(value: &Value) -> (Option<Document>, Vec<Diagnostic>) {
    let Reading { detail, mut findings } = ServerDetail::read(value);
    let server = detail.and_then(|detail| detail.to_server());
    let Some(server) = server else { return (None, findings) };
    let outer = format!("/metadata/{METADATA_KEY}");
    match Document::new(Entity::Server(server)) {
        Ok(document) => (Some(document), findings),
        Err(more) => {
            findings.extend(more.into_iter().map(|found| {
                let inner = found.pointer.strip_prefix(&outer).map(str::to_owned);
                Diagnostic { pointer: inner.unwrap_or(found.pointer.clone()), ..found }
            }));
            (None, findings)
        }
    }
}

/// Like [`document`], but also converts the format from before September 2025.
pub fn imported(value: &Value) -> (Option<Document>, Vec<Diagnostic>) {
    match legacy::converted(value) {
        None => document(value),
        Some((value, converted)) => {
            let (document, mut found) = document(&value);
            found.push(converted);
            (document, found)
        }
    }
}

/// A document in a file: a `server.json`, or the response of an MCP registry.
#[derive(Debug, Clone, PartialEq)]
pub struct LocatedDocument<'a> {
    /// JSON pointer of the document.
    pub pointer: String,
    /// The document.
    pub value: &'a Value,
    /// A warning if the registry of the response marks the document as deprecated or deleted.
    pub withdrawn: Option<Diagnostic>,
}

impl<'a> LocatedDocument<'a> {
    /// The document in a response, or the document itself.
    fn new(item: &'a Value, pointer: &str) -> Self {
        let (value, at) = match item.get("server") {
            Some(server @ Value::Object(_)) => (server, "/server"),
            _ => (item, ""),
        };
        Self { pointer: format!("{pointer}{at}"), value, withdrawn: withdrawn(item, pointer) }
    }
}

fn withdrawn(item: &Value, pointer: &str) -> Option<Diagnostic> {
    let status = item.get("_meta")?.get(OFFICIAL_META)?.get("status")?.as_str()?;
    if status == Status::Active.as_str() {
        return None;
    }
    let status: String = status.chars().take(64).collect();
    let message = format!("the source registry marks the server as `{status}`");
    let at = format!("{pointer}/_meta/{}/status", escape(OFFICIAL_META));
    let found = Diagnostic::warning(Code::DocumentInvalid, at, message);
    Some(
        found
            .with_help("it is imported as active; remove it, or deprecate or retire it afterwards"),
    )
}

/// Finds the documents of a file: the file itself, the one in a `ServerResponse`, or all in a
/// `ServerList` or a plain list.
pub fn find(value: &Value) -> Vec<LocatedDocument<'_>> {
    if let Value::Array(all) = value {
        let all = all.iter().enumerate();
        return all.map(|(i, item)| LocatedDocument::new(item, &format!("/{i}"))).collect();
    }
    let list = value.get("servers").and_then(Value::as_array);
    match list.filter(|_| !value.get("server").is_some_and(Value::is_object)) {
        None => vec![LocatedDocument::new(value, "")],
        Some(servers) => {
            let servers = servers.iter().enumerate();
            servers.map(|(i, item)| LocatedDocument::new(item, &format!("/servers/{i}"))).collect()
        }
    }
}

/// A warning if a list of a registry continues on another page.
pub fn more_pages(value: &Value) -> Option<Diagnostic> {
    let cursor = value.pointer("/metadata/nextCursor")?.as_str().filter(|c| !c.is_empty())?;
    let message = "the list is incomplete: the file has only one page";
    let found = Diagnostic::warning(Code::DocumentInvalid, "/metadata/nextCursor", message);
    Some(found.with_help(format!("import the next page too, with cursor={cursor}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn withdrawn_server_gets_warning() {
        let answered = |status: &str| json!({ "server": {}, "_meta": { OFFICIAL_META: { "status": status } } });
        let list =
            json!({ "servers": [answered("active"), answered("deleted"), { "server": {} }] });
        let found = find(&list);
        let pointers: Vec<_> = found.iter().map(|found| found.pointer.as_str()).collect();
        assert_eq!(pointers, ["/servers/0/server", "/servers/1/server", "/servers/2/server"]);
        let said: Vec<_> = found.iter().filter_map(|found| found.withdrawn.as_ref()).collect();
        let [said] = &said[..] else { panic!("{said:?}") };
        let at = "/servers/1/_meta/io.modelcontextprotocol.registry~1official/status";
        assert_eq!(said.pointer, at);
        insta::assert_snapshot!(said.message, @"the source registry marks the server as `deleted`");
        let one = answered("deprecated");
        let [one] = &find(&one)[..] else { panic!("{one}") };
        assert!(one.pointer == "/server" && one.withdrawn.is_some(), "{one:?}");
    }
}
