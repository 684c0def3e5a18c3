//! Older forms of mappings: `nested` with a `path`, and `arrayMap`.

use schema_compat::pointer::pointer_join;
use serde_json::{Map, Value, json};

use crate::Repairs;

/// Repairs the mappings of a `schemaMap` or an `outputTransform`.
pub(super) fn shape_mappings(holder: &mut Value, at: &str, repairs: &mut Repairs) {
    let Some(Value::Object(mappings)) = holder.get_mut("mappings") else { return };
    let at = format!("{at}/mappings");
    let fields: Vec<_> = std::mem::take(mappings).into_iter().collect();
    for (field, mut source) in fields {
        let at = pointer_join(&at, &field);
        if let Some((what, path, each)) = list_of(&source).filter(|_| !field.contains(['[', ']'])) {
            let how = format!("it is written `{field}` and `{field}[*].…`");
            repairs.made(&at, what, how);
            mappings.insert(field.clone(), json!({ "path": path }));
            for (name, mut source) in each {
                shape_source(&mut source, &at, repairs);
                mappings.insert(format!("{field}[*].{name}"), source);
            }
        } else {
            shape_source(&mut source, &at, repairs);
            mappings.insert(field, source);
        }
    }
}

fn shape_source(source: &mut Value, at: &str, repairs: &mut Repairs) {
    if let Some((path, mut nested)) = nested_at(source) {
        prefix(&mut nested, &path);
        repairs.made(at, "`nested` with a `path`", format!("its paths begin with `{path}`"));
        *source = json!({ "nested": nested });
    }
    if let Some(nested) = source.get_mut("nested") {
        shape_mappings(nested, &format!("{at}/nested"), repairs);
    }
}

/// A source that builds an object for each item of a list: the name of its form, the list, and the
/// fields.
fn list_of(source: &Value) -> Option<(&'static str, String, Map<String, Value>)> {
    let is_flat = |each: &Map<String, Value>| each.keys().all(|name| !name.contains(['[', ']']));
    if let Some(map) = source.get("arrayMap") {
        let (over, each) = (map["over"].as_str()?, map["each"].as_object()?);
        return is_flat(each).then(|| ("`arrayMap`", over.to_owned(), each.clone()));
    }
    let (path, nested) = nested_at(source)?;
    let each = nested.get("mappings")?.as_object()?;
    let what = "`nested` with the `path` of a list";
    (path.ends_with("[*]") && is_flat(each)).then(|| (what, path.clone(), each.clone()))
}

/// The path and the mappings of `{ "nested": { "path", "mappings" } }` or `{ "path", "nested": { … } }`.
fn nested_at(source: &Value) -> Option<(String, Value)> {
    let mut nested = source.get("nested")?.as_object()?.clone();
    let path = nested.remove("path").or_else(|| source.get("path").cloned())?;
    let Value::String(path) = path else { return None };
    path.starts_with('$').then_some((path, Value::Object(nested)))
}

/// Prefixes all paths of the mappings.
fn prefix(mappings: &mut Value, path: &str) {
    let below = |text: &mut Value| {
        if let Some(rest) = text.as_str().and_then(|text| text.strip_prefix('$')) {
            *text = format!("{path}{rest}").into();
        }
    };
    let Some(Value::Object(fields)) = mappings.get_mut("mappings") else { return };
    for (field, source) in fields {
        // The fields of items are relative to the item.
        if field.contains("[*]") {
            continue;
        }
        source.get_mut("path").into_iter().for_each(below);
        for joined in ["coalesce", "concat"] {
            let paths = source.get_mut(joined).and_then(|source| source.get_mut("paths"));
            paths.and_then(Value::as_array_mut).into_iter().flatten().for_each(below);
        }
        let vars = source.get_mut("template").and_then(|source| source.get_mut("vars"));
        vars.and_then(Value::as_object_mut).into_iter().flatten().for_each(|(_, path)| below(path));
        let over = source.get_mut("arrayMap").and_then(|source| source.get_mut("over"));
        over.into_iter().for_each(below);
        let is_below = source.get("path").is_none();
        if let Some(nested) = source.get_mut("nested") {
            match nested.get_mut("path") {
                Some(inner) => below(inner),
                // Next to a path, it is relative to that path.
                None if is_below => prefix(nested, path),
                None => {}
            }
        }
    }
}
