//! A cache of compiled validators, shared by equal schemas.
//!
//! A validator takes about 25 KiB and 40–80 µs to compile. The cache has two halves: when the young
//! half is full, it replaces the old half, whose validators are dropped. A use moves no validator: a
//! move would copy both halves.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arc_swap::ArcSwap;
use foldhash::HashMap;
use registry_core::Digest;
use schema_compat::schema_compile::{Validator, compile};

use super::input::ServedSchema;

/// Validators per half: 256 of 25 KiB take about 6.4 MiB.
const HALF: usize = 256;

/// A validator, or why the schema is invalid.
pub type Compiled = Result<Validator, Box<str>>;

/// The cache of compiled schemas, by tool version. Replaced for each new validator. A lock would be
/// shared by the calls of all workers.
#[derive(Debug, Default)]
pub struct Validators(ArcSwap<Halves>);

#[derive(Debug, Clone, Default)]
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
    /// Returns the validator of a self-contained schema. Two threads may both compile it, but neither
    /// waits.
    pub fn get(&self, schema: &ServedSchema) -> Arc<Compiled> {
        let halves = self.0.load();
        let known = [&halves.young, &halves.old];
        if let Some(found) = known.iter().find_map(|half| half.get(&schema.digest)) {
            return Arc::clone(found);
        }
        let compiled = Arc::new(compiled(&schema.text));
        self.0.rcu(|halves| {
            let mut halves = Halves::clone(halves);
            halves.insert(schema.digest, Arc::clone(&compiled));
            halves
        });
        compiled
    }
}

fn compiled(text: &str) -> Compiled {
    let schema = serde_json::from_str(text).map_err(|e| e.to_string().into_boxed_str())?;
    compile(&schema, &|_| None).map_err(|problems| {
        let first = problems.first().map(ToString::to_string);
        first.unwrap_or_else(|| "it does not compile".to_owned()).into_boxed_str()
    })
}
