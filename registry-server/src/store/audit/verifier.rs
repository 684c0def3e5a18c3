//! What the log folds to, held against what the tables say.
//!
//! Each commit is proved by the chain. Then its rows have to be those that an append of it writes,
//! to the letter; and the rows of entities those that all appends together leave.

use std::{collections::HashMap, iter::Peekable, vec::IntoIter};

use registry_core::{
    Action, ChainHash, Change, Commit, Digest, Key, RegistryId, Revision, SealedCommit, Timestamp,
};

use super::{
    Findings, Page,
    findings::Value,
    place::{Place, Row},
    row::{ChangeRow, CommitRow, HeadRow, SetRow, StateRow},
    text::Text,
};
use crate::store::{
    Error,
    batch::{NewChange, NewSetting, NewState, new_change, new_settings, owner},
    row::{chain, stored},
};

/// What the row of an entity must be.
struct Expected {
    digest: Digest,
    owner: String,
    registered: i64,
    state: State,
}

/// What an entity's last change leaves in its row.
struct State {
    lifecycle: &'static str,
    revision: i64,
    reason: Option<String>,
    notice: Option<String>,
}

/// The log so far.
pub(super) struct Verifier {
    /// The last revision; the database's integer, so that nothing is out of its range.
    revision: i64,
    /// The chain hash after it.
    chain: ChainHash,
    /// What its row claims that to be, where that is something else: either may be the edited one.
    claimed: Option<ChainHash>,
    /// What this server has served.
    served: (i64, ChainHash),
    /// When the last commit was made.
    at: Timestamp,
    entities: HashMap<Key, Expected>,
    findings: Findings,
}

impl Verifier {
    pub(super) fn new(registry: &RegistryId, (revision, chain): (Revision, ChainHash)) -> Self {
        Self {
            revision: 0,
            chain: ChainHash::genesis(registry),
            claimed: None,
            served: (stored(revision), chain),
            at: Timestamp::default(),
            entities: HashMap::new(),
            findings: Findings::default(),
        }
    }

    /// Goes on with a page of commits.
    pub(super) fn commits(mut self, page: Page) -> Self {
        let mut changes = page.changes.into_iter().peekable();
        let mut settings = page.settings.into_iter().peekable();
        for row in page.commits {
            let changes = taken(&mut changes, |of| of.revision, row.revision);
            let settings = taken(&mut settings, |of| of.revision, row.revision);
            let Some(commit) = self.commit(&row) else { continue };
            self.changes(row.revision, &commit, changes);
            self.settings(row.revision, &commit, settings);
        }
        self
    }

    /// Proves one commit by the chain, and its columns by the commit.
    fn commit(&mut self, row: &CommitRow) -> Option<Commit> {
        let place = Place(row.revision);
        if row.revision <= self.revision {
            self.findings.report(place, "there can be no such commit here: revisions begin at 1");
            return None;
        }
        self.gap(row.revision - 1);
        self.revision = row.revision;
        self.link(row);
        if self.served.0 == row.revision && !is(&row.chain, self.served.1) {
            let (served, now) = (self.served.1, Value(Some(&row.chain)));
            let problem = format!(
                "this server serves it with the chain hash {served}, now it has {now}: the log was \
                 replaced behind it"
            );
            self.findings.report(place, problem);
        }
        match SealedCommit::parse(&row.canonical) {
            Ok(commit) => {
                self.columns(row, &commit);
                Some(commit)
            }
            Err(error) => {
                self.findings.report(place, error);
                None
            }
        }
    }

    /// Everything up to a revision is missing.
    fn gap(&mut self, until: i64) {
        let first = self.revision + 1;
        if first == until {
            self.findings.report(Place(first), "it is missing");
        } else if first < until {
            self.findings.report(format_args!("revisions {first} to {until}"), "they are missing");
        }
    }

    fn link(&mut self, row: &CommitRow) {
        let before = [Some(self.chain), self.claimed.take()];
        let mut possible = before.into_iter().flatten().map(|before| before.then(&row.canonical));
        let linked = possible.find(|chain| is(&row.chain, *chain));
        let actual = self.chain.then(&row.canonical);
        self.chain = linked.unwrap_or(actual);
        if linked.is_none() {
            let problem = format!(
                "the chain breaks: the commit before and its bytes give {actual}, its column chain \
                 has {}",
                Value(Some(&row.chain))
            );
            self.findings.report(Place(row.revision), problem);
            self.claimed = chain("", &row.chain.lossy()).ok();
        }
    }

    fn columns(&mut self, row: &CommitRow, commit: &Commit) {
        let (place, found) = (Place(row.revision), &mut self.findings);
        found.number(place, "revision", row.revision, stored(commit.revision));
        found.column(place, "author", &*row.author, &*commit.author);
        found.column(
            place,
            "committed_at",
            &*row.committed_at.0,
            &*commit.committed_at.to_string(),
        );
        found.column(place, "message", &*row.message, &*commit.message);
        // Null also where an earlier commit holds the id.
        if let Some(id) = row.request_id.as_deref() {
            found.column(place, "request_id", Some(id), commit.request_id.as_deref());
        }
        let count = i64::try_from(commit.changes.len()).unwrap_or(i64::MAX);
        found.number(place, "changes", row.changes, count);
        let before = self.at;
        self.at = before.max(commit.committed_at);
        if commit.committed_at < before {
            let problem = format!(
                "its time {} is before {before}, the time of a commit before it: no server writes \
                 that",
                commit.committed_at
            );
            self.findings.report(place, problem);
        }
    }

