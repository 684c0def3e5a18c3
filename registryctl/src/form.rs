//! Detection of the form of a file.

use registry_import::mcp_servers;
use serde_json::Value;

use crate::{failure::Failure, input::Source};

/// A supported form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Registry,
    McpServers,
    ServerJson,
}

impl Form {
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Registry => "a registry file (`import registry`)",
            Self::McpServers => "an MCP client configuration (`import mcp-servers`)",
            Self::ServerJson => "a document of an MCP registry (`import server-json`)",
        }
    }
}

/// The form of a value that is not a registry file, and the remedy.
pub(crate) fn other_form(value: &Value, name: &str) -> Option<(&'static str, String)> {
    if let Some(form) = neighbor(value) {
        let remedy = "name the registry files, or move this file to another directory";
        return Some((form, remedy.to_owned()));
    }
    let form = form(value).ok().filter(|form| *form != Form::Registry)?;
    Some((form.description(), format!("run `registryctl import {name}`")))
}

/// The form of a file that no command imports, but projects keep beside registry files.
fn neighbor(value: &Value) -> Option<&'static str> {
    if is_requirements(value) {
        return Some("a list of requirements for `registryctl lock`");
    }
    let Value::Object(file) = value else { return None };
    let has = |name: &str| file.contains_key(name);
    if ["schemaVersion", "version"].iter().chain(&SECTIONS).any(|name| has(name)) {
        return None;
    }
    let is_schema = value["$schema"].as_str().is_some_and(|url| url.contains("json-schema.org/"));
    if is_schema {
        Some("a JSON Schema")
    } else if value["cases"].is_array() {
        Some("a file of cases for `registryctl policy test`")
    } else if value["registry"].is_object() || value["targets"].is_array() {
        Some("the configuration of a gateway")
    } else {
        None
    }
}

/// Whether the value has only names with version constraints, as `registryctl lock` reads them.
fn is_requirements(value: &Value) -> bool {
    let Value::Object(sections) = value else { return false };
    let mut sections = sections.iter().filter(|(name, _)| *name != "$comment").peekable();
    sections.peek().is_some()
        && sections.all(|(name, names)| {
            SECTIONS.contains(&name.as_str())
                && names.as_object().is_some_and(|names| names.values().all(Value::is_string))
        })
}

/// Detects the form of a file.
pub(crate) fn detect(source: &Source) -> Result<Form, Failure> {
    let value = match source.value() {
        Ok(value) => value,
        // MCP clients accept comments and trailing commas.
        Err(_) if mcp_servers::parse(source.text(), &|_| Some(String::new())).is_ok() => {
            return Ok(Form::McpServers);
        }
        Err(error) => {
            let position = error.position.map(|at| format!(":{}:{}", at.line, at.column));
            let (name, position) = (source.name(), position.unwrap_or_default());
            return Err(Failure::Usage(format!("{name}{position}: {}", error.message)));
        }
    };
    form(&value).map_err(|problem| Failure::Usage(format!("{}: {problem}", source.name())))
}

fn form(value: &Value) -> Result<Form, &'static str> {
    let Value::Object(file) = value else {
        return match value {
            Value::Array(items) if items.iter().any(is_client_server) => Ok(Form::McpServers),
            _ => Err(UNKNOWN),
        };
    };
    if file.contains_key("schemaVersion") {
        return Ok(Form::Registry);
    }
    if file.contains_key("mcpServers") {
        return Ok(Form::McpServers);
    }
    if is_tools_list(value) || is_tools_list(&value["result"]) {
        return Err(TOOLS_LIST);
    }
    let is_server_json = ["packages", "remotes"].iter().any(|name| file.contains_key(*name))
        || value["$schema"].as_str().is_some_and(|url| url.ends_with("server.schema.json"))
        || value["server"].is_object();
    if is_server_json {
        return Ok(Form::ServerJson);
    }
    match &value["servers"] {
        Value::Object(_) => return Ok(Form::McpServers),
        Value::Array(items) if items.iter().any(|item| item["server"].is_object()) => {
            return Ok(Form::ServerJson);
        }
        Value::Array(items) if items.iter().any(is_client_server) => return Ok(Form::McpServers),
        _ => {}
    }
    if SECTIONS.iter().any(|name| file.contains_key(*name)) {
        Ok(Form::Registry)
    } else {
        Err(UNKNOWN)
    }
}

