//! The relay's copy of the log: every commit, proved, stored as it is once the registry has signed a
//! state that it leads to, and published then.

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
    v1::{Ack, Delta, Hello, Progress, SyncResponse, Welcome, sync_response::Message},
};

use super::{
    Relay,
    staging::{NotStaged, Place, Staging},
};
use crate::{feed::Hub, registrar::Importer, store::Store};

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
    /// What of it is yet to be signed and stored.
    waiting: Staging,
    /// Whether the registry has said on this stream how old its word is; what came before may be old.
    is_current: bool,
    clock: RegistryClock,
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
        let waiting = Staging::after(place(&ahead), relay.max_unsigned_bytes);
        let (is_current, clock, kept_at) = (false, RegistryClock::default(), None);
        Self { relay, hub, store, importer, ahead, waiting, is_current, clock, kept_at }
    }

    fn refused(&self, message: &dyn ToString) -> RejectedMessage {
        RejectedMessage::new(self.next_revision(), message)
    }

    fn welcome(&self, Welcome { key }: &Welcome) -> Result<MessageEffect, RejectedMessage> {
        if *key == self.relay.key().to_string() {
            return Ok(MessageEffect::Partial);
        }
        let message =
            format!("it is known by the key {key}, this relay follows {}", self.relay.key());
        Err(RejectedMessage { is_final: true, ..self.refused(&message) })
    }

    async fn delta(
        &mut self,
        delta: Delta,
        signed: Option<Attestation>,
    ) -> Result<MessageEffect, RejectedMessage> {
        let sealed = sealed_commit(&self.ahead.chain(), delta).map_err(|e| self.refused(&e))?;
        let mut next = self.ahead.clone();
        next.apply(&sealed).map_err(|e| self.refused(&e))?;
        if let Err(e) = self.waiting.push(sealed).await {
            let is_final = matches!(e, NotStaged::Full { .. });
            return Err(RejectedMessage { is_final, ..self.refused(&e) });
        }
        self.ahead = next;
        if signed.is_none() {
            return Ok(MessageEffect::Partial);
        }
        let age = signed.as_ref().and_then(|signed| self.clock.age_of(signed.time));
        self.arrived(signed, age.filter(|_| self.is_current)).await
    }

    async fn progress(
        &mut self,
        Progress { revision, chain, content: _, age_ms }: Progress,
        signed: Option<Attestation>,
    ) -> Result<MessageEffect, RejectedMessage> {
        let chain = chain_hash(&chain).map_err(|e| self.refused(&e))?;
        if (Revision(revision), chain) != (self.ahead.revision(), self.ahead.chain()) {
            let held = self.ahead.revision();
            let message = format!(
                "nothing new up to revision {revision}, but {held} is held, or another one"
            );
            return Err(self.refused(&message));
        }
        // A relay in between that knows nothing is no word of the registry.
        let age = parse_age(age_ms);
        self.is_current = age.is_some();
        let taken = self.arrived(signed, age).await?;
        if let (Some(signed), Some(age)) = (self.ahead.attestation(), age) {
            self.clock.record(signed.time, age);
        }
        Ok(taken)
    }

    /// The registry has signed the state after all that has come; that is so old, if it is known.
    async fn arrived(
        &mut self,
        signed: Option<Attestation>,
        age: Option<Duration>,
    ) -> Result<MessageEffect, RejectedMessage> {
        let key = self.relay.key();
        let signed =
            signed.ok_or_else(|| self.refused(&"a state without the registry's signature"))?;
        if let Err(e) = signed.verify(&self.ahead, key) {
            return Err(RejectedMessage { is_final: true, ..self.refused(&e) });
        }
        self.ahead = self.ahead.clone().attested(Some(signed));
        if let Some(age) = age {
            self.relay.contact.heard(age);
        }
        if self.waiting.is_empty() {
            let held = self.hub.catalog();
            if held.attestation().is_none_or(|held| held.time < signed.time) {
                self.keep(signed, false).await;
                self.hub.renew(self.ahead.clone());
            }
            return Ok(MessageEffect::Current);
        }
        self.keep(signed, true).await;
        let nothing = self.nothing_waits();
        let waiting = std::mem::replace(&mut self.waiting, nothing);
        if let Err(error) = self.import(waiting).await {
            // Another relay of the same database may have stored the same first.
            if self.hub.chain_at(self.ahead.revision()) == Some(self.ahead.chain()) {
                self.hub.renew(self.ahead.clone());
                return Ok(MessageEffect::Applied);
            }
            self.begin_anew();
            return Err(self.refused(&format!("the relay cannot store it: {error}")));
        }
        Ok(MessageEffect::Applied)
    }

    /// Stores all that has waited, and publishes the state after it.
    async fn import(&mut self, waiting: Staging) -> Result<(), Box<dyn Error + Send + Sync>> {
        let mut pages = waiting.into_pages().await?;
        while let Some((after, commits)) = pages.next().await? {
            self.importer.store(after.0, &commits).await?;
            if pages.is_over() {
                self.importer.publish(self.ahead.clone(), after, commits);
            }
        }
        Ok(())
    }

    /// What waits, after all that has come was stored.
    fn nothing_waits(&self) -> Staging {
        Staging::after(place(&self.ahead), self.relay.max_unsigned_bytes)
    }

    /// Lets go of what is not stored.
    fn begin_anew(&mut self) {
        self.ahead = (*self.hub.catalog()).clone();
        self.waiting = self.nothing_waits();
    }

    /// Remembers the signature for a start without the registry; before anything is stored, beside that on
    /// what is stored already.
    async fn keep(&mut self, signed: Attestation, is_new: bool) {
        if !is_new && self.kept_at.is_some_and(|at| at.elapsed() < KEEP) {
            return;
        }
        self.kept_at = Some(Instant::now());
        let mut kept = vec![(self.ahead.revision(), signed)];
        if is_new {
            let held = self.hub.catalog();
            kept.extend(held.attestation().map(|signed| (held.revision(), *signed)));
        }
        if let Err(error) = self.store.keep_attestations(&kept).await {
            tracing::warn!(%error, "the registry's signature was not kept");
        }
    }
}

fn place(catalog: &Catalog) -> Place {
    (catalog.revision(), catalog.chain())
}

impl Follow for Copy {
    fn hello(&mut self) -> Hello {
        self.is_current = false;
        hello(&self.relay.name, Some(&Position::of(&self.ahead)))
    }

    async fn apply(
        &mut self,
        SyncResponse { message, attestation }: SyncResponse,
    ) -> Result<MessageEffect, RejectedMessage> {
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
        let (cache_state, cache_problem) = convert::cache_state_fields(CacheState::Ok);
        let revision = self.hub.catalog().revision().0;
        Ack { applied_revision: revision, persisted_revision: revision, cache_state, cache_problem }
    }

    async fn next_message(&mut self) -> FollowerMessage {
        std::future::pending().await
    }

    fn on_status(&mut self, status: StreamState<'_>) {
        // What the registry does not know may be what is not signed.
        if let StreamState::Nacked | StreamState::Rejected(_) = status {
            self.begin_anew();
        }
        // Until the registry has said how old its word is, nobody knows.
        if status != StreamState::Live || self.is_current {
            self.relay.note(status);
        }
    }

    fn reset_advice(&self) -> &'static str {
        "stop the relay and start it again with a new database, or correct `--follow`"
    }
}
