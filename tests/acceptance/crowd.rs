//! Many followers of one server: what they share.
//!
//! Deliberately absent: how fast that is; the benchmarks measure it.

use acceptance::Registry;
use registry_proto::v1::{
    self, scope, sync_request,
    sync_response::Message::{self, Delta, Progress, Step},
};
use tonic::Streaming;

const FOLLOWERS: usize = 20;
const COMMITS: u64 = 5;

/// Opens a stream from nothing.
async fn follow(registry: &Registry, scope: Option<v1::Scope>) -> Streaming<v1::SyncResponse> {
    let hello = v1::Hello { gateway: "g".to_owned(), scope, ..Default::default() };
    let hello = v1::SyncRequest { message: Some(sync_request::Message::Hello(hello)) };
    let answer = registry.sync().await.sync(tokio_stream::iter([hello])).await;
    answer.expect("a stream").into_inner()
}

/// Reads until it is told of a revision.
async fn reach(stream: &mut Streaming<v1::SyncResponse>, revision: u64) {
    let reached = |message: &Message| match message {
        Delta(delta) => delta.revision,
        Step(step) => step.position.as_ref().expect("a position").revision,
        Progress(progress) => progress.revision,
        _ => 0,
    };
    let is_there = |message: &Message| reached(message) == revision;
    loop {
        let heard = stream.message().await.expect("a sound stream").expect("it goes on");
        if heard.message.as_ref().is_some_and(is_there) {
            return;
        }
    }
}

async fn encoded(registry: &Registry, kind: &str) -> Option<u64> {
    let metrics = reqwest::get(format!("{}/metrics", registry.url())).await.expect("metrics");
    let name = format!("registry_sync_messages_encoded_total{{kind=\"{kind}\"}} ");
    let text = metrics.text().await.expect("text");
    text.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok())
}

#[tokio::test]
async fn a_message_is_encoded_once_for_all_streams_that_get_it() {
    let roots = v1::Roots { roots: vec!["team/*".to_owned()] };
    let scoped = v1::Scope { scope: Some(scope::Scope::Roots(roots)) };
    for (kind, scope) in [("delta", None), ("step", Some(scoped))] {
        let registry = Registry::start();
        let mut streams = Vec::new();
        for _ in 0..FOLLOWERS {
            let mut stream = follow(&registry, scope.clone()).await;
            reach(&mut stream, 0).await;
            streams.push(stream);
        }
        let mut client = registry.client().await;
        for revision in 1..=COMMITS {
            let request = register(&format!("team/s{revision}"));
            client.apply(request).await.expect("accepted");
            for stream in &mut streams {
                reach(stream, revision).await;
            }
        }
        assert_eq!(encoded(&registry, kind).await, Some(COMMITS), "{kind}");
    }
}

fn register(server: &str) -> v1::ApplyRequest {
    let server =
        v1::Server { name: server.to_owned(), version: "1.0.0".to_owned(), ..Default::default() };
    let entity = v1::Entity { kind: Some(v1::entity::Kind::Server(server)) };
    let register = v1::Change { change: Some(v1::change::Change::Register(entity)) };
    v1::ApplyRequest { changes: vec![register], ..Default::default() }
}
