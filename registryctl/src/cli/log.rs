//! The arguments of `log`, `show`, `history` and `blame`.
//!
//! Time zones are not supported: days are in UTC.

use std::str::FromStr;

use clap::Args;
use registry_core::{Date, Kind, Name, Selector, Timestamp, Version};
use registry_proto::{convert, v1};

use super::{
    AsOfArgs, NameArg,
    governance::selector,
    selector::{kind_of, parse_version},
};
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Only commits about KIND, KIND/NAME, KIND/NAME@VERSION, or a namespace
    ///
    /// A namespace like team/*, or * for the registry, selects commits that change its settings.
    #[arg(value_name = "ENTITY|NAMESPACE|*")]
    pub(crate) filter: Option<CommitFilter>,
    /// Maximum number of commits; 0: no limit
    #[arg(long, short = 'n', default_value_t = 20)]
    pub(crate) limit: usize,
    /// Only commits by this author
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) author: String,
    /// Only commits at or after this date or time
    ///
    /// 2026-01-31 (its start, UTC) or 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = start)]
    pub(crate) since: Option<Timestamp>,
    /// Only commits at or before this date or time
    ///
    /// 2026-01-31 (its end, UTC) or 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = end)]
    pub(crate) until: Option<Timestamp>,
    #[command(flatten)]
    pub(crate) as_of: AsOfArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Revision of the commit
    #[arg(value_parser = parse_revision)]
    pub(crate) revision: u64,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub(crate) name: NameArg,
    #[command(flatten)]
    pub(crate) as_of: AsOfArgs,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Default version: the one registered last. Each value is attributed to the version that introduced it: \
the first of an unbroken series of versions, in registration order, that have the same value at the \
same place. Moves within an array are followed. Versions of one commit are ordered by version.")]
pub(crate) struct BlameArgs {
    #[command(flatten)]
    pub(crate) name: NameArg,
    #[command(flatten)]
    pub(crate) as_of: AsOfArgs,
}

#[derive(Debug, Clone)]
pub(crate) enum CommitFilter {
    /// Changes of entities and of the settings of their names.
    Entity(EntityFilter),
    /// Changes of the settings of a namespace or the registry.
    Settings(Selector),
}

impl FromStr for CommitFilter {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        if text.ends_with('*') {
            return selector(text).map(Self::Settings).map_err(Failure::usage);
        }
        text.parse().map(Self::Entity)
    }
}

/// All entities of a kind, all versions of a name, or one version.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EntityFilter {
    pub(crate) kind: Kind,
    pub(crate) name: Option<Name>,
    pub(crate) version: Option<Version>,
}

impl EntityFilter {
    /// The selector of a request.
    pub(crate) fn selector(&self) -> v1::EntitySelector {
        convert::selector(self.kind, self.name.as_ref(), self.version.as_ref())
    }
}

impl FromStr for EntityFilter {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let (kind, name) =
            text.split_once('/').map_or((text, None), |(kind, name)| (kind, Some(name)));
        let kind = kind_of(kind, text).map_err(Failure::Usage)?;
        let Some(name) = name else { return Ok(Self { kind, name: None, version: None }) };
        let (name, version) =
            name.split_once('@').map_or((name, None), |(name, version)| (name, Some(version)));
        let name = Name::parse(kind, name).map_err(Failure::usage)?;
        let version = version.map(parse_version).transpose().map_err(Failure::Usage)?;
        Ok(Self { kind, name: Some(name), version })
    }
}

/// Parses a revision. The error names the commands that list revisions.
pub(super) fn parse_revision(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        "write a revision, a number such as 42; `registryctl history KIND/NAME` and `registryctl \
         log` list revisions"
            .to_owned()
    })
}

fn start(text: &str) -> Result<Timestamp, String> {
    time(text, "00:00:00.000Z")
}

fn end(text: &str) -> Result<Timestamp, String> {
    time(text, "23:59:59.999Z")
}

/// Parses a time, or a date at a time of day.
fn time(text: &str, time_of_day: &str) -> Result<Timestamp, String> {
    let time = match text.parse::<Date>() {
        Ok(date) => format!("{date}T{time_of_day}"),
        Err(_) => text.to_owned(),
    };
    Timestamp::parse(&time).map_err(|_| {
        format!("`{text}` is neither a day like 2026-01-31 nor a time like 2026-01-31T12:00:00Z")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_cover_the_whole_day() {
        assert_eq!(start("2026-01-31").unwrap().to_string(), "2026-01-31T00:00:00.000Z");
        assert_eq!(end("2026-01-31").unwrap().to_string(), "2026-01-31T23:59:59.999Z");
        assert!(end("2026-02-30").is_err() && end("yesterday").is_err());
    }

    #[test]
    fn filters_have_three_forms() {
        let read = |text: &str| {
            let EntityFilter { kind, name, version } = text.parse().ok()?;
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
