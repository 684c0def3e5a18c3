//! Strict parsing of compositions: [`crate::decode`] with the limits of a spec.

use std::{
    cell::{Cell, RefCell},
    ops::RangeInclusive,
};

use schema_compat::pointer::Location;
use serde_json::Value;

use super::{
    Operation, Path, Predicate,
    operation::{Target, Use},
};
use crate::{
    decode::{Fields, Problems, describe},
    diagnostic::{Code, Diagnostic},
    limits,
};

/// Timeouts in milliseconds.
pub(super) const TIMEOUT: RangeInclusive<u64> = 1..=limits::SPEC_MILLIS;
/// Delays in milliseconds.
pub(super) const DELAY: RangeInclusive<u64> = 0..=limits::SPEC_MILLIS;
/// Times to live and windows in seconds.
pub(super) const SECONDS: RangeInclusive<u64> = 1..=limits::SPEC_SECONDS;
/// Positive counts.
pub(super) const COUNT: RangeInclusive<u64> = 1..=limits::SPEC_COUNT;
/// Numbers of attempts.
pub(super) const ATTEMPTS: RangeInclusive<u64> = 1..=limits::SPEC_ATTEMPTS;

/// The state of parsing a composition.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) problems: Problems,
    uses: RefCell<Vec<Use>>,
    steps: Cell<usize>,
    depth: Cell<usize>,
}

/// One level of nested patterns, which ends when this is dropped.
pub(super) struct Nested<'r>(&'r Cell<usize>);

impl Drop for Nested<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Reader {
    pub(super) fn into_parts(self) -> (Vec<Use>, Vec<Diagnostic>) {
        let in_composition = |found: Diagnostic| match found.code {
            Code::DocumentInvalid => Diagnostic { code: Code::CompositionInvalid, ..found },
            _ => found,
        };
        let problems = self.problems.into_vec().into_iter().map(in_composition).collect();
        (self.uses.into_inner(), problems)
    }

    /// Enters a pattern and reports excessive nesting.
    pub(super) fn nested(&self, at: Location<'_>) -> Option<Nested<'_>> {
        let depth = self.depth.get() + 1;
        if depth > limits::SPEC_DEPTH {
            let message = format!("patterns are nested deeper than {} levels", limits::SPEC_DEPTH);
            self.problems.invalid(at, message, "move an inner pattern into a separate tool");
            return None;
        }
        self.depth.set(depth);
        Some(Nested(&self.depth))
    }

    /// Counts one step or target.
    pub(super) fn step(&self, at: Location<'_>) {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() == limits::SPEC_STEPS + 1 {
            let message = format!("more than {} steps and targets", limits::SPEC_STEPS);
            self.problems.invalid(at, message, "move some of them into a separate tool");
        }
    }

    /// Records a call of a target.
    pub(super) fn calls(&self, at: Location<'_>, target: Target) {
        self.uses.borrow_mut().push(Use { pointer: at.to_string(), target });
    }

    /// The only member of an object, whose name selects one of several variants.
    pub(super) fn variant<'v>(
        &self,
        value: &'v Value,
        at: Location<'_>,
        what: &str,
        names: &[&'static str],
    ) -> Option<(&'static str, &'v Value)> {
        let Value::Object(map) = value else {
            self.problems.wrong_type(value, at, &format!("an object with one {what}"));
            return None;
        };
        let mut members = map.iter().filter(|(name, _)| *name != "$comment");
        let found = match (members.next(), members.next()) {
            (Some((name, body)), None) => {
                names.iter().find(|known| *known == name).map(|name| (*name, body))
            }
            _ => None,
        };
        if found.is_none() {
            let given: Vec<_> = map.keys().take(5).map(|name| format!("`{name}`")).collect();
            let given = if given.is_empty() { "nothing".to_owned() } else { given.join(", ") };
            let message = format!("expected one {what}, got {given}");
            self.problems.invalid(at, message, format!("write one of {}", names.join(", ")));
        }
        found
    }

