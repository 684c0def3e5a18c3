//! Each path from a caller to a target is governed: the same policy denies all of them.

use std::time::Duration;

use futures_util::StreamExt as _;
use gateway_protocol::mcp::{Era, Method};
use gateway_upstream::UpstreamLimits;
use serde_json::{Value, json};

use super::{
    far_side::FarSide,
    harness::{Ask, Bench, Got, Setup},
    relayed::{ERAS, able, able_session, knowing, messages},
};
use crate::testing::{Registered, agent, policy, server, tool};

const TOOLS: [&str; 4] = ["asks", "tells", "aside", "works"];

fn entities(policies: impl IntoIterator<Item = Registered>) -> Vec<Registered> {
    let mut entities = vec![
        server("up", &TOOLS, &["prompts", "resources"]),
        agent("a", "1.0.0", &TOOLS.map(|tool| (tool, "1.0.0"))),
    ];
    entities.extend(TOOLS.map(|name| tool(name, "1.0.0", json!({}))));
    entities.extend(policies);
    entities
}

/// Denies each action on everything that `up` serves.
fn closed() -> Registered {
    let members = json!({ "appliesTo": { "servers": ["up"] },
        "authorization": { "cedar": "forbid (principal, action, resource);" } });
    policy("closed", members)
}

async fn start(era: Era, policies: impl IntoIterator<Item = Registered>) -> (Bench, FarSide) {
    let (far_side, transport) = FarSide::start(era).await;
    let limits = UpstreamLimits { call_timeout_ms: 3_000, ..UpstreamLimits::default() };
    let setup = Setup { transport: Some(transport), limits, ..Setup::default() };
    let bench = Bench::start(setup, entities(policies)).await;
    bench.until_features().await;
    (bench, far_side)
}

/// The requests that reach a method at a target, in the stateless and in the session era. An era
/// without the method, and methods that no caller can send, have none.
fn requests(method: Method, task: &str) -> [Option<(&'static str, Value)>; 2] {
    let both = |name, params: Value| [Some((name, params.clone())), Some((name, params))];
    let task = json!({ "taskId": task });
    match method {
        Method::CallTool => both("tools/call", json!({ "name": "tells" })),
        Method::GetPrompt => both("prompts/get", json!({ "name": "p" })),
        Method::ReadResource => both("resources/read", json!({ "uri": "test://r" })),
        Method::Complete => both(
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": "p" },
                "argument": { "name": "x", "value": "v" } }),
        ),
        Method::Subscribe => [None, Some(("resources/subscribe", json!({ "uri": "test://r" })))],
        Method::GetTask => both("tasks/get", task),
        Method::TaskResult => [None, Some(("tasks/result", task))],
        Method::UpdateTask => [Some(("tasks/update", task)), None],
        Method::CancelTask => both("tasks/cancel", task),
        // Skills are called by steps only (`composed::governed`). The other two carry nothing to a
        // target.
        Method::SendMessage { .. } | Method::Unsubscribe | Method::SetLevel => [None, None],
    }
}

const METHODS: [Method; 12] = [
    Method::CallTool,
    Method::SendMessage { takes_text: true, gives_text: true, streams: true },
    Method::GetPrompt,
    Method::ReadResource,
    Method::Subscribe,
    Method::Unsubscribe,
    Method::Complete,
    Method::SetLevel,
    Method::GetTask,
    Method::TaskResult,
    Method::UpdateTask,
    Method::CancelTask,
];

/// The response, which can follow other messages.
fn response(got: &Got) -> Value {
    messages(&got.text).pop().unwrap_or_else(|| got.json())
}

/// The reason of a denial; null for another response.
fn denial(got: &Got) -> Value {
    let body = response(got);
    let found = &body["error"]["data"]["reason"];
    let found = if found.is_null() {
        &body["result"]["_meta"]["registry/governance"]["reason"]
    } else {
        found
    };
    found.clone()
}

async fn modern(bench: &Bench, method: &str, params: Value) -> Got {
    let mut ask = knowing(method, params.clone());
    if let Some(id) = params["taskId"].as_str().or(params["uri"].as_str()) {
        ask = ask.with("mcp-name", id);
    }
    bench.got(ask.build()).await
}

