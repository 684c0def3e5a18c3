//! `server.register`: a data agent describes itself and its functions.
//!
//! The capabilities are members of `capabilities` or, in the flat form, of the parameters.

use std::{collections::BTreeSet, time::Duration};

use registry_core::{Kind, Name, document::parse_json, limits};
use serde_json::{Map, Value, value::RawValue};

use crate::{
    execute,
    failure::{Failure, shown},
    fields::Fields,
    loose_type::{Direction, Structure},
    quantity,
    text::is_printable,
};

/// The method.
pub const METHOD: &str = "server.register";

/// Maximum characters of an agent id.
const AGENT_ID_CHARACTERS: usize = 64;
/// Maximum functions of an agent.
const FUNCTIONS: usize = limits::LIST_ITEMS;
/// Maximum resources of an agent, and characters of each.
const RESOURCES: (usize, usize) = (limits::LIST_ITEMS, 256);
/// Maximum bytes of the constraints that are kept.
const CONSTRAINT_BYTES: usize = limits::TEXT_BYTES;
/// The interval of heartbeats if a registration has none.
const HEARTBEAT: Duration = Duration::from_mins(1);
/// The shortest interval of heartbeats.
const SHORTEST_HEARTBEAT: Duration = Duration::from_secs(1);

/// The members that describe capabilities.
const CAPABILITIES: [&str; 4] = ["tools", "resources", "schema", "constraints"];

/// The id of a registered data agent: 1 to 64 of `[A-Za-z0-9_-]`. It has no dot, so that the name of
/// a tool, `{agent_id}.{function}`, is unambiguous.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(Name);

impl AgentId {
    /// Parses an id.
    pub fn parse(text: &str) -> Option<Self> {
        let is_short = text.len() <= AGENT_ID_CHARACTERS;
        let is_valid = is_short && !text.contains(['.', '/']);
        is_valid.then(|| Name::parse(Kind::Agent, text).ok().map(Self)).flatten()
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The name of the agent's entity.
    pub fn name(&self) -> &Name {
        &self.0
    }

    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, Failure> {
        let text = fields.required_text("agent_id")?;
        Self::parse(&text).ok_or_else(|| {
            let problem = format!(
                "1 to {AGENT_ID_CHARACTERS} of the characters A-Z a-z 0-9 _ - are required"
            );
            fields.invalid("agent_id", problem)
        })
    }
}

/// A description of a data agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Registration {
    /// The agent.
    pub agent_id: AgentId,
    /// The description for people and models.
    pub description: Option<String>,
    /// The address of an agent that the gateway calls over HTTP.
    pub endpoint: Option<Endpoint>,
    /// The functions.
    pub functions: Vec<Function>,
    /// The data APIs and services that the agent uses.
    pub resources: Vec<String>,
    /// The limits of its calls.
    pub constraints: Constraints,
    /// The interval of its heartbeats.
    pub heartbeat_interval: Duration,
}

/// The address of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The URL.
    pub url: String,
    /// The protocol of its calls.
    pub protocol: EndpointProtocol,
}

/// The protocol of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndpointProtocol {
    /// MCP over HTTP.
    #[default]
    Mcp,
    /// `agent.execute`: JSON-RPC over HTTP.
    Execute,
}

/// A function of a data agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    /// The name of the function.
    pub name: String,
    /// The name of its tool: `{agent_id}.{function}`.
    pub tool: Name,
    /// The description for people and models.
    pub description: Option<String>,
    /// The arguments.
    pub input: Structure,
    /// The result.
    pub output: Option<Structure>,
}

/// The limits of an agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Constraints {
    /// Maximum duration of a call.
    pub timeout: Option<Duration>,
    /// Maximum memory in bytes.
    pub memory_bytes: Option<u64>,
    /// All constraints as sent.
    pub sent: Map<String, Value>,
}

