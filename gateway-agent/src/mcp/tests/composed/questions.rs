//! Steps that ask the client questions, in each pair of protocol eras, and within quotas.

use std::time::Duration;

use gateway_protocol::mcp::Era;

use super::*;
use crate::{
    mcp::tests::far_side::FarSide,
    testing::{agent, server},
};

/// A composition of two asking steps, with an upstream of this era.
async fn bench(era: Era) -> Bench {
    let (_, transport) = FarSide::start(era).await;
    let limits = UpstreamLimits { call_timeout_ms: 3_000, ..UpstreamLimits::default() };
    let depends = json!([{ "type": "tool", "name": "asks", "version": "1.0.0" }]);
    let steps = [
        step("one", "asks", json!({ "constant": {} })),
        step("two", "asks", json!({ "constant": {} })),
    ];
    let twice = with("twice", pipeline(&steps), json!({ "depends": depends }));
    let setup = Setup { transport: Some(transport), limits, ..Setup::default() };
    Bench::start(setup, vec![tool("asks", "1.0.0", json!({})), twice]).await
}

#[tokio::test]
async fn stateless_client_answers_each_step() {
    for era in [Era::Modern, Era::Legacy] {
        let bench = bench(era).await;
        let able = |params: Value| {
            let mut ask = Ask::modern("tools/call", params);
            ask.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                json!({ "elicitation": {} });
            ask.build()
        };
        let mut result = bench.got(able(json!({ "name": "twice" }))).await.result();
        for n in [1, 2] {
            assert_eq!(result["resultType"], "input_required", "{era:?}, question {n}: {result}");
            let (key, asked) = result["inputRequests"].as_object().unwrap().iter().next().unwrap();
            assert_eq!(asked["method"], "elicitation/create");
            let params = json!({ "name": "twice", "requestState": result["requestState"],
                "inputResponses": { key: { "action": "accept", "content": { "n": n } } } });
            result = bench.got(able(params)).await.result();
        }
        assert_eq!(result["resultType"], "complete", "{era:?}: {result}");
        let said = json!({ "action": "accept", "content": { "n": 2 } });
        assert_eq!(result["structuredContent"], said, "{era:?}");
        assert_eq!(result["_meta"]["registry/steps"]["calls"].as_array().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn missing_capability_names_step() {
    for era in [Era::Modern, Era::Legacy] {
        let bench = bench(era).await;
        let call = bench.call("", "twice", json!({}));
        let got = tokio::time::timeout(Duration::from_secs(10), call).await.expect("an answer");
        match era {
            Era::Modern => assert!(got.failure().contains("`one`"), "{got:?}"),
            // A server of that era continues without an answer.
            Era::Legacy => assert_eq!(got.result()["structuredContent"], json!(-32601)),
        }
    }
}

/// Agent `a` has a tool with an asking step, and one that retries such a step.
async fn limited(era: Era, upstream_requests: usize) -> (Bench, FarSide) {
    let (far_side, transport) = FarSide::start(era).await;
    let setup = Setup {
        transport: Some(transport),
        limits: UpstreamLimits { requests: upstream_requests, ..Setup::default().limits },
        ..Setup::default()
    };
    let asking = |name: &str, spec: Value| {
        let mut registered = composition(name, spec);
        registered.document["depends"] =
            json!([{ "type": "tool", "name": "asks", "version": "1.0.0" }]);
        registered
    };
    let inner = json!({ "tool": { "name": "asks" } });
    let retry =
        json!({ "inner": inner, "maxAttempts": 3, "backoff": { "fixed": { "delayMs": 1 } } });
    let entities = vec![
        server("up", &["asks"], &[]),
        tool("asks", "1.0.0", json!({})),
        asking("once", pipeline(&[step("s", "asks", Value::Null)])),
        asking("again", json!({ "retry": retry })),
        agent("a", "1.0.0", &[("once", "1.0.0"), ("again", "1.0.0")]),
    ];
    (Bench::start(setup, entities).await, far_side)
}

/// Calls a tool as a client with elicitation. Returns the text of a failure.
async fn called(bench: &Bench, agent: &str, tool: &str) -> Result<(), String> {
    let mut ask = Ask::modern("tools/call", json!({ "name": tool })).by(agent);
    ask.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({ "elicitation": {} });
    let got = bench.got(ask.build()).await;
    if got.result()["resultType"] == "input_required" { Ok(()) } else { Err(got.failure()) }
}

#[tokio::test]
async fn questions_of_steps_count_against_caller() {
    let (bench, _far_side) = limited(Era::Modern, 256).await;
    for number in 0..250 {
        assert_eq!(called(&bench, "a", "once").await, Ok(()), "{number}");
    }
    let failure = called(&bench, "a", "once").await.unwrap_err();
    assert!(failure.contains(" 250 calls"), "{failure}");
    assert_eq!(called(&bench, "", "once").await, Ok(()), "others are asked");
}

#[tokio::test]
async fn step_without_quota_is_not_retried() {
    let (bench, far_side) = limited(Era::Legacy, 4).await;
    assert_eq!(called(&bench, "a", "again").await, Ok(()));
    let failure = called(&bench, "a", "again").await.unwrap_err();
    assert!(failure.contains(" 1 pending"), "{failure}");
    assert_eq!(far_side.seen("tools/call").len(), 2);
    assert_eq!(called(&bench, "", "again").await, Ok(()), "others are asked");
}
