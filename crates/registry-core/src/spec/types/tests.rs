//! Each kind of mismatch is an error if no value works, and a warning with an example if some do
//! not.

#![expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]

use serde_json::{Value, json};

use super::*;

fn object(properties: Value, required: Value) -> Value {
    json!({ "type": "object", "properties": properties, "required": required,
        "additionalProperties": false })
}

/// The schemas of tools: `user` returns a user and `mail` accepts one. `more` has others.
fn signature(target: &Target, more: &Value) -> Signature {
    let text = json!({ "type": "string" });
    let user = object(
        json!({ "id": text, "email": text, "tags": { "type": "array", "items": text } }),
        json!(["id"]),
    );
    let name = target.to_string();
    if let Some(schema) = more["takes"].get(&name) {
        return Signature { input: Some(schema.clone()), output: None };
    }
    if let Some(schema) = more["gives"].get(&name) {
        return Signature { input: None, output: Some(schema.clone()) };
    }
    match name.as_str() {
        "user" => Signature { input: None, output: Some(user) },
        "users" => {
            let all = json!({ "type": "array", "items": user });
            Signature { input: None, output: Some(all) }
        }
        "mail" => {
            let mail = json!({ "type": "object", "required": ["to"],
                "properties": { "to": text, "count": { "type": "integer" } } });
            Signature { input: Some(mail), output: Some(json!({ "type": "boolean" })) }
        }
        _ => Signature::default(),
    }
}

fn mismatches(spec: Value, own: Signature, more: Value) -> Vec<Mismatch> {
    let spec = Spec::parse(&spec).unwrap();
    check(&spec, &own, &mut |target| signature(target, &more), &mut Budget::for_batch())
}

fn told(found: Vec<Mismatch>) -> Vec<String> {
    let told = |Mismatch { pointer, message, is_certain, .. }: Mismatch| {
        format!("{}{pointer}: {message}", if is_certain { "! " } else { "? " })
    };
    found.into_iter().map(told).collect()
}

fn found(spec: Value) -> Vec<String> {
    told(mismatches(spec, Signature::default(), json!({})))
}

fn found_of(spec: Value, own: Signature) -> Vec<String> {
    told(mismatches(spec, own, json!({})))
}

/// The findings if a result at `path` is bound to the argument `x`, which has this schema.
fn given(gives: Value, path: &str, takes: Value) -> Vec<Mismatch> {
    let schema = json!({ "type": "object", "properties": { "x": takes }, "required": ["x"] });
    let bound = json!({ "construct": { "fields": { "x": from_step("a", path) } } });
    let steps = json!([{ "id": "a", "operation": { "tool": "give" } },
        { "id": "b", "operation": { "tool": "take" }, "input": bound }]);
    let more = json!({ "gives": { "give": gives }, "takes": { "take": schema } });
    mismatches(json!({ "pipeline": { "steps": steps } }), Signature::default(), more)
}

/// The findings if the result of a pattern must match a schema.
fn after(pattern: Value, wanted: Value, more: Value) -> Vec<Mismatch> {
    let own = Signature { input: None, output: Some(wanted) };
    mismatches(pattern, own, more)
}

fn is_error(found: &[Mismatch]) -> bool {
    found.iter().any(|found| found.is_certain)
}

/// Whether there are warnings, all with an example.
fn is_warning(found: &[Mismatch]) -> bool {
    !found.is_empty() && found.iter().all(|found| !found.is_certain && found.witness.is_some())
}

fn from_step(step: &str, path: &str) -> Value {
    json!({ "step": { "stepId": step, "path": path } })
}

/// The findings of `user` followed by `mail` with this input.
fn mail(input: Value) -> Vec<String> {
    let mut second = json!({ "id": "b", "operation": { "tool": "mail" } });
    if !input.is_null() {
        second["input"] = input;
    }
    let first = json!({ "id": "a", "operation": { "tool": "user" } });
    found(json!({ "pipeline": { "steps": [first, second] } }))
}

fn to(binding: Value) -> Value {
    json!({ "construct": { "fields": { "to": binding } } })
}

const NONE: [String; 0] = [];

#[test]
fn matching_values_are_not_reported() {
    assert_eq!(mail(to(from_step("a", "$.id"))), NONE);
    assert_eq!(mail(to(from_step("a", "$['id']"))), NONE);
    assert_eq!(mail(to(json!({ "constant": "x" }))), NONE);
    assert_eq!(mail(to(json!({ "path": "$.whatever" }))), NONE, "the input has no schema");
    let unknown = json!([{ "id": "a", "operation": { "tool": "any" } },
        { "id": "b", "operation": { "tool": "mail" } }]);
    assert_eq!(found(json!({ "pipeline": { "steps": unknown } })), NONE);
}

