//! Nested compositions: hints, depth and checks.

use super::*;

fn tool_of(name: &str) -> Value {
    json!({ "tool": { "name": name } })
}

fn pattern(spec: Value) -> Value {
    json!({ "pattern": spec })
}

/// The first step succeeds, the second one fails.
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

#[tokio::test]
async fn step_with_invalid_input_is_retried() {
    let strict = json!({ "source": { "tool": "keep" }, "inputSchema": { "required": ["x"] } });
    let given = pipeline(&[step("a", "strict", constant(json!({})))]);
    let refused = around("refused", "strict", retry(pattern(given)));
    let composed = Composed::start(vec![tool("strict", "1.0.0", strict), refused]).await;
    let calls = composed.calls("refused", json!({})).await;
    assert_eq!(calls, ["a strict invalid-input"; 3]);
}

#[tokio::test]
async fn composition_hints_include_dead_letter_calls() {
    let safe = json!({ "annotations": { "idempotentHint": true }, "source": { "tool": "lose" } });
    let letter = json!({ "deadLetter": { "inner": tool_of("lose-safely"), "deadLetterTool": "keep",
        "rethrow": true } });
    let composed = Composed::start(vec![
        composition("loses", pipeline(&[step("a", "lose", json!(null))])),
        around("again", "loses", retry(tool_of("loses"))),
        tool("lose-safely", "1.0.0", safe),
        around("told", "lose-safely", retry(pattern(letter))),
        around("loses-safely", "lose-safely", pipeline(&[step("a", "lose-safely", json!(null))])),
        around("again-safely", "loses-safely", retry(tool_of("loses-safely"))),
    ])
    .await;
    composed.failure("again", json!({})).await;
    assert_eq!(composed.upstream.calls("lose").len(), 1);
    composed.failure("told", json!({})).await;
    assert_eq!(composed.upstream.calls("keep").len(), 1);
    let lost = composed.upstream.calls("lose").len();
    composed.failure("again-safely", json!({})).await;
    assert_eq!(composed.upstream.calls("lose").len(), lost + 3);
}

#[tokio::test]
async fn maximum_registered_depth_is_served() {
    let link = |i: usize| {
        let other = if i == 1 { "echo".to_owned() } else { format!("c{}", i - 1) };
        let spec = json!({ "timeout": { "inner": tool_of(&other), "durationMs": 60_000 } });
        if i == 1 { composition("c1", spec) } else { around(&format!("c{i}"), &other, spec) }
    };
    let composed = Composed::start((1..=17).map(link).collect()).await;
    assert_eq!(composed.value("c16", json!({ "x": 1 })).await, json!({ "x": 1 }));
    assert_eq!(composed.got("c17", json!({})).await.error(), (200, -32602));
}

#[tokio::test]
async fn shared_parts_are_resolved_once() {
    // Each part calls the previous two, and their common one is missing.
    let link = |i: usize| {
        let names = [2, 1].map(|back| format!("c{}", i.saturating_sub(back)));
        let steps = names.iter().map(|name| step(name, name, json!(null)));
        let mut linked = composition(&format!("c{i}"), pipeline(&steps.collect::<Vec<_>>()));
        linked.document["depends"] = names
            .iter()
            .map(|name| json!({ "type": "tool", "name": name, "version": "1.0.0" }))
            .collect();
        linked
    };
    let composed = Composed::start((2..60).map(link).collect()).await;
    let found =
        tokio::time::timeout(std::time::Duration::from_secs(20), composed.got("c59", json!({})));
    assert_eq!(found.await.unwrap().error(), (200, -32602));
}

#[tokio::test]
async fn idempotency_key_is_kept_after_writes_only() {
    let one = |tool: &str| pipeline(&[step("one", tool, json!(null))]);
    let then_fail = |tool: &str| {
        let steps = [step("first", tool, json!(null)), step("second", "fail", json!(null))];
        once(pattern(pipeline(&steps)), json!({}))
    };
    let look = json!({ "annotations": { "readOnlyHint": true }, "source": { "tool": "echo" } });
    let composed = Composed::start(vec![
        tool("look", "1.0.0", look),
        around("looks", "look", one("look")),
        composition("keeps", one("keep")),
        composition("breaks", half_done()["pattern"].clone()),
        around("read", "looks", then_fail("looks")),
        around("done", "keeps", then_fail("keeps")),
        around("in-part", "breaks", once(tool_of("breaks"), json!({}))),
    ])
    .await;
    for (tool, failures) in [("read", 2), ("done", 1), ("in-part", 1)] {
        let before = composed.upstream.calls("fail").len();
        composed.failure(tool, json!({ "k": 1 })).await;
        composed.failure(tool, json!({ "k": 1 })).await;
        assert_eq!(composed.upstream.calls("fail").len(), before + failures, "{tool}");
    }
}

#[tokio::test]
async fn rejected_result_reports_steps() {
    let wanted = json!({ "outputSchema": { "type": "object", "required": ["y"] } });
    let composed =
        Composed::start(vec![with("wrong", pipeline(&[step("a", "keep", json!(null))]), wanted)])
            .await;
    let (step, reason, _) = composed.failure("wrong", json!({ "x": 1 })).await;
    assert_eq!((&*step, &*reason), ("", "invalid-output"));
    let told = composed.calls("wrong", json!({ "x": 1 })).await;
    assert_eq!(told, ["a keep ok"]);
}
