//! Messages that need the approval of a person.

use a2a::Version;
use approval::{Choice, RequestId, State};
use gateway_policy::{AuthMethod, CallerIdentity, CredentialOrigin, VerifiedCredential};
use serde_json::{Value, json};

use super::harness::{A2aBench, caller, events, helper, message, rpc};
use crate::{
    pipeline,
    testing::{Registered, policy},
};

const WAITING: &str = "TASK_STATE_AUTH_REQUIRED";

fn people() -> Registered {
    policy("people", json!({ "approval": {} }))
}

async fn bench() -> A2aBench {
    A2aBench::start([people()]).await
}

/// The requests for approvals with their states.
async fn requests(bench: &A2aBench) -> Vec<(RequestId, State)> {
    let listed = bench.bench.approvals.list().await.into_iter();
    listed.map(|(request, status)| (request.id, status.state)).collect()
}

async fn decide(bench: &A2aBench, choice: Choice) {
    let id = requests(bench).await[0].0;
    bench.bench.approvals.decide(id, &choice).await.unwrap();
}

/// The messages that the agent has received.
fn received(bench: &A2aBench) -> Vec<Value> {
    let is_message =
        |method: &Value| matches!(method.as_str(), Some("SendMessage" | "message/send"));
    let seen = bench.agent.all_seen();
    let messages = seen.iter().filter(|seen| is_message(&seen.body["method"]));
    messages.map(|seen| seen.body["params"]["message"].clone()).collect()
}

/// The number of messages that the agent has received.
fn sent(bench: &A2aBench) -> usize {
    received(bench).len()
}

/// Sends a message. Returns the task.
async fn send(bench: &A2aBench, task: Option<&Value>) -> Value {
    let mut params = message("go");
    if let Some(task) = task {
        params["message"]["taskId"] = task["id"].clone();
        params["message"]["contextId"] = task["contextId"].clone();
        params["message"]["messageId"] = json!("another");
    }
    bench.rpc("a", "SendMessage", params).await.result()["task"].clone()
}

#[tokio::test]
async fn message_waits_as_task_and_is_repeated_with_its_id() {
    let bench = bench().await;
    let before = sent(&bench);
    let waiting = send(&bench, None).await;
    assert_eq!(waiting["status"]["state"], WAITING, "{waiting}");
    let [(id, State::Pending)] = requests(&bench).await[..] else { panic!("not one request") };
    assert_eq!(waiting["metadata"]["registry/approval"]["id"], id.to_string());
    assert_eq!(send(&bench, None).await["id"], waiting["id"], "a repetition has the same task");
    assert_eq!(send(&bench, Some(&waiting)).await["id"], waiting["id"]);
    assert_eq!(sent(&bench), before);

    decide(&bench, Choice::Approve { standing: None }).await;
    let task = send(&bench, Some(&waiting)).await;
    assert_ne!(task["status"]["state"], WAITING, "{task}");
    assert!(sent(&bench) > before);
    let next = send(&bench, None).await;
    assert_eq!(next["status"]["state"], WAITING, "the approval is used");
}

#[tokio::test]
async fn repeated_message_has_no_invented_context() {
    let bench = bench().await;
    let waiting = send(&bench, None).await;
    assert!(waiting["contextId"].is_string(), "{waiting}");
    decide(&bench, Choice::Approve { standing: None }).await;
    send(&bench, Some(&waiting)).await;
    let message = received(&bench).pop().unwrap();
    assert_eq!([&message["taskId"], &message["contextId"]], [&Value::Null, &Value::Null]);
}

#[tokio::test]
async fn approved_message_stays_in_its_context() {
    let bench = bench().await;
    let waiting = send(&bench, None).await;
    decide(&bench, Choice::Approve { standing: None }).await;
    let before = sent(&bench);
    let mut other = message("go");
    other["message"]["contextId"] = json!("another");
    let other = bench.rpc("a", "SendMessage", other).await.result()["task"].clone();
    assert_eq!(other["status"]["state"], WAITING, "{other}");
    assert_ne!(other["id"], waiting["id"]);
    assert_eq!(sent(&bench), before);
    assert_eq!(requests(&bench).await.len(), 2);
}

/// Members of the configuration and extensions reach the agent, so that approvers must see them.
#[tokio::test]
async fn approved_message_keeps_its_configuration_and_extensions() {
    let bench = bench().await;
    let waiting = send(&bench, None).await;
    decide(&bench, Choice::Approve { standing: None }).await;
    let before = sent(&bench);
    let mut instructed = message("go");
    instructed["configuration"] = json!({ "returnImmediately": true, "instructions": "all" });
    let instructed = rpc(Version::V1, "a", ("SendMessage", instructed));
    let mut extended = rpc(Version::V1, "a", ("SendMessage", message("go")));
    extended.headers_mut().insert("a2a-extensions", "urn:example:other".parse().unwrap());
    for other in [instructed, extended] {
        let other = bench.got(other).await.result()["task"].clone();
        assert_eq!(other["status"]["state"], WAITING, "{other}");
        assert_ne!(other["id"], waiting["id"]);
    }
    assert_eq!(sent(&bench), before);
    let listed = bench.bench.approvals.list().await.into_iter();
    let previews: String = listed.filter_map(|(request, _)| request.preview).collect();
    for shown in [r#""instructions":"all""#, r#""extensions":["urn:example:other"]"#] {
        assert!(previews.contains(shown), "{previews}");
    }
    send(&bench, Some(&waiting)).await;
    assert!(sent(&bench) > before, "the approved message is sent");
}

