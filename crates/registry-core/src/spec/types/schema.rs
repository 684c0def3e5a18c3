//! The structure of a JSON Schema: the schemas of members and items.
//!
//! Every result is an upper bound: unknown keywords are ignored, so an accepted value never has a
//! member or item outside of it. The schemas have no references here.

use std::{borrow::Cow, collections::HashSet};

use schema_compat::json_schema::{MemberContent, each_object, has_references, member_content};
use serde_json::{Map, Value, json};

/// Maximum number of distinguished cases of `anyOf`, `oneOf` and `if`.
const CASES: usize = 48;

/// A set of JSON types; integers are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) const ALL: Self = Self(63);
    pub(super) const NULL: Self = Self(1);
    pub(super) const ARRAY: Self = Self(16);
    pub(super) const OBJECT: Self = Self(32);
    const NAMES: [(&'static str, u8, &'static str); 7] = [
        ("null", 1, "null"),
        ("boolean", 2, "a boolean"),
        ("integer", 4, "a number"),
        ("number", 4, "a number"),
        ("string", 8, "a string"),
        ("array", 16, "an array"),
        ("object", 32, "an object"),
    ];

    fn named(name: &str) -> Self {
        let found = Self::NAMES.iter().find(|(known, ..)| *known == name);
        found.map_or(Self::ALL, |(_, bit, _)| Self(*bit))
    }

    pub(super) fn of_value(value: &Value) -> Self {
        Self(match value {
            Value::Null => 1,
            Value::Bool(_) => 2,
            Value::Number(_) => 4,
            Value::String(_) => 8,
            Value::Array(_) => 16,
            Value::Object(_) => 32,
        })
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Describes the set: `a string or null`; `None` for every type.
    pub(super) fn words(self) -> Option<String> {
        let named = Self::NAMES
            .iter()
            .rev()
            .filter(|(name, bit, _)| *name != "integer" && self.0 & bit != 0);
        let named: Vec<_> = named.map(|(.., words)| *words).collect();
        (self != Self::ALL && !named.is_empty()).then(|| named.join(" or "))
    }
}

/// The schema of a part of a value, and the number of such parts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    pub(super) schema: Value,
    /// The number of such parts.
    pub(super) min: u64,
    pub(super) max: u64,
    /// Whether the schema declares the part.
    pub(super) is_declared: bool,
}

impl Part {
    fn nothing() -> Self {
        Self { schema: Value::Bool(false), min: 0, max: 0, is_declared: true }
    }

    /// The union of parts.
    fn any(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut parts = parts.into_iter();
        let Some(first) = parts.next() else { return Self::nothing() };
        let mut all = Self { schema: Value::Null, ..first.clone() };
        let mut schemas = vec![first.schema];
        for part in parts {
            all.min = all.min.min(part.min);
            all.max = all.max.max(part.max);
            all.is_declared &= part.is_declared;
            if !schemas.contains(&part.schema) {
                schemas.push(part.schema);
            }
        }
        Self { schema: any_of(schemas), ..all }
    }
}

/// A schema that accepts the values of all these schemas.
pub(super) fn any_of(mut schemas: Vec<Value>) -> Value {
    schemas.retain(|schema| *schema != Value::Bool(false));
    match schemas.len() {
        0 => Value::Bool(false),
        1 => schemas.remove(0),
        _ if schemas.contains(&Value::Bool(true)) => Value::Bool(true),
        _ => json!({ "anyOf": schemas }),
    }
}

pub(super) fn all_of(mut schemas: Vec<Value>) -> Value {
    schemas.retain(|schema| *schema != Value::Bool(true));
    match schemas.len() {
        0 => Value::Bool(true),
        1 => schemas.remove(0),
        _ if schemas.contains(&Value::Bool(false)) => Value::Bool(false),
        _ => json!({ "allOf": schemas }),
    }
}

/// An equivalent or wider schema in draft 2020-12; `None` for a draft before 7.
pub(super) fn modern(schema: &Value) -> Option<Value> {
    let draft = schema.get("$schema").and_then(Value::as_str);
    let is_7 = draft.is_some_and(|draft| draft.contains("draft-07"));
    let is_known = ["/2020-12/", "/2019-09/", "draft-07"];
    if draft.is_some_and(|draft| !is_known.iter().any(|known| draft.contains(known))) {
        return None;
    }
    let mut schema = schema.clone();
    let has_positions = is_7 || draft.is_some_and(|draft| draft.contains("/2019-09/"));
    rewrite(&mut schema, is_7, has_positions);
    Some(schema)
}

/// Keywords that draft 7 lacks.
const AFTER_7: [&str; 8] = [
    "prefixItems",
    "unevaluatedProperties",
    "unevaluatedItems",
    "dependentSchemas",
    "dependentRequired",
    "minContains",
    "maxContains",
    "$vocabulary",
];

