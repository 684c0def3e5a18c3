//! A tool's entry in `tools/list`: what its registration says, and from the upstream's own
//! definition whatever the registration leaves open.
//!
//! The upstream's `_meta` speaks for the upstream and is left out. `execution` is there for clients
//! that can begin tasks through this gateway.

use serde_json::value::RawValue;

use super::{
    Offer,
    input::{input_of, output_of},
};
use crate::{
    jsonrpc::{Object, ObjectWriter},
    upstream::Era,
    view::pages::Form,
};

/// An entry, and whether older clients need another form of it.
pub(super) struct Entry {
    pub(super) json: String,
    pub(super) is_modern_only: bool,
}

/// Renders the entry of an offer. Before 2026-07-28 an output schema describes an object, and strict
/// clients refuse a whole list over one that does not, so there it is left out.
pub(super) fn render(offer: &Offer, form: Form) -> Entry {
    let era = form.era();
    let tool = offer.tool();
    let live = offer.live().and_then(|live| Object::parse(live).ok()).unwrap_or_default();
    let inherited = |member: &str, start: char| {
        live.find(member).map(RawValue::get).filter(|text| text.starts_with(start))
    };
    let mut entry = ObjectWriter::with_capacity(512);
    entry.string("name", tool.name.as_str());
    for (member, registered) in [("title", &tool.title), ("description", &tool.description)] {
        match (registered, inherited(member, '"')) {
            (Some(text), _) => entry.string(member, text),
            (None, Some(text)) => entry.raw(member, text),
            (None, None) => &mut entry,
        };
    }
    entry.raw("inputSchema", &input_of(offer).schema.text);
    let output = output_of(offer);
    let is_modern_only = output.as_ref().is_some_and(|schema| !schema.is_for_objects());
    if let Some(schema) = output.filter(|_| era == Era::Modern || !is_modern_only) {
        entry.raw("outputSchema", &schema.text);
    }
    let derived = offer.plan().map(|plan| plan.hints().to_annotations());
    let annotations = tool.annotations.as_ref().or(derived.as_ref());
    let annotations = annotations.and_then(|map| serde_json::to_string(map).ok());
    if let Some(text) = annotations.as_deref().or_else(|| inherited("annotations", '{')) {
        entry.raw("annotations", text);
    }
    if let Some(text) = inherited("icons", '[') {
        entry.raw("icons", text);
    }
    if let Some(execution) = offer.task_support().as_execution().filter(|_| form.has_tasks()) {
        entry.raw("execution", execution);
    }
    entry.raw("_meta", &format!(r#"{{"registry/version":"{}"}}"#, tool.version));
    Entry { json: entry.finish_string(), is_modern_only }
}
