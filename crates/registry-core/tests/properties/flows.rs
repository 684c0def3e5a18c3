//! Static flow checking, compared with actual values: a value that arrives never has a certain
//! mismatch, and every bound value is in its computed shape.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*, sample::select};
use registry_core::spec::{
    Spec, Target,
    eval::{BindingContext, Budget},
    types::{Signature, check},
};
use schema_compat::compatibility::Budget as Comparing;
use serde_json::{Map, Value, json};

const NAMES: [&str; 3] = ["a", "b", "c"];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..9_i64).prop_map(Value::from),
        select(vec!["x", "y"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((select(&NAMES[..]), inner), 0..3).prop_map(|members| {
                Value::Object(members.into_iter().map(|(n, v)| (n.to_owned(), v)).collect())
            }),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    vec(value(), 3).prop_map(|values| {
        let members = NAMES.into_iter().zip(values);
        Value::Object(members.map(|(name, value)| (name.to_owned(), value)).collect())
    })
}

/// A schema that accepts a value, and more depending on `loose`.
fn schema_of(value: &Value, loose: u8) -> Value {
    match value {
        Value::Object(members) => {
            // An open schema does not declare every member.
            let told = members.iter().filter(|(name, _)| loose & 2 == 0 || *name != "c");
            let properties: Map<_, _> =
                told.map(|(name, v)| (name.clone(), schema_of(v, loose))).collect();
            let mut schema = json!({ "type": "object", "properties": properties });
            if loose & 1 == 0 {
                schema["required"] = properties.keys().cloned().collect();
            }
            if loose & 2 == 0 {
                schema["additionalProperties"] = json!(false);
            }
            schema
        }
        Value::Array(items) => {
            let all: Vec<_> = items.iter().map(|item| schema_of(item, loose)).collect();
            match all.as_slice() {
                [] => json!({ "type": "array" }),
                [first, rest @ ..] if rest.iter().all(|one| one == first) => {
                    json!({ "type": "array", "items": first })
                }
                _ => json!({ "type": "array", "items": { "anyOf": all } }),
            }
        }
        Value::String(_) => json!({ "type": "string" }),
        Value::Number(_) => json!({ "type": "integer" }),
        Value::Bool(_) => json!({ "type": "boolean" }),
        Value::Null => json!({ "type": "null" }),
    }
}

fn path() -> impl Strategy<Value = String> {
    let segment = select(vec![".a", ".b", ".c", "[0]", "[*]", "['a']", ".*", "..a"]);
    let any = vec(segment, 0..4).prop_map(|segments| format!("${}", segments.concat()));
    prop_oneof![select(&NAMES[..]).prop_map(|name| format!("$.{name}")), any]
}

fn binding() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        path().prop_map(|path| json!({ "step": { "stepId": "give", "path": path } })),
        path().prop_map(|path| json!({ "input": { "path": path } })),
        value().prop_map(|value| json!({ "constant": value })),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        vec((select(&NAMES[..]), inner), 0..3).prop_map(|fields| {
            let fields: Map<_, _> = fields.into_iter().map(|(n, b)| (n.to_owned(), b)).collect();
            json!({ "construct": { "fields": fields } })
        })
    })
}

proptest! {
    #[test]
    fn accepted_value_never_has_certain_mismatch(
        (given, loose) in (object(), 0..4_u8),
        // Arguments are objects.
        input in value().prop_map(|any| if any.is_object() { any } else { json!({ "a": any }) }),
        binding in prop_oneof![
            binding(),
            binding().prop_map(|any| json!({ "construct": { "fields": { "a": any } } })),
        ],
    ) {
        let steps = json!([{ "id": "give", "operation": { "tool": "give" } },
            { "id": "take", "operation": { "tool": "take" }, "input": binding }]);
        let spec = Spec::parse(&json!({ "pipeline": { "steps": steps } })).unwrap();
        let Spec::Pipeline(pipeline) = &spec else { unreachable!() };
        let results = BTreeMap::from([("give".to_owned(), given.clone())]);
        let scope = BindingContext { input: &input, steps: &results, error: None };
        let bound = pipeline.steps[1].input.as_ref().unwrap();
        let Ok(taken) = bound.resolve(scope, &mut Budget::new(1 << 20)) else { return Ok(()) };
        // Tools accept only objects.
        prop_assume!(taken.is_object());
        let own = Signature { input: Some(schema_of(&input, loose)), output: None };
        let mut called = |target: &Target| match target.to_string().as_str() {
            "give" => Signature { input: None, output: Some(schema_of(&given, loose)) },
            _ => Signature { input: Some(json!({ "const": taken })), output: None },
        };
        for found in check(&spec, &own, &mut called, &mut Comparing::for_batch()) {
            let is_about_take = found.pointer.starts_with("/pipeline/steps/1");
            prop_assert!(!is_about_take || !found.is_certain, "{found:?} of {taken}");
        }
    }
}
