//! Search over gRPC and the command line, on both databases. `crates/registry-search/tests/search`
//! measures the ranking.

use acceptance::{Registry, postgres, root};
use registry_proto::v1;
use serde_json::Value;
use tonic::{Code, Status};

type Request = v1::SearchEntitiesRequest;

async fn try_search(
    registry: &Registry,
    request: Request,
) -> Result<v1::SearchEntitiesResponse, Status> {
    Ok(registry.discovery().await.search_entities(request).await?.into_inner())
}

async fn search(registry: &Registry, request: Request) -> v1::SearchEntitiesResponse {
    try_search(registry, request).await.expect("an answer")
}

async fn found(registry: &Registry, request: Request) -> Vec<String> {
    keys(&search(registry, request).await)
}

fn keys(response: &v1::SearchEntitiesResponse) -> Vec<String> {
    let key = |result: &v1::SearchResult| {
        let key = result.record.clone().unwrap_or_default().key.unwrap_or_default();
        let kind = registry_proto::convert::kind(key.kind).expect("a kind");
        format!("{kind}/{}@{}", key.name, key.version)
    };
    response.results.iter().map(key).collect()
}

fn words(query: &str) -> Request {
    Request { query: query.to_owned(), ..Default::default() }
}

async fn register(registry: &Registry, name: &str, author: &str) {
    let schema = v1::Schema {
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        schema: r#"{"type":"string"}"#.to_owned(),
        ..Default::default()
    };
    let entity = v1::Entity { kind: Some(v1::entity::Kind::Schema(schema)) };
    let change = v1::EntityChange {
        change: Some(v1::entity_change::Change::RegisterEntity(entity)),
        if_digest: None,
    };
    let author = author.to_owned();
    let request = v1::ApplyChangesRequest { changes: vec![change], author, ..Default::default() };
    registry.client().await.apply_changes(request).await.expect("accepted");
}

/// Registers the example, its second version, one schema of another author, and a deprecated
/// entity.
async fn filled(registry: &Registry) {
    registry.apply_example();
    assert_eq!(first(registry, "serch documnts").await, "tool/search_documents@1.0.0");
    registry.apply_file(&root().join("examples/new-version.json"));
    register(registry, "Zeppelin", "ada").await;
    registry.run(&["deprecate", "--yes", "tool/get_webpage@1.0.0", "--message", "use fetch"]);
}

async fn first(registry: &Registry, query: &str) -> String {
    found(registry, words(query)).await.into_iter().next().unwrap_or_default()
}

async fn words_find(registry: &Registry) {
    assert_eq!(first(registry, "search_documents").await, "tool/search_documents@1.1.0");
    assert_eq!(first(registry, "searchDoc").await, "tool/search_documents@1.1.0", "a beginning");
    assert_eq!(first(registry, "serch documnts").await, "tool/search_documents@1.1.0", "typos");
    let schemas = Request { kinds: vec![v1::EntityKind::Schema.into()], ..words("min score") };
    assert_eq!(found(registry, schemas).await[0], "schema/SearchQuery@1.1.0", "a property");
    assert_eq!(first(registry, "how do I look up a fact").await, "agent/research-agent@2.2.0");
    assert_eq!(found(registry, words("qqqqqq")).await, [""; 0]);
    let versions = Request { all_versions: true, ..words("search_documents") };
    let all = found(registry, versions).await;
    assert_eq!(all[..2], ["tool/search_documents@1.1.0", "tool/search_documents@1.0.0"]);
}

async fn results_say_where_they_match(registry: &Registry) {
    let response = search(registry, words("serch documnts")).await;
    let v1::SearchResult { record, score, highlights } = response.results[0].clone();
    assert!(score > 0.0 && record.is_some());
    let name = highlights
        .iter()
        .find(|highlight| highlight.field() == v1::SearchField::Name)
        .expect("its name");
    let marked: Vec<_> =
        name.ranges.iter().map(|r| &name.text[r.start as usize..r.end as usize]).collect();
    assert_eq!(marked, ["search", "documents"]);
    assert!(response.total_count >= response.results.len() as u64);
}

