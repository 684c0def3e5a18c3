//! The `Mcp-*` headers that mirror parts of the body: the arguments that a tool annotates
//! (`x-mcp-header`), and the encoding of their values.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderName, HeaderValue};
use serde_json::{Value, value::RawValue};

use crate::jsonrpc::Object;

/// The protocol version.
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The method of the body.
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The name, URI or task id of the body.
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The session, before 2026-07-28.
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// The annotation.
const ANNOTATION: &str = "x-mcp-header";

/// Largest integer that JavaScript represents exactly.
const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

/// A mirrored argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// `mcp-param-…`.
    header: HeaderName,
    /// The property names from the root to the argument.
    path: Vec<String>,
}

/// The reason why the annotations of a tool, and so the tool, are rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAnnotation {
    /// The schema is not an object.
    #[error("the input schema is not a JSON object")]
    Schema,
    /// The annotation is not a valid part of a header name.
    #[error("an x-mcp-header is not a header name")]
    Name,
    /// Two arguments have the same header.
    #[error("two x-mcp-header have the name {0}")]
    Twice(HeaderName),
    /// The argument is neither a string, nor an integer, nor a boolean.
    #[error("an x-mcp-header is on a value that is not a string, integer or boolean")]
    Type,
    /// The annotation is not on a property of nested objects.
    #[error("an x-mcp-header is not on a property of an object")]
    Place,
}

/// Finds the mirrored arguments of a tool.
pub fn mirrors(input_schema: &RawValue) -> Result<Vec<Mirror>, InvalidAnnotation> {
    if !input_schema.get().contains(ANNOTATION) && !input_schema.get().contains('\\') {
        return Ok(Vec::new());
    }
    let schema: Value =
        serde_json::from_str(input_schema.get()).map_err(|_| InvalidAnnotation::Schema)?;
    let mut found = Vec::new();
    walk(&schema, Some(&mut Vec::new()), &mut found)?;
    Ok(found)
}

/// Walks a schema. `path` is set as long as only `properties` were followed.
fn walk(
    schema: &Value,
    path: Option<&mut Vec<String>>,
    found: &mut Vec<Mirror>,
) -> Result<(), InvalidAnnotation> {
    let members = match schema {
        Value::Object(members) => members,
        Value::Array(items) => return items.iter().try_for_each(|item| walk(item, None, found)),
        _ => return Ok(()),
    };
    if let Some(name) = members.get(ANNOTATION) {
        let path = path.as_deref().filter(|path| !path.is_empty());
        let path = path.ok_or(InvalidAnnotation::Place)?;
        found.push(mirror(name, members.get("type"), path, found)?);
    }
    let mut path = path;
    for (keyword, value) in members {
        match (keyword.as_str(), value) {
            // These keywords contain data, not schemas.
            ("const" | "enum" | "default" | "examples" | ANNOTATION, _) => {}
            ("properties", Value::Object(properties)) => {
                walk_properties(properties, path.as_deref_mut(), found)?;
            }
            (
                "$defs" | "definitions" | "patternProperties" | "dependentSchemas",
                Value::Object(schemas),
            ) => {
                schemas.values().try_for_each(|schema| walk(schema, None, found))?;
            }
            _ => walk(value, None, found)?,
        }
    }
    Ok(())
}

fn walk_properties(
    properties: &serde_json::Map<String, Value>,
    mut path: Option<&mut Vec<String>>,
    found: &mut Vec<Mirror>,
) -> Result<(), InvalidAnnotation> {
    for (name, schema) in properties {
        if let Some(path) = path.as_deref_mut() {
            path.push(name.clone());
            walk(schema, Some(path), found)?;
            path.pop();
        } else {
            walk(schema, None, found)?;
        }
    }
    Ok(())
}

fn mirror(
    name: &Value,
    kind: Option<&Value>,
    path: &[String],
    found: &[Mirror],
) -> Result<Mirror, InvalidAnnotation> {
    let name = name.as_str().filter(|name| !name.is_empty()).ok_or(InvalidAnnotation::Name)?;
    let header = HeaderName::from_bytes(format!("mcp-param-{name}").as_bytes())
        .map_err(|_| InvalidAnnotation::Name)?;
    if !matches!(kind.and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
        return Err(InvalidAnnotation::Type);
    }
    if found.iter().any(|other| other.header == header) {
        return Err(InvalidAnnotation::Twice(header));
    }
    Ok(Mirror { header, path: path.to_vec() })
}

impl Mirror {
    /// The header for these arguments, if they contain the mirrored value.
    pub fn header(&self, arguments: &RawValue) -> Option<(HeaderName, HeaderValue)> {
        let mut value = arguments;
        for name in &self.path {
            value = Object::parse(value).ok()?.find(name)?;
        }
        Some((self.header.clone(), encode(&as_text(value)?)))
    }
}