#[tokio::test]
async fn policy_denies_each_method_in_both_eras() {
    let (bench, far_side) = start(Era::Modern, []).await;
    let session = bench.initialize("a").await;
    let call = json!({ "name": "works", "arguments": {} });
    let task = modern(&bench, "tools/call", call).await.result()["taskId"].clone();
    let task = task.as_str().unwrap();
    // A first pass without the policy shows that each path works.
    for denied in [Value::Null, json!("UNAUTHORIZED")] {
        if !denied.is_null() {
            bench.publish(2, entities([closed()]));
        }
        for method in METHODS {
            let [stateless, stateful] = requests(method, task);
            let sent = far_side.seen(method.as_str()).len();
            if let Some((name, params)) = stateless {
                let got = modern(&bench, name, params).await;
                assert_eq!(denial(&got), denied, "{name}: {got:?}");
            }
            if let Some((name, params)) = stateful {
                let got = bench.legacy(&session, "a", (name, params)).await;
                assert_eq!(denial(&got), denied, "{name}: {got:?}");
            }
            if !denied.is_null() {
                assert_eq!(far_side.seen(method.as_str()).len(), sent, "{method:?} was sent");
            }
        }
    }
}

#[tokio::test]
async fn condition_on_arguments_denies_no_feature() {
    let cedar = "forbid (principal, action == Action::\"call\", resource) when { \
        context.arguments has amount && context.arguments.amount > 10 };";
    let members =
        json!({ "appliesTo": { "servers": ["up"] }, "authorization": { "cedar": cedar } });
    let (bench, _) = start(Era::Modern, [policy("large", members)]).await;
    let session = bench.initialize("a").await;
    for method in [Method::GetPrompt, Method::ReadResource, Method::Complete, Method::Subscribe] {
        let [stateless, stateful] = requests(method, "");
        if let Some((name, params)) = stateless {
            assert_eq!(denial(&modern(&bench, name, params).await), Value::Null, "{name}");
        }
        if let Some((name, params)) = stateful {
            let got = bench.legacy(&session, "a", (name, params)).await;
            assert_eq!(denial(&got), Value::Null, "{name}");
        }
    }
}

#[tokio::test]
async fn denied_resource_is_not_acknowledged_or_listed() {
    for (policies, is_listed) in [(vec![], true), (vec![closed()], false)] {
        let (bench, _) = start(Era::Modern, policies).await;
        let filter = json!({ "notifications": { "resourceSubscriptions": ["test://r"] } });
        let listen = Ask::modern("subscriptions/listen", filter).by("a");
        let mut body = bench.send(listen.build()).await.into_body().into_data_stream();
        let text = String::from_utf8(body.next().await.unwrap().unwrap().to_vec()).unwrap();
        let acknowledged = &messages(&text)[0]["params"]["notifications"];
        assert_eq!(acknowledged.get("resourceSubscriptions").is_some(), is_listed);
        let session = bench.initialize("a").await;
        for (method, list) in [
            ("tools/list", "tools"),
            ("prompts/list", "prompts"),
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
        ] {
            let modern = bench.modern("a", method, json!({})).await.result();
            let legacy = bench.legacy(&session, "a", (method, json!({}))).await.result();
            for result in [modern, legacy] {
                assert_eq!(!result[list].as_array().unwrap().is_empty(), is_listed, "{result}");
            }
        }
    }
}

#[tokio::test]
async fn hidden_features_do_not_exist_for_unregistered_callers() {
    let (bench, _) = start(Era::Modern, [closed()]).await;
    let read = json!({ "uri": "test://r" });
    let got = bench.got(Ask::modern("resources/read", read).with("mcp-name", "test://r").build());
    assert_eq!(got.await.error().1, -32602);
}

#[tokio::test]
async fn subscription_ends_with_a_new_policy() {
    for era in ERAS {
        let (bench, far_side) = start(era, []).await;
        let filter = json!({ "notifications":
            { "resourceSubscriptions": ["test://r"], "toolsListChanged": true } });
        let listen = Ask::modern("subscriptions/listen", filter).by("a");
        let mut body = bench.send(listen.build()).await.into_body().into_data_stream();
        let mut next = async || {
            let chunk = tokio::time::timeout(Duration::from_secs(5), body.next()).await;
            let text = String::from_utf8(chunk.unwrap().unwrap().unwrap().to_vec()).unwrap();
            messages(&text).remove(0)["method"].clone()
        };
        assert_eq!(next().await, "notifications/subscriptions/acknowledged");
        super::relayed::acceptable(|| far_side.listeners() > 0).await;
        let update = || {
            far_side.tell("notifications/resources/updated", &json!({ "uri": "test://r" }));
        };
        update();
        assert_eq!(next().await, "notifications/resources/updated");
        bench.publish(2, entities([closed()]));
        assert_eq!(next().await, "notifications/tools/list_changed");
        update();
        bench.publish(3, entities([]));
        assert_eq!(next().await, "notifications/tools/list_changed", "no update in between");
    }
}

