//! JSON values that count how often a validator looks at them, and show nothing more once a limit
//! is reached: then every list is empty, and validating ends.
//!
//! A schema can lead to one place of a value in very many ways (`weight.rs` says in how many, as if
//! alternatives ended early); what that costs in truth only the value tells. The count is kept per
//! thread, because the validator makes some nodes itself (`propertyNames`), out of text alone.
//! Deliberately absent: what the limit is.

use std::{
    borrow::Cow,
    cell::Cell,
    collections::{HashMap, hash_map::RandomState},
    hash::{BuildHasher as _, Hash as _, Hasher},
};

use jsonschema::{
    JsonType,
    json::{Array, Json, Node, NodeIdentity, Object, cmp},
};
use serde_json::{Map, Number, Value, map};

/// Bytes of text that are looked at in one step.
const TEXT_STEP: usize = 32;
/// Bytes of text, times states of a regular expression, that are looked at in one step.
const STATES_STEP: usize = 8;
/// Steps that remembering an item takes, to see whether another one is equal.
const REMEMBERED: usize = 10;

thread_local! {
    /// The steps that are left to the validation that runs on this thread.
    static LEFT: Cell<u64> = const { Cell::new(0) };
    /// The states of the biggest regular expression that may look at a text.
    static STATES: Cell<usize> = const { Cell::new(0) };
    /// The address of the value at which they ran out.
    static STOPPED_AT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The value at which the steps ran out, by its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stopped(usize);

impl Stopped {
    /// Whether it was this value.
    pub(super) fn is_at(self, value: &Value) -> bool {
        std::ptr::from_ref(value).addr() == self.0
    }
}

/// Runs one validation, which may take so many steps; its expressions have at most so many states.
pub(super) fn within<T>(steps: u64, states: usize, run: impl FnOnce() -> T) -> Result<T, Stopped> {
    LEFT.set(steps);
    STATES.set(states);
    STOPPED_AT.set(None);
    let outcome = run();
    match STOPPED_AT.take() {
        Some(address) => Err(Stopped(address)),
        None => Ok(outcome),
    }
}

/// The steps that reading a text takes, or matching it.
fn reading(text: &str) -> usize {
    let matching = text.len().saturating_mul(STATES.get()) / STATES_STEP;
    (1 + text.len() / TEXT_STEP).saturating_add(matching)
}

/// The representation, for the validator.
#[derive(Debug)]
pub(super) struct Metered;

/// A value of which each look is counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted<'a>(pub(super) &'a Value);

impl<'a> Counted<'a> {
    /// The value, unless the steps have run out.
    fn look(self, steps: usize) -> Option<&'a Value> {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        if let Some(left) = LEFT.get().checked_sub(steps) {
            LEFT.set(left);
            return Some(self.0);
        }
        LEFT.set(0);
        if STOPPED_AT.get().is_none() {
            STOPPED_AT.set(Some(std::ptr::from_ref(self.0).addr()));
        }
        None
    }

    fn text(self) -> Option<&'a str> {
        let text = self.0.as_str().unwrap_or_default();
        self.look(reading(text))?.as_str()
    }

    /// A hash that is equal for equal values, however numbers are written.
    fn hash_into(self, state: &mut impl Hasher) {
        let Some(value) = self.look(1) else { return };
        std::mem::discriminant(value).hash(state);
        match value {
            Value::Null => {}
            Value::Bool(value) => value.hash(state),
            // `0.0` and `-0.0` are equal, and so is what is too big to be told apart.
            Value::Number(number) => {
                (number.as_f64().unwrap_or_default() + 0.0).to_bits().hash(state);
            }
            Value::String(_) => self.text().hash(state),
            Value::Array(items) => {
                items.len().hash(state);
                for item in items {
                    Counted(item).hash_into(state);
                }
            }
            // In the order of the names: `serde_json` keeps its objects so.
            Value::Object(members) => {
                members.len().hash(state);
                for (name, member) in members {
                    name.hash(state);
                    Counted(member).hash_into(state);
                }
            }
        }
    }
}

impl Json for Metered {
    type Node<'a> = Counted<'a>;
    type PreparedKey = String;
    type StringBuffer = Value;
    const KEYS_PER_LOOKUP: usize = 2;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(
        buffer: &mut Value,
        string: &str,
        f: impl FnOnce(Counted<'_>) -> T,
    ) -> T {
        *buffer = Value::String(string.to_owned());
        f(Counted(buffer))
    }
}

impl<'a> Node<'a, Metered> for Counted<'a> {
    type Object = Members<'a>;
    type Array = Items<'a>;
    type Number = &'a Number;