#[test]
fn messages_name_property_step_binding_and_source() {
    let place = "/pipeline/steps/1";
    for (input, message) in [
        (
            json!(null),
            "/operation/tool: input of step \"b\": \"to\" is required but $.to selects nothing in the \
             result of \"a\"",
        ),
        (
            to(json!({ "constant": 7 })),
            "/input/construct/fields/to: input of step \"b\": \"to\" must be a string, but the \
             constant is a number",
        ),
        (
            to(from_step("a", "$.missing")),
            "/input/construct/fields/to: input of step \"b\": \"to\" is required but $.missing selects \
             nothing in the result of \"a\"",
        ),
        (
            json!({ "construct": { "fields": {} } }),
            "/input/construct/fields: input of step \"b\": \"to\" is required but not bound",
        ),
        (
            from_step("a", "$.id"),
            "/input: input of step \"b\": the input schema of `mail` requires an object, but $.id in the \
             result of \"a\" is a string",
        ),
        (
            from_step("a", "$.missing"),
            "/input: input of step \"b\": $.missing selects nothing in the result of \"a\"",
        ),
    ] {
        assert_eq!(mail(input.clone()), [format!("! {place}{message}")], "{input}");
    }
    let may = mail(to(from_step("a", "$.email")));
    let message = "/input/construct/fields/to: input of step \"b\": \"to\" is required but $.email may \
                   select nothing in the result of \"a\": `required` rejects {}";
    assert_eq!(may, [format!("? {place}{message}")]);
}

#[test]
fn remedies_are_specific() {
    let gives = object(json!({ "id": {}, "name": { "type": "string" } }), json!(["name"]));
    let help = |path: &str| given(gives.clone(), path, json!({}))[0].help.clone();
    insta::assert_snapshot!(help("$.nmae"), @"did you mean `name`?");
    insta::assert_snapshot!(help("$.other"), @r#"the result of "a" has id, name"#);
    let book = object(json!({ "bookId": {}, "title": {} }), json!(["title"]));
    let books = json!({ "type": "array", "items": book, "minItems": 1 });
    let shelf = object(json!({ "books": books, "shelf": {} }), json!(["books"]));
    let nested = |path: &str| given(shelf.clone(), path, json!({}))[0].help.clone();
    insta::assert_snapshot!(nested("$.books[0].bookid"), @"did you mean `bookId`?");
    insta::assert_snapshot!(nested("$.boks[0].bookId"), @"did you mean `books`?");
    insta::assert_snapshot!(nested("$.books[0].price"), @r#"$.books[0] in the result of "a" has bookId, title"#);
    insta::assert_snapshot!(
        help("$.id"),
        @"require it in the schema of the result of \"a\", or make \"x\" optional in the input \
          schema of `take`"
    );
    let several = json!({ "type": "array", "items": {}, "minItems": 1 });
    let found = given(several, "$[*]", json!({ "type": "array" }));
    insta::assert_snapshot!(
        found[0].help,
        @"$[*] is a bare value when it selects exactly one: bind the array itself, as in $"
    );
}

#[test]
fn undecided_field_does_not_hide_other_findings() {
    let fields = json!({ "to": { "path": "$.unknown" }, "count": { "constant": "many" } });
    let told = mail(json!({ "construct": { "fields": fields } }));
    assert_eq!(told.len(), 1, "{told:?}");
    insta::assert_snapshot!(
        told[0],
        @"! /pipeline/steps/1/input/construct/fields/count: input of step \"b\": \"count\" must be \
          a number, but the constant is a string"
    );
    let fields = json!({ "to": { "path": "$.unknown" }, "count": from_step("a", "$.email") });
    let told = mail(json!({ "construct": { "fields": fields } }));
    assert!(told.iter().any(|told| told.contains("\"count\"")), "{told:?}");
}

#[test]
fn schemas_with_cases_are_followed() {
    let kind = |name: &str| {
        object(
            json!({ "kind": { "const": name }, name: { "type": "string" } }),
            json!(["kind", name]),
        )
    };
    for cases in [
        json!({ "anyOf": [kind("a"), kind("b")] }),
        json!({ "oneOf": [kind("a"), kind("b")] }),
        json!({ "type": "object", "properties": { "kind": { "enum": ["a", "b"] } }, "required": ["kind"],
            "if": { "properties": { "kind": { "const": "a" } } },
            "then": { "properties": { "a": { "type": "string" } }, "required": ["a"] },
            "else": { "properties": { "b": { "type": "string" } }, "required": ["b"] } }),
    ] {
        assert!(given(cases.clone(), "$.kind", json!({ "type": "string" })).is_empty(), "{cases}");
        assert!(is_error(&given(cases.clone(), "$.kind", json!({ "type": "integer" }))), "{cases}");
        assert!(is_warning(&given(cases.clone(), "$.a", json!({ "type": "string" }))), "{cases}");
    }
    let both = json!({ "allOf": [object(json!({ "a": { "type": "string" } }), json!([])), { "required": ["a"] }] });
    assert!(given(both.clone(), "$.a", json!({ "type": "string" })).is_empty());
    assert!(is_error(&given(both, "$.a", json!({ "type": "boolean" }))));
}

#[test]
fn older_drafts_are_followed() {
    let gives = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
        "properties": { "a": { "type": "array", "items": [{ "type": "string" }], "additionalItems": false,
            "minItems": 1 } }, "required": ["a"] });
    assert!(given(gives.clone(), "$.a[0]", json!({ "type": "string" })).is_empty());
    assert!(is_error(&given(gives.clone(), "$.a[0]", json!({ "type": "integer" }))));
    assert!(is_error(&given(gives, "$.a[1]", json!({ "type": "string" }))));
}

