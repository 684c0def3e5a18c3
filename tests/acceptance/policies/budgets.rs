//! The ledger of budgets, with gateways that send single reports.

use std::collections::BTreeSet;

use acceptance::{
    Registry,
    access::{Authorized, Bearer, Guarded, server},
    postgres,
    registry::checkpoint_key,
};
use registry_proto::v1::{
    self, AccountRejection, GrantRefusal, account_answer::Outcome,
    ledger_service_client::LedgerServiceClient,
};
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use tonic::{Code, Status, service::interceptor::InterceptedService};
use tonic_types::StatusExt as _;

use super::{limit, roles};

/// Micro-units of one dollar.
pub(super) const DOLLAR: i64 = 1_000_000;

/// A registry with a budget of $10 for the fleet.
pub(super) fn fleet_budget() -> Guarded {
    let guarded = Guarded::start(&[]);
    set_limit(&guarded, "1.0.0", "10");
    guarded
}

fn set_limit(guarded: &Guarded, version: &str, amount: &str) {
    let budget = json!({ "name": "b", "per": "fleet", "limit": amount, "window": "total" });
    let price = json!({ "perCall": "0.015" });
    let policy = limit(version, &json!({ "price": price, "budgets": [budget] }));
    let applied = roles::apply(guarded, &guarded.admin, &policy);
    assert!(applied.success(), "{applied:?}");
}

/// One process of a gateway, whose account has the same epoch.
#[derive(Clone)]
pub(super) struct FakeGateway {
    pub(super) client: LedgerServiceClient<Authorized>,
    pub(super) epoch: String,
    generation: u64,
}

/// The totals of an account in micro-units.
#[derive(Clone, Copy, Default)]
pub(super) struct Totals {
    pub(super) granted: i64,
    pub(super) returned: i64,
    pub(super) settled: i64,
}

impl FakeGateway {
    pub(super) async fn start(guarded: &Guarded, name: &str) -> Self {
        Self::with_token(&guarded.registry, guarded.token(name, "fleet", "gateway")).await
    }

    pub(super) async fn with_token(registry: &Registry, token: String) -> Self {
        let channel = InterceptedService::new(registry.channel().await, Bearer(token));
        let client = LedgerServiceClient::new(channel);
        Self { client, epoch: "a".repeat(32), generation: 0 }
    }

    pub(super) fn account(
        &self,
        totals: Totals,
        want: Option<v1::GrantRequest>,
    ) -> v1::AccountReport {
        let key = |text: &str| text.to_owned();
        let budget =
            v1::BudgetKey { policy: key("limit"), budget: key("b"), subject: key("fleet") };
        v1::AccountReport {
            budget: Some(budget),
            window: String::new(),
            epoch: self.epoch.clone(),
            granted_micros: totals.granted,
            returned_micros: totals.returned,
            settled_micros: totals.settled,
            is_final: false,
            want,
            forced_micros: 0,
        }
    }

    pub(super) fn message(&self, account: v1::AccountReport) -> v1::ReportSpendingRequest {
        v1::ReportSpendingRequest {
            process: self.epoch.clone(),
            generation: self.generation,
            generation_proof: Vec::new().into(),
            complete_processes: vec![self.epoch.clone()],
            ended_processes: Vec::new(),
            accounts: vec![account],
            gateway: String::new(),
            owner: None,
        }
    }

    pub(super) async fn send(
        &self,
        report: v1::ReportSpendingRequest,
    ) -> Result<v1::ReportSpendingResponse, Status> {
        self.client.clone().report_spending(report).await.map(tonic::Response::into_inner)
    }

    async fn outcome(&self, account: v1::AccountReport) -> Outcome {
        let mut response = self.send(self.message(account)).await.expect("an answer");
        response.accounts.remove(0).outcome.expect("an outcome")
    }

    async fn state(&self, account: v1::AccountReport) -> v1::AccountState {
        match self.outcome(account).await {
            Outcome::State(state) => state,
            Outcome::Rejection(rejection) => panic!("rejected: {rejection}"),
        }
    }

    async fn rejection(&self, account: v1::AccountReport) -> AccountRejection {
        match self.outcome(account).await {
            Outcome::State(state) => panic!("accepted: {state:?}"),
            Outcome::Rejection(rejection) => {
                AccountRejection::try_from(rejection).expect("a known reason")
            }
        }
    }

    /// Reports totals without a request.
    pub(super) async fn report(&self, totals: Totals) -> v1::AccountState {
        self.state(self.account(totals, None)).await
    }

    /// Reports totals of another subject of the budget.
    pub(super) async fn report_about(&self, subject: &str, totals: Totals) {
        self.state(self.account_of(subject, totals)).await;
    }

