//! Static type checking of a composition: whether each value matches the registered schema of its
//! destination.
//!
//! `patterns` propagates shapes, which are upper bounds, through the composition. `fit` compares
//! a shape with a schema: a mismatch is an error if no value can work, and else a warning. `trial`
//! runs the composition with sampled values, so each example in a warning can really occur. Without
//! a registered schema nothing is reported.

mod constants;
mod fit;
mod label;
mod patterns;
mod projection;
mod sample;
mod schema;
mod select;
mod shape;
#[cfg(test)]
mod tests;
mod trial;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use schema_compat::{compatibility::Budget, pointer::Location};
use serde_json::{Value, json};

pub(crate) use self::{
    constants::{ArgumentSchema, Misfit, Reason},
    projection::{UndeclaredPath, undeclared_paths},
    schema::{rewrite_object, wrapped},
};
use self::{
    fit::{Destination, Fit},
    label::{Given, Label},
    schema::Kinds,
    shape::{Origin, Shape},
    trial::Tools,
    work::Work,
};
use super::{Operation, Spec, Target};

/// The schemas of a tool or skill, self-contained and without references. `None` means not
/// registered.
#[derive(Debug, Clone, Default)]
pub struct Signature {
    /// The arguments that callers may send.
    pub input: Option<Value>,
    /// The structured result.
    pub output: Option<Value>,
}

/// A value that never or not always matches its destination.
#[derive(Debug, Clone, PartialEq)]
pub struct Mismatch {
    /// The binding or operation, as a JSON pointer inside of the spec.
    pub pointer: String,
    /// The destination, the source of the value, and an example if one was found.
    pub message: String,
    /// The remedy.
    pub help: String,
    /// Whether no value can work.
    pub is_certain: bool,
    /// The destination of the value: a call, a pattern or a key, as a JSON pointer.
    pub place: String,
    /// A run that ends in this mismatch.
    pub witness: Option<Witness>,
}

/// A run of the composition that ends in a mismatch.
#[derive(Debug, Clone, PartialEq)]
pub struct Witness {
    /// The composition's input.
    pub input: Value,
    /// The results of each call in order, by the JSON pointer of the call.
    pub results: BTreeMap<String, Vec<Value>>,
    /// The operations that fail, time out or are skipped, by their JSON pointers.
    pub failing: BTreeSet<String>,
    /// The JSON pointer of the destination that rejects a value.
    pub at: String,
    /// The rejected value.
    pub value: Value,
}

/// Checks a composition with this signature.
pub fn check(
    spec: &Spec,
    own: &Signature,
    called: &mut dyn FnMut(&Target) -> Signature,
    budget: &mut Budget,
) -> Vec<Mismatch> {
    let mut tools = Tools::new(called);
    let implied = || entry(spec).and_then(|entry| tools.get(entry).input.clone());
    let own_input = own.input.clone().or_else(implied).map(arguments);
    for schema in own_input.iter().chain(&own.output) {
        schema::definitions(schema, &mut tools.definitions);
    }
    let origin = Some(Origin { source: "".into(), path: [].into() });
    let input = match own_input.as_ref().map(schema::modern) {
        Some(Some(schema)) => Shape::Schema(schema.into(), origin),
        Some(None) => Shape::Unknown(origin),
        // Gateways always pass an object.
        None => Shape::any_object(),
    };
    let mut checker = Checker {
        spec,
        inputs: None,
        own_input,
        tools,
        budget,
        work: Work::default(),
        failable: Vec::new(),
        is_optional: false,
        is_cut: false,
        is_spent: false,
        found: Vec::new(),
    };
    let label = Label::whole("the input of the composition", String::new());
    let output = checker.pattern(spec, &Given { shape: input, label }, "", Location::ROOT);
    if let Some(expected) = &own.output {
        let whose = "the output schema of the composition";
        let at = trial::RESULT.to_owned();
        let sink = Destination { subject: "result", whose, expected, at, remedy: None };
        checker.fits(&output, &sink);
    }
    checker.finish()
}

/// The schema of arguments, which must be an object.
fn arguments(schema: Value) -> Value {
    if schema::modern(&schema).is_none_or(|modern| schema::kinds(&modern) == Kinds::OBJECT) {
        return schema;
    }
    schema::wrapped(schema, |schema| json!({ "allOf": [{ "type": "object" }, schema] }))
}

