//! Operations of several parts that fail half way: what was done, or may have been, is not taken for
//! nothing.

use super::*;

fn tool_of(name: &str) -> Value {
    json!({ "tool": { "name": name } })
}

fn pattern(spec: Value) -> Value {
    json!({ "pattern": spec })
}

/// One that hangs is cut off, for another fails.
fn cut_off() -> Value {
    let hangs = json!({ "tool": "wait", "input": constant(json!({ "ms": 4_000 })) });
    pattern(json!({ "scatterGather": { "targets": [hangs, { "tool": "fail" }],
        "failFast": true, "aggregation": { "ops": [] } } }))
}

/// One that hangs is cut off, and what is to stand in for it fails.
fn replaced() -> Value {
    let hangs = step("hangs", "wait", constant(json!({ "ms": 4_000 })));
    pattern(json!({ "timeout": { "inner": pattern(pipeline(&[hangs])), "durationMs": 100,
        "fallback": tool_of("fail") } }))
}

/// One is done, the next fails.
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

#[tokio::test]
async fn what_was_cut_off_is_repeated_only_where_that_is_harmless() {
    let strict = json!({ "source": { "tool": "keep" }, "inputSchema": { "required": ["x"] } });
    let given = pipeline(&[step("a", "strict", constant(json!({})))]);
    let refused = around("refused", "strict", retry(pattern(given)));
    let mut stuck = saga(tool_of("count"), json!({ "compensateInput": { "path": "$.missing" } }));
    let failing = json!({ "id": "two", "name": "two", "action": tool_of("fail") });
    stuck["saga"]["steps"].as_array_mut().unwrap().push(failing);
    let stored = json!({ "claimCheck": { "storeTool": "lose", "inner": tool_of("echo"),
        "retrieveTool": "echo", "retrieveAtEnd": false } });
    let composed = Composed::start(vec![
        composition("cut-off", retry(cut_off())),
        composition("replaced", retry(replaced())),
        composition("half-done", retry(half_done())),
        composition("saga", retry(pattern(saga(half_done(), json!({}))))),
        composition("undone", retry(pattern(saga(tool_of("fail"), json!({}))))),
        composition("stuck", retry(pattern(stuck))),
        composition("stored", retry(pattern(stored))),
        tool("strict", "1.0.0", strict),
        refused,
    ])
    .await;
    composed.failure("cut-off", json!({})).await;
    assert_eq!(composed.upstream.calls("wait").len(), 1);
    composed.failure("replaced", json!({})).await;
    assert_eq!(composed.upstream.calls("wait").len(), 2);
    // Here everybody knows what was done, and the spec says to do it again.
    composed.failure("half-done", json!({})).await;
    assert_eq!(composed.upstream.calls("keep").len(), 3);
    // Its first step was done, and is not undone.
    composed.failure("saga", json!({})).await;
    assert_eq!(composed.upstream.calls("keep").len(), 4);
    // It was undone, and here it could not be.
    let failed = composed.upstream.calls("fail").len();
    composed.failure("undone", json!({})).await;
    assert_eq!(composed.upstream.calls("fail").len(), failed + 3);
    composed.failure("stuck", json!({})).await;
    assert_eq!(composed.upstream.calls("count").len(), 1);
    // What is stored twice may be harmful, too.
    composed.failure("stored", json!({})).await;
    assert_eq!(composed.upstream.calls("lose").len(), 1);
    // Nothing was done.
    let calls = composed.calls("refused", json!({})).await;
    assert_eq!(calls, ["a strict invalid-input"; 3]);
}

#[tokio::test]
async fn all_that_a_composition_or_a_dead_letter_calls_counts() {
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
async fn compositions_are_served_as_deep_as_they_may_be_registered() {
    let link = |i: usize| {
        let other = if i == 1 { "echo".to_owned() } else { format!("c{}", i - 1) };
        let spec = json!({ "timeout": { "inner": tool_of(&other), "durationMs": 60_000 } });
        if i == 1 { composition("c1", spec) } else { around(&format!("c{i}"), &other, spec) }
    };
    let composed = Composed::start((1..=17).map(link).collect()).await;
    assert_eq!(composed.value("c16", json!({ "x": 1 })).await, json!({ "x": 1 }));
    assert!(composed.got("c17", json!({})).await.text.contains("Unknown tool"));
}

#[tokio::test]
async fn many_ways_to_the_same_part_are_one() {
    // Each calls the two before it, and one of them all is missing.
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
    assert!(found.await.unwrap().text.contains("Unknown tool"));
}

#[tokio::test]
async fn items_that_were_cut_off_are_not_repeated() {
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
    ])
    .await;
    // What is no object is given to no tool.
    composed.failure("at-once", json!({ "all": [{ "ms": 4_000 }, { "ms": 100 }] })).await;
    assert_eq!(composed.upstream.calls("wait").len(), 2);
    let calls = composed.calls("one-by-one", json!({ "all": [7, { "ms": 0 }] })).await;
    assert_eq!(calls, ["all/0/w wait invalid-value"; 3]);
    composed.failure("one-by-one", json!({ "all": [{ "ms": 0 }, 7] })).await;
    assert_eq!(composed.upstream.calls("wait").len(), 2 + 3, "everybody knows what was done");
}

