//! The arguments of whatever makes a commit.

use clap::Args;

/// Who commits, and why.
#[derive(Debug, Args)]
pub(crate) struct CommitArgs {
    /// Who makes the change [default: whoever the registry knows you to be, else the user here]
    #[arg(long)]
    pub(crate) author: Option<String>,
    #[arg(long, env = "USER", hide = true, default_value = "")]
    pub(crate) user: String,
    /// The id by which the registry knows a retry of this request [default: a new UUID]
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    /// Refuse unless the registry is at this revision
    #[arg(long, value_name = "REVISION")]
    pub(crate) base_revision: Option<u64>,
}
