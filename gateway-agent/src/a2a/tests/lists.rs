//! Lists of tasks and of agents.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use a2a::Version;
use http::Method;
use serde_json::{Value, json};

use super::harness::{A2aBench, OWN_TASK, caller, helper, request, stranger};
use crate::{clock, testing::agent};

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
async fn completed_task_is_found_by_state_and_time() {
    let by_state = |state: &str| json!({ "status": state });
    for (mut filter, count) in [
        (by_state("TASK_STATE_COMPLETED"), 1),
        (by_state("TASK_STATE_WORKING"), 0),
        (json!({ "statusTimestampAfter": null }), 1),
    ] {
        let bench = A2aBench::start([]).await;
        let task = bench.working_task().await;
        assert_eq!(task["status"]["state"], "TASK_STATE_WORKING");
        if let Some(since) = filter.get_mut("statusTimestampAfter") {
            *since = json!(clock::timestamp());
        }
        let list = bench.rpc("a", "ListTasks", filter.clone()).await.result();
        let tasks = list["tasks"].as_array().unwrap();
        assert_eq!((tasks.len(), &list["totalSize"]), (count, &json!(count)), "{filter}");
        for listed in tasks {
            assert_eq!((&listed["id"], listed.get("artifacts")), (&task["id"], None));
            assert_eq!(listed["status"]["state"], "TASK_STATE_COMPLETED");
        }
        let mut reads = bench.agent.seen("GetTask");
        reads.retain(|seen| seen.body["params"]["id"] == OWN_TASK);
        assert_eq!(reads.len(), 1, "the page needs no second read");
    }
}

#[tokio::test]
async fn hanging_agent_delays_list_by_its_limit_only() {
    let bench = A2aBench::start([]).await;
    let task = bench.working_task().await;
    bench.script.hangs.store(true, Ordering::Relaxed);
    let started = Instant::now();
    let list = bench.rpc("a", "ListTasks", json!({})).await.result();
    assert!(started.elapsed() < Duration::from_secs(5), "the timeout of calls is 5 s");
    assert_eq!(list["tasks"][0]["id"], task["id"]);
    assert_eq!(list["tasks"][0]["status"]["state"], "TASK_STATE_WORKING");
}

#[tokio::test]
async fn list_without_answer_of_agent_has_last_known_state() {
    let bench = A2aBench::start([]).await;
    let task = bench.started_task().await;
    bench.script.is_down.store(true, Ordering::Relaxed);
    let list = bench.rpc("a", "ListTasks", json!({})).await.result();
    assert_eq!(list["tasks"][0]["id"], task["id"]);
    assert_eq!(list["tasks"][0]["status"]["state"], task["status"]["state"]);
}
