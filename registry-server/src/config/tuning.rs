//! The limits and intervals of each concern, as flags.
//!
//! Deliberately absent: limits on documents, which are the domain's and the same everywhere.

use std::{
    net::{AddrParseError, IpAddr, Ipv4Addr, SocketAddr},
    str::FromStr,
    time::Duration,
};

use clap::Args;
use registry_core::{parse_duration, parse_wait};

use super::{at_least_one, at_most};

/// How requests are served.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Serving")]
pub struct ServeConfig {
    /// Largest gRPC request, and answer other than a message of Sync, in bytes. The default has room for the
    /// largest batch (48 MiB of documents).
    #[arg(long, env = "REGISTRY_MAX_MESSAGE_BYTES", default_value_t = 64 << 20, value_parser = at_least_one(1 << 30))]
    pub max_message_bytes: usize,

    /// Most bytes of requests that are held while they arrive, all together.
    #[arg(long, env = "REGISTRY_MAX_BUFFERED_BYTES", default_value_t = 512 << 20, value_parser = at_least_one(1 << 40))]
    pub max_buffered_bytes: usize,

    /// Most connections at once; more wait to be accepted.
    #[arg(long, env = "REGISTRY_MAX_CONNECTIONS", default_value_t = 20_000, value_parser = at_least_one(1_000_000))]
    pub max_connections: usize,

    /// Most connections of one address (IPv6: /64); more are closed. Raise it to --max-connections
    /// where a proxy or NAT in front hides the clients' addresses
    /// [default: a quarter of --max-connections].
    #[arg(long, env = "REGISTRY_MAX_ADDRESS_CONNECTIONS", value_parser = at_least_one(1_000_000))]
    pub max_address_connections: Option<usize>,

    /// Most requests and streams that one connection may have open.
    #[arg(long, env = "REGISTRY_MAX_CONNECTION_STREAMS", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connection_streams: u32,

    /// Longest that any request but Sync may take, whatever deadline its caller gives.
    #[arg(long, env = "REGISTRY_REQUEST_TIMEOUT", default_value = "30s", value_parser = parse_wait)]
    pub request_timeout: Duration,

    /// How often quiet connections are pinged; one that does not answer as long again is closed.
    #[arg(long, env = "REGISTRY_KEEPALIVE", default_value = "30s", value_parser = parse_wait)]
    pub keepalive: Duration,

    /// After a signal to stop: how long to report not ready before connections are refused.
    #[arg(long, env = "REGISTRY_DRAIN_NOTICE", default_value = "200ms", value_parser = parse_duration)]
    pub drain_notice: Duration,

    /// After a signal to stop: how long work that has begun may take to finish. A shorter time than
    /// --request-timeout cuts off slow requests [default: as --request-timeout].
    #[arg(long, env = "REGISTRY_DRAIN_TIMEOUT", value_parser = parse_duration)]
    pub drain_timeout: Option<Duration>,

    /// The address that serves /metrics, /livez and a detailed /readyz, in plain HTTP and without
    /// authentication; or `none`. It answers also while clients fill --listen
    /// [default: 127.0.0.1:7071, where that is free].
    #[arg(long, env = "REGISTRY_ADMIN_LISTEN", value_name = "ADDRESS")]
    pub admin_listen: Option<AdminListen>,
}

/// Where probes and metrics are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminListen {
    /// Nowhere.
    None,
    /// On this address.
    At(SocketAddr),
}

impl AdminListen {
    /// On the machine itself.
    pub const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7071);
}

impl FromStr for AdminListen {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" { Ok(Self::None) } else { text.parse().map(Self::At) }
    }
}

impl ServeConfig {
    /// How long work that has begun may take to finish after the signal to stop.
    pub fn drain_timeout(&self) -> Duration {
        self.drain_timeout.unwrap_or(self.request_timeout)
    }

    /// Most connections of one address.
    pub fn address_connections(&self) -> usize {
        self.max_address_connections.unwrap_or(self.max_connections.div_ceil(4))
    }
}

