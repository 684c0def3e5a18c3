//! The rates that a call takes: token buckets of this gateway, and calls from the fleet rates of the
//! ledger.

use std::time::{Duration, Instant};

use gateway_policy::{CountedRate, Rates};
use ledger::spender::Reservation;
use policy::{Finding, RateRule, Reason};
use registry_core::entity::policy::Reach;

use super::Gateway;
use crate::spending::RateCharge;

/// The rates that a call has taken. Dropping it returns them unless the call was sent.
#[derive(Debug)]
pub(super) struct TakenRates<'a> {
    rates: &'a Rates,
    counted: Vec<CountedRate<'a>>,
    /// `None`: no fleet rate applies, or this gateway counts alone.
    fleet: Option<Reservation>,
    is_sent: bool,
}

impl<'a> TakenRates<'a> {
    /// Takes all rates of a call, or none.
    ///
    /// The buckets limit fleet rates too: their bursts, and their calls while the ledger does not
    /// answer.
    pub(super) async fn take(
        gateway: &'a Gateway,
        counted: Vec<CountedRate<'a>>,
    ) -> Result<Self, Finding> {
        let rates = gateway.rates();
        rates
            .take(&counted, Instant::now())
            .map_err(|exceeded| violation(&counted[exceeded.rate].rule, exceeded.retry_after))?;
        let mut taken = Self { rates, counted, fleet: None, is_sent: false };
        let (mut shared, mut charges) = (Vec::new(), Vec::<RateCharge>::new());
        for CountedRate { rule, key } in &taken.counted {
            if rule.rate.reach == Reach::Gateway {
                continue;
            }
            let charge = RateCharge::new(rule, key);
            // Two rates of a policy can differ in their bursts only.
            if charges.iter().all(|other| other.key != charge.key) {
                shared.push(*rule);
                charges.push(charge);
            }
        }
        let fleet = gateway.spending().take_calls(&charges).await;
        taken.fleet = fleet
            .map_err(|exceeded| violation(&shared[exceeded.charge], Some(exceeded.retry_after)))?;
        Ok(taken)
    }

    /// Records that the tool may receive the call.
    pub(super) fn set_sent(&mut self) {
        self.is_sent = true;
        if let Some(fleet) = &mut self.fleet {
            fleet.set_sent();
        }
    }

    /// Returns the rates of a call that certainly was not sent.
    pub(super) fn release(mut self) {
        self.is_sent = false;
        if let Some(fleet) = self.fleet.take() {
            fleet.release();
        }
    }
}

impl Drop for TakenRates<'_> {
    fn drop(&mut self) {
        if !self.is_sent {
            self.rates.release(&self.counted);
        }
    }
}

fn violation(rule: &RateRule<'_>, retry_after: Option<Duration>) -> Finding {
    Finding { policy: rule.policy.key().clone(), reason: Reason::RateLimited { retry_after } }
}
