//! Tests of tool sources.

use serde_json::{Value, json};

use crate::{document::Document, kind::Kind};

fn read(more: &Value) -> Result<Value, String> {
    let mut document = json!({ "name": "t", "version": "1.0.0" });
    document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    match Document::parse(Kind::Tool, &document) {
        Ok(document) => Ok(serde_json::from_slice(document.bytes()).unwrap()),
        Err(problems) => {
            let lines = problems.iter().map(|d| format!("{} {}", d.pointer, d.message));
            Err(lines.collect::<Vec<_>>().join("\n"))
        }
    }
}

fn source(more: &Value) -> Value {
    let mut source = json!({ "server": "s", "serverVersion": "1.0.0", "tool": "x" });
    source.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    source
}

#[test]
fn source_normalizes_old_member_locations() {
    let (defaults, hidden) = (json!({ "n": 1 }), json!(["n", "a.b"]));
    let inside = source(&json!({ "defaults": defaults, "hideFields": hidden }));
    let mut target = source(&json!({ "target": "s" }));
    target.as_object_mut().unwrap().remove("server");
    let new = json!({ "source": inside });
    let rows = [
        new.clone(),
        json!({ "source": source(&json!({})), "defaults": defaults, "hideFields": hidden }),
        json!({ "source": inside, "defaults": defaults, "hideFields": hidden }),
        json!({ "source": target, "defaults": defaults, "hideFields": hidden }),
        json!({ "source": source(&json!({ "target": "s", "hideFields": hidden })), "defaults": defaults }),
    ];
    for row in rows {
        let written = read(&row).unwrap();
        assert_eq!(written["source"], new["source"], "{row}");
        assert!(written.get("defaults").is_none() && written.get("hideFields").is_none());
    }
}

#[test]
fn source_rejects_contradicting_members() {
    let rows = [
        (
            json!({ "source": source(&json!({ "defaults": { "n": 1 } })), "defaults": { "n": 2 } }),
            "/source/defaults the values inside of `source` and next to it differ",
        ),
        (
            json!({ "source": source(&json!({ "hideFields": ["a"] })), "hideFields": [] }),
            "/source/hideFields the values inside of `source` and next to it differ",
        ),
        (
            json!({ "source": source(&json!({ "target": "other" })) }),
            "/source/target `target` is `other`, but `server` is `s`",
        ),
        (
            json!({ "spec": {}, "defaults": { "n": 1 } }),
            "/defaults `defaults` applies only to a tool with `source`",
        ),
        (
            json!({ "spec": {}, "hideFields": ["n"] }),
            "/hideFields `hideFields` applies only to a tool with `source`",
        ),
    ];
    for (row, expected) in rows {
        assert_eq!(read(&row).unwrap_err(), expected, "{row}");
    }
}
