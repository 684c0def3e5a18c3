//! Applies messages of the stream. Each one is applied completely or rejected.

use std::{sync::Arc, time::Duration};

use registry_core::{
    Attestation, Catalog, Revision, Scope, SealedCommit, Timestamp, chain::Position,
};
use registry_proto::{
    convert::{self, VerifiedScopeDelta, chain_hash, sealed_commit},
    v1::{Delta, Heartbeat, ScopeDelta, SnapshotBegin, SyncResponse, sync_response::Message},
};

use registry_follow::{MessageEffect, RegistryClock, RejectedMessage, parse_age};

use super::{REMEDY, findings, snapshot::PartialSnapshot, unsigned::UnsignedCommits};
use crate::{cache::Cache, catalog_verifier::CatalogVerifier, startup};

/// Verification of at least this many documents runs on a blocking thread.
const BLOCKING_DOCUMENTS: usize = 32;

/// The receiver of a stream.
#[derive(Debug)]
pub(super) struct Incoming {
    cache: Cache,
    catalog_verifier: CatalogVerifier,
    snapshot: Option<PartialSnapshot>,
    unsigned: UnsignedCommits,
    /// The time of the latest signature on the catalog.
    signed_at: Option<Timestamp>,
    /// The age of the latest message at its arrival. `None` until the server has reported that it
    /// sent everything.
    age: Option<Duration>,
    clock: RegistryClock,
    /// The scopes requested on this stream. Messages in flight can belong to earlier ones.
    scopes: Vec<Scope>,
}

impl Incoming {
    pub(super) fn new(cache: Cache, catalog_verifier: CatalogVerifier) -> Self {
        let (snapshot, unsigned, scopes) = (None, UnsignedCommits::default(), Vec::new());
        let (signed_at, age, clock) = (None, None, RegistryClock::default());
        Self { cache, catalog_verifier, snapshot, unsigned, signed_at, age, clock, scopes }
    }

    /// The signed time when the catalog was the registry's latest state.
    pub(super) fn signed_at(&self) -> Option<Timestamp> {
        self.signed_at
    }

    /// The age of the catalog according to the server.
    pub(super) fn age(&self) -> Option<Duration> {
        self.age
    }

    /// Records a requested scope.
    pub(super) fn asked_for(&mut self, scope: Scope) {
        self.scopes.push(scope);
    }

    pub(super) async fn take(
        &mut self,
        response: SyncResponse,
    ) -> Result<MessageEffect, RejectedMessage> {
        let SyncResponse { message, attestation } = response;
        let Some(message) = message else {
            return Err(self.refuse_next(&"a message without content"));
        };
        let attestation = attestation.map(Attestation::try_from).transpose();
        let attestation = attestation.map_err(|e| self.refuse_next(&e))?;
        self.age = self.age_of(&message, attestation.as_ref());
        match (message, self.snapshot.take()) {
            (Message::SnapshotBegin(begin), None) => {
                self.snapshot = Some(self.begin(begin)?);
                Ok(MessageEffect::Partial)
            }
            (Message::SnapshotChunk(chunk), Some(snapshot)) => {
                self.snapshot = Some(snapshot.extended(chunk).await?);
                Ok(MessageEffect::Partial)
            }
            (Message::SnapshotEnd(end), Some(snapshot)) => {
                let signed = (attestation, self.catalog_verifier.clone());
                let catalog = snapshot.finished(end, signed).await?;
                let (revision, entities) = (catalog.revision(), catalog.len());
                self.take_whole(catalog);
                tracing::info!(%revision, entities, "took a snapshot");
                Ok(MessageEffect::Applied)
            }
            (Message::Delta(delta), None) => self.delta(delta, attestation).await,
            (Message::ScopeDelta(delta), None) => self.scope_delta(delta, attestation).await,
            (Message::Heartbeat(heartbeat), None) => self.heartbeat(&heartbeat, attestation),
            (_, Some(_)) => Err(self.refuse_next(&"another message within a snapshot")),
            (_, None) => Err(self.refuse_next(&"a part of a snapshot without its start")),
        }
    }

    /// The age of a message, if known. Relayed messages are signed and can be old.
    fn age_of(&mut self, message: &Message, signed: Option<&Attestation>) -> Option<Duration> {
        if let Message::Heartbeat(heartbeat) = message {
            let age = parse_age(heartbeat.staleness.map(convert::read_duration));
            if let (Some(signed), Some(age)) = (signed, age) {
                self.clock.record(signed.time, age);
            }
            return age;
        }
        self.age?;
        signed.map_or(Some(Duration::ZERO), |signed| self.clock.age_of(signed.time))
    }

    /// Rejects the next revision.
    fn refuse_next(&self, message: &dyn ToString) -> RejectedMessage {
        RejectedMessage::new(self.cache.current().revision().next(), message)
    }

