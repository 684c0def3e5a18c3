//! Tests of composition specs.

use serde_json::{Value, json};

use super::{
    AggregationOp, Backoff, Binding, Composition, FieldPath, FieldSource, Mappings, OnDuplicate,
    Operation, Order, Spec, Target,
};
use crate::{diagnostic::Diagnostic, limits};

fn lines(problems: &[Diagnostic]) -> Vec<String> {
    problems.iter().map(|d| format!("{} {}: {}", d.code, d.pointer, d.message)).collect()
}

fn problems(spec: &Value) -> Vec<String> {
    Composition::parse(spec).map_or_else(|problems| lines(&problems), |_| Vec::new())
}

fn tool(name: &str) -> Value {
    json!({ "tool": { "name": name } })
}

/// One spec per pattern.
fn every_pattern() -> Vec<Value> {
    let predicate = json!({ "field": "$.score", "op": "gte", "value": 0.5 });
    let exponential = json!({
        "exponential": { "initialDelayMs": 100, "maxDelayMs": 1000 }
    });
    vec![
        json!({ "pipeline": { "steps": [{ "id": "a", "operation": tool("t"), "$comment": "x" }] } }),
        json!({ "scatterGather": { "targets": [{ "tool": "t" }, tool("u"), { "agent": { "name": "ns/a", "skill": "s" } }],
            "aggregation": { "ops": [{ "flatten": true }, { "sort": { "field": "$.a", "order": "desc" } },
                { "dedupe": { "field": "$.b" } }, { "limit": { "count": 3 } }, { "concat": true }, { "merge": true }] },
            "timeoutMs": 5, "failFast": true } }),
        json!({ "filter": { "predicate": predicate } }),
        json!({ "schemaMap": { "mappings": { "a": { "path": "$.b" } } } }),
        json!({ "mapEach": { "inner": { "tool": "t" }, "maxConcurrency": 4 } }),
        json!({ "saga": { "steps": [{ "id": "a", "name": "A", "action": tool("t"), "compensate": tool("u") }] } }),
        json!({ "retry": { "inner": tool("t"), "maxAttempts": 3, "backoff": exponential, "jitter": 0.2,
            "retryIf": predicate, "attemptTimeoutMs": 100 } }),
        json!({ "timeout": { "inner": tool("t"), "durationMs": 10, "fallback": tool("u"), "message": "late" } }),
        json!({ "cache": { "inner": tool("t"), "keyPaths": ["$.id"], "ttlSeconds": 60,
            "staleWhileRevalidateSeconds": 5, "cacheIf": predicate } }),
        json!({ "idempotent": { "inner": tool("t"), "keyPaths": ["$.id"], "onDuplicate": "skip" } }),
        json!({ "circuitBreaker": { "name": "b", "inner": tool("t"), "failureThreshold": 3,
            "failureWindowSeconds": 10, "resetTimeoutSeconds": 5, "successThreshold": 2,
            "fallback": tool("u"), "failureIf": predicate } }),
        json!({ "deadLetter": { "inner": tool("t"), "deadLetterTool": "dl", "maxAttempts": 2,
            "backoff": { "fixed": { "delayMs": 0 } }, "rethrow": false } }),
        json!({ "claimCheck": { "storeTool": "s", "retrieveTool": "r", "inner": tool("t"), "retrieveAtEnd": true } }),
    ]
}

#[test]
fn every_pattern_parses() {
    for spec in every_pattern() {
        assert_eq!(problems(&spec), Vec::<String>::new(), "{spec}");
    }
    assert_eq!(every_pattern().len(), super::PATTERNS.len());
}

