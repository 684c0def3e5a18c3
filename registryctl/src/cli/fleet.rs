//! The arguments of `gateways`, of `rollout`, and of waiting for gateways.

use std::{fmt, str::FromStr, time::Duration};

use clap::{Args, Subcommand};
use registry_core::parse_positive_duration;
use registry_proto::v1;

#[derive(Debug, Args)]
pub(crate) struct GatewaysArgs {
    /// Only those that follow the registry now
    #[arg(long)]
    pub(crate) connected: bool,
    /// Only those that have followed it and are gone
    #[arg(long, conflicts_with = "connected")]
    pub(crate) gone: bool,
    /// Only those that have not applied this revision
    #[arg(long, value_name = "REVISION", default_value_t = 0, hide_default_value = true)]
    pub(crate) behind: u64,
    /// Only names that begin so
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
}

impl GatewaysArgs {
    /// Of both or neither, everybody.
    pub(crate) fn state(&self) -> v1::GatewayState {
        match (self.connected, self.gone) {
            (true, false) => v1::GatewayState::Connected,
            (false, true) => v1::GatewayState::Gone,
            _ => v1::GatewayState::Unspecified,
        }
    }
}

/// How far a revision has come among gateways.
#[derive(Debug, Subcommand)]
pub(crate) enum RolloutCommand {
    /// Show how many of the connected gateways have applied a revision, who has not, and who refuses
    /// it and why
    Status(RolloutStatusArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RolloutStatusArgs {
    /// The revision
    pub(crate) revision: u64,
    #[command(flatten)]
    pub(crate) wait: WaitArgs,
}

/// Whether to wait for gateways.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WaitArgs {
    /// Wait until so many of the gateways that are connected have applied it; end with 6 when they
    /// do not in time, or when too many refuse it [without a number: 100%]
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, default_missing_value = "100%")]
    pub(crate) wait: Option<Percent>,
    /// With --wait: how long at most: 30s, 5m or 1h
    #[arg(long, value_name = "TIME", default_value = "5m", requires = "wait", value_parser = parse_positive_duration)]
    pub(crate) timeout: Duration,
}

/// A part of a whole, from 1 to 100 percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Percent(u8);

impl Percent {
    /// The least number that is such a part of this many; at least one.
    pub(crate) fn of(self, many: usize) -> usize {
        (many * usize::from(self.0)).div_ceil(100).max(1)
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
        number.map(Self).ok_or_else(|| format!("`{text}` is not a part from 1% to 100%"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_of_whole_gateways() {
        let of = |text: &str, many| text.parse::<Percent>().map(|percent| percent.of(many));
        for (text, many, expected) in [
            ("95%", 100, 95),
            ("95", 3, 3),
            ("50%", 3, 2),
            ("1%", 10, 1),
            ("100%", 7, 7),
            ("5%", 0, 1),
        ] {
            assert_eq!(of(text, many), Ok(expected), "{text} of {many}");
        }
        for bad in ["", "%", "0%", "101%", "-1", "9.5%", "half"] {
            assert!(of(bad, 1).unwrap_err().contains(&format!("`{bad}`")));
        }
    }
}
