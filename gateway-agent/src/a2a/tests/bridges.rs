//! The bridges: skills of agents as tools of MCP, and composed tools as skills of the gateway's agent.

use std::sync::atomic::Ordering;

use a2a::{Operation, Version};
use http::Method;
use serde_json::{Value, json};

use super::harness::{
    A2aBench, OWN_CONTEXT, OWN_TASK, caller, events, helper, message, request, stranger,
};
use crate::{
    identity::settings::AuthenticationConfig,
    mcp::tests::{
        harness::{Got, Setup},
        relayed::{able, able_session, acceptable, answered, knowing},
    },
    pipeline::AgentBridges,
    testing::{Registered, policy, tool},
};

/// The skill of `office/helper` as a tool.
const TOOL: &str = "agent__office__helper__work";

async fn bridged() -> A2aBench {
    let bridges = AgentBridges { as_tools: true, of_tools: true };
    A2aBench::start_with(Setup { bridges, ..Setup::default() }, []).await
}

/// The tools that MCP lists for a caller.
async fn listed(bench: &A2aBench, caller: &str) -> Vec<Value> {
    let got = bench.bench.modern(caller, "tools/list", json!({})).await;
    got.result()["tools"].as_array().unwrap().clone()
}

#[tokio::test]
async fn declared_skills_are_tools_if_enabled() {
    let bench = bridged().await;
    let tools = listed(&bench, "a").await;
    let [tool] = tools.as_slice() else { panic!("{tools:?}") };
    assert_eq!(
        [&tool["name"], &tool["title"], &tool["description"]],
        [TOOL, "Work", "Works."],
        "{tool}"
    );
    assert_eq!(tool["inputSchema"], json!({ "type": "object", "required": ["topic"] }));
    assert!(listed(&bench, "stranger").await.is_empty());
    let plain = A2aBench::start([]).await;
    assert!(listed(&plain, "a").await.is_empty());
    plain.bench.call("a", TOOL, json!({ "topic": "go" })).await;
    assert!(plain.agent.seen("SendStreamingMessage").is_empty());
}

#[tokio::test]
async fn call_of_a_skill_is_a_message_to_its_agent() {
    let bench = bridged().await;
    let result = bench.bench.call("a", TOOL, json!({ "topic": "go" })).await.result();
    assert_eq!(result["structuredContent"], "piece", "the artifact of the stream: {result}");
    let sent = bench.agent.seen("SendStreamingMessage")[0].body["params"]["message"].clone();
    assert_eq!(sent["metadata"]["skillId"], "work");
    assert_eq!(sent["parts"], json!([{ "data": { "topic": "go" } }]));
    bench.bench.call("a", TOOL, json!({})).await;
    bench.bench.call("stranger", TOOL, json!({ "topic": "go" })).await;
    let sent = bench.agent.seen("SendStreamingMessage").len();
    assert_eq!(sent, 1, "invalid and undeclared calls");
}

#[tokio::test]
async fn usage_names_skill_after_its_agent() {
    let bench = bridged().await;
    bench.bench.call("a", TOOL, json!({ "topic": "go" })).await;
    assert_eq!(bench.bench.usage(1).await, ["a office/helper/work allow 1 0"]);
}

#[tokio::test]
async fn usage_of_rejected_message_has_no_skill() {
    let bench = A2aBench::start([]).await;
    let got = bench.rpc("a", "SendMessage", message_to("unknown")).await;
    assert_eq!(got.error(), (200, -32602));
    assert_eq!(bench.bench.usage(1).await, ["a (unknown) allow 1 0"]);
}

#[tokio::test]
async fn agent_that_asks_fails_the_call() {
    let bench = bridged().await;
    let got = bench.bench.call("a", TOOL, json!({ "topic": "ask" })).await;
    assert_eq!(got.result()["isError"], true, "{got:?}");
    acceptable(|| !bench.agent.seen("CancelTask").is_empty()).await;
}

/// The call of the skill whose agent has a question.
fn asking_call() -> Value {
    json!({ "name": TOOL, "arguments": { "topic": "ask" } })
}

fn accepted(answer: &str) -> Value {
    json!({ "action": "accept", "content": { "answer": answer } })
}

