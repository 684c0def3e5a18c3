//! The arguments of `verify`.

use std::{path::PathBuf, str::FromStr};

use clap::{Args, ValueEnum};
use registry_core::{Key, Kind, live::Class};

use super::{live::LiveArgs, unrepeated::unrepeated};

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Compare live servers with what is registered of them
    #[arg(long, required = true)]
    pub(crate) live: bool,
    /// A registered server and where it is: NAME@VERSION=URL or NAME@VERSION=stdio:COMMAND; may be
    /// given several times
    #[arg(long = "target", value_name = "SERVER", required_unless_present = "config",
          value_parser = unrepeated::<LiveTarget>())]
    pub(crate) targets: Vec<LiveTarget>,
    /// Take the `targets` of this configuration of a gateway
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// End with 1 if there is such a difference
    #[arg(long, value_enum, value_name = "CLASS", value_delimiter = ',',
          default_values = ["undecided", "suspicious", "breaking"])]
    pub(crate) fail_on: Vec<FailOn>,
    #[command(flatten)]
    pub(crate) reach: LiveArgs,
}

/// Which differences are failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Words for people
    Cosmetic,
    /// More than before
    Compatible,
    /// Neither compatible nor breaking could be shown
    Undecided,
    /// Words that speak to the model, or hide something
    Suspicious,
    /// Callers may fail
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

/// A registered server and where it is.
#[derive(Debug, Clone)]
pub(crate) struct LiveTarget {
    pub(crate) server: Key,
    pub(crate) place: String,
}

impl FromStr for LiveTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "it is not of the form NAME@VERSION=URL or NAME@VERSION=stdio:COMMAND";
        let (server, place) = text.split_once('=').ok_or(form)?;
        let (name, version) = server.rsplit_once('@').ok_or(form)?;
        let server = Key::parse(Kind::Server, name, version).map_err(|e| e.to_string())?;
        Ok(Self { server, place: place.to_owned() })
    }
}
