//! The price of a call: its reservation in budgets, and the charge for each outcome.

use std::{
    iter,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use a2a::ErrorKind;
use gateway_compose::Effects;
use gateway_policy::{QuotaKey, Traces};
use gateway_protocol::mcp::{RawResult, ResultType};
use gateway_upstream::ResendApproval;
use ledger::spender::Reservation;
use policy::{ApplicablePolicies, BudgetRule, Finding, Payer, PolicyInForce, Reason};
use registry_core::{
    Amount, Digest,
    entity::policy::{CallPrice, Decision, FailureCharge, Mode, Price},
};
use serde_json::Value;

use super::Error;
use crate::{
    audit::CallRecord,
    spending::{BudgetCharge, OpenTask, Priced, Spending, Uncovered},
};

#[cfg(test)]
mod tests;

/// The reserved price of one call.
///
/// Dropping it charges the reserved amount if the call was sent: its outcome is unknown. Otherwise it
/// releases it.
#[derive(Debug)]
pub(super) struct Purchase<'a> {
    spending: &'a Spending,
    enforced: Option<Priced>,
    /// For the budgets of policies in audit mode.
    audited: Vec<Priced>,
    trace: Option<TraceCost<'a>>,
    is_compensation: bool,
    /// Whether the call was sent twice, and the first sending is charged.
    is_resent: AtomicBool,
}

/// The price of a call in the cost of its trace. Dropping it subtracts the price unless the call was
/// sent.
#[derive(Debug)]
pub(super) struct TraceCost<'a> {
    traces: &'a Traces,
    trace: u128,
    price: Amount,
    is_sent: bool,
}

/// The outcome of an admitted call.
#[derive(Debug, Clone, Copy)]
pub(super) enum Outcome<'a> {
    /// Nothing was sent: the call failed before, or its result existed.
    NotSent,
    /// The call has a result.
    Result(&'a RawResult),
    /// The call has started a task, whose result comes later.
    Started(&'a StartedTask<'a>),
    /// The upstream answered with an error.
    Failed,
    /// The call was sent, and nothing more is known about it.
    Sent,
}

/// A task that a call has started.
#[derive(Debug)]
pub(super) struct StartedTask<'a> {
    /// The identity of the task.
    pub(super) key: Digest,
    pub(super) caller: &'a QuotaKey,
}

/// A call that is to be paid.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order<'a> {
    pub(super) policies: &'a ApplicablePolicies,
    pub(super) payer: Payer<'a>,
    /// Whether the call compensates an earlier one. Budgets never reject it.
    pub(super) is_compensation: bool,
}

impl Order<'_> {
    /// Reserves the price in all budgets, or returns the violation of the first one without room.
    pub(super) async fn reserve<'g>(
        self,
        spending: &'g Spending,
        trace: Option<TraceCost<'g>>,
        audit: &mut Vec<Finding>,
        record: &mut CallRecord,
    ) -> Result<Purchase<'g>, Finding> {
        let enforced = self.charges(Mode::Enforce, None)?;
        let mut audited = Vec::new();
        let has_audited = self.policies.budgets(Mode::Audit).next().is_some();
        let candidates = iter::once(None).chain(self.policies.pre_releases().map(Some));
        for candidate in candidates.filter(|_| has_audited).collect::<Vec<_>>() {
            match self.charges(Mode::Audit, candidate) {
                Ok(Some(charges)) if !charges.budgets.is_empty() => {
                    // Boxed like the other rare cases, so that the futures of most calls are small.
                    let reserved = Box::pin(self.reserve_audited(spending, charges, audit)).await;
                    audited.push(reserved);
                }
                Ok(_) => {}
                Err(finding) => audit.push(finding),
            }
        }
        let enforced = match enforced {
            Some(enforced) => {
                record.set_price(enforced.policy.label(), enforced.price.reserved());
                record.set_budgets(enforced.budgets.iter().map(|charge| &charge.key));
                Some(self.reserve_enforced(spending, enforced).await?)
            }
            None => None,
        };
        Ok(Purchase {
            spending,
            enforced,
            audited,
            trace,
            is_compensation: self.is_compensation,
            is_resent: AtomicBool::new(false),
        })
    }

    /// The price and the budgets that it charges: those of a pre-release, or of all releases. `None`:
    /// the call has no price.
    fn charges(
        &self,
        mode: Mode,
        candidate: Option<&Arc<PolicyInForce>>,
    ) -> Result<Option<Charges<'_>>, Finding> {
        let Self { policies, payer, is_compensation, .. } = self;
        let is_meant = |rule: &BudgetRule<'_>| match candidate {
            Some(candidate) => Arc::ptr_eq(candidate, rule.policy),
            None => !rule.policy.is_pre_release(),
        };
        let Some(rule) = policies.price(mode, candidate) else {
            let mut denying = policies
                .budgets(mode)
                .filter(is_meant)
                .filter(|rule| rule.budget.unpriced == Decision::Deny && !is_compensation);
            return match denying.next() {
                Some(BudgetRule { policy, budget }) => {
                    let reason = Reason::Unpriced { budget: budget.name.clone() };
                    Err(Finding { policy: policy.key().clone(), reason })
                }
                None => Ok(None),
            };
        };
        let amount = rule.price.reserved();
        // Budgets do not limit free calls.
        let charges = policies
            .charged_budgets(mode)
            .filter(is_meant)
            .filter(|_| amount > Amount::ZERO)
            .map(|rule| BudgetCharge::new(rule, payer, amount))
            .collect();
        Ok(Some(Charges { policy: rule.policy, price: rule.price, budgets: charges }))
    }

    async fn reserve_enforced(
        &self,
        spending: &Spending,
        charges: Charges<'_>,
    ) -> Result<Priced, Finding> {
        let Charges { price, budgets, .. } = charges;
        let reservation = if budgets.is_empty() {
            None
        } else if self.is_compensation {
            Box::pin(spending.force(&budgets)).await
        } else {
            let reserved = spending.reserve(&budgets).await;
            Some(reserved.map_err(|uncovered| violation(&budgets, uncovered))?)
        };
        let reservations = reservation.into_iter().collect();
        Ok(Priced { price: price.clone(), reservations })
    }

    async fn reserve_audited(
        &self,
        spending: &Spending,
        charges: Charges<'_>,
        audit: &mut Vec<Finding>,
    ) -> Priced {
        let Charges { price, budgets, .. } = charges;
        let mut reservations = Vec::with_capacity(budgets.len());
        for charge in budgets {
            let policy = charge.rule.policy.key().clone();
            let (reservation, shortage) = spending.reserve_unlimited(charge).await;
            reservations.extend(reservation);
            if let Some(shortage) = shortage.filter(|_| !self.is_compensation) {
                let reason = Reason::BudgetExceeded(Box::new(shortage));
                audit.push(Finding { policy, reason });
            }
        }
        Priced { price: price.clone(), reservations }
    }
}