/// The call again, with an answer to the question of its result.
fn repeated(asked: &Value, answer: &Value) -> Value {
    let mut call = asking_call();
    call["requestState"] = asked["requestState"].clone();
    call["inputResponses"] = json!({ "input": answer });
    call
}

/// Requires that the agent received one answer, as the next message of its task.
fn assert_continued(bench: &A2aBench, answer: &str) {
    let sent = bench.agent.seen("SendMessage");
    let [sent] = sent.as_slice() else { panic!("{} messages", sent.len()) };
    let sent = &sent.body["params"]["message"];
    assert_eq!(sent["parts"], json!([{ "text": answer }]));
    let ids = [&sent["taskId"], &sent["contextId"], &sent["metadata"]["skillId"]];
    assert_eq!(ids, [OWN_TASK, OWN_CONTEXT, "work"]);
    assert!(bench.agent.seen("CancelTask").is_empty());
}

#[tokio::test]
async fn stateless_client_answers_question_of_agent() {
    let bench = bridged().await;
    let asked = bench.bench.got(able("tools/call", asking_call()).build()).await.result();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let question = &asked["inputRequests"]["input"];
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "which colour?");
    let again = repeated(&asked, &accepted("blue"));
    let foreign = able("tools/call", again.clone()).set("x-agent-name", "stranger");
    assert_eq!(bench.bench.got(foreign.build()).await.error(), (200, -32602));
    let result = bench.bench.got(able("tools/call", again).build()).await.result();
    assert_eq!(result["structuredContent"], "done", "{result}");
    assert_continued(&bench, "blue");
    assert_eq!(bench.bench.usage(1).await, ["a office/helper/work allow 1 0"]);
}

#[tokio::test]
async fn session_client_answers_question_of_agent() {
    let bench = bridged().await;
    let session = able_session(&bench.bench).await;
    let answer = json!({ "result": accepted("blue") });
    let result = answered(&bench.bench, &session, (asking_call(), answer)).await;
    assert_eq!(result["structuredContent"], "done", "{result}");
    assert_continued(&bench, "blue");
}

#[tokio::test]
async fn answered_question_is_asked_once() {
    let bench = bridged().await;
    bench.script.returns_early.store(true, Ordering::Relaxed);
    let asked = bench.bench.got(able("tools/call", asking_call()).build()).await.result();
    let again = repeated(&asked, &accepted("blue"));
    let result = bench.bench.got(able("tools/call", again).build()).await.result();
    assert_eq!(result["structuredContent"], "done", "{result}");
    assert_continued(&bench, "blue");
    let polls = bench.agent.seen("GetTask");
    assert!(polls.iter().any(|poll| poll.body["params"]["id"] == OWN_TASK));
}

#[tokio::test]
async fn declined_question_cancels_the_task() {
    let bench = bridged().await;
    let asked = bench.bench.got(able("tools/call", asking_call()).build()).await.result();
    let again = repeated(&asked, &json!({ "action": "decline" }));
    let result = bench.bench.got(able("tools/call", again).build()).await.result();
    assert_eq!(result["isError"], true, "{result}");
    acceptable(|| !bench.agent.seen("CancelTask").is_empty()).await;
    assert!(bench.agent.seen("SendMessage").is_empty());
}

#[tokio::test]
async fn answer_to_agent_is_inspected() {
    let inspection = json!({ "arguments": { "financial": "block" } });
    let bench = bridged().await;
    bench.bench.publish(
        2,
        vec![helper(), caller(), stranger(), policy("i", json!({ "inspection": inspection }))],
    );
    let asked = bench.bench.got(able("tools/call", asking_call()).build()).await.result();
    let again = repeated(&asked, &accepted("4539578763621486"));
    let result = bench.bench.got(able("tools/call", again).build()).await.result();
    assert_eq!(result["isError"], true, "{result}");
    assert!(bench.agent.seen("SendMessage").is_empty());
}

