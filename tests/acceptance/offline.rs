//! The gateway without its registry: from memory, from its cache, and with a damaged cache.

use std::{fs, path::Path};

use acceptance::{CtlOutput, Gateway, GatewayOptions, Registry};
use serde_json::json;

use crate::deployment::{Deployment, gateway_revision};

async fn search_works(deployment: &Deployment) {
    let client = deployment.agent("research-agent", "2.1.0");
    assert_eq!(client.tool_names().await.len(), 3);
    let answer = client.call("search_documents", json!({ "query": "gateway" })).await;
    assert!(!answer.is_tool_error(), "{answer:?}");
}

async fn persisted(deployment: &Deployment) {
    acceptance::eventually("the cache is on disk", || async {
        deployment.gateway.cache().exists()
    })
    .await;
}

#[tokio::test]
async fn calls_continue_when_registry_stops() {
    let mut deployment = Deployment::start().await;
    assert!(deployment.registry.process.stop().success(), "the registry drains and ends with 0");
    search_works(&deployment).await;
}

#[tokio::test]
async fn gateway_restarts_from_cache_without_registry() {
    let mut deployment = Deployment::start().await;
    persisted(&deployment).await;
    deployment.registry.process.kill_9();
    deployment.gateway.process.kill_9();
    let options = deployment.options.clone();
    deployment.gateway.restart(&options);
    assert_eq!(gateway_revision(&deployment.gateway).await, Some(1));
    search_works(&deployment).await;
}

#[tokio::test]
async fn disconnected_gateway_catches_up() {
    let mut deployment = Deployment::start().await;
    persisted(&deployment).await;
    deployment.gateway.process.kill_9();
    deployment.registry.apply_file(&acceptance::root().join("examples/new-version.json"));
    let options = deployment.options.clone();
    deployment.gateway.restart(&options);
    deployment.caught_up().await;
    assert!(deployment.agent("research-agent", "2.2.0").tool_names().await.len() < 20);
}

#[tokio::test]
async fn damaged_cache_falls_back_to_previous() {
    let mut deployment = Deployment::start().await;
    persisted(&deployment).await;
    deployment.registry.apply_file(&acceptance::root().join("examples/new-version.json"));
    deployment.at_revision(2).await;
    assert!(deployment.gateway.process.stop().success());
    deployment.registry.process.kill_9();
    let cache = deployment.gateway.cache();
    let bytes = std::fs::read(&cache).expect("the cache");
    std::fs::write(&cache, &bytes[..bytes.len() / 2]).expect("torn");
    let options = deployment.options.clone();
    deployment.gateway.restart(&options);
    let revision = gateway_revision(&deployment.gateway).await;
    assert!(revision == Some(1) || revision == Some(2), "a true past state: {revision:?}");
    assert!(deployment.gateway.process.stderr().contains("cache"), "it says what it refused");
    search_works(&deployment).await;
}

#[tokio::test]
async fn cache_of_other_registry_is_rejected() {
    let mut deployment = Deployment::start().await;
    persisted(&deployment).await;
    deployment.gateway.process.kill_9();
    let other = acceptance::Registry::start();
    let mut options = deployment.options.clone();
    options.source = format!("grpc://{}", other.address);
    deployment.gateway.restart(&options);
    acceptance::eventually("the mismatch is said", || async {
        deployment.gateway.process.stderr().contains("FailedPrecondition")
    })
    .await;
    search_works(&deployment).await;
}

/// Registers schemas with titles of this length.
fn register(registry: &Registry, names: &[String], title: usize) {
    let dir = tempfile::tempdir().expect("a directory");
    let schema = |name| json!({ "name": name, "version": "1.0.0", "schema": { "title": "x".repeat(title) } });
    let schemas: Vec<_> = names.iter().map(schema).collect();
    let file = dir.path().join("schemas.json");
    fs::write(&file, json!({ "schemaVersion": "2.0", "schemas": schemas }).to_string())
        .expect("a file");
    registry.apply_file(&file);
}

fn apply(registry: &Registry, file: &Path) -> CtlOutput {
    registry.ctl(&["apply", "-f", file.to_str().expect("UTF-8"), "--yes"])
}

#[tokio::test(flavor = "multi_thread")]
async fn large_cache_restores_lost_commits() {
    let registry = Registry::start();
    // Only caches of at least 1 MiB have a journal.
    let large: Vec<_> = (0..60).map(|number| format!("Large{number}")).collect();
    register(&registry, &large, 20_000);
    let source = format!("grpc://{}", registry.address);
    let options =
        GatewayOptions { source, targets: String::new(), runtime: None, more: String::new() };
    let gateway = Gateway::start(&options);
    let cache = gateway.cache();
    acceptance::eventually("the cache is on disk", || async { cache.exists() }).await;
    register(&registry, &["LostFirst".to_owned(), "LostSecond".to_owned()], 10);
    let journal = cache.with_file_name("registry-v2.json.log");
    let has_lost = |file: &Path| {
        fs::read(file).is_ok_and(|bytes| bytes.windows(10).any(|part| part == b"LostSecond"))
    };
    acceptance::eventually("the journal is on disk", || async { has_lost(&journal) }).await;
    assert!(!has_lost(&cache));

    let restored = Registry::start();
    let applied = apply(&restored, &cache);
    assert!(applied.success() && !applied.has_code("document-invalid"), "{applied:?}");
    restored.run(&["get", "schema/LostSecond@1.0.0"]);

    // The rest of a damaged journal is reported.
    let copy = tempfile::tempdir().expect("a directory");
    let (export, frames) = (copy.path().join("c.json"), fs::read(&journal).expect("the journal"));
    fs::copy(&cache, &export).expect("copied");
    fs::write(copy.path().join("c.json.log"), &frames[..frames.len() - 1]).expect("torn");
    let damaged = apply(&Registry::start(), &export);
    assert!(damaged.success(), "{damaged:?}");
    // The schemas of this test are unused.
    let warnings = damaged.stderr.replace(&format!("{}/", copy.path().display()), "");
    let warnings = warnings.split("\n\n").filter(|text| !text.contains("[schema-unused]"));
    insta::assert_snapshot!(
        warnings.collect::<Vec<_>>().join("\n\n"),
        @r"
    warning[document-invalid]: c.json.log has no valid commit after revision 1: the last frame is incomplete
     --> c.json
      = help: compare the revision with the caches of other gateways
    "
    );
}