    fn begin(
        &self,
        SnapshotBegin { position, entity_count, setting_count, scope, oldest_revision }: SnapshotBegin,
    ) -> Result<PartialSnapshot, RejectedMessage> {
        let missing = || self.refuse_next(&"a snapshot without its position");
        let position = position.ok_or_else(missing)?;
        let claimed = Revision(position.revision);
        let position =
            Position::try_from(position).map_err(|e| RejectedMessage::new(claimed, &e))?;
        self.check_position(&position)?;
        let scope = scope.map_or(Ok(Scope::Everything), convert::scope);
        let scope = scope.map_err(|e| RejectedMessage::new(claimed, &e))?;
        self.check_scope(&scope, claimed)?;
        if oldest_revision > 0 {
            let held = self.cache.current().revision();
            tracing::info!(%held, oldest_revision, "the registry no longer has the next commits; receiving a snapshot");
        }
        Ok(PartialSnapshot::new(position, scope, (entity_count, setting_count)))
    }

    fn check_scope(&self, scope: &Scope, revision: Revision) -> Result<(), RejectedMessage> {
        if self.scopes.contains(scope) {
            return Ok(());
        }
        let message = format!("it has scope {scope}, which was not requested");
        Err(RejectedMessage::new(revision, &message))
    }

    /// Checks that a snapshot can follow the current catalog: the same registry, not older, and the
    /// same history.
    fn check_position(&self, position: &Position) -> Result<(), RejectedMessage> {
        let held = self.cache.current();
        let problem = if !self.cache.has_catalog() {
            return Ok(());
        } else if position.registry != *held.registry() {
            format!(
                "the server is registry {}, but the cache belongs to {}",
                position.registry,
                held.registry()
            )
        } else if position.revision < held.revision() {
            format!(
                "the snapshot has revision {}, but {} is already served",
                position.revision,
                held.revision()
            )
        } else if position.revision == held.revision() && position.chain != held.chain() {
            format!("revision {} has another chain hash than the served one", position.revision)
        } else {
            return Ok(());
        };
        let message = format!("{problem}; if that is on purpose, {REMEDY}");
        Err(RejectedMessage { is_final: true, ..RejectedMessage::new(position.revision, &message) })
    }

    /// The state that the next delta follows.
    fn held(&self) -> Arc<Catalog> {
        self.unsigned.catalog().unwrap_or_else(|| self.cache.current())
    }

    async fn delta(
        &mut self,
        delta: Delta,
        attestation: Option<Attestation>,
    ) -> Result<MessageEffect, RejectedMessage> {
        let revision = Revision(delta.revision);
        if !self.cache.has_catalog() {
            return Err(RejectedMessage::new(revision, &"a delta without a previous snapshot"));
        }
        let held = self.held();
        let is_large = delta.documents.len() >= BLOCKING_DOCUMENTS;
        let catalog_verifier = self.catalog_verifier.clone();
        let refused = move |message: String| RejectedMessage::new(revision, &message);
        let verify_signature = move || {
            let sent = delta.clone();
            let (catalog, sealed) = next(&held, delta)
                .map_err(|e| refused(e).with(findings::of_delta(&held, &sent)))?;
            let catalog = catalog.with_attestation(attestation);
            if attestation.is_some() {
                catalog_verifier.verify_signature(&catalog).map_err(|e| refused(e.to_string()))?;
            }
            Ok::<_, RejectedMessage>((catalog, sealed))
        };
        let (catalog, sealed) = run_blocking_if(is_large, verify_signature).await??;
        if !self.catalog_verifier.requires_signature() {
            self.cache.advance(catalog, [sealed]);
            return Ok(MessageEffect::Applied);
        }
        self.unsigned.push(catalog.clone(), sealed).map_err(refused)?;
        if attestation.is_none() {
            return Ok(MessageEffect::Partial);
        }
        self.take_unsigned(catalog);
        Ok(MessageEffect::Applied)
    }

    async fn scope_delta(
        &mut self,
        step: ScopeDelta,
        attestation: Option<Attestation>,
    ) -> Result<MessageEffect, RejectedMessage> {
        let next = self.cache.current().revision().next();
        let claimed = step.position.as_ref().map_or(next, |position| Revision(position.revision));
        let is_large = step.entities.len() >= BLOCKING_DOCUMENTS;
        let read = move || {
            let sent = step.entities.clone();
            let unfit = |e| RejectedMessage::new(claimed, &e).with(findings::of_entities(&sent));
            convert::verify_scope_delta(step).map_err(unfit)
        };
        let step = run_blocking_if(is_large, read).await??;
        self.check_position(&step.position)?;
        self.check_scope(&step.scope, claimed)?;
        let held = self.cache.current();
        let is_large = is_large || held.len() >= BLOCKING_DOCUMENTS;
        let catalog_verifier = self.catalog_verifier.clone();
        let verify_signature = move || {
            let catalog = stepped(&held, step, claimed)?.with_attestation(attestation);
            let lacks = || startup::missing(&catalog);
            catalog_verifier
                .verify_signature(&catalog)
                .map_err(|e| RejectedMessage::new(claimed, &e).with(lacks()))?;
            Ok::<_, RejectedMessage>(catalog)
        };
        let catalog = run_blocking_if(is_large, verify_signature).await??;
        self.take_whole(catalog);
        Ok(MessageEffect::Applied)
    }

