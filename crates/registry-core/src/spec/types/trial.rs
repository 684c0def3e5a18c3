//! Trial runs of a composition with sampled values, in search of a mismatch.
//!
//! A run uses the evaluator and the validators of real calls, so each example can really occur. The
//! number of runs is limited, so an example may be missed.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    rc::Rc,
};

use schema_compat::{
    compatibility::Budget as Comparing,
    pointer::Location,
    schema_compile::{Validator, compile},
};
use serde_json::{Value, json};

use super::{
    Checker, Signature, Witness,
    sample::{Scalars, samples},
    schema::{self, Definitions},
    shape::{Origin, Step},
};
use crate::spec::{
    Binding, OnDuplicate, Operation, ScatterGather, Spec, Target,
    eval::{self, BindingContext, Budget},
};

/// Maximum number of runs per destination.
const MOST: usize = 160;
/// The cost of a run or a call, in comparison steps.
const STEPS: usize = 16;
/// Limits of one run: the number of calls, and the bytes of one evaluation.
const CALLS: usize = 256;
const BYTES: usize = 1 << 18;
/// The destination of the composition's result.
pub(super) const RESULT: &str = "result";

/// The tools that a composition calls.
pub(super) struct Tools<'a> {
    called: &'a mut dyn FnMut(&Target) -> Signature,
    known: BTreeMap<Target, Rc<Tool>>,
    scalars: Scalars,
    /// The definitions of recursive schemas.
    pub(super) definitions: Definitions,
}

/// A tool that a composition calls.
pub(super) struct Tool {
    pub(super) input: Option<Value>,
    /// The schema of its results, converted to draft 2020-12.
    pub(super) gives: Option<Rc<Value>>,
    output: Option<Value>,
    takes: OnceCell<Option<Validator>>,
    is_given: OnceCell<Option<Validator>>,
    samples: OnceCell<Vec<Value>>,
}

impl<'a> Tools<'a> {
    pub(super) fn new(called: &'a mut dyn FnMut(&Target) -> Signature) -> Self {
        Self {
            called,
            known: BTreeMap::new(),
            scalars: Scalars::new(),
            definitions: Definitions::new(),
        }
    }

    pub(super) fn get(&mut self, target: &Target) -> Rc<Tool> {
        if let Some(known) = self.known.get(target) {
            return Rc::clone(known);
        }
        let Signature { input, output } = (self.called)(target);
        for schema in input.iter().chain(&output) {
            schema::definitions(schema, &mut self.definitions);
        }
        let tool = Rc::new(Tool {
            input,
            gives: output.as_ref().and_then(schema::modern).map(Rc::new),
            output,
            takes: OnceCell::new(),
            is_given: OnceCell::new(),
            samples: OnceCell::new(),
        });
        self.known.insert(target.clone(), Rc::clone(&tool));
        tool
    }

    /// Values that a schema accepts; objects if there is none.
    pub(super) fn samples(&mut self, schema: Option<&Value>, budget: &mut Comparing) -> Vec<Value> {
        match schema {
            Some(schema) => {
                let modern = schema::modern(schema).unwrap_or(Value::Bool(true));
                samples((schema, &modern), &self.definitions, &mut self.scalars, budget)
            }
            None => vec![json!({})],
        }
    }

    /// Results of a tool.
    fn results(&mut self, tool: &Tool, budget: &mut Comparing) -> Vec<Value> {
        let known = tool.samples.get().cloned();
        known.unwrap_or_else(|| {
            let samples = self.samples(tool.output.as_ref(), budget);
            tool.samples.get_or_init(|| samples).clone()
        })
    }
}

impl Tool {
    fn takes(&self, target: &Target, value: &Value) -> bool {
        if matches!(target, Target::Tool(_)) && !value.is_object() {
            return false;
        }
        accepts(&self.takes, self.input.as_ref(), value)
    }

    fn may_give(&self, value: &Value) -> bool {
        accepts(&self.is_given, self.output.as_ref(), value)
    }
}

fn accepts(known: &OnceCell<Option<Validator>>, schema: Option<&Value>, value: &Value) -> bool {
    let Some(schema) = schema else { return true };
    let validator = known.get_or_init(|| compile(schema, &|_| None).ok());
    validator.as_ref().is_none_or(|validator| validator.accepts(value) != Some(false))
}

