//! Many cheap followers of one server. Each decodes and acknowledges its messages and checks their
//! order. All must receive the same chain hash.

use std::{sync::Arc, time::Instant};

use futures_util::{StreamExt as _, stream};
use hdrhistogram::Histogram;
use prost::Message as _;
use registry_proto::v1::{
    self, registry_service_client::RegistryServiceClient, sync_request, sync_response::Message,
    sync_service_client::SyncServiceClient,
};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Channel};

use crate::{arrivals::Arrivals, load};

/// Streams that are opened concurrently.
const AT_ONCE: usize = 100;
/// Maximum streams per shared connection.
pub(crate) const SHARED: usize = 100;

/// A message of one follower with its time.
struct Arrival {
    revision: u64,
    chain: String,
    bytes: usize,
    at: Instant,
}

/// Followers that disconnect when dropped.
pub(crate) struct Followers {
    arrivals: Arc<Arrivals<Arrival>>,
    streams: usize,
    /// The size of the last message.
    pub(crate) message_bytes: usize,
    _tasks: JoinSet<()>,
}

pub(crate) async fn connections(address: &str, count: usize) -> Vec<Channel> {
    let connect = |_| async {
        let endpoint = Channel::from_shared(address.to_owned()).expect("an address");
        endpoint.connect().await.expect("a connection")
    };
    stream::iter(0..count).map(connect).buffer_unordered(AT_ONCE).collect().await
}

impl Followers {
    /// Opens streams on these connections in turn and waits until all have the current state.
    /// `scope` selects the scope of each.
    pub(crate) async fn open(
        connections: &[Channel],
        streams: usize,
        scope: impl Fn(usize) -> Option<v1::FollowScope>,
    ) -> Self {
        let arrivals = Arrivals::new();
        let mut tasks = JoinSet::new();
        let follow = |number| {
            let hello = v1::ClientHello {
                gateway: format!("gateway-{number}"),
                scope: scope(number),
                capabilities: vec![v1::FollowerCapability::Policies.into()],
                ..v1::ClientHello::default()
            };
            open(connections[number % connections.len()].clone(), hello)
        };
        let mut opened = stream::iter(0..streams).map(follow).buffer_unordered(AT_ONCE);
        while let Some((requests, responses)) = opened.next().await {
            let _: AbortHandle = tasks.spawn(run(requests, responses, arrivals.clone()));
        }
        let mut client = RegistryServiceClient::new(connections[0].clone());
        let request =
            v1::ListEntitiesRequest { page_size: 1, ..v1::ListEntitiesRequest::default() };
        let head = client.list_entities(request).await.expect("a list").into_inner().revision;
        // A shared snapshot can be older. Then commits follow.
        let mut there = 0;
        while there < streams {
            let arrived = arrivals.take(streams - there).await;
            there += arrived.iter().filter(|arrival| arrival.revision == head).count();
        }
        Self { arrivals, streams, message_bytes: 0, _tasks: tasks }
    }

    /// Waits until all have the next revision, and records the time since `since` of each.
    pub(crate) async fn all_reach(
        &mut self,
        revision: u64,
        latencies: &mut Histogram<u64>,
        since: Instant,
    ) {
        let mut chain = None;
        for arrival in self.arrivals.take(self.streams).await {
            assert_eq!(arrival.revision, revision, "in order");
            assert_eq!(*chain.get_or_insert(arrival.chain.clone()), arrival.chain, "the same");
            self.message_bytes = arrival.bytes;
            load::record(latencies, arrival.at - since);
        }
    }
}

pub(crate) type Responses = Streaming<v1::SyncResponse>;

/// Opens one stream and returns its request sender and responses.
pub(crate) async fn open(
    channel: Channel,
    hello: v1::ClientHello,
) -> (mpsc::Sender<v1::SyncRequest>, Responses) {
    let (requests, receiver) = mpsc::channel(4);
    let hello = Some(sync_request::Message::Hello(hello));
    requests.send(v1::SyncRequest { message: hello }).await.expect("room");
    let mut client = SyncServiceClient::new(channel).max_decoding_message_size(64 << 20);
    let answer = client.sync(ReceiverStream::new(receiver)).await.expect("a stream");
    (requests, answer.into_inner())
}

async fn run(
    requests: mpsc::Sender<v1::SyncRequest>,
    mut responses: Responses,
    arrivals: Arc<Arrivals<Arrival>>,
) {
    let mut place = None;
    while let Ok(Some(response)) = responses.message().await {
        let (at, bytes) = (Instant::now(), response.encoded_len());
        let (revision, chain) = match response.message {
            Some(Message::SnapshotBegin(begin)) => {
                place = begin.position.map(|position| (position.revision, position.chain));
                continue;
            }
            Some(Message::SnapshotEnd(_)) => place.take().expect("it began"),
            Some(Message::Delta(delta)) => (delta.revision, delta.chain),
            Some(Message::ScopeDelta(step)) => {
                let position = step.position.expect("a position");
                (position.revision, position.chain)
            }
            _ => continue,
        };
        arrivals.push(Arrival { revision, chain, bytes, at });
        acknowledge(&requests, revision).await;
    }
}

/// Acknowledges a revision.
pub(crate) async fn acknowledge(requests: &mpsc::Sender<v1::SyncRequest>, revision: u64) {
    let (applied_revision, persisted_revision) = (revision, revision);
    let ack = v1::Ack { applied_revision, persisted_revision, ..v1::Ack::default() };
    let message = Some(sync_request::Message::Ack(ack));
    let _ = requests.send(v1::SyncRequest { message }).await;
}

/// A scope with a unique namespace.
pub(crate) fn scope(number: usize) -> v1::FollowScope {
    let roots = v1::ScopeRoots { roots: vec![format!("team-{number}/*")] };
    v1::FollowScope { scope: Some(v1::follow_scope::Scope::Roots(roots)) }
}

/// A batch with one server in each namespace.
pub(crate) fn one_in_each(namespaces: usize, version: usize) -> v1::ApplyChangesRequest {
    let server = |number| {
        let server = v1::Server {
            name: format!("team-{number}/server"),
            version: format!("1.{version}.0"),
            description: Some("a server that is released again and again".to_owned()),
            ..v1::Server::default()
        };
        let entity = v1::Entity { kind: Some(v1::entity::Kind::Server(server)) };
        v1::EntityChange {
            change: Some(v1::entity_change::Change::RegisterEntity(entity)),
            if_digest: None,
        }
    };
    crate::sample::request((0..namespaces).map(server).collect())
}
