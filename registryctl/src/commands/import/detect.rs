//! Detection of the form of a file for `import FILE`.

use registry_import::mcp_servers;
use serde_json::Value;

use crate::{failure::Failure, input::Source};

/// A supported form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Registry,
    McpServers,
    ServerJson,
}

impl Form {
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Registry => "a registry file (`import registry`)",
            Self::McpServers => "an MCP client configuration (`import mcp-servers`)",
            Self::ServerJson => "a document of an MCP registry (`import server-json`)",
        }
    }
}

/// Detects the form of a file.
pub(super) fn detect(source: &Source) -> Result<Form, Failure> {
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
    let sections = ["schemas", "servers", "tools", "agents", "policies"];
    if sections.iter().any(|name| file.contains_key(*name)) {
        Ok(Form::Registry)
    } else {
        Err(UNKNOWN)
    }
}

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
