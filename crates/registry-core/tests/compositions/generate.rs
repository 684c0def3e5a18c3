//! Random compositions, built together with one run so that most parts match.

use std::collections::BTreeMap;

use registry_core::spec::{Spec, eval::Budget};
use serde_json::{Map, Value, json};

use crate::random::{Checked, Random, array_schema, changed, like, object_schema, schema, value};

/// A tool that a composition calls.
#[derive(Default)]
pub(crate) struct Tool {
    pub(crate) input: Option<Checked>,
    pub(crate) output: Option<Checked>,
}

/// A composition with the schemas of its tools.
pub(crate) struct Case {
    pub(crate) spec: Value,
    pub(crate) input: Option<Checked>,
    pub(crate) output: Option<Checked>,
    pub(crate) tools: BTreeMap<String, Tool>,
}

impl Case {
    pub(crate) fn new(random: &mut Random) -> Self {
        let input = (!random.one_in(8)).then(|| Checked::new(object_schema(random, 2)));
        let given = input.as_ref().and_then(|input| input.sample(random)).unwrap_or(json!({}));
        let more = random.fork();
        let mut generator = Generator { random, more, tools: BTreeMap::new() };
        let (spec, result) = generator.pattern(&given, 2);
        let output = match generator.random.below(3) {
            0 => None,
            _ => Some(generator.demand(&result)),
        };
        Self { spec, input, output: output.map(Checked::new), tools: generator.tools }
    }
}

struct Generator<'r> {
    random: &'r mut Random,
    /// A separate generator for later additions, so that existing case numbers stay stable.
    more: Random,
    tools: BTreeMap<String, Tool>,
}