#[tokio::test]
async fn held_question_ends_with_a_new_policy() {
    let (bench, far_side) = start(Era::Legacy, []).await;
    let session = able_session(&bench).await;
    let ask = Ask::legacy(&session, "tools/call", json!({ "name": "asks" })).by("a");
    let mut body = bench.send(ask.build()).await.into_body().into_data_stream();
    let mut text = String::new();
    while !text.contains("elicitation/create") {
        text.push_str(std::str::from_utf8(&body.next().await.unwrap().unwrap()).unwrap());
    }
    let held = bench.got(able("tools/call", json!({ "name": "asks" })).build()).await.result();
    assert_eq!(held["resultType"], "input_required");
    bench.publish(2, entities([closed()]));
    while messages(&text).last().is_none_or(|last| last.get("method").is_some()) {
        text.push_str(std::str::from_utf8(&body.next().await.unwrap().unwrap()).unwrap());
    }
    let ended = messages(&text).pop().unwrap();
    assert_eq!(ended["result"]["_meta"]["registry/governance"]["reason"], "UNAUTHORIZED");
    let sent = messages(&text);
    let find = |method: &str| sent.iter().find(|message| message["method"] == method).unwrap();
    let question = &find("elicitation/create")["id"];
    assert_eq!(&find("notifications/cancelled")["params"]["requestId"], question);
    let again = json!({ "name": "asks", "requestState": held["requestState"],
        "inputResponses": { "input": { "action": "accept" } } });
    let got = bench.got(able("tools/call", again).build()).await;
    assert_eq!(denial(&got), "UNAUTHORIZED", "{got:?}");
    super::relayed::acceptable(|| far_side.seen("notifications/cancelled").len() == 2).await;
    let mut reply = Ask::legacy(&session, "", json!({})).by("a");
    reply.body = json!({ "jsonrpc": "2.0", "id": question, "result": { "action": "accept" } });
    assert_eq!(bench.got(reply.build()).await.status, 202);
    // The next call passes after the answer would.
    bench.publish(3, entities([]));
    modern(&bench, "tools/call", json!({ "name": "tells" })).await;
    assert_eq!(far_side.answers(), 0, "the answer is not sent");
}

#[tokio::test]
async fn question_under_a_new_policy_ends_the_call() {
    let (bench, far_side) = start(Era::Legacy, []).await;
    let session = able_session(&bench).await;
    let call = json!({ "name": "asks", "arguments": { "later": true } });
    let stop = async {
        super::relayed::acceptable(|| !far_side.seen("tools/call").is_empty()).await;
        bench.publish(2, entities([closed()]));
        far_side.late.notify_one();
    };
    let ask = Ask::legacy(&session, "tools/call", call).by("a");
    let (got, ()) = tokio::join!(bench.got(ask.build()), stop);
    assert_eq!(denial(&got), "UNAUTHORIZED", "{got:?}");
}

#[tokio::test]
async fn held_question_of_unregistered_caller_ends_too() {
    let (bench, far_side) = start(Era::Legacy, []).await;
    let anonymous = |params: Value| {
        let mut ask = able("tools/call", params);
        ask.headers.retain(|(name, _)| name != "x-agent-name");
        ask.build()
    };
    let held = bench.got(anonymous(json!({ "name": "asks" }))).await.result();
    assert_eq!(held["resultType"], "input_required");
    bench.publish(2, entities([closed()]));
    let again = json!({ "name": "asks", "requestState": held["requestState"],
        "inputResponses": { "input": { "action": "accept" } } });
    assert_eq!(denial(&bench.got(anonymous(again)).await), "UNAUTHORIZED");
    super::relayed::acceptable(|| far_side.seen("notifications/cancelled").len() == 1).await;
}

#[tokio::test]
async fn running_call_keeps_the_policies_of_its_start() {
    let (bench, _) = start(Era::Modern, []).await;
    let call = json!({ "name": "works", "arguments": {} });
    let task = modern(&bench, "tools/call", call).await.result()["taskId"].clone();
    bench.publish(
        2,
        entities([policy("rates", json!({ "rates": [{ "limit": 0, "window": "PT1M" }] }))]),
    );
    let got = modern(&bench, "tasks/get", json!({ "taskId": task })).await;
    assert_eq!(got.result()["status"], "completed");
}
