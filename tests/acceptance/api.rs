//! The API as generated clients use it: revisions, preconditions, documents as JSON, statuses and pages.

mod clients;

use std::time::{Duration, Instant};

use acceptance::{Database, Registry, postgres};
use prost::Message as _;
use registry_proto::v1::{
    self, EntityKind, discovery_service_client::DiscoveryServiceClient, entity_change::Change,
    history_service_client::HistoryServiceClient, registry_service_client::RegistryServiceClient,
};
use serde_json::{Value, json};
use tonic::{Code, Status, transport::Channel};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};
use tonic_types::StatusExt as _;

fn register(kind: EntityKind, document: &Value) -> v1::EntityChange {
    let json = document.to_string().into_bytes().into();
    let document = v1::JsonDocument { kind: kind.into(), json };
    v1::EntityChange { change: Some(Change::RegisterDocument(document)), if_digest: None }
}

fn schema(name: &str) -> v1::EntityChange {
    let document = json!({ "name": name, "version": "1.0.0", "schema": { "type": "string" } });
    register(EntityKind::Schema, &document)
}

fn batch(changes: Vec<v1::EntityChange>) -> v1::ApplyChangesRequest {
    v1::ApplyChangesRequest { changes, ..Default::default() }
}

fn key(name: &str) -> v1::EntityKey {
    let kind = EntityKind::Schema.into();
    v1::EntityKey { kind, name: name.to_owned(), version: "1.0.0".to_owned() }
}

