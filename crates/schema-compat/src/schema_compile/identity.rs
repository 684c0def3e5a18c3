//! Identities of schemas: reserved URIs, and `$id`s shared by two documents. Either would let one
//! schema impersonate another.

use std::collections::BTreeMap;

use jsonschema::{Draft, Resource, Uri, uri};
use serde_json::Value;

use super::{
    draft,
    problem::{InvalidSchema, shortened},
};
use crate::{
    json_schema::{each_object_at, each_part},
    limits,
    pointer::Location,
};

/// The base URI of the compiled schema itself.
pub const ROOT: &str = "json-schema:///";

/// Uses of reserved URIs of registered schemas, which may be referenced only as `#Name:1.0.0`.
pub(super) fn reserved_uris(schema: &Value) -> Vec<InvalidSchema> {
    found_uris(schema, &mut |keyword, uri| {
        is_ours(uri) || matches!(keyword, "$id" | "id") && may_become_ours(uri)
    })
}

fn found_uris(
    schema: &Value,
    is_reserved: &mut dyn FnMut(&str, &str) -> bool,
) -> Vec<InvalidSchema> {
    let mut found = Vec::new();
    each_object_at(schema, Location::ROOT, &mut |map, at| {
        for keyword in ["$id", "$ref", "$dynamicRef", "id"] {
            if let Some(Value::String(uri)) = map.get(keyword)
                && is_reserved(keyword, uri)
            {
                let (pointer, uri) = (at.member(keyword).to_string(), shortened(uri));
                found.push(InvalidSchema::Reserved { pointer, uri });
            }
        }
    });
    found
}

fn is_ours(uri: &str) -> bool {
    let scheme = uri.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    matches!(scheme.as_deref(), Some("registry" | "json-schema"))
}

/// Uses of URIs with this host.
pub fn uris_at_host(schema: &Value, reserved: &str) -> Vec<InvalidSchema> {
    found_uris(schema, &mut |_, uri| {
        let resolved = uri::from_str(uri).ok();
        let host = resolved.as_ref().and_then(Uri::authority).map(|at| at.host());
        host.is_some_and(|host| host == reserved)
    })
}

/// Whether a relative URI, resolved against that of its registered schema, may equal the URI of a
/// registered schema, such as `/B/1.0.0/`. Escapes and dots may hide that.
fn may_become_ours(uri: &str) -> bool {
    let path = uri.split(['#', '?']).next().unwrap_or_default();
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    // Without a scheme, the registry and a gateway resolve a host differently.
    let names_host = path.starts_with("//");
    let is_version = matches!(last, "." | "..") || is_exact_version(last);
    !has_scheme(uri) && (names_host || path.contains('%') || is_version)
}

fn is_exact_version(text: &str) -> bool {
    text.len() <= limits::VERSION_BYTES && semver::Version::parse(text).is_ok()
}

fn has_scheme(uri: &str) -> bool {
    uri.split(['/', '?', '#']).next().is_some_and(|start| start.contains(':'))
}

/// The URI of a schema at `base`: its own `$id`, if its dialect supports one there and it is not
/// that of a meta-schema, which the compiler has built in. Relative references are resolved against
/// it.
pub fn uri_at(schema: &Value, base: &str) -> String {
    let own = draft(schema).create_resource_ref(schema);
    let uri = own.id().and_then(|id| resolved(id, &uri::from_str(base).ok()?));
    let uri = uri.filter(|uri| !is_of_meta_schema(uri.as_str()));
    uri.map_or_else(|| base.to_owned(), |uri| uri.as_str().to_owned())
}

/// Whether a resolved URI belongs to a meta-schema.
fn is_of_meta_schema(uri: &str) -> bool {
    let path = ["http://json-schema.org/", "https://json-schema.org/"]
        .iter()
        .find_map(|home| uri.strip_prefix(home));
    path.is_some_and(|path| path.starts_with("draft"))
}

/// A resource whose `$id`, if present, is its URI.
pub(super) fn resource(mut schema: Value, uri: &str) -> Resource {
    let draft = draft(&schema);
    if draft.create_resource_ref(&schema).id().is_some() {
        let keyword = if draft == Draft::Draft4 { "id" } else { "$id" };
        schema[keyword] = Value::from(uri);
    }
    draft.create_resource(schema)
}

/// The URIs of a schema and its identified subschemas; `base` is the URI of the document.
pub fn resources(schema: &Value, base: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Ok(base) = uri::from_str(base) {
        read_resources(schema, (Draft::Draft202012, &base), &mut found);
        // A registered meta-schema has another URI, except where it is compiled itself.
        let own = draft(schema).create_resource_ref(schema).id().is_some();
        if own && base.as_str() != ROOT && found.first().is_some_and(|uri| is_of_meta_schema(uri)) {
            found.remove(0);
        }
    }
    found
}

fn read_resources(schema: &Value, (draft, base): (Draft, &Uri<String>), found: &mut Vec<String>) {
    let draft = draft.detect(schema);
    let own = draft.create_resource_ref(schema);
    let own = own.id().and_then(|id| resolved(id, base));
    found.extend(own.iter().map(|uri| uri.as_str().to_owned()));
    let within = (draft, own.as_ref().unwrap_or(base));
    each_part(schema, &mut |part| read_resources(part, within, found));
}

/// The resolved `$id`. A fragment alone is an anchor, and an invalid URI does not compile.
fn resolved(id: &str, base: &Uri<String>) -> Option<Uri<String>> {
    let id = id.split('#').next().filter(|id| !id.is_empty())?;
    uri::resolve_against(&base.borrow(), id).ok()
}

/// The first URI that occurs among the [`resources`] of two documents, or equals that of a
/// meta-schema.
pub fn same_id<'a>(documents: impl IntoIterator<Item = &'a [String]>) -> Option<InvalidSchema> {
    let mut owners = BTreeMap::new();
    for (document, ids) in documents.into_iter().enumerate() {
        for id in ids {
            let is_taken = *owners.entry(id).or_insert(document) != document;
            if is_taken || is_of_meta_schema(id) {
                let written = id.strip_prefix("registry:").unwrap_or(id);
                return Some(InvalidSchema::SameId { uri: shortened(written) });
            }
        }
    }
    None
}
