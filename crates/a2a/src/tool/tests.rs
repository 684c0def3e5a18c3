//! Messages and results in both versions.

#![expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]

use proptest::prelude::*;
use serde_json::{Value, json, value::to_raw_value};

use super::*;

/// The structured content of a response and whether it is an error; or the reason of an unknown
/// outcome.
fn outcome(answer: &Value, text: Text) -> Option<Result<(Value, bool), String>> {
    let result = match SendResponse::read(&to_raw_value(answer).unwrap())? {
        SendResponse::Message(message) => of_message(&message, text),
        SendResponse::Task(task) => match of_task(&task, text) {
            Ok(result) => result,
            Err(error) => return Some(Err(told(&error))),
        },
    };
    let result: Value = serde_json::from_str(&result).expect("the result is JSON");
    let is_error = result["isError"] == true;
    let words = &result["content"][0]["text"];
    let value = result.get("structuredContent").unwrap_or(words).clone();
    if !(value.is_string() || value.is_null()) {
        assert_eq!(serde_json::from_str::<Value>(words.as_str().unwrap()).unwrap(), value);
    }
    Some(Ok((value, is_error)))
}

/// The structured content and `isError` of a known outcome.
fn result(answer: &Value) -> (Value, bool) {
    outcome(answer, Text::MayBeJson).unwrap().unwrap()
}

/// The reason of an unknown outcome and the agent's message.
fn told(OpenTask { why, said }: &OpenTask) -> String {
    format!("{why} / {}", said.as_deref().unwrap_or_default())
}

fn task(state: &str, artifacts: Value, message: Value) -> Value {
    json!({ "id": "t", "status": { "state": state, "message": message }, "artifacts": artifacts })
}

#[test]
fn result_is_data_else_text() {
    let message = |parts: Value| result(&json!({ "message": { "parts": parts } }));
    let data = json!({ "data": { "n": 12_345_678_901_234_567_890_u64 } });
    assert_eq!(
        message(json!([{ "text": "see" }, data])),
        (data["data"].clone(), false),
        "next to data, text explains"
    );
    assert_eq!(message(json!([{ "data": 1 }, { "data": [2] }])), (json!([1, [2]]), false));
    assert_eq!(message(json!([{ "text": "a" }, { "text": "b" }])), (json!("ab"), false));

    let artifacts = json!([{ "parts": [{ "text": "a" }, { "text": "b" }] },
        { "parts": [{ "raw": "" }, { "text": "c" }] }]);
    let completed = |artifacts: &Value, message: Value| {
        let task = task("TASK_STATE_COMPLETED", artifacts.clone(), message);
        result(&json!({ "task": task }))
    };
    let last = json!({ "parts": [{ "text": "done" }] });
    assert_eq!(completed(&artifacts, last.clone()), (json!("ab\nc"), false));
    assert_eq!(completed(&json!([]), last), (json!("done"), false));
}

#[test]
fn completed_task_without_output_succeeds() {
    let nothing = (Value::Null, false);
    for parts in [json!([]), json!([{ "url": "https://x.example" }, { "raw": "AA==" }])] {
        assert_eq!(result(&json!({ "message": { "parts": parts } })), nothing);
        let task = task("completed", json!([{ "parts": parts }]), Value::Null);
        assert_eq!(result(&json!({ "task": task })), nothing);
    }
}

#[test]
fn text_is_parsed_as_json_only_if_declared() {
    let message = |words: &str, text| {
        let answer = json!({ "message": { "parts": [{ "text": words }] } });
        outcome(&answer, text).unwrap().unwrap().0
    };
    for words in ["1.10", "[1]", "{\"a\": 1}", "null", "\"q\"", " 7 "] {
        assert_eq!(message(words, Text::AsItIs), json!(words));
        let value: Value = serde_json::from_str(words).unwrap();
        assert_eq!(message(words, Text::MayBeJson), value);
    }
    let deep = "[".repeat(200) + &"]".repeat(200);
    for words in ["", "{", "1e999", "a \"b\"", &deep] {
        assert_eq!(message(words, Text::MayBeJson), json!(words));
    }
}

#[test]
fn failed_task_reports_its_message() {
    let why = || json!({ "parts": [{ "text": "no " }, { "text": "ink" }] });
    for state in ["failed", "TASK_STATE_REJECTED"] {
        let name = state.to_lowercase().replace("task_state_", "");
        let told = |message| result(&json!({ "task": task(state, json!([]), message) }));
        assert_eq!(told(why()), (json!(format!("the agent's task is {name}: no ink")), true));
        assert_eq!(told(Value::Null), (json!(format!("the agent's task is {name}")), true));
    }
}

#[test]
fn task_without_end_has_unknown_outcome() {
    let told = |state: &str, message: Value| {
        let mut task = task(state, json!([{ "parts": [{ "data": 1 }] }]), message);
        task["kind"] = "task".into();
        outcome(&task, Text::MayBeJson).unwrap().unwrap_err()
    };
    assert_eq!(told("canceled", Value::Null), "the agent's task was canceled / ");
    let why = json!({ "parts": [{ "text": "which?" }] });
    let interrupted =
        ["TASK_STATE_INPUT_REQUIRED", "auth-required"].map(|state| told(state, why.clone()));
    insta::assert_snapshot!(interrupted.join("\n"), @"
    the agent's task is input-required, and its question has no answer, so it was canceled; repeat the call with the answer in the arguments, or with a client that declares the capability elicitation / which?
    the agent's task is auth-required, which tools and compositions do not support; it was canceled / which?
    ");
    let unknown = ["unheard-of", "unknown", "TASK_STATE_UNSPECIFIED", &"é".repeat(40)];
    let told = unknown.map(|state| told(state, Value::Null));
    insta::assert_snapshot!(told.join("\n"), @"
    the agent's task has an unknown state and was canceled / state `unheard-of`
    the agent's task has an unknown state and was canceled / state `unknown`
    the agent's task has an unknown state and was canceled / state `unspecified`
    the agent's task has an unknown state and was canceled / state `éééééééééééééééé`
    ");
}

#[test]
fn other_responses_are_rejected() {
    let strange = [
        json!({}),
        json!([]),
        json!({ "kind": "status-update", "id": "t" }),
        json!({ "task": { "id": "t" } }),
        json!({ "task": { "id": 7, "status": { "state": "working" } } }),
        json!({ "message": [] }),
        json!({ "message": { "parts": "text" } }),
        json!({ "message": { "parts": [["text"]] } }),
    ];
    for answer in strange {
        assert_eq!(outcome(&answer, Text::MayBeJson), None, "{answer}");
    }
}

/// Arbitrary values, often valid ones.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
        proptest::sample::select(vec!["TASK_STATE_COMPLETED", "working", "task", "message"])
            .prop_map(Value::from),
    ];
    let names =
        ["task", "message", "kind", "id", "status", "state", "artifacts", "parts", "text", "data"];
    leaf.prop_recursive(6, 48, 4, move |inner| {
        let name = proptest::sample::select(names.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name, inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn arbitrary_responses_never_panic(
        parts in anything(), artifacts in anything(), state in "[A-Za-z_-]{0,24}", odd in anything(),
    ) {
        for text in [Text::AsItIs, Text::MayBeJson] {
            let _ = outcome(&odd, text);
            let _ = outcome(&json!({ "message": { "parts": parts } }), text);
            let message = json!({ "parts": parts });
            let _ = outcome(&json!({ "task": task(&state, artifacts.clone(), message) }), text);
            let _ = outcome(&json!({ "task": task("completed", artifacts.clone(), Value::Null) }), text);
        }
    }
}
