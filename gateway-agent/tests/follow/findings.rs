//! Diagnostics of rejected messages: the entity, the position in its document, and the reason.

use std::sync::Arc;

use gateway_agent::cache::Cache;
use registry_core::{
    Action, Catalog, Digest, Document, Kind, Lifecycle, Notice, Record, Revision, SealedCommit,
    Timestamp,
};
use registry_proto::v1::{
    Delta, Diagnostic, Nack, SnapshotChunk, SyncResponse, sync_request, sync_response::Message,
};
use serde_json::json;

use crate::{
    history::{History, delta, schema, snapshot},
    script::{Following, Server, hurried, then_silence},
};

/// The catalog when the invalid message arrives.
const HELD: usize = 4;

/// The NACK of these messages.
async fn refused(messages: Vec<SyncResponse>, held: Option<Catalog>) -> Nack {
    let mut server = Server::start(move |_, _| then_silence(messages.clone())).await;
    let _following = Following::start(server.address, Cache::in_memory(held), hurried());
    let nack = |message: &sync_request::Message| match message {
        sync_request::Message::Nack(nack) => Some(nack.clone()),
        _ => None,
    };
    server.hear_until(nack).await
}

/// `code key at pointer` of each diagnostic.
fn told(found: &[Diagnostic]) -> Vec<String> {
    let line = |found: &Diagnostic| {
        let key = found.entity.as_ref().map(|key| format!("{}@{}", key.name, key.version));
        format!("{} {} at {}", found.code, key.unwrap_or_default(), found.pointer)
    };
    found.iter().map(line).collect()
}

/// A document and a commit with the given bytes.
fn promising(history: &History, bytes: &[u8]) -> Vec<SyncResponse> {
    let good = history.commit(HELD + 1);
    let (old, new) = (good.documents()[0].digest().to_string(), Digest::compute(bytes).to_string());
    let commit = String::from_utf8(good.bytes().to_vec()).expect("JSON").replace(&old, &new);
    let documents = vec![bytes.to_vec().into()];
    vec![delta(Delta { commit: commit.into(), documents, ..good.into() })]
}

#[tokio::test]
async fn findings_name_entities_of_commit() {
    let history = History::new("r", HELD + 1);
    let good = history.commit(HELD + 1);
    let altered = |change: &dyn Fn(&mut Delta)| {
        let mut sent = Delta::from(good);
        change(&mut sent);
        vec![delta(sent)]
    };
    let mut gone = good.commit().clone();
    gone.changes[0].action = Action::Retire(Notice::default());
    let gone = SealedCommit::seal(&history.at(HELD).chain(), gone, vec![]).expect("sealed");
    let mut twice = (good.commit().clone(), good.documents().to_vec());
    twice.0.changes.push(twice.0.changes[0].clone());
    twice.1.push(twice.1[0].clone());
    let twice = SealedCommit::seal(&history.at(HELD).chain(), twice.0, twice.1).expect("sealed");
    let other = schema("Other", 1).bytes().clone();
    for (messages, expected) in [
        (altered(&|d| d.documents[0] = other.clone()), &["document-invalid S5@1.0.0 at "][..]),
        (altered(&|d| d.documents.clear()), &["document-invalid S5@1.0.0 at "]),
        (altered(&|d| d.chain = d.chain[1..].to_owned()), &[]),
        (
            promising(&history, br#"{"name":"S5","schema":{"type":7},"surprise":1}"#),
            &["document-invalid S5@1.0.0 at ", "document-invalid S5@1.0.0 at /surprise"],
        ),
        (vec![delta((&gone).into())], &["not-registered S5@1.0.0 at "]),
        (vec![delta((&twice).into())], &["already-registered S5@1.0.0 at "]),
    ] {
        let nack = refused(messages, Some(history.at(HELD).clone())).await;
        let mut found = told(&nack.diagnostics);
        let mut expected: Vec<_> = expected.iter().map(ToString::to_string).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{}", nack.message);
        assert_eq!(nack.revision, 5);
    }
}

#[tokio::test]
async fn findings_name_snapshot_entities_up_to_limit() {
    let history = History::new("r", 30);
    let mut messages = snapshot(history.head(), 30);
    for message in &mut messages {
        if let Some(Message::SnapshotChunk(SnapshotChunk { entities, .. })) = &mut message.message {
            for entity in entities {
                entity.document = [b" ".as_slice(), &entity.document].concat().into();
            }
        }
    }
    let nack = refused(messages, None).await;
    assert_eq!(nack.diagnostics.len(), 20, "{:?}", nack.diagnostics);
    assert_eq!(told(&nack.diagnostics)[0], "document-invalid S1@1.0.0 at ");
}

/// The digest shows that something is missing; the findings name it.
#[tokio::test]
async fn findings_name_omitted_snapshot_entities() {
    let needs = json!({
        "name": "Needs", "version": "1.0.0",
        "schema": { "type": "object", "properties": { "a": { "$ref": "#Needed:1.0.0" } } },
    });
    let needs = Arc::new(Document::parse(Kind::Schema, &needs).expect("a schema"));
    let registered = Revision(1);
    let registered_at = Timestamp::from_millis(1);
    let record = |document| Record {
        document,
        owner: "test".into(),
        registered,
        registered_at,
        lifecycle: Lifecycle::active((registered, registered_at)),
    };
    let history = History::new("r", 1);
    let head = history.head();
    let of = |documents: Vec<Arc<Document>>| {
        let records: Vec<_> = documents.into_iter().map(record).collect();
        Catalog::restore(head.registry().clone(), registered, head.chain(), records)
    };
    let whole = snapshot(&of(vec![needs.clone(), schema("Needed", 1)]), 1);
    let mut messages = snapshot(&of(vec![needs]), 1);
    messages.pop();
    messages.push(whole.last().expect("an end").clone());
    let nack = refused(messages, None).await;
    assert!(nack.message.contains("sha256:"), "{}", nack.message);
    let found = told(&nack.diagnostics);
    assert_eq!(found, ["schema-unresolved Needs@1.0.0 at /schema/properties/a/$ref"]);
}
