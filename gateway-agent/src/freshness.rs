//! The age of the catalog, and the calls that it allows.
//!
//! Without contact to the registry, the gateway serves the last known catalog and does not learn of
//! retired tools. Operators can limit how long (`registry.maxStaleness`): first tools with side
//! effects are rejected, then all. Lists and calls use the same [`StalenessLevel`].

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::sleep;

use crate::cache::Cache;

/// `registry.maxStaleness`: the maximum age of the catalog for calls. `None`: unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MaxStaleness {
    /// The limit for tools with side effects.
    pub tools: Option<Duration>,
    /// The limit for tools with `readOnlyHint`.
    pub read_only_tools: Option<Duration>,
}

/// A catalog of this age is reported as stale: a stream that is silent for this long is dead.
const STALE: Duration = Duration::from_secs(30);
/// Polling interval of a stale catalog.
const RECHECK: Duration = Duration::from_secs(1);

/// The calls that the age of the catalog allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StalenessLevel {
    /// All calls that the policy allows.
    Serve,
    /// Only calls of tools that are registered as read-only.
    ReadOnly,
    /// No calls.
    Reject,
}

impl StalenessLevel {
    /// All levels, for metrics.
    pub const ALL: [Self; 3] = [Self::Serve, Self::ReadOnly, Self::Reject];

    /// The value in audit, metrics and `/readyz`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::ReadOnly => "read-only",
            Self::Reject => "reject",
        }
    }

    /// Whether a tool can be listed and called.
    pub fn admits(self, is_read_only: bool) -> bool {
        match self {
            Self::Serve => true,
            Self::ReadOnly => is_read_only,
            Self::Reject => false,
        }
    }
}

/// The age of the catalog, and the resulting verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness {
    /// Time since the registry last confirmed the catalog. `None` is unknown and exceeds every
    /// limit.
    pub age: Option<Duration>,
    /// The calls that this age allows.
    pub level: StalenessLevel,
    limits: MaxStaleness,
}

impl Freshness {
    /// The freshness at an age. `None`: the age is unknown.
    pub fn new(age: Option<Duration>, limits: MaxStaleness) -> Self {
        let is_past =
            |limit: Option<Duration>| limit.is_some_and(|most| age.is_none_or(|age| age >= most));
        let level = if is_past(limits.read_only_tools) {
            StalenessLevel::Reject
        } else if is_past(limits.tools) {
            StalenessLevel::ReadOnly
        } else {
            StalenessLevel::Serve
        };
        Self { age, level, limits }
    }

    /// Whether callers are informed of the age.
    pub fn is_stale(&self) -> bool {
        self.level != StalenessLevel::Serve || self.age.is_some_and(|age| age >= STALE)
    }

    /// The age limit of a tool.
    pub fn limit(&self, is_read_only: bool) -> Option<Duration> {
        if is_read_only { self.limits.read_only_tools } else { self.limits.tools }
    }

    /// How long the verdict stays valid without contact to the registry. `None`: forever.
    fn valid_for(&self) -> Option<Duration> {
        let first = self.limits.tools?;
        match (self.level, self.age) {
            (StalenessLevel::Serve, Some(age)) => Some(first.saturating_sub(age)),
            // The registry can confirm the catalog at any time.
            _ => Some(RECHECK),
        }
    }
}

/// Measures the age of the catalog.
#[derive(Debug, Clone)]
pub struct StalenessMonitor {
    cache: Cache,
    limits: MaxStaleness,
    has_warned: Arc<AtomicBool>,
}

impl StalenessMonitor {
    /// Creates the monitor of a cache.
    pub fn new(cache: Cache, limits: MaxStaleness) -> Self {
        Self { cache, limits, has_warned: Arc::default() }
    }

    /// Returns the current age and verdict.
    pub fn check(&self) -> Freshness {
        Freshness::new(self.cache.age(), self.limits)
    }

    /// Records an age that the catalog reached while its source was available. Warns once if a
    /// limit is too close to it, because calls would be rejected without a failure.
    pub(crate) fn record_reached_age(&self, age: Duration) {
        // The other limit is not shorter.
        let Some(limit) = self.limits.tools.filter(|limit| *limit < 2 * age) else { return };
        if self.has_warned.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(
            setting = "registry.maxStaleness.tools",
            limit_s = limit.as_secs(),
            reached_s = age.as_secs_f64(),
            least_s = (2 * age).as_secs() + 1,
            "the staleness limit is too short: the source confirms the unchanged catalog at the reached \
             age, and calls would be rejected without a failure; set it to at least the least value, or \
             shorten the confirmation interval (`--heartbeat-interval` of a registry server, 10s by \
             default; `registry.pollInterval` of an http(s) source)"
        );
    }

    /// Waits for another verdict. Cancel-safe.
    pub(crate) async fn changed_from(&self, level: StalenessLevel) {
        loop {
            let now = self.check();
            if now.level != level {
                return;
            }
            match now.valid_for() {
                Some(time) => sleep(time.max(RECHECK / 10)).await,
                None => pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(tools: u64, read_only_tools: u64) -> MaxStaleness {
        let limit = |seconds| (seconds > 0).then(|| Duration::from_secs(seconds));
        MaxStaleness { tools: limit(tools), read_only_tools: limit(read_only_tools) }
    }

    #[test]
    fn staleness_rejects_tools_with_side_effects_first() {
        let none = limits(0, 0);
        for (age, limits, level, is_stale) in [
            (Some(0), none, StalenessLevel::Serve, false),
            (Some(29), none, StalenessLevel::Serve, false),
            (Some(1_000_000), none, StalenessLevel::Serve, true),
            (None, none, StalenessLevel::Serve, false),
            (Some(9), limits(10, 20), StalenessLevel::Serve, false),
            (Some(10), limits(10, 20), StalenessLevel::ReadOnly, true),
            (Some(20), limits(10, 20), StalenessLevel::Reject, true),
            (Some(1_000), limits(10, 0), StalenessLevel::ReadOnly, true),
            (Some(10), limits(10, 10), StalenessLevel::Reject, true),
            (None, limits(10, 0), StalenessLevel::ReadOnly, true),
            (None, limits(10, 20), StalenessLevel::Reject, true),
        ] {
            let found = Freshness::new(age.map(Duration::from_secs), limits);
            assert_eq!((found.level, found.is_stale()), (level, is_stale), "{age:?} {limits:?}");
        }
    }
}
