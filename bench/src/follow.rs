//! From the apply to the moment when every follower has verified and applied the commit.
//!
//! Deliberately absent: 10,000 streams, scoped streams, relays.

use std::time::{Duration, Instant};

use acceptance::Registry;
use hdrhistogram::Histogram;
use registry_core::{Catalog, Record};
use registry_proto::{
    convert::{self, Position},
    v1::{self, sync_service_client::SyncServiceClient},
};
use tokio::sync::mpsc;
use tokio_stream::{StreamExt, wrappers::ReceiverStream};
use tonic::transport::Channel;

use crate::{load, report::Report, sample};

const COMMITS: usize = 100;

/// Measures at 1, 100 and 1,000 streams.
pub(crate) async fn measure(report: &mut Report) {
    for streams in [1, 100, 1_000] {
        let latencies = latencies(streams).await;
        let (p50, p99) = (load::quantile_ms(&latencies, 0.5), load::quantile_ms(&latencies, 0.99));
        report.add_alone(
            format!("apply sent → applied by each of {streams} followers"),
            format!("p50 {p50:.2} ms, p99 {p99:.2} ms"),
            "p99 < 50 ms at 1,000 streams",
        );
    }
}

async fn latencies(streams: usize) -> Histogram<u64> {
    let registry = Registry::start();
    let (applied, mut arrivals) = mpsc::unbounded_channel();
    for _ in 0..streams {
        let follower = Follower::connect(&registry).await;
        tokio::spawn(follower.run(applied.clone()));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut client = registry.client().await;
    let mut latencies = load::histogram();
    for number in 1..=COMMITS {
        let sent = Instant::now();
        client.apply(sample::request(vec![sample::schema(number)])).await.expect("accepted");
        for _ in 0..streams {
            let (revision, at): (u64, Instant) = arrivals.recv().await.expect("followers live");
            assert_eq!(revision, number as u64, "in order");
            load::record(&mut latencies, at - sent);
        }
    }
    latencies
}

/// A follower that does what a gateway does: verify, apply, acknowledge.
pub(crate) struct Follower {
    requests: mpsc::Sender<v1::SyncRequest>,
    responses: tonic::Streaming<v1::SyncResponse>,
    catalog: Option<Catalog>,
}

impl Follower {
    /// Opens a stream of its own connection.
    pub(crate) async fn connect(registry: &Registry) -> Self {
        Self::open(registry.sync().await).await
    }

    /// Opens a stream on a connection that others may use too.
    pub(crate) async fn open(mut client: SyncServiceClient<Channel>) -> Self {
        let (requests, receiver) = mpsc::channel(4);
        let hello = v1::Hello { gateway: "bench".to_owned(), ..Default::default() };
        let hello = v1::sync_request::Message::Hello(hello);
        requests.send(v1::SyncRequest { message: Some(hello) }).await.expect("room");
        let answer = client.sync(ReceiverStream::new(receiver)).await.expect("a stream");
        Self { requests, responses: answer.into_inner(), catalog: None }
    }

    /// Applies for ever, and tells when.
    async fn run(mut self, applied: mpsc::UnboundedSender<(u64, Instant)>) {
        while let Some(Ok(response)) = self.responses.next().await {
            match response.message {
                Some(v1::sync_response::Message::SnapshotBegin(begin)) => {
                    let begin = begin.position.expect("a position");
                    let position = Position::try_from(begin).expect("a sound position");
                    self.catalog = Some(Catalog::empty(position.registry));
                }
                Some(v1::sync_response::Message::Delta(delta)) => {
                    let catalog = self.catalog.as_mut().expect("a snapshot came first");
                    let sealed = convert::sealed_commit(&catalog.chain(), delta).expect("sound");
                    catalog.apply(&sealed).expect("in order");
                    let revision = catalog.revision().0;
                    let _ = applied.send((revision, Instant::now()));
                    self.acknowledge(revision).await;
                }
                _ => {}
            }
        }
    }

    async fn acknowledge(&self, revision: u64) {
        let ack = v1::Ack {
            applied_revision: revision,
            persisted_revision: revision,
            ..Default::default()
        };
        let message = Some(v1::sync_request::Message::Ack(ack));
        let _ = self.requests.send(v1::SyncRequest { message }).await;
    }

    /// Reads the whole snapshot and verifies it, as a gateway does.
    pub(crate) async fn snapshot(mut self) -> Catalog {
        let (mut position, mut records) = (None, Vec::new());
        while let Some(response) = self.responses.next().await {
            match response.expect("a sound stream").message {
                Some(v1::sync_response::Message::SnapshotBegin(begin)) => {
                    let begin = begin.position.expect("a position");
                    position = Some(Position::try_from(begin).expect("a sound position"));
                }
                Some(v1::sync_response::Message::SnapshotChunk(chunk)) => {
                    let read = chunk.entities.into_iter().map(Record::try_from);
                    records.extend(read.map(|record| record.expect("a proven document")));
                }
                Some(v1::sync_response::Message::SnapshotEnd(end)) => {
                    let Position { registry, revision, chain } = position.expect("begun");
                    let catalog = Catalog::restore(registry, revision, chain, records);
                    assert_eq!(catalog.digest().as_bytes(), &end.digest[..], "the same catalog");
                    return catalog;
                }
                _ => {}
            }
        }
        panic!("the stream ended within the snapshot");
    }
}
