//! Sample entities: tools of typical size with shared schemas.

use registry_proto::v1;

/// The number of tools per server.
pub(crate) const TOOLS_PER_SERVER: usize = 100;

/// A shared schema with some properties.
pub(crate) fn schema(number: usize) -> v1::EntityChange {
    let schema = format!(
        r#"{{"type":"object","properties":{{"query":{{"type":"string","minLength":1}},"limit":{{"type":"integer","minimum":1,"maximum":100,"default":10}},"tags":{{"type":"array","items":{{"type":"string"}}}},"variant":{{"const":{number}}}}},"required":["query"]}}"#
    );
    register(v1::entity::Kind::Schema(v1::Schema {
        name: format!("Query{number}"),
        version: "1.0.0".to_owned(),
        description: Some("a query with a limit and tags".to_owned()),
        schema,
        metadata: None,
    }))
}

/// A server with its tools.
pub(crate) fn server(number: usize, tools: usize) -> v1::EntityChange {
    let first = number * TOOLS_PER_SERVER;
    let provides = (first..tools.min(first + TOOLS_PER_SERVER))
        .map(|tool| v1::ToolProvision { tool: tool_name(tool), version: "1.0.0".to_owned() })
        .collect();
    register(v1::entity::Kind::Server(v1::Server {
        name: format!("server-{number}"),
        version: "1.0.0".to_owned(),
        description: Some("a server of the benchmark".to_owned()),
        provides,
        exposes: Vec::new(),
        metadata: None,
    }))
}

/// The name of a tool.
pub(crate) fn tool_name(number: usize) -> String {
    format!("tool_{number:06}")
}