    /// Whether the server knows the budget.
    pub(super) async fn is_known(&self, subject: &str) -> bool {
        let account = self.account_of(subject, Totals::default());
        matches!(self.outcome(account).await, Outcome::State(_))
    }

    /// A request for rights of another budget of the policy.
    pub(super) async fn want_from(&self, budget: &str, want: v1::GrantRequest) -> v1::AccountState {
        let mut account = self.account(Totals::default(), Some(want));
        budget.clone_into(&mut account.budget.as_mut().expect("a budget").budget);
        self.state(account).await
    }

    fn account_of(&self, subject: &str, totals: Totals) -> v1::AccountReport {
        let mut account = self.account(totals, None);
        subject.clone_into(&mut account.budget.as_mut().expect("a budget").subject);
        account
    }

    /// A report about several accounts.
    fn message_of(
        &self,
        accounts: impl IntoIterator<Item = v1::AccountReport>,
    ) -> v1::ReportSpendingRequest {
        let message = self.message(v1::AccountReport::default());
        v1::ReportSpendingRequest { accounts: accounts.into_iter().collect(), ..message }
    }

    /// A waiting call that needs one dollar of another subject of the budget.
    fn call_of(&self, subject: &str) -> v1::AccountReport {
        let account = self.account_of(subject, Totals::default());
        v1::AccountReport { want: Some(waiting(DOLLAR)), ..account }
    }

    /// A waiting call that needs this granted total.
    pub(super) async fn wait_for(&self, granted: i64) -> v1::AccountState {
        let totals = Totals::default();
        self.state(self.account(totals, Some(waiting(granted)))).await
    }

    /// A prefetch of this granted total.
    pub(super) async fn prefetch(&self, granted: i64) -> v1::AccountState {
        let want = v1::GrantRequest { minimum_micros: None, granted_micros: granted };
        self.state(self.account(Totals::default(), Some(want))).await
    }

    /// A stream of recalls that is active.
    pub(super) async fn recalls(&self) -> tonic::Streaming<v1::WatchRecallsResponse> {
        let stream = self.client.clone().watch_recalls(v1::WatchRecallsRequest::default()).await;
        let mut stream = stream.expect("a stream").into_inner();
        let first = stream.message().await.expect("a message").expect("the stream is open");
        assert!(first.accounts.is_empty());
        stream
    }
}

pub(super) fn waiting(granted: i64) -> v1::GrantRequest {
    v1::GrantRequest { minimum_micros: Some(granted), granted_micros: granted }
}

/// An account that has spent all its rights.
pub(super) fn spent(amount: i64) -> Totals {
    Totals { granted: amount, returned: 0, settled: amount }
}

pub(super) fn reason(status: &Status) -> (Code, String) {
    let info = status.get_details_error_info().expect("an ErrorInfo");
    (status.code(), info.reason)
}

pub(super) fn shown(guarded: &Guarded) -> Value {
    roles::run(guarded, &guarded.admin, &["budget", "show", "limit", "b", "fleet"]).json()
}

#[tokio::test]
async fn other_currency_is_rejected_after_first_amount() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let database = format!("sqlite:{}", dir.path().join("registry.db").display());
    Registry::start_with(&database, &["--currency", "USD"]).process.stop();
    let mut guarded = Guarded::start_on(&database, &["--currency", "EUR"]);
    set_limit(&guarded, "1.0.0", "10");
    FakeGateway::start(&guarded, "a").await.wait_for(DOLLAR).await;
    assert_eq!(shown(&guarded)["budget"]["currency"], "EUR");
    guarded.registry.process.stop();
    let key = checkpoint_key(&database);
    let key = key.to_str().expect("UTF-8");
    let flags =
        ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--checkpoint-key", key];
    for currency in [&[][..], &["--currency", "CHF"]] {
        let refused = server(&database, &[&flags[..], currency].concat());
        let why = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{why}");
        assert!(why.contains("--currency EUR"), "{why}");
    }
    guarded.registry.restart();
    assert_eq!(shown(&guarded)["budget"]["currency"], "EUR");
}

#[tokio::test]
async fn budget_grants_exactly_its_limit() {
    let guarded = fleet_budget();
    let gateway = FakeGateway::start(&guarded, "a").await;
    let state = gateway.wait_for(10 * DOLLAR).await;
    assert_eq!((state.granted_micros, state.refusal()), (10 * DOLLAR, GrantRefusal::Unspecified));
    gateway.report(spent(10 * DOLLAR)).await;
    let state = gateway.wait_for(10 * DOLLAR + 1).await;
    assert_eq!((state.granted_micros, state.refusal()), (10 * DOLLAR, GrantRefusal::Exhausted));
    let budget = state.budget.expect("the budget");
    assert_eq!((budget.limit_micros, budget.settled_micros), (10 * DOLLAR, 10 * DOLLAR));
}