#[test]
fn positions_and_wildcards_are_counted() {
    let items = |more: Value| {
        let mut schema = json!({ "type": "array", "items": { "type": "string" } });
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object(json!({ "items": schema, "name": { "type": "string" } }), json!(["items", "name"]))
    };
    let text = json!({ "type": "string" });
    let list = json!({ "type": "array" });
    assert!(
        is_error(&given(items(json!({})), "$.name[0]", text.clone())),
        "a position into a string"
    );
    assert!(is_warning(&given(items(json!({})), "$.items[0]", text.clone())), "perhaps empty");
    assert!(given(items(json!({ "minItems": 1 })), "$.items[0]", text.clone()).is_empty());
    assert!(is_error(&given(items(json!({ "maxItems": 2 })), "$.items[2]", text.clone())));
    let bare = given(items(json!({ "minItems": 1 })), "$.items[*]", list.clone());
    assert!(is_warning(&bare), "one match is a bare value: {bare:?}");
    assert!(given(items(json!({ "minItems": 2 })), "$.items[*]", list.clone()).is_empty());
    assert!(is_error(&given(items(json!({ "minItems": 2 })), "$.items[*]", text)));
    assert!(is_error(&given(items(json!({ "minItems": 1, "maxItems": 1 })), "$.items[*]", list)));
}

fn scatter(targets: Value, ops: Value, fail_fast: bool) -> Value {
    json!({ "scatterGather": { "targets": targets, "aggregation": { "ops": ops },
        "failFast": fail_fast } })
}

#[test]
fn aggregations_are_followed() {
    let text = json!({ "type": "string" });
    let more = json!({ "gives": {
        "a": object(json!({ "x": text }), json!(["x"])),
        "b": object(json!({ "y": { "type": "integer" } }), json!(["y"])),
        "list": { "type": "array", "items": text, "minItems": 2 },
    } });
    let all = json!([{ "tool": "a" }, { "tool": "b" }]);
    let told = |ops: Value, fail_fast: bool, wanted: Value| {
        after(scatter(all.clone(), ops, fail_fast), wanted, more.clone())
    };
    // `merge`: later members override, and positions with `failFast` are those of the targets.
    let merge = json!([{ "merge": true }]);
    let merged =
        json!({ "required": ["x", "y"], "properties": { "x": text, "y": { "type": "integer" } } });
    assert!(told(merge.clone(), true, merged.clone()).is_empty());
    assert!(is_warning(&told(merge.clone(), false, merged)), "a target may fail");
    assert!(is_error(&told(merge.clone(), true, json!({ "properties": { "y": text } }))));
    assert!(is_error(&told(merge, true, json!({ "required": ["z"] }))));
    let position =
        |of: &Value| json!({ "type": "array", "prefixItems": [true, { "required": [of] }] });
    assert!(told(json!([]), true, position(&json!("y"))).is_empty());
    assert!(is_error(&told(json!([]), true, position(&json!("x")))));
    // `flatten` keeps objects.
    let flat = json!([{ "flatten": true }]);
    assert!(is_error(&told(flat.clone(), true, json!({ "items": { "type": "array" } }))));
    assert!(
        told(flat.clone(), true, json!({ "type": "array", "items": { "type": "object" } }))
            .is_empty()
    );
    let lists = scatter(json!([{ "tool": "list" }, { "tool": "list" }]), flat, true);
    assert!(after(lists.clone(), json!({ "minItems": 4, "items": text }), more.clone()).is_empty());
    assert!(is_error(&after(lists, json!({ "maxItems": 3 }), more.clone())));
    let limit = json!([{ "limit": { "count": 1 } }]);
    assert!(is_error(&told(limit.clone(), true, json!({ "minItems": 2 }))));
    assert!(told(limit, true, json!({ "maxItems": 1 })).is_empty());
    assert!(is_warning(&told(json!([]), false, json!({ "maxItems": 1 }))));
    // Only objects can be merged, and only arrays sorted.
    let sort = json!({ "sort": { "field": "$.id", "order": "asc" } });
    let merge_first = scatter(all.clone(), json!([{ "merge": true }, sort]), true);
    assert!(told_of(merge_first, &more)[0].starts_with("! /scatterGather/aggregation/ops/1"));
    let not_objects = scatter(json!([{ "tool": "list" }]), json!([{ "merge": true }]), true);
    assert!(told_of(not_objects, &more)[0].starts_with("! /scatterGather/aggregation/ops/0"));
}

