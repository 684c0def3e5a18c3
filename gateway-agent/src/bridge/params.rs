//! The `Mcp-Param-*` headers of calls, derived from listed tools.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use gateway_protocol::{
    jsonrpc::{Object, read_object},
    mcp::header::{Mirror, mirrors},
};
use http::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Maximum number of tools with mirrored arguments.
const TOOLS: usize = 10_000;
const ANNOTATION: &str = "x-mcp-header";

#[derive(Debug, Default)]
pub(super) struct ParamHeaders(Mutex<HashMap<Box<str>, Arc<[Mirror]>>>);

#[derive(Deserialize)]
struct Listed<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
}

impl ParamHeaders {
    /// Stores the tools of a `tools/list` result.
    pub(super) fn learn(&self, result: &RawValue) {
        if !result.get().contains(ANNOTATION) && self.tools().is_empty() {
            return;
        }
        let Some(listed) = read_object::<Listed<'_>>(result) else { return };
        for tool in listed.tools {
            let Ok(tool) = Object::parse(tool) else { continue };
            let name = tool.find("name").and_then(|name| serde_json::from_str(name.get()).ok());
            let Some(name) = name else { continue };
            let found = tool.find("inputSchema").map(mirrors);
            self.set(name, found.and_then(Result::ok).unwrap_or_default());
        }
    }

    fn set(&self, name: String, found: Vec<Mirror>) {
        let mut tools = self.tools();
        if found.is_empty() {
            tools.remove(name.as_str());
        } else if tools.len() < TOOLS {
            tools.insert(name.into(), found.into());
        }
    }

    pub(super) fn add_to(&self, headers: &mut HeaderMap, tool: &str, arguments: Option<&RawValue>) {
        let mirrors = self.tools().get(tool).cloned();
        let (Some(mirrors), Some(arguments)) = (mirrors, arguments) else { return };
        headers.extend(mirrors.iter().filter_map(|mirror| mirror.header(arguments)));
    }

    fn tools(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<[Mirror]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json, value::to_raw_value};

    use super::*;

    fn listed(annotation: &Value) -> Box<RawValue> {
        let schema = json!({"properties": {"region": annotation}});
        to_raw_value(&json!({"tools": [{"name": "deploy", "inputSchema": schema}]})).unwrap()
    }

    #[test]
    fn listed_annotations_become_headers_of_calls() {
        let params = ParamHeaders::default();
        let arguments = to_raw_value(&json!({"region": "Zürich"})).unwrap();
        let headers = |params: &ParamHeaders| {
            let mut headers = HeaderMap::new();
            params.add_to(&mut headers, "deploy", Some(&arguments));
            params.add_to(&mut headers, "other", Some(&arguments));
            headers
        };
        assert!(headers(&params).is_empty());
        params.learn(&listed(&json!({"type": "string", "x-mcp-header": "Region"})));
        assert_eq!(headers(&params)["mcp-param-region"], "=?base64?WsO8cmljaA==?=");
        params.learn(&listed(&json!({"type": "string"})));
        assert!(headers(&params).is_empty());
    }
}
