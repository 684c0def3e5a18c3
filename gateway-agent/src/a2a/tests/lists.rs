//! Lists of tasks and of agents.

use std::sync::atomic::Ordering;

use a2a::Version;
use http::Method;
use serde_json::{Value, json};

use super::harness::{A2aBench, caller, helper, request, stranger};
use crate::testing::agent;

#[tokio::test]
async fn tasks_are_listed_for_their_caller_only() {
    let bench = A2aBench::start([]).await;
    let task = bench.started_task().await;
    let list = bench.rpc("a", "ListTasks", json!({})).await.result();
    assert_eq!(list["tasks"][0]["id"], task["id"]);
    assert_eq!(list["tasks"][0].get("artifacts"), None);
    assert_eq!((&list["totalSize"], &list["nextPageToken"]), (&json!(1), &json!("")));
    let full = bench.rpc("a", "ListTasks", json!({ "includeArtifacts": true })).await.result();
    assert!(full["tasks"][0]["artifacts"].is_array());
    let path = "/a2a/tasks?contextId=other";
    let got = bench.got(request(Version::V1, (Method::GET, path), ("a", &Value::Null))).await;
    assert_eq!(got.json()["tasks"], json!([]), "{got:?}");
    let path = "/a2a/tasks";
    for (caller, count) in [("a", 1), ("stranger", 0), ("", 0)] {
        let got =
            bench.got(request(Version::V1, (Method::GET, path), (caller, &Value::Null))).await;
        assert_eq!(got.json()["tasks"].as_array().unwrap().len(), count, "{caller}");
    }
    let got = bench.rpc("stranger", "ListTasks", json!({})).await;
    assert_eq!(got.status, 404, "the agent is not visible");
}

#[tokio::test]
async fn task_of_invisible_agent_is_not_listed() {
    let bench = A2aBench::start([]).await;
    bench.started_task().await;
    let mut alone = agent("a", "1.0.0", &[]);
    alone.document["capabilities"]["extensions"] = json!([]);
    bench.bench.publish(2, vec![helper(), alone]);
    let path = "/a2a/tasks";
    let got = bench.got(request(Version::V1, (Method::GET, path), ("a", &Value::Null))).await;
    assert_eq!(got.json()["tasks"], json!([]), "{got:?}");
}

#[tokio::test]
async fn agents_are_listed_by_declaration_in_pages() {
    let bench = A2aBench::start([]).await;
    let mut second = caller();
    let declared = &mut second.document["capabilities"]["extensions"][0]["params"]["depends"];
    *declared = json!(["1.0.0", "1.1.0"].map(|version| json!({ "type": "agent",
        "name": "office/helper", "version": version, "skill": "work" })));
    let mut newer = helper();
    newer.document["version"] = json!("1.1.0");
    bench.bench.publish(2, vec![helper(), newer, second, stranger()]);
    let list = async |caller: &str, query: &str| {
        let path = format!("/.well-known/agents{query}");
        bench.got(request(Version::V1, (Method::GET, &path), (caller, &Value::Null))).await
    };
    let first = list("a", "?pageSize=1").await.json();
    assert_eq!(first["agents"][0]["version"], "1.0.0", "{first}");
    let url = "http://localhost:7080/a2a/office/helper@1.0.0";
    assert_eq!(first["agents"][0]["url"], url);
    assert_eq!(first["agents"][0]["skills"][0]["id"], "work");
    let token = first["nextPageToken"].as_str().unwrap();
    let second = list("a", &format!("?pageToken={token}")).await.json();
    assert_eq!(
        (&second["agents"][0]["version"], &second["nextPageToken"]),
        (&json!("1.1.0"), &json!(""))
    );
    assert_eq!(list("stranger", "").await.json()["agents"], json!([]));
    assert_eq!(list("a", "?pageSize=0").await.status, 400);
    assert_eq!(list("a", "?pageToken=x").await.status, 400);
}

#[tokio::test]
async fn list_without_answer_of_agent_has_last_known_state() {
    let bench = A2aBench::start([]).await;
    let task = bench.started_task().await;
    bench.script.is_down.store(true, Ordering::Relaxed);
    let list = bench.rpc("a", "ListTasks", json!({})).await.result();
    assert_eq!(list["tasks"][0]["id"], task["id"]);
    assert_eq!(list["tasks"][0]["status"]["state"], task["status"]["state"]);
    assert_eq!(list["tasks"][0].get("agent"), None);
}
