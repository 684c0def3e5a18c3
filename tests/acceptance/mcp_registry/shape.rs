//! The form of responses: documents, registry metadata, headers, errors.

use acceptance::{Process, Registry};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{Answer, Api, OFFICIAL, OURS, complete, invalid, server};

#[tokio::test]
async fn empty_registry_returns_empty_list() {
    let api = Api::start();
    let answer = api.get("/v0.1/servers").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json(), json!({ "servers": [], "metadata": { "count": 0 } }));
    assert_eq!(answer.header("content-type"), "application/json");
}

#[tokio::test]
async fn published_server_is_served_with_registry_metadata() {
    let api = Api::start();
    let document = complete("com.example/docs", "1.0.0+b.1");
    let published = api.post("/v0.1/publish", &document).await;
    assert_eq!(published.status, 200, "{published:?}");
    let one = api.get("/v0.1/servers/com.example%2Fdocs/versions/1.0.0%2Bb.1").await;
    assert_eq!(one.status, 200, "{one:?}");
    assert_eq!(one.json(), published.json());
    let response = one.json();
    assert_eq!(response["server"], document);
    let official = &response["_meta"][OFFICIAL];
    let mut fields: Vec<_> = official.as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["isLatest", "publishedAt", "status", "statusChangedAt", "updatedAt"]);
    assert_eq!((&official["status"], &official["isLatest"]), (&json!("active"), &json!(true)));
    for time in ["publishedAt", "statusChangedAt", "updatedAt"] {
        let time = official[time].as_str().unwrap();
        assert!(time.ends_with('Z') && time.len() == 24 && time.starts_with("20"), "{time}");
    }
    let ours = &response["_meta"][OURS];
    assert_eq!(ours["entity"], "server/com.example/docs@1.0.0+b.1");
    assert_eq!((&ours["revision"], &ours["tools"]), (&json!(1), &json!([])));
    let shown = api.registry.ctl(&["get", "server/com.example/docs@1.0.0+b.1", "--output", "json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(ours["digest"], shown["digest"]);
    let list = api.get("/v0.1/servers").await.json();
    assert_eq!(list["servers"], json!([response]));
    let versions = api.get("/v0.1/servers/com.example%2Fdocs/versions").await.json();
    assert_eq!(versions, json!({ "servers": [response], "metadata": { "count": 1 } }));
}

/// Entities of the example have no namespace, no remotes and no packages. One has members that must
/// be hidden.
#[tokio::test]
async fn manually_registered_servers_are_served_if_valid() {
    let api = Api::start();
    api.registry.apply_example();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("more.json");
    let long = "word ".repeat(60);
    let good = json!([{ "type": "streamable-http", "url": "http://gateway.internal:7080/mcp" }]);
    let more = json!({ "schemaVersion": "2.0", "servers": [
        { "name": "team/long", "version": "1.0.0", "description": long, "provides": [],
          "metadata": { "owner": "x", "serverJson": {
              "remotes": good, "packages": [{ "registryType": "npm" }], "title": "", "name": "no",
              "repository": {} } } },
        { "name": "mute", "version": "1.0.0", "provides": [], "metadata": { "serverJson": 7 } },
        { "name": "my_team/hidden", "version": "1.0.0", "provides": [] },
    ] });
    std::fs::write(&file, more.to_string()).unwrap();
    api.registry.apply_file(&file);
    let list = api.get("/v0.1/servers?limit=100").await;
    let names = list.listed();
    assert!(names.contains(&"local.registry/fetch-server@1.2.3".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("hidden")), "{names:?}");
    assert!(names.is_sorted(), "{names:?}");
    for item in list.json()["servers"].as_array().unwrap() {
        assert_eq!(invalid(&item["server"]), Vec::<String>::new(), "{item:#}");
    }
    let of = async |name: &str| {
        let name = name.replace('/', "%2F");
        api.get(&format!("/v0.1/servers/{name}/versions/latest")).await.json()
    };
    let long = of("team/long").await;
    let description = long["server"]["description"].as_str().unwrap();
    assert!(description.ends_with("word word…") && description.chars().count() <= 100);
    assert_eq!(long["server"]["remotes"], good);
    let mut fields: Vec<_> = long["server"].as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(fields, ["$schema", "description", "name", "remotes", "version"]);
    assert_eq!(of("local.registry/mute").await["server"]["description"], "MCP server mute");
    let fetch = of("local.registry/fetch-server").await;
    assert_eq!(fetch["_meta"][OURS]["tools"], json!([{ "tool": "fetch", "version": "1.2.3" }]));
}

fn has_leave(answer: &Answer) -> bool {
    answer.header("access-control-allow-origin") == "*"
        && answer.header("access-control-allow-methods") == "GET, OPTIONS"
        && answer.header("access-control-allow-headers") == "Authorization, Content-Type"
}

#[tokio::test]
async fn responses_allow_cross_origin_reads() {
    let api = Api::start();
    api.publish("com.example/docs", "1.0.0").await;
    let one = "/v0.1/servers/com.example%2Fdocs/versions";
    for path in ["/v0.1/servers", "/v0.1/servers/", one, &format!("{one}/latest")] {
        for method in ["GET", "HEAD"] {
            let answer =
                api.send(method, path, &[("origin", "vscode-file://vscode-app")], "").await;
            assert_eq!(answer.status, 200, "{method} {path}");
            assert!(has_leave(&answer), "{method} {path}: {answer:?}");
            assert!(answer.header("cache-control").starts_with("public, max-age="));
            assert_eq!(answer.text.is_empty(), method == "HEAD");
        }
        let asked = api.send("OPTIONS", path, &[("origin", "https://x.example")], "").await;
        assert!(asked.status == 204 && has_leave(&asked), "{path}: {asked:?}");
    }
    let errors = [
        ("GET", "/v0.1/servers?cursor=abc", 400),
        ("GET", "/v0.1/servers?limit=0", 422),
        ("GET", "/v0.1/servers/com.example%2Fnone/versions", 404),
        ("GET", "/v0.1/servers/com.example%2Fnone/versions/latest", 404),
        ("GET", &format!("{one}/1.0.1"), 404),
        ("GET", &format!("{one}/^1.0.0"), 404),
        ("GET", "/v0.1/servers/%ff%fe/versions/latest", 404),
        ("GET", "/v0.1/servers/%/versions/latest", 404),
        ("GET", "/v0.1/servers/com.example/docs/versions/latest", 404),
        ("GET", "/v0.1/servers/com.example%2Fdocs", 404),
        ("GET", "/v0.1/nothing", 404),
        ("GET", "/v0.1/", 404),
        ("GET", "/v0.1", 404),
        ("POST", "/v0.1/servers", 405),
        ("DELETE", "/v0.1/servers", 405),
        ("GET", "/v0.1/publish", 405),
        ("PUT", &format!("{one}/1.0.0"), 501),
        ("DELETE", &format!("{one}/1.0.0"), 501),
    ];
    for (method, path, status) in errors {
        let answer = api.send(method, path, &[], "").await;
        assert_eq!(answer.status.as_u16(), status, "{method} {path}: {answer:?}");
        assert!(has_leave(&answer), "{method} {path}: {answer:?}");
        assert_eq!(answer.header("content-type"), "application/problem+json");
        assert_eq!(answer.header("cache-control"), "no-store");
        let body = answer.json();
        assert_eq!(body["status"], status);
        assert!(body["error"].as_str().is_some_and(|text| text.len() > 10), "{body}");
        assert_eq!(body["error"], body["detail"]);
        assert!(body["title"].is_string());
        assert_eq!(status == 405, !answer.header("allow").is_empty(), "{method} {path}");
    }
    let old = api.get("/v0/servers").await;
    assert_eq!(old.status, StatusCode::NOT_FOUND, "a private registry has no /v0");
}

#[tokio::test]
async fn unchanged_response_is_not_modified() {
    let api = Api::start();
    api.publish("com.example/docs", "1.0.0").await;
    for path in ["/v0.1/servers", "/v0.1/servers/com.example%2Fdocs/versions/latest"] {
        let first = api.get(path).await;
        let tag = first.header("etag").to_owned();
        let again = api.send("GET", path, &[("if-none-match", &tag)], "").await;
        assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""));
        assert!(again.header("etag") == tag && has_leave(&again), "{again:?}");
        api.publish("com.example/docs", &format!("1.0.{}", path.len())).await;
        let changed = api.send("GET", path, &[("if-none-match", &tag)], "").await;
        assert_eq!(changed.status, 200);
    }
    let bad = api.send("GET", "/v0.1/servers?limit=0", &[("if-none-match", "*")], "").await;
    assert_eq!(bad.status, 422);
}

