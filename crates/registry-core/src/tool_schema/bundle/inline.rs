//! Inlining of embedded schemas.
//!
//! Many clients do not support `$ref`, so only recursive schemas stay in `$defs`. A schema that
//! would exceed one of the limits below keeps all of its references, because references can
//! multiply.

use std::collections::{BTreeMap, BTreeSet};

use schema_compat::json_schema::{MemberContent, each_object, member_content, reference_of};
use serde_json::{Map, Value, json};

use super::{ANNOTATIONS, dialect, is_old};
use crate::schema_inline::fragment_pointer;

/// Maximum number of values after inlining.
const MOST_VALUES: usize = 20_000;
/// Maximum nesting after inlining; many JSON parsers stop at 128 levels.
const MOST_LEVELS: usize = 96;
/// Maximum number of different references into embedded schemas.
const MOST_TARGETS: usize = 256;

/// Inlines the members `embedded` of the container (`$defs` or `definitions`) of a bundle.
pub(super) fn inline(bundle: Value, container: &str, embedded: &[String]) -> Value {
    let sources = Sources::new(&bundle, container, embedded);
    let is_old = bundle.as_object().is_some_and(|map| is_old(dialect(map)));
    let mut inliner = Inliner { sources: &sources, is_old, left: MOST_VALUES, level: 0 };
    let result = inliner.root(&bundle, container, embedded);
    result.filter(|_| sources.targets.len() <= MOST_TARGETS).unwrap_or(bundle)
}

/// The targets of references into the embedded schemas.
struct Sources<'a> {
    targets: BTreeMap<String, &'a Value>,
    recursive: BTreeSet<String>,
}

impl<'a> Sources<'a> {
    fn new(bundle: &'a Value, container: &str, embedded: &[String]) -> Self {
        let roots: BTreeSet<_> = embedded.iter().map(String::as_str).collect();
        let target = |reference: &str| {
            let pointer = fragment_pointer(reference.strip_prefix('#')?)?;
            let mut steps = pointer.strip_prefix('/')?.split('/');
            let is_embedded = steps.next() == Some(container)
                && steps.next().is_some_and(|name| roots.contains(name));
            is_embedded.then(|| bundle.pointer(&pointer)).flatten()
        };
        let mut targets = BTreeMap::new();
        let mut edges: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut waiting = references(bundle);
        while let Some(reference) = waiting.pop() {
            if targets.len() > MOST_TARGETS {
                break;
            }
            let Some(found) = target(&reference).filter(|_| !targets.contains_key(&reference))
            else {
                continue;
            };
            let onward = references(found);
            waiting.extend(onward.iter().cloned());
            targets.insert(reference.clone(), found);
            edges.insert(reference, onward);
        }
        let recursive = edges.keys().filter(|start| reaches_itself(start, &edges)).cloned();
        Self { recursive: recursive.collect(), targets }
    }

    /// The schema to inline for a reference; `None` if it is recursive.
    fn find(&self, reference: &str) -> Option<&'a Value> {
        self.targets.get(reference).copied().filter(|_| !self.recursive.contains(reference))
    }
}

fn references(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    each_object(schema, &mut |map| found.extend(reference_of(map).map(str::to_owned)));
    found
}

fn reaches_itself(start: &String, edges: &BTreeMap<String, Vec<String>>) -> bool {
    let mut seen = BTreeSet::new();
    let mut waiting = vec![start];
    while let Some(at) = waiting.pop() {
        for next in edges.get(at).into_iter().flatten() {
            if next == start {
                return true;
            }
            if seen.insert(next) {
                waiting.push(next);
            }
        }
    }
    false
}

struct Inliner<'a> {
    sources: &'a Sources<'a>,
    /// Whether siblings of a reference are ignored, as up to draft 7.
    is_old: bool,
    left: usize,
    level: usize,
}

