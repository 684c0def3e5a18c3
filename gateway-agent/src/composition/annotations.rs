//! What a composition says of itself where its registration does not: what its parts come to.
//!
//! Deliberately absent: deciding anything by it.

use registry_core::entity::Tool;
use serde_json::{Map, Value, value::RawValue};

use super::Plan;
use crate::{jsonrpc::Object, view::Offer};

impl Plan {
    /// MCP's annotations: read-only, idempotent only if all parts are; destructive, open to the world
    /// if any is. What a part does not say is what MCP takes it for.
    pub fn annotations(&self) -> Map<String, Value> {
        let all = |hint, default| self.parts().all(|part| says(part, hint, default));
        let any = |hint, default| self.parts().any(|part| says(part, hint, default));
        let is_read_only = all("readOnlyHint", false);
        let mut found = Map::new();
        found.insert("readOnlyHint".to_owned(), is_read_only.into());
        let is_destructive =
            |part: &_| !says(part, "readOnlyHint", false) && says(part, "destructiveHint", true);
        found.insert("destructiveHint".to_owned(), self.parts().any(|p| is_destructive(p)).into());
        let is_idempotent =
            |part: &_| says(part, "readOnlyHint", false) || says(part, "idempotentHint", false);
        found.insert("idempotentHint".to_owned(), self.parts().all(|p| is_idempotent(p)).into());
        found.insert("openWorldHint".to_owned(), any("openWorldHint", true).into());
        found
    }
}

/// What a part says, in its registration or else in its upstream's own definition.
fn says(part: &Offer, hint: &str, default: bool) -> bool {
    let Tool { annotations, .. } = part.tool();
    if let Some(annotations) = annotations {
        return annotations.get(hint).and_then(Value::as_bool).unwrap_or(default);
    }
    if let Some(plan) = part.plan() {
        return plan.annotations().get(hint).and_then(Value::as_bool).unwrap_or(default);
    }
    let live = part.live().and_then(|live| Object::parse(live).ok());
    let own = live.as_ref().and_then(|live| live.find("annotations"));
    let own = own.and_then(|raw| Object::parse(raw).ok());
    let hint = own.as_ref().and_then(|own| own.find(hint)).map(RawValue::get);
    hint.map_or(default, |text| text == "true")
}
