//! `document-invalid`: an annotation of a tool has a type that MCP does not allow, or is probably
//! misspelled (warning). `annotation-doubtful`: the name of a tool says that it destroys or moves
//! something, and its annotations deny it (warning).
//!
//! Clients that check types reject a whole list because of one such tool.

use schema_compat::pointer::pointer_join;

use super::proposal::NewEntity;
use crate::{
    decode::describe,
    diagnostic::{Code, Diagnostic},
    entity::{
        Entity,
        tool::{ANNOTATIONS, Tool, expected_annotation_type},
    },
    suggest::closest,
};

/// The character between the words of a name.
const SEPARATOR: char = '_';
/// Verbs of tools that destroy or move something.
const HARMFUL: [&str; 12] = [
    "delete",
    "destroy",
    "drop",
    "erase",
    "pay",
    "purge",
    "remove",
    "send",
    "transfer",
    "truncate",
    "uninstall",
    "wipe",
];
/// First words of tools that read, such as `get_transfer`.
const READING: [&str; 9] =
    ["check", "count", "describe", "find", "get", "list", "read", "search", "show"];
/// Words before another verb.
const JOINING: [&str; 2] = ["and", "then"];

pub(super) fn check(new: &NewEntity<'_>, found: &mut Vec<Diagnostic>) {
    let Entity::Tool(tool) = new.entity() else { return };
    if let Some(doubtful) = doubtful(tool, new.key().name.as_str()) {
        new.report(found, doubtful);
    }
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

/// The warning about a name that contradicts the annotations.
fn doubtful(tool: &Tool, name: &str) -> Option<Diagnostic> {
    let annotations = tool.annotations.as_ref()?;
    let says = |hint: &str, value: bool| {
        annotations.get(hint).is_some_and(|found| found.as_bool() == Some(value))
    };
    let (hint, value) = if says("readOnlyHint", true) {
        ("readOnlyHint", true)
    } else if says("destructiveHint", false) && says("openWorldHint", false) {
        ("destructiveHint", false)
    } else {
        // Approvals treat the calls as destructive.
        return None;
    };
    let words = words(name);
    let words: Vec<_> = words.split(SEPARATOR).filter(|word| !word.is_empty()).collect();
    let verb = harmful_verb(&words)?;
    let message = format!("the name `{name}` has the word `{verb}`, but `{hint}` is {value}");
    let doubtful =
        Diagnostic::warning(Code::AnnotationDoubtful, pointer_join("/annotations", hint), message);
    let help = "correct the annotation if the tool destroys or moves something: approvals of \
                destructive calls rely on it";
    Some(doubtful.with_help(help))
}

/// The verb that destroys or moves something. After a first word that reads, other words are nouns
/// unless a word joins them.
fn harmful_verb<'a>(words: &[&'a str]) -> Option<&'a str> {
    let reads = words.first().is_some_and(|first| READING.contains(first));
    let is_verb = |at: usize| !reads || at > 0 && JOINING.contains(&words[at - 1]);
    let mut words = words.iter().enumerate();
    words.find_map(|(at, word)| (HARMFUL.contains(word) && is_verb(at)).then_some(*word))
}

/// The words of a name in `snake_case`, `kebab-case` or `camelCase`, in lower case with separators.
fn words(name: &str) -> String {
    let mut words = String::with_capacity(2 * name.len());
    for c in name.chars() {
        if c.is_ascii_uppercase() && words.ends_with(|last: char| last.is_ascii_lowercase()) {
            words.push(SEPARATOR);
        }
        words.push(if c.is_ascii_alphanumeric() { c } else { SEPARATOR });
    }
    words.to_ascii_lowercase()
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

    fn doubtful(name: &str, annotations: &Value) -> String {
        let tool = with(&source_tool(name, "s"), json!({ "annotations": annotations }));
        found_of(Code::AnnotationDoubtful, &[], &[tool])
    }

    #[test]
    fn harmful_name_with_harmless_annotation_gets_warning() {
        let reads = json!({ "readOnlyHint": true });
        insta::assert_snapshot!(
            doubtful("delete_account", &reads),
            @"warning[annotation-doubtful] tool/delete_account@1.0.0 at \
              \"/annotations/readOnlyHint\": the name `delete_account` has the word `delete`, but \
              `readOnlyHint` is true (correct the annotation if the tool destroys or moves \
              something: approvals of destructive calls rely on it)"
        );
        let adds =
            json!({ "readOnlyHint": false, "destructiveHint": false, "openWorldHint": false });
        for name in ["transfer_funds", "mail-send", "accountPurge", "db.dropTable"] {
            let found = doubtful(name, &adds);
            assert!(found.contains("/annotations/destructiveHint"), "{name}: {found}");
        }
        for name in [
            "delete_list",
            "remove_list_item",
            "purge_search_index",
            "send_check",
            "get_and_delete",
            "read_then_wipe",
        ] {
            assert_ne!(doubtful(name, &reads), "", "{name}");
        }
    }

    #[test]
    fn other_names_and_annotations_get_no_warning() {
        let reads = json!({ "readOnlyHint": true });
        for name in [
            "payment_status",
            "dropdown",
            "sender",
            "get_transfer",
            "listRemove",
            "get_transfer_and_status",
        ] {
            assert_eq!(doubtful(name, &reads), "", "{name}");
        }
        for annotations in [
            json!({ "destructiveHint": true }),
            json!({ "openWorldHint": false }),
            // Without `openWorldHint`, the calls need approvals.
            json!({ "destructiveHint": false }),
        ] {
            assert_eq!(doubtful("delete_account", &annotations), "", "{annotations}");
        }
    }
}
