//! The time from an apply until every follower has the commit, compared with etcd watches of the
//! same number and payload size, and through a relay compared with none.

use std::time::Instant;

use acceptance::Registry;
use hdrhistogram::Histogram;
use registry_core::{Catalog, Record, chain::Position};
use registry_proto::{convert, v1};
use tokio::sync::mpsc;
use tonic::transport::Channel;

use crate::{
    etcd::{self, Etcd, Watchers},
    followers::{self, Followers, Responses, SHARED},
    load,
    report::{Report, Row},
    sample,
};

/// Measured commits with thousands of followers, and with fewer.
const FEW_COMMITS: usize = 30;
const COMMITS: usize = 100;
/// The number of distinct scopes.
const SCOPES: usize = 100;

/// Measures with 1 to 10,000 streams of everything and of a hundred scopes, and through a relay.
pub(crate) async fn measure(report: &mut Report) {
    for streams in [1, 100, 1_000, 10_000] {
        FollowCase { streams, scopes: None }.beside_etcd(report).await;
    }
    for streams in [1_000, 10_000] {
        FollowCase { streams, scopes: Some(SCOPES) }.beside_etcd(report).await;
    }
    for scopes in [None, Some(SCOPES)] {
        FollowCase { streams: 1_000, scopes }.through_a_relay(report).await;
    }
}

/// The number of streams, and of scopes, if any.
struct FollowCase {
    streams: usize,
    scopes: Option<usize>,
}

/// Delivery times, and the CPU time per message.
struct Delivery {
    latencies: Histogram<u64>,
    cpu_micros: f64,
    message_bytes: usize,
}

impl Delivery {
    fn text(&self) -> String {
        format!("{}, {:.0} µs CPU per message", load::quantiles(&self.latencies), self.cpu_micros)
    }

    fn quantile(&self, quantile: f64) -> f64 {
        load::quantile_ms(&self.latencies, quantile)
    }
}

impl FollowCase {
    async fn beside_etcd(&self, report: &mut Report) {
        let registry = Registry::start();
        let ours = self.ours(&registry, &registry).await;
        let theirs = match Etcd::start().await {
            Some(etcd) => Some(self.theirs(&etcd, ours.message_bytes).await),
            None => None,
        };
        report.add(Row {
            path: self.path(),
            value: format!("{}; {} bytes", ours.text(), ours.message_bytes),
            baseline: theirs.as_ref().map(|it| format!("etcd: {}", it.text())).unwrap_or_default(),
            ratio: theirs.map(|it| ours.quantile(0.99) / it.quantile(0.99)),
            budget: if self.streams > 1_000 { "p99 < 250 ms" } else { "p99 < 50 ms" },
        });
    }

    /// The relay is the registry's only follower.
    async fn through_a_relay(&self, report: &mut Report) {
        let (direct, registry) = (Registry::start(), Registry::start());
        let relay = registry.start_relay(&[]);
        acceptance::eventually("the relay has heard from its registry", || async {
            let ready = reqwest::get(format!("{}/readyz", relay.url())).await;
            ready.is_ok_and(|answer| answer.status().is_success())
        })
        .await;
        let relayed = self.ours(&registry, &relay).await;
        let direct = self.ours(&direct, &direct).await;
        report.add(Row {
            path: format!("{}, through a relay", self.path()),
            value: relayed.text(),
            baseline: format!("without it: {}", direct.text()),
            ratio: Some(relayed.quantile(0.99) / direct.quantile(0.99)),
            budget: "",
        });
    }

    fn path(&self) -> String {
        let of = self.scopes.map(|scopes| format!(", {scopes} scopes")).unwrap_or_default();
        let (streams, connections) = (self.streams, self.connections());
        format!("apply → delivery to each of {streams} streams on {connections} connections{of}")
    }

    fn connections(&self) -> usize {
        self.streams.div_ceil(SHARED)
    }

    fn commits(&self) -> usize {
        if self.streams > 1_000 { FEW_COMMITS } else { COMMITS }
    }

