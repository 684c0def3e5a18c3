//! Pipeline, scatter-gather, filter, schemaMap, mapEach.

use std::time::Duration;

use tokio::time::Instant;

use super::*;

#[tokio::test(start_paused = true)]
async fn pipeline_passes_results_in_order() {
    let construct = json!({ "construct": { "fields": {
        "first": { "step": { "stepId": "a", "path": "$.x" } },
        "again": { "reference": { "step": "a", "path": "$.x" } },
        "own": { "input": { "path": "$.x" } },
        "same": { "path": "$.x" },
        "none": { "path": "$.missing" },
        "fixed": { "constant": [1] },
        "deep": { "construct": { "fields": { "y": { "path": "$.y" } } } },
    } } });
    let one = step("a", "echo", constant(json!({ "x": 1 })));
    let composed = Composed::start(vec![
        composition(
            "plain",
            pipeline(&[step("a", "echo", json!(null)), step("b", "echo", json!(null))]),
        ),
        composition("bound", pipeline(&[one, step("b", "echo", construct)])),
        composition("alone", pipeline(&[step("a", "echo", json!({ "path": "$.missing" }))])),
        composition(
            "broken",
            pipeline(&[
                step("one", "echo", json!(null)),
                step("two", "fail", constant(json!({ "message": "so sorry" }))),
                step("three", "echo", json!(null)),
            ]),
        ),
    ]);
    assert_eq!(composed.value("plain", json!({ "q": 1 })).await, json!({ "q": 1 }));
    assert_eq!(
        composed.value("bound", json!({ "x": 5, "y": 6 })).await,
        json!({ "first": 1, "again": 1, "own": 5, "same": 5, "fixed": [1], "deep": { "y": 6 } })
    );
    let (step, reason, _) = composed.failure("alone", json!({})).await;
    assert_eq!((&*step, &*reason), ("a", "invalid-value"));
    assert_eq!(
        composed.failure("broken", json!({})).await,
        ("two".into(), "tool-error".into(), "fail failed: so sorry".into())
    );
    assert_eq!(composed.calls("broken", json!({})).await, ["one echo ok", "two fail tool-error"]);
}

#[tokio::test(start_paused = true)]
async fn step_value_is_structured_json_or_text() {
    let says = |id: &str, tool: &str, what: Value| {
        composition(id, pipeline(&[step("a", tool, constant(what))]))
    };
    let list = step("a", "say", constant(json!({ "value": [1] })));
    let composed = Composed::start(vec![
        says("scalar", "say", json!({ "value": 7 })),
        says("as-json", "text", json!({ "text": "{\"k\":1}" })),
        says("as-text", "text", json!({ "text": "words" })),
        composition("no-object", pipeline(&[list, step("b", "echo", json!(null))])),
    ]);
    assert_eq!(composed.value("scalar", json!({})).await, json!(7));
    assert_eq!(composed.value("as-json", json!({})).await, json!({ "k": 1 }));
    assert_eq!(composed.value("as-text", json!({})).await, json!("words"));
    let (step, _, message) = composed.failure("no-object", json!({})).await;
    assert_eq!((&*step, &*message), ("b", "the input of echo must be an object, not an array"));
}

fn scatter(targets: &[Value], ops: &[Value], more: Value) -> Value {
    let body = extended(json!({ "targets": targets, "aggregation": { "ops": ops } }), more);
    json!({ "scatterGather": body })
}

fn target(tool: &str, input: Value) -> Value {
    json!({ "tool": tool, "input": { "constant": input } })
}

#[tokio::test(start_paused = true)]
async fn scatter_runs_concurrently_and_keeps_order() {
    let slow = |ms: u64| target("wait", json!({ "ms": ms, "n": ms }));
    let fails = target("fail", json!({ "message": "x" }));
    let composed = Composed::start(vec![
        composition(
            "order",
            scatter(&[slow(300), slow(1), slow(150)], &[json!({ "concat": true })], json!({})),
        ),
        composition(
            "same",
            scatter(
                &[json!({ "tool": "echo" }), json!({ "tool": { "name": "echo" } })],
                &[],
                json!({}),
            ),
        ),
        composition("partial", scatter(&[fails.clone(), slow(1)], &[], json!({}))),
        composition("none", scatter(&[fails.clone(), fails.clone()], &[], json!({}))),
        composition(
            "fast",
            scatter(&[slow(4_000), fails.clone()], &[], json!({ "failFast": true })),
        ),
        composition("late", scatter(&[slow(4_000), slow(1)], &[], json!({ "timeoutMs": 200 }))),
        composition("too-late", scatter(&[slow(4_000)], &[], json!({ "timeoutMs": 50 }))),
        composition(
            "nested",
            scatter(
                &[json!({ "pattern": pipeline(&[step("p", "echo", json!(null))]) })],
                &[json!({ "merge": true })],
                json!({}),
            ),
        ),
    ]);
    let started = Instant::now();
    let value = composed.value("order", json!({})).await;
    let waited: Vec<_> = value.as_array().unwrap().iter().map(|v| v["waited"].clone()).collect();
    assert_eq!(waited, [300, 1, 150]);
    assert_eq!(started.elapsed(), Duration::from_millis(300), "the targets run concurrently");
    let both = composed.value("same", json!({ "q": 1 })).await;
    assert_eq!(both, json!([{ "q": 1 }, { "q": 1 }]));
    assert_eq!(composed.value("partial", json!({})).await[0]["waited"], 1);
    let told = composed.calls("partial", json!({})).await;
    assert!(told.contains(&"targets/0 fail tool-error".to_owned()), "{told:?}");
    assert_eq!(composed.failure("none", json!({})).await.1, "no-results");

    let cancelled = composed.upstream.seen().cancelled;
    assert_eq!(composed.failure("fast", json!({})).await.0, "targets/1");
    assert_eq!(composed.upstream.seen().cancelled, cancelled + 1);
    assert_eq!(composed.value("late", json!({})).await.as_array().unwrap().len(), 1);
    assert_eq!(composed.upstream.seen().cancelled, cancelled + 2);
    let told = composed.calls("late", json!({})).await;
    assert!(told.contains(&"targets/0 wait cancelled".to_owned()), "{told:?}");
    let late = json!(composed.steps("late", json!({})).await);
    let dropped =
        json!([{ "step": "targets/0", "reason": "timeout", "message": "timed out after 200 ms" }]);
    assert_eq!(late["dropped"], dropped);
    let (_, reason, message) = composed.failure("too-late", json!({})).await;
    assert_eq!(reason, "no-results");
    insta::assert_snapshot!(
        message,
        @"none of the 1 targets returned a result; first failure: the timeout passed"
    );
    assert_eq!(composed.value("nested", json!({ "q": 2 })).await, json!({ "q": 2 }));
}

