//! The configuration: one strict YAML file, parsed into the settings of each module. All problems
//! are reported at once.

mod ancestors;
mod args;
mod auth;
mod credentials;
mod identity;
mod init;
mod load;
mod mcp_servers;
mod observability;
mod origins;
mod problem;
mod read;
mod restart;
mod scope;
mod secret;
mod staleness;
mod state;
mod target;
#[cfg(test)]
mod tests;
mod tls;
mod tool_limits;
mod tools;
mod yaml;

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

use gateway_policy::{RuntimeValidation, ToolValidation, ValidationMode, ValidationRules};
use gateway_upstream::{TargetConfig, UpstreamLimits};
use registry_core::checkpoint::VerifierKey;
use registry_tls::ServerFiles;

pub use self::{
    args::{Approve, Args, Command, ConfigCommand, InitArgs, LogFormat, StdioArgs},
    init::{InitError, TEMPLATE, init},
    problem::{InvalidConfig, Problem},
    state::state_file,
};
use crate::{
    admin::AdminConfig,
    catalog_verifier::CatalogVerifier,
    contract,
    findings::{Deciders, Origin},
    freshness::MaxStaleness,
    identity::settings::{AuthenticationConfig, AuthenticatorConfig, IdentityConfig},
    origin::OriginPolicy,
    pipeline::{self, AgentBridges, DenialForm, PushSettings, ToolLimits},
    registrations::{DataAgentSettings, SelfRegistration},
    source::{DiscoveryConfig, SourceConfig},
    startup::StartupValidation,
    trace::settings::TracingConfig,
};

/// The validated configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The flags, which a reload applies again.
    pub args: Args,
    /// The gateway's name in the registry.
    pub name: String,
    /// The address for callers.
    pub listen: SocketAddr,
    /// The certificate for callers, and the CA bundle for client certificates. `None`: plain HTTP.
    pub tls: Option<ServerFiles>,
    /// Allowed web origins (`https://app.example.com`). Empty: loopback origins.
    pub allowed_origins: Vec<String>,
    /// Allowed `Host` names, against DNS rebinding. Empty: loopback names, or any name if `listen`
    /// is another address.
    pub allowed_hosts: Vec<String>,
    /// The `registry` section.
    pub registry: RegistryConfig,
    /// The unverified claims that identify callers.
    pub identity: IdentityConfig,
    /// How callers authenticate.
    pub authentication: AuthenticationConfig,
    /// The upstreams, with those of `mcp_servers`.
    pub targets: Vec<TargetConfig>,
    /// The file of MCP servers (`mcpServers`).
    pub mcp_servers: Option<DiscoveryConfig>,
    /// Values of `${NAME}` in defaults of tools.
    pub variables: BTreeMap<String, String>,
    /// `limits.hops`: the maximum number of gateways that a message of A2A passes.
    pub hops: u32,
    /// Maximum size of a request from a caller, in bytes.
    pub request_bytes: usize,
    /// Maximum size of all buffered requests and results, in bytes. One caller may use a quarter.
    pub buffered_bytes: usize,
    /// Maximum number of connections per address. `None`: a quarter of all connections.
    pub address_connections: Option<usize>,
    /// Limits of upstreams.
    pub limits: UpstreamLimits,
    /// Overrides of `limits` for single tools.
    pub tool_limits: Vec<ToolLimits>,
    /// After the stop signal: the time to report not ready while accepting calls.
    pub drain_notice: Duration,
    /// After the notice: the time for running calls. `None`: the default.
    pub drain_timeout: Option<Duration>,
    /// The key file of session and task ids. `None`: the gateway creates a key next to the cache.
    pub session_key_file: Option<PathBuf>,
    /// `governance.denials`: the form of denials by policies.
    pub denials: DenialForm,
    /// `a2a.url`: the base URL of A2A for callers. `None`: derived from `Host`.
    pub a2a_url: Option<String>,
    /// `a2a.pushNotifications`: the URLs that may receive notifications. `None`: disabled.
    pub push: Option<PushSettings>,
    /// The `agents` section: the bridges between MCP and A2A.
    pub agents: AgentBridges,
    /// `agents.selfRegistration` and `agents.endpoints`.
    pub data_agents: DataAgentSettings,
    /// `traceValues`: whether execution graphs have the values of calls.
    pub trace_values: bool,
    /// The admin listener. `None`: there is none.
    pub admin: Option<AdminConfig>,
    /// The `tracing` section.
    pub tracing: TracingConfig,
}

/// The `registry` section.
#[derive(Debug, Clone)]
pub struct RegistryConfig {
    /// The source of the catalog.
    pub source: SourceConfig,
    /// The origin of the catalog by the file, also if a flag names another source: a check can use
    /// an exported file in place of the registry.
    pub written_origin: Origin,
    /// The required signer of catalogs. `None`: unsigned catalogs are accepted.
    pub key: Option<VerifierKey>,
    /// The path of the cache.
    pub cache: PathBuf,
    /// The path of the approvals without a registry.
    pub proposals: PathBuf,
    /// Maximum age of the catalog for calls.
    pub max_staleness: MaxStaleness,
    /// The checks of every call.
    pub runtime: RuntimeValidation,
    /// Overrides of `runtime` for single tools.
    pub tools: Vec<ToolValidation>,
    /// The checks of every new catalog.
    pub startup: StartupValidation,
}

