//! Self-contained schemas for the checker of compositions: references are inlined, and recursive
//! ones point to `$defs` of the schema.
//!
//! URIs and anchors are resolved first, so neither `$id` nor `$anchor` remains. The dialect is
//! preserved, except that drafts 4 and 6 are translated to draft 7.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use schema_compat::{
    json_schema::{MemberContent, each_object_at, map_objects, member_content, reference_of},
    pointer::Location,
};
use serde_json::{Map, Value, json};

use crate::{
    schema_inline::{InlineBudget, fragment_pointer, inlined},
    spec::types::rewrite_object,
};

const DRAFT_7: &str = "http://json-schema.org/draft-07/schema#";

/// The self-contained form of a schema; `None` if it is too large or has an unresolved reference.
pub(in crate::rules) fn self_contained(schema: &Value, budget: &mut InlineBudget) -> Option<Value> {
    let places = Places::new(schema);
    let mut flat = Flattening { places: &places, is_resolved: true };
    let mut whole = flat.part(schema, Location::ROOT, (places.dialect, ""));
    if !flat.is_resolved {
        return None;
    }
    // A document that mixes dialects is translated to the newest.
    if let (false, Value::Object(map)) = (places.is_mixed, &mut whole)
        && let Some(uri) = places.dialect.uri()
    {
        map.insert("$schema".to_owned(), uri.into());
    }
    let mut form = inlined(&whole, &|_| None, budget)?;
    let mut definitions =
        Definitions { whole: &whole, hash: hash(&whole.to_string()), found: BTreeMap::new() };
    form = definitions.rewritten(&form);
    if let Value::Object(map) = &mut form {
        map.remove("definitions");
        map.remove("$defs");
        if !definitions.found.is_empty() {
            let found = definitions.found.into_iter().collect::<Map<_, _>>();
            map.insert("$defs".to_owned(), found.into());
        }
        if let Some(declared) = whole.get("$schema") {
            map.insert("$schema".to_owned(), declared.clone());
        }
    }
    Some(form)
}

/// The JSON Schema version of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Draft4,
    Draft6,
    Draft7,
    Draft201909,
    Draft202012,
}

impl Dialect {
    fn named(declared: &str) -> Self {
        match declared {
            text if text.contains("/draft-04/") => Self::Draft4,
            text if text.contains("/draft-06/") => Self::Draft6,
            text if text.contains("/draft-07/") => Self::Draft7,
            text if text.contains("/2019-09/") => Self::Draft201909,
            _ => Self::Draft202012,
        }
    }

    /// Up to draft 7, `$ref` overrides all sibling keywords.
    fn is_old(self) -> bool {
        matches!(self, Self::Draft4 | Self::Draft6 | Self::Draft7)
    }

    /// The `$schema` value of the result.
    fn uri(self) -> Option<&'static str> {
        match self {
            Self::Draft4 | Self::Draft6 | Self::Draft7 => Some(DRAFT_7),
            Self::Draft201909 => Some("https://json-schema.org/draft/2019-09/schema"),
            Self::Draft202012 => None,
        }
    }

    /// Whether the dialect defines this assertion keyword.
    fn has(self, keyword: &str) -> bool {
        match keyword {
            "if" | "then" | "else" | "contentEncoding" | "contentMediaType" => {
                !matches!(self, Self::Draft4 | Self::Draft6)
            }
            "const" | "contains" | "propertyNames" => self != Self::Draft4,
            _ => true,
        }
    }
}

/// The resources and anchors of a document.
struct Places {
    dialect: Dialect,
    /// Whether the document contains several dialects.
    is_mixed: bool,
    /// The JSON pointer of each resource, by its URI.
    resources: BTreeMap<String, String>,
    /// The JSON pointer of each anchor, by its resource and name.
    anchors: BTreeMap<(String, String), String>,
    dynamic: BTreeMap<String, Vec<String>>,
}

