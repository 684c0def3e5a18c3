//! Exports: verifiable copies of a registry at a revision, used as disk cache and `/registry.json`.
//!
//! It is a version 2 file. Each line is one canonical document, followed by `deprecated` or `retired` and
//! `deprecationMessage` unless it is active. The members `registry`, `revision`, `chain`, `digest` and
//! `records` precede or follow the lists; a part of a registry also has `scope`, and a signed copy has
//! `attestation`. `records` has one entry per document in the same order. The digest of each document proves
//! it, and the digest of the catalog proves everything else.

mod attestation;
mod read;
mod record;

use std::{borrow::Cow, io::Write as _};

use bytes::Bytes;
use serde::Serialize;

use attestation::WrittenAttestation;
pub use read::{InvalidExport, read_export};
use record::WrittenRecord;

use crate::{
    catalog::{Catalog, Record},
    kind::Kind,
    lifecycle::{Lifecycle, LifecycleState},
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
        let mut documents = catalog.of_kind(kind).map(|(_, record)| marked(record)).peekable();
        // Programs without policies reject the member.
        if kind != Kind::Policy || documents.peek().is_some() {
            list(&mut out, kind.plural(), documents);
        }
    }
    list(&mut out, "records", catalog.iter().map(|(_, record)| json(&WrittenRecord::new(record))));
    if **catalog.scope() != Scope::Everything {
        let _ = write!(out, ",\n\"scope\":{}", json(&**catalog.scope()));
    }
    if let Some(attestation) = catalog.attestation() {
        let _ = write!(out, ",\n\"attestation\":{}", json(&WrittenAttestation::new(attestation)));
    }
    if !catalog.settings().is_empty() {
        let settings =
            catalog.settings().iter().map(|(target, set)| json(&WrittenSet { target, set }));
        list(&mut out, "settings", settings);
    }
    out.extend_from_slice(b"}\n");
    out
}

/// One line of `settings`.
#[derive(Serialize)]
struct WrittenSet<'a> {
    target: &'a Selector,
    #[serde(flatten)]
    set: &'a SelectorSettings,
}

/// The canonical document, with its lifecycle as in other version 2 files unless it is active. Programs that
/// do not read `records` see the deprecation.
fn marked(record: &Record) -> Bytes {
    let document = record.document.bytes();
    match (lifecycle_members(&record.lifecycle), document.strip_suffix(b"}")) {
        (Some(members), Some(start)) => [start, members.as_bytes(), b"}"].concat().into(),
        _ => document.clone(),
    }
}

/// The members of a lifecycle, to be appended to a document. A document is never empty.
fn lifecycle_members(lifecycle: &Lifecycle) -> Option<String> {
    let state = match lifecycle.state {
        LifecycleState::Active => return None,
        LifecycleState::Deprecated => "deprecated",
        LifecycleState::Retired => "retired",
    };
    let message =
        lifecycle.message().map(|text| format!(",\"deprecationMessage\":{}", json(&text)));
    Some(format!(",\"{state}\":true{}", message.unwrap_or_default()))
}

/// The canonical document without the members of its lifecycle, which must be exactly those of its record.
fn unmarked<'a>(text: &'a str, lifecycle: &Lifecycle) -> Cow<'a, str> {
    let Some(members) = lifecycle_members(lifecycle) else { return text.into() };
    let start = text.strip_suffix('}').and_then(|text| text.strip_suffix(&*members));
    // Without them, the digest of the document does not match.
    start.map_or(text.into(), |start| format!("{start}}}").into())
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
