//! Fairness: one caller cannot exhaust sessions, event streams or upstream slots.

use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use gateway_protocol::mcp::Era;
use gateway_upstream::UpstreamLimits;
use serde_json::{Value, json};

use super::{
    far_side::FarSide,
    harness::{Ask, Bench, Got, Setup},
    relayed::{acceptable, messages},
};
use crate::testing::{agent, server, tool};

const FLOODER: &str = "192.0.2.1";
const OTHER: &str = "192.0.2.2";

/// A gateway with 8 sessions and event streams, 2 per caller.
async fn bench(era: Era) -> (Bench, FarSide) {
    let (far_side, transport) = FarSide::start(era).await;
    let limits =
        UpstreamLimits { sessions: 8, call_timeout_ms: 3_000, ..UpstreamLimits::default() };
    let setup = Setup { transport: Some(transport), limits, ..Setup::default() };
    let tools = ["asks", "tells", "doubts"];
    let entities = vec![
        server("up", &tools, &["resources"]),
        tool("asks", "1.0.0", json!({})),
        tool("tells", "1.0.0", json!({})),
        tool("doubts", "1.0.0", json!({})),
        agent("a", "1.0.0", &tools.map(|tool| (tool, "1.0.0"))),
    ];
    (Bench::start(setup, entities).await, far_side)
}

/// Opens a session of a client with elicitation, and uses it.
async fn open(bench: &Bench, address: &str) -> (String, Got) {
    let mut ask = Ask::initialize("2025-11-25");
    ask.body["params"]["capabilities"] = json!({ "elicitation": {} });
    let got = bench.got(ask.build_from(address)).await;
    got.result();
    let session = got.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let used = in_session(bench, (&session, address), ("ping", json!({}))).await;
    (session, used)
}

async fn in_session(
    bench: &Bench,
    (session, address): (&str, &str),
    (method, params): (&str, Value),
) -> Got {
    bench.got(Ask::legacy(session, method, params).build_from(address)).await
}

async fn stream(bench: &Bench, (session, address): (&str, &str)) -> axum::response::Response {
    let mut ask = Ask::legacy(session, "", json!({})).set("accept", "text/event-stream");
    (ask.method, ask.body) = (http::Method::GET, Value::Null);
    bench.send(ask.build_from(address)).await
}

async fn flood(bench: &Bench) {
    for _ in 0..40 {
        assert_eq!(open(bench, FLOODER).await.1.status, 200, "it replaces its own sessions");
    }
}

#[tokio::test]
async fn waiting_question_survives_session_flood() {
    let (bench, _) = bench(Era::Legacy).await;
    let (session, _) = open(&bench, OTHER).await;
    let ask = Ask::legacy(&session, "tools/call", json!({ "name": "asks" }));
    let mut body = bench.send(ask.build_from(OTHER)).await.into_body().into_data_stream();
    let mut text = String::new();
    let mut next = async || loop {
        let chunk = tokio::time::timeout(Duration::from_secs(5), body.next()).await;
        let chunk = chunk.expect("in time").expect("more events").unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
        if let Some(message) = messages(&text).pop() {
            text.clear();
            return message;
        }
    };
    let question = next().await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    flood(&bench).await;
    let mut answer = Ask::legacy(&session, "", json!({}));
    answer.body = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "n": 1 } });
    assert_eq!(bench.got(answer.build_from(OTHER)).await.status, 202);
    assert_eq!(next().await["result"]["content"][0]["text"], r#"{"n":1}"#);
}

#[tokio::test]
async fn idle_session_survives_session_flood() {
    let (bench, far_side) = bench(Era::Legacy).await;
    let (session, _) = open(&bench, OTHER).await;
    let session = (session.as_str(), OTHER);
    in_session(&bench, session, ("logging/setLevel", json!({ "level": "error" }))).await.result();
    flood(&bench).await;
    in_session(&bench, session, ("tools/call", json!({ "name": "tells" }))).await;
    let levels = far_side.seen("logging/setLevel");
    assert_eq!(levels.last().unwrap().1["params"]["level"], "error");
}

