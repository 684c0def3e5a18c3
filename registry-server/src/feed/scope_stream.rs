//! Stream of one follower of a scope: one delta from its state to the current state, regardless of the number
//! of commits between them.

use std::{pin::pin, sync::Arc};

use registry_core::{ChainHash, Revision};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    Error, Message, ScopeDelta, SharedMessage,
    scopes::{ScopeChannel, ScopeState},
    sender::FollowerSender,
};

pub(super) struct ScopeStream<'a> {
    sender: &'a FollowerSender,
    channel: Arc<ScopeChannel>,
    now: watch::Receiver<Arc<ScopeState>>,
    /// State of the follower; `None` if this server does not know it.
    held: Option<Arc<ScopeState>>,
    /// Last sent revision.
    sent: Revision,
    /// Whether a heartbeat confirmed that the state is current.
    is_current: bool,
}

impl<'a> ScopeStream<'a> {
    /// Continues from an earlier state, in another scope or after a reconnect.
    pub(super) async fn new(
        sender: &'a FollowerSender,
        channel: Arc<ScopeChannel>,
        sent: Revision,
        held: Option<Arc<ScopeState>>,
    ) -> Result<Self, Error> {
        let mut now = channel.watch();
        // The updater of the scope may lag behind.
        let reached = now.wait_for(|state| state.revision() >= sent).await;
        drop(reached.map_err(|_| Error::Draining)?);
        Ok(Self { sender, channel, now, held, sent, is_current: false })
    }

    /// Runs until the follower changes its scope. Returns its revision and state.
    pub(super) async fn run<T>(
        mut self,
        scope_changes: &mut watch::Receiver<T>,
    ) -> Result<(Revision, Arc<ScopeState>), Error> {
        let (mut held, _) = self.send_current().await?;
        let mut heartbeat = pin!(sleep(self.sender.heartbeat_interval()));
        let mut scope_change = pin!(scope_changes.changed());
        loop {
            tokio::select! {
                changed = self.now.changed() => changed.map_err(|_| Error::Draining)?,
                () = &mut heartbeat => {}
                changed = &mut scope_change => {
                    changed.map_err(|_| Error::Disconnected)?;
                    return Ok((self.sent, held));
                }
            }
            let is_heartbeat_sent;
            (held, is_heartbeat_sent) = self.send_current().await?;
            // The age of a relay's knowledge is sent with the next heartbeat.
            if is_heartbeat_sent {
                heartbeat.as_mut().reset(Instant::now() + self.sender.heartbeat_interval());
            }
        }
    }

    /// Sends the current state. Returns it, and whether a heartbeat was sent.
    async fn send_current(&mut self) -> Result<(Arc<ScopeState>, bool), Error> {
        let to = self.now.borrow_and_update().clone();
        let position = position_of(&to);
        if self.sender.options.signatures {
            let signed =
                ScopeDelta::signature_only(to.clone(), to.attestation(&self.sender.feed.hub));
            self.sender.session.sent(position.0);
            self.sender.send(Message::ScopeDelta(SharedMessage::new(signed))).await?;
            self.sent = position.0;
            return Ok((to, true));
        }
        let from = self.held.replace(to.clone());
        let has_news = !from.as_ref().is_some_and(|from| has_same_content(from, &to));
        match from {
            Some(from) if has_news => self.send_delta(&from, &to).await?,
            Some(_) => {}
            None => self.send_snapshot(&to).await?,
        }
        // The first heartbeat confirms that the state is current.
        let is_due = !has_news || !self.is_current;
        if is_due {
            self.send_heartbeat(&to).await?;
            self.is_current = true;
        }
        self.sent = position.0;
        Ok((to, is_due))
    }

    async fn send_heartbeat(&self, of: &ScopeState) -> Result<(), Error> {
        let hub = &self.sender.feed.hub;
        let (signed, age) = (of.attestation(hub), hub.signer().age());
        let heartbeat =
            self.channel.last_heartbeat.next(&of.catalog, Some(of.content), signed, age);
        self.sender.send_heartbeat(heartbeat).await
    }

    async fn send_snapshot(&self, of: &ScopeState) -> Result<(), Error> {
        let snapshot = of.snapshot().await;
        Box::pin(self.sender.send_snapshot(&snapshot, None)).await.map(|_| ())
    }

    async fn send_delta(&self, from: &Arc<ScopeState>, to: &Arc<ScopeState>) -> Result<(), Error> {
        let delta = self.channel.delta(from, to);
        if delta.is_too_big() {
            return self.send_snapshot(to).await;
        }
        self.sender.session.sent(to.revision());
        self.sender.send(Message::ScopeDelta(delta)).await
    }
}

/// Whether only the revision differs.
fn has_same_content(from: &ScopeState, to: &ScopeState) -> bool {
    from.content == to.content && from.catalog.scope() == to.catalog.scope()
}

fn position_of(state: &ScopeState) -> (Revision, ChainHash) {
    (state.revision(), state.catalog.chain())
}
