//! Failures after side effects: retries, keys, sagas and results take those effects into account.

use tokio::join;

use super::*;

fn pattern(spec: Value) -> Value {
    json!({ "pattern": spec })
}

/// Another target fails and cuts off the first one.
fn cut_off() -> Value {
    let hangs = json!({ "tool": "wait", "input": constant(json!({ "ms": 4_000 })) });
    pattern(json!({ "scatterGather": { "targets": [hangs, { "tool": "fail" }],
        "failFast": true, "aggregation": { "ops": [] } } }))
}

/// A time limit cuts off the step; its fallback fails.
fn replaced() -> Value {
    let hangs = step("hangs", "wait", constant(json!({ "ms": 4_000 })));
    pattern(json!({ "timeout": { "inner": pattern(pipeline(&[hangs])), "durationMs": 100,
        "fallback": tool_of("fail") } }))
}

/// The first step succeeds, the second fails.
fn half_done() -> Value {
    pattern(pipeline(&[step("first", "keep", json!(null)), step("second", "fail", json!(null))]))
}

fn retry(inner: Value) -> Value {
    json!({ "retry": { "inner": inner, "maxAttempts": 3, "backoff": { "fixed": { "delayMs": 1 } } } })
}

fn once(inner: Value, more: Value) -> Value {
    let body = json!({ "inner": inner, "keyPaths": ["$.k"], "onDuplicate": "cached" });
    json!({ "idempotent": extended(body, more) })
}

fn saga(action: Value, more: Value) -> Value {
    let step = json!({ "id": "one", "name": "one", "action": action,
        "compensate": tool_of("echo"), "compensateInput": constant(json!({ "undone": true })) });
    json!({ "saga": { "steps": [extended(step, more)] } })
}

fn dead_letter(inner: Value, tool: &str) -> Value {
    let letter = json!({ "inner": inner, "deadLetterTool": tool, "rethrow": true });
    pattern(json!({ "deadLetter": letter }))
}

#[tokio::test(start_paused = true)]
async fn unknown_effects_prevent_a_retry() {
    let stored = json!({ "claimCheck": { "storeTool": "lose", "inner": tool_of("echo"),
        "retrieveTool": "echo", "retrieveAtEnd": false } });
    let composed = Composed::start(vec![
        composition("cut-off", retry(cut_off())),
        composition("replaced", retry(replaced())),
        composition("half-done", retry(half_done())),
        composition("stored", retry(pattern(stored))),
    ]);
    composed.failure("cut-off", json!({})).await;
    assert_eq!(composed.upstream.calls("wait").len(), 1);
    composed.failure("replaced", json!({})).await;
    assert_eq!(composed.upstream.calls("wait").len(), 2);
    // The effects are known, and the spec demands a retry.
    composed.failure("half-done", json!({})).await;
    assert_eq!(composed.upstream.calls("keep").len(), 3);
    // Storing a value twice can be harmful too.
    composed.failure("stored", json!({})).await;
    assert_eq!(composed.upstream.calls("lose").len(), 1);
}

#[tokio::test]
async fn saga_is_retried_only_after_compensation() {
    let mut stuck = saga(tool_of("count"), json!({ "compensateInput": { "path": "$.missing" } }));
    let failing = json!({ "id": "two", "name": "two", "action": tool_of("fail") });
    stuck["saga"]["steps"].as_array_mut().unwrap().push(failing);
    let composed = Composed::with_journal(vec![
        composition("half-done", retry(pattern(saga(half_done(), json!({}))))),
        composition("undone", retry(pattern(saga(tool_of("fail"), json!({}))))),
        composition("stuck", retry(pattern(stuck))),
    ]);
    composed.failure("half-done", json!({})).await;
    assert_eq!(composed.upstream.calls("keep").len(), 1, "the first step is not compensated");
    let failed = composed.upstream.calls("fail").len();
    composed.failure("undone", json!({})).await;
    assert_eq!(composed.upstream.calls("fail").len(), failed + 3);
    composed.failure("stuck", json!({})).await;
    assert_eq!(composed.upstream.calls("count").len(), 1, "the compensation failed");
}

