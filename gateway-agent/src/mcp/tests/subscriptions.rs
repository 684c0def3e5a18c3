//! Resource subscriptions in each pair of protocol eras.

use std::time::Duration;

use futures_util::StreamExt as _;
use gateway_protocol::mcp::Era;
use serde_json::{Value, json};

use super::{
    far_side::FarSide,
    harness::{Ask, Bench, Got},
    relayed::{ERAS, acceptable, bench, messages},
};

/// Subscribes a session of `a` to a resource.
async fn watch(bench: &Bench, session: &str, uri: &str) -> Got {
    bench.legacy(session, "a", ("resources/subscribe", json!({ "uri": uri }))).await
}

#[tokio::test]
async fn updates_reach_only_subscribers() {
    for era in ERAS {
        let (bench, far_side) = bench(era, "up").await;
        bench.until_features().await;
        let listen = |uris: Value| {
            Ask::modern(
                "subscriptions/listen",
                json!({ "notifications":
                { "resourceSubscriptions": uris, "promptsListChanged": true } }),
            )
            .by("a")
        };
        let response = bench
            .send(listen(json!(["up+test://r", "other+x:1", "up+test://closed"])).build())
            .await;
        let mut body = response.into_body().into_data_stream();
        let mut next = async || {
            let chunk = tokio::time::timeout(Duration::from_secs(5), body.next()).await;
            let text = String::from_utf8(chunk.unwrap().unwrap().unwrap().to_vec()).unwrap();
            messages(&text).remove(0)
        };
        let acknowledged = next().await;
        assert_eq!(
            acknowledged["params"]["notifications"],
            json!({ "promptsListChanged": true, "resourceSubscriptions": ["up+test://r"] })
        );
        let is_watched = || match era {
            Era::Modern => far_side.seen("subscriptions/listen").iter().any(|(_, body)| {
                body["params"]["notifications"]["resourceSubscriptions"] == json!(["test://r"])
            }),
            Era::Legacy => far_side
                .seen("resources/subscribe")
                .iter()
                .any(|(_, body)| body["params"]["uri"] == "test://r"),
        };
        acceptable(|| is_watched() && far_side.listeners() > 0).await;
        far_side.tell("notifications/resources/updated", &json!({ "uri": "test://other" }));
        far_side.tell("notifications/resources/updated", &json!({ "uri": "test://r" }));
        let told = next().await;
        assert_eq!(told["method"], "notifications/resources/updated", "{told}");
        assert_eq!(told["params"]["uri"], "up+test://r");
        far_side.tell("notifications/prompts/list_changed", &json!({}));
        assert_eq!(next().await["method"], "notifications/prompts/list_changed");
    }
}

#[tokio::test]
async fn unacknowledged_resource_is_rejected() {
    let (bench, _) = bench(Era::Modern, "up").await;
    bench.until_features().await;
    let session = bench.initialize("a").await;
    assert_eq!(watch(&bench, &session, "up+test://r").await.result(), json!({}));
    let refused = watch(&bench, &session, "up+test://closed").await;
    assert_eq!(refused.error(), (200, -32602));
    assert_eq!(
        watch(&bench, &session, "up+test://r2").await.result(),
        json!({}),
        "it is no reason to refuse others"
    );
}

#[tokio::test]
async fn concurrent_subscription_misses_no_update() {
    let (bench, far_side) = bench(Era::Modern, "up").await;
    bench.until_features().await;
    let filter = json!({ "notifications": { "resourceSubscriptions": ["up+test://r"] } });
    let listen = Ask::modern("subscriptions/listen", filter).by("a");
    let mut body = bench.send(listen.build()).await.into_body().into_data_stream();
    let mut next = async || {
        let chunk = tokio::time::timeout(Duration::from_secs(5), body.next()).await;
        String::from_utf8(chunk.unwrap().unwrap().unwrap().to_vec()).unwrap()
    };
    assert!(next().await.contains("acknowledged"));
    let session = bench.initialize("a").await;
    let told = far_side.seen("subscriptions/listen").len();
    let begins = watch(&bench, &session, "up+test://slow");
    let meanwhile = async {
        acceptable(|| far_side.seen("subscriptions/listen").len() > told).await;
        assert_eq!(far_side.listeners(), 1, "the new stream is not there yet, the old one is");
        far_side.tell("notifications/resources/updated", &json!({ "uri": "test://r" }));
    };
    let (begun, ()) = tokio::join!(begins, meanwhile);
    assert_eq!(begun.result(), json!({}));
    assert!(next().await.contains("notifications/resources/updated"));
    acceptable(|| far_side.listeners() == 1).await;
}

