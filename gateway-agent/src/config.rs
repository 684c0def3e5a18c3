//! The gateway's configuration: one YAML file, strict, every problem reported at once.
//!
//! Deliberately absent: what is registered; a target only says where a registered server runs.

mod args;
mod auth;
mod credentials;
mod identity;
mod load;
mod problem;
mod reach;
mod read;
mod restart;
mod scope;
mod secret;
mod seeing;
mod source;
mod staleness;
mod target;
#[cfg(test)]
mod tests;
mod tls;
mod tool_limits;
mod tools;
mod yaml;

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

use registry_core::{Scope, checkpoint::VerifierKey, entity::Exposure};
pub use registry_follow::Credentials;
pub use registry_tls::{ClientFiles, ServerFiles};
use serde::{Deserialize, Serialize};

use crate::{
    admission::Admission,
    upstream::{Prefix, TargetId},
};

pub use args::{Args, LogFormat};
pub use auth::{AuthConfig, ClientAuthentication, Grant};
pub use identity::{ApiKeyConfig, CertificatesConfig, JwtConfig, ProofsConfig};
pub use problem::{InvalidConfig, Problem};
pub use secret::{SecretSource, UnusableSecret};
pub use seeing::{AdminConfig, AdminToken, OtlpConfig, RecentTraces, TracingConfig};
pub use source::InvalidSource;
pub(crate) use source::without_credentials;
pub use staleness::MaxStaleness;
pub use tool_limits::ToolLimits;
pub use tools::{CheckRules, Checks, ToolSelector, ToolValidation};

/// Everything that an operator sets.
#[derive(Debug, Clone)]
pub struct Config {
    /// The flags that it was read with, to read it again.
    pub args: Args,
    /// What the registry and its operators call this gateway.
    pub name: String,
    /// Where to listen; loopback unless told otherwise.
    pub listen: SocketAddr,
    /// What callers are shown and asked for; `None`: plain text.
    pub tls: Option<ServerFiles>,
    /// The web origins (`https://app.example.com`) whose pages may call; requests without an
    /// `Origin` are not from pages. Empty: only loopback origins.
    pub allowed_origins: Vec<String>,
    /// The `Host` names under which the gateway may be called, as a guard against DNS rebinding.
    /// Empty: loopback names only, or any where it listens on other addresses.
    pub allowed_hosts: Vec<String>,
    /// Where the registry is, and what to check.
    pub registry: RegistryConfig,
    /// How callers are recognised.
    pub identity: IdentityConfig,
    /// What proves who is calling.
    pub proofs: ProofsConfig,
    /// Where each registered server really is.
    pub targets: Vec<TargetConfig>,
    /// Values for `${NAME}` in tool defaults.
    pub variables: BTreeMap<String, String>,
    /// Bounds on what callers and upstreams may send.
    pub limits: LimitsConfig,
    /// The same of single tools, where it is otherwise.
    pub tool_limits: Vec<ToolLimits>,
    /// After the signal to stop: how long to report not ready and accept calls all the same.
    pub drain_notice: Duration,
    /// After the notice: how long calls may take that have begun; `None`: the default.
    pub drain_timeout: Option<Duration>,
    /// The keys of session and task ids; `None`: the gateway's own, beside the cache.
    pub session_key_file: Option<PathBuf>,
    /// Where operators look; `None`: nowhere.
    pub admin: Option<AdminConfig>,
    /// What is kept and sent of calls.
    pub tracing: TracingConfig,
}

/// The `registry` block.
#[derive(Debug, Clone)]
pub struct RegistryConfig {
    /// `grpc(s)://host:port` (live), `http(s)://…/registry.json` (polled), `file://…` (watched).
    pub source: Source,
    /// Which part of it to follow.
    pub scope: ScopeConfig,
    /// The key that must have signed every state that is served.
    pub key: Option<VerifierKey>,
    /// What the registry is shown.
    pub credentials: Credentials,
    /// The verified copy on disk.
    pub cache: PathBuf,
    /// How often an `http(s)://` source is asked.
    pub poll_interval: Duration,
    /// How old the catalog may be for which calls.
    pub max_staleness: MaxStaleness,
    /// What is checked at run time.
    pub runtime: RuntimeValidation,
    /// The same of single tools, where it is otherwise.
    pub tools: Vec<ToolValidation>,
    /// What is checked when a catalog is loaded.
    pub startup: StartupValidation,
}

impl RegistryConfig {
    /// What a state of the registry must have to be served.
    pub fn admission(&self) -> Admission {
        Admission::from(self.startup).signed_by(self.key.clone())
    }
}

/// `registry.scope` and `registry.scopeFile`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScopeConfig {
    /// The part to begin with.
    pub scope: Scope,
    /// A file that says it anew when it changes.
    pub file: Option<PathBuf>,
}

/// Where the catalog comes from; parsed from `grpc(s)://…`, `http(s)://…` or `file://…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Registry servers, one of which is followed live; `http(s)://host:port`.
    Grpc(Vec<String>),
    /// A registry file over HTTP, polled with its `ETag`.
    Http(String),
    /// A registry file, watched.
    File(PathBuf),
}

/// What to do about a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    Ignore,
    /// Let it pass, log and count it.
    Warn,
    /// Refuse.
    Error,
}

/// `validation.runtime.*Validation`.
const VIOLATIONS: &[(&str, Mode)] =
    &[("deny", Mode::Error), ("warn", Mode::Warn), ("ignore", Mode::Ignore)];
/// `validation.runtime.contractDrift`.
const CONTRACTS: &[(&str, Mode)] =
    &[("quarantine", Mode::Error), ("warn", Mode::Warn), ("ignore", Mode::Ignore)];

