//! Event streams.

use std::time::Duration;

use a2a::Version;
use axum::body::{Body, to_bytes};
use http::Method;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::{
    task::yield_now,
    time::{Instant, pause, timeout},
};

use super::harness::{
    A2aBench, LONG_EVENT_BYTES, LONG_EVENTS, OWN_TASK, caller, events, helper, message,
    old_message, request, rpc,
};
use crate::{
    mcp::tests::{harness::Setup, relayed::acceptable},
    testing::{Registered, policy},
};

pub(super) fn payloads(events: &[Value]) -> Vec<&str> {
    let name = |event: &Value| match event {
        event if event.get("task").is_some() => "task",
        event if event.get("artifactUpdate").is_some() => "artifact",
        event if event.get("statusUpdate").is_some() => "status",
        _ => "other",
    };
    events.iter().map(name).collect()
}

#[tokio::test]
async fn events_are_streamed_in_each_version_and_binding() {
    let bench = A2aBench::start([]).await;
    let got = bench.rpc("a", "SendStreamingMessage", message("go")).await;
    assert_eq!(got.headers["content-type"], "text/event-stream");
    assert!(!got.text.contains(OWN_TASK));
    let results: Vec<_> = events(&got).into_iter().map(|event| event["result"].clone()).collect();
    assert_eq!(payloads(&results), ["task", "artifact", "status"]);
    let id = results[0]["task"]["id"].clone();
    assert_eq!(results[2]["statusUpdate"]["taskId"], id);
    let path = "/a2a/office/helper/message:stream";
    let got = bench.got(request(Version::V1, (Method::POST, path), ("a", &message("go")))).await;
    assert_eq!(payloads(&events(&got)), ["task", "artifact", "status"]);
    let old = rpc(Version::V03, "a", ("message/stream", old_message("go")));
    let old = events(&bench.got(old).await);
    let kinds: Vec<_> = old.iter().map(|event| event["result"]["kind"].as_str()).collect();
    assert_eq!(kinds, [Some("task"), Some("artifact-update"), Some("status-update")]);
    assert_eq!((&old[2]["result"]["final"], &old[2]["result"]["taskId"]), (&json!(true), &id));
    let path = format!("/a2a/office/helper/tasks/{}:subscribe", id.as_str().unwrap());
    let got = bench.got(request(Version::V1, (Method::GET, &path), ("a", &Value::Null))).await;
    assert_eq!(payloads(&events(&got)), ["task", "artifact", "status"]);
}

#[tokio::test]
async fn failure_before_first_event_is_no_stream() {
    let bench = A2aBench::start([]).await;
    let got = bench.rpc("stranger", "SendStreamingMessage", message("go")).await;
    assert_eq!(got.status, 404);
    assert_eq!(got.headers["content-type"], "application/json");
    let mut invalid = message("go");
    invalid["message"]["parts"][1]["data"] = json!([]);
    let got = bench.rpc("a", "SendStreamingMessage", invalid).await;
    assert_eq!(got.error(), (200, -32602));
}

#[tokio::test]
async fn events_with_other_texts_are_translated_like_all_events() {
    let (bench, inspecting) = (A2aBench::start([]).await, A2aBench::start([inspects()]).await);
    let in_1_0 = |path| request(Version::V1, (Method::POST, path), ("a", &message("pieces")));
    let path = "/a2a/office/helper/message:stream";
    let rpc_of = |version, method, params| rpc(version, "a", (method, params));
    let got = [
        bench.rpc("a", "SendStreamingMessage", message("pieces")).await,
        bench.got(rpc_of(Version::V03, "message/stream", old_message("pieces"))).await,
        bench.got(in_1_0(path)).await,
        // Inspected events have a tree.
        inspecting.got(in_1_0(path)).await,
    ];
    let mut updates = Vec::new();
    for got in &got {
        assert!(!got.text.contains("127.0.0.1") && !got.text.contains(OWN_TASK), "{}", got.text);
        let results = events(got).into_iter().map(|mut event| match event["result"].take() {
            Value::Null => event["artifactUpdate"].take(),
            mut result if result.get("kind").is_none() => result["artifactUpdate"].take(),
            result => result,
        });
        updates.push(results.filter(|update| update.get("artifact").is_some()).collect::<Vec<_>>());
    }
    for updates in &updates {
        let texts = updates.iter().map(|update| &update["artifact"]["parts"][0]["text"]);
        let text: String = texts.filter_map(Value::as_str).collect();
        assert_eq!(text, "pieceOne \"two\" é\n at http://agent.invalid/x and end");
        assert!(updates[1..].iter().all(|update| update["append"] == true));
    }
    assert_eq!(updates[0], updates[2]);
}

