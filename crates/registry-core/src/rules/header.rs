//! `header-annotation-invalid`: `x-mcp-header` violates MCP 2026-07-28 (Streamable HTTP, "Custom
//! Headers from Tool Parameters"). Clients drop a tool with an invalid annotation.
//!
//! An annotation is allowed on a property of type integer, string or boolean that is reachable
//! through `properties` alone. Its HTTP field name must be unique within the tool.

use std::collections::HashSet;

use schema_compat::{json_schema::each_object_at, pointer::Location};
use serde_json::{Map, Value};

use super::{
    proposal::{NewEntity, Proposal},
    schema_graph::{Reaching, SchemaGraph},
};
use crate::{
    diagnostic::{Code, Diagnostic},
    entity::Entity,
    limits,
    reference::{each_reference, pure_reference},
};

const ANNOTATION: &str = "x-mcp-header";

pub(super) fn check(proposal: &Proposal<'_>, graph: &SchemaGraph<'_>, found: &mut Vec<Diagnostic>) {
    let annotated = graph.reaching(is_annotated);
    for new in &proposal.new {
        let Some(schema) = input_schema(new) else { continue };
        let at = Location::ROOT.member("inputSchema");
        let mut problems = Vec::new();
        match pure_reference(schema) {
            // Many tools may refer to one schema, so only annotated schemas are checked.
            Some(key) if !annotated.contains(&key) => {}
            // Gateways advertise the target of a schema that is nothing but a reference.
            Some(key) => {
                if let Some(Entity::Schema(root)) = proposal.find(&key) {
                    check_schema(&root.schema, at, &annotated, &mut problems);
                }
                for problem in &mut problems {
                    problem.pointer = at.to_string();
                }
            }
            None => check_schema(schema, at, &annotated, &mut problems),
        }
        for problem in problems {
            new.report(found, problem);
        }
    }
}

/// Whether the schema contains an annotation.
fn is_annotated(schema: &Value) -> bool {
    let mut found = false;
    each_object_at(schema, Location::ROOT, &mut |map, _| found |= map.contains_key(ANNOTATION));
    found
}

fn input_schema<'a>(new: &NewEntity<'a>) -> Option<&'a Value> {
    match new.entity() {
        Entity::Tool(tool) => tool.input_schema.as_ref(),
        _ => None,
    }
}

/// Checks the annotations of one document, and that no reference points to an annotated schema.
fn check_schema(
    schema: &Value,
    at: Location<'_>,
    annotated: &Reaching<'_>,
    problems: &mut Vec<Diagnostic>,
) {
    let mut names = HashSet::new();
    let mut reachable = HashSet::new();
    along_properties(schema, at, &mut |property, at| {
        let Some(annotation) = property.get(ANNOTATION) else { return };
        reachable.insert(at.to_string());
        let name = annotation.as_str().map(str::to_ascii_lowercase);
        let repeated = name.is_some_and(|name| !names.insert(name));
        let repeated = repeated.then(|| format!("the header name {annotation} is used twice"));
        let problem = problem_of(annotation, property).or(repeated);
        problems.extend(problem.map(|message| invalid(at.member(ANNOTATION), message)));
    });
    each_object_at(schema, at, &mut |map, at| {
        if map.contains_key(ANNOTATION) && !reachable.contains(&at.to_string()) {
            let message = format!(
                "`{ANNOTATION}` is on a property that is not reachable through `properties` alone"
            );
            problems.push(invalid(at.member(ANNOTATION), message));
        }
    });
    each_reference(schema, at, &mut |key, text, at| {
        if key.is_ok_and(|key| annotated.contains(key)) {
            let message = format!(
                "`{text}` refers to a schema with `{ANNOTATION}`, which is not allowed behind a `$ref`"
            );
            problems.push(invalid(at, message));
        }
    });
}

/// Calls `found` for every property that is reachable from the root through `properties` alone.
fn along_properties(
    schema: &Value,
    at: Location<'_>,
    found: &mut dyn FnMut(&Map<String, Value>, Location<'_>),
) {
    let Some(Value::Object(properties)) = schema.get("properties") else { return };
    let list = at.member("properties");
    for (name, property) in properties {
        let at = list.member(name);
        if let Value::Object(map) = property {
            found(map, at);
        }
        along_properties(property, at, found);
    }
}

/// The problem of an annotation in a valid location.
fn problem_of(annotation: &Value, property: &Map<String, Value>) -> Option<String> {
    let Value::String(name) = annotation else {
        return Some(format!("the header name {annotation} is not a string"));
    };
    if name.is_empty() {
        return Some("the header name is empty".to_owned());
    }
    if let Some(character) = name.chars().find(|c| !is_token(*c)) {
        let name = name.escape_debug();
        return Some(format!("{character:?} is not allowed in the header name `{name}`"));
    }
    match property.get("type").and_then(Value::as_str) {
        Some("string" | "boolean") => None,
        Some("integer") => unsafe_bound(property),
        _ => {
            let says = property.get("type").map_or("missing".to_owned(), ToString::to_string);
            Some(format!(
                "only integer, string and boolean properties can be headers, but `type` is {says}"
            ))
        }
    }
}

fn unsafe_bound(property: &Map<String, Value>) -> Option<String> {
    let is_unsafe = |number: &f64| number.abs() >= SAFE;
    ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "const"]
        .into_iter()
        .find(|bound| property.get(*bound).and_then(Value::as_f64).as_ref().is_some_and(is_unsafe))
        .map(|bound| format!("`{bound}` allows integers beyond ±(2^53 - 1)"))
}