#[tokio::test(start_paused = true)]
async fn cut_off_items_are_not_retried() {
    let fails_later =
        || pattern(pipeline(&[step("w", "wait", json!(null)), step("f", "fail", json!(null))]));
    let each = |more: Value| {
        let each = json!({ "mapEach": extended(json!({ "inner": fails_later() }), more) });
        let all = json!({ "id": "all", "operation": pattern(each), "input": { "path": "$.all" } });
        retry(pattern(pipeline(&[all])))
    };
    let composed = Composed::start(vec![
        composition("at-once", each(json!({}))),
        composition("one-by-one", each(json!({ "maxConcurrency": 1 }))),
    ]);
    composed.failure("at-once", json!({ "all": [{ "ms": 4_000 }, { "ms": 100 }] })).await;
    assert_eq!(composed.upstream.calls("wait").len(), 2);
    // No tool is called with a value that is not an object.
    let calls = composed.calls("one-by-one", json!({ "all": [7, { "ms": 0 }] })).await;
    assert_eq!(calls, ["all/0/w wait invalid-value"; 3]);
    composed.failure("one-by-one", json!({ "all": [{ "ms": 0 }, 7] })).await;
    assert_eq!(composed.upstream.calls("wait").len(), 2 + 3, "the effects are known");
}

#[tokio::test(start_paused = true)]
async fn idempotency_key_is_kept_after_side_effects() {
    let composed = Composed::start(vec![
        composition("cut-off", once(cut_off(), json!({}))),
        composition("half-done", once(half_done(), json!({}))),
        composition("nothing", once(tool_of("fail"), json!({}))),
    ]);
    for _ in 0..2 {
        composed.failure("cut-off", json!({ "k": 1 })).await;
        composed.failure("half-done", json!({ "k": 1 })).await;
        composed.failure("nothing", json!({ "k": 1 })).await;
    }
    assert_eq!(composed.upstream.calls("wait").len(), 1);
    assert_eq!(composed.upstream.calls("keep").len(), 1);
    assert_eq!(composed.upstream.calls("fail").len(), 1 + 1 + 2);
    for key in [json!({}), json!({ "k": null })] {
        assert_eq!(composed.failure("nothing", key).await.1, "missing-key");
    }
}

