//! Compares the tables with the state that the log implies.
//!
//! Each commit is verified by the chain. Its rows must equal the rows that an append writes, and the rows of
//! entities must equal the result of all appends.

use std::{collections::HashMap, iter::Peekable, vec::IntoIter};

use registry_core::{
    Action, ChainHash, Change, Commit, Digest, Key, RegistryId, Revision, SealedCommit, Timestamp,
};

use super::{
    Findings, Page,
    findings::Value,
    location::{CommitLocation, PartLocation},
    row::{ChangeRow, CommitRow, HeadRow, SetRow, StateRow},
    text::Text,
};
use crate::store::{
    Error,
    batch::{NewChange, NewSetting, NewState, new_change, new_settings, owner},
    row::{chain, stored},
};

/// Expected row of an entity.
struct Expected {
    digest: Digest,
    owner: String,
    registered: i64,
    state: State,
}

/// Expected columns after an entity's last change.
struct State {
    lifecycle: &'static str,
    revision: i64,
    reason: Option<String>,
    notice: Option<String>,
}

/// State of the verification.
pub(super) struct Verifier {
    /// Last revision, as the integer type of the database, so that every value fits.
    revision: i64,
    /// Chain hash after it.
    chain: ChainHash,
    /// Chain hash in its row, if that differs: either one may be edited.
    stored_chain: Option<ChainHash>,
    /// Head that this server has served.
    served: (i64, ChainHash),
    /// Time of the last commit.
    at: Timestamp,
    entities: HashMap<Key, Expected>,
    findings: Findings,
}

impl Verifier {
    pub(super) fn new(registry: &RegistryId, (revision, chain): (Revision, ChainHash)) -> Self {
        Self {
            revision: 0,
            chain: ChainHash::genesis(registry),
            stored_chain: None,
            served: (stored(revision), chain),
            at: Timestamp::default(),
            entities: HashMap::new(),
            findings: Findings::default(),
        }
    }

    /// Verifies a page of commits.
    pub(super) fn commits(mut self, page: Page) -> Self {
        let mut changes = page.changes.into_iter().peekable();
        let mut settings = page.settings.into_iter().peekable();
        for row in page.commits {
            let changes = take_revision(&mut changes, |of| of.revision, row.revision);
            let settings = take_revision(&mut settings, |of| of.revision, row.revision);
            let Some(commit) = self.commit(&row) else { continue };
            self.changes(row.revision, &commit, changes);
            self.settings(row.revision, &commit, settings);
        }
        self
    }

    /// Verifies a commit by the chain, and its columns by its content.
    fn commit(&mut self, row: &CommitRow) -> Option<Commit> {
        let location = CommitLocation(row.revision);
        if row.revision <= self.revision {
            self.findings.report(location, "invalid revision: revisions start at 1");
            return None;
        }
        self.gap(row.revision - 1);
        self.revision = row.revision;
        self.link(row);
        if self.served.0 == row.revision && !has_chain(&row.chain, self.served.1) {
            let (served, now) = (self.served.1, Value(Some(&row.chain)));
            let problem = format!(
                "this server serves it with the chain hash {served} but the database has {now}: the log \
                 was replaced while the server was running"
            );
            self.findings.report(location, problem);
        }
        match SealedCommit::parse(&row.canonical) {
            Ok(commit) => {
                self.columns(row, &commit);
                Some(commit)
            }
            Err(error) => {
                self.findings.report(location, error);
                None
            }
        }
    }

    /// Reports missing revisions up to this one.
    fn gap(&mut self, until: i64) {
        let first = self.revision + 1;
        if first == until {
            self.findings.report(CommitLocation(first), "it is missing");
        } else if first < until {
            self.findings.report(format_args!("revisions {first} to {until}"), "they are missing");
        }
    }

    fn link(&mut self, row: &CommitRow) {
        let before = [Some(self.chain), self.stored_chain.take()];
        let mut possible = before.into_iter().flatten().map(|before| before.append(&row.canonical));
        let linked = possible.find(|chain| has_chain(&row.chain, *chain));
        let actual = self.chain.append(&row.canonical);
        self.chain = linked.unwrap_or(actual);
        if linked.is_none() {
            let problem = format!(
                "the chain is broken: the previous commit and its content give {actual}, its column chain \
                 has {}",
                Value(Some(&row.chain))
            );
            self.findings.report(CommitLocation(row.revision), problem);
            self.stored_chain = chain("", &row.chain.lossy()).ok();
        }
    }

