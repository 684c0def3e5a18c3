//! What `search` takes.
//!
//! A query language is not supported.

use clap::Args;
use registry_core::{Kind, LifecycleState};
use registry_search::Target;

use super::AtArgs;

#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// Words, in any order; parts and beginnings of words and typos are understood. None: all, by
    /// name
    #[arg(value_name = "QUERY")]
    pub(crate) query: Vec<String>,
    /// Only this kind: schema, server, tool or agent; may be given several times
    #[arg(long)]
    pub(crate) kind: Vec<Kind>,
    /// Only what this owner owns
    #[arg(long)]
    pub(crate) owner: Option<String>,
    /// Only what has this tag; given several times: all of them
    #[arg(long)]
    pub(crate) tag: Vec<String>,
    /// Only this state: active, deprecated or retired; may be given several times [default: active
    /// and deprecated]
    #[arg(long, value_name = "STATE")]
    pub(crate) lifecycle: Vec<LifecycleState>,
    /// Only servers that provide this tool, of any version or of this one
    #[arg(long, value_name = "TOOL[@VERSION]")]
    pub(crate) provides: Option<String>,
    /// Only what refers directly to this entity
    #[arg(long, value_name = "KIND/NAME[@VERSION]")]
    pub(crate) depends_on: Option<Target>,
    /// Only what this entity refers to directly
    #[arg(long, value_name = "KIND/NAME[@VERSION]")]
    pub(crate) used_by: Option<Target>,
    /// Each version by itself; otherwise the newest active one stands for its name
    #[arg(long)]
    pub(crate) all_versions: bool,
    /// How many results at most
    #[arg(long, short = 'n', default_value_t = 20)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) at: AtArgs,
}
