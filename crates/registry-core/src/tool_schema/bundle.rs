//! Bundling of schemas: makes a schema self-contained, because clients cannot access the registry.
//!
//! A registered schema replaces the reference to it. A recursive one moves into `$defs`, and
//! `{"$ref": "#Name:1.0.0"}` becomes `{"$ref": "#/$defs/Name:1.0.0"}`. A top-level reference is
//! always replaced, because MCP requires an object schema there. If one of the schemas has an
//! identity of its own (`$id`, anchors, a dialect), JSON pointers cannot be moved safely, and all
//! are embedded as JSON Schema resources with URIs instead. An unknown reference is an error.

mod inline;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use schema_compat::{
    json_schema::{each_object, map_objects, reference_of},
    schema_compile::uri_at,
};
use serde_json::{Map, Value, json};

use crate::reference::{Key, SchemaRef};

/// Looks up the JSON Schema of a registered schema.
pub type Resolve<'a> = &'a dyn Fn(&Key) -> Option<&'a Value>;

/// A reference to a schema that is not registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the schema `#{}:{}` is not registered", .0.name, .0.version)]
pub struct Unresolved(pub Key);

/// The host of schema URIs assigned by gateways. It never resolves (RFC 2606).
pub(crate) const GATEWAY_HOST: &str = "registry.invalid";

/// Maximum length of a chain of schemas that are nothing but a reference.
const CHAIN: usize = 32;
/// Annotation keywords; next to a reference they override the target's.
const ANNOTATIONS: [&str; 9] = [
    "$comment",
    "$schema",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
];
/// Keywords that give a schema an identity of its own.
const IDENTITY: [&str; 4] = ["$id", "id", "$anchor", "$dynamicAnchor"];
/// The default dialect.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Whether a schema and its references have the same meaning in any location.
pub(crate) fn is_plain(schema: &Value) -> bool {
    let mut is_plain = !has_identity(schema, DIALECT);
    each_object(schema, &mut |map| {
        let Some(text) = reference_of(map) else { return };
        let to_definition = ["#/$defs/", "#/definitions/"].iter().any(|at| text.starts_with(at));
        is_plain &= text == "#" || to_definition || SchemaRef::parse(text).is_some();
    });
    is_plain
}

/// Makes a schema self-contained.
pub fn bundle(schema: &Value, resolve: Resolve<'_>) -> Result<Value, Unresolved> {
    let root = without_top_reference(schema, resolve)?;
    let needed = needed(&root, resolve)?;
    if needed.is_empty() {
        return Ok(root);
    }
    let form = form_of(&root, &needed);
    let mut names = Names { form, taken: &root, needed: &needed, prefix: None };
    let mut bundled = names.rewrite(&root);
    let mut defs = match bundled.as_object_mut().and_then(|map| map.remove(names.container())) {
        Some(Value::Object(defs)) => defs,
        _ => Map::new(),
    };
    for (key, schema) in needed.values() {
        names.prefix = (form == Form::Pointers).then(|| names.pointer(key));
        let mut embedded = match (form, schema) {
            // A resource must be an object.
            (Form::Resources, Value::Bool(true)) => json!({}),
            (Form::Resources, Value::Bool(false)) => json!({ "not": {} }),
            _ => names.rewrite(schema),
        };
        match (form, &mut embedded) {
            (Form::Resources, Value::Object(map)) => identify(map, names.uri(key)),
            (Form::Pointers, Value::Object(map)) => _ = map.remove("$schema"),
            _ => {}
        }
        defs.insert(names.name(key), embedded);
    }
    if let Value::Object(map) = &mut bundled {
        map.insert(names.container().to_owned(), Value::Object(defs));
    }
    if form == Form::Resources {
        return Ok(bundled);
    }
    let embedded: Vec<_> = needed.values().map(|(key, _)| names.name(key)).collect();
    Ok(inline::inline(bundled, names.container(), &embedded))
}

