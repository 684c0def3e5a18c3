//! Catalogs for tests.

use std::sync::Arc;

use gateway_upstream::Definitions;
use registry_core::{
    Catalog, ChainHash, Document, Kind, Lifecycle, LifecycleState, Notice, Record, RegistryId,
    Revision, Timestamp,
};
use serde_json::{Value, json};

/// An entity of a test catalog.
#[derive(Debug)]
pub(crate) struct Registered {
    kind: Kind,
    pub(crate) document: Value,
    state: LifecycleState,
    /// The revision that registered it.
    since: Revision,
}

impl Registered {
    pub(crate) fn deprecated(self) -> Self {
        Self { state: LifecycleState::Deprecated, ..self }
    }

    pub(crate) fn retired(self) -> Self {
        Self { state: LifecycleState::Retired, ..self }
    }

    pub(crate) fn registered_at(self, revision: u64) -> Self {
        Self { since: Revision(revision), ..self }
    }
}

pub(crate) fn registered(kind: Kind, document: Value) -> Registered {
    Registered { kind, document, state: LifecycleState::Active, since: Revision(1) }
}

/// A tool of `server/up@1.0.0` under its own name. `more` is merged into the document, and its
/// `source` into the source.
#[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
pub(crate) fn tool(name: &str, version: &str, more: Value) -> Registered {
    let mut document = json!({
        "name": name, "version": version,
        "source": { "server": "up", "serverVersion": "1.0.0", "tool": name },
    });
    merge(&mut document, &more);
    registered(Kind::Tool, document)
}

pub(crate) fn composed(name: &str) -> Registered {
    let step = json!({ "id": "a", "operation": { "tool": { "name": "x" } } });
    let document =
        json!({ "name": name, "version": "1.0.0", "spec": { "pipeline": { "steps": [step] } } });
    registered(Kind::Tool, document)
}

/// A server with these tools, all of version 1.0.0, and these exposures.
pub(crate) fn server(name: &str, tools: &[&str], exposes: &[&str]) -> Registered {
    let provides: Vec<_> =
        tools.iter().map(|tool| json!({ "tool": tool, "version": "1.0.0" })).collect();
    let document =
        json!({ "name": name, "version": "1.0.0", "provides": provides, "exposes": exposes });
    registered(Kind::Server, document)
}

/// An agent that depends on these tools.
pub(crate) fn agent(name: &str, version: &str, tools: &[(&str, &str)]) -> Registered {
    let depends: Vec<_> =
        tools.iter().map(|(n, v)| json!({ "type": "tool", "name": n, "version": v })).collect();
    let sbom = json!({ "uri": "urn:agentgateway:sbom", "params": { "depends": depends } });
    let more = json!({ "version": version, "capabilities": { "extensions": [sbom] } });
    agent_with(name, more)
}

/// An agent of version 1.0.0 with these members.
#[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
pub(crate) fn agent_with(name: &str, more: Value) -> Registered {
    let mut document = json!({
        "name": name, "version": "1.0.0", "description": "x", "url": "http://x",
        "protocolVersion": "0.3.0", "defaultInputModes": [], "defaultOutputModes": [], "skills": [],
        "capabilities": {},
    });
    merge(&mut document, &more);
    registered(Kind::Agent, document)
}

/// A policy of version 1.0.0 with these members.
#[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
pub(crate) fn policy(name: &str, members: Value) -> Registered {
    let mut document = json!({ "name": name, "version": "1.0.0" });
    merge(&mut document, &members);
    registered(Kind::Policy, document)
}

#[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
pub(crate) fn schema(name: &str, schema: Value) -> Registered {
    registered(Kind::Schema, json!({ "name": name, "version": "1.0.0", "schema": schema }))
}

fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (name, value) in more {
                merge(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more.clone(),
    }
}

/// Definitions of these targets before the first connection.
pub(crate) fn definitions(targets: &[&str]) -> Arc<Definitions> {
    let mut definitions = Definitions::default();
    definitions.configure(targets.iter().map(|target| target.parse().unwrap()).collect());
    Arc::new(definitions)
}

/// A catalog at a revision.
pub(crate) fn catalog(revision: u64, entities: Vec<Registered>) -> Arc<Catalog> {
    let id = RegistryId::new("test");
    let chain = ChainHash::genesis(&id);
    let records = entities.into_iter().map(|Registered { kind, document, state, since }| {
        let document = Document::parse(kind, &document).unwrap_or_else(|e| panic!("{e:?}"));
        Record {
            document: Arc::new(document),
            owner: "test".into(),
            registered: since,
            registered_at: Timestamp::from_millis(0),
            lifecycle: Lifecycle::new(state, Notice::default(), (since, Timestamp::EPOCH)),
        }
    });
    Arc::new(Catalog::restore(id, Revision(revision), chain, records))
}