/// Rewrites one schema object without its subschemas. `is_7` means draft 7, and `has_positions`
/// draft 7 or 2019-09.
pub(crate) fn rewrite_object(map: &mut Map<String, Value>, is_7: bool, has_positions: bool) {
    map.remove("$schema");
    if is_7 {
        map.retain(|name, _| !AFTER_7.contains(&name.as_str()));
    }
    if !has_positions {
        return;
    }
    map.remove("prefixItems");
    if map.get("items").is_some_and(Value::is_array) {
        let first = map.remove("items").unwrap_or_default();
        map.insert("prefixItems".to_owned(), first);
        if let Some(rest) = map.remove("additionalItems") {
            map.insert("items".to_owned(), rest);
        }
    }
}

/// Wraps a schema in another one. Its dialect and its definitions stay at the root.
pub(crate) fn wrapped(mut schema: Value, wrap: impl FnOnce(Value) -> Value) -> Value {
    let root = ["$schema", "$defs"].map(|keyword| {
        let value = schema.as_object_mut().and_then(|map| map.remove(keyword));
        (keyword, value)
    });
    let mut outer = wrap(schema);
    for (keyword, value) in root {
        if let (Some(value), Value::Object(map)) = (value, &mut outer) {
            map.insert(keyword.to_owned(), value);
        }
    }
    outer
}

/// The definitions of recursive schemas under unique names.
pub(super) type Definitions = Map<String, Value>;

/// Collects the definitions at the root of a schema, converted to draft 2020-12.
pub(super) fn definitions(schema: &Value, all: &mut Definitions) {
    let has_some = schema.get("$defs").is_some();
    let modern = has_some.then(|| modern(schema)).flatten();
    if let Some(Value::Object(found)) =
        modern.and_then(|mut modern| modern.get_mut("$defs").map(Value::take))
    {
        all.extend(found);
    }
}

/// The schema with the definitions that it references.
pub(super) fn complete<'s>(schema: &'s Value, all: &Definitions) -> Cow<'s, Value> {
    if all.is_empty() || !has_references(schema) {
        return Cow::Borrowed(schema);
    }
    let mut found = schema.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut waiting = referred(schema);
    while let Some(name) = waiting.pop() {
        if let (false, Some(definition)) = (found.contains_key(&name), all.get(&name)) {
            waiting.extend(referred(definition));
            found.insert(name, definition.clone());
        }
    }
    let mut schema = schema.clone();
    if let Value::Object(map) = &mut schema {
        map.insert("$defs".to_owned(), found.into());
    }
    Cow::Owned(schema)
}

/// The names of the referenced definitions.
fn referred(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    each_object(schema, &mut |map| {
        let reference = map.get("$ref").and_then(Value::as_str);
        let name = reference.and_then(|reference| reference.strip_prefix("#/$defs/"));
        found.extend(name.map(str::to_owned));
    });
    found
}

fn rewrite(schema: &mut Value, is_7: bool, has_positions: bool) {
    match schema {
        Value::Object(map) => {
            rewrite_object(map, is_7, has_positions);
            for (name, part) in map.iter_mut() {
                match (member_content(name), part) {
                    (MemberContent::Data, _) => {}
                    (MemberContent::Named, Value::Object(named)) => {
                        named.values_mut().for_each(|part| rewrite(part, is_7, has_positions));
                    }
                    (_, part) => rewrite(part, is_7, has_positions),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|part| rewrite(part, is_7, has_positions)),
        _ => {}
    }
}

/// Schema objects that all apply.
pub(super) type Case<'s> = Vec<&'s Map<String, Value>>;

/// The cases of a schema: each accepted value matches at least one.
pub(super) struct Cases<'s> {
    pub(super) all: Vec<Case<'s>>,
    /// Whether every disjunction was split.
    pub(super) is_complete: bool,
}

impl<'s> Cases<'s> {
    pub(super) fn new(schema: &'s Value) -> Self {
        let mut cases = Self { all: Vec::new(), is_complete: true };
        cases.all = cases.split(schema);
        cases.all.retain(|case| !kinds_of(case).is_empty());
        cases
    }

    fn split(&mut self, schema: &'s Value) -> Vec<Case<'s>> {
        let map = match schema {
            Value::Object(map) => map,
            Value::Bool(false) => return Vec::new(),
            _ => return vec![Vec::new()],
        };
        let mut all = vec![vec![map]];
        for part in schemas(map, "allOf") {
            let part = self.split(part);
            all = self.both(all, &part);
        }
        for keyword in ["anyOf", "oneOf"] {
            if map.get(keyword).is_some_and(Value::is_array) {
                let branches: Vec<_> =
                    schemas(map, keyword).flat_map(|branch| self.split(branch)).collect();
                all = self.both(all, &branches);
            }
        }
        if let Some(condition) = map.get("if") {
            let condition = self.split(condition);
            let mut branch = |name: &str| {
                map.get(name).map_or_else(|| vec![Vec::new()], |branch| self.split(branch))
            };
            let (then, otherwise) = (branch("then"), branch("else"));
            let mut branches = self.both(condition, &then);
            branches.extend(otherwise);
            all = self.both(all, &branches);
        }
        all
    }

    /// The Cartesian product of cases.
    fn both(&mut self, one: Vec<Case<'s>>, other: &[Case<'s>]) -> Vec<Case<'s>> {
        if one.len() * other.len() > CASES {
            self.is_complete = false;
            return one;
        }
        let join = |a: &Case<'s>| {
            let a = a.clone();
            other.iter().map(move |b| a.iter().chain(b).copied().collect())
        };
        one.iter().flat_map(join).collect()
    }
}