/// Turns a schema into a resource with a URI in the syntax of its dialect.
fn identify(map: &mut Map<String, Value>, uri: String) {
    let dialect = dialect(map).to_owned();
    // In these dialects `$ref` overrides its siblings, including `$id`.
    if is_old(&dialect)
        && let Some(reference) = map.remove("$ref")
    {
        map.retain(|name, _| ["definitions", "$defs", "title", "description"].contains(&&**name));
        map.insert("allOf".to_owned(), json!([{ "$ref": reference }]));
    }
    let keyword = if dialect.contains("/draft-04/") { "id" } else { "$id" };
    map.insert(keyword.to_owned(), Value::String(uri));
    map.insert("$schema".to_owned(), Value::String(dialect));
}

/// Whether the dialect is draft 7 or older.
fn is_old(dialect: &str) -> bool {
    !dialect.contains("/draft/")
}

/// The form of references to embedded schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// JSON pointers into `$defs`; pointers inside of the embedded schemas are adjusted.
    Pointers,
    /// URIs; the embedded schemas are unchanged.
    Resources,
}

/// Rewrites references while schemas are embedded.
struct Names<'a> {
    form: Form,
    taken: &'a Value,
    needed: &'a Needed<'a>,
    /// The pointer of the current schema in the bundle; `None` for the top and for resources.
    prefix: Option<String>,
}

impl Names<'_> {
    /// The definitions keyword in the dialect of the top-level schema.
    fn container(&self) -> &'static str {
        match self.taken {
            Value::Object(map) if is_old(dialect(map)) => "definitions",
            _ => "$defs",
        }
    }

    /// The member of the container; renamed if the top-level schema already has one with that name.
    fn name(&self, key: &Key) -> String {
        let mut name = name_of(key);
        while self.taken.get(self.container()).is_some_and(|defs| defs.get(&name).is_some()) {
            name.push('_');
        }
        name
    }

    fn pointer(&self, key: &Key) -> String {
        format!("#/{}/{}", self.container(), self.name(key))
    }

    /// The URI of an embedded schema: its own `$id` resolved against a unique base, so that
    /// references relative to it stay valid.
    fn uri(&self, key: &Key) -> String {
        let base = format!("https://{GATEWAY_HOST}/{}/{}/", key.name, key.version);
        self.needed.get(&name_of(key)).map_or(base.clone(), |(_, schema)| uri_at(schema, &base))
    }

    fn reference(&self, text: &str) -> String {
        match SchemaRef::parse(text) {
            Some(Ok(reference)) if self.form == Form::Resources => self.uri(reference.key()),
            Some(Ok(reference)) => self.pointer(reference.key()),
            _ if text.is_empty() => self.reference("#"),
            _ => match (&self.prefix, text.strip_prefix('#')) {
                (Some(prefix), Some(rest)) if rest.is_empty() || rest.starts_with('/') => {
                    format!("{prefix}{rest}")
                }
                _ => text.to_owned(),
            },
        }
    }

    fn rewrite(&self, schema: &Value) -> Value {
        map_objects(schema, &mut |map| {
            if let Some(Value::String(text)) = map.get_mut("$ref") {
                *text = self.reference(text);
            }
        })
    }
}

fn name_of(key: &Key) -> String {
    format!("{}:{}", key.name, key.version)
}

/// JSON pointers, unless some part would change its meaning in its new location.
fn form_of(root: &Value, needed: &Needed<'_>) -> Form {
    let Value::Object(map) = root else { return Form::Pointers };
    let own = dialect(map);
    let is_other = |schema: &Value| schema.as_object().is_some_and(|map| dialect(map) != own);
    let mut schemas = needed.values().map(|(_, schema)| *schema);
    let is_moved = schemas.any(|schema| is_other(schema) || has_identity(schema, own));
    if is_moved || map.values().any(|part| has_identity(part, own)) {
        Form::Resources
    } else {
        Form::Pointers
    }
}

fn dialect(map: &Map<String, Value>) -> &str {
    let declared = map.get("$schema").and_then(Value::as_str).unwrap_or(DIALECT);
    declared.trim_end_matches('#')
}

