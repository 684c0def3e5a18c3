//! Say of each value of a document which version introduced it, who registered that, when and why.
//!
//! Deliberately absent: the comparison itself, which is the domain's.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use registry_core::{
    At, Catalog, Key, Kind, Name, Record, Revision, Version,
    blame::{self, Line},
    limits,
};

use super::{
    App, at, beside,
    page::{self, InvalidPage},
};
use crate::store::{self, StoredCommit};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The page cannot be.
    #[error(transparent)]
    Page(#[from] InvalidPage),
    /// The past.
    #[error(transparent)]
    Past(#[from] at::Error),
    /// There is nothing to explain.
    #[error("{what} is not registered at revision {revision}")]
    NotRegistered {
        /// What was asked for.
        what: String,
        /// At which revision.
        revision: Revision,
    },
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A bug here.
    #[error("the values could not be explained: {0}")]
    Internal(String),
}

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
    pub at: Option<At>,
}

/// A page of explained values.
#[derive(Debug)]
pub struct Explained {
    /// Of which version.
    pub key: Key,
    /// The values; `origin` is a place in `origins`.
    pub lines: Vec<Line>,
    /// What was registered, and by which commit.
    pub origins: Vec<(Arc<Record>, StoredCommit)>,
    /// Where to go on; empty at the end.
    pub next_page_token: String,
}

/// Explains a document.
pub async fn blame(
    app: &App,
    question: Question,
    size: usize,
    token: &str,
) -> Result<Explained, Error> {
    let catalog = app.catalog_at(question.at).await?;
    let not_registered = question.not_registered(catalog.revision());
    let reading = move || question.lines(&catalog);
    let (versions, mut lines) = beside(reading, Error::Internal).await?;
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
        origins.push(origin(app, &versions[*version]).await?);
        *place = at;
    }
    for line in &mut lines {
        line.origin = places[&line.origin];
    }
    Ok(Explained { key, lines, origins, next_page_token: next.unwrap_or_default() })
}

impl Question {
    fn lines(&self, catalog: &Catalog) -> (Vec<Arc<Record>>, Vec<Line>) {
        let versions = blame::versions(catalog, (self.kind, &self.name), self.version.as_ref());
        let lines = blame::blame(&versions);
        (versions.into_iter().cloned().collect(), lines)
    }

    fn not_registered(&self, revision: Revision) -> Error {
        let version = self.version.as_ref().map(|version| format!("@{version}"));
        let version = version.unwrap_or_default();
        Error::NotRegistered { what: format!("{}/{}{version}", self.kind, self.name), revision }
    }
}

/// How many lines go into one answer: at least one.
fn fitting(lines: &[Line], size: usize) -> usize {
    let (mut bytes, mut origins) = (0, BTreeSet::new());
    let fits = |line: &&Line| {
        let is_first = bytes == 0;
        if origins.insert(line.origin) {
            bytes += limits::MESSAGE_BYTES;
        }
        bytes += 2 * line.pointer.len() + line.value.as_str().map_or(0, str::len) + 32;
        is_first || bytes <= page::PAGE_BYTES
    };
    lines.iter().take(size).take_while(fits).count()
}

async fn origin(app: &App, record: &Arc<Record>) -> Result<(Arc<Record>, StoredCommit), Error> {
    let revision = record.registered;
    let missing = || Error::Internal(format!("the log has no revision {revision}"));
    let commit = app.store.commit(revision).await?.ok_or_else(missing)?;
    Ok((record.clone(), commit))
}
