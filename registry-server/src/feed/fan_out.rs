//! The fan-out: sends new commits to the followers that have all earlier ones.
//!
//! Usually these are all followers, and a commit wakes none of their tasks. A follower that does not read fast enough
//! leaves the fan-out. Its task sends the missing commits and joins again.

use std::{
    array,
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use registry_core::{ChainHash, Revision};
use tokio::sync::{oneshot, watch};

use super::{
    Hub, Message,
    outbox::Outbox,
    recent::Next,
    sessions::{FollowerSession, lock},
};

/// Groups of connections. Each has a task. The number is a prime, because a client's ports can have a common factor.
const GROUPS: usize = 61;

/// The followers that have all commits.
pub(super) struct FanOut {
    hub: Arc<Hub>,
    groups: [Arc<Mutex<Group>>; GROUPS],
}

/// Followers of some connections.
#[derive(Debug, Default)]
struct Group {
    /// The revision that the followers have.
    head: Revision,
    is_running: bool,
    /// Ordered by connection, so that the messages of a connection are written together.
    followers: BTreeMap<Key, Follower>,
}

/// The client's address and the number of the session.
type Key = (Option<SocketAddr>, u64);

#[derive(Debug)]
struct Follower {
    outbox: Outbox,
    session: Arc<FollowerSession>,
    position: (Revision, ChainHash),
    /// Wakes the follower's task; `None` afterwards.
    stop: Option<oneshot::Sender<()>>,
}

/// A follower in the fan-out, until it is dropped.
#[derive(Debug)]
pub(super) struct Membership {
    group: Arc<Mutex<Group>>,
    key: Key,
    stopped: oneshot::Receiver<()>,
}

impl FanOut {
    pub(super) fn new(hub: Arc<Hub>) -> Self {
        Self { hub, groups: array::from_fn(|_| Arc::default()) }
    }

    /// Adds a follower; `None` if it lacks a commit. Until it leaves, only the fan-out sends to it.
    pub(super) fn join(
        &self,
        outbox: &Outbox,
        session: &Arc<FollowerSession>,
        position: (Revision, ChainHash),
    ) -> Option<Membership> {
        let key = session.connection_key();
        let shared = self.group(key.0);
        let mut group = lock(shared);
        if !group.is_running {
            // Subscribed before the comparison, so that the task receives each later commit.
            let head = self.hub.watch();
            group.head = *head.borrow();
            group.is_running = true;
            tokio::spawn(run(shared.clone(), self.hub.clone(), head));
        }
        if position.0 < group.head {
            return None;
        }
        let (stop, stopped) = oneshot::channel();
        let (outbox, session) = (outbox.clone(), session.clone());
        group.followers.insert(key, Follower { outbox, session, position, stop: Some(stop) });
        Some(Membership { group: shared.clone(), key, stopped })
    }

    fn group(&self, client: Option<SocketAddr>) -> &Arc<Mutex<Group>> {
        let port = client.map_or(0, |client| client.port());
        &self.groups[usize::from(port) % GROUPS]
    }
}

/// Sends commits to a group until it is empty.
async fn run(shared: Arc<Mutex<Group>>, hub: Arc<Hub>, mut head: watch::Receiver<Revision>) {
    while head.changed().await.is_ok() {
        let mut group = lock(&shared);
        group.head = *head.borrow_and_update();
        if group.followers.is_empty() {
            group.is_running = false;
            return;
        }
        let Group { head, followers, .. } = &mut *group;
        for follower in followers.values_mut() {
            follower.send_until(*head, &hub);
        }
    }
}

impl Follower {
    /// Sends the commits up to the head. Stops if it is not possible, or if there is none: then the head has a new
    /// signature, which the follower's task sends.
    fn send_until(&mut self, head: Revision, hub: &Hub) {
        if self.stop.is_none() {
            return;
        }
        let before = self.position.0;
        while self.position.0 < head && self.send_next(hub).is_some() {}
        if self.position.0 < head || self.position.0 == before {
            self.stop = None;
        }
    }

    fn send_next(&mut self, hub: &Hub) -> Option<()> {
        let Next::Commit(delta) = hub.after(self.position.0) else { return None };
        let position = (delta.commit.revision(), delta.commit.chain());
        self.session.sent(position.0);
        match self.outbox.try_send(Message::Delta(delta)) {
            Ok(None) => self.position = position,
            Ok(Some(_)) | Err(_) => return None,
        }
        Some(())
    }
}

impl Membership {
    /// Completes when the fan-out sends nothing more to the follower.
    pub(super) async fn stopped(&mut self) {
        // The sender is dropped, not used.
        let _ = (&mut self.stopped).await;
    }

    /// Ends the membership. Returns the position of the follower.
    pub(super) fn leave(self) -> Option<(Revision, ChainHash)> {
        self.remove()
    }

    fn remove(&self) -> Option<(Revision, ChainHash)> {
        lock(&self.group).followers.remove(&self.key).map(|follower| follower.position)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, StreamExt as _};
    use registry_core::{Commit, Scope, SealedCommit};

    use super::*;
    use crate::{
        clock::SystemClock,
        feed::{
            FollowerSessions, Hello, PolicySupport,
            hub::tests::hub,
            outbox::{self, Outgoing},
        },
    };

    struct TestFollower {
        outbox: Outbox,
        outgoing: Outgoing,
        session: Arc<FollowerSession>,
    }

    fn follower() -> TestFollower {
        let sessions = FollowerSessions::new(1, "server".into(), Arc::new(SystemClock));
        let hello = Hello {
            gateway: "gateway".to_owned(),
            gateway_version: String::new(),
            principal: "ann".into(),
            caller: ("token", "ann".into()),
            address: None,
            scope: Scope::Everything,
            is_observer: false,
            position: None,
            content: None,
            history: false,
            signatures: false,
            policies: PolicySupport::Enforced,
        };
        let session = sessions.open(&hello).unwrap();
        let (outbox, outgoing) = outbox::pair(session.clone());
        TestFollower { outbox, outgoing, session }
    }

    impl TestFollower {
        fn join(&self, fan_out: &FanOut, position: (Revision, ChainHash)) -> Option<Membership> {
            fan_out.join(&self.outbox, &self.session, position)
        }

        /// Receives a commit and returns its revision.
        async fn commit(&mut self) -> Revision {
            match self.outgoing.next().await.unwrap().unwrap() {
                Message::Delta(delta) => delta.commit.revision(),
                other => panic!("{other:?}"),
            }
        }
    }

    fn fan_out() -> FanOut {
        FanOut::new(Arc::new(hub(Revision(0))))
    }

    fn head(hub: &Hub) -> (Revision, ChainHash) {
        (hub.catalog().revision(), hub.catalog().chain())
    }

    /// Publishes the next commits and returns the position of the last one.
    fn publish(hub: &Hub, count: usize) -> (Revision, ChainHash) {
        let (mut position, mut commits) = (head(hub), Vec::new());
        for _ in 0..count {
            let commit = Commit { revision: position.0.next(), ..Commit::default() };
            let sealed = SealedCommit::seal(&position.1, commit, Vec::new()).unwrap();
            position = (sealed.revision(), sealed.chain());
            commits.push(sealed);
        }
        hub.publish(hub.catalog().at(position.0, position.1), commits);
        position
    }

    #[tokio::test]
    async fn members_receive_each_commit() {
        let (fan_out, mut follower) = (fan_out(), follower());
        let membership = follower.join(&fan_out, head(&fan_out.hub)).unwrap();
        for revision in 1..=3 {
            publish(&fan_out.hub, 1);
            assert_eq!(follower.commit().await, Revision(revision));
        }
        assert_eq!(membership.leave(), Some(head(&fan_out.hub)));
    }

    #[tokio::test]
    async fn member_that_does_not_read_stops_at_its_last_message() {
        let (fan_out, mut follower) = (fan_out(), follower());
        let mut membership = follower.join(&fan_out, head(&fan_out.hub)).unwrap();
        let first = publish(&fan_out.hub, 1);
        publish(&fan_out.hub, 2);
        membership.stopped().await;
        publish(&fan_out.hub, 1);
        assert_eq!(follower.commit().await, Revision(1));
        assert_eq!(membership.leave(), Some(first));
        assert!(follower.outgoing.next().now_or_never().is_none(), "nothing after the stop");
    }

    #[tokio::test]
    async fn follower_without_the_head_cannot_join() {
        let (fan_out, mut member, other) = (fan_out(), follower(), follower());
        let begin = head(&fan_out.hub);
        let _membership = member.join(&fan_out, begin).unwrap();
        let head = publish(&fan_out.hub, 1);
        member.commit().await;
        assert!(other.join(&fan_out, begin).is_none());
        assert!(other.join(&fan_out, head).is_some());
    }

    #[tokio::test]
    async fn follower_joins_again_after_its_group_was_empty() {
        let (fan_out, mut follower) = (fan_out(), follower());
        let begin = head(&fan_out.hub);
        drop(follower.join(&fan_out, begin).unwrap());
        let head = publish(&fan_out.hub, 1);
        tokio::task::yield_now().await;
        assert!(follower.join(&fan_out, begin).is_none());
        let _membership = follower.join(&fan_out, head).unwrap();
        publish(&fan_out.hub, 1);
        assert_eq!(follower.commit().await, Revision(2));
    }

    #[tokio::test]
    async fn new_signature_of_the_head_stops_members() {
        let (fan_out, follower) = (fan_out(), follower());
        let begin = head(&fan_out.hub);
        let mut membership = follower.join(&fan_out, begin).unwrap();
        fan_out.hub.renew((*fan_out.hub.catalog()).clone());
        membership.stopped().await;
        assert_eq!(membership.leave(), Some(begin));
    }
}
