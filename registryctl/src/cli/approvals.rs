//! The arguments of `approvals` and `approve`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use registry_core::parse_positive_duration;
use registry_proto::v1;

use super::ConfirmArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List requests for approvals that you may see
    List(ListApprovalsArgs),
    /// Show one request: the call, its arguments, the decisions and the steps
    Show(ShowApprovalArgs),
    /// Allow calls
    Approve(ApproveArgs),
    /// Reject calls
    Deny(DenyArgs),
    /// Cancel requests that are pending, or approved and not used
    Cancel(CancelApprovalsArgs),
    /// List the standing grants, which allow later calls
    Grants,
    /// End standing grants
    Revoke(RevokeGrantsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListApprovalsArgs {
    /// Only requests in this state
    ///
    /// The states are pending, approved, consumed, succeeded, failed, unknown, denied, expired,
    /// cancelled, superseded and invalid.
    #[arg(
        long,
        value_enum,
        value_name = "STATE",
        hide_possible_values = true,
        default_value = "pending",
        conflicts_with = "all"
    )]
    pub(crate) state: ApprovalStateArg,
    /// Requests in all states; ended ones are kept for 30 days
    #[arg(long)]
    pub(crate) all: bool,
    /// Only your own requests
    #[arg(long)]
    pub(crate) own: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowApprovalArgs {
    /// Id of the request
    pub(crate) id: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Several ids are a batch. Requests of policies with `fourEyes` or a quorum need a command each.")]
pub(crate) struct ApproveArgs {
    /// Ids of the requests
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Also allow the same call, with the same arguments, for this time: 30m or 8h
    ///
    /// The policy must permit standing grants, and all approvers of the request must wish one.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_positive_duration)]
    pub(crate) grant_for: Option<Duration>,
    /// With --for: allow calls of the tool with any arguments
    #[arg(long, requires = "grant_for")]
    pub(crate) any_arguments: bool,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    /// Ids of the requests
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Reason, which the caller receives
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CancelApprovalsArgs {
    /// Ids of the requests
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RevokeGrantsArgs {
    /// Ids of the grants in `approvals grants`
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

/// A state of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApprovalStateArg {
    /// It waits for decisions
    Pending,
    /// The caller may repeat the call
    Approved,
    /// A gateway sends the call
    Consumed,
    /// The call succeeded
    Succeeded,
    /// The call failed, or was not sent
    Failed,
    /// The call may have been executed
    Unknown,
    /// A person denied it
    Denied,
    /// The time for the decision or for the call is over
    Expired,
    /// The caller or an operator cancelled it
    Cancelled,
    /// A request with a newer definition or policy replaced it
    Superseded,
    /// The definition or the policies have changed
    Invalid,
}

impl From<ApprovalStateArg> for v1::ApprovalState {
    fn from(state: ApprovalStateArg) -> Self {
        match state {
            ApprovalStateArg::Pending => Self::Pending,
            ApprovalStateArg::Approved => Self::Approved,
            ApprovalStateArg::Consumed => Self::Consumed,
            ApprovalStateArg::Succeeded => Self::Succeeded,
            ApprovalStateArg::Failed => Self::Failed,
            ApprovalStateArg::Unknown => Self::Unknown,
            ApprovalStateArg::Denied => Self::Denied,
            ApprovalStateArg::Expired => Self::Expired,
            ApprovalStateArg::Cancelled => Self::Cancelled,
            ApprovalStateArg::Superseded => Self::Superseded,
            ApprovalStateArg::Invalid => Self::Invalid,
        }
    }
}