/// How writes are batched.
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

    /// How often a write is tried again when other servers keep coming first.
    #[arg(long, env = "REGISTRY_WRITE_ATTEMPTS", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub write_attempts: u32,

    /// Longest that one statement of the database may take.
    #[arg(long, env = "REGISTRY_DATABASE_TIMEOUT", default_value = "10s", value_parser = parse_wait)]
    pub database_timeout: Duration,

    /// How long a write whose connection was lost is looked for before its outcome is unknown.
    #[arg(long, env = "REGISTRY_LOST_WRITE_PATIENCE", default_value = "6s", value_parser = parse_wait)]
    pub lost_write_patience: Duration,

    /// How often to look for other servers' commits when no notification comes.
    #[arg(long, env = "REGISTRY_POLL_INTERVAL", default_value = "3s", value_parser = parse_wait)]
    pub poll_interval: Duration,
}

/// How followers are served.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Following")]
pub struct FeedConfig {
    /// Most Sync streams at once.
    #[arg(long, env = "REGISTRY_MAX_STREAMS", default_value_t = 20_000, value_parser = at_least_one(1_000_000))]
    pub max_streams: usize,

    /// Most different scopes that are followed at once, beside everything.
    #[arg(long, env = "REGISTRY_MAX_SCOPES", default_value_t = 1_000, value_parser = at_least_one(100_000))]
    pub max_scopes: usize,

    /// Most of them that one principal follows, or one address where callers are not asked who they
    /// are; a relay needs as many as its followers follow [default: a quarter of --max-scopes].
    #[arg(long, env = "REGISTRY_MAX_CALLER_SCOPES", value_parser = at_least_one(100_000))]
    pub max_caller_scopes: Option<usize>,

    /// Most recent commits that are kept in memory for followers.
    #[arg(long, env = "REGISTRY_RECENT_COMMITS", default_value_t = 8_192, value_parser = at_most(1_000_000))]
    pub recent_commits: usize,

    /// Most bytes of recent commits that are kept in memory for followers, with their wire form.
    #[arg(long, env = "REGISTRY_RECENT_BYTES", default_value_t = 64 << 20, value_parser = at_most(1 << 40))]
    pub recent_bytes: usize,

    /// Commits that followers can have one by one; who lacks an older one gets a snapshot. The log
    /// keeps them all.
    #[arg(long, env = "REGISTRY_KEEP_DELTAS", default_value_t = 10_000, value_name = "REVISIONS")]
    pub keep_deltas: u64,

    /// How long followers can have a commit that is no longer in memory; looked at each minute
    /// [default: by --keep-deltas alone].
    #[arg(long, env = "REGISTRY_KEEP_DELTAS_FOR", value_parser = parse_wait, value_name = "DURATION")]
    pub keep_deltas_for: Option<Duration>,

    /// A follower that takes no message for this long is cut off; it may resume.
    #[arg(long, env = "REGISTRY_SLOW_READER_TIMEOUT", default_value = "30s", value_parser = parse_wait)]
    pub slow_reader_timeout: Duration,

    /// How long a new stream may take to say hello.
    #[arg(long, env = "REGISTRY_HELLO_TIMEOUT", default_value = "10s", value_parser = parse_wait)]
    pub hello_timeout: Duration,

    /// How often a follower with nothing to learn is told so (a tenth more or less).
    #[arg(long, env = "REGISTRY_PROGRESS_INTERVAL", default_value = "10s", value_parser = parse_wait)]
    pub progress_interval: Duration,

    /// How long gateways that are gone are remembered.
    #[arg(long, env = "REGISTRY_GATEWAY_RETENTION", default_value = "720h", value_parser = parse_wait)]
    pub gateway_retention: Duration,
}

impl FeedConfig {
    /// Most different scopes that one caller follows at once.
    pub fn caller_scopes(&self) -> usize {
        self.max_caller_scopes.unwrap_or(self.max_scopes.div_ceil(4))
    }
}
