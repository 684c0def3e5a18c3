//! Approvals of calls, through the endpoint.

use std::{collections::BTreeMap, sync::Arc};

use approval::{Choice, Request, RequestId, State};
use gateway_testkit::{McpServer, Received, Reply};
use registry_core::{Amount, Document, Kind};
use serde_json::{Value, json};

use super::{
    harness::{Bench, Setup, http},
    relayed::{able, able_session, acceptable, asked},
};
use crate::{
    pipeline::DenialForm,
    testing::{Registered, agent, policy, server, tool},
};

/// Upstream tools, which are named after their behavior.
const TOOLS: [&str; 6] = ["pay", "fails", "rpc", "slow", "asks", "read"];
const REQUIRED: &str = "APPROVAL_REQUIRED";
const DENIED: &str = "APPROVAL_DENIED";
const UNAVAILABLE: &str = "APPROVAL_UNAVAILABLE";
const APPROVE: Choice = Choice::Approve { standing: None };

fn entities(policies: impl IntoIterator<Item = Registered>) -> Vec<Registered> {
    let tools = TOOLS.map(|tool| (tool, "1.0.0"));
    let mut entities =
        vec![server("up", &TOOLS, &[]), agent("a", "1.0.0", &tools), agent("b", "1.0.0", &tools)];
    let read_only = json!({ "annotations": { "readOnlyHint": true } });
    entities.extend(TOOLS.map(|name| {
        tool(name, "1.0.0", if name == "read" { read_only.clone() } else { json!({}) })
    }));
    entities.extend(policies);
    entities
}

#[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
fn demanding(approval: Value) -> Registered {
    policy("people", json!({ "approval": approval }))
}

async fn bench(policies: impl IntoIterator<Item = Registered>) -> Bench {
    Bench::start(Setup::default(), entities(policies)).await
}

/// The denial of a call, or null.
async fn denial(bench: &Bench, agent: &str, tool: &str, arguments: Value) -> Value {
    let got = bench.call(agent, tool, arguments).await.json();
    got["result"]["_meta"]["registry/governance"].clone()
}

async fn reason(bench: &Bench, agent: &str, tool: &str, arguments: Value) -> Value {
    denial(bench, agent, tool, arguments).await["reason"].clone()
}

fn id(denial: &Value) -> RequestId {
    let id = denial["error"]["details"]["approvalId"].as_str();
    id.unwrap_or_else(|| panic!("no approval: {denial}")).parse().unwrap()
}

/// Calls a tool, and approves the call.
async fn approve(bench: &Bench, agent: &str, tool: &str, arguments: Value) -> RequestId {
    let id = id(&denial(bench, agent, tool, arguments).await);
    bench.approvals.decide(id, &APPROVE).await.unwrap();
    id
}

async fn requests(bench: &Bench) -> BTreeMap<RequestId, (Request, State)> {
    let listed = bench.approvals.list().await.into_iter();
    listed.map(|(request, status)| (request.id, (request, status.state))).collect()
}

async fn state(bench: &Bench, id: RequestId) -> State {
    requests(bench).await[&id].1
}

/// Waits for the reported outcome of a call.
async fn outcome(bench: &Bench, id: RequestId) -> State {
    bench.gateway.approvals().shutdown().await;
    state(bench, id).await
}

#[tokio::test]
async fn approved_call_is_sent_once() {
    let bench = bench([demanding(json!({}))]).await;
    let arguments = json!({ "amount": 7 });
    let first = denial(&bench, "a", "pay", arguments.clone()).await;
    let details = &first["error"]["details"];
    assert_eq!([&first["reason"], &details["policy"]], [REQUIRED, "people"]);
    assert!(details.get("expiresAt").is_some_and(Value::is_null), "it does not expire");
    let again = denial(&bench, "a", "pay", arguments.clone()).await;
    assert_eq!(id(&again), id(&first), "the repetition finds the request");
    assert!(bench.calls().is_empty());

    bench.approvals.decide(id(&first), &APPROVE).await.unwrap();
    let result = bench.call("a", "pay", arguments.clone()).await.result();
    assert_eq!(result["structuredContent"], arguments);
    let other = denial(&bench, "a", "pay", arguments).await;
    assert_ne!(id(&other), id(&first));
    assert_eq!(bench.calls().len(), 1);
    assert_eq!(outcome(&bench, id(&first)).await, State::Succeeded);
}

