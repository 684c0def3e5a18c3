//! An interpreter of compositions for given call results, written from the specification.
//!
//! Pure parts (paths, mappings, predicates, aggregation) use the evaluator of gateways.

use std::collections::{BTreeMap, BTreeSet};

use registry_core::spec::{
    Binding, OnDuplicate, Operation, ScatterGather, Spec, Target,
    eval::{BindingContext, Budget, aggregate, keys},
};
use serde_json::{Value, json};

/// The reason why a run ended without a result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ended {
    /// A destination rejects a value.
    Refused { at: String, value: Value },
    /// An operation fails by itself.
    Failed,
}

/// The environment of a composition.
pub(crate) trait World {
    /// Calls a tool, if it accepts the input.
    fn call(&mut self, tool: &str, at: &str, input: &Value) -> Called;
    /// Whether the operation at this pointer fails.
    fn fails(&mut self, at: &str) -> bool;
    /// Records that a destination receives a value, and whether it accepts it.
    fn note(&mut self, at: &str, is_taken: bool);
}

pub(crate) enum Called {
    Refused,
    Result(Value),
    Failed,
}

pub(crate) struct Interpreter<'w> {
    pub(crate) world: &'w mut dyn World,
    /// The JSON pointer of the destination whose rejection is expected.
    pub(crate) wanted: Option<String>,
}

type Outcome = Result<Value, Ended>;

/// Whether the selected values form a key: not all of them are null.
fn is_key(selected: &[Value]) -> bool {
    !selected.iter().all(Value::is_null)
}

fn budget() -> Budget {
    Budget::new(1 << 20)
}

