//! The result shape of each pattern for its input. Calls on the way are checked.
//!
//! Conditions are ignored: the result is as wide as the input.

use std::collections::BTreeSet;

use schema_compat::pointer::Location;
use serde_json::{Value, json};

use super::{
    Checker,
    fit::Destination,
    label::{Given, Label, Source, ValueContext},
    schema::Kinds,
    select::{Presence, names, select, undeclared},
    shape::{Array, MANY, Member, Object, Shape},
};
use crate::spec::{
    AggregationOp, DeadLetter, FieldPath, FieldSource, MapEach, Mappings, OnDuplicate, Operation,
    Path, Pipeline, Predicate, PredicateOp, Saga, ScatterGather, Spec, Target,
};

impl Checker<'_> {
    /// `subject` names the input in messages; it is empty for the composition's own.
    pub(super) fn pattern(
        &mut self,
        spec: &Spec,
        given: &Given,
        subject: &str,
        at: Location<'_>,
    ) -> Given {
        let result = |shape| Given { shape, label: Label::whole("the result", at.to_string()) };
        match spec {
            Spec::Pipeline(pipeline) => {
                self.pipeline(pipeline, &scoped(given, subject), at.member("pipeline"))
            }
            Spec::ScatterGather(scatter) => {
                self.scatter(scatter, &scoped(given, subject), at.member("scatterGather"))
            }
            Spec::Filter(filter) => {
                self.takes_array(given, subject_of(subject), "`filter`", at.member("filter"));
                result(filtered(&filter.predicate, &given.shape))
            }
            Spec::SchemaMap(mappings) => result(mapped(mappings, &given.shape)),
            Spec::MapEach(each) => self.map_each(each, given, subject, at.member("mapEach")),
            Spec::Saga(saga) => self.saga(saga, &scoped(given, subject), at.member("saga")),
            Spec::Retry(retry) => {
                self.operation(&retry.inner, given, subject, at.member("retry").member("inner"))
            }
            Spec::Timeout(limit) => {
                let both = (&limit.inner, limit.fallback.as_ref());
                self.or_else(both, given, subject, at.member("timeout"))
            }
            Spec::CircuitBreaker(breaker) => {
                let both = (&breaker.inner, breaker.fallback.as_ref());
                self.or_else(both, given, subject, at.member("circuitBreaker"))
            }
            Spec::Cache(cache) => {
                let at = at.member("cache");
                for (i, path) in cache.key_paths.iter().enumerate() {
                    self.is_cache_key(path, given, subject, at.member("keyPaths").index(i));
                }
                self.operation(&cache.inner, given, subject, at.member("inner"))
            }
            Spec::Idempotent(once) => {
                let at = at.member("idempotent");
                for (i, path) in once.key_paths.iter().enumerate() {
                    self.is_key(path, given, subject, at.member("keyPaths").index(i));
                }
                let inner = at.member("inner");
                let done = self.operation(&once.inner, given, subject, inner);
                if once.on_duplicate == OnDuplicate::Skip {
                    self.failable.push(BTreeSet::from([inner.to_string()]));
                }
                match once.on_duplicate {
                    OnDuplicate::Cached | OnDuplicate::Error => done,
                    OnDuplicate::Skip => {
                        result(Shape::any([done.shape, Shape::constant(&Value::Null)]))
                    }
                }
            }
            Spec::DeadLetter(letter) => {
                self.dead_letter(letter, given, subject, at.member("deadLetter"))
            }
            Spec::ClaimCheck(check) => {
                let at = at.member("claimCheck");
                let stored = self.call(&check.store_tool, given, subject, at.member("storeTool"));
                let inner = at.member("inner");
                let result = self.operation(&check.inner, &stored, "input of `inner`", inner);
                if !check.retrieve_at_end {
                    return result;
                }
                let place = at.member("retrieveTool");
                self.call(&check.retrieve_tool, &stored, "input of `retrieveTool`", place)
            }
        }
    }

    fn operation(
        &mut self,
        operation: &Operation,
        given: &Given,
        subject: &str,
        at: Location<'_>,
    ) -> Given {
        match operation {
            Operation::Call(target @ Target::Tool(_)) => {
                self.call(target, given, subject, at.member("tool"))
            }
            Operation::Call(target) => self.call(target, given, subject, at.member("agent")),
            Operation::Pattern(spec) => self.pattern(spec, given, subject, at.member("pattern")),
        }
    }

    fn or_else(
        &mut self,
        (inner, fallback): (&Operation, Option<&Operation>),
        given: &Given,
        subject: &str,
        at: Location<'_>,
    ) -> Given {
        let place = at.member("inner");
        let done = self.operation(inner, given, subject, place);
        let Some(fallback) = fallback else { return done };
        self.may_fail(inner, place);
        let instead =
            self.operation(fallback, given, "input of the fallback", at.member("fallback"));
        let label = Label::whole("the result", at.to_string());
        Given { shape: Shape::any([done.shape, instead.shape]), label }
    }

    /// Records an operation that may fail or time out without ending the composition.
    fn may_fail(&mut self, operation: &Operation, at: Location<'_>) {
        if calls_something(operation) {
            self.failable.push(BTreeSet::from([at.to_string()]));
        }
    }

    fn dead_letter(
        &mut self,
        letter: &DeadLetter,
        given: &Given,
        subject: &str,
        at: Location<'_>,
    ) -> Given {
        let place = at.member("inner");
        let done = self.operation(&letter.inner, given, subject, place);
        self.may_fail(&letter.inner, place);
        let sure = Member::sure;
        let message = Shape::object([
            ("input".to_owned(), sure(given.shape.clone())),
            ("error".to_owned(), sure(failure())),
            (
                "attempts".to_owned(),
                sure(Shape::schema(json!({ "type": "integer", "minimum": 1 }))),
            ),
        ]);
        let at = at.member("deadLetterTool");
        let label = Label::whole("the dead letter", at.to_string());
        let message = Given { shape: message, label };
        let place = "input of the dead-letter tool";
        let instead = self.call(&letter.dead_letter_tool, &message, place, at);
        if letter.rethrow {
            return done;
        }
        let label = Label::whole("the result", at.to_string());
        Given { shape: Shape::any([done.shape, instead.shape]), label }
    }

    fn map_each(
        &mut self,
        each: &MapEach,
        given: &Given,
        subject: &str,
        at: Location<'_>,
    ) -> Given {
        self.takes_array(given, subject_of(subject), "`mapEach`", at);
        let array = given.shape.items();
        let (item, min, max) = match &array {
            Some(array) => (array.each(), array.min, array.max),
            None => (Shape::Unknown(None), 0, MANY),
        };
        let item =
            Given { shape: item, label: Label::whole("an item", given.label.pointer.clone()) };
        let inner = at.member("inner");
        let result = self.optionally(min == 0, |checker| {
            checker.operation(&each.inner, &item, "input for each item", inner)
        });
        let label = Label::whole("the result", at.to_string());
        Given { shape: Shape::array(result.shape, (min, max)), label }
    }

    fn pipeline(&mut self, pipeline: &Pipeline, given: &Given, at: Location<'_>) -> Given {
        let at = at.member("steps");
        let mut steps: Vec<(&str, Given)> = Vec::new();
        for (i, step) in pipeline.steps.iter().enumerate() {
            let at = at.index(i);
            let subject = format!("input of step \"{}\"", step.id);
            let previous = steps.last().map_or(given, |(_, result)| result);
            let bound = (step.input.as_ref(), previous);
            let scope =
                ValueContext { input: given, steps: &steps, completed: steps.len(), error: None };
            let taken = self.given(bound, scope, &subject, at.member("input"));
            let done = self.operation(&step.operation, &taken, &subject, at.member("operation"));
            steps.push((&step.id, result_of(&step.id, done, at)));
        }
        steps.pop().map_or_else(|| given.clone(), |(_, result)| result)
    }

    fn scatter(&mut self, scatter: &ScatterGather, given: &Given, at: Location<'_>) -> Given {
        let targets = at.member("targets");
        // The timeout omits late targets even with `failFast`.
        let is_complete = scatter.fail_fast && scatter.timeout_ms.is_none();
        let (mut results, mut groups) = (Vec::new(), BTreeSet::new());
        for (i, target) in scatter.targets.iter().enumerate() {
            let at = targets.index(i);
            let subject = format!("input of target {i}");
            let scope = ValueContext { input: given, steps: &[], completed: 0, error: None };
            let bound = (target.input.as_ref(), given);
            let taken = self.given(bound, scope, &subject, at.member("input"));
            results.push(self.operation(&target.operation, &taken, &subject, at).shape);
            if !is_complete && calls_something(&target.operation) {
                groups.insert(at.to_string());
            }
        }
        self.failable.push(groups);
        let ops = at.member("aggregation");
        let ops = ops.member("ops");
        let label = Label::whole("the gathered results", at.to_string());
        let mut flow = Given { shape: gathered(&results, is_complete), label };
        for (i, op) in scatter.aggregation.iter().enumerate() {
            let at = ops.index(i);
            let whose = format!("`{}`", op_name(op));
            let expected = match op {
                AggregationOp::Merge => json!({ "type": "array", "items": { "type": "object" } }),
                _ => json!({ "type": "array" }),
            };
            let sink = Destination {
                subject: "aggregation",
                whose: &whose,
                expected: &expected,
                at: at.to_string(),
                remedy: Some(match op {
                    AggregationOp::Merge => {
                        "make every target return an object, because only objects can be merged"
                    }
                    _ => "move this operation before `merge`, because it needs an array",
                }),
            };
            flow.label.pointer = at.to_string();
            self.fits(&flow, &sink);
            flow.shape = aggregated(op, &flow.shape);
        }
        flow
    }

    fn saga(&mut self, saga: &Saga, given: &Given, at: Location<'_>) -> Given {
        if let Some(path) = &saga.saga_id_path {
            self.is_key(path, given, "", at.member("sagaIdPath"));
        }
        let all = at.member("steps");
        let (mut steps, mut inputs): (Vec<(&str, Given)>, Vec<Given>) = Default::default();
        for (i, step) in saga.steps.iter().enumerate() {
            let at = all.index(i);
            let subject = format!("input of step \"{}\"", step.id);
            let previous = steps.last().map_or(given, |(_, result)| result);
            let bound = (step.input.as_ref(), previous);
            let scope =
                ValueContext { input: given, steps: &steps, completed: steps.len(), error: None };
            let taken = self.given(bound, scope, &subject, at.member("input"));
            let done = self.operation(&step.action, &taken, &subject, at.member("action"));
            // A failure compensates the preceding steps.
            self.may_fail(&step.action, at.member("action"));
            steps.push((&step.id, result_of(&step.id, done, at)));
            inputs.push(taken);
        }
        let label = Label::whole("the error", at.to_string());
        let error = Given { shape: failure(), label };
        for (i, (step, taken)) in saga.steps.iter().zip(&inputs).enumerate() {
            let Some(compensate) = &step.compensate else { continue };
            let at = all.index(i);
            let subject = format!("input of the compensation of step \"{}\"", step.id);
            let bound = (step.compensate_input.as_ref(), taken);
            // Later steps may not have completed. With an unknown outcome, neither may this one.
            let completed = if step.compensate_on_unknown { i } else { i + 1 };
            let scope =
                ValueContext { input: given, steps: &steps, completed, error: Some(&error) };
            let taken = self.given(bound, scope, &subject, at.member("compensateInput"));
            self.operation(compensate, &taken, &subject, at.member("compensate"));
        }
        let label = Label::whole("the result", at.to_string());
        let Some(output) = &saga.output else {
            let member = |(id, result): (&str, Given)| (id.to_owned(), Member::sure(result.shape));
            return Given { shape: Shape::object(steps.into_iter().map(member)), label };
        };
        let scope =
            ValueContext { input: given, steps: &steps, completed: steps.len(), error: None };
        let nothing = Given { shape: Shape::Unknown(None), label };
        self.given((Some(output), &nothing), scope, "output", at.member("output"))
    }

    /// Warns of a path that never selects a part of the key, because a cache accepts an empty key.
    fn is_cache_key(&mut self, path: &Path, given: &Given, subject: &str, at: Location<'_>) {
        let selected = select(path, &given.shape);
        if selected.presence == Presence::Never {
            self.ignored_key(&key_label(path, given, subject, at), at);
        }
    }

    /// Checks that a path selects a key.
    fn is_key(&mut self, path: &Path, given: &Given, subject: &str, at: Location<'_>) {
        let selected = select(path, &given.shape);
        let from = key_label(path, given, subject, at);
        if self.is_present(&selected, &from, "key", at) {
            let none = json!({ "type": "null" });
            let expected = if path.is_singular() {
                json!({ "not": none })
            } else {
                // Several values are an invalid key if all of them are null.
                let nulls = json!({ "type": "array", "items": none, "minItems": 2 });
                json!({ "not": { "anyOf": [none, nulls] } })
            };
            let whose = "a key";
            let remedy = Some("use a field that is never null as a key");
            let (expected, at) = (&expected, at.to_string());
            let sink = Destination { subject: "key", whose, expected, at, remedy };
            self.fits(&Given { shape: selected.shape, label: from }, &sink);
        }
    }
}

