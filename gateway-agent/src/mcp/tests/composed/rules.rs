//! Rules of every step: authorization, validation, annotations, limits and progress.

use gateway_policy::ValidationMode;

use super::*;
use crate::testing::agent;

#[tokio::test]
async fn step_needs_no_permission_but_is_validated() {
    let spec = pipeline(&[step("a", "strict", json!({ "path": "$.inner" }))]);
    let strict = tool(
        "strict",
        "1.0.0",
        json!({ "source": { "tool": "echo", "hideFields": ["secret"], "defaults": { "secret": 7 } },
            "inputSchema": { "type": "object", "properties": { "n": { "type": "integer" }, "secret": {} } } }),
    );
    let mut composed_tool = composition("composed", spec);
    composed_tool.document["depends"] =
        json!([{ "type": "tool", "name": "strict", "version": "1.0.0" }]);
    let composed = Composed::start(vec![
        strict,
        composed_tool,
        agent("team/a", "1.0.0", &[("composed", "1.0.0")]),
        agent("team/b", "1.0.0", &[("echo", "1.0.0")]),
    ])
    .await;
    let call = async |agent: &str, inner: Value| {
        composed.bench.call(agent, "composed", json!({ "inner": inner })).await
    };
    let got = call("team/a", json!({ "n": 1 })).await.result();
    assert_eq!(got["structuredContent"], json!({ "n": 1, "secret": 7 }));
    assert_eq!(call("team/b", json!({})).await.error().1, -32602, "it does not declare it");
    let direct = composed.bench.call("team/a", "strict", json!({ "n": 1 })).await;
    assert_eq!(direct.error().1, -32602, "a step is not a tool of the caller's");
    let bad = call("team/a", json!({ "n": "x" })).await;
    let failure = &bad.result()["_meta"]["registry/failure"];
    assert_eq!((&failure["step"], &failure["reason"]), (&json!("a"), &json!("invalid-input")));
    let hidden = call("team/a", json!({ "secret": 1 })).await;
    assert!(hidden.failure().contains("/secret"), "{hidden:?}");
}

#[tokio::test]
async fn output_schema_of_composition_is_enforced() {
    let output = json!({ "outputSchema": { "type": "object", "required": ["ok"] } });
    let setup = Setup::default();
    let policy = RuntimeValidation { output_validation: ValidationMode::Ignore, ..setup.policy };
    let composed = Composed::start_with(
        Setup { policy, ..setup },
        vec![with("declared", pipeline(&[step("a", "echo", json!(null))]), output)],
    )
    .await;
    assert_eq!(composed.value("declared", json!({ "ok": 1 })).await, json!({ "ok": 1 }));
    let got = composed.got("declared", json!({ "no": "s3cret" })).await;
    let failure = &got.result()["_meta"]["registry/failure"];
    assert_eq!(failure["reason"], "invalid-output", "{got:?}");
    assert!(!got.text.contains("s3cret"));
}

