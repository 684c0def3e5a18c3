//! The registered entities that all workloads of a fleet have.

use std::sync::Arc;

use registry_core::{Document, Kind, rules::Proposed};
use serde_json::{Value, json};

/// The server of all tools.
pub(crate) const BANK: &str = "bank";
/// The version of all entities except policies.
pub(crate) const VERSION: &str = "1.0.0";
/// The agents that call.
pub(crate) const AGENTS: [&str; 2] = ["clerk", "buyer"];

/// The server with its tools.
pub(crate) fn bank(tools: &[&str], input_schema: &Value) -> Vec<Proposed> {
    let provides: Vec<_> =
        tools.iter().map(|tool| json!({ "tool": tool, "version": VERSION })).collect();
    let server = json!({ "name": BANK, "version": VERSION, "provides": provides });
    let tool = |name: &&str| {
        let source = json!({ "server": BANK, "serverVersion": VERSION, "tool": name });
        let value = json!({ "name": name, "version": VERSION, "inputSchema": input_schema,
            "source": source });
        register(Kind::Tool, &value)
    };
    let server = register(Kind::Server, &server);
    std::iter::once(server).chain(tools.iter().map(tool)).collect()
}

/// The agents, which declare these tools.
pub(crate) fn agents(tools: &[&str]) -> impl Iterator<Item = Proposed> {
    let depends: Vec<_> = tools.iter().map(|tool| dependency(tool)).collect();
    AGENTS.into_iter().map(move |name| {
        let skill = json!({ "id": "work", "name": "Work", "description": "works", "tags": [] });
        let sbom = json!({ "uri": "urn:agentgateway:sbom", "params": { "depends": depends } });
        let agent = json!({
            "name": name, "version": VERSION, "description": "pays", "url": "http://localhost",
            "protocolVersion": "0.3.0", "defaultInputModes": ["text"],
            "defaultOutputModes": ["text"], "skills": [skill],
            "capabilities": { "extensions": [sbom] },
        });
        register(Kind::Agent, &agent)
    })
}

/// A dependency on a tool.
pub(crate) fn dependency(tool: &str) -> Value {
    json!({ "type": "tool", "name": tool, "version": VERSION })
}

/// The registration of a document.
pub(crate) fn register(kind: Kind, value: &Value) -> Proposed {
    let document = Document::parse(kind, value);
    Proposed::Register(Arc::new(document.unwrap_or_else(|found| panic!("{value}: {found:?}"))))
}