    fn as_object(&self) -> Option<Members<'a>> {
        let members = self.look(1)?.as_object()?;
        Some(Members { members, own: *self })
    }

    fn as_array(&self) -> Option<Items<'a>> {
        self.look(1)?.as_array().map(|items| Items(items))
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        self.text().map(Cow::Borrowed)
    }

    fn as_number(&self) -> Option<&'a Number> {
        self.look(1)?.as_number()
    }

    fn as_boolean(&self) -> Option<bool> {
        self.look(1)?.as_bool()
    }

    fn is_null(&self) -> bool {
        self.look(1).is_none_or(Value::is_null)
    }

    fn json_type(&self) -> JsonType {
        match self.look(1) {
            None | Some(Value::Null) => JsonType::Null,
            Some(Value::Bool(_)) => JsonType::Boolean,
            Some(Value::Number(_)) => JsonType::Number,
            Some(Value::String(_)) => JsonType::String,
            Some(Value::Array(_)) => JsonType::Array,
            Some(Value::Object(_)) => JsonType::Object,
        }
    }

    fn equals_value(&self, expected: &Value) -> bool {
        match (self.look(1), expected) {
            (None, _) => false,
            (Some(Value::Array(items)), Value::Array(others)) => {
                let mut pairs = items.iter().zip(others);
                items.len() == others.len()
                    && pairs.all(|(item, other)| Counted(item).equals_value(other))
            }
            (Some(Value::Object(members)), Value::Object(others)) => {
                let mut pairs = members.iter().zip(others);
                members.len() == others.len()
                    && pairs.all(|((name, member), (other_name, other))| {
                        name == other_name && Counted(member).equals_value(other)
                    })
            }
            (Some(Value::String(_)), Value::String(other)) => self.text() == Some(other),
            (Some(value), other) => cmp::equal(value, other),
        }
    }

    fn to_value(&self) -> Cow<'a, Value> {
        Cow::Borrowed(self.0)
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::new(std::ptr::from_ref(self.0).addr()))
    }
}

/// The members of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Members<'a> {
    members: &'a Map<String, Value>,
    own: Counted<'a>,
}

impl<'a> Object<'a, Metered> for Members<'a> {
    type Node = Counted<'a>;
    type MemberName = &'a str;
    type MembersIter = MembersIter<'a>;

    fn len(&self) -> usize {
        self.members.len()
    }

    fn get(&self, key: &String) -> Option<Counted<'a>> {
        self.own.look(1)?;
        self.members.get(key).map(Counted)
    }

    fn members(&self) -> MembersIter<'a> {
        MembersIter(self.members.iter())
    }
}

/// The members of an object, one after the other.
#[derive(Debug)]
pub(super) struct MembersIter<'a>(map::Iter<'a>);

impl<'a> Iterator for MembersIter<'a> {
    type Item = (&'a str, Counted<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, member) = self.0.next()?;
        let member = Counted(member).look(reading(name))?;
        Some((name, Counted(member)))
    }
}

/// The items of an array.
#[derive(Debug, Clone, Copy)]
pub(super) struct Items<'a>(&'a [Value]);

impl<'a> Array<'a, Metered> for Items<'a> {
    type Node = Counted<'a>;
    type ElementsIter = ItemsIter<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn elements(&self) -> ItemsIter<'a> {
        ItemsIter(self.0.iter())
    }

    fn is_unique(&self) -> bool {
        let random = RandomState::new();
        let mut seen: HashMap<u64, Vec<&Value>> = HashMap::new();
        self.elements().all(|item| {
            if item.look(REMEMBERED).is_none() {
                return false;
            }
            let mut hasher = random.build_hasher();
            item.hash_into(&mut hasher);
            let alike = seen.entry(hasher.finish()).or_default();
            let is_new = !alike.iter().any(|other| item.equals_value(other));
            alike.push(item.0);
            is_new
        })
    }
}

/// The items of an array, one after the other.
#[derive(Debug)]
pub(super) struct ItemsIter<'a>(std::slice::Iter<'a, Value>);

impl<'a> Iterator for ItemsIter<'a> {
    type Item = Counted<'a>;

    fn next(&mut self) -> Option<Counted<'a>> {
        Counted(self.0.next()?).look(1).map(Counted)
    }
}
