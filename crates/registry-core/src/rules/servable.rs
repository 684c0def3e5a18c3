//! `schema-invalid` for a tool whose schemas compile individually, but not bundled with all
//! referenced schemas as a gateway serves them.

use std::collections::HashMap;

use schema_compat::schema_compile::{compile, patterns};
use serde_json::Value;

use super::{
    proposal::{NewEntity, Proposal},
    schema::schema_of,
    schema_graph::SchemaGraph,
};
use crate::{
    diagnostic::{Code, Diagnostic},
    document::Digest,
    entity::Entity,
    limits, parallel,
    tool_schema::{self, bundle::is_plain},
};

const HELP: &str = "refer to parts of a schema as `#/$defs/…`, and to others as `#Name:1.0.0`, \
                    each from few places";

/// Runs only if all parts are valid, and only for schemas whose meaning or cost depends on their
/// position in the bundle.
pub(super) fn check(proposal: &Proposal<'_>, graph: &SchemaGraph<'_>, found: &mut Vec<Diagnostic>) {
    let about_parts = [Code::SchemaInvalid, Code::SchemaUnresolved, Code::SchemaCycle];
    if found.iter().any(|diagnostic| about_parts.contains(&diagnostic.code)) {
        return;
    }
    let peculiar = graph.reaching(|schema| !is_plain(schema));
    let mut work = Work::default();
    for new in &proposal.new {
        let Entity::Tool(tool) = new.entity() else { continue };
        let leads_to_peculiar = || new.references.iter().any(|r| peculiar.contains(&r.key));
        if tool_schema::are_plain(tool) && !leads_to_peculiar() {
            continue;
        }
        for (member, schema) in tool_schema::changed(tool, &|key| schema_of(proposal, key)) {
            if let Err(too_much) = work.add(new, member, schema) {
                let invalid = Diagnostic::error(Code::SchemaInvalid, member, too_much);
                let help = "split the batch, or reduce the references of its schemas";
                return new.report(found, invalid.with_help(help));
            }
        }
    }
    work.report(found);
}

/// Distinct schemas to compile, with the tools that use them.
#[derive(Default)]
struct Work<'n> {
    users: HashMap<Digest, Vec<(&'n NewEntity<'n>, &'static str)>>,
    schemas: Vec<(Digest, Value)>,
    bytes: usize,
    patterns: usize,
}

impl<'n> Work<'n> {
    fn add(
        &mut self,
        new: &'n NewEntity<'n>,
        member: &'static str,
        schema: Value,
    ) -> Result<(), String> {
        let text = schema.to_string();
        let digest = Digest::compute(text.as_bytes());
        let users = self.users.entry(digest).or_default();
        users.push((new, member));
        if users.len() > 1 {
            return Ok(());
        }
        self.bytes += text.len();
        self.patterns += patterns(&schema);
        self.schemas.push((digest, schema));
        let (bytes, most) = (limits::BATCH_BYTES, limits::BATCH_PATTERNS);
        if self.bytes <= bytes && self.patterns <= most {
            return Ok(());
        }
        Err(format!(
            "the tool schemas of the batch, each bundled with its references, have \
             more than {bytes} bytes or {most} patterns"
        ))
    }

