//! `document-invalid`: `hideFields` and `defaults` name arguments of the tool's own input schema.
//!
//! A misspelled hidden field would leave the argument open to callers. It is an error if the schema
//! is closed, and a warning if the server may accept more arguments. A default is only a warning,
//! because a schema may describe the arguments of callers without a constant that the gateway adds.

use schema_compat::{json_schema::reference_of, pointer::pointer_join};
use serde_json::{Map, Value};

use super::{
    proposal::{NewEntity, Proposal},
    schema::schema_of,
};
use crate::{
    diagnostic::{Code, Diagnostic},
    entity::Entity,
    reference::{SchemaRef, pure_reference},
    suggest::closest,
};

/// Maximum number of subschemas inspected per argument.
const INSPECTED: usize = 1_000;
/// Maximum length of a chain of schemas that are nothing but a reference.
const CHAIN: usize = 32;

pub(super) fn check(proposal: &Proposal<'_>, new: &NewEntity<'_>, found: &mut Vec<Diagnostic>) {
    let Entity::Tool(tool) = new.entity() else { return };
    let (Some(source), Some(schema)) = (tool.source(), &tool.input_schema) else { return };
    let Some(input) = InputSchema::new(proposal, schema) else { return };
    for (i, field) in source.hide_fields.iter().enumerate() {
        let path: Vec<&str> = field.split('.').collect();
        if !input.has(&path) {
            let message = format!("the hidden field `{field}` is not in the input schema");
            let pointer = format!("/source/hideFields/{i}");
            let problem = if input.rejects(path[0]) {
                Diagnostic::error(Code::DocumentInvalid, pointer, message)
            } else {
                Diagnostic::warning(Code::DocumentInvalid, pointer, message)
            };
            new.report(found, problem.with_help(input.help(path[0])));
        }
    }
    for name in source.defaults.iter().flat_map(Map::keys) {
        if !input.has(&[name.as_str()]) {
            let message = format!("the argument `{name}` of a default is not in the input schema");
            let pointer = pointer_join("/source/defaults", name);
            let problem = Diagnostic::warning(Code::DocumentInvalid, pointer, message);
            new.report(found, problem.with_help(input.help(name)));
        }
    }
}

/// The registered input schema of a tool.
struct InputSchema<'a> {
    proposal: &'a Proposal<'a>,
    root: &'a Value,
    /// The properties at the top level.
    arguments: &'a Map<String, Value>,
}

impl<'a> InputSchema<'a> {
    /// `None` if the schema names no arguments or does not resolve.
    fn new(proposal: &'a Proposal<'a>, schema: &'a Value) -> Option<Self> {
        let mut root = schema;
        for _ in 0..CHAIN {
            let Some(key) = pure_reference(root) else { break };
            root = schema_of(proposal, &key)?;
        }
        let arguments = root.get("properties")?.as_object()?;
        Some(Self { proposal, root, arguments })
    }

    /// Whether the schema names this argument, or is too large to decide.
    fn has(&self, path: &[&str]) -> bool {
        let mut pending = vec![Part { schema: self.root, path, document: self.root }];
        for _ in 0..INSPECTED {
            let Some(part) = pending.pop() else { return false };
            let (Value::Object(map), [name, rest @ ..]) = (part.schema, part.path) else {
                continue;
            };
            match map.get("properties").and_then(|all| all.get(*name)) {
                Some(_) if rest.is_empty() => return true,
                Some(inner) => pending.push(Part { schema: inner, path: rest, ..part }),
                None => {}
            }
            let lists = ["allOf", "anyOf", "oneOf"].into_iter();
            let listed = lists.filter_map(|keyword| map.get(keyword)?.as_array()).flatten();
            let single = ["then", "else"].into_iter().filter_map(|keyword| map.get(keyword));
            let dependent = map.get("dependentSchemas").and_then(Value::as_object);
            let dependent = dependent.into_iter().flat_map(Map::values);
            let branches = listed.chain(single).chain(dependent);
            pending.extend(branches.map(|schema| Part { schema, ..part }));
            if map.contains_key("$dynamicRef") {
                return true;
            }
            if let Some(reference) = reference_of(map) {
                let Some(target) = self.follow(reference, part) else { return true };
                pending.push(target);
            }
        }
        true
    }

