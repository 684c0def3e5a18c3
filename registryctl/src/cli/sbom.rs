//! The arguments of `sbom`.

use std::{convert::Infallible, path::PathBuf, str::FromStr};

use clap::{ArgGroup, Args, Subcommand};
use registry_core::{Key, Kind, PointInTime};
use registry_sbom::Format;

use super::{AtArgs, Name};

#[derive(Debug, Subcommand)]
pub(crate) enum Sbom {
    /// Write the bill of materials of an entity, or of everything
    ///
    /// It lists the entity and all that it needs; for a server also the tools that it provides. The
    /// same revision always gives the same bytes.
    Export(SbomExportArgs),
    /// Show what is different between two bills: things, versions, licences, suppliers, lifecycle
    ///
    /// Ends with 0 where nothing is different, with 1 where something is.
    Diff(SbomDiffArgs),
    /// List what contains an entity, directly or through others, and how
    WhoHas(WhoHasArgs),
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").args(["root", "all"]).required(true)))]
pub(crate) struct SbomExportArgs {
    /// Of which entity
    #[arg(value_name = "KIND/NAME@VERSION")]
    pub(crate) root: Option<Key>,
    /// Of everything that is registered
    #[arg(long)]
    pub(crate) all: bool,
    /// cyclonedx-1.6, cyclonedx-1.7, spdx-2.3 or spdx-3.0
    #[arg(long, value_name = "FORMAT", default_value = "cyclonedx-1.6")]
    pub(crate) format: Format,
    /// Write to this file instead of standard output; it is replaced only when all is there
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) at: AtArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SbomDiffArgs {
    /// KIND/NAME@VERSION, `all` for everything, or a file in any of the formats
    pub(crate) old: SbomSource,
    /// The same
    pub(crate) new: SbomSource,
    /// As of when OLD is taken from the registry: 42, 2026-01-31 (its end) or 2026-01-31T12:00:00Z
    #[arg(long, value_name = "REVISION|TIME")]
    pub(crate) old_at: Option<PointInTime>,
    /// As of when NEW is taken from the registry
    #[arg(long, value_name = "REVISION|TIME")]
    pub(crate) new_at: Option<PointInTime>,
}

/// Where a bill comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SbomSource {
    /// From the registry: of an entity, or of everything.
    Registry(Option<Key>),
    /// From a file.
    File(PathBuf),
}

impl FromStr for SbomSource {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match (text, text.parse()) {
            ("all", _) => Self::Registry(None),
            (_, Ok(key)) => Self::Registry(Some(key)),
            (path, Err(_)) => Self::File(path.into()),
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct WhoHasArgs {
    #[command(flatten)]
    pub(crate) name: Name,
    /// Only holders of this kind: agent, tool, server or schema
    #[arg(long = "kind", value_name = "KIND")]
    pub(crate) holder_kind: Option<Kind>,
    #[command(flatten)]
    pub(crate) at: AtArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_taken_for_a_file() {
        let source = |text: &str| text.parse::<SbomSource>().unwrap();
        assert_eq!(source("all"), SbomSource::Registry(None));
        let key = "tool/fetch@1.2.3";
        assert_eq!(source(key), SbomSource::Registry(Some(key.parse().unwrap())));
        assert_eq!(source("./tool/fetch@1.2.3"), SbomSource::File("./tool/fetch@1.2.3".into()));
        assert_eq!(source("bill.json"), SbomSource::File("bill.json".into()));
    }
}
