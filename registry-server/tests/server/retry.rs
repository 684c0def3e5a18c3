//! Retries with a request id return the first result.

use std::time::Duration;

use registry_proto::v1::{self, ChangeAction, EntityKind, LifecycleState};
use tonic::Code;

use crate::harness::{
    TestServer, batch, key, lock, new_schema, proven_log, reason, register, schema, schema_of,
    set_lifecycle, started,
};

fn with_id(id: &str, request: v1::ApplyChangesRequest) -> v1::ApplyChangesRequest {
    v1::ApplyChangesRequest { request_id: id.to_owned(), ..request }
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_returns_the_first_result() {
    let registry = TestServer::start().await;
    let mut client = registry.registry().await;
    client.apply_changes(new_schema("Old")).await.unwrap();
    let changes = [register(schema("Old", "1.0.0")), register(schema("New", "1.0.0"))];
    let request = with_id("r1", batch(changes));
    let first = client.apply_changes(request.clone()).await.unwrap().into_inner();
    assert_eq!((first.revision, first.committed), (2, true));
    client.apply_changes(new_schema("Later")).await.unwrap();

    let again = client.apply_changes(request.clone()).await.unwrap().into_inner();
    assert_eq!((again.revision, again.committed), (2, true));
    assert_eq!(again.plan, first.plan);

    let registry = TestServer::on(registry.stop().await, &[]).await;
    let again = registry.registry().await.apply_changes(request).await.unwrap().into_inner();
    assert_eq!((again.revision, &again.plan), (2, &first.plan));
    assert_eq!(proven_log(&registry).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_succeeds_despite_later_state() {
    let registry = TestServer::start().await;
    let mut client = registry.registry().await;
    let based = v1::ApplyChangesRequest { base_revision: Some(0), ..new_schema("A") };
    let request = with_id("based", based);
    client.apply_changes(request.clone()).await.unwrap();
    let again = client.apply_changes(request).await.unwrap().into_inner();
    assert_eq!((again.revision, again.committed), (1, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn lifecycle_change_is_applied_once() {
    let registry = TestServer::start().await;
    let mut client = registry.registry().await;
    client.apply_changes(new_schema("A")).await.unwrap();
    let set = |state| batch([set_lifecycle(key(EntityKind::Schema, "A", "1.0.0"), state, "")]);
    let deprecate = with_id("d", set(LifecycleState::Deprecated));
    client.apply_changes(deprecate.clone()).await.unwrap();
    client.apply_changes(with_id("r", set(LifecycleState::Active))).await.unwrap();

    // The late retry must not deprecate the restored entity again.
    let again = client.apply_changes(deprecate).await.unwrap().into_inner();
    assert_eq!((again.revision, again.committed), (2, true));
    assert_eq!(again.plan[0].action(), ChangeAction::Deprecate);
    let get = v1::GetEntityRequest {
        key: Some(key(EntityKind::Schema, "A", "1.0.0")),
        include_document: false,
        ..Default::default()
    };
    let record = client.get_entity(get).await.unwrap().into_inner().record.unwrap();
    assert_eq!(record.lifecycle.unwrap().state(), LifecycleState::Active);
}

/// Includes a change without effect in the first request, whose effect was reverted later.
#[tokio::test(flavor = "multi_thread")]
async fn retry_is_recognized_after_a_reverted_effect() {
    let registry = TestServer::start().await;
    let mut client = registry.registry().await;
    client.apply_changes(new_schema("Old")).await.unwrap();
    let set = |state| set_lifecycle(key(EntityKind::Schema, "Old", "1.0.0"), state, "");
    client.apply_changes(batch([set(LifecycleState::Deprecated)])).await.unwrap();
    let changes = [set(LifecycleState::Deprecated), register(schema("New", "1.0.0"))];
    let request = with_id("r", batch(changes));
    let first = client.apply_changes(request.clone()).await.unwrap().into_inner();
    client.apply_changes(batch([set(LifecycleState::Active)])).await.unwrap();
    let again = client.apply_changes(request).await.unwrap().into_inner();
    assert_eq!((again.revision, again.committed, again.plan), (3, true, first.plan));
}

#[tokio::test(flavor = "multi_thread")]
async fn request_id_of_another_batch_is_rejected() {
    let registry = TestServer::start().await;
    let mut client = registry.registry().await;
    client.apply_changes(new_schema("Older")).await.unwrap();
    client.apply_changes(with_id("r1", new_schema("A"))).await.unwrap();
    let archive = v1::SettingChange {
        target: "schema/A".to_owned(),
        setting: Some(v1::setting_change::Setting::Archived(true)),
    };
    let others = [
        new_schema("B"),
        batch([register(schema("A", "1.0.0")), register(schema("B", "1.0.0"))]),
        batch([register(schema_of("A", "1.0.0", "true"))]),
        batch([set_lifecycle(key(EntityKind::Schema, "A", "1.0.0"), LifecycleState::Retired, "")]),
        batch([
            register(schema("A", "1.0.0")),
            set_lifecycle(key(EntityKind::Schema, "Older", "1.0.0"), LifecycleState::Retired, ""),
        ]),
        batch([
            register(schema("A", "1.0.0")),
            set_lifecycle(key(EntityKind::Schema, "A", "1.0.0"), LifecycleState::Retired, ""),
        ]),
        batch([register(schema("A", "1.0.0")), register(schema("Older", "1.0.0"))]),
        v1::ApplyChangesRequest { settings: vec![archive], ..new_schema("A") },
    ];
    for other in others {
        let refused = client.apply_changes(with_id("r1", other)).await.unwrap_err();
        assert_eq!(
            (refused.code(), &*reason(&refused)),
            (Code::AlreadyExists, "REQUEST_ID_REUSED")
        );
    }
    assert_eq!(proven_log(&registry).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn request_ids_of_two_authors_are_independent() {
    let registry = TestServer::start().await;
    let mut client = registry.registry().await;
    let by = |author: &str, name| {
        let request = v1::ApplyChangesRequest { author: author.to_owned(), ..new_schema(name) };
        with_id("deploy-1", request)
    };
    for _ in 0..2 {
        for (author, name, revision) in [("ann", "A", 1), ("eve", "B", 2)] {
            let answer = client.apply_changes(by(author, name)).await.unwrap().into_inner();
            assert_eq!((answer.revision, answer.committed), (revision, true), "{author}");
        }
    }
    let reused = client.apply_changes(by("eve", "A")).await.unwrap_err();
    assert_eq!(reason(&reused), "REQUEST_ID_REUSED");
    assert_eq!(proven_log(&registry).await.len(), 2);
}

/// Request ids are recorded with commits only.
#[tokio::test(flavor = "multi_thread")]
async fn unchanged_request_is_evaluated_again_on_retry() {
    let registry = TestServer::start().await;
    let mut client = registry.registry().await;
    client.apply_changes(new_schema("A")).await.unwrap();
    let set = |state| batch([set_lifecycle(key(EntityKind::Schema, "A", "1.0.0"), state, "")]);
    let restore = with_id("r", set(LifecycleState::Active));
    assert!(!client.apply_changes(restore.clone()).await.unwrap().into_inner().committed);
    client.apply_changes(set(LifecycleState::Deprecated)).await.unwrap();
    assert!(client.apply_changes(restore).await.unwrap().into_inner().committed);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_retries_create_one_commit() {
    let registry = TestServer::start().await;
    let client = registry.registry().await;
    let retries =
        (0..32).map(|_| {
            let mut client = client.clone();
            async move {
                client.apply_changes(with_id("same", new_schema("A"))).await.unwrap().into_inner()
            }
        });
    for answer in futures_util::future::join_all(retries).await {
        assert_eq!((answer.revision, answer.committed), (1, true));
    }
    assert_eq!(proven_log(&registry).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_batches_with_one_id_commit_once() {
    let registry = TestServer::start().await;
    let client = registry.registry().await;
    let apply = |request| {
        let mut client = client.clone();
        async move { client.apply_changes(request).await }
    };
    // The other batches queue while the first write waits for the database.
    let lock = lock(&registry).await;
    let first = started(&client, [apply(new_schema("First"))]).await.remove(0);
    let others = (0..32).map(|i| apply(with_id("same", new_schema(&format!("S{i}")))));
    let others = started(&client, others).await;
    drop(lock);

    assert!(first.await.unwrap().is_ok());
    let mut made = 0;
    for other in others {
        match other.await.unwrap() {
            Ok(_) => made += 1,
            Err(refused) => assert_eq!(reason(&refused), "REQUEST_ID_REUSED", "{refused:?}"),
        }
    }
    assert_eq!((made, proven_log(&registry).await.len()), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn canceled_caller_commits_at_most_once() {
    let registry = TestServer::start().await;
    let client = registry.registry().await;
    for i in 0..40 {
        let (mut client, request) =
            (client.clone(), with_id(&format!("r{i}"), new_schema(&format!("S{i}"))));
        let mut retrying = client.clone();
        let patience = Duration::from_micros(i * 150);
        // Usually canceled between sending and receiving.
        let _ = tokio::time::timeout(patience, client.apply_changes(request.clone())).await;
        let answer = retrying.apply_changes(request).await.unwrap().into_inner();
        assert!(answer.committed);
    }
    let log = proven_log(&registry).await;
    let mut ids: Vec<_> = log.iter().map(|commit| commit.request_id.clone()).collect();
    assert_eq!(ids.len(), 40);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 40);
}
