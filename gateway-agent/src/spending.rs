//! The spending of this gateway: reservations in the accounts of budgets, their crash marks, and the
//! rights that the ledger grants.
//!
//! Calls reserve from memory. A call without rights waits for the [`Reporter`], which talks to the
//! ledger of the registry, or to a local one.

mod clock;
mod local;
mod mark_file;
mod metric;
mod open_tasks;
mod reporter;
mod rules;
mod state;
#[cfg(test)]
mod tests;
mod waiting;

use std::{
    io,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use gateway_policy::QuotaKey;
use ledger::{
    BudgetKey, BudgetState, Epoch, Spender,
    spender::{Account, BootTime, BudgetSettings, Charge, Demands, Reservation, Shortfall, Unit},
};
use policy::{BudgetRule, BudgetShortage, Payer};
use registry_core::{Amount, Digest, Timestamp, entity::policy::OnUnavailable};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

pub(crate) use self::open_tasks::{OpenTask, Priced};
pub use self::{clock::SpendingClock, local::LocalLedger, reporter::Reporter};
use self::{mark_file::MarkFile, open_tasks::OpenTasks, waiting::WaitingCalls};
use crate::random::random_bits;

/// The time after which a gateway without an answer of the ledger stops reserving.
const OFFLINE_FOR: Duration = Duration::from_hours(1);
/// Maximum time that a call waits for rights.
const MAX_WAIT: Duration = Duration::from_millis(500);

/// The spending of this gateway.
#[derive(Debug)]
pub struct Spending {
    spender: Spender,
    clock: SpendingClock,
    waiting: Mutex<WaitingCalls>,
    tasks: OpenTasks,
    /// Whether the last report was answered.
    is_available: AtomicBool,
    answered_at: Mutex<Option<BootTime>>,
    /// Wakes the task that reports.
    wake: Notify,
    /// Wakes the task that writes the marks.
    wake_writer: Notify,
    /// Notifies waiting calls of each answer and each write of the marks.
    progress: watch::Sender<()>,
}

/// A budget that a call charges.
#[derive(Debug)]
pub(crate) struct BudgetCharge<'a> {
    pub(crate) rule: BudgetRule<'a>,
    pub(crate) key: BudgetKey,
    pub(crate) amount: Amount,
}

/// A budget that does not cover a call.
#[derive(Debug)]
pub(crate) struct Uncovered {
    /// The position of its charge.
    pub(crate) charge: usize,
    pub(crate) shortage: BudgetShortage,
}

/// A failed attempt to reserve.
#[derive(Debug, Clone, Copy)]
struct Failed {
    charge: usize,
    /// `None`: there is no account.
    shortfall: Option<Shortfall>,
}

impl<'a> BudgetCharge<'a> {
    pub(crate) fn new(rule: BudgetRule<'a>, payer: &Payer<'_>, amount: Amount) -> Self {
        let key = BudgetKey {
            policy: rule.policy.key().name.as_str().into(),
            budget: rule.budget.name.as_str().into(),
            subject: rule.subject(payer).into(),
        };
        Self { rule, key, amount }
    }

    fn settings(&self) -> BudgetSettings {
        let allowance = match self.rule.budget.on_unavailable {
            OnUnavailable::Deny => Amount::ZERO,
            OnUnavailable::Allow(allowance) => allowance,
        };
        BudgetSettings { unit: Unit::Money, allowance }
    }
}

impl Spending {
    /// Reads the crash marks beside a cache. `gateway` is the name of the gateway for a local ledger.
    pub fn open(
        cache: &Path,
        gateway: &str,
        clock: SpendingClock,
    ) -> io::Result<(Arc<Self>, Reporter)> {
        let (file, predecessors) = MarkFile::open(cache, clock.wall())?;
        let process = Epoch::new(random_bits().map_err(io::Error::other)?);
        let needs_report = !predecessors.is_empty();
        let spending = Arc::new(Self {
            spender: Spender::new(process, predecessors, OFFLINE_FOR),
            clock,
            waiting: Mutex::default(),
            tasks: OpenTasks::new(),
            is_available: AtomicBool::new(true),
            answered_at: Mutex::default(),
            wake: Notify::new(),
            wake_writer: Notify::new(),
            progress: watch::Sender::new(()),
        });
        if needs_report {
            spending.wake.notify_one();
        }
        let reporter = Reporter::new(Arc::clone(&spending), file, gateway);
        Ok((spending, reporter))
    }

