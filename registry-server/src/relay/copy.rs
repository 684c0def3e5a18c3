//! The relay's copy of the log: every commit, proved, stored as it is, and published with the
//! registry's signature.
//!
//! Deliberately absent: snapshots; a copy of the log has all of it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use registry_core::{Attestation, Catalog, Revision, SealedCommit};
use registry_follow::{Follow, Heard, News, Refusal, Taken};
use registry_proto::{
    convert::{CacheState, Position, chain_hash, sealed_commit},
    v1::{Ack, Delta, Hello, Progress, SyncResponse, Welcome, sync_response::Message},
};

use super::Relay;
use crate::{feed::Hub, registrar::Importer, store::Store};

/// Commits that are stored together, where the registry has not signed for one before.
const COMMITS: usize = 256;
/// Bytes of such commits.
const BYTES: usize = 8 << 20;
/// How often a signature is kept while nothing else happens.
const KEEP: Duration = Duration::from_secs(5);

/// The relay as a follower.
pub(super) struct Copy {
    relay: Relay,
    hub: Arc<Hub>,
    store: Store,
    importer: Importer,
    /// The state after all that has come.
    ahead: Catalog,
    /// What of it is yet to be stored.
    waiting: Vec<SealedCommit>,
    waiting_bytes: usize,
    kept_at: Option<Instant>,
}

/// What a relay says first: it wants all of history after a position.
pub(super) fn hello(name: &str, position: Option<&Position>) -> Hello {
    Hello {
        gateway: name.to_owned(),
        gateway_version: env!("CARGO_PKG_VERSION").to_owned(),
        position: position.map(Into::into),
        history: true,
        ..Hello::default()
    }
}

impl Copy {
    pub(super) fn new(relay: Relay, (hub, store): (Arc<Hub>, Store), importer: Importer) -> Self {
        let ahead = (*hub.catalog()).clone();
        let (waiting, waiting_bytes, kept_at) = (Vec::new(), 0, None);
        Self { relay, hub, store, importer, ahead, waiting, waiting_bytes, kept_at }
    }

    fn refused(&self, message: &dyn ToString) -> Refusal {
        Refusal::new(self.next_revision(), message)
    }

    fn welcome(&self, Welcome { key }: &Welcome) -> Result<Taken, Refusal> {
        if *key == self.relay.key().to_string() {
            return Ok(Taken::Part);
        }
        let message =
            format!("it is known by the key {key}, this relay follows {}", self.relay.key());
        Err(Refusal { is_final: true, ..self.refused(&message) })
    }

    async fn delta(&mut self, delta: Delta, signed: Option<Attestation>) -> Result<Taken, Refusal> {
        let sealed = sealed_commit(&self.ahead.chain(), delta).map_err(|e| self.refused(&e))?;
        let mut next = self.ahead.clone();
        next.apply(&sealed).map_err(|e| self.refused(&e))?;
        self.ahead = next;
        let documents = sealed.documents().iter().map(|document| document.bytes().len());
        self.waiting_bytes += sealed.bytes().len() + documents.sum::<usize>();
        self.waiting.push(sealed);
        if signed.is_some() {
            return self.arrived(signed).await;
        }
        if self.waiting.len() >= COMMITS || self.waiting_bytes >= BYTES {
            self.import().await?;
        }
        Ok(Taken::Part)
    }

    async fn progress(
        &mut self,
        Progress { revision, chain, .. }: Progress,
        signed: Option<Attestation>,
    ) -> Result<Taken, Refusal> {
        let chain = chain_hash(&chain).map_err(|e| self.refused(&e))?;
        if (Revision(revision), chain) != (self.ahead.revision(), self.ahead.chain()) {
            let held = self.ahead.revision();
            let message = format!(
                "nothing new up to revision {revision}, but {held} is held, or another one"
            );
            return Err(self.refused(&message));
        }
        self.arrived(signed).await
    }

    /// The registry has signed the state after all that has come.
    async fn arrived(&mut self, signed: Option<Attestation>) -> Result<Taken, Refusal> {
        let key = self.relay.key();
        let signed =
            signed.ok_or_else(|| self.refused(&"a state without the registry's signature"))?;
        if let Err(e) = signed.verify(&self.ahead, key) {
            return Err(Refusal { is_final: true, ..self.refused(&e) });
        }
        self.ahead = self.ahead.clone().attested(Some(signed));
        let is_new = !self.waiting.is_empty();
        if is_new {
            self.import().await?;
        } else {
            self.hub.renew(self.ahead.clone());
        }
        self.keep(signed, is_new).await;
        Ok(if is_new { Taken::Applied } else { Taken::Current })
    }

    /// Stores what waits, and publishes the state after it.
    async fn import(&mut self) -> Result<(), Refusal> {
        let commits = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        let imported = self.importer.import(self.ahead.clone(), commits).await;
        imported.map_err(|e| self.refused(&format!("the relay cannot store it: {e}")))
    }

    /// Remembers the signature for a start without the registry.
    async fn keep(&mut self, signed: Attestation, is_new: bool) {
        if !is_new && self.kept_at.is_some_and(|at| at.elapsed() < KEEP) {
            return;
        }
        self.kept_at = Some(Instant::now());
        if let Err(error) = self.store.keep_attestation(self.ahead.revision(), &signed).await {
            tracing::warn!(%error, "the registry's signature was not kept");
        }
    }
}

impl Follow for Copy {
    fn hello(&mut self) -> Hello {
        self.ahead = (*self.hub.catalog()).clone();
        self.waiting.clear();
        self.waiting_bytes = 0;
        hello(&self.relay.name, Some(&Position::of(&self.ahead)))
    }

    async fn take(
        &mut self,
        SyncResponse { message, attestation }: SyncResponse,
    ) -> Result<Taken, Refusal> {
        let signed = attestation.map(Attestation::try_from).transpose();
        let signed = signed.map_err(|e| self.refused(&e))?;
        match message {
            Some(Message::Welcome(welcome)) => self.welcome(&welcome),
            Some(Message::Delta(delta)) => self.delta(delta, signed).await,
            Some(Message::Progress(progress)) => self.progress(progress, signed).await,
            _ => Err(self.refused(&"not a commit, and a relay wants every one; is the registry older than this relay?")),
        }
    }

    fn next_revision(&self) -> Revision {
        self.ahead.revision().next()
    }

    fn ack(&mut self) -> Ack {
        let (cache_state, cache_problem) = CacheState::Ok.into_fields();
        let revision = self.hub.catalog().revision().0;
        Ack { applied_revision: revision, persisted_revision: revision, cache_state, cache_problem }
    }

    async fn news(&mut self) -> News {
        std::future::pending().await
    }

    fn heard(&mut self, heard: Heard<'_>) {
        self.relay.note(heard);
    }
}