impl Places {
    fn new(schema: &Value) -> Self {
        let declared = |map: &Map<String, Value>| {
            map.get("$schema").and_then(Value::as_str).map(Dialect::named)
        };
        let dialect = schema.as_object().and_then(declared).unwrap_or(Dialect::Draft202012);
        let mut places = Self {
            dialect,
            is_mixed: false,
            resources: BTreeMap::new(),
            anchors: BTreeMap::new(),
            dynamic: BTreeMap::new(),
        };
        let mut bases: Vec<String> = vec![String::new()];
        each_object_at(schema, Location::ROOT, &mut |map, at| {
            let at = at.to_string();
            places.is_mixed |= declared(map).is_some_and(|own| own != dialect);
            bases.retain(|base| at == *base || at.starts_with(&format!("{base}/")));
            if let Some(uri) = id_of(map, declared(map).unwrap_or(dialect)) {
                places.resources.insert(uri.to_owned(), at.clone());
                bases.push(at.clone());
            }
            let base = bases.last().cloned().unwrap_or_default();
            for keyword in ["$anchor", "$dynamicAnchor"] {
                let Some(name) = map.get(keyword).and_then(Value::as_str) else { continue };
                if keyword == "$dynamicAnchor" {
                    places.dynamic.entry(name.to_owned()).or_default().push(at.clone());
                }
                places.anchors.insert((base.clone(), name.to_owned()), at.clone());
            }
        });
        places
    }

    /// The JSON pointer of the target of a reference within the resource at `base`.
    fn target(&self, base: &str, reference: &str) -> Option<String> {
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let base = if uri.is_empty() { base } else { self.resources.get(uri)? };
        match fragment_pointer(fragment) {
            Some(pointer) => Some(format!("{base}{pointer}")),
            None => self.anchors.get(&(base.to_owned(), fragment.to_owned())).cloned(),
        }
    }
}

/// The URI of a resource. In old drafts a fragment alone is an anchor.
fn id_of(map: &Map<String, Value>, dialect: Dialect) -> Option<&str> {
    let keyword = if dialect == Dialect::Draft4 { "id" } else { "$id" };
    let id = map.get(keyword)?.as_str()?;
    let id = id.strip_suffix('#').unwrap_or(id);
    (!id.is_empty() && !id.contains('#')).then_some(id)
}

/// Rewrites all references of a document to JSON pointers from its root.
struct Flattening<'p> {
    places: &'p Places,
    is_resolved: bool,
}

impl Flattening<'_> {
    fn part(&mut self, value: &Value, at: Location<'_>, (dialect, base): (Dialect, &str)) -> Value {
        let map = match value {
            Value::Object(map) => map,
            Value::Array(items) => {
                let items = items.iter().enumerate();
                return items
                    .map(|(i, item)| self.part(item, at.index(i), (dialect, base)))
                    .collect();
            }
            other => return other.clone(),
        };
        let declared = map.get("$schema").and_then(Value::as_str).map(Dialect::named);
        let dialect = declared.unwrap_or(dialect);
        let own = id_of(map, dialect).map(|_| at.to_string());
        let base = own.as_deref().unwrap_or(base);
        let mut form = Map::new();
        let reference = reference_of(map);
        if let Some(reference) = reference {
            form.insert("$ref".to_owned(), self.reference(base, reference));
        }
        for (name, value) in map {
            let name = name.as_str();
            let is_hidden = dialect.is_old()
                && reference.is_some()
                && !["definitions", "$defs"].contains(&name);
            let is_identity = ["$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$schema"]
                .contains(&name)
                || name == "id" && dialect == Dialect::Draft4;
            if form.contains_key(name) || is_hidden || is_identity || !dialect.has(name) {
                continue;
            }
            let inner = at.member(name);
            let inside = (dialect, base);
            let value = match (name, member_content(name), value) {
                ("$dynamicRef" | "$recursiveRef", _, Value::String(reference)) => {
                    let target = self.dynamic(base, reference);
                    let all = form.entry("allOf").or_insert_with(|| json!([]));
                    if let Value::Array(all) = all {
                        all.push(json!({ "$ref": target }));
                    }
                    continue;
                }
                (_, MemberContent::Data, _) => value.clone(),
                (_, MemberContent::Named, Value::Object(named)) => {
                    let part = |(name, value): (&String, &Value)| {
                        (name.clone(), self.part(value, inner.member(name), inside))
                    };
                    Value::Object(named.iter().map(part).collect())
                }
                _ => self.part(value, inner, inside),
            };
            match form.get_mut(name) {
                // `allOf` may already contain a dynamic reference.
                Some(Value::Array(all)) => {
                    all.extend(value.as_array().into_iter().flatten().cloned());
                }
                _ => _ = form.insert(name.to_owned(), value),
            }
        }
        if dialect == Dialect::Draft4 {
            exclusive_bounds(&mut form);
        }
        if self.places.is_mixed {
            rewrite_object(&mut form, dialect.is_old(), dialect != Dialect::Draft202012);
        }
        Value::Object(form)
    }

    fn reference(&mut self, base: &str, reference: &str) -> Value {
        if let Some(pointer) = self.places.target(base, reference) {
            return format!("#{}", encoded(&pointer)).into();
        }
        // The library has the meta-schemas built in.
        self.is_resolved &= reference.contains("//json-schema.org/");
        reference.into()
    }

    /// A dynamic reference is equivalent to a static one if its anchor is unique.
    fn dynamic(&mut self, base: &str, reference: &str) -> Value {
        let name = reference.trim_start_matches('#');
        self.is_resolved &= self.places.dynamic.get(name).is_none_or(|all| all.len() == 1)
            && (reference != "#" || self.places.resources.len() <= 1);
        self.reference(base, reference)
    }
}