impl Registration {
    /// Reads the parameters in either form.
    pub fn read(params: Option<&RawValue>) -> Result<Self, Failure> {
        let own = [
            "agent_id",
            "description",
            "endpoint",
            "endpoint_protocol",
            "heartbeat_interval",
            "capabilities",
        ];
        let known: Vec<_> = own.into_iter().chain(CAPABILITIES).collect();
        let fields = Fields::params(params, &known)?;
        let agent_id = AgentId::read(&fields)?;
        let nested = match fields.object("capabilities")? {
            None => None,
            Some(raw) => {
                let nested = Fields::open(raw, fields.pointer("capabilities"))?;
                nested.reject_unknown(&CAPABILITIES)?;
                reject_both(&fields, &nested)?;
                Some(nested)
            }
        };
        // Each member is in one of the two places.
        let place =
            |name| nested.as_ref().filter(|_| fields.raw(name).is_none()).unwrap_or(&fields);
        let heartbeat_interval = match fields.value("heartbeat_interval")? {
            None => HEARTBEAT,
            Some(value) => {
                let interval = quantity::seconds(&value);
                let interval = interval.map_err(|e| fields.invalid("heartbeat_interval", e))?;
                if interval < SHORTEST_HEARTBEAT {
                    return Err(fields.invalid("heartbeat_interval", "at least 1 is required"));
                }
                interval
            }
        };
        Ok(Self {
            description: description(&fields)?,
            endpoint: Endpoint::read(&fields)?,
            functions: functions(&agent_id, place("tools"), place("schema"))?,
            resources: resources(place("resources"))?,
            constraints: Constraints::read(place("constraints"))?,
            heartbeat_interval,
            agent_id,
        })
    }
}

impl Endpoint {
    fn read(fields: &Fields<'_>) -> Result<Option<Self>, Failure> {
        let url = fields.printable("endpoint", limits::TEXT_BYTES)?.map(String::from);
        let protocol = fields.text("endpoint_protocol")?;
        let invalid = |problem| Err(fields.invalid("endpoint_protocol", problem));
        match (url, protocol.as_deref()) {
            (None, None) => Ok(None),
            (None, Some(_)) => invalid("`endpoint` is missing"),
            (Some(url), None) => Ok(Some(Self { url, protocol: EndpointProtocol::default() })),
            (Some(url), Some(name)) => match EndpointProtocol::parse(name) {
                Some(protocol) => Ok(Some(Self { url, protocol })),
                None => invalid("`mcp` or `agent.execute` is required"),
            },
        }
    }
}

impl EndpointProtocol {
    /// The name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Execute => execute::METHOD,
        }
    }

    /// Parses a name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Mcp, Self::Execute].into_iter().find(|protocol| protocol.as_str() == name)
    }
}

fn reject_both(fields: &Fields<'_>, nested: &Fields<'_>) -> Result<(), Failure> {
    let is_twice = |name: &&str| fields.raw(name).is_some() && nested.raw(name).is_some();
    match CAPABILITIES.into_iter().find(is_twice) {
        None => Ok(()),
        Some(name) => {
            Err(fields.invalid(name, "`capabilities` has the member, too; send it only there"))
        }
    }
}

fn description(fields: &Fields<'_>) -> Result<Option<String>, Failure> {
    let text = fields.text("description")?;
    if text.as_ref().is_some_and(|text| text.len() > limits::TEXT_BYTES) {
        let problem = format!("a text of at most {} bytes is required", limits::TEXT_BYTES);
        return Err(fields.invalid("description", problem));
    }
    Ok(text.map(String::from))
}

fn functions(
    agent_id: &AgentId,
    tools: &Fields<'_>,
    schema: &Fields<'_>,
) -> Result<Vec<Function>, Failure> {
    let names = texts(tools, "tools")?.unwrap_or_default();
    if names.is_empty() || names.len() > FUNCTIONS {
        let problem = format!("a list of 1 to {FUNCTIONS} names of functions is required");
        return Err(tools.invalid("tools", problem));
    }
    let schemas = Fields::open(schema.required_object("schema")?, schema.pointer("schema"))?;
    let known: BTreeSet<_> = names.iter().map(String::as_str).collect();
    if known.len() < names.len() {
        return Err(tools.invalid("tools", "the names must be unique"));
    }
    if let Some((other, _)) = schemas.members().find(|(name, _)| !known.contains(name)) {
        return Err(schemas.invalid(&shown(other), "the function is missing in `tools`"));
    }
    names.into_iter().map(|name| Function::read(agent_id, name, &schemas)).collect()
}

