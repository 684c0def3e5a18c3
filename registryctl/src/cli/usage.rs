//! The arguments of `usage`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use registry_proto::v1;

use super::policy::parse_days;

#[derive(Debug, Args)]
#[command(after_help = "\
Calls of the last seconds may be missing: gateways report every 10 seconds.
Usage older than 48 hours is kept by hour.")]
pub(crate) struct UsageArgs {
    /// Gateway, agent, team, principal, tool or verdict
    #[arg(
        long,
        value_enum,
        value_name = "PROPERTY",
        value_delimiter = ',',
        hide_possible_values = true,
        default_value = "agent,tool"
    )]
    pub(crate) by: Vec<UsageColumn>,
    /// Also sum by interval, in UTC
    #[arg(long, value_enum, value_name = "INTERVAL")]
    pub(crate) interval: Option<UsageStep>,
    /// Only calls of this last time: 30m, 12h or 7d
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = parse_days)]
    pub(crate) since: Duration,
    /// Only calls older than this: 30m, 12h or 7d
    #[arg(long, value_name = "TIME", value_parser = parse_days)]
    pub(crate) until: Option<Duration>,
    /// Only this gateway, by its principal
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) gateway: String,
    /// Only this agent, or `(unknown)`
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) agent: String,
    /// Only agents of this team
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) team: String,
    /// Only this owner of a credential
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) principal: String,
    /// Only this tool, or AGENT/SKILL
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) tool: String,
    /// Only this verdict, for example allow or `deny:BUDGET_EXCEEDED`
    #[arg(long, value_name = "VERDICT", default_value = "", hide_default_value = true)]
    pub(crate) verdict: String,
}

/// A property of usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UsageColumn {
    /// The gateway
    Gateway,
    /// The agent
    Agent,
    /// The team that owned the agent
    Team,
    /// The owner of the credential
    Principal,
    /// The tool
    Tool,
    /// The verdict: allow, or the reason of a denial or a warning
    Verdict,
}

/// The length of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UsageStep {
    /// Minutes
    Minute,
    /// Hours
    Hour,
    /// Days
    Day,
}

impl UsageColumn {
    pub(crate) fn heading(self) -> &'static str {
        match self {
            Self::Gateway => "GATEWAY",
            Self::Agent => "AGENT",
            Self::Team => "TEAM",
            Self::Principal => "PRINCIPAL",
            Self::Tool => "TOOL",
            Self::Verdict => "VERDICT",
        }
    }
}

impl From<UsageColumn> for v1::UsageProperty {
    fn from(column: UsageColumn) -> Self {
        match column {
            UsageColumn::Gateway => Self::Gateway,
            UsageColumn::Agent => Self::Agent,
            UsageColumn::Team => Self::Team,
            UsageColumn::Principal => Self::Principal,
            UsageColumn::Tool => Self::Tool,
            UsageColumn::Verdict => Self::Verdict,
        }
    }
}

impl From<UsageStep> for v1::UsageInterval {
    fn from(step: UsageStep) -> Self {
        match step {
            UsageStep::Minute => Self::Minute,
            UsageStep::Hour => Self::Hour,
            UsageStep::Day => Self::Day,
        }
    }
}
