//! Defaults by example.

use serde_json::json;

use super::*;

fn filled(defaults: Value, hidden: &[&str], arguments: Value) -> Result<Value, String> {
    let hidden: Vec<_> = hidden.iter().map(|field| HiddenField::parse(field)).collect();
    let variables = BTreeMap::from([
        ("HOST".to_owned(), "example.com".to_owned()),
        ("A".to_owned(), "${HOST}".to_owned()),
    ]);
    let (Value::Object(defaults), Value::Object(mut arguments)) = (defaults, arguments) else {
        unreachable!("both are objects")
    };
    let filling = Defaults { hidden: &hidden, variables: &variables };
    filling.fill(&defaults, &mut arguments).map_err(|e| e.to_string())?;
    Ok(Value::Object(arguments))
}

#[test]
fn absent_arguments_are_filled() {
    let defaults = json!({ "a": 1, "b": { "x": 1 }, "c": null });
    assert_eq!(
        filled(defaults.clone(), &[], json!({ "b": { "y": 2 }, "a": null })).unwrap(),
        json!({ "a": null, "b": { "y": 2 }, "c": null }),
        "an object that was sent is the caller's own"
    );
    assert_eq!(filled(defaults.clone(), &[], json!({})).unwrap(), defaults);
}

#[test]
fn hidden_members_are_always_filled() {
    let defaults = json!({ "f": { "author": "me", "lang": "en" } });
    let fill = |arguments| filled(defaults.clone(), &["f.author"], arguments).unwrap();
    assert_eq!(fill(json!({ "f": { "tag": 1 } })), json!({ "f": { "tag": 1, "author": "me" } }));
    assert_eq!(fill(json!({})), defaults);
    for other in [json!(5), json!(null), json!("{}"), json!([{}])] {
        let refused = filled(defaults.clone(), &["f.author"], json!({ "f": other }));
        assert_eq!(refused.unwrap_err(), "the argument /f/author is hidden", "{other}");
    }
    let deep = json!({ "f": { "by": { "author": "me", "lang": "en" } } });
    let filled = filled(deep, &["f.by.author"], json!({ "f": {} })).unwrap();
    assert_eq!(filled, json!({ "f": { "by": { "author": "me" } } }), "whatever is left out");
}

#[test]
fn variables_are_resolved_once_at_any_depth() {
    let defaults = json!({ "url": "https://${HOST}/${HOST}", "list": [{ "x": "${A}" }],
        "odd": "$HOST } ${ ${", "open": "a ${HOST", "n": 1 });
    let expected = json!({ "url": "https://example.com/example.com", "list": [{ "x": "${HOST}" }],
        "odd": "$HOST } ${ ${", "open": "a ${HOST", "n": 1 });
    assert_eq!(filled(defaults, &[], json!({})).unwrap(), expected);
}

#[test]
fn missing_variable_names_its_pointer() {
    let error = filled(json!({ "a": { "b/c": ["x ${TOKEN}"] } }), &[], json!({})).unwrap_err();
    assert_eq!(
        error,
        "the default at /a/b~1c/0 needs the variable `TOKEN`, which is not configured"
    );
    let sent = filled(json!({ "a": "${TOKEN}" }), &[], json!({ "a": 1 }));
    assert_eq!(sent.unwrap(), json!({ "a": 1 }), "a default that is not needed needs nothing");
}
