//! Histories with budgets: callers of priced tools at a fleet of gateways, which spend from the ledger of
//! its servers.
//!
//! At the end each gateway restarts on its disk. The figures of the ledger are recorded once all
//! accounts are closed, except those of processes whose crash marks are lost.

mod backend;
mod catalog;
mod end;
mod ledger;
mod payer;
mod treasurer;

use std::{io, path::Path, sync::Arc};

use history_check::{Event, Workload, event::FORMAT, log::RECORDER};
use tokio::{task::JoinSet, time::Instant};

use self::{payer::Payer, treasurer::Treasurer};
use crate::{
    fleet::{DatabaseKind, Fleet, FleetPlan},
    history_writer::HistoryWriter,
    postgres::Postgres,
    rng::Rng,
    run::Recorded,
};

/// Records the history of a plan into `DIR/history.jsonl`; the logs of the programs are next to it. Fails
/// where there is a history already.
pub async fn record_budgets(
    plan: &FleetPlan,
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
    let backend = backend::start(plan.seed, history.clone()).await;
    let entities = catalog::entities();
    let fleet = Fleet::start(plan, postgres, dir, &history, &entities, backend).await?;
    catalog::rules().for_each(|rule| fleet.operator.note(rule));
    let stage = Stage { fleet };
    stage.warm_up(plan).await;
    stage.play(plan).await;
    stage.end(plan).await;
    stage.fleet.stop();
    Ok(Recorded { counts: history.finish()?, took: began.elapsed() })
}

struct Stage {
    fleet: Fleet,
}

impl Stage {
    /// Waits for the gateways, and lets two callers compete for a budget of one call.
    async fn warm_up(&self, plan: &FleetPlan) {
        let [mut first, mut second] = [0, 1].map(|index| self.payer(plan, plan.callers + index));
        for (number, gateway) in self.fleet.gateways.iter().enumerate() {
            gateway.ready().await;
            first.warm_up(number).await;
        }
        Payer::duel(&mut first, &mut second).await;
    }

    async fn play(&self, plan: &FleetPlan) {
        let began = Instant::now();
        let until = began + plan.work;
        let mut workers = JoinSet::new();
        for index in 0..plan.callers {
            workers.spawn(self.payer(plan, index).run(until));
        }
        let registers = plan.database == DatabaseKind::Single;
        let rng = Rng::new(plan.seed, "treasurer");
        let operator = self.fleet.operator.clone();
        workers.spawn(Treasurer::new(operator, rng, registers).run(until));
        workers.spawn(self.fleet.nemesis().run(plan.clone(), began));
        while let Some(done) = workers.join_next().await {
            done.expect("all workers end by themselves");
        }
    }

    fn payer(&self, plan: &FleetPlan, index: usize) -> Payer {
        Payer::new(index, plan.seed, &self.fleet.gateways, &self.fleet.history)
    }
}
