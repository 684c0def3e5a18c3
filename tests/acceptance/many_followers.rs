//! Many followers of one server: shared encoding, and turns for snapshots and log reads.

use std::time::{Duration, Instant};

use acceptance::{Registry, postgres::PrivateCluster};
use registry_proto::v1::{
    self, follow_scope, sync_request,
    sync_response::Message::{
        self, Delta, Heartbeat, ScopeDelta, SnapshotBegin, SnapshotChunk, SnapshotEnd,
    },
    sync_service_client::SyncServiceClient,
};
use tonic::{Streaming, transport::Endpoint};

const FOLLOWERS: usize = 20;
const COMMITS: u64 = 5;
/// At most as many as one read of the log returns.
const MISSED: u64 = 60;
/// More than receive a snapshot at the same time.
const STALLED: usize = 70;
/// More than the window of an unread stream and the server's buffers hold.
const BIG_SCHEMAS: usize = 20;
const BIG_BYTES: usize = 200_000;

type Stream = Streaming<v1::SyncResponse>;

async fn follow(registry: &Registry, scope: Option<v1::FollowScope>) -> Stream {
    open(registry, v1::ClientHello { scope, ..Default::default() }).await
}

/// Opens a stream on a connection with small windows.
async fn open(registry: &Registry, hello: v1::ClientHello) -> Stream {
    let endpoint = Endpoint::from_shared(registry.url()).expect("an address");
    let channel = endpoint.initial_stream_window_size(65_535).connect().await;
    let hello = v1::ClientHello { gateway: "g".to_owned(), ..hello };
    let hello = v1::SyncRequest { message: Some(sync_request::Message::Hello(hello)) };
    let mut client = SyncServiceClient::new(channel.expect("a connection"));
    client.sync(tokio_stream::iter([hello])).await.expect("a stream").into_inner()
}

async fn next(stream: &mut Stream) -> Message {
    let heard = stream.message().await.expect("a sound stream").expect("it goes on");
    heard.message.expect("a message")
}

/// Reads until a message reports this revision.
async fn reach(stream: &mut Stream, revision: u64) {
    let reached = |message: &Message| match message {
        Delta(delta) => delta.revision,
        ScopeDelta(step) => step.position.as_ref().expect("a position").revision,
        Heartbeat(progress) => progress.revision,
        _ => 0,
    };
    while reached(&next(stream).await) != revision {}
}