#[tokio::test(start_paused = true)]
async fn aggregation_applies_operations_in_order() {
    let lists = [
        target("say", json!({ "value": [{ "id": 2, "s": 9 }, { "id": "b" }] })),
        target("say", json!({ "value": [{ "id": 1 }, { "id": 2, "s": 1 }, { "none": 0 }] })),
    ];
    let ops = [
        json!({ "flatten": true }),
        json!({ "sort": { "field": "$.id", "order": "asc" } }),
        json!({ "dedupe": { "field": "$.id" } }),
        json!({ "limit": { "count": 4 } }),
    ];
    let objects = [
        target("say", json!({ "value": { "a": 1, "b": 1 } })),
        target("say", json!({ "value": { "b": 2 } })),
    ];
    let composed = Composed::start(vec![
        composition("ops", scatter(&lists, &ops, json!({}))),
        composition("merge", scatter(&objects, &[json!({ "merge": true })], json!({}))),
        composition("bad", scatter(&lists, &[json!({ "merge": true })], json!({}))),
    ]);
    let expected = json!([{ "id": 1 }, { "id": 2, "s": 9 }, { "id": "b" }, { "none": 0 }]);
    assert_eq!(composed.value("ops", json!({})).await, expected);
    assert_eq!(composed.value("merge", json!({})).await, json!({ "a": 1, "b": 2 }));
    let (_, reason, message) = composed.failure("bad", json!({})).await;
    assert_eq!(reason, "invalid-value");
    assert!(message.contains("/0"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn arrays_are_filtered_and_mapped_in_order() {
    let list = constant(
        json!({ "value": [{ "ms": 120, "n": 1 }, { "ms": 1, "n": 2 }, { "ms": 1, "n": 3 }] }),
    );
    let filter = json!({ "filter": { "predicate": { "field": "$.n", "op": "lt", "value": 3 } } });
    let each = |inner: Value, more: Value| {
        let body = extended(json!({ "inner": inner }), more);
        json!({ "id": "each", "operation": { "pattern": { "mapEach": body } } })
    };
    let map = json!({ "schemaMap": { "mappings": { "all": { "path": "$[*].n" } } } });
    let wait = json!({ "tool": { "name": "wait" } });
    let huge = constant(json!({ "value": vec![json!({}); 10_001] }));
    let composed = Composed::start(vec![
        composition(
            "all",
            pipeline(&[
                step("list", "say", list.clone()),
                json!({ "id": "few", "operation": { "pattern": filter } }),
                each(wait.clone(), json!({})),
                json!({ "id": "map", "operation": { "pattern": map } }),
            ]),
        ),
        composition(
            "single",
            pipeline(&[step("list", "say", list), each(wait, json!({ "maxConcurrency": 1 }))]),
        ),
        composition(
            "breaks",
            pipeline(&[
                step("list", "say", constant(json!({ "value": [{ "ms": 4000 }, {}, {}] }))),
                each(
                    json!({ "pattern": { "pipeline": { "steps": [
                        step("one", "fail", constant(json!({ "message": "x" }))),
                    ] } } }),
                    json!({}),
                ),
            ]),
        ),
        composition(
            "huge",
            pipeline(&[step("list", "say", huge), each(json!({ "tool": "echo" }), json!({}))]),
        ),
        composition("no-array", pipeline(&[each(json!({ "tool": "echo" }), json!({}))])),
    ]);
    assert_eq!(composed.value("all", json!({})).await, json!({ "all": [1, 2] }));
    composed.upstream.seen().most = 0;
    composed.value("single", json!({})).await;
    assert_eq!(composed.upstream.seen().most, 1);
    let (step, _, _) = composed.failure("breaks", json!({})).await;
    assert!(step.starts_with("each/") && step.ends_with("/one"), "{step}");
    let (step, reason, message) = composed.failure("huge", json!({})).await;
    assert_eq!((&*step, &*reason), ("each", "limit"));
    assert!(message.contains("10001") && message.contains("10000"), "{message}");
    assert_eq!(composed.failure("no-array", json!({})).await.1, "invalid-value");
}