/// What to do about a caller or a call that nobody declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Let it pass.
    Allow,
    /// Let it pass, audited as a finding and counted.
    Warn,
    /// Refuse, exactly as an unknown tool is refused.
    Deny,
}

/// `registry.validation.startup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartupValidation {
    /// A reference to something that is not registered, or any other error of the rules.
    pub missing_entity: Mode,
    /// Something deprecated is depended on.
    pub deprecated_entity: Mode,
    /// A schema that nothing refers to.
    pub unused_schema: Mode,
}

/// `registry.validation.runtime`.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeValidation {
    /// Arguments that do not match the input schema; `Error` is written `deny`.
    pub input_validation: Mode,
    /// Results that do not match the output schema.
    pub output_validation: Mode,
    /// Definitions of upstreams that are others than those that were registered or first seen;
    /// `Error` is written `quarantine`.
    pub contract_drift: Mode,
    /// A caller that is no registered agent.
    pub unknown_caller: Access,
    /// A registered agent that calls what it did not declare.
    pub undeclared_dependency: Access,
}

/// Of the `identity` block: which claims count that nothing proves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IdentityConfig {
    /// Whether `X-Agent-Name` and `X-Agent-Version` are believed.
    pub trust_headers: bool,
    /// Whether MCP `clientInfo` selects an agent, or is only noted in the audit.
    pub scope_by_client_info: bool,
}

/// One registered server or agent version and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetConfig {
    /// The registered server or agent, in one version or in all.
    pub server: TargetId,
    /// Under which names callers know what a server has besides tools.
    pub prefix: Prefix,
    /// Exposed features of a server; `None`: as registered.
    pub exposes: Option<Vec<Exposure>>,
    /// How it is reached.
    pub transport: TransportConfig,
}

/// How an upstream is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportConfig {
    /// MCP Streamable HTTP at this URL.
    Http {
        /// The endpoint.
        url: String,
        /// Headers that are sent with every request (credentials of the gateway's own).
        headers: BTreeMap<String, SecretSource>,
        /// Where tokens for it come from, if it wants some.
        auth: Option<Box<AuthConfig>>,
        /// What it must show and is shown; `None`: a certificate of the system's authorities, and
        /// nothing.
        tls: Option<ClientFiles>,
        /// Where it may be.
        addresses: Addresses,
    },
    /// A child process that speaks MCP over stdio.
    Stdio {
        /// The program.
        command: PathBuf,
        /// Its arguments.
        args: Vec<String>,
        /// Its whole environment: what is configured, and the gateway's own `PATH`.
        env: BTreeMap<String, SecretSource>,
        /// Its working directory.
        cwd: Option<PathBuf>,
        /// What it may take.
        limits: ChildLimits,
        /// How many callers may have one of their own; `None`: all share one.
        most_own: Option<usize>,
    },
}

impl TransportConfig {
    /// In exchange for what the gateway gets tokens for it, if it wants some.
    pub fn grant(&self) -> Option<Grant> {
        match self {
            Self::Http { auth, .. } => auth.as_ref().map(|auth| auth.grant),
            Self::Stdio { .. } => None,
        }
    }
}

/// What a child process may take, and each process that it starts; what is not set, the gateway's
/// own limits say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChildLimits {
    /// Memory of its own, in bytes.
    pub memory_bytes: Option<u64>,
    /// Processor time, in seconds.
    pub cpu_seconds: Option<u64>,
    /// Open files.
    pub open_files: Option<u64>,
    /// Processes and threads of its user, all together.
    pub processes: Option<u64>,
}

/// To which addresses the name of an upstream may lead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Addresses {
    /// Those that servers have: none that is link-local, multicast or a cloud's metadata service.
    #[default]
    Usual,
    /// All.
    Any,
}

/// The `limits` block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitsConfig {
    /// Largest request body from a caller, in bytes.
    pub request_bytes: usize,
    /// Largest answer of an upstream, in bytes.
    pub response_bytes: usize,
    /// Most connections of one address; `None`: a quarter of all.
    pub address_connections: Option<usize>,
    /// Most bytes of requests and results that are buffered at once; a quarter of it for one caller.
    pub buffered_bytes: usize,
    /// Most legacy sessions at once.
    pub sessions: usize,
    /// Most requests that one upstream works on at once.
    pub upstream_requests: usize,
    /// Most requests that wait for one upstream.
    pub upstream_waiting: usize,
    /// Longest wait for a connection to an upstream, in milliseconds.
    pub connect_timeout_ms: u64,
    /// Longest wait for an upstream's list, in milliseconds.
    pub list_timeout_ms: u64,
    /// Longest wait for an upstream's call, in milliseconds.
    pub call_timeout_ms: u64,
}

impl Default for StartupValidation {
    fn default() -> Self {
        Self {
            missing_entity: Mode::Error,
            deprecated_entity: Mode::Warn,
            unused_schema: Mode::Ignore,
        }
    }
}

impl Default for RuntimeValidation {
    fn default() -> Self {
        Self {
            input_validation: Mode::Warn,
            output_validation: Mode::Ignore,
            contract_drift: Mode::Warn,
            unknown_caller: Access::Allow,
            undeclared_dependency: Access::Warn,
        }
    }
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            request_bytes: 4 * 1024 * 1024,
            response_bytes: 16 * 1024 * 1024,
            address_connections: None,
            buffered_bytes: 512 * 1024 * 1024,
            sessions: 10_000,
            upstream_requests: 256,
            upstream_waiting: 1_024,
            connect_timeout_ms: 5_000,
            list_timeout_ms: 10_000,
            call_timeout_ms: 30_000,
        }
    }
}