/// The budgets that the price of a call charges.
struct Charges<'a> {
    /// The policy of the price.
    policy: &'a Arc<PolicyInForce>,
    price: &'a Price,
    budgets: Vec<BudgetCharge<'a>>,
}

fn violation(charges: &[BudgetCharge<'_>], uncovered: Uncovered) -> Finding {
    let Uncovered { charge, shortage } = uncovered;
    let policy = charges[charge].rule.policy.key().clone();
    Finding { policy, reason: Reason::BudgetExceeded(Box::new(shortage)) }
}

impl Purchase<'_> {
    /// Records that the tool may receive the call.
    pub(super) fn set_sent(&mut self, record: &mut CallRecord) {
        if let Some(Priced { price, .. }) = &self.enforced {
            // The charge until the outcome is known.
            record.charge(price.reserved());
        }
        let priced = self.enforced.iter_mut().chain(&mut self.audited);
        priced.flat_map(|priced| &mut priced.reservations).for_each(Reservation::set_sent);
        if let Some(trace) = &mut self.trace {
            trace.is_sent = true;
        }
    }

    /// Charges what the outcome costs. A task whose result can report its price keeps the reservation.
    pub(super) fn settle(self, outcome: Outcome<'_>, record: &mut CallRecord) {
        let Self { spending, enforced, audited, trace, is_resent, .. } = self;
        let trace_id = trace.as_ref().map(|trace| trace.trace);
        if let Some(Priced { price, .. }) = &enforced {
            let mut charged = charge(price, outcome);
            if is_resent.into_inner() {
                charged = charged.saturating_add(price.reserved());
            }
            record.charge(charged.saturating_sub(price.reserved()));
            if let Some(trace) = trace {
                trace.traces.refund(trace.trace, trace.price.saturating_sub(charged));
            }
        }
        let Outcome::Started(StartedTask { key, caller }) = outcome else {
            return settle_all(enforced.into_iter().chain(audited), outcome);
        };
        let enforced = enforced.and_then(|priced| kept(priced, outcome));
        let audited: Vec<_> =
            audited.into_iter().filter_map(|priced| kept(priced, outcome)).collect();
        if enforced.is_some() || !audited.is_empty() {
            spending.keep_task(*key, caller, OpenTask { enforced, audited, trace: trace_id });
        }
    }
}

/// A price that the result of a task can report. Charges another one.
fn kept(priced: Priced, outcome: Outcome<'_>) -> Option<Priced> {
    if let CallPrice::Reported { .. } = priced.price.call {
        return Some(priced);
    }
    settle_all([priced], outcome);
    None
}

/// Charges the price of the outcome.
fn settle_all(priced: impl IntoIterator<Item = Priced>, outcome: Outcome<'_>) {
    for Priced { price, reservations } in priced {
        let charged = charge(&price, outcome);
        for reservation in reservations {
            reservation.settle_at(charged);
        }
    }
}

