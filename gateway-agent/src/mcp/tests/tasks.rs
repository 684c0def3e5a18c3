//! Task notifications, and tasks of retired tools.

use std::{collections::BTreeSet, time::Duration};

use futures_util::{StreamExt as _, stream};
use gateway_policy::ValidationMode;
use gateway_protocol::mcp::Era;
use gateway_testkit::{McpServer, Received};
use serde_json::{Value, json};

use super::{
    far_side::FarSide,
    harness::{Ask, Bench, Setup, http},
    relayed::{bench, knowing, messages},
};
use crate::testing::{Registered, agent, policy, server, tool};

/// Starts a task, and returns its id.
async fn begun(bench: &Bench, arguments: Value) -> String {
    let call = json!({ "name": "works", "arguments": arguments });
    let task = bench.got(knowing("tools/call", call).build()).await.result();
    task["taskId"].as_str().unwrap().to_owned()
}

fn listen(ids: &Value) -> Ask {
    knowing("subscriptions/listen", json!({ "notifications": { "taskIds": ids } }))
}

/// Reads this number of messages of a subscription.
async fn heard(bench: &Bench, ask: Ask, count: usize) -> Vec<Value> {
    let mut body = bench.send(ask.build()).await.into_body().into_data_stream();
    let mut all = Vec::new();
    while all.len() < count {
        let chunk = tokio::time::timeout(Duration::from_secs(10), body.next()).await;
        let text = String::from_utf8(chunk.unwrap().unwrap().unwrap().to_vec()).unwrap();
        all.extend(messages(&text));
    }
    all
}

#[tokio::test]
async fn subscription_reports_each_task_change() {
    let (bench, far_side) = bench(Era::Modern, "up").await;
    bench.until_features().await;
    let (slow, quick) =
        (begun(&bench, json!({ "task": "slow" })).await, begun(&bench, json!({})).await);
    let told = heard(&bench, listen(&json!([slow, "none", quick])), 4).await;
    let acknowledged = &told[0]["params"]["notifications"];
    let both = BTreeSet::from([&slow, &quick]);
    assert_eq!(*acknowledged, json!({ "taskIds": both }));
    assert!(told[1..].iter().all(|told| told["method"] == "notifications/tasks"), "{told:?}");
    let of = |id: &str| -> Vec<&Value> {
        told[1..].iter().map(|told| &told["params"]).filter(|task| task["taskId"] == id).collect()
    };
    assert_eq!(of(&quick).len(), 1);
    assert_eq!(of(&quick)[0]["result"]["content"][0]["uri"], "up+test://r");
    let [working, completed] = of(&slow)[..] else { panic!("{told:?}") };
    assert_eq!(
        (&working["status"], &completed["status"]),
        (&json!("working"), &json!("completed"))
    );
    assert!(completed.get("resultType").is_none(), "{completed}");
    assert_eq!(completed["result"]["_meta"], json!({ "own": 2 }));
    let id = &completed["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(*id, told[0]["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]);
    let is_slow = |body: &Value| body["params"]["taskId"] == "slow";
    let (polled_slow, polled_quick): (Vec<_>, Vec<_>) =
        far_side.seen("tasks/get").into_iter().partition(|(_, body)| is_slow(body));
    // The first state is sent on subscription.
    assert_eq!(polled_slow.len(), 3);
    assert_eq!(polled_quick.len(), 2, "a task that has ended is not polled again");
}

#[tokio::test]
async fn tasks_of_others_are_not_reported() {
    let (bench, _) = bench(Era::Modern, "up").await;
    bench.until_features().await;
    let id = begun(&bench, json!({})).await;
    let filter = json!({ "notifications": { "taskIds": [id] } });
    let undeclared = bench.modern("a", "subscriptions/listen", filter).await;
    assert_eq!(undeclared.error(), (400, -32021));
    let mut foreign = listen(&json!([id]));
    foreign.headers.retain(|(name, _)| name != "x-agent-name");
    let told = heard(&bench, foreign.by("b"), 1).await;
    assert_eq!(told[0]["params"]["notifications"], json!({}));
    let many: Vec<_> = (0..101).map(|n| n.to_string()).collect();
    assert_eq!(bench.got(listen(&json!(many)).build()).await.error(), (400, -32602));
}

