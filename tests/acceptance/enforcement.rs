//! Enforcement at the gateway: scoped lists, permits, validation, virtual tools.

use serde_json::json;

use crate::deployment::Deployment;

#[tokio::test]
async fn agent_lists_exactly_its_declared_tools() {
    let deployment = Deployment::start().await;
    let research = deployment.agent("research-agent", "2.1.0").tool_names().await;
    assert_eq!(research, ["create_entities", "fetch", "search_documents"]);
    let adk = deployment.agent("adk-demo-agent", "1.0.0").tool_names().await;
    assert!(adk.contains(&"create_task".to_owned()), "{adk:?}");
    assert!(!adk.contains(&"fetch".to_owned()), "{adk:?}");
    assert!(adk.contains(&"process_order".to_owned()), "{adk:?}");
    assert!(!adk.contains(&"payment_charge".to_owned()), "a step of it is not declared: {adk:?}");
}

#[tokio::test]
async fn agent_calls_declared_tool() {
    let deployment = Deployment::start().await;
    let answer = deployment
        .agent("research-agent", "2.1.0")
        .call("fetch", json!({ "url": "https://example.com/" }))
        .await;
    assert_eq!(answer.status, 200);
    assert!(!answer.is_tool_error(), "{answer:?}");
    assert!(answer.result()["structuredContent"]["content"].is_string(), "{answer:?}");
}

#[tokio::test]
async fn stdio_tool_is_called() {
    let deployment = Deployment::start().await;
    let client = deployment.agent("claude-demo-agent", "1.0.0");
    let calls = (0..20).map(|_| client.call("get_current_time", json!({ "timezone": "UTC" })));
    for answer in futures_util::future::join_all(calls).await {
        assert!(!answer.is_tool_error(), "{answer:?}");
    }
}

#[tokio::test]
async fn denied_tool_is_indistinguishable_from_unknown_tool() {
    let deployment = Deployment::with_runtime(Some("{ undeclaredDependency: deny }")).await;
    let client = deployment.agent("research-agent", "2.1.0");
    let undeclared = client.call("create_task", json!({ "title": "x" })).await;
    let unknown = client.call("create_tusk", json!({ "title": "x" })).await;
    assert_eq!(undeclared.error_code(), -32602);
    assert_eq!(undeclared.status, unknown.status);
    let text = |answer: &acceptance::mcp::Answer| {
        answer.message["error"].to_string().replace("create_tusk", "create_task")
    };
    assert_eq!(text(&undeclared), text(&unknown));
}

#[tokio::test]
async fn undeclared_call_is_served_and_audited_under_warn() {
    let deployment = Deployment::with_runtime(Some("{ undeclaredDependency: warn }")).await;
    let answer = deployment.agent("research-agent", "2.1.0").call("list_tasks", json!({})).await;
    assert!(!answer.is_tool_error(), "{answer:?}");
    let log = deployment.gateway.process.stderr();
    let audited =
        log.lines().any(|l| l.contains("audit") && l.contains("list_tasks") && l.contains("warn"));
    assert!(audited, "{log}");
}

#[tokio::test]
async fn unknown_callers_see_configured_tools() {
    let allowed = Deployment::start().await;
    assert!(allowed.anonymous().tool_names().await.len() > 20);
    assert!(allowed.agent("nobody", "1.0.0").tool_names().await.len() > 20);
    let denied = Deployment::with_runtime(Some("{ unknownCaller: deny }")).await;
    assert!(denied.anonymous().tool_names().await.is_empty());
    let call = denied.anonymous().call("list_tasks", json!({})).await;
    assert_eq!(call.error_code(), -32602);
    assert_eq!(denied.agent("research-agent", "2.1.0").tool_names().await.len(), 3);
}

#[tokio::test]
async fn input_validation_has_three_modes() {
    let bad = json!({ "query": 7 });
    for (mode, refused_by_gateway) in [("deny", true), ("warn", false), ("ignore", false)] {
        let deployment =
            Deployment::with_runtime(Some(&format!("{{ inputValidation: {mode} }}"))).await;
        let answer =
            deployment.agent("research-agent", "2.1.0").call("search_documents", bad.clone()).await;
        let names_pointer = answer.message.to_string().contains("/query");
        if refused_by_gateway {
            assert!(answer.is_tool_error(), "{mode}: {answer:?}");
            assert!(names_pointer, "{mode}: {answer:?}");
        } else {
            assert!(!names_pointer, "{mode}: the upstream answers: {answer:?}");
        }
        let audited = deployment.gateway.process.stderr().contains("search_documents");
        assert!(audited, "{mode}: a call leaves an audit event");
    }
}

#[tokio::test]
async fn hidden_fields_are_rejected_and_defaults_applied() {
    let deployment = Deployment::start().await;
    let client = deployment.agent("claude-demo-agent", "1.0.0");
    let tools = client.tools().await;
    let note = tools.iter().find(|t| t["name"] == "create_note").expect("the virtual tool");
    assert!(note["inputSchema"]["properties"].get("chunkOverlap").is_none(), "{note}");
    let forced = client
        .call("create_note", json!({ "title": "t", "content": "c", "chunkOverlap": 9 }))
        .await;
    assert!(forced.is_tool_error(), "{forced:?}");
    assert!(forced.text().contains("chunkOverlap"), "{forced:?}");
    let made = client.call("create_note", json!({ "title": "t", "content": "c" })).await;
    assert!(!made.is_tool_error(), "{made:?}");
    assert_eq!(made.result()["structuredContent"]["title"], "t");
}

#[tokio::test]
async fn schemas_are_self_contained_for_clients() {
    let deployment = Deployment::start().await;
    let tools = deployment.anonymous().tools().await;
    for tool in &tools {
        let schema = &tool["inputSchema"];
        assert_eq!(schema["type"], "object", "{tool}");
        for reference in schema.to_string().split("\"$ref\":\"").skip(1) {
            assert!(reference.starts_with("#/"), "unresolved reference in {tool}");
        }
        assert!(tool["description"].is_string(), "{tool}");
    }
    let search = tools.iter().find(|t| t["name"] == "search_documents").expect("a tool");
    assert!(search["inputSchema"].to_string().contains("dateRange"), "{search}");
}