/// The label of a key.
fn key_label(path: &Path, given: &Given, subject: &str, at: Location<'_>) -> Label {
    let undeclared = undeclared(path, &given.shape);
    let (path, of) = (path.as_str().to_owned(), input_of(subject));
    let from = Source::Path { path, of, undeclared, is_pending: false };
    Label { pointer: at.to_string(), is_binding: true, from }
}

/// The failure of an operation as gateways describe it.
fn failure() -> Shape {
    let text = json!({ "type": "string" });
    Shape::schema(json!({ "type": "object", "required": ["message", "reason", "step"],
        "properties": { "message": text, "reason": text, "step": text, "tool": text } }))
}

fn subject_of(subject: &str) -> &str {
    if subject.is_empty() { "input" } else { subject }
}

fn input_of(subject: &str) -> String {
    if subject.is_empty() {
        "the input of the composition".to_owned()
    } else {
        format!("the {subject}")
    }
}

/// A pattern's input, as referred to by its bindings.
fn scoped(given: &Given, subject: &str) -> Given {
    let label = Label::whole(&input_of(subject), given.label.pointer.clone());
    Given { shape: given.shape.clone(), label }
}

fn result_of(id: &str, done: Given, at: Location<'_>) -> Given {
    Given {
        shape: done.shape,
        label: Label::whole(&format!("the result of \"{id}\""), at.to_string()),
    }
}

