//! The schemas of an offer as callers see them: registered or inherited, self-contained, without
//! hidden fields.
//!
//! Arguments are validated by exactly the advertised schema.

use gateway_protocol::jsonrpc::Object;
use registry_core::{
    Digest, Key,
    tool_schema::{self, bundle::Unresolved},
};
use serde_json::{json, value::RawValue};

use super::{Offer, order::arranged, params};

pub use super::params::ParamHeader;

/// Accepts any arguments.
const ANY_OBJECT: &str = r#"{"type":"object"}"#;

#[derive(Debug)]
pub struct Schema {
    /// The JSON text.
    pub text: Box<str>,
    /// The digest of the text. Equal schemas share a compiled validator.
    pub digest: Digest,
}

impl Schema {
    fn new(text: String) -> Self {
        Self { digest: Digest::of(text.as_bytes()), text: text.into_boxed_str() }
    }

    /// Whether the top-level type is `object`, as older protocol versions require.
    pub fn is_for_objects(&self) -> bool {
        is_object_schema(&self.text)
    }
}

/// The arguments that callers can send.
#[derive(Debug)]
pub struct Input {
    pub schema: Schema,
    /// Arguments that clients mirror into headers.
    pub params: Vec<ParamHeader>,
    /// Why the registered schema is unusable. `schema` then accepts anything.
    pub problem: Option<Unresolved>,
}

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
            // The schema of the tool that receives the composition's input.
            let text = composed.entry().map_or(ANY_OBJECT, |entry| &entry.input().schema.text);
            return Ok((text.to_owned(), Vec::new()));
        }
        None => match inherited(offer, "inputSchema") {
            // An unchanged schema keeps the member order that models see.
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

/// The output schema of an offer, if usable. The upstream's schema does not describe a projection.
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

/// The upstream's schema.
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
