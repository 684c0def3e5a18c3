//! Retry, timeout, circuit breaker.

use std::time::Duration;

use tokio::time::Instant;

use super::*;

fn retry(inner: Value, more: Value) -> Value {
    let body = extended(
        json!({ "inner": inner, "maxAttempts": 3, "backoff": { "fixed": { "delayMs": 50 } } }),
        more,
    );
    json!({ "retry": body })
}

#[tokio::test(start_paused = true)]
async fn retry_stops_at_max_attempts() {
    let matching =
        |value: &str| json!({ "retryIf": { "field": "$.result", "op": "eq", "value": value } });
    let composed = Composed::start(vec![
        composition("third", retry(tool_of("flaky"), json!({}))),
        composition("never", retry(tool_of("fail"), json!({}))),
        composition("matching", retry(tool_of("fail"), matching("again"))),
        composition("limited", retry(tool_of("wait"), json!({ "attemptTimeoutMs": 60 }))),
        composition("jitter", retry(tool_of("fail"), json!({ "jitter": 1.0 }))),
    ]);
    let started = Instant::now();
    assert_eq!(composed.value("third", json!({ "failures": 2 })).await, json!({ "n": 3 }));
    assert_eq!(started.elapsed(), Duration::from_millis(100), "the backoff was applied");
    assert_eq!(composed.failure("never", json!({ "message": "x" })).await.2, "fail failed: x");
    assert_eq!(composed.upstream.calls("fail").len(), 3);
    composed.failure("matching", json!({ "message": "other" })).await;
    assert_eq!(composed.upstream.calls("fail").len(), 4);
    composed.failure("matching", json!({ "message": "again" })).await;
    assert_eq!(composed.upstream.calls("fail").len(), 7);
    let (_, reason, message) = composed.failure("limited", json!({ "ms": 4000 })).await;
    assert_eq!((&*reason, &*message), ("timeout", "timed out after 60 ms"));
    assert_eq!(composed.upstream.seen().cancelled, 1);
    assert_eq!(composed.upstream.calls("wait").len(), 1, "the outcome is unknown");
    composed.failure("jitter", json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn unknown_outcome_is_retried_only_if_repeatable() {
    let composed = Composed::start(vec![
        composition("safe", retry(tool_of("lose-safely"), json!({}))),
        composition("unsafe", retry(tool_of("lose"), json!({}))),
    ]);
    assert_eq!(composed.failure("unsafe", json!({})).await.1, "upstream-failed");
    assert_eq!(composed.upstream.calls("lose").len(), 1);
    composed.failure("safe", json!({})).await;
    assert_eq!(composed.upstream.calls("lose-safely").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn timeout_cancels_and_runs_fallback() {
    let limit = |more: Value| {
        let body = extended(json!({ "inner": tool_of("wait"), "durationMs": 80 }), more);
        json!({ "timeout": body })
    };
    let composed = Composed::start(vec![
        composition("plain", limit(json!({}))),
        composition("message", limit(json!({ "message": "be patient" }))),
        composition("fallback", limit(json!({ "fallback": tool_of("echo") }))),
    ]);
    assert_eq!(composed.value("plain", json!({ "ms": 1 })).await["waited"], 1);
    let slow = json!({ "ms": 4000 });
    let (_, reason, message) = composed.failure("plain", slow.clone()).await;
    assert_eq!((&*reason, &*message), ("timeout", "timed out after 80 ms"));
    assert_eq!(composed.failure("message", slow.clone()).await.2, "be patient");
    assert_eq!(composed.value("fallback", slow.clone()).await, slow);
    assert_eq!(composed.upstream.seen().cancelled, 3);
}

#[tokio::test(start_paused = true)]
async fn breaker_is_shared_by_name_and_closes() {
    let breaker = |inner: &str, more: Value| {
        let body = extended(
            json!({ "name": "b", "inner": tool_of(inner), "failureThreshold": 2,
            "failureWindowSeconds": 60, "resetTimeoutSeconds": 1 }),
            more,
        );
        json!({ "circuitBreaker": body })
    };
    let bad = json!({ "name": "by-result",
        "failureIf": { "field": "$.ok", "op": "eq", "value": false } });
    let composed = Composed::start(vec![
        composition("fails", breaker("fail", json!({}))),
        composition("works", breaker("echo", json!({}))),
        composition("instead", breaker("fail", json!({ "fallback": tool_of("echo") }))),
        composition("by-result", breaker("echo", bad)),
    ]);
    for _ in 0..2 {
        assert_eq!(composed.failure("fails", json!({})).await.1, "tool-error");
    }
    let (_, reason, message) = composed.failure("works", json!({})).await;
    assert_eq!(reason, "circuit-open");
    assert!(message.contains("`b`") && message.contains(" 1 s"), "{message}");
    assert_eq!(composed.value("instead", json!({ "q": 1 })).await, json!({ "q": 1 }));
    assert_eq!(composed.upstream.calls("fail").len(), 2);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(composed.value("works", json!({ "q": 2 })).await, json!({ "q": 2 }));
    assert_eq!(composed.failure("fails", json!({})).await.1, "tool-error", "the breaker is closed");

    for _ in 0..2 {
        composed.value("by-result", json!({ "ok": false })).await;
    }
    assert_eq!(composed.failure("by-result", json!({ "ok": true })).await.1, "circuit-open");
}