fn told_of(spec: Value, more: &Value) -> Vec<String> {
    told(mismatches(spec, Signature::default(), more.clone()))
}

#[test]
fn limit_bounds_items_and_positions() {
    let gives = json!({ "type": "array", "items": { "type": "string" } });
    let gather = scatter(
        json!([{ "tool": "give" }]),
        json!([{ "flatten": true }, { "limit": { "count": 2 } }]),
        true,
    );
    let steps = |path: &str| {
        json!({ "pipeline": { "steps": [{ "id": "a", "operation": { "pattern": gather } },
            { "id": "b", "operation": { "tool": "take" },
              "input": { "construct": { "fields": { "x": from_step("a", path) } } } }] } })
    };
    let found = |path: &str, x: Value| {
        let takes = json!({ "type": "object", "properties": { "x": x }, "required": ["x"] });
        let more = json!({ "gives": { "give": gives }, "takes": { "take": takes } });
        mismatches(steps(path), Signature::default(), more)
    };
    assert!(is_error(&found("$", json!({ "type": "array", "minItems": 3 }))));
    assert!(is_error(&found("$[2]", json!({}))));
    assert!(is_warning(&found("$", json!({ "type": "array", "minItems": 2 }))));
    assert!(is_warning(&found("$", json!({ "type": "array", "maxItems": 1 }))));
    assert!(found("$", json!({ "type": "array", "maxItems": 2 })).is_empty());
}

#[test]
fn examples_are_reachable() {
    // A `scatterGather` without results fails.
    let gives = json!({ "type": "array", "items": { "type": "string" } });
    let more = json!({ "gives": { "give": gives } });
    let gather = scatter(json!([{ "tool": "give" }, { "tool": "give" }]), json!([]), false);
    assert!(after(gather.clone(), json!({ "minItems": 1 }), more.clone()).is_empty());
    let found = after(gather, json!({ "minItems": 2 }), more);
    assert_eq!(found[0].witness.as_ref().unwrap().value.as_array().unwrap().len(), 1, "{found:?}");
    // A path that is bound twice has one value.
    let takes = json!({ "type": "object", "required": ["x", "y"],
        "anyOf": [{ "properties": { "x": { "const": "" } } }, { "properties": { "y": { "minLength": 1 } } }] });
    let fields = json!({ "x": from_step("a", "$.id"), "y": from_step("a", "$.id") });
    let steps = json!([{ "id": "a", "operation": { "tool": "user" } },
        { "id": "b", "operation": { "tool": "take" }, "input": { "construct": { "fields": fields } } }]);
    let found = mismatches(
        json!({ "pipeline": { "steps": steps } }),
        Signature::default(),
        json!({ "takes": { "take": takes } }),
    );
    assert!(found.iter().all(|found| found.witness.is_none() && !found.is_certain), "{found:?}");
    assert!(!found.is_empty(), "no finding proves compatibility");
}

