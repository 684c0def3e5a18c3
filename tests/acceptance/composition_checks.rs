//! `registryctl validate` of YAML files with one composition: each kind of mismatch, its severity, its
//! position, and the printed example.
//!
//! `composition_runs.rs` tests calls of compositions.

#![expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]

use acceptance::{CtlOutput, Registry, ctl};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Marks the end of the YAML line that a finding names.
const MARK: &str = "# <-";
/// The binding of `x` in a composition of [`two_steps`].
const X: &str = "/pipeline/steps/1/input/construct/fields/x";
const ERROR: &[(&str, &str)] = &[("error", X)];
const WARNING: &[(&str, &str)] = &[("warning", X)];
const NONE: &[(&str, &str)] = &[];

/// Tools by name with their schemas, and the schemas of the composition.
struct Tools<'t> {
    tools: &'t [(&'t str, Value)],
    own: Value,
}

/// A tool whose result has this schema.
fn gives(schema: Value) -> Value {
    json!({ "outputSchema": schema })
}

/// A tool that takes an object with a member `x` of this schema.
fn takes(x: Value) -> Value {
    takes_all(object(json!({ "x": x })))
}

fn takes_all(schema: Value) -> Value {
    json!({ "inputSchema": schema })
}

/// An object that has exactly these members.
fn object(properties: Value) -> Value {
    let names: Vec<_> = properties.as_object().expect("an object").keys().cloned().collect();
    json!({ "type": "object", "properties": properties, "required": names,
        "additionalProperties": false })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn integer() -> Value {
    json!({ "type": "integer" })
}

/// An array of this schema with these other keywords.
fn list(items: Value, mut more: Value) -> Value {
    more["type"] = "array".into();
    more["items"] = items;
    more
}

/// A composition whose step `b` calls `take` with `x`, which a path selects in the result of `a`.
fn two_steps(a: &str, path: &str) -> String {
    format!(
        "pipeline:
  steps:
    - {{ id: a, operation: {a} }}
    - id: b
      operation: {{ tool: take }}
      input:
        construct:
          fields:
            x: {{ step: {{ stepId: a, path: \"{path}\" }} }} {MARK}
"
    )
}

/// A pattern as an operation, after a call of `give`.
fn after_give(pattern: &str) -> String {
    format!(
        "{{ pattern: {{ pipeline: {{ steps: [{{ id: g, operation: {{ tool: give }} }}, \
         {{ id: p, operation: {{ pattern: {pattern} }} }}] }} }} }}"
    )
}

/// `scatterGather` as an operation.
fn gather(targets: &str, ops: &str, fail_fast: bool) -> String {
    format!(
        "{{ pattern: {{ scatterGather: {{ targets: {targets}, failFast: {fail_fast}, \
         aggregation: {{ ops: {ops} }} }} }} }}"
    )
}

impl Tools<'_> {
    /// A registry file in YAML with these tools and the composition `both`.
    fn yaml(&self, spec: &str) -> String {
        let names = || self.tools.iter().map(|(name, _)| name);
        let provides: Vec<_> =
            names().map(|name| json!({ "tool": name, "version": "1.0.0" })).collect();
        let depends: Vec<_> = names()
            .map(|name| json!({ "type": "tool", "name": name, "version": "1.0.0" }))
            .collect();
        let server = json!({ "name": "s", "version": "1.0.0", "provides": provides });
        let mut lines = vec![
            "schemaVersion: \"2.0\"".to_owned(),
            format!("servers: [{server}]"),
            "tools:".to_owned(),
        ];
        for (name, schemas) in self.tools {
            let source = json!({ "server": "s", "serverVersion": "1.0.0", "tool": name });
            let mut tool = json!({ "name": name, "version": "1.0.0", "source": source });
            let schemas = schemas.as_object().expect("schemas").clone();
            tool.as_object_mut().expect("an object").extend(schemas);
            lines.push(format!("  - {tool}"));
        }
        lines.push("  - name: both\n    version: 1.0.0".to_owned());
        lines.push(format!("    depends: {}", Value::from(depends)));
        let own = self.own.as_object().expect("schemas").iter();
        lines.extend(own.map(|(name, schema)| format!("    {name}: {schema}")));
        lines.push("    spec:".to_owned());
        lines.extend(spec.lines().map(|line| format!("      {line}")));
        lines.join("\n") + "\n"
    }

    /// Validates a composition. Asserts the exit code and all findings: the severity and the pointer
    /// inside of the spec of each, and that they point at the marked lines. Returns the messages.
    fn check(&self, spec: &str, expected: &[(&str, &str)]) -> Vec<String> {
        let yaml = self.yaml(spec);
        let (file, _dir) = written(&yaml);
        let out = ctl("http://127.0.0.1:1", &["validate", "-f", &file, "--output", "json"]);
        let told = format!("{yaml}\n{}\n{}", out.stdout, out.stderr);
        let is_rejected = expected.iter().any(|(severity, _)| *severity == "error");
        assert_eq!(out.code, i32::from(is_rejected), "{told}");
        let outcome: Value = serde_json::from_str(&out.stdout).expect("JSON");
        assert_eq!(outcome["accepted"], !is_rejected, "{told}");
        let found = outcome["diagnostics"].as_array().expect("a list");
        let prefix = format!("/tools/{}/spec", self.tools.len());
        let mut places = Vec::new();
        for found in found {
            assert_eq!(found["code"], "composition-mismatch", "{told}");
            assert_eq!(found["entity"], "tool/both@1.0.0", "{told}");
            let pointer = found["pointer"].as_str().expect("a pointer").strip_prefix(&prefix);
            let severity = found["severity"].as_str().expect("a severity");
            places.push((severity, pointer.expect("a place in the spec")));
        }
        assert_eq!(places, expected, "{told}");
        let marked = |line: &u64| {
            let line = usize::try_from(*line).ok().and_then(|line| yaml.lines().nth(line - 1));
            line.is_some_and(|line| line.ends_with(MARK))
        };
        let lines: Vec<_> =
            found.iter().map(|found| found["line"].as_u64().expect("one")).collect();
        assert!(lines.iter().all(marked), "not at a marked line: {lines:?}\n{told}");
        found.iter().map(|found| found["message"].as_str().expect("text").to_owned()).collect()
    }
}

fn written(yaml: &str) -> (String, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("registry.yaml");
    std::fs::write(&file, yaml).expect("written");
    (file.to_str().expect("UTF-8").to_owned(), dir)
}

/// Checks that a part of the result of `a` comes to the `x` of `take` with these findings.
fn check_x(
    tools: &[(&str, Value)],
    (a, path): (&str, &str),
    x: Value,
    expected: &[(&str, &str)],
) -> Vec<String> {
    let tools = [tools, &[("take", takes(x))]].concat();
    Tools { tools: &tools, own: json!({}) }.check(&two_steps(a, path), expected)
}

/// The same for a part of the result of `give`.
fn check_given(given: &Value, path: &str, x: Value, expected: &[(&str, &str)]) -> Vec<String> {
    check_x(&[("give", gives(given.clone()))], ("{ tool: give }", path), x, expected)
}

/// The example that a message ends with.
fn example(messages: &[String]) -> Value {
    let (_, example) = messages[0].split_once(" rejects ").expect("an example");
    serde_json::from_str(example).unwrap_or_else(|e| panic!("{e}: {messages:?}"))
}

fn two_objects() -> [(&'static str, Value); 2] {
    [("one", gives(object(json!({ "p": text() })))), ("two", gives(object(json!({ "q": text() }))))]
}

const TWO: &str = "[{ tool: one }, { tool: two }]";

#[test]
fn yaml_caret_points_at_binding() {
    let tools = [("give", gives(object(json!({ "n": text() })))), ("take", takes(integer()))];
    let yaml = Tools { tools: &tools, own: json!({}) }.yaml(&two_steps("{ tool: give }", "$.n"));
    let (file, _dir) = written(&yaml);
    let CtlOutput { code, stderr, .. } = ctl("http://127.0.0.1:1", &["validate", "-f", &file]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("error[composition-mismatch]: "), "{stderr}");
    let lines: Vec<_> = stderr.lines().collect();
    let caret = lines.iter().position(|line| line.trim_end().ends_with('^')).expect("a caret");
    assert!(lines[caret - 1].contains("x: {"), "{stderr}");
    assert_eq!(lines[caret].find('^'), lines[caret - 1].find("{ step: "), "{stderr}");
}

#[test]
fn registry_rejects_composition_with_certain_mismatch() {
    let tools = [("give", gives(object(json!({ "n": text() })))), ("take", takes(integer()))];
    let yaml = Tools { tools: &tools, own: json!({}) }.yaml(&two_steps("{ tool: give }", "$.n"));
    let registry = Registry::start();
    let apply = |yaml: &str| {
        let (file, _dir) = written(yaml);
        registry.ctl(&["apply", "-f", &file, "--yes"])
    };
    let is_registered = || registry.run(&["list", "tool"]).contains("both");
    let applied = apply(&yaml);
    assert_eq!(applied.code, 1, "{applied:?}");
    assert!(applied.stderr.contains("error[composition-mismatch]"), "{applied:?}");
    assert!(!is_registered());
    let applied = apply(&yaml.replace("integer", "string"));
    assert!(applied.success() && is_registered(), "{applied:?}");
}

#[test]
fn operation_after_merge_is_rejected() {
    let tools = two_objects();
    let tools = Tools { tools: &tools, own: json!({}) };
    let spec = |ops: [&str; 2]| {
        format!(
            "scatterGather:
  targets: {TWO}
  failFast: true
  aggregation:
    ops:
      - {}
      - {} {MARK}
",
            ops[0], ops[1]
        )
    };
    for op in [
        "flatten: true",
        "concat: true",
        "merge: true",
        "limit: { count: 1 }",
        "dedupe: { field: \"$.p\" }",
        "sort: { field: \"$.p\", order: asc }",
    ] {
        let after = spec(["merge: true", op]);
        tools.check(&after, &[("error", "/scatterGather/aggregation/ops/1")]);
        if op != "merge: true" {
            tools.check(&spec([op, "merge: true"]), NONE);
        }
    }
}

#[test]
fn coalesce_with_wrong_type_is_rejected() {
    let tools =
        [("give", gives(object(json!({ "m": { "type": ["integer", "null"] }, "n": integer() }))))];
    let a = after_give("{ schemaMap: { mappings: { y: { coalesce: { paths: [$.m, $.n] } } } } }");
    check_x(&tools, (&a, "$.y"), text(), ERROR);
    check_x(&tools, (&a, "$.y"), integer(), NONE);
}

#[test]
fn source_with_conditions_is_checked() {
    let given = json!({ "type": "object", "required": ["kind"],
        "properties": { "kind": { "enum": ["a", "b"] }, "n": text() },
        "if": { "properties": { "kind": { "const": "a" } } }, "then": { "required": ["n"] } });
    check_given(&given, "$.kind", integer(), ERROR);
    check_given(&given, "$.kind", text(), NONE);
    check_given(&given, "$.n", text(), WARNING);
}

#[test]
fn flattened_objects_are_not_arrays() {
    let a = gather(TWO, "[{ flatten: true }]", true);
    let tools = two_objects();
    check_x(&tools, (&a, "$"), list(json!({ "type": "array" }), json!({})), ERROR);
    check_x(&tools, (&a, "$"), list(text(), json!({})), ERROR);
    check_x(&tools, (&a, "$"), list(json!({ "type": "object" }), json!({})), NONE);
}

/// Two items at most of a list that may have any number.
fn limited() -> ([(&'static str, Value); 1], String) {
    let ops = "[{ flatten: true }, { limit: { count: 2 } }]";
    ([("give", gives(list(text(), json!({}))))], gather("[{ tool: give }]", ops, true))
}

#[test]
fn limit_below_min_items_is_rejected() {
    let (tools, a) = limited();
    let at_least = |count: u64| list(text(), json!({ "minItems": count }));
    check_x(&tools, (&a, "$"), at_least(3), ERROR);
    check_x(&tools, (&a, "$"), at_least(2), WARNING);
    check_x(&tools, (&a, "$"), at_least(0), NONE);
}

#[test]
fn position_beyond_limit_is_rejected() {
    let (tools, a) = limited();
    check_x(&tools, (&a, "$[2]"), text(), ERROR);
    check_x(&tools, (&a, "$[1]"), text(), WARNING);
}

#[test]
fn limit_above_max_items_is_warned() {
    let (tools, a) = limited();
    let at_most = |count: u64| list(text(), json!({ "maxItems": count }));
    let found = check_x(&tools, (&a, "$"), at_most(1), WARNING);
    assert_eq!(example(&found).as_array().map(Vec::len), Some(2), "{found:?}");
    check_x(&tools, (&a, "$"), at_most(2), NONE);
}

#[test]
fn fail_fast_position_of_wrong_target_is_rejected() {
    let a = gather(TWO, "[]", true);
    let tools = two_objects();
    let has = |name: &str| json!({ "type": "object", "required": [name] });
    for (path, name, expected) in
        [("$[0]", "q", ERROR), ("$[1]", "p", ERROR), ("$[0]", "p", NONE), ("$[1]", "q", NONE)]
    {
        check_x(&tools, (&a, path), has(name), expected);
    }
    check_x(&tools, (&a, "$[2]"), json!({}), ERROR);
}

#[test]
fn timeout_result_includes_its_fallback() {
    let v = |schema: Value| gives(object(json!({ "v": schema })));
    let tools = [("number", v(integer())), ("word", v(text()))];
    let a = "{ pattern: { timeout: { inner: { tool: number }, durationMs: 9, \
             fallback: { tool: word } } } }";
    check_x(&tools, (a, "$.v"), json!({ "type": "boolean" }), ERROR);
    check_x(&tools, (a, "$.v"), integer(), WARNING);
    check_x(&tools, (a, "$.v"), text(), WARNING);
    check_x(&tools, (a, "$.v"), json!({ "type": ["integer", "string"] }), NONE);
}

#[test]
fn input_schema_defaults_to_first_tool() {
    let first = takes_all(object(json!({ "name": text() })));
    let tools = [("first", first), ("take", takes(text()))];
    let spec = |path: &str| {
        format!(
            "pipeline:
  steps:
    - {{ id: a, operation: {{ tool: first }} }}
    - id: b
      operation: {{ tool: take }}
      input:
        construct:
          fields:
            x: {{ path: {path} }} {MARK}
"
        )
    };
    let tools = Tools { tools: &tools, own: json!({}) };
    tools.check(&spec("$.nmae"), ERROR);
    tools.check(&spec("$.name"), NONE);
}

#[test]
fn position_into_string_is_rejected() {
    let given = object(json!({ "name": text(), "names": list(text(), json!({ "minItems": 1 })) }));
    check_given(&given, "$.name[0]", text(), ERROR);
    check_given(&given, "$.names[0]", text(), NONE);
}

/// The composition's input has no schema, so its members are unknown.
#[test]
fn undecided_field_silences_no_other_field() {
    let take = json!({ "type": "object", "required": ["x"],
        "properties": { "x": text(), "count": integer() } });
    let given =
        object(json!({ "word": text(), "letter": { "type": "string", "pattern": "^a*$" } }));
    let tools = [("give", gives(given)), ("take", takes_all(take))];
    let tools = Tools { tools: &tools, own: json!({}) };
    let spec = |x: &str, count: &str| {
        let fields = format!("            count: {count} {MARK}\n");
        two_steps("{ tool: give }", "X").replace("{ step: { stepId: a, path: \"X\" } }", x)
            + &fields
    };
    let count = "/pipeline/steps/1/input/construct/fields/count";
    let unknown = "{ path: $.unknown }";
    tools.check(&spec(unknown, "{ constant: many }"), &[("error", count)]);
    let word = "{ step: { stepId: a, path: $.word } }";
    tools.check(&spec(unknown, word), &[("error", count)]);
    tools.check(&spec(unknown, "{ constant: 1 }"), NONE);
}

#[test]
fn undecided_schema_silences_no_other_field() {
    let take =
        object(json!({ "count": integer(), "x": { "type": "string", "pattern": "^(ab)*$" } }));
    let given = object(json!({ "letter": { "type": "string", "pattern": "^(abab)*$" } }));
    let tools = [("give", gives(given)), ("take", takes_all(take))];
    let tools = Tools { tools: &tools, own: json!({}) };
    let spec = |count: &str| {
        let fields = format!("            count: {count} {MARK}\n");
        two_steps("{ tool: give }", "$.letter") + &fields
    };
    let count = "/pipeline/steps/1/input/construct/fields/count";
    let found = tools.check(&spec("{ constant: many }"), &[("error", count), ("warning", X)]);
    assert!(found[1].contains("undecided"), "{found:?}");
    tools.check(&spec("{ constant: 1 }"), WARNING);
}

#[test]
fn wildcard_with_one_match_is_warned() {
    let given = |more: Value| object(json!({ "items": list(text(), more) }));
    let array = || json!({ "type": "array" });
    check_given(&given(json!({ "minItems": 1 })), "$.items[*]", array(), WARNING);
    check_given(&given(json!({ "minItems": 2 })), "$.items[*]", array(), NONE);
    check_given(&given(json!({ "minItems": 1 })), "$.items", array(), NONE);
    let one = given(json!({ "minItems": 1, "maxItems": 1 }));
    check_given(&one, "$.items[*]", array(), ERROR);
}

#[test]
fn position_in_possibly_empty_array_is_warned() {
    let given = |more: Value| object(json!({ "items": list(text(), more) }));
    check_given(&given(json!({})), "$.items[0]", text(), WARNING);
    check_given(&given(json!({ "minItems": 1 })), "$.items[0]", text(), NONE);
}

const FILTER: &str = "{ filter: { predicate: { field: $, op: ne, value: none } } }";

#[test]
fn filter_into_min_items_is_warned() {
    let tools = [("give", gives(list(text(), json!({ "minItems": 2 }))))];
    let a = after_give(FILTER);
    let at_least = |count: u64| list(text(), json!({ "minItems": count }));
    check_x(&tools, (&a, "$"), at_least(1), WARNING);
    check_x(&tools, (&a, "$"), at_least(0), NONE);
}

#[test]
fn filter_result_items_are_checked() {
    let tools = [("give", gives(list(text(), json!({ "minItems": 2 }))))];
    let a = after_give(FILTER);
    let found = check_x(&tools, (&a, "$"), list(integer(), json!({})), WARNING);
    assert!(!example(&found).as_array().expect("an array").is_empty(), "{found:?}");
    check_x(&tools, (&a, "$"), list(text(), json!({})), NONE);
}

#[test]
fn map_each_result_items_are_checked() {
    let of = |least: u64| {
        let items = list(json!({ "type": "object" }), json!({ "minItems": least }));
        [("give", gives(items)), ("each", gives(object(json!({ "v": text() }))))]
    };
    let a = after_give("{ mapEach: { inner: { tool: each } } }");
    let wanted = |v: Value| list(json!({ "properties": { "v": v } }), json!({}));
    check_x(&of(0), (&a, "$"), wanted(integer()), WARNING);
    check_x(&of(1), (&a, "$"), wanted(integer()), ERROR);
    check_x(&of(0), (&a, "$"), wanted(text()), NONE);
}

/// A `scatterGather` without any result fails, so its result is never empty.
#[test]
fn scatter_gather_example_is_never_empty() {
    let a = gather(TWO, "[]", false);
    let tools = two_objects();
    let at_least = |count: u64| json!({ "type": "array", "minItems": count });
    let found = check_x(&tools, (&a, "$"), at_least(2), WARNING);
    assert_eq!(example(&found).as_array().map(Vec::len), Some(1), "{found:?}");
    check_x(&tools, (&a, "$"), at_least(1), NONE);
    check_x(&tools, (&a, "$[0]"), json!({ "type": "object" }), NONE);
}

#[test]
fn example_has_at_least_min_items() {
    let given = list(text(), json!({ "minItems": 2 }));
    let found = check_given(&given, "$", list(json!({ "minLength": 1 }), json!({})), WARNING);
    let value = example(&found);
    let items = value.as_array().expect("an array");
    assert!(items.len() >= 2 && items.contains(&json!("")), "{found:?}");
    let found = check_given(&given, "$", json!({ "type": "array", "minItems": 3 }), WARNING);
    assert_eq!(example(&found).as_array().map(Vec::len), Some(2), "{found:?}");
    // One target of two may fail.
    let a = gather("[{ tool: give }, { tool: give }]", "[{ flatten: true }]", false);
    let wanted = json!({ "type": "array", "minItems": 3 });
    let found = check_x(&[("give", gives(given))], (&a, "$"), wanted, WARNING);
    assert_eq!(example(&found).as_array().map(Vec::len), Some(2), "{found:?}");
}

/// Step `b` takes one path twice: as `x` and as `y`.
fn one_path_twice(takes: Value, expected: &[(&str, &str)]) -> Vec<String> {
    let tools = [("give", gives(object(json!({ "n": text() })))), ("take", takes_all(takes))];
    let spec = two_steps("{ tool: give }", "$.n").replace(MARK, "")
        + "            y: { step: { stepId: a, path: $.n } }\n";
    let spec = spec.replace("        construct:\n", &format!("        construct: {MARK}\n"));
    Tools { tools: &tools, own: json!({}) }.check(&spec, expected)
}

#[test]
fn example_binds_one_value_to_both() {
    let member = |name: &str, schema: Value| json!({ "properties": { name: schema } });
    let whole = [("warning", "/pipeline/steps/1/input")];
    // Refused only if both are empty.
    let takes = json!({ "type": "object", "required": ["x", "y"], "anyOf": [
        member("x", json!({ "minLength": 1 })), member("y", json!({ "minLength": 1 }))] });
    let found = one_path_twice(takes, &whole);
    assert_eq!(example(&found), json!({ "x": "", "y": "" }), "{found:?}");
    // Refused only if they differ, so no example exists.
    let takes = json!({ "type": "object", "required": ["x", "y"], "anyOf": [
        member("x", json!({ "const": "" })), member("y", json!({ "minLength": 1 }))] });
    let found = one_path_twice(takes, &whole);
    assert!(!found[0].contains("rejects") && found[0].contains("undecided"), "{found:?}");
}

#[test]
fn dead_letter_tool_with_mismatch_is_rejected() {
    let spec = |tool: &str| {
        format!(
            "deadLetter:
  inner: {{ tool: give }}
  deadLetterTool: {tool} {MARK}
  rethrow: true
"
        )
    };
    let error = json!({ "type": "object", "required": ["error"],
        "properties": { "error": { "type": "object" } } });
    let tools = [("give", json!({})), ("take", takes(text())), ("letters", takes_all(error))];
    let tools = Tools { tools: &tools, own: json!({}) };
    tools.check(&spec("take"), &[("error", "/deadLetter/deadLetterTool")]);
    tools.check(&spec("letters"), NONE);
}

#[test]
fn timeout_fallback_with_mismatch_is_rejected() {
    let spec = |tool: &str| {
        format!(
            "timeout:
  inner: {{ tool: give }}
  durationMs: 9
  fallback: {{ tool: {tool} }} {MARK}
"
        )
    };
    let tools = [("give", json!({})), ("take", takes(text())), ("any", json!({}))];
    let own = json!({ "inputSchema": { "type": "object", "additionalProperties": false } });
    let tools = Tools { tools: &tools, own };
    tools.check(&spec("take"), &[("error", "/timeout/fallback/tool")]);
    tools.check(&spec("any"), NONE);
}