#[tokio::test]
async fn limit_of_zero_grants_nothing() {
    let guarded = fleet_budget();
    set_limit(&guarded, "1.1.0", "0");
    let gateway = FakeGateway::start(&guarded, "a").await;
    assert_eq!(gateway.wait_for(1).await.refusal(), GrantRefusal::Exhausted);
    assert_eq!(gateway.prefetch(1).await.granted_micros, 0);
    assert_eq!(gateway.wait_for(0).await.refusal(), GrantRefusal::Unspecified);
}

#[tokio::test]
async fn concurrent_requests_of_limit_grant_one() {
    let guarded = fleet_budget();
    let gateways =
        [FakeGateway::start(&guarded, "a").await, FakeGateway::start(&guarded, "b").await];
    let [a, b] = &gateways;
    let (a, b) = tokio::join!(a.wait_for(10 * DOLLAR), b.wait_for(10 * DOLLAR));
    let granted = BTreeSet::from([a.granted_micros, b.granted_micros]);
    assert_eq!(granted, BTreeSet::from([0, 10 * DOLLAR]));
    let refused = if a.granted_micros == 0 { a } else { b };
    assert_eq!(refused.refusal(), GrantRefusal::Recalling, "the other one has unspent rights");
}

#[tokio::test]
async fn prefetch_receives_rest_that_waiting_call_leaves() {
    let guarded = fleet_budget();
    let [a, b, c] = [
        FakeGateway::start(&guarded, "a").await,
        FakeGateway::start(&guarded, "b").await,
        FakeGateway::start(&guarded, "c").await,
    ];
    a.wait_for(5 * DOLLAR).await;
    a.report(spent(5 * DOLLAR)).await;
    let state = b.wait_for(10 * DOLLAR).await;
    assert_eq!((state.granted_micros, state.refusal()), (0, GrantRefusal::Exhausted));
    let state = c.prefetch(10 * DOLLAR).await;
    assert_eq!((state.granted_micros, state.refusal()), (5 * DOLLAR, GrantRefusal::Unspecified));
}

#[tokio::test]
async fn new_limit_and_version_keep_spending() {
    let guarded = fleet_budget();
    let gateway = FakeGateway::start(&guarded, "a").await;
    gateway.wait_for(10 * DOLLAR).await;
    gateway.report(spent(10 * DOLLAR)).await;
    set_limit(&guarded, "1.1.0", "12");
    assert_eq!(gateway.wait_for(12 * DOLLAR).await.granted_micros, 12 * DOLLAR);
    set_limit(&guarded, "1.2.0", "5");
    let state = gateway.report(spent(10 * DOLLAR)).await;
    assert!(state.is_recalled, "the rights exceed the new limit");
    assert_eq!(state.budget.expect("the budget").settled_micros, 10 * DOLLAR);
}

#[tokio::test]
async fn release_starts_with_nothing_of_its_pre_release() {
    let guarded = Guarded::start(&[]);
    set_limit(&guarded, "1.0.0-rc.1", "10");
    let gateway = FakeGateway::start(&guarded, "a").await;
    let observed = gateway.want_from("b@1.0.0-rc.1", waiting(10 * DOLLAR)).await;
    assert_eq!(observed.granted_micros, 10 * DOLLAR);
    set_limit(&guarded, "1.0.0", "10");
    assert_eq!(gateway.wait_for(10 * DOLLAR).await.granted_micros, 10 * DOLLAR);
}

#[tokio::test]
async fn account_of_other_gateway_is_unchanged() {
    let guarded = fleet_budget();
    let (a, b) = (FakeGateway::start(&guarded, "a").await, FakeGateway::start(&guarded, "b").await);
    assert_eq!(a.epoch, b.epoch);
    a.wait_for(5 * DOLLAR).await;
    let returned = Totals { granted: 5 * DOLLAR, returned: 5 * DOLLAR, settled: 0 };
    b.report(returned).await;
    let accounts = shown(&guarded)["accounts"].clone();
    let totals = |gateway: &str| {
        let accounts = accounts.as_array().expect("a list").iter();
        let account = accounts.clone().find(|account| account["gateway"] == gateway);
        let account = account.expect("an account");
        (account["granted"].clone(), account["returned"].clone())
    };
    assert_eq!(totals("a"), (json!("5"), json!("0")));
    assert_eq!(totals("b"), (json!("5"), json!("5")));
}