#[tokio::test]
async fn approval_is_bound_to_caller_tool_and_arguments() {
    let bench = bench([demanding(json!({}))]).await;
    let approved = approve(&bench, "a", "pay", json!({ "amount": 7 })).await;
    for (agent, tool, arguments) in [
        ("a", "pay", json!({ "amount": 8 })),
        ("a", "pay", json!({ "amount": "7" })),
        ("a", "pay", json!({ "amount": 7, "more": null })),
        ("a", "fails", json!({ "amount": 7 })),
        ("b", "pay", json!({ "amount": 7 })),
        ("", "pay", json!({ "amount": 7 })),
    ] {
        assert_eq!(reason(&bench, agent, tool, arguments).await, REQUIRED);
    }
    assert_eq!(state(&bench, approved).await, State::Approved, "nothing used it");
    assert_eq!(reason(&bench, "a", "pay", json!({ "amount": 7.0 })).await, Value::Null);
    assert_eq!(bench.calls().len(), 1);
}

#[tokio::test]
async fn approved_call_has_no_unseen_parameters() {
    let bench = bench([demanding(json!({}))]).await;
    approve(&bench, "a", "pay", json!({})).await;
    let params = json!({ "name": "pay", "arguments": {}, "extra": 1, "requestState": "s",
        "inputResponses": {}, "_meta": { "com.example/amount": 9, "baggage": "amount=9" } });
    let result = bench.modern("a", "tools/call", params).await.result();
    assert_ne!(result["isError"], true, "{result}");
    let sent = bench.calls()[0].body["params"].clone();
    assert_eq!(sent["name"], "pay");
    for name in ["extra", "requestState", "inputResponses"] {
        assert_eq!(sent.get(name), None, "{sent}");
    }
    for name in ["com.example/amount", "baggage"] {
        assert_eq!(sent["_meta"].get(name), None, "{sent}");
    }
    assert!(!bench.calls()[0].headers.contains_key("baggage"));
}

#[tokio::test]
async fn denied_call_has_the_reason() {
    let bench = bench([demanding(json!({}))]).await;
    let first = denial(&bench, "a", "pay", json!({})).await;
    let choice = Choice::Deny { reason: "a duplicate".to_owned() };
    bench.approvals.decide(id(&first), &choice).await.unwrap();
    let second = denial(&bench, "a", "pay", json!({})).await;
    let details = &second["error"]["details"];
    assert_eq!([&second["reason"], &details["reason"]], [DENIED, "a duplicate"]);
    assert!(details["deniedUntil"].is_string());
    assert!(bench.calls().is_empty());
}

#[tokio::test]
async fn new_definition_or_policy_supersedes_the_request() {
    let bench = bench([demanding(json!({}))]).await;
    let first = approve(&bench, "a", "pay", json!({})).await;
    let mut changed = entities([demanding(json!({}))]);
    changed.retain(|entity| entity.document["name"] != "pay");
    changed.push(tool("pay", "1.0.0", json!({ "description": "another one" })));
    bench.publish(2, changed);
    let second = approve(&bench, "a", "pay", json!({})).await;
    assert_eq!(state(&bench, first).await, State::Superseded);
    bench.publish(3, entities([demanding(json!({ "expiresAfter": "PT1H" }))]));
    let third = denial(&bench, "a", "pay", json!({})).await;
    assert_eq!(third["reason"], REQUIRED);
    assert!(third["error"]["details"]["expiresAt"].is_string());
    assert_eq!(state(&bench, second).await, State::Superseded);
    assert!(bench.calls().is_empty());
}

