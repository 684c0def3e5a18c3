//! Older forms of compositions.

use serde_json::{Value, json};

use super::{accepted, import_registry_file, lines};
use crate::Imported;

fn file(tools: Value) -> Value {
    let mut file = json!({ "schemaVersion": "2.0" });
    file["tools"] = tools;
    file
}

fn find<'a>(found: &'a Imported, name: &str) -> &'a Value {
    found
        .draft
        .tools
        .iter()
        .find(|tool| tool["name"] == name)
        .unwrap_or_else(|| panic!("{found:?}"))
}

fn is_said(found: &Imported, expected: &str) {
    let said = lines(found).join("\n");
    assert!(said.contains(expected), "{expected}\nnot in\n{said}");
}

/// The form of the research demo: calls of backend tools by their server.
#[test]
fn server_of_step_is_resolved_and_declared() {
    let found = import_registry_file(&json!({ "schemaVersion": "2.0",
        "servers": [
            { "name": "fetch-service", "version": "1.2.0", "provides": [{ "tool": "batch_fetch", "version": "1.1.0" }] },
            { "name": "entity-service", "version": "1.0.0", "provides": [{ "tool": "get_entity", "version": "1.0.0" }] },
        ],
        "tools": [
            { "name": "get_entity", "version": "1.0.0", "source": { "server": "entity-service", "tool": "get_entity" } },
            { "name": "find", "version": "2.0.0", "source": { "target": "entity-service", "tool": "search" } },
            { "name": "search", "version": "1.0.0", "source": { "server": "fetch-service", "tool": "search" } },
            { "name": "explore", "version": "1.0.0", "spec": { "pipeline": { "steps": [
                { "id": "context", "operation": { "pattern": { "scatterGather": {
                    "targets": [{ "tool": "get_entity", "server": "entity-service" },
                        { "tool": "search", "target": "entity-service" },
                        { "tool": "relations", "server": "graph-service" }],
                    "aggregation": { "ops": [{ "merge": true }] } } } } },
                { "id": "fetch", "operation": { "tool": { "name": "batch_fetch", "server": "fetch-service" } } },
                { "id": "other", "operation": { "tool": { "name": "search", "server": "graph-service" } } },
                { "id": "named", "operation": { "tool": { "name": "get_entity", "version": "1.0.0" } } },
            ] } } },
        ] }));
    accepted(&found);
    let spec = &find(&found, "explore")["spec"];
    let steps = &spec["pipeline"]["steps"];
    let targets = &steps[0]["operation"]["pattern"]["scatterGather"]["targets"];
    let called =
        [&targets[0], &targets[1], &targets[2], &steps[1]["operation"], &steps[2]["operation"]];
    let name = |tool: &Value| tool.as_str().or_else(|| tool["name"].as_str()).unwrap().to_owned();
    let names = called.map(|operation| name(&operation["tool"]));
    assert_eq!(names, ["get_entity", "find", "relations", "batch_fetch", "graph-service_search"]);
    assert_eq!(targets[0].as_object().unwrap().len(), 1, "no other members remain");
    let depends = find(&found, "explore")["depends"].as_array().unwrap();
    let mut versions: Vec<_> = depends
        .iter()
        .map(|d| format!("{}@{}", d["name"], d["version"]).replace('"', ""))
        .collect();
    versions.sort();
    let expected = [
        "batch_fetch@1.1.0",
        "find@2.0.0",
        "get_entity@1.0.0",
        "graph-service_search@1.0.0",
        "relations@1.0.0",
    ];
    assert_eq!(versions, expected);
    let source =
        json!({ "server": "fetch-service", "serverVersion": "1.2.0", "tool": "batch_fetch" });
    assert_eq!(find(&found, "batch_fetch")["source"], source);
    assert_eq!(find(&found, "graph-service_search")["source"]["tool"], "search");
    is_said(
        &found,
        "Import /tools/3/spec/pipeline/steps/1/operation/tool/server: a step names `batch_fetch` of the server \
         `fetch-service`; it calls the tool `batch_fetch`",
    );
    is_said(&found, "no tool of the file is \"batch_fetch\" of the server \"fetch-service\"");
}

