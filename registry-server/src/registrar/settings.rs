//! Settings of the writer.

use std::time::Duration;

use clap::Args;
use registry_core::parse_positive_duration;

use crate::flags::at_least_one;

/// Limits and timeouts of writes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Writing")]
pub struct RegistrarConfig {
    /// Most writes that wait; one more is refused.
    #[arg(long, env = "REGISTRY_WRITE_QUEUE", default_value_t = 4_096, value_parser = at_least_one(1_000_000))]
    pub write_queue: usize,

    /// Most bytes of documents that wait to be written.
    #[arg(long, env = "REGISTRY_WRITE_QUEUE_BYTES", default_value_t = 64 << 20, value_parser = at_least_one(1 << 40))]
    pub write_queue_bytes: usize,

    /// Most commits that share one transaction.
    #[arg(long, env = "REGISTRY_WRITE_GROUP", default_value_t = 256, value_parser = at_least_one(10_000))]
    pub write_group: usize,

    /// How often a write is retried when other servers commit first.
    #[arg(long, env = "REGISTRY_WRITE_ATTEMPTS", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub write_attempts: u32,

    /// Longest that one statement of the database may take.
    #[arg(long, env = "REGISTRY_DATABASE_TIMEOUT", default_value = "10s", value_parser = parse_positive_duration)]
    pub database_timeout: Duration,

    /// How long the log is searched for a write whose connection was lost, before its outcome is unknown.
    #[arg(long, env = "REGISTRY_LOST_WRITE_PATIENCE", default_value = "6s", value_parser = parse_positive_duration)]
    pub lost_write_patience: Duration,

    /// How often other servers' commits are polled when no notification arrives.
    #[arg(long, env = "REGISTRY_POLL_INTERVAL", default_value = "3s", value_parser = parse_positive_duration)]
    pub poll_interval: Duration,
}
