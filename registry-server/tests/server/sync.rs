//! Sync streams: order, completeness, resumption and rejections.

use std::time::{Duration, Instant};

use prost::Message as _;
use registry_core::{ChainHash, Revision, Settings, chain::Position};
use registry_proto::{
    convert,
    v1::{self, sync_request, sync_response::Message},
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status};

use crate::{
    fleet::gateways,
    follower::{Follower, empty, hello},
    harness::{TestServer, batch, eventually, get_admin, new_schema, reason, register, schema_of},
};

async fn apply(registry: &TestServer, names: std::ops::RangeInclusive<u64>) {
    let mut client = registry.registry().await;
    for i in names {
        client.apply_changes(new_schema(&format!("S{i}"))).await.unwrap();
    }
}

/// Error of a rejected stream, in the response or as its first message.
fn refusal(result: Result<Follower, Status>) -> (Code, String, String) {
    let status = result.err().expect("the stream is refused");
    (status.code(), reason(&status), status.message().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn new_follower_receives_snapshot_then_commits() {
    let registry = TestServer::start().await;
    apply(&registry, 1..=3).await;
    let mut follower = Follower::new(&registry).await;
    follower.reach(3).await;
    apply(&registry, 4..=6).await;
    follower.reach(6).await;
    let heard: Vec<_> = follower.heard.iter().filter(|h| !h.starts_with("progress")).collect();
    assert_eq!(heard, ["snapshot", "delta 4", "delta 5", "delta 6"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_one_connection_receive_each_commit() {
    let registry = TestServer::start().await;
    let connection = registry.channel().await;
    let mut followers = Vec::new();
    for _ in 0..3 {
        followers.push(Follower::on(&connection).await);
    }
    apply(&registry, 1..=3).await;
    for follower in &mut followers {
        follower.reach(3).await;
    }
    // The end of one stream does not affect the others.
    followers.swap_remove(1);
    apply(&registry, 4..=6).await;
    for follower in &mut followers {
        follower.reach(6).await;
        follower.ack(6, 6).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn follower_resumes_from_its_revision() {
    let registry = TestServer::start().await;
    apply(&registry, 1..=3).await;
    let mut follower = Follower::new(&registry).await;
    follower.reach(3).await;
    let catalog = follower.catalog.take();
    drop(follower);
    apply(&registry, 4..=5).await;

    let mut follower = Follower::resume(&registry, catalog).await.unwrap();
    follower.reach(5).await;
    follower.hear().await.unwrap();
    assert_eq!(follower.heard, ["delta 4", "delta 5", "progress 5"]);
    let mut again = Follower::resume(&registry, follower.catalog).await.unwrap();
    again.hear().await.unwrap();
    assert_eq!(again.heard, ["progress 5"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn follower_resumes_from_the_log_after_restart() {
    let registry = TestServer::with(&["--recent-commits", "2"]).await;
    let start = Some(empty(registry_id(&registry).await.as_str()));
    apply(&registry, 1..=200).await;
    // Older than the commits in memory, so read from the log in several pages.
    let mut follower = Follower::resume(&registry, start.clone()).await.unwrap();
    follower.reach(200).await;
    assert_eq!(follower.heard.len(), 200, "only deltas: {:?}", follower.heard.first());

    let registry = TestServer::on(registry.stop().await, &[]).await;
    let mut follower = Follower::resume(&registry, start).await.unwrap();
    follower.reach(200).await;
    assert_eq!(follower.heard.first().unwrap(), "delta 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn follower_behind_retention_receives_a_snapshot() {
    let registry = TestServer::with(&["--retain-revisions", "3", "--recent-commits", "1"]).await;
    let start = Some(empty(registry_id(&registry).await.as_str()));
    apply(&registry, 1..=3).await;
    let mut follower = Follower::resume(&registry, start.clone()).await.unwrap();
    follower.reach(3).await;
    assert_eq!(follower.heard, ["delta 1", "delta 2", "delta 3"]);
    apply(&registry, 4..=5).await;
    let mut follower = Follower::resume(&registry, start).await.unwrap();
    follower.reach(5).await;
    assert_eq!(follower.heard, ["snapshot: compacted before 3"]);
    // A new follower has no compacted revision.
    let mut follower = Follower::new(&registry).await;
    follower.reach(5).await;
    assert_eq!(follower.heard, ["snapshot"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn age_retention_keeps_memory_and_log() {
    let flags = ["--retain-duration", "1s", "--recent-commits", "2"];
    let registry = TestServer::with(&flags).await;
    let start = Some(empty(registry_id(&registry).await.as_str()));
    apply(&registry, 1..=4).await;
    let mut early = Follower::resume(&registry, start.clone()).await.unwrap();
    early.reach(4).await;
    assert_eq!(early.heard.len(), 4, "only deltas: {:?}", early.heard);
    let compacted = "snapshot: compacted before 3";
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let mut follower = Follower::resume(&registry, start.clone()).await.unwrap();
        follower.reach(4).await;
        if follower.heard == [compacted] {
            break;
        }
        assert!(Instant::now() < deadline, "never compacted: {:?}", follower.heard);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut history = registry.history().await;
    let listed = history.list_commits(v1::ListCommitsRequest::default()).await.unwrap();
    assert_eq!(listed.into_inner().commits.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_snapshot_is_chunked_at_one_revision() {
    let registry = TestServer::start().await;
    let mut client = registry.registry().await;
    let many = (0..1200).map(|i| register(schema_of(&format!("S{i}"), "1.0.0", "true")));
    client.apply_changes(batch(many)).await.unwrap();
    let mut follower = Follower::new(&registry).await;
    let Message::SnapshotBegin(begin) = follower.hear().await.unwrap() else { panic!() };
    assert_eq!(begin.entity_count, 1200);
    apply(&registry, 5000..=5000).await;
    let (mut chunks, mut entities) = (0, 0);
    while let Message::SnapshotChunk(chunk) = follower.hear().await.unwrap() {
        chunks += 1;
        entities += chunk.entities.len();
    }
    assert_eq!((chunks, entities, follower.revision()), (3, 1200, 1));
    follower.reach(2).await;
}

/// More settings than fit into one message.
#[tokio::test(flavor = "multi_thread")]
async fn settings_are_chunked_and_paged() {
    let registry = TestServer::start().await;
    let mut client = registry.registry().await;
    client.apply_changes(new_schema("A")).await.unwrap();
    for block in 0..7 {
        let set = |i: u32| v1::SettingChange {
            target: format!("schema/S{block}-{i}"),
            setting: Some(v1::setting_change::Setting::Compatibility(
                v1::CompatibilityMode::None.into(),
            )),
        };
        let settings = (0..1000).map(set).collect();
        client.apply_changes(v1::ApplyChangesRequest { settings, ..batch([]) }).await.unwrap();
    }
    let mut follower = Follower::new(&registry).await;
    let Message::SnapshotBegin(begin) = follower.hear().await.unwrap() else { panic!() };
    assert_eq!((begin.entity_count, begin.setting_count), (1, 7000));
    follower.reach(8).await;
    let catalog = follower.catalog.unwrap();
    assert_eq!(catalog.settings().len(), 7000);

    let mut history = registry.history().await;
    let mut wanted = v1::ExportCatalogRequest::default();
    let (mut pages, mut entities, mut sets, mut digest) = (0, 0, Vec::new(), String::new());
    loop {
        let page = history.export_catalog(wanted.clone()).await.unwrap().into_inner();
        assert!(page.encoded_len() < 4 << 20, "it fits into a message");
        pages += 1;
        entities += page.entities.len();
        digest.push_str(&page.digest);
        sets.extend(convert::settings(page.settings).unwrap());
        wanted.page_token = page.next_page_token;
        if wanted.page_token.is_empty() {
            break;
        }
    }
    assert_eq!((pages, entities), (2, 1));
    assert_eq!(Settings::restore(sets), *catalog.settings());
    assert_eq!(digest, catalog.digest().to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_history_is_rejected_without_snapshot() {
    let registry = TestServer::start().await;
    apply(&registry, 1..=3).await;
    let id = registry_id(&registry).await;
    let at = |id: &str, revision, chain: ChainHash| {
        let registry = registry_core::RegistryId::new(id);
        Some((&Position { registry, revision: Revision(revision), chain }).into())
    };
    let lie = ChainHash::from_bytes([7; 32]);
    let cases = [
        (at("another", 3, lie), "REGISTRY_MISMATCH", "reset the follower's cache"),
        (at(&id, 2, lie), "CHAIN_MISMATCH", "revision 2"),
        (at(&id, 0, lie), "CHAIN_MISMATCH", "revision 0"),
        (at(&id, 3, lie), "CHAIN_MISMATCH", "revision 3"),
        (at(&id, 9, lie), "FOLLOWER_AHEAD", "is at 3"),
    ];
    for (position, expected, hint) in cases {
        let (code, reason, message) = refusal(Follower::open(&registry, position, None).await);
        assert_eq!((code, &*reason), (Code::FailedPrecondition, expected));
        assert!(message.contains(hint), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_stream_receives_heartbeats() {
    let registry = TestServer::with(&["--heartbeat-interval", "100ms"]).await;
    apply(&registry, 1..=1).await;
    let mut follower = Follower::new(&registry).await;
    follower.reach(1).await;
    for _ in 0..4 {
        assert!(matches!(follower.hear().await.unwrap(), Message::Heartbeat(_)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_reader_is_disconnected_and_resumes() {
    let registry = TestServer::with(&["--slow-reader-timeout", "300ms"]).await;
    let mut follower = Follower::new(&registry).await;
    let Message::SnapshotBegin(_) = follower.hear().await.unwrap() else { panic!() };
    let mut client = registry.registry().await;
    // More than the flow control windows of a connection.
    let big = format!(r#"{{"description":"{}"}}"#, "x".repeat(200_000));
    for i in 0..40 {
        let entity = schema_of(&format!("Big{i}"), "1.0.0", &big);
        client.apply_changes(batch([register(entity)])).await.unwrap();
    }
    // Metrics are process-wide, but no other reader is this slow.
    eventually("it is disconnected", || async {
        let (_, _, metrics) = get_admin(&registry, "/metrics").await;
        metrics.contains(r#"registry_streams_ended_total{reason="slow_reader"}"#)
    })
    .await;
    let end = loop {
        if let Err(status) = follower.hear().await {
            break status;
        }
    };
    assert_eq!((end.code(), &*reason(&end)), (Code::ResourceExhausted, "SLOW_READER"));
    assert!(follower.revision() < 40, "it was cut at {}", follower.revision());
    let mut resumed = Follower::resume(&registry, follower.catalog).await.unwrap();
    resumed.reach(40).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_list_shows_progress_and_rejection() {
    let registry = TestServer::start().await;
    apply(&registry, 1..=2).await;
    let mut follower = Follower::new(&registry).await;
    follower.reach(2).await;
    follower.ack(2, 1).await;
    eventually("the ack is seen", || async { gateways(&registry).await[0].applied_revision == 2 })
        .await;
    let status = gateways(&registry).await.remove(0);
    assert_eq!((&*status.gateway, &*status.gateway_version), ("edge-1", "1.0.0"));
    assert!(status.address.starts_with("127.0.0.1:") && status.connect_time.is_some());
    assert_eq!((status.sent_revision, status.persisted_revision, status.lag_revisions), (2, 1, 0));

    apply(&registry, 3..=3).await;
    follower.reach(3).await;
    let nack = v1::Nack { revision: 3, message: "will not".to_owned(), diagnostics: Vec::new() };
    follower.say(sync_request::Message::Nack(nack.clone())).await;
    eventually("the nack is seen", || async { gateways(&registry).await[0].last_nack.is_some() })
        .await;
    let status = gateways(&registry).await.remove(0);
    assert_eq!(
        (status.applied_revision, status.lag_revisions, status.last_nack),
        (2, 1, Some(nack))
    );

    follower.ack(3, 3).await;
    eventually("the ack clears it", || async { gateways(&registry).await[0].last_nack.is_none() })
        .await;
    drop(follower);
    let left = v1::GatewayState::Disconnected;
    eventually("it leaves", || async { gateways(&registry).await[0].state() == left }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ack_of_an_unsent_revision_is_rejected() {
    let registry = TestServer::start().await;
    apply(&registry, 1..=1).await;
    let mut follower = Follower::new(&registry).await;
    follower.reach(1).await;
    follower.ack(2, 0).await;
    let end = loop {
        if let Err(status) = follower.hear().await {
            break status;
        }
    };
    assert_eq!((end.code(), &*reason(&end)), (Code::InvalidArgument, "INVALID_ACK"));
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_requires_a_hello_first() {
    let registry = TestServer::with(&["--hello-timeout", "200ms"]).await;
    let ack = sync_request::Message::Ack(v1::Ack::default());
    for first in [Some(v1::SyncRequest { message: Some(ack) }), None] {
        let (says, said) = mpsc::channel(1);
        if let Some(first) = first {
            says.send(first).await.unwrap();
        }
        let refused = registry.sync().await.sync(ReceiverStream::new(said)).await.unwrap_err();
        assert_eq!(
            (refused.code(), &*reason(&refused)),
            (Code::InvalidArgument, "INVALID_REQUEST")
        );
        assert!(refused.message().starts_with("hello"), "{}", refused.message());
    }
    let long = v1::ClientHello { gateway: "x".repeat(129), ..Default::default() };
    let long = v1::SyncRequest { message: Some(sync_request::Message::Hello(long)) };
    let refused = registry.sync().await.sync(tokio_stream::iter([long])).await.unwrap_err();
    assert_eq!(reason(&refused), "LIMIT_EXCEEDED");
}

#[tokio::test(flavor = "multi_thread")]
async fn half_closed_stream_keeps_receiving() {
    let registry = TestServer::start().await;
    let requests = tokio_stream::iter([hello(None)]);
    let mut hears = registry.sync().await.sync(requests).await.unwrap().into_inner();
    apply(&registry, 1..=1).await;
    loop {
        let message = hears.message().await.unwrap().unwrap().message.unwrap();
        if let Message::Delta(delta) = message {
            return assert_eq!(delta.revision, 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_limit_is_enforced() {
    let registry = TestServer::with(&["--max-streams", "2"]).await;
    let (first, _second) = (Follower::new(&registry).await, Follower::new(&registry).await);
    let (code, reason, _) = refusal(Follower::resume(&registry, None).await);
    assert_eq!((code, &*reason), (Code::ResourceExhausted, "TOO_MANY_STREAMS"));
    drop(first);
    eventually("a seat is free", || async { Follower::resume(&registry, None).await.is_ok() })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_ends_at_its_deadline() {
    let registry = TestServer::start().await;
    let mut request = Request::new(tokio_stream::iter([hello(None)]).chain_pending());
    request.metadata_mut().insert("grpc-timeout", "300m".parse().unwrap());
    let mut hears = registry.sync().await.sync(request).await.unwrap().into_inner();
    let end = loop {
        match hears.message().await {
            Ok(message) => assert!(message.is_some()),
            Err(status) => break status,
        }
    };
    assert_eq!((end.code(), &*reason(&end)), (Code::DeadlineExceeded, "DEADLINE_EXCEEDED"));
}

/// A stream of requests that stays open.
trait ChainPending: futures_util::Stream + Sized {
    fn chain_pending(
        self,
    ) -> futures_util::stream::Chain<Self, futures_util::stream::Pending<Self::Item>> {
        futures_util::StreamExt::chain(self, futures_util::stream::pending())
    }
}

impl<S: futures_util::Stream> ChainPending for S {}

async fn registry_id(registry: &TestServer) -> String {
    let mut follower = Follower::new(registry).await;
    while follower.catalog.is_none() {
        follower.hear().await.unwrap();
    }
    follower.catalog.unwrap().registry().to_string()
}
