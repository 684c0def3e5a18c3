//! The relay's copy of the log. Each commit is verified, then stored unchanged and published once the registry has
//! signed a later state.

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use registry_core::{Attestation, Catalog, Revision, chain::Position, follower::CacheState};
use registry_follow::{
    Follow, FollowerMessage, MessageEffect, RegistryClock, RejectedMessage, StreamState, parse_age,
};
use registry_proto::{
    convert::{self, chain_hash, sealed_commit},
    v1::{
        Ack, ClientHello, Delta, FollowMode, Heartbeat, ServerHello, SyncResponse,
        sync_response::Message,
    },
};

use super::{
    Relay,
    commit_buffer::{BufferError, CommitBuffer, LogPosition},
};
use crate::{feed::Hub, registrar::Importer, store::Store};

/// Interval between updates of a stored signature without other changes.
const STORE_INTERVAL: Duration = Duration::from_secs(5);

/// The relay as a follower of the registry.
pub(super) struct Copy {
    relay: Relay,
    hub: Arc<Hub>,
    store: Store,
    importer: Importer,
    /// State after all received commits.
    received: Catalog,
    /// Received commits that are not signed and stored yet.
    buffer: CommitBuffer,
    /// Whether the registry has sent an age on this stream; earlier data may be old.
    is_current: bool,
    clock: RegistryClock,
    stored_at: Option<Instant>,
}

/// First message of a relay, which requests the history after a position.
pub(super) fn hello(name: &str, position: Option<&Position>) -> ClientHello {
    ClientHello {
        gateway: name.to_owned(),
        gateway_version: env!("CARGO_PKG_VERSION").to_owned(),
        position: position.map(Into::into),
        mode: FollowMode::Relay.into(),
        ..ClientHello::default()
    }
}

impl Copy {
    pub(super) fn new(relay: Relay, (hub, store): (Arc<Hub>, Store), importer: Importer) -> Self {
        let received = (*hub.catalog()).clone();
        let buffer = CommitBuffer::after(position(&received), relay.buffer_bytes);
        let (is_current, clock, stored_at) = (false, RegistryClock::default(), None);
        Self { relay, hub, store, importer, received, buffer, is_current, clock, stored_at }
    }

    fn rejected(&self, message: &dyn ToString) -> RejectedMessage {
        RejectedMessage::new(self.next_revision(), message)
    }

    fn server_hello(&self, hello: &ServerHello) -> Result<MessageEffect, RejectedMessage> {
        let key = &hello.verifier_key;
        if *key == self.relay.key().to_string() {
            return Ok(MessageEffect::Partial);
        }
        let expected = self.relay.key();
        let message = format!("the server has the key {key}, but this relay follows {expected}");
        Err(RejectedMessage { is_final: true, ..self.rejected(&message) })
    }

    async fn delta(
        &mut self,
        delta: Delta,
        signed: Option<Attestation>,
    ) -> Result<MessageEffect, RejectedMessage> {
        let sealed = sealed_commit(&self.received.chain(), delta).map_err(|e| self.rejected(&e))?;
        let mut next = self.received.clone();
        next.apply(&sealed).map_err(|e| self.rejected(&e))?;
        if let Err(e) = self.buffer.push(sealed).await {
            let is_final = matches!(e, BufferError::Full { .. });
            return Err(RejectedMessage { is_final, ..self.rejected(&e) });
        }
        self.received = next;
        if signed.is_none() {
            return Ok(MessageEffect::Partial);
        }
        let age = signed.as_ref().and_then(|signed| self.clock.age_of(signed.time));
        self.signed_state(signed, age.filter(|_| self.is_current)).await
    }

    async fn heartbeat(
        &mut self,
        Heartbeat { revision, chain, content_digest: _, staleness }: Heartbeat,
        signed: Option<Attestation>,
    ) -> Result<MessageEffect, RejectedMessage> {
        let chain = chain_hash(&chain).map_err(|e| self.rejected(&e))?;
        if (Revision(revision), chain) != (self.received.revision(), self.received.chain()) {
            let held = self.received.revision();
            let message = format!(
                "the heartbeat is at revision {revision}, which differs from the relay's state at {held}"
            );
            return Err(self.rejected(&message));
        }
        // A relay in between without contact says nothing about the registry.
        let age = parse_age(staleness.map(convert::read_duration));
        self.is_current = age.is_some();
        let taken = self.signed_state(signed, age).await?;
        if let (Some(signed), Some(age)) = (self.received.attestation(), age) {
            self.clock.record(signed.time, age);
        }
        Ok(taken)
    }

