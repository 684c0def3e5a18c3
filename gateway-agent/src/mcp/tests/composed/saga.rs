//! Sagas whose gateway lives on.

mod nested;
mod recovery;

use std::time::Duration;

use super::*;

/// A step that keeps something and gives it back by `text`.
fn saga_step(id: &str, tool: &str, more: Value) -> Value {
    extended(json!({ "id": id, "name": id, "action": { "tool": { "name": tool } } }), more)
}

fn undone_by(tool: &str, input: Value) -> Value {
    let mut more = json!({ "compensate": { "tool": { "name": tool } } });
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

/// What was undone, in order.
fn undone(composed: &Composed) -> Vec<Value> {
    composed.upstream.calls("keep")
}

#[tokio::test]
async fn a_saga_that_completes_gives_its_output_or_all_results() {
    let steps = [
        saga_step("a", "echo", undone_by("keep", json!(null))),
        saga_step(
            "b",
            "say",
            json!({ "input": fields(json!({ "value": { "step": { "stepId": "a", "path": "$.x" } } })) }),
        ),
    ];
    let output = fields(
        json!({ "x": { "step": { "stepId": "b", "path": "$" } }, "status": { "constant": "completed" } }),
    );
    let composed = Composed::start(vec![
        composition("all", saga(&steps, json!({}))),
        composition("output", saga(&steps, json!({ "output": output }))),
    ])
    .await;
    assert_eq!(composed.value("all", json!({ "x": 7 })).await, json!({ "a": { "x": 7 }, "b": 7 }));
    assert_eq!(
        composed.value("output", json!({ "x": 7 })).await,
        json!({ "x": 7, "status": "completed" })
    );
    let got = composed.got("all", json!({ "x": 7 })).await.result();
    let told = &got["_meta"]["registry/steps"]["sagas"][0];
    assert_eq!(told["status"], "completed");
    assert_eq!(told["steps"][1], json!({ "id": "b", "outcome": "completed" }));
    assert!(undone(&composed).is_empty());
}

#[tokio::test]
async fn what_was_done_is_undone_in_reverse_and_what_failed_is_not() {
    let bound = fields(json!({
        "own": { "step": { "stepId": "a", "path": "$.x" } },
        "input": { "input": { "path": "$.x" } },
        "why": { "error": { "path": "$.message" } },
    }));
    let steps = [
        saga_step("a", "echo", undone_by("keep", bound)),
        saga_step("no-way-back", "echo", json!({ "input": constant(json!({ "n": 2 })) })),
        saga_step("b", "echo", {
            let mut more = undone_by("keep", json!(null));
            more["input"] = constant(json!({ "n": 3 }));
            more
        }),
        saga_step("c", "fail", {
            let mut more = undone_by("keep", json!(null));
            more["input"] = constant(json!({ "message": "out of stock" }));
            more
        }),
        saga_step("d", "echo", json!({})),
    ];
    let composed = Composed::start(vec![composition("order", saga(&steps, json!({})))]).await;
    let got = composed.got("order", json!({ "x": 1 })).await;
    let text = got.failure();
    assert!(text.contains("the saga failed at `c`, and what it had done was undone"), "{text}");
    assert!(text.contains("fail failed: out of stock"), "{text}");
    let error = got.result()["_meta"]["registry/failure"].clone();
    assert_eq!(error["reason"], "saga-failed");
    let saga = &got.result()["_meta"]["registry/steps"]["sagas"][0];
    assert_eq!((&saga["status"], &saga["failedStep"]), (&json!("compensated"), &json!("c")));
    let outcomes: Vec<_> =
        saga["steps"].as_array().unwrap().iter().map(|s| s["outcome"].clone()).collect();
    assert_eq!(outcomes, ["compensated", "completed", "compensated", "failed", "not_run"]);
    assert_eq!(
        undone(&composed),
        [json!({ "n": 3 }), json!({ "own": 1, "input": 1, "why": "fail failed: out of stock" })]
    );
}

#[tokio::test]
async fn a_step_of_which_nobody_knows_is_undone_if_it_says_so() {
    let lost = |counts: bool| {
        let mut more = undone_by("keep", constant(json!({ "lost": true })));
        more["compensateOnUnknown"] = json!(counts);
        saga(&[saga_step("l", "lose", more)], json!({}))
    };
    let slow = |ms: u64, more: Value| {
        let mut step = undone_by("keep", constant(json!({ "slow": true })));
        step["compensateOnUnknown"] = json!(true);
        step["input"] = constant(json!({ "ms": ms }));
        saga(&[saga_step("s", "wait", step)], more)
    };
    let composed = Composed::start(vec![
        composition("counts", lost(true)),
        composition("ignored", lost(false)),
        composition("late", slow(4_000, json!({ "timeoutMs": 100 }))),
        composition("dropped", slow(4_000, json!({}))),
        composition(
            "nested",
            json!({ "timeout": { "durationMs": 100,
            "inner": { "pattern": slow(4_000, json!({})) } } }),
        ),
    ])
    .await;
    composed.failure("ignored", json!({})).await;
    assert!(undone(&composed).is_empty());
    composed.failure("counts", json!({})).await;
    assert_eq!(undone(&composed), [json!({ "lost": true })]);
    let (_, reason, message) = composed.failure("late", json!({})).await;
    assert_eq!(reason, "saga-failed");
    assert!(message.contains("no result in 100 ms"), "{message}");
    assert_eq!(undone(&composed).len(), 2);

    // Who goes away cancels it; it is undone all the same.
    let call = composed.got("dropped", json!({}));
    let gone = tokio::time::timeout(Duration::from_millis(100), call).await;
    assert!(gone.is_err());
    composed.upstream.until(|seen| seen.cancelled == 2).await;
    composed
        .upstream
        .until(|seen| seen.calls.iter().filter(|(t, _)| t == "keep").count() == 3)
        .await;
    assert_eq!(composed.failure("nested", json!({})).await.1, "timeout");
    composed
        .upstream
        .until(|seen| seen.calls.iter().filter(|(t, _)| t == "keep").count() == 4)
        .await;
}

#[tokio::test]
async fn compensation_learns_that_a_timeout_cut_off() {
    let why = fields(json!({ "reason": { "error": { "path": "$.reason" } },
        "message": { "error": { "path": "$.message" } } }));
    let slow = [
        saga_step("a", "echo", undone_by("keep", why)),
        saga_step("b", "wait", json!({ "input": constant(json!({ "ms": 4_000 })) })),
    ];
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
    let composed = Composed::start(vec![
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
        around_tool("composed", "plain", 100),
        composition("plain", saga(&slow, json!({}))),
        composition("first", gather(fast, json!({ "failFast": true }))),
    ])
    .await;
    for (i, tool) in ["timeout", "retry", "scatter", "outer", "composed"].into_iter().enumerate() {
        composed.failure(tool, json!({})).await;
        composed
            .upstream
            .until(|seen| seen.calls.iter().filter(|(t, _)| t == "keep").count() == i + 1)
            .await;
        let told = json!({ "reason": "timeout", "message": "no result in 100 ms" });
        assert_eq!(undone(&composed)[i], told, "{tool}");
    }
    composed.failure("first", json!({})).await;
    composed
        .upstream
        .until(|seen| seen.calls.iter().filter(|(t, _)| t == "keep").count() == 6)
        .await;
    assert_eq!(undone(&composed)[5]["reason"], "cancelled", "no time limit has passed");
}

/// A composition of another one, with a time limit around the call.
fn around_tool(name: &str, other: &str, duration_ms: u64) -> Registered {
    let inner = json!({ "tool": { "name": other } });
    around(name, other, json!({ "timeout": { "inner": inner, "durationMs": duration_ms } }))
}

#[tokio::test]
async fn a_compensation_is_tried_again_and_the_others_go_on() {
    let failing = json!({ "input": constant(json!({ "message": "x" })) });
    let steps = [
        saga_step("a", "echo", undone_by("keep", json!(null))),
        saga_step("b", "echo", undone_by("flaky", constant(json!({ "failures": 2 })))),
        saga_step("c", "echo", undone_by("keep", json!({ "path": "$.missing" }))),
        saga_step("d", "fail", failing),
    ];
    let composed = Composed::start(vec![composition("order", saga(&steps, json!({})))]).await;
    let got = composed.got("order", json!({ "x": 1 })).await;
    let text = got.failure();
    assert!(
        text.contains("`c` could not be undone, which is left to the gateway's operator"),
        "{text}"
    );
    let saga = &got.result()["_meta"]["registry/steps"]["sagas"][0];
    assert_eq!(saga["status"], "compensation_failed");
    let outcomes: Vec<_> =
        saga["steps"].as_array().unwrap().iter().map(|s| s["outcome"].clone()).collect();
    assert_eq!(outcomes, ["compensated", "compensated", "compensation_failed", "failed"]);
    assert_eq!(composed.upstream.calls("flaky").len(), 3);
    assert_eq!(undone(&composed), [json!({ "x": 1 })]);
}

#[tokio::test]
async fn what_is_undone_is_not_undone_again_for_a_result_that_nobody_needs() {
    let source = json!({ "server": "up", "serverVersion": "1.0.0", "tool": "text" });
    let projected = json!({ "source": source,
        "outputTransform": { "mappings": { "x": { "path": "$" } } } });
    let told = undone_by("odd", constant(json!({ "text": "no JSON" })));
    let steps = [saga_step("a", "echo", told), saga_step("b", "fail", json!({}))];
    let mut order = composition("order", saga(&steps, json!({})));
    let odd = json!({ "type": "tool", "name": "odd", "version": "1.0.0" });
    order.document["depends"].as_array_mut().unwrap().push(odd);
    let composed = Composed::start(vec![tool("odd", "1.0.0", projected), order]).await;
    let (_, _, message) = composed.failure("order", json!({})).await;
    assert!(message.contains("what it had done was undone"), "{message}");
    assert_eq!(composed.upstream.calls("text").len(), 1);
}

/// What a call has taken is no reason not to undo it.
#[tokio::test]
async fn what_took_all_that_a_call_may_is_undone_once() {
    let limits = UpstreamLimits { response_bytes: 4_096, ..UpstreamLimits::default() };
    let setup = Setup { limits, ..Setup::default() };
    let large = json!({ "value": "x".repeat(3_500) });
    let say =
        |i: usize| saga_step(&format!("s{i}"), "say", json!({ "input": constant(large.clone()) }));
    let steps: Vec<_> = [saga_step("a", "echo", undone_by("keep", json!(null)))]
        .into_iter()
        .chain((0..5).map(say))
        .collect();
    let composed =
        Composed::start_with(setup, vec![composition("large", saga(&steps, json!({})))]).await;
    let (_, _, message) = composed.failure("large", json!({ "x": 1 })).await;
    assert!(message.contains("at `s4`; what `s4` has done is not known"), "{message}");
    assert_eq!(undone(&composed), [json!({ "x": 1 })]);
}

#[tokio::test]
async fn an_instance_runs_once() {
    let named = json!({ "sagaIdPath": "$.order" });
    let slow = [saga_step("s", "wait", json!({}))];
    let counts = [saga_step("s", "count", json!({}))];
    let flaky = [
        saga_step("a", "echo", undone_by("keep", json!(null))),
        saga_step("b", "flaky", json!({ "input": constant(json!({ "failures": 1 })) })),
    ];
    let composed = Composed::start(vec![
        composition("slow", saga(&slow, named.clone())),
        composition("counts", saga(&counts, named.clone())),
        composition("unsteady", saga(&flaky, named)),
    ])
    .await;
    let order = |order: Value| json!({ "order": order, "ms": 200 });
    let (one, two) = tokio::join!(
        composed.value("slow", order(json!(1))),
        composed.value("slow", order(json!(1)))
    );
    assert_eq!(one, two);
    assert_eq!(composed.upstream.calls("wait").len(), 1);
    let n = async |id: Value| composed.value("counts", order(id)).await["s"]["n"].clone();
    assert_eq!((n(json!(1)).await, n(json!(1)).await), (json!(1), json!(1)));
    assert_eq!((n(json!("1")).await, n(json!(1.0)).await), (json!(2), json!(1)));
    let (_, reason, message) = composed.failure("counts", json!({})).await;
    assert_eq!((&*reason, message.contains("$.order selects nothing")), ("no-key", true));
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
    // What was undone may be done again.
    assert_eq!(composed.failure("unsteady", order(json!(1))).await.1, "saga-failed");
    assert_eq!(composed.value("unsteady", order(json!(1))).await["b"]["n"], 2);
}

/// Who waits for the saga of somebody else and goes away does not end it.
#[tokio::test]
async fn only_who_began_it_cancels_it() {
    let slow = [saga_step("s", "wait", json!({}))];
    let composed =
        Composed::start(vec![composition("slow", saga(&slow, json!({ "sagaIdPath": "$.order" })))])
            .await;
    let order = json!({ "order": 1, "ms": 400 });
    let first = composed.value("slow", order.clone());
    let second = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let gone =
            tokio::time::timeout(Duration::from_millis(50), composed.got("slow", order.clone()));
        assert!(gone.await.is_err());
    };
    let (value, ()) = tokio::join!(first, second);
    assert_eq!(value["s"]["waited"], 400);
    assert_eq!(composed.upstream.seen().cancelled, 0);
}
