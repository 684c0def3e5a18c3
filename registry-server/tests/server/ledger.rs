//! The ledger of several servers on one Postgres.

use std::sync::Arc;

use acceptance::postgres::database;
use registry_core::{Document, Kind, Timestamp};
use registry_proto::v1::{
    self, account_answer::Outcome, ledger_service_client::LedgerServiceClient,
};
use registry_server::clock::{Clock, SystemClock};
use serde_json::json;

use crate::harness::{TestServer, batch, eventually, register};

/// A wall clock that is wrong by this number of days.
struct WrongClock(i64);

impl Clock for WrongClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(SystemClock.now().as_millis() + self.0 * 24 * 3_600_000)
    }
}

/// A policy with a budget for each year.
fn policy() -> v1::Entity {
    let budget = json!({ "name": "b", "per": "fleet", "limit": "10", "window": "year" });
    let document = json!({ "name": "p", "version": "1.0.0",
        "price": { "perCall": "1" }, "budgets": [budget] });
    Document::parse(Kind::Policy, &document).unwrap().entity().into()
}

/// The current window of the budget at a server. `None`: the server does not know the budget yet.
async fn window(server: &TestServer) -> Option<String> {
    let text = |text: &str| text.to_owned();
    let budget = v1::BudgetKey { policy: text("p"), budget: text("b"), subject: text("fleet") };
    let epoch = "a".repeat(32);
    let account =
        v1::AccountReport { budget: Some(budget), epoch: epoch.clone(), ..Default::default() };
    let report =
        v1::ReportSpendingRequest { process: epoch, accounts: vec![account], ..Default::default() };
    let mut client = LedgerServiceClient::new(server.channel().await);
    let mut answer = client.report_spending(report).await.unwrap().into_inner();
    match answer.accounts.remove(0).outcome.unwrap() {
        Outcome::State(state) => Some(state.window.unwrap().id),
        Outcome::Rejection(_) => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_with_wrong_clocks_share_windows() {
    let database = database().await;
    let flags = ["--database", database.url()];
    let slow = TestServer::with_clock(&flags, Arc::new(WrongClock(-400))).await;
    let fast = TestServer::with_clock(&flags, Arc::new(WrongClock(400))).await;
    slow.registry().await.apply_changes(batch([register(policy())])).await.unwrap();
    eventually("both servers know the budget", || async {
        window(&slow).await.is_some() && window(&fast).await.is_some()
    })
    .await;
    assert_eq!(window(&slow).await, window(&fast).await);
}
