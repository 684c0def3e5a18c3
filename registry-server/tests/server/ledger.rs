//! The ledger: the time of several servers on one Postgres, and the end of a recovery.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use acceptance::postgres::database;
use registry_core::{Document, Kind, Timestamp};
use registry_proto::v1::{
    self, account_answer::Outcome, ledger_service_client::LedgerServiceClient,
};
use registry_server::{
    clock::{Clock, SystemClock},
    store::{GenerationCause, NewAccessEvent, Store},
};
use serde_json::json;

use crate::harness::{TestServer, batch, eventually, register};

/// A wall clock that is wrong by this number of days.
struct WrongClock(i64);

impl Clock for WrongClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(SystemClock.now().as_millis() + self.0 * 24 * 3_600_000)
    }
}

/// A wall clock that is fast by this number of seconds.
#[derive(Default)]
struct FastClock(AtomicI64);

impl FastClock {
    fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for FastClock {
    fn now(&self) -> Timestamp {
        let ahead = self.0.load(Ordering::SeqCst) * 1_000;
        Timestamp::from_millis(SystemClock.now().as_millis() + ahead)
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

#[tokio::test(flavor = "multi_thread")]
async fn recovery_that_is_over_is_not_shown_before_the_next_report() {
    let clock = Arc::new(FastClock::default());
    let server = TestServer::with_clock(&[], clock.clone()).await;
    server.registry().await.apply_changes(batch([register(policy())])).await.unwrap();
    eventually("the server knows the budget", || async { window(&server).await.is_some() }).await;
    let window = window(&server).await.unwrap();
    let database = format!("sqlite:{}", server.directory.path().join("registry.db").display());
    let store = Store::open_existing(&database.parse().unwrap()).await.unwrap();
    let event = NewAccessEvent {
        at: clock.now(),
        principal: "operator".to_owned(),
        method: "local".to_owned(),
        address: String::new(),
        detail: "ledger recover".to_owned(),
    };
    store.start_generation(GenerationCause::Restored(&event), clock.now()).await.unwrap();
    store.close().await;
    let client = LedgerServiceClient::new(server.channel().await);
    let text = |text: &str| text.to_owned();
    let key = v1::BudgetKey { policy: text("p"), budget: text("b"), subject: text("fleet") };
    let recovery_and_available = || async {
        let wanted = v1::GetBudgetRequest { key: Some(key.clone()), window: window.clone() };
        let shown = client.clone().get_budget(wanted).await.unwrap().into_inner();
        let listed = v1::ListBudgetsRequest::default();
        let listed = client.clone().list_budgets(listed).await.unwrap().into_inner();
        let available = shown.budget.unwrap().available;
        assert_eq!(listed.budgets[0].available, available);
        assert_eq!(listed.recovery.is_some(), shown.recovery.is_some());
        assert_eq!(shown.is_recovering, shown.recovery.is_some());
        (shown.recovery, available)
    };
    let (recovery, available) = recovery_and_available().await;
    let recovery = recovery.unwrap();
    assert_eq!((&*recovery.awaited_gateways, &*available), (&[text("anonymous")][..], "0"));
    // The process is awaited for an hour.
    let seconds = recovery.remaining.unwrap().seconds;
    assert!((3_000..3_700).contains(&seconds), "{seconds}");
    clock.advance(3_700);
    assert_eq!(recovery_and_available().await, (None, text("10")));
}
