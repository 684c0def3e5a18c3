//! Random registries. The set of names is small, so that entities often refer to each other.

use std::sync::Arc;

use proptest::{collection::vec, prelude::*, sample::select};
use registry_core::{
    Catalog, Commit, Document, Key, Kind, RegistryId, SealedCommit, Timestamp,
    lifecycle::{LifecycleState, Notice},
    rules::{Proposed, plan},
};
use serde_json::{Value, json};

/// One proposed change of a random history.
#[derive(Debug, Clone)]
pub enum Wish {
    /// Registers a document of this kind.
    Register(Kind, Value),
    /// Sets a lifecycle state with a message.
    SetLifecycle(Key, LifecycleState, Option<String>),
}

impl Wish {
    /// The change, if the document is valid.
    pub fn proposed(&self) -> Option<Proposed> {
        match self {
            Self::Register(kind, value) => {
                Document::parse(*kind, value).ok().map(|d| Proposed::Register(Arc::new(d)))
            }
            Self::SetLifecycle(key, state, message) => Some(Proposed::SetLifecycle {
                key: key.clone(),
                state: *state,
                notice: Notice::with_message(message.as_deref()),
            }),
        }
    }
}

fn name() -> impl Strategy<Value = &'static str> {
    select(&["a", "b", "c", "d"][..])
}

fn version() -> impl Strategy<Value = &'static str> {
    select(&["1.0.0", "1.1.0", "2.0.0-rc.1"][..])
}

fn schema_ref() -> impl Strategy<Value = Value> {
    (name(), version()).prop_map(|(name, version)| json!({ "$ref": format!("#{name}:{version}") }))
}

fn depends() -> impl Strategy<Value = Value> {
    let on_tool = (name(), version())
        .prop_map(|(name, version)| json!({ "type": "tool", "name": name, "version": version }));
    let on_agent = (name(), version()).prop_map(
        |(name, version)| json!({ "type": "agent", "name": name, "version": version, "skill": "s" }),
    );
    vec(prop_oneof![on_tool, on_agent], 0..3).prop_map(Value::Array)
}

fn schema() -> impl Strategy<Value = Wish> {
    (name(), version(), proptest::option::of(schema_ref())).prop_map(|(name, version, refers)| {
        let schema = json!({ "type": "object", "items": refers.unwrap_or(json!(true)) });
        let value = json!({ "name": name, "version": version, "schema": schema });
        Wish::Register(Kind::Schema, value)
    })
}

fn server() -> impl Strategy<Value = Wish> {
    let provides = vec((name(), version()), 0..3);
    (name(), version(), provides).prop_map(|(name, version, provides)| {
        let provides: Vec<_> = provides
            .into_iter()
            .map(|(tool, version)| json!({ "tool": tool, "version": version }))
            .collect();
        let value = json!({ "name": name, "version": version, "provides": provides });
        Wish::Register(Kind::Server, value)
    })
}

fn tool() -> impl Strategy<Value = Wish> {
    let source = proptest::option::of((name(), version()));
    let input = proptest::option::of(schema_ref());
    (name(), version(), source, depends(), input).prop_map(
        |(name, version, source, depends, input)| {
            let mut tool = json!({ "name": name, "version": version, "depends": depends });
            match source {
                Some((server, version)) => {
                    tool["source"] =
                        json!({ "server": server, "serverVersion": version, "tool": name });
                }
                None => {
                    tool["spec"] = json!({ "schemaMap": { "mappings": { "x": { "path": "$" } } } });
                }
            }
            if let Some(input) = input {
                tool["inputSchema"] = input;
            }
            Wish::Register(Kind::Tool, tool)
        },
    )
}

