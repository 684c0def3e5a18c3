//! Effects of many followers on a server: some that do not read, and all reconnecting after a
//! restart.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use acceptance::Registry;
use hdrhistogram::Histogram;
use registry_proto::v1::{
    self, registry_service_client::RegistryServiceClient, sync_request, sync_response::Message,
    sync_service_client::SyncServiceClient,
};
use tokio::{task::JoinSet, time::sleep};
use tonic::{Status, transport::Channel};

use crate::{
    follow::Follower,
    followers::{self, Followers, SHARED},
    load, reads,
    report::{Report, Row},
    sample,
};

const READERS: usize = 1_000;
const STALLED: usize = 100;
const COMMITS: usize = 100;
/// The size of a document that fills the window of an unread stream within a few commits.
const BIG_BYTES: usize = 16 << 10;

const RETURNING: usize = 10_000;
const TOOLS: usize = 10_000;
/// Missed commits of some reconnecting followers.
const MISSED: usize = 50;
/// Delays like those of a gateway: growing and random.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(5);

/// Measures both.
pub(crate) async fn measure(report: &mut Report) {
    slow_readers(report).await;
    storm(report).await;
}

async fn slow_readers(report: &mut Report) {
    let alone = delivery_latency(0).await;
    let baseline = delivery_latency(STALLED).await;
    report.add(Row {
        path: format!("delivery to each of {READERS} streams, with {STALLED} stalled streams"),
        value: load::quantiles(&baseline),
        baseline: format!("without them: {}", load::quantiles(&alone)),
        ratio: Some(load::quantile_ms(&baseline, 0.99) / load::quantile_ms(&alone, 0.99)),
        budget: "about 1",
    });
}

/// The delivery times of reading followers. The stalled ones have one connection each.
async fn delivery_latency(stalled: usize) -> Histogram<u64> {
    let registry = Registry::start();
    let connections = followers::connections(&registry.url(), READERS.div_ceil(SHARED)).await;
    let mut readers = Followers::open(&connections, READERS, |_| None).await;
    let mut idle = Vec::new();
    for channel in followers::connections(&registry.url(), stalled).await {
        idle.push(Follower::open(channel, None).await);
    }
    let mut client = registry.client().await;
    let mut latencies = load::histogram();
    for number in 1..=COMMITS {
        let sent = Instant::now();
        client.apply_changes(sample::request(vec![big_schema(number)])).await.expect("accepted");
        readers.all_reach(number as u64, &mut latencies, sent).await;
    }
    latencies
}

fn big_schema(number: usize) -> v1::EntityChange {
    let schema = v1::Schema {
        name: format!("Big{number}"),
        version: "1.0.0".to_owned(),
        schema: format!(r#"{{"description":"{}"}}"#, "x".repeat(BIG_BYTES)),
        ..v1::Schema::default()
    };
    let entity = v1::Entity { kind: Some(v1::entity::Kind::Schema(schema)) };
    v1::EntityChange {
        change: Some(v1::entity_change::Change::RegisterEntity(entity)),
        if_digest: None,
    }
}

/// Latencies of concurrent readers and writers.
struct ObservedLatency {
    reads: Histogram<u64>,
    writes: Histogram<u64>,
    failed: usize,
}

impl ObservedLatency {
    fn text(&self) -> String {
        let (reads, writes) = (&self.reads, &self.writes);
        let of = |latencies: &Histogram<u64>| {
            let (p99, most) =
                (load::quantile_ms(latencies, 0.99), load::quantile_ms(latencies, 1.0));
            format!("p99 {p99:.0} ms, at most {most:.0} ms")
        };
        format!("gets {}; applies {}; {} failed", of(reads), of(writes), self.failed)
    }
}

async fn storm(report: &mut Report) {
    // All followers have the same address.
    let mut registry = Registry::start_fresh(&["--max-connections-per-address", "20000"]);
    reads::apply_all(&registry, TOOLS).await;
    let (quiet, ()) = observe(&registry, 0, sleep(Duration::from_secs(3))).await;
    let mut places = Vec::new();
    let mut client = registry.client().await;
    for number in 1..=MISSED {
        client
            .apply_changes(sample::request(vec![sample::schema(number)]))
            .await
            .expect("accepted");
        places.push(place(&registry).await);
    }
    assert!(registry.process.stop().success());
    registry.restart();
    let (began, before) = (Instant::now(), registry.process.resident_bytes());
    let there = Arc::new(AtomicUsize::new(0));
    let mut returning = JoinSet::new();
    for number in 0..RETURNING {
        // Nine of ten are up to date. Of the others, one in ten has no state.
        let position = match number % 100 {
            0 => None,
            behind @ 1..10 => Some(places[MISSED - 1 - behind * 5].clone()),
            _ => places.last().cloned(),
        };
        let comes = ReconnectingFollower {
            url: registry.url(),
            number,
            position,
            head: places[MISSED - 1].revision,
        };
        returning.spawn(comes.run(there.clone()));
    }
    let all = async {
        while there.load(Ordering::Relaxed) < RETURNING {
            sleep(Duration::from_millis(5)).await;
        }
        began.elapsed()
    };
    let (observed, took) = observe(&registry, 1_000, all).await;
    let peak = registry.process.peak_bytes();
    sleep(Duration::from_secs(2)).await;
    let after = registry.process.resident_bytes();
    report.add(Row {
        path: format!(
            "{RETURNING} concurrent reconnections, one connection each, after a restart with {TOOLS} tools"
        ),
        value: format!(
            "all up to date after {:.1} s; {} MiB before, {} at most, {} after",
            took.as_secs_f64(),
            before >> 20,
            peak >> 20,
            after >> 20
        ),
        baseline: String::new(),
        ratio: None,
        budget: "",
    });
    report.add(Row {
        path: "latencies of other clients during that".to_owned(),
        value: observed.text(),
        baseline: format!("without them: {}", quiet.text()),
        ratio: Some(
            load::quantile_ms(&observed.reads, 0.99) / load::quantile_ms(&quiet.reads, 0.99),
        ),
        budget: "",
    });
}

/// The registry's position, read by a follower.
async fn place(registry: &Registry) -> v1::LogPosition {
    let (_requests, mut responses) =
        followers::open(registry.channel().await, v1::ClientHello::default()).await;
    let mut place = None;
    while let Some(response) = responses.message().await.expect("a sound stream") {
        match response.message {
            // A shared snapshot can be older.
            Some(Message::SnapshotBegin(begin)) => place = begin.position,
            Some(Message::Heartbeat(v1::Heartbeat { revision, chain, .. })) => {
                let begun = place.expect("a snapshot began");
                return v1::LogPosition { revision, chain, ..begun };
            }
            _ => {}
        }
    }
    panic!("the stream ended before its snapshot");
}

/// Reads and writes until a future completes, on a separate thread, so that delays are those of the
/// server.
async fn observe<T>(
    registry: &Registry,
    base: usize,
    until: impl Future<Output = T>,
) -> (ObservedLatency, T) {
    let (url, stop) = (registry.url(), Arc::new(AtomicBool::new(false)));
    let stopped = stop.clone();
    let feeling = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let client = RegistryServiceClient::connect(url).await.expect("a connection");
            let reading = read(client.clone(), &stopped);
            let ((reads, no_reads), (writes, no_writes)) =
                tokio::join!(reading, write(client, base, &stopped));
            ObservedLatency { reads, writes, failed: no_reads + no_writes }
        })
    });
    let done = until.await;
    stop.store(true, Ordering::Relaxed);
    let observed = tokio::task::spawn_blocking(|| feeling.join()).await.expect("it is waited for");
    (observed.expect("it ends"), done)
}