/// Headers carry integers with a magnitude below 2^53.
#[expect(clippy::cast_precision_loss, reason = "2^53 is a power of two and exact")]
const SAFE: f64 = limits::SAFE_INTEGER as f64;

/// A character of an HTTP token (RFC 9110 section 5.6.2).
fn is_token(character: char) -> bool {
    character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character)
}

fn invalid(at: Location<'_>, message: String) -> Diagnostic {
    Diagnostic::error(Code::HeaderAnnotationInvalid, at.to_string(), message).with_help(
        "annotate a property of type integer, string or boolean with a unique HTTP field name",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{found_of, schema, source_tool, with};
    use crate::{diagnostic::Code, rules::Proposed};

    fn tool(input: &Value) -> Proposed {
        with(&source_tool("t", "s"), json!({ "inputSchema": input }))
    }

    /// Formats the findings for these properties as `pointer: message`.
    fn in_properties(properties: &Value) -> Vec<String> {
        let input = json!({ "type": "object", "properties": properties });
        found_of(Code::HeaderAnnotationInvalid, &[], &[tool(&input)])
            .lines()
            .map(|line| {
                let (_, rest) = line.split_once("at \"/inputSchema/properties").unwrap();
                rest.rsplit_once(" (annotate").unwrap().0.replace("\": ", ": ")
            })
            .collect()
    }

    fn property(kind: &str, header: impl Into<Value>) -> Value {
        let header = header.into();
        json!({ "type": kind, "x-mcp-header": header })
    }

    #[test]
    fn header_accepts_valid_annotations() {
        let nested = json!({ "type": "object", "properties": { "c": property("boolean", "C") } });
        let good = json!({ "a": property("string", "Region"), "b": property("integer", "B!"), "n": nested });
        assert_eq!(in_properties(&good), Vec::<String>::new());
    }

    #[test]
    fn header_name_must_be_unique_token() {
        let bad = json!({
            "a": property("string", ""),
            "b": property("string", "two words"),
            "c": property("string", "x\r\ny"),
            "d": property("string", 7),
            "e": property("string", "Same"),
            "f": property("string", "sAME"),
        });
        assert_eq!(
            in_properties(&bad),
            [
                "/a/x-mcp-header: the header name is empty",
                "/b/x-mcp-header: ' ' is not allowed in the header name `two words`",
                "/c/x-mcp-header: '\\r' is not allowed in the header name `x\\r\\ny`",
                "/d/x-mcp-header: the header name 7 is not a string",
                "/f/x-mcp-header: the header name \"sAME\" is used twice",
            ]
        );
    }

    #[test]
    fn header_requires_primitive_type_and_safe_integers() {
        let mut wide = property("integer", "W");
        wide["maximum"] = json!(9_007_199_254_740_992_i64);
        let bad = json!({
            "n": property("number", "N"),
            "o": { "x-mcp-header": "O" },
            "w": wide,
        });
        assert_eq!(
            in_properties(&bad),
            [
                "/n/x-mcp-header: only integer, string and boolean properties can be headers, but `type` is \"number\"",
                "/o/x-mcp-header: only integer, string and boolean properties can be headers, but `type` is missing",
                "/w/x-mcp-header: `maximum` allows integers beyond ±(2^53 - 1)",
            ]
        );
    }

    #[test]
    fn header_must_be_reachable_through_properties() {
        let annotated = property("string", "H");
        let bad = json!({
            "a": { "type": "array", "items": annotated },
            "b": { "anyOf": [{ "properties": { "c": annotated } }] },
        });
        let message =
            "`x-mcp-header` is on a property that is not reachable through `properties` alone";
        assert_eq!(
            in_properties(&bad),
            [
                format!("/a/items/x-mcp-header: {message}"),
                format!("/b/anyOf/0/properties/c/x-mcp-header: {message}"),
            ]
        );
    }

    #[test]
    fn header_behind_reference_is_rejected() {
        let inner = schema("Inner", &json!({ "properties": { "r": property("string", "R") } }));
        let outer = schema("Outer", &json!({ "items": { "$ref": "#Inner:1.0.0" } }));
        let registered = [inner, outer];
        let found =
            |input: Value| found_of(Code::HeaderAnnotationInvalid, &registered, &[tool(&input)]);
        assert_eq!(found(json!({ "$ref": "#Inner:1.0.0" })), "");
        let behind = found(json!({ "properties": { "x": { "$ref": "#Outer:1.0.0" } } }));
        insta::assert_snapshot!(
            behind,
            @"error[header-annotation-invalid] tool/t@1.0.0 at \"/inputSchema/properties/x/$ref\": \
              `#Outer:1.0.0` refers to a schema with `x-mcp-header`, which is not allowed behind a \
              `$ref` (annotate a property of type integer, string or boolean with a unique HTTP \
              field name)"
        );
        assert!(found(json!({ "$ref": "#Outer:1.0.0" })).contains("at \"/inputSchema\""));
    }
}
