//! Constant arguments: whether the defaults of a tool match the schema of its source.
//!
//! Only certain mismatches are reported: the schema of a member is an upper bound.

use std::borrow::Cow;

use schema_compat::schema_compile::{compile, patterns};
use serde_json::{Map, Value};

use super::{
    arguments,
    schema::{self, Cases, Definitions, Kinds},
};
use crate::suggest::closest;

/// Bytes of a schema that are compiled in one step.
const STEP_BYTES: usize = 1024;

/// The schema of the arguments of a tool.
pub(crate) struct ArgumentSchema {
    schema: Value,
    definitions: Definitions,
    patterns: usize,
}

/// A default that its schema rejects.
pub(crate) struct Misfit {
    /// The member names from the arguments to the value.
    pub(crate) path: Vec<String>,
    pub(crate) reason: Reason,
}

pub(crate) enum Reason {
    /// The schema accepts no member with this name. A similar one may be declared.
    Undeclared(Option<String>),
    /// The schema rejects the value.
    Violation(String),
}

impl ArgumentSchema {
    /// `None` for a dialect before draft 7.
    pub(crate) fn new(self_contained: Value) -> Option<Self> {
        let mut definitions = Definitions::new();
        schema::definitions(&self_contained, &mut definitions);
        let schema = schema::modern(&arguments(self_contained))?;
        let patterns = patterns(&schema);
        Some(Self { schema, definitions, patterns })
    }

    /// Whether all arguments have this member, and the schema has no default for it.
    pub(crate) fn requires(&self, path: &[&str]) -> bool {
        let mut schema = Cow::Borrowed(&self.schema);
        for name in path {
            let part = schema::member(&schema, name);
            if part.min == 0 {
                return false;
            }
            schema = Cow::Owned(part.schema);
        }
        let cases = Cases::new(&schema);
        !cases.all.iter().flatten().any(|map| map.contains_key("default"))
    }

    /// The defaults that the schema rejects. A value takes one step, and one for each regular
    /// expression of the schema. Values that exceed the steps are not checked.
    pub(crate) fn misfits(&self, defaults: &Map<String, Value>, steps: &mut usize) -> Vec<Misfit> {
        let mut search = Search { within: self, steps, path: Vec::new(), found: Vec::new() };
        search.members(&self.schema, defaults);
        search.found
    }
}

struct Search<'s> {
    within: &'s ArgumentSchema,
    steps: &'s mut usize,
    path: Vec<String>,
    found: Vec<Misfit>,
}

impl Search<'_> {
    /// Checks each member, but not their number: the gateway inserts the default of a hidden member
    /// into an object of the caller.
    fn members(&mut self, schema: &Value, members: &Map<String, Value>) {
        for (name, value) in members {
            if !self.take(1 + self.within.patterns) {
                return;
            }
            let part = schema::member(schema, name);
            self.path.push(name.clone());
            match value {
                _ if part.max == 0 => {
                    let declared = schema::declared(schema);
                    let similar = closest(name, declared.iter().map(String::as_str));
                    self.report(Reason::Undeclared(similar.map(str::to_owned)));
                }
                Value::Object(inner) if schema::kinds(&part.schema).has(Kinds::OBJECT) => {
                    self.members(&part.schema, inner);
                }
                _ => {
                    if let Some(violation) = self.violation(&part.schema, value) {
                        self.report(Reason::Violation(violation));
                    }
                }
            }
            self.path.pop();
        }
    }

    fn violation(&mut self, schema: &Value, value: &Value) -> Option<String> {
        if has_variable(value) {
            let kinds = schema::kinds(schema);
            let words = kinds.words().unwrap_or_else(|| "no value".to_owned());
            let is_other = !kinds.has(Kinds::of_value(value));
            return is_other.then(|| format!("the schema takes {words}"));
        }
        let schema = schema::complete(schema, &self.within.definitions);
        if !self.take(schema.to_string().len() / STEP_BYTES) {
            return None;
        }
        let validator = compile(&schema, &|_| None).ok()?;
        // A validation that is too expensive decides nothing.
        if validator.accepts(value) != Some(false) {
            return None;
        }
        validator.validate(value).err()?.into_iter().next().map(|violation| violation.message)
    }

    fn report(&mut self, reason: Reason) {
        self.found.push(Misfit { path: self.path.clone(), reason });
    }

    /// Deducts steps, or returns false if they do not suffice.
    fn take(&mut self, steps: usize) -> bool {
        let left = self.steps.checked_sub(steps);
        *self.steps = left.unwrap_or(*self.steps);
        left.is_some()
    }
}

/// Whether a gateway replaces variables in the value.
fn has_variable(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("${"),
        Value::Array(items) => items.iter().any(has_variable),
        Value::Object(members) => members.values().any(has_variable),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
