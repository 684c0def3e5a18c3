//! `staleness().check-mcp-header`: arguments that clients mirror into `Mcp-Param-*` headers.
//!
//! Clients must ignore a tool with invalid annotations, and rewriting a schema can invalidate them
//! (moved references, hidden fields), so invalid annotations are removed. The gateway computes the
//! upstream's headers from the final arguments.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use http::HeaderName;
use schema_compat::json_schema::map_objects;
use serde_json::{Map, Value};

const KEYWORD: &str = "x-mcp-header";

/// A mirrored argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamHeader {
    /// The header, for instance `mcp-param-region`.
    pub header: HeaderName,
    /// The member names from the top of the arguments.
    pub path: Vec<Box<str>>,
}

/// Whether the text of a schema can contain annotations.
pub fn may_annotate(text: &str) -> bool {
    text.contains(KEYWORD)
}

/// Returns the valid annotations and removes all others from the schema.
pub fn remove_invalid(schema: &mut Value) -> Vec<ParamHeader> {
    let found = valid(schema);
    *schema = map_objects(schema, &mut |map| {
        map.remove(KEYWORD);
    });
    for (param, spelling) in &found {
        let place = param.path.iter().try_fold(&mut *schema, |at, name| {
            at.get_mut("properties").and_then(|all| all.get_mut(&**name))
        });
        if let Some(Value::Object(map)) = place {
            map.insert(KEYWORD.to_owned(), Value::String(spelling.clone()));
        }
    }
    found.into_iter().map(|(param, _)| param).collect()
}

/// The valid annotations with the original spelling of the name.
fn valid(schema: &Value) -> Vec<(ParamHeader, String)> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found);
    let mut seen = BTreeSet::new();
    let mut repeated = BTreeSet::new();
    for (param, _) in &found {
        if !seen.insert(param.header.as_str().to_owned()) {
            repeated.insert(param.header.as_str().to_owned());
        }
    }
    found.retain(|(param, _)| !repeated.contains(param.header.as_str()));
    found
}

fn collect(schema: &Value, path: &mut Vec<Box<str>>, found: &mut Vec<(ParamHeader, String)>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, property) in properties {
        path.push(name.as_str().into());
        if let Some((header, spelling)) = property.as_object().and_then(annotation) {
            found.push((ParamHeader { header, path: path.clone() }, spelling));
        }
        collect(property, path, found);
        path.pop();
    }
}

fn annotation(property: &Map<String, Value>) -> Option<(HeaderName, String)> {
    let spelling = property.get(KEYWORD)?.as_str().filter(|text| !text.is_empty())?;
    let has_plain_type =
        matches!(property.get("type")?.as_str()?, "string" | "integer" | "boolean");
    // Header names are tokens, as the specification requires.
    let header = HeaderName::from_bytes(format!("mcp-param-{spelling}").as_bytes()).ok()?;
    has_plain_type.then(|| (header, spelling.to_owned()))
}
