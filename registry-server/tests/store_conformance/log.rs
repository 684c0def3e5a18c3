//! Creates sealed commits with the catalog that they produce.

use std::sync::Arc;

use registry_core::{
    Action, Catalog, Change, Commit, Document, Key, Kind, Notice, Origin, SealedCommit, Timestamp,
};
use registry_server::store::Store;
use serde_json::json;

/// A log in memory.
#[derive(Clone)]
pub(crate) struct Log {
    pub(crate) catalog: Catalog,
    pub(crate) commits: Vec<SealedCommit>,
}

/// Content of a commit.
#[derive(Clone)]
pub(crate) struct Draft {
    pub(crate) author: String,
    pub(crate) message: String,
    pub(crate) request_id: Option<String>,
    later_millis: i64,
    origin: Option<Origin>,
    changes: Vec<(Change, Option<Arc<Document>>)>,
}

impl Log {
    pub(crate) fn new(store: &Store) -> Self {
        Self { catalog: Catalog::empty(store.registry().clone()), commits: Vec::new() }
    }

    /// Seals the next commit and applies it.
    pub(crate) fn commit(&mut self, draft: Draft) -> SealedCommit {
        let sealed = self.seal(draft);
        self.catalog.apply(&sealed).unwrap();
        self.commits.push(sealed.clone());
        sealed
    }

    /// Seals the next commit without applying it.
    pub(crate) fn seal(&self, draft: Draft) -> SealedCommit {
        let revision = self.catalog.revision().next();
        let (changes, documents): (Vec<_>, Vec<_>) = draft.changes.into_iter().unzip();
        let commit = Commit {
            revision,
            author: draft.author,
            committed_at: Timestamp::from_millis(
                1_795_300_000_123 + i64::try_from(revision.0).unwrap() + draft.later_millis,
            ),
            message: draft.message,
            request_id: draft.request_id,
            origin: draft.origin,
            changes,
            ..Commit::default()
        };
        let documents = documents.into_iter().flatten().collect();
        SealedCommit::seal(&self.catalog.chain(), commit, documents).unwrap()
    }

    /// Seals the next commit, applies it and appends it.
    pub(crate) async fn append(&mut self, store: &Store, draft: Draft) -> SealedCommit {
        let expected = self.catalog.revision();
        let sealed = self.commit(draft);
        store.append(expected, std::slice::from_ref(&sealed)).await.unwrap();
        sealed
    }
}

impl Draft {
    pub(crate) fn new() -> Self {
        Self {
            author: "ann".to_owned(),
            message: "because – “why” not?\n\tü".to_owned(),
            request_id: None,
            later_millis: 0,
            origin: None,
            changes: Vec::new(),
        }
    }

    pub(crate) fn by(mut self, author: &str) -> Self {
        author.clone_into(&mut self.author);
        self
    }

    pub(crate) fn request(mut self, id: &str) -> Self {
        self.request_id = Some(id.to_owned());
        self
    }

    /// Delays the time of the commit.
    pub(crate) fn later(mut self, millis: i64) -> Self {
        self.later_millis = millis;
        self
    }

    /// Records this address in the commit.
    pub(crate) fn from(mut self, address: &str) -> Self {
        let (method, address) = ("certificate".to_owned(), Some(address.to_owned()));
        self.origin = Some(Origin { method, team: None, address });
        self
    }

    pub(crate) fn register(mut self, name: &str, version: &str) -> Self {
        let document = schema(name, version);
        let action = Action::register(document.digest());
        self.changes.push((Change { key: key(name, version), action }, Some(document)));
        self
    }

    pub(crate) fn register_policy(mut self) -> Self {
        let value = json!({ "name": "P", "version": "1.0.0" });
        let document = Arc::new(Document::parse(Kind::Policy, &value).unwrap());
        let action = Action::register(document.digest());
        let key = document.key().clone();
        self.changes.push((Change { key, action }, Some(document)));
        self
    }

    pub(crate) fn deprecate(self, name: &str, version: &str, reason: &str) -> Self {
        self.change(name, version, Action::Deprecate(Notice::with_message(Some(reason))))
    }

    pub(crate) fn retire(self, name: &str, version: &str) -> Self {
        self.change(name, version, Action::Retire(Notice::default()))
    }

    pub(crate) fn restore(self, name: &str, version: &str) -> Self {
        self.change(name, version, Action::Restore)
    }

    fn change(mut self, name: &str, version: &str, action: Action) -> Self {
        self.changes.push((Change { key: key(name, version), action }, None));
        self
    }
}

pub(crate) fn key(name: &str, version: &str) -> Key {
    Key::parse(Kind::Schema, name, version).unwrap()
}

/// A schema with text and numbers that an inexact store would change.
fn schema(name: &str, version: &str) -> Arc<Document> {
    let value = json!({
        "name": name,
        "version": version,
        "description": "größer als \u{1F600}, with \"quotes\", \\ and \u{0000}",
        "schema": {
            "type": "object",
            "properties": { "b": { "maximum": 2.5e-7 }, "a": { "minimum": 0.1 } },
            "required": ["b"]
        }
    });
    Arc::new(Document::parse(Kind::Schema, &value).unwrap())
}
