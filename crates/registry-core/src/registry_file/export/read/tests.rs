//! Exports: what is written is read back as it was, and nothing else is.

use std::sync::Arc;

use serde_json::json;

use super::{InvalidExport, read_export};
use crate::{
    Attestation, Catalog, Lifecycle, RegistryFile, RegistryId, Revision, Scope, Timestamp,
    lifecycle::LifecycleState::{Deprecated, Retired},
    registry_file::write_export,
    rules::testing::{agent, catalog, schema, server, set, source_tool},
};

fn small() -> Catalog {
    catalog(&[
        schema("A", &json!({ "type": "object", "title": "Größe \u{1F600}" })),
        server("files", &["read"]),
        source_tool("read", "files"),
        agent("ns/a", &json!([{ "type": "tool", "name": "read", "version": "1.0.0" }])),
        set("server/files@1.0.0", Deprecated, Some("use \"disks\"")),
        set("schema/A@1.0.0", Retired, None),
    ])
}

fn changed(from: &str, to: &str) -> Result<Catalog, InvalidExport> {
    let text = String::from_utf8(write_export(&small())).unwrap();
    assert_eq!(text.matches(from).count(), 1, "{from}\n{text}");
    read_export(text.replace(from, to).as_bytes())
}

#[test]
fn a_catalog_comes_back_as_it_was() {
    let empty = Catalog::empty(RegistryId::new("empty"));
    // Nobody changes a lifecycle later in the revision of the registration; a server may say so.
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
fn an_export_is_a_registry_file_too() {
    let attestation = Attestation { time: Timestamp::EPOCH, signature: [7; 64] };
    let scope = Scope::of_roots(&["agent/ns/a@*"]).unwrap();
    let signed = small().as_part(Arc::new(scope)).attested(Some(attestation));
    let file = RegistryFile::parse(&write_export(&signed)).unwrap();
    let keys: Vec<_> = file.proposals().iter().map(|p| p.key().to_string()).collect();
    assert_eq!(
        keys,
        [
            "schema/A@1.0.0",
            "server/files@1.0.0",
            "tool/read@1.0.0",
            "agent/ns/a@1.0.0",
            "schema/A@1.0.0",
            "server/files@1.0.0"
        ]
    );
    assert_eq!(catalog(file.proposals()).iter().count(), 4);
}

#[test]
fn what_is_wrong_is_named() {
    let error = |from: &str, to: &str| changed(from, to).unwrap_err().to_string();
    assert!(error("\"Größe", "\"Grösse").starts_with("the document of schema/A@1.0.0 is damaged"));
    let last = |owner: &str| {
        let at = "\"registered\":1,\"registeredAt\":\"1970-01-01T00:00:00.000Z\"}]";
        format!("\"owner\":\"{owner}\",{at}")
    };
    assert!(error(&last("tester"), &last("another")).contains("the copy of registry test has"));
    assert!(error("\"revision\":1,\"chain\"", "\"revision\":2,\"chain\"").contains("digest"));
    assert!(error("{\"state\":\"retired\"", "{\"state\":\"retried\"").contains("`retried`"));
    assert_eq!(
        error("\"schemaVersion\":\"2.0\"", "\"schemaVersion\":\"3.0\""),
        "the copy has the schema version `3.0`, this program reads 2.0"
    );
    assert!(error("tool/read@1.0.0", "tool/reed@1.0.0").contains("where tool/reed@1.0.0 belongs"));
    assert!(error("tool/read@1.0.0", "tool/read").contains("record 2 of the copy has no key"));
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
fn a_missing_record_or_document_is_noticed() {
    let mut value: serde_json::Value = serde_json::from_slice(&write_export(&small())).unwrap();
    value["records"].as_array_mut().unwrap().pop();
    let bytes = serde_json::to_vec(&value).unwrap();
    assert_eq!(
        read_export(&bytes).unwrap_err(),
        InvalidExport::Incomplete { documents: 4, records: 3 }
    );
}

#[test]
fn every_single_byte_corruption_is_refused_or_harmless() {
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
    // Only white space between values may change without harm.
    assert!(harmless < refused / 50, "{harmless} harmless, {refused} refused");
}

#[test]
fn every_missing_or_doubled_byte_is_refused_or_harmless() {
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
