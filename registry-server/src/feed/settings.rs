//! Settings of Sync streams.

use std::time::Duration;

use clap::Args;
use registry_core::parse_positive_duration;

use crate::flags::{at_least_one, at_most};

/// Limits and timeouts of Sync streams.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sync streams")]
pub struct FeedConfig {
    /// Maximum open Sync streams
    #[arg(long, env = "REGISTRY_MAX_STREAMS", default_value_t = 20_000, value_name = "COUNT", hide_short_help = true, value_parser = at_least_one(1_000_000))]
    pub max_streams: usize,

    /// Maximum distinct scopes with followers at the same time
    #[arg(long, env = "REGISTRY_MAX_SCOPES", default_value_t = 1_000, value_name = "COUNT", hide_short_help = true, value_parser = at_least_one(100_000))]
    pub max_scopes: usize,

    /// Maximum distinct scopes that one caller follows at the same time
    ///
    /// Callers are principals, or addresses if authentication is disabled. A relay counts as one caller for
    /// all of its followers. Default: a quarter of --max-scopes.
    #[arg(long, env = "REGISTRY_MAX_SCOPES_PER_CALLER", value_name = "COUNT", hide_short_help = true, value_parser = at_least_one(100_000))]
    pub max_scopes_per_caller: Option<usize>,

    /// Maximum recent commits kept in memory for followers
    #[arg(long, env = "REGISTRY_RECENT_COMMITS", default_value_t = 8_192, value_name = "COUNT", hide_short_help = true, value_parser = at_most(1_000_000))]
    pub recent_commits: usize,

    /// Maximum bytes of recent commits and their encoded messages kept in memory for followers
    #[arg(long, env = "REGISTRY_RECENT_BYTES", default_value_t = 64 << 20, value_name = "BYTES", hide_short_help = true, value_parser = at_most(1 << 40))]
    pub recent_bytes: usize,

    /// Recent revisions that followers can resume from; older followers get a snapshot
    ///
    /// The log keeps all revisions.
    #[arg(
        long,
        env = "REGISTRY_RETAIN_REVISIONS",
        default_value_t = 10_000,
        value_name = "COUNT",
        hide_short_help = true
    )]
    pub retain_revisions: u64,

    /// Maximum age of a revision that followers can resume from when it is no longer in memory
    ///
    /// Checked every minute. Default: no age limit; --retain-revisions applies.
    #[arg(long, env = "REGISTRY_RETAIN_DURATION", value_name = "DURATION", hide_short_help = true, value_parser = parse_positive_duration)]
    pub retain_duration: Option<Duration>,

    /// Disconnect a follower that has not read for this long; it may resume
    #[arg(long, env = "REGISTRY_SLOW_READER_TIMEOUT", default_value = "30s", value_name = "DURATION", hide_short_help = true, value_parser = parse_positive_duration)]
    pub slow_reader_timeout: Duration,

    /// Timeout of the first message of a new stream
    #[arg(long, env = "REGISTRY_HELLO_TIMEOUT", default_value = "10s", value_name = "DURATION", hide_short_help = true, value_parser = parse_positive_duration)]
    pub hello_timeout: Duration,

    /// Interval between heartbeats to idle followers, with 10 % jitter
    #[arg(long, env = "REGISTRY_HEARTBEAT_INTERVAL", default_value = "10s", value_name = "DURATION", hide_short_help = true, value_parser = parse_positive_duration)]
    pub heartbeat_interval: Duration,

    /// Remove a disconnected gateway from the list of gateways after this time
    #[arg(long, env = "REGISTRY_GATEWAY_RETENTION", default_value = "720h", value_name = "DURATION", hide_short_help = true, value_parser = parse_positive_duration)]
    pub gateway_retention: Duration,
}

impl FeedConfig {
    /// Maximum distinct scopes that one caller follows at the same time.
    pub fn scopes_per_caller(&self) -> usize {
        self.max_scopes_per_caller.unwrap_or(self.max_scopes.div_ceil(4))
    }
}
