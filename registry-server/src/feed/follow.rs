//! One follower's stream: says what comes next until something ends it.
//!
//! The only state is the position. The next message is looked up after the follower has taken the
//! previous one.

use std::{pin::pin, sync::Arc};

use registry_core::{ChainHash, Digest, Revision, Scope};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    Delta, Error, Feed, Message, Shared, follow_scope::FollowingScope, pages, recent::Next,
    scopes::State, start::Start, teller::Teller,
};

/// Runs until the follower goes, or is cut off, or the server drains.
pub(super) async fn run(teller: Teller, start: Start, wanted: watch::Receiver<Scope>) -> Error {
    match tell_all(&teller, start, wanted).await {
        Ok(never) => match never {},
        Err(end) => end,
    }
}

async fn tell_all(
    teller: &Teller,
    start: Start,
    mut wanted: watch::Receiver<Scope>,
) -> Result<std::convert::Infallible, Error> {
    let Start { mut place, mut content } = start;
    let mut told = place.map_or(Revision(0), |(revision, _)| revision);
    if place.is_some() {
        teller.seat.resumed(told);
    }
    let mut state = None;
    if teller.wants.history {
        let hub = &teller.feed.hub;
        let key = hub.voucher().verifier_key(teller.feed.store.registry());
        teller.tell(Message::Welcome(Shared::new(key))).await?;
    }
    loop {
        let scope = wanted.borrow_and_update().clone();
        if scope == Scope::Everything {
            let head = teller.feed.hub.watch();
            let following = Following { teller, head, place, told, compacted: None };
            told = following.run(&mut wanted).await?;
            state = None;
        } else {
            let (held, wanted) = ((told, state.take(), content), &mut wanted);
            // Who follows everything has no room for this.
            let (now, holds) = Box::pin(run_in_scope(teller, scope, held, wanted)).await?;
            (told, state) = (now, Some(holds));
        }
        // What it holds now is no place to go on from in another scope, but by a step.
        (place, content) = (None, None);
    }
}

/// Runs until the follower wants another scope than this; gives where it is then, and what it holds.
async fn run_in_scope(
    teller: &Teller,
    scope: Scope,
    (told, state, content): (Revision, Option<Arc<State>>, Option<Digest>),
    wanted: &mut watch::Receiver<Scope>,
) -> Result<(Revision, Arc<State>), Error> {
    let Feed { scopes, hub, admission, holders, .. } = &*teller.feed;
    let opening = holders.opening(&teller.caller, &scope);
    let channel = tokio::select! {
        opened = scopes.channel(scope, hub, (opening, &admission.scopes)) => opened?,
        end = teller.end() => return Err(end),
    };
    let from = state.or_else(|| channel.find(content?));
    FollowingScope::new(teller, channel, told, from).await?.run(wanted).await
}

/// The stream of a follower of everything.
struct Following<'a> {
    teller: &'a Teller,
    head: watch::Receiver<Revision>,
    /// Where the follower is with everything; `None` until it was told something.
    place: Option<(Revision, ChainHash)>,
    /// Up to where it was told something of any scope.
    told: Revision,
    /// Where it lacks commits that are no longer kept: the oldest that is.
    compacted: Option<Revision>,
}

impl Following<'_> {
    /// Runs until the follower wants another scope; gives where it is then.
    async fn run(mut self, wanted: &mut watch::Receiver<Scope>) -> Result<Revision, Error> {
        self.catch_up().await?;
        let mut is_current = self.tell_progress().await?;
        let mut quiet = pin!(sleep(self.teller.progress_interval()));
        let mut end = pin!(self.teller.end());
        loop {
            tokio::select! {
                changed = self.head.changed() => {
                    changed.map_err(|_| Error::Draining)?;
                    let before = self.told;
                    self.catch_up().await?;
                    // A relay has heard from its registry, if there is nothing else to say.
                    if is_current && self.told != before {
                        // However many commits come: how old the news is, is told in its own time.
                        continue;
                    }
                    is_current = self.tell_progress().await?;
                }
                () = &mut quiet => is_current = self.tell_progress().await?,
                changed = wanted.changed() => {
                    changed.map_err(|_| Error::Gone)?;
                    return Ok(self.told);
                }
                end = &mut end => return Err(end),
            }
            quiet.as_mut().reset(Instant::now() + self.teller.progress_interval());
        }
    }

    /// Says everything up to the head.
    async fn catch_up(&mut self) -> Result<(), Error> {
        loop {
            self.head.borrow_and_update();
            let Some((revision, chain)) = self.place else {
                let snapshot = self.teller.feed.hub.snapshot(self.told).await;
                let compacted = self.compacted.take();
                let told = Box::pin(self.teller.tell_snapshot(&snapshot, compacted)).await?;
                self.note(told);
                continue;
            };
            match self.teller.feed.hub.after(revision) {
                Next::Commit(commit) => self.tell_commit(commit).await?,
                Next::Nothing => return Ok(()),
                Next::Older => {
                    let teller = self.teller;
                    tokio::select! {
                        told = Box::pin(self.tell_from_log((revision, chain))) => told?,
                        end = teller.end() => return Err(end),
                    }
                }
            }
        }
    }

    fn note(&mut self, place: (Revision, ChainHash)) {
        (self.place, self.told) = (Some(place), place.0);
    }

    /// Says a page of commits that are no longer in memory, or a snapshot where they are no longer
    /// kept for followers or the log cannot be read.
    async fn tell_from_log(&mut self, place: (Revision, ChainHash)) -> Result<(), Error> {
        let feed = &self.teller.feed;
        let head = *self.head.borrow();
        let history = self.teller.wants.history;
        if !history && place.0 < feed.retention.before(head) {
            (self.place, self.compacted) = (None, Some(feed.oldest_delta()));
            return Ok(());
        }
        let page = feed.pages.after(place.0);
        let commits = page.get_or_init(|| pages::read(feed, place)).await;
        let commits = match commits {
            Ok(commits) => commits.as_slice(),
            // A snapshot would be of no use.
            Err(error) if history => return Err(error.clone().into()),
            Err(_) => &[],
        };
        if commits.is_empty() {
            self.place = None;
        }
        for commit in commits {
            self.tell_commit(commit.clone()).await?;
        }
        Ok(())
    }

    async fn tell_commit(&mut self, delta: Arc<Shared<Delta>>) -> Result<(), Error> {
        let place = (delta.commit.revision(), delta.commit.chain());
        self.teller.seat.sent(place.0);
        self.teller.tell(Message::Delta(delta)).await?;
        self.note(place);
        Ok(())
    }

    /// Tells that there is nothing new. Says whether that is so: until then, what is told may be old.
    async fn tell_progress(&mut self) -> Result<bool, Error> {
        let feed = &self.teller.feed;
        let now = feed.hub.vouched();
        if self.place != Some((now.revision(), now.chain())) {
            return Ok(false);
        }
        let (attestation, age) = (now.attestation().copied(), feed.hub.voucher().age());
        let place = feed.reached.place(&now, None, attestation, age);
        self.teller.tell_progress(place).await?;
        Ok(true)
    }
}
