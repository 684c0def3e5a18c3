//! A follower's seat: what it has been told, and what it has said of itself.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use registry_core::{
    Revision, Scope, Timestamp,
    follower::{CacheState, Nack},
};

use super::{Shared, load, lock, refusals};
use crate::{
    feed::{Error, Signal, changes::Mark},
    store::{GatewayQuery, Presence},
};

/// How often the refusals of one stream are logged at most.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// How much of a scope is shown.
const SCOPE_CHARACTERS: usize = 1_000;

/// A follower's place on the roster; when the last clone goes, so does the follower.
#[derive(Debug)]
pub(in crate::feed) struct Seat {
    pub(super) number: u64,
    pub(super) shared: Arc<Shared>,
    pub(super) state: Arc<State>,
}

/// One follower.
#[derive(Debug)]
pub(in crate::feed) struct State {
    pub(super) gateway: String,
    pub(super) gateway_version: String,
    pub(super) principal: Arc<str>,
    pub(super) address: Option<SocketAddr>,
    pub(super) is_observer: bool,
    pub(super) connected_at: Timestamp,
    pub(super) sent: AtomicU64,
    pub(super) applied: AtomicU64,
    pub(super) persisted: AtomicU64,
    pub(super) said: Mutex<Said>,
    pub(super) left_at: OnceLock<Timestamp>,
    pub(in crate::feed) mark: Mark,
}

/// What else it says of itself.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// What it follows, for people.
    pub(super) scope: String,
    pub(super) cache: CacheState,
    pub(super) nack: Option<Nack>,
    /// When a refusal was logged last.
    pub(super) logged_at: Option<Instant>,
    /// How many were not logged since, because they came too fast.
    pub(super) unlogged: u64,
}

impl Seat {
    /// The follower has come back with what it had.
    pub(in crate::feed) fn resumed(&self, revision: Revision) {
        self.sent(revision);
        self.state.applied.store(revision.0, Ordering::Relaxed);
        let mut said = lock(&self.state.said);
        if said.nack.as_ref().is_some_and(|nack| nack.revision <= revision) {
            said.nack = None;
            lock(&self.shared.refused).remove(&self.state.refusal_key());
        }
    }

    pub(in crate::feed) fn sent(&self, revision: Revision) {
        self.state.sent.store(revision.0, Ordering::Relaxed);
    }

    pub(in crate::feed) fn note(&self, signal: Signal) -> Result<(), Error> {
        match signal {
            Signal::Ack { applied, persisted, cache } => {
                self.acknowledged(applied, persisted, cache)?;
            }
            Signal::Nack(nack) => self.refused(&nack),
            Signal::Scope(scope) => lock(&self.state.said).scope = shown(&scope),
        }
        if !self.state.is_observer {
            self.shared.changes.said(&self.state);
        }
        Ok(())
    }

    fn acknowledged(
        &self,
        applied: Revision,
        persisted: Revision,
        cache: CacheState,
    ) -> Result<(), Error> {
        let sent = load(&self.state.sent);
        let acknowledged = applied.max(persisted);
        if acknowledged > sent {
            return Err(Error::NotSent { acknowledged, sent });
        }
        let before = self.state.applied.swap(applied.0, Ordering::Relaxed);
        self.state.persisted.store(persisted.0, Ordering::Relaxed);
        let mut said = lock(&self.state.said);
        said.cache = cache;
        // What is only on its disk by now changes nothing about a refusal.
        if applied.0 > before && said.nack.take().is_some() {
            lock(&self.shared.refused).remove(&self.state.refusal_key());
        }
        Ok(())
    }

    fn refused(&self, nack: &Nack) {
        // It serves nobody, and may bear the name of a gateway or relay that refuses nothing.
        if self.state.is_observer {
            tracing::debug!(
                observer = self.state.gateway,
                revision = nack.revision.0,
                reason = nack.message,
                "an observer refused a revision"
            );
            return;
        }
        crate::metrics::nack();
        lock(&self.shared.refused).insert(self.state.refusal_key(), nack.clone());
        let Some(unlogged) = lock(&self.state.said).refused(nack, Instant::now()) else { return };
        tracing::warn!(
            gateway = self.state.gateway,
            revision = nack.revision.0,
            reason = nack.message,
            unlogged,
            "a gateway refused a revision and keeps what it has"
        );
    }
}

impl Said {
    /// Notes a refusal. Where it is to be logged: how many were not before it. A gateway asks again and
    /// again; one line says so.
    fn refused(&mut self, nack: &Nack, now: Instant) -> Option<u64> {
        let before = self.nack.replace(nack.clone());
        if before.is_some_and(|before| before.revision == nack.revision) {
            return None;
        }
        if self.logged_at.is_some_and(|at| now.duration_since(at) < LOG_INTERVAL) {
            self.unlogged += 1;
            return None;
        }
        self.logged_at = Some(now);
        Some(std::mem::take(&mut self.unlogged))
    }
}

/// A scope for people: as much of it as they may want to read.
pub(super) fn shown(scope: &Scope) -> String {
    let mut text = scope.to_string();
    if let Some((end, _)) = text.char_indices().nth(SCOPE_CHARACTERS) {
        text.truncate(end);
        text.push('…');
    }
    text
}

impl Drop for Seat {
    fn drop(&mut self) {
        let _ = self.state.left_at.set(self.shared.clock.now());
        // At every moment it is somewhere.
        self.shared.moved(&self.state);
        lock(&self.shared.seats).remove(&self.number);
    }
}

impl State {
    /// Its name and principal.
    pub(in crate::feed) fn key(&self) -> (String, String) {
        (self.gateway.clone(), self.principal.to_string())
    }

    fn refusal_key(&self) -> refusals::Name {
        (self.gateway.clone(), self.principal.clone())
    }

    /// Where it is in a list, after what else is known of its name and principal.
    pub(super) fn place(&self, number: u64) -> (&str, &str, u64) {
        (&self.gateway, &self.principal, number + 1)
    }

    pub(super) fn fits(
        &self,
        GatewayQuery { prefix, behind, presence, .. }: &GatewayQuery,
    ) -> bool {
        let is = if self.left_at.get().is_some() { Presence::Gone } else { Presence::Connected };
        !self.is_observer
            && self.gateway.starts_with(prefix)
            && behind.is_none_or(|behind| load(&self.applied) < behind)
            && presence.is_none_or(|presence| presence == is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_logged_once_a_revision_and_not_too_often() {
        let (mut said, begin) = (Said::default(), Instant::now());
        let mut refused = |revision, after| {
            let revision = Revision(revision);
            let nack = Nack { revision, message: String::new(), diagnostics: Vec::new() };
            said.refused(&nack, begin + after)
        };
        assert_eq!(refused(2, Duration::ZERO), Some(0));
        assert_eq!(refused(2, LOG_INTERVAL), None, "it was logged");
        for revision in 3..1_000 {
            assert_eq!(refused(revision, LOG_INTERVAL / 2), None);
        }
        assert_eq!(refused(1, LOG_INTERVAL), Some(997));
        assert_eq!(refused(2, LOG_INTERVAL * 2), Some(0));
    }
}
