//! Shares definitions that two tools have in `$defs` or `definitions` with equal content.
//!
//! A definition that uses another one can be shared only after that one, hence the rounds. Cyclic
//! definitions stay.

use std::collections::{BTreeMap, BTreeSet};

use registry_core::document::canonical_bytes;
use schema_compat::json_schema::each_object;
use serde_json::{Map, Value};

use super::{
    holder::{Holder, is_entered, local_target},
    names::Names,
    walk::rewrite_inside,
};

/// Maximum depth of definitions that use each other.
const ROUNDS: usize = 16;

/// The place of a definition: its schema, keyword and name.
type Place = (usize, &'static str, String);

pub(super) fn take_out(holders: &mut [Holder], names: &mut Names) {
    for _ in 0..ROUNDS {
        let groups = equal_definitions(holders);
        if groups.is_empty() {
            return;
        }
        for (body, places) in groups {
            let (_, _, wish) = &places[0];
            let reference = names.add(wish, body);
            for (i, keyword, name) in &places {
                holders[*i].schema = without(&holders[*i], keyword, name, &reference);
            }
        }
    }
}

/// The self-contained definitions of at least two tools.
fn equal_definitions(holders: &[Holder]) -> Vec<(Value, Vec<Place>)> {
    let mut groups: BTreeMap<_, (Value, Vec<Place>)> = BTreeMap::new();
    for (i, holder) in holders.iter().enumerate() {
        let targets = holder.targets();
        for keyword in ["$defs", "definitions"] {
            let Some(Value::Object(definitions)) = holder.schema.get(keyword) else { continue };
            for (name, body) in definitions {
                let path = [keyword.to_owned(), name.clone()];
                if !stands_alone(body) || is_entered(&targets, &path) {
                    continue;
                }
                let dialect = holder.dialect.as_deref();
                let key = (dialect, canonical_bytes(body));
                let of_dialect = || (in_dialect(body, dialect), Vec::new());
                groups.entry(key).or_insert_with(of_dialect).1.push((i, keyword, name.clone()));
            }
        }
    }
    let tools = |places: &[Place]| {
        places.iter().map(|(i, ..)| holders[*i].tool).collect::<BTreeSet<_>>().len()
    };
    groups.into_values().filter(|(_, places)| tools(places) > 1).collect()
}

/// Whether a definition is self-contained and more than a reference.
fn stands_alone(body: &Value) -> bool {
    let is_own = body.as_object().is_some_and(|map| map.keys().any(|name| name != "$ref"));
    let mut alone = is_own;
    each_object(body, &mut |map| alone &= local_target(map).is_none());
    alone
}

/// The schema as a separate document.
pub(super) fn in_dialect(schema: &Value, dialect: Option<&str>) -> Value {
    let mut schema = schema.clone();
    if let (Value::Object(map), Some(dialect)) = (&mut schema, dialect) {
        map.insert("$schema".to_owned(), dialect.into());
    }
    schema
}

/// The schema with references to the registered schema instead of the definition. If other
/// references than plain ones point to the definition, it stays as a reference.
fn without(holder: &Holder, keyword: &str, name: &str, registered: &Value) -> Value {
    let path = [keyword.to_owned(), name.to_owned()];
    let leads_here = |map: &Map<String, Value>| {
        map.len() == 1 && local_target(map).is_some_and(|target| target == path)
    };
    let replace = &mut |schema: &Value, place: &[String]| {
        let here = place == path || schema.as_object().is_some_and(leads_here);
        here.then(|| registered.clone())
    };
    let schema = rewrite_inside(&holder.schema, &mut Vec::new(), replace);
    let mut after = Holder { schema, name: String::new(), dialect: None, ..*holder };
    let is_needed = after.targets().iter().any(|target| target.starts_with(&path));
    if let Some(Value::Object(definitions)) = after.schema.get_mut(keyword)
        && !is_needed
    {
        definitions.remove(name);
        if definitions.is_empty()
            && let Value::Object(map) = &mut after.schema
        {
            map.remove(keyword);
        }
    }
    after.schema
}
