//! Pointers of repairs, and repeated imports.

use serde_json::{Value, json};

use super::*;

#[test]
fn repairs_point_to_places_in_the_file() {
    let found = import_registry_file(&json!({ "schemaVersion": "2.0",
        "schemas": [
            { "name": "B", "version": "1.0.0", "schema": {} },
        ],
        "servers": [
            { "name": "s", "version": "1.0.0", "provides": [null, 5, { "name": "a b", "version": "1.0.0" }, "t"] },
            { "name": "r", "version": "1.0.0", "tools": { "u": "latest" } },
        ],
        "tools": [
            { "name": "t", "version": "1.0.0", "source": { "target": "!", "tool": "t" } },
            { "name": "c", "version": "1.0.0", "source": "s", "dependencies": [
                { "type": "schema", "name": "B" }, { "type": "tool", "name": "none", "version": "latest" }] },
        ],
        "agents": [{ "name": "a", "version": "1.0.0", "url": "http://a",
            "depends": [{ "type": "schema", "name": "B" }, { "type": "tool", "name": "far" }],
            "skills": [5, { "id": "s", "tags": [7, "t\u{200b}"] }] }],
    }));
    let said = lines(&found).join("\n");
    for expected in [
        "Person /servers/0/provides/1: an entry that names no tool",
        "Person /servers/0/provides/2/name: ",
        "Import /servers/0/provides/3: tool/t without a version; 1.0.0 is written",
        "Person /servers/1/tools/u: tool/u by the version `latest`",
        "Person /tools/0/source/target: ",
        "Person /tools/1/dependencies/1: tool/none by the version `latest`",
        "Import /tools/1/dependencies/0: schemas are referenced, not listed",
        "Import /agents/0/depends/0: schemas are referenced, not listed",
        "Person /agents/0/depends/1: tool/far without a version",
        "Person /agents/0/skills/1/tags/1: 1 hidden characters",
    ] {
        assert!(said.contains(expected), "{expected}\nnot in\n{said}");
    }
}

#[test]
fn registry_errors_point_to_places_in_the_file() {
    let found = import_registry_file(&json!({ "schemaVersion": "2.0",
        "schemas": [
            { "name": "A", "version": "1.0.0", "type": "object", "properties": { "a": { "type": 7 } } },
        ],
        "tools": [
            { "name": "t", "version": "1.0.0", "implementation": { "source": { "server": "s" } },
                "parameters": { "type": 7 } },
            { "name": "c", "version": "1.0.0", "pipeline": { "steps": 1 } },
        ],
        "agents": [{ "name": "a", "version": "1.0.0", "url": "http://a",
            "depends": [{ "type": "schema", "name": "A" }, { "type": "tool", "name": "far", "version": "1.0.0" }],
            "skills": { "none": 5, "s": { "inputSchema": { "type": 7 } } } }],
    }));
    let said = lines(&found).join("\n");
    for expected in [
        "Person /schemas/0/properties/a/type: ",
        "Person /tools/0/parameters/type: ",
        "Person /tools/1/pipeline",
        "Person /agents/0/depends/1",
        "Person /agents/0/skills/s/inputSchema/type: ",
    ] {
        assert!(said.contains(expected), "{expected}\nnot in\n{said}");
    }
}

#[test]
fn dropped_members_are_not_reported_as_moved() {
    let found = import_registry_file(&json!({ "schemaVersion": "2.0",
        "tools": [{ "name": "t", "version": "1.0.0", "server": "r", "owner": "a", "source": { "server": "s" },
            "implementation": { "source": { "server": "q" } }, "metadata": { "owner": "b" } }],
        "agents": [{ "name": "a", "version": "1.0.0", "url": "http://a", "odd": 1, "provider": 5,
            "metadata": { "card": { "odd": 2, "provider": { "organization": "o" } } } }],
    }));
    let said = lines(&found);
    let by_person = said.iter().filter(|line| line.starts_with("Person"));
    insta::assert_snapshot!(by_person.cloned().collect::<Vec<_>>().join("\n"), @"
    Person /tools/0/implementation/source: `source` already exists with another value; the existing value was kept; this one was left out
    Person /tools/0/server: `server` already exists with another value; the existing value was kept; this one was left out
    Person /tools/0/owner: `owner` already exists with another value; the existing value was kept; this one was left out
    Person /agents/0/provider: expected an object, got the number 5; `metadata.card` has another value there; it was left out
    Person /agents/0/odd: the registry has no field for it; `metadata.card` has another value there; it was left out
    ");
    let card = &found.draft.agents[0]["metadata"]["card"];
    assert_eq!(*card, json!({ "odd": 2, "provider": { "organization": "o" } }));
}

#[test]
fn import_of_duplicates_needs_no_second_repair() {
    let server = |provides: Value| json!({ "name": "s", "version": "1.0.0", "provides": provides });
    let tool =
        |server: &str| json!({ "name": "t", "version": "1.0.0", "source": { "server": server } });
    let once = import_registry_file(&json!({ "schemaVersion": "2.0",
        "servers": [server(json!(["a"])), server(json!(["b"]))], "tools": [tool("s"), tool("r")] }));
    assert_eq!(lines(&import_registry_file(&once.draft.to_value())), [""; 0]);
    assert_eq!((once.draft.servers.len(), once.draft.tools.len()), (1, 2), "{once:?}");
}
