//! Dependencies, impact and version resolution, on SQLite and Postgres.

use std::collections::{BTreeMap, BTreeSet};

use acceptance::{Registry, postgres, root};
use registry_proto::v1::{self, analyze_impact_request::Plan, resolution::Outcome};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

const QUERY: &str = "schema/SearchQuery@1.0.0";
const BOSS: &str = "agent/orchestrator-agent@1.0.0";

fn key(text: &str) -> v1::EntityKey {
    let key: registry_core::Key = text.parse().expect("a key");
    (&key).into()
}

fn texts(nodes: &[v1::GraphNode]) -> Vec<String> {
    let text = |node: &v1::GraphNode| {
        let key = node.key.clone().expect("a key");
        registry_core::Key::try_from(key).expect("a key").to_string()
    };
    nodes.iter().map(text).collect()
}

/// The same queries for both databases.
async fn answers(registry: &Registry) {
    registry.apply_example();
    registry.apply_file(&root().join("examples/new-version.json"));
    let mut client = registry.graph().await;
    let request = v1::GetDependentsRequest { keys: vec![key(QUERY)], ..Default::default() };
    let answer = client.get_dependents(request).await.expect("an answer").into_inner();
    let graph = answer.graph.expect("a graph");
    assert_eq!((graph.total_count, graph.truncated, answer.revision), (8, false, 2));
    assert_eq!(texts(&graph.nodes)[0], QUERY);
    let depths: Vec<_> = graph.nodes.iter().map(|node| node.depth).collect();
    assert_eq!(depths, [0, 1, 1, 2, 2, 2, 3, 3]);
    let why = v1::ExplainDependencyRequest {
        dependent: Some(key(BOSS)),
        dependency: Some(key(QUERY)),
        max_paths: 1,
        ..Default::default()
    };
    let why = client.explain_dependency(why).await.expect("an answer").into_inner();
    assert_eq!((why.total_count, why.truncated, why.paths.len()), (2, true, 1));
    assert_eq!(
        texts(&why.paths[0].nodes),
        [BOSS, "agent/research-agent@2.1.0", "tool/search_documents@1.0.0", QUERY]
    );
    let retired = Plan::LifecycleState(v1::LifecycleState::Retired.into());
    let impact = v1::AnalyzeImpactRequest {
        key: Some(key(QUERY)),
        plan: Some(retired),
        max_affected: 2,
        ..Default::default()
    };
    let impact = client.analyze_impact(impact).await.expect("an answer").into_inner();
    assert_eq!((impact.total_count, impact.breaking_count, impact.truncated), (7, 7, true));
    assert_eq!(impact.affected.len(), 2);
    assert_eq!(registry.revision().await, 2, "nothing was changed");
}

#[tokio::test]
async fn graph_queries_work_on_sqlite() {
    answers(&Registry::start()).await;
}

#[tokio::test]
async fn graph_queries_work_on_postgres() {
    let database = postgres::database().await;
    answers(&Registry::start_on(database.url())).await;
}