#[tokio::test]
async fn forged_totals_have_no_effect() {
    let guarded = fleet_budget();
    let gateway = FakeGateway::start(&guarded, "a").await;
    gateway.wait_for(DOLLAR).await;
    let forged = |totals: Totals, want: Option<v1::GrantRequest>| {
        let gateway = gateway.clone();
        async move { gateway.rejection(gateway.account(totals, want)).await }
    };
    let negative = Totals { granted: 0, returned: 0, settled: -1 };
    assert_eq!(forged(negative, None).await, AccountRejection::Negative);
    let returned = Totals { granted: 0, returned: 1, settled: 0 };
    assert_eq!(forged(returned, None).await, AccountRejection::ReturnedTooMuch);
    let want = v1::GrantRequest { minimum_micros: Some(2), granted_micros: 1 };
    assert_eq!(forged(Totals::default(), Some(want)).await, AccountRejection::MinimumAboveWanted);
    let other = FakeGateway::start(&guarded, "b").await;
    let huge = Totals { granted: 0, returned: 0, settled: i64::MAX };
    other.report(huge).await;
    let excused = v1::AccountReport { forced_micros: i64::MAX, ..other.account(huge, None) };
    other.state(excused).await;
    other.report(Totals { granted: i64::MAX, returned: 0, settled: 0 }).await;
    let budget = shown(&guarded)["budget"].clone();
    assert_eq!((&budget["exposed"], &budget["settled"]), (&json!("1"), &json!("0")));
    assert_eq!(budget["unexplained"], "9223372036854.775807");
    let state = gateway.wait_for(10 * DOLLAR).await;
    assert_eq!(state.granted_micros, 10 * DOLLAR, "others have the whole limit");
}

#[tokio::test]
async fn forged_totals_without_enforcement_have_no_effect() {
    let guarded = fleet_budget();
    let gateway = FakeGateway::start(&guarded, "a").await;
    gateway.wait_for(DOLLAR).await;
    gateway.report(spent(DOLLAR)).await;
    let budget = json!({ "name": "b", "per": "fleet", "limit": "10", "window": "total" });
    let audited = limit("1.1.0", &json!({ "mode": "audit", "budgets": [budget] }));
    assert!(roles::apply(&guarded, &guarded.admin, &audited).success());
    let huge = Totals { granted: 0, returned: 0, settled: i64::MAX };
    let mut account = gateway.account(huge, None);
    account.epoch = "b".repeat(32);
    gateway.state(account).await;
    let retire = ["retire", "policy/limit@1.1.0", "--yes"];
    let retired = roles::run(&guarded, &guarded.admin, &retire);
    assert!(retired.success(), "{retired:?}");
    let mut account = gateway.account(huge, None);
    (account.epoch, account.window) = ("c".repeat(32), "total".to_owned());
    gateway.state(account).await;
    set_limit(&guarded, "1.2.0", "10");
    let state = gateway.wait_for(10 * DOLLAR).await;
    assert_eq!(state.granted_micros, 10 * DOLLAR);
}

#[tokio::test]
async fn unknown_budget_and_window_are_rejected() {
    let guarded = fleet_budget();
    let gateway = FakeGateway::start(&guarded, "a").await;
    let mut account = gateway.account(Totals::default(), None);
    account.window = "2020-01".to_owned();
    assert_eq!(gateway.rejection(account).await, AccountRejection::UnknownWindow);
    let mut account = gateway.account(Totals::default(), None);
    account.budget.as_mut().expect("a budget").budget = "other".to_owned();
    assert_eq!(gateway.rejection(account).await, AccountRejection::UnknownBudget);
    let mut account = gateway.account(Totals::default(), None);
    account.epoch = "none".to_owned();
    let status = gateway.send(gateway.message(account)).await.expect_err("it is invalid");
    assert_eq!(reason(&status), (Code::InvalidArgument, "INVALID_REQUEST".to_owned()));
    let violations = status.get_details_bad_request().expect("the field").field_violations;
    assert_eq!(violations[0].field, "accounts[0].epoch");
}

#[tokio::test]
async fn killed_server_keeps_totals() {
    let mut guarded = fleet_budget();
    let token = guarded.token("a", "fleet", "gateway");
    let gateway = FakeGateway::with_token(&guarded.registry, token.clone()).await;
    gateway.wait_for(6 * DOLLAR).await;
    guarded.registry.process.kill_9();
    guarded.registry.restart();
    let gateway = FakeGateway::with_token(&guarded.registry, token).await;
    let state = gateway.wait_for(10 * DOLLAR).await;
    assert_eq!(state.granted_micros, 10 * DOLLAR, "the same account grows");
    let other = FakeGateway::start(&guarded, "b").await;
    assert_eq!(other.wait_for(1).await.granted_micros, 0);
}

