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
    /// Tasks that have not reported their price.
    Prices,
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
            Self::Answers => "pending questions of this server",
            Self::Inputs => "calls that wait for input",
            Self::Watches => "resource subscriptions at this server",
            Self::Tasks => "task subscriptions",
            Self::Prices => "tasks without a reported price",
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
    #[error("the limit of {limit} {kind} per caller is reached{}", .kind.remedy())]
    PerCaller {
        /// The resource.
        kind: QuotaKind,
        /// The quota of one caller.
        limit: usize,
    },
    /// The total is used up.
    #[error("the limit of {limit} {kind} is reached{}", .kind.remedy())]
    Total {
        /// The resource.
        kind: QuotaKind,
        /// The total.
        limit: usize,
    },
}

impl QuotaExceeded {
    /// The resource.
    pub fn kind(&self) -> QuotaKind {
        let (Self::PerCaller { kind, .. } | Self::Total { kind, .. }) = self;
        *kind
    }
}

/// The owner of a quota. `None`: all unauthenticated callers together.
pub type QuotaKey = Option<Arc<str>>;

/// The quotas of one resource.
#[derive(Debug)]
pub struct Quotas {
    kind: QuotaKind,
    per_caller: usize,
    taken: Mutex<HashMap<QuotaKey, usize>>,
}

/// Units of a caller's quota. Dropping the guard releases them.
#[derive(Debug)]
pub struct QuotaGuard {
    quotas: Arc<Quotas>,
    key: QuotaKey,
    count: usize,
}

impl Quotas {
    /// Creates quotas of a quarter of the total, but at least one unit.
    pub fn new(kind: QuotaKind, total: usize) -> Arc<Self> {
        Arc::new(Self { kind, per_caller: (total / 4).max(1), taken: Mutex::default() })
    }

    /// Takes one unit of a caller's quota.
    pub fn acquire(self: &Arc<Self>, key: &QuotaKey) -> Result<QuotaGuard, QuotaExceeded> {
        self.acquire_many(key, 1)
    }

    /// Takes `count` units of a caller's quota, or none.
    pub fn acquire_many(
        self: &Arc<Self>,
        key: &QuotaKey,
        count: usize,
    ) -> Result<QuotaGuard, QuotaExceeded> {
        let mut taken = self.taken();
        let had = taken.get(key).copied().unwrap_or_default();
        if had + count > self.per_caller {
            return Err(QuotaExceeded::PerCaller { kind: self.kind, limit: self.per_caller });
        }
        taken.insert(key.clone(), had + count);
        Ok(QuotaGuard { quotas: Arc::clone(self), key: key.clone(), count })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<QuotaKey, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QuotaGuard {
    fn drop(&mut self) {
        let mut taken = self.quotas.taken();
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
        let full = [
            QuotaExceeded::PerCaller { kind: what, limit: 1 },
            QuotaExceeded::Total { kind: what, limit: 1 },
        ];
        insta::assert_snapshot!(full.map(|full| full.to_string()).join("\n"), @"
        the limit of 1 buffered bytes of requests and results per caller is reached; an operator can raise limits.bufferedBytes
        the limit of 1 buffered bytes of requests and results is reached; an operator can raise limits.bufferedBytes
        ");
    }

    #[test]
    fn quota_is_a_quarter_and_removed_when_unused() {
        let quotas = Quotas::new(QuotaKind::Watches, 8);
        let [one, other, nobody] = [Some(Arc::from("a")), Some(Arc::from("b")), None];
        let kept: Vec<_> =
            [&one, &one, &other, &nobody, &nobody].map(|who| quotas.acquire(who).unwrap()).into();
        for full in [&one, &nobody] {
            let own = QuotaExceeded::PerCaller { kind: QuotaKind::Watches, limit: 2 };
            assert_eq!(quotas.acquire(full).unwrap_err(), own);
        }
        assert!(quotas.acquire(&other).is_ok());
        drop(kept);
        assert!(quotas.taken().is_empty() && quotas.acquire(&one).is_ok());
        let few = Quotas::new(QuotaKind::Answers, 1);
        assert!(few.acquire(&one).is_ok(), "at least one");
    }
}
