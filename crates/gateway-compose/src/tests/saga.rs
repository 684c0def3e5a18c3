//! Sagas with a real journal.
//!
//! The journal writes on its own thread, so these tests need the real clock.

mod nested;
mod recovery;

use std::{pin::pin, time::Duration};

use futures_util::poll;
use tokio::{join, task::yield_now, time::timeout};

use super::*;

fn saga_step(id: &str, tool: &str, more: Value) -> Value {
    extended(json!({ "id": id, "name": id, "action": tool_of(tool) }), more)
}

fn undone_by(tool: &str, input: Value) -> Value {
    let mut more = json!({ "compensate": tool_of(tool) });
    if !input.is_null() {
        more["compensateInput"] = input;
    }
    more
}

fn saga(steps: &[Value], more: Value) -> Value {
    let body = extended(json!({ "steps": steps }), more);
    json!({ "saga": body })
}

fn fields(fields: Value) -> Value {
    json!({ "construct": { "fields": fields } })
}

/// The inputs of all compensations by `keep`, in order.
fn undone(composed: &Composed) -> Vec<Value> {
    composed.upstream.calls("keep")
}

async fn await_compensations(composed: &Composed, count: usize) {
    composed.upstream.until(|seen| seen.count("keep") == count).await;
}

fn lost_step(compensate_on_unknown: bool) -> Value {
    let mut more = undone_by("keep", constant(json!({ "lost": true })));
    more["compensateOnUnknown"] = json!(compensate_on_unknown);
    saga(&[saga_step("l", "lose", more)], json!({}))
}

#[tokio::test]
async fn unknown_step_is_compensated_only_if_declared() {
    let composed = Composed::with_journal(vec![
        composition("counts", lost_step(true)),
        composition("ignored", lost_step(false)),
    ]);
    composed.failure("ignored", json!({})).await;
    assert!(undone(&composed).is_empty());
    composed.failure("counts", json!({})).await;
    assert_eq!(undone(&composed), [json!({ "lost": true })]);
}

#[tokio::test]
async fn cut_off_step_is_compensated() {
    let slow = |more: Value| {
        let mut step = undone_by("keep", constant(json!({ "slow": true })));
        step["compensateOnUnknown"] = json!(true);
        saga(&[saga_step("s", "hold", step)], more)
    };
    let nested = json!({ "pattern": slow(json!({})) });
    let composed = Composed::with_journal(vec![
        composition("late", slow(json!({ "timeoutMs": 100 }))),
        composition("dropped", slow(json!({}))),
        composition("nested", json!({ "timeout": { "durationMs": 100, "inner": nested } })),
    ]);
    let (_, reason, message) = composed.failure("late", json!({})).await;
    assert_eq!(reason, "saga-failed");
    assert!(message.contains("100 ms"), "{message}");
    assert_eq!(undone(&composed).len(), 1);

    // The caller disconnects, which cancels the saga.
    let input = json!({});
    tokio::select! {
        _ = composed.run("dropped", None, &input) => panic!("the step never ends"),
        () = composed.upstream.until(|seen| seen.running == 1) => {}
    }
    composed.upstream.until(|seen| seen.cancelled == 2).await;
    await_compensations(&composed, 2).await;
    assert_eq!(composed.failure("nested", json!({})).await.1, "timeout");
    await_compensations(&composed, 3).await;
    assert_eq!(undone(&composed), vec![json!({ "slow": true }); 3]);
}

#[tokio::test]
async fn compensation_input_has_reason_of_time_limit() {
    let why = fields(json!({ "reason": { "error": { "path": "$.reason" } },
        "message": { "error": { "path": "$.message" } } }));
    let slow = [saga_step("a", "echo", undone_by("keep", why)), saga_step("b", "hold", json!({}))];
    let inner = json!({ "pattern": saga(&slow, json!({})) });
    let limited =
        |name: &str, more: Value| json!({ name: extended(json!({ "inner": inner }), more) });
    let backoff = json!({ "fixed": { "delayMs": 1 } });
    let outer = json!({ "id": "o", "name": "o", "action": inner });
    // Fails once the saga is in its second step.
    let later = step("w", "wait", constant(json!({ "ms": 500 })));
    let fast = json!([inner, { "pattern": pipeline(&[later, step("f", "fail", json!(null))]) }]);
    let gather = |targets: Value, more: Value| {
        let ops = json!({ "targets": targets, "aggregation": { "ops": [] } });
        json!({ "scatterGather": extended(ops, more) })
    };
    let around_tool = json!({ "timeout": { "inner": tool_of("plain"), "durationMs": 100 } });
    let composed = Composed::with_journal(vec![
        composition("timeout", limited("timeout", json!({ "durationMs": 100 }))),
        composition(
            "retry",
            limited(
                "retry",
                json!({ "maxAttempts": 1, "attemptTimeoutMs": 100, "backoff": backoff }),
            ),
        ),
        composition("scatter", gather(json!([inner]), json!({ "timeoutMs": 100 }))),
        composition("outer", saga(&[outer], json!({ "timeoutMs": 100 }))),
        composition("composed", around_tool),
        composition("plain", saga(&slow, json!({}))),
        composition("first", gather(fast, json!({ "failFast": true }))),
    ]);
    for (i, tool) in ["timeout", "retry", "scatter", "outer", "composed"].into_iter().enumerate() {
        composed.failure(tool, json!({})).await;
        await_compensations(&composed, i + 1).await;
        let told = json!({ "reason": "timeout", "message": "timed out after 100 ms" });
        assert_eq!(undone(&composed)[i], told, "{tool}");
    }
    composed.failure("first", json!({})).await;
    await_compensations(&composed, 6).await;
    assert_eq!(undone(&composed)[5]["reason"], "cancelled", "no time limit has passed");
}

