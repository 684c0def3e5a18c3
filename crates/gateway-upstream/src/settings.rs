//! Settings of upstreams: targets, connections, authorization and limits.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use gateway_protocol::naming::Prefix;
use registry_core::entity::Exposure;
use registry_tls::ClientFiles;
use serde::{Deserialize, Serialize};

use super::TargetId;
use crate::{data_agent::AgentEndpoint, secret::SecretSource};

/// The upstream of a registered server or agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetConfig {
    /// The registered server or agent, in one version or all versions.
    pub server: TargetId,
    /// The prefix of the server's prompts and resources for callers.
    pub prefix: Prefix,
    /// The exposed features of a server. `None`: as registered.
    pub exposes: Option<Vec<Exposure>>,
    /// The tenant of an agent's interface in A2A 1.0. `None`: the interface has none.
    pub tenant: Option<Box<str>>,
    /// The connection to the upstream.
    pub transport: TransportConfig,
    /// The timeout of connecting and of listing, each. `None`: those of [`UpstreamLimits`].
    pub timeout: Option<Duration>,
    /// Whether the upstream is connected at start. Otherwise it is connected at its first call.
    pub auto_start: bool,
}

impl TargetConfig {
    /// The limits with the target's own timeout.
    pub(super) fn limits(&self, limits: UpstreamLimits) -> UpstreamLimits {
        let Some(timeout) = self.timeout else { return limits };
        let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        UpstreamLimits { connect_timeout_ms: ms, list_timeout_ms: ms, ..limits }
    }
}

/// The connection to an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportConfig {
    /// MCP over Streamable HTTP, or A2A.
    Http {
        /// The endpoint.
        url: String,
        /// Headers of every request, such as the gateway's credentials.
        headers: BTreeMap<String, SecretSource>,
        /// The source of access tokens for the upstream.
        auth: Option<Box<AuthConfig>>,
        /// CA bundle and client certificate. `None`: the system's CAs, no client certificate.
        tls: Option<ClientFiles>,
        /// The addresses that the host name may resolve to.
        addresses: Addresses,
        /// Whether the agent is called over gRPC. Otherwise its binding is detected. Servers have no
        /// gRPC.
        is_grpc: bool,
    },
    /// MCP over the standard streams of a child process.
    Stdio {
        /// The program.
        command: PathBuf,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment: the configured variables and the gateway's `PATH`.
        env: BTreeMap<String, SecretSource>,
        /// Its working directory.
        cwd: Option<PathBuf>,
        /// Its resource limits.
        limits: ChildLimits,
        /// Maximum number of children, one per caller. `None`: all callers share one child.
        max_caller_children: Option<usize>,
    },
    /// `agent.execute` at the endpoint of a data agent, or on the connection that it opened.
    DataAgent(Option<Arc<AgentEndpoint>>),
}

impl TransportConfig {
    /// The grant type of access tokens for the upstream, if it needs any.
    pub fn grant(&self) -> Option<Grant> {
        match self {
            Self::Http { auth, .. } => auth.as_ref().map(|auth| auth.grant),
            Self::Stdio { .. } | Self::DataAgent(_) => None,
        }
    }
}

/// Resource limits of a child process and of each process that it starts. An unset limit is inherited
/// from the gateway.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChildLimits {
    /// Private memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Processor time, in seconds.
    pub cpu_seconds: Option<u64>,
    /// Open files.
    pub open_files: Option<u64>,
    /// Processes and threads of the child's user.
    pub processes: Option<u64>,
}

/// The addresses that the host name of an upstream may resolve to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Addresses {
    /// All but link-local, multicast and cloud metadata addresses.
    #[default]
    Usual,
    /// Only addresses of the public internet.
    Public,
    /// All addresses.
    Any,
}

/// The source of access tokens for a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthConfig {
    /// The grant type.
    pub grant: Grant,
    /// The token endpoint.
    pub token_url: String,
    /// CA bundle and client certificate for the token endpoint. `None`: the system's CAs, no client
    /// certificate.
    pub tls: Option<ClientFiles>,
    /// The gateway's client id.
    pub client_id: String,
    /// The client secret.
    pub client_secret: SecretSource,
    /// The method of client authentication.
    pub client_authentication: ClientAuthentication,
    /// The requested scopes.
    pub scopes: Vec<String>,
    /// The requested audience.
    pub audience: Vec<String>,
    /// The requested resources (RFC 8707).
    pub resource: Vec<String>,
}

/// The grant type of an access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// The gateway's own credentials (RFC 6749, section 4.4).
    ClientCredentials,
    /// Exchange of the caller's token (RFC 8693).
    TokenExchange,
}

/// Client authentication at the token endpoint (RFC 6749, section 2.3.1), named as in RFC 7591.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuthentication {
    /// `client_secret_basic`: in the `Authorization` header.
    Basic,
    /// `client_secret_post`: in the body of the request.
    Post,
}

/// Limits of requests to upstreams and of their responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpstreamLimits {
    /// Maximum size of a response, in bytes.
    pub response_bytes: usize,
    /// Maximum number of legacy sessions.
    pub sessions: usize,
    /// Maximum number of concurrent requests per upstream.
    pub requests: usize,
    /// Maximum number of queued requests per upstream.
    pub waiting: usize,
    /// Timeout of a connection, in milliseconds.
    pub connect_timeout_ms: u64,
    /// Timeout of a list request, in milliseconds.
    pub list_timeout_ms: u64,
    /// Timeout of a call, in milliseconds.
    pub call_timeout_ms: u64,
}

impl Default for UpstreamLimits {
    fn default() -> Self {
        Self {
            response_bytes: 16 * 1024 * 1024,
            sessions: 10_000,
            requests: 256,
            waiting: 1_024,
            connect_timeout_ms: 5_000,
            list_timeout_ms: 10_000,
            call_timeout_ms: 30_000,
        }
    }
}
