//! How old the catalog is, and what may still be done with it.
//!
//! A gateway without its registry serves what it last knew. What was retired meanwhile it cannot
//! know, so an operator may limit for how long (`registry.maxStaleness`): first what may change
//! something is refused, then everything. Lists and calls ask the same [`Verdict`].

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
    /// For tools that may change something.
    pub tools: Option<Duration>,
    /// For tools with the hint `readOnlyHint`.
    pub read_only_tools: Option<Duration>,
}

/// From this age on a catalog is told to be stale: a stream that says nothing for so long is dead.
const STALE: Duration = Duration::from_secs(30);
/// How often a stale catalog is looked at again.
const AGAIN: Duration = Duration::from_secs(1);

/// What may be done with a catalog of some age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Everything that the policy allows.
    Serve,
    /// Only tools that are registered as read-only.
    ReadOnly,
    /// Nothing.
    Refuse,
}

impl Verdict {
    /// All verdicts.
    pub const ALL: [Self; 3] = [Self::Serve, Self::ReadOnly, Self::Refuse];

    /// As audit, metrics and `/readyz` write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::ReadOnly => "read-only",
            Self::Refuse => "refuse",
        }
    }

    /// Whether a tool may be listed and called.
    pub fn admits(self, is_read_only: bool) -> bool {
        match self {
            Self::Serve => true,
            Self::ReadOnly => is_read_only,
            Self::Refuse => false,
        }
    }
}

/// The age of the catalog at one moment, and what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness {
    /// How long ago the catalog was known to be the registry's latest; `None`: nobody knows, which
    /// counts as older than every limit.
    pub age: Option<Duration>,
    /// What may be done with it.
    pub verdict: Verdict,
    limits: MaxStaleness,
}

impl Freshness {
    /// Judges an age.
    pub fn of(age: Option<Duration>, limits: MaxStaleness) -> Self {
        let is_past =
            |limit: Option<Duration>| limit.is_some_and(|most| age.is_none_or(|age| age >= most));
        let verdict = if is_past(limits.read_only_tools) {
            Verdict::Refuse
        } else if is_past(limits.tools) {
            Verdict::ReadOnly
        } else {
            Verdict::Serve
        };
        Self { age, verdict, limits }
    }

    /// Whether callers are told how old the catalog is.
    pub fn is_stale(&self) -> bool {
        self.verdict != Verdict::Serve || self.age.is_some_and(|age| age >= STALE)
    }

    /// From which age on a tool is refused.
    pub fn limit(&self, is_read_only: bool) -> Option<Duration> {
        if is_read_only { self.limits.read_only_tools } else { self.limits.tools }
    }

    /// How long it stays as it is, if nothing is heard of the registry; `None`: for ever.
    fn lasts(&self) -> Option<Duration> {
        let first = self.limits.tools?;
        match (self.verdict, self.age) {
            (Verdict::Serve, Some(age)) => Some(first.saturating_sub(age)),
            // It may be confirmed at any moment.
            _ => Some(AGAIN),
        }
    }
}

/// Where the age is asked for.
#[derive(Debug, Clone)]
pub struct Watchman {
    cache: Cache,
    limits: MaxStaleness,
    has_warned: Arc<AtomicBool>,
}

impl Watchman {
    /// Judges the age of this cache by these limits.
    pub fn new(cache: Cache, limits: MaxStaleness) -> Self {
        Self { cache, limits, has_warned: Arc::default() }
    }

    /// The catalog's age now, and what follows from it.
    pub fn look(&self) -> Freshness {
        Freshness::of(self.cache.age(), self.limits)
    }

    /// Notes an age that the catalog came to although its source was there all the time. A limit needs
    /// room above it, or calls are refused while nothing is wrong; says so once.
    pub(crate) fn note_usual(&self, age: Duration) {
        // The other limit is no shorter.
        let Some(limit) = self.limits.tools.filter(|limit| *limit < 2 * age) else { return };
        if self.has_warned.swap(true, Ordering::Relaxed) {
            return;
        }
        let (reached, least) = (age.as_secs_f64(), (2 * age).as_secs() + 1);
        tracing::warn!(
            "registry.maxStaleness.tools is {limit:?}, which is too short: while nothing is new, the \
             catalog is {reached:.1} s old before its source confirms it, and calls are refused \
             although all is well; set it to {least}s or more, or have it confirmed more often \
             (`--heartbeat-interval` of a registry server, 10s by default; `registry.pollInterval` of \
             an http(s) source)"
        );
    }

    /// Resolves when the verdict is another one. May be dropped and called again.
    pub(crate) async fn other_than(&self, verdict: Verdict) {
        loop {
            let now = self.look();
            if now.verdict != verdict {
                return;
            }
            match now.lasts() {
                Some(time) => sleep(time.max(AGAIN / 10)).await,
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
    fn what_may_change_something_goes_first() {
        let none = limits(0, 0);
        for (age, limits, verdict, is_stale) in [
            (Some(0), none, Verdict::Serve, false),
            (Some(29), none, Verdict::Serve, false),
            (Some(1_000_000), none, Verdict::Serve, true),
            (None, none, Verdict::Serve, false),
            (Some(9), limits(10, 20), Verdict::Serve, false),
            (Some(10), limits(10, 20), Verdict::ReadOnly, true),
            (Some(20), limits(10, 20), Verdict::Refuse, true),
            (Some(1_000), limits(10, 0), Verdict::ReadOnly, true),
            (Some(10), limits(10, 10), Verdict::Refuse, true),
            (None, limits(10, 0), Verdict::ReadOnly, true),
            (None, limits(10, 20), Verdict::Refuse, true),
        ] {
            let found = Freshness::of(age.map(Duration::from_secs), limits);
            assert_eq!(
                (found.verdict, found.is_stale()),
                (verdict, is_stale),
                "{age:?} {limits:?}"
            );
        }
    }
}
