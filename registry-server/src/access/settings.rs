//! Settings of authentication and of the rate limit.

use std::num::NonZeroU32;

use clap::Args;

/// Authentication, public reads and the rate limit.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Authentication")]
pub struct AccessConfig {
    /// Disable authentication: anyone who can connect has full access
    ///
    /// Applies to every address, including non-loopback addresses.
    #[arg(long, env = "REGISTRY_INSECURE")]
    pub insecure: bool,

    /// Require authentication on loopback addresses too
    ///
    /// Other addresses always require it, and so does a registry that ever had a token.
    #[arg(long, env = "REGISTRY_REQUIRE_AUTH", conflicts_with = "insecure")]
    pub require_auth: bool,

    /// Accept credentials without TLS on non-loopback addresses
    ///
    /// Only for a server behind a proxy or a service mesh that terminates TLS.
    #[arg(long, env = "REGISTRY_PLAINTEXT", hide_short_help = true)]
    pub plaintext: bool,

    /// Serve reads of /v0.1 (the MCP registry API) without authentication
    ///
    /// Some clients of that API cannot send a token.
    #[arg(long, env = "REGISTRY_PUBLIC_MCP_REGISTRY", hide_short_help = true)]
    pub public_mcp_registry: bool,

    /// Requests per second of one principal on this server; 0 disables the limit
    #[arg(
        long,
        env = "REGISTRY_RATE_LIMIT",
        default_value_t = 500,
        value_name = "REQUESTS",
        help_heading = "Limits",
        hide_short_help = true
    )]
    pub rate_limit: u32,

    /// Maximum burst of one principal above the rate limit
    #[arg(
        long,
        env = "REGISTRY_RATE_BURST",
        default_value = "1000",
        value_name = "REQUESTS",
        help_heading = "Limits",
        hide_short_help = true
    )]
    pub rate_burst: NonZeroU32,
}