/// The entry of a composition: the tool that receives its unchanged input. A composition without an
/// input schema has that tool's.
pub(crate) fn entry(spec: &Spec) -> Option<&Target> {
    let operation = match spec {
        Spec::Pipeline(pipeline) => {
            let first = pipeline.steps.first().filter(|step| step.input.is_none())?;
            &first.operation
        }
        Spec::Saga(saga) => &saga.steps.first().filter(|step| step.input.is_none())?.action,
        Spec::Retry(retry) => &retry.inner,
        Spec::Timeout(timeout) => &timeout.inner,
        Spec::Cache(cache) => &cache.inner,
        Spec::Idempotent(idempotent) => &idempotent.inner,
        Spec::CircuitBreaker(breaker) => &breaker.inner,
        Spec::DeadLetter(letter) => &letter.inner,
        Spec::ScatterGather(_)
        | Spec::Filter(_)
        | Spec::SchemaMap(_)
        | Spec::MapEach(_)
        | Spec::ClaimCheck(_) => return None,
    };
    match operation {
        Operation::Call(target) => Some(target),
        Operation::Pattern(spec) => entry(spec),
    }
}

struct Checker<'a> {
    spec: &'a Spec,
    own_input: Option<Value>,
    /// Samples of the composition's input, once a mismatch needs them.
    inputs: Option<Vec<Value>>,
    tools: Tools<'a>,
    budget: &'a mut Budget,
    work: Work,
    /// Groups of operations that may fail without ending the composition.
    failable: Vec<BTreeSet<String>>,
    /// Whether the location may be unreachable, as for the items of an empty array.
    is_optional: bool,
    /// Whether a schema was too large to compare.
    is_cut: bool,
    /// Whether the budget was spent before everything was compared.
    is_spent: bool,
    found: Vec<Mismatch>,
}

impl Checker<'_> {
    fn report(&mut self, mismatch: Mismatch) {
        let is_same = |known: &Mismatch| {
            (&known.pointer, &known.message, &known.place)
                == (&mismatch.pointer, &mismatch.message, &mismatch.place)
        };
        if !self.found.iter().any(is_same) {
            self.found.push(mismatch);
        }
    }

    fn finish(mut self) -> Vec<Mismatch> {
        let cut = match (self.is_spent, self.is_cut) {
            (true, _) => Some((
                "the batch used up its checking budget, so only types and missing properties were checked",
                "register it in a smaller batch",
            )),
            (false, true) => Some((
                "the composition is too large to be checked completely",
                "divide it into several compositions",
            )),
            (false, false) => None,
        };
        if let Some((message, help)) = cut {
            self.found.push(Mismatch {
                pointer: String::new(),
                message: message.to_owned(),
                help: help.to_owned(),
                is_certain: false,
                place: String::new(),
                witness: None,
            });
        }
        self.found
    }

    /// Reports a non-array value for a destination that requires an array.
    fn takes_array(&mut self, given: &Given, subject: &str, whose: &str, at: Location<'_>) {
        let expected = &json!({ "type": "array" });
        let remedy = Some("bind an array");
        let sink = Destination { subject, whose, expected, at: at.to_string(), remedy };
        self.fits(given, &sink);
    }

    /// Calls a tool or a skill.
    fn call(&mut self, target: &Target, given: &Given, subject: &str, at: Location<'_>) -> Given {
        let tool = self.tools.get(target);
        let whose = format!("the input schema of `{target}`");
        let any = json!({ "type": "object" });
        let expected = tool.input.as_ref().unwrap_or(&any);
        let place = at.to_string();
        let sink = |expected| Destination {
            subject,
            whose: &whose,
            expected,
            at: place.clone(),
            remedy: None,
        };
        // A tool requires an object even if its schema does not say so.
        let is_object = schema::kinds(expected) == Kinds::OBJECT;
        if !is_object && matches!(target, Target::Tool(_)) {
            self.fits(given, &sink(&any));
        }
        self.fits(given, &sink(expected));
        let origin = Some(Origin { source: at.to_string().into(), path: [].into() });
        let shape = match &tool.gives {
            Some(schema) if self.work.take(1) => Shape::Schema(std::rc::Rc::clone(schema), origin),
            _ => Shape::Unknown(origin),
        };
        Given { shape, label: Label::whole(&format!("the result of `{target}`"), at.to_string()) }
    }

    /// Checks an operation that may be skipped in a run.
    fn optionally<T>(&mut self, is_optional: bool, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.is_optional;
        self.is_optional |= is_optional;
        let result = work(self);
        self.is_optional = before;
        result
    }

    fn decided(&mut self, shape: &Shape, expected: &Value) -> Fit {
        fit::decide(shape, expected, self)
    }
}
