//! Sagas inside of others, and of their compensations: what was cut off is undone before anything goes on.

use super::*;

/// A saga of which a step is a saga, which takes its time to be undone.
pub(super) fn nested(inner: Value, more: Value) -> Value {
    let steps = [
        saga_step("a", "echo", undone_by("keep", constant(json!({ "outer": true })))),
        json!({ "id": "in", "name": "in", "action": inner }),
    ];
    saga(&steps, more)
}

pub(super) fn slow_to_undo() -> Value {
    let slowly = [
        step("wait", "wait", constant(json!({ "ms": 200 }))),
        step("keep", "keep", constant(json!({ "inner": true }))),
    ];
    let undone = json!({ "compensate": { "pattern": pipeline(&slowly) } });
    let waits = saga_step("w", "wait", json!({ "input": constant(json!({ "ms": 4_000 })) }));
    saga(&[saga_step("b", "echo", undone), waits], json!({}))
}

/// Also where it is the outer one whose time is over, and the inner one is another tool.
#[tokio::test]
async fn a_saga_inside_of_another_is_undone_before_what_was_done_before_it() {
    let limited = json!({ "timeoutMs": 300 });
    let own = json!({ "pattern": slow_to_undo() });
    let scattered = json!({ "pattern": { "scatterGather": { "failFast": true,
        "targets": [own.clone(), { "pattern": pipeline(&[
            step("w", "wait", constant(json!({ "ms": 100 }))), step("f", "fail", json!(null))]) }],
        "aggregation": { "ops": [] } } } });
    let composed = Composed::start(vec![
        composition("inner", slow_to_undo()),
        composition("patterns", nested(own, limited.clone())),
        around("tools", "inner", nested(json!({ "tool": "inner" }), limited)),
        composition("branches", nested(scattered, json!({}))),
    ])
    .await;
    let mut wanted = Vec::new();
    for tool in ["patterns", "tools", "branches"] {
        let (_, reason, message) = composed.failure(tool, json!({})).await;
        assert_eq!(reason, "saga-failed", "{message}");
        wanted.extend([json!({ "inner": true }), json!({ "outer": true })]);
        assert_eq!(undone(&composed), wanted, "{tool}");
    }
}

#[tokio::test]
async fn what_goes_on_after_a_saga_was_cut_off_waits_until_it_is_undone() {
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
    let composed = Composed::start(vec![
        composition("fallback", with_fallback),
        composition("scatter", scattered),
        composition("letter", letter),
    ])
    .await;
    for (i, tool) in ["fallback", "scatter", "letter"].into_iter().enumerate() {
        composed.value(tool, json!({})).await;
        let seen = composed.upstream.seen();
        let calls: Vec<_> = seen.calls.iter().map(|(tool, _)| tool.as_str()).collect();
        let in_order: Vec<_> =
            calls.into_iter().filter(|t| ["keep", "count"].contains(t)).collect();
        assert_eq!(in_order, ["keep", "count"].repeat(i + 1), "{tool}");
    }
}

/// The saga inside of it that was cut off is to be undone before.
#[tokio::test]
async fn a_compensation_is_tried_again_once_nothing_of_the_last_try_goes_on() {
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
    let composed = Composed::start(vec![composition("order", saga(&steps, json!({})))]).await;
    let (_, _, message) = composed.failure("order", json!({})).await;
    assert!(message.contains("what it had done was undone"), "{message}");
    let seen = composed.upstream.seen();
    let calls = seen.calls.iter().map(|(tool, _)| tool.as_str());
    let in_order: Vec<_> = calls.filter(|tool| ["keep", "count"].contains(tool)).collect();
    assert_eq!(in_order, ["count", "keep", "count"]);
}