/// DNS rebinding is rejected, and editors are accepted.
#[tokio::test]
async fn loopback_server_rejects_foreign_hosts() {
    let api = Api::start();
    let evil = api.send("GET", "/v0.1/servers", &[("host", "evil.example")], "").await;
    assert!(evil.json()["error"].is_string() && evil.header("access-control-allow-origin") == "*");
    assert!(evil.status == 403 && has_leave(&evil), "{evil:?}");
    let ours = api.send("GET", "/v0.1/servers", &[("host", "localhost:7070")], "").await;
    assert_eq!(ours.status, 200);
}

#[tokio::test]
async fn default_namespace_is_configured() {
    let dir = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}", dir.path().join("registry.db").display());
    let mut api = Api::of(Registry::start_on(&database));
    api.registry.apply_example();
    api.registry.process.stop();
    let start = |namespace: &str| {
        Process::try_start("registry-server", dir.path(), |command| {
            command.args(["--listen", "127.0.0.1:0", "--database", &database]);
            command.args(["--mcp-namespace", namespace]).arg("--data-dir").arg(dir.path());
        })
    };
    let server_process = start("com.example.tools").unwrap();
    api.url = format!("http://{}", server_process.address());
    let all = api.get("/v0.1/servers?search=fetch").await.listed();
    assert_eq!(all, ["com.example.tools/fetch-server@1.2.3"]);
    let path = "/v0.1/servers/com.example.tools%2Ffetch-server/versions/latest";
    assert_eq!(api.get(path).await.status, 200);
    // A later publication does not take over the name.
    let taken = api.post("/v0.1/publish", &server("com.example.tools/fetch-server", "9.0.0")).await;
    assert!(taken.status == 400 && taken.text.contains("server/fetch-server"), "{taken:?}");
    assert_eq!(start("a/b").unwrap_err().code, Some(2));
}
