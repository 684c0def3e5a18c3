//! Budgets of gateways that follow relays.

use std::fs;

use acceptance::{
    Gateway, GatewayOptions, ModernClient, Registry,
    access::{Guarded, create_token, server},
    eventually,
};
use gateway_testkit::{McpServer, Received, Server};
use registry_proto::v1::{self, GrantRefusal};
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::Code;

use super::{
    agent, bank, bank_at,
    budgets::{DOLLAR, FakeGateway, Totals, fleet_budget, reason, shown, waiting},
    limit, roles,
};

/// A relay with authentication.
pub(super) struct SecureRelay {
    pub(super) server: Registry,
    database: String,
    dir: TempDir,
}

impl SecureRelay {
    /// Starts a relay with this token of its upstream.
    pub(super) fn start(upstream: &Registry, token: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let database = format!("sqlite:{}", dir.path().join("registry.db").display());
        // The first token makes the relay authenticate its callers.
        create_token(&database, "root", "platform", "admin");
        let file = dir.path().join("upstream.token");
        fs::write(&file, token).expect("written");
        let follow = format!("grpc://{}", upstream.address);
        let file = file.to_str().expect("UTF-8");
        let flags = ["--follow", &follow, "--follow-token-file", file];
        let server = Registry::start_with(&database, &flags);
        Self { server, database, dir }
    }

    pub(super) fn token(&self, name: &str, role: &str) -> String {
        create_token(&self.database, name, "fleet", role)
    }

    async fn gateway(&self, name: &str) -> FakeGateway {
        FakeGateway::with_token(&self.server, self.token(name, "gateway")).await
    }
}

pub(super) fn relay_of(guarded: &Guarded) -> SecureRelay {
    SecureRelay::start(&guarded.registry, &guarded.token("relay-1", "fleet", "relay"))
}

fn unavailable() -> (Code, String) {
    (Code::Unavailable, "UPSTREAM_UNAVAILABLE".to_owned())
}

#[tokio::test]
async fn chain_of_relays_forwards_principal_of_gateway() {
    let guarded = fleet_budget();
    let near = relay_of(&guarded);
    let far = SecureRelay::start(&near.server, &near.token("relay-2", "relay"));
    let gateway = far.gateway("gateway-1").await;
    assert_eq!(gateway.wait_for(10 * DOLLAR).await.granted_micros, 10 * DOLLAR);
    gateway
        .report(Totals { granted: 10 * DOLLAR, returned: 4 * DOLLAR, settled: 5 * DOLLAR })
        .await;
    let budget = shown(&guarded);
    assert_eq!(
        (&budget["budget"]["settled"], &budget["budget"]["available"]),
        (&json!("5"), &json!("4"))
    );
    let accounts = budget["accounts"].as_array().expect("a list");
    let gateways: Vec<_> = accounts.iter().map(|account| &account["gateway"]).collect();
    assert_eq!(gateways, ["gateway-1"]);
}

#[tokio::test]
async fn report_in_other_name_requires_role_relay() {
    let guarded = fleet_budget();
    let gateway = FakeGateway::start(&guarded, "a").await;
    let mut forged = gateway.message(gateway.account(Totals::default(), Some(waiting(DOLLAR))));
    forged.gateway = "b".to_owned();
    let denied = gateway.send(forged.clone()).await.expect_err("it is forged");
    let expected = (Code::PermissionDenied, "PERMISSION_DENIED".to_owned());
    assert_eq!(reason(&denied), expected);
    let all = v1::WatchRecallsRequest { all_gateways: true };
    let denied = gateway.client.clone().watch_recalls(all).await.expect_err("it is no relay");
    assert_eq!(reason(&denied), expected);
    let list = roles::run(&guarded, &guarded.admin, &["budget", "list"]);
    assert_eq!(list.json(), json!([]), "nothing was granted");

    // The upstream rejects the reports of a relay that has the role of a gateway only.
    let weak = SecureRelay::start(&guarded.registry, &guarded.token("relay", "fleet", "gateway"));
    let behind = weak.gateway("a").await;
    let report = behind.message(behind.account(Totals::default(), None));
    let status = behind.send(report).await.expect_err("the relay may not forward");
    assert_eq!(reason(&status), unavailable());
    // The relay itself rejects forged reports, too.
    let denied = behind.send(forged).await.expect_err("it is forged");
    assert_eq!(reason(&denied), expected);
}