fn op_name(op: &AggregationOp) -> &'static str {
    match op {
        AggregationOp::Flatten => "flatten",
        AggregationOp::Concat => "concat",
        AggregationOp::Sort { .. } => "sort",
        AggregationOp::Dedupe { .. } => "dedupe",
        AggregationOp::Limit { .. } => "limit",
        AggregationOp::Merge => "merge",
    }
}

/// Whether an operation itself can fail.
fn calls_something(operation: &Operation) -> bool {
    match operation {
        Operation::Call(_) => true,
        Operation::Pattern(spec) => {
            matches!(**spec, Spec::DeadLetter(_) | Spec::ClaimCheck(_))
                || spec.operations().into_iter().any(calls_something)
        }
    }
}

/// The results of targets in order.
fn gathered(results: &[Shape], is_complete: bool) -> Shape {
    let count = results.len() as u64;
    let at = |i: usize| {
        // A failed or late target is omitted, so a later result may take its position.
        if is_complete { results[i].clone() } else { Shape::any(results[i..].iter().cloned()) }
    };
    let first = (0..results.len()).map(at).collect();
    let min = if is_complete { count } else { 1 };
    Shape::Array(Array { first, rest: Shape::nothing(), min, max: count }.into())
}

/// The items selected by a predicate.
fn filtered(predicate: &Predicate, shape: &Shape) -> Shape {
    let Some(array) = shape.items() else { return Shape::array(Shape::Unknown(None), (0, MANY)) };
    let kept = match predicate.op {
        PredicateOp::Eq => Some(json!({ "const": predicate.value })),
        PredicateOp::In => Some(json!({ "enum": predicate.value })),
        _ => None,
    };
    let item = match (kept, names(&predicate.field)) {
        (Some(kept), Some(names)) => array.each().narrowed(&names, &kept),
        _ => array.each(),
    };
    Shape::array(item, (0, array.max))
}

