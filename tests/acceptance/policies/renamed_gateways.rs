//! Budgets of gateways whose principal changes.

use std::fs;

use acceptance::{Gateway, GatewayOptions, ModernClient, access::Guarded, eventually};
use gateway_testkit::{McpServer, Received};
use serde_json::{Value, json};
use tonic::Code;

use super::{
    agent, bank, bank_at,
    budgets::{DOLLAR, FakeGateway, Totals, fleet_budget, reason, shown, waiting},
    limit, roles,
};

/// The catalog with one agent, and a budget for four calls.
fn clerk_with_four_calls() -> [Value; 2] {
    let mut catalog = bank();
    catalog["agents"] = json!([agent("clerk", &[("charge", "1.0.0")])]);
    let budget = json!({ "name": "b", "per": "fleet", "limit": "2", "window": "total" });
    let price = json!({ "perCall": "0.5" });
    [catalog, limit("1.0.0", &json!({ "price": price, "budgets": [budget] }))]
}

async fn charge_twice(gateway: &Gateway) {
    gateway.ready().await;
    gateway.upstreams_up(1).await;
    let clerk = ModernClient::agent(&gateway.mcp_url(), "clerk", "1.0.0");
    for _ in 0..2 {
        let answer = clerk.call("charge", json!({ "amount": 1 })).await;
        assert!(!answer.is_tool_error(), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_with_new_name_is_charged_once() {
    let charge = |received: &Received| match received.rpc_method() {
        "tools/call" => received.result(&json!({ "resultType": "complete", "content": [] })),
        _ => received.unknown_method(),
    };
    let upstream = McpServer::modern().with_tool_names(&["charge", "balance"]).start(charge).await;
    for is_registry_away in [false, true] {
        let mut guarded = Guarded::start(&[]);
        for file in clerk_with_four_calls() {
            let applied = roles::apply(&guarded, &guarded.admin, &file);
            assert!(applied.success(), "{applied:?}");
        }
        let dir = tempfile::tempdir().expect("a directory");
        let token = dir.path().join("gateway.token");
        fs::write(&token, guarded.token("old", "fleet", "gateway")).expect("written");
        let options = GatewayOptions {
            source: format!(
                "grpc://{}\n  tokenFile: {}",
                guarded.registry.address,
                token.display()
            ),
            targets: bank_at(&upstream.url()),
            runtime: None,
            more: String::new(),
        };
        let mut gateway = Gateway::start(&options);
        charge_twice(&gateway).await;
        if is_registry_away {
            guarded.registry.process.kill_9();
        }
        gateway.process.stop();
        if is_registry_away {
            guarded.registry.restart();
        }
        fs::write(&token, guarded.token("new", "fleet", "gateway")).expect("written");
        gateway.restart(&options);
        eventually("the rights under the old name are released", || async {
            shown(&guarded)["budget"]["exposed"] == "1"
        })
        .await;
        charge_twice(&gateway).await;
        eventually("the registry has the spending under both names", || async {
            let shown = shown(&guarded);
            let budget = &shown["budget"];
            let amounts = ["settled", "exposed", "overshoot"].map(|name| &budget[name]);
            let account =
                |account: &Value| (account["gateway"].clone(), account["settled"].clone());
            let accounts = shown["accounts"].as_array().expect("a list").iter().map(account);
            amounts == ["2", "2", "0"]
                && accounts.eq([(json!("new"), json!("1")), (json!("old"), json!("1"))])
        })
        .await;
    }
}

#[tokio::test]
async fn only_proven_owner_is_accepted() {
    let guarded = fleet_budget();
    let a = FakeGateway::start(&guarded, "a").await;
    let granted = a.send(a.message(a.account(Totals::default(), Some(waiting(6 * DOLLAR))))).await;
    let owner = granted.expect("an answer").owner.expect("an owner");
    assert_eq!(owner.gateway, "a");
    let b = FakeGateway::start(&guarded, "b").await;
    let mut closing = b.message(b.account(Totals { settled: DOLLAR, ..Totals::default() }, None));
    closing.accounts[0].is_final = true;
    let accounts = || {
        let account = |account: &Value| {
            ["gateway", "granted", "settled"].map(|name| account[name].as_str().map(str::to_owned))
        };
        let shown = shown(&guarded);
        let accounts = shown["accounts"].as_array().expect("a list");
        accounts.iter().map(account).collect::<Vec<_>>()
    };
    let row = |row: [&str; 3]| row.map(|text| Some(text.to_owned()));

    // A report with an invalid proof, or the proof of another process, is the sender's own.
    let mut forged = closing.clone();
    forged.owner = Some(owner.clone());
    forged.owner.as_mut().expect("an owner").proof = vec![0; 32].into();
    b.send(forged).await.expect("an answer");
    assert_eq!(accounts(), [row(["a", "6", "0"]), row(["b", "0", "1"])]);
    let mut other = closing.clone();
    (other.owner, other.process) = (Some(owner.clone()), "b".repeat(32));
    b.send(other).await.expect("an answer");
    assert_eq!(accounts(), [row(["a", "6", "0"]), row(["b", "0", "1"])]);

    let mut wide = closing.clone();
    (wide.owner, wide.ended_processes) = (Some(owner.clone()), vec!["c".repeat(32)]);
    let status = b.send(wide).await.expect_err("a report about two processes");
    assert_eq!(reason(&status), (Code::InvalidArgument, "INVALID_REQUEST".to_owned()));
    assert_eq!(accounts(), [row(["a", "6", "0"]), row(["b", "0", "1"])]);

    let mut proven = closing.clone();
    proven.owner = Some(owner.clone());
    let answer = b.send(proven).await.expect("an answer");
    assert_eq!(answer.owner.as_ref(), Some(&owner));
    assert_eq!(accounts(), [row(["a", "6", "1"]), row(["b", "0", "1"])]);
    assert_eq!(shown(&guarded)["budget"]["exposed"], "2", "the account is closed");
}

#[tokio::test]
async fn copied_file_ends_no_running_process() {
    let guarded = fleet_budget();
    let a = FakeGateway::start(&guarded, "a").await;
    let granted = a.send(a.message(a.account(Totals::default(), Some(waiting(6 * DOLLAR))))).await;
    let owner = granted.expect("an answer").owner;
    let b = FakeGateway::start(&guarded, "b").await;
    let spent = b.account(Totals { settled: DOLLAR, ..Totals::default() }, None);
    let mut running = b.message(spent);
    running.owner = owner;
    let mut end = running.clone();
    end.ended_processes = vec![b.epoch.clone()];
    end.accounts[0].is_final = true;
    let status = b.send(end.clone()).await.expect_err("the process reports");
    assert_eq!(reason(&status), (Code::FailedPrecondition, "PROCESS_RUNNING".to_owned()));
    let budget = || shown(&guarded)["budget"].clone();
    assert_eq!((&budget()["exposed"], &budget()["settled"]), (&json!("6"), &json!("0")));
    // The process has a new credential, and stops.
    b.send(running).await.expect("an answer");
    b.send(end).await.expect("an answer");
    assert_eq!((&budget()["exposed"], &budget()["settled"]), (&json!("1"), &json!("1")));
}
