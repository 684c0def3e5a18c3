//! Lists of tasks and ids.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn task(id: &str, second: u32) -> Value {
    json!({ "id": id, "contextId": "c", "history": [1, 2, 3], "artifacts": [1],
        "status": { "state": "TASK_STATE_WORKING", "timestamp": format!("2026-01-01T00:00:{second:02}Z") } })
}

fn filter(params: Value) -> Result<ListFilter, Failure> {
    match params {
        Value::Object(params) => ListFilter::of(&Request::new(Operation::ListTasks, params)),
        _ => unreachable!(),
    }
}

fn ids(page: &Value) -> Vec<&str> {
    page["tasks"].as_array().unwrap().iter().filter_map(|task| task["id"].as_str()).collect()
}

#[test]
fn lists_are_sorted_by_status_time() {
    let mut timeless = task("z", 0);
    timeless["status"].as_object_mut().unwrap().remove("timestamp");
    let tasks = vec![timeless, task("a", 1), task("c", 3), task("b", 3), json!({})];
    let page = filter(json!({})).unwrap().page(tasks);
    assert_eq!(ids(&page), ["b", "c", "a", "z"]);
    assert_eq!((&page["nextPageToken"], &page["totalSize"]), (&json!(""), &json!(4)));
    assert!(page["tasks"][0].get("artifacts").is_none());
}

#[test]
fn filters_apply_before_pages() {
    let mut other = task("d", 5);
    other["contextId"] = "x".into();
    let tasks = || vec![task("a", 1), task("b", 2), task("c", 3), other.clone()];
    let of = |params| filter(params).unwrap().page(tasks());
    assert_eq!(ids(&of(json!({ "contextId": "x" }))), ["d"]);
    assert_eq!(ids(&of(json!({ "status": "TASK_STATE_FAILED" }))), Vec::<&str>::new());
    assert_eq!(ids(&of(json!({ "statusTimestampAfter": "2026-01-01T00:00:03Z" }))), ["d", "c"]);
    assert_eq!(ids(&of(json!({ "status": "TASK_STATE_UNSPECIFIED" }))).len(), 4);
    let page = of(json!({ "includeArtifacts": true, "historyLength": 2, "pageSize": 1 }));
    assert_eq!(page["tasks"][0]["history"], json!([2, 3]));
    assert_eq!(page["tasks"][0]["artifacts"], json!([1]));
    let page = of(json!({ "historyLength": 0 }));
    assert!(page["tasks"][0].get("history").is_none());
    for params in [
        json!({ "pageSize": 101 }),
        json!({ "pageToken": "x" }),
        json!({ "statusTimestampAfter": "now" }),
        json!({ "status": "TASK_STATE_RUNNING" }),
    ] {
        assert!(filter(params).is_err());
    }
}

#[test]
fn history_of_answers_is_limited() {
    let request = |operation, params: Value| match params {
        Value::Object(params) => Request::new(operation, params),
        _ => unreachable!(),
    };
    for (length, expected) in [
        (json!(0), None),
        (json!(2), Some(json!([2, 3]))),
        (json!(7), Some(json!([1, 2, 3]))),
        (Value::Null, Some(json!([1, 2, 3]))),
    ] {
        let get = request(Operation::GetTask, json!({ "id": "t", "historyLength": length }));
        let mut answer = task("t", 1);
        limit_history(get.operation, &mut answer, get.history_length());
        assert_eq!(answer.get("history"), expected.as_ref(), "{length}");
        let configuration = json!({ "configuration": { "historyLength": length } });
        for operation in [Operation::SendMessage, Operation::SendStreamingMessage] {
            let send = request(operation, configuration.clone());
            let mut answer = json!({ "task": task("t", 1) });
            limit_history(operation, &mut answer, send.history_length());
            assert_eq!(answer["task"].get("history"), expected.as_ref(), "{length}");
        }
    }
}

proptest! {
    #[test]
    fn pages_contain_every_task_once(seconds in prop::collection::vec(0_u32..5, 0..12), size in 1_u64..5) {
        let tasks: Vec<_> = seconds.iter().enumerate()
            .map(|(i, second)| task(&format!("t{i}"), *second)).collect();
        let whole = filter(json!({})).unwrap().page(tasks.clone());
        let (mut token, mut seen) = (String::new(), Vec::new());
        for _ in 0..=tasks.len() {
            let page = filter(json!({ "pageSize": size, "pageToken": token })).unwrap().page(tasks.clone());
            seen.extend(ids(&page).into_iter().map(str::to_owned));
            token = page["nextPageToken"].as_str().unwrap().to_owned();
            if token.is_empty() {
                break;
            }
        }
        prop_assert_eq!(seen, ids(&whole));
    }

    #[test]
    fn arbitrary_page_tokens_never_panic(odd in "\\PC{0,20}") {
        let _ = Place::of_token(&odd);
    }
}
