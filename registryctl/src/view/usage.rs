//! Usage in the output of commands. Costs are decimal text.

use registry_proto::{convert, v1};
use serde::Serialize;

use super::time_text as time;
use crate::cli::UsageColumn;

/// Sums over calls, with the properties of the query.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UsageView {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) starts_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    team: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<String>,
    pub(crate) calls: u64,
    pub(crate) cost: String,
    pub(crate) currency: String,
    /// The sum.
    pub(crate) duration_ms: u64,
    pub(crate) request_bytes: u64,
    pub(crate) response_bytes: u64,
    pub(crate) findings: u64,
}

impl UsageView {
    pub(crate) fn new(usage: v1::Usage, currency: &str) -> Self {
        let named = |name: String| Some(name).filter(|name| !name.is_empty());
        let duration = usage.duration.map(convert::read_duration).unwrap_or_default();
        Self {
            starts_at: time(usage.start_time),
            gateway: named(usage.gateway),
            agent: named(usage.agent),
            team: named(usage.team),
            principal: named(usage.principal),
            tool: named(usage.tool),
            verdict: named(usage.verdict),
            calls: usage.call_count,
            cost: usage.cost,
            currency: currency.to_owned(),
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            request_bytes: usage.request_bytes,
            response_bytes: usage.response_bytes,
            findings: usage.finding_count,
        }
    }

    pub(crate) fn property(&self, column: UsageColumn) -> &str {
        let value = match column {
            UsageColumn::Gateway => &self.gateway,
            UsageColumn::Agent => &self.agent,
            UsageColumn::Team => &self.team,
            UsageColumn::Principal => &self.principal,
            UsageColumn::Tool => &self.tool,
            UsageColumn::Verdict => &self.verdict,
        };
        value.as_deref().unwrap_or_default()
    }
}
