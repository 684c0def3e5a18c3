//! Steps that ask the caller something: against whose share that counts, and what it comes to when
//! that is used up.

use gateway_protocol::mcp::Era;

use super::*;
use crate::{
    mcp::tests::far_side::FarSide,
    view::testing::{agent, server},
};

/// Agent `a` has a tool that asks in a step, and one that does so again where it fails.
async fn bench(era: Era, upstream_requests: usize) -> (Bench, FarSide) {
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

/// What a call of somebody who can be asked comes to: that it is asked, or the failure's text.
async fn called(bench: &Bench, agent: &str, tool: &str) -> Result<(), String> {
    let mut ask = Ask::modern("tools/call", json!({ "name": tool })).by(agent);
    ask.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({ "elicitation": {} });
    let got = bench.got(ask.build()).await;
    if got.result()["resultType"] == "input_required" { Ok(()) } else { Err(got.failure()) }
}

#[tokio::test]
async fn what_a_step_asks_counts_against_its_callers_own_share() {
    let (bench, _far_side) = bench(Era::Modern, 256).await;
    for number in 0..250 {
        assert_eq!(called(&bench, "a", "once").await, Ok(()), "{number}");
    }
    let failure = called(&bench, "a", "once").await.unwrap_err();
    assert!(failure.contains("250 calls wait for input for this caller"), "{failure}");
    assert_eq!(called(&bench, "", "once").await, Ok(()), "others are asked");
}

#[tokio::test]
async fn a_step_that_could_not_wait_may_have_done_something_and_is_not_repeated() {
    let (bench, far_side) = bench(Era::Legacy, 4).await;
    assert_eq!(called(&bench, "a", "again").await, Ok(()));
    let failure = called(&bench, "a", "again").await.unwrap_err();
    assert!(failure.contains("1 calls of this server wait for answers"), "{failure}");
    assert_eq!(far_side.seen("tools/call").len(), 2);
    assert_eq!(called(&bench, "", "again").await, Ok(()), "others are asked");
}
