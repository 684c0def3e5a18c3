//! Settings of the pipeline.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use gateway_policy::{RuntimeValidation, ToolSelector};
use gateway_upstream::{Addresses, UpstreamLimits};
use registry_core::{Document, Key};

use crate::{
    identity::settings::IdentityConfig, origin::OriginPolicy, registrations::DataAgentSettings,
};

/// Settings of all operations. A configuration reload replaces them.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The allowed web origins and hosts of requests.
    pub origins: OriginPolicy,
    /// The unverified claims that identify callers.
    pub identity: IdentityConfig,
    /// The checks of callers, calls and definitions.
    pub policy: RuntimeValidation,
    /// The form of denials by policies (`governance.denials`).
    pub denials: DenialForm,
    /// The base URL of A2A for callers (`a2a.url`). `None`: derived from `Host`.
    pub a2a_url: Option<String>,
    /// Push notifications of A2A (`a2a.pushNotifications`). `None`: they are not supported.
    pub push: Option<PushSettings>,
    /// The bridges between MCP and A2A.
    pub agents: AgentBridges,
    /// The registration of data agents.
    pub data_agents: DataAgentSettings,
    /// Whether execution graphs have the values of calls (`traceValues`), or only digests.
    pub trace_values: bool,
    /// The policy of `--approve`.
    pub own_policy: Option<Arc<Document>>,
    /// Maximum number of gateways that a message of A2A passes (`limits.hops`).
    pub hops: u32,
    /// Maximum size of a request from a caller, in bytes.
    pub request_bytes: usize,
    /// Maximum size of all buffered requests and results, in bytes. One caller can use a quarter.
    pub buffered_bytes: usize,
    /// Limits of upstreams.
    pub upstream: UpstreamLimits,
    /// Overrides for single tools.
    pub tool_limits: Vec<ToolLimits>,
    /// Values of `${NAME}` in defaults of tools.
    pub variables: BTreeMap<String, String>,
}

/// The URLs that may receive push notifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushSettings {
    /// The addresses that the host of a URL may resolve to.
    pub addresses: Addresses,
    /// Whether URLs may have the scheme `http`.
    pub allow_http: bool,
}

/// The bridges between MCP and A2A (`agents`). Both are off by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentBridges {
    /// Whether MCP clients see the skills of declared agents as tools.
    pub as_tools: bool,
    /// Whether A2A clients see composed tools as skills of the gateway's own agent.
    pub of_tools: bool,
}

/// The form of denials by policies in responses to `tools/call`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DenialForm {
    /// A result with `isError`, which models see.
    #[default]
    Result,
    /// A JSON-RPC error.
    Error,
}

/// An entry of `limits.tools`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLimits {
    /// The tools that the limits apply to.
    pub tool: ToolSelector,
    /// Timeout of a call, in milliseconds.
    pub call_timeout_ms: u64,
}

impl Settings {
    /// The base URL for agents and the rules for the URLs of callers, if push notifications are
    /// enabled.
    pub(crate) fn push(&self) -> Option<(&str, PushSettings)> {
        Some((self.a2a_url.as_deref()?, self.push?))
    }

    /// Returns the timeout of a tool's calls. An entry for the version precedes one for the name,
    /// and that precedes the default.
    pub(crate) fn call_timeout(&self, tool: &Key) -> Duration {
        let [exact, named] = ToolSelector::select(&self.tool_limits, |entry| &entry.tool, tool);
        let own = exact.or(named).map(|entry| entry.call_timeout_ms);
        Duration::from_millis(own.unwrap_or(self.upstream.call_timeout_ms))
    }
}
