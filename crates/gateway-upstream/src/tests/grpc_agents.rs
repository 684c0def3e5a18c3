//! Agents over gRPC: operations, errors, connections and faults.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ::a2a::{ErrorKind, Failure, Operation, grpc};
use ::http::{HeaderMap, StatusCode};
use gateway_testkit::{GrpcCall, GrpcServer, GrpcStep, Reason};
use serde_json::{Value, json};

use super::{
    agent_operations::{events, message, operate, streamed, task},
    agents::{start_at, target_at},
    departures::client_credentials,
    *,
};

/// The response size limit of the tests.
const LIMIT: usize = 64 * 1024;

/// Starts an agent and its target. The agent answers probes by itself.
async fn start(
    reply: impl Fn(&GrpcCall) -> Vec<GrpcStep> + Send + Sync + 'static,
) -> (GrpcServer, Arc<Upstreams>) {
    let server = GrpcServer::start(move |call| match &call.request["id"] {
        id if id == "none" => failed(&Failure::task_not_found("none")),
        _ => reply(call),
    });
    let server = server.await;
    let upstreams = start_at(target(&server), limits(), TIMING);
    upstreams.until_up().await;
    (server, upstreams)
}

fn target(server: &GrpcServer) -> TransportConfig {
    let mut transport = http_at(&server.url());
    let TransportConfig::Http { headers, is_grpc, .. } = &mut transport else { unreachable!() };
    headers.insert("Authorization".to_owned(), SecretSource::text("Bearer ours"));
    *is_grpc = true;
    transport
}

fn succeeded() -> GrpcStep {
    GrpcStep::status(0)
}

fn failed(failure: &Failure) -> Vec<GrpcStep> {
    vec![GrpcStep::Trailers(grpc::write_failure(failure))]
}

/// The status of a server that is no agent.
fn plain_status(code: i32) -> Vec<GrpcStep> {
    vec![GrpcStep::status(code)]
}

fn completed() -> Value {
    task("a2a-1.0", "completed")
}

fn sent_task() -> Vec<GrpcStep> {
    vec![GrpcStep::Message(json!({ "task": completed() })), succeeded()]
}

async fn send(upstreams: &Upstreams) -> Result<Value, Error> {
    operate(upstreams, Operation::SendMessage, message(), None).await
}

#[tokio::test]
async fn operations_reach_agent_over_one_connection() {
    let (server, upstreams) = start(|call| match call.method() {
        "SendMessage" => sent_task(),
        _ => vec![GrpcStep::Message(completed()), succeeded()],
    })
    .await;
    let TargetState::Up { speaks } = upstreams.state() else { panic!("the target is down") };
    assert_eq!(speaks, "a2a-1.0-grpc");
    assert_eq!(send(&upstreams).await.unwrap(), json!({ "task": completed() }));
    for operation in [Operation::GetTask, Operation::CancelTask] {
        let got = operate(&upstreams, operation, json!({ "id": "other" }), None).await;
        assert_eq!(got.unwrap(), completed(), "{operation:?}");
    }
    let sent = server.seen("SendMessage").remove(0);
    assert_eq!(sent.path, "/lf.a2a.v1.A2AService/SendMessage");
    for (name, value) in [
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("a2a-version", "1.0"),
        ("authorization", "Bearer ours"),
    ] {
        assert_eq!(sent.text(name), Some(value), "{name}");
    }
    let timeout = sent.text("grpc-timeout").unwrap().strip_suffix('m').unwrap();
    assert!((1_000..=1_300).contains(&timeout.parse::<u32>().unwrap()), "{timeout}");
    assert_eq!(sent.request["message"]["metadata"]["skillId"], "skill");
    assert_eq!(sent.request["metadata"], json!({ "registry/hops": 3 }));
    let canceled = &server.seen("CancelTask")[0];
    assert_eq!(canceled.request["id"], "t", "the permit names the task");
    assert_eq!(server.connections(), 1);
    upstreams.shutdown().await;
}

#[tokio::test]
async fn tenant_of_agent_is_in_each_call() {
    let server = GrpcServer::start(|call| match call.method() {
        "SendMessage" => sent_task(),
        _ => failed(&Failure::task_not_found("none")),
    })
    .await;
    let tenant = Some("a/b".into());
    let config = TargetConfig { tenant, ..target_at(target(&server)) };
    let upstreams = Upstreams::start_with(&[config], limits(), TIMING);
    upstreams.until_up().await;
    send(&upstreams).await.unwrap();
    for method in ["GetTask", "SendMessage"] {
        assert_eq!(server.seen(method)[0].request["tenant"], "a/b", "{method}");
    }
    upstreams.shutdown().await;
}