#[tokio::test]
async fn outcome_is_that_of_the_call() {
    let bench = bench([demanding(json!({}))]).await;
    let mut approved = Vec::new();
    for (tool, arguments, expected) in [
        ("pay", json!({}), State::Succeeded),
        ("fails", json!({}), State::Failed),
        ("rpc", json!({ "code": -32000 }), State::Failed),
        ("slow", json!({}), State::Unknown),
    ] {
        approved.push((approve(&bench, "a", tool, arguments.clone()).await, expected));
        assert_eq!(reason(&bench, "a", tool, arguments).await, Value::Null);
    }
    for (id, expected) in approved {
        assert_eq!(outcome(&bench, id).await, expected);
    }
    let again = denial(&bench, "a", "slow", json!({})).await;
    assert!(again["error"]["details"]["uncertainId"].is_string(), "it warns: {again}");
}

#[tokio::test]
async fn approved_call_is_not_resent() {
    let lost = |received: &Received| match received.rpc_method() {
        "tools/call" => Reply::Close(Vec::new()),
        _ => received.unknown_method(),
    };
    let upstream = McpServer::modern().with_tool_names(&TOOLS).start(lost).await;
    let setup = Setup { transport: Some(http(&upstream)), ..Setup::default() };
    let mut entities = entities([demanding(json!({}))]);
    entities.retain(|entity| entity.document["name"] != "pay");
    entities.push(tool("pay", "1.0.0", json!({ "annotations": { "idempotentHint": true } })));
    let bench = Bench::start(setup, entities).await;
    let id = approve(&bench, "a", "pay", json!({})).await;
    bench.call("a", "pay", json!({})).await;
    assert_eq!(upstream.seen("tools/call").len(), 1);
    assert_eq!(outcome(&bench, id).await, State::Unknown);
}

#[tokio::test]
async fn exhausted_budget_keeps_the_approval() {
    let budget = json!({ "name": "b", "per": "agent", "limit": "1", "window": "total" });
    let costs = json!({ "price": { "perCall": "1" }, "budgets": [budget],
        "appliesTo": { "tools": ["pay"] } });
    let bench = bench([demanding(json!({})), policy("costs", costs)]).await;
    let spent = || {
        let view = serde_json::to_value(bench.gateway.spending().view()).unwrap();
        let spent = view["budgets"][0]["gateway"]["spent"].as_str().unwrap_or("0").to_owned();
        Amount::parse(&spent).unwrap()
    };
    let first = approve(&bench, "a", "pay", json!({ "n": 1 })).await;
    let second = approve(&bench, "a", "pay", json!({ "n": 2 })).await;
    assert_eq!(spent(), Amount::ZERO, "a call without approval is free");
    assert_eq!(reason(&bench, "a", "pay", json!({ "n": 1 })).await, Value::Null);
    assert_eq!(reason(&bench, "a", "pay", json!({ "n": 2 })).await, "BUDGET_EXCEEDED");
    assert_eq!(outcome(&bench, first).await, State::Succeeded);
    assert_eq!(state(&bench, second).await, State::Approved);
}

#[tokio::test]
async fn policies_share_one_request() {
    let second = policy("auditors", json!({ "approval": { "show": ["/id"] } }));
    let bench = bench([demanding(json!({})), second]).await;
    let arguments = json!({ "id": "A-7", "to": "ann@example.com" });
    let id = id(&denial(&bench, "a", "pay", arguments).await);
    let (request, _) = &requests(&bench).await[&id];
    let demands: Vec<_> = request.binding.demands.iter().map(|demand| &*demand.policy).collect();
    assert_eq!(demands, ["auditors@1.0.0", "people@1.0.0"]);
    let preview: Value = serde_json::from_str(request.preview.as_deref().unwrap()).unwrap();
    assert_eq!(preview, json!({ "/id": "A-7" }));
}

