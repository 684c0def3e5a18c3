//! An account at the gateway that spends from it.
//!
//! One atomic decides about reservations. It holds what calls may still reserve: the rights that the
//! crash mark covers, less spending and reservations. Everything else changes under a lock, by the
//! task that talks to the ledger.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use registry_core::{Amount, Timestamp};

use super::{
    BudgetSettings,
    sizing::{BootTime, SpendingRate, prefetch},
};
use crate::{
    key::AccountKey,
    message::{AccountState, BudgetState, Totals, Want},
    rate::CALL,
    window::{OPENS_BEFORE, WindowId},
};

/// How long an account is kept after its window, in milliseconds. The clock of the ledger may lag.
const GRACE: u64 = 5_000;
/// The seconds of spending that the first request in a window covers.
const FIRST_SECONDS: i64 = 15;
/// Rights without a reservation for this time are returned.
pub const IDLE_AFTER: Duration = Duration::from_secs(5);

/// The unit of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Money. A crash mark limits the loss.
    Money,
    /// Calls of a fleet rate. Rights expire with the window, so that a crash loses little.
    Calls,
}

/// Why an account covers no reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortfall {
    /// The account needs more rights from the ledger.
    Rights,
    /// The crash mark must be on disk first.
    Mark,
    /// The window is over, or has not started.
    OutsideWindow,
    /// The ledger closed the account.
    Closed,
    /// The ledger has not answered for too long.
    Offline,
}

/// The calls that wait for rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Demand {
    /// The lowest price of a waiting call.
    pub lowest: Amount,
    /// The sum of the prices.
    pub total: Amount,
}

/// An account of this process.
#[derive(Debug)]
pub struct Account {
    key: AccountKey,
    unit: Unit,
    /// The ceiling less spending and reservations, in micro-units. Negative after an overrun.
    spendable: AtomicI64,
    /// The spending, in micro-units.
    settled: AtomicI64,
    /// The forced reservations, in micro-units. Releases do not lower this total.
    forced: AtomicI64,
    /// The spending without rights that the policy allows in the window, in micro-units.
    policy_allowance: AtomicI64,
    is_open: AtomicBool,
    /// The window, in milliseconds of the boot clock.
    starts_at: AtomicU64,
    ends_at: AtomicU64,
    control: Mutex<Control>,
}

#[derive(Debug)]
struct Control {
    granted: Amount,
    returned: Amount,
    /// The returned rights in reports.
    reported: Amount,
    /// The most that may be spent and reserved now: the rights and the allowance, up to the mark.
    ceiling: Amount,
    /// A mark that is on disk, or a lower one.
    mark: Amount,
    /// The highest mark that may be on disk.
    highest_mark: Amount,
    /// The spending without rights that is allowed now.
    allowance: Amount,
    /// The part of the policy's allowance that other accounts of the gateway had spent before.
    allowance_before: Amount,
    /// The part that this account spent before the ledger answered again, or granted rights for it.
    allowance_spent: Amount,
    rate: SpendingRate,
    /// Spending and reservations at the last tick, and since when they are unchanged.
    last_used: Amount,
    unchanged_since: BootTime,
    /// Until when the account prefetches no rights, because another gateway needs them.
    recalled_until: BootTime,
    budget: BudgetState,
    next_window: Option<WindowId>,
    /// The totals and the generation of the last report that the ledger answered.
    acknowledged: Option<(u64, Totals)>,
}

impl Control {
    fn rights(&self) -> Amount {
        self.granted.saturating_sub(self.returned)
    }

    /// The most that may be spent and reserved with a sufficient mark.
    fn reach(&self) -> Amount {
        self.rights().saturating_add(self.allowance)
    }
}

