//! Strict reading of JSON that reports all problems of a document, each with its JSON pointer.
//!
//! serde stops at the first problem and does not track pointers, hence these combinators.
//! `$comment` is allowed in every object.

use std::{borrow::Borrow, cell::RefCell};

use schema_compat::pointer::Location;
use serde_json::{Map, Value};

use crate::{
    diagnostic::{Code, Diagnostic},
    kind::Kind,
    limits,
    name::Name,
    reference::Key,
    version::Version,
};

/// The remedy for a list of more than [`limits::LIST_ITEMS`] items.
const SPLIT: &str = "split the document";

/// Collects the problems of one document.
#[derive(Default)]
pub struct Problems(RefCell<Vec<Diagnostic>>);

impl Problems {
    /// Adds a problem. Problems beyond the limit are dropped.
    pub fn push(&self, diagnostic: Diagnostic) {
        let mut found = self.0.borrow_mut();
        if found.len() < limits::PROBLEMS {
            found.push(diagnostic);
        }
    }

    /// Adds a `document-invalid` error at this location.
    pub fn invalid(&self, at: Location<'_>, message: impl Into<String>, help: impl Into<String>) {
        self.push(
            Diagnostic::error(Code::DocumentInvalid, at.to_string(), message).with_help(help),
        );
    }

    /// Adds a `document-invalid` warning at this location.
    pub fn warn(&self, at: Location<'_>, message: impl Into<String>, help: impl Into<String>) {
        self.push(
            Diagnostic::warning(Code::DocumentInvalid, at.to_string(), message).with_help(help),
        );
    }

    /// Whether no problem was reported.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// All problems in the order of discovery.
    pub fn into_vec(self) -> Vec<Diagnostic> {
        self.0.into_inner()
    }

    /// Reads a value as an object; reports any other type.
    pub fn object<'a>(&'a self, value: &'a Value, at: Location<'a>) -> Option<Fields<'a>> {
        if let Value::Object(map) = value {
            Some(Fields::new(map, at, self))
        } else {
            self.wrong_type(value, at, "an object");
            None
        }
    }

    /// The same for an object whose open members are moved instead of copied.
    pub fn owned_object<'a>(&'a self, value: Value, at: Location<'a>) -> Option<OwnedFields<'a>> {
        if let Value::Object(map) = value {
            Some(Fields::new(map, at, self))
        } else {
            self.wrong_type(&value, at, "an object");
            None
        }
    }

    /// Reads a string of at most [`limits::TEXT_BYTES`] bytes.
    pub fn string<'a>(&self, value: &'a Value, at: Location<'_>) -> Option<&'a str> {
        let Value::String(text) = value else {
            self.wrong_type(value, at, "a string");
            return None;
        };
        if text.len() > limits::TEXT_BYTES {
            let message =
                format!("the text has {} bytes; the maximum is {}", text.len(), limits::TEXT_BYTES);
            self.invalid(at, message, "shorten it, or move it into `metadata`");
            return None;
        }
        Some(text)
    }

    /// Reads a valid name for this kind of entity.
    pub fn name(&self, kind: Kind, value: &Value, at: Location<'_>) -> Option<Name> {
        match Name::parse(kind, self.string(value, at)?) {
            Ok(name) => Some(name),
            Err(e) => {
                let found = Diagnostic::error(Code::NameInvalid, at.to_string(), e.to_string());
                self.push(found.with_help(e.help()));
                None
            }
        }
    }

    /// Reads an exact version.
    pub fn version(&self, value: &Value, at: Location<'_>) -> Option<Version> {
        match Version::parse(self.string(value, at)?) {
            Ok(version) => Some(version),
            Err(e) => {
                let found = Diagnostic::error(Code::VersionInvalid, at.to_string(), e.to_string());
                self.push(found.with_help(e.help()));
                None
            }
        }
    }

    /// Reads each item of an array. Invalid items are reported and omitted.
    pub fn items<T>(
        &self,
        value: &Value,
        at: Location<'_>,
        mut read: impl FnMut(&Value, Location<'_>) -> Option<T>,
    ) -> Vec<T> {
        let Value::Array(items) = value else {
            self.wrong_type(value, at, "an array");
            return Vec::new();
        };
        if self.is_too_long(items.len(), limits::LIST_ITEMS, at, SPLIT) {
            return Vec::new();
        }
        items.iter().enumerate().filter_map(|(i, item)| read(item, at.index(i))).collect()
    }

    /// Reports a list with more than `most` items. `help` is the remedy.
    pub fn is_too_long(&self, length: usize, most: usize, at: Location<'_>, help: &str) -> bool {
        if length > most {
            let message = format!("the list has {length} items; the maximum is {most}");
            self.invalid(at, message, help);
        }
        length > most
    }

    /// Reports a value of an unexpected type.
    pub fn wrong_type(&self, value: &Value, at: Location<'_>, expected: &str) {
        let message = format!("expected {expected}, got {}", describe(value));
        self.invalid(at, message, format!("write {expected}"));
    }
}