/// A value and its location within a source.
type Part = (Rc<[Step]>, Value);

/// The run has ended early.
struct Stop;

/// One run.
struct Run<'r, 'a> {
    tools: &'r mut Tools<'a>,
    comparing: &'r mut Comparing,
    /// Selects the samples.
    seed: u64,
    /// Results of calls that are preferred over samples.
    guided: &'r BTreeMap<String, Vec<Value>>,
    failing: &'r BTreeSet<String>,
    results: BTreeMap<String, Vec<Value>>,
    calls: usize,
    goal: (&'r str, &'r dyn Fn(&Value) -> bool),
    hit: Option<Value>,
}

impl Checker<'_> {
    /// Searches for a run whose destination `at` rejects a value that satisfies `is_hit`. `guide`
    /// has parts of sources that are likely to cause it.
    pub(super) fn witness(
        &mut self,
        at: &str,
        is_hit: &dyn Fn(&Value) -> bool,
        guide: Vec<(Origin, Value)>,
    ) -> Option<Witness> {
        let guided = self.guided(guide);
        let failings = self.failings(at);
        let nothing = BTreeMap::new();
        let mut inputs = guided.get("").cloned().unwrap_or_default();
        inputs.extend(self.inputs());
        let validator = self.own_input.as_ref().and_then(|own| compile(own, &|_| None).ok());
        inputs.retain(|input| {
            let is_taken = validator.as_ref().map(|own| own.accepts(input) == Some(true));
            is_taken.unwrap_or(input.is_object())
        });
        let count = inputs.len();
        let mut output = None;
        for seed in 0..MOST {
            if count == 0 || self.budget.is_spent() {
                break;
            }
            self.budget.spend(STEPS);
            let round = seed / failings.len();
            let failing = &failings[seed % failings.len()];
            let input = &inputs[if round == 0 { 0 } else { round % count }];
            let is_guided = round % 3 != 2;
            let mut run = Run {
                tools: &mut self.tools,
                comparing: self.budget,
                seed: round as u64,
                guided: if is_guided { &guided } else { &nothing },
                failing,
                results: BTreeMap::new(),
                calls: 0,
                goal: (at, is_hit),
                hit: None,
            };
            let result = run.pattern(self.spec, input, Location::ROOT);
            if let Ok(result) = &result
                && at == RESULT
                && is_hit(result)
            {
                run.hit = Some(result.clone());
            }
            if let Some(value) = run.hit {
                output = Some(Witness {
                    input: input.clone(),
                    results: run.results,
                    failing: failing.clone(),
                    at: at.to_owned(),
                    value,
                });
                break;
            }
        }
        output
    }

    /// Samples of the composition's input.
    fn inputs(&mut self) -> Vec<Value> {
        let Self { inputs, tools, own_input, budget, .. } = self;
        inputs.get_or_insert_with(|| tools.samples(own_input.as_ref(), budget)).clone()
    }

    /// Combinations of failing operations to try for a destination.
    fn failings(&self, at: &str) -> Vec<BTreeSet<String>> {
        const GROUPS: usize = 16;
        let leads = |pointer: &String| {
            let next = at.strip_prefix(pointer.as_str());
            next.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        // A failed saga step causes only compensations to run.
        let is_useful = |pointer: &String| {
            let Some(step) = pointer.strip_suffix("/action") else { return true };
            let steps = step.rsplit_once('/').map_or("", |(steps, _)| steps);
            at.strip_prefix(steps).is_some_and(|rest| rest.contains("/compensate"))
        };
        let each = self.failable.iter().flatten();
        let each = each.filter(|pointer| !leads(pointer) && is_useful(pointer));
        // A fallback runs only if its inner operation fails.
        let is_needed = |pointer: &&String| {
            let around = pointer.strip_suffix("/inner").unwrap_or(pointer);
            ["/fallback/", "/deadLetterTool"]
                .iter()
                .any(|place| at.starts_with(&format!("{around}{place}")))
        };
        let needed: BTreeSet<String> = each.clone().filter(is_needed).cloned().collect();
        let mut all = vec![needed.clone()];
        let with = |more: Vec<String>| {
            let mut all = needed.clone();
            all.extend(more);
            all
        };
        all.extend(each.clone().map(|one| with(vec![one.clone()])));
        for group in self.failable.iter().filter(|group| group.len() > 1) {
            for one in group {
                let others = group.iter().filter(|other| *other != one && !leads(other));
                all.push(with(others.cloned().collect()));
            }
        }
        all.dedup();
        all.truncate(GROUPS);
        all
    }

    /// Values of sources with these parts, if the sources accept them.
    fn guided(&mut self, guide: Vec<(Origin, Value)>) -> BTreeMap<String, Vec<Value>> {
        let mut by_source: BTreeMap<String, Vec<Part>> = BTreeMap::new();
        for (origin, value) in guide {
            by_source.entry(origin.source.to_string()).or_default().push((origin.path, value));
        }
        let mut guided = BTreeMap::new();
        for (source, parts) in by_source {
            let target = target_at(self.spec, &source);
            let tool = target.map(|target| self.tools.get(target));
            let bases = match &tool {
                Some(tool) => self.tools.results(tool, self.budget),
                None => self.inputs(),
            };
            let mut found: Vec<Value> = Vec::new();
            for (_, value) in parts.iter().filter(|(path, _)| path.is_empty()) {
                found.push(value.clone());
            }
            if found.is_empty() {
                for base in bases {
                    // Selected items may be all or some items of their array.
                    for is_all in [true, false] {
                        let value = patched(base.clone(), &parts, is_all);
                        if tool.as_ref().is_none_or(|tool| tool.may_give(&value)) {
                            found.push(value);
                        }
                    }
                }
            } else {
                found.retain(|value| tool.as_ref().is_none_or(|tool| tool.may_give(value)));
            }
            if !found.is_empty() {
                guided.insert(source, found);
            }
        }
        guided
    }
}

