//! Concurrent writers that retry batches by request id at several servers, and checks that no
//! acknowledged commit is lost.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use acceptance::{Gateway, Registry, eventually};
use registry_proto::v1::{self, registry_service_client::RegistryServiceClient};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::deployment::gateway_revision;

/// The time after which a writer tries the next server.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) fn pair(writer: &str, i: usize) -> v1::ApplyChangesRequest {
    let schema = |name: String, schema: String| {
        let version = "1.0.0".to_owned();
        let schema = v1::Schema { name, version, schema, ..Default::default() };
        let entity = v1::Entity { kind: Some(v1::entity::Kind::Schema(schema)) };
        v1::EntityChange {
            change: Some(v1::entity_change::Change::RegisterEntity(entity)),
            if_digest: None,
        }
    };
    let first = schema(format!("{writer}First{i}"), r#"{"type":"string"}"#.to_owned());
    let refers = format!("{{\"$ref\":\"#{writer}First{i}:1.0.0\"}}");
    let second = schema(format!("{writer}Second{i}"), refers);
    let request_id = format!("{writer}-{i}");
    v1::ApplyChangesRequest { changes: vec![first, second], request_id, ..Default::default() }
}

/// Acknowledged revisions by request id.
#[derive(Default)]
pub(crate) struct Acknowledged {
    pub(crate) revisions: HashMap<String, u64>,
    /// The longest time between two acknowledgements of one writer.
    pub(crate) longest_pause: Duration,
}

/// Running writers.
pub(crate) struct ConcurrentWriters {
    stop: Arc<AtomicBool>,
    /// The number of acknowledged pairs of all writers.
    acknowledged: Arc<AtomicUsize>,
    writers: Vec<JoinHandle<Acknowledged>>,
}

impl ConcurrentWriters {
    /// Starts writers that apply at most `most` pairs each. Each writer starts at another server
    /// and continues with the next one after a failure.
    pub(crate) fn start(urls: &[String], writers: usize, most: usize) -> Self {
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let writer = |number: usize| {
            let mut urls = urls.to_vec();
            let first = number % urls.len();
            urls.rotate_left(first);
            let writer = Writer {
                name: format!("W{number}"),
                urls,
                most,
                stop: Arc::clone(&stop),
                acknowledged: Arc::clone(&acknowledged),
            };
            tokio::spawn(writer.write())
        };
        let writers = (0..writers).map(writer).collect();
        Self { stop, acknowledged, writers }
    }

    /// Waits for `count` more acknowledged pairs, or for the end of the writers.
    pub(crate) async fn progresses(&self, count: usize) {
        let acknowledged = || self.acknowledged.load(Ordering::SeqCst);
        let wanted = acknowledged() + count;
        eventually("more pairs are acknowledged", || async {
            acknowledged() >= wanted || !self.is_at_work()
        })
        .await;
    }

    /// Whether a writer is still running.
    pub(crate) fn is_at_work(&self) -> bool {
        !self.writers.iter().all(JoinHandle::is_finished)
    }

    /// Waits until all writers are done.
    pub(crate) async fn finish(self) -> Acknowledged {
        let mut all = Acknowledged::default();
        for writer in self.writers {
            let one = writer.await.expect("a writer ends");
            all.revisions.extend(one.revisions);
            all.longest_pause = all.longest_pause.max(one.longest_pause);
        }
        all
    }

    /// Stops the writers after their current batch.
    pub(crate) async fn stop(self) -> Acknowledged {
        self.stop.store(true, Ordering::SeqCst);
        self.finish().await
    }
}

struct Writer {
    name: String,
    urls: Vec<String>,
    /// The maximum number of pairs.
    most: usize,
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
}

impl Writer {
    async fn write(self) -> Acknowledged {
        let Self { name, most, .. } = &self;
        let mut acknowledged = Acknowledged::default();
        let (mut i, mut last) = (0, Instant::now());
        for url in self.urls.iter().cycle() {
            if self.stop.load(Ordering::SeqCst) || i == *most {
                break;
            }
            let Ok(Ok(mut client)) =
                timeout(ATTEMPT_TIMEOUT, RegistryServiceClient::connect(url.clone())).await
            else {
                sleep(Duration::from_millis(20)).await;
                continue;
            };
            while i < *most
                && let Ok(Ok(answer)) =
                    timeout(ATTEMPT_TIMEOUT, client.apply_changes(pair(name, i))).await
            {
                acknowledged.revisions.insert(format!("{name}-{i}"), answer.into_inner().revision);
                acknowledged.longest_pause = acknowledged.longest_pause.max(last.elapsed());
                self.acknowledged.fetch_add(1, Ordering::SeqCst);
                (i, last) = (i + 1, Instant::now());
                if self.stop.load(Ordering::SeqCst) {
                    break;
                }
            }
            sleep(Duration::from_millis(5)).await;
        }
        acknowledged
    }
}

/// Asserts that every acknowledged pair exists at its revision, and that every commit has both
/// changes.
pub(crate) async fn assert_no_commit_lost(registry: &Registry, acknowledged: &Acknowledged) {
    let last = acknowledged.revisions.values().max().copied().unwrap_or_default();
    acceptance::eventually("the server has what others acknowledged", || async {
        registry.revision().await >= last
    })
    .await;
    let mut history = registry.history().await;
    let (mut token, mut commits) = (String::new(), HashMap::new());
    let mut expected = 1;
    loop {
        let request =
            v1::ListCommitsRequest { page_size: 1_000, page_token: token, ..Default::default() };
        let page = history.list_commits(request).await.expect("commits").into_inner();
        for commit in page.commits {
            assert_eq!(commit.revision, expected, "no gaps");
            assert_eq!(commit.changes.len(), 2, "torn: {commit:?}");
            expected += 1;
            commits.insert(commit.request_id.clone(), commit.revision);
        }
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    for (id, revision) in &acknowledged.revisions {
        assert_eq!(commits.get(id), Some(revision), "{id} was acknowledged");
    }
}

/// Asserts that the gateway reaches the registry's revision with the same state on disk, after at
/// most one snapshot and without a NACK. So no delta was lost or repeated.
pub(crate) async fn assert_followed_without_gap(gateway: &Gateway, registry: &Registry) {
    // A request can still be committed after its writer gave up.
    acceptance::eventually("the gateway has all commits", || async {
        gateway_revision(gateway).await == Some(registry.revision().await)
    })
    .await;
    let metrics = reqwest::get(format!("http://{}/metrics", gateway.address)).await;
    let metrics = metrics.expect("metrics").text().await.expect("text");
    let nacks = metrics.lines().find(|line| line.starts_with("gateway_sync_nacks_total"));
    assert!(nacks.is_none_or(|line| line.ends_with(" 0")), "a gap or a duplicate: {nacks:?}");
    acceptance::eventually("its cache holds the registry's own state", || async {
        let cached = std::fs::read_to_string(gateway.cache()).unwrap_or_default();
        let url = format!("{}/registry.json", registry.url());
        let served = reqwest::get(url).await.expect("served").text().await.expect("text");
        let digest = |text: &str| {
            let value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
            (value["revision"].clone(), value["digest"].clone())
        };
        digest(&cached) == digest(&served) && !cached.is_empty()
    })
    .await;
}