impl Interpreter<'_> {
    fn take(&mut self, at: &str, value: &Value, is_taken: bool) -> Result<(), Ended> {
        self.world.note(at, is_taken);
        if is_taken {
            return Ok(());
        }
        Err(Ended::Refused { at: at.to_owned(), value: value.clone() })
    }

    fn call(&mut self, target: &Target, input: &Value, at: &str) -> Outcome {
        let tool = target.to_string();
        match self.world.call(&tool, at, input) {
            Called::Refused => {
                self.take(at, input, false)?;
                Err(Ended::Failed)
            }
            Called::Result(value) => {
                self.take(at, input, true)?;
                Ok(value)
            }
            Called::Failed => Err(Ended::Failed),
        }
    }

    fn operation(&mut self, operation: &Operation, input: &Value, at: &str) -> Outcome {
        if self.world.fails(at) {
            return Err(Ended::Failed);
        }
        match operation {
            Operation::Call(target) => self.call(target, input, &format!("{at}/tool")),
            Operation::Pattern(spec) => self.pattern(spec, input, &format!("{at}/pattern")),
        }
    }

    fn bound(
        &mut self,
        binding: Option<&Binding>,
        otherwise: &Value,
        scope: BindingContext<'_>,
        at: &str,
    ) -> Outcome {
        let Some(binding) = binding else { return Ok(otherwise.clone()) };
        let bound = binding.resolve(scope, &mut budget());
        self.take(at, &Value::Null, bound.is_ok())?;
        bound.map_err(|_| Ended::Failed)
    }

    pub(crate) fn pattern(&mut self, spec: &Spec, input: &Value, at: &str) -> Outcome {
        match spec {
            Spec::Pipeline(pipeline) => {
                let (mut results, mut last) = (BTreeMap::new(), input.clone());
                for (i, step) in pipeline.steps.iter().enumerate() {
                    let at = format!("{at}/pipeline/steps/{i}");
                    let scope = BindingContext { input, steps: &results, error: None };
                    let given =
                        self.bound(step.input.as_ref(), &last, scope, &format!("{at}/input"))?;
                    last = self.operation(&step.operation, &given, &format!("{at}/operation"))?;
                    results.insert(step.id.clone(), last.clone());
                }
                Ok(last)
            }
            Spec::ScatterGather(scatter) => {
                self.scatter(scatter, input, &format!("{at}/scatterGather"))
            }
            Spec::Filter(filter) => {
                self.take(&format!("{at}/filter"), input, input.is_array())?;
                filter.apply(input.clone(), &mut budget()).map_err(|_| Ended::Failed)
            }
            Spec::SchemaMap(mappings) => {
                mappings.apply(input, &mut budget()).map_err(|_| Ended::Failed)
            }
            Spec::MapEach(each) => {
                let at = format!("{at}/mapEach");
                self.take(&at, input, input.is_array())?;
                let items = input.as_array().into_iter().flatten();
                let results =
                    items.map(|item| self.operation(&each.inner, item, &format!("{at}/inner")));
                results.collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
            Spec::Retry(retry) => self.operation(&retry.inner, input, &format!("{at}/retry/inner")),
            Spec::Cache(cache) => self.operation(&cache.inner, input, &format!("{at}/cache/inner")),
            Spec::Timeout(limit) => {
                let at = format!("{at}/timeout");
                self.or_else((&limit.inner, limit.fallback.as_ref()), input, &at)
            }
            Spec::CircuitBreaker(breaker) => {
                let at = format!("{at}/circuitBreaker");
                self.or_else((&breaker.inner, breaker.fallback.as_ref()), input, &at)
            }
            Spec::Idempotent(once) => {
                let at = format!("{at}/idempotent");
                let found = keys(&once.key_paths, input, &mut budget()).unwrap();
                for (i, key) in found.into_iter().enumerate() {
                    let is_key = is_key(&key);
                    self.take(&format!("{at}/keyPaths/{i}"), &Value::Null, is_key)?;
                }
                let place = format!("{at}/inner");
                if once.on_duplicate == OnDuplicate::Skip && self.world.fails(&place) {
                    return Ok(Value::Null);
                }
                self.operation(&once.inner, input, &place)
            }
            Spec::DeadLetter(letter) => {
                let at = format!("{at}/deadLetter");
                match self.operation(&letter.inner, input, &format!("{at}/inner")) {
                    Ok(value) => return Ok(value),
                    Err(ended) => self.stop_if_wanted(ended)?,
                }
                let error = json!({ "step": "", "reason": "timeout", "message": "timed out" });
                let told = json!({ "input": input, "error": error, "attempts": 1 });
                let instead =
                    self.call(&letter.dead_letter_tool, &told, &format!("{at}/deadLetterTool"))?;
                if letter.rethrow { Err(Ended::Failed) } else { Ok(instead) }
            }
            Spec::ClaimCheck(check) => {
                let at = format!("{at}/claimCheck");
                let reference = self.call(&check.store_tool, input, &format!("{at}/storeTool"))?;
                let result = self.operation(&check.inner, &reference, &format!("{at}/inner"))?;
                if !check.retrieve_at_end {
                    return Ok(result);
                }
                self.call(&check.retrieve_tool, &reference, &format!("{at}/retrieveTool"))
            }
            Spec::Saga(saga) => self.saga(saga, input, &format!("{at}/saga")),
        }
    }

    fn scatter(&mut self, scatter: &ScatterGather, input: &Value, at: &str) -> Outcome {
        let mut arrived = Vec::new();
        for (i, target) in scatter.targets.iter().enumerate() {
            let at = format!("{at}/targets/{i}");
            let scope = BindingContext { input, steps: &BTreeMap::new(), error: None };
            let given = self.bound(target.input.as_ref(), input, scope, &format!("{at}/input"));
            // A late target is omitted even with `failFast`.
            let is_late = scatter.timeout_ms.is_some() && self.world.fails(&at);
            let result = given.and_then(|given| {
                if is_late {
                    return Ok(None);
                }
                self.operation(&target.operation, &given, &at).map(Some)
            });
            match result {
                Ok(value) => arrived.extend(value),
                Err(ended) if scatter.fail_fast => return Err(ended),
                Err(ended) => self.stop_if_wanted(ended)?,
            }
        }
        if arrived.is_empty() {
            return Err(Ended::Failed);
        }
        let mut value = Value::Array(arrived);
        for (i, op) in scatter.aggregation.iter().enumerate() {
            let at = format!("{at}/aggregation/ops/{i}");
            let before = value.clone();
            let items = before.as_array().cloned();
            let after = items
                .and_then(|items| aggregate(std::slice::from_ref(op), items, &mut budget()).ok());
            self.take(&at, &before, after.is_some())?;
            value = after.unwrap_or_default();
        }
        Ok(value)
    }

    /// The expected rejection ends the run even where the composition would continue.
    fn stop_if_wanted(&self, ended: Ended) -> Result<(), Ended> {
        match &ended {
            Ended::Refused { at, .. } if self.wanted.as_ref() == Some(at) => Err(ended),
            _ => Ok(()),
        }
    }

    fn or_else(
        &mut self,
        (inner, fallback): (&Operation, Option<&Operation>),
        input: &Value,
        at: &str,
    ) -> Outcome {
        let place = format!("{at}/inner");
        if let Some(fallback) = fallback
            && self.world.fails(&place)
        {
            return self.operation(fallback, input, &format!("{at}/fallback"));
        }
        self.operation(inner, input, &place)
    }

    fn saga(&mut self, saga: &registry_core::spec::Saga, input: &Value, at: &str) -> Outcome {
        if let Some(path) = &saga.saga_id_path {
            let found = keys(std::slice::from_ref(path), input, &mut budget()).unwrap();
            let is_key = found.first().is_some_and(|key| is_key(key));
            self.take(&format!("{at}/sagaIdPath"), &Value::Null, is_key)?;
        }
        let (mut results, mut last, mut inputs) = (BTreeMap::new(), input.clone(), Vec::new());
        let mut has_failed = false;
        for (i, step) in saga.steps.iter().enumerate() {
            let at = format!("{at}/steps/{i}");
            let scope = BindingContext { input, steps: &results, error: None };
            let given = self.bound(step.input.as_ref(), &last, scope, &format!("{at}/input"))?;
            let action = format!("{at}/action");
            has_failed = self.world.fails(&action);
            if has_failed {
                inputs.extend(step.compensate_on_unknown.then_some(given));
                break;
            }
            last = self.operation(&step.action, &given, &action)?;
            results.insert(step.id.clone(), last.clone());
            inputs.push(given);
        }
        // A failure, or a timeout after the last step, compensates the preceding steps.
        for (i, step) in saga.steps.iter().enumerate().take(inputs.len()) {
            let at = format!("{at}/steps/{i}");
            let is_wanted = self
                .wanted
                .as_ref()
                .is_some_and(|wanted| wanted.starts_with(&format!("{at}/compensate")));
            if let Some(compensate) = &step.compensate
                && is_wanted
            {
                let error = json!({ "step": "", "reason": "timeout", "message": "timed out" });
                let scope = BindingContext { input, steps: &results, error: Some(&error) };
                let (binding, place) =
                    (step.compensate_input.as_ref(), format!("{at}/compensateInput"));
                let given = self.bound(binding, &inputs[i], scope, &place)?;
                self.operation(compensate, &given, &format!("{at}/compensate"))?;
                return Err(Ended::Failed);
            }
        }
        if has_failed {
            return Err(Ended::Failed);
        }
        match &saga.output {
            Some(output) => {
                let scope = BindingContext { input, steps: &results, error: None };
                self.bound(Some(output), &Value::Null, scope, &format!("{at}/output"))
            }
            None => Ok(Value::Object(results.into_iter().collect())),
        }
    }
}

