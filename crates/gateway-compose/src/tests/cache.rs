//! Cache and idempotent.

use std::time::Duration;

use super::*;

#[tokio::test(start_paused = true)]
async fn cache_keeps_successes_per_caller() {
    let cache = |inner: &str, more: Value| {
        let body = extended(
            json!({ "inner": tool_of(inner), "keyPaths": ["$.id"], "ttlSeconds": 60 }),
            more,
        );
        json!({ "cache": body })
    };
    let only = json!({ "cacheIf": { "field": "$.n", "op": "gt", "value": 100 } });
    let stale = json!({ "ttlSeconds": 1, "staleWhileRevalidateSeconds": 60 });
    let composed = Composed::start(vec![
        composition("counts", cache("count", json!({}))),
        composition("fails", cache("flaky", json!({}))),
        composition("picky", cache("count", only)),
        composition("stale", cache("count", stale)),
    ]);
    let n = async |tool: &str, arguments: Value| composed.value(tool, arguments).await["n"].clone();
    assert_eq!(n("counts", json!({ "id": 1 })).await, 1);
    assert_eq!(n("counts", json!({ "id": 1.0, "more": 2 })).await, 1);
    assert_eq!(n("counts", json!({ "id": "1" })).await, 2);
    assert_eq!(n("counts", json!({})).await, 3);
    assert_eq!(n("counts", json!({ "id": null })).await, 4);
    let by = async |agent: &str| {
        composed.by(agent).value("counts", json!({ "id": 1 })).await["n"].clone()
    };
    assert_eq!(
        (by("team/a").await, by("team/b").await, by("team/a").await),
        (json!(5), json!(6), json!(5))
    );

    composed.failure("fails", json!({ "id": 1, "failures": 1 })).await;
    assert_eq!(n("fails", json!({ "id": 1, "failures": 1 })).await, 2);
    assert_eq!(n("fails", json!({ "id": 1, "failures": 1 })).await, 2);
    assert_eq!((n("picky", json!({})).await, n("picky", json!({})).await), (json!(7), json!(8)));

    assert_eq!(n("stale", json!({})).await, 9);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(n("stale", json!({})).await, 9, "the stale result is served");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(composed.upstream.calls("count").len(), 10);
    assert_eq!(n("stale", json!({})).await, 10, "the result was refreshed");
}

fn once(inner: &str, on_duplicate: &str) -> Value {
    json!({ "idempotent": { "inner": tool_of(inner), "keyPaths": ["$.order"], "onDuplicate": on_duplicate } })
}

/// Two ids that are equal as doubles.
const LARGE: [u64; 2] = [1_234_567_890_123_456_789, 1_234_567_890_123_456_790];

#[tokio::test(start_paused = true)]
async fn keys_are_compared_exactly() {
    let cache = |path: &str| json!({ "cache": { "inner": tool_of("count"), "keyPaths": [path], "ttlSeconds": 60 } });
    let composed = Composed::start(vec![
        composition("once", once("count", "cached")),
        composition("cached", cache("$.order")),
        composition("items", cache("$.order[*]")),
    ]);
    let n = async |tool: &str, order: Value| {
        let counted = composed.value(tool, json!({ "order": order })).await["n"].clone();
        counted.as_u64().unwrap()
    };
    for tool in ["once", "cached"] {
        let firsts = [n(tool, json!(LARGE[0])).await, n(tool, json!(LARGE[1])).await];
        assert_ne!(firsts[0], firsts[1], "{tool}: each id has its own result");
        assert_eq!(n(tool, json!(LARGE[0])).await, firsts[0], "{tool}");
        assert_eq!(n(tool, json!([{ "id": LARGE[1] }])).await, firsts[1] + 1, "{tool}: nested");
    }
    let one = n("items", json!([1, 2])).await;
    let other = n("items", json!([[1, 2]])).await;
    assert_ne!(one, other, "two selected values are not one selected array");
    assert_eq!(n("items", json!([[1.0, 2]])).await, other);
}

/// JSON numbers beyond 64 bits lose digits when they are parsed.
#[tokio::test(start_paused = true)]
async fn keys_beyond_64_bits_are_rejected_or_uncached() {
    let composed = Composed::start(vec![
        composition("once", once("count", "cached")),
        composition(
            "cached",
            json!({ "cache": { "inner": tool_of("count"), "keyPaths": ["$.order"], "ttlSeconds": 60 } }),
        ),
    ]);
    let order = || json!({ "order": 1e20 });
    assert_eq!(composed.failure("once", order()).await.1, "inexact-key");
    // The same double as 1234567890123456.78 and .79.
    let amount = json!({ "order": 1_234_567_890_123_456.8 });
    assert_eq!(composed.failure("once", amount).await.1, "inexact-key");
    assert_eq!(composed.upstream.calls("count").len(), 0);
    assert_eq!(composed.value("cached", order()).await["n"], 1);
    assert_eq!(composed.value("cached", order()).await["n"], 2, "called without the cache");
}

#[tokio::test(start_paused = true)]
async fn idempotent_key_runs_once() {
    let composed = Composed::start(vec![
        composition("cached", once("count", "cached")),
        composition("skip", once("count", "skip")),
        composition("error", once("count", "error")),
        composition("slow", once("wait", "cached")),
        composition("lost", once("lose", "cached")),
    ]);
    let order = |id: u64| json!({ "order": id });
    assert_eq!(composed.value("cached", order(1)).await["n"], 1);
    assert_eq!(composed.value("cached", order(1)).await["n"], 1);
    assert_eq!(composed.value("cached", order(2)).await["n"], 2);
    assert_eq!(composed.value("skip", order(1)).await["n"], 3, "each pattern has its own keys");
    assert_eq!(composed.value("skip", order(1)).await, Value::Null);
    composed.value("error", order(1)).await;
    assert_eq!(composed.failure("error", order(1)).await.1, "duplicate");
    let (_, reason, message) = composed.failure("cached", json!({})).await;
    assert_eq!(reason, "missing-key");
    insta::assert_snapshot!(
        message,
        @"the key path $.order selects no value in the input; nothing was done"
    );

    let slow = json!({ "order": 1, "ms": 300 });
    let (one, two) =
        tokio::join!(composed.value("slow", slow.clone()), composed.value("slow", slow));
    assert_eq!(one, two);
    assert_eq!(composed.upstream.calls("wait").len(), 1);

    let first = composed.failure("lost", order(1)).await;
    assert_eq!(composed.failure("lost", order(1)).await, first, "the outcome is unknown");
    assert_eq!(composed.upstream.calls("lose").len(), 1);
}
