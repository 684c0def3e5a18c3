//! A change at the registry reaches the gateway and its clients without a restart.

use acceptance::root;
use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn a_new_version_is_visible_at_the_gateway() {
    let world = World::start().await;
    let newer = world.agent("research-agent", "2.2.0");
    let before = newer.tool_names().await;
    assert_eq!(before, [""; 0], "this version is not registered yet");
    world.registry.apply_file(&root().join("examples/new-version.json"));
    world.caught_up().await;
    let after = newer.tool_names().await;
    assert!(after.contains(&"search_documents".to_owned()), "{after:?}");
    let answer = newer.call("search_documents", json!({ "query": "registry" })).await;
    assert!(!answer.is_tool_error(), "{answer:?}");
    let older = world.agent("research-agent", "2.1.0").tool_names().await;
    assert_eq!(older, ["create_entities", "fetch", "search_documents"], "exact versions stay");
}

#[tokio::test]
async fn the_registry_knows_who_follows_and_how_far() {
    let world = World::start().await;
    acceptance::eventually("the gateway acknowledges what it has on disk", || async {
        let gateways = world.registry.ctl(&["gateways", "--output", "json"]);
        let listed: serde_json::Value = serde_json::from_str(&gateways.stdout).unwrap_or_default();
        let text = listed.to_string();
        text.contains("\"appliedRevision\":1") && text.contains("\"persistedRevision\":1")
    })
    .await;
}

#[tokio::test]
async fn a_retired_tool_is_no_longer_served() {
    let world = World::start().await;
    let client = world.agent("claude-demo-agent", "1.0.0");
    assert!(client.tool_names().await.contains(&"get_webpage".to_owned()));
    let retired = world.registry.ctl(&["retire", "tool/get_webpage@1.0.0", "--force", "a test"]);
    assert!(retired.success(), "{retired:?}");
    world.caught_up().await;
    assert!(!client.tool_names().await.contains(&"get_webpage".to_owned()));
}

#[tokio::test]
async fn a_retired_agent_sees_and_calls_nothing() {
    let world = World::start().await;
    let client = world.agent("research-agent", "2.1.0");
    assert!(!client.tool_names().await.is_empty());
    let retired =
        world.registry.ctl(&["retire", "agent/research-agent@2.1.0", "--force", "a test"]);
    assert!(retired.success(), "{retired:?}");
    world.caught_up().await;
    assert_eq!(client.tool_names().await, [""; 0], "and not what unknown callers see");
}
