//! The schemas of a tool as gateways serve them: self-contained and without hidden arguments.
//!
//! This is part of the core so that the registry can reject schemas that gateways cannot serve.

pub mod bundle;
pub mod defaults;
pub mod hide;

use serde_json::{Value, json};

use self::{
    bundle::{Resolve, Unresolved, bundle, is_plain},
    hide::{HiddenField, hide},
};
use crate::entity::Tool;

/// The input schema of a tool, if it is registered with one.
pub fn input(tool: &Tool, resolve: Resolve<'_>) -> Option<Result<Value, Unresolved>> {
    let bundled = bundle(tool.input_schema.as_ref()?, resolve);
    Some(bundled.map(|schema| for_callers(schema, &hidden(tool))))
}

/// The output schema of a tool, if it is registered with one.
pub fn output(tool: &Tool, resolve: Resolve<'_>) -> Option<Result<Value, Unresolved>> {
    Some(bundle(tool.output_schema.as_ref()?, resolve))
}

/// The hidden arguments of a tool.
pub fn hidden(tool: &Tool) -> Vec<HiddenField> {
    let fields = tool.source().map_or(&[][..], |source| &source.hide_fields);
    fields.iter().map(|text| HiddenField::parse(text)).collect()
}

/// A self-contained input schema without hidden arguments.
pub fn for_callers(mut schema: Value, hidden: &[HiddenField]) -> Value {
    say_object(&mut schema);
    hide(&mut schema, hidden);
    schema
}

/// Adds `type: object`, which MCP requires for arguments.
fn say_object(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.entry("type").or_insert_with(|| json!("object"));
        }
        Value::Bool(false) => *schema = json!({ "type": "object", "not": {} }),
        _ => *schema = json!({ "type": "object" }),
    }
}

/// The schemas of a tool whose served form differs from the registered one, with their pointers.
/// Schemas with unresolved references are omitted.
pub(crate) fn changed(tool: &Tool, resolve: Resolve<'_>) -> Vec<(&'static str, Value)> {
    let served = [
        ("/inputSchema", &tool.input_schema, input(tool, resolve)),
        ("/outputSchema", &tool.output_schema, output(tool, resolve)),
    ];
    let served = served.into_iter().filter_map(|(member, registered, served)| {
        let served = served?.ok()?;
        (Some(&served) != registered.as_ref()).then_some((member, served))
    });
    served.collect()
}

/// Whether a tool's schemas compile in any combination with other plain schemas.
pub(crate) fn are_plain(tool: &Tool) -> bool {
    tool.input_schema.iter().chain(&tool.output_schema).all(is_plain)
}
