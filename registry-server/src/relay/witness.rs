//! The registry's signatures on the states of a scope, for followers of the relay that follow it.
//!
//! What is in scope the relay works out from its copy. Deliberately absent: putting the two together
//! (`feed/scopes.rs`).

use registry_core::{Attestation, Revision, Scope};
use registry_follow::{Follow, Heard, News, Refusal, Taken};
use registry_proto::{
    convert,
    v1::{Ack, Hello, SyncResponse, sync_response::Message},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Relay;
use crate::feed::Word;

/// Hears them for as long as somebody listens.
pub(super) fn follow(
    relay: &Relay,
    scope: Scope,
    stop: CancellationToken,
) -> watch::Receiver<Option<Word>> {
    let (said, words) = watch::channel(None);
    let (follower, name) = (relay.follower.clone(), relay.name.to_string());
    tokio::spawn(async move {
        let listening = said.clone();
        let witness = Witness { name, scope, said };
        tokio::select! {
            () = follower.run(witness, stop) => {}
            () = listening.closed() => {}
        }
    });
    words
}

struct Witness {
    name: String,
    scope: Scope,
    said: watch::Sender<Option<Word>>,
}

impl Follow for Witness {
    fn hello(&mut self) -> Hello {
        Hello {
            gateway: self.name.clone(),
            gateway_version: env!("CARGO_PKG_VERSION").to_owned(),
            scope: Some((&self.scope).into()),
            observer: true,
            signatures: true,
            ..Hello::default()
        }
    }

    async fn take(
        &mut self,
        SyncResponse { message, attestation }: SyncResponse,
    ) -> Result<Taken, Refusal> {
        let refused = |message: &dyn ToString| Refusal::new(Revision(0), message);
        let Some(Message::Step(step)) = message else {
            return Err(refused(&"not a step, and only those carry signatures of scopes"));
        };
        let step = convert::part_step(step).map_err(|e| refused(&e))?;
        let signed =
            attestation.ok_or_else(|| refused(&"a state without the registry's signature"))?;
        let attestation = Attestation::try_from(signed).map_err(|e| refused(&e))?;
        let place = (step.position.revision, step.position.chain);
        self.said.send_replace(Some(Word { place, content: step.content, attestation }));
        Ok(Taken::Applied)
    }

    fn next_revision(&self) -> Revision {
        self.said.borrow().as_ref().map_or(Revision(1), |word| word.place.0.next())
    }

    fn ack(&mut self) -> Ack {
        let revision = self.said.borrow().as_ref().map_or(0, |word| word.place.0.0);
        Ack { applied_revision: revision, ..Ack::default() }
    }

    async fn news(&mut self) -> News {
        std::future::pending().await
    }

    fn heard(&mut self, heard: Heard<'_>) {
        if let Heard::Down(reason) | Heard::Refused(reason) = heard {
            tracing::debug!(scope = %self.scope, "no signatures of a scope at the moment: {reason}");
        }
    }
}
