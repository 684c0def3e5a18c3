//! Injects the faults of a plan at their times, and ends them.

mod disk;

use std::{path::Path, sync::Arc, time::Duration};

use history_check::Event;
use sqlx::{Connection as _, PgConnection, raw_sql};
use tokio::{
    sync::Mutex,
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};

use crate::{
    gateway::Gateway,
    history_writer::HistoryWriter,
    link::{Link, NetworkCondition},
    plan::{ClientKind, Fault, Plan, Planned},
    postgres::Postgres,
    rng::Rng,
    server::Server,
};

pub(crate) use disk::SmallDisk;

/// Time limit of a connection to a database that the nemesis may have paused.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Injects each fault at its time, and returns when all have ended.
pub(crate) async fn inject<T, F>(
    faults: impl IntoIterator<Item = (Instant, T)>,
    seed: u64,
    break_and_mend: impl Fn(T, Rng) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut running = JoinSet::new();
    for (i, (at, fault)) in faults.into_iter().enumerate() {
        let ended = break_and_mend(fault, Rng::new(seed, &format!("fault {i}")));
        running.spawn(async move {
            sleep_until(at).await;
            ended.await;
        });
    }
    while let Some(done) = running.join_next().await {
        done.expect("the nemesis does not break itself");
    }
}

/// The processes and links with faults. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Nemesis {
    pub(crate) history: Arc<HistoryWriter>,
    /// The servers, followed by the relays.
    pub(crate) servers: Vec<Server>,
    pub(crate) gateways: Vec<Gateway>,
    pub(crate) postgres: Postgres,
    pub(crate) database: String,
    /// Serializes faults of Postgres.
    pub(crate) turn: Arc<Mutex<()>>,
}

impl Nemesis {
    /// Runs the plan and returns when all faults have ended.
    pub(crate) async fn run(self, plan: Plan, began: Instant) {
        let faults = plan.faults.iter().cloned().map(|planned| (began + planned.at, planned));
        inject(faults, plan.seed, |planned, rng| {
            let nemesis = self.clone();
            async move { nemesis.break_and_mend(planned, rng).await }
        })
        .await;
        for server in &self.servers {
            server.signal("CONT").await;
            server.restart().await;
        }
        for gateway in &self.gateways {
            gateway.signal("CONT").await;
            gateway.restart().await;
        }
    }

    fn note(&self, fault: impl Into<String>) {
        let (repeats, resends) = (false, false);
        self.history.note("nemesis", Event::Fault { fault: fault.into(), repeats, resends });
    }

    fn begin(&self, fault: Fault, lasts: Duration) {
        let repeats = matches!(
            fault,
            Fault::Network(_, _, NetworkCondition::Twice | NetworkCondition::Swapped)
        );
        let resends = matches!(fault, Fault::Replay(ClientKind::Calls, _));
        let fault = format!("{fault:?} for {} ms", lasts.as_millis());
        self.history.note("nemesis", Event::Fault { fault, repeats, resends });
    }

    async fn break_and_mend(&self, Planned { lasts, fault, .. }: Planned, mut rng: Rng) {
        self.begin(fault, lasts);
        match fault {
            Fault::KillServer(server) => {
                self.servers[server].kill_9().await;
                sleep(lasts).await;
                self.servers[server].restart().await;
            }
            Fault::PauseServer(server) => {
                self.servers[server].signal("STOP").await;
                sleep(lasts).await;
                self.servers[server].signal("CONT").await;
            }
            Fault::KillGateway(gateway, corruption) => {
                self.gateways[gateway].kill_9(corruption, &mut rng).await;
                sleep(lasts).await;
                self.gateways[gateway].restart().await;
            }
            Fault::PauseGateway(gateway) => {
                self.gateways[gateway].signal("STOP").await;
                sleep(lasts).await;
                self.gateways[gateway].signal("CONT").await;
            }
            Fault::Network(kind, server, condition) => {
                self.network((kind, server), condition, lasts, rng.chance(50)).await;
            }
            Fault::Cut(kind, server) => self.link(kind, server).cut(),
            Fault::Replay(kind, server) => {
                if let Err(e) = self.link(kind, server).replay().await {
                    self.note(format!("no data is replayed: {e}"));
                }
            }
            Fault::FullDisk(gateway) => self.fill(&self.gateways[gateway].cache(), lasts).await,
            Fault::Clock(server, seconds) => {
                if !self.servers[server].shift_clock(seconds, lasts).await {
                    self.note("without a C compiler, no clock is shifted");
                }
            }
            Fault::KillPostgres
            | Fault::PausePostgres
            | Fault::HoldHead
            | Fault::TerminateBackends => self.database(fault, lasts).await,
        }
        self.note(format!("{fault:?} is over"));
    }

    fn link(&self, kind: ClientKind, server: usize) -> &Link {
        let links = &self.servers[server].links;
        match kind {
            ClientKind::Calls => &links.calls,
            ClientKind::Streams => &links.streams,
            ClientKind::Fleet => &links.fleet,
            ClientKind::Relays => &links.relays,
        }
    }

    async fn network(
        &self,
        (kind, server): (ClientKind, usize),
        condition: NetworkCondition,
        lasts: Duration,
        is_cut: bool,
    ) {
        let link = self.link(kind, server);
        link.set_condition(condition);
        sleep(lasts).await;
        link.set_condition(NetworkCondition::Fair);
        if is_cut {
            link.cut();
        }
    }

    async fn database(&self, fault: Fault, lasts: Duration) {
        let _turn = self.turn.lock().await;
        match fault {
            Fault::KillPostgres => {
                self.postgres.kill_9().await;
                sleep(lasts).await;
                self.postgres.restart().await;
            }
            Fault::PausePostgres => {
                self.postgres.pause().await;
                sleep(lasts).await;
                self.postgres.resume().await;
            }
            Fault::HoldHead => self.hold_head(lasts).await,
            _ => {
                let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                           WHERE datname = current_database() AND pid <> pg_backend_pid()";
                self.execute(end).await;
            }
        }
    }

    async fn connect(&self) -> Option<PgConnection> {
        timeout(TIMEOUT, PgConnection::connect(&self.database)).await.ok()?.ok()
    }

    async fn execute(&self, sql: &'static str) {
        if let Some(mut connection) = self.connect().await {
            let _ = timeout(TIMEOUT, raw_sql(sql).execute(&mut connection)).await;
        }
    }

    /// Locks the head row in a transaction, which is then rolled back.
    async fn hold_head(&self, lasts: Duration) {
        let Some(mut connection) = self.connect().await else { return };
        let hold = raw_sql("BEGIN; SELECT revision FROM head FOR UPDATE");
        let _ = timeout(TIMEOUT, hold.execute(&mut connection)).await;
        sleep(lasts).await;
        let _ = connection.close_hard().await;
    }

    async fn fill(&self, cache: &Path, lasts: Duration) {
        if !disk::is_small(cache) {
            self.note("disks cannot be mounted, so none is filled");
            return;
        }
        disk::fill(cache);
        sleep(lasts).await;
        disk::empty(cache);
    }
}