#[tokio::test]
async fn list_shows_combined_hints_and_schema() {
    let safe = json!({ "annotations": { "readOnlyHint": true, "openWorldHint": false } });
    let typed = json!({ "source": { "tool": "echo" },
        "inputSchema": { "type": "object", "required": ["q"] }, "annotations": safe["annotations"] });
    let of = |name: &str, tools: &[&str]| {
        let steps: Vec<_> = tools.iter().map(|tool| step(tool, tool, json!(null))).collect();
        let mut registered = composition(name, pipeline(&steps));
        let depends: Vec<_> = tools
            .iter()
            .map(|t| json!({ "type": "tool", "name": t, "version": "1.0.0" }))
            .collect();
        registered.document["depends"] = json!(depends);
        registered
    };
    let mut asks_agent = of("asks-agent", &["echo"]);
    asks_agent.document["spec"]["pipeline"]["steps"][0]["operation"] =
        json!({ "agent": { "name": "a", "skill": "s" } });
    let composed = Composed::start(vec![
        tool("typed", "1.0.0", typed),
        of("reads", &["typed"]),
        of("writes", &["typed", "echo"]),
        of("unknown-part", &["nowhere"]),
        of("of-compositions", &["reads"]),
        asks_agent,
    ])
    .await;
    let listed = composed.bench.modern("", "tools/list", json!({})).await.result();
    let find = |name: &str| {
        listed["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name).cloned()
    };
    let reads = find("reads").unwrap();
    assert_eq!(reads["inputSchema"]["required"], json!(["q"]), "what the first step demands");
    assert_eq!(
        reads["annotations"],
        json!({ "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false })
    );
    let writes = find("writes").unwrap();
    assert_eq!(
        (&writes["annotations"]["readOnlyHint"], &writes["annotations"]["destructiveHint"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(find("of-compositions").unwrap()["annotations"]["readOnlyHint"], true);
    assert_eq!((find("unknown-part"), find("asks-agent")), (None, None));
    assert_eq!(composed.value("of-compositions", json!({ "q": 1 })).await, json!({ "q": 1 }));
}

#[tokio::test]
async fn both_eras_get_result_and_steps() {
    let composed = Composed::start(vec![
        composition("list", pipeline(&[step("a", "say", constant(json!({ "value": [1] })))])),
        composition("broken", pipeline(&[step("a", "fail", constant(json!({ "message": "m" })))])),
    ])
    .await;
    let session = composed.bench.initialize("").await;
    let params = |tool: &str| json!({ "name": tool, "arguments": {} });
    let got = composed.bench.legacy(&session, "", ("tools/call", params("list"))).await.result();
    assert_eq!(got.get("structuredContent"), None, "no object, so the text alone");
    assert_eq!(got["content"][0]["text"], "[1]");
    assert_eq!(got["_meta"]["registry/steps"]["calls"][0]["outcome"], "ok");
    let got = composed.bench.legacy(&session, "", ("tools/call", params("broken"))).await;
    assert_eq!(got.failure(), "broken failed at step `a`: fail failed: m");
    assert_eq!(got.result()["_meta"]["registry/failure"]["step"], "a");
}

#[tokio::test]
async fn progress_reports_finished_steps() {
    let composed = Composed::start(vec![composition(
        "three",
        pipeline(&[
            step("a", "echo", json!(null)),
            step("b", "wait", constant(json!({ "ms": 20 }))),
            step("c", "echo", json!(null)),
        ]),
    )])
    .await;
    let params = json!({ "name": "three", "arguments": {}, "_meta": { "progressToken": "p" } });
    let got = composed.bench.got(Ask::modern("tools/call", params).build()).await;
    let events: Vec<Value> = got
        .text
        .lines()
        .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
        .collect();
    let told: Vec<_> = events.iter().filter(|e| e["method"] == "notifications/progress").collect();
    let told: Vec<_> =
        told.iter().map(|e| (&e["params"]["progress"], &e["params"]["message"])).collect();
    let expected = [(1, "a: ok"), (2, "b: ok"), (3, "c: ok")].map(|(n, m)| (json!(n), json!(m)));
    assert_eq!(told, expected.iter().map(|(n, m)| (n, m)).collect::<Vec<_>>(), "{}", got.text);
    assert!(
        events
            .iter()
            .all(|e| e["params"]["progressToken"].is_null() || e["params"]["progressToken"] == "p")
    );
}

#[tokio::test]
async fn disconnect_cancels_running_steps() {
    let scatter = json!({ "scatterGather": { "aggregation": { "ops": [] }, "targets": [
        { "tool": "wait" }, { "tool": "wait" }, { "tool": "wait" },
    ] } });
    let composed = Composed::start(vec![composition("slow", scatter)]).await;
    let call = composed.got("slow", json!({ "ms": 4000 }));
    assert!(tokio::time::timeout(std::time::Duration::from_millis(200), call).await.is_err());
    composed.upstream.until(|seen| seen.running == 0 && seen.cancelled == 3).await;
}

#[tokio::test]
async fn steps_report_durations_and_omissions() {
    let each = json!({ "mapEach": { "inner": { "tool": "wait" } } });
    let all =
        json!({ "id": "all", "operation": { "pattern": each }, "input": { "path": "$.all" } });
    let composed = Composed::start(vec![composition("each", pipeline(&[all]))]).await;
    let told = async |all: Vec<Value>| {
        let result = composed.got("each", json!({ "all": all })).await.result();
        result["_meta"]["registry/steps"].clone()
    };
    let one = told(vec![json!({ "ms": 1_100 })]).await;
    let took = one["calls"][0]["durationMs"].as_f64().unwrap();
    assert!((1_100.0..5_000.0).contains(&took), "{took}");
    let many = told(vec![json!({ "ms": 0 }); 205]).await;
    assert_eq!((many["calls"].as_array().unwrap().len(), &many["more"]), (200, &json!(5)));
}

#[tokio::test]
async fn steps_share_one_trace() {
    let twice = pipeline(&[step("a", "keep", json!(null)), step("b", "keep", json!(null))]);
    let bench = Bench::strict(with_tools(vec![composition("twice", twice)])).await;
    bench.call("", "twice", json!({})).await.result();
    let trace = |i: usize| {
        let told = bench.calls()[i].body["params"]["_meta"]["traceparent"].clone();
        told.as_str().unwrap()[.."00-".len() + 32].to_owned()
    };
    assert_eq!(trace(0), trace(1));
}

#[tokio::test]
async fn inner_composition_steps_are_reported() {
    let inner = pipeline(&[step("a", "echo", json!(null)), step("b", "fail", json!(null))]);
    let targets = json!([{ "tool": "inner" }, { "tool": "echo" }]);
    let scatter = json!({ "scatterGather": { "targets": targets, "aggregation": { "ops": [] } } });
    let each = json!({ "mapEach": { "inner": { "tool": "wait" } } });
    let many = json!({ "id": "m", "operation": { "pattern": each }, "input": { "path": "$.all" } });
    let twice = [step("x", "many", json!(null)), step("y", "many", json!({ "path": "$" }))];
    let composed = Composed::start(vec![
        composition("inner", inner),
        composition("many", pipeline(&[many])),
        around(
            "outer",
            "inner",
            pipeline(&[json!({ "id": "s", "operation": { "pattern": scatter } })]),
        ),
        around("twice", "many", pipeline(&twice)),
    ])
    .await;
    let mut calls = composed.calls("outer", json!({})).await;
    calls.sort();
    let told = [
        "s/targets/0 inner tool-error",
        "s/targets/0/a echo ok",
        "s/targets/0/b fail tool-error",
        "s/targets/1 echo ok",
    ];
    assert_eq!(calls, told);
    let all = vec![json!({ "ms": 0 }); 110];
    let steps = composed.got("twice", json!({ "all": all })).await.result();
    let steps = &steps["_meta"]["registry/steps"];
    assert_eq!((steps["calls"].as_array().unwrap().len(), &steps["more"]), (200, &json!(22)));
}

#[tokio::test]
async fn composed_tool_knows_all_inner_tools() {
    let composed = Composed::start(vec![
        composition("inner", pipeline(&[step("a", "echo", json!(null))])),
        around(
            "outer",
            "inner",
            pipeline(&[step("x", "inner", json!(null)), step("y", "say", json!(null))]),
        ),
    ])
    .await;
    let views = composed.bench.gateway.views();
    let served = views.registered(&views.now(), &"tool/outer@1.0.0".parse().unwrap()).unwrap();
    let called = served.composed().unwrap().reach();
    let called: Vec<_> = called.iter().map(registry_core::Name::as_str).collect();
    assert_eq!(called, ["echo", "inner", "say"]);
}

#[tokio::test]
async fn pattern_values_release_memory() {
    // About 83 KB as a parsed value.
    let objects = || constant(json!({ "list": vec![json!({ "": 0 }); 100] }));
    let buffered_bytes = 4 * 200_000;
    let once = [step("big", "echo", objects()), step("small", "echo", constant(json!({})))];
    let thrice = ["a", "b", "c"].map(|id| step(id, "echo", objects()));
    let each =
        json!({ "mapEach": { "inner": { "pattern": pipeline(&once) }, "maxConcurrency": 1 } });
    let many = json!({ "id": "m", "operation": { "pattern": each }, "input": { "path": "$.all" } });
    let compositions =
        vec![composition("thrice", pipeline(&thrice)), composition("many", pipeline(&[many]))];
    let composed =
        Composed::start_with(Setup { buffered_bytes, ..Setup::default() }, compositions).await;
    assert_eq!(
        composed.value("many", json!({ "all": vec![0; 20] })).await,
        json!(vec![json!({}); 20])
    );
    let (step, reason, message) = composed.failure("thrice", json!({})).await;
    assert_eq!((step.as_str(), reason.as_str()), ("c", "limit"));
    assert!(message.contains("raise limits.bufferedBytes"), "{message}");
    assert_eq!(composed.bench.gateway.buffers().total(), 0);
}
