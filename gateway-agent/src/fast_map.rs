//! Maps whose keys come from the catalog: names, versions, digests.
//!
//! Each call looks several of them up, and the standard hasher, which withstands keys that somebody
//! makes up to collide, costs four times as much. Deliberately absent: sessions, ids and whatever
//! else callers name; those stay with the standard hasher.

use std::collections::HashMap;

/// A map with a fast hasher, seeded anew in each process.
pub(crate) type FastMap<K, V> = HashMap<K, V, foldhash::fast::RandomState>;