    fn heartbeat(
        &mut self,
        Heartbeat { revision, chain, content_digest, .. }: &Heartbeat,
        attestation: Option<Attestation>,
    ) -> Result<MessageEffect, RejectedMessage> {
        let revision = Revision(*revision);
        let refused = |message: &dyn ToString| RejectedMessage::new(revision, message);
        let chain = chain_hash(chain).map_err(|e| refused(&e))?;
        let held = self.held();
        // The server skips commits outside the scope.
        let moves = **held.scope() != Scope::Everything && revision > held.revision();
        let is_here = (revision, chain) == (held.revision(), held.chain());
        let is_known = moves || is_here && self.cache.has_catalog();
        if !is_known {
            return Err(refused(&if revision == held.revision() {
                format!("revision {revision} has another chain hash than the served one")
            } else {
                format!("the registry is at revision {revision}, but {} is served", held.revision())
            }));
        }
        // Otherwise a message was lost or reordered.
        if !content_digest.is_empty() && *content_digest != held.content_digest().to_string() {
            return Err(refused(&format!(
                "at revision {revision}, the registry's content in scope differs from the catalog"
            )));
        }
        if self.catalog_verifier.requires_signature() {
            // Computed once here, and shared by later copies.
            held.content_digest();
        }
        let catalog = held.at(revision, chain).with_attestation(attestation);
        self.catalog_verifier.verify_signature(&catalog).map_err(|e| refused(&e))?;
        if moves {
            self.signed_at = attestation.map(|signed| signed.time);
            self.cache.move_to(catalog);
            return Ok(MessageEffect::Applied);
        }
        if self.unsigned.catalog().is_some() {
            self.take_unsigned(catalog);
            return Ok(MessageEffect::Applied);
        }
        self.signed_at = attestation.map(|signed| signed.time);
        Ok(MessageEffect::Current)
    }

    fn take_whole(&mut self, catalog: Catalog) {
        self.signed_at = catalog.attestation().map(|signed| signed.time);
        self.unsigned = UnsignedCommits::default();
        self.cache.replace(catalog);
    }

    /// Applies the commits that this state's signature covers.
    fn take_unsigned(&mut self, catalog: Catalog) {
        self.signed_at = catalog.attestation().map(|signed| signed.time);
        let commits = self.unsigned.release();
        self.cache.advance(catalog, commits);
    }
}

/// Verifies a delta, and applies it to a copy of the catalog.
fn next(held: &Catalog, delta: Delta) -> Result<(Catalog, SealedCommit), String> {
    let sealed = sealed_commit(&held.chain(), delta).map_err(|e| e.to_string())?;
    let mut catalog = held.clone();
    catalog.apply(&sealed).map_err(|e| e.to_string())?;
    Ok((catalog, sealed))
}

/// Applies a step, and verifies the resulting content digest.
fn stepped(
    held: &Catalog,
    step: VerifiedScopeDelta,
    claimed: Revision,
) -> Result<Catalog, RejectedMessage> {
    let refused = |message: &dyn ToString| RejectedMessage::new(claimed, message);
    let VerifiedScopeDelta { position, scope, step, content } = step;
    if **held.scope() == Scope::Everything {
        return Err(refused(&"a scoped step, but the catalog is complete"));
    }
    let place = (position.revision, position.chain);
    let stepped = held.with_delta(place, Arc::new(scope), step);
    let stepped = stepped.ok_or_else(|| refused(&"it removes an unknown entity"))?;
    let actual = stepped.content_digest();
    if actual != content {
        let message = format!("the resulting content has the digest {actual}, not {content}");
        return Err(refused(&message).with(startup::missing(&stepped)));
    }
    Ok(stepped)
}

/// Runs `work` here, or on a blocking thread.
async fn run_blocking_if<T: Send + 'static>(
    is_large: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RejectedMessage> {
    if is_large { run_blocking(work).await } else { Ok(work()) }
}

/// Runs `work` on a blocking thread.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RejectedMessage> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| RejectedMessage::new(Revision(0), &format!("the verification failed: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_in_verification_rejects_message() {
        let rejected = run_blocking(|| -> u64 { panic!("a defect") }).await.unwrap_err();
        assert!(!rejected.is_final, "another stream may succeed");
    }
}
