//! Sagas inside other sagas and inside compensations: an inner saga is compensated before its
//! surroundings continue.

use super::*;

/// A saga whose last step is `inner`.
pub(super) fn nested(inner: Value, more: Value) -> Value {
    let steps = [
        saga_step("a", "echo", undone_by("keep", constant(json!({ "outer": true })))),
        json!({ "id": "in", "name": "in", "action": inner }),
    ];
    saga(&steps, more)
}

/// A saga that never ends by itself and whose compensation takes 200 ms.
pub(super) fn slow_to_undo() -> Value {
    let slowly = [
        step("wait", "wait", constant(json!({ "ms": 200 }))),
        step("keep", "keep", constant(json!({ "inner": true }))),
    ];
    let undone = json!({ "compensate": { "pattern": pipeline(&slowly) } });
    saga(&[saga_step("b", "echo", undone), saga_step("w", "hold", json!({}))], json!({}))
}

#[tokio::test]
async fn inner_saga_is_compensated_before_earlier_steps() {
    let limited = json!({ "timeoutMs": 300 });
    let own = json!({ "pattern": slow_to_undo() });
    let scattered = json!({ "pattern": { "scatterGather": { "failFast": true,
        "targets": [own.clone(), { "pattern": pipeline(&[
            step("w", "wait", constant(json!({ "ms": 100 }))), step("f", "fail", json!(null))]) }],
        "aggregation": { "ops": [] } } } });
    let composed = Composed::with_journal(vec![
        composition("inner", slow_to_undo()),
        composition("patterns", nested(own, limited.clone())),
        composition("tools", nested(json!({ "tool": "inner" }), limited)),
        composition("branches", nested(scattered, json!({}))),
    ]);
    let mut wanted = Vec::new();
    for tool in ["patterns", "tools", "branches"] {
        let (_, reason, message) = composed.failure(tool, json!({})).await;
        assert_eq!(reason, "saga-failed", "{message}");
        wanted.extend([json!({ "inner": true }), json!({ "outer": true })]);
        assert_eq!(undone(&composed), wanted, "{tool}");
    }
}

#[tokio::test]
async fn fallback_waits_for_compensation_of_cut_off_saga() {
    let cut_off =
        json!({ "timeout": { "durationMs": 200, "inner": { "pattern": slow_to_undo() } } });
    let after = json!({ "tool": { "name": "count" } });
    let with_fallback = json!({ "timeout": { "durationMs": 200, "inner": { "pattern": slow_to_undo() },
        "fallback": after } });
    let scattered = json!({ "scatterGather": { "timeoutMs": 200, "aggregation": { "ops": [] },
        "targets": [{ "pattern": slow_to_undo() }, { "tool": "echo" }] } });
    let scattered = pipeline(&[
        json!({ "id": "s", "operation": { "pattern": scattered } }),
        step("after", "count", constant(json!({}))),
    ]);
    let letter = json!({ "deadLetter": { "inner": { "pattern": cut_off.clone() }, "deadLetterTool": "count",
        "rethrow": false } });
    let composed = Composed::with_journal(vec![
        composition("fallback", with_fallback),
        composition("scatter", scattered),
        composition("letter", letter),
    ]);
    for (i, tool) in ["fallback", "scatter", "letter"].into_iter().enumerate() {
        composed.value(tool, json!({})).await;
        let seen = composed.upstream.seen();
        let calls: Vec<_> = seen.calls.iter().map(|(tool, _)| tool.as_str()).collect();
        let in_order: Vec<_> =
            calls.into_iter().filter(|t| ["keep", "count"].contains(t)).collect();
        assert_eq!(in_order, ["keep", "count"].repeat(i + 1), "{tool}");
    }
}

#[tokio::test]
async fn compensation_retry_waits_for_inner_saga_of_last_attempt() {
    let slowly = [
        step("wait", "wait", constant(json!({ "ms": 600 }))),
        step("keep", "keep", constant(json!({ "inner": true }))),
    ];
    let inner = saga(
        &[
            saga_step("c", "count", json!({ "compensate": { "pattern": pipeline(&slowly) } })),
            saga_step("w", "wait", json!({ "input": constant(json!({ "ms": 300 })) })),
        ],
        json!({}),
    );
    let fails_once = pipeline(&[
        step("w", "wait", constant(json!({ "ms": 100 }))),
        step("f", "flaky", constant(json!({ "failures": 1 }))),
    ]);
    let undo = json!({ "scatterGather": { "failFast": true, "aggregation": { "ops": [] },
        "targets": [{ "pattern": inner }, { "pattern": fails_once }] } });
    let steps = [
        saga_step("a", "echo", json!({ "compensate": { "pattern": undo } })),
        saga_step("b", "fail", json!({})),
    ];
    let composed = Composed::with_journal(vec![composition("order", saga(&steps, json!({})))]);
    let (_, _, message) = composed.failure("order", json!({})).await;
    insta::assert_snapshot!(
        message,
        @"the saga failed at `b`; its completed steps were compensated: fail failed: no"
    );
    let seen = composed.upstream.seen();
    let calls = seen.calls.iter().map(|(tool, _)| tool.as_str());
    let in_order: Vec<_> = calls.filter(|tool| ["keep", "count"].contains(tool)).collect();
    assert_eq!(in_order, ["count", "keep", "count"]);
}
