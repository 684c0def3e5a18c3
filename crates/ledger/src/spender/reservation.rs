//! The reservation of a call in all its accounts.

use std::sync::Arc;

use registry_core::Amount;

use super::{
    account::{Account, Shortfall, Unit},
    sizing::BootTime,
};

/// An amount that a call takes from an account.
#[derive(Debug, Clone)]
pub struct Charge {
    /// The account.
    pub account: Arc<Account>,
    /// The price, or one call.
    pub amount: Amount,
}

/// A charge that its account does not cover.
#[derive(Debug, Clone)]
pub struct Uncovered {
    /// The charge.
    pub charge: Charge,
    /// The reason.
    pub shortfall: Shortfall,
}

/// Amounts that are reserved in all accounts of a call.
///
/// Dropping it charges the reserved amounts if the call was sent: its outcome is unknown. Otherwise
/// it releases them.
#[derive(Debug)]
pub struct Reservation {
    charges: Vec<Charge>,
    is_sent: bool,
}

impl Reservation {
    /// Reserves all charges or none. The order of the accounts is fixed, so that of two calls which
    /// compete for the last rights one succeeds.
    pub(crate) fn new(mut charges: Vec<Charge>, now: BootTime) -> Result<Self, Uncovered> {
        charges.sort_by(|a, b| a.account.key().cmp(b.account.key()));
        let mut reserved = Self { charges: Vec::with_capacity(charges.len()), is_sent: false };
        for charge in charges {
            if let Err(shortfall) = charge.account.reserve(charge.amount, now) {
                return Err(Uncovered { charge, shortfall });
            }
            reserved.charges.push(charge);
        }
        Ok(reserved)
    }

    /// Reserves all charges even without rights: those of a compensation.
    pub(crate) fn forced(charges: Vec<Charge>) -> Self {
        for charge in &charges {
            charge.account.force(charge.amount);
        }
        Self { charges, is_sent: false }
    }

    /// The reserved charges.
    pub fn charges(&self) -> &[Charge] {
        &self.charges
    }

    /// Records that the tool may receive the call.
    pub fn set_sent(&mut self) {
        self.is_sent = true;
    }

    /// Charges the reserved amounts.
    pub fn settle(mut self) {
        self.charge_all(None);
    }

    /// Charges the price that the tool reported instead of the reserved one.
    pub fn settle_at(mut self, price: Amount) {
        self.charge_all(Some(price.max(Amount::ZERO)));
    }

    /// Releases the reserved amounts: the call was certainly not sent, or is free.
    pub fn release(mut self) {
        self.release_all();
    }

    fn charge_all(&mut self, price: Option<Amount>) {
        for Charge { account, amount } in self.charges.drain(..) {
            let actual = price.filter(|_| account.unit() == Unit::Money).unwrap_or(amount);
            account.settle(amount, actual);
        }
    }

    fn release_all(&mut self) {
        for Charge { account, amount } in self.charges.drain(..) {
            account.release(amount);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.is_sent {
            self.charge_all(None);
        } else {
            self.release_all();
        }
    }
}
