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
    insta::assert_snapshot!(
        damaged,
        @"the export has an invalid document of server/files@1.0.0: document digest mismatch: \
          computed sha256:9d8f00d5cd65ce5a34eedb248c5c34bb392c6a86be2fa1f07a5257b6c306d865, \
          expected sha256:1e5182fecf68a1858e9b7c3de5fc139b8536372a0e1a39f72765d588a1f5c587"
    );
}

#[test]
fn what_is_wrong_is_named() {
    let error = |from: &str, to: &str| changed(from, to).unwrap_err().to_string();
    let last = |owner: &str| {
        let at = "\"registered\":1,\"registeredAt\":\"1970-01-01T00:00:00.000Z\"}]";
        format!("\"owner\":\"{owner}\",{at}")
    };
    let errors = [
        error("\"Größe", "\"Grösse"),
        error(&last("tester"), &last("another")),
        error("\"revision\":1,\"chain\"", "\"revision\":2,\"chain\""),
        error("{\"state\":\"retired\"", "{\"state\":\"retried\""),
        error("\"schemaVersion\":\"2.0\"", "\"schemaVersion\":\"3.0\""),
        error("tool/read@1.0.0", "tool/reed@1.0.0"),
        error("tool/read@1.0.0", "tool/read"),
    ];
    insta::assert_snapshot!(errors.join("\n"), @"
    the export has an invalid document of schema/A@1.0.0: document digest mismatch: computed sha256:4b3382b5a0eae0b77dab84485a8ce763a6f30bbd304f8ecea44e5de7e4c67166, expected sha256:4d705bd714dd220f20707ee565169081161eb3fe438abdce482aaf1826db07fe
    digest mismatch in the export of registry test: computed sha256:6cc79d0736ca57187efae312d8eb529fb9b937fc72bd49726cca92b6a4e33b6a, expected sha256:26aa0a58c6babb133aee11f0a687823766bdb9b4185536eef6dcee9cae478621
    digest mismatch in the export of registry test: computed sha256:941be976593006715dd6945356bc9b6e384366ecdf9d894912789fee59b28c12, expected sha256:26aa0a58c6babb133aee11f0a687823766bdb9b4185536eef6dcee9cae478621
    the export has an invalid lifecycle of schema/A@1.0.0: `retried` is not a lifecycle state; the states are active, deprecated and retired
    the export has the schema version `3.0`; this program reads 2.0
    the export has tool/read@1.0.0 in place of tool/reed@1.0.0
    record 2 of the export has an invalid key: `tool/read` is not of the form kind/name@version, like tool/fetch@1.2.3
    ");
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
