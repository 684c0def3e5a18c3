//! The entities of a registration: a server with a tool per function, and an agent.
//!
//! All entities of a registration have the same version.

use std::sync::Arc;

use agent_rpc::registration::{EndpointProtocol, Function, Registration, call_timeout};
use gateway_upstream::{AgentEndpoint, DataAgentTransport};
use registry_core::{
    Catalog, Digest, Document, Entity, Key, Kind, Record, Version, entity::Server,
};
use registry_import::Draft;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    AGENT_BYTES, DATA_AGENT_METADATA, DataAgentSettings, NotRegistered, OWNER, Submission,
};

/// The members of [`DATA_AGENT_METADATA`] with the URL and the protocol of an endpoint.
const ENDPOINT: &str = "endpoint";
const PROTOCOL: &str = "endpointProtocol";
/// The members of a registered tool that the definition of its function has.
const DEFINITION: [&str; 3] = ["description", "inputSchema", "outputSchema"];

/// The documents of a registration.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Documents(pub(super) Draft);

impl Documents {
    /// Parses the documents by the rules of their kinds.
    pub(super) fn parse(&self) -> Result<Vec<Document>, NotRegistered> {
        let kinds = [Kind::Server, Kind::Tool, Kind::Agent];
        let documents = kinds
            .into_iter()
            .flat_map(|kind| self.0.documents(kind).iter().map(move |it| (kind, it)));
        let parsed = documents.map(|(kind, document)| {
            Document::parse(kind, document).map_err(|found| {
                let found: Vec<_> = found.iter().map(ToString::to_string).collect();
                NotRegistered::Invalid(found.join("; "))
            })
        });
        parsed.collect()
    }
}

/// The size of the definitions, in bytes of JSON. `None`: they are too large.
pub(super) fn size_of(registration: &Registration) -> Option<usize> {
    let description = registration.description.as_ref().map_or(0, String::len);
    let first = description + Value::from(marker(registration)).to_string().len();
    // One schema at a time: types are smaller than the schemas that they become.
    let sizes = registration.functions.iter().map(|it| function(it).to_string().len());
    std::iter::once(first).chain(sizes).try_fold(0, |total: usize, size| {
        total.checked_add(size).filter(|total| *total <= AGENT_BYTES)
    })
}

/// The size of a registered server with its tools, in bytes of JSON.
pub(super) fn registered_size(catalog: &Catalog, record: &Record) -> usize {
    let Entity::Server(server) = record.document.entity() else { return 0 };
    let tools = tools_of(catalog, server).map(|document| document.bytes().len());
    record.document.bytes().len() + tools.sum::<usize>()
}

/// The digest of the content. The owner and the version do not count.
pub(crate) fn digest_of(registration: &Registration) -> Digest {
    let parts = json!([
        marker(registration),
        registration.description,
        registration.functions.iter().map(function).collect::<Vec<_>>(),
    ]);
    Digest::compute(parts.to_string().as_bytes())
}

/// The functions as a page of `tools/list`.
pub(crate) fn functions(registration: &Registration) -> Option<Box<RawValue>> {
    let tools: Vec<_> = registration.functions.iter().map(function).collect();
    serde_json::value::to_raw_value(&json!({ "tools": tools })).ok()
}

/// The documents of a version.
pub(super) fn documents(submission: Submission<'_>, version: &Version) -> Documents {
    let Submission { registration, owner, .. } = submission;
    let (name, version) = (registration.agent_id.as_str(), version.to_string());
    let mut marker = marker(registration);
    marker.insert(OWNER.to_owned(), owner.into());
    marker.insert("content".to_owned(), digest_of(registration).to_string().into());
    let provides = registration.functions.iter();
    let provides: Vec<_> =
        provides.map(|it| json!({ "tool": it.tool.as_str(), "version": version })).collect();
    let mut server = json!({
        "name": name, "version": version, "provides": provides,
        "metadata": { DATA_AGENT_METADATA: marker },
    });
    let mut agent = json!({
        "name": name, "version": version, "url": url(registration), "protocolVersion": "0.3.0",
        "description": registration.description.as_deref().unwrap_or(name),
        "defaultInputModes": ["application/json"], "defaultOutputModes": ["application/json"],
        "capabilities": {}, "skills": registration.functions.iter().map(skill).collect::<Vec<_>>(),
    });
    agent["metadata"] = json!({ DATA_AGENT_METADATA: { OWNER: owner } });
    if let Some(description) = &registration.description {
        server["description"] = description.as_str().into();
    }
    let tools = registration.functions.iter().map(|it| {
        let mut tool = function(it);
        tool["name"] = it.tool.as_str().into();
        tool["version"] = version.as_str().into();
        tool["source"] = json!({ "server": name, "serverVersion": version, "tool": it.name });
        tool
    });
    let tools = tools.collect();
    Documents(Draft { servers: vec![server], tools, agents: vec![agent], ..Draft::default() })
}