#[tokio::test]
async fn constraints_are_resolved_at_one_revision() {
    let registry = Registry::start();
    registry.apply_example();
    registry.apply_file(&root().join("examples/new-version.json"));
    assert!(registry.ctl(&["deprecate", "--yes", "schema/SearchQuery@1.1.0"]).success());
    let mut client = registry.graph().await;
    let ask = |constraint: &str, name: &str| v1::VersionRequirement {
        kind: v1::EntityKind::Schema.into(),
        name: name.to_owned(),
        constraint: constraint.to_owned(),
    };
    let requirements = vec![
        ask("^1", "SearchQuery"),
        ask("~1.1", "SearchQuery"),
        ask("^2", "SearchQuery"),
        ask("", "Nobody"),
    ];
    let request = v1::ResolveVersionsRequest {
        requirements,
        return_partial_success: true,
        ..Default::default()
    };
    let answer = client.resolve_versions(request.clone()).await.expect("an answer").into_inner();
    assert_eq!(answer.revision, 3);
    let outcomes: Vec<_> = answer.resolutions.into_iter().filter_map(|r| r.outcome).collect();
    let [Outcome::Resolved(active), Outcome::Resolved(old), none, missing] = outcomes.as_slice()
    else {
        panic!("{outcomes:?}")
    };
    assert_eq!(active.key, Some(key("schema/SearchQuery@1.0.0")));
    assert_eq!(old.key, Some(key("schema/SearchQuery@1.1.0")));
    let state = old.lifecycle.as_ref().map(|lifecycle| lifecycle.state);
    assert_eq!(state, Some(v1::LifecycleState::Deprecated.into()));
    let Outcome::Unresolved(none) = none else { panic!("{none:?}") };
    assert_eq!(none.candidates.len(), 2);
    assert!(matches!(missing, Outcome::Unresolved(missing) if missing.total_count == 0));
    let refused = client
        .resolve_versions(v1::ResolveVersionsRequest { return_partial_success: false, ..request })
        .await;
    let refused = refused.expect_err("two are not met");
    assert_eq!(refused.code(), Code::NotFound);
    let info = refused.get_details_error_info().expect("details");
    assert_eq!((info.reason.as_str(), info.metadata["unresolved"].as_str()), ("UNRESOLVED", "2"));
}

/// Asserts the reason of an error, and that it names a field or value.
fn assert_rejected(status: &Status, reason: &str, named: &str) {
    assert_eq!(status.get_details_error_info().expect("an ErrorInfo").reason, reason);
    assert!(status.message().contains(named), "{status:?}");
}