/// The shape after an aggregation operation.
fn aggregated(op: &AggregationOp, shape: &Shape) -> Shape {
    let Some(array) = shape.items() else { return Shape::Unknown(None) };
    match op {
        AggregationOp::Concat => Shape::Array(array.into()),
        AggregationOp::Sort { .. } => Shape::array(array.each(), (array.min, array.max)),
        AggregationOp::Dedupe { .. } => {
            let first: Vec<_> = (array.max > 0).then(|| array.at(0).clone()).into_iter().collect();
            let (rest, min, max) = (array.each(), array.min.min(1), array.max);
            Shape::Array(Array { first, rest, min, max }.into())
        }
        AggregationOp::Limit { count } => {
            let mut first = array.first;
            first.truncate(usize::try_from(*count).unwrap_or(usize::MAX));
            let (min, max) = (array.min.min(*count), array.max.min(*count));
            Shape::Array(Array { first, rest: array.rest, min, max }.into())
        }
        AggregationOp::Flatten => flattened(&array),
        AggregationOp::Merge => merged(&array),
    }
}

/// The items that `flatten` produces from one item.
fn levelled(item: &Shape) -> Array {
    let arrays = item.items();
    let kinds = item.kinds();
    let own = (kinds != Kinds::ARRAY).then(|| {
        let shape = if kinds.has(Kinds::ARRAY) { not_an_array(item) } else { item.clone() };
        Array { first: vec![shape], rest: Shape::nothing(), min: 1, max: 1 }
    });
    match (arrays, own) {
        (Some(arrays), Some(own)) => arrays.or(own),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => Array { first: Vec::new(), rest: Shape::nothing(), min: 0, max: 0 },
    }
}

