//! `schema-invalid`, `schema-unresolved`, `schema-keyword-unknown` and `schema-unused`: JSON Schemas
//! compile, their references resolve, their keywords exist, and they are used.
//!
//! Each schema is compiled with its references replaced by schemas that allow anything. Registered
//! schemas are compiled at their own registration, so each problem is reported once.

mod keywords;
mod problems;

use std::collections::HashSet;

use keywords::Keywords;
use problems::Problems;
use schema_compat::{
    pointer::Location,
    schema_compile::{self, InvalidSchema},
};
use serde_json::Value;

use super::{
    NOT_REGISTERED,
    proposal::{NewEntity, Proposal},
    schema_graph::SchemaGraph,
};
use crate::{
    diagnostic::{Code, Diagnostic},
    edges::Relation,
    entity::Entity,
    kind::Kind,
    limits,
    reference::{Key, each_reference, pure_reference},
};

pub(super) fn check(proposal: &Proposal<'_>, graph: &SchemaGraph<'_>, found: &mut Vec<Diagnostic>) {
    let each = |new| {
        schemas(NewEntity::entity(new)).into_iter().map(move |(at, schema)| (new, at, schema))
    };
    let all: Vec<(&NewEntity<'_>, String, &Value)> = proposal.new.iter().flat_map(each).collect();
    let problems = Problems::new(all.iter().map(|(_, _, schema)| *schema).collect());
    let weights = graph.weights();
    let mut keywords = Keywords::default();
    for (i, (new, place, schema)) in all.iter().enumerate() {
        // A basic schema has no problems, no references and no unknown members.
        let Some(own) = problems.get(i) else { continue };
        keywords.check(new, (place, schema), found);
        unresolved(proposal, new, (place, schema), found);
        let whole = graph.same_id(schema).or_else(|| graph.too_heavy(schema, &weights));
        for problem in own.iter().chain(whole.iter().filter(|whole| !own.contains(whole))) {
            let pointer = format!("{place}{}", problem.pointer());
            let invalid = Diagnostic::error(Code::SchemaInvalid, pointer, problem.to_string());
            new.report(found, invalid.with_help(problem.help()));
        }
    }
    for new in &proposal.new {
        arguments_are_an_object(proposal, new, found);
        too_many_references(graph, new, found);
    }
    unused(proposal, found);
}

pub(super) fn schema_of<'a>(proposal: &Proposal<'a>, key: &Key) -> Option<&'a Value> {
    match proposal.find(key)? {
        Entity::Schema(schema) => Some(&schema.schema),
        _ => None,
    }
}

/// The number of regular expressions in the JSON Schemas of an entity.
pub(super) fn patterns(entity: &Entity) -> usize {
    schemas(entity).into_iter().map(|(_, schema)| schema_compile::patterns(schema)).sum()
}

/// The JSON Schemas of an entity with their pointers.
fn schemas(entity: &Entity) -> Vec<(String, &Value)> {
    let mut schemas = Vec::new();
    match entity {
        Entity::Schema(schema) => schemas.push(("/schema".to_owned(), &schema.schema)),
        Entity::Server(_) | Entity::Policy(_) => {}
        Entity::Tool(tool) => {
            let input = tool.input_schema.iter().map(|s| ("/inputSchema".to_owned(), s));
            let output = tool.output_schema.iter().map(|s| ("/outputSchema".to_owned(), s));
            schemas.extend(input.chain(output));
        }
        Entity::Agent(agent) => {
            for (i, skill) in agent.skills.iter().enumerate() {
                let at = |name| format!("/skills/{i}/{name}");
                schemas.extend(skill.input_schema.iter().map(|s| (at("inputSchema"), s)));
                schemas.extend(skill.output_schema.iter().map(|s| (at("outputSchema"), s)));
            }
        }
    }
    schemas
}

