//! `_meta`: metadata of a tool's definition that belongs to its server (MCP, `Tool._meta`).

use serde_json::{Map, Value};

use crate::decode::OwnedFields;

/// Whether a `_meta` key is reserved: for MCP by the second label of its prefix, or for the gateway
/// by the prefix `registry`. A server must not set it.
pub fn is_reserved_meta_key(key: &str) -> bool {
    let prefix = key.split_once('/').map(|(prefix, _)| prefix);
    if prefix == Some("registry") {
        return true;
    }
    let label = prefix.and_then(|prefix| prefix.split('.').nth(1));
    matches!(label, Some("modelcontextprotocol" | "mcp"))
}

pub(super) fn read(fields: &mut OwnedFields<'_>) -> Option<Map<String, Value>> {
    let meta = fields.open_object("_meta")?;
    for key in meta.keys().filter(|key| is_reserved_meta_key(key)) {
        let shown = key.chars().take(64).collect::<String>();
        let message = format!("the key `{shown}` is reserved");
        let help = "remove it: MCP or the gateway sets it";
        fields.problems().invalid(fields.at("_meta").member(key), message, help);
    }
    Some(meta)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{Diagnostic, document::Document, kind::Kind};

    fn read(more: &Value) -> Result<Document, Vec<Diagnostic>> {
        let source = json!({ "server": "s", "serverVersion": "1.0.0", "tool": "t" });
        let mut tool = json!({ "name": "t", "version": "1.0.0", "source": source });
        tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Document::parse(Kind::Tool, &tool)
    }

    #[test]
    fn tool_documents_hold_execution_and_meta() {
        let more = json!({ "execution": { "taskSupport": "optional", "later": [1] },
            "_meta": { "ui": { "resourceUri": "ui://x/app.html" }, "acme/x": null } });
        let document = read(&more).unwrap();
        let written: Value = serde_json::from_slice(document.bytes()).unwrap();
        for (member, value) in more.as_object().unwrap() {
            assert_eq!(written[member], *value);
        }
    }

    #[test]
    fn digest_without_execution_and_meta_is_unchanged() {
        let digest = read(&json!({})).unwrap().digest().to_string();
        assert_eq!(digest, DIGEST_OF_OLD_FORM);
        let absent = read(&json!({ "execution": null, "_meta": null })).unwrap();
        assert_eq!(absent.digest().to_string(), digest);
    }

    /// The SHA-256 of the canonical form, computed independently.
    const DIGEST_OF_OLD_FORM: &str =
        "sha256:97e65d3d8d6feb08996e512ea3f95f2b44e701e7c148c621904e713dc3a85cc7";

    #[test]
    fn reserved_keys_and_unknown_task_support_are_rejected() {
        for (more, problem) in [
            (
                json!({ "_meta": { "registry/version": "1" } }),
                "error[document-invalid] at \"/_meta/registry~1version\": \
                 the key `registry/version` is reserved",
            ),
            (
                json!({ "_meta": { "dev.mcp/x": 1, "com.example/mcp": 1 } }),
                "error[document-invalid] at \"/_meta/dev.mcp~1x\": \
                 the key `dev.mcp/x` is reserved",
            ),
            (
                json!({ "execution": { "taskSupport": "no" } }),
                "error[document-invalid] at \"/execution/taskSupport\": `taskSupport` is the \
                 string \"no\"",
            ),
        ] {
            let problems = read(&more).unwrap_err();
            let shown: Vec<_> = problems.iter().map(ToString::to_string).collect();
            assert_eq!(shown, [problem]);
        }
    }
}
