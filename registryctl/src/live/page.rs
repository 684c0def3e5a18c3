//! One page of `tools/list`. Each tool is parsed independently.

use registry_core::document::parse_json;
use rmcp::model::Tool;
use serde_json::{Value, json};

pub(super) struct Page {
    pub(super) tools: Vec<Result<Value, InvalidTool>>,
    /// The cursor of the next page.
    pub(super) next: Option<String>,
}

/// An item that is not a valid tool of MCP.
pub(super) struct InvalidTool {
    pub(super) raw: Value,
    pub(super) reason: String,
}

/// Parses the result of `tools/list`.
pub(super) fn read(result: &[u8]) -> Result<Page, String> {
    let mut page = parse_json(result).map_err(|e| e.to_string())?;
    let next = match page.get("nextCursor") {
        None | Some(Value::Null) => None,
        Some(Value::String(next)) => Some(next.clone()),
        Some(_) => return Err("`nextCursor` is not a string".to_owned()),
    };
    let Some(Value::Array(tools)) = page.get_mut("tools").map(Value::take) else {
        return Err("`tools` is not a list".to_owned());
    };
    Ok(Page { tools: tools.into_iter().map(tool).collect(), next })
}

fn tool(raw: Value) -> Result<Value, InvalidTool> {
    match serde_json::from_value::<Tool>(raw.clone()) {
        Ok(_) => Ok(raw),
        Err(e) => {
            Err(InvalidTool { reason: invalid_member(&raw).unwrap_or_else(|| e.to_string()), raw })
        }
    }
}

/// The invalid member of a tool, with its error.
fn invalid_member(tool: &Value) -> Option<String> {
    tool.as_object()?.iter().find_map(|(name, value)| {
        let mut alone = json!({ "name": "t", "inputSchema": {} });
        alone[name] = value.clone();
        let e = serde_json::from_value::<Tool>(alone).err()?;
        Some(format!("`{name}`: {e}"))
    })
}

/// A type of the SDK as JSON.
pub(super) fn as_json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(answer: &str) -> Result<(Vec<String>, Option<String>), String> {
        let page = read(answer.as_bytes())?;
        let tool = |tool: Result<Value, InvalidTool>| match tool {
            Ok(tool) => Value::to_string(&tool["name"]),
            Err(InvalidTool { reason, .. }) => reason,
        };
        Ok((page.tools.into_iter().map(tool).collect(), page.next))
    }

    #[test]
    fn invalid_tools_do_not_affect_others() {
        let bad = [
            (
                r#"{ "name": "b", "inputSchema": {}, "annotations": { "readOnlyHint": "yes" } }"#,
                "`annotations`: invalid type: string \"yes\", expected a boolean",
            ),
            (
                r#"{ "name": "b", "inputSchema": [] }"#,
                "`inputSchema`: invalid type: sequence, expected a map",
            ),
            (r#"{ "name": "b" }"#, "missing field `inputSchema`"),
            (r#"{ "inputSchema": {} }"#, "missing field `name`"),
            ("7", "invalid type: integer `7`, expected struct Tool"),
        ];
        let good = r#"{ "name": "a", "inputSchema": {} }"#;
        for (tool, reason) in bad {
            for mark in ["", r#""resultType": "complete","#] {
                let answer =
                    format!(r#"{{ {mark} "nextCursor": "c", "tools": [{tool}, {good}] }}"#);
                let expected = vec![reason.to_owned(), "\"a\"".to_owned()];
                assert_eq!(page(&answer), Ok((expected, Some("c".to_owned()))), "{answer}");
            }
        }
    }

    #[test]
    fn unknown_members_are_kept() {
        let tool =
            json!({ "name": "a", "inputSchema": {}, "execution": { "taskSupport": "optional" } });
        let page = read(json!({ "tools": [tool] }).to_string().as_bytes()).unwrap();
        assert_eq!(page.tools.into_iter().flatten().collect::<Vec<_>>(), [tool]);
    }

    #[test]
    fn invalid_pages_are_rejected() {
        let good = r#"{ "name": "a", "inputSchema": {} }"#;
        for (answer, reason) in [
            (r#"{ "tools": null }"#.to_owned(), "`tools` is not a list"),
            ("{}".to_owned(), "`tools` is not a list"),
            (r#"{ "tools": [], "nextCursor": 1 }"#.to_owned(), "`nextCursor` is not a string"),
            (format!(r#"{{ "tools": [{good}], "tools": [] }}"#), "not valid JSON"),
        ] {
            let error = page(&answer).unwrap_err();
            assert!(error.starts_with(reason), "{answer}: {error}");
        }
    }
}
