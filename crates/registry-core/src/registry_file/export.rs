//! A verified copy of a registry at a revision: the disk cache and `/registry.json`.
//!
//! It is a version 2 file whose documents stand as their canonical bytes, one a line, with the
//! members `registry`, `revision`, `chain`, `digest` and `records` beside them, and `scope` if it is
//! only a part, and `attestation` if the registry has signed it. `records` has one entry for each document, in the documents' order. Every document
//! is proved by its digest, and everything else by the catalog's.

mod attestation;
mod read;
mod record;

use std::io::Write as _;

use serde::Serialize;

use attestation::WrittenAttestation;
pub use read::{InvalidExport, read_export};
use record::WrittenRecord;

use super::read::member_of;
use crate::{
    catalog::Catalog,
    kind::Kind,
    scope::Scope,
    setting::{Selector, Set},
};

/// Writes a catalog with everything that [`read_export`] needs to rebuild and prove it.
pub fn write_export(catalog: &Catalog) -> Vec<u8> {
    let size: usize =
        catalog.iter().map(|(_, record)| record.document.bytes().len() + 320).sum::<usize>();
    let mut out = Vec::with_capacity(size + 1024);
    // Writing into memory cannot fail.
    let _ = write!(
        out,
        "{{\"schemaVersion\":\"2.0\",\n\"registry\":{},\"revision\":{},\"chain\":\"{}\",\"digest\":\"{}\"",
        json(catalog.registry()),
        catalog.revision(),
        catalog.chain(),
        catalog.digest(),
    );
    for kind in Kind::ALL {
        let documents = catalog.of_kind(kind).map(|(_, record)| record.document.bytes().clone());
        list(&mut out, member_of(kind), documents);
    }
    list(&mut out, "records", catalog.iter().map(|(_, record)| json(&WrittenRecord::of(record))));
    if **catalog.scope() != Scope::Everything {
        let _ = write!(out, ",\n\"scope\":{}", json(&**catalog.scope()));
    }
    if let Some(attestation) = catalog.attestation() {
        let _ = write!(out, ",\n\"attestation\":{}", json(&WrittenAttestation::of(attestation)));
    }
    if !catalog.settings().is_empty() {
        let settings = catalog.settings().iter().map(|(on, set)| json(&WrittenSet { on, set }));
        list(&mut out, "settings", settings);
    }
    out.extend_from_slice(b"}\n");
    out
}

/// One line of `settings`.
#[derive(Serialize)]
struct WrittenSet<'a> {
    on: &'a Selector,
    #[serde(flatten)]
    set: &'a Set,
}

fn list(out: &mut Vec<u8>, name: &str, lines: impl Iterator<Item = impl AsRef<[u8]>>) {
    let _ = write!(out, ",\n\"{name}\":[");
    for (i, line) in lines.enumerate() {
        out.extend_from_slice(if i == 0 { b"\n" } else { b",\n" });
        out.extend_from_slice(line.as_ref());
    }
    out.push(b']');
}

fn json(value: &impl Serialize) -> String {
    // Only texts, numbers and plain structs of them come here.
    serde_json::to_string(value).expect("plain values are always JSON")
}
