//! A tool's schema whose parts may be shared.

use registry_core::schema_inline::fragment_pointer;
use schema_compat::json_schema::each_object;
use serde_json::{Map, Value};

use super::is_registered;

/// Keywords that make a document depend on its location or have special rules.
const LEFT_ALONE: [&str; 8] = [
    "$id",
    "$anchor",
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
    "$vocabulary",
    "x-mcp-header",
];

/// A tool's schema.
pub(super) struct Holder {
    /// The index of the tool.
    pub(super) tool: usize,
    /// The name of the tool.
    pub(super) name: String,
    /// The member of the tool.
    pub(super) field: &'static str,
    /// The schema in its current form.
    pub(super) schema: Value,
    /// The `$schema`, unless it is the default.
    pub(super) dialect: Option<String>,
}

impl Holder {
    /// Returns `None` if the schema must stay unchanged.
    pub(super) fn new(
        tool: usize,
        name: &str,
        field: &'static str,
        schema: &Value,
    ) -> Option<Self> {
        if !may_be_taken_apart(schema) {
            return None;
        }
        let dialect = schema.get("$schema").and_then(Value::as_str);
        let dialect = dialect.filter(|dialect| !dialect.contains("2020-12")).map(str::to_owned);
        Some(Self { tool, name: name.to_owned(), field, schema: schema.clone(), dialect })
    }

    /// The targets of the schema's local references.
    pub(super) fn targets(&self) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        each_object(&self.schema, &mut |map| found.extend(local_target(map)));
        found
    }
}

fn may_be_taken_apart(schema: &Value) -> bool {
    let (mut may, mut dialects) = (schema.is_object(), 0);
    each_object(schema, &mut |map| {
        may &= !LEFT_ALONE.iter().any(|name| map.contains_key(*name));
        // `id` is an identifier in draft 4.
        may &= !map.get("id").is_some_and(Value::is_string);
        dialects += usize::from(map.contains_key("$schema"));
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            may &= local_target(map).is_some() || is_registered(reference);
        }
    });
    may && dialects <= usize::from(schema.get("$schema").is_some())
}

/// The target of a schema object's local reference.
pub(super) fn local_target(map: &Map<String, Value>) -> Option<Vec<String>> {
    let fragment = map.get("$ref")?.as_str()?.strip_prefix('#')?;
    let pointer = fragment_pointer(fragment)?;
    let steps = pointer.split('/').skip(1);
    Some(steps.map(|step| step.replace("~1", "/").replace("~0", "~")).collect())
}

/// Whether a reference points inside the value at this place.
pub(super) fn is_entered(targets: &[Vec<String>], place: &[String]) -> bool {
    targets.iter().any(|target| target.len() > place.len() && target.starts_with(place))
}
