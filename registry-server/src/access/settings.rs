//! Settings of authentication and of the rate limit.

use std::num::NonZeroU32;

use clap::Args;

/// Authentication, public reads and the rate limit.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Access")]
pub struct AccessConfig {
    /// Require authentication on loopback too. Other addresses, and registries where a token was ever
    /// created, always require it.
    #[arg(long, env = "REGISTRY_REQUIRE_AUTH", conflicts_with = "insecure")]
    pub require_auth: bool,

    /// Accept credentials in plain text on addresses other than loopback, because a proxy or a mesh
    /// in front of the server terminates TLS.
    #[arg(long, env = "REGISTRY_PLAINTEXT")]
    pub plaintext: bool,

    /// Serve reads of /v0.1 (the MCP registry API) without authentication, because some of its
    /// clients cannot send a token.
    #[arg(long, env = "REGISTRY_PUBLIC_MCP_REGISTRY")]
    pub public_mcp_registry: bool,

    /// Requests per second of one principal at this server; 0: unlimited.
    #[arg(long, env = "REGISTRY_RATE_LIMIT", default_value_t = 500)]
    pub rate_limit: u32,

    /// Burst of requests that a principal may make above that rate.
    #[arg(long, env = "REGISTRY_RATE_BURST", default_value = "1000")]
    pub rate_burst: NonZeroU32,
}
