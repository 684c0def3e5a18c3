//! `limits.tools`: limits of single tools, where they are otherwise than those of all.
//!
//! Deliberately absent: whether such a tool is registered; that may change at any time.

use std::time::Duration;

use registry_core::Key;

use super::{
    Config, LimitsConfig, ToolSelector,
    read::{Field, Section},
    tools,
};

/// How long calls may take after the signal to stop, unless one of a server may take longer: as long
/// as calls of a target that a new configuration lacks.
const DRAIN_TIMEOUT: Duration = Duration::from_mins(10);

/// One entry of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLimits {
    /// Which tool.
    pub tool: ToolSelector,
    /// Longest wait for a call, in milliseconds.
    pub call_timeout_ms: u64,
}

impl Config {
    /// How long a call of a tool may take: as the entry of its version says, or that of its name,
    /// or what is set for all.
    pub fn call_timeout(&self, tool: &Key) -> Duration {
        let [exact, named] = ToolSelector::select(&self.tool_limits, |entry| &entry.tool, tool);
        let own = exact.or(named).map(|entry| entry.call_timeout_ms);
        Duration::from_millis(own.unwrap_or(self.limits.call_timeout_ms))
    }

    /// How long calls may take after the signal to stop. A composition may make any number of calls
    /// one after the other, so the default is longer than the longest call of a server.
    pub fn drain_timeout(&self) -> Duration {
        let longest = || longest_call(&self.limits, &self.tool_limits).max(DRAIN_TIMEOUT);
        self.drain_timeout.unwrap_or_else(longest)
    }
}

/// The longest call of a server, with the connection to it.
pub(super) fn longest_call(limits: &LimitsConfig, tools: &[ToolLimits]) -> Duration {
    let calls = tools.iter().map(|entry| entry.call_timeout_ms);
    let longest = calls.chain([limits.call_timeout_ms]).max().unwrap_or_default();
    Duration::from_millis(longest.saturating_add(limits.connect_timeout_ms))
}

/// Reads the list; an entry that is wrong is left out and reported.
pub(super) fn read(limits: &Section<'_>) -> Vec<ToolLimits> {
    tools::read_each(limits, entry, |entry| &entry.tool)
}

fn entry(item: &Field<'_>) -> Option<ToolLimits> {
    let section = item.section();
    let tool = section.require("tool", "it names a tool: NAME or NAME@VERSION");
    let tool = tool.and_then(|field| field.parse(str::parse));
    let timeout = section.require("callTimeoutMs", "it is the longest wait in milliseconds");
    let call_timeout_ms = timeout.and_then(|field| field.positive());
    section.finish();
    Some(ToolLimits { tool: tool?, call_timeout_ms: call_timeout_ms? })
}
