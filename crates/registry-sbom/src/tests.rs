//! Snapshots of small bills in each format.

use registry_core::{Catalog, Key, LifecycleState, Timestamp};
use registry_fixtures::entities::{agent, catalog, schema, server, set, source_tool, tool, with};
use serde_json::{Value, json};

use crate::{Bill, Change, Format, compare, consumers, read};

fn on(kind: &str, name: &str) -> Value {
    let skill = (kind == "agent").then_some("work");
    json!({ "type": kind, "name": name, "version": "1.0.0", "skill": skill })
}

/// A registry with every kind, every relation, and all sorts of metadata.
fn registry() -> Catalog {
    let inner = schema("Inner", &json!({ "type": "object" }));
    let read = json!({
        "inputSchema": { "$ref": "#Inner:1.0.0" },
        "title": "Read a file",
        "annotations": { "readOnlyHint": true, "title": "Read" },
        "metadata": { "license": "Apache-2.0 OR LicenseRef-Acme", "supplier": "Acme", "purl": "pkg:npm/reader@1.0.0" },
    });
    let files = json!({
        "description": "Files",
        "metadata": {
            "license": "ask us",
            "supplier": { "name": "Acme", "url": "https://acme.example" },
            "repository": { "url": "https://git.example/files" },
            "websiteUrl": "https://files.example",
            "remotes": [{ "type": "streamable-http", "url": "https://files.example/mcp" }],
        },
    });
    let boss = json!({
        "provider": { "organization": "Acme", "url": "https://acme.example" },
        "security": [{ "key": [] }],
        "metadata": { "license": "MIT" },
    });
    catalog(&[
        inner,
        schema("Unused", &json!(true)),
        with(&server("files", &["read", "write"]), files),
        with(&source_tool("read", "files"), read),
        source_tool("write", "files"),
        tool("copy", json!({ "spec": {}, "depends": [on("tool", "read"), on("tool", "missing")] })),
        agent("worker", &json!([on("tool", "copy"), on("tool", "read")])),
        with(&agent("boss", &json!([on("agent", "worker")])), boss),
        set("tool/read@1.0.0", LifecycleState::Deprecated, Some("use\ncopy")),
    ])
}

fn bill(root: Option<&str>) -> Bill {
    let root = root.map(|root| root.parse::<Key>().unwrap());
    Bill::build(&registry(), Timestamp::from_millis(1_700_000_000_123), root.as_ref()).unwrap()
}

