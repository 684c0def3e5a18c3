//! The gateway without its registry: from memory, from its cache, and with a damaged cache.

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