#[test]
fn tool_with_defaults_is_not_called_by_its_server_name() {
    let step =
        json!({ "id": "a", "operation": { "tool": { "name": "search", "server": "docs" } } });
    let found = import_registry_file(&file(json!([
        { "name": "safe_search", "source": { "server": "docs", "tool": "search", "defaults": { "safe": true } } },
        { "name": "all", "spec": { "pipeline": { "steps": [step] } } },
    ])));
    accepted(&found);
    let operation = &find(&found, "all")["spec"]["pipeline"]["steps"][0]["operation"];
    assert_eq!(*operation, json!({ "tool": { "name": "search" } }));
    assert_eq!(find(&found, "search")["source"].get("defaults"), None);
}

/// The form of the pattern demos.
#[test]
fn patterns_as_operations_and_stores_are_repaired() {
    let map = json!({ "schemaMap": { "mappings": { "text": { "path": "$.t" } } } });
    let found = import_registry_file(&file(json!([
        { "name": "t", "source": "s" },
        { "name": "combine", "spec": { "pipeline": { "steps": [
            { "id": "a", "operation": "t" }, { "id": "b", "operation": map }] } } },
        { "name": "cached", "spec": { "cache": { "keyPaths": ["$.id"], "inner": { "tool": { "name": "t" } },
            "store": "user_cache", "ttlSeconds": 900 } } },
        { "name": "guarded", "spec": { "circuitBreaker": { "name": "x", "inner": { "tool": "t" }, "store": "circuit",
            "failureThreshold": 5, "failureWindowSeconds": 60, "resetTimeoutSeconds": 30, "fallback": map } } },
        { "name": "once", "spec": { "idempotent": { "keyPaths": ["$.id"], "inner": { "tool": "t" }, "store": "ids",
            "onDuplicate": "cached" } } },
        { "name": "timed", "spec": { "timeout": { "inner": { "tool": "t" }, "durationMs": 5, "fallback": map } } },
    ])));
    accepted(&found);
    let steps = &find(&found, "combine")["spec"]["pipeline"]["steps"];
    assert_eq!(steps[0]["operation"], json!({ "tool": { "name": "t" } }));
    assert_eq!(steps[1]["operation"], json!({ "pattern": map }));
    assert_eq!(find(&found, "timed")["spec"]["timeout"]["fallback"], json!({ "pattern": map }));
    for tool in ["cached", "guarded", "once"] {
        assert!(!find(&found, tool)["spec"].to_string().contains("store"), "{tool}");
    }
    is_said(
        &found,
        "Import /tools/2/spec/cache/store: `store` of a `cache`; it was left out: the gateway keeps",
    );
    is_said(
        &found,
        "Import /tools/1/spec/pipeline/steps/1/operation: `schemaMap` as an operation; it is in `pattern`",
    );
}

/// The form of the shop demo.
#[test]
fn loose_sagas_get_bindings_calls_and_timeouts() {
    let found = import_registry_file(&file(json!([
        { "name": "charge", "source": "s" }, { "name": "refund", "source": "s" },
        { "name": "buy", "spec": { "saga": { "store": "sagas", "timeout": "30s", "steps": [
            { "id": "pay", "name": "Pay", "action": { "name": "charge", "arguments": {} },
                "compensate": { "name": "refund", "arguments": {} },
                "input": { "user": { "path": "$.input.user_id" }, "kind": { "literal": { "stringValue": "card" } } } },
            { "id": "again", "action": "charge", "input": { "of": { "path": "$.steps.pay.id" } } }],
            "output": { "id": { "path": "$.steps.pay.id" }, "all": { "path": "$.steps.again" } } } } },
    ])));
    accepted(&found);
    let saga = &find(&found, "buy")["spec"]["saga"];
    assert_eq!(saga["timeoutMs"], 30_000);
    assert_eq!(saga["steps"][0]["action"], json!({ "tool": { "name": "charge" } }));
    assert_eq!(saga["steps"][0]["compensate"], json!({ "tool": { "name": "refund" } }));
    let input =
        json!({ "user": { "input": { "path": "$.user_id" } }, "kind": { "constant": "card" } });
    assert_eq!(saga["steps"][0]["input"], json!({ "construct": { "fields": input } }));
    assert_eq!(saga["steps"][1]["name"], "again");
    let step = |id: &str, path: &str| json!({ "step": { "stepId": id, "path": path } });
    let output = json!({ "id": step("pay", "$.id"), "all": step("again", "$") });
    assert_eq!(saga["output"], json!({ "construct": { "fields": output } }));
}