/// A tool of a server, with a shared input schema.
pub(crate) fn tool(number: usize) -> v1::EntityChange {
    let source = v1::ToolSource {
        server: format!("server-{}", number / TOOLS_PER_SERVER),
        server_version: "1.0.0".to_owned(),
        tool: tool_name(number),
        ..Default::default()
    };
    register(v1::entity::Kind::Tool(v1::Tool {
        name: tool_name(number),
        version: "1.0.0".to_owned(),
        title: Some(format!("Tool {number}")),
        description: Some(format!("tool number {number} of the benchmark: returns its argument")),
        implementation: Some(v1::tool::Implementation::Source(source)),
        input_schema: Some(r##"{"$ref":"#Query0:1.0.0"}"##.to_owned()),
        ..Default::default()
    }))
}

/// One release of a server and its tool, which accepts one more value than the previous release.
pub(crate) fn release(name: &str, release: u64) -> Vec<v1::EntityChange> {
    let (version, limit) = (format!("1.{release}.0"), release + 1);
    let provides = vec![v1::ToolProvision { tool: name.to_owned(), version: version.clone() }];
    let server = v1::Server {
        name: name.to_owned(),
        version: version.clone(),
        provides,
        ..Default::default()
    };
    let source = v1::ToolSource {
        server: name.to_owned(),
        server_version: version.clone(),
        tool: name.to_owned(),
        ..Default::default()
    };
    let tool = v1::Tool {
        name: name.to_owned(),
        version,
        description: Some("a tool that is released again and again".to_owned()),
        implementation: Some(v1::tool::Implementation::Source(source)),
        input_schema: Some(format!(
            r##"{{"type":"object","properties":{{"query":{{"$ref":"#Query0:1.0.0"}},"limit":{{"type":"integer","minimum":1,"maximum":{limit}}}}},"required":["query"]}}"##
        )),
        ..Default::default()
    };
    vec![register(v1::entity::Kind::Server(server)), register(v1::entity::Kind::Tool(tool))]
}

/// The tools of the benchmark's server with their arguments.
pub(crate) const OWN_TOOLS: [(&str, &str); 2] = [
    ("echo", r#"{"payload":{"type":"string"}},"required":["payload"]"#),
    ("count", r#"{"events":{"type":"integer"}},"required":["events"]"#),
];

/// The benchmark's server with its tools, which the demo backend runs.
pub(crate) fn own() -> Vec<v1::EntityChange> {
    let provision =
        |(tool, _): &(&str, _)| v1::ToolProvision { tool: (*tool).into(), version: "1.0.0".into() };
    let server = v1::Server {
        name: "bench-server".to_owned(),
        version: "1.0.0".to_owned(),
        provides: OWN_TOOLS.iter().map(provision).collect(),
        ..Default::default()
    };
    let tools = OWN_TOOLS.map(|(name, argument)| own_tool(name, (name, argument)));
    std::iter::once(register(v1::entity::Kind::Server(server))).chain(tools).collect()
}

/// A tool with this name, which calls the echo tool of the benchmark's server.
pub(crate) fn echo_alias(name: &str) -> v1::EntityChange {
    own_tool(name, OWN_TOOLS[0])
}

fn own_tool(name: &str, (upstream, argument): (&str, &str)) -> v1::EntityChange {
    let source = v1::ToolSource {
        server: "bench-server".to_owned(),
        server_version: "1.0.0".to_owned(),
        tool: upstream.to_owned(),
        ..Default::default()
    };
    let schema =
        format!(r#"{{"type":"object","properties":{argument},"additionalProperties":false}}"#);
    register(v1::entity::Kind::Tool(v1::Tool {
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        implementation: Some(v1::tool::Implementation::Source(source)),
        input_schema: Some(schema),
        ..Default::default()
    }))
}

/// An agent with this number of declared tools, including those of the benchmark's server.
pub(crate) fn agent(name: &str, tools: usize) -> v1::EntityChange {
    let own = OWN_TOOLS.map(|(name, _)| name.to_owned());
    agent_of(name, (0..tools - own.len()).map(tool_name).chain(own))
}

/// An agent that declares these tools.
pub(crate) fn agent_of(name: &str, tools: impl IntoIterator<Item = String>) -> v1::EntityChange {
    let depends = tools
        .into_iter()
        .map(|name| v1::Dependency {
            key: Some(v1::EntityKey {
                kind: v1::EntityKind::Tool.into(),
                name,
                version: "1.0.0".to_owned(),
            }),
            skill: None,
        })
        .collect();
    let extension = v1::AgentExtension {
        uri: "urn:agentgateway:sbom".to_owned(),
        params: Some(v1::agent_extension::Params::Sbom(v1::AgentDependencies { depends })),
        ..Default::default()
    };
    register(v1::entity::Kind::Agent(v1::Agent {
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        description: "an agent of the benchmark".to_owned(),
        url: "http://127.0.0.1/".to_owned(),
        protocol_version: "1.0".to_owned(),
        capabilities: Some(v1::AgentCapabilities {
            extensions: vec![extension],
            ..Default::default()
        }),
        ..Default::default()
    }))
}

/// A registry with this number of tools in consecutive batches. Each batch has complete servers,
/// because a server and its tools refer to each other.
pub(crate) fn registry(tools: usize) -> Vec<Vec<v1::EntityChange>> {
    let servers: Vec<usize> = (0..tools.div_ceil(TOOLS_PER_SERVER)).collect();
    let mut batches = vec![vec![schema(0)]];
    for group in servers.chunks(40) {
        let mut batch = Vec::new();
        for &number in group {
            let first = number * TOOLS_PER_SERVER;
            batch.extend((first..tools.min(first + TOOLS_PER_SERVER)).map(tool));
            batch.push(server(number, tools));
        }
        batches.push(batch);
    }
    batches
}

pub(crate) fn request(changes: Vec<v1::EntityChange>) -> v1::ApplyChangesRequest {
    v1::ApplyChangesRequest { changes, author: "bench".to_owned(), ..Default::default() }
}

pub(crate) fn register(kind: v1::entity::Kind) -> v1::EntityChange {
    let entity = v1::Entity { kind: Some(kind) };
    v1::EntityChange {
        change: Some(v1::entity_change::Change::RegisterEntity(entity)),
        if_digest: None,
    }
}

pub(crate) fn register_policy(policy: v1::Policy) -> v1::EntityChange {
    register(v1::entity::Kind::Policy(policy))
}

/// A policy about the calls of one agent to one tool.
pub(crate) fn policy(name: &str, caller: &str, tool: &str) -> v1::Policy {
    v1::Policy {
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        applies_to: Some(v1::PolicySelector {
            callers: vec![caller.to_owned()],
            tools: vec![tool.to_owned()],
            ..Default::default()
        }),
        ..Default::default()
    }
}