#[tokio::test]
async fn agent_over_grpc_needs_no_card() {
    let (server, upstreams) = start(|_| sent_task()).await;
    // The server resets requests that are no calls. The last path is tried only without an error.
    eventually(|| async { !server.seen("agent.json").is_empty() }).await;
    send(&upstreams).await.unwrap();
    upstreams.shutdown().await;
}

#[tokio::test]
async fn rejected_method_over_grpc_starts_no_probe() {
    let (server, upstreams) = start(|_| plain_status(12)).await;
    for _ in 0..2 {
        let Err(Error::Agent(failure)) = send(&upstreams).await else { panic!("it succeeded") };
        assert_eq!(failure.kind, ErrorKind::MethodNotFound);
    }
    assert_eq!(server.seen("SendMessage").len(), 2);
    upstreams.shutdown().await;
}

#[tokio::test]
async fn stream_delivers_messages_until_last_event() {
    let (_server, upstreams) = start(|_| {
        let events = events(50).into_iter().map(GrpcStep::Message);
        events.chain([succeeded()]).collect()
    })
    .await;
    let (received, outcome) = streamed(&upstreams).await;
    assert_eq!(received, events(50));
    assert_eq!(outcome.unwrap(), Value::Null);
    upstreams.shutdown().await;
}

#[tokio::test]
async fn error_of_agent_has_its_kind_and_details() {
    let failure = Failure::invalid_params("/id", "é");
    // Servers send the status as the head or after it.
    for is_after_head in [false, true] {
        let sent = failure.clone();
        let (_server, upstreams) = start(move |_| {
            let head = is_after_head.then(|| GrpcStep::Bytes(Vec::new()));
            head.into_iter().chain(failed(&sent)).collect()
        })
        .await;
        let answer = operate(&upstreams, Operation::CancelTask, json!({ "id": "t" }), None).await;
        let Err(Error::Agent(read)) = answer else { panic!("{answer:?}") };
        assert_eq!(*read, failure);
        let (_, outcome) = streamed(&upstreams).await;
        let Err(Error::Agent(read)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(*read, failure);
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn status_of_proxy_is_no_error_of_agent() {
    type IsExpected = fn(&Error) -> bool;
    let statuses: [(i32, IsExpected); 4] = [
        (16, |error| matches!(error, Error::Refused { status: 401 })),
        (7, |error| matches!(error, Error::Refused { status: 403 })),
        (8, |error| matches!(error, Error::Refused { status: 429 })),
        (14, |error| {
            let what = ProtocolViolation::CallStatus("UNAVAILABLE");
            matches!(error, Error::Protocol { what: found } if *found == what)
        }),
    ];
    for (code, is_expected) in statuses {
        let (_server, upstreams) = start(move |_| plain_status(code)).await;
        for outcome in [send(&upstreams).await, streamed(&upstreams).await.1] {
            let error = outcome.unwrap_err();
            assert!(is_expected(&error), "{code}: {error:?}");
        }
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn server_without_service_is_no_agent() {
    let server = GrpcServer::start(|_| plain_status(12)).await;
    let upstreams = start_at(target(&server), limits(), TIMING);
    let reason = upstreams.until_down().await;
    assert!(reason.contains(&ProtocolViolation::NoCommonVersion.to_string()), "{reason}");
    upstreams.shutdown().await;
}

#[tokio::test]
async fn connection_is_replaced_once_after_go_away() {
    let (server, upstreams) = start(|_| sent_task()).await;
    send(&upstreams).await.unwrap();
    server.go_away();
    eventually(|| async {
        let sent = futures_util::future::join_all((0..10).map(|_| send(&upstreams))).await;
        assert!(sent.iter().all(Result::is_ok), "{sent:?}");
        server.connections() == 2
    })
    .await;
    upstreams.shutdown().await;
}

#[tokio::test]
async fn refused_message_is_sent_once_more() {
    let is_refused = AtomicBool::new(false);
    let (server, upstreams) = start(move |_| {
        if is_refused.swap(true, Ordering::Relaxed) {
            sent_task()
        } else {
            vec![GrpcStep::Reset(Reason::REFUSED_STREAM)]
        }
    })
    .await;
    assert_eq!(send(&upstreams).await.unwrap(), json!({ "task": completed() }));
    assert_eq!(server.seen("SendMessage").len(), 2);
    upstreams.shutdown().await;
}

#[tokio::test]
async fn reset_message_is_not_repeated() {
    let (server, upstreams) = start(|_| vec![GrpcStep::Reset(Reason::INTERNAL_ERROR)]).await;
    let error = send(&upstreams).await.unwrap_err();
    let is_closed = matches!(error, Error::Protocol { what: ProtocolViolation::Closed });
    assert!(is_closed && error.may_have_run(), "{error:?}");
    assert_eq!(server.seen("SendMessage").len(), 1);
    upstreams.shutdown().await;
}

/// The prefix of a message that is larger than the limit.
fn huge() -> GrpcStep {
    let prefix = [&[0][..], &(u32::try_from(LIMIT).unwrap() + 1).to_be_bytes()].concat();
    GrpcStep::Bytes(prefix)
}

fn is_invalid(error: &Error) -> bool {
    matches!(error, Error::Agent(failure) if failure.is_invalid_answer())
}

fn is_closed(error: &Error) -> bool {
    matches!(error, Error::Protocol { what: ProtocolViolation::Closed })
}

fn is_late(error: &Error) -> bool {
    matches!(error, Error::Timeout { phase: Phase::Call, after_ms: 300 })
}

#[tokio::test]
async fn faulty_answers_fail_with_typed_errors() {
    type IsExpected = fn(&Error) -> bool;
    let answer = || GrpcStep::Message(json!({ "task": completed() }));
    let faults: [(Vec<GrpcStep>, IsExpected); 9] = [
        (vec![GrpcStep::Hang], is_late),
        (vec![answer(), GrpcStep::Hang], is_late),
        (vec![answer(), GrpcStep::End], is_invalid),
        (vec![answer(), GrpcStep::Trailers(HeaderMap::new())], is_invalid),
        (vec![answer(), answer(), succeeded()], is_invalid),
        (vec![GrpcStep::Bytes(vec![0, 0, 0, 0, 1, 255]), succeeded()], is_invalid),
        (vec![succeeded()], is_invalid),
        (vec![GrpcStep::Bytes(vec![0; LIMIT + 1]), GrpcStep::Hang], |error| {
            matches!(error, Error::TooLarge { limit_bytes: LIMIT })
        }),
        (vec![GrpcStep::Status(StatusCode::BAD_GATEWAY)], |error| {
            matches!(error, Error::Protocol { what: ProtocolViolation::Status(502) })
        }),
    ];
    for (steps, is_expected) in faults {
        let served = steps.clone();
        let (_server, upstreams) = start(move |_| served.clone()).await;
        let error = send(&upstreams).await.unwrap_err();
        assert!(is_expected(&error), "{steps:?}: {error:?}");
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn faulty_streams_end_with_typed_errors() {
    type IsExpected = fn(&Error) -> bool;
    let faults: [(Vec<GrpcStep>, IsExpected); 7] = [
        (vec![GrpcStep::Hang], is_late),
        (vec![GrpcStep::End], is_closed),
        (vec![succeeded()], is_closed),
        (vec![GrpcStep::Trailers(HeaderMap::new())], is_invalid),
        (vec![GrpcStep::Bytes(vec![1, 0, 0, 0, 0]), GrpcStep::Hang], is_invalid),
        (vec![GrpcStep::Reset(Reason::CANCEL)], is_closed),
        (vec![huge(), GrpcStep::Hang], |error| {
            matches!(error, Error::TooLarge { limit_bytes: LIMIT })
        }),
    ];
    for (steps, is_expected) in faults {
        let served = steps.clone();
        let (_server, upstreams) = start(move |_| {
            let first = GrpcStep::Message(events(0).remove(0));
            [vec![first], served.clone()].concat()
        })
        .await;
        let (_, outcome) = streamed(&upstreams).await;
        let error = outcome.unwrap_err();
        assert!(is_expected(&error), "{steps:?}: {error:?}");
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn rejected_token_is_replaced() {
    let issued = AtomicUsize::new(0);
    let tokens = Server::serve(move |_| {
        let token = format!("t{}", issued.fetch_add(1, Ordering::Relaxed));
        let token = json!({ "access_token": token, "token_type": "Bearer", "expires_in": 3600 });
        async move { json_reply(200, &token) }
    })
    .await;
    let server = GrpcServer::start(|call| match call.text("authorization") {
        Some("Bearer t0") => plain_status(16),
        _ => failed(&Failure::task_not_found("none")),
    })
    .await;
    let mut transport = http_at(&server.url());
    let TransportConfig::Http { auth, is_grpc, .. } = &mut transport else { unreachable!() };
    (*auth, *is_grpc) = (Some(Box::new(client_credentials(tokens.url()))), true);
    let upstreams = start_at(transport, limits(), TIMING);
    upstreams.until_up().await;
    let calls = server.seen("GetTask");
    let used: Vec<_> = calls.iter().map(|call| call.text("authorization")).collect();
    assert_eq!(used[..2], [Some("Bearer t0"), Some("Bearer t1")]);
    upstreams.shutdown().await;
}
