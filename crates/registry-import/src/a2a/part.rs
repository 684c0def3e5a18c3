//! Takes the members of a card one by one. Invalid and unknown members are kept at their place in
//! `metadata.card` and reported.

use registry_core::decode::describe;
use schema_compat::pointer::pointer_join;
use serde_json::{Map, Value, json};

use super::Card;

/// The repair of a member without a field.
const KEPT: &str = "it is in `metadata.card`";
/// The repair of a member whose place in `metadata.card` is taken.
pub(super) const LEFT_OUT: &str = "`metadata.card` has another value there; it was left out";

/// An object of a card whose members are taken one by one.
pub(super) struct Part {
    map: Map<String, Value>,
    at: String,
}

impl Part {
    pub(super) fn new(map: Map<String, Value>, at: String) -> Self {
        Self { map, at }
    }

    pub(super) fn at(&self, name: &str) -> String {
        pointer_join(&self.at, name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.map.get(name).is_some_and(|value| !value.is_null())
    }

    /// Returns a text without taking it.
    pub(super) fn peek(&self, name: &str) -> Option<&str> {
        self.map.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name).filter(|value| !value.is_null())
    }
}

impl Card {
    /// Keeps an invalid member and reports it for review.
    pub(super) fn refuse(&mut self, at: &str, what: impl Into<String>, value: Value) {
        let how = if self.keep(at, value) { KEPT } else { LEFT_OUT };
        self.repairs.needed(at, what, how);
    }

    fn refuse_type(&mut self, at: &str, expected: &str, value: Value) {
        let what = format!("expected {expected}, got {}", describe(&value));
        self.refuse(at, what, value);
    }

    /// Keeps a value at its place, list items by index. Returns whether it is kept.
    pub(super) fn keep(&mut self, at: &str, value: Value) -> bool {
        // A value that is kept as a whole includes its parts.
        if let Some(there) = self.rest.pointer(at) {
            return *there == value;
        }
        let mut place = &mut self.rest;
        for step in at.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            let Value::Object(map) = place else { return false };
            place = map.entry(step).or_insert_with(|| json!({}));
        }
        *place = value;
        self.origins.moved(format!("/metadata/card{at}"), at);
        true
    }

    /// Keeps the members that were not taken.
    pub(super) fn finish(&mut self, part: Part) {
        let Part { map, at } = part;
        for (name, value) in map.into_iter().filter(|(_, value)| !value.is_null()) {
            let at = pointer_join(&at, &name);
            let what = "the registry has no field for it";
            if self.keep(&at, value) {
                self.repairs.made(at, what, KEPT);
            } else {
                self.repairs.needed(at, what, LEFT_OUT);
            }
        }
    }

    /// Takes a value that must be an object.
    pub(super) fn part(&mut self, value: Value, at: String) -> Option<Part> {
        match value {
            Value::Object(map) => Some(Part { map, at }),
            other => {
                self.refuse_type(&at, "an object", other);
                None
            }
        }
    }

    /// Takes a member that must be an object.
    pub(super) fn object(&mut self, part: &mut Part, name: &str) -> Option<Part> {
        let at = part.at(name);
        part.take(name).and_then(|value| self.part(value, at))
    }

    /// Takes a member that must satisfy a predicate.
    pub(super) fn value(
        &mut self,
        part: &mut Part,
        name: &str,
        expected: &str,
        is_right: fn(&Value) -> bool,
    ) -> Option<Value> {
        let value = part.take(name)?;
        if is_right(&value) {
            return Some(value);
        }
        self.refuse_type(&part.at(name), expected, value);
        None
    }

    /// Takes a non-empty text.
    pub(super) fn text(&mut self, part: &mut Part, name: &str) -> Option<String> {
        let text = self.value(part, name, "a text", Value::is_string)?;
        text.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Takes a list of texts, or one text, for this list of the agent.
    pub(super) fn texts(&mut self, part: &mut Part, name: &str, to: &str) -> Vec<Value> {
        let at = part.at(name);
        match part.take(name) {
            None => Vec::new(),
            Some(one @ Value::String(_)) => {
                self.repairs.made(&at, "a text, not a list", "it is a list of one");
                self.origins.list(to, vec![(at, one)])
            }
            Some(Value::Array(items)) => {
                let mut texts = Vec::new();
                for (i, item) in items.into_iter().enumerate() {
                    let at = format!("{at}/{i}");
                    if item.is_string() {
                        texts.push((at, item));
                    } else {
                        self.refuse_type(&at, "a text", item);
                    }
                }
                self.origins.list(to, texts)
            }
            Some(other) => {
                self.refuse_type(&at, "a list", other);
                Vec::new()
            }
        }
    }

    /// Takes the items of a list with their places. The input may be a single item, or a map of
    /// items by `key`.
    pub(super) fn items(&mut self, part: &mut Part, name: &str, key: &str) -> Vec<(String, Value)> {
        let at = part.at(name);
        match part.take(name) {
            None => Vec::new(),
            Some(Value::Array(items)) => {
                let items = items.into_iter().enumerate();
                items.map(|(i, item)| (format!("{at}/{i}"), item)).collect()
            }
            Some(one @ Value::Object(_)) if one.get(key).is_some() => {
                self.repairs.made(&at, "an object, not a list", "it is a list of one");
                vec![(at, one)]
            }
            Some(Value::Object(named)) => {
                let how = format!("they are a list, each with its `{key}`");
                self.repairs.made(&at, "by their names, not as a list", how);
                let item = |(name, mut item): (String, Value)| {
                    let at = pointer_join(&at, &name);
                    if let Value::Object(fields) = &mut item {
                        fields.entry(key).or_insert_with(|| name.into());
                    }
                    (at, item)
                };
                named.into_iter().map(item).collect()
            }
            Some(other) => {
                self.refuse_type(&at, "a list", other);
                Vec::new()
            }
        }
    }
}
