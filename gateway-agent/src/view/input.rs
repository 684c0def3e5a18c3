//! The schemas of an offer as callers see them: registered or inherited, self-contained, without
//! the hidden fields, as text.
//!
//! Validation uses exactly the advertised schema.

use gateway_protocol::jsonrpc::Object;
use registry_core::{
    Digest, Key,
    tool_schema::{self, bundle::Unresolved},
};
use serde_json::{json, value::RawValue};

use super::{Offer, order::arranged, params};

pub use super::params::ParamHeader;

/// What takes any arguments.
const ANY_OBJECT: &str = r#"{"type":"object"}"#;

/// A self-contained schema.
#[derive(Debug)]
pub struct Schema {
    /// Its JSON text.
    pub text: Box<str>,
    /// The digest of that text: equal schemas share a compiled validator.
    pub digest: Digest,
}

impl Schema {
    fn new(text: String) -> Self {
        Self { digest: Digest::compute(text.as_bytes()), text: text.into_boxed_str() }
    }

    /// Whether it says at the top that it is about an object, as older revisions of MCP demand.
    pub fn is_for_objects(&self) -> bool {
        is_object_schema(&self.text)
    }
}

/// What callers may send.
#[derive(Debug)]
pub struct Input {
    /// The schema of the arguments.
    pub schema: Schema,
    /// Arguments that are mirrored into headers.
    pub params: Vec<ParamHeader>,
    /// Why the registered schema cannot be used, if so; then the schema above takes anything.
    pub problem: Option<Unresolved>,
}

/// The input schema of an offer.
pub(super) fn input_of(offer: &Offer) -> Input {
    match input_text(offer) {
        Ok((text, params)) => Input { schema: Schema::new(text), params, problem: None },
        Err(problem) => Input {
            schema: Schema::new(ANY_OBJECT.to_owned()),
            params: Vec::new(),
            problem: Some(problem),
        },
    }
}

fn input_text(offer: &Offer) -> Result<(String, Vec<ParamHeader>), Unresolved> {
    let registered = tool_schema::input(offer.tool(), &|key: &Key| offer.schema(key));
    let mut schema = match registered {
        Some(schema) => schema?,
        None if let Some(composed) = offer.composed() => {
            // What the first tool demands that gets the arguments as they are.
            let text = composed.entry().map_or(ANY_OBJECT, |entry| &entry.input().schema.text);
            return Ok((text.to_owned(), Vec::new()));
        }
        None => match inherited(offer, "inputSchema") {
            // What needs no change keeps the order of its members, which models do see.
            Some(text)
                if offer.hidden().is_empty()
                    && !params::may_annotate(text)
                    && is_object_schema(text) =>
            {
                return Ok((text.to_owned(), Vec::new()));
            }
            text => {
                let schema = text.and_then(|text| serde_json::from_str(text).ok());
                tool_schema::for_callers(schema.unwrap_or_else(|| json!({})), offer.hidden())
            }
        },
    };
    let params = params::settle(&mut schema);
    Ok((arranged(&schema, live_member(offer, "inputSchema")), params))
}

/// The output schema of an offer, if it has one that can be used. What the upstream promises does not
/// hold for a projection of it.
pub(super) fn output_of(offer: &Offer) -> Option<Schema> {
    match tool_schema::output(offer.tool(), &|key: &Key| offer.schema(key)) {
        Some(schema) => {
            let schema = arranged(&schema.ok()?, live_member(offer, "outputSchema"));
            Some(Schema::new(schema))
        }
        None if offer.projection().is_some() => None,
        None => inherited(offer, "outputSchema").map(|text| Schema::new(text.to_owned())),
    }
}

/// A schema of the upstream's own definition.
fn inherited<'a>(offer: &'a Offer, member: &str) -> Option<&'a str> {
    live_member(offer, member).map(RawValue::get).filter(|text| text.starts_with('{'))
}

fn live_member<'a>(offer: &'a Offer, member: &str) -> Option<&'a RawValue> {
    Object::parse(offer.live()?).ok()?.find(member)
}

fn is_object_schema(text: &str) -> bool {
    let top = serde_json::from_str::<Object<'_>>(text);
    top.is_ok_and(|top| top.find("type").is_some_and(|raw| raw.get() == "\"object\""))
}
