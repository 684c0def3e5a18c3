//! `cache`: successes of an operation, remembered for a while, each caller's for itself.
//!
//! In memory, bounded: what ends first goes first where there is no room. Deliberately absent: one
//! call for several callers that miss the same at once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use registry_core::{
    Digest,
    document::canonical_bytes,
    spec::{Cache, Path, eval},
};
use serde_json::{Value, json};

use super::{Failure, run::Run};

/// Most results that are remembered.
const MOST: usize = 10_000;
/// Most bytes of them, as JSON.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// What is remembered, by the digest of its key.
#[derive(Debug, Default)]
pub(super) struct Results(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    results: HashMap<Digest, Kept>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    value: Arc<Value>,
    bytes: usize,
    fresh_until: Instant,
    until: Instant,
    is_renewed: bool,
}

/// What is known of a key.
enum Known {
    /// It may be used.
    Fresh(Arc<Value>),
    /// It may be used; whoever is told so first renews it.
    Stale(Arc<Value>, bool),
}

impl Results {
    fn find(&self, key: &Digest, now: Instant) -> Option<Known> {
        let mut table = self.lock();
        let kept = table.results.get_mut(key).filter(|kept| kept.until > now)?;
        let value = Arc::clone(&kept.value);
        if kept.fresh_until > now {
            return Some(Known::Fresh(value));
        }
        Some(Known::Stale(value, !std::mem::replace(&mut kept.is_renewed, true)))
    }

    fn keep(&self, key: Digest, value: &Value, (fresh, stale): (Duration, Duration)) {
        let bytes = value.to_string().len();
        if bytes > MOST_BYTES {
            return;
        }
        let now = Instant::now();
        let (fresh_until, until) = (now + fresh, now + fresh + stale);
        let value = Arc::new(value.clone());
        let mut table = self.lock();
        table.forget(&key);
        if !table.has_room(bytes) {
            let over = table.results.iter().filter(|(_, kept)| kept.until <= now);
            for key in over.map(|(key, _)| *key).collect::<Vec<_>>() {
                table.forget(&key);
            }
        }
        while !table.has_room(bytes) {
            let first = table.results.iter().min_by_key(|(_, kept)| kept.until);
            let Some(first) = first.map(|(key, _)| *key) else { break };
            table.forget(&first);
        }
        table.bytes += bytes;
        table.results.insert(key, Kept { value, bytes, fresh_until, until, is_renewed: false });
    }

    /// Whoever wanted to renew it could not; somebody else may try.
    fn leave(&self, key: &Digest) {
        if let Some(kept) = self.lock().results.get_mut(key) {
            kept.is_renewed = false;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn has_room(&self, bytes: usize) -> bool {
        self.results.len() < MOST && self.bytes + bytes <= MOST_BYTES
    }

    fn forget(&mut self, key: &Digest) {
        if let Some(kept) = self.results.remove(key) {
            self.bytes -= kept.bytes;
        }
    }
}

impl Run {
    /// From memory, or else done and remembered.
    pub(super) async fn cache(
        self: &Arc<Self>,
        cache: &Arc<Cache>,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        let scope = self.context.caller.as_deref().unwrap_or_default();
        let owner = format!("{}{} {scope}", self.key, cache.pointer);
        let (key, _) = self.key_of((&owner, &cache.key_paths), at, input)?;
        let results = &self.memory().results;
        match results.find(&key, Instant::now()) {
            Some(Known::Fresh(value)) => Ok((*value).clone()),
            Some(Known::Stale(value, is_first)) => {
                if is_first {
                    self.renew(cache, (key, at), input);
                }
                Ok((*value).clone())
            }
            None => self.remembered(cache, (key, at), input).await,
        }
    }

    async fn remembered(
        self: &Arc<Self>,
        cache: &Cache,
        (key, at): (Digest, &str),
        input: &Value,
    ) -> Result<Value, Failure> {
        let value = self.operate(&cache.inner, at, input).await?;
        let is_kept = match &cache.cache_if {
            Some(condition) => condition
                .is_met(&value, &mut self.budget())
                .map_err(|error| Failure::evaluation(at, "cacheIf", error))?,
            None => true,
        };
        if is_kept {
            let stale = cache.stale_while_revalidate_seconds.unwrap_or_default();
            let times = (Duration::from_secs(cache.ttl_seconds), Duration::from_secs(stale));
            self.memory().results.keep(key, &value, times);
        }
        Ok(value)
    }

    /// Renews what is stale, whether or not its caller waits for anything.
    fn renew(self: &Arc<Self>, cache: &Arc<Cache>, (key, at): (Digest, &str), input: &Value) {
        let (run, cache, at, input) =
            (self.detached(), cache.clone(), at.to_owned(), input.clone());
        self.memory().spawn(async move {
            if run.remembered(&cache, (key, &at), &input).await.is_err() {
                run.memory().results.leave(&key);
            }
        });
    }

    /// The digest of whose it is and what paths select, and the first that selects nothing.
    pub(super) fn key_of<'p>(
        &self,
        (owner, paths): (&str, &'p [Path]),
        at: &str,
        input: &Value,
    ) -> Result<(Digest, Option<&'p Path>), Failure> {
        let keys = eval::keys(paths, input, &mut self.budget())
            .map_err(|error| Failure::evaluation(at, "keyPaths", error))?;
        let missing = paths.iter().zip(&keys).find(|(_, key)| key.is_none()).map(|(path, _)| path);
        // What is there is told apart from what is not.
        let keys: Vec<Value> = keys.into_iter().map(|key| key.into_iter().collect()).collect();
        Ok((Digest::of(&canonical_bytes(&json!([owner, keys]))), missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: (Duration, Duration) = (Duration::from_mins(1), Duration::ZERO);

    fn key(number: usize) -> Digest {
        Digest::of(&number.to_le_bytes())
    }

    #[test]
    fn what_ends_first_goes_first_where_there_is_no_room() {
        let results = Results::default();
        results.keep(key(0), &json!(0), (Duration::from_secs(30), Duration::ZERO));
        for number in 1..=MOST {
            results.keep(key(number), &json!(number), TIMES);
        }
        let now = Instant::now();
        assert!(results.find(&key(0), now).is_none());
        assert!(results.find(&key(1), now).is_some());
        assert_eq!(results.lock().results.len(), MOST);
        let large = Value::String("x".repeat(MOST_BYTES - 2));
        results.keep(key(7), &large, TIMES);
        assert_eq!(results.lock().results.len(), 1, "all others had to go");
        assert_eq!(results.lock().bytes, MOST_BYTES);
        results.keep(key(8), &Value::String("x".repeat(MOST_BYTES)), TIMES);
        assert!(results.find(&key(8), now).is_none(), "it would never fit");
    }

    #[test]
    fn what_is_stale_is_renewed_by_one() {
        let results = Results::default();
        results.keep(key(1), &json!(1), (Duration::ZERO, Duration::from_mins(1)));
        let look = || match results.find(&key(1), Instant::now()) {
            Some(Known::Stale(_, is_first)) => is_first,
            _ => panic!("it is stale"),
        };
        assert!(look());
        assert!(!look());
        results.leave(&key(1));
        assert!(look());
        let later = Instant::now() + Duration::from_mins(2);
        assert!(results.find(&key(1), later).is_none());
    }
}
