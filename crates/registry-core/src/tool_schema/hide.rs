//! Hiding of arguments: removes them from `properties`, `required` and all other keywords that name
//! them, at the top level or, by dotted paths, in nested objects.
//!
//! A reference on the path is replaced by a modified copy, so that other uses of the schema stay
//! unchanged. `if` and `not` are not modified: they only test, and a hidden argument is absent for
//! callers.

#[cfg(test)]
mod tests;

use std::{cell::Cell, collections::BTreeSet};

use schema_compat::{
    json_schema::{MemberContent, each_object, member_content, reference_of},
    pointer::{pointer_join, unescape},
};
use serde_json::{Map, Value};

/// Maximum number of references followed per field, because copies could double at each level.
const FOLLOWED: usize = 1_000;

/// The path of a hidden argument: `filters.author`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenField(Vec<Box<str>>);

impl HiddenField {
    /// Parses a dotted path.
    pub fn parse(text: &str) -> Self {
        Self(text.split('.').map(Into::into).collect())
    }

    /// The name of a top-level argument that is hidden entirely.
    pub(crate) fn argument(&self) -> Option<&str> {
        match &*self.0 {
            [name] => Some(name),
            _ => None,
        }
    }

    /// The JSON pointer of the path: `/filters/author`.
    pub fn pointer(&self) -> String {
        self.0.iter().fold(String::new(), |pointer, name| pointer_join(&pointer, name))
    }

    /// The value at this path in the arguments.
    pub fn find<'a>(&self, arguments: &'a Map<String, Value>) -> Option<&'a Value> {
        let (first, rest) = self.0.split_first()?;
        rest.iter().try_fold(arguments.get(&**first)?, |value, name| value.get(&**name))
    }

    /// Whether a non-object value on the path prevents a value at this path. `null` counts as
    /// absent.
    pub fn is_obstructed(&self, arguments: &Map<String, Value>) -> bool {
        let parents = self.0.split_last().map_or(&[][..], |(_, parents)| parents);
        let mut members = arguments;
        for name in parents {
            match members.get(&**name) {
                None | Some(Value::Null) => return false,
                Some(Value::Object(inner)) => members = inner,
                Some(_) => return true,
            }
        }
        false
    }

    /// Inserts a value at this path and creates missing objects. Returns whether the value is
    /// present afterwards; existing non-object values are preserved.
    pub fn insert(&self, arguments: &mut Map<String, Value>, value: Value) -> bool {
        let Some((last, parents)) = self.0.split_last() else { return false };
        let parent = parents.iter().try_fold(arguments, |members, name| {
            let inner = members.entry(&**name).or_insert_with(|| Value::Object(Map::new()));
            inner.as_object_mut()
        });
        parent.map(|parent| parent.insert(last.to_string(), value)).is_some()
    }
}

/// Removes these arguments from a self-contained schema.
pub fn hide(schema: &mut Value, fields: &[HiddenField]) {
    for HiddenField(path) in fields {
        let root = schema.clone();
        let budget = Cell::new(FOLLOWED);
        conceal(schema, path, Whole { root: &root, trail: None, budget: &budget });
    }
    if !fields.is_empty() {
        drop_unused_definitions(schema);
    }
}

/// The whole schema for resolving references, and the references followed so far.
#[derive(Clone, Copy)]
struct Whole<'a> {
    root: &'a Value,
    trail: Option<&'a Step<'a>>,
    budget: &'a Cell<usize>,
}

/// A followed reference with the remaining length of the path.
struct Step<'a> {
    pointer: &'a str,
    left: usize,
    before: Option<&'a Step<'a>>,
}

impl Whole<'_> {
    /// Whether the same reference was followed with the same remaining path, which is a cycle
    /// without further results.
    fn has_followed(&self, pointer: &str, left: usize) -> bool {
        let mut trail = self.trail;
        while let Some(step) = trail {
            if step.pointer == pointer && step.left == left {
                return true;
            }
            trail = step.before;
        }
        false
    }
}

fn conceal(schema: &mut Value, path: &[Box<str>], whole: Whole<'_>) {
    let (Value::Object(map), Some((name, rest))) = (schema, path.split_first()) else { return };
    for keyword in ["allOf", "anyOf", "oneOf"] {
        if let Some(Value::Array(branches)) = map.get_mut(keyword) {
            for branch in branches {
                conceal(branch, path, whole);
            }
        }
    }
    for keyword in ["then", "else"] {
        if let Some(branch) = map.get_mut(keyword) {
            conceal(branch, path, whole);
        }
    }
    if let Some(Value::Object(branches)) = map.get_mut("dependentSchemas") {
        for branch in branches.values_mut() {
            conceal(branch, path, whole);
        }
    }
    if rest.is_empty() {
        forget(map, name);
    } else if let Some(inner) = map.get_mut("properties").and_then(|all| all.get_mut(&**name)) {
        conceal(inner, rest, whole);
    }
    // Last, because the inlined copy is already modified.
    follow(map, path, whole);
}