/// A value with replaced parts. `is_all` means that arrays contain only the selected items.
fn patched(mut base: Value, parts: &[Part], is_all: bool) -> Value {
    // Items that are selected together are consecutive.
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for (path, value) in parts {
        let mut place = &mut base;
        for (depth, step) in path.iter().enumerate() {
            match step {
                Step::Name(name) => {
                    if !place.is_object() {
                        *place = json!({});
                    }
                    place = &mut place[name.as_str()];
                }
                Step::Position(_) | Step::Slice(_) | Step::Each { .. } => {
                    if !place.is_array() {
                        *place = json!([]);
                    }
                    let Value::Array(items) = place else { return base };
                    let at = match step {
                        Step::Position(at) if *at < 0 => usize::try_from(at.unsigned_abs())
                            .map_or(0, |at| items.len().saturating_sub(at)),
                        Step::Position(at) => usize::try_from(*at).unwrap_or(0),
                        Step::Slice(slice) => {
                            let next = counts.entry(depth).or_default();
                            let start = slice.start.and_then(|start| usize::try_from(start).ok());
                            *next += 1;
                            start.unwrap_or(0).saturating_add(*next - 1)
                        }
                        _ => {
                            let next = counts.entry(depth).or_default();
                            *next += 1;
                            *next - 1
                        }
                    };
                    if at > 64 {
                        return base;
                    }
                    let fill = items.first().unwrap_or(value).clone();
                    while items.len() <= at {
                        items.push(fill.clone());
                    }
                    if is_all && matches!(step, Step::Each { .. }) {
                        items.truncate(at + 1);
                    }
                    place = &mut items[at];
                }
            }
        }
        *place = value.clone();
    }
    base
}

/// The target of the call at a JSON pointer of a spec.
fn target_at<'s>(spec: &'s Spec, pointer: &str) -> Option<&'s Target> {
    let mut found = None;
    each_call(spec, Location::ROOT, &mut |target, at| {
        if found.is_none() && at.to_string() == pointer {
            found = Some(target);
        }
    });
    found
}

