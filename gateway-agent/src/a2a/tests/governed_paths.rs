//! Each operation that reaches an agent is governed: the same policy denies all of them.

use a2a::Operation;
use gateway_upstream::Addresses;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use tonic::Code;
use tonic_types::StatusExt as _;

use super::{
    grpc_client::GrpcClient,
    harness::{A2aBench, caller, helper, message, pushing_helper},
    streams::endless,
};
use crate::{
    identity::settings::AuthenticationConfig,
    mcp::tests::harness::Setup,
    pipeline::PushSettings,
    testing::{Registered, policy},
};

/// The ids of push notification configurations. A deletion stops the notifications even if it is denied
/// at the agent.
const CONFIG: &str = "config";
const CONFIG_OF_GRPC: &str = "config-of-grpc";

/// Denies each action on each agent.
fn closed() -> Registered {
    let rule = "forbid (principal, action, resource);";
    policy("closed", json!({ "authorization": { "cedar": rule } }))
}

/// The parameters of an operation. `None`: it reaches no agent.
fn params(operation: Operation, task: &Value) -> Option<Value> {
    match operation {
        Operation::SendMessage | Operation::SendStreamingMessage => Some(message("go")),
        Operation::GetTask | Operation::CancelTask | Operation::SubscribeToTask => {
            Some(json!({ "id": task }))
        }
        Operation::CreatePushConfig => {
            Some(json!({ "taskId": task, "url": "https://client.example/hook" }))
        }
        Operation::DeletePushConfig => Some(json!({ "taskId": task, "id": CONFIG })),
        // The gateway answers these by itself. Lists request tasks by GetTask.
        Operation::ListTasks
        | Operation::GetPushConfig
        | Operation::ListPushConfigs
        | Operation::GetExtendedAgentCard => None,
    }
}

#[tokio::test]
async fn every_operation_that_reaches_an_agent_is_governed() {
    let push = PushSettings { addresses: Addresses::Public, allow_http: false };
    let a2a_url = Some("https://gateway.example".to_owned());
    let setup = Setup { push: Some(push), a2a_url, ..Setup::default() };
    let bench = A2aBench::start_with(setup, []).await;
    let task = bench.started_task().await["id"].clone();
    for id in [CONFIG, CONFIG_OF_GRPC] {
        let config = json!({ "taskId": task, "id": id, "url": "https://client.example/hook" });
        bench.rpc("a", "CreateTaskPushNotificationConfig", config).await.result();
    }
    bench.bench.publish(2, vec![pushing_helper(), caller(), closed()]);
    let before = bench.agent.all_seen().len();
    for operation in Operation::ALL {
        let Some(params) = params(operation, &task) else { continue };
        let mut addressed = params.clone();
        addressed["tenant"] = json!("office/helper");
        if operation == Operation::DeletePushConfig {
            addressed["id"] = json!(CONFIG_OF_GRPC);
        }
        let client = GrpcClient::new(&bench, "a");
        let status = if operation.is_streaming() {
            client.open(operation.name(), addressed).await.unwrap_err()
        } else {
            client.unary(operation.name(), addressed).await.unwrap_err()
        };
        assert_eq!(status.code(), Code::PermissionDenied, "{operation:?}: {status:?}");
        let info = status.get_details_error_info().unwrap();
        assert_eq!(info.metadata["policy"], "closed", "{operation:?}");
        let got = bench.rpc("a", operation.name(), params).await;
        assert_eq!(got.status, 403, "{operation:?}: {got:?}");
        let info = got.json()["error"]["data"][0].clone();
        assert_eq!(info["domain"], "gateway-agent", "{operation:?}");
        assert_eq!(info["metadata"]["policy"], "closed", "{operation:?}");
    }
    assert_eq!(bench.agent.all_seen().len(), before, "nothing was sent");
}

#[tokio::test]
async fn stream_needs_the_scopes_of_its_unary_operation() {
    let scopes = ["SendMessage", "GetTask"].map(|name| (name.to_owned(), vec!["s".to_owned()]));
    let scopes = scopes.into_iter().collect();
    let authentication = AuthenticationConfig { scopes, ..AuthenticationConfig::default() };
    let setup = Setup { authentication, ..Setup::default() };
    let bench = A2aBench::start_with(setup, []).await;
    for operation in [Operation::SendStreamingMessage, Operation::SubscribeToTask] {
        let params = params(operation, &json!("unknown")).unwrap();
        let got = bench.rpc("a", operation.name(), params).await;
        assert_eq!(got.status, 401, "{operation:?}: {got:?}");
        assert!(bench.agent.seen(operation.name()).is_empty());
    }
}

#[tokio::test]
async fn running_stream_ends_when_a_new_policy_denies_it() {
    let bench = A2aBench::start([]).await;
    let (_, rest) = endless(&bench).await;
    bench.bench.publish(2, vec![helper(), caller(), closed()]);
    let rest = rest.collect().await.unwrap().to_bytes();
    let rest = String::from_utf8(rest.to_vec()).unwrap();
    let last = rest.rsplit("data: ").next().unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(last["error"]["data"][0]["metadata"]["policy"], "closed", "{rest}");
    let got = bench.rpc("a", "SendMessage", message("go")).await;
    assert_eq!(got.status, 403, "{got:?}");
}

/// The metadata of the error of a message, without ids.
async fn denied(bench: &A2aBench, text: &str) -> Value {
    let got = bench.rpc("a", "SendMessage", message(text)).await;
    let mut info = got.json()["error"]["data"][0].clone();
    let metadata = info["metadata"].as_object_mut().unwrap();
    for id in ["agentId", "toolId", "invocationId"] {
        assert!(metadata.remove(id).is_some(), "{got:?}");
    }
    json!([info["reason"], info["metadata"]])
}

#[tokio::test]
async fn denial_of_message_has_details() {
    let members = json!({ "inspection": { "arguments": { "financial": "block" } } });
    let bench = A2aBench::start([policy("inspect", members)]).await;
    let expected = json!(["PII_DETECTED", { "policy": "inspect", "policyVersion": "1.0.0",
        "class": "financial", "direction": "arguments", "pointer": "P" }]);
    let mut found = denied(&bench, "card 4539 5787 6362 1486").await;
    assert!(found[1]["pointer"].is_string(), "{found}");
    found[1]["pointer"] = json!("P");
    assert_eq!(found, expected);
    assert!(bench.agent.seen("SendMessage").is_empty());

    let budget = json!({ "name": "b", "per": "fleet", "limit": "1", "window": "day" });
    let members = json!({ "price": { "perCall": "0.75" }, "budgets": [budget] });
    let bench = A2aBench::start([policy("cost", members)]).await;
    bench.rpc("a", "SendMessage", message("go")).await.result();
    let mut found = denied(&bench, "go").await;
    assert!(found[1]["resetsAt"].is_string(), "{found}");
    found[1]["resetsAt"] = json!("T");
    let expected = json!(["BUDGET_EXCEEDED", { "policy": "cost", "policyVersion": "1.0.0",
        "budget": "b", "scope": "fleet", "limit": "1", "spent": "0.75", "requested": "0.75",
        "reserved": found[1]["reserved"], "inDoubt": "0", "resetsAt": "T" }]);
    assert_eq!(found, expected);
}