fn reason(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

async fn rejected(registry: &Registry, changes: Vec<v1::EntityChange>) -> Status {
    let rejected = registry.client().await.apply_changes(batch(changes)).await;
    rejected.expect_err("it is rejected")
}

#[tokio::test]
async fn json_document_is_stored_as_typed_message() {
    let registry = Registry::start();
    let mut client = registry.client().await;
    let applied = client.apply_changes(batch(vec![schema("A")])).await.unwrap().into_inner();
    let typed = v1::Schema {
        name: "A".to_owned(),
        version: "1.0.0".to_owned(),
        schema: r#"{ "type": "string" }"#.to_owned(),
        ..Default::default()
    };
    let typed = v1::Entity { kind: Some(v1::entity::Kind::Schema(typed)) };
    let again =
        v1::EntityChange { change: Some(Change::RegisterEntity(typed.clone())), if_digest: None };
    let again = client.apply_changes(batch(vec![again])).await.unwrap().into_inner();
    assert_eq!(again.plan[0].action(), v1::ChangeAction::Unchanged);
    let get =
        v1::GetEntityRequest { key: Some(key("A")), include_document: true, ..Default::default() };
    let record = client.get_entity(get).await.unwrap().into_inner().record.unwrap();
    assert_eq!(record.digest, applied.plan[0].digest);
    let document: Value = serde_json::from_slice(&record.document.unwrap()).unwrap();
    assert_eq!(document["schema"], json!({ "type": "string" }));

    let twice = br#"{"name":"B","name":"B","version":"1.0.0","schema":true}"#;
    let twice = v1::JsonDocument { kind: EntityKind::Schema.into(), json: twice.to_vec().into() };
    let twice = Change::RegisterDocument(twice);
    let twice = v1::EntityChange { change: Some(twice), if_digest: None };
    let status = rejected(&registry, vec![twice]).await;
    assert_eq!((status.code(), &*reason(&status)), (Code::InvalidArgument, "VALIDATION_FAILED"));
}

#[tokio::test]
async fn status_names_the_first_finding() {
    let registry = Registry::start();
    let bad = |name: &str| {
        let document = json!({ "name": name, "version": "1.0.0", "schema": true });
        register(EntityKind::Schema, &document)
    };
    let status = rejected(&registry, vec![bad("a b"), bad("c d")]).await;
    assert_eq!(status.code(), Code::InvalidArgument);
    let message = status.message();
    insta::assert_snapshot!("first-finding-in-status", message);
}

#[tokio::test]
async fn status_code_tells_state_from_documents() {
    let registry = Registry::start();
    let server = json!({
        "name": "files", "version": "1.0.0", "provides": [{ "tool": "read", "version": "1.0.0" }],
    });
    let missing = rejected(&registry, vec![register(EntityKind::Server, &server)]).await;
    assert_eq!(
        (missing.code(), &*reason(&missing)),
        (Code::FailedPrecondition, "VALIDATION_FAILED")
    );
    assert!(missing.message().starts_with("server/files@1.0.0: "), "{}", missing.message());
    let invalid = json!({ "name": "A", "version": "one", "schema": true });
    let both = vec![register(EntityKind::Server, &server), register(EntityKind::Schema, &invalid)];
    assert_eq!(rejected(&registry, both).await.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn read_waits_for_its_minimum_revision() {
    let database = Database::Postgres(postgres::database().await);
    let (left, right) = (Registry::start_on(&database.url()), Registry::start_on(&database.url()));
    let (mut writer, mut reader) = (left.client().await, right.client().await);
    for number in 0..20 {
        let name = format!("S{number}");
        let applied = writer.apply_changes(batch(vec![schema(&name)])).await.unwrap().into_inner();
        let get = v1::GetEntityRequest {
            key: Some(key(&name)),
            min_revision: applied.revision,
            ..Default::default()
        };
        let got = reader.get_entity(get).await.expect("its own write").into_inner();
        assert!(got.revision >= applied.revision);
        let search = v1::SearchEntitiesRequest {
            query: name,
            min_revision: applied.revision,
            ..Default::default()
        };
        let mut discovery = DiscoveryServiceClient::new(right.channel().await);
        assert!(discovery.search_entities(search).await.unwrap().into_inner().total_count > 0);
    }
    let began = Instant::now();
    let ahead = v1::ListEntitiesRequest { min_revision: 1_000, ..Default::default() };
    let status = reader.list_entities(ahead).await.expect_err("there is no such revision");
    assert_eq!((status.code(), &*reason(&status)), (Code::Unavailable, "REVISION_NOT_REACHED"));
    assert!(status.get_details_retry_info().is_some());
    assert!((4..20).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test]
async fn pending_read_ends_with_the_awaited_commit() {
    let registry = Registry::start();
    let (mut writer, mut reader) = (registry.client().await, registry.client().await);
    let info = v1::GetRegistryInfoRequest { min_revision: 1 };
    let waiting = tokio::spawn(async move { reader.get_registry_info(info).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    writer.apply_changes(batch(vec![schema("A")])).await.unwrap();
    let info = waiting.await.unwrap().expect("the commit is there").into_inner();
    assert_eq!(info.head.unwrap().revision, 1);
}

#[tokio::test]
async fn digest_precondition_guards_a_change() {
    let registry = Registry::start();
    let mut client = registry.client().await;
    let with = |digest: &str, change: v1::EntityChange| {
        batch(vec![v1::EntityChange { if_digest: Some(digest.to_owned()), ..change }])
    };
    let new = client.apply_changes(with("", schema("A"))).await.expect("not registered");
    let digest = new.into_inner().plan[0].digest.clone();
    let retire = || {
        let state = v1::LifecycleState::Retired.into();
        let set = v1::SetLifecycle { key: Some(key("A")), state, ..Default::default() };
        v1::EntityChange { change: Some(Change::SetLifecycle(set)), if_digest: None }
    };
    let other = format!("sha256:{}", "0".repeat(64));
    for (stale, change) in [("", schema("A")), ("", retire()), (&*other, retire())] {
        for validate_only in [true, false] {
            let request = with(stale, change.clone());
            let request = v1::ApplyChangesRequest { validate_only, ..request };
            let status = client.apply_changes(request).await.expect_err("it does not hold");
            assert_eq!((status.code(), &*reason(&status)), (Code::Aborted, "DIGEST_MISMATCH"));
            assert!(status.message().contains(&digest), "{}", status.message());
        }
    }
    let garbled = client.apply_changes(with("sha256:1", retire())).await.expect_err("no digest");
    assert_eq!(garbled.code(), Code::InvalidArgument);
    assert!(client.apply_changes(with(&digest, retire())).await.unwrap().into_inner().committed);
}

#[tokio::test]
async fn batch_get_returns_entities_in_order() {
    let registry = Registry::start();
    let mut client = registry.client().await;
    let changes = vec![schema("A"), schema("B")];
    client.apply_changes(batch(changes)).await.unwrap();
    let request = v1::BatchGetEntitiesRequest {
        keys: vec![key("B"), key("X"), key("A")],
        ..Default::default()
    };
    let missing = client.batch_get_entities(request.clone()).await.expect_err("X is missing");
    assert_eq!(missing.code(), Code::NotFound);
    let partial = v1::BatchGetEntitiesRequest { return_partial_success: true, ..request.clone() };
    let got = client.batch_get_entities(partial).await.unwrap().into_inner();
    let keys: Vec<_> = got.records.into_iter().filter_map(|record| record.key).collect();
    assert_eq!((keys, got.missing), (vec![key("B"), key("A")], vec![key("X")]));
    let bad = [vec![], vec![key("A"), key("A")], vec![key("A"); 101]];
    for keys in bad {
        let request = v1::BatchGetEntitiesRequest { keys, ..request.clone() };
        let status = client.batch_get_entities(request).await.expect_err("bad keys");
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    }
}

#[tokio::test]
async fn registry_info_has_identity_limits_and_features() {
    let registry = Registry::start();
    let relay = Registry::start_relay_of(&registry.address, &[]);
    let info = |mut client: RegistryServiceClient<Channel>| async move {
        let request = v1::GetRegistryInfoRequest::default();
        client.get_registry_info(request).await.unwrap().into_inner()
    };
    let of_registry = info(registry.client().await).await;
    let of_relay = info(relay.client().await).await;
    let head = of_registry.head.clone().unwrap();
    assert_eq!((head.revision, head.chain.len()), (0, "sha256:".len() + 64));
    assert_eq!(of_relay.head.clone().unwrap().registry_id, head.registry_id);
    let limits = of_registry.limits.unwrap();
    assert_eq!((limits.max_page_size, limits.max_batch_get_keys), (1_000, 100));
    let writes = |info: &v1::GetRegistryInfoResponse| {
        info.features().any(|feature| feature == v1::RegistryFeature::Writes)
    };
    assert!(writes(&of_registry) && of_registry.relay.is_none());
    assert!(!writes(&of_relay));
    assert!(of_relay.relay.unwrap().upstream.contains(&registry.address));
}

#[tokio::test]
async fn page_size_above_the_maximum_is_coerced() {
    let registry = Registry::start();
    let mut client = registry.client().await;
    let changes = (0..1_001).map(|number| schema(&format!("S{number}"))).collect();
    client.apply_changes(batch(changes)).await.unwrap();
    let request = v1::ListEntitiesRequest { page_size: i32::MAX, ..Default::default() };
    let page = client.list_entities(request.clone()).await.unwrap().into_inner();
    assert_eq!(page.records.len(), 1_000);
    let next = v1::ListEntitiesRequest {
        page_token: page.next_page_token,
        page_size: 7,
        min_revision: 1,
        ..request
    };
    assert_eq!(client.list_entities(next).await.unwrap().into_inner().records.len(), 1);
}

#[tokio::test]
async fn invalid_field_is_named_in_details() {
    let registry = Registry::start();
    let mut client = registry.client().await;
    let get = v1::GetEntityRequest::default();
    let list = v1::ListEntitiesRequest { page_size: -1, ..Default::default() };
    let token = v1::ListEntitiesRequest { page_token: "x".to_owned(), ..Default::default() };
    let digest = v1::EntityChange { if_digest: Some("1".to_owned()), ..schema("A") };
    for (field, status) in [
        ("key", client.get_entity(get).await.expect_err("no key")),
        ("page_size", client.list_entities(list).await.expect_err("a negative size")),
        ("page_token", client.list_entities(token).await.expect_err("no token")),
        ("changes", rejected(&registry, vec![digest]).await),
    ] {
        assert_eq!(status.code(), Code::InvalidArgument);
        let details = status.get_details_bad_request().expect("a BadRequest");
        let fields: Vec<_> =
            details.field_violations.into_iter().map(|violation| violation.field).collect();
        assert_eq!(fields, [field]);
    }
}

#[tokio::test]
async fn end_time_is_exclusive() {
    let registry = Registry::start();
    let mut client = registry.client().await;
    let mut history = HistoryServiceClient::new(registry.channel().await);
    client.apply_changes(batch(vec![schema("A")])).await.unwrap();
    let commits = async |history: &mut HistoryServiceClient<Channel>, end_time| {
        let request = v1::ListCommitsRequest { end_time, ..Default::default() };
        history.list_commits(request).await.unwrap().into_inner().commits
    };
    let time = commits(&mut history, None).await[0].commit_time.unwrap();
    assert_eq!(commits(&mut history, Some(time)).await, []);
    let later = prost_types::Timestamp { seconds: time.seconds + 1, ..time };
    assert_eq!(commits(&mut history, Some(later)).await.len(), 1);
}

#[tokio::test]
async fn reflection_describes_error_details() {
    let registry = Registry::start();
    let mut client = ServerReflectionClient::new(registry.channel().await);
    for symbol in [
        "google.rpc.BadRequest",
        "google.rpc.ErrorInfo",
        "google.rpc.RetryInfo",
        "registry.v1.ValidationFailure",
    ] {
        let message = Some(MessageRequest::FileContainingSymbol(symbol.to_owned()));
        let request = ServerReflectionRequest { host: String::new(), message_request: message };
        let mut answers = client
            .server_reflection_info(tokio_stream::iter([request]))
            .await
            .unwrap()
            .into_inner();
        let answer = answers.message().await.unwrap().unwrap().message_response;
        let Some(MessageResponse::FileDescriptorResponse(files)) = answer else {
            panic!("{symbol}: {answer:?}")
        };
        let file = &files.file_descriptor_proto[0];
        assert!(prost_types::FileDescriptorProto::decode(&**file).is_ok(), "{symbol}");
    }
}
