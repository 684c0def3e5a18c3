//! Prices of tasks, through the endpoint.

use gateway_testkit::{McpServer, Received, Server};
use serde_json::{Value, json};

use super::{
    harness::{Bench, Setup, http},
    relayed::knowing,
};
use crate::testing::{Registered, agent, policy, server, tool};

/// An upstream whose tasks behave like their ids. The price of a result is 0.5.
async fn upstream() -> Server {
    let priced = || json!({ "content": [], "_meta": { "cost": "0.5" } });
    let tasks = move |received: &Received| {
        let params = &received.body["params"];
        let id = params["taskId"].as_str().unwrap_or_default();
        let mut state = json!({ "resultType": "complete", "taskId": id, "status": "completed" });
        match (received.rpc_method(), id) {
            ("tools/call", _) => {
                let id = &params["arguments"]["id"];
                state = json!({ "resultType": "task", "taskId": id, "status": "working" });
            }
            ("tasks/get", "done") => state["result"] = priced(),
            ("tasks/get", "failed") => {
                state["status"] = json!("failed");
                state["error"] = json!({ "code": -32000, "message": "m" });
            }
            ("tasks/get", "working") => state["status"] = json!("working"),
            // The result is a response of its own, as in 2025-11-25.
            ("tasks/get", _) => {}
            ("tasks/result", _) => {
                state = priced();
                state["resultType"] = json!("complete");
            }
            ("tasks/cancel", _) => state = json!({ "resultType": "complete" }),
            _ => return received.unknown_method(),
        }
        received.result(&state)
    };
    let extensions = json!({ "io.modelcontextprotocol/tasks": {} });
    McpServer::modern()
        .with_capabilities(json!({ "tools": {}, "extensions": extensions }))
        .with_tool_names(&["works"])
        .start(tasks)
        .await
}

/// A budget of 1.5 for all calls.
#[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
fn budget(price: Value) -> Registered {
    let budget = json!({ "name": "b", "per": "fleet", "limit": "1.5", "window": "total" });
    policy("costs", json!({ "price": price, "budgets": [budget] }))
}

fn reported() -> Value {
    json!({ "reportedBy": "_meta.cost", "maximum": "1" })
}

/// A gateway in front of the upstream.
struct Scene {
    bench: Bench,
    _upstream: Server,
}

impl Scene {
    async fn start(costs: Registered) -> Self {
        let upstream = upstream().await;
        let setup = Setup { transport: Some(http(&upstream)), ..Setup::default() };
        let entities = vec![
            server("up", &["works"], &[]),
            agent("a", "1.0.0", &[("works", "1.0.0")]),
            tool("works", "1.0.0", json!({})),
            costs,
        ];
        Self { bench: Bench::start(setup, entities).await, _upstream: upstream }
    }

    /// The result of a call that starts a task.
    async fn call(&self, id: &str) -> Value {
        let params = json!({ "name": "works", "arguments": { "id": id } });
        self.bench.got(knowing("tools/call", params).build()).await.result()
    }

