//! The example registry and the servers that it describes agree: same servers and tools, arguments
//! that are understood, results that have what is promised.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use demo_backend::agents;
use demo_backend::clock::Clock;
use demo_backend::hosted_server::HostedServer;
use demo_backend::servers;
use rmcp::model::Tool;
use serde_json::{Map, Value};

type Names = BTreeSet<String>;

struct Example {
    schemas: BTreeMap<String, Value>,
    servers: Vec<Value>,
    tools: Vec<Value>,
    agents: Vec<Value>,
}

fn read(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(file);
    serde_json::from_str(&std::fs::read_to_string(path).expect("the file")).expect("JSON")
}

fn example() -> Example {
    let files = [read("registry-v2.json"), read("new-version.json")];
    let all = |list: &str| {
        let entries =
            files.iter().flat_map(|file| file[list].as_array().expect("as the example has it"));
        entries.cloned().collect::<Vec<_>>()
    };
    let schemas = all("schemas").into_iter().map(|entry| {
        let name = format!("#{}:{}", text(&entry, "name"), text(&entry, "version"));
        (name, entry["schema"].clone())
    });
    Example {
        schemas: schemas.collect(),
        servers: all("servers"),
        tools: all("tools"),
        agents: all("agents"),
    }
}

impl Example {
    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        schema["$ref"].as_str().map_or(schema, |name| &self.schemas[name])
    }

    /// Every tool with a source, and the tool that serves it.
    fn sourced<'a>(
        &'a self,
        hosted_server: &'a [HostedServer],
    ) -> impl Iterator<Item = (&'a Value, &'a Tool)> {
        let sourced = self.tools.iter().filter(|tool| tool.get("source").is_some());
        sourced.map(|tool| {
            let source = &tool["source"];
            let server = hosted_server.iter().find(|server| server.name() == source["server"]);
            let real = server
                .expect("as the example has it")
                .tools()
                .iter()
                .find(|real| *real.name == source["tool"]);
            (tool, real.unwrap_or_else(|| panic!("{source} is not served")))
        })
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().expect("as the example has it")
}

fn properties(schema: &Value) -> Names {
    schema["properties"].as_object().map(keys).unwrap_or_default()
}

fn required(schema: &Value) -> Names {
    let names = schema["required"].as_array().into_iter().flatten();
    names.map(|name| name.as_str().expect("as the example has it").to_owned()).collect()
}

fn keys(object: &Map<String, Value>) -> Names {
    object.keys().cloned().collect()
}

fn value(schema: &Map<String, Value>) -> Value {
    Value::Object(schema.clone())
}

#[test]
fn server_serves_exactly_its_provided_tools() {
    let hosted_server = servers::all(Clock::System);
    let mut described = Names::new();
    for server in example().servers {
        let name = text(&server, "name");
        let real = hosted_server.iter().find(|real| real.name() == name).expect(name);
        let provided: Names = server["provides"]
            .as_array()
            .expect("as the example has it")
            .iter()
            .map(|provision| text(provision, "tool").to_owned())
            .collect();
        let served: Names = real.tools().iter().map(|tool| tool.name.to_string()).collect();
        assert_eq!(provided, served, "{name}");
        described.insert(name.to_owned());
    }
    let all: Names = hosted_server.iter().map(|server| server.name().to_owned()).collect();
    assert_eq!(&all - &described, ["bench-many", "bench-server"].map(str::to_owned).into());
}

#[test]
fn registered_arguments_are_accepted() {
    let (example, hosted_server) = (example(), servers::all(Clock::System));
    for (tool, real) in example.sourced(&hosted_server) {
        let registered = example.resolve(&tool["inputSchema"]);
        let accepted = value(&real.input_schema);
        let unknown = &properties(registered) - &properties(&accepted);
        assert!(unknown.is_empty(), "{}: not understood: {unknown:?}", tool["name"]);
        let defaults = tool["source"]["defaults"].as_object().map(keys).unwrap_or_default();
        let given = &required(registered) | &defaults;
        let missing = &required(&accepted) - &given;
        assert!(missing.is_empty(), "{}: not required: {missing:?}", tool["name"]);
    }
}

#[test]
fn results_match_output_schemas() {
    let (example, hosted_server) = (example(), servers::all(Clock::System));
    for (tool, real) in example.sourced(&hosted_server) {
        if tool.get("outputTransform").is_some() {
            continue;
        }
        let promised = example.resolve(&tool["outputSchema"]);
        let kept = value(real.output_schema.as_ref().expect("as the example has it"));
        let missing = &required(promised) - &required(&kept);
        assert!(missing.is_empty(), "{}: not always there: {missing:?}", tool["name"]);
        let unknown = &properties(promised) - &properties(&kept);
        assert!(unknown.is_empty(), "{}: never there: {unknown:?}", tool["name"]);
    }
}

#[test]
fn tools_have_descriptions_and_input_schemas() {
    for tool in example().tools {
        assert!(tool["description"].is_string(), "{}", tool["name"]);
        assert!(tool["inputSchema"].is_object(), "{}", tool["name"]);
        assert!(tool["outputSchema"].is_object(), "{}", tool["name"]);
    }
}

#[test]
fn agent_serves_exactly_its_registered_skills() {
    let example = example();
    for agent in agents::all(Clock::System) {
        let registered = example.agents.iter().filter(|found| found["name"] == agent.name());
        let served: Names = agent.skills().iter().map(|skill| skill.id.to_owned()).collect();
        let mut versions = 0;
        for version in registered {
            let skills = version["skills"].as_array().expect("as the example has it");
            let skills: Names = skills.iter().map(|skill| text(skill, "id").to_owned()).collect();
            assert_eq!(skills, served, "{}", agent.name());
            versions += 1;
        }
        assert!(versions > 0, "{} is not registered", agent.name());
    }
}
