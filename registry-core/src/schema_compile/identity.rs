//! What schemas call themselves and each other: URIs that only the registry gives out, and an
//! `$id` that two documents share. Either would let one schema stand in for another.
//!
//! Deliberately absent: resolving references; the compiler does that.

use std::collections::BTreeMap;

use serde_json::Value;

use super::problem::{InvalidSchema, shortened};
use crate::{decode::At, json_schema::each_object_at, version::Version};

/// Uses of the URIs that stand for registered schemas; only `#Name:1.0.0` may lead there.
pub(super) fn reserved_uris(schema: &Value) -> Vec<InvalidSchema> {
    let mut found = Vec::new();
    each_object_at(schema, At::ROOT, &mut |map, at| {
        for keyword in ["$id", "$ref", "$dynamicRef", "id"] {
            if let Some(Value::String(uri)) = map.get(keyword)
                && (is_ours(uri) || matches!(keyword, "$id" | "id") && may_become_ours(uri))
            {
                let (pointer, uri) = (at.member(keyword).to_string(), shortened(uri));
                found.push(InvalidSchema::Reserved { pointer, uri });
            }
        }
    });
    found
}

fn is_ours(uri: &str) -> bool {
    uri.get(..9).is_some_and(|scheme| scheme.eq_ignore_ascii_case("registry:"))
}

/// Whether a relative URI, resolved against that of the registered schema which holds it, may give
/// the URI of another: `/B/1.0.0`. An escaped one may hide that.
fn may_become_ours(uri: &str) -> bool {
    let path = uri.split(['#', '?']).next().unwrap_or_default();
    let last = path.rsplit('/').next().unwrap_or_default();
    !has_scheme(uri) && (path.contains('%') || Version::parse(last).is_ok())
}

fn has_scheme(uri: &str) -> bool {
    uri.split(['/', '?', '#']).next().is_some_and(|start| start.contains(':'))
}

/// The absolute URIs that a schema and its parts have as `$id`.
pub(crate) fn absolute_ids(schema: &Value) -> Vec<&str> {
    let mut places = Vec::new();
    each_object_at(schema, At::ROOT, &mut |map, at| {
        for keyword in ["$id", "id"] {
            if map.get(keyword).and_then(Value::as_str).is_some_and(has_scheme) {
                places.push(at.member(keyword).to_string());
            }
        }
    });
    let id = |place: &String| schema.pointer(place)?.as_str();
    places.iter().filter_map(id).map(|id| id.split('#').next().unwrap_or_default()).collect()
}

/// The first `$id` that two of these documents have.
pub(crate) fn same_id<'a>(schemas: impl IntoIterator<Item = &'a Value>) -> Option<InvalidSchema> {
    let mut owners = BTreeMap::new();
    for (document, schema) in schemas.into_iter().enumerate() {
        for id in absolute_ids(schema) {
            if *owners.entry(id).or_insert(document) != document {
                return Some(InvalidSchema::SameId { uri: shortened(id) });
            }
        }
    }
    None
}
