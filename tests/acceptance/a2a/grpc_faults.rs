//! Agents over gRPC that hang, reset, flood and break the protocol: each operation ends in time with
//! an error, and the next one succeeds.

use std::time::Instant;

use gateway_testkit::{GrpcCall, GrpcServer, GrpcStep, Reason};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::{
    Agent, Caller, Scene,
    faults::{
        COMPLETED, HUNDRED_MB, LIMITS, Memory, PROMPT, WORKING, artifact, assert_answer_fails,
        assert_gateway_error, status, task,
    },
    skill,
};

/// The text of the message, which selects the fault.
fn fault_of(call: &GrpcCall) -> &str {
    let text = call.request.pointer("/message/parts/0/text");
    text.and_then(Value::as_str).unwrap_or_default()
}

/// A response with one huge message.
fn huge() -> Vec<GrpcStep> {
    let length = u32::try_from(HUNDRED_MB).expect("less than 4 GiB").to_be_bytes();
    let mut message = [&[0][..], &length].concat();
    message.resize(message.len() + HUNDRED_MB, b'x');
    vec![GrpcStep::Bytes(message), GrpcStep::status(0)]
}

/// The faults that end unary calls and streams.
fn fault(name: &str) -> Vec<GrpcStep> {
    match name {
        "hangs" => vec![GrpcStep::Hang],
        "resets" => vec![GrpcStep::Reset(Reason::INTERNAL_ERROR)],
        "refuses each attempt" => vec![GrpcStep::Reset(Reason::REFUSED_STREAM)],
        "ends without trailers" => vec![GrpcStep::End],
        "ends without status" => vec![GrpcStep::Trailers(HeaderMap::new())],
        "ends with status only" => vec![GrpcStep::status(0)],
        "is unavailable" => vec![GrpcStep::status(14)],
        "is no message" => vec![GrpcStep::Bytes(vec![0, 0, 0, 0, 1, 255]), GrpcStep::status(0)],
        "is compressed" => vec![GrpcStep::Bytes(vec![1, 0, 0, 0, 0]), GrpcStep::status(0)],
        "is huge" => huge(),
        other => panic!("`{other}`"),
    }
}

const FAULTS: [&str; 10] = [
    "hangs",
    "resets",
    "refuses each attempt",
    "ends without trailers",
    "ends without status",
    "ends with status only",
    "is unavailable",
    "is no message",
    "is compressed",
    "is huge",
];

fn unary(call: &GrpcCall) -> Vec<GrpcStep> {
    let good = json!({ "message": { "messageId": "reply-1", "role": "ROLE_AGENT",
        "contextId": "context-1", "parts": [{ "text": "good" }] } });
    match fault_of(call) {
        "" => vec![GrpcStep::Message(good), GrpcStep::status(0)],
        "answers without trailers" => vec![GrpcStep::Message(good), GrpcStep::End],
        "is a proxy" => vec![GrpcStep::Status(StatusCode::BAD_GATEWAY)],
        name => fault(name),
    }
}

fn streaming(call: &GrpcCall) -> Vec<GrpcStep> {
    let first = GrpcStep::Message(json!({ "task": task(WORKING) }));
    let end = match fault_of(call) {
        "" => vec![
            GrpcStep::Message(artifact("good")),
            GrpcStep::Message(status(COMPLETED)),
            GrpcStep::status(0),
        ],
        name => fault(name),
    };
    [vec![first], end].concat()
}

fn reply(call: &GrpcCall) -> Vec<GrpcStep> {
    match call.method() {
        "SendMessage" => unary(call),
        "SendStreamingMessage" => streaming(call),
        "GetTask" => vec![GrpcStep::status(5)],
        _ => vec![GrpcStep::status(12)],
    }
}

async fn start() -> (GrpcServer, Scene, Caller) {
    let server = GrpcServer::start(reply).await;
    let agent = Agent::new("faulty", &server.url(), vec![skill("work")]).over_grpc();
    let scene = Scene::start(&[agent], LIMITS).await;
    let caller = scene.caller("caller", "faulty");
    (server, scene, caller)
}

#[tokio::test(flavor = "multi_thread")]
async fn faulty_grpc_answers_fail_in_time() {
    let (_server, scene, caller) = start().await;
    let memory = Memory::of(&scene.gateway);
    for fault in FAULTS.into_iter().chain(["answers without trailers", "is a proxy"]) {
        assert_answer_fails(&caller, fault).await;
    }
    memory.assert_bounded(&scene.gateway);
}

#[tokio::test(flavor = "multi_thread")]
async fn faulty_grpc_streams_end_with_an_error() {
    let (_server, scene, caller) = start().await;
    let memory = Memory::of(&scene.gateway);
    for fault in FAULTS {
        let began = Instant::now();
        let messages = caller.stream("work", fault).await.rest().await;
        let error = messages.last().unwrap_or_else(|| panic!("{fault}: no answer"));
        assert_gateway_error(error, fault);
        assert!(began.elapsed() < PROMPT, "{fault} took {:?}", began.elapsed());
        let good = caller.stream("work", "").await.rest().await;
        assert_eq!(good.len(), 3, "after `{fault}`: {good:?}");
    }
    memory.assert_bounded(&scene.gateway);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_continue_after_go_away() {
    let (server, _scene, caller) = start().await;
    for _ in 0..3 {
        let good = caller.send("work", "").await;
        assert_eq!(good.result()["message"]["parts"][0]["text"], "good");
        server.go_away();
    }
}
