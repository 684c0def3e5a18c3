//! Rates that two gateways share.

use acceptance::{Gateway, GatewayOptions, Registry, access::Guarded, eventually};
use gateway_testkit::{McpServer, Received, Server};
use serde_json::{Value, json};

use super::{
    agent, applied, bank, bank_at,
    budgets::{DOLLAR, FakeGateway, waiting},
    limit, roles,
};

/// The calls in a window, which does not end during a test.
const LIMIT: usize = 4;

fn rates() -> Value {
    json!([{ "per": ["tool"], "limit": LIMIT, "window": "P1000D", "reach": "fleet" }])
}

/// Two gateways of one registry, and the server behind them.
struct Fleet {
    registry: Registry,
    upstream: Server,
    gateways: [Gateway; 2],
}

impl Fleet {
    async fn start() -> Self {
        let answer = |received: &Received| match received.rpc_method() {
            "tools/call" => received.result(&json!({ "resultType": "complete", "content": [] })),
            _ => received.unknown_method(),
        };
        let upstream = McpServer::modern().with_tool_names(&["charge", "balance"]);
        let upstream = upstream.start(answer).await;
        let registry = Registry::start();
        let mut file = bank();
        file["agents"] = json!([agent("clerk", &[("charge", "1.0.0"), ("balance", "1.0.0")])]);
        let budget = json!({ "name": "b", "per": "fleet", "limit": "1000", "window": "total" });
        file["policies"] = json!([
            { "name": "limit", "version": "1.0.0", "appliesTo": { "tools": ["charge"] },
              "rates": rates() },
            { "name": "costs", "version": "1.0.0", "appliesTo": { "tools": ["balance"] },
              "price": { "perCall": "0.01" }, "budgets": [budget] },
        ]);
        applied(&registry, &file);
        let options = GatewayOptions {
            source: format!("grpc://{}", registry.address),
            targets: bank_at(&upstream.url()),
            runtime: None,
            more: String::new(),
        };
        let gateways = [(); 2].map(|()| Gateway::start(&options));
        for gateway in &gateways {
            gateway.ready().await;
            gateway.upstreams_up(1).await;
        }
        let fleet = Self { registry, upstream, gateways };
        for gateway in [0, 1] {
            // A call that needs the ledger shows that the gateway is connected to it.
            let is_paid = || async { fleet.call_tool(gateway, "balance").await.is_null() };
            eventually("the ledger answers", is_paid).await;
        }
        fleet
    }

    async fn call(&self, gateway: usize) -> Value {
        self.call_tool(gateway, "charge").await
    }

    /// Calls a tool through a gateway. Returns the reason of a denial, or null.
    async fn call_tool(&self, gateway: usize, tool: &str) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": { "name": tool, "arguments": {} } });
        let request = reqwest::Client::new()
            .post(self.gateways[gateway].mcp_url())
            .header("content-type", "application/json")
            .header("x-agent-name", "clerk")
            .body(message.to_string());
        let answer: Value = request.send().await.expect("an answer").json().await.expect("JSON");
        let denial = &answer["result"]["_meta"]["registry/governance"];
        if denial["reason"] == "RATE_LIMITED" {
            assert!(denial["error"]["details"]["retryAfterMs"].is_u64(), "{answer}");
        }
        denial["reason"].clone()
    }

    /// The calls of the rate that the upstream received.
    fn sent(&self) -> usize {
        let calls = self.upstream.seen("tools/call");
        calls.iter().filter(|call| call.body["params"]["name"] == "charge").count()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_share_a_fleet_rate() {
    let fleet = Fleet::start().await;
    // A call can be denied while the other gateway returns the rights that it does not need.
    eventually("all calls of the rate are admitted", || async {
        for gateway in [0, 1] {
            fleet.call(gateway).await;
        }
        fleet.sent() >= LIMIT
    })
    .await;
    for gateway in [0, 1] {
        assert_eq!(fleet.call(gateway).await, "RATE_LIMITED");
    }
    assert_eq!(fleet.sent(), LIMIT);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_calls_stay_within_fleet_rate() {
    let fleet = Fleet::start().await;
    let calls = (0..4 * LIMIT).map(|number| fleet.call(number % 2));
    let denied = futures_util::future::join_all(calls).await;
    assert!(fleet.sent() <= LIMIT);
    assert_eq!(denied.iter().filter(|reason| reason.is_null()).count(), fleet.sent());
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_count_alone_without_registry() {
    let mut fleet = Fleet::start().await;
    fleet.registry.process.kill_9();
    for gateway in [0, 1] {
        for _ in 0..LIMIT {
            assert_eq!(fleet.call(gateway).await, Value::Null);
        }
        assert_eq!(fleet.call(gateway).await, "RATE_LIMITED");
    }
    assert_eq!(fleet.sent(), 2 * LIMIT);
}

#[tokio::test]
async fn ledger_grants_calls_and_lists_budgets_only() {
    let guarded = Guarded::start(&[]);
    let policy =
        roles::apply(&guarded, &guarded.admin, &limit("1.0.0", &json!({ "rates": rates() })));
    assert!(policy.success(), "{policy:?}");
    let gateway = FakeGateway::start(&guarded, "a").await;
    // A call has the amount of a dollar.
    let rate = format!("rate:tool:{LIMIT}/P1000D");
    let calls = i64::try_from(LIMIT).expect("small") * DOLLAR;
    let granted = gateway.want_from(&rate, waiting(calls)).await;
    assert_eq!(granted.granted_micros, calls);
    assert_eq!(gateway.want_from(&rate, waiting(calls + DOLLAR)).await.granted_micros, calls);
    let listed = roles::run(&guarded, &guarded.admin, &["budget", "list"]).json();
    assert_eq!(listed, json!([]));
}