fn text(bill: &Bill, format: Format) -> String {
    let mut bytes = Vec::new();
    bill.write(format, &mut bytes).unwrap();
    // The version of this crate changes independently.
    String::from_utf8(bytes).unwrap().replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

fn keys(root: &str) -> Vec<String> {
    bill(Some(root)).keys().map(ToString::to_string).collect()
}

#[test]
fn bill_contains_dependencies_and_provided_tools() {
    assert_eq!(
        keys("agent/boss@1.0.0"),
        [
            "schema/Inner@1.0.0",
            "server/files@1.0.0",
            "tool/copy@1.0.0",
            "tool/read@1.0.0",
            "agent/boss@1.0.0",
            "agent/worker@1.0.0",
        ]
    );
    assert_eq!(keys("tool/write@1.0.0"), ["server/files@1.0.0", "tool/write@1.0.0"]);
    assert_eq!(
        keys("server/files@1.0.0"),
        ["schema/Inner@1.0.0", "server/files@1.0.0", "tool/read@1.0.0", "tool/write@1.0.0"]
    );
    assert_eq!(keys("schema/Inner@1.0.0"), ["schema/Inner@1.0.0"]);
    assert_eq!(bill(None).keys().count(), registry().len());
    let nobody = "agent/nobody@1.0.0".parse().unwrap();
    assert!(Bill::build(&registry(), Timestamp::from_millis(0), Some(&nobody)).is_none());
}

#[test]
fn agent_bill_matches_snapshot_in_each_format() {
    for format in Format::ALL {
        insta::assert_snapshot!(
            format!("agent-{format}"),
            text(&bill(Some("agent/boss@1.0.0")), format)
        );
    }
}

#[test]
fn tool_is_subject_of_its_bill() {
    insta::assert_snapshot!(text(&bill(Some("tool/write@1.0.0")), Format::CycloneDx16));
}

#[test]
fn full_bill_describes_top_level_entities() {
    for format in [Format::CycloneDx17, Format::Spdx23] {
        let written: Value = serde_json::from_str(&text(&bill(None), format)).unwrap();
        let tops = ["schema/Unused@1.0.0", "tool/write@1.0.0", "agent/boss@1.0.0"];
        match format {
            Format::CycloneDx17 => assert_eq!(written["dependencies"][0]["dependsOn"], json!(tops)),
            _ => assert_eq!(written["packages"].as_array().unwrap().len(), registry().len() + 1),
        }
    }
}

#[test]
fn bill_identifiers_are_unique() {
    let roots = [None, Some("agent/boss@1.0.0"), Some("agent/worker@1.0.0")];
    let ids: std::collections::BTreeSet<String> = roots
        .iter()
        .flat_map(|root| Format::ALL.map(|format| super::id::uuid(&bill(*root), format)))
        .collect();
    assert_eq!(ids.len(), roots.len() * Format::ALL.len());
}

#[test]
fn all_formats_parse_to_same_inventory() {
    for root in [None, Some("agent/boss@1.0.0"), Some("tool/read@1.0.0")] {
        let bill = bill(root);
        let [first, rest @ ..] = Format::ALL.map(|f| read(text(&bill, f).as_bytes()).unwrap());
        assert_eq!(first.len(), bill.keys().count());
        for other in rest {
            assert_eq!(other, first);
        }
        let read = &first[&("tool/read".to_owned(), "1.0.0".to_owned())];
        assert_eq!(read.license.as_deref(), Some("Apache-2.0 OR LicenseRef-Acme"));
        assert_eq!(read.supplier.as_deref(), Some("Acme"));
        assert_eq!(read.lifecycle.as_deref(), Some("deprecated"));
        assert!(read.digest.is_some());
    }
    assert!(read(b"{}").is_err() && read(b"[").is_err());
}

#[test]
fn license_name_is_kept_despite_id_collision() {
    let named = |name: &str, license: &str| {
        with(&schema(name, &json!(true)), json!({ "metadata": { "license": license } }))
    };
    let id = "LicenseRef-9049697da52b7e0e";
    let catalog = catalog(&[named("A", "proprietary"), named("B", id)]);
    let bill = Bill::build(&catalog, Timestamp::from_millis(0), None).unwrap();
    let mut written = Vec::new();
    bill.write(Format::Spdx23, &mut written).unwrap();
    let written: Value = serde_json::from_slice(&written).unwrap();
    let licenses = &written["hasExtractedLicensingInfos"];
    assert_eq!(licenses.as_array().unwrap().len(), 1);
    assert_eq!(
        (&licenses[0]["licenseId"], &licenses[0]["extractedText"]),
        (&json!(id), &json!("proprietary"))
    );
}

#[test]
fn compare_reports_each_kind_of_difference() {
    let foreign = |components: Value| {
        let bill = json!({ "bomFormat": "CycloneDX", "components": components });
        read(bill.to_string().as_bytes()).unwrap()
    };
    let component = |name: &str, version: &str, license: &str| json!({ "group": "g", "name": name, "version": version, "licenses": [{ "license": { "id": license } }] });
    let old = foreign(json!([
        component("a", "1", "MIT"),
        component("b", "1", "MIT"),
        component("c", "1", "MIT"),
        component("d", "1", "MIT"),
        component("d", "2", "MIT"),
    ]));
    let new = foreign(json!([
        component("a", "1", "ISC"),
        component("b", "2", "ISC"),
        component("d", "3", "MIT"),
        component("e", "1", "MIT"),
    ]));
    let found: Vec<_> = compare(&old, &new)
        .into_iter()
        .map(|d| (d.name, d.change.as_str(), d.old.unwrap_or_default(), d.new.unwrap_or_default()))
        .collect();
    let expected = [
        ("g/a", "license", "MIT", "ISC"),
        ("g/b", "version", "1", "2"),
        ("g/b", "license", "MIT", "ISC"),
        ("g/c", "removed", "1", ""),
        ("g/d", "removed", "1", ""),
        ("g/d", "removed", "2", ""),
        ("g/d", "added", "", "3"),
        ("g/e", "added", "", "1"),
    ];
    let expected = expected.map(|(n, c, o, w)| (n.to_owned(), c, o.to_owned(), w.to_owned()));
    assert_eq!(found, expected);
    assert!(compare(&old, &old).is_empty());
    assert_eq!(compare(&old, &foreign(json!([])))[0].change, Change::Removed);
}

#[test]
fn consumers_have_shortest_paths() {
    let of = |key: &str| {
        let found = consumers(&registry(), &key.parse().unwrap());
        found.after(None).map(|holder| format!("{:?}", holder.path)).collect::<Vec<_>>()
    };
    assert_eq!(
        of("tool/read@1.0.0"),
        [
            "[server/files@1.0.0, tool/read@1.0.0]",
            "[tool/copy@1.0.0, tool/read@1.0.0]",
            "[agent/boss@1.0.0, agent/worker@1.0.0, tool/read@1.0.0]",
            "[agent/worker@1.0.0, tool/read@1.0.0]",
        ]
    );
    assert_eq!(of("tool/write@1.0.0"), ["[server/files@1.0.0, tool/write@1.0.0]"]);
    assert_eq!(of("agent/boss@1.0.0"), Vec::<String>::new());
    let catalog = registry();
    let inner = consumers(&catalog, &"schema/Inner@1.0.0".parse().unwrap());
    let last = "agent/boss@1.0.0".parse().unwrap();
    let rest: Vec<_> = inner.after(Some(&last)).map(|holder| holder.key.to_string()).collect();
    assert_eq!(rest, ["agent/worker@1.0.0"]);
}