    /// Handles a signature of the state after all received commits. `age` is its age, if known.
    async fn signed_state(
        &mut self,
        signed: Option<Attestation>,
        age: Option<Duration>,
    ) -> Result<MessageEffect, RejectedMessage> {
        let key = self.relay.key();
        let signed =
            signed.ok_or_else(|| self.rejected(&"the state has no signature of the registry"))?;
        if let Err(e) = signed.verify(&self.received, key) {
            return Err(RejectedMessage { is_final: true, ..self.rejected(&e) });
        }
        self.received = self.received.clone().with_attestation(Some(signed));
        if let Some(age) = age {
            self.relay.contact.record(age);
        }
        if self.buffer.is_empty() {
            let held = self.hub.catalog();
            if held.attestation().is_none_or(|held| held.time < signed.time) {
                self.store_signature(signed, false).await;
                self.hub.renew(self.received.clone());
            }
            return Ok(MessageEffect::Current);
        }
        self.store_signature(signed, true).await;
        let empty = self.empty_buffer();
        let buffer = std::mem::replace(&mut self.buffer, empty);
        if let Err(error) = self.import(buffer).await {
            // Another relay of the same database may have stored the same commits first.
            if self.hub.chain_at(self.received.revision()) == Some(self.received.chain()) {
                self.hub.renew(self.received.clone());
                return Ok(MessageEffect::Applied);
            }
            self.discard();
            return Err(self.rejected(&format!("cannot store the commits: {error}")));
        }
        Ok(MessageEffect::Applied)
    }

    /// Stores the buffered commits and publishes the resulting state.
    async fn import(&mut self, buffer: CommitBuffer) -> Result<(), Box<dyn Error + Send + Sync>> {
        let mut pages = buffer.into_pages().await?;
        while let Some((after, commits)) = pages.next().await? {
            self.importer.store(after.0, &commits).await?;
            if pages.is_over() {
                self.importer.publish(self.received.clone(), after, commits);
            }
        }
        Ok(())
    }

    /// An empty buffer after the received commits.
    fn empty_buffer(&self) -> CommitBuffer {
        CommitBuffer::after(position(&self.received), self.relay.buffer_bytes)
    }

    /// Discards commits that are not stored.
    fn discard(&mut self) {
        self.received = (*self.hub.catalog()).clone();
        self.buffer = self.empty_buffer();
    }

    /// Stores the signature for a start without the registry. Before commits are stored, it is added to the signature of
    /// the stored state.
    async fn store_signature(&mut self, signed: Attestation, is_new: bool) {
        if !is_new && self.stored_at.is_some_and(|at| at.elapsed() < STORE_INTERVAL) {
            return;
        }
        self.stored_at = Some(Instant::now());
        let mut signatures = vec![(self.received.revision(), signed)];
        if is_new {
            let held = self.hub.catalog();
            signatures.extend(held.attestation().map(|signed| (held.revision(), *signed)));
        }
        if let Err(error) = self.store.store_attestations(&signatures).await {
            tracing::warn!(%error, "cannot store the signature of the registry");
        }
    }
}

fn position(catalog: &Catalog) -> LogPosition {
    (catalog.revision(), catalog.chain())
}

impl Follow for Copy {
    fn hello(&mut self) -> ClientHello {
        self.is_current = false;
        hello(&self.relay.name, Some(&Position::of_catalog(&self.received)))
    }

    async fn apply(
        &mut self,
        SyncResponse { message, attestation }: SyncResponse,
    ) -> Result<MessageEffect, RejectedMessage> {
        let signed = attestation.map(Attestation::try_from).transpose();
        let signed = signed.map_err(|e| self.rejected(&e))?;
        match message {
            Some(Message::ServerHello(hello)) => self.server_hello(&hello),
            Some(Message::Delta(delta)) => self.delta(delta, signed).await,
            Some(Message::Heartbeat(heartbeat)) => self.heartbeat(heartbeat, signed).await,
            _ => Err(self.rejected(&"expected a commit; the server may be older than this relay")),
        }
    }

    fn next_revision(&self) -> Revision {
        self.received.revision().next()
    }

    fn ack(&mut self) -> Ack {
        let (cache_state, cache_problem) = convert::cache_state_fields(CacheState::Ok);
        let revision = self.hub.catalog().revision().0;
        Ack { applied_revision: revision, persisted_revision: revision, cache_state, cache_problem }
    }

    async fn next_message(&mut self) -> FollowerMessage {
        std::future::pending().await
    }

    fn on_status(&mut self, status: StreamState<'_>) {
        // The revision that the server rejects may be an unsigned one.
        if let StreamState::Nacked | StreamState::Rejected(_) = status {
            self.discard();
        }
        // The age of the data is unknown until the registry has sent it.
        if status != StreamState::Live || self.is_current {
            self.relay.record(status);
        }
    }

    fn reset_advice(&self) -> &'static str {
        "stop the relay and restart it with a new database, or correct --follow"
    }

    fn credentials_advice(&self) -> &'static str {
        super::CREDENTIALS_ADVICE
    }
}