#[test]
fn output_of_pipeline_becomes_its_last_step() {
    let steps = json!([{ "id": "a", "operation": { "tool": "t" } }]);
    let output = json!({ "id": { "step": { "stepId": "a", "path": "$.x.id" } }, "q": { "input": { "path": "$.q" } } });
    let with = |output: Value| json!({ "pipeline": { "steps": steps, "output": output } });
    let found = import_registry_file(&file(json!([
        { "name": "t", "source": "s" },
        { "name": "bare", "spec": with(output.clone()) },
        { "name": "full", "spec": with(json!({ "construct": { "fields": output } })) },
    ])));
    accepted(&found);
    for name in ["bare", "full"] {
        let pipeline = &find(&found, name)["spec"]["pipeline"];
        assert_eq!(pipeline.get("output"), None);
        assert_eq!(
            pipeline["steps"][1],
            json!({ "id": "output", "input": { "construct": { "fields": output } }, "operation": { "pattern":
                { "schemaMap": { "mappings": { "id": { "path": "$[\"id\"]" }, "q": { "path": "$[\"q\"]" } } } } } })
        );
    }
}

#[test]
fn nested_with_path_and_array_maps_are_repaired() {
    let each = json!({ "title": { "path": "$.t" }, "by": { "nested": { "mappings": { "n": { "path": "$.n" } } } } });
    let source = json!({ "server": "s", "tool": "t" });
    let tool = |name: &str, mappings: Value| json!({ "name": name, "source": source, "outputTransform": { "mappings": mappings } });
    let found = import_registry_file(&file(json!([
        tool(
            "object",
            json!({ "user": { "nested": { "path": "$.data.user", "mappings": {
            "id": { "path": "$.id" }, "all": { "path": "$" },
            "name": { "coalesce": { "paths": ["$.name", "$['nick']"] } },
            "label": { "template": { "template": "{a}", "vars": { "a": "$.a" } } } } } } })
        ),
        tool(
            "beside",
            json!({ "user": { "path": "$.u", "nested": { "mappings": { "id": { "path": "$.id" } } } } })
        ),
        tool("list", json!({ "rows": { "nested": { "path": "$.rows[*]", "mappings": each } } })),
        tool("map", json!({ "rows": { "arrayMap": { "over": "$.rows", "each": each } } })),
    ])));
    accepted(&found);
    let mappings = |name: &str| find(&found, name)["outputTransform"]["mappings"].clone();
    assert_eq!(
        mappings("object")["user"]["nested"]["mappings"],
        json!({ "id": { "path": "$.data.user.id" }, "all": { "path": "$.data.user" },
            "name": { "coalesce": { "paths": ["$.data.user.name", "$.data.user['nick']"] } },
            "label": { "template": { "template": "{a}", "vars": { "a": "$.data.user.a" } } } })
    );
    assert_eq!(
        mappings("beside"),
        json!({ "user": { "nested": { "mappings": { "id": { "path": "$.u.id" } } } } })
    );
    for (name, path) in [("list", "$.rows[*]"), ("map", "$.rows")] {
        let expected = json!({ "rows": { "path": path }, "rows[*].title": each["title"], "rows[*].by": each["by"] });
        assert_eq!(mappings(name), expected, "{name}");
    }
}

