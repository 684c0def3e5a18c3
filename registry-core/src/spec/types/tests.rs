//! What is told of flows that do not fit, that may not, and that do.

#![expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]

use serde_json::{Value, json};

use super::*;

/// `user` gives a user, `mail` wants one, `any` says nothing.
fn signature(target: &Target) -> Signature {
    let user = json!({ "type": "object", "required": ["id"], "additionalProperties": false,
        "properties": { "id": { "type": "string" }, "email": { "type": "string" },
            "tags": { "type": "array", "items": { "type": "string" } } } });
    let mail = json!({ "type": "object", "required": ["to"],
        "properties": { "to": { "type": "string" }, "count": { "type": "integer" } } });
    match target.to_string().as_str() {
        "user" => Signature { input: None, output: Some(user) },
        "mail" => Signature { input: Some(mail), output: Some(json!({ "type": "boolean" })) },
        "users" => {
            let all = json!({ "type": "array", "items": user });
            Signature { input: None, output: Some(all) }
        }
        _ => Signature::default(),
    }
}

fn found(spec: Value) -> Vec<String> {
    found_of(spec, Signature::default())
}

fn found_of(spec: Value, own: Signature) -> Vec<String> {
    let spec = Spec::parse(&spec).unwrap();
    let found = check(&spec, &own, &mut |target| signature(target), &mut Budget::of_batch());
    let told = |Mismatch { pointer, message, is_certain }: Mismatch| {
        format!("{}{pointer}: {message}", if is_certain { "! " } else { "? " })
    };
    found.into_iter().map(told).collect()
}

/// A user, and then mail with this input.
fn mail(input: Value) -> Vec<String> {
    let mut second = json!({ "id": "b", "operation": { "tool": "mail" } });
    if !input.is_null() {
        second["input"] = input;
    }
    let first = json!({ "id": "a", "operation": { "tool": "user" } });
    found(json!({ "pipeline": { "steps": [first, second] } }))
}

fn of_user(path: &str) -> Value {
    json!({ "step": { "stepId": "a", "path": path } })
}

fn to(binding: Value) -> Value {
    json!({ "construct": { "fields": { "to": binding } } })
}

#[test]
fn what_fits_is_not_mentioned() {
    assert_eq!(mail(to(of_user("$.id"))), Vec::<String>::new());
    assert_eq!(mail(to(of_user("$['id']"))), Vec::<String>::new());
    assert_eq!(mail(to(json!({ "constant": "x" }))), Vec::<String>::new());
    assert_eq!(mail(to(json!({ "path": "$.whatever" }))), Vec::<String>::new(), "nobody knows");
    let unknown = json!([{ "id": "a", "operation": { "tool": "any" } },
        { "id": "b", "operation": { "tool": "mail" } }]);
    assert_eq!(found(json!({ "pipeline": { "steps": unknown } })), Vec::<String>::new());
}

