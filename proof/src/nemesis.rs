//! Breaks what the plan says, when it says so, and mends it again.

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
    book::Book,
    gateway::Gateway,
    link::{Link, Weather},
    plan::{Fault, Plan, Planned, Way},
    postgres::Postgres,
    rng::Rng,
    server::Server,
};

pub(crate) use disk::SmallDisk;

/// How long the nemesis waits for a connection to a database that it may have paused itself.
const PATIENCE: Duration = Duration::from_secs(1);

/// What can be broken. A clone is the same.
#[derive(Debug, Clone)]
pub(crate) struct Nemesis {
    pub(crate) book: Arc<Book>,
    /// The servers, and after them the relays.
    pub(crate) servers: Vec<Server>,
    pub(crate) gateways: Vec<Gateway>,
    pub(crate) postgres: Postgres,
    pub(crate) database: String,
    /// What is done to Postgres is done one after another.
    pub(crate) turn: Arc<Mutex<()>>,
}

impl Nemesis {
    /// Runs the plan; returns when everything is mended.
    pub(crate) async fn run(self, plan: Plan, began: Instant) {
        let mut running = JoinSet::new();
        for (i, planned) in plan.faults.iter().cloned().enumerate() {
            let (nemesis, rng) = (self.clone(), Rng::of(plan.seed, &format!("fault {i}")));
            running.spawn(async move {
                sleep_until(began + planned.at).await;
                nemesis.break_and_mend(planned, rng).await;
            });
        }
        while let Some(done) = running.join_next().await {
            done.expect("the nemesis does not break itself");
        }
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
        self.book.note("nemesis", Event::Fault { fault: fault.into(), repeats, resends });
    }

    fn begin(&self, fault: Fault, lasts: Duration) {
        let repeats = matches!(fault, Fault::Network(_, _, Weather::Twice | Weather::Swapped));
        let resends = matches!(fault, Fault::Replay(Way::Calls, _));
        let fault = format!("{fault:?} for {} ms", lasts.as_millis());
        self.book.note("nemesis", Event::Fault { fault, repeats, resends });
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
            Fault::KillGateway(gateway, spoil) => {
                self.gateways[gateway].kill_9(spoil, &mut rng).await;
                sleep(lasts).await;
                self.gateways[gateway].restart().await;
            }
            Fault::PauseGateway(gateway) => {
                self.gateways[gateway].signal("STOP").await;
                sleep(lasts).await;
                self.gateways[gateway].signal("CONT").await;
            }
            Fault::Network(way, server, weather) => {
                self.network((way, server), weather, lasts, rng.chance(50)).await;
            }
            Fault::Cut(way, server) => self.link(way, server).cut(),
            Fault::Replay(way, server) => {
                if let Err(e) = self.link(way, server).replay().await {
                    self.note(format!("nothing is replayed: {e}"));
                }
            }
            Fault::FullDisk(gateway) => self.fill(&self.gateways[gateway].cache(), lasts).await,
            Fault::Clock(server, seconds) => self.clock(server, seconds, lasts).await,
            Fault::KillPostgres
            | Fault::PausePostgres
            | Fault::HoldHead
            | Fault::TerminateBackends => self.database(fault, lasts).await,
        }
        self.note(format!("{fault:?} is over"));
    }

    fn link(&self, way: Way, server: usize) -> &Link {
        let ways = &self.servers[server].ways;
        match way {
            Way::Calls => &ways.calls,
            Way::Streams => &ways.streams,
            Way::Fleet => &ways.fleet,
            Way::Relays => &ways.relays,
        }
    }

    async fn network(
        &self,
        (way, server): (Way, usize),
        weather: Weather,
        lasts: Duration,
        is_cut: bool,
    ) {
        let link = self.link(way, server);
        link.turn(weather);
        sleep(lasts).await;
        link.turn(Weather::Fair);
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
        timeout(PATIENCE, PgConnection::connect(&self.database)).await.ok()?.ok()
    }

    async fn execute(&self, sql: &'static str) {
        if let Some(mut connection) = self.connect().await {
            let _ = timeout(PATIENCE, raw_sql(sql).execute(&mut connection)).await;
        }
    }

    /// A transaction that has the head row, and is rolled back.
    async fn hold_head(&self, lasts: Duration) {
        let Some(mut connection) = self.connect().await else { return };
        let hold = raw_sql("BEGIN; SELECT revision FROM head FOR UPDATE");
        let _ = timeout(PATIENCE, hold.execute(&mut connection)).await;
        sleep(lasts).await;
        let _ = connection.close_hard().await;
    }

    async fn fill(&self, cache: &Path, lasts: Duration) {
        if !disk::is_small(cache) {
            self.note("no disk of its own can be mounted, so none is filled");
            return;
        }
        disk::fill(cache);
        sleep(lasts).await;
        disk::empty(cache);
    }

    async fn clock(&self, server: usize, seconds: i64, lasts: Duration) {
        let Some(shim) = self.servers[server].shim() else {
            self.note("there is no C compiler, so no clock can be set");
            return;
        };
        shim.jump(seconds);
        sleep(lasts).await;
        shim.jump(0);
    }
}