fn schemas<'s>(map: &'s Map<String, Value>, keyword: &str) -> impl Iterator<Item = &'s Value> {
    map.get(keyword).and_then(Value::as_array).into_iter().flatten()
}

/// The values that a schema object enumerates.
pub(super) fn listed(map: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (map.get("const"), map.get("enum").and_then(Value::as_array)) {
        (Some(value), _) => Some(vec![value]),
        (None, Some(values)) => Some(values.iter().collect()),
        (None, None) => None,
    }
}

pub(super) fn kinds_of(case: &Case<'_>) -> Kinds {
    let mut kinds = Kinds::ALL;
    for map in case {
        let own = match map.get("type") {
            Some(Value::String(name)) => Kinds::named(name),
            Some(Value::Array(names)) => {
                let names = names.iter().filter_map(Value::as_str).map(Kinds::named);
                names.fold(Kinds(0), Kinds::or)
            }
            _ => Kinds::ALL,
        };
        kinds = kinds.and(own);
        if let Some(values) = listed(map) {
            kinds = kinds.and(values.into_iter().map(Kinds::of_value).fold(Kinds(0), Kinds::or));
        }
    }
    kinds
}

/// The types of the values that a schema accepts.
pub(super) fn kinds(schema: &Value) -> Kinds {
    Cases::new(schema).all.iter().map(kinds_of).fold(Kinds(0), Kinds::or)
}

/// The member with this name.
pub(super) fn member(schema: &Value, name: &str) -> Part {
    let cases = Cases::new(schema);
    let of = |case: &Case<'_>| member_of(case, name, cases.is_complete);
    Part::any(cases.all.iter().map(of))
}

pub(super) fn member_of(case: &Case<'_>, name: &str, is_complete: bool) -> Part {
    let kinds = kinds_of(case);
    if !kinds.has(Kinds::OBJECT) {
        return Part::nothing();
    }
    let mut parts = Vec::new();
    let (mut is_sure, mut is_declared, mut may_be_evaluated) = (false, false, false);
    for map in case {
        // A recursive schema may declare it.
        is_declared |= map.contains_key("$ref");
        if let Some(values) = listed(map) {
            let objects = values.iter().filter_map(|value| value.as_object());
            is_sure |= objects.clone().all(|object| object.contains_key(name));
            let members: Vec<_> = objects.filter_map(|object| object.get(name)).collect();
            if members.is_empty() {
                return Part::nothing();
            }
            parts.push(json!({ "enum": members }));
            is_declared = true;
        }
        is_sure |= names(map, "required").any(|known| known == name);
        if map.get("not").is_some_and(|not| *not == json!({ "required": [name] })) {
            return Part::nothing();
        }
        let matching = matching(map, name);
        let has_patterns = matching.is_none();
        // An expensive pattern may declare it, too.
        is_declared |= has_patterns;
        may_be_evaluated |= has_patterns
            || map.contains_key("additionalProperties")
            || map.contains_key("dependentSchemas")
            || map.contains_key("dependencies");
        let own = map.get("properties").and_then(|all| all.get(name));
        let own: Vec<_> = own.into_iter().chain(matching.into_iter().flatten()).collect();
        if !own.is_empty() {
            is_declared = true;
            parts.extend(own.into_iter().cloned());
        } else if let Some(additional) = map.get("additionalProperties").filter(|_| !has_patterns) {
            is_declared |= additional.is_object();
            parts.push(additional.clone());
        }
    }
    let is_closed =
        |map: &&Map<String, Value>| map.get("unevaluatedProperties") == Some(&Value::Bool(false));
    let is_left = is_complete && !is_declared && !may_be_evaluated;
    let schema = all_of(parts);
    if schema == Value::Bool(false) || is_left && case.iter().any(is_closed) {
        return Part::nothing();
    }
    let min = u64::from(is_sure && kinds == Kinds::OBJECT);
    Part { schema, min, max: 1, is_declared }
}

