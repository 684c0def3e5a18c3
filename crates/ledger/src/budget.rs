//! A budget in one window, as the ledger stores it, and the changes of it.
//!
//! A store locks the row of the budget, reads the accounts concerned in later statements, calls a
//! function of this module, and writes its result in the same transaction.

use std::time::Duration;

use registry_core::{Amount, Timestamp, entity::policy::Fraction};
use serde::{Deserialize, Serialize};

use crate::{
    account::{AccountRow, ClaimBounds},
    key::AccountKey,
    message::{AccountReport, BudgetState, Grant, Refusal, ReportError, Totals, Want},
};

/// The most spending without rights that counts for one account, in limits of the budget. More is a
/// forged or damaged report.
const PLAUSIBLE_LIMITS: i64 = 1_000;
/// The smallest limit for this purpose: one unit of the currency.
const PLAUSIBLE_UNIT: Amount = Amount::from_micros(1_000_000);

/// A budget in one window. The sums are over all its accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BudgetRow {
    /// The sum of the exposures.
    pub exposed: Amount,
    /// The sum of the reported spending that counts.
    pub settled: Amount,
    /// The spending without rights: compensations, allowances without a ledger, prices above the
    /// reserved ones, and reports after an account was closed.
    pub overshoot: Amount,
    /// The rights that operators reclaimed.
    pub reclaimed: Amount,
    /// The change of the limit in this window by operators. Negative if they lowered it.
    pub adjustment: Amount,
    /// The highest limit in this window, with adjustments.
    #[serde(default)]
    pub peak_limit: Amount,
    /// The highest allowance of a gateway in this window.
    #[serde(default)]
    pub peak_allowance: Amount,
    /// The reported spending that nothing explains. It counts neither as spending nor as exposure.
    #[serde(default)]
    pub unexplained: Amount,
}

/// The conditions of grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The limit of the policy in force. [`Amount::MAX`]: unlimited. `None`: no policy in force has
    /// the budget, and only the rights of an account explain its spending.
    pub limit: Option<Amount>,
    /// The reason to grant nothing. Reports are merged in any case.
    pub suspended: Option<Refusal>,
    /// The spending of a gateway that is allowed while the ledger is unavailable.
    pub allowance: Amount,
}

/// The result of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posted {
    /// The new row of the budget.
    pub budget: BudgetRow,
    /// The new row of the account.
    pub account: AccountRow,
    /// The rights of the account.
    pub grant: Grant,
    /// Rights that the gateway claimed and the ledger did not know: grants that a failover lost.
    pub claimed: Amount,
    /// The spending in the report that nothing explains.
    pub unexplained: Amount,
}

impl BudgetRow {
    /// The limit with adjustments. It is never negative.
    pub fn effective_limit(&self, limit: Amount) -> Amount {
        limit.saturating_add(self.adjustment).max(Amount::ZERO)
    }

    /// Whether the spending has reached a fraction of the limit. The first spending reaches every
    /// fraction of a limit of zero.
    pub fn has_reached(&self, fraction: Fraction, limit: Amount) -> bool {
        let micros = |amount: Amount| i128::from(amount.as_micros());
        let (whole, parts) = (Fraction::ONE.ten_thousandths(), fraction.ten_thousandths());
        let threshold = micros(self.effective_limit(limit)) * i128::from(parts);
        self.settled > Amount::ZERO && micros(self.settled) * i128::from(whole) >= threshold
    }

    /// The amounts for gateways.
    pub fn state(&self, limit: Amount, active_gateways: u32) -> BudgetState {
        BudgetState {
            limit: self.effective_limit(limit),
            settled: self.settled,
            exposed: self.exposed,
            in_doubt: Amount::ZERO,
            active_gateways,
        }
    }

    /// The amounts without a grant that reports can contain. They follow the highest limit: it can be
    /// lowered after a grant that a failover loses.
    fn claim_bounds(&self) -> ClaimBounds {
        let spending = self.peak_limit.saturating_add(self.peak_allowance);
        let plausible = spending.max(PLAUSIBLE_UNIT).checked_mul(PLAUSIBLE_LIMITS);
        let plausible = plausible.unwrap_or(Amount::MAX);
        ClaimBounds { rights: self.peak_limit, spending, plausible }
    }