#[test]
fn unsupported_members_are_explained() {
    let ops = json!([{ "extract": { "path": "$.r" } }, { "flatten": true }, { "wrap": { "field": "r" } }]);
    let found = import_registry_file(&file(json!([
        { "name": "t", "source": "s" },
        { "name": "maybe", "spec": { "pipeline": { "steps": [
            { "id": "a", "operation": { "tool": "t" }, "condition": { "field": "$.x", "op": "eq", "value": 1 } }] } } },
        { "name": "all", "spec": { "scatterGather": { "targets": ["t"], "aggregation": { "ops": ops } } } },
        { "name": "old", "spec": { "scatterGather": { "branches": [{ "id": "b", "operation": { "tool": { "name": "t" } } }],
            "aggregator": { "type": "merge" } } } },
        { "name": "value", "spec": { "pipeline": { "steps": [{ "id": "a", "operation": "t" }],
            "output": { "step": { "stepId": "a", "path": "$.x" } } } } },
    ])));
    for expected in [
        "Person /tools/1/spec/pipeline/steps/0/condition: a step with a `condition`; steps always run",
        "Person /tools/2/spec/scatterGather/aggregation/ops/0: an aggregation has no `extract`",
        "Person /tools/2/spec/scatterGather/aggregation/ops/2: an aggregation has no `wrap`",
        "Person /tools/3/spec/scatterGather/aggregator: a `scatterGather` has no `aggregator`",
        "Person /tools/4/spec/pipeline/output: a pipeline has no `output`",
    ] {
        is_said(&found, expected);
    }
    let said = lines(&found);
    let of_condition = said.iter().filter(|line| line.contains("/condition: ")).count();
    assert_eq!(of_condition, 1, "explained once: {said:#?}");
    assert!(
        find(&found, "maybe")["spec"].to_string().contains("condition"),
        "the condition is not dropped"
    );
}

/// Problems between entries are reported even if other entries are unreadable.
#[test]
fn all_problems_are_reported_in_one_run() {
    let found = import_registry_file(&file(json!([
        { "name": "unread", "version": "1.0.0", "spec": { "pipeline": { "steps": [{ "id": "a" }] } } },
        { "name": "user", "version": "1.0.0", "source": "s", "inputSchema": { "type": 7 },
            "depends": [{ "type": "tool", "name": "unread", "version": "1.0.0" }] },
        { "name": "calls", "version": "1.0.0", "spec": { "pipeline": { "steps": [
            { "id": "a", "operation": { "tool": "unread" } }, { "id": "b", "operation": { "tool": "nowhere" } }] } } },
    ])));
    is_said(&found, "Person /tools/0/spec/pipeline/steps/0");
    is_said(&found, "Person /tools/1/inputSchema/type: ");
    is_said(&found, "tool/nowhere@1.0.0, which is not registered");
    let said = lines(&found).join("\n");
    assert!(!said.contains("tool/unread@1.0.0, which"), "the tool is in the file: {said}");
}

#[test]
fn typed_references_to_schemas_become_references() {
    let typed = |version: Value| json!({ "type": "schema", "name": "Query", "version": version });
    let found = import_registry_file(&json!({ "schemaVersion": "2.0",
        "schemas": [{ "name": "Query", "version": "1.2.0", "schema": { "type": "object" } }],
        "tools": [{ "name": "t", "source": "s", "inputSchema": typed(json!("1.2.0")),
            "outputSchema": { "type": "object", "properties": { "q": typed(json!(null)) } } }],
        "agents": [{ "name": "a", "version": "1.0.0", "url": "http://a", "description": "d",
            "skills": [{ "id": "s", "name": "s", "description": "d", "tags": [], "inputSchema": typed(json!("1.2.0")) }] }],
    }));
    accepted(&found);
    let reference = json!({ "$ref": "#Query:1.2.0" });
    assert_eq!(find(&found, "t")["inputSchema"], reference);
    assert_eq!(find(&found, "t")["outputSchema"]["properties"]["q"], reference);
    assert_eq!(found.draft.agents[0]["skills"][0]["inputSchema"], reference);
    is_said(
        &found,
        "a reference to the schema `Query` by its fields; \"$ref\": \"#Query:1.2.0\" is written",
    );
}

#[test]
fn repaired_compositions_need_no_second_repair() {
    let file = file(json!([
        { "name": "t", "source": "s" },
        { "name": "c", "spec": { "pipeline": {
            "steps": [{ "id": "a", "operation": { "tool": "u", "server": "s" } }, { "id": "b", "operation":
                { "scatterGather": { "branches": ["t", { "operation": "t", "id": "x", "input": { "q": { "path": "$.q" } } }] } } }],
            "output": { "x": { "path": "$.q" } } } } },
    ]));
    let once = import_registry_file(&file);
    accepted(&once);
    let again = import_registry_file(&once.draft.to_value());
    assert_eq!((lines(&again), &again.draft), (vec![], &once.draft));
}