    fn columns(&mut self, row: &CommitRow, commit: &Commit) {
        let (location, found) = (CommitLocation(row.revision), &mut self.findings);
        found.number(location, "revision", row.revision, stored(commit.revision));
        found.column(location, "author", &*row.author, &*commit.author);
        found.column(
            location,
            "committed_at",
            &*row.committed_at.0,
            &*commit.committed_at.to_string(),
        );
        found.column(location, "message", &*row.message, &*commit.message);
        let request_id = row.request_id.as_deref();
        found.column(location, "request_id", request_id, commit.request_id.as_deref());
        let count = i64::try_from(commit.changes.len()).unwrap_or(i64::MAX);
        found.number(location, "changes", row.changes, count);
        let before = self.at;
        self.at = before.max(commit.committed_at);
        if commit.committed_at < before {
            let problem = format!(
                "its time {} is before {before}, the time of an earlier commit, which no server writes",
                commit.committed_at
            );
            self.findings.report(location, problem);
        }
    }

    /// Compares the rows of `changes` with the commit, and applies them.
    fn changes(&mut self, revision: i64, commit: &Commit, rows: Vec<ChangeRow>) {
        let (rows, extra) = aligned(rows, |row| row.ordinal, commit.changes.len());
        for ((change, row), ordinal) in commit.changes.iter().zip(rows).zip(0_i32..) {
            self.fold(revision, commit, change);
            let digest = self.entities.get(&change.key).map(|of| of.digest.to_string());
            let expected = new_change(revision, ordinal, change, digest);
            let location = PartLocation(revision, "change", ordinal.into());
            match row {
                Some(row) => self.change(location, &row, &expected),
                None => self.findings.report(location, "the table changes has no row of it"),
            }
        }
        for ordinal in extra {
            let location = PartLocation(revision, "change", ordinal);
            self.findings.report(location, "the table changes has it, the commit does not");
        }
    }

    fn change(&mut self, location: PartLocation, row: &ChangeRow, expected: &NewChange<'_>) {
        let found = &mut self.findings;
        found.column(location, "action", &*row.action, expected.action);
        found.column(location, "kind", &*row.kind, expected.key.kind);
        found.column(location, "name", &*row.name, expected.key.name);
        found.column(location, "version", &*row.version, &*expected.key.version);
        found.column(location, "digest", row.digest.as_deref(), expected.digest.as_deref());
        found.column(location, "reason", row.reason.as_deref(), expected.reason);
        found.column(location, "detail", row.detail.as_deref(), expected.detail.as_deref());
    }

    fn fold(&mut self, revision: i64, commit: &Commit, Change { key, action }: &Change) {
        let state = State::after(action, revision);
        if let Action::Register { digest, .. } = action {
            let owner = owner(commit, action).to_owned();
            let expected = Expected { digest: *digest, owner, registered: revision, state };
            if self.entities.insert(key.clone(), expected).is_some() {
                self.findings
                    .report(CommitLocation(revision), format!("it registers {key} a second time"));
            }
        } else if let Some(expected) = self.entities.get_mut(key) {
            expected.state = state;
        } else {
            let problem = format!("it changes {key}, which is not registered");
            self.findings.report(CommitLocation(revision), problem);
        }
    }

    /// Compares the rows of `setting_changes` with the commit.
    fn settings(&mut self, revision: i64, commit: &Commit, rows: Vec<SetRow>) {
        let (rows, extra) = aligned(rows, |row| row.ordinal, commit.settings.len());
        for (NewSetting { ordinal, selector, setting, .. }, row) in new_settings(commit).zip(rows) {
            let location = PartLocation(revision, "setting", ordinal.into());
            let Some(row) = row else {
                self.findings.report(location, "the table setting_changes has no row of it");
                continue;
            };
            self.findings.column(location, "selector", &*row.selector, &*selector);
            self.findings.column(location, "setting", &*row.setting, &*setting);
        }
        for ordinal in extra {
            let location = PartLocation(revision, "setting", ordinal);
            self.findings.report(location, "the table setting_changes has it, the commit does not");
        }
    }

