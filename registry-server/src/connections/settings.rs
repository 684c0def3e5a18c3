//! Settings of the sockets: limits, timeouts, and the admin address.

use std::{
    net::{AddrParseError, IpAddr, Ipv4Addr, SocketAddr},
    str::FromStr,
    time::Duration,
};

use clap::Args;
use registry_core::{parse_duration, parse_positive_duration};

use crate::flags::at_least_one;

/// Limits and timeouts of connections and requests.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Serving")]
pub struct ServeConfig {
    /// Largest gRPC request or response in bytes, except messages of Sync. The default has room for
    /// the largest batch (48 MiB of documents).
    #[arg(long, env = "REGISTRY_MAX_MESSAGE_BYTES", default_value_t = 64 << 20, value_parser = at_least_one(1 << 30))]
    pub max_message_bytes: usize,

    /// Most bytes of all requests that have not arrived completely.
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

    /// Timeout of every request except Sync. A longer deadline of the caller does not extend it.
    #[arg(long, env = "REGISTRY_REQUEST_TIMEOUT", default_value = "30s", value_parser = parse_positive_duration)]
    pub request_timeout: Duration,

    /// How often idle connections are pinged. A connection without an answer for the same time is closed.
    #[arg(long, env = "REGISTRY_KEEPALIVE", default_value = "30s", value_parser = parse_positive_duration)]
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

/// The address of probes and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminListen {
    /// No address.
    None,
    /// This address.
    At(SocketAddr),
}

impl AdminListen {
    /// The default, on loopback.
    pub const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7071);
}

impl FromStr for AdminListen {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" { Ok(Self::None) } else { text.parse().map(Self::At) }
    }
}

impl ServeConfig {
    /// Time limit for running work after the signal to stop.
    pub fn drain_timeout(&self) -> Duration {
        self.drain_timeout.unwrap_or(self.request_timeout)
    }

    /// Most connections of one address.
    pub fn address_connections(&self) -> usize {
        self.max_address_connections.unwrap_or(self.max_connections.div_ceil(4))
    }
}
