//! Reads `limits.tools`. Entries may name unregistered tools, because the catalog can change at any
//! time.

use std::time::Duration;

use gateway_upstream::UpstreamLimits;

use super::{
    Config,
    read::{Field, Section},
    tools,
};
use crate::pipeline::ToolLimits;

/// Default of `drainTimeout`, unless a call can take longer. Also applies to calls of a removed
/// target.
const DRAIN_TIMEOUT: Duration = Duration::from_mins(10);

impl Config {
    /// The drain time at shutdown. A composition makes several calls in sequence, so the default
    /// exceeds the longest call timeout.
    pub fn drain_timeout(&self) -> Duration {
        let longest = || longest_call(&self.limits, &self.tool_limits).max(DRAIN_TIMEOUT);
        self.drain_timeout.unwrap_or_else(longest)
    }
}

/// The longest call of a server, including the connection.
pub(super) fn longest_call(limits: &UpstreamLimits, tools: &[ToolLimits]) -> Duration {
    let calls = tools.iter().map(|entry| entry.call_timeout_ms);
    let longest = calls.chain([limits.call_timeout_ms]).max().unwrap_or_default();
    Duration::from_millis(longest.saturating_add(limits.connect_timeout_ms))
}

/// Reads the list. Invalid entries are skipped and reported.
pub(super) fn read(limits: &Section<'_>) -> Vec<ToolLimits> {
    tools::read_each(limits, entry, |entry| &entry.tool)
}

fn entry(item: &Field<'_>) -> Option<ToolLimits> {
    let section = item.section();
    let tool = section.require("tool", "set it to a tool: NAME or NAME@VERSION");
    let tool = tool.and_then(|field| field.parse(str::parse));
    let timeout = section.require("callTimeoutMs", "set it to the timeout in milliseconds");
    let call_timeout_ms = timeout.and_then(|field| field.positive());
    section.finish();
    Some(ToolLimits { tool: tool?, call_timeout_ms: call_timeout_ms? })
}
