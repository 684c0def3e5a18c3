//! The contract report of all tools.
//!
//! Tools without findings are only counted.

use std::{collections::BTreeMap, sync::Arc};

use gateway_policy::{ValidationMode, ValidationRules};
use registry_core::{Digest, Key};
use serde::Serialize;

use super::{
    comparison::{ContractState, ContractStatus, Drift},
    observed::{ViolationCounter, ViolationCounters},
};

/// Maximum number of listed tools.
const LISTED: usize = 1_000;

/// The body of `GET /admin/contracts`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContractReport {
    /// Number of tools by state.
    pub states: BTreeMap<&'static str, usize>,
    /// Number of quarantined tools.
    pub quarantined: usize,
    /// Tools with findings.
    pub tools: Vec<ToolReport>,
    /// Number of further tools with findings.
    pub not_listed: usize,
}

/// The contract of one tool.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolReport {
    /// `tool/NAME@VERSION`.
    pub tool: Key,
    /// The state of the contract; absent if contracts are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ContractState>,
    /// The digest of the live definition, which can be accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<Digest>,
    /// Whether calls are rejected.
    pub quarantined: bool,
    /// Whether an operator accepted the live definition.
    pub accepted: bool,
    /// The differences by part.
    pub drift: Vec<Drift>,
    /// Schema violations since the gateway started.
    pub observed: Arc<ViolationCounter>,
}

impl ContractReport {
    pub(super) fn new<'a>(
        compared: impl Iterator<Item = (&'a Key, &'a ContractStatus)>,
        rules: &ValidationRules,
        observed: &ViolationCounters,
    ) -> Self {
        let mut noted = observed.noted();
        let mut states: BTreeMap<_, _> =
            ContractState::ALL.map(|state| (state.as_str(), 0_usize)).into_iter().collect();
        let (mut quarantined, mut tools) = (0, Vec::new());
        let is_looked_at = |(tool, _): &(&Key, &ContractStatus)| {
            rules.for_tool(tool).contract != ValidationMode::Ignore
        };
        for (tool, status) in compared.filter(is_looked_at) {
            *states.entry(status.state.as_str()).or_default() += 1;
            let is_quarantined =
                status.is_broken && rules.for_tool(tool).contract == ValidationMode::Error;
            quarantined += usize::from(is_quarantined);
            let observed = noted.remove(tool);
            let matches_contract =
                matches!(status.state, ContractState::Unchanged | ContractState::Pending);
            if matches_contract && !is_quarantined && observed.is_none() {
                continue;
            }
            tools.push(ToolReport {
                tool: tool.clone(),
                state: Some(status.state),
                live: status.live.as_ref().map(super::definition::Fingerprint::digest),
                quarantined: is_quarantined,
                accepted: status.is_accepted,
                drift: status.drift.clone(),
                observed: observed.unwrap_or_default(),
            });
        }
        tools.extend(noted.into_iter().map(|(tool, observed)| ToolReport {
            tool,
            state: None,
            live: None,
            quarantined: false,
            accepted: false,
            drift: Vec::new(),
            observed,
        }));
        // Quarantined tools first, in case the list is truncated.
        tools.sort_by(|a, b| (!a.quarantined, &a.tool).cmp(&(!b.quarantined, &b.tool)));
        let not_listed = tools.len().saturating_sub(LISTED);
        tools.truncate(LISTED);
        Self { states, quarantined, tools, not_listed }
    }
}