#[test]
fn filters_and_items_of_results_are_followed() {
    let text = json!({ "type": "string" });
    let more = || {
        json!({ "gives": {
        "list": { "type": "array", "items": { "type": "string" }, "minItems": 2 },
        "number": { "type": "integer" },
    } })
    };
    let two = |second: Value| {
        json!({ "pipeline": { "steps": [{ "id": "a", "operation": { "tool": "list" } },
            { "id": "b", "operation": { "pattern": second } }] } })
    };
    let filter =
        two(json!({ "filter": { "predicate": { "field": "$", "op": "eq", "value": "x" } } }));
    assert!(is_warning(&after(filter.clone(), json!({ "minItems": 1 }), more())));
    assert!(after(filter.clone(), json!({ "items": text }), more()).is_empty());
    assert!(
        is_warning(&after(filter, json!({ "items": { "type": "integer" } }), more())),
        "unless it is empty"
    );
    let each = two(json!({ "mapEach": { "inner": { "pattern": { "schemaMap": { "mappings":
        { "x": { "path": "$" } } } } } } }));
    let items = |x: Value| json!({ "items": { "properties": { "x": x } } });
    assert!(after(each.clone(), items(text), more()).is_empty());
    assert!(is_error(&after(each, items(json!({ "type": "integer" })), more())));
}

#[test]
fn mappings_are_followed() {
    let gives = object(
        json!({ "n": { "type": "integer" }, "m": { "type": ["integer", "null"] }, "s": { "type": "string" } }),
        json!(["n"]),
    );
    let more = json!({ "gives": { "give": gives } });
    let found = |source: Value, wanted: Value| {
        let steps = json!([{ "id": "a", "operation": { "tool": "give" } },
            { "id": "b", "operation": { "pattern": { "schemaMap": { "mappings": { "x": source } } } } }]);
        after(
            json!({ "pipeline": { "steps": steps } }),
            json!({ "properties": { "x": wanted } }),
            more.clone(),
        )
    };
    let coalesce = |paths: Value| json!({ "coalesce": { "paths": paths } });
    let (integer, text) = (json!({ "type": "integer" }), json!({ "type": "string" }));
    assert!(found(coalesce(json!(["$.m", "$.n"])), integer.clone()).is_empty());
    assert!(is_error(&found(coalesce(json!(["$.m", "$.n"])), text.clone())));
    assert!(is_warning(&found(coalesce(json!(["$.m", "$.s"])), integer.clone())));
    assert!(is_error(&found(json!({ "concat": { "paths": ["$.n"] } }), integer)));
    assert!(is_warning(&found(json!({ "path": "$.s" }), text)), "null where nothing is found");
}

#[test]
fn mismatched_fallback_or_dead_letter_is_error() {
    let limit =
        json!({ "inner": { "tool": "any" }, "durationMs": 1, "fallback": { "tool": "mail" } });
    let own = || Signature {
        input: Some(json!({ "type": "object", "additionalProperties": false })),
        output: None,
    };
    let told = found_of(json!({ "timeout": limit }), own());
    assert!(told[0].starts_with("! /timeout/fallback/tool"), "{told:?}");
    let letter = json!({ "inner": { "tool": "any" }, "deadLetterTool": "mail", "rethrow": true });
    let told = found_of(json!({ "deadLetter": letter }), own());
    insta::assert_snapshot!(
        told[0],
        @"! /deadLetter/deadLetterTool: input of the dead-letter tool: \"to\" is required but $.to \
          selects nothing in the dead letter"
    );
    let takes = object(
        json!({ "input": {}, "error": { "type": "object" }, "attempts": { "type": "integer" } }),
        json!(["error"]),
    );
    let letter = json!({ "deadLetter": { "inner": { "tool": "any" }, "deadLetterTool": "letters", "rethrow": true } });
    assert!(mismatches(letter, own(), json!({ "takes": { "letters": takes } })).is_empty());
}

#[test]
fn results_of_fallbacks_are_united() {
    let more =
        json!({ "gives": { "number": { "type": "integer" }, "text": { "type": "string" } } });
    let limit = json!({ "timeout": { "inner": { "tool": "number" }, "durationMs": 1,
        "fallback": { "tool": "text" } } });
    assert!(
        after(limit.clone(), json!({ "type": ["integer", "string"] }), more.clone()).is_empty()
    );
    assert!(is_warning(&after(limit.clone(), json!({ "type": "string" }), more.clone())));
    assert!(is_error(&after(limit, json!({ "type": "array" }), more)));
}

#[test]
fn input_schema_of_first_tool_is_implied() {
    let steps = |path: &str| {
        let bound = json!({ "construct": { "fields": { "to": { "path": path } } } });
        json!({ "pipeline": { "steps": [{ "id": "a", "operation": { "tool": "first" } },
            { "id": "b", "operation": { "tool": "mail" }, "input": bound }] } })
    };
    let takes = object(json!({ "name": { "type": "string" } }), json!(["name"]));
    let found = |path: &str| {
        told(mismatches(steps(path), Signature::default(), json!({ "takes": { "first": takes } })))
    };
    assert_eq!(found("$.name"), NONE);
    assert_eq!(
        found("$.nmae"),
        [
            "! /pipeline/steps/1/input/construct/fields/to: input of step \"b\": \"to\" is required but \
          $.nmae selects nothing in the input of the composition"
        ]
    );
}

