//! Apply: stored results, rejections and error details.

use registry_proto::v1::{self, ChangeAction, DiagnosticSeverity, EntityKind, LifecycleState};
use tonic::Code;

use crate::{
    follower::Follower,
    harness::{
        TestServer, batch, findings, key, new_schema, proven_log, reason, register, schema,
        schema_of, server, set_lifecycle,
    },
};

#[tokio::test(flavor = "multi_thread")]
async fn committed_batch_is_readable_and_streamed() {
    let registry = TestServer::start().await;
    let mut follower = Follower::new(&registry).await;
    let mut client = registry.registry().await;

    let applied = client.apply_changes(new_schema("A")).await.unwrap().into_inner();
    assert_eq!((applied.revision, applied.committed), (1, true));
    assert_eq!(applied.plan[0].action(), ChangeAction::Register);

    let get = v1::GetEntityRequest {
        key: Some(key(EntityKind::Schema, "A", "1.0.0")),
        include_document: true,
        ..Default::default()
    };
    let got = client.get_entity(get).await.unwrap().into_inner();
    let record = got.record.unwrap();
    assert_eq!((got.revision, record.registered_revision, &*record.owner), (1, 1, "ann"));
    assert_eq!(record.digest, applied.plan[0].digest);

    follower.reach(1).await;
    assert_eq!(follower.catalog.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_batch_lists_all_findings_and_stores_nothing() {
    let registry = TestServer::start().await;
    let mut client = registry.registry().await;
    let docs = server("docs", "1.0.0", &[("read", "1.0.0"), ("write", "2.0.0")]);
    let request = batch([register(schema("Good", "1.0.0")), register(docs)]);

    let refused = client.apply_changes(request).await.unwrap_err();
    let rejected = (refused.code(), &*reason(&refused));
    assert_eq!(rejected, (Code::FailedPrecondition, "VALIDATION_FAILED"));
    let found = findings(&refused);
    let errors: Vec<_> =
        found.iter().filter(|f| f.severity() == DiagnosticSeverity::Error).collect();
    assert_eq!(errors.len(), 2, "{found:?}");
    for (finding, (pointer, tool)) in
        errors.iter().zip([("/provides/0", "read"), ("/provides/1", "write")])
    {
        assert_eq!((&*finding.code, finding.change), ("provision-unknown", Some(1)));
        assert_eq!(finding.entity, Some(key(EntityKind::Server, "docs", "1.0.0")));
        assert!(
            finding.pointer.starts_with(pointer) && finding.message.contains(tool),
            "{finding:?}"
        );
    }
    assert!(proven_log(&registry).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn undecodable_changes_are_reported_as_findings() {
    let registry = TestServer::start().await;
    let mut client = registry.registry().await;
    let request = batch([
        register(schema("A", "1.0.0")),
        register(schema("B", "latest")),
        register(schema_of("C", "1.0.0", "{not json")),
        v1::EntityChange { change: None, if_digest: None },
    ]);
    let refused = client.apply_changes(request.clone()).await.unwrap_err();
    assert_eq!(reason(&refused), "VALIDATION_FAILED");
    let changes: Vec<_> = findings(&refused).iter().map(|f| f.change.unwrap()).collect();
    assert_eq!(changes, [1, 2, 3]);

    let dry_run = v1::ApplyChangesRequest { validate_only: true, ..request };
    let answer = client.apply_changes(dry_run).await.unwrap().into_inner();
    assert_eq!((answer.revision, answer.committed, answer.diagnostics.len()), (0, false, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn findings_beyond_the_limit_are_counted() {
    let registry = TestServer::start().await;
    let mut client = registry.registry().await;
    let names: Vec<_> = (0..300).map(|i| format!("tool-{i}")).collect();
    let provides: Vec<_> = names.iter().map(|name| (&**name, "1.0.0")).collect();
    let request = batch([register(server("docs", "1.0.0", &provides))]);

    let refused = client.apply_changes(request.clone()).await.unwrap_err();
    assert_eq!(reason(&refused), "VALIDATION_FAILED");
    assert!(refused.message().contains(" 299 "), "{}", refused.message());
    let shown = findings(&refused).len();
    assert!(shown > 5 && shown < 100, "{shown}");
    let all = client
        .apply_changes(v1::ApplyChangesRequest { validate_only: true, ..request })
        .await
        .unwrap();
    assert_eq!(all.into_inner().diagnostics.len(), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn dry_run_reports_effects_without_commit() {
    let registry = TestServer::start().await;
    let mut client = registry.registry().await;
    client.apply_changes(new_schema("A")).await.unwrap();
    let request = batch([register(schema("A", "1.0.0")), register(schema("B", "1.0.0"))]);
    let answer = client
        .apply_changes(v1::ApplyChangesRequest { validate_only: true, ..request })
        .await
        .unwrap();
    let answer = answer.into_inner();
    assert_eq!((answer.revision, answer.committed), (1, false));
    let effects: Vec<_> = answer.plan.iter().map(v1::PlannedChange::action).collect();
    assert_eq!(effects, [ChangeAction::Unchanged, ChangeAction::Register]);
    assert_eq!(proven_log(&registry).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn same_content_is_unchanged_different_content_is_rejected() {
    let registry = TestServer::start().await;
    let mut client = registry.registry().await;
    client.apply_changes(new_schema("A")).await.unwrap();

    let again = client.apply_changes(new_schema("A")).await.unwrap().into_inner();
    assert_eq!((again.revision, again.committed), (1, false));
    assert_eq!(again.plan[0].action(), ChangeAction::Unchanged);

    let other = batch([register(schema_of("A", "1.0.0", r#"{"type":"string"}"#))]);
    let refused = client.apply_changes(other).await.unwrap_err();
    assert_eq!(findings(&refused)[0].code, "already-registered");
    assert_eq!(proven_log(&registry).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn base_revision_mismatch_rejects_the_batch() {
    let registry = TestServer::start().await;
    let mut client = registry.registry().await;
    let at = |base, name: &str| v1::ApplyChangesRequest {
        base_revision: Some(base),
        ..new_schema(name)
    };
    client.apply_changes(at(0, "A")).await.unwrap();
    for validate_only in [false, true] {
        let late = v1::ApplyChangesRequest { validate_only, ..at(0, "B") };
        let refused = client.apply_changes(late).await.unwrap_err();
        assert_eq!((refused.code(), &*reason(&refused)), (Code::Aborted, "BASE_REVISION_MISMATCH"));
        assert!(refused.message().contains("revision 1"), "{}", refused.message());
    }
    assert_eq!(client.apply_changes(at(1, "B")).await.unwrap().into_inner().revision, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn lifecycle_change_keeps_the_document() {
    let registry = TestServer::start().await;
    let mut client = registry.registry().await;
    let applied = client.apply_changes(new_schema("A")).await.unwrap().into_inner();
    let a = || key(EntityKind::Schema, "A", "1.0.0");
    let steps = [
        (LifecycleState::Deprecated, "use B", ChangeAction::Deprecate),
        (LifecycleState::Retired, "gone", ChangeAction::Retire),
        (LifecycleState::Active, "", ChangeAction::Restore),
    ];
    for (revision, (state, why, effect)) in (2..).zip(steps) {
        let answer = client.apply_changes(batch([set_lifecycle(a(), state, why)])).await.unwrap();
        let answer = answer.into_inner();
        assert_eq!((answer.revision, answer.plan[0].action()), (revision, effect));
        let get = v1::GetEntityRequest { key: Some(a()), ..Default::default() };
        let record = client.get_entity(get).await.unwrap().into_inner().record.unwrap();
        let lifecycle = record.lifecycle.unwrap();
        assert_eq!((lifecycle.state(), lifecycle.revision), (state, revision));
        assert_eq!(lifecycle.message.unwrap_or_default(), why);
        assert_eq!(record.digest, applied.plan[0].digest);
    }
    let unknown = set_lifecycle(key(EntityKind::Tool, "X", "1.0.0"), LifecycleState::Retired, "");
    let refused = client.apply_changes(batch([unknown])).await.unwrap_err();
    assert_eq!(findings(&refused)[0].code, "not-registered");
}

#[tokio::test(flavor = "multi_thread")]
async fn control_characters_are_rejected_with_field_name() {
    let registry = TestServer::start().await;
    let mut client = registry.registry().await;
    let ok = new_schema("A");
    let line = || "a\0b".to_owned();
    let refused = [
        ("message", v1::ApplyChangesRequest { message: line(), ..ok.clone() }),
        ("author", v1::ApplyChangesRequest { author: "a\nb".to_owned(), ..ok.clone() }),
        ("request_id", v1::ApplyChangesRequest { request_id: line(), ..ok.clone() }),
    ];
    for (field, request) in refused {
        let status = client.apply_changes(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert!(status.message().starts_with(field), "{}", status.message());
    }
    let lines = v1::ApplyChangesRequest { message: "two\n\tlines".to_owned(), ..ok };
    client.apply_changes(lines).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn request_limits_are_rejected_with_field_name() {
    let registry = TestServer::start().await;
    let mut client = registry.registry().await;
    let ok = new_schema("A");
    let long = |length| "x".repeat(length);
    let refused = [
        ("message", v1::ApplyChangesRequest { message: long(4097), ..ok.clone() }),
        ("author", v1::ApplyChangesRequest { author: long(257), ..ok.clone() }),
        ("request_id", v1::ApplyChangesRequest { request_id: long(129), ..ok.clone() }),
        ("changes", batch((0..5001).map(|_| v1::EntityChange { change: None, if_digest: None }))),
    ];
    for (field, request) in refused {
        let status = client.apply_changes(request).await.unwrap_err();
        assert_eq!((status.code(), &*reason(&status)), (Code::InvalidArgument, "LIMIT_EXCEEDED"));
        assert!(status.message().starts_with(field), "{}", status.message());
    }
    let huge = batch([register(schema_of("A", "1.0.0", &format!("\"{}\"", long(65 << 20))))]);
    let status = client.apply_changes(huge).await.unwrap_err();
    assert_eq!((status.code(), &*reason(&status)), (Code::OutOfRange, "MESSAGE_TOO_LARGE"));
    let at_the_limit = v1::ApplyChangesRequest { message: long(4096), author: long(256), ..ok };
    client.apply_changes(at_the_limit).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn buffered_request_bytes_are_bounded() {
    let registry = TestServer::with(&["--max-buffered-bytes", "1048576"]).await;
    let mut client = registry.registry().await;
    let huge = |i: usize| {
        register(schema_of(&format!("S{i}"), "1.0.0", &format!("\"{}\"", "x".repeat(200_000))))
    };
    let status = client.apply_changes(batch((0..8).map(huge))).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert_eq!(reason(&status), "REQUEST_MEMORY_LIMIT");
    client.apply_changes(new_schema("A")).await.expect("there is room again");
}

/// A control character takes one byte in the request and six in the document.
#[tokio::test(flavor = "multi_thread")]
async fn oversized_batch_has_no_retry_hint() {
    let registry = TestServer::start().await;
    let schema = |i: usize| {
        let (name, version) = (format!("S{i}"), "1.0.0".to_owned());
        let description = Some("\u{1}".repeat(8_000));
        let schema = "true".to_owned();
        let schema = v1::Schema { name, version, description, schema, metadata: None };
        register(v1::Entity { kind: Some(v1::entity::Kind::Schema(schema)) })
    };
    let status =
        registry.registry().await.apply_changes(batch((0..1_500).map(schema))).await.unwrap_err();
    assert_eq!(reason(&status), "VALIDATION_FAILED", "{}", status.message());
}
