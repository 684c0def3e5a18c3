//! The stream of a follower of a scope: from the state that it holds to the present one, in one
//! step however many commits are between them.

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
    /// Whether it was told that this is all.
    is_current: bool,
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
        tokio::select! {
            reached = now.wait_for(|state| state.revision() >= told) => {
                drop(reached.map_err(|_| Error::Draining)?);
            }
            end = teller.end() => return Err(end),
        }
        Ok(Self { teller, channel, now, held, told, is_current: false })
    }

    /// Runs until the follower wants another scope; gives what it holds then.
    pub(super) async fn run<T>(
        mut self,
        wanted: &mut watch::Receiver<T>,
    ) -> Result<(Revision, Arc<State>), Error> {
        let (mut held, _) = self.tell_present().await?;
        let mut quiet = pin!(sleep(self.teller.progress_interval()));
        let mut end = pin!(self.teller.end());
        loop {
            tokio::select! {
                changed = self.now.changed() => changed.map_err(|_| Error::Draining)?,
                () = &mut quiet => {}
                changed = wanted.changed() => {
                    changed.map_err(|_| Error::Gone)?;
                    return Ok((self.told, held));
                }
                end = &mut end => return Err(end),
            }
            let is_progress_told;
            (held, is_progress_told) = self.tell_present().await?;
            // However many steps come: how old the news is, is told in its own time.
            if is_progress_told {
                quiet.as_mut().reset(Instant::now() + self.teller.progress_interval());
            }
        }
    }

    /// Tells whatever leads to the present state, which the follower holds then, and says whether that
    /// this is all was told too.
    async fn tell_present(&mut self) -> Result<(Arc<State>, bool), Error> {
        let to = self.now.borrow_and_update().clone();
        let place = place_of(&to);
        if self.teller.wants.signatures {
            let signed = Step::only_signed(to.clone(), to.attestation(&self.teller.feed.hub));
            self.teller.seat.sent(place.0);
            self.teller.tell(Message::Step(Shared::new(signed))).await?;
            self.told = place.0;
            return Ok((to, true));
        }
        let from = self.held.replace(to.clone());
        let has_news = !from.as_ref().is_some_and(|from| is_same(from, &to));
        match from {
            Some(from) if has_news => self.tell_step(&from, &to).await?,
            Some(_) => {}
            None => self.tell_snapshot(&to).await?,
        }
        // Until it is said for the first time that this is all, what was told may be old.
        let is_due = !has_news || !self.is_current;
        if is_due {
            self.tell_progress(&to).await?;
            self.is_current = true;
        }
        self.told = place.0;
        Ok((to, is_due))
    }

    async fn tell_progress(&self, of: &State) -> Result<(), Error> {
        let hub = &self.teller.feed.hub;
        let (signed, age) = (of.attestation(hub), hub.voucher().age());
        let place = self.channel.reached.place(&of.catalog, Some(of.content), signed, age);
        self.teller.tell_progress(place).await
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
