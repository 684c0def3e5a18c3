//! `registryctl import registry`: the file of the field, and files of version 1.

use acceptance::{Backend, Gateway, GatewayOptions, ModernClient, Registry, ctl, eventually};
use serde_json::{Value, json};

const FIELD: &str = "registry-core/tests/data/field-example.json";

#[test]
fn the_field_s_own_file_is_repaired_registered_and_read_back() {
    let registry = Registry::start();
    let refused = registry.ctl(&["apply", "-f", FIELD, "--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    let done = registry.ctl(&["import", "registry", FIELD, "--apply", "--yes"]);
    assert!(done.success(), "{done:?}");
    assert!(done.stderr.contains("5 repaired, 0 to look at"), "{done:?}");
    assert!(done.stderr.contains("the tool get_user@1.0.0 is not in the file"), "{done:?}");
    let got = registry.ctl(&["get", "tool/get_user@1.0.0", "--document"]).stdout;
    let got: Value = serde_json::from_str(&got).expect("a document");
    assert_eq!(got["source"]["server"], "user-service");
    assert!(registry.ctl(&["get", "agent/research-agent@2.1.0"]).success());
}

#[test]
fn version_1_is_written_for_review_and_then_valid() {
    let dir = tempfile::tempdir().expect("a directory");
    let (old, new) = (dir.path().join("old.yaml"), dir.path().join("new.json"));
    let text = "tools:\n  - $comment: '=== search ==='\n  - name: search\n    source: { target: backend, tool: find }\n";
    std::fs::write(&old, text).expect("written");
    let (old, new) = (old.to_str().expect("UTF-8"), new.to_str().expect("UTF-8"));
    let nowhere = "http://127.0.0.1:1";
    let done = ctl(nowhere, &["import", "registry", old, "--out", new, "--managed-by", "git/x"]);
    assert!(done.success() && done.stdout.contains("written: "), "{done:?}");
    assert!(done.stderr.contains("`target` is written `server`"), "{done:?}");
    let valid = ctl(nowhere, &["validate", "-f", new]);
    assert!(valid.success() && valid.stdout.contains("3 register"), "{valid:?}");
    let written: Value =
        serde_json::from_slice(&std::fs::read(new).expect("a file")).expect("JSON");
    assert_eq!(written["tools"][0]["metadata"]["managedBy"], "git/x");
    let scripted = ctl(nowhere, &["import", "registry", old, "--output", "json"]).stdout;
    let scripted: Value = serde_json::from_str(&scripted).expect("JSON");
    assert_eq!(scripted["repairs"][0]["by"], "import");
    assert_eq!(scripted["file"]["schemaVersion"], "2.0");
}

#[test]
fn every_repair_of_a_big_file_is_listed_and_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.json");
    let tools: Vec<_> =
        (0..400).map(|i| json!({ "name": format!("t{i}"), "source": "s" })).collect();
    std::fs::write(&path, json!({ "tools": tools }).to_string()).expect("written");
    let args = ["import", "registry", path.to_str().expect("UTF-8"), "--output", "json"];
    let [scripted, shown] = [&args[..], &args[..3]].map(|args| ctl("http://127.0.0.1:1", args));
    let scripted: Value = serde_json::from_str(&scripted.stdout).expect("JSON");
    let count = scripted["repairs"].as_array().expect("a list").len();
    assert!(count > 1_200, "{count}");
    assert_eq!(scripted["unlisted"], json!({ "person": 0, "import": 0 }));
    let more = format!("and {} more; --output json has all\n{count} repaired, 0 to", count - 100);
    assert!(shown.stderr.contains(&more), "{more}: {shown:?}");
}

#[test]
fn what_is_no_file_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let nowhere = "http://127.0.0.1:1";
    for (text, code) in [("{ \"tools\": [,] }", 2), ("7", 1), ("{}", 1)] {
        let path = dir.path().join("x.json");
        std::fs::write(&path, text).expect("written");
        let failed = ctl(nowhere, &["import", "registry", path.to_str().expect("UTF-8")]);
        assert_eq!(failed.code, code, "{text}: {failed:?}");
    }
    assert_eq!(ctl(nowhere, &["import", "registry", "/no/such/file"]).code, 2);
}

