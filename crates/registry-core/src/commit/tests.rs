//! Tests of commits.

use std::sync::Arc;

use super::{Action, Change, Commit, InvalidCommit, SealedCommit};
use crate::{
    ChainHash, RegistryId, Revision,
    document::Document,
    lifecycle::Notice,
    rules::{Proposed, testing::server},
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
