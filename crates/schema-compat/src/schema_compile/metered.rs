//! JSON values that count accesses by a validator. Once a limit is reached, every list appears
//! empty, and the validation ends.
//!
//! A schema can apply to one location many times. `weight.rs` computes an estimate that assumes
//! short alternatives; the actual number depends on the value. The count is kept per thread,
//! because the validator creates some nodes itself (`propertyNames`) from text alone.

use std::{
    borrow::Cow,
    cell::Cell,
    hash::{BuildHasher as _, RandomState},
};

use jsonschema::{
    JsonType,
    json::{Array, Json, Node, NodeIdentity, Object, cmp},
};
use serde_json::{Number, Value};

use super::instance::{self, Instance, Kind, Part};

/// Bytes of text processed in one step.
const TEXT_STEP: usize = 32;
/// Bytes of a number processed in one step; all its digits are significant.
const NUMBER_STEP: usize = 8;
/// Product of text bytes and regular expression states processed in one step.
const STATES_STEP: usize = 8;
/// Steps for recording an item when checking uniqueness.
const REMEMBERED: usize = 10;
/// Maximum size of a scalar in an error in bytes of JSON.
const SAMPLE_BYTES: usize = 400;

/// The sample of errors found after the limit was reached.
static UNSEEN: Value = Value::Array(Vec::new());