fn selector(kind: v1::EntityKind, name: &str, version: &str) -> v1::EntitySelector {
    v1::EntitySelector { kind: kind.into(), name: name.to_owned(), version: version.to_owned() }
}

async fn filters_leave_out(registry: &Registry) {
    let by = |request: Request| found(registry, request);
    let none = Request::default;
    let agents = Request { kinds: vec![v1::EntityKind::Agent.into()], ..none() };
    let agents = by(agents).await;
    assert_eq!(agents.len(), 5);
    assert!(agents.is_sorted() && agents.contains(&"agent/research-agent@2.2.0".to_owned()));
    assert_eq!(by(Request { owner: "ada".to_owned(), ..none() }).await, ["schema/Zeppelin@1.0.0"]);
    let tags = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect();
    let tagged = by(Request { tags: tags(&["Documents"]), ..none() }).await;
    assert!(tagged.len() > 2 && tagged.is_sorted(), "{tagged:?}");
    let tagged = by(Request { tags: tags(&["Documents", "search"]), ..none() }).await;
    assert_eq!(tagged, ["tool/search_documents@1.1.0"], "both tags");
    let tool = v1::EntityKind::Tool;
    let [old, new] = ["1.2.0", "1.3.0"].map(|v| format!("server/document-service@{v}"));
    for (kind, version, servers) in [
        (v1::EntityKind::Unspecified, "", vec![&new, &old]),
        (tool, "1.1.0", vec![&new]),
        (tool, "1.0.0", vec![&old]),
    ] {
        let provides = Some(selector(kind, "search_documents", version));
        let provides = Request { provides, ..none() };
        assert_eq!(by(provides).await.iter().collect::<Vec<_>>(), servers);
    }
    let depends_on = Some(selector(tool, "fetch", "1.2.3"));
    let users = by(Request { depends_on, ..words("research") }).await;
    assert_eq!(users[0], "agent/research-agent@2.2.0");
    assert!(users.iter().all(|key| !key.starts_with("server/")), "{users:?}");
    let used_by = Some(selector(v1::EntityKind::Agent, "research-agent", "2.2.0"));
    let parts = by(Request { used_by, ..none() }).await;
    assert!(parts.contains(&"tool/search_documents@1.1.0".to_owned()), "{parts:?}");
    assert!(!parts.contains(&"tool/create_task@1.0.0".to_owned()), "{parts:?}");
}

async fn lifecycle_counts(registry: &Registry) {
    let web = found(registry, words("web page")).await;
    let at = |key: &str| web.iter().position(|found| found == key);
    assert!(at("tool/fetch@1.2.3") < at("tool/get_webpage@1.0.0"), "{web:?}");
    let state = |state: v1::LifecycleState| Request {
        lifecycle_states: vec![state.into()],
        ..Default::default()
    };
    let deprecated = found(registry, state(v1::LifecycleState::Deprecated)).await;
    assert_eq!(deprecated, ["tool/get_webpage@1.0.0"]);
    registry.run(&["retire", "--yes", "tool/get_webpage@1.0.0", "--force", "it is gone"]);
    assert!(!found(registry, words("get_webpage")).await.contains(&deprecated[0]));
    assert_eq!(found(registry, state(v1::LifecycleState::Retired)).await, deprecated);
    registry.run(&["restore", "--yes", "tool/get_webpage@1.0.0"]);
    assert_eq!(first(registry, "get_webpage").await, deprecated[0]);
}