    /// Reserves all charges of a call, or none. Waits for rights if necessary.
    pub(crate) async fn reserve(
        &self,
        charges: &[BudgetCharge<'_>],
    ) -> Result<Reservation, Uncovered> {
        match self.attempt(charges) {
            Ok(reservation) => Ok(reservation),
            // Calls of compositions nest, so each level must need little of the stack.
            Err(_) => Box::pin(self.wait(charges)).await,
        }
    }

    /// Charges a call once more, because it is sent again and its first outcome is unknown. Returns
    /// whether this gateway has the rights; the call does not wait for more.
    pub(crate) fn charge_again(&self, reservation: &Reservation) -> bool {
        let charges = reservation.charges().to_vec();
        self.spender.reserve(charges, self.clock.boot()).map(Reservation::settle).is_ok()
    }

    /// Like [`Self::charge_again`], for charges that budgets never reject.
    pub(crate) fn force_again(&self, reservation: &Reservation) {
        self.spender.force(reservation.charges().to_vec()).settle();
    }

    /// Reserves a charge that its budget never rejects. Also returns the shortage if the budget
    /// does not cover it.
    pub(crate) async fn reserve_unlimited(
        &self,
        charge: BudgetCharge<'_>,
    ) -> (Option<Reservation>, Option<BudgetShortage>) {
        let charges = [charge];
        match self.reserve(&charges).await {
            Ok(reservation) => (Some(reservation), None),
            Err(Uncovered { shortage, .. }) => (self.force(&charges).await, Some(shortage)),
        }
    }

    /// Reserves charges that budgets never reject, such as those of a compensation. `None`: no
    /// budget has a window now.
    pub(crate) async fn force(&self, charges: &[BudgetCharge<'_>]) -> Option<Reservation> {
        let now = self.clock.boot();
        let forced = charges.iter().filter_map(|charge| {
            self.spender.add_budget(&charge.key, charge.settings());
            let known = self.spender.account(&charge.key, now);
            let account = known.or_else(|| self.open_account(charge, now))?;
            Some(Charge { account, amount: charge.amount })
        });
        let forced: Vec<_> = forced.collect();
        if forced.is_empty() {
            return None;
        }
        let mut progress = self.progress.subscribe();
        let reservation = self.spender.force(forced);
        self.wake.notify_one();
        self.wake_writer.notify_one();
        let marked = async {
            while self.spender.needs_mark(&self.demands(), self.clock.boot()) {
                // The sender is a part of `self`.
                let _ = progress.changed().await;
            }
        };
        // A disk that fails does not reject a compensation; only its crash mark is too low.
        let _ = timeout(MAX_WAIT, marked).await;
        Some(reservation)
    }

    /// Keeps the price of a task reserved until its result reports the price. `key` identifies the task.
    pub(crate) fn keep_task(&self, key: Digest, caller: &QuotaKey, task: OpenTask) {
        self.tasks.add(key, caller, task, self.clock.boot());
    }

    /// The price of a task whose result has arrived. `None`: it is charged already.
    pub(crate) fn take_task(&self, key: &Digest) -> Option<OpenTask> {
        self.tasks.remove(key)
    }

    fn attempt(&self, charges: &[BudgetCharge<'_>]) -> Result<Reservation, Failed> {
        let now = self.clock.boot();
        let mut accounts = Vec::with_capacity(charges.len());
        for (number, charge) in charges.iter().enumerate() {
            let account = self.spender.account(&charge.key, now);
            let account = account.ok_or(Failed { charge: number, shortfall: None })?;
            accounts.push(Charge { account, amount: charge.amount });
        }
        self.spender.reserve(accounts, now).map_err(|uncovered| {
            let budget = &uncovered.charge.account.key().budget;
            let charge = charges.iter().position(|charge| charge.key == *budget);
            Failed { charge: charge.unwrap_or_default(), shortfall: Some(uncovered.shortfall) }
        })
    }

    /// Waits for the rights of a call.
    async fn wait(&self, charges: &[BudgetCharge<'_>]) -> Result<Reservation, Uncovered> {
        for charge in charges {
            self.spender.add_budget(&charge.key, charge.settings());
        }
        let waiting = WaitingCall::new(self, charges);
        let mut progress = self.progress.subscribe();
        let mut last = Failed { charge: 0, shortfall: None };
        let reserved = async {
            loop {
                if !self.is_available() {
                    self.open_accounts(charges);
                }
                match self.attempt(charges) {
                    Ok(reservation) => return Some(reservation),
                    Err(failed) => last = failed,
                }
                if last.shortfall == Some(Shortfall::Mark) {
                    self.wake_writer.notify_one();
                }
                if self.is_final(charges, last, waiting.added) {
                    return None;
                }
                // The sender is a part of `self`.
                let _ = progress.changed().await;
            }
        };
        let reserved = timeout(MAX_WAIT, reserved).await;
        reserved.ok().flatten().ok_or_else(|| self.uncovered(charges, last.charge))
    }

    /// Whether waiting does not help.
    fn is_final(&self, charges: &[BudgetCharge<'_>], failed: Failed, added: u64) -> bool {
        if failed.shortfall == Some(Shortfall::Mark) {
            return false;
        }
        let Some(charge) = charges.get(failed.charge) else { return true };
        !self.is_available() || lock(&self.waiting).is_refused(&charge.key, added)
    }

    /// Opens missing accounts in the windows of the local clock, so that calls can spend allowances
    /// without the ledger.
    fn open_accounts(&self, charges: &[BudgetCharge<'_>]) {
        let now = self.clock.boot();
        for charge in charges {
            if self.spender.account(&charge.key, now).is_none() {
                self.open_account(charge, now);
            }
        }
    }

    fn open_account(&self, charge: &BudgetCharge<'_>, now: BootTime) -> Option<Arc<Account>> {
        let wall = self.clock.wall();
        let open = rules::windows(&charge.rule.budget.window).ok()?.open_at(wall).ok()?;
        self.spender.open(&charge.key, &open.span(&open.current, wall), now);
        self.spender.account(&charge.key, now)
    }

    fn uncovered(&self, charges: &[BudgetCharge<'_>], position: usize) -> Uncovered {
        let BudgetCharge { rule, key, amount } = &charges[position];
        metric::count_refusal();
        let account = self.spender.account(key, self.clock.boot());
        let settled = account.as_ref().map(|account| account.settled()).unwrap_or_default();
        let known = account.map(|account| account.budget());
        // An account without an answer does not know its budget.
        let known = known.filter(|state| *state != BudgetState::default());
        let limit = known.map_or(rule.budget.limit, |state| state.limit);
        let BudgetState { settled: reported, exposed, in_doubt, .. } = known.unwrap_or_default();
        let spent = reported.max(settled);
        let shortage = BudgetShortage {
            budget: Some(rule.budget.name.clone()),
            scope: rule.budget.per.as_str(),
            limit,
            spent,
            reserved: exposed.saturating_sub(spent).max(Amount::ZERO),
            requested: *amount,
            in_doubt,
            resets_at: self.end_of_window(rule),
            is_unavailable: !self.is_available(),
        };
        Uncovered { charge: position, shortage }
    }

    fn end_of_window(&self, rule: &BudgetRule<'_>) -> Option<Timestamp> {
        rules::windows(&rule.budget.window).ok()?.window_at(self.clock.wall()).ok()?.end
    }

    fn is_available(&self) -> bool {
        self.is_available.load(Ordering::Acquire)
    }

    fn demands(&self) -> Demands {
        lock(&self.waiting).demands()
    }

    /// Lets waiting calls try again.
    fn notify_progress(&self) {
        self.progress.send_replace(());
    }
}

/// A call that waits for rights.
struct WaitingCall<'a> {
    spending: &'a Spending,
    charges: &'a [BudgetCharge<'a>],
    /// The number of reports before the call.
    added: u64,
}

impl<'a> WaitingCall<'a> {
    fn new(spending: &'a Spending, charges: &'a [BudgetCharge<'a>]) -> Self {
        let prices = charges.iter().map(|charge| (&charge.key, charge.amount));
        let added = lock(&spending.waiting).add(prices);
        spending.wake.notify_one();
        Self { spending, charges, added }
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.spending.waiting);
        for BudgetCharge { key, amount, .. } in self.charges {
            waiting.remove(key, *amount);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