/// The members of one object. Members that were not read are reported as unknown.
pub struct Fields<'a, M = &'a Map<String, Value>> {
    map: M,
    at: Location<'a>,
    problems: &'a Problems,
    known: RefCell<Vec<&'static str>>,
}

/// The members of an object that its reader owns.
pub type OwnedFields<'a> = Fields<'a, Map<String, Value>>;

/// The members of an object, borrowed or owned.
pub trait Members: Borrow<Map<String, Value>> {
    /// Moves a value out of owned members, and copies it from borrowed ones.
    fn take(&mut self, name: &str) -> Option<Value>;
}

impl Members for &Map<String, Value> {
    fn take(&mut self, name: &str) -> Option<Value> {
        self.get(name).cloned()
    }
}

impl Members for Map<String, Value> {
    fn take(&mut self, name: &str) -> Option<Value> {
        self.iter_mut().find(|(member, _)| *member == name).map(|(_, value)| value.take())
    }
}

impl<'a, M: Members> Fields<'a, M> {
    fn new(map: M, at: Location<'a>, problems: &'a Problems) -> Self {
        Self { map, at, problems, known: RefCell::new(Vec::with_capacity(16)) }
    }

    /// The problems of the document.
    pub fn problems(&self) -> &'a Problems {
        self.problems
    }

    /// The location of the object.
    pub fn here(&self) -> Location<'a> {
        self.at
    }

    /// The location of a member.
    pub fn at(&self, name: &'static str) -> Location<'_> {
        self.at.member(name)
    }

    /// An optional member; `null` counts as absent.
    pub fn get(&self, name: &'static str) -> Option<&Value> {
        self.raw(name).filter(|value| !value.is_null())
    }

    /// An optional member as written, including `null`.
    pub fn raw(&self, name: &'static str) -> Option<&Value> {
        self.know(name);
        // Comparing the few names is faster than a hash.
        let mut members = self.map.borrow().iter();
        members.find(|(member, _)| *member == name).map(|(_, value)| value)
    }

    /// An optional member as an owned value. Members of an owned object are moved, and absent afterwards.
    pub fn take(&mut self, name: &'static str) -> Option<Value> {
        self.know(name);
        self.map.take(name).filter(|value| !value.is_null())
    }

    fn know(&self, name: &'static str) {
        let mut known = self.known.borrow_mut();
        if !known.contains(&name) {
            known.push(name);
        }
    }

    /// A required member; reports its absence.
    pub fn require(&self, name: &'static str) -> Option<&Value> {
        let found = self.get(name);
        if found.is_none() {
            let message = format!("the required field `{name}` is missing");
            self.problems.invalid(self.at, message, format!("add `{name}`"));
        }
        found
    }

    /// An optional string.
    pub fn optional_string(&self, name: &'static str) -> Option<String> {
        self.problems.string(self.get(name)?, self.at(name)).map(str::to_owned)
    }

    /// A required string.
    pub fn required_string(&self, name: &'static str) -> Option<String> {
        self.problems.string(self.require(name)?, self.at(name)).map(str::to_owned)
    }

    /// An optional boolean.
    pub fn optional_bool(&self, name: &'static str) -> Option<bool> {
        let value = self.get(name)?;
        if value.as_bool().is_none() {
            self.problems.wrong_type(value, self.at(name), "true or false");
        }
        value.as_bool()
    }

    /// A required boolean.
    pub fn required_bool(&self, name: &'static str) -> Option<bool> {
        self.require(name)?;
        self.optional_bool(name)
    }

    /// A required name of an entity of this kind.
    pub fn name(&self, kind: Kind, name: &'static str) -> Option<Name> {
        self.problems.name(kind, self.require(name)?, self.at(name))
    }

    /// A required exact version.
    pub fn version(&self, name: &'static str) -> Option<Version> {
        self.problems.version(self.require(name)?, self.at(name))
    }

    /// An optional open JSON object (`metadata`, `defaults` …), preserved unchanged.
    pub fn open_object(&mut self, name: &'static str) -> Option<Map<String, Value>> {
        match self.take(name)? {
            Value::Object(map) => Some(map),
            other => {
                self.problems.wrong_type(&other, self.at(name), "an object");
                None
            }
        }
    }

    /// An optional JSON Schema (an object or a boolean), preserved unchanged.
    pub fn json_schema(&mut self, name: &'static str) -> Option<Value> {
        let value = self.take(name)?;
        let expected = "a JSON Schema (an object or a boolean)";
        if matches!(value, Value::Object(_) | Value::Bool(_)) {
            return Some(value);
        }
        match value.as_str().and_then(intended_reference) {
            Some(reference) => {
                let message = format!("expected {expected}, got {}", describe(&value));
                let help = format!("to refer to a registered schema, write {reference}");
                self.problems.invalid(self.at(name), message, help);
            }
            None => self.problems.wrong_type(&value, self.at(name), expected),
        }
        None
    }

    /// An optional list.
    pub fn list<T>(
        &self,
        name: &'static str,
        read: impl FnMut(&Value, Location<'_>) -> Option<T>,
    ) -> Vec<T> {
        match self.get(name) {
            Some(value) => self.problems.items(value, self.at(name), read),
            None => Vec::new(),
        }
    }

    /// An optional list whose items are moved out of an object that is owned.
    pub fn take_list<T>(
        &mut self,
        name: &'static str,
        mut read: impl FnMut(Value, Location<'_>) -> Option<T>,
    ) -> Vec<T> {
        let value = self.take(name);
        let at = self.at(name);
        match value {
            Some(Value::Array(items)) => {
                if self.problems.is_too_long(items.len(), limits::LIST_ITEMS, at, SPLIT) {
                    return Vec::new();
                }
                let items = items.into_iter().enumerate();
                items.filter_map(|(i, item)| read(item, at.index(i))).collect()
            }
            None => Vec::new(),
            Some(other) => {
                self.problems.wrong_type(&other, at, "an array");
                Vec::new()
            }
        }
    }

    /// A list of strings; empty if absent.
    pub fn strings(&self, name: &'static str) -> Vec<String> {
        self.list(name, |value, at| self.problems.string(value, at).map(str::to_owned))
    }

    /// The members that were not read.
    pub fn unknown(&self) -> Vec<&str> {
        let known = self.known.borrow();
        let is_unknown = |name: &&str| *name != "$comment" && !known.contains(name);
        self.map.borrow().keys().map(String::as_str).filter(is_unknown).collect()
    }

    /// Reports every member that was not read as an unknown field.
    pub fn finish(self) {
        self.finish_with(&[]);
    }

    /// The same, with remedies for unknown fields that are likely mistakes.
    pub fn finish_with(self, remedies: &[(&str, &str)]) {
        for name in self.unknown() {
            let message = format!("unknown field `{}`", name.chars().take(64).collect::<String>());
            let mut help = format!("the valid fields are {}", self.known.borrow().join(", "));
            if let Some((_, remedy)) = remedies.iter().find(|(mistake, _)| *mistake == name) {
                help = format!("{remedy}; {help}");
            }
            self.problems.invalid(self.at.member(name), message, help);
        }
    }
}

/// The reference to a schema that the text `#Name` or `#Name:1.0.0` means.
fn intended_reference(text: &str) -> Option<String> {
    let text = text.strip_prefix('#')?;
    let (name, version) = text.split_once(':').unwrap_or((text, "1.0.0"));
    Key::parse(Kind::Schema, name, version).ok()?;
    Some(format!("{{ \"$ref\": \"#{name}:{version}\" }}, with its exact version"))
}

/// Describes a JSON value for an error message; long strings are truncated.
pub fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => format!("the number {value}"),
        Value::String(text) if text.chars().count() > 40 => {
            format!("the string {:?}…", text.chars().take(40).collect::<String>())
        }
        Value::String(text) => format!("the string {text:?}"),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// The JSON type of a value with its article.
pub fn describe_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
