//! The arguments of `search`.
//!
//! A query language is not supported.

use clap::Args;
use registry_core::{Kind, LifecycleState};
use registry_search::Target;

use super::{AsOfArgs, parse_kind};

#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// Words in any order; prefixes, parts of words and typos match
    ///
    /// Without words, every entity matches, ordered by name.
    #[arg(value_name = "QUERY")]
    pub(crate) query: Vec<String>,
    /// Only this kind: schema, server, tool, agent or policy; may be repeated
    #[arg(long, value_parser = parse_kind)]
    pub(crate) kind: Vec<Kind>,
    /// Only entities of this owner
    #[arg(long)]
    pub(crate) owner: Option<String>,
    /// Only entities with this tag; if repeated: with all tags
    #[arg(long)]
    pub(crate) tag: Vec<String>,
    /// Only this state; may be repeated [default: active and deprecated]
    #[arg(long, value_name = "STATE")]
    pub(crate) lifecycle: Vec<LifecycleState>,
    /// Only servers that provide this tool
    #[arg(long, value_name = "TOOL[@VERSION]")]
    pub(crate) provides: Option<String>,
    /// Only direct dependents of this entity
    #[arg(long, value_name = "KIND/NAME[@VERSION]")]
    pub(crate) depends_on: Option<Target>,
    /// Only direct dependencies of this entity
    #[arg(long, value_name = "KIND/NAME[@VERSION]")]
    pub(crate) used_by: Option<Target>,
    /// List every version, not only the newest active one of each name
    ///
    /// `--provides`, `--depends-on` and `--used-by` imply it.
    #[arg(long)]
    pub(crate) all_versions: bool,
    /// Maximum number of results
    #[arg(long, short = 'n', default_value_t = 20)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) as_of: AsOfArgs,
}