/// A primitive value as header text.
fn as_text(value: &RawValue) -> Option<String> {
    match serde_json::from_str(value.get()).ok()? {
        Value::String(text) => Some(text),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(number) => integer(&number).map(|integer| integer.to_string()),
        _ => None,
    }
}

/// The number as an integer, if JavaScript represents it exactly. It may be written as `42.0`.
fn integer(number: &serde_json::Number) -> Option<i64> {
    let integer = number.as_i64().or_else(|| {
        let text = number.as_f64().filter(|float| float.fract() == 0.0)?.to_string();
        text.parse().ok()
    })?;
    (-MAX_SAFE_INTEGER..=MAX_SAFE_INTEGER).contains(&integer).then_some(integer)
}

/// Encodes a text as a header value: unchanged if that is safe, else in Base64.
pub fn encode(text: &str) -> HeaderValue {
    let is_padded = text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']);
    let is_sentinel = text.starts_with("=?base64?") && text.ends_with("?=");
    let is_plain = text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    if is_plain
        && !is_padded
        && !is_sentinel
        && let Ok(value) = HeaderValue::from_str(text)
    {
        return value;
    }
    HeaderValue::try_from(format!("=?base64?{}?=", STANDARD.encode(text)))
        .expect("Base64 is visible ASCII")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        serde_json::value::to_raw_value(value).unwrap()
    }

    fn found(schema: &Value) -> Result<Vec<Mirror>, InvalidAnnotation> {
        mirrors(&raw(schema))
    }

    #[test]
    fn values_are_encoded_as_specified() {
        for (text, header) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("", ""),
        ] {
            assert_eq!(encode(text).to_str().unwrap(), header);
        }
    }

    #[test]
    fn annotated_properties_are_mirrored_at_any_depth() {
        let schema = json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "x-mcp-header": {"type": "string", "default": {"x-mcp-header": 1}},
            "at": {"type": "object", "properties": {
                "shard": {"type": "integer", "x-mcp-header": "Shard"},
                "dry": {"type": "boolean", "x-mcp-header": "Dry"},
            }},
        }});
        let mirrors = found(&schema).unwrap();
        let headers = |arguments: Value| {
            let arguments = raw(&arguments);
            let mut headers: Vec<String> = mirrors
                .iter()
                .filter_map(|mirror| mirror.header(&arguments))
                .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
                .collect();
            headers.sort();
            headers
        };
        assert_eq!(
            headers(json!({"region": "a\"b", "at": {"shard": 42.0, "dry": true}})),
            ["mcp-param-dry: true", "mcp-param-region: a\"b", "mcp-param-shard: 42"]
        );
        assert_eq!(headers(json!({"region": null, "at": {"shard": 1.5}})), [""; 0]);
        assert_eq!(headers(json!({"at": {"shard": 9_007_199_254_740_993_i64}})), [""; 0]);
        assert_eq!(headers(json!({"at": 1})), [""; 0]);
    }

    #[test]
    fn invalid_annotations_are_rejected_by_reason() {
        let property = |schema: Value| json!({"properties": {"a": schema}});
        let annotated = json!({"type": "string", "x-mcp-header": "A"});
        for (schema, expected) in [
            (json!({"x-mcp-header": "A", "type": "string"}), InvalidAnnotation::Place),
            (json!({"$defs": {"x": annotated}}), InvalidAnnotation::Place),
            (property(json!({"items": annotated})), InvalidAnnotation::Place),
            (property(json!({"oneOf": [annotated]})), InvalidAnnotation::Place),
            (json!({"allOf": [{"properties": {"a": annotated}}]}), InvalidAnnotation::Place),
            (property(json!({"type": "string", "x-mcp-header": ""})), InvalidAnnotation::Name),
            (property(json!({"type": "string", "x-mcp-header": "a b"})), InvalidAnnotation::Name),
            (property(json!({"type": "string", "x-mcp-header": 5})), InvalidAnnotation::Name),
            (property(json!({"type": "number", "x-mcp-header": "A"})), InvalidAnnotation::Type),
            (property(json!({"x-mcp-header": "A"})), InvalidAnnotation::Type),
            (
                json!({"properties": {"a": annotated,
                    "b": {"type": "string", "x-mcp-header": "a"}}}),
                InvalidAnnotation::Twice(HeaderName::from_static("mcp-param-a")),
            ),
        ] {
            assert_eq!(found(&schema).unwrap_err(), expected, "{schema}");
        }
        assert_eq!(found(&json!({"properties": {"a": {}}})).unwrap(), []);
    }
}