#[tokio::test]
async fn idle_rights_are_recalled_across_servers() {
    let database = postgres::database().await;
    let guarded = Guarded::start_on(database.url(), &[]);
    set_limit(&guarded, "1.0.0", "10");
    let second = Registry::start_with(database.url(), &[]);
    let holder = FakeGateway::start(&guarded, "a").await;
    let caller = FakeGateway::with_token(&second, guarded.token("b", "fleet", "gateway")).await;
    let mut recalls = holder.recalls().await;
    holder.prefetch(10 * DOLLAR).await;
    acceptance::eventually("the second server knows the budget and recalls", || async {
        let account = caller.account(Totals::default(), Some(waiting(DOLLAR)));
        matches!(caller.outcome(account).await,
            Outcome::State(state) if state.refusal() == GrantRefusal::Recalling)
    })
    .await;
    let recall = recalls.message().await.expect("a message").expect("a recall");
    let accounts: Vec<_> = recall.accounts.iter().map(|account| &*account.epoch).collect();
    assert_eq!(accounts, [holder.epoch.as_str()]);
    holder.report(Totals { granted: 10 * DOLLAR, returned: 10 * DOLLAR, settled: 0 }).await;
    assert_eq!(caller.wait_for(DOLLAR).await.granted_micros, DOLLAR);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_never_exceed_a_limit() {
    const GATEWAYS: usize = 8;
    let database = postgres::database().await;
    let guarded = Guarded::start_on(database.url(), &[]);
    set_limit(&guarded, "1.0.0", "10");
    let second = Registry::start_with(database.url(), &[]);
    let mut gateways = Vec::new();
    for number in 0..GATEWAYS {
        let token = guarded.token(&format!("g{number}"), "fleet", "gateway");
        let registry = if number % 2 == 0 { &guarded.registry } else { &second };
        gateways.push(FakeGateway::with_token(registry, token).await);
    }
    let probe = gateways[GATEWAYS - 1].clone();
    acceptance::eventually("the second server knows the budget", || async {
        let account = probe.account(Totals::default(), None);
        matches!(probe.outcome(account).await, Outcome::State(_))
    })
    .await;
    let asking = gateways.into_iter().map(|gateway| {
        tokio::spawn(async move {
            let mut granted = 0;
            for cents in 1..=200 {
                granted = gateway.wait_for(cents * DOLLAR / 100).await.granted_micros;
            }
            granted
        })
    });
    let mut total = 0;
    for granted in asking.collect::<Vec<_>>() {
        total += granted.await.expect("it ends");
    }
    assert_eq!(total, 10 * DOLLAR, "8 gateways want $16, and $10 are available");
    assert_eq!(shown(&guarded)["budget"]["exposed"], "10");
}

/// The number of transactions with reports so far.
async fn transactions(registry: &Registry) -> u64 {
    let metrics = registry.metrics().await;
    let name = "registry_ledger_transaction_duration_seconds_count ";
    let count = metrics.lines().find_map(|line| line.strip_prefix(name)?.parse().ok());
    count.unwrap_or_default()
}

/// The granted totals of the accounts of a report. `None`: the account is rejected.
fn granted(answer: v1::ReportSpendingResponse) -> Vec<Option<i64>> {
    let granted = answer.accounts.into_iter().map(|account| match account.outcome {
        Some(Outcome::State(state)) => Some(state.granted_micros),
        _ => None,
    });
    granted.collect()
}

#[tokio::test]
async fn budgets_of_one_report_share_a_transaction() {
    const BUDGETS: usize = 100;
    let guarded = fleet_budget();
    let gateway = FakeGateway::start(&guarded, "a").await;
    let accounts = (0..BUDGETS).map(|number| gateway.call_of(&number.to_string()));
    let answer = gateway.send(gateway.message_of(accounts)).await.expect("an answer");
    assert_eq!(granted(answer), [Some(DOLLAR); BUDGETS]);
    assert_eq!(transactions(&guarded.registry).await, 1);
}

#[tokio::test]
async fn refused_accounts_leave_others_of_transaction_granted() {
    let guarded = fleet_budget();
    let gateway = FakeGateway::start(&guarded, "a").await;
    let call = |subject: &str| gateway.call_of(subject);
    let exhausting = v1::AccountReport { want: Some(waiting(11 * DOLLAR)), ..call("exhausted") };
    let invalid = v1::AccountReport { settled_micros: -1, ..call("invalid") };
    let ended = v1::AccountReport { window: "2020-01".to_owned(), ..call("ended") };
    let accounts = [call("first"), exhausting, invalid, ended, call("last")];
    let answer = gateway.send(gateway.message_of(accounts)).await.expect("an answer");
    assert_eq!(granted(answer), [Some(DOLLAR), Some(0), None, None, Some(DOLLAR)]);
    assert_eq!(transactions(&guarded.registry).await, 1);
}

#[tokio::test]
async fn failing_budget_leaves_others_of_transaction_granted() {
    let database = postgres::database().await;
    let guarded = Guarded::start_on(database.url(), &[]);
    set_limit(&guarded, "1.0.0", "10");
    let mut console = PgConnection::connect(database.url()).await.expect("a connection");
    let constraint = "ALTER TABLE ledger_budgets ADD CONSTRAINT fails CHECK (subject <> 'failing')";
    sqlx::query(constraint).execute(&mut console).await.expect("a constraint");
    let gateway = FakeGateway::start(&guarded, "a").await;
    let accounts = ["first", "second", "failing"].map(|subject| gateway.call_of(subject));
    gateway.send(gateway.message_of(accounts)).await.expect_err("the database rejects a budget");
    let listed = roles::run(&guarded, &guarded.admin, &["budget", "list"]).json();
    let budgets = listed.as_array().expect("a list").iter();
    let exposed: Value = budgets.map(|b| json!([b["subject"], b["exposed"]])).collect();
    assert_eq!(exposed, json!([["first", "1"], ["second", "1"]]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_create_and_lock_budgets_without_deadlocks() {
    const BUDGETS: usize = 40;
    let database = postgres::database().await;
    let guarded = Guarded::start_on(database.url(), &[]);
    set_limit(&guarded, "1.0.0", "10");
    let second = Registry::start_with(database.url(), &[]);
    let mut gateways = Vec::new();
    for number in 0..4 {
        let token = guarded.token(&format!("g{number}"), "fleet", "gateway");
        let registry = if number % 2 == 0 { &guarded.registry } else { &second };
        gateways.push(FakeGateway::with_token(registry, token).await);
    }
    let probe = gateways[3].clone();
    acceptance::eventually("the second server knows the budget", || probe.is_known("probe")).await;
    // Each gateway reports in another order, and creates budgets that others lack.
    let reporting = gateways.into_iter().enumerate().map(|(offset, gateway)| {
        tokio::spawn(async move {
            for round in 0..10 {
                let numbers = (0..BUDGETS).map(|number| (number + 10 * offset) % BUDGETS);
                let numbers = numbers.filter(|number| number % 4 != offset);
                let accounts = numbers.map(|number| gateway.call_of(&format!("{round} {number}")));
                let report = gateway.message_of(accounts);
                let answer = gateway.send(report).await.expect("an answer");
                assert_eq!(granted(answer), [Some(DOLLAR); BUDGETS / 4 * 3]);
            }
        })
    });
    for reported in reporting.collect::<Vec<_>>() {
        reported.await.expect("no deadlock");
    }
}

#[tokio::test]
async fn recovered_ledger_waits_for_gateways() {
    let guarded = fleet_budget();
    let mut gateway = FakeGateway::start(&guarded, "a").await;
    gateway.wait_for(DOLLAR).await;
    assert!(server(&guarded.database, &["ledger", "recover"]).status.success());
    let account = gateway.account(spent(DOLLAR), Some(waiting(2 * DOLLAR)));
    let answer = gateway.send(gateway.message(account.clone())).await.expect("an answer");
    assert!(answer.generation > 0);
    let Some(Outcome::State(state)) = &answer.accounts[0].outcome else { panic!("{answer:?}") };
    assert_eq!(state.refusal(), GrantRefusal::Recovering);
    let budget = state.budget.as_ref().expect("the budget");
    assert_eq!(budget.settled_micros, DOLLAR, "reports count");
    assert_eq!(shown(&guarded)["isRecovering"], true);
    assert_eq!(shown(&guarded)["awaitedGateways"], json!(["a"]));
    assert_eq!(shown(&guarded)["budget"]["available"], "0");
    gateway.generation = answer.generation;
    assert_eq!(gateway.state(account).await.refusal(), GrantRefusal::Recovering);
    assert_eq!(shown(&guarded)["awaitedGateways"], json!([]));
    assert!(server(&guarded.database, &["ledger", "end-recovery"]).status.success());
    assert_eq!(gateway.wait_for(2 * DOLLAR).await.granted_micros, 2 * DOLLAR);
    let trail = roles::run(&guarded, &guarded.admin, &["audit", "access"]).json();
    let recoveries = trail.as_array().expect("a list").iter();
    let is_about_ledger = |line: &&Value| line["event"].to_string().contains("ledger");
    let recoveries = recoveries.filter(is_about_ledger);
    let recoveries: Vec<_> =
        recoveries.map(|line| ["event", "method", "subject"].map(|field| &line[field])).collect();
    let generation = json!(answer.generation.to_string());
    assert_eq!(
        recoveries,
        [
            [&json!("ledger-recovery-started"), &json!("local"), &generation],
            [&json!("ledger-recovery-ended"), &json!("local"), &generation],
        ]
    );
}

/// Copies the files of a SQLite database. Removes those that the source does not have.
fn copy_database(from: &str, to: &str) {
    for suffix in ["", "-wal", "-shm"] {
        let (from, to) = (format!("{from}{suffix}"), format!("{to}{suffix}"));
        if std::fs::exists(&from).expect("a directory") {
            std::fs::copy(from, to).expect("a copy");
        } else if std::fs::exists(&to).expect("a directory") {
            std::fs::remove_file(to).expect("it is removed");
        }
    }
}

#[tokio::test]
async fn newer_generation_of_gateway_starts_recovery() {
    let mut guarded = fleet_budget();
    let token = guarded.token("a", "fleet", "gateway");
    let path = guarded.database.strip_prefix("sqlite:").expect("SQLite").to_owned();
    let backup = format!("{path}.backup");
    guarded.registry.process.kill_9();
    copy_database(&path, &backup);
    guarded.registry.restart();
    assert!(server(&guarded.database, &["ledger", "recover"]).status.success());
    let mut gateway = FakeGateway::with_token(&guarded.registry, token.clone()).await;
    let report = gateway.message(gateway.account(spent(DOLLAR), None));
    let answer = gateway.send(report).await.expect("an answer");
    guarded.registry.process.kill_9();
    copy_database(&backup, &path);
    guarded.registry.restart();
    gateway = FakeGateway::with_token(&guarded.registry, token).await;
    gateway.generation = answer.generation;
    let mut report = gateway.message(gateway.account(spent(DOLLAR), None));
    report.generation_proof = answer.generation_proof;
    let answer = gateway.send(report).await.expect("an answer");
    assert!(answer.generation > gateway.generation, "the database was restored unnoticed");
}

#[tokio::test]
async fn forged_generation_suspends_nothing() {
    let guarded = fleet_budget();
    let mut gateway = FakeGateway::start(&guarded, "a").await;
    for generation in [1, u64::MAX] {
        gateway.generation = generation;
        let report = gateway.message(gateway.account(spent(DOLLAR), None));
        let status = gateway.send(report).await.expect_err("forged");
        assert_eq!(reason(&status), (Code::FailedPrecondition, "UNKNOWN_GENERATION".to_owned()));
    }
    gateway.generation = 0;
    assert_eq!(gateway.wait_for(DOLLAR).await.refusal(), GrantRefusal::Unspecified);
}

#[tokio::test]
async fn governor_adjusts_limit_with_reason() {
    let guarded = fleet_budget();
    let gateway = FakeGateway::start(&guarded, "a").await;
    let adjust = ["budget", "adjust", "limit", "b", "fleet", "--reason", "launch week", "--yes"];
    let adjust = |amount: &'static str| [&adjust[..], &["--by", amount]].concat();
    let reader = guarded.token("r", "fleet", "auditor");
    let denied = roles::run(&guarded, &reader, &adjust("5"));
    assert!(denied.code == 1 && denied.has_code("PERMISSION_DENIED"), "{denied:?}");
    let governor = guarded.token("gov", "security", "governor");
    let adjusted = roles::run(&guarded, &governor, &adjust("5")).json();
    assert_eq!((&adjusted["limit"], &adjusted["adjustment"]), (&json!("15"), &json!("5")));
    assert_eq!(gateway.wait_for(15 * DOLLAR).await.granted_micros, 15 * DOLLAR);
    let trail = roles::run(&guarded, &reader, &["audit", "access"]).json();
    let recorded = trail.as_array().expect("a list").last().expect("an event");
    assert_eq!(
        ["event", "principal", "subject", "detail"].map(|field| &recorded[field]),
        ["budget-adjusted", "gov", "limit/b/fleet total", "by 5: launch week"]
    );
    let lowered = roles::run(&guarded, &governor, &adjust("-2.50")).json();
    assert_eq!((&lowered["limit"], &lowered["available"]), (&json!("7.5"), &json!("0")));
    let changes = shown(&guarded)["changes"].clone();
    let change = |entry: &Value| (entry["principal"].clone(), entry["amount"].clone());
    let changes: Vec<_> = changes.as_array().expect("a list").iter().map(change).collect();
    assert_eq!(changes, [(json!("gov"), json!("-2.5")), (json!("gov"), json!("5"))]);
    let invalid = roles::run(&guarded, &governor, &adjust("0.0000001"));
    assert_eq!(invalid.code, 2, "{invalid:?}");
}

#[tokio::test]
async fn budget_of_misspelled_subject_is_not_adjusted() {
    let guarded = Guarded::start(&[]);
    let example = acceptance::root().join("examples/registry-v2.json");
    let example = ["apply", "-f", example.to_str().expect("UTF-8"), "--yes"];
    let applied = roles::run(&guarded, &guarded.admin, &example);
    assert!(applied.success(), "{applied:?}");
    let budget = |per: &str| json!({ "name": per, "per": per, "limit": "10", "window": "total" });
    let budgets = ["agent", "team", "tool"].map(budget);
    let policy = limit("1.0.0", &json!({ "price": { "perCall": "1" }, "budgets": budgets }));
    let applied = roles::apply(&guarded, &guarded.admin, &policy);
    assert!(applied.success(), "{applied:?}");
    let adjust = |budget: &str, subject: &str| {
        let key = ["budget", "adjust", "limit", budget, subject];
        let change = ["--by", "5", "--reason", "launch week", "--yes"];
        roles::run(&guarded, &guarded.admin, &[key, change].concat())
    };
    for (budget, subject, why) in [
        ("agent", "reserch-agent", "did you mean `research-agent`?"),
        ("tool", "fetch-server/fetchh", "did you mean `fetch-server/fetch`?"),
        ("team", "nobody", "owns no registered agent"),
    ] {
        let rejected = adjust(budget, subject);
        assert!(rejected.code == 1 && rejected.has_code("NOT_FOUND"), "{rejected:?}");
        assert!(rejected.stderr.contains(why), "{rejected:?}");
    }
    for (budget, subject) in [("agent", "research-agent"), ("agent", "(unknown)"), ("tool", "x")] {
        let adjusted = adjust(budget, subject);
        assert!(adjusted.success(), "{adjusted:?}");
    }
}

#[tokio::test]
async fn rights_of_lost_gateway_are_reclaimed_later() {
    let flags = ["--budget-offline-for", "10s", "--budget-longest-call", "1ms"];
    let reclaim = ["budget", "reclaim", "limit", "b", "fleet", "--gateway", "a"];
    let reclaim = [&reclaim[..], &["--reason", "host lost", "--yes"]].concat();
    let guarded = fleet_budget();
    let gateway = FakeGateway::start(&guarded, "a").await;
    gateway.wait_for(10 * DOLLAR).await;
    gateway.report(Totals { granted: 10 * DOLLAR, returned: 0, settled: 4 * DOLLAR }).await;
    let early = roles::run(&guarded, &guarded.admin, &reclaim);
    assert!(early.has_code("GATEWAY_MAY_SPEND"), "{early:?}");

    let guarded = Guarded::start(&flags);
    set_limit(&guarded, "1.0.0", "10");
    let gateway = FakeGateway::start(&guarded, "a").await;
    gateway.wait_for(10 * DOLLAR).await;
    let settled = Totals { granted: 10 * DOLLAR, returned: 0, settled: 4 * DOLLAR };
    gateway.report(settled).await;
    acceptance::eventually("the gateway is silent long enough", || async {
        roles::run(&guarded, &guarded.admin, &reclaim).success()
    })
    .await;
    let budget = shown(&guarded)["budget"].clone();
    assert_eq!((&budget["reclaimed"], &budget["available"]), (&json!("6"), &json!("6")));
    let late = gateway.report(Totals { settled: 5 * DOLLAR, ..settled }).await;
    assert!(late.is_closed);
    assert_eq!(shown(&guarded)["budget"]["overshoot"], "1");
    let again = roles::run(&guarded, &guarded.admin, &reclaim);
    assert!(again.has_code("ACCOUNT_CLOSED"), "{again:?}");
    let unknown = reclaim.iter().map(|word| if *word == "a" { "b" } else { word });
    let unknown = roles::run(&guarded, &guarded.admin, &unknown.collect::<Vec<_>>());
    assert!(unknown.has_code("NOT_FOUND"), "{unknown:?}");
}

#[tokio::test]
async fn list_shows_amounts_as_decimals() {
    let guarded = fleet_budget();
    let gateway = FakeGateway::start(&guarded, "a").await;
    gateway.wait_for(15_000).await;
    gateway.report(spent(15_000)).await;
    let auditor = guarded.token("r", "fleet", "auditor");
    let listed = roles::run(&guarded, &auditor, &["budget", "list"]).json();
    let expected = json!([{
        "policy": "limit", "budget": "b", "subject": "fleet", "window": "total",
        "windowEndsAt": null, "currency": "USD", "limit": "10", "adjustment": "0",
        "settled": "0.015", "exposed": "0.015", "available": "9.985", "inDoubt": "0",
        "overshoot": "0", "reclaimed": "0", "unexplained": "0",
    }]);
    assert_eq!(listed, expected);
    let other = roles::run(&guarded, &auditor, &["budget", "list", "--policy", "none"]).json();
    assert_eq!(other, json!([]));
}