    /// The schema behind a reference. `None` if it is undecided; other rules report invalid references.
    fn follow<'p>(&self, reference: &str, part: Part<'a, 'p>) -> Option<Part<'a, 'p>> {
        if let Some(reference) = SchemaRef::parse(reference) {
            let schema = schema_of(self.proposal, reference.ok()?.key())?;
            return Some(Part { schema, document: schema, ..part });
        }
        let schema = part.document.pointer(reference.strip_prefix('#')?)?;
        Some(Part { schema, ..part })
    }

    /// Whether the schema rejects every value of this argument.
    fn rejects(&self, name: &str) -> bool {
        self.root.get("additionalProperties") == Some(&Value::Bool(false))
            && self.root.get("patternProperties").is_none()
            && !self.arguments.contains_key(name)
    }

    fn help(&self, name: &str) -> String {
        match closest(name, self.arguments.keys().map(String::as_str)) {
            Some(similar) => format!("did you mean `{similar}`?"),
            None => "use an argument of the input schema, or add it to the schema".to_owned(),
        }
    }
}

/// A part of a schema that may name an argument.
#[derive(Clone, Copy)]
struct Part<'a, 'p> {
    schema: &'a Value,
    path: &'p [&'p str],
    /// The schema document of local references.
    document: &'a Value,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{found_of, schema, source_tool, with};
    use crate::diagnostic::Code;

    /// The findings about a tool with this input schema and these members of its source.
    fn found(input: &Value, members: &Value) -> String {
        let mut source = json!({ "server": "s", "serverVersion": "1.0.0", "tool": "t" });
        source.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let tool = with(&source_tool("t", "s"), json!({ "source": source, "inputSchema": input }));
        let filters = json!({ "properties": { "author": {} }, "additionalProperties": false });
        let page = json!({ "properties": { "url": {}, "maxLength": {},
            "filters": { "$ref": "#Filters:1.0.0" } }, "additionalProperties": false });
        let registered = [schema("Filters", &filters), schema("Page", &page)];
        found_of(Code::DocumentInvalid, &registered, &[tool])
    }

    #[test]
    fn hidden_field_outside_closed_schema_is_rejected() {
        let page = json!({ "$ref": "#Page:1.0.0" });
        insta::assert_snapshot!(
            found(&page, &json!({ "hideFields": ["url", "maxLengthh"] })),
            @"error[document-invalid] tool/t@1.0.0 at \"/source/hideFields/1\": the hidden field \
              `maxLengthh` is not in the input schema (did you mean `maxLength`?)"
        );
        let known = json!({ "hideFields": ["maxLength", "filters", "filters.author"],
            "defaults": { "maxLength": 5 } });
        assert_eq!(found(&page, &known), "");
    }

    #[test]
    fn unknown_argument_outside_open_schema_is_warned() {
        let open = json!({ "properties": { "url": {} }, "anyOf": [{ "required": ["url"] },
            { "properties": { "page": {} } }] });
        let members = json!({ "hideFields": ["page", "secret"], "defaults": { "ulr": 1 } });
        insta::assert_snapshot!(found(&open, &members), @r#"
        warning[document-invalid] tool/t@1.0.0 at "/source/hideFields/1": the hidden field `secret` is not in the input schema (use an argument of the input schema, or add it to the schema)
        warning[document-invalid] tool/t@1.0.0 at "/source/defaults/ulr": the argument `ulr` of a default is not in the input schema (did you mean `url`?)
        "#);
        assert_eq!(found(&json!({ "type": "object" }), &members), "");
    }

    #[test]
    fn cyclic_schema_is_undecided() {
        let cyclic = json!({ "properties": { "url": {} }, "anyOf": [{ "$ref": "#" }] });
        assert_eq!(found(&cyclic, &json!({ "hideFields": ["secret"] })), "");
    }
}
