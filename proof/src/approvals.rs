//! Histories with approvals: callers of tools at a fleet of gateways, a person that decides at the
//! servers, and a server that records what it executes.

mod approver;
mod backend;
mod buyer;
mod catalog;

use std::{io, path::Path, sync::Arc, time::Duration};

use history_check::{ApprovalEvent, Event, Workload, event::FORMAT, log::RECORDER};
use registry_proto::v1::ApprovalState;
use serde_json::Value;
use tokio::{
    sync::Notify,
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep},
};

use self::{
    approver::{Approver, requests},
    buyer::{Buyer, Questions},
};
use crate::{
    fleet::{Fleet, FleetPlan, Operator},
    history_writer::HistoryWriter,
    postgres::Postgres,
    rng::Rng,
    run::Recorded,
};

/// Time limit of the requests at the end.
const TIMEOUT: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_millis(200);

/// Records the history of a plan into `DIR/history.jsonl`; the logs of the programs are next to it. Fails
/// where there is a history already.
pub async fn record_approvals(
    plan: &FleetPlan,
    postgres: &Postgres,
    dir: &Path,
) -> io::Result<Recorded> {
    let began = Instant::now();
    std::fs::create_dir_all(dir)?;
    let history = Arc::new(HistoryWriter::create(&dir.join("history.jsonl"))?);
    let first = Event::Begin {
        format: FORMAT,
        workload: Workload::Approvals,
        seed: plan.seed,
        plan: plan.shown(),
    };
    history.note(RECORDER, first);
    let backend = backend::start(plan.seed, history.clone()).await;
    let entities = catalog::entities();
    let fleet = Fleet::start(plan, postgres, dir, &history, &entities, backend).await?;
    let client = fleet.client("approver", "approver").await;
    let stage = Stage { fleet, client, questions: Questions::default() };
    stage.warm_up(plan).await;
    stage.play(plan).await;
    stage.end().await;
    stage.fleet.stop();
    Ok(Recorded { counts: history.finish()?, took: began.elapsed() })
}

struct Stage {
    fleet: Fleet,
    /// A client of the person that approves.
    client: Operator,
    questions: Questions,
}

/// A person that decides in the background.
struct Deciding {
    stop: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Deciding {
    fn start(approver: Approver) -> Self {
        let stop = Arc::new(Notify::new());
        let task = tokio::spawn(approver.run(stop.clone()));
        Self { stop, task }
    }

    async fn end(self) {
        self.stop.notify_one();
        self.task.await.expect("a person ends by itself");
    }
}

impl Stage {
    /// Waits for the gateways, and lets two callers compete for one approval and one question.
    async fn warm_up(&self, plan: &FleetPlan) {
        for gateway in &self.fleet.gateways {
            gateway.ready().await;
        }
        let deciding = Deciding::start(self.approver(plan).generous());
        let [mut first, mut second] = [0, 1].map(|index| self.buyer(plan, plan.callers + index));
        Buyer::warm_up(&mut first, &mut second).await;
        deciding.end().await;
    }

    async fn play(&self, plan: &FleetPlan) {
        let deciding = Deciding::start(self.approver(plan));
        let began = Instant::now();
        let until = began + plan.work;
        let mut workers = JoinSet::new();
        for index in 0..plan.callers {
            workers.spawn(self.buyer(plan, index).run(began, until));
        }
        workers.spawn(self.fleet.nemesis().run(plan.clone(), began));
        while let Some(done) = workers.join_next().await {
            done.expect("all workers end by themselves");
        }
        deciding.end().await;
    }

    /// Records the requests that calls used, and those of the registry.
    async fn end(&self) {
        for gateway in &self.fleet.gateways {
            for event in gateway.audit_events() {
                let texts = [&event["request_id"], &event["approval"]].map(Value::as_str);
                if let [Some(call), Some(request)] = texts {
                    let (call, request) = (call.to_owned(), request.to_owned());
                    self.note(&gateway.name, ApprovalEvent::Used { call, request });
                }
            }
        }
        let deadline = Instant::now() + TIMEOUT;
        let servers = self.client.servers.len();
        for server in (0..servers).cycle() {
            if let Some(ended) = requests(&self.client, server, ApprovalState::Unspecified).await {
                self.fleet.history.note(RECORDER, Event::Settled {});
                for approval in ended {
                    let state = state(approval.state());
                    self.note(RECORDER, ApprovalEvent::Ended { request: approval.id, state });
                }
                return;
            }
            if Instant::now() > deadline {
                return;
            }
            sleep(INTERVAL).await;
        }
    }

    fn note(&self, who: &str, approval: ApprovalEvent) {
        self.fleet.history.note(who, Event::Approval { approval });
    }

    fn buyer(&self, plan: &FleetPlan, index: usize) -> Buyer {
        let Fleet { gateways, history, .. } = &self.fleet;
        Buyer::new(index, plan.seed, gateways, history, &self.questions)
    }

    fn approver(&self, plan: &FleetPlan) -> Approver {
        Approver::new(self.client.clone(), Rng::new(plan.seed, "approver"))
    }
}

/// The name of a state, as people see it.
fn state(state: ApprovalState) -> String {
    state.as_str_name().trim_start_matches("APPROVAL_STATE_").to_lowercase()
}