impl Generator<'_> {
    /// A schema for the destination of this value.
    fn demand(&mut self, value: &Value) -> Value {
        match self.random.below(10) {
            0 => object_schema(self.random, 1),
            1 | 2 => {
                let fitting = like(value, self.random);
                changed(fitting, self.random)
            }
            _ => like(value, self.random),
        }
    }

    /// A new tool with one of its results.
    fn tool(&mut self, given: &Value) -> (String, Value) {
        let name = format!("t{}", self.tools.len());
        let input = (!self.random.one_in(10)).then(|| {
            // The schema must declare the object type.
            let schema = self.demand(given);
            if schema["type"] == json!("object") { schema } else { object_schema(self.random, 1) }
        });
        let output = (!self.random.one_in(12)).then(|| match self.random.below(6) {
            0 => schema(self.random, 2),
            1 | 2 => array_schema(self.random, 2),
            _ => object_schema(self.random, 2),
        });
        let (input, output) = (input.map(Checked::new), output.map(Checked::new));
        let result = output.as_ref().and_then(|output| output.sample(self.random));
        let tool = Tool { input, output };
        self.tools.insert(name.clone(), tool);
        (name, result.unwrap_or(json!({})))
    }

    /// An operation for this value with one of its results.
    fn operation(&mut self, given: &Value, depth: usize) -> (Value, Value) {
        if depth > 0 && self.random.one_in(2) {
            let (spec, result) = self.pattern(given, depth - 1);
            return (json!({ "pattern": spec }), result);
        }
        let (name, result) = self.tool(given);
        (json!({ "tool": name }), result)
    }

    fn pattern(&mut self, given: &Value, depth: usize) -> (Value, Value) {
        let is_array = given.is_array() || self.random.one_in(12);
        match self.random.below(if is_array { 22 } else { 16 }) {
            0..=4 => self.pipeline(given, depth),
            5 | 6 => self.scatter(given, depth),
            7 => self.mapping(given),
            8 => self.saga(given, depth),
            9 => {
                let (inner, result) = self.operation(given, depth);
                let backoff = json!({ "fixed": { "delayMs": 1 } });
                (
                    json!({ "retry": { "inner": inner, "maxAttempts": 2, "backoff": backoff } }),
                    result,
                )
            }
            10 => {
                let (inner, result) = self.operation(given, depth);
                let keys = [self.path(given)];
                (json!({ "cache": { "inner": inner, "keyPaths": keys, "ttlSeconds": 1 } }), result)
            }
            11 => {
                let (inner, result) = self.operation(given, depth);
                let on = self.random.choose(&["cached", "skip", "error"]);
                let keys = [self.path(given)];
                (
                    json!({ "idempotent": { "inner": inner, "keyPaths": keys, "onDuplicate": on } }),
                    result,
                )
            }
            12 => {
                let (inner, result) = self.operation(given, depth);
                let (fallback, other) = self.operation(given, depth.saturating_sub(1));
                let result = if self.random.one_in(2) { result } else { other };
                (
                    json!({ "timeout": { "inner": inner, "durationMs": 1, "fallback": fallback } }),
                    result,
                )
            }
            13 => {
                let (inner, result) = self.operation(given, depth);
                let (fallback, _) = self.operation(given, 0);
                (
                    json!({ "circuitBreaker": { "name": "x", "inner": inner, "failureThreshold": 1,
                    "failureWindowSeconds": 1, "resetTimeoutSeconds": 1, "fallback": fallback } }),
                    result,
                )
            }
            14 => {
                let (inner, result) = self.operation(given, depth);
                let error = json!({ "step": "", "reason": "timeout", "message": "timed out" });
                let told = json!({ "input": given, "error": error, "attempts": 1 });
                let (tool, _) = self.tool(&told);
                let rethrow = self.random.one_in(2);
                (
                    json!({ "deadLetter": { "inner": inner, "deadLetterTool": tool, "rethrow": rethrow } }),
                    result,
                )
            }
            15 => {
                let (store, reference) = self.tool(given);
                let (inner, result) = self.operation(&reference, depth);
                let (retrieve, retrieved) = self.tool(&reference);
                let at_end = self.random.one_in(2);
                let spec = json!({ "claimCheck": { "storeTool": store, "retrieveTool": retrieve,
                    "inner": inner, "retrieveAtEnd": at_end } });
                (spec, if at_end { retrieved } else { result })
            }
            16 | 17 => self.filter(given),
            _ => {
                let item = given.get(0).cloned().unwrap_or_else(|| value(self.random, 1));
                let (inner, result) = self.operation(&item, depth);
                let count = given.as_array().map_or(1, Vec::len);
                let all: Vec<Value> = (0..count).map(|_| result.clone()).collect();
                (json!({ "mapEach": { "inner": inner } }), all.into())
            }
        }
    }

    fn filter(&mut self, given: &Value) -> (Value, Value) {
        let item = given.get(0).cloned().unwrap_or_default();
        let op = self.random.choose(&["eq", "ne", "gt", "contains"]);
        let field = self.path(&item);
        let predicate =
            json!({ "field": field, "op": op, "value": self.random.choose(&["x", "y"]) });
        let spec = json!({ "filter": { "predicate": predicate } });
        let result = evaluated(&spec, given);
        (spec, result)
    }

    fn mapping(&mut self, given: &Value) -> (Value, Value) {
        let mut mappings = Map::new();
        for _ in 0..=self.random.below(3) {
            let path = self.path(given);
            let source = match self.random.below(8) {
                0 => json!({ "literal": value(self.random, 1) }),
                1 | 2 => json!({ "coalesce": { "paths": [path, self.path(given)] } }),
                3 => json!({ "concat": { "paths": [path], "separator": "-" } }),
                4 => json!({ "nested": { "mappings": { "a": { "path": path } } } }),
                5 => {
                    mappings.insert("items[*].id".to_owned(), json!({ "path": "$.id" }));
                    mappings.insert("items".to_owned(), json!({ "path": path }));
                    continue;
                }
                _ => json!({ "path": path }),
            };
            mappings.insert(self.random.name(), source);
        }
        let spec = json!({ "schemaMap": { "mappings": mappings } });
        let result = evaluated(&spec, given);
        (spec, result)
    }

    fn pipeline(&mut self, given: &Value, depth: usize) -> (Value, Value) {
        let (mut steps, mut results, mut last) = (Vec::new(), Vec::new(), given.clone());
        for i in 0..=self.random.below(3) {
            let mut step = json!({ "id": format!("s{i}") });
            let mut taken = last.clone();
            if self.random.below(3) > 0 {
                let (binding, bound) = self.binding(given, &results, 2);
                step["input"] = binding;
                taken = bound;
            }
            let (operation, result) = self.operation(&taken, depth);
            step["operation"] = operation;
            steps.push(step);
            results.push((format!("s{i}"), result.clone()));
            last = result;
        }
        (json!({ "pipeline": { "steps": steps } }), last)
    }

    fn scatter(&mut self, given: &Value, depth: usize) -> (Value, Value) {
        let (mut targets, mut results) = (Vec::new(), Vec::new());
        for _ in 0..=self.random.below(3) {
            let (binding, taken) = self.binding(given, &[], 1);
            let (mut target, result) = self.operation(&taken, depth.saturating_sub(1));
            target["input"] = binding;
            targets.push(target);
            results.push(result);
        }
        let mut ops = Vec::new();
        let mut result = Value::from(results);
        for _ in 0..self.random.below(3) {
            let item = result.get(0).cloned().unwrap_or_default();
            let op = match self.random.below(6) {
                0 => json!({ "sort": { "field": self.path(&item), "order": "asc" } }),
                1 => json!({ "dedupe": { "field": self.path(&item) } }),
                2 => json!({ "limit": { "count": 1 + self.random.below(2) } }),
                3 | 4 => json!({ "flatten": true }),
                _ => json!({ "merge": true }),
            };
            ops.push(op);
            let spec = json!({ "scatterGather": { "targets": [{ "tool": "x" }],
                "aggregation": { "ops": ops } } });
            let Spec::ScatterGather(parsed) = Spec::parse(&spec).unwrap() else { unreachable!() };
            let last = &parsed.aggregation[parsed.aggregation.len() - 1..];
            let items = result.as_array().cloned().unwrap_or_default();
            let made = registry_core::spec::eval::aggregate(last, items, &mut Budget::new(1 << 20));
            result = made.unwrap_or_default();
        }
        let fail_fast = self.random.one_in(2);
        let mut spec = json!({ "scatterGather": { "targets": targets, "failFast": fail_fast,
            "aggregation": { "ops": ops } } });
        if self.more.one_in(4) {
            spec["scatterGather"]["timeoutMs"] = json!(300);
        }
        (spec, result)
    }

    fn saga(&mut self, given: &Value, depth: usize) -> (Value, Value) {
        let (mut steps, mut results, mut last) = (Vec::new(), Vec::new(), given.clone());
        for i in 0..=self.random.below(2) {
            let id = format!("s{i}");
            let (operation, result) = self.operation(&last, depth.saturating_sub(1));
            let mut step = json!({ "id": id, "name": id, "action": operation });
            if self.random.one_in(2) {
                let (tool, _) = self.tool(&last);
                step["compensate"] = json!({ "tool": tool });
            }
            steps.push(step);
            results.push((id, result.clone()));
            last = result;
        }
        self.compensations(&mut steps, given, &results);
        let mut saga = json!({ "steps": steps });
        if self.random.one_in(3) {
            saga["sagaIdPath"] = json!(self.path(given));
        }
        let mut result = Value::Object(results.iter().cloned().collect());
        if self.random.one_in(2) {
            let (binding, bound) = self.binding(given, &results, 1);
            saga["output"] = binding;
            result = bound;
        }
        (json!({ "saga": saga }), result)
    }

    /// Gives some compensations an input of their own, possibly from a later step.
    fn compensations(&mut self, steps: &mut [Value], given: &Value, results: &[(String, Value)]) {
        std::mem::swap(self.random, &mut self.more);
        for step in steps {
            if step.get("compensate").is_none() || self.random.one_in(3) {
                continue;
            }
            let (binding, bound) = self.binding(given, results, 2);
            let (tool, _) = self.tool(&bound);
            step["compensateInput"] = binding;
            step["compensate"] = json!({ "tool": tool });
            step["compensateOnUnknown"] = json!(self.random.one_in(3));
        }
        std::mem::swap(self.random, &mut self.more);
    }

    /// A binding with its value.
    fn binding(
        &mut self,
        input: &Value,
        steps: &[(String, Value)],
        depth: usize,
    ) -> (Value, Value) {
        if depth > 0 && self.random.below(4) > 0 {
            let (mut fields, mut object) = (Map::new(), Map::new());
            for _ in 0..=self.random.below(3) {
                let name = self.random.name();
                let (binding, value) = self.binding(input, steps, depth - 1);
                fields.insert(name.clone(), binding);
                if value == json!("nothing is selected") {
                    object.remove(&name);
                } else {
                    object.insert(name, value);
                }
            }
            return (json!({ "construct": { "fields": fields } }), Value::Object(object));
        }
        if self.random.one_in(8) {
            let constant = value(self.random, 1);
            return (json!({ "constant": constant }), constant);
        }
        let step =
            (!steps.is_empty() && self.random.below(3) > 0).then(|| self.random.choose(steps));
        let from = step.as_ref().map_or(input, |(_, value)| value).clone();
        let path = self.path(&from);
        let parsed = json!({ "schemaMap": { "mappings": { "x": { "path": path } } } });
        let mut found = evaluated(&parsed, &from)["x"].take();
        if found.is_null() {
            found = json!("nothing is selected");
        }
        let binding = match step {
            Some((id, _)) => json!({ "step": { "stepId": id, "path": path } }),
            None => json!({ "path": path }),
        };
        (binding, found)
    }

    /// A path into a value that usually selects something.
    fn path(&mut self, from: &Value) -> String {
        let (mut path, mut at) = ("$".to_owned(), from.clone());
        for _ in 0..self.random.below(4) {
            if self.random.one_in(16) {
                path += self.random.choose(&[
                    "[0]", "[1]", ".a", ".zz", "[*]", "[-1]", ".*", "..a", "[?@.a]", "[0:1]",
                ]);
                break;
            }
            match &at {
                Value::Object(members) if !members.is_empty() => {
                    let names: Vec<_> = members.keys().cloned().collect();
                    let name = self.random.choose(&names);
                    path.push('.');
                    path.push_str(&name);
                    at = at[&name].clone();
                }
                Value::Array(items) if !items.is_empty() => {
                    let (sign, next) =
                        self.random.choose(&[("[0]", 0), ("[*]", 0), ("[1]", 1), ("[*]", 0)]);
                    path += sign;
                    at = items.get(next).cloned().unwrap_or_default();
                }
                _ => break,
            }
        }
        path
    }
}

/// The result of a pure pattern.
fn evaluated(spec: &Value, given: &Value) -> Value {
    let budget = &mut Budget::new(1 << 20);
    match Spec::parse(spec).unwrap() {
        Spec::SchemaMap(mappings) => mappings.apply(given, budget).unwrap_or_default(),
        Spec::Filter(filter) => filter.apply(given.clone(), budget).unwrap_or_default(),
        _ => unreachable!(),
    }
}
