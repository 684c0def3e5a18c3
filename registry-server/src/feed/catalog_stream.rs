//! Stream of one follower of the whole catalog.
//!
//! The only state is the position. The stream looks up the next message after the follower has read the
//! previous one. A follower with all commits receives the next ones from the fan-out.

use std::{pin::pin, sync::Arc};

use registry_core::{ChainHash, Digest, Revision, Scope};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    Delta, Error, Feed, Message, SharedMessage, fan_out::Membership, pages, recent::Next,
    resume::ResumePoint, scope_stream::ScopeStream, scopes::ScopeState, sender::FollowerSender,
};

/// Runs until a message cannot be sent. [`FollowerSender::end`] watches the connection.
pub(super) async fn run(
    sender: &FollowerSender,
    start: ResumePoint,
    scope_changes: watch::Receiver<Scope>,
) -> Error {
    match send_all(sender, start, scope_changes).await {
        Ok(never) => match never {},
        Err(end) => end,
    }
}

async fn send_all(
    sender: &FollowerSender,
    start: ResumePoint,
    mut scope_changes: watch::Receiver<Scope>,
) -> Result<std::convert::Infallible, Error> {
    let ResumePoint { mut position, mut content } = start;
    let mut sent = position.map_or(Revision(0), |(revision, _)| revision);
    if position.is_some() {
        sender.session.resumed(sent);
    }
    let mut state = None;
    if sender.options.history {
        let hub = &sender.feed.hub;
        let key = hub.signer().verifier_key(sender.feed.store.registry());
        sender.send(Message::ServerHello(SharedMessage::new(key))).await?;
    }
    loop {
        let scope = scope_changes.borrow_and_update().clone();
        if scope == Scope::Everything {
            let head = sender.feed.hub.watch();
            let following = CatalogStream { sender, head, position, sent, compacted: None };
            sent = following.run(&mut scope_changes).await?;
            state = None;
        } else {
            let (held, scope_changes) = ((sent, state.take(), content), &mut scope_changes);
            // Boxed, because followers of the whole catalog do not need this memory.
            let (now, holds) = Box::pin(run_in_scope(sender, scope, held, scope_changes)).await?;
            (sent, state) = (now, Some(holds));
        }
        // A follower that changes its scope continues with a delta from its state, not from a position.
        (position, content) = (None, None);
    }
}

/// Runs until the follower changes its scope. Returns its revision and state.
async fn run_in_scope(
    sender: &FollowerSender,
    scope: Scope,
    (sent, state, content): (Revision, Option<Arc<ScopeState>>, Option<Digest>),
    scope_changes: &mut watch::Receiver<Scope>,
) -> Result<(Revision, Arc<ScopeState>), Error> {
    let Feed { scopes, hub, stages, quotas, .. } = &*sender.feed;
    let opening = quotas.opening(&sender.caller, &scope);
    let channel = scopes.channel(scope, hub, (opening, &stages.scopes)).await?;
    let from = state.or_else(|| channel.find(content?));
    ScopeStream::new(sender, channel, sent, from).await?.run(scope_changes).await
}

/// A stream of the whole catalog.
struct CatalogStream<'a> {
    sender: &'a FollowerSender,
    head: watch::Receiver<Revision>,
    /// Position of the follower; `None` before the first message.
    position: Option<(Revision, ChainHash)>,
    /// Last sent revision of any scope.
    sent: Revision,
    /// Oldest retained revision, if the follower needs an older one.
    compacted: Option<Revision>,
}

/// Completes at a change of the head that the fan-out does not send.
async fn head_changed(
    membership: &mut Option<Membership>,
    head: &mut watch::Receiver<Revision>,
) -> Result<(), Error> {
    match membership {
        Some(membership) => membership.stopped().await,
        None => head.changed().await.map_err(|_| Error::Draining)?,
    }
    Ok(())
}

/// An event that wakes the task of a follower.
enum Event {
    HeadChanged,
    HeartbeatDue,
    ScopeChanged,
}