/// The operations that may fail or be skipped without ending the composition.
pub(crate) fn failable(spec: &Spec, at: &str, found: &mut BTreeSet<String>) {
    let mut inner = |operation: &Operation, at: String| {
        if let Operation::Pattern(spec) = operation {
            failable(spec, &format!("{at}/pattern"), found);
        }
    };
    match spec {
        Spec::Filter(_) | Spec::SchemaMap(_) => {}
        Spec::Pipeline(all) => {
            for (i, step) in all.steps.iter().enumerate() {
                inner(&step.operation, format!("{at}/pipeline/steps/{i}/operation"));
            }
        }
        Spec::Saga(saga) => {
            for (i, step) in saga.steps.iter().enumerate() {
                inner(&step.action, format!("{at}/saga/steps/{i}/action"));
            }
            for (i, step) in saga.steps.iter().enumerate() {
                if calls(&step.action) {
                    found.insert(format!("{at}/saga/steps/{i}/action"));
                }
            }
        }
        Spec::ScatterGather(scatter) => {
            for (i, target) in scatter.targets.iter().enumerate() {
                inner(&target.operation, format!("{at}/scatterGather/targets/{i}"));
            }
            for (i, target) in scatter.targets.iter().enumerate() {
                let is_complete = scatter.fail_fast && scatter.timeout_ms.is_none();
                if !is_complete && calls(&target.operation) {
                    found.insert(format!("{at}/scatterGather/targets/{i}"));
                }
            }
        }
        Spec::MapEach(each) => inner(&each.inner, format!("{at}/mapEach/inner")),
        Spec::Retry(retry) => inner(&retry.inner, format!("{at}/retry/inner")),
        Spec::Cache(cache) => inner(&cache.inner, format!("{at}/cache/inner")),
        Spec::Timeout(limit) => {
            inner(&limit.inner, format!("{at}/timeout/inner"));
            if let Some(fallback) = &limit.fallback {
                inner(fallback, format!("{at}/timeout/fallback"));
                if calls(&limit.inner) {
                    found.insert(format!("{at}/timeout/inner"));
                }
            }
        }
        Spec::CircuitBreaker(breaker) => {
            inner(&breaker.inner, format!("{at}/circuitBreaker/inner"));
            if let Some(fallback) = &breaker.fallback {
                inner(fallback, format!("{at}/circuitBreaker/fallback"));
                if calls(&breaker.inner) {
                    found.insert(format!("{at}/circuitBreaker/inner"));
                }
            }
        }
        Spec::Idempotent(once) => {
            inner(&once.inner, format!("{at}/idempotent/inner"));
            if once.on_duplicate == OnDuplicate::Skip {
                found.insert(format!("{at}/idempotent/inner"));
            }
        }
        Spec::DeadLetter(letter) => {
            inner(&letter.inner, format!("{at}/deadLetter/inner"));
            if calls(&letter.inner) {
                found.insert(format!("{at}/deadLetter/inner"));
            }
        }
        Spec::ClaimCheck(check) => inner(&check.inner, format!("{at}/claimCheck/inner")),
    }
}

fn calls(operation: &Operation) -> bool {
    match operation {
        Operation::Call(_) => true,
        Operation::Pattern(spec) => {
            matches!(**spec, Spec::DeadLetter(_) | Spec::ClaimCheck(_))
                || spec.operations().into_iter().any(calls)
        }
    }
}
