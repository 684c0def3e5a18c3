//! Three gateways that follow two servers on one Postgres, with a server behind the gateways and an
//! operator. The workloads `budgets` and `approvals` use them with the same faults.

mod answer;
mod catalog;
mod database;
mod gateway;
mod nemesis;
mod operator;
mod plan;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use acceptance::{access::create_token, postgres::Replication};
use registry_core::rules::Proposed;
use tokio::task::{JoinSet, spawn_blocking};

pub use self::plan::FleetPlan;
pub(crate) use self::{
    answer::{Answer, DECLINED, declined},
    catalog::{AGENTS, VERSION, agents, bank, dependency, register},
    gateway::{FleetGateway, Marks},
    operator::Operator,
    plan::DatabaseKind,
};
use self::{
    database::Database,
    gateway::GatewaySetup,
    nemesis::FleetNemesis,
    plan::{GATEWAYS, SERVERS},
};
use crate::{
    history_writer::HistoryWriter,
    link::Link,
    postgres::Postgres,
    run::{database_name, own_dir},
    server::{Server, Setup},
    shim::Shim,
};

/// A key that encrypts the states of calls at all gateways: 32 bytes of zeros in base64url.
const SESSION_KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// The processes of a history. The backend runs in the recorder.
pub(crate) struct Fleet {
    pub(crate) history: Arc<HistoryWriter>,
    pub(crate) gateways: Vec<FleetGateway>,
    pub(crate) operator: Operator,
    database: Database,
    backend: gateway_testkit::Server,
}

impl Fleet {
    /// Starts the servers, registers the entities, and starts the gateways in front of a backend.
    pub(crate) async fn start(
        plan: &FleetPlan,
        postgres: &Postgres,
        dir: &Path,
        history: &Arc<HistoryWriter>,
        entities: &[Proposed],
        backend: gateway_testkit::Server,
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
        operator.set_up(entities).await;
        let session_key = top.join("session.key");
        std::fs::write(&session_key, SESSION_KEY)?;
        let mut starting = JoinSet::new();
        for index in 0..GATEWAYS {
            let own = own_dir(dir, &format!("gateway-{index}"))?;
            let principal = principal(plan, index);
            let setup = GatewaySetup {
                shim: clocks.shim(&own, plan.suspends(index)),
                dir: own,
                token: token(&database, &principal, "gateway").await,
                principal,
                session_key: session_key.clone(),
                backend: backend.url(),
            };
            let links = links(&servers).await;
            starting.spawn(FleetGateway::start(index, setup, links, history.clone()));
        }
        let mut gateways = starting.join_all().await;
        gateways.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { history: history.clone(), gateways, operator, database, backend })
    }

    /// Injects the faults of a plan.
    pub(crate) fn nemesis(&self) -> FleetNemesis {
        FleetNemesis {
            history: self.history.clone(),
            servers: self.operator.servers.clone(),
            gateways: self.gateways.clone(),
            database: self.database.clone(),
            turn: Arc::default(),
        }
    }

    /// A client of all servers with a new token.
    pub(crate) async fn client(&self, name: &str, role: &'static str) -> Operator {
        Operator { token: token(&self.database, name, role).await, ..self.operator.clone() }
    }

    /// Stops the backend. The other processes end with the fleet.
    pub(crate) fn stop(self) {
        self.backend.stop();
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
fn principal(plan: &FleetPlan, index: usize) -> String {
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