/// The first event of a stream that ends only when the script releases it, and the rest.
pub(super) async fn endless(bench: &A2aBench) -> (String, Body) {
    let stream = rpc(Version::V1, "a", ("SendStreamingMessage", message("endless")));
    let mut body = bench.send(stream).await.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    (String::from_utf8(first.to_vec()).unwrap(), body)
}

#[tokio::test]
async fn streams_are_limited_per_caller_and_freed() {
    let bench = A2aBench::start([]).await;
    let open = [endless(&bench).await, endless(&bench).await];
    let got = bench.rpc("a", "SendStreamingMessage", message("go")).await;
    assert_eq!(got.status, 429, "{got:?}");
    assert_eq!(got.headers["retry-after"], "1");
    drop(open);
    let freed = async {
        loop {
            let got = bench.rpc("a", "SendStreamingMessage", message("go")).await;
            if got.status != 429 {
                return events(&got).len();
            }
            yield_now().await;
        }
    };
    assert_eq!(timeout(Duration::from_secs(10), freed).await.unwrap(), 3);
}

#[tokio::test]
async fn long_events_wait_for_a_slow_client() {
    // One caller can use a quarter, which is less than all events have.
    let setup = Setup { buffered_bytes: 4 * 12 * LONG_EVENT_BYTES, ..Setup::default() };
    let bench = A2aBench::start_with(setup, []).await;
    let stream = rpc(Version::V1, "a", ("SendStreamingMessage", message("many")));
    let body = bench.send(stream).await.into_body();
    // The client does not read while the gateway takes events.
    for _ in 0..20_000 {
        yield_now().await;
    }
    let bytes = to_bytes(body, usize::MAX).await.unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let events: Vec<_> = text.lines().filter(|line| line.starts_with("data: ")).collect();
    assert_eq!(events.len(), LONG_EVENTS + 3);
    assert!(events[LONG_EVENTS + 2].contains("TASK_STATE_COMPLETED"));
}

fn inspects() -> Registered {
    policy("inspect", json!({ "inspection": { "results": { "financial": "redact" } } }))
}

#[tokio::test]
async fn broken_stream_drops_text_that_waits() {
    let got = async |bench: A2aBench| {
        let mut long = message("go");
        long["message"]["parts"] = json!([{ "data": { "topic": "long" } }]);
        let got = bench.rpc("a", "SendStreamingMessage", long).await;
        events(&got).into_iter().map(|event| event["result"].clone()).collect::<Vec<_>>()
    };
    let inspected = got(A2aBench::start([inspects()]).await).await;
    assert_eq!(payloads(&inspected), ["task", "other"], "{inspected:?}");
    let sent = got(A2aBench::start([]).await).await;
    assert_eq!(payloads(&sent), ["task", "artifact", "other"], "{sent:?}");
}

#[tokio::test]
async fn text_waits_two_seconds_for_the_next_event() {
    let bench = A2aBench::start([inspects()]).await;
    let (first, mut rest) = endless(&bench).await;
    assert!(first.contains("TASK_STATE_WORKING"));
    pause();
    let start = Instant::now();
    let frame = rest.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&frame).contains("artifactUpdate"), "{frame:?}");
    assert!((1..3).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}

#[tokio::test]
async fn closed_stream_cancels_nothing_and_is_listed() {
    let bench = A2aBench::start([]).await;
    let (first, rest) = endless(&bench).await;
    assert!(first.contains("TASK_STATE_WORKING"));
    drop(rest);
    acceptable(|| bench.agent.cut_off() == 1).await;
    assert_eq!(bench.agent.seen("CancelTask").len(), 0);
    let listed = bench.rpc("a", "ListTasks", json!({})).await.result();
    assert_eq!(listed["totalSize"], 1);
}

#[tokio::test]
async fn running_stream_of_retired_agent_continues() {
    let bench = A2aBench::start([]).await;
    let (_, rest) = endless(&bench).await;
    bench.bench.publish(2, vec![helper().retired(), caller()]);
    let got = bench.rpc("a", "SendMessage", message("go")).await;
    assert_eq!(got.status, 404, "{got:?}");
    bench.script.released.notify_one();
    let rest = rest.collect().await.unwrap().to_bytes();
    let last = String::from_utf8_lossy(&rest);
    assert!(last.contains("TASK_STATE_COMPLETED"), "{last}");
}

#[tokio::test]
async fn stream_ends_when_the_gateway_stops() {
    let bench = A2aBench::start([]).await;
    let (_, mut rest) = endless(&bench).await;
    bench.bench.gateway.close_streams();
    while let Some(frame) = rest.frame().await {
        frame.unwrap();
    }
    bench.surface.shutdown().await;
}
