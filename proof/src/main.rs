//! `proof`: records histories, and runs many of them.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Parser, Subcommand};
use history_check::Workload;
use proof::{
    FleetPlan, Plan, Postgres,
    soak::{Soak, record_seed, soak},
};
use registry_core::parse_duration;

/// Records histories of real servers, gateways and followers under faults, for history-check.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Records the history of one seed into DIR/history.jsonl.
    Record {
        /// Workload: catalog, budgets or approvals.
        #[arg(long, default_value_t = Workload::Catalog)]
        workload: Workload,
        /// Seed of the plan.
        #[arg(long)]
        seed: u64,
        /// Directory of the history.
        #[arg(long)]
        dir: PathBuf,
    },
    /// Prints the plan of a seed.
    Plan {
        /// Workload: catalog, budgets or approvals.
        #[arg(long, default_value_t = Workload::Catalog)]
        workload: Workload,
        /// Seed of the plan.
        #[arg(long)]
        seed: u64,
    },
    /// Records and checks histories for a time; fails if one violates an invariant.
    Soak {
        /// Workload: catalog, budgets or approvals [default: all, budgets and approvals in every third
        /// history].
        #[arg(long)]
        workload: Option<Workload>,
        /// Time during which histories are started: 90s, 10m, 2h.
        #[arg(long = "for", value_parser = parse_duration)]
        lasts: Duration,
        /// First seed; the next histories use the following numbers.
        #[arg(long)]
        seed: u64,
        /// Maximum number of histories.
        #[arg(long, default_value_t = u64::MAX)]
        histories: u64,
        /// Number of concurrent histories.
        #[arg(long, default_value_t = 2)]
        at_once: usize,
        /// Directory of histories; those with violations are kept.
        #[arg(long, default_value = "target/histories")]
        dir: PathBuf,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Record { workload, seed, dir } => {
            let postgres = Postgres::start().await;
            match record_seed(workload, seed, &postgres, &dir).await {
                Ok(recorded) => println!("{recorded:?}: {}", dir.join("history.jsonl").display()),
                Err(e) => {
                    eprintln!("error: {}: {e}", dir.display());
                    return ExitCode::from(2);
                }
            }
        }
        Command::Plan { workload, seed } => {
            let shown = match workload {
                Workload::Catalog => Plan::from_seed(seed).shown(),
                Workload::Budgets | Workload::Approvals => {
                    FleetPlan::from_seed(workload, seed).shown()
                }
            };
            println!("{}", shown.join("\n"));
        }
        Command::Soak { workload, lasts, seed, histories, at_once, dir } => {
            let began = std::time::Instant::now();
            let tally = soak(Soak { workload, seed, histories, lasts, at_once, dir }).await;
            println!(
                "{} histories in {:.0} s from seed {seed}: {} faults, {} commits, {} events; {} violated",
                tally.histories,
                began.elapsed().as_secs_f64(),
                tally.faults,
                tally.commits,
                tally.events,
                tally.violated.len()
            );
            if !tally.violated.is_empty() || !tally.broken.is_empty() {
                println!("violated: {:?}; not recorded: {:?}", tally.violated, tally.broken);
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