#[tokio::test]
async fn a_key_is_not_given_back_after_a_part_was_done() {
    let composed = Composed::start(vec![
        composition("cut-off", once(cut_off(), json!({}))),
        composition("half-done", once(half_done(), json!({}))),
        composition("nothing", once(tool_of("fail"), json!({}))),
        composition("short", once(tool_of("wait"), json!({ "ttlSeconds": 1 }))),
    ])
    .await;
    for _ in 0..2 {
        composed.failure("cut-off", json!({ "k": 1 })).await;
        composed.failure("half-done", json!({ "k": 1 })).await;
        composed.failure("nothing", json!({ "k": 1 })).await;
    }
    assert_eq!(composed.upstream.calls("wait").len(), 1);
    assert_eq!(composed.upstream.calls("keep").len(), 1);
    assert_eq!(composed.upstream.calls("fail").len(), 1 + 1 + 2);
    // Its time begins when it is done.
    let long = json!({ "k": 1, "ms": 1_300 });
    tokio::join!(composed.value("short", long.clone()), composed.value("short", long.clone()));
    composed.value("short", long).await;
    assert_eq!(composed.upstream.calls("wait").len(), 2);
    for key in [json!({}), json!({ "k": null })] {
        assert_eq!(composed.failure("nothing", key).await.1, "no-key");
    }
}