#[tokio::test]
async fn caller_with_busy_sessions_is_limited() {
    let (bench, _) = bench(Era::Legacy).await;
    bench.until_features().await;
    let (listening, _) = open(&bench, FLOODER).await;
    let events = stream(&bench, (&listening, FLOODER)).await;
    let (watching, _) = open(&bench, FLOODER).await;
    let subscribe = ("resources/subscribe", json!({ "uri": "test://r" }));
    in_session(&bench, (&watching, FLOODER), subscribe).await.result();
    let rejected = open(&bench, FLOODER).await.1;
    assert_eq!(rejected.error(), (429, -32603));
    assert!(rejected.text.contains(" 2 sessions"), "{}", rejected.text);
    assert_eq!(open(&bench, OTHER).await.1.status, 200);
    drop(events);
    assert_eq!(open(&bench, FLOODER).await.1.status, 200, "the idle session is replaced");
}

#[tokio::test]
async fn caller_has_quarter_of_event_streams() {
    let (bench, _) = bench(Era::Modern).await;
    let listen = async |address: &str| {
        let filter = json!({ "notifications": { "toolsListChanged": true } });
        bench.send(Ask::modern("subscriptions/listen", filter).build_from(address)).await
    };
    let mut open = vec![listen(FLOODER).await, listen(FLOODER).await];
    assert!(open.iter().all(|response| response.status() == 200));
    assert_eq!(listen(FLOODER).await.status(), 429);
    let other = listen(OTHER).await;
    assert_eq!(other.status(), 200, "others have room");
    open.pop();
    assert_eq!(listen(FLOODER).await.status(), 200);
}

#[tokio::test]
async fn invalid_upstream_session_ends_despite_stream() {
    let (bench, far_side) = bench(Era::Legacy).await;
    acceptable(|| far_side.listeners() == 1).await;
    let shared = far_side.seen("tools/list")[0].0.clone();
    bench.call("", "doubts", json!({})).await;
    acceptable(|| !far_side.seen("DELETE").is_empty()).await;
    assert_eq!(far_side.seen("DELETE")[0].0, shared);
    bench.call("", "tells", json!({})).await.result();
}

#[tokio::test]
async fn caller_cannot_exhaust_upstream() {
    let limits = UpstreamLimits {
        requests: 2,
        waiting: 2,
        call_timeout_ms: 2_000,
        ..Setup::default().limits
    };
    let tools = [("slow", "1.0.0"), ("echo", "1.0.0")];
    let entities = vec![
        tool("slow", "1.0.0", json!({})),
        tool("echo", "1.0.0", json!({})),
        agent("a", "1.0.0", &tools),
        agent("b", "1.0.0", &tools),
    ];
    let bench = Bench::start(Setup { limits, ..Setup::default() }, entities).await;
    let mut calls = [(); 2].map(|()| Box::pin(bench.call("a", "slow", json!({}))));
    for call in &mut calls {
        assert!(call.as_mut().now_or_never().is_none());
    }
    let load = || {
        let load = bench.gateway.upstreams().health()[0].load;
        (load.running, load.waiting)
    };
    let all = futures_util::future::join_all(calls);
    let others = async {
        acceptable(|| load().0 + load().1 == 2).await;
        assert_eq!(load(), (1, 1), "half of the places is one");
        let refused = bench.call("a", "echo", json!({})).await.failure();
        assert!(refused.contains(" 1 queued"), "{refused}");
        bench.call("b", "echo", json!({ "x": 1 })).await.result()
    };
    tokio::select! {
        _ = all => panic!("the calls of the other caller waited"),
        result = others => assert_eq!(result["structuredContent"], json!({ "x": 1 })),
    }
}
