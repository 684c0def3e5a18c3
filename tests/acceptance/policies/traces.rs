//! Calls of traces: reports of gateways, and their callers.

use acceptance::{
    Registry,
    access::{Authorized, Bearer, Guarded},
};
use registry_proto::v1::{self, trace_service_client::TraceServiceClient};
use serde_json::{Value, json};
use tonic::{Code, Status, service::interceptor::InterceptedService};

use super::{
    budgets::reason,
    relayed_budgets::{SecureRelay, relay_of},
    roles,
};

const TRACE: &str = "AIO-TR-20250326-0001";

async fn client(registry: &Registry, token: String) -> TraceServiceClient<Authorized> {
    TraceServiceClient::new(InterceptedService::new(registry.channel().await, Bearer(token)))
}

/// A call of an account that the registry issued a token for.
fn call(number: u64, subject: &str) -> v1::ReportedTraceCall {
    let millis = i64::try_from(number).expect("small");
    v1::ReportedTraceCall {
        number,
        issuer: "registry".to_owned(),
        subject: subject.to_owned(),
        trace_id: TRACE.to_owned(),
        start_time: Some(prost_types::Timestamp { seconds: 1_700_000_000 + millis, nanos: 0 }),
        call_json: json!({ "id": number, "agent": "reader", "method": "help", "status": "ok" })
            .to_string(),
    }
}

fn report(calls: Vec<v1::ReportedTraceCall>) -> v1::ReportTraceCallsRequest {
    v1::ReportTraceCallsRequest { process: "a".repeat(32), calls, gateway: String::new() }
}

/// The accounts of the calls that `registryctl trace` shows.
fn shown(guarded: &Guarded, token: &str) -> Vec<(String, usize)> {
    let shown = roles::run(guarded, token, &["trace", TRACE]);
    assert!(shown.success(), "{shown:?}");
    let graphs = shown.json();
    let account = |graph: &Value| {
        let calls = graph["calls"].as_array().expect("calls").len();
        (graph["subject"].as_str().expect("a text").to_owned(), calls)
    };
    graphs.as_array().expect("a list").iter().map(account).collect()
}

fn of(subject: &str, calls: usize) -> (String, usize) {
    (subject.to_owned(), calls)
}

/// The numbers of an account's calls.
async fn numbers(
    client: &mut TraceServiceClient<Authorized>,
    (issuer, subject): (&str, &str),
) -> Result<Vec<u64>, Status> {
    let (mut numbers, mut page_token) = (Vec::new(), String::new());
    loop {
        let wanted = v1::ListTraceCallsRequest {
            trace_id: TRACE.to_owned(),
            issuer: issuer.to_owned(),
            subject: subject.to_owned(),
            page_size: 1,
            page_token,
        };
        let page = client.list_trace_calls(wanted).await?.into_inner();
        numbers.extend(page.calls.iter().map(|call| call.number));
        if page.next_page_token.is_empty() {
            return Ok(numbers);
        }
        page_token = page.next_page_token;
    }
}

#[tokio::test]
async fn auditors_see_all_traces_and_others_their_own() {
    let guarded = Guarded::start(&[]);
    let token = guarded.token("g", "fleet", "gateway");
    let mut gateway = client(&guarded.registry, token).await;
    let calls = vec![call(1, "ann"), call(2, "bob"), call(3, "ann")];
    for _ in 0..2 {
        gateway.report_trace_calls(report(calls.clone())).await.expect("stored");
    }
    let auditor = guarded.token("eve", "fleet", "auditor");
    assert_eq!(shown(&guarded, &auditor), [of("ann", 2), of("bob", 1)]);
    for role in ["reader", "publisher", "governor", "approver"] {
        assert_eq!(shown(&guarded, &guarded.token("bob", "t", role)), [of("bob", 1)], "{role}");
        assert!(shown(&guarded, &guarded.token("zoe", "t", role)).is_empty(), "{role}");
    }
    let bob = guarded.token("bob", "t", "reader");
    let mut bob = client(&guarded.registry, bob).await;
    let own = numbers(&mut bob, ("registry", "ann")).await.expect("listed");
    assert_eq!(own, [2], "the account of another caller is ignored");
    let of_caller = numbers(&mut gateway, ("registry", "ann")).await.expect("listed");
    assert_eq!(of_caller, [1, 3]);
    let none = numbers(&mut gateway, ("", "")).await.expect("listed");
    assert!(none.is_empty(), "a gateway names the account of its caller");
}

#[tokio::test]
async fn invalid_calls_leave_other_calls() {
    let guarded = Guarded::start(&[]);
    let mut gateway = client(&guarded.registry, guarded.token("g", "fleet", "gateway")).await;
    let valid = || call(9, "ann");
    let invalid = [
        v1::ReportedTraceCall { number: 0, ..valid() },
        v1::ReportedTraceCall { issuer: String::new(), ..valid() },
        v1::ReportedTraceCall { subject: "a\0".to_owned(), ..valid() },
        v1::ReportedTraceCall { trace_id: "t".repeat(513), ..valid() },
        v1::ReportedTraceCall { start_time: None, ..valid() },
        v1::ReportedTraceCall { call_json: "[]".to_owned(), ..valid() },
        v1::ReportedTraceCall {
            call_json: format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 14)),
            ..valid()
        },
    ];
    let calls = [&invalid[..], &[valid()]].concat();
    gateway.report_trace_calls(report(calls)).await.expect("stored");
    assert_eq!(shown(&guarded, &guarded.admin), [of("ann", 1)]);
    let many = report(vec![valid(); 1_001]);
    let status = gateway.report_trace_calls(many).await.expect_err("too many");
    assert_eq!(reason(&status), (Code::InvalidArgument, "LIMIT_EXCEEDED".to_owned()));
    let anonymous = v1::ReportTraceCallsRequest { process: "a".to_owned(), ..report(Vec::new()) };
    let status = gateway.report_trace_calls(anonymous).await.expect_err("no process");
    assert_eq!(status.code(), Code::InvalidArgument);
    let forged = v1::ReportTraceCallsRequest { gateway: "b".to_owned(), ..report(Vec::new()) };
    let status = gateway.report_trace_calls(forged).await.expect_err("it is forged");
    assert_eq!(reason(&status), (Code::PermissionDenied, "PERMISSION_DENIED".to_owned()));
}

#[tokio::test]
async fn chain_of_relays_forwards_traces() {
    let guarded = Guarded::start(&[]);
    let near = relay_of(&guarded);
    let far = SecureRelay::start(&near.server, &near.token("relay-2", "relay"));
    let mut gateway = client(&far.server, far.token("gateway-1", "gateway")).await;
    gateway.report_trace_calls(report(vec![call(1, "ann"), call(2, "bob")])).await.expect("stored");
    assert_eq!(numbers(&mut gateway, ("registry", "ann")).await.expect("listed"), [1]);
    let graphs = roles::run(&guarded, &guarded.admin, &["trace", TRACE]).json();
    assert_eq!(graphs[0]["calls"][0]["gateway"], "gateway-1", "{graphs}");
    let mut auditor = client(&far.server, far.token("r", "auditor")).await;
    let status = numbers(&mut auditor, ("", "")).await.expect_err("a relay");
    assert_eq!(reason(&status), (Code::FailedPrecondition, "READ_ONLY_RELAY".to_owned()));
}