#[test]
fn compensation_and_output_are_checked() {
    let step = json!({ "id": "a", "name": "a", "action": { "tool": "user" },
        "compensate": { "tool": "mail" }, "compensateInput": from_step("a", "$") });
    let told = found(json!({ "saga": { "steps": [step] } }));
    insta::assert_snapshot!(
        told[0],
        @"! /saga/steps/0/compensateInput: input of the compensation of step \"a\": \"to\" is \
          required but $.to selects nothing in the result of \"a\""
    );
    let own = |output: Value| Signature { input: None, output: Some(output) };
    let spec = json!({ "pipeline": { "steps": [{ "id": "a", "operation": { "tool": "user" } }] } });
    assert_eq!(found_of(spec.clone(), own(json!({ "required": ["id"] }))), NONE);
    let may = found_of(spec.clone(), own(json!({ "required": ["email"] })));
    insta::assert_snapshot!(
        may[0],
        @"? /pipeline/steps/0: result: \"email\" is required but $.email may select nothing in the \
          result of \"a\": `required` rejects {\"id\":\"\"}"
    );
    let never = found_of(spec, own(json!({ "type": "array" })));
    assert!(never[0].starts_with("! /pipeline/steps/0: result: "), "{never:?}");
    let steps = json!([{ "id": "x", "name": "x", "action": { "tool": "user" } }]);
    let saga = json!({ "saga": { "steps": steps } });
    let both = json!({ "required": ["x"], "properties": { "x": { "required": ["id"] } } });
    assert_eq!(found_of(saga.clone(), own(both)), NONE);
    assert!(found_of(saga, own(json!({ "required": ["y"] })))[0].starts_with("! "));
}

#[test]
fn arrays_and_keys_are_required() {
    let own = || Signature {
        input: Some(object(json!({ "id": {}, "a": { "type": "string" } }), json!(["a"]))),
        output: None,
    };
    let once = |key: &str| {
        found_of(
            json!({ "idempotent": { "inner": { "tool": "any" }, "keyPaths": [key],
            "onDuplicate": "error" } }),
            own(),
        )
    };
    assert_eq!(once("$.a"), NONE);
    insta::assert_snapshot!(
        once("$.di")[0],
        @"! /idempotent/keyPaths/0: key: $.di selects nothing in the input of the composition"
    );
    insta::assert_snapshot!(
        once("$.id")[0],
        @"? /idempotent/keyPaths/0: key: $.id may select nothing in the input of the composition"
    );
    let step = json!({ "id": "a", "name": "a", "action": { "tool": "any" } });
    let saga = json!({ "saga": { "steps": [step], "sagaIdPath": "$.di" } });
    assert!(found_of(saga, own())[0].starts_with("! /saga/sagaIdPath"));
    let filter = json!({ "filter": { "predicate": { "field": "$", "op": "eq", "value": 1 } } });
    insta::assert_snapshot!(
        found_of(filter, own())[0],
        @"! /filter: input: `filter` requires an array, but the input of the composition is an \
          object"
    );
}

#[test]
fn items_of_possibly_empty_array_cause_warnings() {
    let each = json!({ "mapEach": { "inner": { "tool": "mail" } } });
    let steps = json!([{ "id": "a", "operation": { "tool": "users" } },
        { "id": "b", "operation": { "pattern": each } }]);
    let told = found(json!({ "pipeline": { "steps": steps } }));
    let place =
        "? /pipeline/steps/1/operation/pattern/mapEach/inner/tool: input for each item: \"to\"";
    assert!(told[0].starts_with(place), "{told:?}");
}

#[test]
fn skipped_duplicate_is_null() {
    let once = |on_duplicate: &str| {
        json!({ "idempotent": { "inner": { "tool": "user" }, "keyPaths": ["$.id"],
            "onDuplicate": on_duplicate } })
    };
    let found = |on_duplicate: &str, wanted: Value| {
        let input = object(json!({ "id": { "type": "string" } }), json!(["id"]));
        let own = Signature { input: Some(input), output: Some(wanted) };
        mismatches(once(on_duplicate), own, json!({}))
    };
    let user = json!({ "required": ["id"], "type": "object" });
    assert!(found("cached", user.clone()).is_empty());
    let skipped = found("skip", user);
    assert!(is_warning(&skipped), "{skipped:?}");
    insta::assert_snapshot!(
        skipped[0].message,
        @"result: the output schema of the composition may reject the result: `type` rejects null"
    );
    assert!(is_error(&found("error", json!({ "type": "array" }))));
}