    /// Replaces an account in the sums. `None`: a sum does not fit.
    fn replace(&self, old: &AccountRow, new: &AccountRow) -> Option<Self> {
        let replaced = |sum: Amount, old: Amount, new: Amount| {
            // The old value is part of the sum, so that its subtraction fits.
            sum.checked_sub(old)?.checked_add(new)
        };
        // This sum limits nothing, and its largest value is sufficient.
        let unexplained = self.unexplained.saturating_sub(old.unexplained).max(Amount::ZERO);
        Some(Self {
            unexplained: unexplained.saturating_add(new.unexplained),
            exposed: replaced(self.exposed, old.exposure(), new.exposure())?,
            settled: replaced(self.settled, old.settled, new.settled)?,
            ..*self
        })
    }
}

/// A budget and an account after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// The new row of the budget.
    pub budget: BudgetRow,
    /// The new row of the account.
    pub account: AccountRow,
}

/// Merges final totals into an account. It stays open if they are stale.
pub fn close(
    budget: &BudgetRow,
    account: &AccountRow,
    totals: Totals,
) -> Result<Changed, ReportError> {
    merge(budget, account, totals, true, &ClaimBounds::default())
}

fn merge(
    budget: &BudgetRow,
    account: &AccountRow,
    totals: Totals,
    is_final: bool,
    bounds: &ClaimBounds,
) -> Result<Changed, ReportError> {
    // Claims that do not fit into the sums do not count. Rights fit, because the sums contain them.
    for bounds in [bounds, &ClaimBounds::default()] {
        let merged = account.merge(totals, is_final, bounds)?;
        if let Some(row) = budget.replace(account, &merged) {
            let overshoot = row.overshoot.saturating_add(overrun_growth(account, &merged));
            return Ok(Changed { budget: BudgetRow { overshoot, ..row }, account: merged });
        }
    }
    Err(ReportError::OutOfRange)
}

/// Merges a report into its account, and grants what it requests.
///
/// A new account is [`ProcessRow::new_account`](crate::ProcessRow::new_account). An error changes
/// nothing.
pub fn post(
    terms: &Terms,
    budget: &BudgetRow,
    account: &AccountRow,
    report: &AccountReport,
) -> Result<Posted, ReportError> {
    if report.want.is_some_and(|want| want.minimum > Some(want.granted)) {
        return Err(ReportError::Want);
    }
    let limit = terms.limit.unwrap_or_default();
    let budget = BudgetRow {
        peak_limit: budget.peak_limit.max(budget.effective_limit(limit)),
        peak_allowance: budget.peak_allowance.max(terms.allowance),
        ..*budget
    };
    let bounds = terms.limit.map(|_| budget.claim_bounds()).unwrap_or_default();
    let Changed { budget: row, account: merged } =
        merge(&budget, account, report.totals, report.is_final, &bounds)?;
    let mut granted = merged;
    let mut refusal = None;
    if let Some(want) = report.want.filter(|want| want.granted > merged.granted) {
        match raise(terms, &row, &merged, want) {
            Ok(total) => granted.granted = total,
            Err(reason) => refusal = want.minimum.filter(|m| *m > merged.granted).and(Some(reason)),
        }
    }
    let row = row.replace(&merged, &granted).ok_or(ReportError::OutOfRange)?;
    let grant = Grant {
        granted: granted.granted,
        is_closed: granted.is_closed,
        recall: row.exposed > row.effective_limit(limit),
        refusal,
    };
    let claimed = merged.granted.saturating_sub(account.granted);
    let unexplained = merged.unexplained.saturating_sub(account.unexplained).max(Amount::ZERO);
    Ok(Posted { budget: row, account: granted, grant, claimed, unexplained })
}

/// The new granted total of an account.
fn raise(
    terms: &Terms,
    budget: &BudgetRow,
    account: &AccountRow,
    want: Want,
) -> Result<Amount, Refusal> {
    if account.is_closed {
        return Err(Refusal::Closed);
    }
    if let Some(reason) = terms.suspended {
        return Err(reason);
    }
    let limit = terms.limit.unwrap_or_default();
    let available = budget.effective_limit(limit).saturating_sub(budget.exposed);
    // Rights for an overrun do not raise the exposure, which contains it already.
    let grantable = available.max(Amount::ZERO).saturating_add(account.overrun());
    let total = want.granted.min(account.granted.saturating_add(grantable));
    if want.minimum.is_none_or(|minimum| total >= minimum) {
        Ok(total)
    } else {
        Err(Refusal::Exhausted)
    }
}