fn each_call<'s>(
    spec: &'s Spec,
    at: Location<'_>,
    visit: &mut dyn FnMut(&'s Target, Location<'_>),
) {
    let mut operation = |operation: &'s Operation, at: Location<'_>| match operation {
        Operation::Call(target @ Target::Tool(_)) => visit(target, at.member("tool")),
        Operation::Call(target) => visit(target, at.member("agent")),
        Operation::Pattern(spec) => each_call(spec, at.member("pattern"), visit),
    };
    match spec {
        Spec::Filter(_) | Spec::SchemaMap(_) => {}
        Spec::Pipeline(pipeline) => {
            let at = at.member("pipeline");
            let at = at.member("steps");
            for (i, step) in pipeline.steps.iter().enumerate() {
                operation(&step.operation, at.index(i).member("operation"));
            }
        }
        Spec::ScatterGather(scatter) => {
            let at = at.member("scatterGather");
            let at = at.member("targets");
            for (i, target) in scatter.targets.iter().enumerate() {
                operation(&target.operation, at.index(i));
            }
        }
        Spec::Saga(saga) => {
            let at = at.member("saga");
            let at = at.member("steps");
            for (i, step) in saga.steps.iter().enumerate() {
                let at = at.index(i);
                operation(&step.action, at.member("action"));
                if let Some(compensate) = &step.compensate {
                    operation(compensate, at.member("compensate"));
                }
            }
        }
        Spec::MapEach(each) => operation(&each.inner, at.member("mapEach").member("inner")),
        Spec::Retry(retry) => operation(&retry.inner, at.member("retry").member("inner")),
        Spec::Cache(cache) => operation(&cache.inner, at.member("cache").member("inner")),
        Spec::Idempotent(once) => operation(&once.inner, at.member("idempotent").member("inner")),
        Spec::Timeout(limit) => {
            let at = at.member("timeout");
            operation(&limit.inner, at.member("inner"));
            if let Some(fallback) = &limit.fallback {
                operation(fallback, at.member("fallback"));
            }
        }
        Spec::CircuitBreaker(breaker) => {
            let at = at.member("circuitBreaker");
            operation(&breaker.inner, at.member("inner"));
            if let Some(fallback) = &breaker.fallback {
                operation(fallback, at.member("fallback"));
            }
        }
        Spec::DeadLetter(letter) => {
            let at = at.member("deadLetter");
            operation(&letter.inner, at.member("inner"));
            visit(&letter.dead_letter_tool, at.member("deadLetterTool"));
        }
        Spec::ClaimCheck(check) => {
            let at = at.member("claimCheck");
            operation(&check.inner, at.member("inner"));
            visit(&check.store_tool, at.member("storeTool"));
            visit(&check.retrieve_tool, at.member("retrieveTool"));
        }
    }
}

impl Run<'_, '_> {
    /// Ends the run, because a destination rejects a value.
    fn refused(&mut self, at: Location<'_>, value: &Value) -> Stop {
        let (goal, is_hit) = self.goal;
        if self.hit.is_none() && at.to_string() == goal && is_hit(value) {
            self.hit = Some(value.clone());
        }
        Stop
    }

    fn call(&mut self, target: &Target, input: &Value, at: Location<'_>) -> Result<Value, Stop> {
        let tool = self.tools.get(target);
        if !tool.takes(target, input) {
            return Err(self.refused(at, input));
        }
        self.calls += 1;
        self.comparing.spend(STEPS);
        if self.calls > CALLS {
            return Err(Stop);
        }
        let place = at.to_string();
        let count = self.results.get(&place).map_or(0, Vec::len);
        let value = if let Some(guided) = self.guided.get(&place) {
            let first = usize::try_from(self.seed).unwrap_or(0);
            guided[(first + count) % guided.len()].clone()
        } else {
            let samples = self.tools.results(&tool, self.comparing);
            if samples.is_empty() {
                return Err(Stop);
            }
            let mut hasher = DefaultHasher::new();
            (self.seed, &place, count).hash(&mut hasher);
            let chosen = hasher.finish() % samples.len() as u64;
            let chosen = if self.seed == 0 { 0 } else { usize::try_from(chosen).unwrap_or(0) };
            samples[chosen].clone()
        };
        self.results.entry(place).or_default().push(value.clone());
        Ok(value)
    }

    fn operation(
        &mut self,
        operation: &Operation,
        input: &Value,
        at: Location<'_>,
    ) -> Result<Value, Stop> {
        if self.failing.contains(&at.to_string()) {
            return Err(Stop);
        }
        match operation {
            Operation::Call(target @ Target::Tool(_)) => {
                self.call(target, input, at.member("tool"))
            }
            Operation::Call(target) => self.call(target, input, at.member("agent")),
            Operation::Pattern(spec) => self.pattern(spec, input, at.member("pattern")),
        }
    }

