//! The registry's signatures on the states of a scope, for followers of the relay.
//!
//! The relay computes the content of the scope from its own copy.

use std::sync::Arc;

use registry_core::{Attestation, Revision, Scope, attestation::Statement, chain::Position};
use registry_follow::{
    Follow, FollowerMessage, MessageEffect, RejectedMessage, StreamState, shortened,
};
use registry_proto::{
    convert,
    v1::{Ack, Hello, SyncResponse, sync_response::Message},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Relay;
use crate::feed::{Said, Word};

/// Longest reason that is passed on, in bytes: each relay adds what it says itself.
const REASON_BYTES: usize = 1024;

/// Hears them for as long as somebody listens.
pub(super) fn follow(
    relay: &Relay,
    scope: Scope,
    stop: CancellationToken,
) -> watch::Receiver<Said> {
    let (said, words) = watch::channel(Said::default());
    let (follower, relay) = (relay.follower.clone(), relay.clone());
    tokio::spawn(async move {
        let listening = said.clone();
        let witness = Witness { relay, scope, said, problem: None };
        tokio::select! {
            () = follower.run(witness, stop) => {}
            () = listening.closed() => {}
        }
    });
    words
}

struct Witness {
    relay: Relay,
    scope: Scope,
    said: watch::Sender<Said>,
    /// Why there are no signatures, as it was logged last.
    problem: Option<String>,
}

impl Follow for Witness {
    fn hello(&mut self) -> Hello {
        Hello {
            gateway: self.relay.name.to_string(),
            gateway_version: env!("CARGO_PKG_VERSION").to_owned(),
            scope: Some((&self.scope).into()),
            observer: true,
            signatures: true,
            ..Hello::default()
        }
    }

    async fn apply(
        &mut self,
        SyncResponse { message, attestation }: SyncResponse,
    ) -> Result<MessageEffect, RejectedMessage> {
        let refused = |message: &dyn ToString| RejectedMessage::new(Revision(0), message);
        let Some(Message::Step(step)) = message else {
            return Err(refused(&"not a step, and only those carry signatures of scopes"));
        };
        let step = convert::part_step(step).map_err(|e| refused(&e))?;
        let signed =
            attestation.ok_or_else(|| refused(&"a state without the registry's signature"))?;
        let attestation = Attestation::try_from(signed).map_err(|e| refused(&e))?;
        let Position { registry, revision, chain } = &step.position;
        let statement = Statement {
            registry,
            revision: *revision,
            chain: *chain,
            scope: &self.scope,
            content: step.content,
        };
        attestation.verify_statement(&statement, &self.relay.key).map_err(|e| refused(&e))?;
        let word = Word { place: (*revision, *chain), content: step.content, attestation };
        self.said.send_replace(Said { word: Some(word), no_room: None });
        Ok(MessageEffect::Applied)
    }

    fn next_revision(&self) -> Revision {
        self.said.borrow().word.as_ref().map_or(Revision(1), |word| word.place.0.next())
    }

    fn ack(&mut self) -> Ack {
        let revision = self.said.borrow().word.as_ref().map_or(0, |word| word.place.0.0);
        Ack { applied_revision: revision, ..Ack::default() }
    }

    async fn next_message(&mut self) -> FollowerMessage {
        std::future::pending().await
    }

    fn on_status(&mut self, status: StreamState<'_>) {
        match status {
            StreamState::Live => self.problem = None,
            StreamState::Nacked => {}
            StreamState::ScopeLimit(reason) => {
                self.missing(reason);
                self.no_room(Some(shortened(reason, REASON_BYTES).into()));
            }
            StreamState::Down(reason) | StreamState::Rejected(reason) => {
                self.missing(reason);
                self.no_room(None);
            }
        }
    }
}

impl Witness {
    /// Says once why there are no signatures.
    fn missing(&mut self, reason: &str) {
        // Where the stream of commits broke off too, that says so.
        let is_told = self.relay.problem().is_some();
        if !is_told && self.problem.as_deref() != Some(reason) {
            tracing::warn!(scope = %self.scope, "the registry's signatures of a scope cannot be had: {reason}");
            self.problem = Some(reason.to_owned());
        }
    }

    /// Lets followers know that there is no room, or that nobody says so any more.
    fn no_room(&self, reason: Option<Arc<str>>) {
        self.said.send_if_modified(|said| {
            let has_changed = said.no_room != reason;
            said.no_room = reason;
            has_changed
        });
    }
}