#[tokio::test]
async fn update_answers_question_of_task() {
    let bench = bridged().await;
    bench.script.asks.store(true, Ordering::Relaxed);
    let interactive = |method: &str, params: Value| {
        let mut ask = knowing(method, params);
        let capabilities = "io.modelcontextprotocol/clientCapabilities";
        ask.body["params"]["_meta"][capabilities]["elicitation"] = json!({});
        ask
    };
    let call = json!({ "name": TOOL, "arguments": { "topic": "long" } });
    let begun = bench.bench.got(interactive("tools/call", call).build()).await.result();
    let id = begun["taskId"].as_str().unwrap();
    let about = async |method: &str, mut params: Value| {
        params["taskId"] = id.into();
        bench.bench.got(interactive(method, params).with("mcp-name", id).build()).await.result()
    };
    let task = about("tasks/get", json!({})).await;
    assert_eq!(task["status"], "input_required", "{task}");
    let question = &task["inputRequests"]["question-1"];
    assert_eq!(question["params"]["message"], "which colour?", "{task}");
    let update = async |name: &str, answer: Value| {
        about("tasks/update", json!({ "inputResponses": { name: answer } })).await
    };
    update("question-0", accepted("red")).await;
    assert_eq!(bench.agent.seen("SendMessage").len(), 1, "the answer to another question");
    update("question-1", accepted("blue")).await;
    let sent = bench.agent.seen("SendMessage").pop().unwrap().body["params"].clone();
    assert_eq!(sent["configuration"]["returnImmediately"], true);
    let sent = &sent["message"];
    assert_eq!(sent["parts"], json!([{ "text": "blue" }]));
    let ids = [&sent["taskId"], &sent["contextId"], &sent["metadata"]["skillId"]];
    assert_eq!(ids, [OWN_TASK, OWN_CONTEXT, "work"]);
    assert_eq!(about("tasks/get", json!({})).await["status"], "completed");
    bench.script.asks.store(true, Ordering::Relaxed);
    update("question-1", json!({ "action": "decline" })).await;
    acceptable(|| bench.agent.seen("CancelTask").len() == 1).await;
}

#[tokio::test]
async fn long_call_is_a_task_for_clients_with_tasks() {
    let bench = bridged().await;
    let discovered = bench.bench.modern("a", "server/discover", json!({})).await.result();
    let extensions = &discovered["capabilities"]["extensions"];
    assert!(extensions["io.modelcontextprotocol/tasks"].is_object(), "{discovered}");
    let call = json!({ "name": TOOL, "arguments": { "topic": "long" } });
    let begun = bench.bench.got(knowing("tools/call", call.clone()).build()).await.result();
    assert_eq!([&begun["resultType"], &begun["status"]], ["task", "working"], "{begun}");
    let id = begun["taskId"].as_str().unwrap();
    assert!(!begun.to_string().contains(OWN_TASK), "the id is sealed");
    let about = |method: &str| knowing(method, json!({ "taskId": id })).with("mcp-name", id);
    let task = bench.bench.got(about("tasks/get").build()).await.result();
    assert_eq!(task["status"], "completed", "{task}");
    assert_eq!(task["result"]["structuredContent"], "done", "{task}");
    bench.bench.got(about("tasks/cancel").build()).await.result();
    assert_eq!(bench.agent.seen("CancelTask").len(), 1);
    let polled = bench.bench.modern("a", "tools/call", call).await.result();
    assert_eq!(polled["structuredContent"], "done", "the gateway polls for other clients");
}

#[tokio::test]
async fn address_of_agent_is_in_no_tool_result() {
    let bench = bridged().await;
    let port = bench.agent.address().port().to_string();
    let mut answers = Vec::new();
    for topic in ["reveal events", "reveal an error"] {
        answers.push(bench.bench.call("a", TOOL, json!({ "topic": topic })).await);
    }
    // Clients with tasks receive no stream.
    for topic in ["reveal", "reveal an error"] {
        let call = json!({ "name": TOOL, "arguments": { "topic": topic } });
        answers.push(bench.bench.got(knowing("tools/call", call).build()).await);
    }
    for got in &answers {
        assert!(!got.text.contains("127.0.0.1") && !got.text.contains(&port), "{got:?}");
    }
    assert!(answers[0].text.contains("agent.invalid") && answers[2].text.contains("agent.invalid"));
}