/// The non-array part of a shape.
fn not_an_array(shape: &Shape) -> Shape {
    match shape {
        Shape::Unknown(_) | Shape::Object(_) => shape.clone(),
        Shape::Schema(schema, origin) => {
            let rest = json!({ "allOf": [**schema, { "not": { "type": "array" } }] });
            Shape::Schema(rest.into(), origin.clone())
        }
        Shape::Array(_) => Shape::nothing(),
        Shape::OneOf(all) => Shape::any(all.iter().map(not_an_array)),
    }
}

fn flattened(array: &Array) -> Shape {
    let most = usize::try_from(array.max).unwrap_or(usize::MAX).min(array.first.len());
    let first: Vec<_> = array.first[..most].iter().map(levelled).collect();
    let rest = levelled(&array.rest);
    let is_one = |one: &Array| (one.min, one.max) == (1, 1);
    let has_rest = array.max > array.first.len() as u64;
    if first.iter().all(is_one) && (!has_rest || is_one(&rest)) {
        let first = first.iter().map(|one| one.at(0).clone()).collect();
        let rest = if has_rest { rest.each() } else { Shape::nothing() };
        return Shape::Array(Array { first, rest, min: array.min, max: array.max }.into());
    }
    let sure = array.sure();
    let beyond = array.min.saturating_sub(array.first.len() as u64);
    let min = first.iter().take(sure).map(|one| one.min).fold(0, u64::saturating_add);
    let min = min.saturating_add(rest.min.saturating_mul(beyond));
    let more = array.max.saturating_sub(array.first.len() as u64);
    let max = first.iter().map(|one| one.max).fold(0, u64::saturating_add);
    let max = max.saturating_add(rest.max.saturating_mul(more));
    let rest = has_rest.then(|| rest.each());
    Shape::array(Shape::any(first.iter().map(Array::each).chain(rest)), (min, max))
}