    /// Starts a task, and returns its id.
    async fn begin(&self, id: &str) -> String {
        let task = self.call(id).await;
        task["taskId"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned()
    }

    async fn ask(&self, method: &str, task: &str) -> Value {
        let ask = knowing(method, json!({ "taskId": task })).with("mcp-name", task);
        self.bench.got(ask.build()).await.result()
    }

    /// The spending and the reservations of the gateway.
    fn amounts(&self) -> [String; 2] {
        let view = serde_json::to_value(self.bench.gateway.spending().view()).unwrap();
        let gateway = &view["budgets"][0]["gateway"];
        ["spent", "reserved"].map(|name| gateway[name].as_str().unwrap().to_owned())
    }
}

#[tokio::test]
async fn final_state_lowers_price_once() {
    let scene = Scene::start(budget(reported())).await;
    let task = scene.begin("done").await;
    assert_eq!(scene.amounts(), ["0", "1"]);
    let denied = scene.call("other").await;
    assert_eq!(denied["_meta"]["registry/governance"]["reason"], "BUDGET_EXCEEDED");
    for _ in 0..2 {
        assert_eq!(scene.ask("tasks/get", &task).await["status"], "completed");
        assert_eq!(scene.amounts(), ["0.5", "0"]);
    }
    scene.begin("other").await;
}

#[tokio::test]
async fn result_of_its_own_lowers_price() {
    let scene = Scene::start(budget(reported())).await;
    let task = scene.begin("separate").await;
    let session = scene.bench.initialize("a").await;
    let params = json!({ "taskId": task });
    let state = scene.bench.legacy(&session, "a", ("tasks/get", params.clone())).await.result();
    assert_eq!(state["status"], "completed");
    assert_eq!(scene.amounts(), ["0", "1"], "the state has no result");
    scene.bench.legacy(&session, "a", ("tasks/result", params)).await.result();
    assert_eq!(scene.amounts(), ["0.5", "0"]);
}

#[tokio::test]
async fn unfinished_task_keeps_maximum() {
    let scene = Scene::start(budget(reported())).await;
    let task = scene.begin("working").await;
    assert_eq!(scene.ask("tasks/get", &task).await["status"], "working");
    scene.ask("tasks/cancel", &task).await;
    assert_eq!(scene.amounts(), ["0", "1"]);
}

#[tokio::test]
async fn failed_task_costs_default_or_nothing() {
    for (failures, spent) in [("charged", "0.2"), ("free", "0")] {
        let mut price = reported();
        price["perCall"] = json!("0.2");
        price["failures"] = json!(failures);
        let scene = Scene::start(budget(price)).await;
        let task = scene.begin("failed").await;
        assert_eq!(scene.ask("tasks/get", &task).await["status"], "failed");
        assert_eq!(scene.amounts(), [spent, "0"]);
    }
}

#[tokio::test]
async fn fixed_price_of_task_is_charged_at_once() {
    let scene = Scene::start(budget(json!({ "perCall": "1" }))).await;
    let task = scene.begin("done").await;
    assert_eq!(scene.amounts(), ["1", "0"]);
    scene.ask("tasks/get", &task).await;
    assert_eq!(scene.amounts(), ["1", "0"]);
}

#[tokio::test]
async fn task_without_id_costs_maximum() {
    let scene = Scene::start(budget(reported())).await;
    let params = json!({ "name": "works", "arguments": {} });
    scene.bench.got(knowing("tools/call", params).build()).await;
    assert_eq!(scene.amounts(), ["1", "0"]);
}

#[tokio::test]
async fn audited_budget_receives_reported_price() {
    let mut audited = budget(reported());
    audited.document["mode"] = json!("audit");
    let scene = Scene::start(audited).await;
    let task = scene.begin("done").await;
    scene.ask("tasks/get", &task).await;
    assert_eq!(scene.amounts(), ["0.5", "0"]);
}

#[tokio::test]
async fn lower_price_leaves_room_in_trace() {
    let limits = json!({ "trace": { "cost": "1.5" } });
    let scene =
        Scene::start(policy("loops", json!({ "price": reported(), "limits": limits }))).await;
    let call = async || {
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let params = json!({ "name": "works", "arguments": { "id": "done" },
            "_meta": { "traceparent": trace } });
        scene.bench.got(knowing("tools/call", params).build()).await.result()
    };
    let task = call().await["taskId"].as_str().unwrap().to_owned();
    let denied = call().await;
    assert_eq!(denied["_meta"]["registry/governance"]["error"]["details"]["scope"], "trace");
    scene.ask("tasks/get", &task).await;
    assert_eq!(call().await["resultType"], "task");
}

#[tokio::test]
async fn usage_has_the_reported_price_of_a_task() {
    let scene = Scene::start(budget(reported())).await;
    let task = scene.begin("done").await;
    scene.ask("tasks/get", &task).await;
    let expected = ["a (tasks/get) allow 1 0", "a works allow 1 0.5"];
    assert_eq!(scene.bench.usage(2).await, expected);
}