#[tokio::test]
async fn hidden_arguments_are_neither_shown_nor_required() {
    let schema = json!({ "type": "object", "properties": { "amount": {}, "key": {} } });
    let hidden = json!({ "inputSchema": schema,
        "source": { "hideFields": ["key"], "defaults": { "key": "${KEY}" } } });
    let setup = Setup {
        variables: BTreeMap::from([("KEY".to_owned(), "s3cret".to_owned())]),
        ..Setup::default()
    };
    let mut entities = entities([demanding(json!({}))]);
    entities.retain(|entity| entity.document["name"] != "pay");
    entities.push(tool("pay", "1.0.0", hidden));
    let bench = Bench::start(setup, entities).await;
    let id = approve(&bench, "a", "pay", json!({ "amount": 7 })).await;
    let (request, _) = &requests(&bench).await[&id];
    let preview: Value = serde_json::from_str(request.preview.as_deref().unwrap()).unwrap();
    assert_eq!(preview, json!({ "amount": 7 }));
    assert_eq!(reason(&bench, "a", "pay", json!({ "amount": 7 })).await, Value::Null);
    assert_eq!(bench.arguments(), [json!({ "amount": 7, "key": "s3cret" })]);
}

#[tokio::test]
async fn own_policy_demands_approval_of_destructive_calls() {
    let own = json!({ "name": "own", "version": "1.0.0", "approval": { "when": "destructive" } });
    let own_policy = Some(Arc::new(Document::parse(Kind::Policy, &own).unwrap()));
    let bench = Bench::start(Setup { own_policy, ..Setup::default() }, entities([])).await;
    assert_eq!(reason(&bench, "a", "read", json!({})).await, Value::Null);
    approve(&bench, "a", "pay", json!({})).await;
    assert_eq!(reason(&bench, "a", "pay", json!({})).await, Value::Null);
    let hints = json!({ "annotations": { "destructiveHint": false } });
    let closed = json!({ "annotations": { "destructiveHint": false, "openWorldHint": false } });
    for (revision, hints, expected) in [(2, hints, json!(REQUIRED)), (3, closed, Value::Null)] {
        let mut changed = entities([]);
        changed.retain(|entity| entity.document["name"] != "pay");
        changed.push(tool("pay", "1.0.0", hints));
        bench.publish(revision, changed);
        assert_eq!(reason(&bench, "a", "pay", json!({})).await, expected);
    }
}

#[tokio::test]
async fn audit_mode_requests_nothing() {
    let audited = policy("people", json!({ "mode": "audit", "approval": {} }));
    let bench = bench([audited]).await;
    assert_eq!(reason(&bench, "a", "pay", json!({})).await, Value::Null);
    assert!(requests(&bench).await.is_empty());
}

#[tokio::test]
async fn pending_requests_of_a_caller_are_limited() {
    let bench = bench([demanding(json!({}))]).await;
    for n in 0..20 {
        assert_eq!(reason(&bench, "a", "pay", json!({ "n": n })).await, REQUIRED);
    }
    let full = denial(&bench, "a", "pay", json!({ "n": 20 })).await;
    assert_eq!(full["reason"], UNAVAILABLE);
    assert!(full["error"]["details"]["problem"].is_string());
    assert_eq!(reason(&bench, "b", "pay", json!({})).await, REQUIRED);
}

