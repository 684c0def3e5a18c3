//! Results of MCP in the form of AIO: contents become values `{type, value}`. Structured content stays
//! raw text, so that its numbers keep all digits.

use agent_rpc::media::{Media, values_of_mcp};
use gateway_protocol::{
    content,
    jsonrpc::{Object, ObjectWriter},
};
use serde_json::{Value, json};

/// The result of a tool.
pub(super) fn of_tool(result: &Object<'_>) -> String {
    let values = outputs(result);
    let mut written = ObjectWriter::with_capacity(256);
    written.raw("content", &Value::from(values).to_string());
    if let Some(structured) = content::structured(result) {
        written.raw("structuredContent", structured.get());
    }
    written.finish_string()
}

/// The contents of a resource.
pub(super) fn of_resource(result: &Object<'_>) -> String {
    let contents = parsed(result, "contents");
    let contents = contents.as_array().into_iter().flatten().map(|content| {
        let block = json!({ "type": "resource", "resource": content });
        let media = Media::of_mcp(&block).unwrap_or_else(|| Media::Json(content.clone()));
        let mut value = media.to_value();
        value["id"] = content["uri"].clone();
        value
    });
    json!({ "contents": contents.collect::<Vec<_>>() }).to_string()
}

/// The messages of a prompt.
pub(super) fn of_prompt(result: &Object<'_>) -> String {
    let messages = parsed(result, "messages");
    let messages = messages.as_array().into_iter().flatten().map(|message| {
        let content = &message["content"];
        let blocks =
            content.as_array().map_or_else(|| std::slice::from_ref(content), Vec::as_slice);
        json!({ "role": message["role"], "content": values_of_mcp(blocks) })
    });
    let mut prompt = json!({ "messages": messages.collect::<Vec<_>>() });
    let description = parsed(result, "description");
    if description.is_string() {
        prompt["description"] = description;
    }
    prompt.to_string()
}

/// The values of a tool's result.
pub(super) fn outputs(result: &Object<'_>) -> Vec<Value> {
    let blocks = parsed(result, "content");
    values_of_mcp(blocks.as_array().into_iter().flatten())
}

/// A member as a value; null if there is none.
fn parsed(result: &Object<'_>, name: &str) -> Value {
    let raw = result.find(name);
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}