/// Pages during concurrent writes have each entity once, and nothing newer than the first page.
async fn pages_stay_what_they_were(registry: &Registry, query: &str) {
    let mut request = Request { page_size: 3, ..words(query) };
    let begin = search(registry, Request { page_size: 100, ..request.clone() }).await;
    let (mut seen, mut written) = (Vec::new(), 0);
    loop {
        let page = search(registry, request.clone()).await;
        assert_eq!((page.revision, page.total_count), (begin.revision, begin.total_count));
        seen.extend(keys(&page));
        register(registry, &format!("AaSearch{}{written}", begin.revision), "bob").await;
        written += 1;
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert!(written > 5, "{written} pages");
    assert_eq!(seen, keys(&begin));
    // After the index of the first page is gone, a query at its revision gives the same result.
    let at = Some(v1::PointInTime { at: Some(v1::point_in_time::At::Revision(begin.revision)) });
    let past = search(registry, Request { page_size: 100, at, ..words(query) }).await;
    assert_eq!((keys(&past), past.revision), (keys(&begin), begin.revision));
}

async fn bad_requests_are_refused(registry: &Registry) {
    let page = search(registry, Request { page_size: 1, ..words("search") }).await;
    let token = page.next_page_token;
    let last = if token.ends_with('0') { "1" } else { "0" };
    let changed = format!("{}{last}", &token[..token.len() - 1]);
    let long = "x ".repeat(600);
    let bad_name = selector(v1::EntityKind::Tool, "a b", "");
    let no_kind = selector(v1::EntityKind::Unspecified, "fetch", "");
    for (field, request) in [
        ("page_token", Request { page_token: changed, ..words("search") }),
        ("page_token", Request { page_token: token, ..words("other") }),
        ("page_token", Request { page_token: "beef".to_owned(), ..words("search") }),
        ("page_size", Request { page_size: -1, ..words("search") }),
        ("query", words(&long)),
        ("tags", Request { tags: vec![String::new(); 17], ..words("search") }),
        ("provides", Request { provides: Some(bad_name), ..words("search") }),
        ("depends_on", Request { depends_on: Some(no_kind), ..words("search") }),
        ("kinds", Request { kinds: vec![99], ..words("search") }),
    ] {
        let refused = try_search(registry, request).await.expect_err(field);
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
        assert!(refused.message().contains(field), "{field}: {}", refused.message());
    }
}

fn the_command_line_shows_it(registry: &Registry) {
    let text = registry.run(&["search", "serch", "documnts"]);
    assert!(text.starts_with("tool   search_documents@1.1.0\n"), "{text}");
    registry.run(&["deprecate", "--yes", "tool/get_webpage@1.0.0", "--message", "use fetch"]);
    let text = registry.run(&["search", "get_webpage"]);
    assert!(text.contains("get_webpage@1.0.0  [deprecated: "), "{text}");
    assert_eq!(registry.json(&["search", "qqqqqq"])["total"], 0);
    let text = registry.run(&["search", "--kind", "agent", "-n", "2"]);
    assert!(text.contains("2 of 5 "), "{text}");
    let json = registry.run(&["search", "fetch", "--kind", "tool", "--output", "json"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (&json["results"][0]["name"], &json["totalIsAtLeast"]),
        (&"fetch".into(), &false.into())
    );
    assert_eq!(json["results"][0]["highlights"][0]["ranges"][0], serde_json::json!([0, 5]));
    let then = registry.run(&["search", "search_documents", "--at", "1"]);
    assert!(then.starts_with("tool   search_documents@1.0.0\n"), "{then}");
    assert_eq!(registry.ctl(&["search", "x", "--depends-on", "fetch"]).code, 2);
}

async fn all_of_it(registry: &Registry) {
    filled(registry).await;
    words_find(registry).await;
    results_say_where_they_match(registry).await;
    filters_leave_out(registry).await;
    lifecycle_counts(registry).await;
    pages_stay_what_they_were(registry, "search a tool").await;
    pages_stay_what_they_were(registry, "").await;
    bad_requests_are_refused(registry).await;
    the_command_line_shows_it(registry);
}

#[tokio::test]
async fn search_works_on_sqlite() {
    let mut registry = Registry::start();
    all_of_it(&registry).await;
    registry.process.stop();
    registry.restart();
    assert_eq!(first(&registry, "zeppelins").await, "schema/Zeppelin@1.0.0", "after a restart");
}

#[tokio::test]
async fn search_works_on_postgres() {
    let database = postgres::database().await;
    let registry = Registry::start_on(database.url());
    all_of_it(&registry).await;
    let other = Registry::start_on(database.url());
    assert_eq!(first(&other, "zeppelins").await, "schema/Zeppelin@1.0.0", "at another server");
}
