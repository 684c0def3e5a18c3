//! One live tool against the registered one.
//!
//! Deliberately absent: whether it should be there.

use serde_json::{Map, Value};

use super::{Class, Comparison};
use crate::{
    contract::{Change, Contract, Side, classify_schema},
    entity::{Entity, Tool},
    reference::Key,
    schema_inline::inlined,
};

/// Promises about what a call may do, and the value that promises most.
const PROMISES: [(&str, bool); 4] = [
    ("readOnlyHint", true),
    ("destructiveHint", false),
    ("idempotentHint", true),
    ("openWorldHint", false),
];

impl Comparison<'_> {
    pub(super) fn tool(&mut self, registered: &Tool, live: &Value) {
        let name = live["name"].as_str().unwrap_or_default();
        for (field, before) in
            [("title", &registered.title), ("description", &registered.description)]
        {
            let after = live.get(field).and_then(Value::as_str);
            self.text((name, &format!("/{field}")), before.as_deref(), after);
        }
        if let Some(before) = &registered.annotations {
            let nothing = Map::new();
            let after = live.get("annotations").and_then(Value::as_object).unwrap_or(&nothing);
            self.annotations(name, before, after);
        }
        let hides = registered.source().is_some_and(|source| !source.hide_fields.is_empty());
        let input = registered.input_schema.as_ref().filter(|_| !hides);
        self.schema((name, "/inputSchema"), input, live.get("inputSchema"), Side::Input);
        let output = registered.output_schema.as_ref();
        self.schema((name, "/outputSchema"), output, live.get("outputSchema"), Side::Output);
    }

    fn annotations(&mut self, tool: &str, before: &Map<String, Value>, after: &Map<String, Value>) {
        for (hint, promise) in PROMISES {
            let promised = |map: &Map<String, Value>| map.get(hint) == Some(&Value::Bool(promise));
            let at = format!("/annotations/{hint}");
            match (promised(before), promised(after)) {
                (true, false) => {
                    let what = format!("the server no longer promises `{hint}: {promise}`");
                    self.add(Class::Breaking, tool, &at, what);
                }
                (false, true) => {
                    let what = format!("the server promises `{hint}: {promise}`");
                    self.add(Class::Compatible, tool, &at, what);
                }
                _ => {}
            }
        }
        let title =
            |map: &Map<String, Value>| map.get("title").and_then(Value::as_str).map(str::to_owned);
        let (before, after) = (title(before), title(after));
        if before != after {
            self.text((tool, "/annotations/title"), before.as_deref(), after.as_deref());
        }
    }

    fn schema(
        &mut self,
        place: (&str, &str),
        before: Option<&Value>,
        after: Option<&Value>,
        side: Side,
    ) {
        let catalog = self.catalog;
        let resolve = |key: &Key| match catalog.find(key)?.document.entity() {
            Entity::Schema(schema) => Some(&schema.schema),
            _ => None,
        };
        let Some(before) = before else {
            if let Some(after) = after {
                self.schema_words(place, None, after);
            }
            return;
        };
        let old = Contract { schema: Some(before), resolve: &resolve };
        let new = Contract { schema: after.filter(|schema| !schema.is_null()), resolve: &|_| None };
        let (tool, pointer) = place;
        match classify_schema(old, new, side) {
            Change::Identical => return,
            Change::Words => {}
            Change::Compatible => {
                self.add(
                    Class::Compatible,
                    tool,
                    pointer,
                    "the schema is compatible, not the same",
                );
            }
            Change::Breaking => {
                self.add(Class::Breaking, tool, pointer, "the schema is another");
            }
        }
        let before = inlined(before, &resolve);
        if let Some(after) = new.schema.and_then(|schema| inlined(schema, &|_| None)) {
            self.schema_words(place, before.as_ref(), &after);
        }
    }
}
