//! Deltas and snapshots: valid ones are accepted, and every changed byte is detected.

use std::sync::Arc;

use bytes::Bytes;
use registry_core::{
    Action, Catalog, ChainHash, Change, Commit, Document, Kind, Record, RegistryId, Revision,
    SealedCommit, Timestamp, chain::Position, commit::InvalidCommit,
};
use serde_json::json;

use super::super::*;
use crate::v1;

fn genesis() -> ChainHash {
    ChainHash::genesis(&RegistryId::new("test"))
}

fn documents() -> Vec<Arc<Document>> {
    let schema = |name: &str| {
        let value = json!({ "name": name, "version": "1.0.0", "schema": { "type": "string" } });
        Arc::new(Document::parse(Kind::Schema, &value).unwrap())
    };
    vec![schema("A"), schema("B")]
}

fn sealed() -> SealedCommit {
    let documents = documents();
    let change = |document: &Arc<Document>| Change {
        key: document.key().clone(),
        action: Action::register(document.digest()),
    };
    let commit = Commit {
        revision: Revision(1),
        author: "team-docs".to_owned(),
        committed_at: Timestamp::from_millis(1_795_300_000_123),
        message: "first".to_owned(),
        changes: documents.iter().map(change).collect(),
        ..Commit::default()
    };
    SealedCommit::seal(&genesis(), commit, documents).unwrap()
}

#[test]
fn valid_delta_is_accepted() {
    let sealed = sealed();
    assert_eq!(sealed_commit(&genesis(), (&sealed).into()).unwrap(), sealed);
}

#[test]
fn delta_is_rejected_after_another_history() {
    let other = ChainHash::genesis(&RegistryId::new("other"));
    let error = sealed_commit(&other, (&sealed()).into()).unwrap_err();
    assert!(
        matches!(error, InvalidDelta::Commit(InvalidCommit::Chain { revision: Revision(1), .. })),
        "{error}"
    );
}

#[test]
fn delta_is_rejected_if_any_byte_changed() {
    let damaged = |bytes: &Bytes, at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1;
        Bytes::from(bytes)
    };
    let delta = v1::Delta::from(&sealed());
    for at in 0..delta.commit.len() {
        let delta = v1::Delta { commit: damaged(&delta.commit, at), ..delta.clone() };
        assert!(sealed_commit(&genesis(), delta).is_err(), "byte {at} of the commit");
    }
    for at in 0..delta.chain.len() {
        let mut chain = delta.chain.clone().into_bytes();
        chain[at] ^= 1;
        let chain = String::from_utf8(chain).unwrap();
        let delta = v1::Delta { chain, ..delta.clone() };
        assert!(sealed_commit(&genesis(), delta).is_err(), "byte {at} of the chain");
    }
    for at in 0..delta.documents[1].len() {
        let mut delta = delta.clone();
        delta.documents[1] = damaged(&delta.documents[1], at);
        let error = sealed_commit(&genesis(), delta).unwrap_err();
        assert!(error.to_string().contains("schema/B@1.0.0"), "{error}");
    }
}

#[test]
fn delta_with_other_documents_is_rejected() {
    let refused = |change: fn(&mut v1::Delta)| {
        let mut delta = v1::Delta::from(&sealed());
        change(&mut delta);
        sealed_commit(&genesis(), delta).unwrap_err().to_string()
    };
    insta::assert_snapshot!(
        refused(|delta| drop(delta.documents.pop())),
        @"revision 1 registers 2 entities and comes with 1 documents"
    );
    insta::assert_snapshot!(
        refused(|delta| delta.documents.push(Bytes::new())),
        @"revision 1 registers 2 entities and comes with 3 documents"
    );
    assert!(refused(|delta| delta.documents.swap(0, 1)).contains("schema/A@1.0.0"));
    insta::assert_snapshot!(
        refused(|delta| delta.revision = 2),
        @"the delta of revision 2 carries the commit of revision 1"
    );
    assert!(refused(|delta| delta.chain.truncate(31)).contains("chain: "));
}

#[test]
fn snapshot_restores_the_catalog() {
    let mut catalog = Catalog::empty(RegistryId::new("test"));
    catalog.apply(&sealed()).unwrap();
    let position =
        Position::try_from(v1::LogPosition::from(&Position::of_catalog(&catalog))).unwrap();
    let records = catalog
        .iter()
        .map(|(_, record)| Record::try_from(v1::SnapshotEntity::from(&**record)).unwrap());
    let restored = Catalog::restore(position.registry, position.revision, position.chain, records);
    assert_eq!(restored.digest(), catalog.digest());
}

#[test]
fn incomplete_snapshot_entity_is_rejected() {
    let mut catalog = Catalog::empty(RegistryId::new("test"));
    catalog.apply(&sealed()).unwrap();
    let (_, record) = catalog.iter().next().unwrap();
    let good = v1::SnapshotEntity::from(&**record);
    let refused = |entity: v1::SnapshotEntity| Record::try_from(entity).unwrap_err().to_string();
    insta::assert_snapshot!(
        refused(v1::SnapshotEntity { kind: 0, ..good.clone() }),
        @"the kind is missing; set it to schema, server, tool, agent or policy"
    );
    let short = v1::SnapshotEntity { digest: "x".to_owned(), ..good.clone() };
    assert!(refused(short).contains("`x`"));
    let empty = v1::SnapshotEntity { document: Bytes::new(), ..good.clone() };
    insta::assert_snapshot!(
        refused(empty),
        @"document digest mismatch: computed \
          sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855, expected \
          sha256:b052742456ae43e4ae9fcb0afb7fee68ae8c0e24b6389a5a32af64a2e720ff14"
    );
    let ageless = v1::SnapshotEntity { lifecycle: None, ..good };
    insta::assert_snapshot!(refused(ageless), @"the lifecycle is missing");
}

#[test]
fn record_requires_its_own_document() {
    let mut catalog = Catalog::empty(RegistryId::new("test"));
    catalog.apply(&sealed()).unwrap();
    let (_, record) = catalog.iter().next().unwrap();
    let bare = v1::EntityRecord::from(&**record);
    let refused = |message: v1::EntityRecord| Record::try_from(message).unwrap_err().to_string();
    insta::assert_snapshot!(
        refused(bare),
        @"the record of schema/A@1.0.0 has no canonical document"
    );
    let other: registry_core::Key = "schema/C@1.0.0".parse().unwrap();
    let other = v1::EntityRecord { key: Some((&other).into()), ..record_with_document(record) };
    insta::assert_snapshot!(
        refused(other),
        @"the record of schema/C@1.0.0 has the document of schema/A@1.0.0"
    );
}
