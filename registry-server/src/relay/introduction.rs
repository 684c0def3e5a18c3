//! Hearing of which registry a new relay is to be the copy, before it has a database of that.

use registry_core::{Revision, checkpoint::VerifierKey};
use registry_follow::{
    Follow, Follower, FollowerMessage, MessageEffect, RejectedMessage, StreamState,
};
use registry_proto::v1::{Ack, Hello, SyncResponse, sync_response::Message};
use tokio_util::sync::CancellationToken;

/// Asks until somebody answers.
pub(super) async fn ask(follower: &Follower, name: &str) -> VerifierKey {
    let mut heard = None;
    while heard.is_none() {
        let done = CancellationToken::new();
        let asking = Asking { name, done: done.clone(), heard: &mut heard };
        follower.run(asking, done).await;
    }
    // The loop ends with it.
    heard.unwrap_or_else(|| unreachable!("it was heard"))
}

struct Asking<'a> {
    name: &'a str,
    done: CancellationToken,
    heard: &'a mut Option<VerifierKey>,
}

impl Follow for Asking<'_> {
    fn hello(&mut self) -> Hello {
        super::copy::hello(self.name, None)
    }

    async fn apply(&mut self, response: SyncResponse) -> Result<MessageEffect, RejectedMessage> {
        let refused = |message: &dyn ToString| RejectedMessage::new(Revision(1), message);
        let Some(Message::Welcome(welcome)) = response.message else {
            // The stream goes on until it is dropped.
            if self.heard.is_some() {
                return Ok(MessageEffect::Partial);
            }
            return Err(refused(
                &"it does not say which registry it is; is it older than this relay?",
            ));
        };
        *self.heard = Some(welcome.key.parse().map_err(|e| refused(&e))?);
        self.done.cancel();
        Ok(MessageEffect::Partial)
    }

    fn next_revision(&self) -> Revision {
        Revision(1)
    }

    fn ack(&mut self) -> Ack {
        Ack::default()
    }

    async fn next_message(&mut self) -> FollowerMessage {
        std::future::pending().await
    }

    fn on_status(&mut self, status: StreamState<'_>) {
        if let StreamState::Down(reason)
        | StreamState::ScopeLimit(reason)
        | StreamState::Rejected(reason) = status
        {
            tracing::warn!("waiting for the registry to say which it is: {reason}");
        }
    }
}
