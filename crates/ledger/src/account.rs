//! The account of one gateway process in one budget and window, as the ledger stores it.

use registry_core::Amount;
use serde::{Deserialize, Serialize};

use crate::message::{ReportError, Totals};

/// An account. Each total only grows, and reports merge by maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AccountRow {
    /// Rights that the ledger granted.
    pub granted: Amount,
    /// Rights that the gateway returned.
    pub returned: Amount,
    /// The reported spending that counts.
    pub settled: Amount,
    /// The spending that budgets never reject, such as that of compensations. A part of it may have
    /// been released.
    #[serde(default)]
    pub forced: Amount,
    /// The reported spending that nothing explains. It does not count.
    #[serde(default)]
    pub unexplained: Amount,
    /// Whether the account has no rights any longer: its process ended, or an operator reclaimed
    /// the rights.
    pub is_closed: bool,
}

/// The amounts without a grant that reports can contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ClaimBounds {
    /// Rights that a failover can have lost.
    pub(crate) rights: Amount,
    /// Spending under lost rights and under allowances.
    pub(crate) spending: Amount,
    /// The most spending without rights that is plausible, with forced spending.
    pub(crate) plausible: Amount,
}

impl AccountRow {
    /// The rights that the gateway holds, spent or not.
    pub fn rights(&self) -> Amount {
        self.granted.saturating_sub(self.returned)
    }

    /// The most that the account can have spent: its rights, or its spending if that is more.
    pub fn exposure(&self) -> Amount {
        if self.is_closed { self.settled } else { self.rights().max(self.settled) }
    }

    /// Rights that are not reported as spent. Calls in flight may use them.
    pub fn unspent(&self) -> Amount {
        self.exposure().saturating_sub(self.settled)
    }

    /// Spending beyond the rights.
    pub fn overrun(&self) -> Amount {
        self.settled.saturating_sub(self.rights()).max(Amount::ZERO)
    }

    /// The reported spending.
    pub fn spent(&self) -> Amount {
        self.settled.saturating_add(self.unexplained)
    }

    /// Merges reported totals. Claims beyond the bounds do not count: of rights they are ignored, and
    /// of spending they are unexplained until rights cover them.
    ///
    /// A final report closes the account unless its spending is below the known one: such a crash
    /// mark is stale, and nothing is known about the end of the process.
    pub(crate) fn merge(
        &self,
        totals: Totals,
        is_final: bool,
        bounds: &ClaimBounds,
    ) -> Result<Self, ReportError> {
        let Totals { granted, returned, settled, forced } = totals;
        if [granted, returned, settled, forced].iter().any(|total| total.is_negative()) {
            return Err(ReportError::Negative);
        }
        if returned > granted {
            return Err(ReportError::ReturnedTooMuch);
        }
        let claimed = Self {
            granted: self.granted.max(granted),
            returned: self.returned.max(returned),
            forced: self.forced.max(forced),
            is_closed: self.is_closed || is_final && settled >= self.spent(),
            ..*self
        };
        let is_granted =
            claimed.granted == self.granted || claimed.rights() <= self.rights().max(bounds.rights);
        let merged = if is_granted {
            claimed
        } else {
            Self { granted: self.granted, returned: self.returned, ..claimed }
        };
        let spent = self.spent().max(settled);
        let counted = spent.saturating_sub(self.unexplained);
        let bound = bounds.spending.saturating_add(merged.forced).min(bounds.plausible);
        let is_explained = counted.saturating_sub(merged.rights()) <= bound;
        let explained = if is_explained { counted } else { self.settled };
        let settled = explained.max(spent.min(merged.rights()));
        Ok(Self { settled, unexplained: spent.saturating_sub(settled), ..merged })
    }
}
