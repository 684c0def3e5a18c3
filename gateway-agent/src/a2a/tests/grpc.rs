//! The gRPC binding.

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};
use tokio::task::yield_now;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{
    grpc_client::GrpcClient,
    harness::{A2aBench, OWN_CONTEXT, OWN_TASK, message},
    streams::payloads,
};
use crate::mcp::tests::relayed::acceptable;

const HELPER: &str = "office/helper";

/// A message to `office/helper`.
fn addressed(text: &str) -> Value {
    let mut message = message(text);
    message["tenant"] = json!(HELPER);
    message
}

/// A request for a task of `office/helper`.
fn of_task(id: &Value) -> Value {
    json!({ "tenant": HELPER, "id": id })
}

/// The code of a status, and the reason and domain of its `ErrorInfo`.
fn reason(status: &Status) -> (Code, String, String) {
    let info = status.get_details_error_info().unwrap_or_else(|| panic!("no info: {status:?}"));
    (status.code(), info.reason, info.domain)
}

#[tokio::test]
async fn task_has_one_id_in_all_bindings() {
    let bench = A2aBench::start([]).await;
    let (client, known) = (GrpcClient::new(&bench, "a"), bench.started_task().await);
    let answer = client.unary("SendMessage", addressed("go")).await.unwrap();
    let task = answer["task"].clone();
    assert_eq!((&task["id"], &task["contextId"]), (&known["id"], &known["contextId"]));
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
    for own in [OWN_TASK, OWN_CONTEXT] {
        assert!(!answer.to_string().contains(own), "ids are sealed");
    }
    let sent = bench.agent.seen("SendMessage")[1].body["params"]["message"].clone();
    assert_eq!(sent["parts"], message("go")["message"]["parts"]);
    let read = client.unary("GetTask", of_task(&task["id"])).await.unwrap();
    assert_eq!(read["id"], task["id"]);
    let canceled = client.unary("CancelTask", of_task(&task["id"])).await.unwrap();
    assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED");
    let listed = client.unary("ListTasks", json!({})).await.unwrap();
    assert_eq!((&listed["totalSize"], &listed["tasks"][0]["id"]), (&json!(1), &task["id"]));
}

#[tokio::test]
async fn agent_is_named_by_tenant_or_metadata() {
    let bench = A2aBench::start([]).await;
    let client = GrpcClient::new(&bench, "a");
    let mut by_metadata = message("go");
    by_metadata["metadata"] = json!({ "agent": HELPER });
    client.unary("SendMessage", by_metadata).await.unwrap();
    let mut with_version = message("go");
    with_version["tenant"] = json!("office/helper@1.0.0");
    client.unary("SendMessage", with_version).await.unwrap();
    let status = client.unary("SendMessage", message("go")).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(bench.agent.seen("SendMessage").iter().all(|s| s.body["params"]["tenant"].is_null()));
}

#[tokio::test]
async fn events_are_streamed() {
    let bench = A2aBench::start([]).await;
    let client = GrpcClient::new(&bench, "a");
    let events = client.events("SendStreamingMessage", addressed("go")).await;
    assert_eq!(payloads(&events), ["task", "artifact", "status"]);
    let id = events[0]["task"]["id"].clone();
    assert_eq!(events[2]["statusUpdate"]["taskId"], id);
    let events = client.events("SubscribeToTask", of_task(&id)).await;
    assert_eq!(payloads(&events), ["task", "artifact", "status"]);
}

