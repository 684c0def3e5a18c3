//! Tests of reading exports.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{InvalidExport, read_export};
use crate::{
    Attestation, Catalog, Lifecycle, RegistryFile, RegistryId, Revision, Scope, Timestamp,
    lifecycle::LifecycleState::{Deprecated, Retired},
    registry_file::write_export,
    rules::testing::{agent, catalog, policy, schema, server, set, source_tool},
};

fn small() -> Catalog {
    catalog(&[
        schema("A", &json!({ "type": "object", "title": "Größe \u{1F600}" })),
        server("files", &["read"]),
        source_tool("read", "files"),
        agent("ns/a", &json!([{ "type": "tool", "name": "read", "version": "1.0.0" }])),
        set("server/files@1.0.0", Deprecated, Some("use \"disks\"")),
        set("schema/A@1.0.0", Retired, None),
        policy("limit", json!({ "maxStaleness": "PT1H" })),
    ])
}

fn changed(from: &str, to: &str) -> Result<Catalog, InvalidExport> {
    let text = String::from_utf8(write_export(&small())).unwrap();
    assert_eq!(text.matches(from).count(), 1, "{from}\n{text}");
    read_export(text.replace(from, to).as_bytes())
}

#[test]
fn export_round_trips() {
    let empty = Catalog::empty(RegistryId::new("empty"));
    // A server may report a later lifecycle change in the revision of the registration.
    let mut record = (**small().iter().last().expect("entities").1).clone();
    record.lifecycle = Lifecycle::active((record.registered, Timestamp::from_millis(1_000)));
    let odd = Catalog::restore(empty.registry().clone(), Revision(1), empty.chain(), [record]);
    for catalog in [small(), empty, odd] {
        let bytes = write_export(&catalog);
        assert_eq!(read_export(&bytes).unwrap(), catalog);
        assert_eq!(write_export(&read_export(&bytes).unwrap()), bytes);
    }
}

#[test]
fn export_parses_as_registry_file() {
    let attestation = Attestation { time: Timestamp::EPOCH, signature: [7; 64] };
    let scope = Scope::from_roots(&["agent/ns/a@*"]).unwrap();
    let signed = small().with_scope(Arc::new(scope)).with_attestation(Some(attestation));
    let file = RegistryFile::parse(&write_export(&signed)).unwrap();
    let keys: Vec<_> = file.proposals().iter().map(|p| p.key().to_string()).collect();
    assert_eq!(
        keys,
        [
            "schema/A@1.0.0",
            "server/files@1.0.0",
            "tool/read@1.0.0",
            "agent/ns/a@1.0.0",
            "policy/limit@1.0.0",
            "schema/A@1.0.0",
            "server/files@1.0.0"
        ]
    );
    assert_eq!(catalog(file.proposals()).iter().count(), 5);
}

#[test]
fn export_marks_deprecated_and_retired_entities() {
    let file: Value = serde_json::from_slice(&write_export(&small())).unwrap();
    let server = &file["servers"][0];
    assert_eq!(
        (&server["deprecated"], &server["deprecationMessage"]),
        (&json!(true), &json!("use \"disks\""))
    );
    assert_eq!(file["schemas"][0]["retired"], true);
    let active = file["tools"][0].as_object().unwrap();
    assert!(!active.contains_key("deprecated") && !active.contains_key("retired"));
    let damaged = changed("\"deprecated\":true", "\"deprecated\":false").unwrap_err();
    assert!(damaged.to_string().contains("invalid document of server/files@1.0.0"), "{damaged}");
}

#[test]
fn what_is_wrong_is_named() {
    let error = |from: &str, to: &str| changed(from, to).unwrap_err().to_string();
    assert!(
        error("\"Größe", "\"Grösse")
            .starts_with("the export has an invalid document of schema/A@1.0.0")
    );
    let last = |owner: &str| {
        let at = "\"registered\":1,\"registeredAt\":\"1970-01-01T00:00:00.000Z\"}]";
        format!("\"owner\":\"{owner}\",{at}")
    };
    assert!(error(&last("tester"), &last("another")).contains("in the export of registry test"));
    assert!(error("\"revision\":1,\"chain\"", "\"revision\":2,\"chain\"").contains("digest"));
    assert!(error("{\"state\":\"retired\"", "{\"state\":\"retried\"").contains("`retried`"));
    assert_eq!(
        error("\"schemaVersion\":\"2.0\"", "\"schemaVersion\":\"3.0\""),
        "the export has the schema version `3.0`; this program reads 2.0"
    );
    assert!(error("tool/read@1.0.0", "tool/reed@1.0.0").contains("in place of tool/reed@1.0.0"));
    assert!(
        error("tool/read@1.0.0", "tool/read").contains("record 2 of the export has an invalid key")
    );
    assert!(matches!(
        changed("\"revision\":1,\"chain\"", "\"more\":1,\"revision\":1,\"chain\""),
        Err(InvalidExport::Unreadable(_))
    ));
    let whole = write_export(&small());
    for cut in [0, 1, whole.len() / 2, whole.len() - 2] {
        assert!(matches!(read_export(&whole[..cut]), Err(InvalidExport::Unreadable(_))), "{cut}");
    }
}

#[test]
fn read_export_detects_missing_record_or_document() {
    let mut value: serde_json::Value = serde_json::from_slice(&write_export(&small())).unwrap();
    value["records"].as_array_mut().unwrap().pop();
    let bytes = serde_json::to_vec(&value).unwrap();
    assert_eq!(
        read_export(&bytes).unwrap_err(),
        InvalidExport::Incomplete { documents: 5, records: 4 }
    );
}

#[test]
fn read_export_rejects_single_byte_corruption() {
    let before = small();
    let whole = write_export(&before);
    let (mut refused, mut harmless) = (0, 0);
    for place in 0..whole.len() {
        let original = whole[place];
        let flips = (0..8).map(|bit| original ^ (1 << bit));
        let others = [0, b' ', b'"', b'0'];
        for byte in flips.chain(others).filter(|byte| *byte != original) {
            let mut damaged = whole.clone();
            damaged[place] = byte;
            match read_export(&damaged) {
                Ok(after) => {
                    assert_eq!(after, before, "byte {place} as {byte}");
                    harmless += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    // Only whitespace between values may change without effect.
    assert!(harmless < refused / 50, "{harmless} harmless, {refused} refused");
}

#[test]
fn read_export_rejects_missing_or_doubled_bytes() {
    let before = small();
    let whole = write_export(&before);
    for place in 0..whole.len() {
        let (head, tail) = whole.split_at(place);
        for damaged in [[head, &tail[1..]].concat(), [head, &tail[..1], tail].concat()] {
            if let Ok(after) = read_export(&damaged) {
                assert_eq!(after, before, "byte {place}");
            }
        }
    }
}
