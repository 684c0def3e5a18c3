//! Quotas of limited resources: one caller gets at most a quarter, so that it cannot exhaust them
//! for others.
//!
//! All unauthenticated callers share one quota. A caller that exceeds its quota is rejected
//! immediately; requests are not queued. The owner of a resource enforces the total.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A limited resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaKind {
    /// Calls of one upstream that wait for answers of their callers.
    Answers,
    /// Calls of callers without sessions that wait for input.
    Inputs,
    /// Resource subscriptions at one upstream.
    Watches,
    /// Task subscriptions.
    Tasks,
    /// Keys of idempotent steps.
    Keys,
    /// Requests of sessions that continue without a connection.
    Detached,
    /// Bytes of buffered events for clients that reconnect.
    Events,
    /// Memory for requests and results.
    Buffers,
    /// Sessions of legacy clients.
    Sessions,
    /// Event streams.
    Streams,
}

impl fmt::Display for QuotaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answers => "calls of this server that wait for an answer of their caller",
            Self::Inputs => "calls that wait for input",
            Self::Watches => "resource subscriptions at this server",
            Self::Tasks => "task subscriptions",
            Self::Keys => "idempotency keys",
            Self::Detached => "requests without a connection",
            Self::Events => "buffered bytes of events",
            Self::Buffers => "buffered bytes of requests and results",
            Self::Sessions => "sessions",
            Self::Streams => "open event streams",
        })
    }
}

impl QuotaKind {
    /// The remedy for an operator, as the end of a message.
    fn remedy(self) -> &'static str {
        match self {
            Self::Buffers => "; an operator can raise limits.bufferedBytes",
            Self::Sessions => {
                "; end sessions that are not needed, or an operator can raise limits.sessions"
            }
            _ => "",
        }
    }
}

/// An exceeded quota or total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuotaExceeded {
    /// The quota of the caller is used up.
    #[error("the limit of {most} {what} per caller is reached{}", .what.remedy())]
    PerCaller {
        /// The resource.
        what: QuotaKind,
        /// The quota of one caller.
        most: usize,
    },
    /// The total is used up.
    #[error("the limit of {most} {what} is reached{}", .what.remedy())]
    Total {
        /// The resource.
        what: QuotaKind,
        /// The total.
        most: usize,
    },
}

impl QuotaExceeded {
    /// The resource.
    pub fn what(&self) -> QuotaKind {
        let (Self::PerCaller { what, .. } | Self::Total { what, .. }) = self;
        *what
    }
}

/// The owner of a quota. `None`: all unauthenticated callers together.
pub type QuotaKey = Option<Arc<str>>;

/// The quotas of one resource.
#[derive(Debug)]
pub struct Quotas {
    what: QuotaKind,
    per_caller: usize,
    taken: Mutex<HashMap<QuotaKey, usize>>,
}

/// Units of a caller's quota. Dropping the guard releases them.
#[derive(Debug)]
pub struct QuotaGuard {
    of: Arc<Quotas>,
    key: QuotaKey,
    count: usize,
}

impl Quotas {
    /// Creates quotas of a quarter of the total, but at least one unit.
    pub fn new(what: QuotaKind, all: usize) -> Arc<Self> {
        Arc::new(Self { what, per_caller: (all / 4).max(1), taken: Mutex::default() })
    }

    /// Takes one unit of a caller's quota.
    pub fn take(self: &Arc<Self>, key: &QuotaKey) -> Result<QuotaGuard, QuotaExceeded> {
        self.take_many(key, 1)
    }

    /// Takes `count` units of a caller's quota, or none.
    pub fn take_many(
        self: &Arc<Self>,
        key: &QuotaKey,
        count: usize,
    ) -> Result<QuotaGuard, QuotaExceeded> {
        let mut taken = self.taken();
        let had = taken.get(key).copied().unwrap_or_default();
        if had + count > self.per_caller {
            return Err(QuotaExceeded::PerCaller { what: self.what, most: self.per_caller });
        }
        taken.insert(key.clone(), had + count);
        Ok(QuotaGuard { of: Arc::clone(self), key: key.clone(), count })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<QuotaKey, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QuotaGuard {
    fn drop(&mut self) {
        let mut taken = self.of.taken();
        let Some(count) = taken.get_mut(&self.key) else { return };
        *count -= self.count;
        if *count == 0 {
            taken.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_of_full_buffers_names_the_setting() {
        let what = QuotaKind::Buffers;
        for full in [QuotaExceeded::PerCaller { what, most: 1 }, QuotaExceeded::Total { what, most: 1 }] {
            assert!(full.to_string().ends_with("; an operator can raise limits.bufferedBytes"));
        }
    }

    #[test]
    fn quota_is_a_quarter_and_removed_when_unused() {
        let shares = Quotas::new(QuotaKind::Watches, 8);
        let [one, other, nobody] = [Some(Arc::from("a")), Some(Arc::from("b")), None];
        let kept: Vec<_> =
            [&one, &one, &other, &nobody, &nobody].map(|who| shares.take(who).unwrap()).into();
        for full in [&one, &nobody] {
            let own = QuotaExceeded::PerCaller { what: QuotaKind::Watches, most: 2 };
            assert_eq!(shares.take(full).unwrap_err(), own);
        }
        assert!(shares.take(&other).is_ok());
        drop(kept);
        assert!(shares.taken().is_empty() && shares.take(&one).is_ok());
        let few = Quotas::new(QuotaKind::Answers, 1);
        assert!(few.take(&one).is_ok(), "at least one");
    }
}