    /// The delivery of the registry's commits to followers of a server.
    async fn ours(&self, registry: &Registry, server: &Registry) -> Delivery {
        let connections = followers::connections(&server.url(), self.connections()).await;
        let scope = |number: usize| self.scopes.map(|scopes| followers::scope(number % scopes));
        let mut followers = Followers::open(&connections, self.streams, scope).await;
        let mut client = registry.client().await;
        let (mut latencies, before) = (load::histogram(), server.process.cpu_seconds());
        for number in 1..=self.commits() {
            let request = match self.scopes {
                None => sample::request(vec![sample::schema(number)]),
                Some(scopes) => followers::one_in_each(scopes, number),
            };
            let sent = Instant::now();
            client.apply_changes(request).await.expect("accepted");
            followers.all_reach(number as u64, &mut latencies, sent).await;
        }
        let cpu_micros = self.micros_each(server.process.cpu_seconds() - before);
        Delivery { latencies, cpu_micros, message_bytes: followers.message_bytes }
    }

    async fn theirs(&self, etcd: &Etcd, bytes: usize) -> Delivery {
        let connections = followers::connections(&etcd.address, self.connections()).await;
        let groups = self.scopes.unwrap_or(1);
        let prefix = |number: usize| format!("/{}/", number % groups);
        let mut watchers = Watchers::open(&connections, self.streams, prefix).await;
        let (channel, value) = (&connections[0], &vec![b'x'; bytes]);
        let before = etcd.cpu_seconds();
        let put = async |number: usize| {
            let keys: Vec<_> = (0..groups).map(|group| format!("/{group}/{number}")).collect();
            etcd::put_all(channel, &keys, value).await;
        };
        let latencies = watchers.latencies(self.commits(), put).await;
        let cpu_micros = self.micros_each(etcd.cpu_seconds() - before);
        Delivery { latencies, cpu_micros, message_bytes: bytes }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts fit a double")]
    fn micros_each(&self, seconds: f64) -> f64 {
        seconds * 1e6 / (self.streams * self.commits()) as f64
    }
}

/// A follower that verifies, applies and acknowledges like a gateway.
pub(crate) struct Follower {
    requests: mpsc::Sender<v1::SyncRequest>,
    responses: Responses,
}

impl Follower {
    /// Opens a stream on a new connection.
    pub(crate) async fn connect(registry: &Registry) -> Self {
        Self::open(registry.channel().await, None).await
    }

    /// Opens a stream on a shared connection, from a position.
    pub(crate) async fn open(channel: Channel, position: Option<Position>) -> Self {
        let position = position.as_ref().map(Into::into);
        let hello =
            v1::ClientHello { gateway: "bench".to_owned(), position, ..v1::ClientHello::default() };
        let (requests, responses) = followers::open(channel, hello).await;
        Self { requests, responses }
    }

    /// Verifies and applies commits up to a revision. Calls `each` after each commit.
    pub(crate) async fn apply_until(
        &mut self,
        catalog: &mut Catalog,
        revision: u64,
        mut each: impl FnMut(&Catalog),
    ) {
        while catalog.revision().0 < revision {
            let response = self.responses.message().await.expect("sound").expect("it goes on");
            if let Some(v1::sync_response::Message::Delta(delta)) = response.message {
                let sealed = convert::sealed_commit(&catalog.chain(), delta).expect("sound");
                catalog.apply(&sealed).expect("in order");
                each(catalog);
            }
        }
        followers::acknowledge(&self.requests, revision).await;
    }

    /// Reads and verifies the snapshot like a gateway.
    pub(crate) async fn snapshot(mut self) -> Catalog {
        let (mut position, mut records) = (None, Vec::new());
        while let Some(response) = self.responses.message().await.expect("a sound stream") {
            match response.message {
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
                    assert_eq!(catalog.digest().to_string(), end.digest, "the same catalog");
                    return catalog;
                }
                _ => {}
            }
        }
        panic!("the stream ended within the snapshot");
    }
}