fn unresolved(
    proposal: &Proposal<'_>,
    new: &NewEntity<'_>,
    (place, schema): (&str, &Value),
    found: &mut Vec<Diagnostic>,
) {
    each_reference(schema, Location::ROOT, &mut |key, text, at| {
        let (message, help) = match key {
            Ok(key) if proposal.is_known(key) => return,
            Ok(key) => (
                format!("`{text}` refers to {key}, which {NOT_REGISTERED}"),
                proposal.help_for_unknown(key),
            ),
            Err(e) => (
                format!("`{text}` does not refer to a registered schema: {e}"),
                "write `#Name:1.0.0` with an exact version".to_owned(),
            ),
        };
        let problem = Diagnostic::error(Code::SchemaUnresolved, format!("{place}{at}"), message);
        new.report(found, problem.with_help(help));
    });
}

/// MCP requires tool arguments to be an object. Clients reject the whole tool list if one schema
/// allows another type.
fn arguments_are_an_object(
    proposal: &Proposal<'_>,
    new: &NewEntity<'_>,
    found: &mut Vec<Diagnostic>,
) {
    let Entity::Tool(tool) = new.entity() else { return };
    let Some(schema) = &tool.input_schema else { return };
    let referred = pure_reference(schema).and_then(|key| schema_of(proposal, &key));
    let says = match referred.unwrap_or(schema) {
        Value::Bool(allow) => allow.to_string(),
        schema => match schema.get("type") {
            None => return,
            Some(Value::String(text)) if text == "object" => return,
            Some(other) => format!("`type` is {other}"),
        },
    };
    let message = format!("tool arguments must be an object, but in the input schema {says}");
    let problem = Diagnostic::error(Code::SchemaInvalid, "/inputSchema", message);
    new.report(found, problem.with_help("write \"type\": \"object\""));
}

/// A gateway compiles a schema together with all schemas that it refers to.
fn too_many_references(graph: &SchemaGraph<'_>, new: &NewEntity<'_>, found: &mut Vec<Diagnostic>) {
    let own = new.references.iter().filter(|r| r.relation == Relation::Schema).map(|r| &r.key);
    if graph.reaches_more_than(schema_compat::limits::SCHEMA_REFERENCES, own) {
        let problem = InvalidSchema::TooManyReferences;
        let invalid = Diagnostic::error(Code::SchemaInvalid, "", problem.to_string());
        new.report(found, invalid.with_help(problem.help()));
    }
}

