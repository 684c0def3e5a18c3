//! Signatures of the registry on the states of a scope, for followers of the relay.
//!
//! The relay computes the content of the scope from its own copy.

use std::sync::Arc;

use registry_core::{Attestation, Revision, Scope, attestation::Statement, chain::Position};
use registry_follow::{
    Follow, FollowerMessage, MessageEffect, RejectedMessage, StreamState, shortened,
};
use registry_proto::{
    convert,
    v1::{Ack, ClientHello, FollowMode, SyncResponse, sync_response::Message},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Relay;
use crate::feed::{ScopeSignature, SignedState};

/// Maximum bytes of a forwarded reason, because each relay adds text.
const REASON_BYTES: usize = 1024;

/// Receives signatures until the receiver is dropped.
pub(super) fn follow(
    relay: &Relay,
    scope: Scope,
    stop: CancellationToken,
) -> watch::Receiver<ScopeSignature> {
    let (sender, receiver) = watch::channel(ScopeSignature::default());
    let (follower, relay) = (relay.follower.clone(), relay.clone());
    tokio::spawn(async move {
        let closing = sender.clone();
        let follower_of_scope = ScopeSignatureFollower { relay, scope, sender, problem: None };
        tokio::select! {
            () = follower.run(follower_of_scope, stop) => {}
            () = closing.closed() => {}
        }
    });
    receiver
}

struct ScopeSignatureFollower {
    relay: Relay,
    scope: Scope,
    sender: watch::Sender<ScopeSignature>,
    /// Last logged reason for missing signatures.
    problem: Option<String>,
}

impl Follow for ScopeSignatureFollower {
    fn hello(&mut self) -> ClientHello {
        ClientHello {
            gateway: self.relay.name.to_string(),
            gateway_version: env!("CARGO_PKG_VERSION").to_owned(),
            scope: Some((&self.scope).into()),
            mode: FollowMode::Signatures.into(),
            ..ClientHello::default()
        }
    }

    async fn apply(
        &mut self,
        SyncResponse { message, attestation }: SyncResponse,
    ) -> Result<MessageEffect, RejectedMessage> {
        let rejected = |message: &dyn ToString| RejectedMessage::new(Revision(0), message);
        let Some(Message::ScopeDelta(step)) = message else {
            return Err(rejected(
                &"expected a scope delta, because only it carries signatures of scopes",
            ));
        };
        let step = convert::verify_scope_delta(step).map_err(|e| rejected(&e))?;
        let signed =
            attestation.ok_or_else(|| rejected(&"the state has no signature of the registry"))?;
        let attestation = Attestation::try_from(signed).map_err(|e| rejected(&e))?;
        let Position { registry, revision, chain } = &step.position;
        let statement = Statement {
            registry,
            revision: *revision,
            chain: *chain,
            scope: &self.scope,
            content: step.content,
        };
        attestation.verify_statement(&statement, &self.relay.key).map_err(|e| rejected(&e))?;
        let state =
            SignedState { position: (*revision, *chain), content: step.content, attestation };
        self.sender.send_replace(ScopeSignature { signed: Some(state), rejection: None });
        Ok(MessageEffect::Applied)
    }

    fn next_revision(&self) -> Revision {
        self.sender.borrow().signed.as_ref().map_or(Revision(1), |state| state.position.0.next())
    }

    fn ack(&mut self) -> Ack {
        let revision = self.sender.borrow().signed.as_ref().map_or(0, |state| state.position.0.0);
        Ack { applied_revision: revision, ..Ack::default() }
    }

    async fn next_message(&mut self) -> FollowerMessage {
        std::future::pending().await
    }

    fn on_status(&mut self, state: StreamState<'_>) {
        match state {
            StreamState::Live => self.problem = None,
            StreamState::Nacked => {}
            StreamState::ScopeLimit(reason) => {
                self.log_missing(reason);
                self.set_rejection(Some(shortened(reason, REASON_BYTES).into()));
            }
            StreamState::Down(reason) | StreamState::Rejected(reason) => {
                self.log_missing(reason);
                self.set_rejection(None);
            }
        }
    }
}

impl ScopeSignatureFollower {
    /// Logs a new reason for missing signatures.
    fn log_missing(&mut self, reason: &str) {
        // If the stream of commits failed too, it has logged the reason.
        let is_logged = self.relay.problem().is_some();
        if !is_logged && self.problem.as_deref() != Some(reason) {
            tracing::warn!(scope = %self.scope, "no signatures of a scope from the upstream registry: {reason}");
            self.problem = Some(reason.to_owned());
        }
    }

    /// Reports to followers whether the upstream server rejects the scope.
    fn set_rejection(&self, reason: Option<Arc<str>>) {
        self.sender.send_if_modified(|signature| {
            let has_changed = signature.rejection != reason;
            signature.rejection = reason;
            has_changed
        });
    }
}