#[tokio::test]
async fn recalls_reach_gateways_behind_relays() {
    let guarded = fleet_budget();
    let near = relay_of(&guarded);
    let far = SecureRelay::start(&near.server, &near.token("relay-2", "relay"));
    let holder = far.gateway("holder").await;
    let mut recalls = holder.recalls().await;
    holder.prefetch(10 * DOLLAR).await;
    let caller = FakeGateway::start(&guarded, "caller").await;
    assert_eq!(caller.wait_for(DOLLAR).await.refusal(), GrantRefusal::Recalling);
    let recall = recalls.message().await.expect("a message").expect("a recall");
    let accounts: Vec<_> =
        recall.accounts.iter().map(|account| (&*account.gateway, &*account.epoch)).collect();
    assert_eq!(accounts, [("holder", holder.epoch.as_str())]);
    holder.report(Totals { granted: 10 * DOLLAR, returned: 10 * DOLLAR, settled: 0 }).await;
    assert_eq!(caller.wait_for(DOLLAR).await.granted_micros, DOLLAR);
}

#[tokio::test]
async fn relay_without_upstream_is_unavailable() {
    let mut guarded = fleet_budget();
    let relay = relay_of(&guarded);
    let gateway = relay.gateway("a").await;
    let mut recalls = gateway.recalls().await;
    gateway.wait_for(DOLLAR).await;
    guarded.registry.process.kill_9();
    let report = || gateway.message(gateway.account(Totals::default(), None));
    let status = gateway.send(report()).await.expect_err("the registry is away");
    assert_eq!(reason(&status), unavailable());
    let ended = recalls.message().await.expect_err("the subscription is lost");
    assert_eq!(reason(&ended), unavailable());
    let watched = gateway.client.clone().watch_recalls(v1::WatchRecallsRequest::default()).await;
    assert_eq!(reason(&watched.expect_err("no subscription")), unavailable());
    guarded.registry.restart();
    eventually("the relay forwards again", || async { gateway.send(report()).await.is_ok() }).await;
    assert_eq!(gateway.wait_for(10 * DOLLAR).await.granted_micros, 10 * DOLLAR);
}

#[tokio::test]
async fn operators_are_sent_to_upstream_of_relay() {
    let registry = Registry::start();
    let relay = registry.start_relay(&[]);
    let key = ["limit", "b", "fleet"];
    let reason = ["--reason", "test", "--yes"];
    for command in [
        vec!["budget", "list"],
        [&["budget", "show"][..], &key].concat(),
        [&["budget", "adjust"][..], &key, &["--by", "1"], &reason].concat(),
        [&["budget", "reclaim"][..], &key, &["--gateway", "a"], &reason].concat(),
    ] {
        let refused = relay.ctl(&command);
        assert!(refused.code == 1 && refused.has_code("READ_ONLY_RELAY"), "{refused:?}");
        assert!(refused.stderr.contains(&registry.address), "{refused:?}");
    }
}

#[tokio::test]
async fn relay_is_exempt_from_rate_limit() {
    let guarded = Guarded::start(&["--rate-limit", "1", "--rate-burst", "1"]);
    for (role, is_limited) in [("relay", false), ("gateway", true)] {
        let caller =
            FakeGateway::with_token(&guarded.registry, guarded.token(role, "fleet", role)).await;
        let mut answers = Vec::new();
        for _ in 0..3 {
            answers
                .push(caller.send(caller.message(caller.account(Totals::default(), None))).await);
        }
        assert_eq!(answers.iter().any(Result::is_err), is_limited, "{role}: {answers:?}");
    }
}

