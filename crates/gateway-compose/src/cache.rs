//! `cache`: results of successful operations, cached for each caller.
//!
//! The cache is in memory and bounded: the entry that expires first is evicted first. Concurrent
//! misses are not coalesced: each of them runs the composition.

use std::{sync::Arc, time::Duration};

use registry_core::{
    Digest,
    document::exact_bytes,
    spec::{Cache, Path, eval},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{Failure, ResultOrigin, run::Run, state::results::CacheHit};

impl Run {
    /// Returns the cached result, or runs the operation and caches its result.
    pub(super) async fn cache(
        self: &Arc<Self>,
        cache: &Arc<Cache>,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        // One agent can act for several people, and each has separate results.
        let owner = json!([
            self.key.to_string(),
            cache.pointer,
            self.owner.identity.quota_key(),
            self.owner.identity
        ]);
        let (key, _) = self.key_of((&owner, &cache.key_paths), at, input)?;
        // Without an exact key, a cached result could be another input's.
        let Some(key) = key else { return self.operate(&cache.inner, at, input).await };
        let results = &self.state().results;
        // Policies can have changed since. The steps of the new run are authorized.
        let may_reuse = |hit: &CacheHit| {
            let origin = ResultOrigin { revision: hit.revision, ..self.origin(&cache.pointer) };
            self.runner.may_reuse(&origin, &self.scope)
        };
        if let Some(hit) = results.find(&key, Instant::now()).filter(may_reuse) {
            if hit.needs_refresh {
                self.refresh(cache, (key, at), input);
            }
            return Ok((*hit.value).clone());
        }
        let outcome = self.run_and_cache(cache, (key, at), input).await;
        if outcome.is_err() {
            results.refresh_failed(&key);
        }
        outcome
    }

    async fn run_and_cache(
        self: &Arc<Self>,
        cache: &Cache,
        (key, at): (Digest, &str),
        input: &Value,
    ) -> Result<Value, Failure> {
        let value = self.operate(&cache.inner, at, input).await?;
        let is_cacheable = match &cache.cache_if {
            Some(condition) => {
                condition.is_met(&value, &mut self.eval_budget()).map_err(|error| {
                    Failure::evaluation(at, "cacheIf", error)
                        .with_effects(self.plan.effects_of(&cache.inner))
                })?
            }
            None => true,
        };
        if is_cacheable {
            let stale = cache.stale_while_revalidate_seconds.unwrap_or_default();
            let times = (Duration::from_secs(cache.ttl_seconds), Duration::from_secs(stale));
            self.state().results.insert(key, (&value, self.owner.revision), times);
        }
        Ok(value)
    }

    /// Refreshes a stale result in the background.
    fn refresh(self: &Arc<Self>, cache: &Arc<Cache>, (key, at): (Digest, &str), input: &Value) {
        let (run, cache, at, input) =
            (self.detached(), cache.clone(), at.to_owned(), input.clone());
        self.state().spawn(async move {
            if run.run_and_cache(&cache, (key, &at), &input).await.is_err() {
                run.state().results.refresh_failed(&key);
            }
        });
    }

    /// Returns the digest of the owner and the values at the paths, and the first path without a
    /// value. The digest is `None` if a value has a number that cannot be compared exactly.
    pub(super) fn key_of<'p>(
        &self,
        (owner, paths): (&Value, &'p [Path]),
        at: &str,
        input: &Value,
    ) -> Result<(Option<Digest>, Option<&'p Path>), Failure> {
        let keys = eval::keys(paths, input, &mut self.eval_budget())
            .map_err(|error| Failure::evaluation(at, "keyPaths", error))?;
        let mut each = paths.iter().zip(&keys);
        let missing = each.find(|(_, key)| key.iter().all(Value::is_null)).map(|(path, _)| path);
        let exact = exact_bytes(&json!([owner, keys]));
        Ok((exact.map(|bytes| Digest::compute(&bytes)), missing))
    }
}
