//! Steps that need something of the composition's caller, in each pair of eras.

use std::time::Duration;

use gateway_protocol::mcp::Era;

use super::*;
use crate::mcp::tests::far_side::FarSide;

/// A composition whose two steps ask, before an upstream of this era.
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
async fn a_caller_without_a_session_is_asked_by_each_step() {
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
async fn who_cannot_be_asked_is_told_at_which_step() {
    for era in [Era::Modern, Era::Legacy] {
        let bench = bench(era).await;
        let call = bench.call("", "twice", json!({}));
        let got = tokio::time::timeout(Duration::from_secs(10), call).await.expect("an answer");
        match era {
            Era::Modern => assert!(got.failure().contains("at its step `one`"), "{got:?}"),
            // A server of that era goes on without the answer.
            Era::Legacy => assert_eq!(got.result()["structuredContent"], json!(-32601)),
        }
    }
}