    fn report(self, found: &mut Vec<Diagnostic>) {
        let compiled = parallel::map(self.schemas, |(digest, schema)| {
            let problems = compile(&schema, &|_| None).err()?;
            Some((digest, problems.into_iter().next()?))
        });
        for (digest, problem) in compiled.into_iter().flatten() {
            for (new, member) in &self.users[&digest] {
                let message = format!("bundled with the referenced schemas: {problem}");
                let invalid = Diagnostic::error(Code::SchemaInvalid, *member, message);
                new.report(found, invalid.with_help(HELP));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{
        super::testing::{found_of, schema, source_tool, with},
        HELP,
    };
    use crate::diagnostic::Code;
    use crate::limits;

    fn found(registered: &Value, tool: Value) -> String {
        let tool = with(&source_tool("t", "s"), tool);
        found_of(Code::SchemaInvalid, &[schema("A", registered)], &[tool])
    }

    #[test]
    fn unservable_schema_is_rejected() {
        let takes = json!({ "type": "object", "properties": { "a": { "$ref": "#A:1.0.0" } } });
        let into_properties = json!({ "$schema": "http://json-schema.org/draft-07/schema#",
            "$ref": "#/properties/x", "properties": { "x": { "type": "integer" } } });
        let into_data =
            json!({ "$ref": "#/default/x", "default": { "x": { "$ref": "#B:1.0.0" } } });
        for (registered, problem) in [
            (into_properties, "Pointer '/properties/x' does not exist"),
            (into_data, "the schema `#B:1.0.0` is not registered"),
        ] {
            assert_eq!(
                found(&registered, json!({ "inputSchema": takes })),
                format!(
                    "error[schema-invalid] tool/t@1.0.0 at \"/inputSchema\": bundled with the referenced \
                     schemas: {problem} ({HELP})"
                )
            );
        }
    }

    #[test]
    fn dynamic_refs_are_limited_by_validation_cost() {
        let node = |more: Value| {
            let next = json!({ "$dynamicRef": "#node" });
            json!({ "$dynamicAnchor": "node", "type": "object", "allOf": [more],
                "properties": { "left": next, "right": next } })
        };
        let extended = |more: &Value| {
            json!({ "outputSchema": { "$dynamicAnchor": "node", "type": "object",
                "allOf": [{ "$ref": "#A:1.0.0" }, more] } })
        };
        let (nothing, left) =
            (json!({}), json!({ "properties": { "left": { "$dynamicRef": "#node" } } }));
        assert_eq!(found(&node(nothing.clone()), extended(&nothing)), "");
        let heavy = found(&node(nothing), extended(&left));
        insta::assert_snapshot!(
            heavy,
            @"error[schema-invalid] tool/t@1.0.0 at \"/outputSchema\": bundled with the referenced \
              schemas: the schema applies to one location of a value in more than 10000 ways \
              (refer to parts of a schema as `#/$defs/…`, and to others as `#Name:1.0.0`, each \
              from few places)"
        );
    }

    #[test]
    fn bundling_is_limited_and_deduplicated() {
        let patterns: Vec<_> = (0..200).map(|i| json!({ "pattern": i.to_string() })).collect();
        let registered = [schema("A", &json!({ "$anchor": "a", "anyOf": patterns }))];
        let tools = |title: &dyn Fn(usize) -> String| -> Vec<_> {
            let tool = |i| {
                let input = json!({ "type": "object", "properties": { "a": { "$ref": "#A:1.0.0" } },
                    "title": title(i) });
                with(&source_tool(&format!("t{i}"), "s"), json!({ "inputSchema": input }))
            };
            (0..=limits::BATCH_PATTERNS / 200).map(tool).collect()
        };
        let found = |batch: &[_]| found_of(Code::SchemaInvalid, &registered, batch);
        assert_eq!(found(&tools(&|_| "same".to_owned())), "");
        let different = found(&tools(&|i| i.to_string()));
        insta::assert_snapshot!(
            different,
            @"error[schema-invalid] tool/t50@1.0.0 at \"/inputSchema\": the tool schemas of the \
              batch, each bundled with its references, have more than 50331648 bytes or 10000 \
              patterns (split the batch, or reduce the references of its schemas)"
        );
    }

    #[test]
    fn hidden_argument_must_not_be_referenced() {
        let input = json!({ "type": "object", "properties":
            { "a": { "type": "string" }, "b": { "$ref": "#/properties/a" } } });
        let source = |fields: &[&str]| {
            json!({ "source": { "server": "s", "serverVersion": "1.0.0", "tool": "t",
                "hideFields": fields }, "inputSchema": input })
        };
        assert_eq!(found(&json!({}), source(&["b"])), "");
        assert!(found(&json!({}), source(&["a"])).contains("Pointer '/properties/a'"));
    }
}