fn agent() -> impl Strategy<Value = Wish> {
    (name(), version(), depends(), proptest::option::of(schema_ref())).prop_map(
        |(name, version, depends, input)| {
            let skill = json!({
                "id": "s", "name": "S", "description": "s", "tags": [], "inputSchema": input,
            });
            let sbom = json!({ "uri": "urn:agentgateway:sbom", "params": { "depends": depends } });
            let value = json!({
                "name": name, "version": version, "description": "an agent", "url": "http://a",
                "protocolVersion": "0.2.1", "defaultInputModes": [], "defaultOutputModes": [],
                "skills": [skill], "capabilities": { "extensions": [sbom] },
            });
            Wish::Register(Kind::Agent, value)
        },
    )
}

fn lifecycle() -> impl Strategy<Value = Wish> {
    let states = [LifecycleState::Active, LifecycleState::Deprecated, LifecycleState::Retired];
    (
        select(&Kind::ALL[..]),
        name(),
        version(),
        select(states.to_vec()),
        proptest::option::of("[a-zä]{0,6}"),
    )
        .prop_map(|(kind, name, version, state, message)| {
            Wish::SetLifecycle(Key::parse(kind, name, version).unwrap(), state, message)
        })
}

/// A policy about some of the other entities, or about everything.
pub fn policy() -> impl Strategy<Value = Wish> {
    let patterns = |texts: &'static [&'static str]| proptest::option::of(vec(select(texts), 1..3));
    let tools = patterns(&["a", "b", "c*", "*"]);
    let skills = patterns(&["a/s", "team/*", "*/other", "d/*"]);
    let servers = patterns(&["a", "b*", "none"]);
    let rest = (proptest::option::of(any::<bool>()), select(&["enforce", "audit"][..]));
    (name(), version(), tools, skills, servers, rest).prop_map(
        |(name, version, tools, skills, servers, (destructive, mode))| {
            let mut applies_to = json!({ "destructive": destructive });
            for (list, patterns) in [("tools", tools), ("skills", skills), ("servers", servers)] {
                if let Some(patterns) = patterns {
                    applies_to[list] = json!(patterns);
                }
            }
            let value = json!({
                "name": name, "version": version, "mode": mode, "appliesTo": applies_to,
            });
            Wish::Register(Kind::Policy, value)
        },
    )
}

/// Registrations and lifecycle changes.
pub fn wish() -> impl Strategy<Value = Wish> {
    prop_oneof![schema(), server(), tool(), agent(), policy(), lifecycle()]
}

/// Registrations of all kinds.
pub fn registration() -> impl Strategy<Value = Wish> {
    prop_oneof![schema(), server(), tool(), agent(), policy()]
}

/// A catalog without entities.
pub fn empty() -> Catalog {
    Catalog::empty(RegistryId::new("00000000-0000-7000-8000-000000000000"))
}

/// The commit of a batch, valid or not; `None` if the batch changes nothing.
pub fn commit(catalog: &Catalog, wishes: &[Wish]) -> Option<SealedCommit> {
    let batch: Vec<_> = wishes.iter().filter_map(Wish::proposed).collect();
    let effects = plan(catalog, &batch).effects;
    let documents = batch
        .iter()
        .zip(&effects)
        .filter(|(_, effect)| effect.is_some())
        .filter_map(|(proposed, _)| match proposed {
            Proposed::Register(document) => Some(document.clone()),
            Proposed::SetLifecycle { .. } => None,
        })
        .collect();
    let changes: Vec<_> = effects.into_iter().flatten().collect();
    let revision = catalog.revision().next();
    let commit = Commit {
        revision,
        author: format!("author \"{}\"", revision.0 % 3),
        committed_at: Timestamp::from_millis(i64::try_from(revision.0).unwrap() * 86_400_123),
        message: "änd\u{1F600}".to_owned(),
        request_id: revision.0.is_multiple_of(2).then(|| revision.to_string()),
        changes,
        ..Commit::default()
    };
    (!commit.changes.is_empty())
        .then(|| SealedCommit::seal(&catalog.chain(), commit, documents).unwrap())
}

/// The catalog after one batch, valid or not.
pub fn catalog(wishes: &[Wish]) -> Catalog {
    let mut catalog = empty();
    if let Some(sealed) = commit(&catalog, wishes) {
        catalog.apply(&sealed).unwrap();
    }
    catalog
}
