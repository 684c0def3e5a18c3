//! The official Rust MCP SDK as a client of the gateway, in both eras.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{HeaderName, HeaderValue};
use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient,
    model::{CallToolRequestParams, ProtocolVersion, ServerNotification, SubscriptionFilter},
    service::{NotificationContext, RunningService},
    transport::{
        StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::json;

use crate::deployment::Deployment;

/// Counts `list_changed` notifications.
#[derive(Debug, Clone, Default)]
struct Listener(Arc<AtomicUsize>);

impl ClientHandler for Listener {
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn modern() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

fn transport(
    deployment: &Deployment,
    agent: &'static str,
    version: &'static str,
) -> StreamableHttpClientTransport<reqwest::Client> {
    let headers = HashMap::from([
        (HeaderName::from_static("x-agent-name"), HeaderValue::from_static(agent)),
        (HeaderName::from_static("x-agent-version"), HeaderValue::from_static(version)),
    ]);
    let config = StreamableHttpClientTransportConfig::with_uri(deployment.gateway.mcp_url())
        .custom_headers(headers);
    StreamableHttpClientTransport::from_config(config)
}

async fn connect(
    deployment: &Deployment,
    listener: &Listener,
    lifecycle: ClientLifecycleMode,
) -> RunningService<RoleClient, Listener> {
    listener
        .clone()
        .serve_with_lifecycle(transport(deployment, "claude-demo-agent", "1.0.0"), lifecycle)
        .await
        .expect("the official client connects")
}

async fn lists_and_calls(lifecycle: ClientLifecycleMode) {
    let deployment = Deployment::start().await;
    let client = connect(&deployment, &Listener::default(), lifecycle).await;
    let tools = client.list_all_tools().await.expect("tools");
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    assert!(names.contains(&"fetch") && !names.contains(&"create_task"), "{names:?}");
    let arguments = json!({ "url": "https://example.com/" }).as_object().cloned();
    let mut call = CallToolRequestParams::new("fetch");
    call.arguments = arguments;
    let result = client.call_tool(call).await.expect("the call is answered");
    assert_ne!(result.is_error, Some(true), "{result:?}");
    assert!(result.structured_content.is_some(), "{result:?}");
    let unknown = client.call_tool(CallToolRequestParams::new("no_such_tool")).await;
    assert!(format!("{unknown:?}").contains("-32602"), "{unknown:?}");
    client.cancel().await.expect("the client ends");
}

#[tokio::test]
async fn client_of_2026_07_28_lists_and_calls() {
    lists_and_calls(modern()).await;
}

#[tokio::test]
async fn client_of_2025_11_25_lists_and_calls() {
    lists_and_calls(ClientLifecycleMode::Initialize).await;
}

#[tokio::test]
async fn probing_client_selects_modern_era() {
    let automatic = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    };
    lists_and_calls(automatic).await;
}

/// Waits for the client's notification stream, which the SDK opens in the background. Earlier
/// changes are not sent.
async fn has_stream(deployment: &Deployment) {
    acceptance::eventually("the client has a stream", || async {
        let url = format!("{}/metrics", deployment.gateway.url());
        let metrics = reqwest::get(url).await.expect("metrics").text().await.expect("text");
        metrics.lines().any(|line| line == "gateway_event_streams 1")
    })
    .await;
}

#[tokio::test]
async fn legacy_client_is_notified_of_tool_changes() {
    let deployment = Deployment::start().await;
    let listener = Listener::default();
    let client = connect(&deployment, &listener, ClientLifecycleMode::Initialize).await;
    client.list_all_tools().await.expect("tools");
    has_stream(&deployment).await;
    let retired = deployment.registry.ctl(&[
        "retire",
        "--yes",
        "tool/get_webpage@1.0.0",
        "--force",
        "a test",
    ]);
    assert!(retired.success(), "{retired:?}");
    acceptance::eventually("the client hears of it", || async {
        listener.0.load(Ordering::SeqCst) > 0
    })
    .await;
    let tools = client.list_all_tools().await.expect("tools");
    assert!(tools.iter().all(|tool| tool.name != "get_webpage"));
}

#[tokio::test]
async fn modern_client_is_notified_of_tool_changes() {
    let deployment = Deployment::start().await;
    let client = connect(&deployment, &Listener::default(), modern()).await;
    let wanted = SubscriptionFilter::builder().tools_list_changed().build();
    let mut subscription = client.peer().listen(wanted).await.expect("a subscription");
    let retired = deployment.registry.ctl(&[
        "retire",
        "--yes",
        "tool/get_webpage@1.0.0",
        "--force",
        "a test",
    ]);
    assert!(retired.success(), "{retired:?}");
    let notification = tokio::time::timeout(Duration::from_secs(10), subscription.next())
        .await
        .expect("in time")
        .expect("a sound stream");
    assert!(
        matches!(notification, Some(ServerNotification::ToolListChangedNotification(_))),
        "{notification:?}"
    );
}

#[tokio::test]
async fn unrelated_change_sends_no_notification() {
    let deployment = Deployment::start().await;
    let listener = Listener::default();
    let client = connect(&deployment, &listener, ClientLifecycleMode::Initialize).await;
    client.list_all_tools().await.expect("tools");
    has_stream(&deployment).await;
    let retired =
        deployment.registry.ctl(&["retire", "--yes", "tool/list_users@1.0.0", "--force", "a test"]);
    assert!(retired.success(), "{retired:?}");
    deployment.caught_up().await;
    // The client receives the notifications in order, and the second change is its own.
    let retired = deployment.registry.ctl(&[
        "retire",
        "--yes",
        "tool/get_webpage@1.0.0",
        "--force",
        "a test",
    ]);
    assert!(retired.success(), "{retired:?}");
    acceptance::eventually("the client hears of it", || async {
        listener.0.load(Ordering::SeqCst) > 0
    })
    .await;
    assert_eq!(listener.0.load(Ordering::SeqCst), 1, "list_users is not this agent's");
}