impl Account {
    /// Creates an account without rights. `allowance_before` is the part of the allowance that other
    /// accounts have spent. `rate` is the expected spending.
    pub(crate) fn new(
        key: AccountKey,
        BudgetSettings { unit, allowance }: BudgetSettings,
        allowance_before: Amount,
        rate: SpendingRate,
        now: BootTime,
    ) -> Self {
        let mark = if unit == Unit::Money { Amount::ZERO } else { Amount::MAX };
        Self {
            key,
            unit,
            spendable: AtomicI64::new(0),
            settled: AtomicI64::new(0),
            forced: AtomicI64::new(0),
            policy_allowance: AtomicI64::new(allowance.as_micros()),
            is_open: AtomicBool::new(true),
            starts_at: AtomicU64::new(0),
            ends_at: AtomicU64::new(u64::MAX),
            control: Mutex::new(Control {
                granted: Amount::ZERO,
                returned: Amount::ZERO,
                reported: Amount::ZERO,
                ceiling: Amount::ZERO,
                mark,
                highest_mark: Amount::ZERO,
                allowance: Amount::ZERO,
                allowance_before,
                allowance_spent: Amount::ZERO,
                rate,
                last_used: Amount::ZERO,
                unchanged_since: now,
                recalled_until: BootTime::default(),
                budget: BudgetState::default(),
                next_window: None,
                acknowledged: None,
            }),
        }
    }

    /// The identity.
    pub fn key(&self) -> &AccountKey {
        &self.key
    }

    /// The unit.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The amounts of the budget in the last answer.
    pub fn budget(&self) -> BudgetState {
        self.control().budget
    }

    /// The spending.
    pub fn settled(&self) -> Amount {
        Amount::from_micros(self.settled.load(Ordering::Acquire))
    }

    /// The spending that budgets never reject. A part of it may have been released.
    pub fn forced(&self) -> Amount {
        Amount::from_micros(self.forced.load(Ordering::Acquire))
    }

    /// How the budget is spent.
    pub fn settings(&self) -> BudgetSettings {
        let allowance = Amount::from_micros(self.policy_allowance.load(Ordering::Acquire));
        BudgetSettings { unit: self.unit, allowance }
    }

    /// The reservations of calls in flight.
    pub fn reserved(&self) -> Amount {
        let control = self.control();
        self.used(&control).saturating_sub(self.settled()).max(Amount::ZERO)
    }

    /// Whether the window contains a time.
    pub fn is_current(&self, now: BootTime) -> bool {
        self.has_started(now) && !self.is_over(now)
    }

    fn has_started(&self, now: BootTime) -> bool {
        self.starts_at.load(Ordering::Acquire) <= now.as_millis()
    }

    /// The mean spending per second.
    pub(crate) fn per_second(&self) -> Amount {
        self.control().rate.per_second()
    }

    /// Whether the window is over.
    pub(crate) fn is_over(&self, now: BootTime) -> bool {
        self.ends_at.load(Ordering::Acquire) <= now.as_millis()
    }

    /// Whether the account spends nothing more: its window is over or the ledger closed it, and no
    /// calls are in flight. The answer is final; later reservations fail.
    pub(crate) fn is_finished(&self, now: BootTime) -> bool {
        let ended_at = self.ends_at.load(Ordering::Acquire).saturating_add(GRACE);
        if self.is_open() && now.as_millis() < ended_at {
            return false;
        }
        self.close();
        // Without spendable rights, no reservation can start after the check.
        self.return_all_rights() && self.reserved() == Amount::ZERO
    }

    /// Ends the allowance and returns all rights that no call uses. Returns whether nothing is
    /// spendable; a call may have reserved rights meanwhile.
    pub(crate) fn return_all_rights(&self) -> bool {
        self.end_allowance();
        self.return_rights(Demand::default());
        self.spendable.load(Ordering::Acquire) <= 0
    }

    /// Whether the ledger still grants.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Ends reservations.
    pub(crate) fn close(&self) {
        self.is_open.store(false, Ordering::Release);
    }

    /// Reserves an amount. Zero needs no rights.
    pub(crate) fn reserve(&self, amount: Amount, now: BootTime) -> Result<(), Shortfall> {
        if !self.is_open() {
            return Err(Shortfall::Closed);
        }
        if !self.is_current(now) {
            return Err(Shortfall::OutsideWindow);
        }
        if amount == Amount::ZERO || self.take(amount.as_micros()) {
            return Ok(());
        }
        let control = self.control();
        let free = control.reach().saturating_sub(self.used(&control));
        Err(if amount <= free { Shortfall::Mark } else { Shortfall::Rights })
    }

    /// Reserves an amount even without rights, for calls that a budget never rejects.
    pub(crate) fn force(&self, amount: Amount) {
        let add = |forced: i64| Some(forced.saturating_add(amount.as_micros()));
        // The closure always returns a value.
        let _ = self.forced.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
        self.add_spendable(amount.as_micros().saturating_neg());
    }

