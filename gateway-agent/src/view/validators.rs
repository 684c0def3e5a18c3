//! A cache of compiled validators, shared by equal schemas.
//!
//! A validator takes about 25 KiB and 40–80 µs to compile. The cache has two halves: when the young
//! half is full, it replaces the old half and the unused validators of the old half are dropped.

#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use registry_core::Digest;
use schema_compat::schema_compile::{Validator, compile};

use super::input::ServedSchema;
use foldhash::HashMap;

/// Validators per half: 256 of 25 KiB take about 6.4 MiB.
const HALF: usize = 256;

/// A validator, or why the schema is invalid.
pub type Compiled = Result<Validator, Box<str>>;

/// The cache of compiled schemas, by tool version.
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
    /// Returns the validator of a self-contained schema. Lookups in the young half take a shared
    /// lock, so that threads do not block each other.
    pub fn get(&self, schema: &ServedSchema) -> Arc<Compiled> {
        if let Some(found) = self.read().young.get(&schema.digest) {
            return found.clone();
        }
        let old = self.write().old.remove(&schema.digest);
        // Compiled without the lock: two threads may both compile, but neither waits.
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