    /// Holds the rows of `changes` against the commit, and folds it.
    fn changes(&mut self, revision: i64, commit: &Commit, rows: Vec<ChangeRow>) {
        let (rows, extra) = aligned(rows, |row| row.ordinal, commit.changes.len());
        for ((change, row), ordinal) in commit.changes.iter().zip(rows).zip(0_i32..) {
            self.fold(revision, commit, change);
            let digest = self.entities.get(&change.key).map(|of| of.digest.to_string());
            let said = new_change(revision, ordinal, change, digest);
            let place = Row(revision, "change", ordinal.into());
            match row {
                Some(row) => self.change(place, &row, &said),
                None => self.findings.report(place, "the table changes has no row of it"),
            }
        }
        for ordinal in extra {
            let place = Row(revision, "change", ordinal);
            self.findings.report(place, "the table changes has it, the commit does not");
        }
    }

    fn change(&mut self, place: Row, row: &ChangeRow, said: &NewChange<'_>) {
        let found = &mut self.findings;
        found.column(place, "action", &*row.action, said.action);
        found.column(place, "kind", &*row.kind, said.key.kind);
        found.column(place, "name", &*row.name, said.key.name);
        found.column(place, "version", &*row.version, &*said.key.version);
        found.column(place, "digest", row.digest.as_deref(), said.digest.as_deref());
        found.column(place, "reason", row.reason.as_deref(), said.reason);
        found.column(place, "detail", row.detail.as_deref(), said.detail.as_deref());
    }

    fn fold(&mut self, revision: i64, commit: &Commit, Change { key, action }: &Change) {
        let state = State::after(action, revision);
        if let Action::Register { digest, .. } = action {
            let owner = owner(commit, action).to_owned();
            let expected = Expected { digest: *digest, owner, registered: revision, state };
            if self.entities.insert(key.clone(), expected).is_some() {
                self.findings.report(Place(revision), format!("it registers {key} again"));
            }
        } else if let Some(expected) = self.entities.get_mut(key) {
            expected.state = state;
        } else {
            let problem = format!("it changes {key}, which is not there");
            self.findings.report(Place(revision), problem);
        }
    }

    /// Holds the rows of `setting_changes` against the commit.
    fn settings(&mut self, revision: i64, commit: &Commit, rows: Vec<SetRow>) {
        let (rows, extra) = aligned(rows, |row| row.ordinal, commit.settings.len());
        for (NewSetting { ordinal, selector, setting, .. }, row) in new_settings(commit).zip(rows) {
            let place = Row(revision, "setting", ordinal.into());
            let Some(row) = row else {
                self.findings.report(place, "the table setting_changes has no row of it");
                continue;
            };
            self.findings.column(place, "selector", &*row.selector, &*selector);
            self.findings.column(place, "setting", &*row.setting, &*setting);
        }
        for ordinal in extra {
            let place = Row(revision, "setting", ordinal);
            self.findings.report(place, "the table setting_changes has it, the commit does not");
        }
    }

    /// Goes on with a page of the current state.
    pub(super) fn entities(mut self, rows: &[StateRow]) -> Self {
        for row in rows {
            match row.key() {
                Ok(key) => self.entity(&key, row),
                Err(Error::Corrupt { what, detail } | Error::Newer { what, detail }) => {
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
        let said = digest.to_string();
        found.column(key, "digest", &*row.digest, &*said);
        let actual = Digest::compute(&row.document);
        if actual != digest {
            let problem =
                format!("its column document has the digest {actual}, the log says {said}");
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

    /// Everything that was found, in the order of the log.
    pub(super) fn finish(mut self, head: Option<&HeadRow>) -> Findings {
        let mut missing: Vec<Key> = std::mem::take(&mut self.entities).into_keys().collect();
        missing.sort();
        for key in missing {
            self.findings.report(key, "the log registers it, but the table entities lacks it");
        }
        if self.revision < self.served.0 {
            let (ends, (served, chain)) = (self.revision, self.served);
            let problem = format!(
                "the log ends at revision {ends}, but this server serves revision {served} ({chain}): \
                 the end of the log was cut off behind it"
            );
            self.findings.report(Place(ends.saturating_add(1)), problem);
        }
        self.head(head);
        self.findings
    }

    fn head(&mut self, head: Option<&HeadRow>) {
        const PLACE: &str = "the table head";
        let Some(head) = head else {
            let problem = "its row is missing, so nothing can be appended and no server starts; \
                           restore it from a backup, or stop all servers and: INSERT INTO head \
                           (revision, chain) SELECT revision, chain FROM commits ORDER BY revision \
                           DESC LIMIT 1";
            return self.findings.report(PLACE, problem);
        };
        self.findings.number(PLACE, "revision", head.revision, self.revision);
        let mut possible = [Some(self.chain), self.claimed].into_iter().flatten();
        if !possible.any(|chain| is(&head.chain, chain)) {
            self.findings.column(PLACE, "chain", &*head.chain, &*self.chain.to_string());
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
fn is(column: &Text, chain: ChainHash) -> bool {
    **column == *chain.to_string().as_bytes()
}

/// The rows of a revision; those of revisions before it belong to no commit.
fn taken<T>(rows: &mut Peekable<IntoIter<T>>, revision: impl Fn(&T) -> i64, wanted: i64) -> Vec<T> {
    while rows.next_if(|row| revision(row) < wanted).is_some() {}
    std::iter::from_fn(|| rows.next_if(|row| revision(row) == wanted)).collect()
}

/// The rows at their places, of which there are so many; and the places of those that have none.
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
            Some(place @ None) => *place = Some(row),
            Some(Some(_)) | None => extra.push(ordinal),
        }
    }
    (places, extra)
}