/// Approvers do not see the delivery of the answer, so that its members must not have other content.
#[tokio::test]
async fn approved_message_has_typed_history_length() {
    let bench = bench().await;
    let waiting = send(&bench, None).await;
    decide(&bench, Choice::Approve { standing: None }).await;
    let before = sent(&bench);
    let mut params = message("go");
    params["configuration"] = json!({ "historyLength": { "instructions": "all" } });
    let refused = bench.rpc("a", "SendMessage", params.clone()).await;
    assert_eq!(refused.error(), (200, -32602));
    assert_eq!(sent(&bench), before);
    params["configuration"]["historyLength"] = json!(2);
    let task = bench.rpc("a", "SendMessage", params).await.result()["task"].clone();
    assert_ne!(task["id"], waiting["id"], "{task}");
    assert!(sent(&bench) > before, "the approved message is sent");
}

#[tokio::test]
async fn approved_message_has_no_baggage() {
    let bench = bench().await;
    let waiting = send(&bench, None).await;
    decide(&bench, Choice::Approve { standing: None }).await;
    let before = sent(&bench);
    let mut repeated = rpc(Version::V1, "a", ("SendMessage", message("go")));
    repeated.headers_mut().insert("baggage", "amount=9".parse().unwrap());
    let task = bench.got(repeated).await.result()["task"].clone();
    assert_ne!(task["id"], waiting["id"], "{task}");
    assert!(sent(&bench) > before);
    assert!(bench.agent.all_seen().iter().all(|seen| !seen.headers.contains_key("baggage")));
}

#[tokio::test]
async fn waiting_task_is_read_and_canceled_by_its_caller() {
    let bench = bench().await;
    let waiting = send(&bench, None).await;
    let params = json!({ "id": waiting["id"] });
    let read = bench.rpc("a", "GetTask", params.clone()).await.result();
    assert_eq!([&read["id"], &read["status"]["state"]], [&waiting["id"], &json!(WAITING)]);
    let other = bench.rpc("stranger", "GetTask", params.clone()).await.json();
    assert!(other["error"].is_object(), "{other}");
    let canceled = bench.rpc("a", "CancelTask", params.clone()).await.result();
    assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED");
    assert_eq!(requests(&bench).await[0].1, State::Cancelled);
    let mut other = message("other");
    other["message"]["taskId"] = waiting["id"].clone();
    let other = bench.rpc("a", "SendMessage", other).await.result();
    assert_ne!(other["task"]["id"], waiting["id"], "another message has another task");
}

#[tokio::test]
async fn waiting_task_of_retired_agent_is_read_and_canceled() {
    let bench = bench().await;
    let waiting = send(&bench, None).await;
    bench.bench.publish(2, vec![helper().retired(), caller(), people()]);
    for (method, state) in [("GetTask", WAITING), ("CancelTask", "TASK_STATE_CANCELED")] {
        let task = bench.rpc("a", method, json!({ "id": waiting["id"] })).await.result();
        assert_eq!(task["status"]["state"], state, "{method}");
    }
}

#[tokio::test]
async fn waiting_task_belongs_to_the_subject_of_the_token() {
    let bench = bench().await;
    let sealed = |subject: &str| {
        let (issuer, subject) = ("https://id.example".into(), subject.into());
        let origin = CredentialOrigin::Token { issuer, subject, person: None };
        let claim = CallerIdentity::Verified {
            agent: None,
            auth_method: AuthMethod::Token,
            principal: "p".into(),
            log_name: None,
            credentials: [VerifiedCredential { agent: Some("a".into()), origin }].into(),
        };
        pipeline::sealed_for(&bench.bench.gateway, "purpose", &claim)
    };
    assert_eq!(sealed("ann"), sealed("ann"));
    assert_ne!(sealed("ann"), sealed("bob"), "both have tokens of one agent");
}

#[tokio::test]
async fn stream_of_a_waiting_message_has_its_task() {
    let bench = bench().await;
    let got = bench.rpc("a", "SendStreamingMessage", message("go")).await;
    let events = events(&got);
    let [event] = &events[..] else { panic!("not one event: {got:?}") };
    let waiting = &event["result"]["task"];
    assert_eq!(waiting["status"]["state"], WAITING, "{event}");
    assert_eq!(send(&bench, None).await["id"], waiting["id"], "both operations have one task");
}

#[tokio::test]
async fn denied_message_is_an_error() {
    let bench = bench().await;
    send(&bench, None).await;
    decide(&bench, Choice::Deny { reason: "no".to_owned() }).await;
    let got = bench.rpc("a", "SendMessage", message("go")).await;
    let info = got.json()["error"]["data"][0].clone();
    assert_eq!(info["reason"], "APPROVAL_DENIED", "{got:?}");
}