type Client = RegistryServiceClient<Channel>;

/// Latencies and failures of gets.
async fn read(mut client: Client, stop: &AtomicBool) -> (Histogram<u64>, usize) {
    let (mut latencies, mut failed) = (load::histogram(), 0);
    while !stop.load(Ordering::Relaxed) {
        let key = v1::EntityKey {
            kind: v1::EntityKind::Tool.into(),
            name: sample::tool_name(7),
            version: "1.0.0".to_owned(),
        };
        let request = v1::GetEntityRequest { key: Some(key), ..v1::GetEntityRequest::default() };
        let began = Instant::now();
        failed += usize::from(client.get_entity(request).await.is_err());
        load::record(&mut latencies, began.elapsed());
        sleep(Duration::from_millis(2)).await;
    }
    (latencies, failed)
}

/// Latencies and failures of applies.
async fn write(mut client: Client, base: usize, stop: &AtomicBool) -> (Histogram<u64>, usize) {
    let (mut latencies, mut failed) = (load::histogram(), 0);
    for number in base.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let schema = sample::schema(1_000_000 + number);
        let began = Instant::now();
        failed += usize::from(client.apply_changes(sample::request(vec![schema])).await.is_err());
        load::record(&mut latencies, began.elapsed());
        sleep(Duration::from_millis(50)).await;
    }
    (latencies, failed)
}

/// A follower that reconnects with retries.
struct ReconnectingFollower {
    url: String,
    number: usize,
    position: Option<v1::LogPosition>,
    head: u64,
}

impl ReconnectingFollower {
    async fn run(self, there: Arc<AtomicUsize>) {
        let mut wait = FIRST_WAIT;
        loop {
            // Retries after any error, like a gateway.
            let _: Result<(), Status> = self.follow(&there).await;
            sleep(wait.mul_f64(random(self.number))).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn follow(&self, there: &AtomicUsize) -> Result<(), Status> {
        let endpoint = Channel::from_shared(self.url.clone()).expect("an address");
        let channel = endpoint.connect_timeout(PATIENCE).connect().await;
        let channel = channel.map_err(|e| Status::unavailable(e.to_string()))?;
        let hello = v1::ClientHello {
            gateway: format!("gateway-{}", self.number),
            position: self.position.clone(),
            ..v1::ClientHello::default()
        };
        let hello = v1::SyncRequest { message: Some(sync_request::Message::Hello(hello)) };
        let requests = futures_util::StreamExt::chain(
            tokio_stream::once(hello),
            futures_util::stream::pending(),
        );
        let mut client = SyncServiceClient::new(channel).max_decoding_message_size(64 << 20);
        let answer = tokio::time::timeout(PATIENCE, client.sync(requests)).await;
        let mut responses =
            answer.map_err(|_| Status::deadline_exceeded("no answer"))??.into_inner();
        let mut is_there = false;
        while let Some(response) = responses.message().await? {
            let revision = match response.message {
                Some(Message::Delta(delta)) => delta.revision,
                Some(Message::Heartbeat(heartbeat)) => heartbeat.revision,
                Some(Message::SnapshotEnd(_)) => self.head,
                _ => 0,
            };
            if revision >= self.head && !std::mem::replace(&mut is_there, true) {
                there.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

/// A deterministic factor between 0.5 and 1.5.
fn random(number: usize) -> f64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    0.5 + f64::from(u32::try_from(mixed).unwrap_or_default()) / f64::from(u16::MAX)
}
