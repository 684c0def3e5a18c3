//! The flow of the governance protocol with the policy `seed-004`: $10 per agent, $0.015 per call.
//! Inspection of results is tested in `inspection`.

use std::fs;

use acceptance::{Gateway, GatewayOptions, eventually};
use futures_util::future::join_all;
use gateway_testkit::{McpServer, Received, Server};
use serde_json::{Value, json};

use super::{agent, bank, bank_at};

/// The calls that 10.00 pays at 0.015.
const PAID: usize = 666;
const AT_ONCE: usize = 37;

struct Seed {
    upstream: Server,
    gateway: Gateway,
    _dir: tempfile::TempDir,
}

impl Seed {
    async fn start() -> Self {
        let charge = |received: &Received| match received.rpc_method() {
            "tools/call" => received.result(&json!({
                "resultType": "complete", "structuredContent": received.body["params"]["arguments"],
                "content": [],
            })),
            _ => received.unknown_method(),
        };
        let upstream = McpServer::modern().with_tool_names(&["charge", "balance"]);
        let upstream = upstream.start(charge).await;
        let mut file = bank();
        let budget = json!({ "name": "agent-total", "per": "agent", "limit": "10.00",
            "window": "total", "unpriced": "deny" });
        file["policies"] = json!([{ "name": "seed-004", "version": "1.0.0",
            "price": { "perCall": "0.015" }, "budgets": [budget] }]);
        file["agents"] = json!([agent("clerk", &[("charge", "1.0.0")])]);
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("registry.json");
        fs::write(&path, file.to_string()).expect("written");
        let gateway = Gateway::start(&GatewayOptions {
            source: format!("file://{}", path.display()),
            targets: bank_at(&upstream.url()),
            runtime: Some("{ undeclaredDependency: deny }".to_owned()),
            more: "admin: 127.0.0.1:0\ngovernance:\n  denials: error\n".to_owned(),
        });
        gateway.ready().await;
        gateway.upstreams_up(1).await;
        Self { upstream, gateway, _dir: dir }
    }

    /// Calls a tool with a message of the protocol, without a session.
    async fn call(&self, tool: &str, amount: usize) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": { "name": tool, "arguments": { "amount": amount } } });
        let request = reqwest::Client::new()
            .post(self.gateway.mcp_url())
            .header("content-type", "application/json")
            .header("x-agent-name", "clerk")
            .body(message.to_string());
        request.send().await.expect("an answer").json().await.expect("JSON")
    }

    /// Charges an amount, again while the ledger does not answer in time.
    async fn charge(&self, amount: usize) -> Value {
        loop {
            let answer = self.call("charge", amount).await;
            if answer["error"]["data"]["error"]["details"]["isTimeout"] != true {
                return answer;
            }
        }
    }

    /// The amounts that the upstream received, in ascending order.
    fn received(&self) -> Vec<u64> {
        let calls = self.upstream.seen("tools/call");
        let amount = |call: &Received| call.body["params"]["arguments"]["amount"].as_u64();
        let mut amounts: Vec<_> = calls.iter().filter_map(amount).collect();
        amounts.sort_unstable();
        amounts
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn seed_budget_admits_666_calls_in_order() {
    let seed = Seed::start().await;

    // Authorization precedes the budget: an undeclared tool costs nothing.
    assert_eq!(seed.call("balance", 0).await["error"]["code"], -32602);

    // The budget has room, the tool receives the original arguments, and the agent its result.
    for batch in 0..PAID / AT_ONCE {
        let numbers: Vec<_> = (batch * AT_ONCE..(batch + 1) * AT_ONCE).collect();
        let answers = join_all(numbers.iter().map(|number| seed.charge(*number))).await;
        for (number, answer) in numbers.iter().zip(answers) {
            assert_eq!(answer["result"]["structuredContent"]["amount"], *number, "{answer}");
        }
    }
    assert!(seed.received().into_iter().eq(0..PAID as u64));

    // The costs are tracked: 666 × 0.015 = 9.99, so one more call does not fit.
    let denied = seed.call("charge", PAID).await;
    assert_eq!(denied["error"]["code"], -32001, "{denied}");
    assert_eq!(denied["error"]["message"], "Budget limit exceeded");
    let data = &denied["error"]["data"];
    assert_eq!(data["reason"], "BUDGET_EXCEEDED");
    let details = &data["error"]["details"];
    let amounts = |amounts: &Value| {
        ["limit", "spent", "requested"].map(|name| amounts[name].as_str().unwrap_or("").to_owned())
    };
    assert_eq!(amounts(details), ["10.00", "9.99", "0.02"]);
    assert_eq!(amounts(&details["exact"]), ["10", "9.99", "0.015"]);
    assert_eq!(details["scope"], "agent");
    assert_eq!(seed.received().len(), PAID, "the tool does not receive the denied call");
    let charged = || seed.gateway.process.logged(&[" audit: ", "charged=0.015"]).len();
    eventually("each charge is audited", || async { charged() == PAID }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn admin_address_lists_budgets_of_gateway() {
    let seed = Seed::start().await;
    let url = format!("{}/admin/budgets", seed.gateway.admin_url());
    let budgets = || async {
        reqwest::get(&url).await.expect("an answer").json::<Value>().await.expect("JSON")
    };
    let unused = json!({ "isLedgerAvailable": true, "ageMs": null, "budgets": [] });
    assert_eq!(budgets().await, unused);
    for number in 0..2 {
        assert!(seed.call("charge", number).await["error"].is_null());
    }
    eventually("the ledger has answered the report of the spending", || async {
        budgets().await["budgets"][0]["fleet"]["spent"] == "0.03"
    })
    .await;
    let listed = budgets().await;
    assert!(listed["ageMs"].as_u64().is_some_and(|age| age < 60_000), "{listed}");
    assert_eq!(listed["isLedgerAvailable"], true);
    let [budget] = &listed["budgets"].as_array().expect("a list")[..] else { panic!("{listed}") };
    let members = ["policy", "budget", "subject", "window"].map(|name| &budget[name]);
    assert_eq!(members, ["seed-004", "agent-total", "clerk", "total"]);
    let (fleet, gateway) = (&budget["fleet"], &budget["gateway"]);
    assert_eq!([&fleet["limit"], &fleet["inDoubt"]], ["10", "0"]);
    assert_eq!([&gateway["spent"], &gateway["reserved"]], ["0.03", "0"]);
    assert!(fleet["granted"].is_string() && gateway["granted"].is_string(), "{listed}");
    let posted = reqwest::Client::new().post(&url).send().await.expect("an answer");
    assert_eq!(posted.status(), 405);
}
