//! The behavior hints of a composition's parts.

use gateway_protocol::jsonrpc::Object;
use registry_core::entity::Hints;
use serde_json::value::RawValue;

use super::ServedTool;

/// Returns the registered hints, or those of the upstream's definition.
pub(super) fn of_part(part: &ServedTool) -> Hints {
    if let Some(annotations) = &part.tool().annotations {
        return Hints::from_annotations(annotations);
    }
    if let Some(composed) = part.composed() {
        return composed.hints();
    }
    let live = part.live().and_then(|live| Object::parse(live).ok());
    let own = live.as_ref().and_then(|live| live.find("annotations"));
    let own = own.and_then(|raw| Object::parse(raw).ok());
    Hints::new(|hint| {
        let said = own.as_ref().and_then(|own| own.find(hint)).map(RawValue::get);
        said.and_then(|text| text.parse().ok())
    })
}
