//! Approvals of compositions and their steps.

use approval::{Choice, RequestId, State};
use gateway_testkit::{McpServer, Received, Reply};

use super::{saga::*, *};
use crate::testing::policy;

/// A policy that demands the approval of calls of these tools.
fn demanding(name: &str, tools: &[&str]) -> Registered {
    policy(name, json!({ "appliesTo": { "tools": tools }, "approval": {} }))
}

/// Approves all pending requests. Returns their resources.
async fn approve(composed: &Composed) -> Vec<String> {
    let mut approved = Vec::new();
    for (request, status) in composed.bench.approvals.list().await {
        if status.state == State::Pending {
            let choice = Choice::Approve { standing: None };
            composed.bench.approvals.decide(request.id, &choice).await.unwrap();
            approved.push(request.binding.resource);
        }
    }
    approved
}

async fn states(composed: &Composed) -> Vec<(RequestId, State)> {
    composed.bench.gateway.approvals().shutdown().await;
    let listed = composed.bench.approvals.list().await.into_iter();
    listed.map(|(request, status)| (request.id, status.state)).collect()
}

#[tokio::test]
async fn step_needs_approval_and_its_composition_is_repeated() {
    let outer = composition("outer", pipeline(&[step("s", "echo", json!(null))]));
    let composed = Composed::start(vec![outer, demanding("people", &["echo"])]).await;
    let (step, reason, message) = composed.failure("outer", json!({ "x": 1 })).await;
    assert_eq!([&*step, &*reason], ["s", "denied"]);
    let [(id, _)] = states(&composed).await[..] else { panic!("not one request") };
    assert!(message.contains(&id.to_string()), "the caller learns the id: {message}");
    assert_eq!(approve(&composed).await, ["tool/echo"]);
    assert_eq!(composed.failure("outer", json!({ "x": 2 })).await.1, "denied");
    assert_eq!(composed.value("outer", json!({ "x": 1 })).await, json!({ "x": 1 }));
    assert_eq!(composed.upstream.calls("echo").len(), 1);
    assert!(states(&composed).await.contains(&(id, State::Succeeded)));
}

#[tokio::test]
async fn approval_of_composition_covers_its_steps_for_its_policies() {
    let inner = composition("inner", pipeline(&[step("s", "echo", json!(null))]));
    let outer = around("outer", "inner", pipeline(&[step("o", "inner", json!(null))]));
    let all = demanding("all", &["outer", "inner", "echo"]);
    let composed = Composed::start(vec![inner, outer, all]).await;
    let result = composed.got("outer", json!({ "x": 1 })).await.result();
    assert_eq!(result["_meta"]["registry/governance"]["reason"], "APPROVAL_REQUIRED");
    assert_eq!(approve(&composed).await, ["tool/outer"]);
    assert_eq!(composed.value("outer", json!({ "x": 1 })).await, json!({ "x": 1 }));
    assert_eq!(states(&composed).await.len(), 1);
}

#[tokio::test]
async fn step_of_approved_composition_is_not_resent() {
    let lost = |received: &Received| match received.rpc_method() {
        "tools/call" => Reply::Close(Vec::new()),
        _ => received.unknown_method(),
    };
    let upstream = McpServer::modern().with_tool_names(&TOOLS).start(lost).await;
    let setup = Setup { transport: Some(http(&upstream)), ..Setup::default() };
    let outer = composition("outer", pipeline(&[step("s", "echo", json!(null))]));
    let entities = with_tools(vec![outer, demanding("all", &["outer", "echo"])]);
    let bench = Bench::start(setup, entities).await;
    bench.call("", "outer", json!({ "x": 1 })).await;
    let (request, _) = bench.approvals.list().await.pop().unwrap();
    let choice = Choice::Approve { standing: None };
    bench.approvals.decide(request.id, &choice).await.unwrap();
    bench.call("", "outer", json!({ "x": 1 })).await;
    assert_eq!(upstream.seen("tools/call").len(), 1, "the tool is idempotent");
}

#[tokio::test]
async fn approval_of_composition_does_not_cover_other_policies() {
    let outer = composition("outer", pipeline(&[step("s", "echo", json!(null))]));
    let policies = [demanding("whole", &["outer"]), demanding("part", &["echo"])];
    let composed = Composed::start([outer].into_iter().chain(policies).collect()).await;
    composed.got("outer", json!({ "x": 1 })).await.failure();
    assert_eq!(approve(&composed).await, ["tool/outer"]);
    assert_eq!(composed.failure("outer", json!({ "x": 1 })).await.1, "denied");
    assert_eq!(approve(&composed).await, ["tool/echo"]);
    assert!(composed.upstream.calls("echo").is_empty());
}

#[tokio::test]
async fn compensation_needs_no_approval() {
    let steps =
        [saga_step("a", "echo", undone_by("keep", json!(null))), saga_step("b", "fail", json!({}))];
    let outer = composition("outer", saga(&steps, json!({})));
    let composed = Composed::start(vec![outer, demanding("people", &["keep"])]).await;
    assert_eq!(composed.failure("outer", json!({ "x": 1 })).await.1, "saga-failed");
    assert_eq!(undone(&composed).len(), 1);
    assert!(states(&composed).await.is_empty());
}