#[test]
fn every_pattern_rejects_unknown_and_missing_fields() {
    let mut missing = Vec::new();
    for spec in every_pattern() {
        let (name, body) = spec.as_object().unwrap().iter().next().unwrap();
        let mut more = body.clone();
        more["surplus"] = json!(1);
        let unknown = problems(&json!({ (name): more }));
        let at = format!("composition-invalid /{name}/surplus: unknown field `surplus`");
        assert_eq!(unknown, [at], "{name}");
        let of_empty = problems(&json!({ (name): {} }));
        assert!(!of_empty.is_empty(), "{name}");
        missing.extend(of_empty);
    }
    insta::assert_snapshot!(missing.join("\n"), @"
    composition-invalid /pipeline: the required field `steps` is missing
    composition-invalid /scatterGather: the required field `targets` is missing
    composition-invalid /scatterGather: the required field `aggregation` is missing
    composition-invalid /filter: the required field `predicate` is missing
    composition-invalid /schemaMap: the required field `mappings` is missing
    composition-invalid /mapEach: the required field `inner` is missing
    composition-invalid /saga: the required field `steps` is missing
    composition-invalid /retry: the required field `inner` is missing
    composition-invalid /retry: the required field `maxAttempts` is missing
    composition-invalid /retry: the required field `backoff` is missing
    composition-invalid /timeout: the required field `inner` is missing
    composition-invalid /timeout: the required field `durationMs` is missing
    composition-invalid /cache: the required field `inner` is missing
    composition-invalid /cache: the required field `keyPaths` is missing
    composition-invalid /cache: the required field `ttlSeconds` is missing
    composition-invalid /idempotent: the required field `inner` is missing
    composition-invalid /idempotent: the required field `keyPaths` is missing
    composition-invalid /idempotent: the required field `onDuplicate` is missing
    composition-invalid /circuitBreaker: the required field `name` is missing
    composition-invalid /circuitBreaker: the required field `inner` is missing
    composition-invalid /circuitBreaker: the required field `failureThreshold` is missing
    composition-invalid /circuitBreaker: the required field `failureWindowSeconds` is missing
    composition-invalid /circuitBreaker: the required field `resetTimeoutSeconds` is missing
    composition-invalid /deadLetter: the required field `inner` is missing
    composition-invalid /deadLetter: the required field `deadLetterTool` is missing
    composition-invalid /deadLetter: the required field `rethrow` is missing
    composition-invalid /claimCheck: the required field `storeTool` is missing
    composition-invalid /claimCheck: the required field `retrieveTool` is missing
    composition-invalid /claimCheck: the required field `inner` is missing
    composition-invalid /claimCheck: the required field `retrieveAtEnd` is missing
    ");
}

#[test]
fn spec_requires_exactly_one_known_pattern() {
    assert_eq!(problems(&json!({})), ["composition-invalid : expected one pattern, got nothing"]);
    let two = json!({ "filter": {}, "saga": {} });
    assert_eq!(
        problems(&two),
        ["composition-invalid : expected one pattern, got `filter`, `saga`"]
    );
    let unknown = json!({ "throttle": {} });
    assert_eq!(problems(&unknown), ["composition-invalid : expected one pattern, got `throttle`"]);
    let list = problems(&json!([]));
    assert_eq!(list, ["composition-invalid : expected an object with one pattern, got an array"]);
}

#[test]
fn uses_are_collected_at_any_depth() {
    let inner = json!({ "retry": { "inner": tool("deep"), "maxAttempts": 1,
        "backoff": { "fixed": { "delayMs": 1 } } } });
    let spec = json!({ "deadLetter": { "inner": { "pattern": inner }, "deadLetterTool": "dl", "rethrow": true } });
    let uses: Vec<_> = Composition::parse(&spec)
        .unwrap()
        .uses
        .into_iter()
        .map(|found| match found.target {
            Target::Tool(name) => format!("{} {name}", found.pointer),
            Target::Agent { name, skill } => format!("{} {name} {skill}", found.pointer),
        })
        .collect();
    assert_eq!(
        uses,
        ["/deadLetter/inner/pattern/retry/inner/tool deep", "/deadLetter/deadLetterTool dl"]
    );
}

#[test]
fn binding_must_refer_to_input_or_earlier_step() {
    let with = |input: Value| {
        json!({ "pipeline": { "steps": [
            { "id": "a", "operation": tool("t") },
            { "id": "b", "operation": tool("t"), "input": input },
            { "id": "c", "operation": tool("t") },
        ] } })
    };
    for good in [
        json!({ "path": "$.x" }),
        json!({ "input": { "path": "$.x" } }),
        json!({ "step": { "stepId": "a", "path": "$" } }),
        json!({ "reference": { "step": "a", "path": "$" } }),
        json!({ "constant": null }),
        json!({ "construct": { "fields": { "x": { "constant": 1 }, "y": { "path": "$" } } } }),
    ] {
        assert_eq!(problems(&with(good.clone())), Vec::<String>::new(), "{good}");
    }
    let at = "composition-invalid /pipeline/steps/1/input";
    let reference = |step: &str| json!({ "reference": { "step": step, "path": "$" } });
    for (bad, expected) in [
        (reference("b"), format!("{at}/reference/step: the step `b` has no result yet")),
        (reference("c"), format!("{at}/reference/step: the step `c` has no result yet")),
        (reference("z"), format!("{at}/reference/step: there is no step `z`")),
        (json!({ "error": { "path": "$" } }), format!("{at}: expected one binding, got `error`")),
        (
            json!({ "construct": { "fields": { "x": reference("z") } } }),
            format!("{at}/construct/fields/x/reference/step: there is no step `z`"),
        ),
    ] {
        assert_eq!(problems(&with(bad)), [expected]);
    }
}

#[test]
fn steps_are_required_with_unique_ids() {
    let step = json!({ "id": "a", "operation": tool("t") });
    assert_eq!(
        problems(&json!({ "pipeline": { "steps": [step, step] } })),
        ["composition-invalid /pipeline/steps/1/id: the step id `a` is used twice"]
    );
    for (empty, at) in [
        (json!({ "pipeline": { "steps": [] } }), "/pipeline/steps: `steps`"),
        (json!({ "saga": { "steps": [] } }), "/saga/steps: `steps`"),
        (
            json!({ "scatterGather": { "targets": [], "aggregation": { "ops": [] } } }),
            "/scatterGather/targets: `targets`",
        ),
        (json!({ "schemaMap": { "mappings": {} } }), "/schemaMap/mappings: `mappings`"),
    ] {
        assert_eq!(problems(&empty), [format!("composition-invalid {at} is empty")]);
    }
}

#[test]
fn path_must_be_valid_and_within_limits() {
    let filter = |path: &str| json!({ "filter": { "predicate": { "field": path, "op": "eq", "value": null } } });
    assert_eq!(problems(&filter("$.a[?@.b == 'c'].d")), Vec::<String>::new());
    let bad = problems(&filter("score"));
    insta::assert_snapshot!(
        bad[0],
        @"composition-invalid /filter/predicate/field: `score` is not a JSONPath: parser error at \
          character 0"
    );
    let long = format!("$.{}", "a".repeat(limits::PATH_BYTES));
    insta::assert_snapshot!(
        problems(&filter(&long))[0],
        @"composition-invalid /filter/predicate/field: the JSONPath has 1026 bytes; the maximum is \
          1024"
    );
    let deep = format!("$[?{}@.a{}]", "(".repeat(200), ")".repeat(200));
    insta::assert_snapshot!(
        problems(&filter(&deep))[0],
        @"composition-invalid /filter/predicate/field: the JSONPath nests brackets deeper than 16 \
          levels"
    );
    let hidden = format!("$[?{}@.a{}]", "@['))']==(".repeat(20), ")".repeat(20));
    insta::assert_snapshot!(
        problems(&filter(&hidden))[0],
        @"composition-invalid /filter/predicate/field: the JSONPath nests brackets deeper than 16 \
          levels"
    );
    let nested =
        |n: usize, inner: &str| format!("$[?@{inner}{}]{}", "[?@".repeat(n), "]".repeat(n));
    assert_eq!(problems(&filter(&nested(3, ".a['[[[']"))), Vec::<String>::new());
    let inner = ["", "[']']", r#"["\"]]]"]"#];
    let found = inner.map(|inner| problems(&filter(&nested(15, inner))).join("\n"));
    insta::assert_snapshot!(found.join("\n"), @"
    composition-invalid /filter/predicate/field: the JSONPath nests filters deeper than 4 levels
    composition-invalid /filter/predicate/field: the JSONPath nests filters deeper than 4 levels
    composition-invalid /filter/predicate/field: the JSONPath nests filters deeper than 4 levels
    ");
}

#[test]
fn numbers_are_range_checked() {
    let retry = |attempts: Value, delay: Value| {
        json!({ "retry": { "inner": tool("t"), "maxAttempts": attempts,
            "backoff": { "exponential": { "initialDelayMs": delay, "maxDelayMs": 10 } } } })
    };
    assert_eq!(
        problems(&retry(json!(0), json!(11))),
        [
            "composition-invalid /retry/maxAttempts: `maxAttempts` is the number 0",
            "composition-invalid /retry/backoff/exponential/maxDelayMs: \
             the first delay 11 exceeds the maximum 10",
        ]
    );
    assert_eq!(
        problems(&retry(json!(101), json!("1"))),
        [
            "composition-invalid /retry/maxAttempts: `maxAttempts` is the number 101",
            "composition-invalid /retry/backoff/exponential/initialDelayMs: \
             `initialDelayMs` is the string \"1\"",
        ]
    );
    let timeout = json!({ "timeout": { "inner": tool("t"), "durationMs": 86_400_001 } });
    assert_eq!(
        problems(&timeout),
        ["composition-invalid /timeout/durationMs: `durationMs` is the number 86400001"]
    );
}

#[test]
fn depth_and_steps_are_limited() {
    let nest = |depth: usize| {
        (1..depth).fold(
            json!({ "mapEach": { "inner": { "tool": "t" } } }),
            |spec, _| json!({ "mapEach": { "inner": { "pattern": spec } } }),
        )
    };
    assert_eq!(problems(&nest(limits::SPEC_DEPTH)), Vec::<String>::new());
    let deep = problems(&nest(limits::SPEC_DEPTH + 1));
    insta::assert_snapshot!(
        deep[0].rsplit(": ").next().unwrap(),
        @"patterns are nested deeper than 16 levels"
    );
    let wide = |steps: usize| {
        let steps: Vec<_> =
            (0..steps).map(|i| json!({ "id": i.to_string(), "operation": tool("t") })).collect();
        json!({ "pipeline": { "steps": steps } })
    };
    assert_eq!(problems(&wide(limits::SPEC_STEPS)), Vec::<String>::new());
    assert_eq!(
        problems(&wide(limits::SPEC_STEPS + 3)),
        ["composition-invalid /pipeline/steps/256: more than 256 steps and targets"]
    );
}

#[test]
fn compensation_may_bind_to_any_step_or_error() {
    let saga = |input: Value| {
        json!({ "saga": { "steps": [
            { "id": "a", "name": "A", "action": tool("t"), "compensate": tool("u"), "compensateInput": input },
            { "id": "b", "name": "B", "action": tool("t") },
        ], "output": { "step": { "stepId": "b", "path": "$" } } } })
    };
    let own = json!({ "step": { "stepId": "a", "path": "$" } });
    let error = json!({ "error": { "path": "$.message" } });
    assert_eq!(problems(&saga(own)), Vec::<String>::new());
    assert_eq!(problems(&saga(error)), Vec::<String>::new());
    // Steps after the failed one may have completed before it.
    let later = json!({ "step": { "stepId": "b", "path": "$" } });
    assert_eq!(problems(&saga(later)), Vec::<String>::new());
    let nowhere = problems(&saga(json!({ "step": { "stepId": "c", "path": "$" } })));
    assert!(nowhere[0].contains("`c`"), "{nowhere:?}");
    let step = json!({ "id": "a", "name": "A", "action": tool("t"), "compensateOnUnknown": true });
    assert_eq!(
        problems(&json!({ "saga": { "steps": [step] } })),
        ["composition-invalid /saga/steps/0/compensateOnUnknown: \
          `compensateOnUnknown` without `compensate`"]
    );
}

#[test]
fn parsed_spec_has_written_values() {
    let [.., Spec::ClaimCheck(claim)] =
        &every_pattern().iter().map(|s| Spec::parse(s).unwrap()).collect::<Vec<_>>()[..]
    else {
        panic!("the last pattern is a claim check")
    };
    assert!(claim.retrieve_at_end && claim.store_tool.to_string() == "s");
    let Spec::ScatterGather(scatter) = Spec::parse(&every_pattern()[1]).unwrap() else {
        panic!("not a scatter-gather")
    };
    assert_eq!((scatter.timeout_ms, scatter.fail_fast), (Some(5), true));
    assert!(
        matches!(&scatter.targets[2].operation, Operation::Call(Target::Agent { skill, .. }) if skill == "s")
    );
    assert!(matches!(
        &scatter.aggregation[1],
        AggregationOp::Sort { order: Order::Descending, .. }
    ));
    let Spec::Retry(retry) = Spec::parse(&every_pattern()[6]).unwrap() else {
        panic!("not a retry")
    };
    assert!(
        matches!(retry.backoff, Backoff::Exponential { initial_delay_ms: 100, multiplier, .. } if (multiplier - 2.0).abs() < f64::EPSILON)
    );
    let Spec::Idempotent(idempotent) = Spec::parse(&every_pattern()[9]).unwrap() else {
        panic!("not idempotent")
    };
    assert_eq!(idempotent.on_duplicate, OnDuplicate::Skip);
    let constant = json!({ "pipeline": { "steps": [
        { "id": "a", "operation": tool("t"), "input": { "constant": { "stringValue": "kept" } } } ] } });
    let Spec::Pipeline(pipeline) = Spec::parse(&constant).unwrap() else {
        panic!("not a pipeline")
    };
    assert_eq!(pipeline.steps[0].input, Some(Binding::Constant(json!({ "stringValue": "kept" }))));
}

fn mappings(fields: &Value) -> Result<Mappings, Vec<String>> {
    Mappings::parse(&json!({ "mappings": fields })).map_err(|problems| lines(&problems))
}

#[test]
fn mappings_parse_every_source() {
    let read = mappings(&json!({
        "$comment": "sorted by name",
        "a": { "literal": { "stringValue": "plain" } },
        "b": { "coalesce": { "paths": ["$.x", "$.y"] } },
        "c": { "template": { "template": "{x} and {not a place}", "vars": { "x": "$.x" } } },
        "d": { "concat": { "paths": ["$.x"], "separator": ", " } },
        "e": { "nested": { "mappings": { "f": { "path": "$.f" } } } },
        "g": { "path": "$.items" },
        "g[*].h": { "path": "$.name" },
    }))
    .unwrap();
    assert_eq!(read.0.len(), 7);
    assert!(matches!(&read.0[0].source, FieldSource::Literal(value) if value == "plain"));
    assert_eq!(
        read.0[6].field,
        FieldPath::EachItem { array: "g".to_owned(), field: "h".to_owned() }
    );
}

#[test]
fn invalid_mappings_report_pointer_and_reason() {
    let found = mappings(&json!({
        "a[0]": { "path": "$" },
        "b[*].c": { "path": "$" },
        "d": { "template": { "template": "{x}{y}", "vars": { "x": "$.x" } } },
        "e": { "coalesce": { "paths": [] } },
        "f": { "literal": 1, "path": "$" },
    }))
    .unwrap_err();
    assert_eq!(
        found,
        [
            "composition-invalid /mappings/a[0]: `a[0]` is not a field",
            "composition-invalid /mappings/b[*].c: `b[*].c` maps items of `b`, which is not mapped",
            "composition-invalid /mappings/d/template/template: \
             the template uses `{y}`, which is missing in `vars`",
            "composition-invalid /mappings/e/coalesce/paths: `paths` is empty",
            "composition-invalid /mappings/f: expected one source of a field, got `literal`, `path`",
        ]
    );
}

#[test]
fn version_of_a_call_is_referred_to_depends() {
    let call = json!({ "tool": { "name": "t", "version": "1.0.0" } });
    let found = Composition::parse(&json!({ "mapEach": { "inner": call } })).unwrap_err();
    let help = found[0].help.as_deref().unwrap();
    insta::assert_snapshot!(
        help,
        @"remove the version, which the entry in `depends` selects; the valid fields are name"
    );
}
