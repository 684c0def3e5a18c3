//! Tests of commits.

use std::sync::Arc;

use serde_json::Value;

use super::{Action, Change, Commit, InvalidCommit, Origin, SealedCommit};
use crate::{
    ChainHash, RegistryId, Revision,
    document::{Digest, Document, canonical_bytes},
    lifecycle::Notice,
    reference::Key,
    rules::{Proposed, testing::server},
    setting::{Setting, SettingChange},
    timestamp::Timestamp,
};

fn document(name: &str) -> Arc<Document> {
    let Proposed::Register(document) = server(name, &[]) else { panic!("not a registration") };
    document
}

fn genesis() -> ChainHash {
    ChainHash::genesis(&RegistryId::new("test"))
}

fn sealed() -> SealedCommit {
    let document = document("s");
    let register = Action::register(document.digest());
    let commit = Commit {
        revision: Revision(1),
        author: "tester".to_owned(),
        committed_at: Timestamp::from_millis(1),
        changes: vec![
            Change { key: document.key().clone(), action: register },
            Change {
                key: document.key().clone(),
                action: Action::Deprecate(Notice::with_message(Some("old"))),
            },
        ],
        ..Commit::default()
    };
    SealedCommit::seal(&genesis(), commit, vec![document]).unwrap()
}

fn verify(
    previous: ChainHash,
    bytes: &[u8],
    documents: Vec<Arc<Document>>,
) -> Result<SealedCommit, InvalidCommit> {
    let bytes = bytes::Bytes::copy_from_slice(bytes);
    SealedCommit::verify(&previous, bytes, sealed().chain(), documents)
}

#[test]
fn commit_canonical_bytes_are_stable() {
    let digest = document("s").digest();
    assert_eq!(
        String::from_utf8_lossy(sealed().bytes()),
        format!(
            "{{\"author\":\"tester\",\"changes\":[{{\"action\":\"register\",\"digest\":\"{digest}\",\
             \"kind\":\"server\",\"name\":\"s\",\"version\":\"1.0.0\"}},{{\"action\":\"deprecate\",\
             \"kind\":\"server\",\"message\":\"old\",\"name\":\"s\",\"version\":\"1.0.0\"}}],\
             \"committedAt\":\"1970-01-01T00:00:00.001Z\",\"revision\":1}}"
        )
    );
}

#[test]
fn sealed_commit_with_all_members_is_canonical() {
    let key: Key = "tool/a@1.0.0".parse().unwrap();
    let document = document("s");
    let change = |action| Change { key: key.clone(), action };
    let register = Action::Register {
        digest: document.digest(),
        owner: Some("\"ann\"".to_owned()),
        broken_policies: vec![key.clone()],
    };
    let notice = Notice {
        message: Some("old\n".to_owned()),
        replacement: Some(key.clone()),
        sunset_date: Some("2026-12-31".parse().unwrap()),
        force_reason: Some("unused".to_owned()),
    };
    let set = |target: &str, setting| SettingChange { target: target.parse().unwrap(), setting };
    let commit = Commit {
        author: "ä".to_owned(),
        changes: vec![
            Change { key: document.key().clone(), action: register },
            change(Action::Deprecate(notice.clone())),
            change(Action::Retire(notice)),
            change(Action::Restore),
        ],
        committed_at: Timestamp::from_millis(1),
        message: "a message".to_owned(),
        origin: Some(Origin {
            address: Some("192.0.2.1".to_owned()),
            method: "certificate".to_owned(),
            team: Some("a team".to_owned()),
        }),
        request_digest: Some(Digest::compute(b"")),
        request_id: Some("a request".to_owned()),
        revision: Revision(7),
        settings: vec![
            set("tool/a", Setting::Archived(true)),
            set("a/*", Setting::Owner("ann".to_owned())),
            set("*", Setting::Compatibility(None)),
        ],
    };
    let sealed = SealedCommit::seal(&genesis(), commit.clone(), vec![document]).unwrap();
    let value: Value = serde_json::from_slice(sealed.bytes()).unwrap();
    let canonical = String::from_utf8(canonical_bytes(&value)).unwrap();
    assert_eq!(String::from_utf8_lossy(sealed.bytes()), canonical);
    assert_eq!(SealedCommit::parse(sealed.bytes()).unwrap(), commit);
}

#[test]
fn verify_accepts_sealed_commit() {
    let sealed = sealed();
    let documents = sealed.documents().to_vec();
    assert_eq!(verify(genesis(), sealed.bytes(), documents).unwrap(), sealed);
}

#[test]
fn verify_rejects_modified_commit() {
    let sealed = sealed();
    let documents = sealed.documents().to_vec();
    let other = ChainHash::genesis(&RegistryId::new("another"));
    let error = verify(other, sealed.bytes(), documents.clone()).unwrap_err();
    assert!(matches!(error, InvalidCommit::Chain { revision: Revision(1), .. }), "{error}");
    for place in 0..sealed.bytes().len() {
        let mut bytes = sealed.bytes().to_vec();
        bytes[place] ^= 1;
        assert!(verify(genesis(), &bytes, documents.clone()).is_err(), "byte {place}");
    }
}

#[test]
fn verify_requires_exactly_registered_documents() {
    let sealed = sealed();
    let check = |documents| verify(genesis(), sealed.bytes(), documents).unwrap_err().to_string();
    let missing = "revision 1 lacks the document of server/s@1.0.0";
    assert_eq!(check(Vec::new()), missing);
    assert_eq!(check(vec![document("t")]), missing);
    insta::assert_snapshot!(
        check(vec![document("s"), document("t")]),
        @"revision 1 has 1 documents that it does not register"
    );
}
