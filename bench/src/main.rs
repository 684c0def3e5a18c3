//! The benchmarks: each a ratio against a peer or a limit, both sides in the same run.
//!
//! `make bench` runs all of them and records the table in `bench/README.md`.

mod bulk;
mod calls;
mod catalog;
mod catchup;
mod crowd;
mod etcd;
mod follow;
mod graph;
mod large;
mod load;
mod memory;
mod nginx;
mod reads;
mod report;
mod sample;
mod sbom;
mod search;
mod storm;
mod writes;

use clap::{Parser, ValueEnum};

use report::Report;

/// Measures the registry and the gateway beside their peers.
#[derive(Debug, Parser)]
struct Cli {
    /// What to measure; nothing: everything. Only a run of everything is recorded in
    /// bench/README.md, because results of different hours cannot be compared.
    sections: Vec<Section>,
    /// How long each load lasts, in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Only print; leave bench/README.md alone.
    #[arg(long)]
    no_record: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Section {
    /// Registrations a second, beside pgbench.
    Writes,
    /// Registrations in batches, beside a bare insert.
    Bulk,
    /// Exact gets a second.
    Reads,
    /// Questions about the graph at 100,000 entities.
    Graph,
    /// From the commit to each of 1 to 10,000 streams, beside etcd.
    Follow,
    /// Catching up after missed commits, beside etcd.
    Catchup,
    /// Followers that do not read, and 10,000 that come back at once.
    Storm,
    /// 100,000 entities: snapshot, validation.
    Catalog,
    /// 100,000 entities on Postgres: releases under every rule, `audit verify`.
    Large,
    /// Searches of 100,000 entities.
    Search,
    /// 100,000 entities: bills of materials.
    Sbom,
    /// tools/call and tools/list: direct, through nginx, through the gateway.
    Calls,
    /// A gateway without a registry: its first call, and routing.
    Standalone,
    /// tools/call through the stdio bridge, beside HTTP.
    Bridge,
    /// Composed tools: a step, a scatter, a journaled step.
    Compositions,
    /// Memory of both processes, and the gateway's cold start.
    Memory,
}

#[tokio::main]
async fn main() {
    let cli = Cli::parse();
    let mut report = Report::default();
    let all = Section::value_variants();
    let wanted = if cli.sections.is_empty() { all } else { cli.sections.as_slice() };
    for section in wanted {
        match section {
            Section::Writes => writes::measure(&mut report, cli.seconds).await,
            Section::Bulk => bulk::measure(&mut report, cli.seconds).await,
            Section::Reads => reads::measure(&mut report, cli.seconds).await,
            Section::Graph => graph::measure(&mut report, cli.seconds).await,
            Section::Follow => follow::measure(&mut report).await,
            Section::Catchup => catchup::measure(&mut report).await,
            Section::Storm => storm::measure(&mut report).await,
            Section::Catalog => catalog::measure(&mut report).await,
            Section::Large => large::measure(&mut report, cli.seconds).await,
            Section::Search => search::measure(&mut report, cli.seconds).await,
            Section::Sbom => sbom::measure(&mut report).await,
            Section::Calls => calls::measure(&mut report, cli.seconds).await,
            Section::Standalone => calls::standalone::measure(&mut report, cli.seconds).await,
            Section::Bridge => calls::bridge::measure(&mut report, cli.seconds).await,
            Section::Compositions => calls::composed::measure(&mut report, cli.seconds).await,
            Section::Memory => memory::measure(&mut report).await,
        }
    }
    println!("\n{}", report.table());
    if !cli.no_record && cli.sections.is_empty() {
        report.record();
    }
}
