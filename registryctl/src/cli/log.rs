//! The arguments of `log`, `show`, `history` and `blame`.
//!
//! Time zones are not supported: days are in UTC.

use std::str::FromStr;

use clap::Args;
use registry_core::{Date, Kind, Name, Selector, Timestamp, Version};
use registry_proto::v1;

use super::{AtArgs, governance::selector};
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Only commits that change this or set something about it: KIND, KIND/NAME, KIND/NAME@VERSION;
    /// or that set something about exactly this: a namespace like team/*, or * for everything
    #[arg(value_name = "ENTITY|NAMESPACE|*")]
    pub(crate) about: Option<Subject>,
    /// How many commits at most; 0: all
    #[arg(long, short = 'n', default_value_t = 20)]
    pub(crate) limit: usize,
    /// Only commits by this author
    #[arg(long, default_value = "")]
    pub(crate) author: String,
    /// Only commits since then: 2026-01-31 (its beginning) or 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = beginning)]
    pub(crate) since: Option<Timestamp>,
    /// Only commits until then: 2026-01-31 (its end) or 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = end)]
    pub(crate) until: Option<Timestamp>,
    #[command(flatten)]
    pub(crate) at: AtArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The commit's revision
    pub(crate) revision: u64,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub(crate) name: super::Name,
    #[command(flatten)]
    pub(crate) at: AtArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Without a version: the one that was registered last. A value comes from the version since which it \
has been the same, at the same place, in every version up to this one, in the order of their \
registration, wherever other items of an array have moved it; those of one commit count by version.")]
pub(crate) struct BlameArgs {
    #[command(flatten)]
    pub(crate) name: super::Name,
    #[command(flatten)]
    pub(crate) at: AtArgs,
}

/// What commits are to be about.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    /// Entities, and what is set about their names.
    Entity(About),
    /// What is set about a namespace or everything.
    Set(Selector),
}

impl FromStr for Subject {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        if text.ends_with('*') {
            return selector(text).map(Self::Set).map_err(Failure::usage);
        }
        text.parse().map(Self::Entity)
    }
}

/// Which entities.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct About {
    pub(crate) kind: Kind,
    pub(crate) name: Option<Name>,
    pub(crate) version: Option<Version>,
}

impl About {
    /// The kind, name and version of a request; what is not said is empty.
    pub(crate) fn wire(about: Option<&Self>) -> (i32, String, String) {
        let Some(Self { kind, name, version }) = about else { return Default::default() };
        let name = name.as_ref().map(ToString::to_string).unwrap_or_default();
        let version = version.as_ref().map(ToString::to_string).unwrap_or_default();
        (v1::Kind::from(*kind).into(), name, version)
    }
}

impl FromStr for About {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let (kind, name) =
            text.split_once('/').map_or((text, None), |(kind, name)| (kind, Some(name)));
        let kind: Kind = kind.parse().map_err(Failure::usage)?;
        let Some(name) = name else { return Ok(Self { kind, name: None, version: None }) };
        let (name, version) =
            name.split_once('@').map_or((name, None), |(name, version)| (name, Some(version)));
        let name = Name::parse(kind, name).map_err(Failure::usage)?;
        let version = version.map(Version::parse).transpose().map_err(Failure::usage)?;
        Ok(Self { kind, name: Some(name), version })
    }
}

fn beginning(text: &str) -> Result<Timestamp, String> {
    moment(text, "00:00:00.000Z")
}

fn end(text: &str) -> Result<Timestamp, String> {
    moment(text, "23:59:59.999Z")
}

/// A time, or this time of a day.
fn moment(text: &str, of_day: &str) -> Result<Timestamp, String> {
    let whole = match text.parse::<Date>() {
        Ok(date) => format!("{date}T{of_day}"),
        Err(_) => text.to_owned(),
    };
    Timestamp::parse(&whole).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_all_of_it() {
        assert_eq!(beginning("2026-01-31").unwrap().to_string(), "2026-01-31T00:00:00.000Z");
        assert_eq!(end("2026-01-31").unwrap().to_string(), "2026-01-31T23:59:59.999Z");
        assert!(end("2026-02-30").is_err() && end("yesterday").is_err());
    }

    #[test]
    fn a_kind_a_name_or_a_version() {
        let read = |text: &str| {
            let About { kind, name, version } = text.parse().ok()?;
            Some((kind, name.is_some(), version.is_some()))
        };
        assert_eq!(read("tools"), Some((Kind::Tool, false, false)));
        assert_eq!(read("server/acme/docs"), Some((Kind::Server, true, false)));
        assert_eq!(read("tool/fetch@1.0.0"), Some((Kind::Tool, true, true)));
        for bad in ["", "gadget", "tool/", "tool/fetch@1"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
