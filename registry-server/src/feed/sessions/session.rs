//! The session of one follower: the last revision sent to it, and the state that it reported.

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

use super::{SessionsInner, load, lock, rejections};
use crate::{
    feed::{Error, Signal, pending_changes::QueuedFlag},
    store::{GatewayQuery, Presence},
};

/// Minimum time between log lines about rejections of one stream.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum characters of a displayed scope.
const SCOPE_CHARACTERS: usize = 1_000;

/// A follower session; dropping the last clone ends it.
#[derive(Debug)]
pub(in crate::feed) struct FollowerSession {
    pub(super) number: u64,
    pub(super) inner: Arc<SessionsInner>,
    pub(super) state: Arc<FollowerState>,
}

/// State of a follower.
#[derive(Debug)]
pub(in crate::feed) struct FollowerState {
    pub(super) gateway: String,
    pub(super) gateway_version: String,
    pub(super) principal: Arc<str>,
    pub(super) address: Option<SocketAddr>,
    pub(super) is_observer: bool,
    pub(super) connected_at: Timestamp,
    pub(super) sent: AtomicU64,
    pub(super) applied: AtomicU64,
    pub(super) persisted: AtomicU64,
    pub(super) reports: Mutex<Reports>,
    pub(super) left_at: OnceLock<Timestamp>,
    pub(in crate::feed) queued_flag: QueuedFlag,
}

/// Reports of a follower.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Display form of its scope.
    pub(super) scope: String,
    pub(super) cache: CacheState,
    pub(super) nack: Option<Nack>,
    /// Time of the last log line about a rejection.
    pub(super) logged_at: Option<Instant>,
    /// Rejections since then that were not logged.
    pub(super) unlogged: u64,
}

impl FollowerSession {
    /// Key in the order of connections: the client's address and the number of the session.
    pub(in crate::feed) fn connection_key(&self) -> (Option<SocketAddr>, u64) {
        (self.state.address, self.number)
    }

    /// Sets the revision of a follower that reconnected.
    pub(in crate::feed) fn resumed(&self, revision: Revision) {
        self.sent(revision);
        self.state.applied.store(revision.0, Ordering::Relaxed);
        let mut reports = lock(&self.state.reports);
        if reports.nack.as_ref().is_some_and(|nack| nack.revision <= revision) {
            reports.nack = None;
            lock(&self.inner.rejected).remove(&self.state.rejection_key());
        }
    }

    pub(in crate::feed) fn sent(&self, revision: Revision) {
        self.state.sent.store(revision.0, Ordering::Relaxed);
    }

    pub(in crate::feed) fn handle(&self, signal: Signal) -> Result<(), Error> {
        match signal {
            Signal::Ack { applied, persisted, cache } => {
                self.acknowledged(applied, persisted, cache)?;
            }
            Signal::Nack(nack) => self.rejected(&nack),
            Signal::Scope(scope) => lock(&self.state.reports).scope = displayed(&scope),
        }
        if !self.state.is_observer {
            self.inner.changes.reported(&self.state);
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
            return Err(Error::InvalidAck { acknowledged, sent });
        }
        let before = self.state.applied.swap(applied.0, Ordering::Relaxed);
        self.state.persisted.store(persisted.0, Ordering::Relaxed);
        let mut reports = lock(&self.state.reports);
        reports.cache = cache;
        // A persisted revision that is not applied does not clear a rejection.
        if applied.0 > before && reports.nack.take().is_some() {
            lock(&self.inner.rejected).remove(&self.state.rejection_key());
        }
        Ok(())
    }

    fn rejected(&self, nack: &Nack) {
        // Observers serve no agents, and may use the name of a gateway that rejects nothing.
        if self.state.is_observer {
            tracing::debug!(
                observer = self.state.gateway,
                revision = nack.revision.0,
                reason = nack.message,
                "an observer rejected a revision"
            );
            return;
        }
        crate::metrics::nack();
        lock(&self.inner.rejected).insert(self.state.rejection_key(), nack.clone());
        let Some(unlogged) = lock(&self.state.reports).rejected(nack, Instant::now()) else {
            return;
        };
        tracing::warn!(
            gateway = self.state.gateway,
            revision = nack.revision.0,
            reason = nack.message,
            unlogged,
            "a gateway rejected a revision and keeps its current state"
        );
    }
}

impl Reports {
    /// Records a rejection. Returns the number of unlogged ones if it should be logged. Repeated rejections of the
    /// same revision are logged once.
    fn rejected(&mut self, nack: &Nack, now: Instant) -> Option<u64> {
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

/// Display form of a scope, truncated.
pub(super) fn displayed(scope: &Scope) -> String {
    let mut text = scope.to_string();
    if let Some((end, _)) = text.char_indices().nth(SCOPE_CHARACTERS) {
        text.truncate(end);
        text.push('…');
    }
    text
}

impl Drop for FollowerSession {
    fn drop(&mut self) {
        let _ = self.state.left_at.set(self.inner.clock.now());
        // Queued before it is removed, so that a query always finds the follower.
        self.inner.connected_or_left(&self.state);
        lock(&self.inner.sessions).remove(&self.number);
    }
}

impl FollowerState {
    /// Name and principal.
    pub(in crate::feed) fn key(&self) -> (String, String) {
        (self.gateway.clone(), self.principal.to_string())
    }

    fn rejection_key(&self) -> rejections::Name {
        (self.gateway.clone(), self.principal.clone())
    }

    /// Sort key in a list, after the stored entry of the same name and principal.
    pub(super) fn sort_key(&self, number: u64) -> (&str, &str, u64) {
        (&self.gateway, &self.principal, number + 1)
    }

    pub(super) fn matches(
        &self,
        GatewayQuery { prefix, behind, presence, .. }: &GatewayQuery,
    ) -> bool {
        let is =
            if self.left_at.get().is_some() { Presence::Disconnected } else { Presence::Connected };
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
    fn rejections_are_logged_once_per_revision() {
        let (mut reports, begin) = (Reports::default(), Instant::now());
        let mut rejected = |revision, after| {
            let revision = Revision(revision);
            let nack = Nack { revision, message: String::new(), diagnostics: Vec::new() };
            reports.rejected(&nack, begin + after)
        };
        assert_eq!(rejected(2, Duration::ZERO), Some(0));
        assert_eq!(rejected(2, LOG_INTERVAL), None, "it was logged");
        for revision in 3..1_000 {
            assert_eq!(rejected(revision, LOG_INTERVAL / 2), None);
        }
        assert_eq!(rejected(1, LOG_INTERVAL), Some(997));
        assert_eq!(rejected(2, LOG_INTERVAL * 2), Some(0));
    }
}