/// Charges what the result of a task costs, instead of the reserved price. The record receives the difference.
pub(super) fn settle_task(
    task: OpenTask,
    outcome: Outcome<'_>,
    traces: &Traces,
    record: &mut CallRecord,
) {
    let OpenTask { enforced, audited, trace } = task;
    if let Some(Priced { price, .. }) = &enforced {
        let unspent = price.reserved().saturating_sub(charge(price, outcome));
        record.charge(Amount::ZERO.saturating_sub(unspent));
        if let Some(trace) = trace {
            traces.refund(trace, unspent);
        }
    }
    settle_all(enforced.into_iter().chain(audited), outcome);
}

impl ResendApproval for Purchase<'_> {
    /// Charges the first sending, whose outcome is unknown.
    fn approve(&self) -> bool {
        let Self { spending, enforced, audited, is_compensation, is_resent, .. } = self;
        for reservation in enforced.iter().flat_map(|priced| &priced.reservations) {
            if *is_compensation {
                spending.force_again(reservation);
            } else if !spending.charge_again(reservation) {
                return false;
            }
        }
        for reservation in audited.iter().flat_map(|priced| &priced.reservations) {
            spending.force_again(reservation);
        }
        is_resent.store(true, Ordering::Relaxed);
        true
    }
}

impl<'a> TraceCost<'a> {
    /// The price is a part of the cost of the trace already.
    pub(super) fn new(traces: &'a Traces, trace: u128, price: Amount) -> Self {
        Self { traces, trace, price, is_sent: false }
    }
}

impl Drop for TraceCost<'_> {
    fn drop(&mut self) {
        if !self.is_sent {
            self.traces.refund(self.trace, self.price);
        }
    }
}

impl From<&Error> for Outcome<'_> {
    fn from(error: &Error) -> Self {
        match error {
            // The result of a skill that ran is unknown if the answer is invalid.
            Error::Upstream(gateway_upstream::Error::Agent(failure))
                if failure.is_invalid_answer()
                    || failure.kind == ErrorKind::InvalidAgentResponse =>
            {
                Self::Sent
            }
            Error::Upstream(
                gateway_upstream::Error::Rpc { .. } | gateway_upstream::Error::Agent(_),
            ) => Self::Failed,
            // Compensation undoes effects, not calls.
            Error::Composition(failed) if !failed.steps.has_sent => Self::NotSent,
            error if error.effects() == Effects::Unknown => Self::Sent,
            Error::Composition(_) => Self::Failed,
            _ => Self::NotSent,
        }
    }
}

impl<'a> Outcome<'a> {
    /// The outcome for the approval of the call. A task that has started counts as a success.
    pub(super) fn of_approved(self) -> approval::Outcome {
        match self {
            Self::NotSent | Self::Failed | Self::Result(RawResult { is_error: true, .. }) => {
                approval::Outcome::Failed
            }
            Self::Result(_) | Self::Started(_) => approval::Outcome::Succeeded,
            Self::Sent => approval::Outcome::Unknown,
        }
    }

    pub(super) fn of(result: &'a Result<RawResult, Error>) -> Self {
        match result {
            Ok(result) => Self::Result(result),
            Err(error) => error.into(),
        }
    }
}

/// The charge for an outcome.
fn charge(price: &Price, outcome: Outcome<'_>) -> Amount {
    let is_free = price.failures == FailureCharge::Free;
    match outcome {
        Outcome::NotSent => Amount::ZERO,
        Outcome::Result(RawResult { is_error: true, .. }) | Outcome::Failed if is_free => {
            Amount::ZERO
        }
        Outcome::Result(RawResult { result_type: ResultType::InputRequired, .. }) => {
            price.per_round.unwrap_or(Amount::ZERO)
        }
        // The result of a task, with its reported price, comes later.
        Outcome::Sent
        | Outcome::Started(_)
        | Outcome::Result(RawResult { result_type: ResultType::Task, .. }) => price.reserved(),
        Outcome::Result(result) => price_of(price, Some(result)),
        Outcome::Failed => price_of(price, None),
    }
}

/// The price that a result reports, at most the maximum. Without a usable one, `perCall` or the
/// maximum.
fn price_of(price: &Price, result: Option<&RawResult>) -> Amount {
    match &price.call {
        CallPrice::Fixed { per_call } => *per_call,
        CallPrice::Reported { reported_by, maximum, per_call } => {
            let result = result.and_then(|raw| serde_json::from_str(raw.result.get()).ok());
            let found = result.as_ref().and_then(|result| reported_by.find(result));
            let reported = found.and_then(reported_amount);
            reported.or(*per_call).unwrap_or(*maximum).min(*maximum)
        }
    }
}

/// A reported price: a decimal text or number. Prices with exponents or more than six decimals are
/// not usable.
fn reported_amount(value: &Value) -> Option<Amount> {
    match value {
        Value::String(text) => Amount::parse_non_negative(text).ok(),
        Value::Number(number) => Amount::parse_non_negative(&number.to_string()).ok(),
        _ => None,
    }
}
