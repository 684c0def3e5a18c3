//! Settings of the streams.

use std::time::Duration;

use clap::Args;
use registry_core::parse_positive_duration;

use crate::flags::{at_least_one, at_most};

/// Limits and timeouts of Sync streams.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Following")]
pub struct FeedConfig {
    /// Most Sync streams at once.
    #[arg(long, env = "REGISTRY_MAX_STREAMS", default_value_t = 20_000, value_parser = at_least_one(1_000_000))]
    pub max_streams: usize,

    /// Most different scopes that are followed at once, beside everything.
    #[arg(long, env = "REGISTRY_MAX_SCOPES", default_value_t = 1_000, value_parser = at_least_one(100_000))]
    pub max_scopes: usize,

    /// Most of them that one principal follows, or one address without authentication. A relay
    /// needs as many as its followers follow [default: a quarter of --max-scopes].
    #[arg(long, env = "REGISTRY_MAX_CALLER_SCOPES", value_parser = at_least_one(100_000))]
    pub max_caller_scopes: Option<usize>,

    /// Most recent commits that are kept in memory for followers.
    #[arg(long, env = "REGISTRY_RECENT_COMMITS", default_value_t = 8_192, value_parser = at_most(1_000_000))]
    pub recent_commits: usize,

    /// Most bytes of recent commits that are kept in memory for followers, with their wire form.
    #[arg(long, env = "REGISTRY_RECENT_BYTES", default_value_t = 64 << 20, value_parser = at_most(1 << 40))]
    pub recent_bytes: usize,

    /// Commits that followers can have one by one; a follower that lacks an older one gets a
    /// snapshot. The log keeps them all.
    #[arg(long, env = "REGISTRY_KEEP_DELTAS", default_value_t = 10_000, value_name = "REVISIONS")]
    pub keep_deltas: u64,

    /// How long followers can have a commit that is no longer in memory; checked each minute
    /// [default: by --keep-deltas alone].
    #[arg(long, env = "REGISTRY_KEEP_DELTAS_FOR", value_parser = parse_positive_duration, value_name = "DURATION")]
    pub keep_deltas_for: Option<Duration>,

    /// A follower that takes no message for this long is disconnected; it may resume.
    #[arg(long, env = "REGISTRY_SLOW_READER_TIMEOUT", default_value = "30s", value_parser = parse_positive_duration)]
    pub slow_reader_timeout: Duration,

    /// How long a new stream may take to send its hello.
    #[arg(long, env = "REGISTRY_HELLO_TIMEOUT", default_value = "10s", value_parser = parse_positive_duration)]
    pub hello_timeout: Duration,

    /// How often an idle follower gets a progress message (a tenth more or less).
    #[arg(long, env = "REGISTRY_PROGRESS_INTERVAL", default_value = "10s", value_parser = parse_positive_duration)]
    pub progress_interval: Duration,

    /// How long disconnected gateways are listed.
    #[arg(long, env = "REGISTRY_GATEWAY_RETENTION", default_value = "720h", value_parser = parse_positive_duration)]
    pub gateway_retention: Duration,
}

impl FeedConfig {
    /// Most different scopes that one caller follows at once.
    pub fn caller_scopes(&self) -> usize {
        self.max_caller_scopes.unwrap_or(self.max_scopes.div_ceil(4))
    }
}