#[tokio::test(start_paused = true)]
async fn idempotency_ttl_starts_at_completion() {
    let short = once(tool_of("wait"), json!({ "ttlSeconds": 1 }));
    let composed = Composed::start(vec![composition("short", short)]);
    let long = json!({ "k": 1, "ms": 1_300 });
    join!(composed.value("short", long.clone()), composed.value("short", long.clone()));
    composed.value("short", long.clone()).await;
    assert_eq!(composed.upstream.calls("wait").len(), 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    composed.value("short", long).await;
    assert_eq!(composed.upstream.calls("wait").len(), 2);
}

#[tokio::test]
async fn partial_saga_step_is_compensated_or_reported() {
    let on_unknown = json!({ "compensateOnUnknown": true });
    let composed = Composed::with_journal(vec![
        composition("cut-off", saga(cut_off(), on_unknown.clone())),
        composition("half-done", saga(half_done(), on_unknown)),
        composition("told", saga(half_done(), json!({}))),
        composition("nothing", saga(tool_of("fail"), json!({ "compensateOnUnknown": true }))),
    ]);
    for (tool, undone) in [("cut-off", 1), ("half-done", 2), ("told", 2), ("nothing", 2)] {
        composed.failure(tool, json!({})).await;
        assert_eq!(composed.upstream.calls("echo").len(), undone, "{tool}");
    }
    let failure = composed.run("told", None, &json!({})).await.0.unwrap_err().to_value();
    let message = failure["message"].as_str().unwrap();
    insta::assert_snapshot!(
        message,
        @"the saga failed at `one`; the outcome of `one` is unknown and was not compensated, \
          because the step does not set `compensateOnUnknown`; the steps before it were \
          compensated: fail failed: no"
    );
    assert_eq!(
        (&failure["status"], &failure["failedStep"]),
        (&json!("compensated"), &json!("one"))
    );
    assert_eq!(failure["error"]["message"], "fail failed: no");
    assert_eq!(failure["steps"], json!([{ "id": "one", "outcome": "unknown" }]));
}

#[tokio::test(start_paused = true)]
async fn dropped_targets_are_reported() {
    let nowhere = json!({ "tool": "echo", "input": { "path": "$.nowhere" } });
    let targets = json!([{ "tool": "echo" }, nowhere, { "tool": "fail" }]);
    let scatter = json!({ "targets": targets, "aggregation": { "ops": [] } });
    let composed = Composed::start(vec![composition("some", json!({ "scatterGather": scatter }))]);
    assert_eq!(composed.value("some", json!({ "x": 1 })).await, json!([{ "x": 1 }]));
    let steps = json!(composed.steps("some", json!({ "x": 1 })).await);
    assert!(steps.get("more").is_none(), "all are reported: {steps}");
    let dropped = &steps["dropped"];
    let [first, second] = [&dropped[0], &dropped[1]];
    assert_eq!((&first["step"], &first["reason"]), (&json!("targets/1"), &json!("invalid-value")));
    assert_eq!(
        (&second["step"], &second["message"]),
        (&json!("targets/2"), &json!("fail failed: no"))
    );
}

#[tokio::test(start_paused = true)]
async fn result_size_is_limited_like_a_response() {
    let targets = vec![json!({ "tool": "say" }); 3];
    let scatter = json!({ "targets": targets, "aggregation": { "ops": [] } });
    let large =
        |i: usize| step(&format!("s{i}"), "say", constant(json!({ "value": "x".repeat(3_500) })));
    let small = |larges: usize| {
        let last = step("last", "say", constant(json!({ "value": "x" })));
        pipeline(&(0..larges).map(large).chain([last]).collect::<Vec<_>>())
    };
    let composed = Composed {
        response_bytes: 4_096,
        ..Composed::start(vec![
            composition("three", json!({ "scatterGather": scatter })),
            composition("four-times", small(4)),
            composition("more", small(5)),
        ])
    };
    composed.value("three", json!({ "value": "x".repeat(1_000) })).await;
    let (_, reason, _) = composed.failure("three", json!({ "value": "x".repeat(1_500) })).await;
    assert_eq!(reason, "limit");
    assert_eq!(composed.value("four-times", json!({})).await, "x");
    let (step, _, message) = composed.failure("more", json!({})).await;
    assert!(step == "s4" && message.contains("exceed 16384 bytes"), "{step}: {message}");
}

#[tokio::test(start_paused = true)]
async fn nested_compositions_share_the_call_limit() {
    let each = pattern(json!({ "mapEach": { "inner": tool_of("keep") } }));
    let each = json!({ "id": "all", "operation": each, "input": { "path": "$.all" } });
    let outer = json!({ "timeout": { "inner": tool_of("inner"), "durationMs": 60_000 } });
    let composed =
        Composed::start(vec![composition("inner", pipeline(&[each])), composition("outer", outer)]);
    let all = json!({ "all": vec![json!({}); 10_000] });
    let (_, reason, message) = composed.failure("outer", all).await;
    assert_eq!(reason, "tool-error", "the inner composition is a tool");
    assert!(message.contains(" 10000 "), "{message}");
    assert!(composed.upstream.calls("keep").is_empty(), "work that cannot finish does not start");
}

#[tokio::test(start_paused = true)]
async fn failed_dead_letter_keeps_known_effects() {
    let composed = Composed::start(vec![
        composition("once", once(dead_letter(half_done(), "fail"), json!({}))),
        composition("lost", retry(dead_letter(tool_of("fail"), "lose"))),
    ]);
    for _ in 0..2 {
        composed.failure("once", json!({ "k": 1 })).await;
    }
    assert_eq!(composed.upstream.calls("keep").len(), 1);
    composed.failure("lost", json!({})).await;
    assert_eq!(composed.upstream.calls("lose").len(), 1);
}

#[tokio::test]
async fn failed_dead_letter_keeps_step_unknown() {
    let unsure = json!({ "compensateOnUnknown": true });
    let undone = saga(dead_letter(half_done(), "fail"), unsure);
    let composed = Composed::with_journal(vec![composition("undone", undone)]);
    composed.failure("undone", json!({})).await;
    assert_eq!(composed.upstream.calls("echo"), [json!({ "undone": true })]);
}