async fn metric(registry: &Registry, name: &str) -> Option<u64> {
    let text = registry.metrics().await;
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[tokio::test]
async fn sync_message_is_encoded_once_for_all_streams() {
    let roots = v1::ScopeRoots { roots: vec!["team/*".to_owned()] };
    let scoped = v1::FollowScope { scope: Some(follow_scope::Scope::Roots(roots)) };
    for (kind, scope) in [("delta", None), ("scope_delta", Some(scoped))] {
        let registry = Registry::start();
        let mut streams = Vec::new();
        for _ in 0..FOLLOWERS {
            let mut stream = follow(&registry, scope.clone()).await;
            reach(&mut stream, 0).await;
            streams.push(stream);
        }
        let mut client = registry.client().await;
        for revision in 1..=COMMITS {
            client.apply_changes(register(&format!("team/s{revision}"))).await.expect("accepted");
            for stream in &mut streams {
                reach(stream, revision).await;
            }
        }
        let encoded = format!("registry_sync_messages_encoded_total{{kind=\"{kind}\"}}");
        assert_eq!(metric(&registry, &encoded).await, Some(COMMITS), "{kind}");
    }
}

/// Followers that do not read lose their snapshot turn after a time limit. Waiting followers
/// receive keep-alive messages.
#[tokio::test]
async fn queued_follower_gets_snapshot_despite_slow_readers() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let database = format!("sqlite:{}", dir.path().join("registry.db").display());
    let registry = Registry::start_with(&database, &["--heartbeat-interval", "100ms"]);
    let mut client = registry.client().await;
    for number in 0..BIG_SCHEMAS {
        client.apply_changes(big_schema(number)).await.expect("accepted");
    }
    let streams = (0..STALLED).map(|_| follow(&registry, None));
    let _stalled = futures_util::future::join_all(streams).await;
    acceptance::eventually("some wait for their turn", || async {
        let waiting = metric(&registry, "registry_stream_stage_waiting{stage=\"snapshot\"}").await;
        waiting.is_some_and(|waiting| waiting > 0)
    })
    .await;
    let (begin, mut stream) = (Instant::now(), follow(&registry, None).await);
    assert!(matches!(next(&mut stream).await, SnapshotBegin(_)));
    let (mut entities, mut signs_of_life) = (0, 0);
    loop {
        match next(&mut stream).await {
            SnapshotChunk(chunk) if chunk.entities.is_empty() => signs_of_life += 1,
            SnapshotChunk(chunk) => entities += chunk.entities.len(),
            SnapshotEnd(_) => break,
            other => panic!("{other:?} in a snapshot"),
        }
    }
    assert!(entities == BIG_SCHEMAS && signs_of_life > 0, "{entities}, {signs_of_life}");
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    acceptance::eventually("no follower waits or has a turn", || async {
        let waiting = metric(&registry, "registry_stream_stage_waiting{stage=\"snapshot\"}").await;
        let admitted = metric(&registry, "registry_stream_stage_active{stage=\"snapshot\"}").await;
        (waiting, admitted) == (Some(0), Some(0))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_resume_from_memory_after_restart() {
    let mut cluster = PrivateCluster::durable().await;
    let mut registry = Registry::start_on(&cluster.create_database("crowd").await);
    let mut client = registry.client().await;
    client.apply_changes(register("a")).await.expect("accepted");
    let SnapshotBegin(begin) = next(&mut follow(&registry, None).await).await else { panic!() };
    for server in ["b", "c"] {
        client.apply_changes(register(server)).await.expect("accepted");
    }
    assert!(registry.process.stop().success());
    registry.restart();
    cluster.kill_9().await;
    let position = begin.position;
    let mut stream = open(&registry, v1::ClientHello { position, ..Default::default() }).await;
    for revision in [2, 3] {
        assert!(matches!(next(&mut stream).await, Delta(delta) if delta.revision == revision));
    }
}

/// While Postgres is paused, all followers wait for the same page.
#[tokio::test(flavor = "multi_thread")]
async fn log_is_read_once_for_all_followers() {
    let cluster = PrivateCluster::durable().await;
    let database = cluster.create_database("crowd").await;
    let registry = Registry::start_with(&database, &["--recent-commits", "2"]);
    let SnapshotBegin(begin) = next(&mut follow(&registry, None).await).await else { panic!() };
    let mut client = registry.client().await;
    for revision in 1..=MISSED {
        client.apply_changes(register(&format!("s{revision}"))).await.expect("accepted");
    }
    cluster.pause();
    let mut streams = Vec::new();
    for _ in 0..FOLLOWERS {
        let position = begin.position.clone();
        streams.push(open(&registry, v1::ClientHello { position, ..Default::default() }).await);
    }
    cluster.resume();
    for stream in &mut streams {
        for revision in 1..=MISSED {
            assert!(matches!(next(stream).await, Delta(delta) if delta.revision == revision));
        }
    }
    let encoded = "registry_sync_messages_encoded_total{kind=\"delta\"}";
    assert_eq!(metric(&registry, encoded).await, Some(MISSED));
}

fn big_schema(number: usize) -> v1::ApplyChangesRequest {
    let schema = v1::Schema {
        name: format!("Big{number}"),
        version: "1.0.0".to_owned(),
        schema: format!(r#"{{"description":"{}"}}"#, "x".repeat(BIG_BYTES)),
        ..Default::default()
    };
    request(v1::entity::Kind::Schema(schema))
}

fn register(server: &str) -> v1::ApplyChangesRequest {
    let server =
        v1::Server { name: server.to_owned(), version: "1.0.0".to_owned(), ..Default::default() };
    request(v1::entity::Kind::Server(server))
}

fn request(kind: v1::entity::Kind) -> v1::ApplyChangesRequest {
    let entity = v1::Entity { kind: Some(kind) };
    let register = v1::EntityChange {
        change: Some(v1::entity_change::Change::RegisterEntity(entity)),
        if_digest: None,
    };
    v1::ApplyChangesRequest { changes: vec![register], ..Default::default() }
}
