//! What is sent and what is made of what comes back, in both versions.

#![expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]

use proptest::prelude::*;
use serde_json::{Value, json, value::to_raw_value};

use super::*;

/// The parameters of a message with these arguments.
fn sent(dialect: Dialect, arguments: &Value, as_text: bool) -> (&'static str, Value) {
    let arguments = arguments.to_string();
    let outbound = Outbound { id: "m", skill: "s", arguments: &arguments, as_text };
    let (method, params) = dialect.send_message(&outbound);
    (method, serde_json::from_str(&params).unwrap())
}

#[test]
fn arguments_go_as_data_or_as_text() {
    let data = json!({ "text": "x", "n": 1 });
    let message = json!({ "messageId": "m", "role": "ROLE_USER", "metadata": { "skillId": "s" },
        "parts": [{ "data": data }] });
    let params = json!({ "message": message, "configuration": { "returnImmediately": true } });
    assert_eq!(sent(Dialect::V1, &data, false), ("SendMessage", params));
    let message = json!({ "kind": "message", "messageId": "m", "role": "user",
        "metadata": { "skillId": "s" }, "parts": [{ "kind": "text", "text": "a \"b\"" }] });
    let params = json!({ "message": message, "configuration": { "blocking": false } });
    assert_eq!(sent(Dialect::V03, &json!({ "text": "a \"b\"" }), true), ("message/send", params));
    let part = |dialect, as_text| {
        let (_, params) = sent(dialect, &json!({ "text": "t" }), as_text);
        params["message"]["parts"].clone()
    };
    assert_eq!(part(Dialect::V1, true), json!([{ "text": "t" }]));
    assert_eq!(
        part(Dialect::V03, false),
        json!([{ "kind": "data", "data": { "text": "t" } }]),
        "one that takes data gets it, whatever it is called"
    );
    // Where the gateway was told to let through what breaks the schema.
    let (_, odd) = sent(Dialect::V1, &json!({ "text": 7 }), true);
    assert_eq!(odd["message"]["parts"], json!([{ "data": { "text": 7 } }]));
}

#[test]
fn tasks_are_asked_for_and_canceled_by_their_ids() {
    let named = |(method, params): Call| (method, serde_json::from_str::<Value>(&params).unwrap());
    let get = json!({ "id": "t\"1", "historyLength": 0 });
    let cancel = json!({ "id": "t\"1" });
    assert_eq!(named(Dialect::V1.get_task("t\"1")), ("GetTask", get.clone()));
    assert_eq!(named(Dialect::V03.get_task("t\"1")), ("tasks/get", get));
    assert_eq!(named(Dialect::V1.cancel_task("t\"1")), ("CancelTask", cancel.clone()));
    assert_eq!(named(Dialect::V03.cancel_task("t\"1")), ("tasks/cancel", cancel));
}

/// What is made of an answer to a message: the structured content, or else the text, and whether it
/// failed.
fn result(answer: &Value) -> Option<(Value, bool)> {
    let said = Said::read(&to_raw_value(answer).unwrap())?;
    let result = match said {
        Said::Message(message) => result::of_message(&message),
        Said::Task(task) => result::of_task(&task),
    };
    let result: Value = serde_json::from_str(&result).expect("it is JSON, whatever came");
    let text = &result["content"][0]["text"];
    let value = result.get("structuredContent").unwrap_or(text);
    if value.is_object() {
        assert_eq!(serde_json::from_str::<Value>(text.as_str().unwrap()).unwrap(), *value);
    }
    Some((value.clone(), result["isError"] == true))
}

fn task(state: &str, artifacts: Value, message: Value) -> Value {
    json!({ "id": "t", "status": { "state": state, "message": message }, "artifacts": artifacts })
}

#[test]
fn data_is_the_result_or_else_text() {
    let message = |parts: Value| result(&json!({ "message": { "parts": parts } }));
    let data = json!({ "data": { "n": 12_345_678_901_234_567_890_u64 } });
    assert_eq!(
        message(json!([{ "text": "see" }, data])),
        Some((data["data"].clone(), false)),
        "beside data, text explains"
    );
    assert_eq!(message(json!([{ "data": 1 }, { "data": [2] }])), Some((json!([1, [2]]), false)));
    assert_eq!(message(json!([{ "text": "a" }, { "text": "b" }])), Some((json!("ab"), false)));
    let (why, is_error) = message(json!([{ "url": "https://x.example" }])).unwrap();
    assert!(is_error && why.as_str().unwrap().contains("neither data nor text"), "{why}");
    assert!(message(json!([])).unwrap().1);

    let artifacts = json!([{ "parts": [{ "text": "a" }, { "text": "b" }] },
        { "parts": [{ "raw": "" }, { "text": "c" }] }]);
    let completed = |artifacts: &Value, message: Value| {
        let task = task("TASK_STATE_COMPLETED", artifacts.clone(), message);
        result(&json!({ "task": task })).unwrap()
    };
    let last = json!({ "parts": [{ "text": "done" }] });
    assert_eq!(completed(&artifacts, last.clone()), (json!("ab\nc"), false));
    assert_eq!(completed(&json!([]), last), (json!("done"), false));
    assert!(completed(&json!([]), Value::Null).1);
}

#[test]
fn a_task_that_does_not_complete_has_failed_in_its_own_words() {
    let told = |state: &str, message: Value| {
        let mut task = task(state, json!([{ "parts": [{ "data": 1 }] }]), message);
        task["kind"] = "task".into();
        result(&task).unwrap()
    };
    let why = || json!({ "parts": [{ "text": "no " }, { "text": "ink" }] });
    for state in ["failed", "rejected", "canceled", "unheard-of"] {
        assert_eq!(told(state, why()), (json!(format!("its task is {state}: no ink")), true));
        assert_eq!(told(state, Value::Null), (json!(format!("its task is {state}")), true));
    }
    for state in ["TASK_STATE_INPUT_REQUIRED", "auth-required"] {
        let (said, is_error) = told(state, why());
        let said = said.as_str().unwrap();
        assert!(is_error && said.ends_with("and was canceled: no ink"), "{said}");
    }
}

#[test]
fn what_is_neither_a_message_nor_a_task_is_nothing() {
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
        assert_eq!(result(&answer), None, "{answer}");
    }
}

/// Anything that may stand somewhere in an answer, and often does where it should.
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
    fn whatever_an_agent_says_is_a_result_or_nothing(
        parts in anything(), artifacts in anything(), state in "[A-Za-z_-]{0,24}", odd in anything(),
    ) {
        let _ = result(&odd);
        let _ = result(&json!({ "message": { "parts": parts } }));
        let message = json!({ "parts": parts });
        let _ = result(&json!({ "task": task(&state, artifacts.clone(), message) }));
        let _ = result(&json!({ "task": task("completed", artifacts, Value::Null) }));
    }
}
