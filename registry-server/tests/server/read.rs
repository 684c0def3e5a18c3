//! Reads of current and past states, with filters and pages.

use registry_proto::v1::{self, ChangeAction, EntityKind, LifecycleState, entity_event::Event};
use tonic::Code;

use crate::harness::{
    TestServer, batch, key, new_schema, reason, register, schema, server, set_lifecycle,
};

/// Seven schemas, one with a second, deprecated version, and a server of another owner.
async fn library() -> TestServer {
    let registry = TestServer::start().await;
    let mut client = registry.registry().await;
    for name in ["alpha", "alpine", "beta", "delta", "epsilon", "gamma"] {
        client.apply_changes(new_schema(name)).await.unwrap();
    }
    client.apply_changes(batch([register(schema("alpha", "1.10.0"))])).await.unwrap();
    let alpha = key(EntityKind::Schema, "alpha", "1.0.0");
    let deprecate = set_lifecycle(alpha, LifecycleState::Deprecated, "old");
    client.apply_changes(batch([deprecate])).await.unwrap();
    let other = v1::ApplyChangesRequest {
        author: "bob".to_owned(),
        ..batch([register(server("docs", "1.0.0", &[]))])
    };
    client.apply_changes(other).await.unwrap();
    registry
}

async fn list(registry: &TestServer, request: v1::ListEntitiesRequest) -> Vec<String> {
    let mut client = registry.registry().await;
    let (mut names, mut request) = (Vec::new(), request);
    loop {
        let page = client.list_entities(request.clone()).await.unwrap().into_inner();
        let size = page.records.len();
        names.extend(page.records.into_iter().map(|record| {
            let key = record.key.unwrap();
            format!("{}@{}", key.name, key.version)
        }));
        if page.next_page_token.is_empty() {
            return names;
        }
        assert_eq!(i32::try_from(size), Ok(request.page_size), "only the last page is short");
        request.page_token = page.next_page_token;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_and_paged_by_key() {
    let registry = library().await;
    let all = [
        "alpha@1.0.0",
        "alpha@1.10.0",
        "alpine@1.0.0",
        "beta@1.0.0",
        "delta@1.0.0",
        "epsilon@1.0.0",
        "gamma@1.0.0",
        "docs@1.0.0",
    ];
    for page_size in [1, 2, 3, 7, 8, 100] {
        let request = v1::ListEntitiesRequest { page_size, ..Default::default() };
        assert_eq!(list(&registry, request).await, all, "pages of {page_size}");
    }
    let by = |request: v1::ListEntitiesRequest| {
        list(&registry, v1::ListEntitiesRequest { page_size: 1, ..request })
    };
    let base = v1::ListEntitiesRequest::default;
    let cases = [
        (v1::ListEntitiesRequest { kind: EntityKind::Server.into(), ..base() }, vec!["docs@1.0.0"]),
        (
            v1::ListEntitiesRequest { name: "alpha".into(), ..base() },
            vec!["alpha@1.0.0", "alpha@1.10.0"],
        ),
        (
            v1::ListEntitiesRequest { name_prefix: "alp".into(), ..base() },
            vec!["alpha@1.0.0", "alpha@1.10.0", "alpine@1.0.0"],
        ),
        (v1::ListEntitiesRequest { owner: "bob".into(), ..base() }, vec!["docs@1.0.0"]),
        (
            v1::ListEntitiesRequest {
                lifecycle_states: vec![LifecycleState::Deprecated.into()],
                ..base()
            },
            vec!["alpha@1.0.0"],
        ),
        (
            v1::ListEntitiesRequest {
                kind: EntityKind::Schema.into(),
                name: "docs".into(),
                ..base()
            },
            vec![],
        ),
        (v1::ListEntitiesRequest { name: "no such/name at all".into(), ..base() }, vec![]),
    ];
    for (request, expected) in cases {
        assert_eq!(by(request.clone()).await, expected, "{request:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn page_tokens_are_validated() {
    let registry = library().await;
    let mut client = registry.registry().await;
    let first = v1::ListEntitiesRequest { page_size: 2, ..Default::default() };
    let token = client.list_entities(first).await.unwrap().into_inner().next_page_token;
    let other = v1::ListEntitiesRequest {
        owner: "bob".into(),
        page_token: token.clone(),
        ..Default::default()
    };
    let garbage = v1::ListEntitiesRequest { page_token: "42".into(), ..Default::default() };
    let mut cut = token;
    cut.truncate(20);
    let cut = v1::ListEntitiesRequest { page_token: cut, ..Default::default() };
    for request in [other, garbage, cut] {
        let refused = client.list_entities(request).await.unwrap_err();
        assert_eq!(
            (refused.code(), &*reason(&refused)),
            (Code::InvalidArgument, "PAGE_TOKEN_INVALID")
        );
    }
    let negative = v1::ListEntitiesRequest { page_size: -1, ..Default::default() };
    let refused = client.list_entities(negative).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::InvalidArgument, "INVALID_REQUEST"));
    let big = v1::ListEntitiesRequest { page_size: 1001, ..Default::default() };
    assert!(client.list_entities(big).await.is_ok(), "it is coerced");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_key_is_not_found_invalid_key_rejected() {
    let registry = library().await;
    let mut client = registry.registry().await;
    let get = |key| v1::GetEntityRequest { key, ..Default::default() };
    let absent =
        client.get_entity(get(Some(key(EntityKind::Tool, "alpha", "1.0.0")))).await.unwrap_err();
    assert_eq!((absent.code(), &*reason(&absent)), (Code::NotFound, "NOT_FOUND"));
    for bad in [
        None,
        Some(key(EntityKind::Unspecified, "a", "1.0.0")),
        Some(key(EntityKind::Tool, "a", "1.x")),
    ] {
        let refused = client.get_entity(get(bad)).await.unwrap_err();
        assert_eq!(
            (refused.code(), &*reason(&refused)),
            (Code::InvalidArgument, "INVALID_REQUEST")
        );
    }
}

async fn commits(registry: &TestServer, mut request: v1::ListCommitsRequest) -> Vec<u64> {
    let mut client = registry.history().await;
    let mut revisions = Vec::new();
    loop {
        let page = client.list_commits(request.clone()).await.unwrap().into_inner();
        revisions.extend(page.commits.iter().map(|commit| commit.revision));
        if page.next_page_token.is_empty() {
            return revisions;
        }
        request.page_token = page.next_page_token;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn log_is_paged_in_both_directions() {
    let registry = library().await;
    for page_size in [1, 2, 4, 9, 100] {
        let request = v1::ListCommitsRequest { page_size, ..Default::default() };
        assert_eq!(commits(&registry, request.clone()).await, (1..=9).collect::<Vec<_>>());
        let newest = v1::ListCommitsRequest { newest_first: true, ..request.clone() };
        assert_eq!(commits(&registry, newest.clone()).await, (1..=9).rev().collect::<Vec<_>>());
        let late = v1::ListCommitsRequest { after_revision: 6, ..request.clone() };
        assert_eq!(commits(&registry, late).await, [7, 8, 9]);
        let late = v1::ListCommitsRequest { after_revision: 6, ..newest };
        assert_eq!(commits(&registry, late).await, [9, 8, 7]);
        let bob = v1::ListCommitsRequest { author: "bob".into(), ..request };
        assert_eq!(commits(&registry, bob).await, [9]);
    }
    let mut client = registry.history().await;
    let beyond = v1::GetCommitRequest { revision: 10, ..Default::default() };
    let absent = client.get_commit(beyond).await.unwrap_err();
    assert_eq!((absent.code(), &*reason(&absent)), (Code::NotFound, "NOT_FOUND"));
}

fn alpha(version: &str) -> v1::EntitySelector {
    let (kind, name) = (EntityKind::Schema.into(), "alpha".to_owned());
    v1::EntitySelector { kind, name, version: version.to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn entity_history_is_paged() {
    let registry = library().await;
    let mut client = registry.history().await;
    let mut request =
        v1::ListEntityEventsRequest { entity: Some(alpha("")), page_size: 2, ..Default::default() };
    let mut seen = Vec::new();
    loop {
        let page = client.list_entity_events(request.clone()).await.unwrap().into_inner();
        assert!(page.events.len() <= 2);
        seen.extend(page.events.iter().map(|event| {
            let Some(Event::Change(change)) = &event.event else { panic!("{event:?}") };
            let version = change.key.as_ref().unwrap().version.clone();
            (event.revision, version, change.action())
        }));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    let event = |revision, version: &str, action| (revision, version.to_owned(), action);
    assert_eq!(
        seen,
        [
            event(1, "1.0.0", ChangeAction::Register),
            event(7, "1.10.0", ChangeAction::Register),
            event(8, "1.0.0", ChangeAction::Deprecate),
        ]
    );
    let one = v1::ListEntityEventsRequest {
        entity: Some(alpha("1.10.0")),
        page_token: String::new(),
        ..request.clone()
    };
    assert_eq!(client.list_entity_events(one).await.unwrap().into_inner().events.len(), 1);
    let bad = v1::ListEntityEventsRequest {
        entity: Some(alpha("^1")),
        page_token: String::new(),
        ..request
    };
    assert_eq!(reason(&client.list_entity_events(bad).await.unwrap_err()), "INVALID_REQUEST");
}