/// The schemas of the patterns that match a name; `None` if a pattern is too expensive to evaluate.
fn matching<'s>(map: &'s Map<String, Value>, name: &str) -> Option<Vec<&'s Value>> {
    /// Limits on the number of patterns and the bytes of one, because a counted repetition can
    /// compile to many states.
    const PATTERNS: usize = 8;
    const BYTES: usize = 64;
    let patterns = map.get("patternProperties").and_then(Value::as_object);
    if patterns.is_some_and(|patterns| patterns.len() > PATTERNS) {
        return None;
    }
    let mut found = Vec::new();
    for (pattern, schema) in patterns.into_iter().flatten() {
        if pattern.len() > BYTES || pattern.contains('{') {
            return None;
        }
        let matches = json!({ "pattern": pattern });
        let validator = schema_compat::schema_compile::compile(&matches, &|_| None).ok()?;
        if validator.accepts(&json!(name))? {
            found.push(schema);
        }
    }
    Some(found)
}

/// The names of the members that a schema declares or requires.
pub(super) fn declared(schema: &Value) -> Vec<String> {
    let cases = Cases::new(schema);
    let (mut found, mut known) = (Vec::new(), HashSet::new());
    for map in cases.all.iter().flatten() {
        let listed = listed(map).unwrap_or_default().into_iter().filter_map(Value::as_object);
        let listed = listed.flat_map(|object| object.keys().map(String::as_str));
        let all = members(map, "properties").chain(names(map, "required")).chain(listed);
        for name in all {
            if known.insert(name) {
                found.push(name.to_owned());
            }
        }
    }
    found
}

fn members<'s>(map: &'s Map<String, Value>, keyword: &str) -> impl Iterator<Item = &'s str> {
    let named = map.get(keyword).and_then(Value::as_object);
    named.into_iter().flat_map(|named| named.keys().map(String::as_str))
}

fn names<'s>(map: &'s Map<String, Value>, keyword: &str) -> impl Iterator<Item = &'s str> {
    schemas(map, keyword).filter_map(Value::as_str)
}

/// Whether a schema accepts undeclared members.
pub(super) fn is_open(schema: &Value) -> bool {
    // No schema declares this name.
    member(schema, "\u{0}").max > 0
}

/// A number of items.
fn count(map: &Map<String, Value>, keyword: &str) -> Option<u64> {
    let value = map.get(keyword)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are small")]
    let whole = |float: f64| (float >= 0.0).then_some(float as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}

/// The items of the arrays that a schema accepts.
#[derive(Debug, Clone)]
pub(super) struct Elements {
    /// The schemas of the first positions and of all others.
    pub(super) first: Vec<Value>,
    pub(super) rest: Value,
    pub(super) min: u64,
    pub(super) max: u64,
}

/// The items of arrays case by case; empty if the schema accepts no array.
pub(super) fn elements(schema: &Value) -> Vec<Elements> {
    let cases = Cases::new(schema);
    cases.all.iter().flat_map(elements_of).collect()
}

pub(super) fn elements_of(case: &Case<'_>) -> Vec<Elements> {
    if !kinds_of(case).has(Kinds::ARRAY) {
        return Vec::new();
    }
    if let Some(values) = case.iter().find_map(|map| listed(map)) {
        let arrays = values.into_iter().filter_map(Value::as_array);
        let exactly = |items: &Vec<Value>| Elements {
            first: items.iter().map(|item| json!({ "const": item })).collect(),
            rest: Value::Bool(false),
            min: items.len() as u64,
            max: items.len() as u64,
        };
        return arrays.map(exactly).collect();
    }
    let prefix = |map: &Map<String, Value>| schemas(map, "prefixItems").count();
    let positions = case.iter().map(|map| prefix(map)).max().unwrap_or(0);
    let at = |position: usize| {
        let own = |map: &&Map<String, Value>| {
            let own = schemas(map, "prefixItems").nth(position).or_else(|| map.get("items"));
            own.filter(|own| !own.is_array()).cloned()
        };
        all_of(case.iter().filter_map(own).collect())
    };
    let (mut min, mut max) = (0, u64::MAX);
    for map in case {
        min = min.max(count(map, "minItems").unwrap_or(0));
        max = max.min(count(map, "maxItems").unwrap_or(u64::MAX));
        if map.contains_key("contains") {
            min = min.max(count(map, "minContains").unwrap_or(1));
        }
    }
    let (mut first, rest): (Vec<_>, _) = ((0..positions).map(at).collect(), at(positions));
    if let Some(end) = first.iter().position(|schema| *schema == Value::Bool(false)) {
        max = max.min(end as u64);
        first.truncate(end);
    } else if rest == Value::Bool(false) {
        max = max.min(first.len() as u64);
    }
    if min > max {
        return Vec::new();
    }
    vec![Elements { first, rest, min, max }]
}
