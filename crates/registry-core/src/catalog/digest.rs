//! Digests that verify a copy of a catalog.
//!
//! One covers the whole state at its revision. The other covers the content alone and is updated
//! incrementally.

use std::sync::OnceLock;

use imbl::ordmap::DiffItem;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{Catalog, Record, content::Content};
use crate::{
    document::Digest,
    lifecycle::Lifecycle,
    scope::Scope,
    setting::{Selector, SelectorSettings},
};

impl Catalog {
    /// A digest over the whole state: revision, chain hash, scope of a partial catalog, settings,
    /// and for each entity its key, digest, owner, registration and lifecycle. Equal digests mean
    /// equal catalogs. Cost: linear in the number of entities.
    pub fn digest(&self) -> Digest {
        let part = match &*self.scope {
            Scope::Everything => String::new(),
            scope @ Scope::Roots(_) => format!(" {}", json(scope)),
        };
        let head = format!("{} {} {}{part}\n", self.registry, self.revision, self.chain);
        let mut hash = Sha256::new_with_prefix(head);
        for record in self.records.values() {
            hash.update(entity_line(record));
        }
        for (target, set) in self.settings.iter() {
            hash.update(setting_line(target, set));
        }
        Digest::from_bytes(hash.finalize().into())
    }

    /// A digest over the entities and settings, which stays the same across revisions that do not
    /// change them. It is the root of the tree in `content.rs`. The first call visits all entities;
    /// afterwards the cost is proportional to the changes.
    pub fn content_digest(&self) -> Digest {
        Digest::from_bytes(self.content().digest())
    }

    fn content(&self) -> &Content {
        self.content.get_or_init(|| {
            let mut content = Content::default();
            self.records.values().for_each(|record| content.insert(&entity_line(record)));
            self.settings
                .iter()
                .for_each(|(target, set)| content.insert(&setting_line(target, set)));
            content
        })
    }

    /// The catalog without the tree of its content digest, so that commits are applied faster.
    #[must_use]
    pub fn without_content(&self) -> Self {
        Self { content: OnceLock::new(), ..self.clone() }
    }

    /// Derives the tree of the content digest from that of an earlier catalog, at a cost proportional to the
    /// changes.
    #[must_use]
    pub fn with_content_since(self, earlier: &Self) -> Self {
        let mut content = earlier.content().clone();
        for difference in earlier.records.diff(&self.records) {
            if let DiffItem::Remove(_, old) | DiffItem::Update { old: (_, old), .. } = &difference {
                content.remove(&entity_line(old));
            }
            if let DiffItem::Add(_, new) | DiffItem::Update { new: (_, new), .. } = &difference {
                content.insert(&entity_line(new));
            }
        }
        for (target, new) in self.settings.changes_since(&earlier.settings) {
            if let Some(old) = earlier.settings.get(target) {
                content.remove(&setting_line(target, old));
            }
            if let Some(new) = new {
                content.insert(&setting_line(target, new));
            }
        }
        Self { content: OnceLock::from(content), ..self }
    }
}

/// The line of a record in the digests.
pub(super) fn entity_line(record: &Record) -> String {
    let Record { document, owner, registered, registered_at, lifecycle } = record;
    let Lifecycle { state, notice, revision, changed_at } = lifecycle;
    format!(
        "{} {} {owner:?} {registered} {registered_at} {state} {revision} {changed_at} {}\n",
        document.key(),
        document.digest(),
        notice.as_deref().map_or_else(String::new, json),
    )
}

/// The line of a setting in the digests.
pub(super) fn setting_line(target: &Selector, set: &SelectorSettings) -> String {
    format!("{target} {}\n", json(set))
}

fn json(value: &impl Serialize) -> String {
    // Only plain structs of strings and numbers are passed here; all of them serialize.
    serde_json::to_string(value).unwrap_or_default()
}