    pub(super) fn path(&self, value: &Value, at: Location<'_>) -> Option<Path> {
        match Path::parse(self.problems.string(value, at)?) {
            Ok(path) => Some(path),
            Err(e) => {
                self.problems.invalid(
                    at,
                    e.to_string(),
                    "write RFC 9535, like `$.city` or `$.items[*].id`",
                );
                None
            }
        }
    }

    pub(super) fn required_path<'f>(
        &self,
        fields: &'f Fields<'f>,
        name: &'static str,
    ) -> Option<Path> {
        self.path(fields.require(name)?, fields.at(name))
    }

    /// A list of at least one path.
    pub(super) fn paths<'f>(&self, fields: &'f Fields<'f>, name: &'static str) -> Vec<Path> {
        self.some(fields, name, |value, at| self.path(value, at))
    }

    /// A required list with at least one item.
    pub(super) fn some<'f, T>(
        &self,
        fields: &'f Fields<'f>,
        name: &'static str,
        read: impl FnMut(&Value, Location<'_>) -> Option<T>,
    ) -> Vec<T> {
        let value = fields.require(name);
        if value.and_then(Value::as_array).is_some_and(Vec::is_empty) {
            let message = format!("`{name}` is empty");
            self.problems.invalid(fields.at(name), message, "add at least one");
        }
        fields.list(name, read)
    }

    pub(super) fn required_number<'f>(
        &self,
        fields: &'f Fields<'f>,
        name: &'static str,
        allowed: RangeInclusive<u64>,
    ) -> Option<u64> {
        fields.require(name);
        self.number(fields, name, allowed)
    }

    pub(super) fn number<'f>(
        &self,
        fields: &'f Fields<'f>,
        name: &'static str,
        allowed: RangeInclusive<u64>,
    ) -> Option<u64> {
        let value = fields.get(name)?;
        let number = value.as_u64().filter(|number| allowed.contains(number));
        if number.is_none() {
            let (from, to) = (allowed.start(), allowed.end());
            let message = format!("`{name}` is {}", describe(value));
            let help = format!("write a whole number from {from} to {to}");
            self.problems.invalid(fields.at(name), message, help);
        }
        number
    }

    /// A number that may have a fraction.
    pub(super) fn real<'f>(
        &self,
        fields: &'f Fields<'f>,
        name: &'static str,
        allowed: RangeInclusive<f64>,
    ) -> Option<f64> {
        let value = fields.get(name)?;
        let number = value.as_f64().filter(|number| allowed.contains(number));
        if number.is_none() {
            let (from, to) = (allowed.start(), allowed.end());
            let message = format!("`{name}` is {}", describe(value));
            let help = format!("write a number from {from} to {to}");
            self.problems.invalid(fields.at(name), message, help);
        }
        number
    }

    pub(super) fn operation<'f>(
        &self,
        fields: &'f Fields<'f>,
        name: &'static str,
    ) -> Option<Operation> {
        Operation::read(self, fields.require(name)?, fields.at(name))
    }

    pub(super) fn optional_operation<'f>(
        &self,
        fields: &'f Fields<'f>,
        name: &'static str,
    ) -> Option<Operation> {
        Operation::read(self, fields.get(name)?, fields.at(name))
    }

    pub(super) fn optional_predicate<'f>(
        &self,
        fields: &'f Fields<'f>,
        name: &'static str,
    ) -> Option<Predicate> {
        Predicate::read(self, fields.get(name)?, fields.at(name))
    }
}

/// A value as JSON. Accepts the wrapped form of existing registries as well, such as
/// `{ "stringValue": … }`.
pub fn plain(value: &Value) -> Value {
    let Value::Object(map) = value else { return value.clone() };
    let mut members = map.iter();
    match (members.next(), members.next()) {
        (Some((name, inner)), None) => match (name.as_str(), inner) {
            ("stringValue", Value::String(_))
            | ("numberValue", Value::Number(_))
            | ("boolValue", Value::Bool(_)) => inner.clone(),
            ("nullValue", Value::Bool(_) | Value::Null) => Value::Null,
            ("listValue", Value::Array(items)) => items.iter().map(plain).collect(),
            _ => value.clone(),
        },
        _ => value.clone(),
    }
}
