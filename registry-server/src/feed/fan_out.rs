//! The fan-out: sends new commits to the followers that have all earlier ones.
//!
//! Usually these are all followers, and a commit wakes none of their tasks. A follower that does not read fast enough
//! leaves the fan-out. Its task sends the missing commits and joins again.

use std::{
    array,
    collections::BTreeMap,
    net::SocketAddr,
    ops::Bound,
    sync::{Arc, Mutex, Weak},
};

use registry_core::{ChainHash, Revision};
use tokio::{
    sync::{oneshot, watch},
    task::yield_now,
};

use super::{
    Hub, Message,
    outbox::Outbox,
    recent::Next,
    sessions::{FollowerSession, lock},
};

/// Groups of connections. Each has a task. The number is a prime, because a client's ports can have a common factor.
const GROUPS: usize = 61;
/// Followers of a group that receive a commit before other tasks run.
const CHUNK: usize = 128;

/// The followers that have all commits.
pub(super) struct FanOut {
    hub: Arc<Hub>,
    groups: [Arc<Mutex<Group>>; GROUPS],
}

/// Followers of some connections.
#[derive(Debug, Default)]
struct Group {
    /// Head that the task sent last.
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

    /// Adds a follower; `None` if it lacks a commit, or if `seen` has a change that it has not seen. Until it leaves,
    /// only the fan-out sends to it.
    pub(super) fn join(
        &self,
        outbox: &Outbox,
        session: &Arc<FollowerSession>,
        position: (Revision, ChainHash),
        seen: &watch::Receiver<Revision>,
    ) -> Option<Membership> {
        let key = session.connection_key();
        let shared = self.group(key.0);
        let mut group = lock(shared);
        if !group.is_running {
            // Subscribed before the comparison, so that the task receives each later commit.
            let head = self.hub.watch();
            group.head = *head.borrow();
            group.is_running = true;
            tokio::spawn(run(shared.clone(), Arc::downgrade(&self.hub), head));
        }
        // The task has sent a change from before this comparison, and sends each later one to the member too.
        if position.0 < group.head || seen.has_changed().unwrap_or(true) {
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

/// The task of a group. Its end stops the members, and a later follower starts another one.
struct RunningGroup(Arc<Mutex<Group>>);

impl Drop for RunningGroup {
    fn drop(&mut self) {
        let mut group = lock(&self.0);
        group.is_running = false;
        group.followers.values_mut().for_each(|follower| follower.stop = None);
    }
}

/// Sends commits to a group until it is empty.
async fn run(shared: Arc<Mutex<Group>>, hub: Weak<Hub>, mut head: watch::Receiver<Revision>) {
    let running = RunningGroup(shared);
    while head.changed().await.is_ok() {
        let Some(hub) = hub.upgrade() else { return };
        let revision = *head.borrow_and_update();
        let mut from = Bound::Unbounded;
        loop {
            let chunk = {
                let mut group = lock(&running.0);
                if group.followers.is_empty() {
                    return;
                }
                group.head = revision;
                group.send_chunk(from, &hub)
            };
            let Some(last) = chunk.last else { break };
            // The stopped followers are woken here, because they need the lock.
            drop(chunk);
            from = Bound::Excluded(last);
            yield_now().await;
        }
    }
}

/// A chunk of a group that has received the head.
struct Chunk {
    /// Key of the last follower; `None`: the group has no further one.
    last: Option<Key>,
    /// The stopped followers.
    _stopped: Vec<oneshot::Sender<()>>,
}

impl Group {
    fn send_chunk(&mut self, from: Bound<Key>, hub: &Hub) -> Chunk {
        let Self { head, followers, .. } = self;
        let (mut last, mut stopped) = (None, Vec::new());
        let chunk = followers.range_mut((from, Bound::Unbounded)).take(CHUNK);
        for (count, (key, follower)) in (1..).zip(chunk) {
            stopped.extend(follower.send_until(*head, hub));
            last = (count == CHUNK).then_some(*key);
        }
        Chunk { last, _stopped: stopped }
    }
}

impl Follower {
    /// Sends the commits up to the head. A follower whose outbox is full, or that has the head, is stopped: in the
    /// second case, the head has a new signature, which its task sends.
    fn send_until(&mut self, head: Revision, hub: &Hub) -> Option<oneshot::Sender<()>> {
        self.stop.as_ref()?;
        let before = self.position.0;
        while self.position.0 < head && self.send_next(hub) {}
        let is_stopped = self.position.0 < head || self.position.0 == before;
        if is_stopped { self.stop.take() } else { None }
    }

    /// Sends the next commit. Returns whether it is sent.
    fn send_next(&mut self, hub: &Hub) -> bool {
        let Next::Commit(delta) = hub.after(self.position.0) else { return false };
        let position = (delta.commit.revision(), delta.commit.chain());
        // The follower can acknowledge the commit at once.
        self.session.sent(position.0);
        let is_sent = matches!(self.outbox.try_send(Message::Delta(delta)), Ok(None));
        if is_sent {
            self.position = position;
        } else {
            self.session.sent(self.position.0);
        }
        is_sent
    }
}

impl Membership {
    /// Completes when the fan-out sends nothing more to the follower.
    pub(super) async fn stopped(&mut self) {
        // The sender is dropped, not used.
        let _ = (&mut self.stopped).await;
    }

    /// Ends the membership. Returns the position of the follower, the first time.
    pub(super) fn leave(&mut self) -> Option<(Revision, ChainHash)> {
        lock(&self.group).followers.remove(&self.key).map(|follower| follower.position)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, StreamExt as _};
    use registry_core::{Commit, Scope, SealedCommit, follower::CacheState};

    use super::*;
    use crate::{
        clock::SystemClock,
        feed::{
            Error, FollowerSessions, Hello, PolicySupport, Signal,
            hub::tests::hub,
            outbox::{self, Outgoing},
        },
    };

    struct TestFollower {
        outbox: Outbox,
        outgoing: Outgoing,
        session: Arc<FollowerSession>,
        head: watch::Receiver<Revision>,
    }

    fn follower(hub: &Hub) -> TestFollower {
        follower_of(hub, &FollowerSessions::new(1, "server".into(), Arc::new(SystemClock)))
    }

    fn follower_of(hub: &Hub, sessions: &FollowerSessions) -> TestFollower {
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
        TestFollower { outbox, outgoing, session, head: hub.watch() }
    }

    impl TestFollower {
        fn join(&self, fan_out: &FanOut, position: (Revision, ChainHash)) -> Option<Membership> {
            fan_out.join(&self.outbox, &self.session, position, &self.head)
        }

        fn acknowledge(&self, revision: Revision) -> Result<(), Error> {
            let (applied, persisted, cache) = (revision, revision, CacheState::default());
            self.session.handle(Signal::Ack { applied, persisted, cache })
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
        let fan_out = fan_out();
        let sessions = FollowerSessions::new(300, "server".into(), Arc::new(SystemClock));
        let mut followers: Vec<_> =
            (0..300).map(|_| follower_of(&fan_out.hub, &sessions)).collect();
        let begin = head(&fan_out.hub);
        let mut memberships: Vec<_> =
            followers.iter().map(|follower| follower.join(&fan_out, begin).unwrap()).collect();
        for revision in 1..=3 {
            publish(&fan_out.hub, 1);
            for follower in &mut followers {
                assert_eq!(follower.commit().await, Revision(revision));
            }
        }
        for membership in &mut memberships {
            assert_eq!(membership.leave(), Some(head(&fan_out.hub)));
            assert_eq!(membership.leave(), None);
        }
    }

    #[tokio::test]
    async fn slow_member_stops_at_its_last_message() {
        let fan_out = fan_out();
        let mut follower = follower(&fan_out.hub);
        let mut membership = follower.join(&fan_out, head(&fan_out.hub)).unwrap();
        let first = publish(&fan_out.hub, 1);
        publish(&fan_out.hub, 2);
        membership.stopped().await;
        publish(&fan_out.hub, 1);
        assert_eq!(follower.commit().await, Revision(1));
        assert_eq!(membership.leave(), Some(first));
        assert!(follower.outgoing.next().now_or_never().is_none(), "nothing after the stop");
        assert!(follower.acknowledge(first.0).is_ok());
        assert!(follower.acknowledge(first.0.next()).is_err(), "it was not sent");
    }

    #[tokio::test]
    async fn follower_without_the_head_cannot_join() {
        let fan_out = fan_out();
        let sessions = FollowerSessions::new(2, "server".into(), Arc::new(SystemClock));
        let [mut member, mut other] = [(); 2].map(|()| follower_of(&fan_out.hub, &sessions));
        let begin = head(&fan_out.hub);
        let _membership = member.join(&fan_out, begin).unwrap();
        let head = publish(&fan_out.hub, 1);
        member.commit().await;
        assert!(other.join(&fan_out, begin).is_none(), "it lacks a commit");
        assert!(other.join(&fan_out, head).is_none(), "it has not seen the change");
        other.head.mark_unchanged();
        assert!(other.join(&fan_out, begin).is_none());
        assert!(other.join(&fan_out, head).is_some());
    }

    #[tokio::test]
    async fn follower_joins_again_after_its_group_was_empty() {
        let fan_out = fan_out();
        let mut follower = follower(&fan_out.hub);
        let begin = head(&fan_out.hub);
        drop(follower.join(&fan_out, begin).unwrap());
        let head = publish(&fan_out.hub, 1);
        tokio::task::yield_now().await;
        follower.head.mark_unchanged();
        assert!(follower.join(&fan_out, begin).is_none());
        let _membership = follower.join(&fan_out, head).unwrap();
        publish(&fan_out.hub, 1);
        assert_eq!(follower.commit().await, Revision(2));
    }

    #[tokio::test]
    async fn new_signature_of_the_head_stops_members() {
        let fan_out = fan_out();
        let follower = follower(&fan_out.hub);
        let begin = head(&fan_out.hub);
        let mut membership = follower.join(&fan_out, begin).unwrap();
        fan_out.hub.renew((*fan_out.hub.catalog()).clone());
        membership.stopped().await;
        assert_eq!(membership.leave(), Some(begin));
        assert!(follower.join(&fan_out, begin).is_none(), "it has not seen the signature");
    }

    #[tokio::test]
    async fn end_of_the_hub_stops_members() {
        let fan_out = fan_out();
        let follower = follower(&fan_out.hub);
        let mut membership = follower.join(&fan_out, head(&fan_out.hub)).unwrap();
        tokio::task::yield_now().await;
        drop(fan_out);
        membership.stopped().await;
    }
}
