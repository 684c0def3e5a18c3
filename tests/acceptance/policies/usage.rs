//! Usage of tools: reports of gateways, and queries.

use acceptance::{
    Gateway, GatewayOptions, ModernClient, Registry,
    access::{Authorized, Bearer, Guarded},
    postgres,
};
use gateway_testkit::{McpServer, Received};
use registry_proto::v1::{self, usage_service_client::UsageServiceClient};
use serde_json::{Value, json};
use tonic::{Code, Status, service::interceptor::InterceptedService};
use tonic_types::StatusExt as _;

use super::{
    agent, applied, bank, bank_at,
    budgets::reason,
    relayed_budgets::{SecureRelay, relay_of},
    roles,
};

/// One process of a gateway.
#[derive(Clone)]
struct FakeGateway {
    client: UsageServiceClient<Authorized>,
    process: String,
}

impl FakeGateway {
    async fn start(guarded: &Guarded, name: &str) -> Self {
        Self::with_token(&guarded.registry, guarded.token(name, "fleet", "gateway")).await
    }

    async fn with_token(registry: &Registry, token: String) -> Self {
        let channel = InterceptedService::new(registry.channel().await, Bearer(token));
        Self { client: UsageServiceClient::new(channel), process: "a".repeat(32) }
    }

    async fn send(&self, sequence: u64, usage: Vec<v1::ReportedUsage>) -> Result<(), Status> {
        let process = self.process.clone();
        let gateway = String::new();
        self.post(v1::ReportUsageRequest { process, sequence, usage, gateway }).await
    }

    async fn post(&self, report: v1::ReportUsageRequest) -> Result<(), Status> {
        self.client.clone().report_usage(report).await.map(drop)
    }

    async fn report(&self, sequence: u64, usage: &[v1::ReportedUsage]) {
        self.send(sequence, usage.to_vec()).await.expect("it is added");
    }
}

/// Calls of an agent of the bank at $0.015 each.
fn calls(agent: &str, tool: &str, calls: u32) -> v1::ReportedUsage {
    v1::ReportedUsage {
        age: None,
        agent: agent.to_owned(),
        team: "bank".to_owned(),
        principal: "(unknown)".to_owned(),
        tool: tool.to_owned(),
        verdict: "allow".to_owned(),
        call_count: calls.into(),
        cost_micros: i64::from(calls) * 15_000,
        duration: Some(prost_types::Duration { seconds: calls.into(), nanos: 0 }),
        request_bytes: 10,
        response_bytes: 20,
        finding_count: 2,
    }
}

fn hours_ago(hours: i64, usage: v1::ReportedUsage) -> v1::ReportedUsage {
    let age = prost_types::Duration { seconds: hours * 3_600, nanos: 0 };
    v1::ReportedUsage { age: Some(age), ..usage }
}

fn usage(guarded: &Guarded, token: &str, arguments: &[&str]) -> Value {
    let shown = roles::run(guarded, token, &[&["usage"], arguments].concat());
    assert!(shown.success(), "{shown:?}");
    shown.json()
}

/// One number of each row.
fn counts(rows: &Value, member: &str) -> Vec<(String, u64)> {
    let text = |row: &Value| row[member].as_str().unwrap_or_default().to_owned();
    let count = |row: &Value| (text(row), row["calls"].as_u64().expect("a number"));
    rows.as_array().expect("a list").iter().map(count).collect()
}

fn total(guarded: &Guarded) -> u64 {
    let rows = usage(guarded, &guarded.admin, &["--by", "agent"]);
    counts(&rows, "agent").iter().map(|(_, calls)| calls).sum()
}

#[tokio::test]
async fn repeated_and_late_reports_count_once() {
    let mut guarded = Guarded::start(&[]);
    let token = guarded.token("g", "fleet", "gateway");
    let gateway = FakeGateway::with_token(&guarded.registry, token.clone()).await;
    gateway.report(1, &[calls("a", "pay", 1)]).await;
    gateway.report(1, &[calls("a", "pay", 1)]).await;
    gateway.report(3, &[calls("a", "pay", 2)]).await;
    gateway.report(2, &[calls("a", "pay", 4)]).await;
    assert_eq!(total(&guarded), 3);
    guarded.registry.process.kill_9();
    guarded.registry.restart();
    let mut gateway = FakeGateway::with_token(&guarded.registry, token).await;
    gateway.report(3, &[calls("a", "pay", 2)]).await;
    assert_eq!(total(&guarded), 3);
    gateway.process = "b".repeat(32);
    gateway.report(1, &[calls("a", "pay", 8)]).await;
    assert_eq!(total(&guarded), 11, "the gateway has restarted");
}