#[tokio::test]
async fn compensation_is_retried_and_others_continue() {
    let failing = json!({ "input": constant(json!({ "message": "x" })) });
    let steps = [
        saga_step("a", "echo", undone_by("keep", json!(null))),
        saga_step("b", "echo", undone_by("flaky", constant(json!({ "failures": 2 })))),
        saga_step("c", "echo", undone_by("keep", json!({ "path": "$.missing" }))),
        saga_step("d", "fail", failing),
    ];
    let composed = Composed::with_journal(vec![composition("order", saga(&steps, json!({})))]);
    let (result, steps) = composed.run("order", None, &json!({ "x": 1 })).await;
    let text = result.unwrap_err().message();
    insta::assert_snapshot!(
        text,
        @"the saga failed at `d`; `c` could not be compensated and needs the gateway's operator: \
          fail failed: x"
    );
    let saga = &json!(steps)["sagas"][0];
    assert_eq!(saga["status"], "compensation_failed");
    let outcomes: Vec<_> =
        saga["steps"].as_array().unwrap().iter().map(|s| s["outcome"].clone()).collect();
    assert_eq!(outcomes, ["compensated", "compensated", "compensation_failed", "failed"]);
    assert_eq!(composed.upstream.calls("flaky").len(), 3);
    assert_eq!(undone(&composed), [json!({ "x": 1 })]);
}

#[tokio::test]
async fn compensation_has_its_own_memory_limit() {
    let large = json!({ "value": "x".repeat(3_500) });
    let say =
        |i: usize| saga_step(&format!("s{i}"), "say", json!({ "input": constant(large.clone()) }));
    let steps: Vec<_> = [saga_step("a", "echo", undone_by("keep", json!(null)))]
        .into_iter()
        .chain((0..5).map(say))
        .collect();
    let composed = Composed {
        response_bytes: 4_096,
        ..Composed::with_journal(vec![composition("large", saga(&steps, json!({})))])
    };
    let (_, _, message) = composed.failure("large", json!({ "x": 1 })).await;
    insta::assert_snapshot!(
        message,
        @"the saga failed at `s4`; the outcome of `s4` is unknown and was not compensated, because \
          the step does not set `compensateOnUnknown`; the steps before it were compensated: the \
          results of the composition exceed 16384 bytes"
    );
    assert_eq!(undone(&composed), [json!({ "x": 1 })]);
}

#[tokio::test]
async fn saga_instance_runs_once() {
    let named = json!({ "sagaIdPath": "$.order" });
    let slow = [saga_step("s", "hold", json!({}))];
    let counts = [saga_step("s", "count", json!({}))];
    let flaky = [
        saga_step("a", "echo", undone_by("keep", json!(null))),
        saga_step("b", "flaky", json!({ "input": constant(json!({ "failures": 1 })) })),
    ];
    let composed = Composed::with_journal(vec![
        composition("slow", saga(&slow, named.clone())),
        composition("counts", saga(&counts, named.clone())),
        composition("unsteady", saga(&flaky, named)),
    ]);
    let order = |order: Value| json!({ "order": order });
    let release = async {
        composed.upstream.until(|seen| seen.running == 1).await;
        composed.upstream.release();
    };
    let (one, two, ()) = join!(
        composed.value("slow", order(json!(1))),
        composed.value("slow", order(json!(1))),
        release,
    );
    assert_eq!(one, two);
    assert_eq!(composed.upstream.calls("hold").len(), 1);
    let n = async |id: Value| composed.value("counts", order(id)).await["s"]["n"].clone();
    assert_eq!((n(json!(1)).await, n(json!(1)).await), (json!(1), json!(1)));
    assert_eq!((n(json!("1")).await, n(json!(1.0)).await), (json!(2), json!(1)));
    let (_, reason, message) = composed.failure("counts", json!({})).await;
    assert_eq!((&*reason, message.contains("$.order")), ("missing-key", true));
    // Equal as doubles, but two ids.
    let (large, next) =
        (json!(1_234_567_890_123_456_789_u64), json!(1_234_567_890_123_456_790_u64));
    assert_eq!(
        (n(large.clone()).await, n(next).await, n(large).await),
        (json!(3), json!(4), json!(3))
    );
    assert_eq!(composed.failure("counts", order(json!(1e20))).await.1, "inexact-key");
    let long = |letters: usize| json!("x".repeat(letters));
    assert_eq!(n(long(1_022)).await, 5, "1,024 bytes as JSON");
    assert_eq!(composed.failure("counts", order(long(1_023))).await.1, "limit");
    // A compensated saga can run again.
    assert_eq!(composed.failure("unsteady", order(json!(1))).await.1, "saga-failed");
    assert_eq!(composed.value("unsteady", order(json!(1))).await["b"]["n"], 2);
}

#[tokio::test]
async fn saga_continues_when_a_waiting_caller_disconnects() {
    let slow = [saga_step("s", "hold", json!({}))];
    let slow = saga(&slow, json!({ "sagaIdPath": "$.order" }));
    let composed = Composed::with_journal(vec![composition("slow", slow)]);
    let order = json!({ "order": 1 });
    let second = async {
        composed.upstream.until(|seen| seen.running == 1).await;
        {
            let mut waiting = pin!(composed.run("slow", None, &order));
            assert!(poll!(&mut waiting).is_pending());
        }
        // A cancelled saga would drop its step now.
        yield_now().await;
        assert_eq!(composed.upstream.seen().running, 1);
        composed.upstream.release();
    };
    let first = timeout(Duration::from_secs(10), composed.value("slow", order.clone()));
    let (value, ()) = join!(first, second);
    assert_eq!(value.unwrap(), json!({ "s": order }));
    assert_eq!(composed.upstream.seen().cancelled, 0);
}