#[test]
fn what_never_fits_is_an_error_with_an_example() {
    let place = "! /pipeline/steps/1/operation/tool: what comes here never fits the input schema of \
                 `mail`: ";
    for (input, example) in [
        (json!(null), r#"`required` refuses {"id":""}"#),
        (to(json!({ "constant": 7 })), r#"`type` refuses {"to":7}"#),
        (to(of_user("$.missing")), "`required` refuses {}"),
        (json!({ "construct": { "fields": {} } }), "`required` refuses {}"),
        (of_user("$.id"), r#"`type` refuses """#),
    ] {
        assert_eq!(mail(input.clone()), [format!("{place}{example}")], "{input}");
    }
    let told = mail(of_user("$.missing"));
    assert!(told[0].starts_with("! /pipeline/steps/1/input: nothing that may come"), "{told:?}");
}

#[test]
fn what_may_not_fit_is_a_warning_with_an_example() {
    let told = mail(to(of_user("$.email")));
    assert_eq!(
        told,
        ["? /pipeline/steps/1/operation/tool: what comes here need not fit the input schema of \
          `mail`: `required` refuses {}"]
    );
}

#[test]
fn arrays_are_looked_into() {
    let each = json!({ "mapEach": { "inner": { "tool": "mail" } } });
    let steps = json!([{ "id": "a", "operation": { "tool": "users" } },
        { "id": "b", "operation": { "pattern": each } }]);
    let told = found(json!({ "pipeline": { "steps": steps } }));
    // There may be no items, so it is not certain that it fails.
    let place =
        "? /pipeline/steps/1/operation/pattern/mapEach/inner/tool: what comes here never fits";
    assert!(told[0].starts_with(place), "{told:?}");
}

#[test]
fn what_a_composition_promises_is_compared() {
    let own = |output: Value| Signature { input: None, output: Some(output) };
    let spec = json!({ "pipeline": { "steps": [{ "id": "a", "operation": { "tool": "user" } }] } });
    assert_eq!(found_of(spec.clone(), own(json!({ "required": ["id"] }))), Vec::<String>::new());
    let told = found_of(spec.clone(), own(json!({ "required": ["email"] })));
    assert!(told[0].starts_with("? : what comes here need not fit the composition's output"));
    let told = found_of(spec, own(json!({ "type": "array" })));
    assert!(told[0].starts_with("! : "), "{told:?}");
}

#[test]
fn compensations_and_fallbacks_are_looked_at() {
    let step = json!({ "id": "a", "name": "a", "action": { "tool": "user" },
        "compensate": { "tool": "mail" }, "compensateInput": of_user("$") });
    let told = found(json!({ "saga": { "steps": [step] } }));
    assert!(told[0].starts_with("! /saga/steps/0/compensate/tool"), "{told:?}");
    let limit =
        json!({ "inner": { "tool": "any" }, "durationMs": 1, "fallback": { "tool": "mail" } });
    let own = Signature {
        input: Some(json!({ "type": "object", "additionalProperties": false })),
        output: None,
    };
    let told = found_of(json!({ "timeout": limit }), own);
    assert!(told[0].starts_with("! /timeout/fallback/tool"), "{told:?}");
}

#[test]
fn what_takes_an_array_gets_one_and_what_must_be_there_is_there() {
    let map_each = |path: &str| {
        let inner = json!({ "schemaMap": { "mappings": { "x": { "path": "$" } } } });
        let each = json!({ "mapEach": { "inner": { "pattern": inner } } });
        json!([{ "id": "a", "operation": { "tool": "user" } },
            { "id": "b", "operation": { "pattern": each }, "input": of_user(path) }])
    };
    let told = |path| found(json!({ "pipeline": { "steps": map_each(path) } }));
    let place = "/pipeline/steps/1/operation/pattern/mapEach: what comes here";
    assert!(told("$.id")[0].starts_with(&format!("! {place} never fits an array")));
    assert_eq!(told("$.tags"), Vec::<String>::new());
    let filter = json!({ "filter": { "predicate": { "field": "$", "op": "eq", "value": 1 } } });
    assert!(found(filter)[0].starts_with("! /filter: what comes here never fits an array"));
    let scatter = |ops: Value| {
        let targets = json!([{ "tool": "user" }]);
        found(json!({ "scatterGather": { "targets": targets, "aggregation": { "ops": ops } } }))
    };
    let sort = json!({ "sort": { "field": "$.id", "order": "asc" } });
    assert!(
        scatter(json!([{ "merge": true }, sort]))[0].starts_with("! /scatterGather/aggregation")
    );
    assert_eq!(scatter(json!([sort, { "merge": true }])), Vec::<String>::new());

    let own = || Signature {
        input: Some(
            json!({ "type": "object", "properties": { "id": {} }, "additionalProperties": false }),
        ),
        output: None,
    };
    let once = |key: &str| {
        found_of(
            json!({ "idempotent": { "inner": { "tool": "any" }, "keyPaths": [key],
            "onDuplicate": "error" } }),
            own(),
        )
    };
    assert_eq!(once("$.id"), Vec::<String>::new());
    assert_eq!(
        once("$.di"),
        ["! /idempotent/keyPaths/0: nothing that may come has what $.di selects"]
    );
    let step = json!({ "id": "a", "name": "a", "action": { "tool": "any" } });
    let saga = json!({ "saga": { "steps": [step], "sagaIdPath": "$.di" } });
    assert!(found_of(saga, own())[0].starts_with("! /saga/sagaIdPath"));
}

#[test]
fn what_comes_after_any_pattern_is_known() {
    let after = |pattern: Value, wanted: Value| {
        let steps = json!([{ "id": "a", "operation": { "pattern": pattern } }]);
        let own = Signature { input: None, output: Some(wanted) };
        found_of(json!({ "pipeline": { "steps": steps } }), own)
    };
    let once = |on_duplicate: &str| {
        json!({ "idempotent": { "inner": { "tool": "user" }, "keyPaths": ["$.id"],
            "onDuplicate": on_duplicate } })
    };
    let user = json!({ "required": ["id"], "type": "object" });
    assert_eq!(after(once("cached"), user.clone()), Vec::<String>::new());
    let told = after(once("skip"), user.clone());
    assert!(told[0].starts_with("? : ") && told[0].ends_with("`type` refuses null"), "{told:?}");
    assert!(after(once("error"), json!({ "type": "array" }))[0].starts_with("! : "));

    let letter = |rethrow: bool| {
        json!({ "deadLetter": { "inner": { "tool": "user" }, "deadLetterTool": "mail",
            "rethrow": rethrow } })
    };
    let told = after(letter(true), user.clone());
    let place = "? /pipeline/steps/0/operation/pattern/deadLetter/deadLetterTool: what comes here \
                 never fits the input schema of `mail`";
    assert!(told.len() == 1 && told[0].starts_with(place), "{told:?}");
    let told = after(letter(false), user);
    assert!(told[1].ends_with("`type` refuses true"), "{told:?}");

    let steps = json!([{ "id": "x", "name": "x", "action": { "tool": "user" } }]);
    let saga = json!({ "saga": { "steps": steps } });
    let both = json!({ "required": ["x"], "properties": { "x": { "required": ["id"] } } });
    assert_eq!(after(saga.clone(), both), Vec::<String>::new());
    assert!(after(saga, json!({ "required": ["y"] }))[0].starts_with("! : "));
}

#[test]
fn steps_that_double_what_is_before_them_end() {
    let twice = |id: usize| {
        let of = json!({ "step": { "stepId": format!("s{}", id - 1), "path": "$" } });
        json!({ "id": format!("s{id}"), "input": { "construct": { "fields": { "a": of, "b": of } } },
            "operation": { "pattern": { "schemaMap": { "mappings": { "x": { "path": "$" } } } } } })
    };
    let mut steps = vec![json!({ "id": "s0", "operation": { "tool": "user" } })];
    steps.extend((1..100).map(twice));
    assert_eq!(found(json!({ "pipeline": { "steps": steps } })), Vec::<String>::new());
}
