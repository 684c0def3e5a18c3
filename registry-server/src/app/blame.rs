//! Say of each value of a document which version introduced it, who registered that, when and why.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use registry_core::{
    Catalog, Key, Kind, Name, PointInTime, Record, Revision, Version,
    blame::{self, BlamedValue},
    limits,
};

use super::{Catalogs, ReadError, page, run_blocking};
use crate::store::{Store, StoredCommit};

/// Whose values.
#[derive(Debug, Clone)]
pub struct Question {
    /// The kind.
    pub kind: Kind,
    /// The name.
    pub name: Name,
    /// The version; `None`: the one that was registered last.
    pub version: Option<Version>,
    /// Among what was registered then.
    pub at: Option<PointInTime>,
}

/// A page of explained values.
#[derive(Debug)]
pub struct Explained {
    /// Of which version.
    pub key: Key,
    /// The values; `origin` is a place in `origins`.
    pub lines: Vec<BlamedValue>,
    /// What was registered, and by which commit.
    pub origins: Vec<(Arc<Record>, StoredCommit)>,
    /// Where to go on; empty at the end.
    pub next_page_token: String,
}

/// Explains a document.
pub async fn blame(
    catalogs: &Catalogs,
    store: &Store,
    question: Question,
    size: usize,
    token: &str,
) -> Result<Explained, ReadError> {
    let catalog = catalogs.at(question.at).await?;
    let not_registered = question.not_registered(catalog.revision());
    let reading = move || question.lines(&catalog);
    let (versions, mut lines) = run_blocking(reading).await?;
    let Some(record) = versions.first() else { return Err(not_registered) };
    let key = record.document.key().clone();
    // What is registered later never changes where its values come from.
    let mark = format!("blame {key}");
    let first = page::cursor(&mark, token, |cursor| cursor.parse::<usize>().ok())?.unwrap_or(0);
    lines.drain(..first.min(lines.len()));
    let rest = lines.split_off(fitting(&lines, size));
    let next = (!rest.is_empty()).then(|| page::token(&mark, &(first + lines.len()).to_string()));
    let mut places = BTreeMap::new();
    for line in &lines {
        places.entry(line.origin).or_insert(0);
    }
    let mut origins = Vec::with_capacity(places.len());
    for (at, (version, place)) in places.iter_mut().enumerate() {
        origins.push(origin(store, &versions[*version]).await?);
        *place = at;
    }
    for line in &mut lines {
        line.origin = places[&line.origin];
    }
    Ok(Explained { key, lines, origins, next_page_token: next.unwrap_or_default() })
}

impl Question {
    fn lines(&self, catalog: &Catalog) -> (Vec<Arc<Record>>, Vec<BlamedValue>) {
        let versions = blame::versions(catalog, (self.kind, &self.name), self.version.as_ref());
        let lines = blame::blame(&versions);
        (versions.into_iter().cloned().collect(), lines)
    }

    fn not_registered(&self, revision: Revision) -> ReadError {
        let version = self.version.as_ref().map(|version| format!("@{version}"));
        let version = version.unwrap_or_default();
        let what = format!("{}/{}{version}", self.kind, self.name);
        ReadError::NotRegistered { what, revision, others: String::new() }
    }
}

/// How many lines go into one answer: at least one.
fn fitting(lines: &[BlamedValue], size: usize) -> usize {
    let (mut bytes, mut origins) = (0, BTreeSet::new());
    let fits = |line: &&BlamedValue| {
        let is_first = bytes == 0;
        if origins.insert(line.origin) {
            bytes += limits::MESSAGE_BYTES;
        }
        bytes += 2 * line.pointer.len() + line.value.as_str().map_or(0, str::len) + 32;
        is_first || bytes <= page::PAGE_BYTES
    };
    lines.iter().take(size).take_while(fits).count()
}

async fn origin(
    store: &Store,
    record: &Arc<Record>,
) -> Result<(Arc<Record>, StoredCommit), ReadError> {
    let revision = record.registered;
    let missing = || ReadError::Internal(format!("the log has no revision {revision}"));
    let commit = store.commit(revision).await?.ok_or_else(missing)?;
    Ok((record.clone(), commit))
}