    /// Verifies a page of the current state.
    pub(super) fn entities(mut self, rows: &[StateRow]) -> Self {
        for row in rows {
            match row.key() {
                Ok(key) => self.entity(&key, row),
                Err(Error::Corrupt { what, detail } | Error::NewerData { what, detail }) => {
                    self.findings.report(what, format!("the table entities: {detail}"));
                }
                Err(error) => self.findings.report("the table entities", error),
            }
        }
        self
    }

    fn entity(&mut self, key: &Key, row: &StateRow) {
        let found = &mut self.findings;
        let Some(Expected { digest, owner, registered, state }) = self.entities.remove(key) else {
            return found.report(key, "it is in the table entities, but no commit registers it");
        };
        let expected = digest.to_string();
        found.column(key, "digest", &*row.digest, &*expected);
        let actual = Digest::compute(&row.document);
        if actual != digest {
            let problem =
                format!("its column document has the digest {actual}, the log says {expected}");
            found.report(key, problem);
        }
        found.column(key, "owner", &*row.owner, &*owner);
        found.number(key, "registered_revision", row.registered_revision, registered);
        found.column(key, "lifecycle", &*row.lifecycle, state.lifecycle);
        found.number(key, "lifecycle_revision", row.lifecycle_revision, state.revision);
        let (reason, notice) = (row.lifecycle_reason.as_deref(), row.lifecycle_notice.as_deref());
        found.column(key, "lifecycle_reason", reason, state.reason.as_deref());
        found.column(key, "lifecycle_notice", notice, state.notice.as_deref());
    }

    /// Returns the findings in the order of the log.
    pub(super) fn finish(mut self, head: Option<&HeadRow>) -> Findings {
        let mut missing: Vec<Key> = std::mem::take(&mut self.entities).into_keys().collect();
        missing.sort();
        for key in missing {
            self.findings.report(key, "the log registers it, but the table entities lacks it");
        }
        if self.revision < self.served.0 {
            let (ends, (served, chain)) = (self.revision, self.served);
            let problem = format!(
                "the log ends at revision {ends}, but this server serves revision {served} ({chain}): the end \
                 of the log was deleted while the server was running"
            );
            self.findings.report(CommitLocation(ends.saturating_add(1)), problem);
        }
        self.head(head);
        self.findings
    }

    fn head(&mut self, head: Option<&HeadRow>) {
        const LOCATION: &str = "the table head";
        let Some(head) = head else {
            let problem = "its row is missing, so no server can start or append; \
                           restore it from a backup, or stop all servers and: INSERT INTO head \
                           (revision, chain) SELECT revision, chain FROM commits ORDER BY revision \
                           DESC LIMIT 1";
            return self.findings.report(LOCATION, problem);
        };
        self.findings.number(LOCATION, "revision", head.revision, self.revision);
        let mut possible = [Some(self.chain), self.stored_chain].into_iter().flatten();
        if !possible.any(|chain| has_chain(&head.chain, chain)) {
            self.findings.column(LOCATION, "chain", &*head.chain, &*self.chain.to_string());
        }
    }
}

impl State {
    fn after(action: &Action, revision: i64) -> Self {
        let NewState { lifecycle, revision, reason, notice } = NewState::after(action, revision);
        Self { lifecycle, revision, reason: reason.map(str::to_owned), notice }
    }
}

/// Whether a column has this chain hash.
fn has_chain(column: &Text, chain: ChainHash) -> bool {
    **column == *chain.to_string().as_bytes()
}

/// Takes the rows of a revision. Rows of earlier revisions belong to no commit.
fn take_revision<T>(
    rows: &mut Peekable<IntoIter<T>>,
    revision: impl Fn(&T) -> i64,
    wanted: i64,
) -> Vec<T> {
    while rows.next_if(|row| revision(row) < wanted).is_some() {}
    std::iter::from_fn(|| rows.next_if(|row| revision(row) == wanted)).collect()
}

/// Rows by their ordinal, and the ordinals of surplus rows.
fn aligned<T>(
    rows: Vec<T>,
    ordinal: impl Fn(&T) -> i64,
    many: usize,
) -> (Vec<Option<T>>, Vec<i64>) {
    let mut places: Vec<Option<T>> = std::iter::repeat_with(|| None).take(many).collect();
    let mut extra = Vec::new();
    for row in rows {
        let ordinal = ordinal(&row);
        match usize::try_from(ordinal).ok().and_then(|at| places.get_mut(at)) {
            Some(location @ None) => *location = Some(row),
            Some(Some(_)) | None => extra.push(ordinal),
        }
    }
    (places, extra)
}
