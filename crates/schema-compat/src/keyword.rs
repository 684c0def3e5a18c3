//! The keywords of JSON Schema, and members of schemas that are likely typos of one.
//!
//! Unknown members are legal and have no effect, so a typo disables a rule of a schema silently.

use serde_json::Value;

use crate::{
    json_schema::{MemberContent, member_content},
    pointer::Location,
    suggest::closest_within,
};

/// The keywords of JSON Schema, draft 6 to 2020-12, in byte order.
pub const KEYWORDS: [&str; 62] = [
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$ref",
    "$schema",
    "$vocabulary",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "else",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "then",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "writeOnly",
];

/// Keywords of objects whose names are data.
const NAMES: [&str; 2] = ["$vocabulary", "dependentRequired"];
/// Members of OpenAPI, of earlier drafts and of common annotations that resemble a keyword.
const OTHER: [&str; 4] = ["descriptor", "example", "propertyName", "requires"];
/// Longer members, in bytes, are no typos. The longest keyword has 21.
const LONGEST: usize = 32;

/// Visits the members of schema objects that are no keywords, but not the content of these members.
pub fn each_unknown<'s>(
    schema: &'s Value,
    at: Location<'_>,
    found: &mut dyn FnMut(&'s str, Location<'_>),
) {
    match schema {
        Value::Object(map) => {
            for (name, value) in map {
                let at = at.member(name);
                match (member_content(name), value) {
                    (MemberContent::Data, _) => {}
                    (MemberContent::Named, Value::Object(named)) => {
                        for (name, value) in named {
                            each_unknown(value, at.member(name), found);
                        }
                    }
                    _ if KEYWORDS.binary_search(&name.as_str()).is_err() => found(name, at),
                    _ if NAMES.contains(&name.as_str()) => {}
                    _ => each_unknown(value, at, found),
                }
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                each_unknown(item, at.index(i), found);
            }
        }
        _ => {}
    }
}

/// Whether a member is short enough for a typo and no extension.
pub fn can_be_typo(member: &str) -> bool {
    member.len() <= LONGEST && !member.starts_with("x-") && !OTHER.contains(&member)
}

/// The keyword that an unknown member is likely a typo of.
pub fn misspelled(member: &str) -> Option<&'static str> {
    if !can_be_typo(member) {
        return None;
    }
    let member = member.trim();
    let similar = KEYWORDS.into_iter().filter(|keyword| initial(keyword) == initial(member));
    closest_within(member, similar, |keyword| edits(member, keyword))
}

/// The first character without `$`, in lower case. Typos rarely change it, while prefixes of
/// extensions such as `x-` do.
fn initial(name: &str) -> Option<char> {
    let first = name.strip_prefix('$').unwrap_or(name).chars().next()?;
    Some(first.to_ascii_lowercase())
}

/// Maximum number of edits of a typo. Short words are similar by chance.
fn edits(member: &str, keyword: &str) -> usize {
    match (keyword.len(), member.len().min(keyword.len())) {
        (..4, _) => 0,
        (_, ..9) => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keywords_are_in_byte_order() {
        assert!(KEYWORDS.is_sorted());
    }

    #[test]
    fn typos_are_recognized() {
        for (member, keyword) in [
            ("requried", "required"),
            ("propertys", "properties"),
            ("type ", "type"),
            ("Type", "type"),
            ("tpye", "type"),
            ("enums", "enum"),
            ("item", "items"),
            ("any_of", "anyOf"),
            ("min_length", "minLength"),
            ("additionProperties", "additionalProperties"),
            ("additional-properties", "additionalProperties"),
            ("ref", "$ref"),
            ("$def", "$defs"),
            ("If", "if"),
        ] {
            assert_eq!(misspelled(member), Some(keyword), "{member}");
        }
    }

    #[test]
    fn keywords_of_other_vocabularies_are_no_typos() {
        for member in [
            "",
            " ",
            "x",
            "id",
            "in",
            "descriptor",
            "example",
            "nullable",
            "propertyName",
            "requires",
            "discriminator",
            "enumNames",
            "errorMessage",
            "typeof",
            "allRequired",
            "requiredIf",
            "formatMinimum",
            "formatExclusiveMaximum",
            "when",
            "note",
            "href",
            "multiple",
            "markdownDescription",
            "@type",
            "$$description",
            "x-type",
            "x-description",
            "X-items",
            "type                                 ",
        ] {
            assert_eq!(misspelled(member), None, "{member}");
        }
    }

    #[test]
    fn names_and_data_are_not_keywords() {
        let typo = json!({ "tpye": { "tpye": 1 } });
        let schema = json!({
            "const": typo, "enum": [typo], "default": typo, "examples": [typo],
            "dependentRequired": { "tpye": ["requried"] }, "$vocabulary": { "tpye": true },
            "x-form": typo, "required": ["tpye"],
            "dependencies": { "tpye": ["requried"], "titel": typo },
            "properties": { "tpye": { "a/b": 1 }, "titel": true },
            "patternProperties": { "tpye": typo }, "dependentSchemas": { "tpye": typo },
            "$defs": { "tpye": typo }, "definitions": { "tpye": typo },
            "items": [true, typo], "anyOf": [{ "not": typo }], "additionalProperties": typo,
        });
        let mut found = Vec::new();
        each_unknown(&schema, Location::ROOT, &mut |member, at| {
            assert!(at.to_string().ends_with(&crate::pointer::escape(member)));
            found.push(at.to_string());
        });
        found.sort();
        assert_eq!(
            found,
            [
                "/$defs/tpye/tpye",
                "/additionalProperties/tpye",
                "/anyOf/0/not/tpye",
                "/definitions/tpye/tpye",
                "/dependencies/titel/tpye",
                "/dependentSchemas/tpye/tpye",
                "/items/1/tpye",
                "/patternProperties/tpye/tpye",
                "/properties/tpye/a~1b",
                "/x-form",
            ]
        );
    }
}
