//! Registry changes reach the gateway and its clients without a restart.

use acceptance::root;
use serde_json::json;

use crate::deployment::Deployment;

#[tokio::test]
async fn new_version_reaches_gateway() {
    let deployment = Deployment::start().await;
    let newer = deployment.agent("research-agent", "2.2.0");
    let before = newer.tool_names().await;
    assert_eq!(before, [""; 0], "this version is not registered yet");
    deployment.registry.apply_file(&root().join("examples/new-version.json"));
    deployment.caught_up().await;
    let after = newer.tool_names().await;
    assert!(after.contains(&"search_documents".to_owned()), "{after:?}");
    let answer = newer.call("search_documents", json!({ "query": "registry" })).await;
    assert!(!answer.is_tool_error(), "{answer:?}");
    let older = deployment.agent("research-agent", "2.1.0").tool_names().await;
    assert_eq!(older, ["create_entities", "fetch", "search_documents"], "exact versions stay");
}

#[tokio::test]
async fn registry_lists_followers_with_revision() {
    let deployment = Deployment::start().await;
    acceptance::eventually("the gateway acknowledges the persisted revision", || async {
        let gateways = deployment.registry.ctl(&["gateways", "--output", "json"]);
        let listed: serde_json::Value = serde_json::from_str(&gateways.stdout).unwrap_or_default();
        let text = listed.to_string();
        text.contains("\"appliedRevision\":1") && text.contains("\"persistedRevision\":1")
    })
    .await;
}

#[tokio::test]
async fn retired_tool_is_no_longer_served() {
    let deployment = Deployment::start().await;
    let client = deployment.agent("claude-demo-agent", "1.0.0");
    assert!(client.tool_names().await.contains(&"get_webpage".to_owned()));
    let retired =
        deployment.registry.ctl(&["retire", "tool/get_webpage@1.0.0", "--force", "a test"]);
    assert!(retired.success(), "{retired:?}");
    deployment.caught_up().await;
    assert!(!client.tool_names().await.contains(&"get_webpage".to_owned()));
}

#[tokio::test]
async fn retired_agent_lists_and_calls_nothing() {
    let deployment = Deployment::start().await;
    let client = deployment.agent("research-agent", "2.1.0");
    assert!(!client.tool_names().await.is_empty());
    let retired =
        deployment.registry.ctl(&["retire", "agent/research-agent@2.1.0", "--force", "a test"]);
    assert!(retired.success(), "{retired:?}");
    deployment.caught_up().await;
    assert_eq!(client.tool_names().await, [""; 0], "and not what unknown callers see");
}
