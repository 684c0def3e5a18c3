//! Fetches the public key of the upstream registry for a new relay.

use registry_core::{Revision, checkpoint::VerifierKey};
use registry_follow::{Follow, Follower, Heard, News, Refusal, Taken};
use registry_proto::v1::{Ack, Hello, SyncResponse, sync_response::Message};
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
    fn hello(&mut self) -> Hello {
        super::copy::hello(self.name, None)
    }

    async fn take(&mut self, response: SyncResponse) -> Result<Taken, Refusal> {
        let rejected = |message: &dyn ToString| Refusal::new(Revision(1), message);
        let Some(Message::Welcome(welcome)) = response.message else {
            // The stream continues until it is dropped.
            if self.key.is_some() {
                return Ok(Taken::Part);
            }
            return Err(rejected(
                &"the server sent no ServerHello; it may be older than this relay",
            ));
        };
        *self.key = Some(welcome.key.parse().map_err(|e| rejected(&e))?);
        self.done.cancel();
        Ok(Taken::Part)
    }

    fn next_revision(&self) -> Revision {
        Revision(1)
    }

    fn ack(&mut self) -> Ack {
        Ack::default()
    }

    async fn news(&mut self) -> News {
        std::future::pending().await
    }

    fn heard(&mut self, heard: Heard<'_>) {
        if let Heard::Down(reason) | Heard::NoRoom(reason) | Heard::Refused(reason) = heard {
            tracing::warn!("waiting for the upstream registry: {reason}");
        }
    }
}