/// Resolves a top-level reference, so that the top level is an object schema.
fn without_top_reference(schema: &Value, resolve: Resolve<'_>) -> Result<Value, Unresolved> {
    let mut root = schema.clone();
    for _ in 0..CHAIN {
        let Some(key) = registered_reference(&root) else { break };
        let target = resolve(&key).ok_or_else(|| Unresolved(key.clone()))?;
        let (Value::Object(siblings), Value::Object(target)) = (&root, target) else { break };
        if !can_merge(siblings, target) || leads_back_by_name(target, &key, resolve)? {
            break;
        }
        let mut merged = target.clone();
        merged.extend(siblings.clone().into_iter().filter(|(name, _)| name != "$ref"));
        // The target may itself start with a reference.
        if let Some(next) = target.get("$ref") {
            merged.insert("$ref".to_owned(), next.clone());
        }
        root = Value::Object(merged);
    }
    Ok(root)
}

/// Whether the siblings of a reference can be merged into its target.
fn can_merge(siblings: &Map<String, Value>, target: &Map<String, Value>) -> bool {
    let is_kept = |name: &str| name == "$ref" || ANNOTATIONS.contains(&name);
    let is_same_dialect = dialect(siblings) == dialect(target);
    if siblings.keys().all(|name| is_kept(name)) {
        return is_same_dialect || !siblings.contains_key("$schema");
    }
    let mut refers_to_itself = false;
    each_object(&Value::Object(target.clone()), &mut |map| {
        refers_to_itself |= reference_of(map) == Some("#") || map.contains_key("$recursiveRef");
    });
    let collides = |name: &String| !is_kept(name) && target.contains_key(name);
    is_same_dialect
        && dialect(target) == DIALECT
        && !refers_to_itself
        && !siblings.keys().any(collides)
}

/// Whether a schema with an identity is recursive through its registered name. It must then be
/// embedded, and its identity would occur twice.
fn leads_back_by_name(
    schema: &Map<String, Value>,
    key: &Key,
    resolve: Resolve<'_>,
) -> Result<bool, Unresolved> {
    let schema = Value::Object(schema.clone());
    Ok(has_identity(&schema, DIALECT) && needed(&schema, resolve)?.contains_key(&name_of(key)))
}

fn registered_reference(schema: &Value) -> Option<Key> {
    let reference = SchemaRef::parse(schema.get("$ref")?.as_str()?)?.ok()?;
    Some(reference.key().clone())
}

/// Registered schemas by name and version.
type Needed<'a> = BTreeMap<String, (Key, &'a Value)>;

/// All registered schemas reachable from this one.
fn needed<'a>(root: &Value, resolve: Resolve<'a>) -> Result<Needed<'a>, Unresolved> {
    let mut found = BTreeMap::new();
    let mut waiting = references(root);
    while let Some(key) = waiting.pop() {
        let name = name_of(&key);
        if found.contains_key(&name) {
            continue;
        }
        let schema = resolve(&key).ok_or_else(|| Unresolved(key.clone()))?;
        waiting.extend(references(schema));
        found.insert(name, (key, schema));
    }
    Ok(found)
}

fn references(schema: &Value) -> Vec<Key> {
    let mut found = Vec::new();
    each_object(schema, &mut |map| {
        let text = map.get("$ref").and_then(Value::as_str);
        if let Some(Ok(reference)) = text.and_then(SchemaRef::parse) {
            found.push(reference.key().clone());
        }
    });
    found
}

/// Whether a part has an identity or another dialect.
fn has_identity(schema: &Value, dialect: &str) -> bool {
    let mut found = false;
    each_object(schema, &mut |map| {
        found |= map.contains_key("$schema") && self::dialect(map) != dialect;
        found |= IDENTITY.iter().any(|name| map.get(*name).is_some_and(Value::is_string));
        // The targets of these keywords depend on the enclosing resource.
        let hanging = ["$dynamicRef", "$recursiveRef", "$recursiveAnchor"];
        found |= hanging.iter().any(|name| map.contains_key(*name));
    });
    found
}