#[tokio::test]
async fn what_a_composition_has_done_keeps_a_key_and_what_it_has_read_does_not() {
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
async fn a_step_of_a_saga_that_was_done_in_part_is_undone_if_it_says_so_and_else_is_told() {
    let on_unknown = json!({ "compensateOnUnknown": true });
    let composed = Composed::start(vec![
        composition("cut-off", saga(cut_off(), on_unknown.clone())),
        composition("half-done", saga(half_done(), on_unknown)),
        composition("told", saga(half_done(), json!({}))),
        composition("nothing", saga(tool_of("fail"), json!({ "compensateOnUnknown": true }))),
    ])
    .await;
    for (tool, undone) in [("cut-off", 1), ("half-done", 2), ("told", 2), ("nothing", 2)] {
        composed.failure(tool, json!({})).await;
        assert_eq!(composed.upstream.calls("echo").len(), undone, "{tool}");
    }
    let (_, _, message) = composed.failure("told", json!({})).await;
    assert!(message.contains("what `one` has done is not known, and was not undone"), "{message}");
    // All that is to be said of it is in its result.
    let error = composed.got("told", json!({})).await.result()["_meta"]["registry/failure"].clone();
    assert_eq!((&error["status"], &error["failedStep"]), (&json!("compensated"), &json!("one")));
    assert_eq!(error["error"]["message"], "fail failed: no");
    assert_eq!(error["steps"], json!([{ "id": "one", "outcome": "unknown" }]));
}

#[tokio::test]
async fn what_a_result_does_without_is_told() {
    let nowhere = json!({ "tool": "echo", "input": { "path": "$.nowhere" } });
    let targets = json!([{ "tool": "echo" }, nowhere, { "tool": "fail" }]);
    let scatter = json!({ "targets": targets, "aggregation": { "ops": [] } });
    let composed =
        Composed::start(vec![composition("some", json!({ "scatterGather": scatter }))]).await;
    let result = composed.got("some", json!({ "x": 1 })).await.result();
    assert_eq!(result["structuredContent"], json!([{ "x": 1 }]));
    let steps = &result["_meta"]["registry/steps"];
    assert!(steps.get("more").is_none(), "all are told: {steps}");
    let dropped = &steps["dropped"];
    let [first, second] = [&dropped[0], &dropped[1]];
    assert_eq!((&first["step"], &first["reason"]), (&json!("targets/1"), &json!("invalid-value")));
    assert_eq!(
        (&second["step"], &second["message"]),
        (&json!("targets/2"), &json!("fail failed: no"))
    );
}

#[tokio::test]
async fn a_result_that_is_refused_tells_what_was_done() {
    let wanted = json!({ "outputSchema": { "type": "object", "required": ["y"] } });
    let composed =
        Composed::start(vec![with("wrong", pipeline(&[step("a", "keep", json!(null))]), wanted)])
            .await;
    let (step, reason, message) = composed.failure("wrong", json!({ "x": 1 })).await;
    assert_eq!((&*step, &*reason), ("", "invalid-output"));
    assert!(message.contains("breaks its registered schema"), "{message}");
    let told = composed.calls("wrong", json!({ "x": 1 })).await;
    assert_eq!(told, ["a keep ok"]);
}

#[tokio::test]
async fn a_result_is_no_larger_than_what_a_server_may_answer() {
    let targets = vec![json!({ "tool": "say" }); 3];
    let scatter = json!({ "targets": targets, "aggregation": { "ops": [] } });
    let limits = UpstreamLimits { response_bytes: 4_096, ..UpstreamLimits::default() };
    let setup = Setup { limits, ..Setup::default() };
    let large =
        |i: usize| step(&format!("s{i}"), "say", constant(json!({ "value": "x".repeat(3_500) })));
    let small = |larges: usize| {
        let last = step("last", "say", constant(json!({ "value": "x" })));
        pipeline(&(0..larges).map(large).chain([last]).collect::<Vec<_>>())
    };
    let composed = Composed::start_with(
        setup,
        vec![
            composition("three", json!({ "scatterGather": scatter })),
            composition("four-times", small(4)),
            composition("more", small(5)),
        ],
    )
    .await;
    composed.value("three", json!({ "value": "x".repeat(1_000) })).await;
    let (_, reason, _) = composed.failure("three", json!({ "value": "x".repeat(1_500) })).await;
    assert_eq!(reason, "limit");
    assert_eq!(composed.value("four-times", json!({})).await, "x");
    let (step, _, message) = composed.failure("more", json!({})).await;
    assert!(step == "s4" && message.contains("more than 16384 bytes"), "{step}: {message}");
}

#[tokio::test]
async fn compositions_inside_of_others_have_no_calls_of_their_own() {
    let each = json!({ "mapEach": { "inner": tool_of("keep") } });
    let each = pipeline(&[
        json!({ "id": "all", "operation": pattern(each), "input": { "path": "$.all" } }),
    ]);
    let mut outer = composition(
        "outer",
        json!({ "timeout": { "inner": tool_of("inner"),
        "durationMs": 60_000 } }),
    );
    outer.document["depends"] = json!([{ "type": "tool", "name": "inner", "version": "1.0.0" }]);
    let composed = Composed::start(vec![composition("inner", each), outer]).await;
    let all = json!({ "all": vec![json!({}); 10_000] });
    let (_, reason, message) = composed.failure("outer", all).await;
    assert_eq!(reason, "tool-error");
    assert!(message.contains("at most 10000 calls of tools"), "{message}");
    assert!(composed.upstream.calls("keep").is_empty(), "what cannot come to its end is not begun");
}

#[tokio::test]
async fn a_dead_letter_that_fails_hides_nothing_of_what_was_done() {
    let letter = |inner: Value, tool: &str| {
        let letter = json!({ "inner": inner, "deadLetterTool": tool, "rethrow": true });
        pattern(json!({ "deadLetter": letter }))
    };
    let unsure = json!({ "compensateOnUnknown": true });
    let composed = Composed::start(vec![
        composition("undone", saga(letter(half_done(), "fail"), unsure)),
        composition("once", once(letter(half_done(), "fail"), json!({}))),
        composition("lost", retry(letter(tool_of("fail"), "lose"))),
    ])
    .await;
    composed.failure("undone", json!({})).await;
    assert_eq!(composed.upstream.calls("echo"), [json!({ "undone": true })]);
    for _ in 0..2 {
        composed.failure("once", json!({ "k": 1 })).await;
    }
    assert_eq!(composed.upstream.calls("keep").len(), 2, "one for each of both");
    composed.failure("lost", json!({})).await;
    assert_eq!(composed.upstream.calls("lose").len(), 1);
}
