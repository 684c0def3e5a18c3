//! Request sequences of real clients, and their checks of the responses.

use serde_json::Value;

use super::{Api, OFFICIAL, complete, invalid, server};

/// The members that VS Code reads of an item. One invalid item makes it reject the whole page.
fn takes(item: &Value) -> bool {
    let is_text = |name: &str| item["server"][name].as_str().is_some_and(|text| !text.is_empty());
    is_text("name") && is_text("description") && is_text("version") && item["_meta"].is_object()
}

/// VS Code probes, lists pages of 50, continues with the cursor alone, and fetches each server by
/// its encoded name.
#[tokio::test]
async fn vs_code_searches_pages_and_installs() {
    let api = Api::start();
    api.registry.apply_example();
    for i in 0..60 {
        api.publish(&format!("com.example/tool-{i:02}"), "1.0.0").await;
    }
    let docs = api.post("/v0.1/publish", &complete("com.example/docs", "1.0.0")).await;
    assert_eq!(docs.status, 200);
    let ask = async |path: &str| {
        let origin = [("origin", "vscode-file://vscode-app"), ("accept", "*/*")];
        let answer = api.send("GET", path, &origin, "").await;
        assert_eq!(answer.header("access-control-allow-origin"), "*", "{path}");
        answer
    };
    assert_eq!(ask("/v0.1/servers?limit=1").await.status, 200, "the probe");
    let mut names = Vec::new();
    let mut page = ask("/v0.1/servers?limit=50&version=latest&search=tool").await;
    loop {
        let list = page.json();
        assert!(list["servers"].as_array().unwrap().iter().all(takes), "{list:#}");
        names.extend(page.listed());
        let Some(cursor) = page.cursor() else { break };
        page = ask(&format!("/v0.1/servers?limit=50&version=latest&cursor={cursor}")).await;
    }
    let expected: Vec<_> = (0..60).map(|i| format!("com.example/tool-{i:02}@1.0.0")).collect();
    assert_eq!(names, expected);
    let found = ask("/v0.1/servers/com.example%2Fdocs/versions/latest").await.json();
    assert!(takes(&found));
    assert_eq!(found["_meta"][OFFICIAL]["status"], "active");
    assert_eq!(found["server"]["packages"][0]["transport"]["type"], "stdio");
    assert_eq!(found["server"]["remotes"][1]["url"], "https://example.com/sse");
    let none = ask("/v0.1/servers/com.example%2Fnone/versions/latest").await;
    assert!(none.status.is_client_error());
}

/// Copilot CLI looks up each configured server without credentials. 200 means verified and 404
/// unknown. Any other status blocks all servers that are not built in.
#[tokio::test]
async fn copilot_receives_only_200_or_404() {
    let api = Api::start();
    api.publish("com.example/docs", "1.0.0").await;
    let hostile =
        ["..%2F..", "%00", "%2F", "a%2Fb%2Fc", "x".repeat(3_000).as_str()].map(str::to_owned);
    let names = ["com.example%2Fdocs", "github-mcp-server", "com.example%2Fnone", "%E2%82%AC"];
    for name in names.map(str::to_owned).into_iter().chain(hostile) {
        let answer = api.get(&format!("/v0.1/servers/{name}/versions/latest")).await;
        let expected = if name == "com.example%2Fdocs" { 200 } else { 404 };
        assert_eq!(answer.status.as_u16(), expected, "{name}");
    }
    // An invalid token of a reader changes nothing.
    let token = [("authorization", "Bearer x")];
    let path = "/v0.1/servers/com.example%2Fdocs/versions/latest";
    let answer = api.send("GET", path, &token, "").await;
    assert_eq!(answer.status, 200);
    assert!(answer.header("cache-control").starts_with("private"), "{answer:?}");
}

/// In other registries, listed versions could be missing, or fetchable versions not listed.
#[tokio::test]
async fn listed_servers_are_fetchable_and_valid() {
    let api = Api::start();
    api.registry.apply_example();
    for version in ["1.0.0", "1.0.0-rc.1", "2.0.0+build.7", "2.0.0+build.8"] {
        let answer = api.post("/v0.1/publish", &complete("com.example/docs", version)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let list = api.get("/v0.1/servers?limit=100").await.json();
    let items = list["servers"].as_array().unwrap();
    let docs = items.iter().filter(|item| item["server"]["name"] == "com.example/docs");
    assert_eq!(docs.count(), 4, "every version is listed, not only the latest");
    for item in items {
        assert_eq!(invalid(&item["server"]), Vec::<String>::new(), "{item:#}");
        let part = |name: &str| {
            item["server"][name].as_str().unwrap().replace('/', "%2F").replace('+', "%2B")
        };
        let path = format!("/v0.1/servers/{}/versions/{}", part("name"), part("version"));
        assert_eq!(api.get(&path).await.json(), *item, "{path}");
    }
}

/// Documents of the official registry have an empty repository, which its own schema rejects.
#[tokio::test]
async fn empty_repository_is_accepted_and_omitted() {
    let api = Api::start();
    let mut document = server("com.example/docs", "1.0.0");
    document["repository"] = serde_json::json!({});
    assert_eq!(api.post("/v0.1/publish", &document).await.status, 200);
    let served = api.get("/v0.1/servers/com.example%2Fdocs/versions/latest").await.json();
    assert_eq!(served["server"].get("repository"), None);
}
