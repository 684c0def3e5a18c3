//! Updates the content of a scope while it has followers.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use registry_core::{Digest, Revision, Scope, scoped_catalog::ScopedCatalog};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use super::{
    super::{Hub, ScopeSignature, SignedState, sessions::lock},
    Cell, Channels, ScopeChannel, ScopeState, is_followed, run_blocking,
};

/// Interval between new revisions without a change of the scope.
const UNCHANGED_INTERVAL: Duration = Duration::from_secs(1);
/// Time that a scope without followers stays open, for followers that reconnect.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);
/// The same in a connected relay, whose registry signs a limited number of scopes.
const IDLE_TIMEOUT_RELAY: Duration = Duration::from_secs(30);
/// The same in a disconnected relay, which cannot get the signatures again.
const IDLE_TIMEOUT_DISCONNECTED: Duration = Duration::from_hours(24);
/// Interval between checks for followers.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Time that a relay waits for the signature of a state. Longer than the delay between its reconnects.
const SIGNATURE_TIMEOUT: Duration = Duration::from_secs(40);
/// The registry counts as connected if the last contact is at most this old.
const CONNECTED_AGE: Duration = Duration::from_secs(20);
/// Entities above which updates run on the blocking pool.
const BLOCKING_ENTITIES: usize = 500;

/// Entry of a scope in the map of channels. Dropping it removes the entry, so that followers reconnect to a new
/// updater.
pub(super) struct ChannelEntry {
    pub(super) channels: Channels,
    pub(super) scope: Scope,
    pub(super) channel: Arc<ScopeChannel>,
}

impl ChannelEntry {
    fn holds(&self, cell: &Cell) -> bool {
        cell.get().is_some_and(|channel| Arc::ptr_eq(channel, &self.channel))
    }
}

impl Drop for ChannelEntry {
    fn drop(&mut self) {
        let mut channels = lock(&self.channels);
        if channels.get(&self.scope).is_some_and(|cell| self.holds(cell)) {
            channels.remove(&self.scope);
        }
    }
}

/// Updates one scope.
pub(super) struct ScopeUpdater {
    pub(super) entry: ChannelEntry,
    pub(super) state: watch::Sender<Arc<ScopeState>>,
    pub(super) part: ScopedCatalog,
    /// Content digest of the part.
    pub(super) content: Digest,
    pub(super) head: watch::Receiver<Revision>,
    /// Upstream signatures, in a relay. Only signed states are published.
    pub(super) signatures: Option<watch::Receiver<ScopeSignature>>,
    pub(super) hub: Weak<Hub>,
    /// Time since which the current state is not signed.
    pub(super) unsigned_since: Option<Instant>,
}

impl ScopeUpdater {
    /// Runs until the scope has had no followers for a while, or the server stops.
    pub(super) async fn run(mut self) {
        let mut publish_at: Option<Instant> = None;
        let mut idle_since: Option<Instant> = None;
        loop {
            tokio::select! {
                changed = self.head.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    if self.advance().await {
                        publish_at = None;
                    } else {
                        publish_at = publish_at.or_else(|| Some(Instant::now() + UNCHANGED_INTERVAL));
                    }
                }
                () = sleep_until_some(publish_at) => {
                    publish_at = None;
                    self.publish();
                }
                () = changed(&mut self.signatures) => self.publish(),
                () = sleep_until_some(self.unsigned_since.map(|since| since + SIGNATURE_TIMEOUT)) => self.publish_unsigned(),
                () = sleep(CHECK_INTERVAL) => self.entry.channel.clear_deltas(),
            }
            if self.is_idle(&mut idle_since) {
                return;
            }
        }
    }

    /// Whether the scope has no followers any longer; removes it then.
    fn is_idle(&self, since: &mut Option<Instant>) -> bool {
        let mut channels = lock(&self.entry.channels);
        let own = channels.get(&self.entry.scope).filter(|cell| self.entry.holds(cell));
        let Some(cell) = own else { return true };
        if is_followed(cell) {
            *since = None;
        } else if since.get_or_insert_with(Instant::now).elapsed() > self.idle_timeout() {
            channels.remove(&self.entry.scope);
            return true;
        }
        false
    }

    /// Advances to the head. Returns whether the content changed.
    async fn advance(&mut self) -> bool {
        self.head.borrow_and_update();
        let Some(hub) = self.hub.upgrade() else { return false };
        let source = hub.catalog();
        let changed = hub.changed_since(self.part.source(), &source);
        let mut part = self.part.clone();
        let advance = move || {
            let is_touched = part.advance(&source, changed.as_deref());
            let content = is_touched.then(|| part.catalog().content_digest());
            (part, content)
        };
        let is_big = self.part.catalog().len() >= BLOCKING_ENTITIES;
        let (part, content) = if is_big { run_blocking(advance).await } else { advance() };
        self.part = part;
        self.content = content.unwrap_or(self.content);
        let has_changed = self.state.borrow().content != self.content;
        if has_changed {
            self.publish();
        }
        has_changed
    }

    /// Publishes the current state. A relay publishes the latest signed state.
    fn publish(&mut self) {
        let Some(hub) = self.hub.upgrade() else { return };
        let mut catalog = self.part.catalog().clone();
        if let Some(signatures) = &mut self.signatures {
            let signed =
                signatures.borrow_and_update().signed.clone().filter(|w| w.content == self.content);
            let Some(SignedState { position: (revision, chain), attestation, .. }) = signed else {
                self.unsigned_since.get_or_insert_with(Instant::now);
                return;
            };
            if revision < self.state.borrow().revision() {
                return;
            }
            let is_behind = revision < self.part.catalog().revision();
            self.unsigned_since =
                is_behind.then(|| self.unsigned_since.unwrap_or_else(Instant::now));
            catalog = catalog.at(revision, chain).with_attestation(Some(attestation));
        }
        self.send(ScopeState::new(catalog, self.content, hub.signer()));
    }

    /// Publishes an unsigned state in a relay that is connected but receives no signatures of this scope.
    /// Followers without a pinned key accept it.
    fn publish_unsigned(&mut self) {
        self.unsigned_since = Some(Instant::now());
        let Some(hub) = self.hub.upgrade() else { return };
        let is_newer = self.part.catalog().revision() > self.state.borrow().revision();
        if !is_newer || hub.signer().age() > CONNECTED_AGE {
            return;
        }
        tracing::warn!(scope = %self.entry.scope, "no signature of a scope from the upstream registry; sending unsigned states, which followers with a pinned key reject");
        self.send(ScopeState::new(self.part.catalog().clone(), self.content, hub.signer()));
    }

    fn send(&self, state: Arc<ScopeState>) {
        self.entry.channel.remember(state.clone());
        self.state.send_replace(state);
    }

    /// Time that the scope stays open without followers.
    fn idle_timeout(&self) -> Duration {
        let is_connected = self.hub.upgrade().is_none_or(|hub| hub.signer().age() < CONNECTED_AGE);
        match (&self.signatures, is_connected) {
            (None, _) => IDLE_TIMEOUT,
            (Some(_), true) => IDLE_TIMEOUT_RELAY,
            // The signatures are not available again while the registry is unreachable.
            (Some(_), false) => IDLE_TIMEOUT_DISCONNECTED,
        }
    }
}

/// Completes at the next signature; never completes without an upstream.
async fn changed(signatures: &mut Option<watch::Receiver<ScopeSignature>>) {
    if let Some(signatures) = signatures
        && signatures.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

async fn sleep_until_some(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