    /// Replaces a reservation by the actual spending.
    pub(crate) fn settle(&self, reserved: Amount, actual: Amount) {
        let add = |settled: i64| Some(settled.saturating_add(actual.as_micros()));
        // The closure always returns a value.
        let _ = self.settled.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
        self.add_spendable(reserved.saturating_sub(actual).as_micros());
    }

    /// Releases a reservation of a call that was not sent.
    pub(crate) fn release(&self, reserved: Amount) {
        self.add_spendable(reserved.as_micros());
    }

    /// Applies an answer. The deadline of the window counts from the report, which the ledger
    /// received later; the start counts from the answer.
    pub(crate) fn answer(
        &self,
        state: &AccountState,
        reported: Totals,
        generation: u64,
        sent_at: BootTime,
        now: BootTime,
    ) {
        let mut control = self.control();
        control.acknowledged = Some((generation, reported));
        control.budget = state.budget;
        control.next_window.clone_from(&state.window.next);
        self.set_window(state.window.starts_in, state.window.ends_in, sent_at, now);
        if state.grant.is_closed {
            self.close();
            return;
        }
        let granted = control.granted.max(state.grant.granted);
        // New rights cover the spending of the allowance, which stays spent.
        let added = granted.saturating_sub(control.granted);
        let covered = self.used_allowance(&control).min(added);
        control.allowance = control.allowance.saturating_sub(covered);
        control.allowance_spent = control.allowance_spent.saturating_add(covered);
        control.granted = granted;
        self.refresh(&mut control);
    }

    /// Sets the window relative to a time.
    pub(crate) fn set_window(
        &self,
        starts_in: Duration,
        ends_in: Option<Duration>,
        sent_at: BootTime,
        now: BootTime,
    ) {
        let starts_at = if starts_in.is_zero() { 0 } else { now.after(starts_in).as_millis() };
        let ends_at = ends_in.map_or(u64::MAX, |ends_in| sent_at.after(ends_in).as_millis());
        self.starts_at.store(starts_at, Ordering::Release);
        self.ends_at.store(ends_at, Ordering::Release);
    }

    /// Returns rights that no call uses, except those of waiting calls.
    pub(crate) fn return_rights(&self, demand: Demand) {
        let mut control = self.control();
        if control.allowance > Amount::ZERO {
            return;
        }
        // Calls cannot use the rights above the ceiling.
        let above = control.rights().saturating_sub(control.ceiling).max(Amount::ZERO);
        let kept_above = demand.total.min(above);
        let kept_below = demand.total.saturating_sub(kept_above).as_micros();
        let spendable = self.spendable.load(Ordering::Acquire);
        let mut below = spendable.saturating_sub(kept_below).max(0);
        // A failure means that calls have just reserved these rights.
        if !self.take(below) {
            below = 0;
        }
        let below = Amount::from_micros(below);
        control.ceiling = control.ceiling.saturating_sub(below);
        if self.unit == Unit::Money {
            control.mark = control.mark.min(control.ceiling);
        }
        let returned = above.saturating_sub(kept_above).saturating_add(below);
        control.returned = control.returned.saturating_add(returned);
        self.refresh(&mut control);
    }

    /// Returns rights that no call uses because another gateway needs them. Prefetches none for a
    /// while.
    pub(crate) fn recall(&self, demand: Demand, now: BootTime) {
        self.control().recalled_until = now.after(IDLE_AFTER);
        self.return_rights(demand);
    }

    /// Updates the spending rate, and returns rights that were idle.
    pub(crate) fn tick(&self, demand: Demand, now: BootTime) {
        let mut control = self.control();
        if !self.has_started(now) {
            control.rate.skip(now);
            control.unchanged_since = now;
            return;
        }
        let used = self.used(&control);
        control.rate.update(used, now);
        if used != control.last_used {
            (control.last_used, control.unchanged_since) = (used, now);
        }
        let is_idle = now.since(control.unchanged_since) >= IDLE_AFTER;
        drop(control);
        if is_idle {
            self.return_rights(demand);
        }
    }

