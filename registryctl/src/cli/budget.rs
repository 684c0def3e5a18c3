//! The arguments of `budget`.

use clap::{Args, Subcommand};
use registry_core::Amount;

use super::ConfirmArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum BudgetCommand {
    /// List budgets with spending or grants
    List(ListBudgetsArgs),
    /// Show one budget, its accounts, its alerts and its changes
    Show(ShowBudgetArgs),
    /// Change the limit of a budget in one window
    Adjust(AdjustBudgetArgs),
    /// Close the accounts of a lost gateway, so that its unspent rights can be granted again
    Reclaim(ReclaimBudgetArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListBudgetsArgs {
    /// Only budgets of this policy
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) policy: String,
    /// Include windows that are over; they are kept for 24 hours
    #[arg(long)]
    pub(crate) all: bool,
}

/// One budget in one window.
#[derive(Debug, Args)]
pub(crate) struct BudgetArg {
    /// Name of the policy
    pub(crate) policy: String,
    /// Name of the budget in the policy
    pub(crate) budget: String,
    /// SUBJECT in `budget list`: an agent, team, principal or tool, or `fleet`
    pub(crate) subject: String,
    /// Id of a window in `budget list` [default: the current window]
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    pub(crate) window: String,
}

#[derive(Debug, Args)]
pub(crate) struct ShowBudgetArgs {
    #[command(flatten)]
    pub(crate) budget: BudgetArg,
}

#[derive(Debug, Args)]
pub(crate) struct AdjustBudgetArgs {
    #[command(flatten)]
    pub(crate) budget: BudgetArg,
    /// Change of the limit, such as 5 or -2.50
    ///
    /// It replaces an earlier change; 0 removes it.
    #[arg(long = "by", value_name = "AMOUNT", allow_hyphen_values = true, value_parser = parse_amount)]
    pub(crate) adjustment: Amount,
    /// Reason, recorded with the budget
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReclaimBudgetArgs {
    #[command(flatten)]
    pub(crate) budget: BudgetArg,
    /// Principal of the lost gateway
    #[arg(long, value_name = "ID")]
    pub(crate) gateway: String,
    /// Epoch of one account [default: of all processes that ended]
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) epoch: String,
    /// Reason, recorded with the budget
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

fn parse_amount(text: &str) -> Result<Amount, String> {
    Amount::parse(text).map_err(|e| e.to_string())
}
