//! The registry over plain HTTP, and gateways that load files.

use acceptance::{
    Backend, CtlOutput, Gateway, GatewayOptions, ModernClient, Registry, binary, root,
};
use reqwest::StatusCode;
use serde_json::Value;

#[tokio::test]
async fn registry_json_etag_identifies_revision() {
    let registry = Registry::start();
    registry.apply_example();
    let url = format!("{}/registry.json", registry.url());
    let first = reqwest::get(&url).await.unwrap();
    assert_eq!(first.status(), StatusCode::OK);
    let etag = first.headers()["etag"].to_str().unwrap().to_owned();
    assert!(etag.starts_with("\"1-") && etag.len() == "\"1-01234567\"".len(), "{etag}");
    let document: Value = serde_json::from_str(&first.text().await.unwrap()).unwrap();
    assert_eq!(document["schemaVersion"], "2.0");
    assert_eq!(document["revision"], 1);
    let again =
        reqwest::Client::new().get(&url).header("if-none-match", &etag).send().await.unwrap();
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    assert!(again.bytes().await.unwrap().is_empty());
}

/// DNS rebinding: the browser sends the host name of the page.
#[tokio::test]
async fn foreign_host_name_is_rejected_over_loopback() {
    let registry = Registry::start();
    let read = |host: &'static str| {
        let url = format!("{}/registry.json", registry.url());
        reqwest::Client::new().get(url).header("host", host).send()
    };
    assert_eq!(read("evil.example").await.unwrap().status(), 403);
    assert_eq!(read("localhost:7070").await.unwrap().status(), 200);
}

#[tokio::test]
async fn probes_and_metrics_answer() {
    let registry = Registry::start();
    for (path, expected) in
        [("/livez", 200), ("/readyz", 200), ("/metrics", 404), ("/nothing", 404)]
    {
        let answer = reqwest::get(format!("{}{path}", registry.url())).await.unwrap();
        assert_eq!(answer.status().as_u16(), expected, "{path}");
    }
    registry.apply_example();
    let text = registry.metrics().await;
    assert!(text.contains("# HELP") && text.contains("revision"), "{text}");
    let file =
        std::fs::read_to_string(acceptance::root().join("examples/registry-v2.json")).unwrap();
    let example: Value = serde_json::from_str(&file).unwrap();
    let tools = example["tools"].as_array().unwrap().len();
    assert!(text.contains(&format!("registry_entities{{kind=\"tool\"}} {tools}\n")), "{text}");
    acceptance::eventually("the index follows", || async {
        registry.metrics().await.contains("registry_search_index_revision 1\n")
    })
    .await;
}

#[tokio::test]
async fn export_is_applied_to_another_registry() {
    let (first, second) = (Registry::start(), Registry::start());
    first.apply_example();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("export.json");
    let exported = first.ctl(&["export", "-o", file.to_str().unwrap()]);
    assert_eq!((exported.code, exported.stdout), (0, format!("written: {}\n", file.display())));
    second.apply_file(&file);
    let tool = |registry: &Registry| {
        let shown = registry.ctl(&["get", "tool/search_documents@1.0.0", "--output", "json"]);
        let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
        shown["digest"].clone()
    };
    assert_eq!(tool(&first), tool(&second));
}

/// The deprecated tool is sorted before its replacement.
#[test]
fn export_with_replacements_is_accepted_everywhere() {
    let registry = Registry::start();
    registry.apply_example();
    let notice = ["--replacement", "tool/get_webpage@1.0.0"];
    registry.run(&[&["deprecate", "--yes", "tool/fetch@1.2.3"][..], &notice].concat());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("export.json");
    let path = file.to_str().unwrap();
    for form in [&["export", "--plain"][..], &["export"]] {
        registry.run(&[form, &["-o", path]].concat());
        registry.run(&["validate", path]);
        let other = Registry::start();
        other.apply_file(&file);
        let lifecycle = &other.json(&["get", "tool/fetch@1.2.3"])["lifecycle"];
        assert_eq!(lifecycle["replacement"], "tool/get_webpage@1.0.0", "{lifecycle}");
        let mut check = std::process::Command::new(binary("gateway-agent"));
        check.current_dir(&dir).args(["--check", "--registry", "file://./export.json"]);
        let checked = CtlOutput::from(check.output().unwrap());
        assert_eq!(checked.code, 0, "{checked:?}");
    }
}

#[tokio::test]
async fn gateway_with_pinned_key_serves_signed_export() {
    let registry = Registry::start();
    registry.apply_example();
    // Streams that start from here on begin at this revision, which is signed.
    registry.run(&["export"]);
    registry.run(&["archive", "--yes", "schema/SearchQuery"]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("export.json");
    registry.run(&["export", "-o", file.to_str().unwrap()]);
    let key = registry.run(&["audit", "key"]);
    serves_the_example(format!("file://{}\n  key: {}", file.display(), key.trim())).await;
}

async fn serves_the_example(source: String) {
    let backend = Backend::start();
    let targets = backend.targets();
    let options = GatewayOptions { source, targets, runtime: None, more: String::new() };
    let gateway = Gateway::start(&options);
    gateway.ready().await;
    let client = ModernClient::agent(&gateway.mcp_url(), "research-agent", "2.1.0");
    acceptance::eventually("the gateway has the file", || async {
        client.tool_names().await == ["create_entities", "fetch", "search_documents"]
    })
    .await;
}

#[tokio::test]
async fn gateway_serves_registry_file() {
    let file = root().join("examples/registry-v2.json");
    serves_the_example(format!("file://{}", file.display())).await;
}

#[tokio::test]
async fn gateway_polls_registry_json() {
    let registry = Registry::start();
    registry.apply_example();
    serves_the_example(format!("{}/registry.json", registry.url())).await;
}

#[tokio::test]
async fn web_page_cannot_reach_api() {
    let registry = Registry::start();
    let url = format!("{}/registry.v1.RegistryService/ApplyChanges", registry.url());
    let post = |headers: &[(&'static str, &'static str)]| {
        let request = reqwest::Client::new().post(&url).body(vec![0, 0, 0, 0, 0]);
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).send()
    };
    let simple = post(&[("content-type", "text/plain"), ("origin", "https://evil.example")]).await;
    assert_eq!(simple.unwrap().status(), StatusCode::FORBIDDEN);
    let no_origin = post(&[("content-type", "text/plain")]).await;
    assert_eq!(no_origin.unwrap().status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let grpc = post(&[("content-type", "application/grpc")]).await.unwrap();
    assert_eq!(grpc.status(), StatusCode::OK, "a gRPC client is let through");
    assert_eq!(grpc.headers()["content-type"], "application/grpc");
}
