//! What the log folds to, held against what the tables say.
//!
//! Deliberately absent: reading the tables.

use std::{collections::HashMap, fmt::Display, iter::Peekable, vec::IntoIter};

use registry_core::{
    Action, ChainHash, Change, Commit, Digest, Key, Lifecycle, Record, RegistryId, Revision,
    SealedCommit, SettingChange, Timestamp, limits,
};

use super::{Finding, Page};
use crate::store::{
    EntityEvent, Error,
    row::{CommitRow, EntityRow, EventRow, HeadRow, SettingRow, chain, stored},
};

/// What an entity must be.
struct Expected {
    digest: Digest,
    owner: String,
    registered: (Revision, Timestamp),
    lifecycle: Lifecycle,
}

/// The log so far.
pub(super) struct Verifier {
    revision: Revision,
    chain: ChainHash,
    entities: HashMap<Key, Expected>,
    findings: Vec<Finding>,
}

impl Verifier {
    pub(super) fn new(registry: &RegistryId) -> Self {
        let chain = ChainHash::genesis(registry);
        Self { revision: Revision(0), chain, entities: HashMap::new(), findings: Vec::new() }
    }

    fn report(&mut self, place: impl Display, problem: impl Display) {
        if self.findings.len() < limits::PROBLEMS {
            let (place, problem) = (place.to_string(), problem.to_string());
            self.findings.push(Finding { place, problem });
        }
    }

    /// Goes on with a page of commits.
    pub(super) fn commits(mut self, page: Page) -> Self {
        let mut events = page.events.into_iter().peekable();
        let mut settings = page.settings.into_iter().peekable();
        for row in page.commits {
            let revision = row.revision;
            let events = taken(&mut events, |row| row.revision == revision);
            let settings = taken(&mut settings, |row| row.revision == revision);
            let Some(commit) = self.commit(&row) else { continue };
            self.changes(&commit, events);
            self.settings(&commit, settings);
        }
        self
    }

    /// Proves one commit by the chain, and its columns by the commit.
    fn commit(&mut self, row: &CommitRow) -> Option<Commit> {
        let place = format!("revision {}", row.revision);
        while stored(self.revision.next()) < row.revision {
            self.revision = self.revision.next();
            self.report(format!("revision {}", self.revision), "it is missing");
        }
        self.revision = self.revision.next();
        let actual = self.chain.then(&row.canonical);
        let claimed = chain(&place, &row.chain).ok();
        if claimed != Some(actual) {
            let problem = format!(
                "the chain breaks: the commit before and its bytes give {actual}, not {}",
                row.chain
            );
            self.report(&place, problem);
        }
        // What follows is judged on the chain hash that it was sealed after.
        self.chain = claimed.unwrap_or(actual);
        let commit = match SealedCommit::parse(&row.canonical) {
            Ok(commit) => commit,
            Err(error) => {
                self.report(&place, error);
                return None;
            }
        };
        self.columns(&place, row, &commit);
        Some(commit)
    }

    fn columns(&mut self, place: &str, row: &CommitRow, commit: &Commit) {
        let columns = [
            ("revision", row.revision.to_string(), commit.revision.to_string()),
            ("author", row.author.clone(), commit.author.clone()),
            ("committed_at", row.committed_at.0.to_string(), commit.committed_at.to_string()),
            ("message", row.message.clone(), commit.message.clone()),
            ("changes", row.changes.to_string(), commit.changes.len().to_string()),
            (
                "request_id",
                row.request_id.clone().unwrap_or_default(),
                commit.request_id.clone().unwrap_or_default(),
            ),
        ];
        for (name, column, said) in columns {
            if column != said {
                let problem = format!("its column {name} has {column:?}, the commit says {said:?}");
                self.report(place, problem);
            }
        }
    }

