//! The arguments of the commands about dependencies and exact versions.

use std::path::PathBuf;

use clap::Args;
use registry_core::{Key, Version, resolve::Requirement};

use super::{AtArgs, Entity};

#[derive(Debug, Args)]
pub(crate) struct TreeArgs {
    #[command(flatten)]
    pub(crate) entity: Entity,
    /// Show what needs it instead of what it needs
    #[arg(long)]
    pub(crate) dependents: bool,
    /// At most so many steps away; 0: only the entity itself
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<u32>,
    /// At most so many entities, nearest first; at most 10,000
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) at: AtArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PathsArgs {
    /// The one that needs the other
    #[arg(value_name = "KIND/NAME@VERSION")]
    pub(crate) from: Key,
    /// The one that is needed
    #[arg(value_name = "KIND/NAME@VERSION")]
    pub(crate) to: Key,
    /// At most so many paths, shortest first; at most 100
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) at: AtArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit code 1 when something breaks, or the change itself would be refused.")]
pub(crate) struct ImpactArgs {
    #[command(flatten)]
    pub(crate) entity: Entity,
    #[command(flatten)]
    pub(crate) planned: PlannedArgs,
    /// At most so many dependents, what breaks first; at most 10,000
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) at: AtArgs,
}

/// What is planned; at most one of it.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct PlannedArgs {
    /// If it were retired (the default)
    #[arg(long)]
    pub(crate) retire: bool,
    /// If it were deprecated
    #[arg(long)]
    pub(crate) deprecate: bool,
    /// If its dependents moved to the version of it that this file has
    #[arg(long, value_name = "FILE")]
    pub(crate) change: Option<PathBuf>,
    /// If its dependents moved to this registered version of it
    #[arg(long, value_name = "VERSION", value_parser = Version::parse)]
    pub(crate) to: Option<Version>,
}

#[derive(Debug, Args)]
pub(crate) struct ResolveArgs {
    /// KIND/NAME@CONSTRAINT: an exact version, a range like `^1.2`, `~1.2.3`, `>=1, <2` or `1.x`, or
    /// `latest`, which is the default
    #[arg(value_name = "REQUIREMENT", required = true)]
    pub(crate) requirements: Vec<Requirement>,
    #[command(flatten)]
    pub(crate) at: AtArgs,
}

/// Where requirements and locks are, unless the user says other.
pub(super) const REQUIREMENTS_FILE: &str = "registry-requirements.json";
pub(super) const LOCK_FILE: &str = "registry.lock";

#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    /// What is required, as JSON or YAML: {"tools": {"fetch": "^1.2"}, "agents": {…}}
    #[arg(long, short, value_name = "FILE", default_value = REQUIREMENTS_FILE)]
    pub(crate) file: PathBuf,
    /// The lock file to write
    #[arg(long, value_name = "FILE", default_value = LOCK_FILE)]
    pub(crate) lock_file: PathBuf,
    /// Take the newest versions that fit, also where a locked one still does
    #[arg(long)]
    pub(crate) update: bool,
    #[command(flatten)]
    pub(crate) at: AtArgs,
}

#[derive(Debug, Args)]
pub(crate) struct OutdatedArgs {
    /// The lock file
    #[arg(long, value_name = "FILE", default_value = LOCK_FILE)]
    pub(crate) lock_file: PathBuf,
    /// End with 5 if anything is outdated, deprecated, retired or unknown
    #[arg(long)]
    pub(crate) exit_code: bool,
}
