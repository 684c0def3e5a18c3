//! Which version introduced each value of a document.
//!
//! The versions of a name are taken in the order in which they were registered; those of one commit
//! by version. A value comes from the version since which it has been the same, at the same
//! pointer, in every version up to the document's. So a patch of an older line that takes back what
//! a newer line had changed introduces it anew. Deliberately absent: moves; items of an array are
//! compared by their index.

use std::{cmp::Reverse, sync::Arc};

use serde_json::Value;

use crate::{
    catalog::{Catalog, Record},
    document::{Document, pointer_join},
    limits,
    name::Name,
    reference::Kind,
    version::Version,
};

/// A value of a document: a text, a number, `true`, `false`, `null`, or an empty object or array.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Where it is.
    pub pointer: String,
    /// What is there.
    pub value: Value,
    /// The version that introduced it, by its place in what [`versions`] gave.
    pub origin: usize,
    /// Perhaps it was introduced earlier still: older versions were not read, because there is more
    /// of them than [`limits::BLAME_BYTES`].
    pub or_earlier: bool,
}

/// A version of a name and all that were registered before it, last first; without a version, the
/// one that was registered last. Empty: there is none.
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

/// Says where the values of the first document come from, in the order of their pointers. The
/// others are the versions before it, last first.
pub fn blame(versions: &[&Arc<Record>]) -> Vec<Line> {
    blame_within(limits::BLAME_BYTES, versions)
}

fn blame_within(limit: usize, versions: &[&Arc<Record>]) -> Vec<Line> {
    let Some((last, earlier)) = versions.split_first() else { return Vec::new() };
    let mut lines = Vec::new();
    collect(String::new(), read(&last.document), &mut lines);
    let (mut open, mut bytes): (Vec<usize>, usize) = ((0..lines.len()).collect(), 0);
    for (origin, record) in (1..).zip(earlier) {
        bytes += record.document.bytes().len();
        if bytes > limit {
            for line in open {
                lines[line].or_earlier = true;
            }
            break;
        }
        let value = read(&record.document);
        open.retain(|line| {
            let line = &mut lines[*line];
            let same = value.pointer(&line.pointer) == Some(&line.value);
            if same {
                line.origin = origin;
            }
            same
        });
        if open.is_empty() {
            break;
        }
    }
    lines
}

fn read(document: &Document) -> Value {
    // A document is canonical JSON, proved by its digest.
    serde_json::from_slice(document.bytes()).unwrap_or_default()
}

fn collect(pointer: String, value: Value, lines: &mut Vec<Line>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, value) in members {
                collect(pointer_join(&pointer, &name), value, lines);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (i, value) in items.into_iter().enumerate() {
                collect(format!("{pointer}/{i}"), value, lines);
            }
        }
        value => lines.push(Line { pointer, value, origin: 0, or_earlier: false }),
    }
}

#[cfg(test)]
mod tests;