/// The lists of a registry file.
const SECTIONS: [&str; 5] = ["schemas", "servers", "tools", "agents", "policies"];
const UNKNOWN: &str = "unknown form; supported are registry files, MCP client configurations and \
                       documents of an MCP registry";
const TOOLS_LIST: &str = "a `tools/list` result does not name its server; import the live server \
                          with `registryctl import mcp URL`";

/// An item of a client's list of servers. Servers of a registry file have neither field.
fn is_client_server(item: &Value) -> bool {
    item["command"].is_string() || (item["url"].is_string() && item["version"].is_null())
}

fn is_tools_list(value: &Value) -> bool {
    let known = ["tools", "nextCursor", "_meta", "resultType"];
    let Value::Object(members) = value else { return false };
    members.keys().all(|name| known.contains(&name.as_str()))
        && value["tools"].as_array().is_some_and(|tools| {
            tools.iter().any(|tool| tool["inputSchema"].is_object() && tool["version"].is_null())
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn other_forms_name_their_remedy() {
        let requirements = json!({ "tools": { "fetch": "^1.2" } });
        let (form, _) = other_form(&requirements, "r.json").unwrap();
        assert!(form.contains("lock`"), "{form}");
        let (_, remedy) = other_form(&json!({ "mcpServers": {} }), "mcp.json").unwrap();
        assert!(remedy.contains(" mcp.json`"), "{remedy}");
        for (neighbor, expected) in [
            (
                json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object" }),
                "a JSON Schema",
            ),
            (json!({ "cases": [] }), "a file of cases for `registryctl policy test`"),
            (json!({ "registry": { "source": "a" } }), "the configuration of a gateway"),
            (
                json!({ "targets": [{ "server": "crm" }], "listen": "a" }),
                "the configuration of a gateway",
            ),
        ] {
            let (form, remedy) = other_form(&neighbor, "n.json").expect(expected);
            assert_eq!(form, expected);
            assert!(remedy.contains("directory"), "{remedy}");
        }
        for registry in
            [json!({ "schemaVersion": "2.0" }), json!({ "tools": { "a": {} } }), json!({})]
        {
            assert_eq!(other_form(&registry, "r.json"), None, "{registry}");
        }
    }

    #[test]
    fn forms_are_detected() {
        let server = json!({ "command": "npx", "args": ["files"] });
        for (value, expected) in [
            (json!({ "schemaVersion": "2.0", "tools": [] }), Ok(Form::Registry)),
            (json!({ "version": "1.0", "tools": [{ "name": "a" }] }), Ok(Form::Registry)),
            (json!({ "mcpServers": { "a": server } }), Ok(Form::McpServers)),
            (json!({ "servers": { "a": server }, "inputs": [] }), Ok(Form::McpServers)),
            (json!({ "servers": [{ "name": "a", "command": "x" }] }), Ok(Form::McpServers)),
            (json!([{ "name": "a", "url": "https://h/mcp" }]), Ok(Form::McpServers)),
            (json!({ "name": "io.x/a", "version": "1.0.0", "packages": [] }), Ok(Form::ServerJson)),
            (json!({ "servers": [{ "server": { "name": "a" } }] }), Ok(Form::ServerJson)),
            (json!({ "tools": [{ "name": "a", "inputSchema": {} }] }), Err(TOOLS_LIST)),
            (
                json!({ "jsonrpc": "2.0", "result": { "tools": [{ "inputSchema": {} }] } }),
                Err(TOOLS_LIST),
            ),
            (json!({ "other": 1 }), Err(UNKNOWN)),
            (json!(7), Err(UNKNOWN)),
        ] {
            assert_eq!(form(&value), expected, "{value}");
        }
    }
}