/// A composition with one step.
fn composition(name: &str, step: &str) -> Registered {
    let mut composed = tool(name, "1.0.0", json!({}));
    let step = json!({ "id": "only", "operation": { "tool": { "name": step } } });
    composed.document = json!({
        "name": name, "version": "1.0.0", "description": "Composed.",
        "inputSchema": { "type": "object", "required": ["topic"] },
        "spec": { "pipeline": { "steps": [step] } },
        "depends": [{ "type": "tool", "name": step["operation"]["tool"]["name"],
            "version": "1.0.0" }],
    });
    composed
}

/// The compositions `relay` and `stuck`, which the agents `a` and `b` declare.
fn entities() -> Vec<Registered> {
    let declaring = |name: &str| {
        let mut caller = caller();
        caller.document["name"] = name.into();
        let params = &mut caller.document["capabilities"]["extensions"][0]["params"];
        for name in ["relay", "stuck"] {
            let declared = json!({ "type": "tool", "name": name, "version": "1.0.0" });
            params["depends"].as_array_mut().unwrap().push(declared);
        }
        caller
    };
    let tools = [tool("echo", "1.0.0", json!({})), tool("slow", "1.0.0", json!({}))];
    let mut entities = vec![helper(), stranger(), declaring("a"), declaring("b")];
    entities.extend(tools);
    entities.extend([composition("relay", "echo"), composition("stuck", "slow")]);
    entities
}

async fn own_agent() -> A2aBench {
    let bench = bridged().await;
    bench.bench.publish(2, entities());
    bench
}

/// A JSON-RPC request to the gateway's own agent.
async fn own(bench: &A2aBench, caller: &str, method: &str, params: Value) -> Got {
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    bench.got(request(Version::V1, (Method::POST, "/a2a"), (caller, &body))).await
}

fn message_to(skill: &str) -> Value {
    let mut params = message("go");
    params["message"]["metadata"] = json!({ "skillId": skill });
    params
}

#[tokio::test]
async fn root_card_lists_composed_tools_of_the_caller() {
    let bench = own_agent().await;
    for (caller, expected) in [("a", vec!["relay", "stuck"]), ("stranger", Vec::new())] {
        let path = "/.well-known/agent-card.json";
        let got =
            bench.got(request(Version::V1, (Method::GET, path), (caller, &json!(null)))).await;
        let skills = got.json()["skills"].clone();
        let ids = skills.as_array().into_iter().flatten().map(|skill| skill["id"].clone());
        assert_eq!(ids.collect::<Vec<_>>(), expected, "{got:?}");
    }
}