#[tokio::test]
async fn task_result_is_validated() {
    for (schema, is_refused) in [(json!({ "required": ["n"] }), true), (json!({}), false)] {
        let (far_side, transport) = FarSide::start(Era::Modern).await;
        let mut setup = Setup { transport: Some(transport), ..Setup::default() };
        setup.policy.output_validation = ValidationMode::Error;
        let entities = vec![
            server("up", &["works"], &[]),
            tool("works", "1.0.0", json!({ "outputSchema": schema })),
            agent("a", "1.0.0", &[("works", "1.0.0")]),
        ];
        let bench = Bench::start(setup, entities).await;
        bench.until_features().await;
        let id = begun(&bench, json!({ "task": "structured" })).await;
        let get = knowing("tasks/get", json!({ "taskId": id })).with("mcp-name", &id);
        let got = bench.got(get.build()).await;
        assert_eq!(far_side.seen("tasks/get").len(), 1);
        if is_refused {
            assert_eq!(got.error(), (200, -32603), "{got:?}");
        } else {
            assert_eq!(got.result()["result"]["structuredContent"], json!({ "m": 1 }));
        }
    }
}

#[tokio::test]
async fn polls_are_decided_without_context() {
    let (_far_side, transport) = FarSide::start(Era::Modern).await;
    let setup = Setup { transport: Some(transport), ..Setup::default() };
    let entities = |cedar: Option<&str>| {
        let mut entities = vec![
            server("up", &["works"], &[]),
            tool("works", "1.0.0", json!({})),
            agent("a", "1.0.0", &[("works", "1.0.0")]),
        ];
        let policy = |cedar| policy("p", json!({ "authorization": { "cedar": cedar } }));
        entities.extend(cedar.map(policy));
        entities
    };
    let bench = Bench::start(setup, entities(None)).await;
    bench.until_features().await;
    let id = begun(&bench, json!({ "task": "slow" })).await;
    let code = async |method: &str| {
        let ask = knowing(method, json!({ "taskId": id })).with("mcp-name", &id);
        bench.got(ask.build()).await.json()["error"]["code"].clone()
    };
    let calls = "forbid (principal, action, resource) when { context.purpose == \"call\" };";
    bench.publish(2, entities(Some(calls)));
    assert_eq!(code("tasks/get").await, Value::Null);
    assert_eq!(code("tasks/cancel").await, 4030);
    let stop = "forbid (principal, action, resource) unless { action == Action::\"cancel\" };";
    bench.publish(3, entities(Some(stop)));
    assert_eq!(code("tasks/get").await, 4030);
    assert_eq!(code("tasks/cancel").await, Value::Null);
}

/// The tool `works` and its server, one of them retired, and the agents `a` and `b`.
fn retiring(retired: &str, declared: &[(&str, &str)]) -> Vec<Registered> {
    let (tool, server) = (tool("works", "1.0.0", json!({})), server("up", &["works"], &[]));
    let (tool, server) = match retired {
        "tool" => (tool.retired(), server),
        "server" => (tool, server.retired()),
        _ => (tool, server),
    };
    vec![server, tool, agent("a", "1.0.0", declared), agent("b", "1.0.0", &[])]
}

