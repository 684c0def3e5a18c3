//! Fair shares of limited resources: one caller gets at most a quarter, so that it cannot exhaust
//! them for the others.
//!
//! All unauthenticated callers share one quota. A caller that exceeds its quota is rejected
//! immediately; requests are not queued. The owner of a resource enforces its total.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A limited resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scarce {
    /// Calls of one upstream that wait for answers of their callers.
    Answers,
    /// Calls of callers without sessions that wait for input.
    Inputs,
    /// Watched resources of one upstream.
    Watches,
    /// Watched tasks.
    Tasks,
    /// Keys of idempotent steps.
    Keys,
    /// Requests of sessions that continue without a connection.
    Detached,
    /// Bytes of events that are kept for clients that reconnect.
    Events,
    /// Memory for requests and results.
    Buffers,
    /// Sessions of legacy clients.
    Sessions,
    /// Event streams.
    Streams,
}

impl fmt::Display for Scarce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answers => "calls of this server wait for answers",
            Self::Inputs => "calls wait for input",
            Self::Watches => "resources of this server are watched",
            Self::Tasks => "tasks are watched",
            Self::Keys => "keys of what is done once are remembered",
            Self::Detached => "requests continue without a connection",
            Self::Events => "bytes of events are kept",
            Self::Buffers => "bytes of requests and results are buffered",
            Self::Sessions => "sessions are in use",
            Self::Streams => "event streams are open",
        })
    }
}

impl Scarce {
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

/// An exhausted resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exhausted {
    /// The share of the caller is used up.
    #[error("{most} {what} for this caller already, no more are allowed for one{}", .what.remedy())]
    Own {
        /// The resource.
        what: Scarce,
        /// The share of one caller.
        most: usize,
    },
    /// The total is used up.
    #[error("{most} {what} already, no more are allowed{}", .what.remedy())]
    All {
        /// The resource.
        what: Scarce,
        /// The total.
        most: usize,
    },
}

impl Exhausted {
    /// The resource.
    pub fn what(&self) -> Scarce {
        let (Self::Own { what, .. } | Self::All { what, .. }) = self;
        *what
    }
}

/// The owner of a share. `None`: all unauthenticated callers together.
pub type Principal = Option<Arc<str>>;

/// The shares of one resource.
#[derive(Debug)]
pub struct Shares {
    what: Scarce,
    each: usize,
    taken: Mutex<HashMap<Principal, usize>>,
}

/// A part of a caller's share; released when it is dropped.
#[derive(Debug)]
pub struct Share {
    of: Arc<Shares>,
    principal: Principal,
    count: usize,
}

impl Shares {
    /// Creates shares of a quarter of the total, at least one unit.
    pub fn quarters(what: Scarce, all: usize) -> Arc<Self> {
        Arc::new(Self { what, each: (all / 4).max(1), taken: Mutex::default() })
    }

    /// Takes one unit for a principal.
    pub fn take(self: &Arc<Self>, principal: &Principal) -> Result<Share, Exhausted> {
        self.take_many(principal, 1)
    }

    /// Takes `count` units for a principal, or none.
    pub fn take_many(
        self: &Arc<Self>,
        principal: &Principal,
        count: usize,
    ) -> Result<Share, Exhausted> {
        let mut taken = self.taken();
        let had = taken.get(principal).copied().unwrap_or_default();
        if had + count > self.each {
            return Err(Exhausted::Own { what: self.what, most: self.each });
        }
        taken.insert(principal.clone(), had + count);
        Ok(Share { of: Arc::clone(self), principal: principal.clone(), count })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<Principal, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.of.taken();
        let Some(count) = taken.get_mut(&self.principal) else { return };
        *count -= self.count;
        if *count == 0 {
            taken.remove(&self.principal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_of_full_buffers_names_the_setting() {
        let what = Scarce::Buffers;
        for full in [Exhausted::Own { what, most: 1 }, Exhausted::All { what, most: 1 }] {
            assert!(full.to_string().ends_with("; an operator can raise limits.bufferedBytes"));
        }
    }

    #[test]
    fn nobody_takes_more_than_a_quarter_and_nothing_is_remembered_of_who_has_none() {
        let shares = Shares::quarters(Scarce::Watches, 8);
        let [one, other, nobody] = [Some(Arc::from("a")), Some(Arc::from("b")), None];
        let kept: Vec<_> =
            [&one, &one, &other, &nobody, &nobody].map(|who| shares.take(who).unwrap()).into();
        for full in [&one, &nobody] {
            let own = Exhausted::Own { what: Scarce::Watches, most: 2 };
            assert_eq!(shares.take(full).unwrap_err(), own);
        }
        assert!(shares.take(&other).is_ok());
        drop(kept);
        assert!(shares.taken().is_empty() && shares.take(&one).is_ok());
        let few = Shares::quarters(Scarce::Answers, 1);
        assert!(few.take(&one).is_ok(), "at least one");
    }
}
