//! What each pattern gives, by what it gets; on the way each call is looked at.
//!
//! Deliberately absent: conditions; what they let through is what comes in.

use serde_json::{Map, Value, json};

use super::{
    Checker, Flow,
    select::{Scope, bound, items, mapped},
    work::Work,
};
use crate::{
    decode::At,
    spec::{
        AggregationOp, Binding, DeadLetter, OnDuplicate, Operation, Pipeline, Saga, ScatterGather,
        Spec, Target,
    },
};

impl Checker<'_> {
    pub(super) fn pattern(&mut self, spec: &Spec, input: &Flow, at: At<'_>) -> Flow {
        match spec {
            Spec::Pipeline(pipeline) => self.pipeline(pipeline, input, at.member("pipeline")),
            Spec::ScatterGather(scatter) => {
                self.scatter(scatter, input, at.member("scatterGather"))
            }
            Spec::Filter(_) => {
                self.is_array(input, "an array, which `filter` takes", at.member("filter"));
                items(input, &self.work).array_of()
            }
            Spec::SchemaMap(mappings) => mapped(mappings, input, &self.work),
            Spec::MapEach(each) => {
                let at = at.member("mapEach");
                self.is_array(input, "an array, which `mapEach` takes", at);
                let item = items(input, &self.work);
                let is_optional = std::mem::replace(&mut self.is_optional, true);
                let result = self.operation(&each.inner, &item, at.member("inner"));
                self.is_optional = is_optional;
                result.array_of()
            }
            Spec::Saga(saga) => self.saga(saga, input, at.member("saga")),
            Spec::Retry(retry) => {
                self.operation(&retry.inner, input, at.member("retry").member("inner"))
            }
            Spec::Timeout(limit) => {
                self.or_else((&limit.inner, limit.fallback.as_ref()), input, at.member("timeout"))
            }
            Spec::CircuitBreaker(breaker) => {
                let both = (&breaker.inner, breaker.fallback.as_ref());
                self.or_else(both, input, at.member("circuitBreaker"))
            }
            Spec::Cache(cache) => {
                self.operation(&cache.inner, input, at.member("cache").member("inner"))
            }
            Spec::Idempotent(once) => {
                let at = at.member("idempotent");
                for (i, path) in once.key_paths.iter().enumerate() {
                    self.is_there(path, input, at.member("keyPaths").index(i));
                }
                let result = self.operation(&once.inner, input, at.member("inner"));
                match once.on_duplicate {
                    OnDuplicate::Cached | OnDuplicate::Error => result,
                    OnDuplicate::Skip => {
                        Flow::any_of([result, Flow::known(json!({ "const": null }))])
                    }
                }
            }
            Spec::DeadLetter(letter) => self.dead_letter(letter, input, at.member("deadLetter")),
            Spec::ClaimCheck(check) => {
                let at = at.member("claimCheck");
                let reference = self.call(&check.store_tool, input, at.member("storeTool"));
                let result = self.operation(&check.inner, &reference, at.member("inner"));
                if !check.retrieve_at_end {
                    return result;
                }
                self.call(&check.retrieve_tool, &reference, at.member("retrieveTool"))
            }
        }
    }

    fn operation(&mut self, operation: &Operation, input: &Flow, at: At<'_>) -> Flow {
        match operation {
            Operation::Call(target @ Target::Tool(_)) => {
                self.call(target, input, at.member("tool"))
            }
            Operation::Call(target) => self.call(target, input, at.member("agent")),
            Operation::Pattern(spec) => self.pattern(spec, input, at.member("pattern")),
        }
    }

    fn or_else(
        &mut self,
        (inner, fallback): (&Operation, Option<&Operation>),
        input: &Flow,
        at: At<'_>,
    ) -> Flow {
        let result = self.operation(inner, input, at.member("inner"));
        let Some(fallback) = fallback else { return result };
        let instead = self.operation(fallback, input, at.member("fallback"));
        Flow::any_of([result, instead])
    }

    fn dead_letter(&mut self, letter: &DeadLetter, input: &Flow, at: At<'_>) -> Flow {
        let result = self.operation(&letter.inner, input, at.member("inner"));
        let told = object_of([
            ("input", self.work.copied(input)),
            ("error", Flow { schema: json!({ "type": "object" }), is_known: false }),
            ("attempts", Flow::known(json!({ "type": "integer", "minimum": 1 }))),
        ]);
        // Nothing may ever fail.
        let is_optional = std::mem::replace(&mut self.is_optional, true);
        let instead = self.call(&letter.dead_letter_tool, &told, at.member("deadLetterTool"));
        self.is_optional = is_optional;
        if letter.rethrow { result } else { Flow::any_of([result, instead]) }
    }

    /// What a step gets: what is bound, or what there is without.
    fn given(
        &mut self,
        (binding, otherwise): (Option<&Binding>, &Flow),
        (input, steps): (&Flow, &[(&str, Flow)]),
        at: At<'_>,
    ) -> Flow {
        let Some(binding) = binding else { return self.work.copied(otherwise) };
        if let Some(selected) = bound(binding, &Scope { input, steps, work: &self.work }) {
            return selected.flow;
        }
        let message = "nothing that may come has what this binding selects".to_owned();
        self.report(at, message, true);
        Flow::unknown()
    }

    fn pipeline(&mut self, pipeline: &Pipeline, input: &Flow, at: At<'_>) -> Flow {
        let at = at.member("steps");
        let mut steps: Vec<(&str, Flow)> = Vec::new();
        for (i, step) in pipeline.steps.iter().enumerate() {
            let at = at.index(i);
            let previous = steps.last().map_or(input, |(_, flow)| flow);
            let bound = (step.input.as_ref(), previous);
            let given = self.given(bound, (input, &steps), at.member("input"));
            let result = self.operation(&step.operation, &given, at.member("operation"));
            steps.push((&step.id, result));
        }
        steps.pop().map_or_else(Flow::unknown, |(_, flow)| flow)
    }

    fn scatter(&mut self, scatter: &ScatterGather, input: &Flow, at: At<'_>) -> Flow {
        let targets = at.member("targets");
        let mut results = Vec::new();
        for (i, target) in scatter.targets.iter().enumerate() {
            let at = targets.index(i);
            let bound = (target.input.as_ref(), input);
            let given = self.given(bound, (input, &[]), at.member("input"));
            results.push(self.operation(&target.operation, &given, at));
        }
        let mut flow = Flow::any_of(results).array_of();
        let ops = at.member("aggregation");
        let ops = ops.member("ops");
        for (i, op) in scatter.aggregation.iter().enumerate() {
            self.is_array(&flow, "an array, which the operation takes", ops.index(i));
            flow = aggregated(op, flow, &self.work);
        }
        flow
    }

    fn saga(&mut self, saga: &Saga, input: &Flow, at: At<'_>) -> Flow {
        if let Some(path) = &saga.saga_id_path {
            self.is_there(path, input, at.member("sagaIdPath"));
        }
        let all = at.member("steps");
        let (mut steps, mut inputs): (Vec<(&str, Flow)>, Vec<Flow>) = Default::default();
        for (i, step) in saga.steps.iter().enumerate() {
            let at = all.index(i);
            let previous = steps.last().map_or(input, |(_, flow)| flow);
            let bound = (step.input.as_ref(), previous);
            let given = self.given(bound, (input, &steps), at.member("input"));
            let result = self.operation(&step.action, &given, at.member("action"));
            steps.push((&step.id, result));
            inputs.push(given);
        }
        for (i, (step, given)) in saga.steps.iter().zip(&inputs).enumerate() {
            let Some(compensate) = &step.compensate else { continue };
            let at = all.index(i);
            let bound = (step.compensate_input.as_ref(), given);
            let given = self.given(bound, (input, &steps), at.member("compensateInput"));
            self.operation(compensate, &given, at.member("compensate"));
        }
        let Some(output) = &saga.output else { return object_of(steps) };
        self.given((Some(output), &Flow::unknown()), (input, &steps), at.member("output"))
    }
}

/// An object with all of these members, and no other.
fn object_of<'a>(members: impl IntoIterator<Item = (&'a str, Flow)>) -> Flow {
    let (mut properties, mut is_known) = (Map::new(), true);
    for (name, flow) in members {
        is_known &= flow.is_known;
        properties.insert(name.to_owned(), flow.schema);
    }
    let required: Vec<_> = properties.keys().cloned().collect();
    let schema = json!({ "type": "object", "properties": properties, "required": required,
        "additionalProperties": false });
    Flow { schema, is_known }
}

/// What an operation makes of an array.
fn aggregated(op: &AggregationOp, flow: Flow, work: &Work) -> Flow {
    match op {
        AggregationOp::Concat
        | AggregationOp::Sort { .. }
        | AggregationOp::Dedupe { .. }
        | AggregationOp::Limit { .. } => flow,
        AggregationOp::Flatten => {
            let item = items(&flow, work);
            // Only where each is an array it is known what is left.
            if item.schema.get("type") == Some(&Value::from("array")) {
                items(&item, work).array_of()
            } else {
                Flow { schema: json!({ "type": "array" }), is_known: false }
            }
        }
        AggregationOp::Merge => Flow { schema: json!({ "type": "object" }), is_known: false },
    }
}