impl Inliner<'_> {
    /// The bundle with the embedded schemas that are still referenced.
    fn root(&mut self, bundle: &Value, container: &str, embedded: &[String]) -> Option<Value> {
        let mut top = bundle.as_object()?.clone();
        let mut definitions = top.remove(container)?.as_object()?.clone();
        let mut apart = Map::new();
        for name in embedded {
            apart.insert(name.clone(), definitions.remove(name)?);
        }
        if !definitions.is_empty() {
            top.insert(container.to_owned(), definitions.into());
        }
        let mut result = self.schema(&Value::Object(top))?;
        let mut kept = Map::new();
        let mut waiting = references(&result);
        while let Some(reference) = waiting.pop() {
            if !self.sources.recursive.contains(&reference) {
                continue;
            }
            let Some(name) = apart.keys().find(|name| leads_into(&reference, container, name))
            else {
                continue;
            };
            if !kept.contains_key(name) {
                let schema = self.schema(&apart[name])?;
                waiting.extend(references(&schema));
                kept.insert(name.clone(), schema);
            }
        }
        if !kept.is_empty() {
            let definitions = result.as_object_mut()?.entry(container).or_insert_with(|| json!({}));
            definitions.as_object_mut()?.extend(kept);
        }
        Some(result)
    }

    /// `None` if the result has too many values or levels.
    fn schema(&mut self, value: &Value) -> Option<Value> {
        self.left = self.left.checked_sub(1)?;
        if self.level == MOST_LEVELS {
            return None;
        }
        self.level += 1;
        let schema = match value {
            Value::Object(map) => self.object(map),
            Value::Array(items) => {
                items.iter().map(|item| self.schema(item)).collect::<Option<_>>().map(Value::Array)
            }
            other => Some(other.clone()),
        };
        self.level -= 1;
        schema
    }

    fn object(&mut self, map: &Map<String, Value>) -> Option<Value> {
        let target = reference_of(map).and_then(|reference| self.sources.find(reference));
        let mut own = Map::new();
        for (name, value) in map {
            if target.is_some() && name == "$ref" {
                continue;
            }
            let value = match (member_content(name), value) {
                (MemberContent::Data, _) => value.clone(),
                (MemberContent::Named, Value::Object(named)) => self.named(named)?,
                _ => self.schema(value)?,
            };
            own.insert(name.clone(), value);
        }
        let Some(target) = target else { return Some(own.into()) };
        let mut target = self.schema(target)?;
        if let Value::Object(map) = &mut target {
            // All references to these have been inlined.
            map.remove("$defs");
            map.remove("definitions");
        }
        Some(self.joined(own, target))
    }

    fn named(&mut self, named: &Map<String, Value>) -> Option<Value> {
        let member = |(name, value): (&String, &Value)| Some((name.clone(), self.schema(value)?));
        named.iter().map(member).collect::<Option<Map<_, _>>>().map(Value::Object)
    }

    /// A schema equivalent to a reference to `target` with these siblings.
    fn joined(&self, mut own: Map<String, Value>, target: Value) -> Value {
        let is_definitions = |name: &str| matches!(name, "$defs" | "definitions");
        let is_annotation = |name: &str| ANNOTATIONS.contains(&name);
        if self.is_old {
            own.retain(|name, _| is_annotation(name) || is_definitions(name));
        }
        match target {
            target if own.is_empty() => target,
            Value::Object(mut target)
                if own.keys().all(|name| is_annotation(name) || is_definitions(name)) =>
            {
                target.extend(own);
                target.into()
            }
            target => {
                let all = own.entry("allOf").or_insert_with(|| json!([]));
                if let Value::Array(all) = all {
                    // Appended, so that pointers to the other items stay valid.
                    all.push(target);
                }
                own.into()
            }
        }
    }
}

fn leads_into(reference: &str, container: &str, name: &str) -> bool {
    let pointer = reference.strip_prefix('#').and_then(fragment_pointer).unwrap_or_default();
    let rest = pointer.strip_prefix(&format!("/{container}/{name}"));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
