//! The arguments of `fleet`, of `rollout`, and of waiting for gateways.

use std::{fmt, str::FromStr, time::Duration};

use clap::{Args, Subcommand};
use registry_core::parse_positive_duration;
use registry_proto::v1;

use super::log::parse_revision;

#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// List gateways with their applied revision, lag and last rejection
    List(FleetListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct FleetListArgs {
    /// Only connected gateways
    #[arg(long)]
    pub(crate) connected: bool,
    /// Only gateways that have disconnected
    #[arg(long, conflicts_with = "connected")]
    pub(crate) gone: bool,
    /// Only gateways that have not applied this revision
    #[arg(long, value_name = "REVISION", default_value_t = 0, hide_default_value = true)]
    pub(crate) behind: u64,
    /// Only names with this prefix
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
}

impl FleetListArgs {
    /// The requested state. Neither flag or both: any state.
    pub(crate) fn state(&self) -> v1::GatewayState {
        match (self.connected, self.gone) {
            (true, false) => v1::GatewayState::Connected,
            (false, true) => v1::GatewayState::Disconnected,
            _ => v1::GatewayState::Unspecified,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum RolloutCommand {
    /// Show which connected gateways have applied a revision, and which reject it and why
    Status(RolloutStatusArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RolloutStatusArgs {
    /// The revision
    #[arg(value_parser = parse_revision)]
    pub(crate) revision: u64,
    #[command(flatten)]
    pub(crate) wait: WaitArgs,
}

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Rollout")]
pub(crate) struct WaitArgs {
    /// Wait until this share of gateways has applied the revision
    ///
    /// Without a value: 100% of the connected gateways.
    ///
    /// Exits with 6 after --timeout, or when too many gateways reject the revision.
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, default_missing_value = "100%")]
    pub(crate) wait: Option<Percent>,
    /// Maximum time of --wait: 30s, 5m or 1h
    #[arg(long, value_name = "TIME", default_value = "5m", requires = "wait", value_parser = parse_positive_duration)]
    pub(crate) timeout: Duration,
}

/// A share of 1 to 100 percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Percent(u8);

impl Percent {
    /// This share of a number, rounded up; at least one.
    pub(crate) fn share_of(self, total: usize) -> usize {
        (total * usize::from(self.0)).div_ceil(100).max(1)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
        let number = number.filter(|number| (1..=100).contains(number));
        number.map(Self).ok_or_else(|| format!("`{text}` is not a percentage from 1% to 100%"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_up() {
        let share = |text: &str, total| text.parse::<Percent>().map(|p| p.share_of(total));
        for (text, total, expected) in [
            ("95%", 100, 95),
            ("95", 3, 3),
            ("50%", 3, 2),
            ("1%", 10, 1),
            ("100%", 7, 7),
            ("5%", 0, 1),
        ] {
            assert_eq!(share(text, total), Ok(expected), "{text} of {total}");
        }
        for bad in ["", "%", "0%", "101%", "-1", "9.5%", "half"] {
            assert!(share(bad, 1).unwrap_err().contains(&format!("`{bad}`")));
        }
    }
}