    fn bound(
        &mut self,
        binding: Option<&Binding>,
        otherwise: &Value,
        scope: BindingContext<'_>,
        at: Location<'_>,
    ) -> Result<Value, Stop> {
        let Some(binding) = binding else { return Ok(otherwise.clone()) };
        let bound = binding.resolve(scope, &mut Budget::new(BYTES));
        bound.map_err(|_| self.refused(at, &Value::Null))
    }

    fn pattern(&mut self, spec: &Spec, input: &Value, at: Location<'_>) -> Result<Value, Stop> {
        match spec {
            Spec::Pipeline(pipeline) => {
                let at = at.member("pipeline");
                let at = at.member("steps");
                let (mut results, mut last) = (BTreeMap::new(), input.clone());
                for (i, step) in pipeline.steps.iter().enumerate() {
                    let at = at.index(i);
                    let scope = BindingContext { input, steps: &results, error: None };
                    let given =
                        self.bound(step.input.as_ref(), &last, scope, at.member("input"))?;
                    last = self.operation(&step.operation, &given, at.member("operation"))?;
                    results.insert(step.id.clone(), last.clone());
                }
                Ok(last)
            }
            Spec::ScatterGather(scatter) => {
                self.scatter(scatter, input, at.member("scatterGather"))
            }
            Spec::Filter(filter) => {
                let kept = filter.apply(input.clone(), &mut Budget::new(BYTES));
                kept.map_err(|_| self.refused(at.member("filter"), input))
            }
            Spec::SchemaMap(mappings) => {
                mappings.apply(input, &mut Budget::new(BYTES)).map_err(|_| Stop)
            }
            Spec::MapEach(each) => {
                let at = at.member("mapEach");
                let Value::Array(items) = input else { return Err(self.refused(at, input)) };
                let at = at.member("inner");
                let results = items.iter().map(|item| self.operation(&each.inner, item, at));
                results.collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
            Spec::Saga(saga) => self.saga(saga, input, at.member("saga")),
            Spec::Retry(retry) => {
                self.operation(&retry.inner, input, at.member("retry").member("inner"))
            }
            Spec::Cache(cache) => {
                self.operation(&cache.inner, input, at.member("cache").member("inner"))
            }
            Spec::Timeout(limit) => {
                let both = (&limit.inner, limit.fallback.as_ref());
                self.or_else(both, input, at.member("timeout"))
            }
            Spec::CircuitBreaker(breaker) => {
                let both = (&breaker.inner, breaker.fallback.as_ref());
                self.or_else(both, input, at.member("circuitBreaker"))
            }
            Spec::Idempotent(once) => {
                let at = at.member("idempotent");
                let keys = eval::keys(&once.key_paths, input, &mut Budget::new(BYTES));
                for (i, key) in keys.map_err(|_| Stop)?.into_iter().enumerate() {
                    if key.iter().all(Value::is_null) {
                        return Err(self.refused(at.member("keyPaths").index(i), &Value::Null));
                    }
                }
                let place = at.member("inner");
                let is_skipped = self.failing.contains(&place.to_string());
                if once.on_duplicate == OnDuplicate::Skip && is_skipped {
                    return Ok(Value::Null);
                }
                self.operation(&once.inner, input, place)
            }
            Spec::DeadLetter(letter) => {
                let at = at.member("deadLetter");
                let place = at.member("inner");
                if let Ok(result) = self.operation(&letter.inner, input, place) {
                    return Ok(result);
                }
                if self.hit.is_some() || !self.failing.contains(&place.to_string()) {
                    return Err(Stop);
                }
                let error = json!({ "step": "", "reason": "timeout", "message": "timed out" });
                let label = json!({ "input": input, "error": error, "attempts": 1 });
                let instead =
                    self.call(&letter.dead_letter_tool, &label, at.member("deadLetterTool"))?;
                if letter.rethrow { Err(Stop) } else { Ok(instead) }
            }
            Spec::ClaimCheck(check) => {
                let at = at.member("claimCheck");
                let reference = self.call(&check.store_tool, input, at.member("storeTool"))?;
                let result = self.operation(&check.inner, &reference, at.member("inner"))?;
                if !check.retrieve_at_end {
                    return Ok(result);
                }
                self.call(&check.retrieve_tool, &reference, at.member("retrieveTool"))
            }
        }
    }

    fn or_else(
        &mut self,
        (inner, fallback): (&Operation, Option<&Operation>),
        input: &Value,
        at: Location<'_>,
    ) -> Result<Value, Stop> {
        let place = at.member("inner");
        if let Some(fallback) = fallback
            && self.failing.contains(&place.to_string())
        {
            return self.operation(fallback, input, at.member("fallback"));
        }
        self.operation(inner, input, place)
    }

    fn scatter(
        &mut self,
        scatter: &ScatterGather,
        input: &Value,
        at: Location<'_>,
    ) -> Result<Value, Stop> {
        let targets = at.member("targets");
        let mut arrived = Vec::new();
        for (i, target) in scatter.targets.iter().enumerate() {
            let at = targets.index(i);
            let scope = BindingContext { input, steps: &BTreeMap::new(), error: None };
            let given = self.bound(target.input.as_ref(), input, scope, at.member("input"));
            let is_late = scatter.timeout_ms.is_some() && self.failing.contains(&at.to_string());
            let result = given.and_then(|given| {
                if is_late {
                    return Ok(None);
                }
                self.operation(&target.operation, &given, at).map(Some)
            });
            match result {
                Ok(value) => arrived.extend(value),
                Err(stop) if scatter.fail_fast || self.hit.is_some() => return Err(stop),
                Err(_) => {}
            }
        }
        if arrived.is_empty() {
            return Err(Stop);
        }
        let at = at.member("aggregation");
        let at = at.member("ops");
        let mut value = Value::Array(arrived);
        for (i, op) in scatter.aggregation.iter().enumerate() {
            let before = value;
            let Value::Array(items) = &before else {
                return Err(self.refused(at.index(i), &before));
            };
            let applied =
                eval::aggregate(std::slice::from_ref(op), items.clone(), &mut Budget::new(BYTES));
            value = match applied {
                Ok(value) => value,
                Err(_) => return Err(self.refused(at.index(i), &before)),
            };
        }
        Ok(value)
    }

    fn saga(
        &mut self,
        saga: &crate::spec::Saga,
        input: &Value,
        at: Location<'_>,
    ) -> Result<Value, Stop> {
        if let Some(path) = &saga.saga_id_path {
            let keys = eval::keys(std::slice::from_ref(path), input, &mut Budget::new(BYTES));
            if keys.map_err(|_| Stop)?.concat().iter().all(Value::is_null) {
                return Err(self.refused(at.member("sagaIdPath"), &Value::Null));
            }
        }
        let all = at.member("steps");
        let (mut results, mut last) = (BTreeMap::new(), input.clone());
        let (mut inputs, mut has_failed) = (Vec::new(), false);
        for (i, step) in saga.steps.iter().enumerate() {
            let at = all.index(i);
            let scope = BindingContext { input, steps: &results, error: None };
            let given = self.bound(step.input.as_ref(), &last, scope, at.member("input"))?;
            let action = at.member("action");
            has_failed = self.failing.contains(&action.to_string());
            if has_failed {
                // A compensation for an unknown outcome runs without the result.
                inputs.extend(step.compensate_on_unknown.then_some(given));
                break;
            }
            last = self.operation(&step.action, &given, action)?;
            results.insert(step.id.clone(), last.clone());
            inputs.push(given);
        }
        // A failure, or a timeout after the last step, compensates the steps before it.
        let (goal, _) = self.goal;
        let leads_to_compensation = |at: &Location<'_>| {
            let at = at.to_string();
            goal.starts_with(&format!("{at}/compensate"))
        };
        if let Some(i) = (0..inputs.len()).find(|i| leads_to_compensation(&all.index(*i))) {
            let (step, at) = (&saga.steps[i], all.index(i));
            let error = json!({ "step": "", "reason": "timeout", "message": "timed out" });
            let scope = BindingContext { input, steps: &results, error: Some(&error) };
            let binding = step.compensate_input.as_ref();
            let given = self.bound(binding, &inputs[i], scope, at.member("compensateInput"))?;
            if let Some(compensate) = &step.compensate {
                self.operation(compensate, &given, at.member("compensate"))?;
            }
            return Err(Stop);
        }
        if has_failed {
            return Err(Stop);
        }
        match &saga.output {
            Some(output) => {
                let scope = BindingContext { input, steps: &results, error: None };
                self.bound(Some(output), &Value::Null, scope, at.member("output"))
            }
            None => Ok(Value::Object(results.into_iter().collect())),
        }
    }
}
