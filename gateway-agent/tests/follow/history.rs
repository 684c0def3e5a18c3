//! A generated history of a registry: commits, and the catalog after each.

use std::{sync::Arc, time::Duration};

use registry_core::{
    Action, Catalog, Change, Commit, Document, Key, Kind, Notice, RegistryId, Revision,
    SealedCommit, Timestamp, chain::Position,
};
use registry_proto::{
    convert::duration,
    v1::{
        Delta, Heartbeat, SnapshotBegin, SnapshotChunk, SnapshotEnd, SyncResponse,
        sync_response::Message,
    },
};
use serde_json::json;

#[derive(Debug, Clone)]
pub(crate) struct History {
    commits: Vec<SealedCommit>,
    catalogs: Vec<Catalog>,
}

/// A schema whose document has about this size.
pub(crate) fn schema(name: &str, bytes: usize) -> Arc<Document> {
    let padding = "x".repeat(bytes);
    let value = json!({
        "name": name,
        "version": "1.0.0",
        "schema": { "type": "object", "title": padding },
    });
    Arc::new(Document::parse(Kind::Schema, &value).expect("a valid schema"))
}

impl History {
    /// A registry with this number of commits. Each registers one schema; every third deprecates
    /// the previous one.
    pub(crate) fn new(registry: &str, revisions: usize) -> Self {
        Self::with_documents(registry, revisions, 10)
    }

    /// The same with documents of about this size.
    pub(crate) fn with_documents(registry: &str, revisions: usize, bytes: usize) -> Self {
        let empty = Catalog::empty(RegistryId::new(registry));
        let mut history = Self { commits: Vec::new(), catalogs: vec![empty] };
        for _ in 0..revisions {
            history.grow(bytes);
        }
        history
    }

    pub(crate) fn grow(&mut self, bytes: usize) {
        let head = self.head();
        let revision = head.revision().next();
        let document = schema(&format!("S{revision}"), bytes);
        let digest = document.digest();
        let mut changes =
            vec![Change { key: document.key().clone(), action: Action::register(digest) }];
        if revision.0.is_multiple_of(3) {
            let key = Key::parse(Kind::Schema, &format!("S{}", revision.0 - 1), "1.0.0");
            changes.push(Change {
                key: key.expect("a key"),
                action: Action::Deprecate(Notice::with_message(Some("old"))),
            });
        }
        let commit = Commit {
            revision,
            author: "test".to_owned(),
            committed_at: Timestamp::from_millis(1_000 * i64::try_from(revision.0).expect("small")),
            changes,
            ..Commit::default()
        };
        let sealed = SealedCommit::seal(&head.chain(), commit, vec![document]).expect("sealed");
        let mut next = head.clone();
        next.apply(&sealed).expect("it follows");
        self.commits.push(sealed);
        self.catalogs.push(next);
    }

    /// The catalog after all commits.
    pub(crate) fn head(&self) -> &Catalog {
        self.catalogs.last().expect("there is always the empty one")
    }

    /// The catalog after this revision.
    pub(crate) fn at(&self, revision: usize) -> &Catalog {
        &self.catalogs[revision]
    }

    /// The commit of this revision.
    pub(crate) fn commit(&self, revision: usize) -> &SealedCommit {
        &self.commits[revision - 1]
    }

    /// The messages of the commits after one revision up to another.
    pub(crate) fn deltas(&self, after: usize, to: usize) -> Vec<SyncResponse> {
        (after + 1..=to).map(|revision| delta(self.commit(revision).into())).collect()
    }

    /// The messages that a follower at this position lacks.
    pub(crate) fn answer(&self, after: Option<Revision>) -> Vec<SyncResponse> {
        let head = self.commits.len();
        let mut messages = match after {
            Some(after) => self.deltas(usize::try_from(after.0).expect("small"), head),
            None => snapshot(self.head(), 2),
        };
        messages.push(progress(self.head()));
        messages
    }
}

pub(crate) fn response(message: Message) -> SyncResponse {
    SyncResponse { message: Some(message), attestation: None }
}

pub(crate) fn delta(delta: Delta) -> SyncResponse {
    response(Message::Delta(delta))
}

/// Progress without new commits.
pub(crate) fn progress(catalog: &Catalog) -> SyncResponse {
    response(Message::Heartbeat(Heartbeat::from(&Position::of_catalog(catalog))))
}

/// Progress of a relay that lost its registry this long ago.
pub(crate) fn old_progress(catalog: &Catalog, age: Duration) -> SyncResponse {
    let staleness = Some(duration(age));
    let progress = Heartbeat { staleness, ..Heartbeat::from(&Position::of_catalog(catalog)) };
    response(Message::Heartbeat(progress))
}

/// The start of a snapshot.
pub(crate) fn begin(catalog: &Catalog) -> SyncResponse {
    let position = Some((&Position::of_catalog(catalog)).into());
    response(Message::SnapshotBegin(SnapshotBegin {
        position,
        entity_count: catalog.len() as u64,
        setting_count: catalog.settings().len() as u64,
        ..SnapshotBegin::default()
    }))
}

/// The end of a snapshot.
pub(crate) fn end(catalog: &Catalog) -> SyncResponse {
    let digest = catalog.digest().to_string();
    response(Message::SnapshotEnd(SnapshotEnd { digest }))
}

/// A snapshot in chunks of this number of entities.
pub(crate) fn snapshot(catalog: &Catalog, chunk: usize) -> Vec<SyncResponse> {
    let entities: Vec<_> = catalog.iter().map(|(_, record)| (&**record).into()).collect();
    let mut messages = vec![begin(catalog)];
    for part in entities.chunks(chunk) {
        let chunk = SnapshotChunk { entities: part.to_vec(), settings: Vec::new() };
        messages.push(response(Message::SnapshotChunk(chunk)));
    }
    messages.push(end(catalog));
    messages
}
