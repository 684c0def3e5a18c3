//! Converts a tool result of MCP to the parts of an artifact.

use serde_json::{Value, json};

/// The parts of a result: its structured content as data, else its content.
pub fn parts_of_result(result: &Value) -> Vec<Value> {
    if let Some(data) = result.get("structuredContent") {
        return vec![json!({ "data": data })];
    }
    let content = result.get("content").and_then(Value::as_array);
    content.into_iter().flatten().map(part).collect()
}

/// The text of a result's content.
pub fn text_of_result(result: &Value) -> String {
    let content = result.get("content").and_then(Value::as_array).into_iter().flatten();
    let texts = content.filter_map(|item| item.get("text").and_then(Value::as_str));
    texts.collect::<Vec<_>>().join("\n")
}

/// Items other than text, images and audio stay data.
fn part(item: &Value) -> Value {
    let text = |name: &str| item.get(name).and_then(Value::as_str);
    match (text("type"), text("text"), text("data"), text("mimeType")) {
        (Some("text"), Some(text), ..) => json!({ "text": text }),
        (Some("image" | "audio"), _, Some(raw), Some(media_type)) => {
            json!({ "raw": raw, "mediaType": media_type })
        }
        _ => json!({ "data": item }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_structured_content_else_content() {
        let text = json!({ "type": "text", "text": "a" });
        let image = json!({ "type": "image", "data": "AA==", "mimeType": "image/png" });
        let link = json!({ "type": "resource_link", "uri": "file:///a", "name": "a" });
        let result = json!({ "content": [text, image, link] });
        let parts = parts_of_result(&result);
        let raw = json!({ "raw": "AA==", "mediaType": "image/png" });
        assert_eq!(parts, [json!({ "text": "a" }), raw, json!({ "data": link })]);
        assert_eq!(text_of_result(&result), "a");
        let structured = json!({ "content": [text], "structuredContent": null });
        assert_eq!(parts_of_result(&structured), [json!({ "data": null })]);
        assert!(parts_of_result(&json!({})).is_empty());
    }
}
