//! Grants of the ledger, compared with pgbench and an update of one row per transaction on the same
//! Postgres.

use acceptance::{Registry, postgres::PrivateCluster};
use registry_proto::v1::{
    self, PolicyBudgetScope, account_answer::Outcome, ledger_service_client::LedgerServiceClient,
};
use sqlx::{Connection, PgConnection};

use super::{AMPLE, budget, key, with_budgets};
use crate::{
    load::{self, Load},
    pgbench,
    report::{Report, Row},
    sample,
};

const BUDGET: &str = "total";
/// Gateways with one request at a time.
const GATEWAYS: usize = 64;

pub(super) async fn measure(report: &mut Report, seconds: u64) {
    let cluster = PrivateCluster::durable().await;
    let peer = pgbench::create_peer(&cluster).await;
    insert_rows(&peer, 100).await;
    let database = cluster.create_database("bench_grants").await;
    let (postgres, sqlite) = (Registry::start_on(&database), Registry::start());
    for registry in [&postgres, &sqlite] {
        register(registry).await;
    }
    for (budgets, what) in [(100, "100 budgets"), (1, "one budget")] {
        let path = format!("grants from {what}, one per request, {GATEWAYS} gateways");
        let granted = grants(&postgres, budgets, seconds).await;
        let script = update(budgets);
        let updated = pgbench::transactions_per_second(&peer, &script, GATEWAYS, seconds);
        report.add(Row {
            path: format!("{path}, Postgres"),
            value: granted.text(),
            baseline: format!("pgbench, an update of one row per transaction: {updated:.0}/s"),
            ratio: Some(granted.per_second / updated),
            budget: "≥ 2,000/s",
        });
        let granted = grants(&sqlite, budgets, seconds).await;
        report.add_alone(format!("{path}, SQLite"), granted.text(), "");
    }
}

async fn register(registry: &Registry) {
    let policy = v1::Policy {
        name: super::POLICY.to_owned(),
        version: "1.0.0".to_owned(),
        ..Default::default()
    };
    let budgets = vec![budget(BUDGET, PolicyBudgetScope::Agent, AMPLE)];
    let change = sample::register_policy(with_budgets(policy, budgets));
    registry.client().await.apply_changes(sample::request(vec![change])).await.expect("accepted");
}

async fn grants(registry: &Registry, budgets: u64, seconds: u64) -> Load {
    let mut clients = Vec::new();
    for _ in 0..GATEWAYS {
        clients.push(LedgerServiceClient::new(registry.channel().await));
    }
    load::run(clients, seconds, move |mut client, id| async move {
        let (report, granted) = request(budgets, id);
        let answer = client.report_spending(report).await.expect("an answer").into_inner();
        match answer.accounts.into_iter().next().and_then(|answer| answer.outcome) {
            Some(Outcome::State(state)) => assert_eq!(state.granted_micros, granted),
            other => panic!("no grant: {other:?}"),
        }
    })
    .await
}

/// A request of a gateway for one more micro-unit, and the granted total that it expects. The gateway
/// requests from the budgets in turn, and has spent its earlier grants.
fn request(budgets: u64, id: u64) -> (v1::ReportSpendingRequest, i64) {
    let (gateway, turn) = (id >> 32, id & 0xffff_ffff);
    let subject = format!("{} of {budgets}", (gateway + turn) % budgets);
    let spent = i64::try_from(turn / budgets).expect("a small number");
    let granted = spent + 1;
    let epoch = format!("{:032x}", gateway + 1);
    let account = v1::AccountReport {
        budget: Some((&key(BUDGET, &subject)).into()),
        epoch: epoch.clone(),
        granted_micros: spent,
        settled_micros: spent,
        want: Some(v1::GrantRequest { minimum_micros: Some(granted), granted_micros: granted }),
        ..Default::default()
    };
    let report =
        v1::ReportSpendingRequest { process: epoch, accounts: vec![account], ..Default::default() };
    (report, granted)
}

/// Inserts budgets with the ids 1, 2, …
async fn insert_rows(database: &str, count: i64) {
    let mut connection = PgConnection::connect(database).await.expect("a connection");
    let insert = "INSERT INTO ledger_budgets
          (policy, budget, subject, window_id, exposed, settled, overshoot, reclaimed, adjustment, alerted)
        SELECT 'bench', 'total', n::text, 'total', 0, 0, 0, 0, 0, 0 FROM generate_series(1, $1) AS n";
    sqlx::query(insert).bind(count).execute(&mut connection).await.expect("inserted");
}

/// A script that updates one of these budgets.
fn update(budgets: u64) -> String {
    format!(
        "\\set id random(1, {budgets})
UPDATE ledger_budgets SET exposed = exposed + 1 WHERE id = :id;
"
    )
}
