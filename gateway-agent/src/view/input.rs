//! The schemas of a tool as callers see them: registered or inherited, self-contained, without
//! hidden fields.
//!
//! Arguments are validated by exactly the advertised schema.

use gateway_protocol::jsonrpc::Object;
use registry_core::{
    Digest, Key,
    tool_schema::{self, bundle::Unresolved},
};
use serde_json::{json, value::RawValue};

use super::{ServedTool, order::arranged, params};

pub use super::params::ParamHeader;

/// Accepts any arguments.
const ANY_OBJECT: &str = r#"{"type":"object"}"#;

/// A schema as callers see it.
#[derive(Debug)]
pub struct ServedSchema {
    /// The JSON text.
    pub text: Box<str>,
    /// The digest of the text. Equal schemas share a compiled validator.
    pub digest: Digest,
}

impl ServedSchema {
    fn new(text: String) -> Self {
        Self { digest: Digest::compute(text.as_bytes()), text: text.into_boxed_str() }
    }

    /// Whether the top-level type is `object`, as older protocol versions require.
    pub fn is_for_objects(&self) -> bool {
        is_object_schema(&self.text)
    }
}

/// The arguments that callers can send.
#[derive(Debug)]
pub struct InputSchema {
    /// The schema without the hidden fields.
    pub schema: ServedSchema,
    /// Arguments that clients mirror into headers.
    pub params: Vec<ParamHeader>,
    /// Why the registered schema is unusable. `schema` then accepts anything.
    pub problem: Option<Unresolved>,
}

pub(super) fn input_of(served: &ServedTool) -> InputSchema {
    match input_text(served) {
        Ok((text, params)) => {
            InputSchema { schema: ServedSchema::new(text), params, problem: None }
        }
        Err(problem) => InputSchema {
            schema: ServedSchema::new(ANY_OBJECT.to_owned()),
            params: Vec::new(),
            problem: Some(problem),
        },
    }
}

fn input_text(served: &ServedTool) -> Result<(String, Vec<ParamHeader>), Unresolved> {
    let registered = tool_schema::input(served.tool(), &|key: &Key| served.schema(key));
    let mut schema = match registered {
        Some(schema) => schema?,
        None if let Some(composed) = served.composed() => {
            // The schema of the tool that receives the composition's input.
            let text = composed.entry().map_or(ANY_OBJECT, |entry| &entry.input().schema.text);
            return Ok((text.to_owned(), Vec::new()));
        }
        None => match inherited(served, "inputSchema") {
            // An unchanged schema keeps the member order that models see.
            Some(text)
                if served.hidden().is_empty()
                    && !params::may_annotate(text)
                    && is_object_schema(text) =>
            {
                return Ok((text.to_owned(), Vec::new()));
            }
            text => {
                let schema = text.and_then(|text| serde_json::from_str(text).ok());
                tool_schema::for_callers(schema.unwrap_or_else(|| json!({})), served.hidden())
            }
        },
    };
    let params = params::remove_invalid(&mut schema);
    Ok((arranged(&schema, live_member(served, "inputSchema")), params))
}

/// The output schema of a tool, if usable. The upstream's schema does not describe a projection.
pub(super) fn output_of(served: &ServedTool) -> Option<ServedSchema> {
    match tool_schema::output(served.tool(), &|key: &Key| served.schema(key)) {
        Some(schema) => {
            let schema = arranged(&schema.ok()?, live_member(served, "outputSchema"));
            Some(ServedSchema::new(schema))
        }
        None if served.projection().is_some() => None,
        None => inherited(served, "outputSchema").map(|text| ServedSchema::new(text.to_owned())),
    }
}

/// The upstream's schema.
fn inherited<'a>(served: &'a ServedTool, member: &str) -> Option<&'a str> {
    live_member(served, member).map(RawValue::get).filter(|text| text.starts_with('{'))
}

fn live_member<'a>(served: &'a ServedTool, member: &str) -> Option<&'a RawValue> {
    Object::parse(served.live()?).ok()?.find(member)
}

fn is_object_schema(text: &str) -> bool {
    let top = serde_json::from_str::<Object<'_>>(text);
    top.is_ok_and(|top| top.find("type").is_some_and(|raw| raw.get() == "\"object\""))
}
