//! Scopes with followers. The content of a scope is computed once for all of its followers.
//!
//! A task updates the content of each scope. It publishes changes immediately, and new revisions without a
//! change at most once per second.

mod updater;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use registry_core::{Attestation, Catalog, Digest, Revision, Scope, scoped_catalog::ScopedCatalog};
use tokio::{
    sync::{OnceCell, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use self::updater::{ChannelEntry, ScopeUpdater};
use super::{
    Error, Hub, ScopeSignature, SharedMessage, StateSigner,
    scope_delta::ScopeDelta,
    scope_quotas::{OpeningPermits, ScopeOpening},
    sessions::lock,
    shared_message::LastHeartbeat,
    snapshot::Snapshot,
    stage_limits::StageLimit,
};

/// Time that a relay waits for the upstream signature of a new scope.
const SIGNATURE_TIMEOUT: Duration = Duration::from_secs(5);
/// Earlier states of a scope kept for followers that reconnect.
const MAX_RECENT_STATES: usize = 64;
/// Deltas kept for sharing.
const SHARED_DELTAS: usize = 4;

/// All scopes with followers.
pub(super) struct ScopeChannels {
    channels: Channels,
    limit: usize,
}

type Cell = Arc<OnceCell<Arc<ScopeChannel>>>;
type Channels = Arc<Mutex<HashMap<Scope, Cell>>>;

/// A scope with followers.
pub(super) struct ScopeChannel {
    /// Current state; closed when the updater stops.
    now: watch::Receiver<Arc<ScopeState>>,
    /// Upstream signatures of the scope, in a relay.
    signatures: Option<watch::Receiver<ScopeSignature>>,
    /// Latest states with different contents, oldest first; the last one is current.
    recent: Mutex<VecDeque<Arc<ScopeState>>>,
    deltas: Mutex<VecDeque<Arc<SharedMessage<ScopeDelta>>>>,
    pub(super) last_heartbeat: LastHeartbeat,
}

/// Content of a scope at a revision.
pub(super) struct ScopeState {
    pub(super) catalog: Arc<Catalog>,
    pub(super) content: Digest,
    attestation: Mutex<Option<Attestation>>,
    snapshot: OnceCell<Arc<Snapshot>>,
}

impl ScopeState {
    fn new(catalog: Catalog, content: Digest, signer: &StateSigner) -> Arc<Self> {
        let catalog = Arc::new(signer.sign(catalog));
        let attestation = Mutex::new(catalog.attestation().copied());
        Arc::new(Self { catalog, content, attestation, snapshot: OnceCell::new() })
    }

    /// Signature of the state; renewed while it is the latest state.
    pub(super) fn attestation(&self, hub: &Hub) -> Option<Attestation> {
        let mut attestation = lock(&self.attestation);
        if hub.catalog().revision() == self.revision() {
            let state = (*self.catalog).clone().with_attestation(*attestation);
            if !hub.signer().is_fresh(&state) {
                *attestation = hub.signer().sign(state).attestation().copied();
            }
        }
        *attestation
    }

    pub(super) fn revision(&self) -> Revision {
        self.catalog.revision()
    }

    /// Snapshot of the state, shared by followers.
    pub(super) async fn snapshot(&self) -> Arc<Snapshot> {
        let taken = || async { Arc::new(Snapshot::take(self.catalog.clone()).await) };
        self.snapshot.get_or_init(taken).await.clone()
    }
}

impl ScopeChannels {
    pub(super) fn new(limit: usize) -> Self {
        Self { channels: Arc::default(), limit }
    }

    /// Returns the channel of a scope, and opens the scope if it has no followers yet. Dropping the future cancels
    /// the work.
    pub(super) async fn channel(
        &self,
        scope: Scope,
        hub: &Arc<Hub>,
        (opening, limit): (ScopeOpening, &StageLimit),
    ) -> Result<Arc<ScopeChannel>, Error> {
        let cell = {
            let mut channels = lock(&self.channels);
            if channels.len() >= self.limit && !channels.contains_key(&scope) {
                channels.retain(|_, cell| is_followed(cell));
            }
            if channels.len() >= self.limit && !channels.contains_key(&scope) {
                return Err(Error::TooManyScopes { limit: self.limit });
            }
            channels.entry(scope.clone()).or_default().clone()
        };
        let channel = if let Some(channel) = cell.get() {
            channel.clone()
        } else {
            // Outside of the cell, so that a caller without a permit does not delay others.
            let caller_permit = opening.acquire_caller().await;
            let open = || self.open(scope, hub, caller_permit.acquire_server(limit));
            cell.get_or_init(open).await.clone()
        };
        // After a timeout in a relay, followers without a pinned key are served unsigned states.
        let mut now = channel.watch();
        let signed = now.wait_for(|state| state.catalog.attestation().is_some());
        tokio::select! {
            biased;
            _ = timeout(SIGNATURE_TIMEOUT, signed) => {}
            reason = rejection(channel.signatures.clone()) => {
                return Err(Error::UpstreamScopeLimit { reason });
            }
        }
        Ok(channel)
    }

    /// Computes the content of a scope and starts its updater.
    async fn open(
        &self,
        scope: Scope,
        hub: &Arc<Hub>,
        permit: impl Future<Output = OpeningPermits>,
    ) -> Arc<ScopeChannel> {
        let permit = permit.await;
        let (head, catalog) = (hub.watch(), hub.catalog());
        let part = part(&scope, catalog, permit).await;
        let signatures = hub.signer().scope_signatures(&scope);
        let (channel, sender) = ScopeChannel::new(&part, hub.signer(), signatures.clone());
        let entry =
            ChannelEntry { channels: self.channels.clone(), scope, channel: channel.clone() };
        let content = sender.borrow().content;
        let hub = Arc::downgrade(hub);
        tokio::spawn(
            ScopeUpdater {
                entry,
                state: sender,
                part,
                content,
                head,
                signatures,
                hub,
                unsigned_since: None,
            }
            .run(),
        );
        channel
    }

    /// Number of open scopes.
    pub(super) fn len(&self) -> usize {
        lock(&self.channels).len()
    }
}

impl ScopeChannel {
    fn new(
        part: &ScopedCatalog,
        signer: &StateSigner,
        signatures: Option<watch::Receiver<ScopeSignature>>,
    ) -> (Arc<Self>, watch::Sender<Arc<ScopeState>>) {
        let content = part.catalog().content_digest();
        let state = ScopeState::new(part.catalog().clone(), content, signer);
        let (sender, now) = watch::channel(state.clone());
        let recent = Mutex::new(VecDeque::from([state]));
        let (deltas, last_heartbeat) = (Mutex::default(), LastHeartbeat::default());
        (Arc::new(Self { now, signatures, recent, deltas, last_heartbeat }), sender)
    }

    /// Watches the current state.
    pub(super) fn watch(&self) -> watch::Receiver<Arc<ScopeState>> {
        self.now.clone()
    }

    /// Finds a recent state with this content.
    pub(super) fn find(&self, content: Digest) -> Option<Arc<ScopeState>> {
        let recent = lock(&self.recent);
        recent.iter().rev().find(|state| state.content == content).cloned()
    }

    /// Delta between two states, shared by followers that need it at the same time.
    pub(super) fn delta(
        &self,
        from: &Arc<ScopeState>,
        to: &Arc<ScopeState>,
    ) -> Arc<SharedMessage<ScopeDelta>> {
        let mut deltas = lock(&self.deltas);
        if let Some(delta) = deltas.iter().find(|delta| delta.is_between(from, to)) {
            return delta.clone();
        }
        let delta = SharedMessage::new(ScopeDelta::new(from.clone(), to.clone()));
        deltas.push_back(delta.clone());
        if deltas.len() > SHARED_DELTAS {
            deltas.pop_front();
        }
        delta
    }

    /// Drops shared deltas.
    fn clear_deltas(&self) {
        lock(&self.deltas).clear();
    }

    fn remember(&self, state: Arc<ScopeState>) {
        let mut recent = lock(&self.recent);
        match recent.back_mut() {
            Some(last) if last.content == state.content => *last = state,
            _ => recent.push_back(state),
        }
        if recent.len() > MAX_RECENT_STATES {
            recent.pop_front();
        }
    }
}

/// Completes when the upstream server rejects the scope; never completes without an upstream.
async fn rejection(signatures: Option<watch::Receiver<ScopeSignature>>) -> Arc<str> {
    if let Some(mut signatures) = signatures
        && let Ok(signature) = signatures.wait_for(|signature| signature.rejection.is_some()).await
        && let Some(reason) = &signature.rejection
    {
        return reason.clone();
    }
    std::future::pending().await
}

/// Whether anything other than the map and the updater uses the channel, or is about to.
fn is_followed(cell: &Cell) -> bool {
    Arc::strong_count(cell) > 1 || cell.get().is_some_and(|channel| Arc::strong_count(channel) > 2)
}

/// Computes the part of a catalog and its digest. Dropping the future cancels the work.
async fn part(scope: &Scope, catalog: Arc<Catalog>, permit: OpeningPermits) -> ScopedCatalog {
    let stop = CancellationToken::new();
    let _stop_with_the_future = stop.clone().drop_guard();
    let scope = Arc::new(scope.clone());
    let work = move || {
        let _permit = permit;
        let part = ScopedCatalog::select_while(scope, &catalog, || !stop.is_cancelled())?;
        // The digest is cached in the catalog, so that later calls do not block the runtime.
        part.catalog().content_digest();
        Some(part)
    };
    match run_blocking(work).await {
        Some(part) => part,
        // Not reached: the work is canceled only when this future is dropped.
        None => std::future::pending().await,
    }
}

/// Runs work on the blocking pool and propagates panics.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(e) => match e.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => std::future::pending().await,
        },
    }
}