/// The spending without rights that a report adds.
fn overrun_growth(old: &AccountRow, new: &AccountRow) -> Amount {
    let growth = if old.is_closed {
        new.settled.saturating_sub(old.settled)
    } else {
        new.overrun().saturating_sub(old.overrun())
    };
    growth.max(Amount::ZERO)
}

/// An account among those of a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The principal of the gateway.
    pub gateway: String,
    /// The account.
    pub key: AccountKey,
    /// Its row.
    pub account: AccountRow,
    /// Whether its process answers recalls.
    pub is_reachable: bool,
}

/// Where the rights of a budget are that a request needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shortage<'a> {
    /// Accounts with unspent rights at reachable gateways. The ledger recalls the idle ones, and the
    /// call waits.
    pub recall: Vec<&'a Holding>,
    /// Unspent rights of unreachable gateways.
    pub in_doubt: Amount,
}

impl Shortage<'_> {
    /// The refusal of the request.
    pub fn refusal(&self) -> Refusal {
        if self.recall.is_empty() { Refusal::Exhausted } else { Refusal::Recalling }
    }
}

/// Finds the unspent rights of other accounts before a request of `requester` is refused. Nothing is
/// recalled if the spending alone leaves no room for `missing`.
pub fn find_shortage<'a>(
    state: &BudgetState,
    holdings: &'a [Holding],
    requester: &Holding,
    missing: Amount,
) -> Shortage<'a> {
    let is_other = |holding: &&Holding| {
        (&holding.gateway, &holding.key) != (&requester.gateway, &requester.key)
    };
    let unspent = holdings.iter().filter(|holding| holding.account.unspent() > Amount::ZERO);
    let (reachable, unreachable): (Vec<_>, Vec<_>) =
        unspent.filter(is_other).partition(|holding| holding.is_reachable);
    let in_doubt = unreachable
        .iter()
        .fold(Amount::ZERO, |sum, holding| sum.saturating_add(holding.account.unspent()));
    let room = state.limit.saturating_sub(state.settled);
    let recall = if missing <= room { reachable } else { Vec::new() };
    Shortage { recall, in_doubt }
}

/// An operator cannot reclaim the rights of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReclaimError {
    /// The gateway may still spend.
    #[error("the gateway may still spend its rights; retry after {0}")]
    TooEarly(Timestamp),
    /// There is no such account.
    #[error(
        "the budget has no such account; `registryctl budget show` lists accounts by the principals of \
         their gateways"
    )]
    Unknown,
    /// The accounts are closed.
    #[error("the accounts of the gateway are closed and have no rights to reclaim")]
    Closed,
    /// The amounts of the budget do not fit.
    #[error("the reclaimed amounts exceed the largest amount")]
    OutOfRange,
}

/// The times during which a gateway without contact may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfflineLimits {
    /// The time after which a gateway without an answer stops reserving.
    pub offline_for: Duration,
    /// Maximum duration of a call.
    pub longest_call: Duration,
}

/// Closes an account at its reported spending. Later reports are recorded as overshoot.
pub fn reclaim(
    budget: &BudgetRow,
    account: &AccountRow,
    last_contact: Timestamp,
    limits: OfflineLimits,
    now: Timestamp,
) -> Result<Changed, ReclaimError> {
    if account.is_closed {
        return Err(ReclaimError::Closed);
    }
    let silence = limits.offline_for.saturating_add(limits.longest_call);
    if now.since(last_contact) < silence {
        let millis = i64::try_from(silence.as_millis()).unwrap_or(i64::MAX);
        let end = last_contact.as_millis().saturating_add(millis);
        return Err(ReclaimError::TooEarly(Timestamp::from_millis(end)));
    }
    let closed = AccountRow { is_closed: true, ..*account };
    let row = budget.replace(account, &closed).ok_or(ReclaimError::OutOfRange)?;
    let reclaimed = row.reclaimed.checked_add(account.unspent()).ok_or(ReclaimError::OutOfRange)?;
    Ok(Changed { budget: BudgetRow { reclaimed, ..row }, account: closed })
}

#[cfg(test)]
mod tests;
