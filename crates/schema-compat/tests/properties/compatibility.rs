//! Soundness of verdicts: a "yes" has no counterexample, and a "no" comes with one.
//!
//! Schemas are generated from random bytes over all keywords of draft 2020-12. The second of a pair
//! is mostly a modification of the first, because such pairs reveal most errors.

use proptest::{collection::vec, prelude::*, test_runner::Config};
use schema_compat::{
    compatibility::{Budget, Side, Verdict, covers},
    name::{Definition, SchemaName},
    schema_compile::{Validator, compile},
};
use serde_json::Value;

use crate::schemas::{Choices, REGISTERED, changed, instance, near, schema};

/// Number of values tried per pair.
const VALUES: usize = 60;

fn validator(schema: &Value) -> Option<Validator> {
    compile(schema, &|name| Some(registered(name)?.schema)).ok()
}

fn registered<'a>(wanted: &SchemaName) -> Option<Definition<'a>> {
    let (_, schema) = REGISTERED.iter().find(|(name, _)| name == wanted)?;
    Some(Definition { schema, pointer: "" })
}

fn ask(given: &Value, wanted: &Value) -> Verdict {
    covers((given, ""), (wanted, ""), Side::New, &|name| registered(name), &mut Budget::for_pair())
}

/// Checks one verdict against the validators.
fn is_sound(
    (given, accepts): (&Value, &Validator),
    (wanted, takes): (&Value, &Validator),
    values: &[Value],
) -> Result<Verdict, TestCaseError> {
    let verdict = ask(given, wanted);
    match &verdict {
        Verdict::Yes => {
            for value in values {
                let lost = accepts.is_valid(value) && !takes.is_valid(value);
                prop_assert!(!lost, "{given} is said to be within {wanted}, but {value} is not");
            }
        }
        Verdict::No(found) => {
            let instance = found.instance.as_ref().expect("schemas differ in a value");
            prop_assert!(accepts.is_valid(instance), "{given} rejects {instance}");
            prop_assert!(!takes.is_valid(instance), "{wanted} accepts {instance}");
        }
        Verdict::Undecided(_) => {}
    }
    Ok(verdict)
}

fn check(one: &[u8], change: &[u8], values: &[u8]) -> Result<(), TestCaseError> {
    let old = schema(&mut Choices::new(one));
    let mut choices = Choices::new(change);
    let new = if choices.one_in(8) { schema(&mut choices) } else { changed(&old, &mut choices) };
    let (Some(old_validator), Some(new_validator)) = (validator(&old), validator(&new)) else {
        return Ok(());
    };
    let mut choices = Choices::new(values);
    let mut tried: Vec<Value> = Vec::new();
    for i in 0..VALUES {
        tried.push(match i % 4 {
            0 => near(&old, &mut choices),
            1 => near(&new, &mut choices),
            2 => tried.last().map_or(Value::Null, |last| changed_value(last, &mut choices)),
            _ => instance(&mut choices, 3),
        });
    }
    let (a, b) = ((&old, &old_validator), (&new, &new_validator));
    let there = is_sound(a, b, &tried)?;
    let back = is_sound(b, a, &tried)?;
    // A counterexample in one direction must not contradict the proof in the other.
    for (verdict, other) in [(&there, &back), (&back, &there)] {
        if let (Verdict::No(found), Verdict::Yes) = (verdict, other) {
            let instance = found.instance.clone().expect("schemas differ in a value");
            let [a, b] = [&old_validator, &new_validator].map(|v| v.is_valid(&instance));
            prop_assert!(a != b);
        }
    }
    for same in [a, b] {
        prop_assert_eq!(is_sound(same, same, &tried)?, Verdict::Yes, "{} and itself", same.0);
    }
    Ok(())
}

/// A value with one modified part.
fn changed_value(value: &Value, choices: &mut Choices<'_>) -> Value {
    match value {
        Value::Object(map) => {
            let mut map = map.clone();
            let name = choices.name();
            if choices.one_in(3) {
                map.remove(&name);
            } else {
                map.insert(name, instance(choices, 2));
            }
            Value::Object(map)
        }
        Value::Array(items) => {
            let mut items = items.clone();
            items.push(instance(choices, 2));
            Value::Array(items)
        }
        _ => instance(choices, 2),
    }
}

fn bytes()
-> (impl Strategy<Value = Vec<u8>>, impl Strategy<Value = Vec<u8>>, impl Strategy<Value = Vec<u8>>)
{
    (vec(any::<u8>(), 0..120), vec(any::<u8>(), 0..80), vec(any::<u8>(), 0..400))
}

proptest! {
    #![proptest_config(Config { cases: 1_500, failure_persistence: None, ..Config::default() })]

    #[test]
    fn verdicts_hold_for_sampled_values((one, change, values) in bytes()) {
        check(&one, &change, &values)?;
    }
}

proptest! {
    #![proptest_config(Config { cases: 200_000, failure_persistence: None, ..Config::default() })]

    #[test]
    #[ignore = "takes minutes"]
    fn verdicts_hold_for_many_values((one, change, values) in bytes()) {
        check(&one, &change, &values)?;
    }
}
