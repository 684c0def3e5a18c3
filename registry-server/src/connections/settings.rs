//! Settings of connections: limits, timeouts and the admin address.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    str::FromStr,
    time::Duration,
};

use clap::Args;
use registry_core::{
    parse_duration, parse_positive_duration,
    socket_address::{InvalidSocketAddress, parse_socket_address},
};

use crate::{cors::WebOrigin, flags::at_least_one};

/// Limits and timeouts of connections and requests.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Limits")]
pub struct ServeConfig {
    /// Address of /metrics, /livez and a detailed /readyz; `none` disables it
    ///
    /// Plain HTTP without authentication. It answers even when clients use up all connections of --listen.
    /// Default: 127.0.0.1:7071 if that port is free.
    #[arg(
        long,
        env = "REGISTRY_ADMIN_LISTEN",
        value_name = "ADDRESS:PORT",
        help_heading = "Listen"
    )]
    pub admin_listen: Option<AdminListen>,

    /// Origin of web pages that may use the API, such as `https://app.example`; may be repeated
    ///
    /// Applies to Connect (JSON), gRPC-web, /openapi.json, /registry.json and /schemas/. Without this option, calls
    /// of web pages are rejected. The environment variable separates origins with semicolons.
    #[arg(
        long = "cors-origin",
        env = "REGISTRY_CORS_ORIGINS",
        value_name = "ORIGIN",
        value_delimiter = ';',
        help_heading = "Listen",
        hide_short_help = true
    )]
    pub cors_origins: Vec<WebOrigin>,

    /// Maximum bytes of one gRPC request or response, except Sync messages
    ///
    /// The default of 64 MiB has room for the largest batch (48 MiB of documents).
    #[arg(long, env = "REGISTRY_MAX_MESSAGE_BYTES", default_value_t = 64 << 20, value_name = "BYTES", hide_short_help = true, value_parser = at_least_one(1 << 30))]
    pub max_message_bytes: usize,

    /// Maximum bytes of all requests that are still being received
    #[arg(long, env = "REGISTRY_MAX_BUFFERED_BYTES", default_value_t = 512 << 20, value_name = "BYTES", hide_short_help = true, value_parser = at_least_one(1 << 40))]
    pub max_buffered_bytes: usize,

    /// Maximum open connections; further connections wait to be accepted
    #[arg(long, env = "REGISTRY_MAX_CONNECTIONS", default_value_t = 20_000, value_name = "COUNT", hide_short_help = true, value_parser = at_least_one(1_000_000))]
    pub max_connections: usize,

    /// Maximum connections of one address (IPv6: one /64 network); further connections are closed
    ///
    /// Raise it to --max-connections if a proxy or NAT hides the addresses of the clients. Default: a
    /// quarter of --max-connections.
    #[arg(long, env = "REGISTRY_MAX_CONNECTIONS_PER_ADDRESS", value_name = "COUNT", hide_short_help = true, value_parser = at_least_one(1_000_000))]
    pub max_connections_per_address: Option<usize>,

    /// Maximum concurrent requests and streams of one connection
    #[arg(long, env = "REGISTRY_MAX_STREAMS_PER_CONNECTION", default_value_t = 2_000, value_name = "COUNT", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_streams_per_connection: u32,

    /// Timeout of every request except Sync; a longer deadline of the client does not extend it
    #[arg(long, env = "REGISTRY_REQUEST_TIMEOUT", default_value = "30s", value_name = "DURATION", hide_short_help = true, value_parser = parse_positive_duration)]
    pub request_timeout: Duration,

    /// Interval between pings of idle connections; a ping without a reply for the same time closes the connection
    #[arg(long, env = "REGISTRY_KEEPALIVE_INTERVAL", default_value = "30s", value_name = "DURATION", hide_short_help = true, value_parser = parse_positive_duration)]
    pub keepalive_interval: Duration,

    /// Time between the stop signal, when /readyz starts to fail, and the rejection of new connections
    #[arg(long, env = "REGISTRY_DRAIN_NOTICE", default_value = "200ms", value_name = "DURATION", hide_short_help = true, value_parser = parse_duration)]
    pub drain_notice: Duration,

    /// Maximum time for running requests to finish after --drain-notice
    ///
    /// A value below --request-timeout interrupts slow requests. Default: --request-timeout.
    #[arg(long, env = "REGISTRY_DRAIN_TIMEOUT", value_name = "DURATION", hide_short_help = true, value_parser = parse_duration)]
    pub drain_timeout: Option<Duration>,
}

/// Address of health checks and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminListen {
    /// Health checks and metrics are not served on a separate address.
    None,
    /// Serve them on this address.
    At(SocketAddr),
}

impl AdminListen {
    /// Default address, on loopback only.
    pub const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7071);
}

impl FromStr for AdminListen {
    type Err = InvalidSocketAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" { Ok(Self::None) } else { parse_socket_address(text).map(Self::At) }
    }
}

impl ServeConfig {
    /// Time limit of running requests after the stop signal.
    pub fn drain_timeout(&self) -> Duration {
        self.drain_timeout.unwrap_or(self.request_timeout)
    }

    /// Maximum connections of one address.
    pub fn connections_per_address(&self) -> usize {
        self.max_connections_per_address.unwrap_or(self.max_connections.div_ceil(4))
    }
}
