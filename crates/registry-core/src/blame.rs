//! Blame: the version that introduced each value of a document.
//!
//! Versions of a name are ordered by registration, and those of one commit by version. A value
//! originates in the earliest version since which it is unchanged at the same location, up to the
//! document's version. A patch of an older line that reverts a change of a newer line therefore
//! counts as its origin. Array items keep their origin when others are inserted before them
//! (`align.rs`).

use std::{cmp::Reverse, collections::HashMap, sync::Arc};

use schema_compat::pointer::pointer_join;
use serde_json::Value;

use crate::{
    align::Aligner,
    catalog::{Catalog, Record},
    document::Document,
    kind::Kind,
    limits,
    name::Name,
    version::Version,
};

/// A leaf of a document with its origin: a string, a number, `true`, `false`, `null`, or an empty
/// object or array.
#[derive(Debug, Clone, PartialEq)]
pub struct BlamedValue {
    /// JSON pointer of the value.
    pub pointer: String,
    /// The value itself.
    pub value: Value,
    /// Index, in the result of [`versions`], of the version that introduced the value.
    pub origin: usize,
    /// The value may be older than `origin`. Either older versions were not read because they
    /// exceed [`limits::BLAME_BYTES`], or the value is in an array that exceeds the remaining
    /// budget of [`limits::BLAMED_PAIRS`] comparisons.
    pub at_or_before: bool,
}

/// The given version of a name and all versions registered before it, latest first. Without a
/// version, it starts at the latest registration. The result is empty if there is none.
pub fn versions<'a>(
    catalog: &'a Catalog,
    (kind, name): (Kind, &'a Name),
    version: Option<&Version>,
) -> Vec<&'a Arc<Record>> {
    let mut found: Vec<_> = catalog.versions(kind, name).map(|(_, record)| record).collect();
    found.sort_by_cached_key(|record| {
        Reverse((record.registered, record.document.key().version.clone()))
    });
    let Some(version) = version else { return found };
    let wanted = found.iter().position(|record| record.document.key().version == *version);
    wanted.map_or_else(Vec::new, |wanted| found.split_off(wanted))
}

/// Returns the leaves of the first document, by pointer, with their origins. The other documents
/// are its predecessors, latest first.
pub fn blame(versions: &[&Arc<Record>]) -> Vec<BlamedValue> {
    blame_within((limits::BLAME_BYTES, limits::BLAMED_PAIRS), versions)
}

fn blame_within(
    (most_bytes, pairs): (usize, usize),
    versions: &[&Arc<Record>],
) -> Vec<BlamedValue> {
    let Some((last, earlier)) = versions.split_first() else { return Vec::new() };
    let mut newer = read(&last.document);
    let mut lines = Vec::new();
    collect(String::new(), &newer, &mut lines);
    // Index of each leaf whose origin is still open, and its pointer in the version read last.
    let mut open: Vec<(usize, String)> =
        lines.iter().map(|line| line.pointer.clone()).enumerate().collect();
    let (mut bytes, mut aligner) = (0, Aligner::with_budget(pairs));
    for (origin, record) in (1..).zip(earlier) {
        let (older, mut same) = (read(&record.document), HashMap::new());
        unchanged((String::new(), String::new()), (&newer, &older), &mut aligner, &mut same);
        bytes += record.document.bytes().len();
        if bytes > most_bytes {
            for (line, _) in open {
                lines[line].at_or_before = true;
            }
            break;
        }
        open = open
            .into_iter()
            .filter_map(|(line, pointer)| {
                let before = same.remove(&pointer)?;
                match before {
                    Some(_) => lines[line].origin = origin,
                    None => lines[line].at_or_before = true,
                }
                Some((line, before?))
            })
            .collect();
        if open.is_empty() {
            break;
        }
        newer = older;
    }
    lines
}

fn read(document: &Document) -> Value {
    // The digest has proved that these bytes are canonical JSON.
    serde_json::from_slice(document.bytes()).unwrap_or_default()
}

fn collect(pointer: String, value: &Value, lines: &mut Vec<BlamedValue>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, value) in members {
                collect(pointer_join(&pointer, name), value, lines);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (i, value) in items.iter().enumerate() {
                collect(format!("{pointer}/{i}"), value, lines);
            }
        }
        value => lines.push(BlamedValue {
            pointer,
            value: value.clone(),
            origin: 0,
            at_or_before: false,
        }),
    }
}

/// The pointers of this version's values in the older version, for the unchanged ones. `None` marks
/// values that exceed the comparison budget.
fn unchanged(
    (pointer, before): (String, String),
    (newer, older): (&Value, &Value),
    aligner: &mut Aligner,
    same: &mut HashMap<String, Option<String>>,
) {
    match (newer, older) {
        (Value::Object(newer), Value::Object(older)) if !newer.is_empty() => {
            for (name, value) in newer {
                let Some(old) = older.get(name) else { continue };
                let pointers = (pointer_join(&pointer, name), pointer_join(&before, name));
                unchanged(pointers, (value, old), aligner, same);
            }
        }
        (Value::Array(newer), Value::Array(older)) if !newer.is_empty() => {
            let pairs = aligner.align(older, newer);
            if aligner.is_positional() {
                let mut lines = Vec::new();
                newer
                    .iter()
                    .enumerate()
                    .for_each(|(i, v)| collect(format!("{pointer}/{i}"), v, &mut lines));
                same.extend(lines.into_iter().map(|line| (line.pointer, None)));
                return;
            }
            for pair in pairs {
                let (Some(old), Some(new)) = pair else { continue };
                let pointers = (format!("{pointer}/{new}"), format!("{before}/{old}"));
                unchanged(pointers, (&newer[new], &older[old]), aligner, same);
            }
        }
        (newer, older) if newer == older => {
            same.insert(pointer, Some(before));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
