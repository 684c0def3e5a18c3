//! Builders of small entities and catalogs, and diagnostics as text.
//!
//! The unit tests of `registry-core` include this file as a module, because they need the types of
//! the crate under test.

use std::sync::Arc;

use registry_core::{
    Catalog, Code, Commit, Diagnostic, Document, Kind, RegistryId, SealedCommit, Timestamp,
    lifecycle::{LifecycleState, Notice},
    rules::{Proposed, plan},
};
use serde_json::{Value, json};

/// The registration of a document.
pub fn register(kind: Kind, value: &Value) -> Proposed {
    Proposed::Register(Arc::new(Document::parse(kind, value).unwrap()))
}

/// A schema entity with version 1.0.0.
pub fn schema(name: &str, schema: &Value) -> Proposed {
    register(Kind::Schema, &json!({ "name": name, "version": "1.0.0", "schema": schema }))
}

/// A server that provides these tools: `name` or `name@version`.
pub fn server(name: &str, provides: &[&str]) -> Proposed {
    let provision = |text: &&str| {
        let (tool, version) = text.split_once('@').unwrap_or((text, "1.0.0"));
        json!({ "tool": tool, "version": version })
    };
    let provides: Vec<_> = provides.iter().map(provision).collect();
    register(Kind::Server, &json!({ "name": name, "version": "1.0.0", "provides": provides }))
}

/// A tool with these additional members.
pub fn tool(name: &str, members: Value) -> Proposed {
    let mut tool = json!({ "name": name, "version": "1.0.0" });
    merge(&mut tool, members);
    register(Kind::Tool, &tool)
}

/// A tool whose source is the tool with the same name on a server.
pub fn source_tool(name: &str, server: &str) -> Proposed {
    let source = json!({ "server": server, "serverVersion": "1.0.0", "tool": name });
    tool(name, json!({ "source": source }))
}

/// An agent with the skill `work`.
pub fn agent(name: &str, depends: &Value) -> Proposed {
    let sbom = json!({ "uri": "urn:agentgateway:sbom", "params": { "depends": depends } });
    let skill = json!({ "id": "work", "name": "Work", "description": "works", "tags": [] });
    let card = json!({
        "name": name, "version": "1.0.0", "description": "an agent", "url": "http://localhost",
        "protocolVersion": "0.2.1", "defaultInputModes": ["text"], "defaultOutputModes": ["text"],
        "skills": [skill], "capabilities": { "extensions": [sbom] },
    });
    register(Kind::Agent, &card)
}

/// A policy with these additional members.
pub fn policy(name: &str, members: Value) -> Proposed {
    let mut policy = json!({ "name": name, "version": "1.0.0" });
    merge(&mut policy, members);
    register(Kind::Policy, &policy)
}

/// A lifecycle change with an optional message.
pub fn set(key: &str, state: LifecycleState, message: Option<&str>) -> Proposed {
    set_with(key, state, Notice::with_message(message))
}

/// A lifecycle change with this notice.
pub fn set_with(key: &str, state: LifecycleState, notice: Notice) -> Proposed {
    Proposed::SetLifecycle { key: key.parse().unwrap(), state, notice }
}

/// The same registration with these members added or replaced.
pub fn with(proposed: &Proposed, members: Value) -> Proposed {
    let Proposed::Register(document) = proposed else { panic!("not a registration") };
    let mut value = document.entity().to_value();
    merge(&mut value, members);
    register(document.key().kind, &value)
}

/// The same registration with another name.
pub fn renamed(proposed: &Proposed, name: &str) -> Proposed {
    with(proposed, json!({ "name": name }))
}

/// The same registration with another version.
pub fn versioned(proposed: &Proposed, version: &str) -> Proposed {
    with(proposed, json!({ "version": version }))
}

fn merge(value: &mut Value, members: Value) {
    let Value::Object(members) = members else { panic!("not an object") };
    value.as_object_mut().unwrap().extend(members);
}

/// A catalog with these changes as its first revision, whether valid or not.
pub fn catalog(registered: &[Proposed]) -> Catalog {
    commit(Catalog::empty(RegistryId::new("test")), registered)
}

/// A catalog after one more commit with these changes, whether valid or not.
pub fn commit(mut catalog: Catalog, registered: &[Proposed]) -> Catalog {
    let effects = plan(&catalog, registered).effects;
    let documents = registered.iter().filter_map(Proposed::document).cloned();
    let commit = Commit {
        revision: catalog.revision().next(),
        author: "tester".to_owned(),
        committed_at: Timestamp::from_millis(0),

        changes: effects.into_iter().flatten().collect(),

        ..Commit::default()
    };
    let sealed = SealedCommit::seal(&catalog.chain(), commit, documents.collect()).unwrap();
    catalog.apply(&sealed).unwrap();
    catalog
}

/// All findings, one per line: `severity[code] entity at "pointer": message (help)`.
pub fn found(registered: &[Proposed], batch: &[Proposed]) -> String {
    lines(&plan(&catalog(registered), batch).diagnostics)
}

/// The findings with one code.
pub fn found_of(code: Code, registered: &[Proposed], batch: &[Proposed]) -> String {
    let mut found = plan(&catalog(registered), batch).diagnostics;
    found.retain(|diagnostic| diagnostic.code == code);
    lines(&found)
}

/// Formats diagnostics, one per line.
pub fn lines(found: &[Diagnostic]) -> String {
    let line = |d: &Diagnostic| match &d.help {
        Some(help) => format!("{d} ({help})"),
        None => d.to_string(),
    };
    found.iter().map(line).collect::<Vec<_>>().join("\n")
}