/// A JSON pointer as URI fragment.
fn encoded(pointer: &str) -> String {
    pointer.replace('%', "%25").replace('#', "%23")
}

/// Translates the boolean `exclusiveMinimum` of draft 4, which modifies `minimum`.
fn exclusive_bounds(map: &mut Map<String, Value>) {
    for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match map.get(exclusive) {
            Some(Value::Bool(true)) => {
                map.remove(exclusive);
                if let Some(value) = map.remove(bound) {
                    map.insert(exclusive.to_owned(), value);
                }
            }
            Some(Value::Bool(false)) => _ = map.remove(exclusive),
            _ => {}
        }
    }
}

/// Collects the targets of recursive references.
struct Definitions<'w> {
    whole: &'w Value,
    /// The hash of the text of `whole`.
    hash: u64,
    found: BTreeMap<String, Value>,
}

impl Definitions<'_> {
    /// The same schema with references only to the definitions.
    fn rewritten(&mut self, form: &Value) -> Value {
        let mut waiting = Vec::new();
        let rewritten = map_objects(form, &mut |map| match map.get("$ref") {
            Some(Value::String(reference)) => {
                let pointer = reference.strip_prefix('#').and_then(fragment_pointer);
                if let Some(pointer) = pointer {
                    let name = self.name(&pointer);
                    map.insert("$ref".to_owned(), format!("#/$defs/{name}").into());
                    waiting.push((name, pointer));
                }
            }
            Some(_) => {
                // The inlined target of a reference with sibling keywords.
                let target = map.remove("$ref").unwrap_or_default();
                match map.entry("allOf").or_insert_with(|| json!([])) {
                    Value::Array(all) => all.push(target),
                    other => *other = json!([target]),
                }
            }
            None => {}
        });
        for (name, pointer) in waiting {
            if self.found.contains_key(&name) {
                continue;
            }
            let Some(target) = self.whole.pointer(&pointer) else { continue };
            self.found.insert(name.clone(), Value::Null);
            let mut target = self.rewritten(target);
            if let Value::Object(map) = &mut target {
                for keyword in ["$schema", "$defs", "definitions"] {
                    map.remove(keyword);
                }
            }
            self.found.insert(name, target);
        }
        rewritten
    }

    /// A name that is unique to this schema, so that combined schemas do not collide.
    fn name(&self, pointer: &str) -> String {
        format!("recursive-{:016x}", hash(&(self.hash, pointer)))
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
