//! Injects the faults of a plan at their times, and ends them.

use std::{sync::Arc, time::Duration};

use history_check::{BudgetEvent, Event};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};

use super::{
    database::Database,
    gateway::FleetGateway,
    plan::{FleetFault, FleetPlan, Planned},
};
use crate::{
    history_writer::HistoryWriter,
    link::{Link, NetworkCondition},
    nemesis::inject,
    rng::Rng,
    server::Server,
};

/// The processes and links with faults. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct FleetNemesis {
    pub(crate) history: Arc<HistoryWriter>,
    pub(crate) servers: Vec<Server>,
    pub(crate) gateways: Vec<FleetGateway>,
    pub(crate) database: Database,
    /// Serializes faults of the database.
    pub(crate) turn: Arc<Mutex<()>>,
}

impl FleetNemesis {
    /// Runs the plan and returns when all faults have ended.
    pub(crate) async fn run(self, plan: FleetPlan, began: Instant) {
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

    fn note(&self, fault: impl Into<String>, repeats: bool) {
        let event = Event::Fault { fault: fault.into(), repeats, resends: repeats };
        self.history.note("nemesis", event);
    }

    async fn break_and_mend(&self, Planned { lasts, fault, .. }: Planned, mut rng: Rng) {
        let repeats = matches!(fault, FleetFault::Replay(..));
        self.note(format!("{fault:?} for {} ms", lasts.as_millis()), repeats);
        match fault {
            FleetFault::KillServer(server) => {
                self.servers[server].kill_9().await;
                sleep(lasts).await;
                self.servers[server].restart().await;
            }
            FleetFault::PauseServer(server) => {
                self.servers[server].signal("STOP").await;
                sleep(lasts).await;
                self.servers[server].signal("CONT").await;
            }
            FleetFault::KillGateway(gateway, marks) => {
                self.gateways[gateway].kill_9(marks, &mut rng).await;
                sleep(lasts).await;
                self.gateways[gateway].restart().await;
            }
            FleetFault::PauseGateway(gateway) => {
                self.gateways[gateway].signal("STOP").await;
                sleep(lasts).await;
                self.gateways[gateway].signal("CONT").await;
            }
            FleetFault::SuspendGateway(gateway, seconds) => {
                if !self.gateways[gateway].suspend(seconds).await {
                    self.note("without a C compiler, no clock jumps", false);
                }
            }
            FleetFault::Clock(server, seconds) => {
                if !self.servers[server].shift_clock(seconds, lasts).await {
                    self.note("without a C compiler, no clock is shifted", false);
                }
            }
            FleetFault::Partition(gateway) => {
                let links: Vec<_> = self.gateways[gateway].links.iter().collect();
                Self::network(&links, NetworkCondition::Severed, lasts).await;
            }
            FleetFault::Network(gateway, server, condition) => {
                Self::network(&[self.link(gateway, server)], condition, lasts).await;
            }
            FleetFault::Cut(gateway, server) => self.link(gateway, server).cut(),
            FleetFault::Replay(gateway, server) => {
                sleep(lasts).await;
                if let Err(e) = self.link(gateway, server).replay().await {
                    self.note(format!("no data is replayed: {e}"), false);
                }
            }
            FleetFault::KillPostgres => {
                let _turn = self.turn.lock().await;
                self.database.kill_9(lasts).await;
            }
            FleetFault::Restore => self.restore(lasts).await,
            FleetFault::LoseStandby => self.lose_standby(lasts).await,
            FleetFault::FailOver => self.database.fail_over().await,
        }
        self.note(format!("{fault:?} is over"), false);
    }

    fn link(&self, gateway: usize, server: usize) -> &Link {
        &self.gateways[gateway].links[server]
    }

    async fn network(links: &[&Link], condition: NetworkCondition, lasts: Duration) {
        for link in links {
            link.set_condition(condition);
        }
        sleep(lasts).await;
        for link in links {
            link.set_condition(NetworkCondition::Fair);
        }
    }

    /// Makes a backup, and restores it later as the documentation describes.
    async fn restore(&self, lasts: Duration) {
        self.kill_servers().await;
        assert!(self.database.back_up().await, "the database is copied");
        self.restart_servers().await;
        sleep(lasts).await;
        self.kill_servers().await;
        self.note_lost().await;
        assert!(self.database.restore().await, "the database is restored");
        self.note_kept().await;
        self.database.recover().await.unwrap_or_else(|e| panic!("ledger recover: {e}"));
        self.restart_servers().await;
    }

    /// Promotes a standby that lacks the last transactions.
    async fn lose_standby(&self, lasts: Duration) {
        self.database.stop_following().await;
        sleep(lasts).await;
        self.signal_servers("STOP").await;
        self.note_lost().await;
        self.database.fail_over().await;
        self.note_kept().await;
        self.signal_servers("CONT").await;
    }

    async fn note_lost(&self) {
        let accounts = self.database.accounts().await.expect("the database has accounts");
        let budget = BudgetEvent::TransactionsLost { accounts };
        self.history.note("nemesis", Event::Budget { budget });
    }

    async fn note_kept(&self) {
        let overshoots = self.database.overshoots().await.expect("the database has budgets");
        for (book, overshoot) in overshoots {
            let budget = BudgetEvent::OvershootKept { book, overshoot };
            self.history.note("nemesis", Event::Budget { budget });
        }
    }

    async fn kill_servers(&self) {
        for server in &self.servers {
            server.kill_9().await;
        }
    }

    async fn restart_servers(&self) {
        for server in &self.servers {
            server.restart().await;
        }
    }

    async fn signal_servers(&self, signal: &str) {
        for server in &self.servers {
            server.signal(signal).await;
        }
    }
}
