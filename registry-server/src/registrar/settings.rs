//! Settings of the writer.

use std::time::Duration;

use clap::Args;
use registry_core::parse_positive_duration;

use crate::flags::at_least_one;

/// Limits and timeouts of writes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Database")]
pub struct RegistrarConfig {
    /// Maximum writes in the queue; further writes are rejected
    #[arg(long, env = "REGISTRY_WRITE_QUEUE", default_value_t = 4_096, value_name = "COUNT", hide_short_help = true, value_parser = at_least_one(1_000_000))]
    pub write_queue: usize,

    /// Maximum bytes of documents in the write queue
    #[arg(long, env = "REGISTRY_WRITE_QUEUE_BYTES", default_value_t = 64 << 20, value_name = "BYTES", hide_short_help = true, value_parser = at_least_one(1 << 40))]
    pub write_queue_bytes: usize,

    /// Maximum commits in one database transaction
    #[arg(long, env = "REGISTRY_WRITE_GROUP", default_value_t = 256, value_name = "COUNT", hide_short_help = true, value_parser = at_least_one(10_000))]
    pub write_group: usize,

    /// Maximum attempts of a write that conflicts with commits of other servers
    #[arg(long, env = "REGISTRY_WRITE_ATTEMPTS", default_value_t = 50, value_name = "COUNT", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub write_attempts: u32,

    /// Timeout of one database statement
    #[arg(long, env = "REGISTRY_DATABASE_TIMEOUT", default_value = "10s", value_name = "DURATION", hide_short_help = true, value_parser = parse_positive_duration)]
    pub database_timeout: Duration,

    /// Maximum time to determine whether a write was committed, after losing the database connection
    ///
    /// After this time the write fails with `OUTCOME_UNKNOWN`.
    #[arg(long, env = "REGISTRY_WRITE_OUTCOME_TIMEOUT", default_value = "6s", value_name = "DURATION", hide_short_help = true, value_parser = parse_positive_duration)]
    pub write_outcome_timeout: Duration,

    /// Interval between checks for commits of other servers, as a fallback for notifications
    #[arg(long, env = "REGISTRY_POLL_INTERVAL", default_value = "3s", value_name = "DURATION", hide_short_help = true, value_parser = parse_positive_duration)]
    pub poll_interval: Duration,
}
