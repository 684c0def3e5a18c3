//! The Rust SDK as a client of the gateway: all MCP features in both eras, and elicitation by
//! servers that speak one era each.

#![expect(deprecated, reason = "MCP deprecates logging, sampling and roots, and has them still")]

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient,
    model::{
        CallToolRequestParams, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
        ElicitRequestParams, ElicitResult, ElicitationAction, GetPromptRequestParams,
        Implementation, ListRootsResult, LoggingLevel, LoggingMessageNotificationParam,
        ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams, RequestMetaObject,
        SetLevelRequestParams,
    },
    service::{NotificationContext, RequestContext, RunningService},
    transport::StreamableHttpClientTransport,
};
use serde_json::{Value, json};

use super::everything::Everything;

/// A client that answers all kinds of requests and records notifications.
#[derive(Debug, Clone, Default)]
struct Person {
    progress: Arc<Mutex<Vec<f64>>>,
    logged: Arc<Mutex<Vec<Value>>>,
}

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let capabilities = json!({ "elicitation": {}, "sampling": {}, "roots": {} });
        let capabilities = serde_json::from_value(capabilities).expect("capabilities");
        ClientConfig::new(capabilities, Implementation::new("test", "1.0.0"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let request = serde_json::to_value(request).expect("JSON");
        let answers = json!({ "response": "yes", "confirm": true });
        let wanted = request["requestedSchema"]["properties"].as_object().expect("properties");
        let content = wanted.keys().map(|name| (name.clone(), answers[name].clone())).collect();
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content)))
    }

    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let content = json!({ "type": "text", "text": "Paris" });
        let result = json!({ "role": "assistant", "content": content, "model": "test" });
        Ok(serde_json::from_value(result).expect("a message"))
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        let result = json!({ "roots": [{ "uri": "file:///home" }] });
        Ok(serde_json::from_value(result).expect("roots"))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).push(params.progress);
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.logged.lock().unwrap_or_else(PoisonError::into_inner).push(params.data);
    }
}

type Client = RunningService<RoleClient, Person>;

/// The first text of a tool's result, with log messages enabled.
async fn text(client: &Client, tool: String, arguments: Value) -> String {
    let mut call = CallToolRequestParams::new(tool);
    call.arguments = arguments.as_object().cloned();
    let mut meta = RequestMetaObject::new();
    meta.set_log_level(LoggingLevel::Info);
    call.meta = Some(meta);
    let result = client.call_tool(call).await.expect("the call is answered");
    assert_ne!(result.is_error, Some(true), "{result:?}");
    let result = serde_json::to_value(result).expect("JSON");
    result["content"][0]["text"].as_str().expect("a text").to_owned()
}

async fn lists_and_reads(client: &Client) {
    let tools = client.list_all_tools().await.expect("tools");
    assert!(tools.iter().any(|tool| tool.name == "test_simple_text"), "{tools:?}");
    let prompts = client.list_all_prompts().await.expect("prompts");
    let name = "test_prompt_with_arguments";
    assert!(prompts.iter().any(|prompt| prompt.name == name), "{prompts:?}");
    let arguments = json!({ "arg1": "a", "arg2": "b" }).as_object().cloned().expect("an object");
    let get = GetPromptRequestParams::new(name).with_arguments(arguments);
    let prompt = client.get_prompt(get).await.expect("the prompt");
    let prompt = serde_json::to_value(prompt).expect("JSON");
    let said = &prompt["messages"][0]["content"]["text"];
    assert_eq!(said, "Prompt with arguments: arg1='a', arg2='b'");
    let values = client.complete_prompt_simple(name, "arg1", "a").await.expect("completions");
    assert!(values.is_empty(), "{values:?}");
    let resources = client.list_all_resources().await.expect("resources");
    assert!(resources.iter().any(|r| r.uri == "test://static-text"), "{resources:?}");
    let templates = client.list_all_resource_templates().await.expect("templates");
    assert_eq!(templates[0].uri_template, "test://template/{id}/data");
    let read = ReadResourceRequestParams::new("test://template/7/data");
    let read = client.read_resource(read).await.expect("the resource");
    let text = serde_json::to_value(read).expect("JSON")["contents"][0]["text"].clone();
    let data: serde_json::Value =
        serde_json::from_str(text.as_str().expect("a text")).expect("JSON in the text");
    assert_eq!(data["id"], "7", "{data}");
}

async fn is_notified(client: &Client, person: &Person) {
    text(client, "test_tool_with_progress".into(), json!({})).await;
    text(client, "test_tool_with_logging".into(), json!({})).await;
    // The SDK handles notifications concurrently with responses.
    acceptance::eventually("it is told of progress and log messages", || async {
        let progress = person.progress.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let logged = person.logged.lock().unwrap_or_else(PoisonError::into_inner).len();
        progress == [0.0, 50.0, 100.0] && logged == 3
    })
    .await;
}

async fn everything_works(lifecycle: ClientLifecycleMode, asks: &[(&str, Value, &str)]) {
    let everything = Everything::with_one_era_servers().await;
    let person = Person::default();
    let transport = StreamableHttpClientTransport::from_uri(everything.gateway.mcp_url());
    let is_legacy = matches!(lifecycle, ClientLifecycleMode::Initialize);
    let client = person.clone().serve_with_lifecycle(transport, lifecycle).await;
    let client = client.expect("the official client connects");
    lists_and_reads(&client).await;
    if is_legacy {
        client.set_level(SetLevelRequestParams::new(LoggingLevel::Info)).await.expect("a level");
    }
    is_notified(&client, &person).await;
    for (tool, arguments, expected) in asks {
        assert_eq!(text(&client, (*tool).to_owned(), arguments.clone()).await, *expected);
    }
    for far in ["legacy_http", "legacy_stdio", "modern_http", "modern_stdio"] {
        let deployed = text(&client, format!("deploy_{far}"), json!({ "where": far })).await;
        assert_eq!(deployed, format!("deployed to {far}"));
    }
    client.cancel().await.expect("the client ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_sdk_uses_all_features_of_2026_07_28() {
    let modern =
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let asks = [
        ("test_streaming_elicitation", json!({}), "elicitation accept"),
        ("test_input_required_result_sampling", json!({}), "Model said: Paris"),
        ("test_input_required_result_list_roots", json!({}), "Client exposed 1 root(s)."),
    ];
    everything_works(modern, &asks).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_sdk_uses_all_features_of_2025_11_25() {
    let asks = [
        ("test_streaming_elicitation", json!({}), "elicitation accept"),
        ("test_sampling", json!({ "prompt": "Where?" }), "LLM response: Paris"),
    ];
    everything_works(ClientLifecycleMode::Initialize, &asks).await;
}