#[tokio::test]
async fn invalid_graph_queries_are_rejected() {
    let registry = Registry::start();
    registry.apply_example();
    let mut client = registry.graph().await;
    let dependencies = |keys: Vec<v1::EntityKey>, max_nodes| {
        let mut client = client.clone();
        async move {
            let request = v1::GetDependenciesRequest { keys, max_nodes, ..Default::default() };
            client.get_dependencies(request).await.expect_err("it is bad")
        }
    };
    let refused = dependencies(Vec::new(), 0).await;
    assert_rejected(&refused, "INVALID_REQUEST", "keys");
    let refused = dependencies(vec![key(BOSS)], -1).await;
    assert_rejected(&refused, "INVALID_REQUEST", "max_nodes");
    let refused = dependencies(vec![key(BOSS); 1_001], 0).await;
    assert_rejected(&refused, "LIMIT_EXCEEDED", "keys");
    let refused = dependencies(vec![key("tool/nobody@1.0.0")], 0).await;
    assert_eq!(refused.code(), Code::NotFound);
    let requirement = v1::VersionRequirement {
        kind: v1::EntityKind::Tool.into(),
        name: "fetch".to_owned(),
        constraint: "newest".to_owned(),
    };
    let request = v1::ResolveVersionsRequest {
        requirements: vec![requirement],
        return_partial_success: true,
        ..Default::default()
    };
    let refused = client.resolve_versions(request).await.expect_err("no constraint");
    assert_rejected(&refused, "INVALID_REQUEST", "`newest`");
    let plan = Plan::LifecycleState(v1::LifecycleState::Active.into());
    let request =
        v1::AnalyzeImpactRequest { key: Some(key(BOSS)), plan: Some(plan), ..Default::default() };
    let refused = client.analyze_impact(request).await.expect_err("no plan");
    assert!(refused.message().contains("lifecycle_state: "), "{refused:?}");
    let plan = Plan::Entity(v1::Entity { kind: None });
    let request =
        v1::AnalyzeImpactRequest { key: Some(key(BOSS)), plan: Some(plan), ..Default::default() };
    assert_eq!(
        client.analyze_impact(request).await.expect_err("empty").code(),
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn impact_of_ten_thousand_dependents_is_bounded() {
    const MANY: usize = 10_000;
    let registry = Registry::start();
    let mut client = registry.client().await;
    let register = |kind| v1::EntityChange {
        change: Some(v1::entity_change::Change::RegisterEntity(v1::Entity { kind: Some(kind) })),
        if_digest: None,
    };
    let schema = register(v1::entity::Kind::Schema(v1::Schema {
        name: "Shared".to_owned(),
        version: "1.0.0".to_owned(),
        schema: r#"{"type":"object"}"#.to_owned(),
        ..Default::default()
    }));
    let user = |i: usize| {
        register(v1::entity::Kind::Schema(v1::Schema {
            name: format!("User{i}"),
            version: "1.0.0".to_owned(),
            schema: r##"{"items":{"$ref":"#Shared:1.0.0"}}"##.to_owned(),
            ..Default::default()
        }))
    };
    let mut changes = vec![schema];
    for i in 0..MANY {
        changes.push(user(i));
        if changes.len() == 5_000 || i + 1 == MANY {
            let changes = std::mem::take(&mut changes);
            let request = v1::ApplyChangesRequest { changes, ..Default::default() };
            client.apply_changes(request).await.expect("accepted");
        }
    }
    let shared = "schema/Shared@1.0.0";
    let mut graph = registry.graph().await;
    let request = v1::GetDependentsRequest { keys: vec![key(shared)], ..Default::default() };
    let answer = graph.get_dependents(request).await.expect("an answer").into_inner();
    let found = answer.graph.expect("a graph");
    assert_eq!((found.nodes.len(), found.total_count, found.truncated), (1_000, 10_001, true));
    assert_eq!(found.edges.len(), 999);
    let impact = registry.ctl(&["impact", shared, "--limit", "5", "--output", "json"]);
    assert_eq!(impact.code, 1, "{impact:?}");
    let impact: serde_json::Value = serde_json::from_str(&impact.stdout).expect("JSON");
    assert_eq!((&impact["total"], &impact["truncated"]), (&MANY.into(), &true.into()));
    assert_eq!(impact["affected"].as_array().map(Vec::len), Some(5));
}

fn shown(registry: &Registry, arguments: &[&str], code: i32) -> String {
    let output = registry.ctl(arguments);
    assert_eq!(output.code, code, "{arguments:?}: {output:?}");
    output.stdout
}

#[test]
fn command_line_prints_trees_paths_and_tables() {
    let registry = Registry::start();
    registry.apply_example();
    assert!(registry.ctl(&["deprecate", "--yes", "agent/research-agent@2.1.0"]).success());
    insta::assert_snapshot!("tree", shown(&registry, &["tree", BOSS], 0));
    let dependents = ["tree", QUERY, "--dependents", "--depth", "2"];
    insta::assert_snapshot!("tree-dependents", shown(&registry, &dependents, 0));
    assert_eq!(shown(&registry, &["tree", BOSS, "--depth", "0"], 0), format!("{BOSS}\n"));
    insta::assert_snapshot!("why", shown(&registry, &["why", BOSS, QUERY], 0));
    assert_eq!(shown(&registry, &["why", QUERY, BOSS], 1), "");
    insta::assert_snapshot!("impact", shown(&registry, &["impact", QUERY], 1));
    assert!(shown(&registry, &["impact", QUERY, "--deprecate"], 0).contains("0 of 7"));
    let missing = registry.ctl(&["tree", "tool/missing@1.0.0"]);
    assert_eq!(missing.code, 1, "{missing:?}");
}

/// The edges of a Graphviz graph.
fn lines(drawn: &str) -> BTreeSet<(&str, &str)> {
    let labels: BTreeMap<&str, &str> = drawn
        .lines()
        .filter_map(|line| line.trim().split_once(" [label=\""))
        .filter_map(|(node, rest)| Some((node, rest.split_once('"')?.0)))
        .collect();
    let arrows =
        drawn.lines().filter_map(|line| line.trim().trim_end_matches(';').split_once(" -> "));
    arrows.map(|(from, to)| (labels[from], labels[to])).collect()
}

#[test]
fn graphs_are_drawn_in_three_formats() {
    let registry = Registry::start();
    registry.apply_example();
    for output in ["dot", "mermaid", "svg"] {
        let drawn = shown(&registry, &["why", BOSS, QUERY, "--output", output], 0);
        insta::assert_snapshot!(format!("why-{output}"), drawn);
        let again = shown(&registry, &["why", BOSS, QUERY, "--output", output], 0);
        assert_eq!(drawn, again, "the same graph is drawn the same");
        shown(&registry, &["tree", BOSS, "--output", output], 0);
        let impact = shown(&registry, &["impact", QUERY, "--output", output], 1);
        let below = shown(&registry, &["tree", QUERY, "--dependents", "--output", output], 0);
        if output == "dot" {
            assert_eq!(
                lines(&impact),
                lines(&below),
                "every dependency among those that are shown is drawn"
            );
        }
        shown(&registry, &["list", "--output", output], 2);
    }
}

#[test]
fn impact_picture_shows_lifecycles_and_truncation() {
    let registry = Registry::start();
    registry.apply_example();
    assert!(registry.ctl(&["deprecate", "--yes", QUERY, "--message", "r"]).success());
    let drawn = shown(&registry, &["impact", QUERY, "--output", "dot"], 1);
    assert!(drawn.contains(&format!("\"{QUERY} (deprecated)\"")), "{drawn}");
    for output in ["dot", "mermaid", "svg"] {
        let cut = registry.ctl(&["impact", QUERY, "--limit", "1", "--output", output]);
        insta::assert_snapshot!("truncated-impact", cut.stderr);
    }
}

#[test]
fn excess_mermaid_edges_are_noted() {
    let registry = Registry::start();
    let schema = |name: String, schema: serde_json::Value| serde_json::json!({ "name": name, "version": "1.0.0", "schema": schema });
    let user = |i: usize| schema(format!("U{i}"), serde_json::json!({ "$ref": "#Q:1.0.0" }));
    let mut schemas: Vec<_> = (0..501).map(user).collect();
    schemas.push(schema("Q".to_owned(), serde_json::json!(true)));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("many.json");
    let text = serde_json::json!({ "schemaVersion": "2.0", "schemas": schemas }).to_string();
    std::fs::write(&file, text).unwrap();
    registry.apply_file(&file);
    let tree = ["tree", "schema/Q@1.0.0", "--dependents", "--limit", "1000", "--output"];
    for (output, is_said) in [("mermaid", true), ("svg", false)] {
        let drawn = registry.ctl(&[&tree[..], &[output]].concat());
        assert!(drawn.success(), "{drawn:?}");
        if is_said {
            insta::assert_snapshot!("large-mermaid", drawn.stderr);
        } else {
            assert_eq!(drawn.stderr, "");
        }
    }
}

#[test]
fn planned_version_is_checked_against_dependents() {
    let registry = Registry::start();
    registry.apply_example();
    let file = root().join("examples/new-version.json");
    let change = ["--change", file.to_str().expect("UTF-8"), "--output", "json"];
    let search = ["impact", "tool/search_documents@1.0.0"];
    let before = registry.ctl(&[&search[..], &change].concat()).json();
    assert_eq!(before["findings"], serde_json::json!([]), "its server is in the file: {before}");
    registry.apply_file(&file);
    let after =
        registry.ctl(&[&search[..], &["--to", "1.1.0", "--output", "json"]].concat()).json();
    for member in ["comparison", "total", "breaking", "undecided"] {
        assert_eq!(before[member], after[member], "{member}");
    }
    let tried = registry.json(&["impact", QUERY, "--to", "1.1.0"]);
    assert_eq!((&tried["breaking"], &tried["total"]), (&0.into(), &7.into()), "{tried}");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("server.yaml");
    let text = "schemaVersion: '2.0'\nservers:\n  - { name: document-service, version: 2.0.0, provides: [] }\n";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let server = "server/document-service@1.2.0";
    let broken = registry.ctl(&["impact", server, "--change", file]);
    assert_eq!(broken.code, 1, "{broken:?}");
    assert!(broken.stderr.contains("error[source-not-provided]"), "{broken:?}");
    let other = registry.ctl(&["impact", "server/fetch-server@1.0.0", "--change", file]);
    assert_eq!(other.code, 2, "the file has no such server: {other:?}");
    let resolved = shown(&registry, &["resolve", "schema/SearchQuery@^1", "tool/fetch"], 0);
    assert!(resolved.contains("1.1.0") && resolved.contains("1.2.3"), "{resolved}");
    assert_eq!(registry.ctl(&["resolve", "tool/fetch@^9"]).code, 1);
    assert_eq!(registry.ctl(&["resolve", "tool/fetch@^"]).code, 2);
}

/// The schema `In` accepts texts. One tool uses it for its arguments, and an agent calls that tool.
const USERS: &str = r##"{ "schemaVersion": "2.0",
  "schemas": [{ "name": "In", "version": "1.0.0",
    "schema": { "type": "object", "properties": { "a": { "type": "string" } } } }],
  "servers": [{ "name": "s", "version": "1.0.0",
    "provides": [{ "tool": "taker", "version": "1.0.0" }] }],
  "tools": [{ "name": "taker", "version": "1.0.0",
    "source": { "server": "s", "serverVersion": "1.0.0", "tool": "taker" },
    "inputSchema": { "$ref": "#In:1.0.0" } }],
  "agents": [{ "name": "caller", "version": "1.0.0", "description": "d", "url": "u",
    "protocolVersion": "0.3", "defaultInputModes": [], "defaultOutputModes": [], "skills": [],
    "capabilities": { "extensions": [{ "uri": "urn:agentgateway:sbom", "params": { "depends": [
      { "type": "tool", "name": "taker", "version": "1.0.0" } ] } }] } }] }"##;

fn what_a_schema_breaks_is_shown_with_a_value(registry: &Registry) {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    registry.apply_file(&write("users.json", USERS));
    let version = |version: &str, a: &str| {
        let text = format!(
            r#"{{ "schemaVersion": "2.0", "schemas": [{{ "name": "In", "version": "{version}",
                "schema": {{ "type": "object", "properties": {{ "a": {a} }} }} }}] }}"#
        );
        write(&format!("{version}.json"), &text)
    };
    let wider = version("1.1.0", r#"{ "type": ["string", "null"] }"#);
    registry.apply_file(&wider);
    let fits = registry.json(&["impact", "schema/In@1.0.0", "--to", "1.1.0"]);
    assert_eq!(fits["comparison"]["outcome"], "compatible", "{fits}");
    assert_eq!((&fits["breaking"], &fits["total"]), (&0.into(), &2.into()), "{fits}");
    let unknown = version("3.0.0", r#"{ "type": "string", "pattern": "^|x" }"#);
    let unknown = unknown.to_str().expect("UTF-8");
    let told = registry.json(&["impact", "schema/In@1.0.0", "--change", unknown]);
    assert_eq!(told["comparison"]["outcome"], "undecided", "{told}");
    assert_eq!((&told["breaking"], &told["undecided"]), (&0.into(), &2.into()), "{told}");
    let other = version("2.0.0", r#"{ "type": "integer" }"#);
    let other = other.to_str().expect("UTF-8");
    let broken = ["impact", "schema/In@1.0.0", "--change", other, "--output", "json"];
    let broken: serde_json::Value =
        serde_json::from_str(&shown(registry, &broken, 1)).expect("JSON");
    assert_eq!((&broken["breaking"], &broken["total"]), (&2.into(), &2.into()));
    let comparison = &broken["comparison"];
    assert_eq!(comparison["outcome"], "breaking");
    assert_eq!(comparison["differences"][0]["keyword"], "type");
    assert_eq!(comparison["differences"][0]["pointer"], "/schema/properties/a/type");
    assert!(comparison["differences"][0]["instance"]["a"].is_string(), "{comparison}");
    assert_eq!(broken["affected"][0]["findings"][0]["code"], "breaking-change");
    let table = shown(registry, &["impact", "schema/In@1.0.0", "--change", other], 1);
    assert!(table.contains("`type`") && table.contains("{\"a\":"), "{table}");
}

#[test]
fn broken_dependents_have_counterexample_on_sqlite() {
    what_a_schema_breaks_is_shown_with_a_value(&Registry::start());
}

#[tokio::test]
async fn broken_dependents_have_counterexample_on_postgres() {
    let database = postgres::database().await;
    what_a_schema_breaks_is_shown_with_a_value(&Registry::start_on(database.url()));
}