/// The catalog with one agent, and a budget for two calls.
fn clerk_with_two_calls() -> [Value; 2] {
    let mut catalog = bank();
    catalog["agents"] = json!([agent("clerk", &[("charge", "1.0.0")])]);
    let budget = json!({ "name": "b", "per": "fleet", "limit": "0.03", "window": "total" });
    let price = json!({ "perCall": "0.015" });
    [catalog, limit("1.0.0", &json!({ "price": price, "budgets": [budget] }))]
}

/// A registry with that catalog, and the MCP server of the tools.
async fn two_calls() -> (Guarded, Server) {
    let charge = |received: &Received| match received.rpc_method() {
        "tools/call" => received.result(&json!({ "resultType": "complete", "content": [] })),
        _ => received.unknown_method(),
    };
    let upstream = McpServer::modern().with_tool_names(&["charge", "balance"]).start(charge).await;
    let guarded = Guarded::start(&[]);
    for file in clerk_with_two_calls() {
        let applied = roles::apply(&guarded, &guarded.admin, &file);
        assert!(applied.success(), "{applied:?}");
    }
    (guarded, upstream)
}

/// A gateway with a token of its registry or relay. The token is in the directory.
fn gateway_of(
    registry: &Registry,
    token: &str,
    dir: &TempDir,
    upstream: &Server,
) -> GatewayOptions {
    let file = dir.path().join("gateway.token");
    fs::write(&file, token).expect("written");
    GatewayOptions {
        source: format!("grpc://{}\n  tokenFile: {}", registry.address, file.display()),
        targets: bank_at(&upstream.url()),
        runtime: None,
        more: String::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_idle_gateway_delays_no_recovery() {
    let (mut guarded, upstream) = two_calls().await;
    let dir = tempfile::tempdir().expect("a directory");
    let token = guarded.token("gateway-1", "fleet", "gateway");
    let options = gateway_of(&guarded.registry, &token, &dir, &upstream);
    let mut gateway = Gateway::start(&options);
    gateway.ready().await;
    gateway.upstreams_up(1).await;
    let clerk = ModernClient::agent(&gateway.mcp_url(), "clerk", "1.0.0");
    let answer = clerk.call("charge", json!({ "amount": 1 })).await;
    assert!(!answer.is_tool_error(), "{answer:?}");
    eventually("the registry has the spending", || async {
        shown(&guarded)["budget"]["settled"] == "0.015"
    })
    .await;
    guarded.registry.process.kill_9();
    assert!(server(&guarded.database, &["ledger", "recover"]).status.success());
    guarded.registry.restart();
    assert_eq!(shown(&guarded)["isRecovering"], true);
    gateway.process.kill_9();
    gateway.restart(&options);
    eventually("the recovery waits for no gateway", || async {
        shown(&guarded)["awaitedGateways"] == json!([])
    })
    .await;
    assert_eq!(shown(&guarded)["accounts"][0]["gateway"], "gateway-1");
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_spends_from_registry_through_relay() {
    let (guarded, upstream) = two_calls().await;
    let relay = relay_of(&guarded);
    let token = relay.token("gateway-1", "gateway");
    let options = gateway_of(&relay.server, &token, &relay.dir, &upstream);
    let gateway = Gateway::start(&options);
    gateway.ready().await;
    gateway.upstreams_up(1).await;
    let clerk = ModernClient::agent(&gateway.mcp_url(), "clerk", "1.0.0");
    for _ in 0..2 {
        let answer = clerk.call("charge", json!({ "amount": 1 })).await;
        assert!(!answer.is_tool_error(), "{answer:?}");
    }
    let denied = clerk.call("charge", json!({ "amount": 1 })).await;
    let governance = &denied.result()["_meta"]["registry/governance"];
    assert_eq!(governance["reason"], "BUDGET_EXCEEDED", "{denied:?}");
    assert_eq!(upstream.seen("tools/call").len(), 2);
    eventually("the registry has the spending of the gateway", || async {
        let budget = shown(&guarded);
        budget["budget"]["settled"] == "0.03" && budget["accounts"][0]["gateway"] == "gateway-1"
    })
    .await;
}