#[test]
fn doubling_steps_terminate() {
    let twice = |id: usize| {
        let before = from_step(&format!("s{}", id - 1), "$");
        json!({ "id": format!("s{id}"),
            "input": { "construct": { "fields": { "a": before, "b": before } } },
            "operation": { "pattern": { "schemaMap": { "mappings": { "x": { "path": "$" } } } } } })
    };
    let mut steps = vec![json!({ "id": "s0", "operation": { "tool": "user" } })];
    steps.extend((1..100).map(twice));
    assert_eq!(found(json!({ "pipeline": { "steps": steps } })), NONE);
}

/// The findings of a saga whose first step is compensated with this input.
fn compensated(input: Value, more: Value) -> Vec<Mismatch> {
    let mut first = json!({ "id": "a", "name": "a", "action": { "tool": "number" },
        "compensate": { "tool": "undo" }, "compensateInput": input });
    first.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let second = json!({ "id": "b", "name": "b", "action": { "tool": "number" } });
    let number = object(json!({ "n": { "type": "integer" } }), json!(["n"]));
    let undo = |of: &str| json!({ "type": "object", "properties": { "l": { "type": of } }, "required": ["l"] });
    let of = more["takes"].as_str().unwrap_or("integer");
    first.as_object_mut().unwrap().remove("takes");
    let more = json!({ "gives": { "number": number }, "takes": { "undo": undo(of) } });
    mismatches(json!({ "saga": { "steps": [first, second] } }), Signature::default(), more)
}

#[test]
fn compensation_may_lack_results_of_later_steps() {
    let l = |step: &str, path: &str| json!({ "construct": { "fields": { "l": from_step(step, path) } } });
    let is_array = json!({ "takes": "array" });
    assert!(is_error(&compensated(l("b", "$.n"), is_array.clone())), "an integer is not an array");
    assert!(is_error(&compensated(l("b", "$.m"), json!({}))), "there is no such path");
    assert!(
        is_error(&compensated(from_step("b", "$.n"), json!({}))),
        "an integer is not an object"
    );
    let late = compensated(l("b", "$.n"), json!({}));
    assert!(is_warning(&late), "{late:?}");
    assert_eq!(
        told(late),
        ["? /saga/steps/0/compensateInput/construct/fields/l: input of the compensation of step \
             \"a\": \"l\" is required but $.n selects nothing while the result of \"b\" is missing: \
             `required` rejects {}"]
    );
    assert!(compensated(l("a", "$.n"), json!({})).is_empty());
    let unknown = json!({ "compensateOnUnknown": true });
    assert!(is_warning(&compensated(l("a", "$.n"), unknown)), "the outcome may be unknown");
}

#[test]
fn late_targets_are_omitted_despite_fail_fast() {
    let p = |name: &str| object(json!({ name: { "type": "string" } }), json!([name]));
    let scatter = |limit: Value, ops: Value| {
        let mut scatter = json!({ "targets": [{ "tool": "slow" }, { "tool": "fast" }],
            "failFast": true, "aggregation": { "ops": ops } });
        scatter.as_object_mut().unwrap().extend(limit.as_object().unwrap().clone());
        json!({ "scatterGather": scatter })
    };
    let found = |limit: Value| {
        let wanted = json!({ "type": "object", "required": ["p", "q"] });
        let more = json!({ "gives": { "slow": p("p"), "fast": p("q") } });
        after(scatter(limit, json!([{ "merge": true }])), wanted, more)
    };
    assert!(found(json!({})).is_empty());
    assert!(is_warning(&found(json!({ "timeoutMs": 300 }))));
}