#[tokio::test]
async fn report_at_two_servers_counts_once() {
    let database = postgres::database().await;
    let guarded = Guarded::start_on(database.url(), &[]);
    let second = Registry::start_with(database.url(), &[]);
    let token = guarded.token("g", "fleet", "gateway");
    let first = FakeGateway::with_token(&guarded.registry, token.clone()).await;
    let other = FakeGateway::with_token(&second, token).await;
    for sequence in 1..=20 {
        let usage = [calls("a", "pay", 1), calls("b", "pay", 1)];
        tokio::join!(first.report(sequence, &usage), other.report(sequence, &usage));
    }
    assert_eq!(total(&guarded), 40);
}

#[tokio::test]
async fn usage_belongs_to_authenticated_gateway() {
    let guarded = Guarded::start(&[]);
    for (name, count) in [("g1", 1), ("g2", 2)] {
        // Both claim to be the same process.
        let gateway = FakeGateway::start(&guarded, name).await;
        gateway.report(1, &[calls("a", "pay", count)]).await;
    }
    let rows = usage(&guarded, &guarded.admin, &["--by", "gateway"]);
    assert_eq!(counts(&rows, "gateway"), [("g2".to_owned(), 2), ("g1".to_owned(), 1)]);
    let rows = usage(&guarded, &guarded.admin, &["--by", "agent", "--gateway", "g1"]);
    assert_eq!(counts(&rows, "agent"), [("a".to_owned(), 1)]);
}

#[tokio::test]
async fn invalid_row_leaves_other_rows() {
    let guarded = Guarded::start(&[]);
    let gateway = FakeGateway::start(&guarded, "g").await;
    let valid = || calls("a", "pay", 1);
    let status = gateway.send(1, vec![valid(); 1_001]).await.expect_err("too many");
    assert_eq!(reason(&status), (Code::InvalidArgument, "LIMIT_EXCEEDED".to_owned()));
    let violations = status.get_details_bad_request().expect("the field").field_violations;
    assert_eq!(violations[0].field, "usage");
    assert_eq!(total(&guarded), 0);
    let invalid = [
        v1::ReportedUsage { call_count: u64::MAX, ..valid() },
        v1::ReportedUsage { cost_micros: i64::MIN, ..valid() },
        v1::ReportedUsage { cost_micros: i64::MAX, ..valid() },
        v1::ReportedUsage { request_bytes: u64::MAX, ..valid() },
        v1::ReportedUsage { tool: String::new(), ..valid() },
        v1::ReportedUsage { agent: "a\0".to_owned(), ..valid() },
    ];
    gateway.report(1, &[&invalid[..], &[valid()]].concat()).await;
    assert_eq!(total(&guarded), 1);
    let future = v1::ReportedUsage {
        age: Some(prost_types::Duration { seconds: i64::MIN, nanos: -1 }),
        ..valid()
    };
    gateway.report(2, &[future, hours_ago(i64::MAX / 3_600, valid())]).await;
    assert_eq!(total(&guarded), 2, "usage is never in the future, and 1970 is before --since");
}

#[tokio::test]
async fn usage_is_shown_by_property_and_interval() {
    let guarded = Guarded::start(&[]);
    let gateway = FakeGateway::start(&guarded, "g").await;
    let denied = v1::ReportedUsage {
        verdict: "deny:BUDGET_EXCEEDED".to_owned(),
        cost_micros: 0,
        ..calls("b", "pay", 1)
    };
    let old = hours_ago(50, calls("a", "pay", 4));
    gateway.report(1, &[calls("a", "pay", 2), calls("b", "read", 1), denied, old]).await;
    let auditor = guarded.token("r", "fleet", "auditor");
    let rows = usage(&guarded, &auditor, &["--by", "agent,tool,verdict", "--since", "24h"]);
    let row = |agent: &str, tool: &str, verdict: &str, calls: u64, cost: &str| {
        json!({
            "agent": agent, "tool": tool, "verdict": verdict, "calls": calls, "cost": cost,
            "currency": "USD", "durationMs": calls * 1_000, "requestBytes": 10, "responseBytes": 20,
            "findings": 2,
        })
    };
    let expected = json!([
        row("a", "pay", "allow", 2, "0.03"),
        row("b", "read", "allow", 1, "0.015"),
        row("b", "pay", "deny:BUDGET_EXCEEDED", 1, "0"),
    ]);
    assert_eq!(rows, expected);
    let rows = usage(&guarded, &auditor, &["--by", "team"]);
    assert_eq!(counts(&rows, "team"), [("bank".to_owned(), 8)]);
    assert_eq!(rows[0]["cost"], "0.105");
    let rows = usage(&guarded, &auditor, &["--by", "tool", "--agent", "b", "--verdict", "allow"]);
    assert_eq!(counts(&rows, "tool"), [("read".to_owned(), 1)]);
    let rows = usage(&guarded, &auditor, &["--by", "team", "--interval", "minute"]);
    let starts = counts(&rows, "startsAt");
    assert_eq!(starts.iter().map(|(_, calls)| *calls).collect::<Vec<_>>(), [4, 4]);
    assert!(starts[0].0.ends_with(":00:00.000Z"), "old usage is kept by hour: {starts:?}");
    let rows = usage(&guarded, &auditor, &["--by", "team", "--since", "3d", "--until", "24h"]);
    assert_eq!(counts(&rows, "team"), [("bank".to_owned(), 4)]);
    let empty = roles::run(&guarded, &auditor, &["usage", "--since", "24h", "--until", "3d"]);
    assert_eq!(empty.code, 2, "{empty:?}");
}

