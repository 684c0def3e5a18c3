//! One schema of a tool that may be taken apart.

use registry_core::schema_inline::fragment_pointer;
use schema_compat::json_schema::each_object;
use serde_json::{Map, Value};

use super::is_registered;

/// What makes a document depend on where it stands, or be read by rules of its own.
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
    /// Which tool.
    pub(super) tool: usize,
    /// Its name.
    pub(super) name: String,
    /// Which of its schemas.
    pub(super) field: &'static str,
    /// The schema, as far as it is taken apart.
    pub(super) schema: Value,
    /// Its `$schema`, unless that is the default.
    pub(super) dialect: Option<String>,
}

impl Holder {
    /// `None`: the schema must be left alone.
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

    /// The places that the schema's own references lead to.
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

/// Where the reference of a schema object leads within its document.
pub(super) fn local_target(map: &Map<String, Value>) -> Option<Vec<String>> {
    let fragment = map.get("$ref")?.as_str()?.strip_prefix('#')?;
    let pointer = fragment_pointer(fragment)?;
    let steps = pointer.split('/').skip(1);
    Some(steps.map(|step| step.replace("~1", "/").replace("~0", "~")).collect())
}

/// Whether a reference leads into what is at this place, and not to it as a whole.
pub(super) fn is_entered(targets: &[Vec<String>], place: &[String]) -> bool {
    targets.iter().any(|target| target.len() > place.len() && target.starts_with(place))
}