/// Reports schemas without references. A batch of shared schemas can have thousands of them, so the first finding counts
/// those beyond the limit.
fn unused(proposal: &Proposal<'_>, found: &mut Vec<Diagnostic>) {
    let each =
        proposal.new.iter().flat_map(|new| new.references.iter().map(move |r| (new, &r.key)));
    let used: HashSet<&Key> = each.filter(|(new, key)| new.key() != *key).map(|(_, k)| k).collect();
    let schemas = proposal.new.iter().filter(|new| new.key().kind == Kind::Schema);
    let unused: Vec<_> = schemas
        .filter(|new| !used.contains(new.key()) && !proposal.is_used_in_catalog(new.key()))
        .collect();
    let (reported, others) = unused.split_at(unused.len().min(limits::UNUSED_SCHEMAS));
    for (index, new) in reported.iter().enumerate() {
        let (key, most) = (new.key(), limits::UNUSED_SCHEMAS);
        let Key { name, version, .. } = key;
        let message = match others.len() {
            count if index == 0 && count > 0 => {
                format!("{key} is not referenced; nor are {count} schemas beyond the first {most}")
            }
            _ => format!("{key} is not referenced"),
        };
        let unreferenced = Diagnostic::warning(Code::SchemaUnused, "", message);
        let help = format!("refer to it as `#{name}:{version}`, or remove it");
        new.report(found, unreferenced.with_help(help));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{
        plan,
        testing::{catalog, found_of, schema, source_tool, tool, with},
    };
    use crate::{diagnostic::Code, limits};

    #[test]
    fn invalid_schema_reports_each_problem_with_pointer() {
        let batch = [
            schema("A", &json!({ "type": "strin", "properties": { "a": { "minimum": "1" } } })),
            with(&source_tool("t", "s"), json!({ "outputSchema": { "pattern": "(?=a)" } })),
        ];
        insta::assert_snapshot!(found_of(Code::SchemaInvalid, &[], &batch), @r#"
        error[schema-invalid] schema/A@1.0.0 at "/schema/properties/a/minimum": "1" is not of type "number" (see https://json-schema.org for the syntax of the keyword)
        error[schema-invalid] schema/A@1.0.0 at "/schema/type": "strin" is not a type; the types are array, boolean, integer, null, number, object and string (see https://json-schema.org for the syntax of the keyword)
        error[schema-invalid] tool/t@1.0.0 at "/outputSchema/pattern": "(?=a)" is not a regular expression without look-around and backreferences (patterns of the registry have neither look-around nor backreferences; correct the pattern, write it without them, or leave it out)
        "#);
    }

    #[test]
    fn schema_rejects_remote_refs_and_unknown_dialects() {
        let batch = [
            schema("A", &json!({ "items": { "$ref": "http://169.254.169.254/latest" } })),
            schema("B", &json!({ "$schema": "https://example.com/mine" })),
            schema("C", &json!({ "$ref": "registry:/A/1.0.0" })),
            schema("E", &json!({ "$id": "https://Registry.invalid/A/1.0.0" })),
            schema("D", &json!({ "$schema": "http://json-schema.org/draft-07/schema#" })),
        ];
        insta::assert_snapshot!(found_of(Code::SchemaInvalid, &[], &batch), @r#"
        error[schema-invalid] schema/A@1.0.0 at "/schema/items/$ref": `http://169.254.169.254/latest` is outside of the registry and is not fetched (register the other schema and refer to it as `#Name:1.0.0`, or copy it into `$defs`)
        error[schema-invalid] schema/B@1.0.0 at "/schema/$schema": the dialect "https://example.com/mine" is not supported (use https://json-schema.org/draft/2020-12/schema, or draft 2019-09, 7, 6 or 4)
        error[schema-invalid] schema/C@1.0.0 at "/schema/$ref": `registry:/A/1.0.0` uses the reserved URI scheme of the registry (refer to a registered schema as `#Name:1.0.0`)
        error[schema-invalid] schema/E@1.0.0 at "/schema/$id": `https://Registry.invalid/A/1.0.0` uses the reserved URI scheme of the registry (refer to a registered schema as `#Name:1.0.0`)
        "#);
    }

    #[test]
    fn schema_must_compile_when_referenced() {
        let batch = [
            schema("A", &json!({ "$ref": "a", "$defs": { "a": { "$id": "/a" } } })),
            schema("B", &json!({ "$ref": "/" })),
            schema("C", &json!({ "$ref": "json-schema:///" })),
            schema("D", &json!({ "$id": "/d", "$ref": "a", "$defs": { "a": { "$id": "/a" } } })),
        ];
        insta::assert_snapshot!(found_of(Code::SchemaInvalid, &[], &batch), @r#"
        error[schema-invalid] schema/A@1.0.0 at "/schema/$ref": where another schema refers to it, `registry:/-/-/a` is outside of the registry and is not fetched (refer to its parts as `#/$defs/…`, or give it an `$id` that is an absolute URI)
        error[schema-invalid] schema/B@1.0.0 at "/schema/$ref": where another schema refers to it, `registry:/` is outside of the registry and is not fetched (refer to its parts as `#/$defs/…`, or give it an `$id` that is an absolute URI)
        error[schema-invalid] schema/C@1.0.0 at "/schema/$ref": `json-schema:///` uses the reserved URI scheme of the registry (refer to a registered schema as `#Name:1.0.0`)
        "#);
    }

    #[test]
    fn unresolved_reference_is_reported_at_any_depth() {
        let nested = json!({ "anyOf": [{ "items": { "$ref": "#Nope:1.0.0" } }] });
        let batch = [
            schema("A", &nested),
            with(&source_tool("t", "s"), json!({ "inputSchema": { "$ref": "#A:latest" } })),
            with(&source_tool("u", "s"), json!({ "inputSchema": { "$ref": "#A:2.0.0" } })),
        ];
        insta::assert_snapshot!(found_of(Code::SchemaUnresolved, &[], &batch), @r#"
        error[schema-unresolved] schema/A@1.0.0 at "/schema/anyOf/0/items/$ref": `#Nope:1.0.0` refers to schema/Nope@1.0.0, which is not registered (register schema/Nope@1.0.0 first, or in the same batch)
        error[schema-unresolved] tool/t@1.0.0 at "/inputSchema/$ref": `#A:latest` does not refer to a registered schema: `latest` is not an exact semantic version: unexpected character 'l' while parsing major version number (write `#Name:1.0.0` with an exact version)
        error[schema-unresolved] tool/u@1.0.0 at "/inputSchema/$ref": `#A:2.0.0` refers to schema/A@2.0.0, which is not registered (register schema/A@2.0.0 in the same batch, or refer to a registered version: 1.0.0)
        "#);
    }

    #[test]
    fn schema_may_refer_to_its_meta_schema() {
        for dialect in [
            "http://json-schema.org/draft-04/schema#",
            "http://json-schema.org/draft-07/schema#",
            "https://json-schema.org/draft/2019-09/schema",
            "https://json-schema.org/draft/2020-12/schema",
        ] {
            let takes = json!({
                "$schema": dialect, "type": "object", "properties": { "s": { "$ref": dialect } },
            });
            let tool = |name, input| with(&source_tool(name, "s"), json!({ "inputSchema": input }));
            let refers = json!({ "type": "object", "properties": { "a": { "$ref": "#A:1.0.0" } } });
            let batch = [schema("A", &takes), tool("t", takes), tool("u", refers)];
            assert_eq!(found_of(Code::SchemaInvalid, &[], &batch), "");
        }
    }

    #[test]
    fn input_schema_must_be_object() {
        let input = |schema| with(&source_tool("t", "s"), json!({ "inputSchema": schema }));
        let found = |schema| found_of(Code::SchemaInvalid, &[], &[input(schema)]);
        insta::assert_snapshot!(
            found(json!({ "type": "string" })),
            @"error[schema-invalid] tool/t@1.0.0 at \"/inputSchema\": tool arguments must be an \
              object, but in the input schema `type` is \"string\" (write \"type\": \"object\")"
        );
        assert_eq!(found(json!({ "properties": {} })), "");
        let batch =
            [schema("A", &json!({ "type": "array" })), input(json!({ "$ref": "#A:1.0.0" }))];
        assert!(found_of(Code::SchemaInvalid, &[], &batch).contains("tool/t@1.0.0"));
    }

    #[test]
    fn batch_limits_number_of_patterns() {
        let patterns: Vec<_> = (0..schema_compat::limits::SCHEMA_PATTERNS)
            .map(|i| json!({ "pattern": i.to_string() }))
            .collect();
        let schemas = |count: usize| -> Vec<_> {
            (0..count).map(|i| schema(&format!("S{i}"), &json!({ "anyOf": patterns }))).collect()
        };
        let most = limits::BATCH_PATTERNS / schema_compat::limits::SCHEMA_PATTERNS;
        let findings = |count| plan(&catalog(&[]), &schemas(count)).diagnostics;
        assert!(findings(most).iter().all(|found| found.code == Code::SchemaUnused));
        let found = findings(most + 1);
        insta::assert_snapshot!(
            found[0].message,
            @"the batch has 10200 patterns in its schemas; the maximum is 10000"
        );
    }

    #[test]
    fn exponentially_growing_schemas_are_rejected() {
        let twice = |i: usize| {
            let before = json!({ "$ref": format!("#S{i}:1.0.0") });
            schema(&format!("S{}", i + 1), &json!({ "allOf": [before, before] }))
        };
        let chain: Vec<_> = (0..40).map(twice).collect();
        let registered = [schema("S0", &json!({ "type": "object" }))];
        let itself = json!({ "allOf": [{ "$ref": "#" }, { "$ref": "#" }] });
        let found = found_of(Code::SchemaInvalid, &[], &[schema("Itself", &itself)]);
        assert_eq!(found.lines().count(), 1, "{found}");
        let found = found_of(Code::SchemaInvalid, &registered, &chain[..11]);
        assert_eq!(found, "");
        let found = found_of(Code::SchemaInvalid, &registered, &chain);
        insta::assert_snapshot!(
            found.lines().next().unwrap(),
            @"error[schema-invalid] schema/S12@1.0.0 at \"/schema\": the schema applies to one \
              location of a value in more than 10000 ways (remove duplicates: nested `allOf`, \
              `anyOf` and `$ref` multiply)"
        );
        // The result is the same if they are registered one by one.
        let registered: Vec<_> = registered.into_iter().chain(chain[..11].to_vec()).collect();
        assert!(!found_of(Code::SchemaInvalid, &registered, &chain[11..12]).is_empty());
    }

    #[test]
    fn schema_limits_number_of_references() {
        let link = |i: usize| {
            let next = json!({ "items": { "$ref": format!("#S{}:1.0.0", i + 1) } });
            schema(&format!("S{i}"), &next)
        };
        let mut chain: Vec<_> = (0..1001).map(link).collect();
        chain.push(schema("S1001", &json!(true)));
        let found = found_of(Code::SchemaInvalid, &[], &chain);
        insta::assert_snapshot!(
            found,
            @"error[schema-invalid] schema/S0@1.0.0 at \"\": the schema refers to more than 1000 \
              registered schemas, directly or indirectly (combine related schemas into one with \
              `$defs`)"
        );
        assert_eq!(found_of(Code::SchemaInvalid, &[], &chain[1..]), "");
    }

    #[test]
    fn unreferenced_new_schema_gets_warning() {
        let used = schema("Used", &json!({ "type": "object" }));
        let unused = schema("Unused", &json!({ "items": { "$ref": "#Unused:1.0.0" } }));
        let tool = tool("t", json!({ "spec": {}, "inputSchema": { "$ref": "#Used:1.0.0" } }));
        insta::assert_snapshot!(
            found_of(Code::SchemaUnused, &[], &[used.clone(), unused.clone(), tool.clone()]),
            @"warning[schema-unused] schema/Unused@1.0.0 at \"\": schema/Unused@1.0.0 is not \
              referenced (refer to it as `#Unused:1.0.0`, or remove it)"
        );
        assert_eq!(found_of(Code::SchemaUnused, &[unused], &[used, tool]), "");
    }

    #[test]
    fn first_of_many_unreferenced_schemas_counts_those_beyond_limit() {
        let found = |count: usize| {
            let schemas: Vec<_> =
                (0..count).map(|n| schema(&format!("S{n}"), &json!({}))).collect();
            found_of(Code::SchemaUnused, &[], &schemas)
        };
        let most = found(limits::UNUSED_SCHEMAS);
        assert_eq!(most.lines().count(), limits::UNUSED_SCHEMAS);
        assert!(!most.contains("beyond"), "{most}");
        let more = found(limits::UNUSED_SCHEMAS + 3);
        assert_eq!(more.lines().count(), limits::UNUSED_SCHEMAS);
        insta::assert_snapshot!(
            more.lines().next().unwrap(),
            @"warning[schema-unused] schema/S0@1.0.0 at \"\": schema/S0@1.0.0 is not referenced; nor \
              are 3 schemas beyond the first 100 (refer to it as `#S0:1.0.0`, or remove it)"
        );
        assert_eq!(more.matches("beyond").count(), 1);
    }
}
