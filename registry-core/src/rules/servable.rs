//! `schema-invalid` for a tool whose schemas compile, but not put together with all that they lead
//! to, which is what a gateway shows and checks.
//!
//! Deliberately absent: parts that do not compile by themselves (`schema.rs`), and schemas that a
//! tool inherits from its upstream.

use super::{proposal::Proposal, schema::schema_of, schema_graph::SchemaGraph};
use crate::{
    diagnostic::{Code, Diagnostic},
    entity::Entity,
    tool_schema::{self, bundle::is_plain},
};

const HELP: &str = "refer to parts of a schema as `#/$defs/…`, and to others as `#Name:1.0.0`, \
                    each from few places";

/// Looks only once each part is right, and where one may mean or cost another thing for where it
/// stands.
pub(super) fn check(proposal: &Proposal<'_>, graph: &SchemaGraph<'_>, found: &mut Vec<Diagnostic>) {
    let about_parts = [Code::SchemaInvalid, Code::SchemaUnresolved, Code::SchemaCycle];
    if found.iter().any(|diagnostic| about_parts.contains(&diagnostic.code)) {
        return;
    }
    let peculiar = graph.leading_to(|schema| !is_plain(schema));
    for new in &proposal.new {
        let Entity::Tool(tool) = new.entity() else { continue };
        let leads_to_peculiar = || new.references.iter().any(|r| peculiar.contains(&r.key));
        if tool_schema::are_plain(tool) && !leads_to_peculiar() {
            continue;
        }
        for (member, problem) in tool_schema::unservable(tool, &|key| schema_of(proposal, key)) {
            let message = format!("put together with the schemas that it leads to: {problem}");
            let invalid = Diagnostic::error(Code::SchemaInvalid, member, message);
            new.report(found, invalid.with_help(HELP));
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

    fn found(registered: &Value, tool: Value) -> String {
        let tool = with(&source_tool("t", "s"), tool);
        found_of(Code::SchemaInvalid, &[schema("A", registered)], &[tool])
    }

    #[test]
    fn what_no_gateway_can_put_together_is_refused() {
        let takes = json!({ "type": "object", "properties": { "a": { "$ref": "#A:1.0.0" } } });
        let into_properties = json!({ "$schema": "http://json-schema.org/draft-07/schema#",
            "$ref": "#/properties/x", "properties": { "x": { "type": "integer" } } });
        let into_data =
            json!({ "$ref": "#/default/x", "default": { "x": { "$ref": "#B:1.0.0" } } });
        for (registered, problem) in [
            (into_properties, "Pointer '/properties/x' does not exist"),
            (into_data, "Anchor 'B:1.0.0' does not exist"),
        ] {
            assert_eq!(
                found(&registered, json!({ "inputSchema": takes })),
                format!(
                    "error[schema-invalid] tool/t@1.0.0 at \"/inputSchema\": put together with the \
                     schemas that it leads to: {problem} ({HELP})"
                )
            );
        }
    }

    #[test]
    fn trees_may_be_extended_while_each_value_is_checked_a_few_times() {
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
        assert!(heavy.contains("in more than 10000 ways"), "{heavy}");
    }

    #[test]
    fn hidden_arguments_may_not_be_needed_by_others() {
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
