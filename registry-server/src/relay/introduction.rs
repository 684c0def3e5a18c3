//! Fetches the public key of the upstream registry for a new relay.

use registry_core::{Revision, checkpoint::VerifierKey};
use registry_follow::{
    Follow, Follower, FollowerMessage, MessageEffect, RejectedMessage, StreamState,
};
use registry_proto::v1::{Ack, ClientHello, SyncResponse, sync_response::Message};
use tokio_util::sync::CancellationToken;

/// Connects until a server sends the key.
pub(super) async fn fetch_key(follower: &Follower, name: &str) -> VerifierKey {
    let mut key = None;
    while key.is_none() {
        let done = CancellationToken::new();
        let request = KeyRequest { name, done: done.clone(), key: &mut key };
        follower.run(request, done).await;
    }
    // The loop ends with a key.
    key.unwrap_or_else(|| unreachable!("the loop ends with a key"))
}

struct KeyRequest<'a> {
    name: &'a str,
    done: CancellationToken,
    key: &'a mut Option<VerifierKey>,
}

impl Follow for KeyRequest<'_> {
    fn hello(&mut self) -> ClientHello {
        super::copy::hello(self.name, None)
    }

    async fn apply(&mut self, response: SyncResponse) -> Result<MessageEffect, RejectedMessage> {
        let rejected = |message: &dyn ToString| RejectedMessage::new(Revision(1), message);
        let Some(Message::ServerHello(hello)) = response.message else {
            // The stream continues until it is dropped.
            if self.key.is_some() {
                return Ok(MessageEffect::Partial);
            }
            return Err(rejected(
                &"the server sent no ServerHello; it may be older than this relay",
            ));
        };
        *self.key = Some(hello.verifier_key.parse().map_err(|e| rejected(&e))?);
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

    fn credentials_advice(&self) -> &'static str {
        super::CREDENTIALS_ADVICE
    }

    fn on_status(&mut self, status: StreamState<'_>) {
        if let StreamState::Down(reason)
        | StreamState::ScopeLimit(reason)
        | StreamState::Rejected(reason) = status
        {
            tracing::warn!("waiting for the upstream registry: {reason}");
        }
    }
}