/// The acknowledged resources of each subscription at the upstream.
fn told(far_side: &FarSide, method: &str) -> Vec<String> {
    let uri = |(_, body): (_, Value)| body["params"]["uri"].as_str().unwrap().to_owned();
    far_side.seen(method).into_iter().map(uri).collect()
}

#[tokio::test]
async fn session_upstream_gets_each_change_once() {
    let (bench, far_side) = bench(Era::Legacy, "up").await;
    bench.until_features().await;
    let (one, two) = (bench.initialize("a").await, bench.initialize("a").await);
    let ask = async |session: &str, method: &str, uri: &str| {
        bench.legacy(session, "a", (method, json!({ "uri": format!("up+test://{uri}") }))).await
    };
    for (session, uri) in [(&one, "r"), (&one, "1"), (&two, "r"), (&two, "2")] {
        assert_eq!(ask(session, "resources/subscribe", uri).await.result(), json!({}));
    }
    assert_eq!(told(&far_side, "resources/subscribe"), ["test://r", "test://1", "test://2"]);
    for (session, uri) in [(&one, "r"), (&two, "2")] {
        assert_eq!(ask(session, "resources/unsubscribe", uri).await.result(), json!({}));
    }
    acceptable(|| told(&far_side, "resources/unsubscribe") == ["test://2"]).await;
    assert_eq!(ask(&one, "resources/subscribe", "2").await.result(), json!({}));
    assert_eq!(told(&far_side, "resources/subscribe").last().unwrap(), "test://2");
    let mut end = Ask::legacy(&one, "", json!({})).by("a");
    (end.method, end.body) = (http::Method::DELETE, Value::Null);
    assert_eq!(bench.got(end.build()).await.status, 204);
    acceptable(|| told(&far_side, "resources/unsubscribe").len() == 3).await;
    assert_eq!(told(&far_side, "resources/subscribe").len(), 4, "r is still the other's");
    assert!(!told(&far_side, "resources/unsubscribe").contains(&"test://r".to_owned()));
}

#[tokio::test]
async fn rejected_upstream_subscription_is_rejected() {
    let (bench, far_side) = bench(Era::Legacy, "up").await;
    bench.until_features().await;
    let session = bench.initialize("a").await;
    for _ in 0..2 {
        assert_eq!(watch(&bench, &session, "up+test://closed").await.error(), (200, -32603));
    }
    assert_eq!(
        watch(&bench, &session, "up+test://r").await.result(),
        json!({}),
        "it is no reason to refuse others"
    );
    assert_eq!(
        told(&far_side, "resources/subscribe"),
        ["test://closed", "test://closed", "test://r"],
        "it is asked each time"
    );
    let filter = json!({ "resourceSubscriptions": ["up+test://closed", "up+test://r"] });
    let listen = Ask::modern("subscriptions/listen", json!({ "notifications": filter })).by("a");
    let response = bench.send(listen.build()).await;
    let mut body = response.into_body().into_data_stream();
    let chunk = tokio::time::timeout(Duration::from_secs(5), body.next()).await;
    let text = String::from_utf8(chunk.unwrap().unwrap().unwrap().to_vec()).unwrap();
    let acknowledged = &messages(&text)[0]["params"]["notifications"];
    assert_eq!(*acknowledged, json!({ "resourceSubscriptions": ["up+test://r"] }));
    assert!(told(&far_side, "resources/unsubscribe").is_empty(), "it never was");
}