#[tokio::test]
async fn caller_with_scopes_sees_their_usage_only() {
    let guarded = Guarded::start(&[]);
    let gateway = FakeGateway::start(&guarded, "g").await;
    let usages = [calls("bank/a", "pay", 1), calls("other/b", "read", 2), calls("c", "pay", 4)];
    gateway.report(1, &usages).await;
    let scoped = |name: &str, scope: &str| {
        let create = ["token", "create", "--name", name, "--role", "auditor", "--scope", scope];
        let token = roles::run(&guarded, &guarded.admin, &[&create[..], &["--yes"]].concat());
        let token = token.json()["secret"].as_str().expect("a secret").to_owned();
        let rows = usage(&guarded, &token, &["--by", "agent"]);
        counts(&rows, "agent").into_iter().map(|(agent, _)| agent).collect::<Vec<_>>()
    };
    assert_eq!(scoped("s1", "bank/*"), ["bank/a"]);
    assert_eq!(scoped("s2", "tool/pay"), ["c", "bank/a"]);
    assert_eq!(scoped("s3", "agent/other/b"), ["other/b"]);
    assert!(scoped("s4", "policy/pay").is_empty());
    let denied = roles::run(&guarded, &guarded.token("p", "bank", "publisher"), &["usage"]);
    assert!(denied.code == 1 && denied.has_code("PERMISSION_DENIED"), "{denied:?}");
}

#[tokio::test]
async fn usage_has_pages_in_order() {
    let guarded = Guarded::start(&[]);
    let gateway = FakeGateway::start(&guarded, "g").await;
    let usages: Vec<_> = (0..5).map(|n| calls(&format!("a{n}"), "pay", 1)).collect();
    gateway.report(1, &usages).await;
    let mut client = UsageServiceClient::new(guarded.channel(&guarded.admin).await);
    let mut wanted = v1::QueryUsageRequest {
        group_by: vec![v1::UsageProperty::Agent.into()],
        page_size: 2,
        ..Default::default()
    };
    let mut agents = Vec::new();
    loop {
        let page = client.query_usage(wanted.clone()).await.expect("a page").into_inner();
        assert!(page.usage.len() <= 2);
        assert!(page.usage.iter().all(|usage| usage.tool.is_empty()));
        agents.extend(page.usage.into_iter().map(|usage| usage.agent));
        if page.next_page_token.is_empty() {
            break;
        }
        wanted.page_token = page.next_page_token;
    }
    assert_eq!(agents, ["a0", "a1", "a2", "a3", "a4"]);
    let other = v1::QueryUsageRequest { tool: "pay".to_owned(), ..wanted };
    let status = client.query_usage(other).await.expect_err("the token of another query");
    assert_eq!(status.code(), Code::InvalidArgument);
    let unknown = v1::QueryUsageRequest { group_by: vec![99], ..Default::default() };
    let status = client.query_usage(unknown).await.expect_err("no such property");
    assert_eq!(reason(&status), (Code::InvalidArgument, "INVALID_REQUEST".to_owned()));
    let time = Some(prost_types::Timestamp { seconds: 60, nanos: 0 });
    let empty = v1::QueryUsageRequest { start_time: time, end_time: time, ..Default::default() };
    let status = client.query_usage(empty).await.expect_err("an empty range");
    assert_eq!(reason(&status), (Code::InvalidArgument, "INVALID_REQUEST".to_owned()));
}

#[tokio::test]
async fn chain_of_relays_forwards_usage() {
    let guarded = Guarded::start(&[]);
    let near = relay_of(&guarded);
    let far = SecureRelay::start(&near.server, &near.token("relay-2", "relay"));
    let token = far.token("gateway-1", "gateway");
    let gateway = FakeGateway::with_token(&far.server, token).await;
    gateway.report(1, &[calls("a", "pay", 2)]).await;
    gateway.report(1, &[calls("a", "pay", 2)]).await;
    let rows = usage(&guarded, &guarded.admin, &["--by", "gateway"]);
    assert_eq!(counts(&rows, "gateway"), [("gateway-1".to_owned(), 2)]);
    let auditor = FakeGateway::with_token(&far.server, far.token("r", "auditor")).await;
    let mut client = auditor.client;
    let status = client.query_usage(v1::QueryUsageRequest::default()).await.expect_err("a relay");
    assert_eq!(reason(&status), (Code::FailedPrecondition, "READ_ONLY_RELAY".to_owned()));
}

