//! Records and checks histories for a given time, some of them concurrently, and prints one line
//! for each.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use history_check::{History, Workload, validators_of};
use tokio::task::JoinSet;

use crate::{FleetPlan, Plan, Postgres, Recorded, record, record_approvals, record_budgets};

/// The parameters of a soak run.
#[derive(Debug, Clone)]
pub struct Soak {
    /// The workload. Without one, every third history has budgets or approvals.
    pub workload: Option<Workload>,
    /// The first seed; the next histories use the following numbers.
    pub seed: u64,
    /// The maximum number of histories.
    pub histories: u64,
    /// The time after which no history is started.
    pub lasts: Duration,
    /// The number of concurrent histories.
    pub at_once: usize,
    /// The directory of histories. Only those with violations are kept.
    pub dir: PathBuf,
}

/// The result of a soak run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Histories.
    pub histories: u64,
    /// Commits in all of them.
    pub commits: u64,
    /// Events in all of them.
    pub events: u64,
    /// Injected faults.
    pub faults: u64,
    /// Seeds of histories with violations.
    pub violated: Vec<u64>,
    /// Seeds of histories that could not be recorded.
    pub broken: Vec<u64>,
}

/// Runs histories.
pub async fn soak(soak: Soak) -> Tally {
    let next = Arc::new(AtomicU64::new(0));
    let deadline = Instant::now() + soak.lasts;
    let mut workers = JoinSet::new();
    for _ in 0..soak.at_once {
        let (soak, next) = (soak.clone(), next.clone());
        workers.spawn(async move {
            let mut postgres = Postgres::start().await;
            let mut tally = Tally::default();
            while Instant::now() < deadline {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= soak.histories {
                    break;
                }
                let seed = soak.seed + number;
                let workload = soak.workload.unwrap_or_else(|| mixed(seed));
                let one = one(workload, seed, postgres.clone(), soak.dir.clone());
                let one = tokio::spawn(one);
                match one.await {
                    Ok(of_one) => tally.add(of_one),
                    Err(e) => {
                        println!("seed {seed}: the recorder failed: {e}");
                        tally.broken.push(seed);
                        postgres = Postgres::start().await;
                    }
                }
            }
            tally
        });
    }
    let mut all = Tally::default();
    while let Some(done) = workers.join_next().await {
        all.add(done.expect("a worker waits for its recorders"));
    }
    all
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.histories += other.histories;
        self.commits += other.commits;
        self.events += other.events;
        self.faults += other.faults;
        self.violated.extend(other.violated);
        self.broken.extend(other.broken);
    }
}

/// The workload of a seed among all.
fn mixed(seed: u64) -> Workload {
    match seed % 9 {
        0 | 3 => Workload::Budgets,
        6 => Workload::Approvals,
        _ => Workload::Catalog,
    }
}

/// Records the history of a seed.
pub async fn record_seed(
    workload: Workload,
    seed: u64,
    postgres: &Postgres,
    dir: &Path,
) -> io::Result<Recorded> {
    match workload {
        Workload::Catalog => record(&Plan::from_seed(seed), postgres, dir).await,
        Workload::Budgets => {
            record_budgets(&FleetPlan::from_seed(workload, seed), postgres, dir).await
        }
        Workload::Approvals => {
            record_approvals(&FleetPlan::from_seed(workload, seed), postgres, dir).await
        }
    }
}

/// Records and checks one history, and prints its result.
async fn one(workload: Workload, seed: u64, postgres: Postgres, dir: PathBuf) -> Tally {
    let dir = dir.join(format!("seed-{seed}"));
    let _ = std::fs::remove_dir_all(&dir);
    let recorded = record_seed(workload, seed, &postgres, &dir).await;
    let recorded = recorded.unwrap_or_else(|e| panic!("seed {seed}: {}: {e}", dir.display()));
    let file = dir.join("history.jsonl");
    let text = std::fs::read_to_string(&file).expect("the history was written");
    let checking = tokio::task::spawn_blocking(move || (verdict(&text), summary(&text)));
    let (verdict, summary) = checking.await.expect("validators do not break");
    let counts = recorded.counts;
    println!(
        "{workload} seed {seed}: {} faults, {} commits, {} events, {:.1} s: {}",
        counts.faults,
        counts.commits,
        counts.lines,
        recorded.took.as_secs_f64(),
        if verdict.is_empty() { "ok".to_owned() } else { verdict.join("; ") }
    );
    if let Some(summary) = summary {
        println!("  {summary}");
    }
    let violated = if verdict.is_empty() {
        let _ = std::fs::remove_dir_all(&dir);
        Vec::new()
    } else {
        println!("  kept: {}", file.display());
        println!(
            "  again: proof record --workload {workload} --seed {seed} --dir DIR; history-check DIR/history.jsonl"
        );
        vec![seed]
    };
    let (commits, events, faults) = (counts.commits, counts.lines, counts.faults);
    Tally { histories: 1, commits, events, faults, violated, broken: Vec::new() }
}

/// The violated invariants, each with its first violation.
pub fn verdict(text: &str) -> Vec<String> {
    let history = match History::parse(text) {
        Ok(history) => history,
        Err(unreadable) => return vec![unreadable.0],
    };
    let violated = |validator: &history_check::Validator| {
        let found = (validator.check)(&history);
        let first = found.first()?;
        Some(format!(
            "VIOLATED {} ({}): line {:?}: {}",
            validator.name,
            found.len(),
            first.lines,
            first.what
        ))
    };
    validators_of(&history).iter().filter_map(violated).collect()
}

/// The result of a history with budgets or approvals.
fn summary(text: &str) -> Option<String> {
    History::parse(text).ok()?.summary()
}
