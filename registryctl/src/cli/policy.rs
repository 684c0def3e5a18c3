//! The arguments of `policy`.

use std::{collections::BTreeMap, fmt, path::PathBuf, str::FromStr, time::Duration};

use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use policy::Purpose;
use registry_core::{Kind, Name, Timestamp, Version, parse_positive_duration};

use super::{
    AsOfArgs, CommitArgs, ConfirmArgs, Percent, live::Variable, redacted::redacted,
    selector::parse_version,
};

/// The values of `context.caller.method`.
pub(crate) const METHODS: [&str; 6] =
    ["certificate", "token", "api-key", "headers", "client-info", "none"];

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Explain the decision about one call, policy by policy
    Explain(ExplainArgs),
    /// Run test cases: calls with their expected decisions
    Test(TestArgs),
    /// Decide the calls of an audit trail again, and list changed decisions
    Simulate(SimulateArgs),
    /// Register the content of an earlier version as the next version
    Rollback(RollbackArgs),
    /// Forbid calls now, and wait until the gateways enforce it
    Stop(StopArgs),
}

/// The source of policies, tools and agents.
#[derive(Debug, Args)]
pub(crate) struct CatalogArgs {
    /// Read registry files instead of the registry; may be repeated
    ///
    /// Files of `export`, or any valid registry-v2 files. Only their policies, tools and agents count,
    /// and those of --against.
    #[arg(long = "file", short, value_name = "FILE|DIR", conflicts_with = "at")]
    pub(crate) files: Vec<PathBuf>,
    /// The registry without the files: an export or a registry-v2 file
    #[arg(long, value_name = "FILE", requires = "files")]
    pub(crate) against: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) as_of: AsOfArgs,
}

impl CatalogArgs {
    /// The remedy for a name that is not in the files.
    pub(crate) fn help_for_missing(&self) -> Option<&'static str> {
        let help = "only the files of --file count; add the file with the agents and tools";
        (!self.files.is_empty() && self.against.is_none()).then_some(help)
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Rates, the calls of a trace and the age of the catalog are not evaluated.")]
pub(crate) struct ExplainArgs {
    /// NAME[@VERSION] of a tool, or AGENT/SKILL
    ///
    /// Without a version, it is the one that the caller declares, or the newest active one.
    pub(crate) tool: String,
    /// Arguments as the caller sends them: a JSON object, or @FILE
    ///
    /// They are checked against the input schema, and the defaults of the tool are added.
    #[arg(default_value = "{}")]
    pub(crate) arguments: String,
    /// The calling agent; without it: an unregistered caller
    #[arg(long, value_name = "NAME[@VERSION]")]
    pub(crate) caller: Option<String>,
    #[command(flatten)]
    pub(crate) variables: VariablesArgs,
    #[command(flatten)]
    pub(crate) catalog: CatalogArgs,
    #[command(flatten)]
    pub(crate) facts: FactsArgs,
}

/// The variables of a gateway.
#[derive(Debug, Args)]
pub(crate) struct VariablesArgs {
    /// Variable of the gateway in defaults of tools; may be repeated
    #[arg(long = "variable", value_name = "NAME=VALUE", value_parser = redacted::<Variable>())]
    variables: Vec<Variable>,
}

impl VariablesArgs {
    /// The values by name.
    pub(crate) fn by_name(self) -> BTreeMap<String, String> {
        self.variables.into_iter().map(|Variable { name, value }| (name, value)).collect()
    }
}

/// The context of a call.
#[derive(Debug, Args)]
#[command(next_help_heading = "Context")]
pub(crate) struct FactsArgs {
    /// Authentication method, such as `token`
    #[arg(
        long,
        default_value = "none",
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(METHODS)
    )]
    pub(crate) method: String,
    /// Issuer of the token
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) issuer: String,
    /// Subject of the credential
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) subject: String,
    /// OAuth scope of the token; may be repeated
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
    /// call, step or compensation
    #[arg(
        long,
        default_value = "call",
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(Purpose::ALL.map(Purpose::as_str))
            .map(|name| Purpose::parse(&name).unwrap_or(Purpose::Call))
    )]
    pub(crate) purpose: Purpose,
    /// Number of gateways and compositions before
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) hops: u32,
    /// Time of the call [default: now]
    #[arg(long, value_parser = Timestamp::parse)]
    pub(crate) time: Option<Timestamp>,
}

#[derive(Debug, Args)]
#[command(after_help = "Exits with 1 if a case fails or is invalid.")]
pub(crate) struct TestArgs {
    /// YAML or JSON file with `cases`, or `-` for standard input
    ///
    /// Each case has `name`, `caller`, `tool`, `arguments`, `expect` (allow or deny) and optionally
    /// `reason`, `policy`, `method`, `issuer`, `subject`, `scopes`, `purpose`, `hops` and `time`.
    #[arg(value_name = "CASES")]
    pub(crate) cases: PathBuf,
    #[command(flatten)]
    pub(crate) variables: VariablesArgs,
    #[command(flatten)]
    pub(crate) catalog: CatalogArgs,
}

#[derive(Debug, Args)]
#[command(
    after_long_help = "Calls of tools and messages to skills are decided, also those of compositions. \
                  Operations on prompts, resources and tasks are only counted."
)]
pub(crate) struct SimulateArgs {
    /// Log of a gateway in JSON, or `-` for standard input; may be repeated
    ///
    /// The gateway writes it with `--log-format json`.
    #[arg(long, required = true, value_name = "FILE")]
    pub(crate) audit: Vec<PathBuf>,
    /// Only calls of this last time: 12h or 7d
    #[arg(long, value_name = "TIME", value_parser = parse_days)]
    pub(crate) since: Option<Duration>,
    /// Policies to add to those of the registry; may be repeated
    #[arg(long = "file", short, value_name = "FILE|DIR")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) as_of: AsOfArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WhoCanCallArgs {
    /// NAME[@VERSION] of a tool, or AGENT/SKILL
    pub(crate) tool: String,
    #[command(flatten)]
    pub(crate) catalog: CatalogArgs,
}

/// Parses days (`7d`), or a positive duration.
pub(super) fn parse_days(text: &str) -> Result<Duration, String> {
    const DAY: u64 = 24 * 60 * 60;
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok());
    match days.and_then(|days| days.checked_mul(DAY)).filter(|seconds| *seconds > 0) {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => parse_positive_duration(text)
            .map_err(|_| format!("`{text}` is not a positive duration such as 30m, 12h or 7d")),
    }
}

#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// The policy
    #[arg(value_parser = policy_name)]
    pub(crate) name: Name,
    /// The version with the content
    #[arg(value_parser = parse_version)]
    pub(crate) version: Version,
    /// Accept tools that the policy does not fit; their calls are denied
    #[arg(long, help_heading = "Commit")]
    pub(crate) allow_policy_break: bool,
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
    /// selects registered agents by name, or by tag: caller/tag:prod. Other callers match no
    /// `caller`, not even `caller/*`. Several resources are a union, and callers restrict them.
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
    fn durations_accept_days() {
        for (text, seconds) in [("7d", 604_800), ("12h", 43_200), ("1d", 86_400)] {
            assert_eq!(parse_days(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "0d", "d", "7", "-1d", "99999999999999999999d"] {
            assert!(parse_days(bad).is_err(), "{bad}");
        }
    }

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
