//! `notifications/tools/list_changed` in both eras.

use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::harness::{Ask, Bench, Setup};
use crate::{
    freshness::MaxStaleness,
    testing::{Registered, agent, tool},
};

fn entities(description: &str) -> Vec<Registered> {
    vec![
        tool("mine", "1.0.0", json!({ "description": description })),
        tool("theirs", "1.0.0", json!({})),
        agent("a", "1.0.0", &[("mine", "1.0.0")]),
    ]
}

/// An unrelated tool changes.
fn with_other(description: &str) -> Vec<Registered> {
    let mut entities = entities(description);
    entities[1] = tool("theirs", "1.0.0", json!({ "description": "other" }));
    entities
}

struct Stream {
    body: axum::body::BodyDataStream,
    pending: String,
}

impl Stream {
    async fn open(bench: &Bench, ask: Ask) -> Self {
        let response = bench.send(ask.build()).await;
        assert_eq!(response.status(), 200, "{response:?}");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Self { body: response.into_body().into_data_stream(), pending: String::new() }
    }

    /// The next message. `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.pending.split_once("\n\n") {
                let data = event.strip_prefix("data: ").map(str::to_owned);
                self.pending = rest.to_owned();
                if let Some(data) = data {
                    return Some(serde_json::from_str(&data).unwrap());
                }
                continue;
            }
            let piece = self.body.next().await?.unwrap();
            self.pending.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }

    async fn soon(&mut self) -> Option<Value> {
        tokio::time::timeout(Duration::from_secs(5), self.next()).await.expect("nothing came")
    }

    async fn is_silent(&mut self) -> bool {
        tokio::time::timeout(Duration::from_millis(400), self.next()).await.is_err()
    }
}

fn listen(filter: &Value) -> Ask {
    Ask::modern("subscriptions/listen", json!({ "notifications": filter })).by("a")
}

fn get(session: &str) -> Ask {
    let mut ask = Ask::legacy(session, "", json!({})).by("a").set("accept", "text/event-stream");
    ask.method = http::Method::GET;
    ask.body = Value::Null;
    ask
}

fn changed(message: &Value) -> bool {
    message["method"] == "notifications/tools/list_changed"
}

#[tokio::test]
async fn subscription_is_acknowledged_notified_and_ended() {
    let bench = Bench::strict(entities("1")).await;
    let filter = json!({ "toolsListChanged": true, "promptsListChanged": true });
    let mut stream = Stream::open(&bench, listen(&filter)).await;
    let meta = json!({ "io.modelcontextprotocol/subscriptionId": 7 });
    let acknowledged = stream.soon().await.unwrap();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let params = json!({ "_meta": meta, "notifications": { "toolsListChanged": true } });
    assert_eq!(acknowledged["params"], params);

    bench.publish(2, with_other("1"));
    assert!(stream.is_silent().await, "what changed is not this agent's");
    bench.publish(3, with_other("2"));
    let message = stream.soon().await.unwrap();
    assert!(changed(&message));
    assert_eq!(message["params"]["_meta"], meta);
    bench.publish(4, entities("3"));
    bench.publish(5, entities("4"));
    assert!(changed(&stream.soon().await.unwrap()));
    assert!(stream.is_silent().await, "a burst is told once");

    bench.gateway.close_streams();
    let last = stream.soon().await.unwrap();
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(7), &json!("complete")));
    assert_eq!(last["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
    assert_eq!(stream.soon().await, None);
}

#[tokio::test]
async fn stale_catalog_changes_list() {
    let limit = Some(Duration::from_millis(500));
    let max_staleness = MaxStaleness { tools: limit, read_only_tools: None };
    let bench = Bench::start(Setup { max_staleness, ..Setup::default() }, entities("1")).await;
    bench.cache.confirm(Duration::ZERO);
    let mut stream = Stream::open(&bench, listen(&json!({ "toolsListChanged": true }))).await;
    stream.soon().await.unwrap();
    let names = async || {
        let listed = bench.modern("a", "tools/list", json!({})).await.result();
        listed["tools"].as_array().unwrap().len()
    };
    assert_eq!(names().await, 1);
    assert!(changed(&stream.soon().await.unwrap()), "it grows old");
    assert_eq!(names().await, 0);
    bench.cache.confirm(Duration::ZERO);
    assert!(changed(&stream.soon().await.unwrap()), "it is confirmed");
    assert_eq!(names().await, 1);
}

#[tokio::test]
async fn only_requested_notifications_are_sent() {
    let bench = Bench::strict(entities("1")).await;
    let mut stream = Stream::open(&bench, listen(&json!({ "resourcesListChanged": true }))).await;
    assert_eq!(stream.soon().await.unwrap()["params"]["notifications"], json!({}));
    bench.publish(2, entities("2"));
    assert!(stream.is_silent().await);
    for bad in [json!(5), json!([true]), json!({ "toolsListChanged": 1 })] {
        assert_eq!(bench.got(listen(&bad).build()).await.error(), (400, -32602));
    }
    let missing = bench.modern("a", "subscriptions/listen", json!({})).await;
    assert_eq!(missing.error(), (400, -32602));
}

#[tokio::test]
async fn later_registered_agent_is_notified() {
    let bench = Bench::strict(vec![]).await;
    let mut stream = Stream::open(&bench, listen(&json!({ "toolsListChanged": true }))).await;
    stream.soon().await.unwrap();
    bench.publish(2, entities("1"));
    assert!(changed(&stream.soon().await.unwrap()));
}

#[tokio::test]
async fn session_is_notified_by_get_stream() {
    let bench = Bench::strict(entities("1")).await;
    let session = bench.initialize("a").await;
    let mut stream = Stream::open(&bench, get(&session)).await;
    bench.publish(2, with_other("1"));
    assert!(stream.is_silent().await);
    bench.publish(3, entities("2"));
    let message = stream.soon().await.unwrap();
    assert_eq!(message, json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }));
}

