//! Histories with budgets: callers of priced tools at three gateways, which spend from the ledger of two
//! servers on one Postgres.
//!
//! At the end each gateway restarts on its disk. The figures of the ledger are recorded once all
//! accounts are closed, except those of processes whose crash marks are lost.

mod backend;
mod catalog;
mod database;
mod end;
mod gateway;
mod nemesis;
mod operator;
mod payer;
mod plan;
mod treasurer;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use acceptance::{access::create_token, postgres::Replication};
use history_check::{Event, Workload, event::FORMAT, log::RECORDER};
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::Instant,
};

use self::{
    database::Database,
    gateway::{GatewaySetup, PayingGateway},
    nemesis::BudgetNemesis,
    operator::Operator,
    payer::Payer,
    plan::{DatabaseKind, GATEWAYS, SERVERS},
    treasurer::Treasurer,
};
use crate::{
    history_writer::HistoryWriter,
    link::Link,
    postgres::Postgres,
    rng::Rng,
    run::{Recorded, database_name, own_dir},
    server::{Server, Setup},
    shim::Shim,
};

pub use plan::BudgetPlan;

/// Records the history of a plan into `DIR/history.jsonl`; the logs of the programs are next to it. Fails
/// where there is a history already.
pub async fn record_budgets(
    plan: &BudgetPlan,
    postgres: &Postgres,
    dir: &Path,
) -> io::Result<Recorded> {
    let began = Instant::now();
    std::fs::create_dir_all(dir)?;
    let history = Arc::new(HistoryWriter::create(&dir.join("history.jsonl"))?);
    let first = Event::Begin {
        format: FORMAT,
        workload: Workload::Budgets,
        seed: plan.seed,
        plan: plan.shown(),
    };
    history.note(RECORDER, first);
    let stage = Stage::set(plan, postgres, dir, &history).await?;
    stage.warm_up(plan).await;
    stage.play(plan).await;
    stage.end(plan).await;
    stage.backend.stop();
    Ok(Recorded { counts: history.finish()?, took: began.elapsed() })
}

struct Stage {
    history: Arc<HistoryWriter>,
    database: Database,
    servers: Vec<Server>,
    gateways: Vec<PayingGateway>,
    operator: Operator,
    backend: gateway_testkit::Server,
}

impl Stage {
    async fn set(
        plan: &BudgetPlan,
        postgres: &Postgres,
        dir: &Path,
        history: &Arc<HistoryWriter>,
    ) -> io::Result<Self> {
        let name = database_name(plan.seed);
        let database = match plan.database {
            DatabaseKind::Single | DatabaseKind::Restored => Database::shared(postgres, name).await,
            DatabaseKind::Synchronous => Database::replicated(name, Replication::Synchronous).await,
            DatabaseKind::Lagging => Database::replicated(name, Replication::Asynchronous).await,
        };
        let operator = token(&database, "operator", "admin").await;
        let top = dir.canonicalize()?;
        let clocks = Clocks { library: plan.has_clocks().then(|| Shim::compile(&top)).flatten() };
        let mut servers = Vec::new();
        for index in 0..SERVERS {
            let own = own_dir(dir, &format!("server-{index}"))?;
            let shim = clocks.shim(&own, plan.sets_clock(index));
            let (database, flags) = (database.url.clone(), plan.flags());
            let setup = Setup { dir: own, database, flags, follow: None, shim };
            servers.push(Server::start(index, setup, history.clone()).await);
        }
        let operator =
            Operator { servers: servers.clone(), token: operator, history: history.clone() };
        operator.set_up(&catalog::entities()).await;
        catalog::rules().for_each(|rule| operator.note(rule));
        let backend = backend::start(plan.seed, history.clone()).await;
        let mut starting = JoinSet::new();
        for index in 0..GATEWAYS {
            let own = own_dir(dir, &format!("gateway-{index}"))?;
            let principal = principal(plan, index);
            let setup = GatewaySetup {
                shim: clocks.shim(&own, plan.suspends(index)),
                dir: own,
                token: token(&database, &principal, "gateway").await,
                principal,
                backend: backend.url(),
            };
            let links = links(&servers).await;
            starting.spawn(PayingGateway::start(index, setup, links, history.clone()));
        }
        let mut gateways = starting.join_all().await;
        gateways.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { history: history.clone(), database, servers, gateways, operator, backend })
    }

    /// Waits for the gateways, and lets two callers compete for a budget of one call.
    async fn warm_up(&self, plan: &BudgetPlan) {
        let [mut first, mut second] = [0, 1].map(|index| self.payer(plan, plan.payers + index));
        for (number, gateway) in self.gateways.iter().enumerate() {
            gateway.ready().await;
            first.warm_up(number).await;
        }
        Payer::duel(&mut first, &mut second).await;
    }

    async fn play(&self, plan: &BudgetPlan) {
        let began = Instant::now();
        let until = began + plan.work;
        let mut workers = JoinSet::new();
        for index in 0..plan.payers {
            workers.spawn(self.payer(plan, index).run(until));
        }
        let registers = plan.database == DatabaseKind::Single;
        let rng = Rng::new(plan.seed, "treasurer");
        workers.spawn(Treasurer::new(self.operator.clone(), rng, registers).run(until));
        let nemesis = BudgetNemesis {
            history: self.history.clone(),
            servers: self.servers.clone(),
            gateways: self.gateways.clone(),
            database: self.database.clone(),
            turn: Arc::default(),
        };
        workers.spawn(nemesis.run(plan.clone(), began));
        while let Some(done) = workers.join_next().await {
            done.expect("all workers end by themselves");
        }
    }

    fn payer(&self, plan: &BudgetPlan, index: usize) -> Payer {
        Payer::new(index, plan.seed, &self.gateways, &self.history)
    }
}

/// The library that shifts clocks; `None` if it is not needed, or without a C compiler.
struct Clocks {
    library: Option<PathBuf>,
}

impl Clocks {
    fn shim(&self, own: &Path, is_needed: bool) -> Option<Shim> {
        let library = self.library.clone().filter(|_| is_needed)?;
        Some(Shim::new(library, own.join("clock")))
    }
}

/// The principal of a gateway. Two gateways may have one name.
fn principal(plan: &BudgetPlan, index: usize) -> String {
    let number = if plan.shares_principal && index == 1 { 0 } else { index };
    format!("gateway-{number}")
}

/// A new token.
async fn token(database: &Database, name: &str, role: &'static str) -> String {
    let (url, name) = (database.url.clone(), name.to_owned());
    let create = move || create_token(&url, &name, "fleet", role);
    spawn_blocking(create).await.expect("the token is created")
}

/// Proxies between a gateway and each server.
async fn links(servers: &[Server]) -> Vec<Link> {
    let mut links = Vec::new();
    for server in servers {
        let link = Link::start().await;
        link.lead_to(&server.links.fleet.address);
        links.push(link);
    }
    links
}
