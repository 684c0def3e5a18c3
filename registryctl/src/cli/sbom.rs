//! The arguments of `sbom`.

use std::{convert::Infallible, path::PathBuf, str::FromStr};

use clap::{ArgGroup, Args, Subcommand};
use registry_core::{Key, Kind, PointInTime};
use registry_sbom::Format;

use super::{
    AsOfArgs, NameArg,
    selector::{parse_key, parse_kind},
};

#[derive(Debug, Subcommand)]
pub(crate) enum SbomCommand {
    /// Export the SBOM of an entity or of the whole registry
    ///
    /// It contains the entity and all its dependencies, and the tools that a server provides. Exports
    /// of one revision are identical, byte for byte.
    Export(SbomExportArgs),
    /// Compare two SBOMs: components, versions, licenses, suppliers and lifecycles
    ///
    /// Exits with 1 if there are differences.
    Diff(SbomDiffArgs),
    /// List the entities that contain an entity, directly or transitively
    WhereUsed(WhereUsedArgs),
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("subject").args(["root", "all"]).required(true)))]
pub(crate) struct SbomExportArgs {
    /// The entity
    #[arg(value_name = "KIND/NAME@VERSION", value_parser = parse_key)]
    pub(crate) root: Option<Key>,
    /// Export the whole registry
    #[arg(long)]
    pub(crate) all: bool,
    /// Format
    ///
    /// cyclonedx-1.6, cyclonedx-1.7, spdx-2.3 or spdx-3.0.
    #[arg(long, value_name = "FORMAT", default_value = "cyclonedx-1.6")]
    pub(crate) format: Format,
    /// Write to this file instead of standard output
    ///
    /// The file is replaced only after the complete SBOM was received.
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) as_of: AsOfArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SbomDiffArgs {
    /// KIND/NAME@VERSION, `all` for the whole registry, or an SBOM file
    pub(crate) old: SbomSource,
    /// The other SBOM, in the same forms
    pub(crate) new: SbomSource,
    /// Read OLD as of a revision, date or time
    #[arg(long, value_name = "REVISION|TIME")]
    pub(crate) old_at: Option<PointInTime>,
    /// Read NEW as of a revision, date or time
    #[arg(long, value_name = "REVISION|TIME")]
    pub(crate) new_at: Option<PointInTime>,
}

/// The source of an SBOM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SbomSource {
    /// An entity of the registry; `None`: the whole registry.
    Registry(Option<Key>),
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
pub(crate) struct WhereUsedArgs {
    #[command(flatten)]
    pub(crate) name: NameArg,
    /// Only users of this kind: agent, tool, server or schema
    #[arg(long = "kind", value_name = "KIND", value_parser = parse_kind)]
    pub(crate) user_kind: Option<Kind>,
    #[command(flatten)]
    pub(crate) as_of: AsOfArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_take_precedence_over_files() {
        let source = |text: &str| text.parse::<SbomSource>().unwrap();
        assert_eq!(source("all"), SbomSource::Registry(None));
        let key = "tool/fetch@1.2.3";
        assert_eq!(source(key), SbomSource::Registry(Some(key.parse().unwrap())));
        assert_eq!(source("./tool/fetch@1.2.3"), SbomSource::File("./tool/fetch@1.2.3".into()));
        assert_eq!(source("bill.json"), SbomSource::File("bill.json".into()));
    }
}
