//! Shares of what there is for all callers: a quarter for each, so that no one of them can take
//! everything from the others.
//!
//! Callers that nobody tells apart have one share together. Deliberately absent: the whole, which is
//! counted where it is given out; and queues: who has had its share is told so at once.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scarce {
    /// Places of an upstream for calls that wait for answers of their callers.
    Answers,
    /// Places of the gateway for such calls of callers without sessions.
    Inputs,
    /// Resources of an upstream that are watched.
    Watches,
    /// Tasks that are watched.
    Tasks,
    /// Keys of what is done once (`idempotent`).
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

/// There is nothing left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exhausted {
    /// For this caller.
    #[error("{most} {what} for this caller already, no more are allowed for one{}", .what.remedy())]
    Own {
        /// Of what.
        what: Scarce,
        /// How many one may have.
        most: usize,
    },
    /// For anybody.
    #[error("{most} {what} already, no more are allowed{}", .what.remedy())]
    All {
        /// Of what.
        what: Scarce,
        /// How many there may be.
        most: usize,
    },
}

impl Exhausted {
    /// Of what there is nothing left.
    pub fn what(&self) -> Scarce {
        let (Self::Own { what, .. } | Self::All { what, .. }) = self;
        *what
    }
}

/// Who has a share; nobody stands for all that are not told apart.
pub(crate) type Principal = Option<Arc<str>>;

/// What each principal has of one thing.
#[derive(Debug)]
pub(crate) struct Shares {
    what: Scarce,
    each: usize,
    taken: Mutex<HashMap<Principal, usize>>,
}

/// A part of a caller's share, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<Shares>,
    principal: Principal,
    count: usize,
}

impl Shares {
    /// For each a quarter of all that there are, and at least one.
    pub(crate) fn quarters(what: Scarce, all: usize) -> Arc<Self> {
        Arc::new(Self { what, each: (all / 4).max(1), taken: Mutex::default() })
    }

    /// Takes one for a principal.
    pub(crate) fn take(self: &Arc<Self>, principal: &Principal) -> Result<Share, Exhausted> {
        self.take_many(principal, 1)
    }

    /// Takes `count` units for a principal, or none.
    pub(crate) fn take_many(
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