#[tokio::test]
async fn composed_tool_answers_with_a_task() {
    let bench = own_agent().await;
    let task = own(&bench, "a", "SendMessage", message_to("relay")).await.result()["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    assert_eq!(task["artifacts"][0]["parts"], json!([{ "data": { "topic": "go" } }]));
    let id = json!({ "id": task["id"] });
    assert_eq!(own(&bench, "a", "GetTask", id.clone()).await.result(), task);
    for foreign in ["", "b", "stranger"] {
        let got = own(&bench, foreign, "GetTask", id.clone()).await;
        assert_eq!(got.error(), (200, -32001), "{foreign}");
    }
}

#[tokio::test]
async fn stored_result_needs_current_rights() {
    let bench = own_agent().await;
    let task = own(&bench, "a", "SendMessage", message_to("relay")).await.result()["task"].clone();
    let id = json!({ "id": task["id"] });
    for (revision, target) in [(3, "relay"), (4, "echo")] {
        let rule = format!("forbid (principal, action, resource == Tool::\"{target}\");");
        let mut entities = entities();
        entities.push(policy("closed", json!({ "authorization": { "cedar": rule } })));
        bench.bench.publish(revision, entities);
        for method in ["GetTask", "SubscribeToTask"] {
            let got = own(&bench, "a", method, id.clone()).await;
            assert_eq!(got.status, 403, "{method} {target}: {got:?}");
        }
    }
    let mut undeclared = entities();
    undeclared.retain(|entity| entity.document["name"] != "a");
    undeclared.push(caller());
    bench.bench.publish(5, undeclared);
    assert_eq!(own(&bench, "a", "GetTask", id.clone()).await.error(), (200, -32001));
    bench.bench.publish(6, entities());
    assert_eq!(own(&bench, "a", "GetTask", id).await.result(), task);
}

#[tokio::test]
async fn scopes_precede_all_operations_of_own_agent() {
    let operations = [
        "SendMessage",
        "SendStreamingMessage",
        "GetTask",
        "CancelTask",
        "SubscribeToTask",
        "ListTasks",
    ];
    let scopes = operations.map(|name| (name.to_owned(), vec!["agents".to_owned()]));
    let authentication = AuthenticationConfig {
        scopes: scopes.into_iter().collect(),
        ..AuthenticationConfig::default()
    };
    let bridges = AgentBridges { as_tools: false, of_tools: true };
    let setup = Setup { authentication, bridges, ..Setup::default() };
    let bench = A2aBench::start_with(setup, []).await;
    bench.bench.publish(2, entities());
    for method in operations {
        let mut params = message_to("relay");
        params["id"] = json!("unknown");
        let got = own(&bench, "a", method, params).await;
        assert_eq!(got.status, 401, "{method}: {got:?}");
    }
    assert!(bench.bench.calls().is_empty());
}

#[tokio::test]
async fn composed_tool_streams_status_and_artifact() {
    let bench = own_agent().await;
    let got = own(&bench, "a", "SendStreamingMessage", message_to("relay")).await;
    let events = events(&got);
    let last = &events.last().unwrap()["result"];
    let task = &events[0]["result"]["task"];
    // The task can end before its client is connected.
    let artifact = if task["artifacts"].is_array() {
        &task["artifacts"][0]
    } else {
        assert_eq!(last["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED", "{got:?}");
        &events[events.len() - 2]["result"]["artifactUpdate"]["artifact"]
    };
    assert_eq!(artifact["parts"], json!([{ "data": { "topic": "go" } }]), "{got:?}");
}

#[tokio::test]
async fn running_tool_is_canceled_by_its_caller() {
    let bench = own_agent().await;
    let mut params = message_to("stuck");
    params["configuration"] = json!({ "returnImmediately": true });
    let task = own(&bench, "a", "SendMessage", params).await.result()["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_WORKING", "{task}");
    bench.bench.until_called(1).await;
    let id = json!({ "id": task["id"] });
    assert_eq!(own(&bench, "b", "CancelTask", id.clone()).await.error(), (200, -32001));
    let canceled = own(&bench, "a", "CancelTask", id.clone()).await.result();
    assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED", "{canceled}");
    assert_eq!(own(&bench, "a", "CancelTask", id.clone()).await.error(), (200, -32002));
    assert_eq!(own(&bench, "a", "SubscribeToTask", id).await.error(), (200, -32004));
}

#[tokio::test]
async fn message_must_select_a_tool_and_conform() {
    let bench = own_agent().await;
    let got = own(&bench, "a", "SendMessage", message("go")).await;
    assert_eq!(got.error(), (200, -32602), "two skills");
    for skill in ["echo", "unknown", "a b"] {
        let got = own(&bench, "a", "SendMessage", message_to(skill)).await;
        assert_eq!(got.error(), (200, -32602), "{skill} is no composed tool of the caller");
    }
    let mut params = message_to("relay");
    params["message"]["parts"] = json!([{ "data": {} }]);
    let got = own(&bench, "a", "SendMessage", params).await;
    let info = got.json()["error"]["data"][0].clone();
    assert_eq!(info["metadata"]["pointer"], "/message/parts/0/data", "{got:?}");
    assert!(bench.bench.calls().is_empty());
}

#[tokio::test]
async fn call_of_a_composed_tool_is_governed() {
    let bench = own_agent().await;
    let mut entities = entities();
    let rule = "forbid (principal, action, resource);";
    entities.push(policy("closed", json!({ "authorization": { "cedar": rule } })));
    bench.bench.publish(3, entities);
    let operation = Operation::SendMessage.name();
    let got = own(&bench, "a", operation, message_to("relay")).await;
    assert_eq!(got.status, 403, "{got:?}");
    assert_eq!(got.json()["error"]["data"][0]["metadata"]["policy"], "closed");
    let got = bench.bench.call("a", TOOL, json!({ "topic": "go" })).await;
    assert_eq!(got.result()["isError"], true, "{got:?}");
    assert!(bench.bench.calls().is_empty() && bench.agent.seen("SendMessage").is_empty());
}
