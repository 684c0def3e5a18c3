//! The text blocks of a result that repeat its structured content.

use gateway_protocol::jsonrpc::{Object, ObjectWriter};
use serde_json::{Value, value::RawValue};

/// A changed result whose text blocks repeat its structured content as in the original result.
pub(super) fn aligned(original: &str, changed: String) -> String {
    let repeating = repeating_blocks(original);
    if repeating.is_empty() {
        return changed;
    }
    rewritten(&changed, &repeating).unwrap_or(changed)
}

/// The positions of the text blocks that repeat the structured content.
fn repeating_blocks(result: &str) -> Vec<usize> {
    let Ok(members) = serde_json::from_str::<Object<'_>>(result) else { return Vec::new() };
    let structured = members.find("structuredContent").and_then(|raw| value(raw.get()));
    let blocks = members.find("content").and_then(blocks);
    let (Some(structured), Some(blocks)) = (structured, blocks) else { return Vec::new() };
    let repeats = |block: &Object<'_>| {
        let text =
            block.find("text").and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        text.and_then(|text| value(&text)).is_some_and(|value| value == structured)
    };
    blocks.iter().enumerate().filter(|(_, block)| repeats(block)).map(|(index, _)| index).collect()
}

fn rewritten(changed: &str, repeating: &[usize]) -> Option<String> {
    let members: Object<'_> = serde_json::from_str(changed).ok()?;
    let structured = members.find("structuredContent")?.get();
    let mut result = ObjectWriter::with_capacity(changed.len());
    for member in members.members() {
        if member.name != "content" {
            result.member(&member.name, member.value.get());
            continue;
        }
        let items = blocks(member.value)?;
        let written = items.iter().enumerate().map(|(index, block)| {
            let mut out = ObjectWriter::with_capacity(structured.len() + 64);
            for part in block.members() {
                if part.name == "text" && repeating.contains(&index) {
                    out.string("text", structured);
                } else {
                    out.member(&part.name, part.value.get());
                }
            }
            out.finish_string()
        });
        let written = written.collect::<Vec<_>>().join(",");
        result.raw("content", &format!("[{written}]"));
    }
    Some(result.finish_string())
}

fn blocks(content: &RawValue) -> Option<Vec<Object<'_>>> {
    serde_json::from_str(content.get()).ok()
}

fn value(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn repeated_text_equals_changed_structured_content() {
        let structured = json!({ "mail": "x@y.org", "id": 1 });
        let other = json!({ "type": "text", "text": "{\"id\":2}" });
        let original = json!({
            "content": [{ "type": "text", "text": structured.to_string() }, other],
            "structuredContent": structured,
        });
        let mut changed = original.clone();
        changed["structuredContent"]["mail"] = "[redacted:contact]".into();
        let aligned = aligned(&original.to_string(), changed.to_string());
        let aligned: Value = serde_json::from_str(&aligned).unwrap();
        let text = aligned["content"][0]["text"].as_str().unwrap();
        assert_eq!(value(text).unwrap(), changed["structuredContent"]);
        assert_eq!(aligned["content"][1], other);
    }

    #[test]
    fn result_without_copy_stays_unchanged() {
        let original = json!({ "content": [{ "type": "text", "text": "a" }] }).to_string();
        assert_eq!(aligned(&original, "{}".to_owned()), "{}");
    }
}