impl Function {
    fn read(agent_id: &AgentId, name: String, schemas: &Fields<'_>) -> Result<Self, Failure> {
        let tool = Name::parse(Kind::Tool, &format!("{}.{name}", agent_id.as_str()));
        let tool = tool.map_err(|error| schemas.invalid(&shown(&name), error))?;
        let raw = schemas.required_object(&name)?;
        let fields = Fields::open(raw, schemas.pointer(&name))?;
        fields.reject_unknown(&["input", "output", "description"])?;
        let input = structure(&fields, "input")?
            .ok_or_else(|| fields.invalid("input", "an object of types is required"))?;
        let output = structure(&fields, "output")?;
        Ok(Self { tool, description: description(&fields)?, input, output, name })
    }

    /// The JSON Schema of the arguments.
    pub fn input_schema(&self) -> Value {
        self.input.to_schema(Direction::Input)
    }

    /// The JSON Schema of the result.
    pub fn output_schema(&self) -> Option<Value> {
        self.output.as_ref().map(|output| output.to_schema(Direction::Output))
    }
}

fn structure(fields: &Fields<'_>, name: &str) -> Result<Option<Structure>, Failure> {
    let Some(value) = fields.value(name)? else { return Ok(None) };
    Structure::read(&value, &fields.pointer(name)).map(Some)
}

fn resources(fields: &Fields<'_>) -> Result<Vec<String>, Failure> {
    let (most, characters) = RESOURCES;
    let resources = texts(fields, "resources")?.unwrap_or_default();
    if resources.len() > most || resources.iter().any(|text| !is_printable(text, characters)) {
        let problem =
            format!("a list of at most {most} strings of 1 to {characters} characters is required");
        return Err(fields.invalid("resources", problem));
    }
    Ok(resources)
}

fn texts(fields: &Fields<'_>, name: &str) -> Result<Option<Vec<String>>, Failure> {
    let Some(raw) = fields.raw(name) else { return Ok(None) };
    let texts = serde_json::from_str(raw.get());
    texts.map(Some).map_err(|_| fields.invalid(name, "a list of strings is required"))
}

/// The maximum duration of a call by the constraints that were sent.
pub fn call_timeout(sent: &Map<String, Value>) -> Option<Duration> {
    sent.get("timeout").and_then(|timeout| quantity::seconds(timeout).ok())
}

impl Constraints {
    fn read(fields: &Fields<'_>) -> Result<Self, Failure> {
        let Some(raw) = fields.object("constraints")? else { return Ok(Self::default()) };
        if raw.get().len() > CONSTRAINT_BYTES {
            let problem = format!("the constraints have more than {CONSTRAINT_BYTES} bytes");
            return Err(fields.invalid("constraints", problem));
        }
        let sent = parse_json(raw.get().as_bytes());
        let sent = sent.map_err(|error| fields.invalid("constraints", error))?;
        let Value::Object(sent) = sent else {
            return Err(fields.invalid("constraints", "an object is required"));
        };
        let at = |name| format!("{}/{name}", fields.pointer("constraints"));
        let timeout = sent.get("timeout").map(quantity::seconds).transpose();
        let timeout = timeout.map_err(|e| Failure::invalid_params(&at("timeout"), e))?;
        let memory_bytes = sent.get("memory").map(quantity::bytes).transpose();
        let memory_bytes = memory_bytes.map_err(|e| Failure::invalid_params(&at("memory"), e))?;
        Ok(Self { timeout, memory_bytes, sent })
    }
}

#[cfg(test)]
mod tests;