/// Removes a name from all keywords that list property names.
fn forget(map: &mut Map<String, Value>, name: &str) {
    for keyword in ["properties", "dependentSchemas", "dependentRequired", "dependencies"] {
        if let Some(Value::Object(named)) = map.get_mut(keyword) {
            named.remove(name);
        }
    }
    if let Some(Value::Array(required)) = map.get_mut("required") {
        required.retain(|entry| entry.as_str() != Some(name));
        if required.is_empty() {
            map.remove("required");
        }
    }
    if let Some(Value::Object(named)) = map.get_mut("dependentRequired") {
        for list in named.values_mut().filter_map(Value::as_array_mut) {
            list.retain(|entry| entry.as_str() != Some(name));
        }
    }
}

/// Replaces a local reference by a modified copy of its target if there is anything to modify.
fn follow(map: &mut Map<String, Value>, path: &[Box<str>], whole: Whole<'_>) {
    let pointer = reference_of(map).and_then(|text| text.strip_prefix('#')).map(str::to_owned);
    let Some(pointer) = pointer.as_deref() else { return };
    let target = whole.root.pointer(pointer);
    let Some(target) = target.filter(|_| !whole.has_followed(pointer, path.len())) else { return };
    let Some(left) = whole.budget.get().checked_sub(1) else { return };
    whole.budget.set(left);
    let step = Step { pointer, left: path.len(), before: whole.trail };
    let mut changed = target.clone();
    conceal(&mut changed, path, Whole { trail: Some(&step), ..whole });
    if changed == *target {
        return;
    }
    map.remove("$ref");
    match map.entry("allOf").or_insert_with(|| Value::Array(Vec::new())) {
        Value::Array(all) => all.push(changed),
        other => *other = Value::Array(vec![changed]),
    }
    merge_single(map);
}

/// Replaces `{"allOf": [X]}` by X unless siblings conflict.
fn merge_single(map: &mut Map<String, Value>) {
    let is_single = matches!(map.get("allOf"), Some(Value::Array(all)) if all.len() == 1);
    let Some(Value::Array(mut all)) = map.remove("allOf") else { return };
    let collides = |inner: &Map<String, Value>| inner.keys().any(|name| map.contains_key(name));
    match all.pop() {
        Some(Value::Object(inner)) if is_single && !collides(&inner) => map.extend(inner),
        Some(last) => {
            all.push(last);
            map.insert("allOf".to_owned(), Value::Array(all));
        }
        None => {}
    }
}

/// Removes unreferenced definitions, which may contain names of hidden arguments.
fn drop_unused_definitions(schema: &mut Value) {
    let Some(used) = used_definitions(schema) else { return };
    let Value::Object(map) = schema else { return };
    for container in ["$defs", "definitions"] {
        if let Some(Value::Object(named)) = map.get_mut(container) {
            named.retain(|name, _| used.contains(&(container.to_owned(), name.clone())));
            if named.is_empty() {
                map.remove(container);
            }
        }
    }
}

/// The definitions reachable from the top; `None` if a reference uses a URI or anchor.
fn used_definitions(schema: &Value) -> Option<BTreeSet<(String, String)>> {
    let mut used = BTreeSet::new();
    let mut waiting = Vec::new();
    for (name, value) in schema.as_object()? {
        if !matches!(name.as_str(), "$defs" | "definitions") {
            waiting.extend(local_references(name, value)?);
        }
    }
    while let Some((container, name)) = waiting.pop() {
        let Some(target) = schema.get(&container).and_then(|named| named.get(&name)) else {
            continue;
        };
        if used.insert((container, name)) {
            waiting.extend(local_references("", target)?);
        }
    }
    Some(used)
}

/// The definitions that one member of a schema refers to.
fn local_references(member: &str, value: &Value) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut is_plain = true;
    let mut visit = |map: &Map<String, Value>| {
        is_plain &= !["$dynamicRef", "$recursiveRef", "$id"].iter().any(|k| map.contains_key(*k));
        let Some(text) = reference_of(map) else { return };
        match text.strip_prefix("#/").map(|rest| rest.splitn(3, '/').collect::<Vec<_>>()) {
            Some(parts) if parts.len() > 1 => {
                let name = unescape(parts[1]);
                found.push((parts[0].to_owned(), name));
            }
            _ => is_plain &= text == "#" || text.starts_with("#/"),
        }
    };
    match (member_content(member), value) {
        (MemberContent::Data, _) => {}
        (MemberContent::Named, Value::Object(named)) => {
            named.values().for_each(|schema| each_object(schema, &mut visit));
        }
        _ if member == "$ref" => each_object(&serde_json::json!({ "$ref": value }), &mut visit),
        _ => each_object(value, &mut visit),
    }
    is_plain.then_some(found)
}
