//! Tests of the document server without a transport.

use serde_json::{Value, json};
use time::macros::datetime;

use super::*;

fn server() -> Documents {
    Documents::new(Clock::Fixed(datetime!(2026-04-01 10:00 UTC)))
}

fn create(server: &Documents, arguments: Value) -> Result<Document, ToolError> {
    let new = serde_json::from_value(arguments).unwrap();
    server.create_document(Parameters(new)).map(|document| document.0)
}

fn search(server: &Documents, arguments: Value) -> Result<Vec<String>, ToolError> {
    let request = serde_json::from_value(arguments).unwrap();
    let found = server.search_documents(Parameters(request))?.0;
    Ok(found.results.into_iter().map(|hit| hit.id).collect())
}

#[test]
fn created_document_is_read_listed_and_found() {
    let server = server();
    let made = create(&server, json!({ "title": "Zebra", "content": "stripes" })).unwrap();
    assert_eq!((made.id.as_str(), made.created_at.as_str()), ("doc-6", "2026-04-01T10:00:00Z"));

    let id = DocumentId { id: made.id.clone() };
    let read = server.get_document(Parameters(id)).map(|document| document.0.content);
    assert_eq!(read.unwrap(), "stripes");

    let window = Window { limit: 1, offset: 5 };
    let list = server.list_documents(Parameters(window)).map(|list| list.0).unwrap();
    assert_eq!((list.documents[0].id.as_str(), list.totals.total_count), ("doc-6", 6));

    assert_eq!(search(&server, json!({ "query": "stripes" })).unwrap(), ["doc-6"]);
}

#[test]
fn chunks_follow_size_and_overlap() {
    let content = "x".repeat(1000);
    assert_eq!(chunk_count(&content, 512, 50), Ok(3));
    assert_eq!(chunk_count(&content, 1000, 0), Ok(1));
    assert_eq!(chunk_count("", 512, 50), Ok(1));
    assert!(chunk_count(&content, 50, 50).is_err());
}

#[test]
fn document_without_title_or_valid_chunks_is_rejected() {
    let server = server();
    assert!(create(&server, json!({ "title": " ", "content": "" })).is_err());
    let chunks = json!({ "title": "t", "content": "", "chunkSize": 10, "chunkOverlap": 10 });
    assert!(create(&server, chunks).is_err());
}

#[test]
fn filters_narrow_the_search() {
    let server = server();
    let with = |filters: Value| search(&server, json!({ "query": "the", "filters": filters }));
    assert_eq!(with(json!({ "tags": ["saga"] })).unwrap(), ["doc-3"]);
    assert_eq!(with(json!({ "author": "Dana Ruiz" })).unwrap(), ["doc-4"]);
    let january = json!({ "dateRange": { "start": "2026-01-06", "end": "2026-01-31" } });
    assert_eq!(with(january).unwrap(), ["doc-2"]);
    assert!(with(json!({ "dateRange": { "start": "January" } })).is_err());
}

#[test]
fn minimum_score_excludes_weak_hits() {
    let server = server();
    let all = search(&server, json!({ "query": "registry" })).unwrap();
    assert_eq!(all, ["doc-1", "doc-2"]);
    let strong = search(&server, json!({ "query": "registry", "minScore": 0.9 })).unwrap();
    assert_eq!(strong, ["doc-1"]);
}

#[test]
fn unknown_document_is_rejected() {
    let id = DocumentId { id: "doc-99".into() };
    let error = server().get_document(Parameters(id)).err().unwrap();
    assert_eq!(error.code, "not_found");
}
