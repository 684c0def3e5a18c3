//! `composition-mismatch`: the paths of an `outputTransform` select parts of the source's results
//! (warning).
//!
//! The results are known from the output schema of another tool with the same source and no
//! `outputTransform`. The tool's own output schema describes the projected object.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    flow::self_contained::self_contained, proposal::Proposal, schema::schema_of,
    source_schemas::SourceSchemas,
};
use crate::{
    diagnostic::{Code, Diagnostic},
    entity::{Entity, Tool, ToolSource},
    reference::Key,
    schema_inline::InlineBudget,
    spec::{
        Mappings,
        types::{UndeclaredPath, undeclared_paths},
    },
    tool_schema::bundle::bundle,
};

/// Maximum number of steps to check the paths of a batch.
const STEPS: usize = 10_000;

pub(super) fn check<'a>(proposal: &'a Proposal<'a>, found: &mut Vec<Diagnostic>) {
    let mut sources = SourceSchemas::new(proposal, described);
    let mut inlining = InlineBudget::for_server();
    let mut steps = STEPS;
    let mut schemas: BTreeMap<&Key, Option<Value>> = BTreeMap::new();
    for new in &proposal.new {
        let Entity::Tool(tool) = new.entity() else { continue };
        let (Some(transform), Some(source)) = (&tool.output_transform, tool.source()) else {
            continue;
        };
        let Ok(mappings) = Mappings::parse(transform) else { continue };
        if steps == 0 {
            return;
        }
        // Another version of the server can return other results.
        let Some((schema, of)) = sources.find_exact(source) else { continue };
        let schema = schemas.entry(of).or_insert_with(|| {
            let bundled = bundle(schema, &|key| schema_of(proposal, key)).ok()?;
            self_contained(&bundled, &mut inlining)
        });
        let Some(schema) = schema else { continue };
        let paths = undeclared_paths(&mappings, schema, &mut steps);
        for UndeclaredPath { pointer, path, help } in paths {
            let message = format!("the output schema of {of} does not declare {path}");
            let pointer = format!("/outputTransform{pointer}");
            let undeclared = Diagnostic::warning(Code::CompositionMismatch, pointer, message);
            new.report(found, undeclared.with_help(help));
        }
    }
}

