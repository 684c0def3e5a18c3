//! The arguments of `drift`.

use std::{path::PathBuf, str::FromStr};

use clap::{Args, ValueEnum};
use registry_core::{Key, Kind, live::Class};

use super::{
    live::{CardKeyArgs, LiveArgs},
    redacted::redacted,
};

#[derive(Debug, Args)]
pub(crate) struct DriftArgs {
    /// A registered server or agent and its address; may be repeated
    ///
    /// NAME@VERSION=URL, NAME@VERSION=stdio:COMMAND to start a program, or agent:NAME@VERSION=URL.
    #[arg(long = "target", value_name = "SERVER", required_unless_present = "config",
          value_parser = redacted::<LiveTarget>())]
    pub(crate) targets: Vec<LiveTarget>,
    /// Check the `targets` of a gateway's configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Classes that exit with 1
    #[arg(long, value_enum, value_name = "CLASS", value_delimiter = ',', hide_possible_values = true,
          default_values = ["undecided", "suspicious", "breaking"])]
    pub(crate) fail_on: Vec<FailOn>,
    #[command(flatten)]
    pub(crate) keys: CardKeyArgs,
    #[command(flatten)]
    pub(crate) reach: LiveArgs,
}

/// A class of differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Texts for people
    Cosmetic,
    /// Additions that no caller notices
    Compatible,
    /// Compatibility could not be decided
    Undecided,
    /// Texts that address the model, or hidden characters
    Suspicious,
    /// Calls may fail
    Breaking,
}

impl FailOn {
    pub(crate) fn class(self) -> Class {
        match self {
            Self::Cosmetic => Class::Cosmetic,
            Self::Compatible => Class::Compatible,
            Self::Undecided => Class::Undecided,
            Self::Suspicious => Class::Suspicious,
            Self::Breaking => Class::Breaking,
        }
    }
}

/// A registered server or agent and its address.
#[derive(Debug, Clone)]
pub(crate) struct LiveTarget {
    pub(crate) server: Key,
    /// A URL, or `stdio:COMMAND`.
    pub(crate) address: String,
}

impl FromStr for LiveTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form =
            "expected NAME@VERSION=URL, NAME@VERSION=stdio:COMMAND or agent:NAME@VERSION=URL";
        let (server, address) = text.split_once('=').ok_or(form)?;
        let (name, version) = server.rsplit_once('@').ok_or(form)?;
        let (kind, name) = match name.strip_prefix("agent:") {
            Some(agent) => (Kind::Agent, agent),
            None => (Kind::Server, name),
        };
        let server = Key::parse(kind, name, version).map_err(|e| e.to_string())?;
        Ok(Self { server, address: address.to_owned() })
    }
}
