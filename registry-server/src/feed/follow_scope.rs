//! The stream of a follower of a scope: from the state that it holds to the present one, in one
//! step however many commits are between them.
//!
//! Deliberately absent: the states themselves, which all followers of the scope share.

use std::{pin::pin, sync::Arc};

use registry_core::{ChainHash, Revision};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    Error, Message, Shared, Step,
    scopes::{Channel, State},
    teller::Teller,
};

pub(super) struct FollowingScope<'a> {
    teller: &'a Teller,
    channel: Arc<Channel>,
    now: watch::Receiver<Arc<State>>,
    /// What the follower holds; `None`: nothing that is known here.
    held: Option<Arc<State>>,
    /// Up to where the follower was told something.
    told: Revision,
}

impl<'a> FollowingScope<'a> {
    /// Goes on from what was told before, in another scope or on another stream.
    pub(super) async fn new(
        teller: &'a Teller,
        channel: Arc<Channel>,
        told: Revision,
        held: Option<Arc<State>>,
    ) -> Result<Self, Error> {
        let mut now = channel.watch();
        // The scope's keeper may not have got there yet.
        let reached = now.wait_for(|state| state.revision() >= told).await;
        reached.map_err(|_| Error::Draining)?;
        Ok(Self { teller, channel, now, held, told })
    }

    /// Runs until the follower wants another scope; gives what it holds then.
    pub(super) async fn run<T>(
        mut self,
        wanted: &mut watch::Receiver<T>,
    ) -> Result<(Revision, Arc<State>), Error> {
        let mut held = self.tell_present(true).await?;
        let mut quiet = pin!(sleep(self.teller.progress_interval()));
        let mut end = pin!(self.teller.end());
        loop {
            let is_due = tokio::select! {
                changed = self.now.changed() => {
                    changed.map_err(|_| Error::Draining)?;
                    false
                }
                () = &mut quiet => true,
                changed = wanted.changed() => {
                    changed.map_err(|_| Error::Gone)?;
                    return Ok((self.told, held));
                }
                end = &mut end => return Err(end),
            };
            held = self.tell_present(is_due).await?;
            quiet.as_mut().reset(Instant::now() + self.teller.progress_interval());
        }
    }

    /// Tells whatever leads to the present state, which the follower holds then.
    async fn tell_present(&mut self, even_if_nothing: bool) -> Result<Arc<State>, Error> {
        let to = self.now.borrow_and_update().clone();
        let place = place_of(&to);
        if self.teller.wants.signatures {
            let signed = Step::only_signed(to.clone(), to.attestation(&self.teller.feed.hub));
            self.teller.seat.sent(place.0);
            self.teller.tell(Message::Step(Shared::new(signed))).await?;
            self.told = place.0;
            return Ok(to);
        }
        match self.held.replace(to.clone()) {
            Some(from) if is_same(&from, &to) => {
                if even_if_nothing || place.0 > self.told {
                    let signed = to.attestation(&self.teller.feed.hub);
                    let place = self.channel.reached.place(&to.catalog, Some(to.content), signed);
                    self.teller.tell_progress(place).await?;
                }
            }
            Some(from) => self.tell_step(&from, &to).await?,
            None => self.tell_snapshot(&to).await?,
        }
        self.told = place.0;
        Ok(to)
    }

    async fn tell_snapshot(&self, of: &State) -> Result<(), Error> {
        let snapshot = of.snapshot().await;
        Box::pin(self.teller.tell_snapshot(&snapshot, None)).await.map(|_| ())
    }

    async fn tell_step(&self, from: &Arc<State>, to: &Arc<State>) -> Result<(), Error> {
        let step = self.channel.step(from, to);
        if step.is_too_big() {
            return self.tell_snapshot(to).await;
        }
        self.teller.seat.sent(to.revision());
        self.teller.tell(Message::Step(step)).await
    }
}

/// Whether there is nothing to say but how far it holds. Of another scope it is said anew.
fn is_same(from: &State, to: &State) -> bool {
    from.content == to.content && from.catalog.scope() == to.catalog.scope()
}

fn place_of(state: &State) -> (Revision, ChainHash) {
    (state.revision(), state.catalog.chain())
}