/// The files of the migration phases of the registry's design, filled in.
fn migration_phases() -> [Value; 3] {
    let query = json!({ "name": "SearchQuery", "version": "1.0.0", "schema": { "type": "object",
        "properties": { "query": { "type": "string" } }, "required": ["query"] } });
    let provides = json!([{ "tool": "search", "version": "1.0.0" }]);
    let server = json!({ "name": "doc-svc", "version": "1.0.0", "provides": provides });
    let source = json!({ "server": "doc-svc", "serverVersion": "1.0.0", "tool": "search" });
    let sbom = json!({ "uri": "urn:agentgateway:sbom", "params": { "depends": [
        { "type": "tool", "name": "search", "version": "1.0.0" }] } });
    let agent = json!({ "name": "researcher", "version": "1.0.0", "url": "https://agents.example/researcher",
        "skills": [{ "id": "research", "name": "Research", "description": "Researches", "tags": [],
            "inputSchema": { "type": "schema", "name": "SearchQuery", "version": "1.0.0" } }],
        "capabilities": { "extensions": [sbom] } });
    [
        json!({ "schemaVersion": "2.0", "schemas": [query], "tools": [
            { "name": "search", "source": { "target": "backend", "tool": "search" },
                "inputSchema": { "$ref": "#SearchQuery:1.0.0" } }] }),
        json!({ "servers": [server], "tools": [{ "name": "search", "version": "1.0.0", "source": source }] }),
        json!({ "schemaVersion": "2.0", "schemas": [query], "servers": [server], "agents": [agent],
            "tools": [{ "name": "search", "version": "1.0.0", "source": source }] }),
    ]
}

#[test]
fn migration_files_name_the_import_that_repairs_them() {
    let dir = tempfile::tempdir().expect("a directory");
    for (i, phase) in migration_phases().iter().enumerate() {
        let path = dir.path().join(format!("phase-{}.json", i + 1));
        let path = path.to_str().expect("UTF-8");
        std::fs::write(path, format!("{phase:#}")).expect("written");
        let refused = ctl("http://127.0.0.1:1", &["validate", "-f", path]);
        assert_eq!(refused.code, 1, "{refused:?}");
        let remedy = format!("registryctl import registry {path} --apply");
        assert_eq!(refused.stderr.matches(&remedy).count(), 1, "phase {}: {refused:?}", i + 1);
        let registry = Registry::start();
        let done = registry.ctl(&["import", "registry", path, "--apply", "--yes"]);
        assert!(done.success() && done.stderr.contains(" repaired, 0 to look at"), "{done:?}");
        assert!(registry.ctl(&["get", "tool/search@1.0.0"]).success());
    }
}

#[tokio::test]
async fn gateway_names_the_import_for_migration_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("registry.json");
    let nothing = json!({ "schemaVersion": "2.0" });
    std::fs::write(&path, nothing.to_string()).expect("written");
    let gateway = Gateway::start(&GatewayOptions {
        source: format!("file://{}", path.display()),
        targets: String::new(),
        runtime: None,
        more: String::new(),
    });
    gateway.ready().await;
    for (i, phase) in migration_phases().iter().enumerate() {
        std::fs::write(&path, phase.to_string()).expect("written");
        eventually("the refusal names the remedy", || async {
            let log = gateway.process.stderr();
            log.matches("registryctl import registry FILE --apply").count() == i + 1
        })
        .await;
    }
}

/// A composition that calls backend tools by their servers, from the file to its result.
#[tokio::test(flavor = "multi_thread")]
async fn steps_with_servers_are_imported_and_run() {
    let (registry, backend, dir) =
        (Registry::start(), Backend::start(), tempfile::tempdir().expect("a directory"));
    let call = |tool: &str, server: &str| json!({ "tool": { "name": tool, "server": server } });
    let both = json!({ "pipeline": { "steps": [
        { "id": "docs", "operation": call("search_documents", "document-service") },
        { "id": "text", "operation": { "schemaMap": { "mappings": { "found": { "nested": { "path": "$.first",
            "mappings": { "title": { "path": "$.title" } } } } } } },
            "input": { "first": { "path": "$.steps.docs.results[0]" } } }] } });
    let file = json!({ "schemaVersion": "2.0",
        "servers": [{ "name": "document-service", "version": "1.2.0" }],
        "tools": [{ "name": "first_title", "version": "1.0.0", "spec": both, "description": "The first title",
            "inputSchema": { "type": "object", "properties": { "query": { "type": "string" } } } }] });
    let path = dir.path().join("loose.json");
    std::fs::write(&path, file.to_string()).expect("written");
    let path = path.to_str().expect("UTF-8");
    let done = registry.ctl(&["import", "registry", path, "--apply", "--yes"]);
    assert!(done.success() && done.stderr.contains(" repaired, 0 to look at"), "{done:?}");
    let gateway = Gateway::start(&GatewayOptions {
        source: registry.url().replace("http", "grpc"),
        targets: backend.targets(),
        runtime: None,
        more: String::new(),
    });
    gateway.ready().await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    eventually("the server is reached", || async {
        let answer = client.call("first_title", json!({ "query": "vehicles" })).await;
        answer.message["result"]["structuredContent"]["found"]["title"]
            == "Electric vehicle market notes"
    })
    .await;
}