    /// Holds the rows of `changes` against the commit, and folds it.
    fn changes(&mut self, commit: &Commit, rows: Vec<EventRow>) {
        let place = format!("revision {}", commit.revision);
        let events: Vec<Result<EntityEvent, Error>> =
            rows.into_iter().map(EntityEvent::try_from).collect();
        if events.len() != commit.changes.len() {
            let (rows, changes) = (events.len(), commit.changes.len());
            self.report(&place, format!("it has {changes} changes, the table changes {rows}"));
        }
        for (i, event) in events.into_iter().enumerate() {
            let problem = match (event, commit.changes.get(i)) {
                (Err(error), _) => error.to_string(),
                (Ok(event), Some(Change { key, action }))
                    if event.key == *key && event.action == *action =>
                {
                    continue;
                }
                (Ok(event), _) => {
                    format!(
                        "the table changes has {} of {} there",
                        event.action.as_str(),
                        event.key
                    )
                }
            };
            self.report(format!("{place}, change {i}"), problem);
        }
        let at = (commit.revision, commit.committed_at);
        for Change { key, action } in &commit.changes {
            self.fold(key, action, commit, at);
        }
    }

    fn fold(&mut self, key: &Key, action: &Action, commit: &Commit, at: (Revision, Timestamp)) {
        let lifecycle = Lifecycle::after(action, at);
        if let Action::Register { digest, owner } = action {
            let owner = owner.as_ref().unwrap_or(&commit.author).clone();
            let expected = Expected { digest: *digest, owner, registered: at, lifecycle };
            if self.entities.insert(key.clone(), expected).is_some() {
                self.report(format!("revision {}", at.0), format!("it registers {key} again"));
            }
        } else if let Some(expected) = self.entities.get_mut(key) {
            expected.lifecycle = lifecycle;
        } else {
            self.report(
                format!("revision {}", at.0),
                format!("it changes {key}, which is not there"),
            );
        }
    }

    fn settings(&mut self, commit: &Commit, rows: Vec<SettingRow>) {
        let read = |row: SettingRow| <(Revision, SettingChange)>::try_from(row).ok();
        let set: Vec<_> = rows.into_iter().filter_map(read).map(|(_, change)| change).collect();
        if set != commit.settings {
            let problem = "the table setting_changes does not have what it sets";
            self.report(format!("revision {}", commit.revision), problem);
        }
    }

    /// Goes on with a page of the current state.
    pub(super) fn entities(mut self, rows: Vec<EntityRow>) -> Self {
        for row in rows {
            match Record::try_from(row) {
                Ok(record) => self.entity(&record),
                Err(Error::Corrupt { what, detail }) => {
                    if let Ok(key) = what.parse::<Key>() {
                        self.entities.remove(&key);
                    }
                    self.report(what, detail);
                }
                Err(error) => self.report("the table entities", error),
            }
        }
        self
    }

    fn entity(&mut self, record: &Record) {
        let key = record.document.key();
        let Some(expected) = self.entities.remove(key) else {
            return self.report(key, "it is in the table entities, but no commit registers it");
        };
        let Expected { digest, owner, registered, lifecycle } = expected;
        let actual = record.document.digest();
        if actual != digest {
            self.report(
                key,
                format!("its document has the digest {actual}, the log says {digest}"),
            );
        }
        if *record.owner != *owner {
            self.report(key, format!("its owner is {:?}, the log says {owner:?}", record.owner));
        }
        if (record.registered, record.registered_at) != registered {
            let (revision, said) = (record.registered, registered.0);
            self.report(key, format!("it is registered in {revision}, the log says {said}"));
        }
        if record.lifecycle != lifecycle {
            let (is, said) = (&record.lifecycle, &lifecycle);
            let problem = format!(
                "it is {} since revision {}, the log says {} since revision {}",
                is.state, is.revision, said.state, said.revision
            );
            self.report(key, problem);
        }
    }

    /// Everything that was found, in the order of the log.
    pub(super) fn finish(mut self, head: &HeadRow) -> Vec<Finding> {
        let mut missing: Vec<Key> = std::mem::take(&mut self.entities).into_keys().collect();
        missing.sort();
        for key in missing {
            self.report(key, "the log registers it, but it is not in the table entities");
        }
        if head.revision != stored(self.revision) || head.chain != self.chain.to_string() {
            let problem = format!(
                "it says revision {} with {}, the log ends at revision {} with {}",
                head.revision, head.chain, self.revision, self.chain
            );
            self.report("the table head", problem);
        }
        self.findings
    }
}

/// The rows at the front that belong here; those that belong nowhere are passed over.
fn taken<T>(rows: &mut Peekable<IntoIter<T>>, belongs: impl Fn(&T) -> bool) -> Vec<T> {
    std::iter::from_fn(|| rows.next_if(|row| belongs(row))).collect()
}