#[tokio::test]
async fn indistinct_arguments_cannot_be_approved() {
    let bench = bench([demanding(json!({}))]).await;
    let long: Value = serde_json::from_str(r#"{ "amount": 12345678901234567890.5 }"#).unwrap();
    assert_eq!(reason(&bench, "a", "pay", long).await, UNAVAILABLE);
    assert!(requests(&bench).await.is_empty());
}

#[tokio::test]
async fn denial_has_the_form_of_each_era() {
    for form in [DenialForm::Result, DenialForm::Error] {
        let setup = Setup { denials: form, ..Setup::default() };
        let bench = Bench::start(setup, entities([demanding(json!({}))])).await;
        let session = bench.initialize("a").await;
        let params = json!({ "name": "pay", "arguments": {} });
        let modern = bench.modern("a", "tools/call", params.clone()).await.json();
        let legacy = bench.legacy(&session, "a", ("tools/call", params)).await.json();
        for (body, code) in [(modern, 4030), (legacy, -32003)] {
            let data = match form {
                DenialForm::Result => &body["result"]["_meta"]["registry/governance"],
                DenialForm::Error => &body["error"]["data"],
            };
            assert_eq!([&data["code"], &data["reason"]], [&json!(code), &json!(REQUIRED)]);
            assert!(data["error"]["details"]["approvalId"].is_string());
        }
        assert_eq!(requests(&bench).await.len(), 1, "both eras find one request");
    }
}

/// A call of `asks`, whose server asks for input with the state `s`.
async fn ask(bench: &Bench, agent: &str, state: Option<&Value>) -> Value {
    let mut params = json!({ "name": "asks", "arguments": {} });
    if let Some(state) = state {
        params["requestState"] = state.clone();
        params["inputResponses"] = json!({});
    }
    bench.modern(agent, "tools/call", params).await.result()
}

#[tokio::test]
async fn later_rounds_need_their_sealed_state() {
    let bench = bench([demanding(json!({}))]).await;
    let id = approve(&bench, "a", "asks", json!({})).await;
    let first = ask(&bench, "a", None).await["requestState"].clone();
    assert!(first.as_str().is_some_and(|state| state != "s"), "{first}");
    assert_eq!(ask(&bench, "a", None).await["isError"], true, "the round is used");
    let second = ask(&bench, "a", Some(&first)).await["requestState"].clone();
    assert!(second.is_string() && second != first);
    let replayed = ask(&bench, "a", Some(&first)).await;
    assert_eq!(replayed["_meta"]["registry/governance"]["reason"], UNAVAILABLE);
    let stolen = ask(&bench, "b", Some(&second)).await;
    assert_eq!(stolen["_meta"]["registry/governance"]["reason"], REQUIRED);
    let states: Vec<_> = bench.calls().iter().map(|seen| seen.body["params"].clone()).collect();
    let states: Vec<_> = states.iter().map(|params| &params["requestState"]).collect();
    assert_eq!(states, [&Value::Null, &json!("s")], "the server gets its own state");
    assert_eq!(state(&bench, id).await, State::Consumed);
}

#[tokio::test]
async fn state_of_the_server_is_bound_to_its_round() {
    let bench = bench([demanding(json!({}))]).await;
    approve(&bench, "a", "asks", json!({})).await;
    let first = ask(&bench, "a", None).await["requestState"].clone();
    let (sealed, _) = first.as_str().unwrap().split_once('.').unwrap();
    let changed = ask(&bench, "a", Some(&json!(format!("{sealed}.\"t\"")))).await;
    assert_eq!(changed["_meta"]["registry/governance"]["reason"], REQUIRED);
    assert_eq!(bench.calls().len(), 1);
}

#[tokio::test]
async fn concurrent_repetitions_send_one_call() {
    let bench = bench([demanding(json!({}))]).await;
    approve(&bench, "a", "pay", json!({})).await;
    let calls = (0..5).map(|_| reason(&bench, "a", "pay", json!({})));
    let reasons = futures_util::future::join_all(calls).await;
    assert_eq!(reasons.iter().filter(|reason| reason.is_null()).count(), 1, "{reasons:?}");
    assert_eq!(bench.calls().len(), 1);
}

#[tokio::test]
async fn disconnected_caller_leaves_unknown_outcome() {
    let bench = bench([demanding(json!({}))]).await;
    let id = approve(&bench, "a", "slow", json!({})).await;
    {
        let mut call = Box::pin(bench.call("a", "slow", json!({})));
        tokio::select! {
            _ = &mut call => panic!("the tool does not answer"),
            () = bench.until_called(1) => {}
        }
    }
    acceptable(|| {
        let listed = futures_util::FutureExt::now_or_never(bench.approvals.list());
        listed.is_some_and(|listed| {
            listed.iter().any(|(known, status)| known.id == id && status.state == State::Unknown)
        })
    })
    .await;
}

/// The question of a call by a stateless client with elicitation.
async fn confirming(bench: &Bench, params: Value) -> Value {
    bench.got(able("tools/call", params).build()).await.result()
}

#[tokio::test]
async fn caller_confirms_its_own_call() {
    let bench = bench([demanding(json!({ "approvers": ["caller"] }))]).await;
    let call = json!({ "name": "pay", "arguments": { "amount": 7 } });
    for (action, expected) in [("decline", State::Cancelled), ("accept", State::Succeeded)] {
        let asked = confirming(&bench, call.clone()).await;
        let (key, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
        assert_eq!(question["method"], "elicitation/create", "{asked}");
        let pending = requests(&bench).await.into_iter();
        let mut pending = pending.filter(|(_, (_, state))| *state == State::Pending);
        let (id, _) = pending.next().unwrap();
        let answer = json!({ key: { "action": action, "content": {} } });
        let mut repeated = call.clone();
        repeated["requestState"] = asked["requestState"].clone();
        repeated["inputResponses"] = answer;
        let result = confirming(&bench, repeated).await;
        assert_eq!(result["isError"] == true, action == "decline", "{result}");
        assert_eq!(outcome(&bench, id).await, expected);
    }
    assert_eq!(bench.calls().len(), 1);
    assert_eq!(reason(&bench, "a", "pay", json!({})).await, UNAVAILABLE, "without elicitation");
}

#[tokio::test]
async fn confirmation_shows_all_arguments() {
    let bench = bench([demanding(json!({ "approvers": ["caller"] }))]).await;
    let arguments = json!({ "to": "ann@firm.de", "text": "a\u{202e}b" });
    let asked = confirming(&bench, json!({ "name": "pay", "arguments": arguments })).await;
    let (_, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    let question = question["params"]["message"].as_str().unwrap();
    assert!(question.contains("ann@firm.de"), "{question}");
    assert!(!question.contains('\u{202e}'), "{question}");
    let long = json!({ "a": "x".repeat(2_100), "z": 1 });
    let refused = confirming(&bench, json!({ "name": "pay", "arguments": long })).await;
    assert_eq!(refused["_meta"]["registry/governance"]["reason"], UNAVAILABLE, "{refused}");
}

#[tokio::test]
async fn client_of_a_session_confirms_its_call() {
    let bench = bench([demanding(json!({ "approvers": ["caller"] }))]).await;
    let session = able_session(&bench).await;
    let accept = json!({ "result": { "action": "accept", "content": {} } });
    assert_ne!(asked(&bench, &session, ("pay", accept)).await["isError"], true);
    let decline = json!({ "result": { "action": "decline" } });
    assert_eq!(asked(&bench, &session, ("pay", decline)).await["isError"], true);
    assert_eq!(bench.calls().len(), 1);
}

#[tokio::test]
async fn denial_names_first_unmet_policy() {
    let confirmed = policy("confirmed", json!({ "approval": { "approvers": ["caller"] } }));
    let bench = bench([confirmed, demanding(json!({}))]).await;
    let session = able_session(&bench).await;
    let accept = json!({ "result": { "action": "accept", "content": {} } });
    let result = asked(&bench, &session, ("pay", accept)).await;
    let denial = &result["_meta"]["registry/governance"];
    let named = [&denial["reason"], &denial["error"]["details"]["policy"]];
    assert_eq!(named, [REQUIRED, "people"], "{denial}");
}

#[tokio::test]
async fn confirmation_is_no_approval_by_a_person() {
    let people = policy("others", json!({ "approval": {} }));
    let bench = bench([demanding(json!({ "approvers": ["caller"] })), people]).await;
    let session = able_session(&bench).await;
    let accept = json!({ "result": { "action": "accept", "content": {} } });
    let result = asked(&bench, &session, ("pay", accept)).await;
    assert_eq!(result["_meta"]["registry/governance"]["reason"], REQUIRED);
    let id = *requests(&bench).await.keys().next().unwrap();
    bench.approvals.decide(id, &APPROVE).await.unwrap();
    assert_eq!(reason(&bench, "a", "pay", json!({})).await, Value::Null, "it is not asked again");
    assert_eq!(bench.calls().len(), 1);
}
