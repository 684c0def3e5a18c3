//! Benchmarks: each compares a result with a peer or a limit, measured in the same run.
//!
//! `make bench` runs all of them and records the table in `bench/README.md`.

mod a2a;
mod agentgateway;
mod agents;
mod arrivals;
mod bare_hop;
mod budgets;
mod bulk;
mod calls;
mod catalog;
mod catchup;
mod cold_starts;
mod contention;
mod etcd;
mod follow;
mod followers;
mod governance;
mod governed;
mod graph;
mod idle_server;
mod inspection;
mod large;
mod load;
mod memory;
mod nginx;
mod peer;
mod perf;
mod pgbench;
mod reads;
mod report;
mod sample;
mod sbom;
mod search;
mod storm;
mod turns;
mod writes;

use clap::{Parser, ValueEnum};

use report::Report;

/// Benchmarks of the registry and the gateway, compared with their peers.
#[derive(Debug, Parser)]
struct Cli {
    /// Sections to measure; default: all. Only a complete run is recorded in bench/README.md,
    /// because results of different hours are not comparable.
    sections: Vec<Section>,
    /// Duration of each load in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Print the results without recording them in bench/README.md.
    #[arg(long)]
    no_record: bool,
    /// Serve idle streams on this port, as the peer of `memory`.
    #[arg(long, hide = true)]
    idle_server: Option<u16>,
    /// Forward requests on this port, as a peer of `a2a`.
    #[arg(long, hide = true, requires = "bare_hop_upstream")]
    bare_hop: Option<u16>,
    /// The upstream of `--bare-hop`.
    #[arg(long, hide = true)]
    bare_hop_upstream: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Section {
    /// Registrations per second, compared with pgbench.
    Writes,
    /// Registrations in batches, compared with a bare insert.
    Bulk,
    /// Exact gets per second.
    Reads,
    /// Graph queries with 100,000 entities.
    Graph,
    /// Delivery of commits to 1 to 10,000 streams, compared with etcd.
    Follow,
    /// Catch-up after missed commits, compared with etcd.
    Catchup,
    /// Followers that do not read, and 10,000 concurrent reconnections.
    Storm,
    /// 100,000 entities: snapshot, validation.
    Catalog,
    /// 100,000 entities on Postgres: releases under every rule, `audit verify`.
    Large,
    /// Searches over 100,000 entities.
    Search,
    /// Bills of materials with 100,000 entities.
    Sbom,
    /// `tools/call` and `tools/list`: direct, through nginx, through the gateway.
    Calls,
    /// `tools/call` at 256 connections over 100 tools, compared with nginx.
    Contention,
    /// `tools/call` with all kinds of policies, compared with nginx.
    Governed,
    /// A gateway without a registry: first call and routing.
    Standalone,
    /// `tools/call` through the stdio bridge, compared with HTTP.
    Bridge,
    /// Compositions: a step, a scatter, a journaled step.
    Compositions,
    /// A2A: messages and streams, direct, through nginx, through the gateway.
    A2a,
    /// Data agents: `agent.execute` and AIO compared with `tools/call`, and memory of idle agents
    Agents,
    /// Policies: governed calls, and views with 10,000 policies.
    Governance,
    /// Budgets: priced calls, grants compared with pgbench, a budget of 100 gateways, idle rights.
    Budgets,
    /// Inspection of texts and JSON: throughput, and linear time on hostile input.
    Inspection,
    /// Memory of both processes.
    Memory,
    /// Starts of a gateway with 10,000 tools from disk, and of a registry with 100,000 entities.
    ColdStarts,
}

#[tokio::main]
async fn main() {
    let cli = Cli::parse();
    if let Some(port) = cli.idle_server {
        return idle_server::serve(port).await;
    }
    if let (Some(port), Some(upstream)) = (cli.bare_hop, cli.bare_hop_upstream) {
        return bare_hop::serve(port, upstream).await;
    }
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
            Section::Contention => contention::measure(&mut report, cli.seconds).await,
            Section::Governed => governed::measure(&mut report, cli.seconds).await,
            Section::Standalone => calls::standalone::measure(&mut report, cli.seconds).await,
            Section::Bridge => calls::bridge::measure(&mut report, cli.seconds).await,
            Section::Compositions => calls::composed::measure(&mut report, cli.seconds).await,
            Section::A2a => a2a::measure(&mut report, cli.seconds).await,
            Section::Agents => agents::measure(&mut report, cli.seconds).await,
            Section::Governance => governance::measure(&mut report, cli.seconds).await,
            Section::Budgets => budgets::measure(&mut report, cli.seconds).await,
            Section::Inspection => inspection::measure(&mut report, cli.seconds).await,
            Section::Memory => memory::measure(&mut report).await,
            Section::ColdStarts => cold_starts::measure(&mut report).await,
        }
    }
    println!("\n{}", report.table());
    if !cli.no_record && cli.sections.is_empty() {
        report.record();
    }
}
