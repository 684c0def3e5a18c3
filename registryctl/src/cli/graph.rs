//! The arguments of the commands about dependencies and exact versions.

use std::path::PathBuf;

use clap::{Args, value_parser};
use registry_core::{Key, Version, resolve::Requirement};

use super::{
    AsOfArgs, EntityArg,
    selector::{parse_key, parse_version},
};

#[derive(Debug, Args)]
pub(crate) struct TreeArgs {
    #[command(flatten)]
    pub(crate) entity: EntityArg,
    /// Show dependents instead of dependencies
    #[arg(long)]
    pub(crate) dependents: bool,
    /// Maximum depth; 0 shows the entity alone
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<u32>,
    /// Maximum number of entities, nearest first (up to 10,000)
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = value_parser!(i32).range(0..))]
    pub(crate) limit: i32,
    #[command(flatten)]
    pub(crate) as_of: AsOfArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PathsArgs {
    /// The dependent
    #[arg(value_name = "KIND/NAME@VERSION", value_parser = parse_key)]
    pub(crate) from: Key,
    /// The dependency
    #[arg(value_name = "KIND/NAME@VERSION", value_parser = parse_key)]
    pub(crate) to: Key,
    /// Maximum number of paths, shortest first; at most 100
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(i32).range(0..))]
    pub(crate) limit: i32,
    #[command(flatten)]
    pub(crate) as_of: AsOfArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Exits with 1 if a dependent breaks or the change would be rejected.")]
pub(crate) struct ImpactArgs {
    #[command(flatten)]
    pub(crate) entity: EntityArg,
    /// Maximum number of dependents (up to 10,000)
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = value_parser!(i32).range(0..))]
    pub(crate) limit: i32,
    #[command(flatten)]
    pub(crate) as_of: AsOfArgs,
    #[command(flatten)]
    pub(crate) planned: PlannedArgs,
}

/// The hypothetical change; at most one.
#[derive(Debug, Args)]
#[group(multiple = false)]
#[command(next_help_heading = "Change")]
pub(crate) struct PlannedArgs {
    /// Retire the entity (default)
    #[arg(long)]
    pub(crate) retire: bool,
    /// Deprecate the entity
    #[arg(long)]
    pub(crate) deprecate: bool,
    /// Replace the entity by the version in this file
    ///
    /// The other documents of the file are registered with it.
    #[arg(long, value_name = "FILE")]
    pub(crate) change: Option<PathBuf>,
    /// Replace the entity by this registered version
    #[arg(long, value_name = "VERSION", value_parser = parse_version)]
    pub(crate) to: Option<Version>,
}

#[derive(Debug, Args)]
pub(crate) struct ResolveArgs {
    /// KIND/NAME@CONSTRAINT
    ///
    /// A constraint is an exact version, a range like `^1.2`, `~1.2.3`, `>=1, <2` or `1.x`, or
    /// `latest`, the default.
    #[arg(value_name = "REQUIREMENT", required = true)]
    pub(crate) requirements: Vec<Requirement>,
    #[command(flatten)]
    pub(crate) as_of: AsOfArgs,
}

pub(super) const REQUIREMENTS_FILE: &str = "registry-requirements.json";
pub(super) const LOCK_FILE: &str = "registry.lock";

#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    /// Requirements
    ///
    /// JSON or YAML: {"tools": {"fetch": "^1.2"}}.
    #[arg(long, short, value_name = "FILE", default_value = REQUIREMENTS_FILE)]
    pub(crate) file: PathBuf,
    /// The lock file to write
    #[arg(long, value_name = "FILE", default_value = LOCK_FILE)]
    pub(crate) lock_file: PathBuf,
    /// Select the newest matching versions, even if locked versions still match
    #[arg(long)]
    pub(crate) update: bool,
    #[command(flatten)]
    pub(crate) as_of: AsOfArgs,
}

#[derive(Debug, Args)]
pub(crate) struct OutdatedArgs {
    /// The lock file
    #[arg(long, value_name = "FILE", default_value = LOCK_FILE)]
    pub(crate) lock_file: PathBuf,
    /// Exit with 5 if a version is outdated, deprecated, retired or unknown
    #[arg(long)]
    pub(crate) exit_code: bool,
}
