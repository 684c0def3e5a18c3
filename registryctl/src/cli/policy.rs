//! The arguments of `policy`.

use std::{fmt, str::FromStr, time::Duration};

use clap::{Args, Subcommand};
use registry_core::{Kind, Name, Version, parse_positive_duration};

use super::{CommitArgs, ConfirmArgs, Percent, selector::parse_version};

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Register the content of an earlier version as the next version
    Rollback(RollbackArgs),
    /// Forbid calls now, and wait until the gateways enforce it
    Stop(StopArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// The policy
    #[arg(value_parser = policy_name)]
    pub(crate) name: Name,
    /// The version with the content
    #[arg(value_parser = parse_version)]
    pub(crate) version: Version,
    /// Commit message [default: the name and both versions]
    #[arg(long, short)]
    pub(crate) message: Option<String>,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
    #[command(flatten)]
    pub(crate) commit: CommitArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// tool/PATTERN, skill/AGENT/PATTERN, agent/PATTERN, server/PATTERN or caller/PATTERN
    ///
    /// A `*` in a pattern matches any characters. `agent` selects all skills of an agent. `caller`
    /// selects calling agents by name, or by tag: caller/tag:prod. Several resources are a union, and
    /// callers restrict them.
    #[arg(required = true, value_name = "SELECTOR")]
    pub(crate) selectors: Vec<StopSelector>,
    /// The reason; also the description of the policy and the commit message
    #[arg(long)]
    pub(crate) reason: String,
    /// Share of connected gateways to wait for
    #[arg(long, value_name = "PERCENT", default_value = "100%", help_heading = "Rollout")]
    pub(crate) wait: Percent,
    /// Maximum time of the wait: 30s, 5m or 1h
    #[arg(
        long,
        value_name = "TIME",
        default_value = "5m",
        help_heading = "Rollout",
        value_parser = parse_positive_duration
    )]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
    #[command(flatten)]
    pub(crate) commit: CommitArgs,
}

fn policy_name(text: &str) -> Result<Name, String> {
    let name = text.strip_prefix("policy/").unwrap_or(text);
    Name::parse(Kind::Policy, name).map_err(|e| e.to_string())
}

/// A selector of calls, with its list in `appliesTo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StopSelector {
    pub(crate) list: &'static str,
    pub(crate) pattern: String,
    text: String,
}

impl FromStr for StopSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, pattern) = text.split_once('/').unwrap_or((text, ""));
        let list = match kind {
            "tool" => "tools",
            "skill" | "agent" => "skills",
            "server" => "servers",
            "caller" => "callers",
            _ => "",
        };
        if list.is_empty() || pattern.is_empty() {
            return Err(format!(
                "`{text}` is not a selector; write tool/PATTERN, skill/AGENT/PATTERN, \
                 agent/PATTERN, server/PATTERN or caller/PATTERN"
            ));
        }
        let pattern = if kind == "agent" { format!("{pattern}/*") } else { pattern.to_owned() };
        Ok(Self { list, pattern, text: text.to_owned() })
    }
}

impl fmt::Display for StopSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_selectors_have_a_list() {
        let read = |text: &str| text.parse::<StopSelector>().map(|s| (s.list, s.pattern));
        for (text, list, pattern) in [
            ("tool/payment_*", "tools", "payment_*"),
            ("skill/team/clerk/work", "skills", "team/clerk/work"),
            ("agent/team/clerk", "skills", "team/clerk/*"),
            ("server/bank", "servers", "bank"),
            ("caller/tag:prod", "callers", "tag:prod"),
        ] {
            assert_eq!(read(text), Ok((list, pattern.to_owned())), "{text}");
        }
        for bad in ["", "tool", "tool/", "payment_*", "schema/a"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