    /// The totals for a report. Rights that a mark on disk covers are not returned: others could
    /// spend them, and the next process would charge the mark.
    pub fn totals(&self) -> Totals {
        let mut control = self.control();
        let uncovered = control.granted.saturating_sub(control.highest_mark);
        control.reported = control.reported.max(control.returned.min(uncovered));
        // The forced spending is read last, so that it is not below its part of the spending.
        let settled = self.settled();
        let Control { granted, reported: returned, .. } = *control;
        Totals { granted, returned, settled, forced: self.forced() }
    }

    /// Whether the ledger has answered a report of the current totals in a generation.
    pub(crate) fn is_acknowledged(&self, generation: u64) -> bool {
        let totals = self.totals();
        self.control().acknowledged == Some((generation, totals))
    }

    /// The rights that the gateway wants now.
    pub(crate) fn want(&self, demand: Demand, now: BootTime) -> Option<Want> {
        let control = self.control();
        if !self.is_open() {
            return None;
        }
        let free = control.rights().saturating_sub(self.used(&control));
        let useful_for = self.useful_for(now);
        // A prefetch would request the returned rights again.
        let is_idle = self.used(&control) == control.last_used
            && now.since(control.unchanged_since) >= IDLE_AFTER;
        let prefetch = if is_idle || now < control.recalled_until {
            Amount::ZERO
        } else {
            self.whole(prefetch(control.rate.per_second(), &control.budget, useful_for))
        };
        let is_waiting = demand.total > Amount::ZERO && demand.lowest > free;
        let is_low = free < Amount::from_micros(prefetch.as_micros() / 2);
        if !is_waiting && !is_low && !free.is_negative() {
            return None;
        }
        let total = |more: Amount| control.granted.saturating_add(more);
        let needed = demand.lowest.saturating_sub(free);
        let wanted = demand.total.max(demand.lowest).saturating_add(prefetch).saturating_sub(free);
        Some(Want { minimum: is_waiting.then(|| total(needed)), granted: total(wanted) })
    }

    /// The window after this one, if its accounts may be opened and this one is in use.
    pub(crate) fn next_window(&self, jitter: Duration, now: BootTime) -> Option<WindowId> {
        let control = self.control();
        if !self.is_open() {
            return None;
        }
        let ends_at = Duration::from_millis(self.ends_at.load(Ordering::Acquire));
        let opens_at = BootTime::new(ends_at.saturating_sub(OPENS_BEFORE)).after(jitter);
        let is_used = control.rate.per_second() > Amount::ZERO;
        control.next_window.clone().filter(|_| is_used && opens_at <= now)
    }

    /// The first request for an account in the next window: at most an equal share of the limit.
    pub(crate) fn prefetch_of_next(&self) -> Want {
        let BudgetState { limit, active_gateways, .. } = self.budget();
        let share = limit.as_micros() / i64::from(active_gateways.max(1));
        let spending = self.per_second().checked_mul(FIRST_SECONDS).unwrap_or(Amount::MAX);
        let granted = self.whole(spending.min(Amount::from_micros(share)));
        Want { minimum: None, granted }
    }

    /// Whole calls of a fleet rate: a part of a call is useless. Money is unchanged.
    fn whole(&self, amount: Amount) -> Amount {
        match self.unit {
            Unit::Money => amount,
            Unit::Calls => {
                let part = amount.as_micros() % CALL.as_micros();
                amount.saturating_sub(Amount::from_micros(part))
            }
        }
    }

    /// How long rights are useful. Windows of fleet rates can be as short as a second.
    fn useful_for(&self, now: BootTime) -> Duration {
        let ends_at = Duration::from_millis(self.ends_at.load(Ordering::Acquire));
        match self.unit {
            Unit::Money => Duration::MAX,
            Unit::Calls => BootTime::new(ends_at).since(now),
        }
    }

    /// The mark that a write of the file stores. It is not below spending and reservations.
    pub(crate) fn next_mark(&self, demand: Demand) -> Amount {
        let mut control = self.control();
        let next = self.needed(&control, demand).unwrap_or(control.mark);
        control.highest_mark = control.highest_mark.max(next);
        next
    }

    /// The mark that must be on disk before more is reserved, or before rights can return. `None`:
    /// the written one is sufficient.
    pub(crate) fn needed_mark(&self, demand: Demand) -> Option<Amount> {
        let control = self.control();
        let needed = self.needed(&control, demand);
        let is_waiting = control.reported < control.returned;
        needed.or((is_waiting && control.mark < control.highest_mark).then_some(control.mark))
    }

