//! Exports: verifiable copies of a registry at a revision, used as disk cache and `/registry.json`.
//!
//! An export is a version 2 file with one canonical document per line and the additional members
//! `registry`, `revision`, `chain`, `digest` and `records`, `scope` for a partial catalog and
//! `attestation` for a signed one. `records` has one entry per document in the same order. Each
//! document is verified by its digest, and the rest by the catalog's.

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
    setting::{Selector, SelectorSettings},
};

/// Writes a catalog with all members that [`read_export`] needs to restore and verify it.
pub fn write_export(catalog: &Catalog) -> Vec<u8> {
    let size: usize =
        catalog.iter().map(|(_, record)| record.document.bytes().len() + 320).sum::<usize>();
    let mut out = Vec::with_capacity(size + 1024);
    // Writing to memory cannot fail.
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
    list(&mut out, "records", catalog.iter().map(|(_, record)| json(&WrittenRecord::new(record))));
    if **catalog.scope() != Scope::Everything {
        let _ = write!(out, ",\n\"scope\":{}", json(&**catalog.scope()));
    }
    if let Some(attestation) = catalog.attestation() {
        let _ = write!(out, ",\n\"attestation\":{}", json(&WrittenAttestation::new(attestation)));
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
    set: &'a SelectorSettings,
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
    // Only strings, numbers and plain structs are passed here.
    serde_json::to_string(value).expect("plain values are always JSON")
}