impl CatalogStream<'_> {
    /// Runs until the follower changes its scope. Returns its revision.
    async fn run(mut self, scope_changes: &mut watch::Receiver<Scope>) -> Result<Revision, Error> {
        self.catch_up().await?;
        let mut is_current = self.send_heartbeat().await?;
        let mut heartbeat = pin!(sleep(self.sender.heartbeat_interval()));
        let mut scope_change = pin!(scope_changes.changed());
        loop {
            let mut membership = if is_current { self.join() } else { None };
            let event = tokio::select! {
                changed = head_changed(&mut membership, &mut self.head) => {
                    changed?;
                    Event::HeadChanged
                }
                () = &mut heartbeat => Event::HeartbeatDue,
                changed = &mut scope_change => {
                    changed.map_err(|_| Error::Disconnected)?;
                    Event::ScopeChanged
                }
            };
            if let Some(position) = membership.as_mut().and_then(Membership::leave) {
                self.note(position);
            }
            if let Event::ScopeChanged = event {
                return Ok(self.sent);
            }
            let before = self.sent;
            // Marks the head as seen, so that the follower can join again.
            self.catch_up().await?;
            // Without a commit, a relay has received a new signature of the same state. The age of a relay's knowledge
            // is sent with the next heartbeat.
            if let Event::HeadChanged = event
                && is_current
                && self.sent != before
            {
                continue;
            }
            is_current = self.send_heartbeat().await?;
            heartbeat.as_mut().reset(Instant::now() + self.sender.heartbeat_interval());
        }
    }

    /// Joins the fan-out, if the follower has the head.
    fn join(&self) -> Option<Membership> {
        let FollowerSender { feed, session, outbox, .. } = self.sender;
        feed.fan_out.join(outbox, session, self.position?, &self.head)
    }

    /// Sends everything up to the head.
    async fn catch_up(&mut self) -> Result<(), Error> {
        // A later head wakes the stream again, or is sent by the fan-out.
        let head = *self.head.borrow_and_update();
        loop {
            let Some((revision, chain)) = self.position else {
                let snapshot = self.sender.feed.hub.snapshot(self.sent).await;
                let compacted = self.compacted.take();
                let sent = Box::pin(self.sender.send_snapshot(&snapshot, compacted)).await?;
                self.note(sent);
                continue;
            };
            if revision >= head {
                return Ok(());
            }
            match self.sender.feed.hub.after(revision) {
                Next::Commit(commit) => self.send_commit(commit).await?,
                Next::Nothing => return Ok(()),
                Next::Older => Box::pin(self.send_from_log((revision, chain))).await?,
            }
        }
    }

    fn note(&mut self, position: (Revision, ChainHash)) {
        (self.position, self.sent) = (Some(position), position.0);
    }

    /// Sends a page of commits that are no longer in memory. Requests a snapshot if they are no longer retained
    /// or the log cannot be read.
    async fn send_from_log(&mut self, position: (Revision, ChainHash)) -> Result<(), Error> {
        let feed = &self.sender.feed;
        let head = *self.head.borrow();
        let history = self.sender.options.history;
        if !history && position.0 < feed.retention.before(head) {
            (self.position, self.compacted) = (None, Some(feed.oldest_retained()));
            return Ok(());
        }
        let page = feed.pages.after(position.0);
        let commits = page.get_or_init(|| pages::read(feed, position)).await;
        let commits = match commits {
            Ok(commits) => commits.as_slice(),
            // A snapshot has no history.
            Err(error) if history => return Err(error.clone().into()),
            Err(_) => &[],
        };
        if commits.is_empty() {
            self.position = None;
        }
        for commit in commits {
            self.send_commit(commit.clone()).await?;
        }
        Ok(())
    }

    async fn send_commit(&mut self, delta: Arc<SharedMessage<Delta>>) -> Result<(), Error> {
        let position = (delta.commit.revision(), delta.commit.chain());
        self.sender.session.sent(position.0);
        self.sender.send(Message::Delta(delta)).await?;
        self.note(position);
        Ok(())
    }

    /// Sends a heartbeat if the follower has the current state. Returns whether it does.
    async fn send_heartbeat(&mut self) -> Result<bool, Error> {
        let feed = &self.sender.feed;
        let now = feed.hub.signed_catalog();
        if self.position != Some((now.revision(), now.chain())) {
            return Ok(false);
        }
        let (attestation, age) = (now.attestation().copied(), feed.hub.signer().age());
        let heartbeat = feed.last_heartbeat.next(&now, None, attestation, age);
        self.sender.send_heartbeat(heartbeat).await?;
        Ok(true)
    }
}