/// The source of a tool and its output schema, if the schema describes the results of the source.
fn described(tool: &Tool) -> Option<(&ToolSource, &Value)> {
    if tool.output_transform.is_some() {
        return None;
    }
    Some((tool.source()?, tool.output_schema.as_ref()?))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{found_of, schema, source_tool, tool, with};
    use crate::{diagnostic::Code, rules::Proposed};

    fn source(output: &Value) -> Proposed {
        with(&source_tool("find", "s"), json!({ "outputSchema": output }))
    }

    fn projection(mappings: &Value) -> Proposed {
        let source = json!({ "server": "s", "serverVersion": "1.0.0", "tool": "find" });
        tool("view", json!({ "source": source, "outputTransform": { "mappings": mappings } }))
    }

    /// The findings about a projection of results with this schema.
    fn found(output: &Value, mappings: &Value) -> String {
        let hit = json!({ "type": "object", "additionalProperties": false, "properties": {
            "title": { "type": "string" }, "meta": { "type": "object" } } });
        let registered = [schema("Hit", &hit), source(output)];
        found_of(Code::CompositionMismatch, &registered, &[projection(mappings)])
    }

    fn hits() -> Value {
        json!({ "type": "object", "required": ["hits"], "properties": {
            "total": { "type": "integer" },
            "hits": { "type": "array", "items": { "$ref": "#Hit:1.0.0" } } } })
    }

    #[test]
    fn undeclared_path_gets_warning_with_remedy() {
        let mappings = json!({
            "count": { "path": "$.totl" },
            "first": { "coalesce": { "paths": ["$.hits[0].title", "$.hits[0].name"] } },
            "list": { "path": "$.hits" },
            "list[*].name": { "path": "$.titel" },
            "text": { "concat": { "paths": ["$.total.value"] } },
            "whole": { "nested": { "mappings": {
                "by": { "template": { "template": "{who}", "vars": { "who": "$.author" } } } } } },
        });
        insta::assert_snapshot!(found(&hits(), &mappings), @r#"
        warning[composition-mismatch] tool/view@1.0.0 at "/outputTransform/mappings/count/path": the output schema of tool/find@1.0.0 does not declare $.totl (did you mean `$.total`?)
        warning[composition-mismatch] tool/view@1.0.0 at "/outputTransform/mappings/first/coalesce/paths/1": the output schema of tool/find@1.0.0 does not declare $.hits[0].name ($.hits[0] has title, meta)
        warning[composition-mismatch] tool/view@1.0.0 at "/outputTransform/mappings/list[*].name/path": the output schema of tool/find@1.0.0 does not declare $.titel (did you mean `$.title`?)
        warning[composition-mismatch] tool/view@1.0.0 at "/outputTransform/mappings/text/concat/paths/0": the output schema of tool/find@1.0.0 does not declare $.total.value (select a declared part of $.total)
        warning[composition-mismatch] tool/view@1.0.0 at "/outputTransform/mappings/whole/nested/mappings/by/template/vars/who": the output schema of tool/find@1.0.0 does not declare $.author ($ has total, hits)
        "#);
    }

    #[test]
    fn path_to_missing_array_is_reported_once() {
        let mappings = json!({ "list": { "path": "$.hits.items" },
            "list[*].name": { "path": "$.title" } });
        let found = found(&hits(), &mappings);
        assert_eq!(found.lines().count(), 1, "{found}");
        assert!(found.contains(" at \"/outputTransform/mappings/list/path\""), "{found}");
    }

    #[test]
    fn possible_paths_get_no_warning() {
        let all = json!({ "name": { "path": "$.name" } });
        for output in [
            json!(true),
            json!({ "type": "object" }),
            json!({ "properties": { "title": {} }, "patternProperties": { "^n": {} } }),
            json!({ "properties": { "title": {} }, "patternProperties": { "^n.{3}$": {} } }),
            json!({ "properties": { "title": {} }, "additionalProperties": { "type": "string" } }),
            json!({ "properties": { "title": {} }, "additionalProperties": true }),
            json!({ "properties": { "title": {} },
                "dependentSchemas": { "title": { "properties": { "name": {} } } } }),
            json!({ "oneOf": [{ "properties": { "id": {} } },
                { "additionalProperties": { "type": "string" } }] }),
            json!({ "anyOf": [{ "properties": { "name": {} } }, { "properties": { "id": {} } }] }),
            json!({ "properties": { "title": {} }, "$ref": "#/$defs/a", "$defs": { "a": {
                "properties": { "name": { "$ref": "#" } } } } }),
        ] {
            assert_eq!(found(&output, &all), "", "{output}");
        }
        let deep = json!({ "all": { "path": "$..titel" }, "some": { "path": "$.hits[?@.x].meta.x" },
            "list": { "path": "$.hits" }, "list[*].by": { "path": "$.meta.author" },
            "kind": { "literal": "hit" } });
        assert_eq!(found(&hits(), &deep), "");
    }

    #[test]
    fn closed_schema_without_members_excludes_paths() {
        let closed = json!({ "type": "object", "additionalProperties": false });
        let found = found(&closed, &json!({ "name": { "path": "$.name" } }));
        insta::assert_snapshot!(
            found,
            @"warning[composition-mismatch] tool/view@1.0.0 at \"/outputTransform/mappings/name/path\": \
              the output schema of tool/find@1.0.0 does not declare $.name (select a declared part of $)"
        );
    }

    #[test]
    fn schema_of_another_server_version_is_not_compared() {
        let mappings = json!({ "name": { "path": "$.name" } });
        let own = json!({ "type": "object", "properties": { "title": {} } });
        let newer = json!({ "server": "s", "serverVersion": "2.0.0", "tool": "find" });
        let view = with(&projection(&mappings), json!({ "source": newer }));
        assert_eq!(found_of(Code::CompositionMismatch, &[source(&own)], &[view]), "");
    }

    #[test]
    fn results_are_known_from_one_unprojected_tool_only() {
        let mappings = json!({ "name": { "path": "$.name" } });
        let own = json!({ "type": "object", "properties": { "title": {} } });
        let view = with(&projection(&mappings), json!({ "outputSchema": own }));
        let other = |name: &str| with(&source(&own), json!({ "name": name }));
        let found = |batch: &[Proposed]| found_of(Code::CompositionMismatch, &[], batch);
        assert_eq!(found(std::slice::from_ref(&view)), "");
        assert!(found(&[view.clone(), other("find")]).starts_with("warning"));
        let open = with(&source(&json!(true)), json!({ "name": "open" }));
        assert_eq!(found(&[view, other("find"), open]), "");
    }
}
