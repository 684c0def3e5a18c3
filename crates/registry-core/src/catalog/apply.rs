//! The fold: a commit makes the next state.

use std::sync::Arc;

use super::{
    Catalog, Record,
    digest::{entity_line, setting_line},
};
use crate::{
    chain::Revision,
    commit::{Action, Change, SealedCommit},
    lifecycle::Lifecycle,
    reference::Key,
    scope::Scope,
    setting::{SettingChange, Settings},
};

/// Why a commit does not follow on a catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// A commit was skipped or repeated.
    #[error("revision {got} cannot follow revision {head}")]
    OutOfOrder {
        /// The catalog's revision.
        head: Revision,
        /// The commit's.
        got: Revision,
    },
    /// A part of a registry goes on in steps.
    #[error("a commit does not apply to what is only the part {scope} of a registry")]
    Part {
        /// Of which scope it is.
        scope: Arc<Scope>,
    },
    /// A registration of a key that exists.
    #[error("revision {revision} registers {key}, which exists already")]
    Exists {
        /// The commit's revision.
        revision: Revision,
        /// The key.
        key: Key,
    },
    /// A lifecycle change of a key that does not exist.
    #[error("revision {revision} changes {key}, which does not exist")]
    Absent {
        /// The commit's revision.
        revision: Revision,
        /// The key.
        key: Key,
    },
}

impl Catalog {
    /// Adds one commit: whole, or not at all.
    pub fn apply(&mut self, sealed: &SealedCommit) -> Result<(), ApplyError> {
        let (commit, revision) = (sealed.commit(), sealed.revision());
        if revision != self.revision.next() {
            return Err(ApplyError::OutOfOrder { head: self.revision, got: revision });
        }
        if *self.scope != Scope::Everything {
            return Err(ApplyError::Part { scope: self.scope.clone() });
        }
        let mut next = self.clone();
        let (author, at) = (Arc::from(commit.author.as_str()), commit.committed_at);
        let mut documents = sealed.documents().iter();
        for Change { key, action } in &commit.changes {
            let Action::Register { owner, .. } = action else {
                next.set_lifecycle(key, Lifecycle::after(action, (revision, at)))?;
                continue;
            };
            if next.records.contains_key(key) {
                return Err(ApplyError::Exists { revision, key: key.clone() });
            }
            // `SealedCommit` proves that each registration comes with its document.
            let Some(document) = documents.next().cloned() else { continue };
            next.put(Arc::new(Record {
                document,
                owner: owner.as_deref().map_or_else(|| Arc::clone(&author), Arc::from),
                registered: revision,
                registered_at: at,
                lifecycle: Lifecycle::active((revision, at)),
            }));
        }
        for change in &commit.settings {
            next.set(change, revision);
        }
        next.revision = revision;
        next.chain = sealed.chain();
        next.attestation = None;
        *self = next;
        Ok(())
    }

    fn set_lifecycle(&mut self, key: &Key, lifecycle: Lifecycle) -> Result<(), ApplyError> {
        let Some(record) = self.records.get_mut(key) else {
            return Err(ApplyError::Absent { revision: lifecycle.revision, key: key.clone() });
        };
        let before = self.content.get().map(|_| entity_line(record));
        Arc::make_mut(record).lifecycle = lifecycle;
        let after = before.as_ref().map(|_| entity_line(record));
        self.count(before.as_deref(), after.as_deref());
        Ok(())
    }

    fn set(&mut self, change: &SettingChange, revision: Revision) {
        let is_counted = self.content.get().is_some();
        let line = |settings: &Settings| {
            settings.get(&change.on).filter(|_| is_counted).map(|set| setting_line(&change.on, set))
        };
        let before = line(&self.settings);
        self.settings.apply(change, revision);
        let after = line(&self.settings);
        self.count(before.as_deref(), after.as_deref());
    }

    /// Keeps the content digest up to date, where there is one.
    pub(super) fn count(&mut self, before: Option<&str>, after: Option<&str>) {
        let Some(content) = self.content.get_mut() else { return };
        if let Some(line) = before {
            content.remove(line);
        }
        if let Some(line) = after {
            content.insert(line);
        }
    }
}
