//! Tags of entities: those of their metadata and of their skills.

use std::collections::HashSet;

use serde_json::Value;

use crate::document::Document;

/// Whether an entity, or one of its skills, has a tag.
pub(crate) fn has_tag(document: &Document, tag: &str) -> bool {
    // A substring search is cheaper than parsing, and few documents contain the word.
    has_text(document, &Value::from(tag).to_string()) && has_tag_where(document, |text| text == tag)
}

/// Whether an entity has one of many tags. Parses its document at most once.
pub(crate) fn has_any_tag(document: &Document, tags: &HashSet<&str>) -> bool {
    has_text(document, "\"tags\"") && has_tag_where(document, |text| tags.contains(text))
}

fn has_text(document: &Document, text: &str) -> bool {
    document.bytes().windows(text.len()).any(|bytes| bytes == text.as_bytes())
}

fn has_tag_where(document: &Document, is_wanted: impl Fn(&str) -> bool) -> bool {
    let value = document.entity().to_value();
    let has = |tags: &Value| {
        tags.as_array().into_iter().flatten().filter_map(Value::as_str).any(&is_wanted)
    };
    has(&value["metadata"]["tags"])
        || value["skills"].as_array().is_some_and(|skills| skills.iter().any(|s| has(&s["tags"])))
}