#[tokio::test]
async fn retirement_forbids_calls_and_ends_no_task() {
    let declared: &[_] = &[("works", "1.0.0")];
    for retired in ["tool", "server"] {
        let (far_side, transport) = FarSide::start(Era::Modern).await;
        let setup = Setup { transport: Some(transport), ..Setup::default() };
        let bench = Bench::start(setup, retiring("none", declared)).await;
        bench.until_features().await;
        let id = begun(&bench, json!({})).await;
        bench.publish(2, retiring(retired, declared));
        let about = |method: &str| knowing(method, json!({ "taskId": id })).with("mcp-name", &id);
        let call = knowing("tools/call", json!({ "name": "works" }));
        let got = bench.got(call.build()).await;
        assert_eq!(got.error(), (200, -32602));
        assert!(got.text.contains("retired"), "{retired}: {got:?}");
        let got = bench.got(about("tasks/get").build()).await.result();
        assert_eq!((&got["taskId"], &got["status"]), (&json!(id), &json!("completed")));
        let told = heard(&bench, listen(&json!([id])), 2).await;
        assert_eq!(told[1]["params"]["taskId"], json!(id));
        for method in ["tasks/update", "tasks/cancel"] {
            bench.got(about(method).build()).await.result();
            assert_eq!(far_side.seen(method).len(), 1, "{retired}: {method}");
        }
        let foreign = about("tasks/get").set("x-agent-name", "b");
        assert_eq!(bench.got(foreign.build()).await.error(), (404, -32601));
        bench.publish(3, retiring(retired, &[]));
        let undeclared = bench.got(about("tasks/get").build()).await;
        assert_eq!(undeclared.error(), (200, -32602), "the declaration still decides");
    }
}

#[tokio::test]
async fn session_lists_tasks_of_retired_tools() {
    let tasks = |received: &Received| {
        let at = "2026-01-01T00:00:00Z";
        let task = json!({ "taskId": "t-1", "status": "working", "createdAt": at,
            "lastUpdatedAt": at, "ttl": null });
        match received.rpc_method() {
            "tools/call" => received.result(&json!({ "task": task })),
            "tasks/get" => received.result(&task),
            _ => received.unknown_method(),
        }
    };
    let capabilities = json!({ "tools": {}, "tasks": { "requests": { "tools": { "call": {} } } } });
    let works = json!([{ "name": "works", "inputSchema": { "type": "object" },
        "execution": { "taskSupport": "optional" } }]);
    let upstream = McpServer::legacy().with_capabilities(capabilities);
    let upstream = upstream.with_tools(works.to_string()).start(tasks).await;
    let setup = Setup { transport: Some(http(&upstream)), ..Setup::default() };
    let declared: &[_] = &[("works", "1.0.0")];
    let bench = Bench::start(setup, retiring("none", declared)).await;
    let (session, other) = (bench.initialize("a").await, bench.initialize("a").await);
    let call = json!({ "name": "works", "arguments": {}, "task": {} });
    let begun = bench.legacy(&session, "a", ("tools/call", call)).await.result();
    bench.publish(2, retiring("tool", declared));
    let listed = bench.legacy(&session, "a", ("tasks/list", json!({}))).await.result();
    assert_eq!(listed["tasks"][0]["taskId"], begun["task"]["taskId"], "{listed}");
    let without_tasks = bench.legacy(&other, "a", ("tasks/list", json!({}))).await;
    assert_eq!(without_tasks.error(), (200, -32601));
}

#[tokio::test]
async fn task_subscriptions_are_limited_per_caller() {
    let (bench, _) = bench(Era::Modern, "up").await;
    bench.until_features().await;
    let begun = async |_| begun(&bench, json!({})).await;
    let ids: Vec<_> = stream::iter(0..100).then(begun).collect().await;
    let mut open = Vec::new();
    for expected in [100, 100, 50, 0] {
        let mut body = bench.send(listen(&json!(ids)).build()).await.into_body().into_data_stream();
        let text = String::from_utf8(body.next().await.unwrap().unwrap().to_vec()).unwrap();
        let acknowledged = messages(&text)[0]["params"]["notifications"]["taskIds"].clone();
        assert_eq!(acknowledged.as_array().map_or(0, Vec::len), expected);
        open.push(body);
    }
    drop(open);
    let told = heard(&bench, listen(&json!([ids[0], ids[0]])), 2).await;
    assert_eq!(told[0]["params"]["notifications"]["taskIds"], json!([ids[0]]), "each once");
    assert_eq!(told[1]["params"]["taskId"], ids[0]);
}