thread_local! {
    /// The remaining steps of the validation on this thread.
    static LEFT: Cell<u64> = const { Cell::new(0) };
    /// The remaining errors of that validation.
    static ERRORS_LEFT: Cell<usize> = const { Cell::new(0) };
    /// The number of states of the largest regular expression.
    static STATES: Cell<usize> = const { Cell::new(0) };
    /// The slot of the value that exceeded the limit.
    static STOPPED_AT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// The slot of the value that exceeded the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stopped(pub(super) u32);

/// Runs one validation with these limits on steps and regular expression states.
pub(super) fn within<T>(steps: u64, states: usize, run: impl FnOnce() -> T) -> Result<T, Stopped> {
    begin(steps, states, usize::MAX);
    let outcome = run();
    STOPPED_AT.take().map_or(Ok(outcome), |slot| Err(Stopped(slot)))
}

/// Collects errors until a limit of errors or steps is reached. [`is_seen`] is false for the
/// samples of later errors. The second result is whether the steps were exhausted first.
pub(super) fn collecting<T>(
    (steps, most_errors): (u64, usize),
    states: usize,
    run: impl FnOnce() -> T,
) -> (T, bool) {
    begin(steps, states, most_errors);
    let outcome = run();
    let is_stopped = STOPPED_AT.take().is_some();
    (outcome, is_stopped && ERRORS_LEFT.get() > 0)
}

fn begin(steps: u64, states: usize, most_errors: usize) {
    LEFT.set(steps);
    ERRORS_LEFT.set(most_errors);
    STATES.set(states);
    STOPPED_AT.set(None);
}

/// Whether an error with this sample was found before the limit was reached.
pub(super) fn is_seen(sample: &Value) -> bool {
    *sample != UNSEEN
}

/// The steps for reading or matching a text of this length.
fn reading(bytes: usize) -> usize {
    let matching = bytes.saturating_mul(STATES.get()) / STATES_STEP;
    (1 + bytes / TEXT_STEP).saturating_add(matching)
}

/// The representation of values for the validator.
#[derive(Debug)]
pub(super) struct Metered;

/// A value whose accesses are counted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Counted<'a> {
    /// A part of an instance.
    Part(Part<'a>),
    /// The name of a member.
    Name(&'a str),
}

impl<'a> Counted<'a> {
    /// A whole instance.
    pub(super) fn root(instance: &'a Instance<'_>) -> Self {
        Self::Part(instance.root())
    }

    /// Deducts steps; returns false once the limit is reached.
    fn look(self, steps: usize) -> bool {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        if let Some(left) = LEFT.get().checked_sub(steps) {
            LEFT.set(left);
            return true;
        }
        self.stop();
        false
    }

    /// Hides all values from now on.
    fn stop(self) {
        LEFT.set(0);
        if STOPPED_AT.get().is_none() {
            STOPPED_AT.set(Some(match self {
                Self::Part(part) => part.slot(),
                Self::Name(_) => u32::MAX,
            }));
        }
    }

    /// The value as a part of this kind, for one step.
    fn as_kind(self, kind: Kind) -> Option<Part<'a>> {
        match self {
            Self::Part(part) => (self.look(1) && part.kind() == kind).then_some(part),
            Self::Name(_) => None,
        }
    }

    /// Not counted.
    fn kind(self) -> Kind {
        match self {
            Self::Part(part) => part.kind(),
            Self::Name(_) => Kind::String,
        }
    }

    /// Not counted.
    fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Part(part) => (part.kind() == Kind::String).then(|| part.string()),
            Self::Name(name) => Some(Cow::Borrowed(name)),
        }
    }

    /// The number, for steps proportional to its text; accessing the value itself is not counted.
    fn number(self) -> Option<Number> {
        let Self::Part(part) = self else { return None };
        let is_shown = part.kind() == Kind::Number && self.look(part.token_bytes() / NUMBER_STEP);
        if is_shown { part.number() } else { None }
    }

    /// The member with this name, for steps proportional to the compared names.
    fn member(self, name: &str) -> Option<Part<'a>> {
        let Self::Part(part) = self else { return None };
        let mut steps = 0;
        let found = part.get_comparing(name, |bytes| steps += bytes / TEXT_STEP);
        if self.look(steps) { found } else { None }
    }

    /// A hash that is equal for equal values, regardless of number syntax and member order.
    fn hash(self, random: &RandomState) -> u64 {
        let Self::Part(part) = self else { return 0 };
        if !self.look(1) {
            return 0;
        }
        let kind = part.kind();
        match kind {
            Kind::Null => random.hash_one(kind),
            Kind::Boolean => random.hash_one((kind, part.is_true())),
            // `0.0` equals `-0.0`, and huge integers are equal if they are equal as doubles.
            Kind::Number => {
                let number = self.number().and_then(|number| number.as_f64()).unwrap_or_default();
                random.hash_one((kind, (number + 0.0).to_bits()))
            }
            Kind::String => random.hash_one((kind, self.as_string())),
            Kind::Array => {
                let items = part.items().map(|item| Self::Part(item).hash(random));
                random.hash_one((kind, items.collect::<Vec<_>>()))
            }
            Kind::Object => {
                let members = part.members().map_while(|(name, member)| {
                    let is_shown = self.look(name.len() / TEXT_STEP);
                    is_shown.then(|| random.hash_one((name, Self::Part(member).hash(random))))
                });
                let any_order = members.fold(0, u64::wrapping_add);
                random.hash_one((kind, part.len(), any_order))
            }
        }
    }

    /// Whether two values are equal. Each access counts once.
    fn equals(self, other: Part<'a>) -> bool {
        let Self::Part(part) = self else { return false };
        if !self.look(1) || part.kind() != other.kind() {
            return false;
        }
        match part.kind() {
            Kind::Null => true,
            Kind::Boolean => part.is_true() == other.is_true(),
            Kind::Number => match (self.number(), Self::Part(other).number()) {
                (Some(one), Some(other)) => cmp::equal(&one.into(), &other.into()),
                _ => false,
            },
            Kind::String => self.as_string() == Some(other.string()),
            Kind::Array => {
                let mut pairs = part.items().zip(other.items());
                part.len() == other.len()
                    && pairs.all(|(item, other)| Self::Part(item).equals(other))
            }
            Kind::Object => {
                part.len() == other.len()
                    && part.members().all(|(name, member)| {
                        let other = Self::Part(other).member(&name);
                        other.is_some_and(|other| Self::Part(member).equals(other))
                    })
            }
        }
    }

    /// The sample in an error: a short scalar itself, otherwise null.
    fn sample(self) -> Value {
        match self {
            Self::Part(part) => part.scalar(SAMPLE_BYTES).unwrap_or_default(),
            Self::Name(name) => name[..name.floor_char_boundary(SAMPLE_BYTES)].into(),
        }
    }
}

impl Json for Metered {
    type Node<'a> = Counted<'a>;
    type PreparedKey = String;
    type StringBuffer = ();
    const KEYS_PER_LOOKUP: usize = 2;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>((): &mut (), string: &str, f: impl FnOnce(Counted<'_>) -> T) -> T {
        f(Counted::Name(string))
    }
}

impl<'a> Node<'a, Metered> for Counted<'a> {
    type Object = Members<'a>;
    type Array = Items<'a>;
    type Number = Number;

