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
    /// The reported spending.
    pub settled: Amount,
    /// Whether the account has no rights any longer: its process ended, or an operator reclaimed
    /// the rights.
    pub is_closed: bool,
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

    /// Merges reported totals. A final report closes the account unless its spending is below the
    /// known one: such a crash mark is stale, and nothing is known about the end of the process.
    pub fn merge(&self, totals: Totals, is_final: bool) -> Result<Self, ReportError> {
        let Totals { granted, returned, settled } = totals;
        if [granted, returned, settled].iter().any(|total| total.is_negative()) {
            return Err(ReportError::Negative);
        }
        if returned > granted {
            return Err(ReportError::ReturnedTooMuch);
        }
        Ok(Self {
            granted: self.granted.max(granted),
            returned: self.returned.max(returned),
            settled: self.settled.max(settled),
            is_closed: self.is_closed || is_final && settled >= self.settled,
        })
    }
}
