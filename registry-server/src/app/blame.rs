//! Reports for each value of a document which registration introduced it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use registry_core::{
    Catalog, Key, Kind, Name, PointInTime, Record, Revision, Version,
    blame::{self, BlamedValue},
    limits,
};

use super::{
    Catalogs, ReadError,
    page::{self, PageRequest},
    run_blocking,
};
use crate::store::{Store, StoredCommit};

/// The document to explain.
#[derive(Debug, Clone)]
pub struct Question {
    /// The kind.
    pub kind: Kind,
    /// The name.
    pub name: Name,
    /// The version; `None` is the latest registration.
    pub version: Option<Version>,
    /// The point in history; `None` is the present.
    pub at: Option<PointInTime>,
}

/// A page of explained values.
#[derive(Debug)]
pub struct Explained {
    /// The explained version.
    pub key: Key,
    /// The values; `origin` is an index into `origins`.
    pub lines: Vec<BlamedValue>,
    /// The registrations with their commits.
    pub origins: Vec<(Arc<Record>, StoredCommit)>,
    /// The token of the next page; empty on the last page.
    pub next_page_token: String,
}

/// Explains a document.
pub async fn blame(
    catalogs: &Catalogs,
    store: &Store,
    question: Question,
    page: &PageRequest,
) -> Result<Explained, ReadError> {
    // Every page explains the version of the first one.
    let cursor = page.cursor(read_cursor)?;
    let question = match &cursor {
        Some((version, _)) => Question { version: Some(version.clone()), ..question },
        None => question,
    };
    let catalog = catalogs.at(question.at).await?;
    let not_registered = question.not_registered(catalog.revision());
    let reading = move || question.lines(&catalog);
    let (versions, mut lines) = run_blocking(reading).await?;
    let Some(record) = versions.first() else { return Err(not_registered) };
    let key = record.document.key().clone();
    let first = cursor.map_or(0, |(_, line)| line);
    lines.drain(..first.min(lines.len()));
    let rest = lines.split_off(fitting(&lines, page.size));
    let next = (!rest.is_empty())
        .then(|| page.token_after(&format!("{} {}", key.version, first + lines.len())));
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

/// The version that is explained, and the number of explained lines.
fn read_cursor(cursor: &str) -> Option<(Version, usize)> {
    let (version, line) = cursor.split_once(' ')?;
    Some((Version::parse(version).ok()?, line.parse().ok()?))
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

/// The number of lines that fit into a response, at least one.
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
