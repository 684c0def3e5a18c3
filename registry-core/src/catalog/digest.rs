//! The digest of a whole catalog, by which a copy of it is proved.
//!
//! Deliberately absent: the digests of documents; see `document.rs`.

use std::fmt::Write as _;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{Catalog, Record};
use crate::{document::Digest, lifecycle::Lifecycle};

impl Catalog {
    /// A digest over the whole state: revision, chain hash, for each entity in order its key,
    /// digest, owner, registration and lifecycle, and what is set. Equal digests mean equal catalogs.
    pub fn digest(&self) -> Digest {
        let mut line = format!("{} {} {}\n", self.registry, self.revision, self.chain);
        let mut hash = Sha256::new();
        for (key, record) in &self.records {
            let Record { document, owner, registered, registered_at, lifecycle } = &**record;
            let Lifecycle { state, notice, revision, changed_at } = lifecycle;
            hash.update(&line);
            line.clear();
            // Writing into a string cannot fail.
            let _ = writeln!(
                line,
                "{key} {} {owner:?} {registered} {registered_at} {state} {revision} {changed_at} {}",
                document.digest(),
                notice.as_deref().map_or_else(String::new, json),
            );
        }
        for (on, set) in self.settings.iter() {
            // Writing into a string cannot fail.
            let _ = writeln!(line, "{on} {}", json(set));
        }
        Digest::from_bytes(hash.chain_update(&line).finalize().into())
    }
}

fn json(value: &impl Serialize) -> String {
    // Only plain structs of texts and numbers come here, all of which serialize.
    serde_json::to_string(value).unwrap_or_default()
}