    /// Records that a mark is on disk.
    pub(crate) fn mark_written(&self, mark: Amount) {
        let mut control = self.control();
        if self.unit == Unit::Money {
            // Rights may have been returned during the write.
            control.mark = mark.min(control.reach().max(self.used(&control)));
            control.highest_mark = mark;
            self.refresh(&mut control);
        }
    }

    /// Lets calls spend the allowance, because the ledger is unavailable.
    pub(crate) fn start_allowance(&self) {
        let mut control = self.control();
        control.allowance = self.allowance_left(&control);
        self.refresh(&mut control);
    }

    /// Ends the allowance. Its spending is an overrun until the ledger grants rights for it.
    pub(crate) fn end_allowance(&self) {
        let mut control = self.control();
        let spent = self.used_allowance(&control);
        control.allowance_spent = control.allowance_spent.saturating_add(spent);
        control.allowance = Amount::ZERO;
        self.refresh(&mut control);
    }

    /// The most of the allowance that the marks let this account spend, with its spending before.
    pub(crate) fn spent_allowance(&self) -> Amount {
        let control = self.control();
        let beyond_rights = control.highest_mark.saturating_sub(control.rights());
        let spent = beyond_rights.max(Amount::ZERO).min(control.allowance);
        control.allowance_spent.saturating_add(spent)
    }

    /// Applies a changed allowance of the policy. The spending before counts.
    pub(crate) fn change_allowance(&self, allowance: Amount, is_available: bool) {
        let mut control = self.control();
        self.policy_allowance.store(allowance.as_micros(), Ordering::Release);
        if !is_available {
            control.allowance = self.allowance_left(&control);
            self.refresh(&mut control);
        }
    }

    /// The part of the policy's allowance that no account has spent before the ledger answered.
    fn allowance_left(&self, control: &Control) -> Amount {
        let left = self.settings().allowance.saturating_sub(control.allowance_before);
        left.saturating_sub(control.allowance_spent).max(Amount::ZERO)
    }

    /// The end of the window by the wall clock.
    pub(crate) fn ends_at(&self, now: BootTime, wall: Timestamp) -> Option<Timestamp> {
        let ends_at = Some(self.ends_at.load(Ordering::Acquire)).filter(|end| *end != u64::MAX)?;
        let left = i64::try_from(ends_at.saturating_sub(now.as_millis())).unwrap_or(i64::MAX);
        Some(Timestamp::from_millis(wall.as_millis().saturating_add(left)))
    }

    fn needed(&self, control: &Control, demand: Demand) -> Option<Amount> {
        let used = self.used(control);
        // About one second of spending, which is the most that a crash charges too much.
        let step = control.rate.per_second().max(demand.total);
        let wanted = used.saturating_add(step).min(control.reach()).max(used);
        let is_low = control.mark
            < used.saturating_add(demand.lowest).min(control.reach()).max(used)
            || control.mark.saturating_sub(used).as_micros() < step.as_micros() / 2;
        (wanted > control.mark && is_low).then_some(wanted)
    }

    /// Spending and reservations.
    fn used(&self, control: &Control) -> Amount {
        let spendable = Amount::from_micros(self.spendable.load(Ordering::Acquire));
        control.ceiling.saturating_sub(spendable)
    }

    /// The part of the current allowance that calls have spent or reserved.
    fn used_allowance(&self, control: &Control) -> Amount {
        let overrun = self.used(control).saturating_sub(control.rights());
        overrun.max(Amount::ZERO).min(control.allowance)
    }

    /// Adapts what is spendable to rights, allowance and mark.
    fn refresh(&self, control: &mut Control) {
        let ceiling = control.reach().min(control.mark);
        self.add_spendable(ceiling.saturating_sub(control.ceiling).as_micros());
        control.ceiling = ceiling;
    }

    /// Takes an amount if it is spendable.
    fn take(&self, micros: i64) -> bool {
        let take = |spendable: i64| (spendable >= micros).then(|| spendable - micros);
        self.spendable.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok()
    }

    fn add_spendable(&self, micros: i64) {
        let add = |spendable: i64| Some(spendable.saturating_add(micros));
        // The closure always returns a value.
        let _ = self.spendable.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
