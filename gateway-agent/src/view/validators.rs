//! Compiled validators: made on first use, shared by equal schemas, bounded in number.
//!
//! A compiled validator costs about 25 KiB and 40–80 µs, so neither compiling all of them nor
//! compiling for each call would do. The bound is kept with two halves: when the young half is
//! full it becomes the old one, and the unused validators of the old half are dropped.

#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use registry_core::Digest;
use schema_compat::schema_compile::{Validator, compile};

use super::input::Schema;
use foldhash::HashMap;

/// Validators in each half: with 25 KiB each, 256 of them stay under 7 MiB, two halves under 14.
const HALF: usize = 256;

/// A validator, or why there is none.
pub type Compiled = Result<Validator, Box<str>>;

/// All compiled validators.
#[derive(Debug, Default)]
pub struct Validators(RwLock<Halves>);

#[derive(Debug, Default)]
struct Halves {
    young: HashMap<Digest, Arc<Compiled>>,
    old: HashMap<Digest, Arc<Compiled>>,
}

impl Halves {
    fn insert(&mut self, digest: Digest, compiled: Arc<Compiled>) {
        if self.young.len() >= HALF {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(digest, compiled);
    }
}

impl Validators {
    /// The validator of a self-contained schema. One in the young half is found without an
    /// exclusive lock, so the threads that serve callers do not wait for one another.
    pub fn of(&self, schema: &Schema) -> Arc<Compiled> {
        if let Some(found) = self.read().young.get(&schema.digest) {
            return found.clone();
        }
        let old = self.write().old.remove(&schema.digest);
        // Compiled outside of the lock: two threads may do it twice, but none waits for it.
        let compiled = old.unwrap_or_else(|| Arc::new(compiled(&schema.text)));
        self.write().insert(schema.digest, compiled.clone());
        compiled
    }

    fn read(&self) -> RwLockReadGuard<'_, Halves> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Halves> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn compiled(text: &str) -> Compiled {
    let schema = serde_json::from_str(text).map_err(|e| e.to_string().into_boxed_str())?;
    compile(&schema, &|_| None).map_err(|problems| {
        let first = problems.first().map(ToString::to_string);
        first.unwrap_or_else(|| "it does not compile".to_owned()).into_boxed_str()
    })
}