#[tokio::test]
async fn usage_in_other_name_requires_role_relay() {
    let guarded = Guarded::start(&[]);
    let gateway = FakeGateway::start(&guarded, "a").await;
    let forged = v1::ReportUsageRequest {
        process: gateway.process.clone(),
        sequence: 1,
        usage: vec![calls("a", "pay", 1)],
        gateway: "b".to_owned(),
    };
    let denied = gateway.post(forged).await.expect_err("it is forged");
    assert_eq!(reason(&denied), (Code::PermissionDenied, "PERMISSION_DENIED".to_owned()));
    // The upstream rejects the reports of a relay that has the role of a gateway only.
    let weak = SecureRelay::start(&guarded.registry, &guarded.token("relay", "fleet", "gateway"));
    let behind = FakeGateway::with_token(&weak.server, weak.token("a", "gateway")).await;
    let status = behind.send(1, vec![calls("a", "pay", 1)]).await.expect_err("no role");
    assert_eq!(reason(&status), (Code::Unavailable, "UPSTREAM_UNAVAILABLE".to_owned()));
    assert_eq!(total(&guarded), 0);
}

/// A bank whose calls cost $0.015. The clerk may spend $0.03, and the teller any amount.
fn priced_bank() -> Value {
    let budget = json!({ "name": "b", "per": "agent", "limit": "0.03", "window": "total" });
    let mut file = bank();
    file["agents"] = ["clerk", "teller"].map(|name| agent(name, &[("charge", "1.0.0")])).into();
    file["policies"] = json!([
        { "name": "price", "version": "1.0.0", "price": { "perCall": "0.015" } },
        { "name": "limit", "version": "1.0.0", "appliesTo": { "callers": ["clerk"] }, "budgets": [budget] },
    ]);
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_at_two_gateways_are_summed() {
    let charge = |received: &Received| match received.rpc_method() {
        "tools/call" => received.result(&json!({ "resultType": "complete", "content": [] })),
        _ => received.unknown_method(),
    };
    let upstream = McpServer::modern().with_tool_names(&["charge", "balance"]).start(charge).await;
    let mut registry = Registry::start();
    applied(&registry, &priced_bank());
    let target = upstream.url();
    let options = GatewayOptions {
        source: format!("grpc://{}", registry.address),
        targets: bank_at(&target),
        runtime: Some("{ undeclaredDependency: deny }".to_owned()),
        more: String::new(),
    };
    let mut gateways = [Gateway::start(&options), Gateway::start(&options)];
    for gateway in &gateways {
        gateway.ready().await;
        gateway.upstreams_up(1).await;
    }
    for (gateway, name, is_denied) in [
        (&gateways[0], "teller", false),
        (&gateways[1], "teller", false),
        (&gateways[0], "clerk", false),
        (&gateways[0], "clerk", false),
        (&gateways[0], "clerk", true),
    ] {
        let client = ModernClient::agent(&gateway.mcp_url(), name, "1.0.0");
        let answer = client.call("charge", json!({ "amount": 1 })).await;
        assert_eq!(answer.is_tool_error(), is_denied, "{answer:?}");
    }
    registry.process.kill_9();
    registry.restart();
    for gateway in &mut gateways {
        // The last report precedes the exit.
        gateway.process.stop();
    }
    let rows = registry.json(&["usage", "--by", "agent,tool,verdict", "--since", "1h"]);
    let shown = |row: &Value| {
        let text = |member: &str| row[member].as_str().expect("a text").to_owned();
        let names = ["agent", "tool", "verdict", "cost"].map(text).join(" ");
        format!("{names} {}", row["calls"])
    };
    let shown: Vec<_> = rows.as_array().expect("a list").iter().map(shown).collect();
    let expected = [
        "clerk charge allow 0.03 2",
        "teller charge allow 0.03 2",
        "clerk charge deny:BUDGET_EXCEEDED 0 1",
    ];
    assert_eq!(shown, expected);
    assert!(rows[0]["requestBytes"].as_u64() > Some(0), "{rows}");
    let table = registry.run(&["usage"]);
    let heading = table.lines().next().expect("a line").split_whitespace();
    assert_eq!(heading.take(4).collect::<Vec<_>>(), ["AGENT", "TOOL", "CALLS", "COST"]);
}
