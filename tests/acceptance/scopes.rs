//! A gateway that follows only the part of the registry that its agents need.

use std::fs;

use acceptance::{
    Gateway, GatewayOptions, ModernClient, Registry, gateway::unreachable_targets, root,
};
use serde_json::Value;

fn start(source: String) -> Gateway {
    Gateway::start(&options(source))
}

fn options(source: String) -> GatewayOptions {
    let (targets, more) = (unreachable_targets(), String::new());
    GatewayOptions { source, targets, runtime: None, more }
}

fn scoped(registry: &Registry, scope: &str) -> String {
    format!("grpc://{}\n  {scope}", registry.address)
}

/// The cached documents and revision, once the cache has this many entities of a kind.
async fn copy_with(gateway: &Gateway, kind: &str, count: usize) -> Value {
    let read = || {
        let text = fs::read_to_string(gateway.cache()).unwrap_or_default();
        serde_json::from_str::<Value>(&text).unwrap_or_default()
    };
    acceptance::eventually("the cache has the scope's content", || async {
        read()[kind].as_array().is_some_and(|list| list.len() == count)
    })
    .await;
    read()
}

fn names(copy: &Value, kind: &str) -> Vec<String> {
    let list = copy[kind].as_array().expect("a list");
    let name = |entity: &Value| {
        let text = |member: &str| entity[member].as_str().unwrap_or_default().to_owned();
        format!("{}@{}", text("name"), text("version"))
    };
    list.iter().map(name).collect()
}

#[tokio::test]
async fn scoped_gateway_holds_only_needed_entities() {
    let registry = Registry::start();
    registry.apply_example();
    let mut gateway = start(scoped(&registry, "scope: [\"agent/research-agent@*\"]"));
    gateway.ready().await;
    let copy = copy_with(&gateway, "agents", 1).await;
    assert_eq!(names(&copy, "agents"), ["research-agent@2.1.0"]);
    let tools = names(&copy, "tools");
    let whole = registry.json(&["list", "tool"]).to_string();
    assert!(whole.contains("get_webpage") && !tools.iter().any(|t| t.starts_with("get_webpage")));
    let agent = ModernClient::agent(&gateway.mcp_url(), "research-agent", "2.1.0");
    assert_eq!(agent.tool_names().await, ["create_entities", "fetch", "search_documents"]);

    // A new version of the agent enters the scope with its dependencies.
    registry.apply_file(&root().join("examples/new-version.json"));
    let copy = copy_with(&gateway, "agents", 2).await;
    assert_eq!(names(&copy, "agents"), ["research-agent@2.1.0", "research-agent@2.2.0"]);
    let newer = ModernClient::agent(&gateway.mcp_url(), "research-agent", "2.2.0");
    assert!(newer.tool_names().await.contains(&"search_documents".to_owned()));

    // Entities that are no longer active leave the scope.
    registry.run(&["deprecate", "--yes", "agent/research-agent@2.1.0", "--message", "use 2.2.0"]);
    copy_with(&gateway, "agents", 1).await;

    // The cache is used without the registry.
    let source = scoped(&registry, "scope: [\"agent/research-agent@*\"]");
    drop(registry);
    gateway.process.kill_9();
    gateway.restart(&options(source));
    gateway.ready().await;
    let newer = ModernClient::agent(&gateway.mcp_url(), "research-agent", "2.2.0");
    assert!(newer.tool_names().await.contains(&"search_documents".to_owned()));
}

#[tokio::test]
async fn unmatched_scope_root_is_reported() {
    let registry = Registry::start();
    registry.apply_example();
    let gateway = start(scoped(&registry, "scope: [\"agent/nobody@*\"]"));
    acceptance::eventually("the gateway reports the root", || async {
        gateway.process.stderr().contains("scope-root-unmatched")
    })
    .await;
}

#[tokio::test]
async fn scope_file_is_reloaded() {
    let registry = Registry::start();
    registry.apply_example();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("scope");
    fs::write(&file, "# what runs here\nagent/research-agent@*\n").expect("written");
    let gateway = start(scoped(&registry, &format!("scopeFile: {}", file.display())));
    gateway.ready().await;
    let copy = copy_with(&gateway, "agents", 1).await;
    assert_eq!(copy["scope"], serde_json::json!(["agent/research-agent@*"]));
    fs::write(&file, "nonsense\n").expect("written");
    acceptance::eventually("the gateway says that the file is wrong", || async {
        gateway.process.stderr().contains("`nonsense`")
    })
    .await;
    fs::write(&file, "agent/research-agent@*\nagent/claude-demo-agent@1.0.0\n").expect("written");
    let copy = copy_with(&gateway, "agents", 2).await;
    assert!(names(&copy, "tools").iter().any(|tool| tool.starts_with("get_webpage")));
    assert_eq!(gateway.snapshots(), 1, "a step was enough");
}

#[test]
fn invalid_scope_is_rejected() {
    let directory = tempfile::tempdir().expect("a directory");
    for (scope, problem) in [
        ("scope: [\"agent/a\"]", "`agent/a` is not a scope root"),
        ("scope: []", "the scope has no roots"),
        ("scopeFile: ./missing", "cannot read ./missing"),
    ] {
        let config = format!("registry:\n  source: grpc://127.0.0.1:1\n  {scope}\n");
        let file = directory.path().join("gateway.yaml");
        fs::write(&file, config).expect("written");
        let check = std::process::Command::new(acceptance::process::binary("gateway-agent"))
            .args(["--check", "--config"])
            .arg(&file)
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&check.stderr).into_owned();
        assert!(!check.status.success() && said.contains(problem), "{scope}: {said}");
    }
}