/// `validation.runtime.*Validation`.
const VIOLATION_MODES: &[(&str, ValidationMode)] = &[
    ("deny", ValidationMode::Error),
    ("warn", ValidationMode::Warn),
    ("ignore", ValidationMode::Ignore),
];
/// `validation.runtime.contractDrift`.
const CONTRACT_MODES: &[(&str, ValidationMode)] = &[
    ("quarantine", ValidationMode::Error),
    ("warn", ValidationMode::Warn),
    ("ignore", ValidationMode::Ignore),
];

/// `governance.denials`.
const DENIAL_FORMS: &[(&str, DenialForm)] =
    &[("result", DenialForm::Result), ("error", DenialForm::Error)];

/// `agents.selfRegistration`.
const REGISTRATION_MODES: &[(&str, SelfRegistration)] = &[
    ("off", SelfRegistration::Off),
    ("review", SelfRegistration::Review),
    ("accept", SelfRegistration::Accept),
];

/// Default of `limits.requestBytes`.
const DEFAULT_REQUEST_BYTES: usize = 4 * 1024 * 1024;
/// More than chains of agents need, and few enough to end a loop soon.
const DEFAULT_HOPS: u32 = 16;
/// Default of `limits.bufferedBytes`.
const DEFAULT_BUFFERED_BYTES: usize = 512 * 1024 * 1024;

/// Whether callers can reach the listener from other machines and need not authenticate over TLS.
fn is_exposed(
    listen: SocketAddr,
    tls: Option<&ServerFiles>,
    claims: IdentityConfig,
    authentication: &AuthenticationConfig,
) -> bool {
    // Each connection with a certificate, or each call.
    let authenticates_callers = tls.is_some_and(|tls| {
        tls.client_ca.is_some() || authentication.authenticates_every_call(claims)
    });
    !listen.ip().is_loopback() && !authenticates_callers
}

impl Config {
    /// Whether callers can reach the listener from other machines and need not authenticate over TLS.
    pub fn is_exposed(&self) -> bool {
        is_exposed(self.listen, self.tls.as_ref(), self.identity, &self.authentication)
    }

    /// The settings of the call pipeline.
    pub fn pipeline(&self) -> pipeline::Settings {
        pipeline::Settings {
            origins: OriginPolicy {
                listen: self.listen,
                origins: self.allowed_origins.clone(),
                hosts: self.allowed_hosts.clone(),
            },
            identity: self.identity,
            policy: self.registry.runtime,
            denials: self.denials,
            a2a_url: self.a2a_url.clone(),
            push: self.push,
            agents: self.agents,
            data_agents: self.data_agents.clone(),
            trace_values: self.trace_values,
            own_policy: self.args.approve.map(Approve::policy),
            hops: self.hops,
            request_bytes: self.request_bytes,
            buffered_bytes: self.buffered_bytes,
            upstream: self.limits,
            tool_limits: self.tool_limits.clone(),
            variables: self.variables.clone(),
        }
    }

    /// The people that decide about calls, by the origin of the catalog.
    pub fn deciders(&self, origin: Origin) -> Deciders {
        match (origin, &self.admin) {
            (Origin::Registry, _) => {
                Deciders::Registry { identifies_callers: self.identifies_callers() }
            }
            (Origin::File | Origin::Targets, Some(_)) => Deciders::Operator,
            (Origin::File | Origin::Targets, None) => Deciders::Missing,
        }
    }

    fn identifies_callers(&self) -> bool {
        let AuthenticationConfig { trusted_proxies, jwt, api_keys, certificates, .. } =
            &self.authentication;
        let trusts_headers = self.identity.trust_headers || !trusted_proxies.is_empty();
        trusts_headers || jwt.is_some() || !api_keys.is_empty() || certificates.is_some()
    }

    /// The settings of authentication.
    pub fn authenticator(&self) -> AuthenticatorConfig {
        AuthenticatorConfig {
            identity: self.identity,
            authentication: self.authentication.clone(),
            scheme: if self.tls.is_some() { "https" } else { "http" },
        }
    }

    /// The settings of contract checks.
    pub fn contracts(&self) -> contract::Settings {
        let limited = self.tool_limits.iter().map(|entry| entry.tool.clone()).collect();
        contract::Settings::new(self.registry.check_rules(), limited)
    }
}

impl RegistryConfig {
    /// The requirements for accepting a catalog.
    pub fn catalog_verifier(&self) -> CatalogVerifier {
        CatalogVerifier::from(self.startup).signed_by(self.key.clone())
    }

    /// The modes of validation, with the overrides for single tools.
    pub fn check_rules(&self) -> ValidationRules {
        ValidationRules::new(self.runtime, self.tools.clone())
    }
}