#[tokio::test]
async fn session_is_notified_of_stopped_and_started_target() {
    let bench = Bench::strict(entities("1")).await;
    let session = bench.initialize("a").await;
    let mut stream = Stream::open(&bench, get(&session)).await;
    let listed = async || {
        let list = bench.legacy(&session, "a", ("tools/list", json!({}))).await.result();
        list["tools"].as_array().unwrap().len()
    };
    let before = listed().await;
    assert!(before > 0);
    let (upstreams, server) = (bench.gateway.upstreams(), "server/up@1.0.0".parse().unwrap());
    assert!(upstreams.stop(&server));
    assert!(changed(&stream.soon().await.unwrap()));
    assert_eq!(listed().await, 0);
    assert!(upstreams.resume(&server));
    assert!(changed(&stream.soon().await.unwrap()));
    assert_eq!(listed().await, before);
}

#[tokio::test]
async fn changes_before_stream_are_sent_first() {
    let bench = Bench::strict(entities("1")).await;
    let session = bench.initialize("a").await;
    bench.legacy(&session, "a", ("tools/list", json!({}))).await.result();
    bench.publish(2, entities("2"));
    let mut stream = Stream::open(&bench, get(&session)).await;
    assert!(changed(&stream.soon().await.unwrap()));
    assert!(stream.is_silent().await);
}

#[tokio::test]
async fn session_stream_ends_with_session_or_successor() {
    let bench = Bench::strict(entities("1")).await;
    let session = bench.initialize("a").await;
    let mut first = Stream::open(&bench, get(&session)).await;
    assert!(first.is_silent().await);
    let mut second = Stream::open(&bench, get(&session)).await;
    assert_eq!(first.soon().await, None);
    let mut delete = get(&session);
    delete.method = http::Method::DELETE;
    assert!(second.is_silent().await);
    assert_eq!(bench.got(delete.build()).await.status, 204);
    assert_eq!(second.soon().await, None);

    let session = bench.initialize("a").await;
    let mut third = Stream::open(&bench, get(&session)).await;
    bench.gateway.close_streams();
    assert_eq!(third.soon().await, None);
}

#[tokio::test]
async fn unavailable_streams_are_rejected() {
    let bench = Bench::strict(entities("1")).await;
    let session = bench.initialize("a").await;
    let json_only = get(&session).set("accept", "application/json");
    assert_eq!(bench.got(json_only.build()).await.error(), (406, -32600));
    assert_eq!(bench.got(get("ffff").build()).await.error(), (404, -32600));
    let none = get(&session).without("mcp-session-id");
    assert_eq!(bench.got(none.build()).await.error(), (400, -32600));
    let foreign = get(&session).with("origin", "https://evil.example");
    assert_eq!(bench.got(foreign.build()).await.error(), (403, -32600));
}
