//! The digest of a whole catalog, by which a copy of it is proved.
//!
//! Deliberately absent: the digests of documents; see `document.rs`.

use std::fmt::Write as _;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{Catalog, Record};
use crate::{document::Digest, lifecycle::Lifecycle, scope::Scope};

impl Catalog {
    /// A digest over the whole state: revision, chain hash, scope if it is a part, for each entity in
    /// order its key, digest, owner, registration and lifecycle, and what is set. Equal digests mean
    /// equal catalogs.
    pub fn digest(&self) -> Digest {
        let part = match &*self.scope {
            Scope::Everything => String::new(),
            scope @ Scope::Roots(_) => format!(" {}", json(scope)),
        };
        let head = format!("{} {} {}{part}\n", self.registry, self.revision, self.chain);
        self.digest_after(Sha256::new_with_prefix(head))
    }

    /// A digest over the entities and what is set, by which a part of the catalog is the same at
    /// several revisions.
    pub fn content_digest(&self) -> Digest {
        self.digest_after(Sha256::new())
    }

    fn digest_after(&self, mut hash: Sha256) -> Digest {
        let mut line = String::new();
        for (key, record) in &self.records {
            let Record { document, owner, registered, registered_at, lifecycle } = &**record;
            let Lifecycle { state, notice, revision, changed_at } = lifecycle;
            line.clear();
            // Writing into a string cannot fail.
            let _ = writeln!(
                line,
                "{key} {} {owner:?} {registered} {registered_at} {state} {revision} {changed_at} {}",
                document.digest(),
                notice.as_deref().map_or_else(String::new, json),
            );
            hash.update(&line);
        }
        for (on, set) in self.settings.iter() {
            line.clear();
            // Writing into a string cannot fail.
            let _ = writeln!(line, "{on} {}", json(set));
            hash.update(&line);
        }
        Digest::from_bytes(hash.finalize().into())
    }
}

fn json(value: &impl Serialize) -> String {
    // Only plain structs of texts and numbers come here, all of which serialize.
    serde_json::to_string(value).unwrap_or_default()
}
