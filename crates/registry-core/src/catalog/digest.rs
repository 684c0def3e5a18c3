//! The digests of a whole catalog, by which a copy of it is proved.
//!
//! One is of the state at its revision, over everything in order. The other is of the content alone,
//! and follows each change.

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{Catalog, Record, content::Content};
use crate::{
    document::Digest,
    lifecycle::Lifecycle,
    scope::Scope,
    setting::{Selector, Set},
};

impl Catalog {
    /// A digest over the whole state: revision, chain hash, scope if it is a part, for each entity in
    /// order its key, digest, owner, registration and lifecycle, and what is set. Equal digests mean
    /// equal catalogs. Looks at every entity.
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
        for (on, set) in self.settings.iter() {
            hash.update(setting_line(on, set));
        }
        Digest::from_bytes(hash.finalize().into())
    }

    /// A digest over the entities and what is set, by which a part of the catalog is the same at
    /// several revisions: the root of the tree of `content.rs`. The first one of a catalog looks at every
    /// entity; from then on, each costs as much as what has changed.
    pub fn content_digest(&self) -> Digest {
        let content = self.content.get_or_init(|| {
            let mut content = Content::default();
            self.records.values().for_each(|record| content.insert(&entity_line(record)));
            self.settings.iter().for_each(|(on, set)| content.insert(&setting_line(on, set)));
            content
        });
        Digest::from_bytes(content.digest())
    }
}

/// What a record counts as.
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

/// What a setting counts as.
pub(super) fn setting_line(on: &Selector, set: &Set) -> String {
    format!("{on} {}\n", json(set))
}

fn json(value: &impl Serialize) -> String {
    // Only plain structs of texts and numbers come here, all of which serialize.
    serde_json::to_string(value).unwrap_or_default()
}
