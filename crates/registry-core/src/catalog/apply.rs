//! The fold: applying a commit to a catalog.

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

/// A commit cannot be applied to a catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The revision is not the successor of the catalog's revision.
    #[error("revision {got} cannot follow revision {head}")]
    OutOfOrder {
        /// The catalog's revision.
        head: Revision,
        /// The commit's revision.
        got: Revision,
    },
    /// The catalog is a subset, which changes by deltas instead of commits.
    #[error("cannot apply a commit to a partial catalog with the scope {scope}")]
    Part {
        /// The scope of the catalog.
        scope: Arc<Scope>,
    },
    /// The commit registers an existing key.
    #[error("revision {revision} registers {key}, which is already registered")]
    Exists {
        /// The commit's revision.
        revision: Revision,
        /// The duplicate key.
        key: Key,
    },
    /// The commit changes the lifecycle of an unknown key.
    #[error("revision {revision} changes {key}, which is not registered")]
    Absent {
        /// The commit's revision.
        revision: Revision,
        /// The unknown key.
        key: Key,
    },
}

impl Catalog {
    /// Applies one commit atomically. On error the catalog is unchanged.
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
            // `SealedCommit` guarantees one document per registration.
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
            settings
                .get(&change.target)
                .filter(|_| is_counted)
                .map(|set| setting_line(&change.target, set))
        };
        let before = line(&self.settings);
        self.settings.apply(change, revision);
        let after = line(&self.settings);
        self.count(before.as_deref(), after.as_deref());
    }

    /// Updates the content tree if it has been built.
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
