//! `document-invalid`: an annotation of a tool has a type that MCP does not allow, or is probably
//! misspelled (warning).
//!
//! Clients that check types reject a whole list because of one such tool.

use schema_compat::pointer::pointer_join;

use super::proposal::NewEntity;
use crate::{
    decode::describe,
    diagnostic::{Code, Diagnostic},
    entity::{
        Entity,
        tool::{ANNOTATIONS, expected_annotation_type},
    },
    suggest::closest,
};

pub(super) fn check(new: &NewEntity<'_>, found: &mut Vec<Diagnostic>) {
    let Entity::Tool(tool) = new.entity() else { return };
    for (name, value) in tool.annotations.iter().flatten() {
        let at = pointer_join("/annotations", name);
        if let Some(expected) = expected_annotation_type(name, value) {
            let message = format!("`{name}` is {}", describe(value));
            let invalid = Diagnostic::error(Code::DocumentInvalid, at, message);
            new.report(found, invalid.with_help(format!("write {expected}")));
        } else if !ANNOTATIONS.contains(&name.as_str())
            && let Some(meant) = closest(name, ANNOTATIONS)
        {
            let message = format!("MCP does not define the annotation `{name}`");
            let unknown = Diagnostic::warning(Code::DocumentInvalid, at, message);
            new.report(found, unknown.with_help(format!("did you mean `{meant}`?")));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{found_of, source_tool, with};
    use crate::diagnostic::Code;

    fn found(annotations: &Value) -> String {
        let tool = with(&source_tool("t", "s"), json!({ "annotations": annotations }));
        found_of(Code::DocumentInvalid, &[], &[tool])
    }

    #[test]
    fn annotations_have_types_of_mcp() {
        assert_eq!(found(&json!({ "title": "T", "readOnlyHint": true, "x": 1 })), "");
        for (name, value) in [
            ("readOnlyHint", json!("yes")),
            ("destructiveHint", json!("false")),
            ("idempotentHint", json!(1)),
            ("openWorldHint", json!(null)),
            ("title", json!(3)),
        ] {
            let found = found(&json!({ name: value }));
            let expected =
                format!("error[document-invalid] tool/t@1.0.0 at \"/annotations/{name}\"");
            assert!(found.starts_with(&expected), "{found}");
        }
    }

    #[test]
    fn misspelled_annotation_gets_warning() {
        let found = found(&json!({ "readonlyHint": true, "reviewedBy": "me" }));
        insta::assert_snapshot!(
            found,
            @"warning[document-invalid] tool/t@1.0.0 at \"/annotations/readonlyHint\": MCP does \
              not define the annotation `readonlyHint` (did you mean `readOnlyHint`?)"
        );
    }
}