    fn as_object(&self) -> Option<Members<'a>> {
        self.as_kind(Kind::Object).map(Members)
    }

    fn as_array(&self) -> Option<Items<'a>> {
        self.as_kind(Kind::Array).map(Items)
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        let bytes = match self {
            Self::Part(part) if part.kind() == Kind::String => part.token_bytes(),
            Self::Part(_) => 0,
            Self::Name(name) => name.len(),
        };
        self.look(reading(bytes)).then(|| self.text()).flatten()
    }

    fn as_number(&self) -> Option<Number> {
        self.as_kind(Kind::Number).and_then(|_| self.number())
    }

    fn as_boolean(&self) -> Option<bool> {
        Some(self.as_kind(Kind::Boolean)?.is_true())
    }

    fn is_null(&self) -> bool {
        !self.look(1) || self.kind() == Kind::Null
    }

    fn is_number(&self) -> bool {
        self.json_type() == JsonType::Number
    }

    fn json_type(&self) -> JsonType {
        if !self.look(1) {
            return JsonType::Null;
        }
        match self.kind() {
            Kind::Null => JsonType::Null,
            Kind::Boolean => JsonType::Boolean,
            Kind::Number => JsonType::Number,
            Kind::String => JsonType::String,
            Kind::Array => JsonType::Array,
            Kind::Object => JsonType::Object,
        }
    }

    fn equals_value(&self, expected: &Value) -> bool {
        if !self.look(1) {
            return false;
        }
        match (self, expected) {
            (_, Value::String(expected)) => {
                self.kind() == Kind::String && self.as_string().is_some_and(|own| own == *expected)
            }
            (Self::Name(_), _) => false,
            (Self::Part(part), Value::Array(expected)) => {
                let pairs = || part.items().zip(expected);
                part.kind() == Kind::Array
                    && part.len() == expected.len()
                    && pairs().all(|(item, expected)| Self::Part(item).equals_value(expected))
            }
            (Self::Part(part), Value::Object(expected)) => {
                part.kind() == Kind::Object
                    && part.len() == expected.len()
                    && expected.iter().all(|(name, expected)| {
                        self.member(name)
                            .is_some_and(|member| Self::Part(member).equals_value(expected))
                    })
            }
            (Self::Part(part), Value::Number(expected)) => {
                part.kind() == Kind::Number
                    && self.number().is_some_and(|own| cmp::equal_numbers(&own, expected))
            }
            (Self::Part(part), Value::Bool(expected)) => {
                part.kind() == Kind::Boolean && part.is_true() == *expected
            }
            (Self::Part(part), Value::Null) => part.kind() == Kind::Null,
        }
    }

    /// Called only for errors.
    fn to_value(&self) -> Cow<'a, Value> {
        if STOPPED_AT.get().is_some() {
            return Cow::Borrowed(&UNSEEN);
        }
        let left = ERRORS_LEFT.get().saturating_sub(1);
        ERRORS_LEFT.set(left);
        if left == 0 {
            self.stop();
        }
        Cow::Owned(self.sample())
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(match self {
            Self::Part(part) => NodeIdentity::new(part.address()),
            Self::Name(name) => NodeIdentity::tagged(name.as_ptr().addr(), 1),
        })
    }
}

/// The members of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Members<'a>(Part<'a>);

impl<'a> Object<'a, Metered> for Members<'a> {
    type Node = Counted<'a>;
    type MemberName = Cow<'a, str>;
    type MembersIter = MembersIter<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, key: &String) -> Option<Counted<'a>> {
        let object = Counted::Part(self.0);
        if object.look(1) { object.member(key).map(Counted::Part) } else { None }
    }

    fn members(&self) -> MembersIter<'a> {
        MembersIter(self.0.members())
    }
}

/// An iterator over the members of an object.
#[derive(Debug)]
pub(super) struct MembersIter<'a>(instance::Members<'a>);

impl<'a> Iterator for MembersIter<'a> {
    type Item = (Cow<'a, str>, Counted<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, member) = self.0.next()?;
        let member = Counted::Part(member);
        member.look(reading(name.len())).then_some((name, member))
    }
}

/// The items of an array.
#[derive(Debug, Clone, Copy)]
pub(super) struct Items<'a>(Part<'a>);

impl<'a> Array<'a, Metered> for Items<'a> {
    type Node = Counted<'a>;
    type ElementsIter = ItemsIter<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn elements(&self) -> ItemsIter<'a> {
        ItemsIter(self.0.items())
    }

    fn is_unique(&self) -> bool {
        let random = RandomState::new();
        let mut hashes = Vec::new();
        for item in self.0.items() {
            let item_at = Counted::Part(item);
            if !item_at.look(REMEMBERED) {
                return false;
            }
            hashes.push((item_at.hash(&random), item.slot()));
        }
        hashes.sort_unstable();
        hashes.chunk_by(|one, other| one.0 == other.0).all(|alike| {
            let part = |(_, slot): &(u64, u32)| self.0.at(*slot);
            alike.iter().enumerate().all(|(i, one)| {
                !alike[..i].iter().any(|other| Counted::Part(part(one)).equals(part(other)))
            })
        })
    }
}

/// An iterator over the items of an array.
#[derive(Debug)]
pub(super) struct ItemsIter<'a>(instance::Items<'a>);

impl<'a> Iterator for ItemsIter<'a> {
    type Item = Counted<'a>;

    fn next(&mut self) -> Option<Counted<'a>> {
        let item = Counted::Part(self.0.next()?);
        item.look(1).then_some(item)
    }
}
