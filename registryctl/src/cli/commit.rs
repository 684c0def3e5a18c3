//! Arguments of every command that commits.

use clap::Args;

use super::log::parse_revision;

#[derive(Debug, Args)]
#[command(next_help_heading = "Commit")]
pub(crate) struct CommitArgs {
    /// Author [default: the authenticated caller, or the local user]
    #[arg(long)]
    pub(crate) author: Option<String>,
    #[arg(long, env = "USER", hide = true, default_value = "")]
    pub(crate) user: String,
    /// Idempotency key of the commit [default: a new UUID]
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    /// Reject the commit unless this is the current revision
    #[arg(long, value_name = "REVISION", value_parser = parse_revision)]
    pub(crate) base_revision: Option<u64>,
}