/// An object with the members of all items; later ones override earlier ones.
fn merged(array: &Array) -> Shape {
    let most = usize::try_from(array.max).unwrap_or(usize::MAX);
    let mut items: Vec<_> = array.first.iter().take(most).cloned().collect();
    if most > items.len() {
        items.push(array.rest.clone());
    }
    let mut names: Vec<_> = items.iter().flat_map(Shape::names).collect();
    names.sort();
    names.dedup();
    let is_fixed = array.min == array.max && most == array.first.len();
    let member = |name: &String| {
        let found: Vec<_> = items.iter().map(|item| item.member(name)).collect();
        let is_sure = if is_fixed {
            found.iter().any(|one| one.min > 0)
        } else {
            array.min > 0 && found.iter().all(|one| one.min > 0)
        };
        let mut shapes = Vec::new();
        for one in found.into_iter().rev().filter(|one| one.max > 0) {
            shapes.push(one.shape);
            if is_fixed && one.min > 0 {
                break;
            }
        }
        (!shapes.is_empty())
            .then(|| (name.clone(), Member { is_sure, ..Member::sure(Shape::any(shapes)) }))
    };
    let members = names.iter().filter_map(member).collect();
    let rest = items.iter().map(|item| item.member("\u{0}")).filter(|one| one.max > 0);
    let rest: Vec<_> = rest.map(|one| one.shape).collect();
    let rest = (!rest.is_empty()).then(|| Shape::any(rest));
    Shape::Object(Object { members, rest }.into())
}

/// The object that mappings build. Each field is present, and null if nothing was selected.
fn mapped(mappings: &Mappings, from: &Shape) -> Shape {
    let fields = mappings.0.iter().filter_map(|mapping| {
        let FieldPath::Field(name) = &mapping.field else { return None };
        let shape = match items_mapped(mappings, name, &mapping.source, from) {
            Some(items) => items,
            None => source(&mapping.source, from),
        };
        Some((name.clone(), Member::sure(shape)))
    });
    Shape::object(fields)
}

/// The objects that `name[*].field` builds; `None` without such a mapping.
fn items_mapped(
    mappings: &Mappings,
    name: &str,
    from: &FieldSource,
    whole: &Shape,
) -> Option<Shape> {
    let fields = mappings.0.iter().filter_map(|mapping| match &mapping.field {
        FieldPath::EachItem { array, field } if array == name => Some((field, &mapping.source)),
        _ => None,
    });
    let fields: Vec<_> = fields.collect();
    if fields.is_empty() {
        return None;
    }
    let value = source(from, whole);
    let array = value.items();
    let is_array = value.kinds() == Kinds::ARRAY;
    let (min, max) = match &array {
        Some(array) if is_array => (array.min, array.max),
        Some(array) => (0, array.max.max(1)),
        None => (0, 1),
    };
    let item = each_item(&value);
    let object =
        fields.into_iter().map(|(field, from)| (field.clone(), Member::sure(source(from, &item))));
    Some(Shape::array(Shape::object(object), (min, max)))
}

/// What `name[*].field` maps of a value: each item of an array, or another value itself.
pub(super) fn each_item(value: &Shape) -> Shape {
    let other = (value.kinds() != Kinds::ARRAY).then(|| not_an_array(value));
    Shape::any(value.items().map(|array| array.each()).into_iter().chain(other))
}

/// The value of a field.
pub(super) fn source(from: &FieldSource, whole: &Shape) -> Shape {
    let null = || Shape::constant(&Value::Null);
    match from {
        FieldSource::Path(path) => {
            let selected = select(path, whole);
            match selected.presence {
                Presence::Never => null(),
                Presence::Perhaps => Shape::any([selected.shape, null()]),
                Presence::Always => selected.shape,
            }
        }
        FieldSource::Literal(value) => Shape::constant(value),
        FieldSource::Template { .. } | FieldSource::Concat { .. } => {
            Shape::schema(json!({ "type": "string" }))
        }
        FieldSource::Coalesce(paths) => {
            let (mut shapes, mut is_sure) = (Vec::new(), false);
            for path in paths {
                let selected = select(path, whole);
                if selected.presence == Presence::Never {
                    continue;
                }
                is_sure = selected.presence == Presence::Always && !selected.shape.may_be_null();
                shapes.push(selected.shape.without_null());
                if is_sure {
                    break;
                }
            }
            Shape::any(shapes.into_iter().chain((!is_sure).then(null)))
        }
        FieldSource::Nested(mappings) => mapped(mappings, whole),
    }
}
