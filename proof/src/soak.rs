//! Histories one after another, and a few at once, for a given time: each is recorded, checked, and
//! told in a line.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use history_check::{History, VALIDATORS};
use tokio::task::JoinSet;

use crate::{Plan, Postgres, record};

/// What to run.
#[derive(Debug, Clone)]
pub struct Soak {
    /// The first seed; the others follow on it.
    pub seed: u64,
    /// How many histories at most.
    pub histories: u64,
    /// After so long no other history is begun.
    pub lasts: Duration,
    /// How many at once.
    pub at_once: usize,
    /// Where the histories are written. Only those that violate something are kept.
    pub dir: PathBuf,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Histories.
    pub histories: u64,
    /// Commits in all of them.
    pub commits: u64,
    /// Events in all of them.
    pub events: u64,
    /// What the nemesis did.
    pub faults: u64,
    /// The seeds of histories in which something was violated.
    pub violated: Vec<u64>,
    /// The seeds of histories that could not be recorded.
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
                let one = tokio::spawn(one(seed, postgres.clone(), soak.dir.clone()));
                match one.await {
                    Ok(of_one) => tally.add(of_one),
                    Err(e) => {
                        println!("seed {seed}: the recorder broke: {e}");
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

/// Records and checks one history, and says in a line what came of it.
async fn one(seed: u64, postgres: Postgres, dir: PathBuf) -> Tally {
    let dir = dir.join(format!("seed-{seed}"));
    let _ = std::fs::remove_dir_all(&dir);
    let recorded = record(&Plan::of(seed), &postgres, &dir).await;
    let recorded = recorded.unwrap_or_else(|e| panic!("seed {seed}: {}: {e}", dir.display()));
    let file = dir.join("history.jsonl");
    let text = std::fs::read_to_string(&file).expect("the history was written");
    let checking = tokio::task::spawn_blocking(move || verdict(&text));
    let verdict = checking.await.expect("validators do not break");
    let counts = recorded.counts;
    println!(
        "seed {seed}: {} faults, {} commits, {} events, {:.1} s: {}",
        counts.faults,
        counts.commits,
        counts.lines,
        recorded.took.as_secs_f64(),
        if verdict.is_empty() { "ok".to_owned() } else { verdict.join("; ") }
    );
    let violated = if verdict.is_empty() {
        let _ = std::fs::remove_dir_all(&dir);
        Vec::new()
    } else {
        println!("  kept: {}", file.display());
        println!("  again: proof record --seed {seed} --dir DIR; history-check DIR/history.jsonl");
        vec![seed]
    };
    let (commits, events, faults) = (counts.commits, counts.lines, counts.faults);
    Tally { histories: 1, commits, events, faults, violated, broken: Vec::new() }
}

/// The promises that are violated, each with what shows it first.
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
    VALIDATORS.iter().filter_map(violated).collect()
}