#[tokio::test]
async fn errors_have_the_domain_of_their_origin() {
    let bench = A2aBench::start([]).await;
    let id = bench.started_task().await["id"].clone();
    let before = bench.agent.all_seen().len();
    let client = GrpcClient::new(&bench, "a");
    let stranger = GrpcClient::new(&bench, "stranger");
    let gateway = |code, reason: &str| (code, reason.to_owned(), "gateway-agent".to_owned());
    let a2a = |code, reason: &str| (code, reason.to_owned(), "a2a-protocol.org".to_owned());
    let denied = stranger.unary("SendMessage", addressed("go")).await.unwrap_err();
    assert_eq!(reason(&denied), gateway(Code::NotFound, "AGENT_NOT_FOUND"));
    let denied = stranger.open("SendStreamingMessage", addressed("go")).await.unwrap_err();
    assert_eq!(reason(&denied), gateway(Code::NotFound, "AGENT_NOT_FOUND"));
    let foreign = GrpcClient::new(&bench, "").unary("GetTask", of_task(&id)).await.unwrap_err();
    assert_eq!(reason(&foreign), a2a(Code::NotFound, "TASK_NOT_FOUND"));
    let mut invalid = addressed("go");
    invalid["message"]["parts"][1]["data"] = json!({ "subject": "go" });
    let invalid = client.unary("SendMessage", invalid).await.unwrap_err();
    assert_eq!(invalid.code(), Code::InvalidArgument);
    let pointer = invalid.get_details_error_info().unwrap().metadata["pointer"].clone();
    assert!(pointer.starts_with("/message/parts/1/data"), "{pointer}");
    assert!(invalid.get_details_bad_request().is_some());
    let config = json!({ "tenant": HELPER, "taskId": id, "url": "https://client.example/hook" });
    let push = client.unary("CreateTaskPushNotificationConfig", config).await.unwrap_err();
    let expected = a2a(Code::FailedPrecondition, "PUSH_NOTIFICATION_NOT_SUPPORTED");
    assert_eq!(reason(&push), expected);
    let card = client.unary("GetExtendedAgentCard", json!({ "tenant": HELPER })).await;
    let expected = a2a(Code::FailedPrecondition, "UNSUPPORTED_OPERATION");
    assert_eq!(reason(&card.unwrap_err()), expected);
    let large = client.unary("SendMessage", addressed(&"x".repeat(64 * 1024))).await.unwrap_err();
    assert_eq!(large.code(), Code::InvalidArgument, "{large:?}");
    assert_eq!(bench.agent.all_seen().len(), before);
}

#[tokio::test]
async fn other_versions_are_not_supported() {
    let bench = A2aBench::start([]).await;
    for version in ["0.3", "2.0", ""] {
        let client = GrpcClient::new(&bench, "a").with_version(Some(version));
        let status = client.unary("SendMessage", addressed("go")).await.unwrap_err();
        assert_eq!(reason(&status).1, "VERSION_NOT_SUPPORTED", "{version:?}");
    }
    let client = GrpcClient::new(&bench, "a").with_version(None);
    client.unary("SendMessage", addressed("go")).await.unwrap();
}

#[tokio::test]
async fn requests_that_are_no_call_are_rejected() {
    let bench = A2aBench::start([]).await;
    let call = |method: &str, media_type: &str, body: &'static [u8]| {
        Request::post(format!("/{}/{method}", a2a_grpc::SERVICE))
            .header("host", "localhost:7080")
            .header("content-type", media_type)
            .body(Body::from(body))
            .unwrap()
    };
    let other = bench.got(call("GetTask", "application/json", b"{}")).await;
    assert_eq!((other.status.as_u16(), other.headers.get("grpc-status")), (415, None));
    for (method, body, code) in [
        ("Other", &b"\0\0\0\0\0"[..], "12"),
        ("GetTask", b"\x01\0\0\0\0", "12"),
        ("GetTask", b"\0\0\0\0\x09x", "3"),
        ("GetTask", b"", "3"),
    ] {
        let got = bench.got(call(method, "application/grpc", body)).await;
        assert_eq!((got.status.as_u16(), got.text.as_str()), (200, ""), "{method} {body:?}");
        assert_eq!(got.headers["grpc-status"], code, "{method} {body:?}");
    }
}

#[tokio::test]
async fn streams_are_limited_and_closing_cancels_nothing() {
    let bench = A2aBench::start([]).await;
    let client = GrpcClient::new(&bench, "a");
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = client.open("SendStreamingMessage", addressed("endless")).await.unwrap();
        stream.message().await.unwrap().unwrap();
        open.push(stream);
    }
    let status = client.open("SendStreamingMessage", addressed("go")).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    drop(open);
    // The places are free when the gateway has closed the streams of the agent.
    let mut stream = loop {
        match client.open("SendStreamingMessage", addressed("go")).await {
            Ok(stream) => break stream,
            Err(status) => assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}"),
        }
        yield_now().await;
    };
    let mut events = 0;
    while stream.message().await.unwrap().is_some() {
        events += 1;
    }
    assert_eq!(events, 3);
    acceptable(|| bench.agent.seen("SendStreamingMessage").len() == 3).await;
    assert_eq!(bench.agent.seen("CancelTask").len(), 0);
}

#[tokio::test]
async fn stop_of_the_gateway_is_no_end_of_a_task() {
    let bench = A2aBench::start([]).await;
    let client = GrpcClient::new(&bench, "a");
    let mut stream = client.open("SendStreamingMessage", addressed("endless")).await.unwrap();
    bench.bench.gateway.close_streams();
    let status = loop {
        match stream.message().await {
            Ok(event) => assert!(event.is_some(), "the stream ended without an error"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::Unavailable);
    bench.surface.shutdown().await;
}
