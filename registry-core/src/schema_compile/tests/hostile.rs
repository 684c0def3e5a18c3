//! Schemas that are written to mislead or to cost.
//!
//! Deliberately absent: schemas that are merely wrong.

use serde_json::{Value, json};

use super::{compiled, problems};
use crate::{
    rules::testing::{catalog, schema},
    schema_compile::compile_in,
};

#[test]
fn a_schema_that_needs_itself_at_once_ends() {
    let circle = json!({ "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } });
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#" }] }),
        json!({ "$ref": "#/$defs/a", "$defs": circle }),
        json!({ "$dynamicRef": "#m", "$dynamicAnchor": "m" }),
    ] {
        assert!(compiled(&schema).validate(&json!({ "a": 1 })).is_ok(), "{schema}");
    }
}

#[test]
fn no_schema_takes_the_uri_of_another() {
    for id in ["/B/1.0.0", "../B/1.0.0", "2.0.0", "/B/1.0.0#", "//x/B/1.0.0", "/B/1%2E0.0"] {
        let found = problems(&json!({ "$defs": { "x": { "$id": id, "type": "string" } } }));
        assert_eq!(found, [format!("/$defs/x/$id: `{id}` uses the registry's own URI scheme")]);
    }
    for id in ["item", "/items/item.json", "https://example.com/B/1.0.0", "urn:x:1.0.0"] {
        compiled(&json!({ "$defs": { "x": { "$id": id, "type": "string" } } }));
    }
}

#[test]
fn two_documents_do_not_share_an_id() {
    let inner = |kind: &str| json!({ "$id": "https://example.com/x#", "type": kind });
    let registered = catalog(&[schema("A", &inner("integer")), schema("B", &inner("string"))]);
    let to = |names: &[&str]| -> Value {
        names.iter().map(|name| json!({ "$ref": format!("#{name}:1.0.0") })).collect()
    };
    let both = compile_in(&registered, &json!({ "anyOf": to(&["A", "B"]) })).unwrap_err();
    assert!(both[0].to_string().starts_with("`https://example.com/x` is the `$id` of two"));
    let own = json!({ "$id": "https://example.com/x", "anyOf": to(&["A"]) });
    assert!(compile_in(&registered, &own).is_err());
    assert!(compile_in(&registered, &json!({ "anyOf": to(&["A", "A"]) })).is_ok());
}

#[test]
fn parts_have_a_known_dialect_too() {
    let part = json!({ "$id": "https://example.com/p", "$schema": "https://example.com/d" });
    assert_eq!(
        problems(&json!({ "properties": { "p": part } })),
        ["/properties/p/$schema: the dialect \"https://example.com/d\" is not supported"]
    );
}
