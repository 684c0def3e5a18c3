//! Documents with one change each.

use serde_json::{Value, json};

/// The values that replace each value of a document: all types, empty ones, and numbers and words out of
/// range.
fn replacements() -> [Value; 9] {
    [
        json!(null),
        json!(false),
        json!(-1),
        json!(0.5),
        json!(1_000_000_000_001_i64),
        json!(""),
        json!("?? no"),
        json!([]),
        json!({ "unknownMember": 7 }),
    ]
}

/// The document with each value replaced, each member removed, and a member added to each object.
pub(crate) fn mutations(document: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let mut change = |pointer: &str, what: &str, apply: &dyn Fn(&mut Value)| {
        let mut changed = document.clone();
        if let Some(value) = changed.pointer_mut(pointer) {
            apply(value);
            found.push((format!("{pointer} {what}"), changed));
        }
    };
    for pointer in pointers(document) {
        for replacement in replacements() {
            change(&pointer, &format!("= {replacement}"), &|value| value.clone_from(&replacement));
        }
        let Some(Value::Object(members)) = document.pointer(&pointer) else { continue };
        for name in members.keys() {
            change(&pointer, &format!("without {name}"), &|value| {
                value.as_object_mut().and_then(|members| members.remove(name));
            });
        }
        change(&pointer, "with an unknown member", &|value| value["unknownMember"] = json!(7));
    }
    found
}

/// The members whose values are open JSON.
const OPEN: [&str; 8] = [
    "schema",
    "metadata",
    "inputSchema",
    "outputSchema",
    "constant",
    "literal",
    "securitySchemes",
    "$comment",
];

/// The pointers of all values of a document, but not those inside of open JSON.
pub(crate) fn pointers(document: &Value) -> Vec<String> {
    let mut pointers = Vec::new();
    collect(document, String::new(), &mut pointers);
    pointers
}

fn collect(value: &Value, at: String, pointers: &mut Vec<String>) {
    let is_open = at.rsplit_once('/').is_some_and(|(_, name)| OPEN.contains(&name));
    match value {
        Value::Array(items) if !is_open => {
            items.iter().enumerate().for_each(|(i, v)| collect(v, format!("{at}/{i}"), pointers));
        }
        Value::Object(members) if !is_open => {
            for (name, value) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                collect(value, format!("{at}/{name}"), pointers);
            }
        }
        _ => {}
    }
    pointers.push(at);
}
