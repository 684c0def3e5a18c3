//! Size and speed of an index with 100,000 entities; ignored by default, to be run in release with
//! `--nocapture`.

use std::{sync::Arc, time::Instant};

use registry_core::{Action, Catalog, Change, Commit, Document, RegistryId, SealedCommit};
use registry_search::{Index, Query};

use crate::company;

const ENTITIES: usize = 100_000;

/// Copies of the realistic catalog, each with additional words of its own.
fn big_catalog() -> Catalog {
    let few: Vec<Arc<Document>> =
        company::catalog().iter().map(|(_, record)| record.document.clone()).collect();
    let renamed = (0..ENTITIES).map(|i| {
        let document = &few[i % few.len()];
        let mut value: serde_json::Value = serde_json::from_slice(document.bytes()).unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        value["name"] = format!("{}_{i}", text(&value["name"])).into();
        value["description"] =
            format!("{} Of unit{} in plant{}.", text(&value["description"]), i / 400, i % 997)
                .into();
        Arc::new(Document::parse(document.key().kind, &value).unwrap().without_entity())
    });
    let mut catalog = Catalog::empty(RegistryId::new("big"));
    let documents: Vec<_> = renamed.collect();
    let register = |document: &Arc<Document>| Change {
        key: document.key().clone(),
        action: Action::register(document.digest()),
    };
    for documents in documents.chunks(5_000) {
        let changes = documents.iter().map(register).collect();
        let revision = catalog.revision().next();
        let commit = Commit { revision, author: "ada".to_owned(), changes, ..Commit::default() };
        let sealed = SealedCommit::seal(&catalog.chain(), commit, documents.to_vec()).unwrap();
        catalog.apply(&sealed).unwrap();
    }
    catalog
}

/// The resident memory of this process in bytes, according to Linux.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

#[test]
#[ignore = "measures; run in release"]
fn index_of_hundred_thousand_entities() {
    let catalog = big_catalog();
    assert_eq!(catalog.len(), ENTITIES);
    let documents: usize = catalog.iter().map(|(_, r)| r.document.bytes().len()).sum();
    let (before, began) = (resident(), Instant::now());
    let index = Index::build(&catalog);
    let took = began.elapsed();
    let held = resident().saturating_sub(before);
    let (terms, places) = index.size();
    println!(
        "{took:?}; {terms} terms, {places} places; {} bytes an entity in memory, its document has {}",
        held / ENTITIES,
        documents / ENTITIES,
    );
    for text in [
        "create ticket unit17",
        "calender evnt",
        "s",
        "payment",
        "plant12 depoyments",
        "",
        "how do I translate a text into another language",
        "refudn of somethign unkown entireley",
    ] {
        let query = Query { text: text.to_owned(), ..Query::default() };
        let began = Instant::now();
        let found = index.search(&query, None, 20);
        println!("{:?} {:?} `{text}`", began.elapsed(), found.total);
    }
}