#[test]
fn slices_and_counts_of_members_are_bounded() {
    let list = |more: Value| {
        let mut schema = json!({ "type": "array", "items": { "type": "string" } });
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    let at_least = |count: u64| json!({ "type": "array", "minItems": count });
    assert!(is_error(&given(list(json!({})), "$[0:2]", at_least(3))));
    assert!(is_error(&given(list(json!({ "maxItems": 3 })), "$[3:9]", json!({}))));
    assert!(given(list(json!({ "minItems": 4 })), "$[1:-1]", at_least(2)).is_empty());
    assert!(is_warning(&given(list(json!({})), "$[:3]", at_least(3))));
    let bare = given(list(json!({})), "$[0:2]", json!({ "type": "array" }));
    let help: Vec<_> = bare.iter().map(|found| found.help.as_str()).collect();
    insta::assert_snapshot!(help.join("\n"), @r#"
    $[0:2] selects nothing in an empty array: add `minItems` to the schema of the result of "a", or make "x" optional in the input schema of `take`
    $[0:2] is a bare value when it selects exactly one: bind the array itself, as in $
    "#);
    let two = json!({ "type": "object", "minProperties": 2 });
    let fields = json!({ "construct": { "fields": { "x": { "constant": 1 } } } });
    let steps = json!([{ "id": "a", "operation": { "tool": "take" }, "input": fields }]);
    let spec = json!({ "pipeline": { "steps": steps } });
    assert!(is_error(&mismatches(spec, Signature::default(), json!({ "takes": { "take": two } }))));
}

#[test]
fn matching_patterns_declare_a_member() {
    let gives = |required: Value| {
        json!({ "type": "object", "required": required,
            "patternProperties": { "^x_": { "type": "string" } } })
    };
    let text = json!({ "type": "string" });
    assert!(given(gives(json!(["x_a"])), "$.x_a", text.clone()).is_empty());
    assert!(is_error(&given(gives(json!(["x_a"])), "$.x_a", json!({ "type": "integer" }))));
    let may = given(gives(json!([])), "$.x_a", text);
    assert!(is_warning(&may) && !may[0].message.contains("declare"), "{may:?}");
}

#[test]
fn input_without_schema_is_object() {
    let each = json!({ "mapEach": { "inner": { "tool": "any" } } });
    insta::assert_snapshot!(
        found(each)[0],
        @"! /mapEach: input: `mapEach` requires an array, but the input of the composition is an \
          object"
    );
    let filter = json!({ "filter": { "predicate": { "field": "$", "op": "eq", "value": 1 } } });
    assert!(found(filter)[0].starts_with("! /filter"));
    let first = json!([{ "id": "a", "operation": { "tool": "any" }, "input": { "path": "$[0]" } }]);
    assert!(found(json!({ "pipeline": { "steps": first } }))[0].starts_with("! "));
    assert_eq!(mail(json!({ "path": "$.any" })), NONE);
    assert_eq!(mail(json!({ "path": "$" })), NONE);
}

#[test]
fn definite_mismatches_take_no_budget() {
    let check_with_nothing = |fields: Value| {
        let steps = json!([{ "id": "a", "operation": { "tool": "user" } },
            { "id": "b", "operation": { "tool": "mail" },
              "input": { "construct": { "fields": fields } } }]);
        let spec = Spec::parse(&json!({ "pipeline": { "steps": steps } })).unwrap();
        let mut spent = Budget::for_batch().divided(usize::MAX, 0);
        let mut called = |target: &Target| signature(target, &json!({}));
        check(&spec, &Signature::default(), &mut called, &mut spent)
    };
    let last = [
        json!({ "to": from_step("a", "$.id"), "count": from_step("a", "$.id") }),
        json!({ "to": from_step("a", "$.missing") }),
        json!({ "count": { "constant": 1 } }),
    ]
    .map(|fields| {
        let found = check_with_nothing(fields);
        assert!(is_error(&found), "{found:?}");
        found.last().unwrap().message.clone()
    });
    insta::assert_snapshot!(last.join("\n"), @"
    the batch used up its checking budget, so only types and missing properties were checked
    the batch used up its checking budget, so only types and missing properties were checked
    the batch used up its checking budget, so only types and missing properties were checked
    ");
    let found = check_with_nothing(json!({ "to": from_step("a", "$.id") }));
    assert!(!is_error(&found) && found.len() == 1, "{found:?}");
}

#[test]
fn hidden_fields_are_not_suggested_and_empty_cache_keys_reported() {
    let takes = json!({ "type": "object", "properties": { "x": false, "y": {} } });
    let fields = json!({ "construct": { "fields": { "x": { "constant": 1 } } } });
    let steps = json!([{ "id": "a", "operation": { "tool": "take" }, "input": fields }]);
    let found = mismatches(
        json!({ "pipeline": { "steps": steps } }),
        Signature::default(),
        json!({ "takes": { "take": takes } }),
    );
    insta::assert_snapshot!(found[0].help, @r#"remove "x", or use one of y"#);
    let cache = json!({ "cache": { "inner": { "tool": "any" }, "keyPaths": ["$.id", "$.di"],
        "ttlSeconds": 1 } });
    let own = Signature {
        input: Some(object(json!({ "id": { "type": "string" } }), json!(["id"]))),
        output: None,
    };
    assert_eq!(
        found_of(cache, own),
        ["? /cache/keyPaths/1: key: $.di in the input of the composition selects nothing, so all \
             inputs share one entry"]
    );
}