/// How the gateway calls the agent of a server. `None`: the gateway may not call its endpoint.
pub(super) fn transport(
    catalog: &Catalog,
    (server, marker): (&Server, &Map<String, Value>),
    settings: &DataAgentSettings,
) -> Option<DataAgentTransport> {
    let text = |name: &str| marker.get(name).and_then(Value::as_str);
    let Some(url) = text(ENDPOINT) else { return Some(DataAgentTransport::Connection) };
    if !settings.allows(url) {
        return None;
    }
    let url = url.to_owned();
    let protocol = text(PROTOCOL).and_then(EndpointProtocol::parse).unwrap_or_default();
    Some(match protocol {
        EndpointProtocol::Mcp => DataAgentTransport::Mcp(url),
        EndpointProtocol::Execute => {
            let constraints = marker.get("constraints").and_then(Value::as_object);
            DataAgentTransport::Endpoint(Arc::new(AgentEndpoint {
                url,
                functions: registered_functions(catalog, server),
                call_timeout: constraints.and_then(call_timeout),
            }))
        }
    })
}

/// The documents of the tools that a server provides.
fn tools_of<'c>(catalog: &'c Catalog, server: &'c Server) -> impl Iterator<Item = &'c Document> {
    server.provides.iter().filter_map(|provided| {
        let key = Key::new(Kind::Tool, provided.tool.clone(), provided.version.clone());
        Some(&*catalog.find(&key)?.document)
    })
}

/// The functions of a registered server as a page of `tools/list`.
fn registered_functions(catalog: &Catalog, server: &Server) -> String {
    let tools = tools_of(catalog, server).filter_map(|document| {
        let mut tool: Map<String, Value> = serde_json::from_slice(document.bytes()).ok()?;
        let name = tool.get("source")?.get("tool")?.clone();
        tool.retain(|member, _| DEFINITION.contains(&member.as_str()));
        tool.insert("name".to_owned(), name);
        Some(Value::from(tool))
    });
    json!({ "tools": tools.collect::<Vec<_>>() }).to_string()
}

/// The members of a registration that no other member of an entity has.
fn marker(registration: &Registration) -> Map<String, Value> {
    let mut marker = Map::new();
    let heartbeat = registration.heartbeat_interval.as_secs_f64();
    marker.insert("heartbeatSeconds".to_owned(), heartbeat.into());
    if !registration.resources.is_empty() {
        marker.insert("resources".to_owned(), json!(registration.resources));
    }
    if !registration.constraints.sent.is_empty() {
        marker.insert("constraints".to_owned(), registration.constraints.sent.clone().into());
    }
    if let Some(endpoint) = &registration.endpoint {
        marker.insert(ENDPOINT.to_owned(), endpoint.url.as_str().into());
        marker.insert(PROTOCOL.to_owned(), endpoint.protocol.as_str().into());
    }
    marker
}

/// A function as a tool of its server.
fn function(function: &Function) -> Value {
    let mut tool = json!({ "name": function.name, "inputSchema": function.input_schema() });
    if let Some(description) = &function.description {
        tool["description"] = description.as_str().into();
    }
    if let Some(output) = function.output_schema() {
        tool["outputSchema"] = output;
    }
    tool
}

fn skill(function: &Function) -> Value {
    let description = function.description.as_deref().unwrap_or(&function.name);
    json!({ "id": function.name, "name": function.name, "description": description, "tags": [] })
}

/// The endpoint, or a name for an agent that has only a connection.
fn url(registration: &Registration) -> String {
    let named = || format!("urn:agentgateway:data-agent:{}", registration.agent_id.as_str());
    registration.endpoint.as_ref().map_or_else(named, |endpoint| endpoint.url.clone())
}
