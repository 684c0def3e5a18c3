//! The gateway without its registry: from memory, from disk, and from a damaged disk.

use serde_json::json;

use crate::world::{World, gateway_revision};

async fn search_works(world: &World) {
    let client = world.agent("research-agent", "2.1.0");
    assert_eq!(client.tool_names().await.len(), 3);
    let answer = client.call("search_documents", json!({ "query": "gateway" })).await;
    assert!(!answer.is_tool_error(), "{answer:?}");
}

async fn persisted(world: &World) {
    acceptance::eventually("the cache is on disk", || async { world.gateway.cache().exists() })
        .await;
}

#[tokio::test]
async fn calls_go_on_when_the_registry_stops() {
    let mut world = World::start().await;
    assert!(world.registry.process.stop().success(), "the registry drains and ends with 0");
    search_works(&world).await;
}

#[tokio::test]
async fn a_gateway_restarted_without_its_registry_answers_from_disk() {
    let mut world = World::start().await;
    persisted(&world).await;
    world.registry.process.kill_9();
    world.gateway.process.kill_9();
    let options = world.options.clone();
    world.gateway.restart(&options);
    assert_eq!(gateway_revision(&world.gateway).await, Some(1));
    search_works(&world).await;
}

#[tokio::test]
async fn a_gateway_that_was_away_catches_up() {
    let mut world = World::start().await;
    persisted(&world).await;
    world.gateway.process.kill_9();
    world.registry.apply_file(&acceptance::root().join("examples/new-version.json"));
    let options = world.options.clone();
    world.gateway.restart(&options);
    world.caught_up().await;
    assert!(world.agent("research-agent", "2.2.0").tool_names().await.len() < 20);
}

#[tokio::test]
async fn a_torn_cache_is_refused_and_the_previous_one_used() {
    let mut world = World::start().await;
    persisted(&world).await;
    world.registry.apply_file(&acceptance::root().join("examples/new-version.json"));
    world.at_revision(2).await;
    assert!(world.gateway.process.stop().success());
    world.registry.process.kill_9();
    let cache = world.gateway.cache();
    let bytes = std::fs::read(&cache).expect("the cache");
    std::fs::write(&cache, &bytes[..bytes.len() / 2]).expect("torn");
    let options = world.options.clone();
    world.gateway.restart(&options);
    let revision = gateway_revision(&world.gateway).await;
    assert!(revision == Some(1) || revision == Some(2), "a true past state: {revision:?}");
    assert!(world.gateway.process.stderr().contains("cache"), "it says what it refused");
    search_works(&world).await;
}

#[tokio::test]
async fn a_cache_of_another_registry_never_mixes() {
    let mut world = World::start().await;
    persisted(&world).await;
    world.gateway.process.kill_9();
    let other = acceptance::Registry::start();
    let mut options = world.options.clone();
    options.source = format!("grpc://{}", other.address);
    world.gateway.restart(&options);
    acceptance::eventually("the mismatch is said", || async {
        world.gateway.process.stderr().contains("delete its cache")
    })
    .await;
    search_works(&world).await;
}
