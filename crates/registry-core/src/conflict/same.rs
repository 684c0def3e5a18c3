//! Registered versions with the same content as a batch's documents, ignoring differences of
//! version in the documents and their references.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;

use super::is_other;
use crate::{
    catalog::Catalog,
    document::{Document, canonical_bytes},
    kind::Kind,
    name::Name,
    reference::Key,
    rewrite::rewritten,
    rules::Proposed,
    version::Version,
};

/// The candidate registered versions of each key of the batch, oldest first.
type Versions<'a> = BTreeMap<&'a Key, Vec<&'a Key>>;

/// The documents to look up.
pub(super) struct Same<'a> {
    catalog: &'a Catalog,
    documents: BTreeMap<&'a Key, &'a Arc<Document>>,
    /// The names whose versions are ignored.
    names: BTreeSet<(Kind, &'a Name)>,
}

impl<'a> Same<'a> {
    /// The documents in conflict and those that refer to them.
    pub(super) fn new(catalog: &'a Catalog, batch: &'a [Proposed]) -> Self {
        let concerned = concerned(catalog, batch);
        let documents = batch.iter().filter_map(Proposed::document);
        let documents = documents.map(|document| (document.key(), document));
        Self {
            catalog,
            documents: documents.filter(|(key, _)| concerned.contains(key)).collect(),
            names: concerned.iter().map(|key| (key.kind, &key.name)).collect(),
        }
    }

    /// Candidate versions with the same content, not lower than the document's own. Their
    /// references point only to other candidates, or to the document's own references.
    pub(super) fn find(&self) -> Versions<'a> {
        let mut found: Versions<'a> =
            self.documents.iter().map(|(key, document)| (*key, self.alike(document))).collect();
        loop {
            let all: BTreeSet<&Key> = found.values().flatten().copied().collect();
            let before = all.len();
            for (key, versions) in &mut found {
                let edges = self.documents[key].edges();
                let stays = |edge: &Key| edges.contains(edge) && !self.documents.contains_key(edge);
                versions.retain(|version| {
                    let record = self.catalog.find(version);
                    let mut edges = record.iter().flat_map(|record| record.document.edges());
                    edges.all(|edge| all.contains(edge) || stays(edge))
                });
            }
            if found.values().map(Vec::len).sum::<usize>() == before {
                return found;
            }
        }
    }

    fn alike(&self, document: &'a Document) -> Vec<&'a Key> {
        let key = document.key();
        let content = self.content(document);
        let versions = self.catalog.versions(key.kind, &key.name);
        let versions = versions.filter(|(other, record)| {
            other.version >= key.version && self.content(&record.document) == content
        });
        versions.map(|(other, _)| other).collect()
    }

    /// The canonical content with the versions of these names removed.
    fn content(&self, document: &Document) -> Vec<u8> {
        let any = |key: &Key| Key::new(key.kind, key.name.clone(), Version::lowest());
        let concerned = document.edges().iter().chain([document.key()]);
        let concerned = concerned.filter(|key| self.names.contains(&(key.kind, &key.name)));
        let renamed = concerned.map(|key| (key.clone(), any(key))).collect();
        let value: Value = rewritten(document, &renamed);
        canonical_bytes(&value)
    }
}

/// The documents in conflict and those that refer to them.
fn concerned<'a>(catalog: &Catalog, batch: &'a [Proposed]) -> BTreeSet<&'a Key> {
    let documents = || batch.iter().filter_map(Proposed::document);
    let conflicts = documents().filter(|document| is_other(catalog, document));
    let mut concerned: BTreeSet<&Key> = conflicts.map(|document| document.key()).collect();
    loop {
        let before = concerned.len();
        for document in documents() {
            if document.edges().iter().any(|key| concerned.contains(key)) {
                concerned.insert(document.key());
            }
        }
        if concerned.len() == before {
            return concerned;
        }
    }
}
