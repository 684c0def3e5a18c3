//! Waiting until one caller's list differs from what it saw last.
//!
//! Deliberately absent: telling the caller.

use std::{future::pending, sync::Arc, time::Duration};

use registry_core::Catalog;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::super::{Endpoint, Rejection};
use crate::{
    audit::{Gauge, Held},
    freshness::Verdict,
    identity::{ClientInfo, HeaderClaim},
    permit,
    upstream::Definitions,
};

/// Changes in quick succession are told once.
const QUIET: Duration = Duration::from_millis(100);

/// Watches one caller's list.
pub(super) struct Watcher {
    endpoint: Arc<Endpoint>,
    claim: HeaderClaim,
    client: Option<Arc<ClientInfo>>,
    seen: u64,
    catalog: watch::Receiver<Arc<Catalog>>,
    definitions: watch::Receiver<Arc<Definitions>>,
    _permit: OwnedSemaphorePermit,
    _held: Held,
}

impl Watcher {
    /// Begins to watch; the number of watchers is bounded.
    pub(super) fn new(
        endpoint: &Arc<Endpoint>,
        claim: HeaderClaim,
        client: Option<Arc<ClientInfo>>,
    ) -> Result<Self, Rejection> {
        let limit = endpoint.most_streams;
        let permit = endpoint.streams.clone().try_acquire_owned();
        let permit = permit.map_err(|_| Rejection::TooManyStreams { limit })?;
        let (catalog, definitions) = endpoint.gateway.views().subscribe();
        let mut watcher = Self {
            endpoint: endpoint.clone(),
            claim,
            client,
            seen: 0,
            catalog,
            definitions,
            _permit: permit,
            _held: Gauge::Streams.hold(),
        };
        watcher.mark_seen();
        watcher.seen = watcher.fingerprint().0;
        Ok(watcher)
    }

    pub(super) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// Compares with what the caller saw earlier, if that is known.
    pub(super) fn compare_with(&mut self, seen: Option<u64>) {
        self.seen = seen.unwrap_or(self.seen);
    }

    fn mark_seen(&mut self) {
        self.catalog.mark_unchanged();
        self.definitions.mark_unchanged();
    }

    /// What the list is known by, and the verdict on the catalog's age that it depends on.
    fn fingerprint(&self) -> (u64, Verdict) {
        let gateway = &self.endpoint.gateway;
        let verdict = gateway.watchman().look().verdict;
        let snapshot = gateway.views().now();
        let caller = gateway.identify(&snapshot, &self.claim, self.client.clone());
        let audience = permit::audience(gateway.policy(), &caller);
        (gateway.views().of(&snapshot, &audience).at(verdict).fingerprint(), verdict)
    }

    /// Resolves when the list differs from what was seen last. May be dropped and called again.
    pub(super) async fn changed(&mut self) {
        loop {
            let (current, verdict) = self.fingerprint();
            if current != self.seen {
                self.seen = current;
                return;
            }
            let watchman = self.endpoint.gateway.watchman();
            tokio::select! {
                Ok(()) = self.catalog.changed() => {}
                Ok(()) = self.definitions.changed() => {}
                () = watchman.other_than(verdict) => {}
                // Sources that have ended change no more.
                else => pending().await,
            }
            tokio::time::sleep(QUIET).await;
            // Marked before the next look, so that a change after it is not lost.
            self.mark_seen();
        }
    }
}
