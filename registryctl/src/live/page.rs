//! One page of a list of tools, of which each tool is judged by itself.

use registry_core::document::parse_json;
use rmcp::model::Tool;
use serde_json::{Value, json};

/// A page.
pub(super) struct Page {
    /// Its tools, in their order.
    pub(super) tools: Vec<Result<Value, NoTool>>,
    /// The cursor of the next one.
    pub(super) next: Option<String>,
}

/// Something in the list that is not as MCP has tools.
pub(super) struct NoTool {
    /// What it is instead.
    pub(super) raw: Value,
    /// Why it is none.
    pub(super) reason: String,
}

/// Reads the result of `tools/list`. The error says why it is none.
pub(super) fn read(result: &[u8]) -> Result<Page, String> {
    let mut page = parse_json(result).map_err(|e| e.to_string())?;
    let next = match page.get("nextCursor") {
        None | Some(Value::Null) => None,
        Some(Value::String(next)) => Some(next.clone()),
        Some(_) => return Err("`nextCursor` is no text".to_owned()),
    };
    let Some(Value::Array(tools)) = page.get_mut("tools").map(Value::take) else {
        return Err("`tools` is no list".to_owned());
    };
    Ok(Page { tools: tools.into_iter().map(tool).collect(), next })
}

fn tool(raw: Value) -> Result<Value, NoTool> {
    match serde_json::from_value::<Tool>(raw.clone()) {
        Ok(_) => Ok(raw),
        Err(e) => Err(NoTool { reason: wrong_member(&raw).unwrap_or_else(|| e.to_string()), raw }),
    }
}

/// The member of a tool that is not as it should be.
fn wrong_member(tool: &Value) -> Option<String> {
    tool.as_object()?.iter().find_map(|(name, value)| {
        let mut alone = json!({ "name": "t", "inputSchema": {} });
        alone[name] = value.clone();
        let e = serde_json::from_value::<Tool>(alone).err()?;
        Some(format!("`{name}`: {e}"))
    })
}

/// What the SDK read, as the JSON that it came from.
pub(super) fn as_json(said: &impl serde::Serialize) -> Value {
    serde_json::to_value(said).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(answer: &str) -> Result<(Vec<String>, Option<String>), String> {
        let page = read(answer.as_bytes())?;
        let tool = |tool: Result<Value, NoTool>| match tool {
            Ok(tool) => Value::to_string(&tool["name"]),
            Err(NoTool { reason, .. }) => reason,
        };
        Ok((page.tools.into_iter().map(tool).collect(), page.next))
    }

    #[test]
    fn a_tool_that_is_none_leaves_the_others() {
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
    fn members_that_the_sdk_does_not_know_are_kept() {
        let tool =
            json!({ "name": "a", "inputSchema": {}, "execution": { "taskSupport": "optional" } });
        let page = read(json!({ "tools": [tool] }).to_string().as_bytes()).unwrap();
        assert_eq!(page.tools.into_iter().flatten().collect::<Vec<_>>(), [tool]);
    }

    #[test]
    fn what_is_no_page_is_refused() {
        let good = r#"{ "name": "a", "inputSchema": {} }"#;
        for (answer, reason) in [
            (r#"{ "tools": null }"#.to_owned(), "`tools` is no list"),
            ("{}".to_owned(), "`tools` is no list"),
            (r#"{ "tools": [], "nextCursor": 1 }"#.to_owned(), "`nextCursor` is no text"),
            (format!(r#"{{ "tools": [{good}], "tools": [] }}"#), "not valid JSON"),
        ] {
            let said = page(&answer).unwrap_err();
            assert!(said.starts_with(reason), "{answer}: {said}");
        }
    }
}
