//! The realistic catalog: `catalog.jsonl`, expanded to documents and commits.

use std::sync::Arc;

use registry_core::{
    Catalog, Commit, Document, Key, Kind, Notice, RegistryId, SealedCommit,
    commit::{Action, Change},
};
use serde_json::{Map, Value, json};

const LINES: &str = include_str!("catalog.jsonl");

/// The catalog: all registrations in one commit, then deprecations and retirements.
pub(crate) fn catalog() -> Catalog {
    let lines: Vec<Value> = LINES.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut documents = Vec::new();
    let mut lifecycles = Vec::new();
    for line in &lines {
        let (kind, name) = kind_and_name(line);
        for version in versions(line) {
            let value = expand(kind, line, &version, &lines);
            documents.push(Arc::new(Document::parse(kind, &value).unwrap()));
        }
        for (version, state) in line["lifecycle"].as_object().into_iter().flatten() {
            let key = Key::parse(kind, name, version).unwrap();
            let action = match state.as_str().unwrap() {
                "deprecated" => Action::Deprecate(Notice::default()),
                _ => Action::Retire(Notice::default()),
            };
            lifecycles.push(Change { key, action });
        }
    }
    let mut catalog = Catalog::empty(RegistryId::new("company"));
    let register = |document: &Arc<Document>| Change {
        key: document.key().clone(),
        action: Action::register(document.digest()),
    };
    let changes = documents.iter().map(register).collect();
    commit(&mut catalog, changes, documents);
    commit(&mut catalog, lifecycles, Vec::new());
    catalog
}

/// Appends one commit.
fn commit(catalog: &mut Catalog, changes: Vec<Change>, documents: Vec<Arc<Document>>) {
    let commit = Commit {
        revision: catalog.revision().next(),
        author: "ada".to_owned(),
        changes,
        ..Commit::default()
    };
    catalog.apply(&SealedCommit::seal(&catalog.chain(), commit, documents).unwrap()).unwrap();
}

fn kind_and_name(line: &Value) -> (Kind, &str) {
    let kinds = [Kind::Tool, Kind::Server, Kind::Schema, Kind::Agent];
    kinds.into_iter().find_map(|kind| Some((kind, line[kind.as_str()].as_str()?))).unwrap()
}

fn versions(line: &Value) -> Vec<String> {
    match line["versions"].as_array() {
        Some(versions) => versions.iter().map(|v| v.as_str().unwrap().to_owned()).collect(),
        None => vec!["1.0.0".to_owned()],
    }
}

fn newest(lines: &[Value], kind: Kind, name: &str) -> String {
    let line = lines.iter().find(|line| kind_and_name(line) == (kind, name)).unwrap();
    versions(line).pop().unwrap()
}

fn expand(kind: Kind, line: &Value, version: &str, lines: &[Value]) -> Value {
    let (_, name) = kind_and_name(line);
    let mut value = json!({
        "name": name, "version": version, "description": line["description"],
    });
    let tags = json!({ "tags": line["tags"] });
    match kind {
        Kind::Schema => {
            value["schema"] = object(&line["properties"]);
            value["metadata"] = tags;
        }
        Kind::Server => {
            let is_its = |tool: &&Value| tool["tool"].is_string() && tool["server"] == name;
            let provide =
                |tool: &Value| json!({ "tool": tool["tool"], "version": versions(tool).last() });
            value["provides"] = lines.iter().filter(is_its).map(provide).collect();
            value["metadata"] = tags;
        }
        Kind::Tool => {
            let server = line["server"].as_str().unwrap();
            value["title"] = line["title"].clone();
            value["source"] = json!({
                "server": server, "serverVersion": newest(lines, Kind::Server, server), "tool": name,
            });
            value["inputSchema"] = object(&line["input"]);
            value["metadata"] = tags;
        }
        Kind::Agent => agent(&mut value, line, lines),
        Kind::Policy => value["metadata"] = tags,
    }
    value
}

fn agent(value: &mut Value, line: &Value, lines: &[Value]) {
    let depend = |name: &Value| {
        let version = newest(lines, Kind::Tool, name.as_str().unwrap());
        json!({ "type": "tool", "name": name, "version": version })
    };
    let depends: Vec<_> = line["depends"].as_array().unwrap().iter().map(depend).collect();
    let sbom = json!({ "uri": "urn:agentgateway:sbom", "params": { "depends": depends } });
    value["skills"] = line["skills"].clone();
    value["capabilities"] = json!({ "extensions": [sbom] });
    value["url"] = json!("https://agents.example/a2a");
    value["protocolVersion"] = json!("0.3.0");
    value["defaultInputModes"] = json!(["text/plain"]);
    value["defaultOutputModes"] = json!(["text/plain"]);
}

/// A JSON Schema with these properties and their descriptions, which may be empty.
fn object(properties: &Value) -> Value {
    let property = |(name, text): (&String, &Value)| {
        let described = text.as_str().is_some_and(|text| !text.is_empty());
        let schema = if described { json!({ "description": text }) } else { json!({}) };
        (name.clone(), schema)
    };
    let properties: Map<_, _> = properties.as_object().unwrap().iter().map(property).collect();
    json!({ "type": "object", "properties": properties })
}
