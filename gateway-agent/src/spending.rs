//! The spending of this gateway: reservations in the accounts of budgets and fleet rates, their crash
//! marks, and the rights that the ledger grants.
//!
//! Calls reserve from memory. A call without rights waits for the [`Reporter`], which talks to the
//! ledger of the registry, or to a local one.

mod claim;
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
    BudgetState, CALL, Epoch, Spender,
    spender::{Account, BootTime, Charge, Demands, Reservation, Shortfall},
};
use policy::{BudgetShortage, UsedBudget};
use registry_core::{Amount, Digest, Timestamp, entity::policy::Reach};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use self::{claim::Claim, mark_file::MarkFile, open_tasks::OpenTasks, waiting::WaitingCalls};
pub(crate) use self::{
    claim::{BudgetCharge, RateCharge},
    open_tasks::{OpenTask, Priced},
};
pub use self::{clock::SpendingClock, local::LocalLedger, reporter::Reporter};
use crate::random::random_bits;

/// Maximum time that a call waits for rights.
const MAX_WAIT: Duration = Duration::from_millis(500);

/// The spending of this gateway.
#[derive(Debug)]
pub struct Spending {
    spender: Spender,
    clock: SpendingClock,
    /// The gateways that share the ledger.
    reach: Reach,
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

/// A budget that does not cover a call.
#[derive(Debug)]
pub(crate) struct Uncovered {
    /// The position of its charge.
    pub(crate) charge: usize,
    pub(crate) shortage: BudgetShortage,
}

/// A fleet rate that is exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FleetRateExceeded {
    /// The position of its charge.
    pub(crate) charge: usize,
    /// The time until the next window.
    pub(crate) retry_after: Duration,
}

/// A failed attempt to reserve.
#[derive(Debug, Clone, Copy, Default)]
struct Failed {
    /// The position of the claim.
    claim: usize,
    /// `None`: there is no account.
    shortfall: Option<Shortfall>,
    /// Whether the ledger answered that it does not grant the claim.
    is_declined: bool,
    /// Whether the ledger recovers, so that it grants nothing.
    is_recovering: bool,
    /// Whether the call waited as long as it may.
    is_timeout: bool,
}

impl Spending {
    /// Reads the crash marks beside a cache. `gateway` is the name of the gateway for a local ledger,
    /// `reach` are the gateways that share the ledger.
    pub fn open(
        cache: &Path,
        gateway: &str,
        reach: Reach,
        clock: SpendingClock,
    ) -> io::Result<(Arc<Self>, Reporter)> {
        let (file, predecessors) = MarkFile::open(cache, clock.wall())?;
        let process = Epoch::new(random_bits().map_err(io::Error::other)?);
        let needs_report = !predecessors.is_empty();
        let spending = Arc::new(Self {
            spender: Spender::new(process, predecessors),
            clock,
            reach,
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
        if let Ok(reservation) = self.attempt(charges) {
            return Ok(reservation);
        }
        // Calls of compositions nest, so each level must need little of the stack.
        let reserved = Box::pin(self.wait(charges)).await;
        reserved.map_err(|failed| self.uncovered(charges, failed))
    }

    /// Takes a call from all fleet rates, or from none. Waits for rights if necessary. `None`: the
    /// gateway must count alone, because there is no ledger of the fleet, it does not answer, or it
    /// does not know a rate.
    pub(crate) async fn take_calls(
        &self,
        charges: &[RateCharge],
    ) -> Result<Option<Reservation>, FleetRateExceeded> {
        if charges.is_empty() || self.reach == Reach::Gateway || !self.is_available() {
            return Ok(None);
        }
        if let Ok(reservation) = self.attempt(charges) {
            return Ok(Some(reservation));
        }
        let charge = if let Some(charge) = charges.iter().position(|rate| self.is_used_up(rate)) {
            charge
        } else {
            // Calls of compositions nest, so each level must need little of the stack.
            match Box::pin(self.wait(charges)).await {
                Ok(reservation) => return Ok(Some(reservation)),
                Err(Failed { claim, is_declined: true, .. }) => claim,
                Err(_) => return Ok(None),
            }
        };
        let end = self.end_of_window(&charges[charge]);
        let retry_after = end.map(|end| end.since(self.clock.wall())).unwrap_or_default();
        Err(FleetRateExceeded { charge, retry_after })
    }

    /// Whether the fleet has used all calls of the window, so that a report is useless.
    fn is_used_up(&self, rate: &RateCharge) -> bool {
        let account = self.spender.account(&rate.key, self.clock.boot());
        account.map(|account| account.budget()).is_some_and(
            |BudgetState { limit, settled, .. }| {
                limit > Amount::ZERO && limit.saturating_sub(settled) < CALL
            },
        )
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

    fn attempt<C: Claim>(&self, claims: &[C]) -> Result<Reservation, Failed> {
        let now = self.clock.boot();
        let failed = |claim, shortfall| Failed { claim, shortfall, ..Failed::default() };
        let mut accounts = Vec::with_capacity(claims.len());
        for (number, claim) in claims.iter().enumerate() {
            let account = self.spender.account(claim.key(), now);
            let account = account.ok_or_else(|| failed(number, None))?;
            let settings = claim.settings();
            if account.settings() != settings {
                self.spender.add_budget(claim.key(), settings);
            }
            accounts.push(Charge { account, amount: claim.amount() });
        }
        self.spender.reserve(accounts, now).map_err(|uncovered| {
            let budget = &uncovered.charge.account.key().budget;
            let claim = claims.iter().position(|claim| claim.key() == budget);
            failed(claim.unwrap_or_default(), Some(uncovered.shortfall))
        })
    }

    /// Waits for the rights of a call.
    async fn wait<C: Claim>(&self, claims: &[C]) -> Result<Reservation, Failed> {
        let waiting = WaitingCall::new(self, claims);
        self.add_budgets(claims);
        self.wake.notify_one();
        let mut progress = self.progress.subscribe();
        let mut last = Failed::default();
        let reserved = async {
            loop {
                if !self.is_available() {
                    self.open_accounts(claims);
                }
                match self.attempt(claims) {
                    Ok(reservation) => return Some(reservation),
                    Err(failed) => last = failed,
                }
                match last.shortfall {
                    Some(Shortfall::Mark) => self.wake_writer.notify_one(),
                    _ if self.is_final(claims, last, waiting.added) => return None,
                    _ => {}
                }
                // The sender is a part of `self`.
                let _ = progress.changed().await;
                // A report that started before this call forgets rates without accounts.
                self.add_budgets(claims);
            }
        };
        let reserved = timeout(MAX_WAIT, reserved).await;
        let is_timeout = reserved.is_err();
        reserved.ok().flatten().ok_or_else(|| {
            let key = claims[last.claim].key();
            let calls = lock(&self.waiting);
            let is_declined = calls.is_declined(key, waiting.added);
            let is_recovering = calls.is_recovering(key, waiting.added);
            Failed { is_declined, is_recovering, is_timeout, ..last }
        })
    }

    fn add_budgets<C: Claim>(&self, claims: &[C]) {
        for claim in claims {
            self.spender.add_budget(claim.key(), claim.settings());
        }
    }

    /// Whether waiting does not help.
    fn is_final<C: Claim>(&self, claims: &[C], failed: Failed, added: u64) -> bool {
        let Some(claim) = claims.get(failed.claim) else { return true };
        !self.is_available() || lock(&self.waiting).is_refused(claim.key(), added)
    }

    /// Opens missing accounts in the windows of the local clock, so that calls can spend allowances
    /// without the ledger.
    fn open_accounts<C: Claim>(&self, claims: &[C]) {
        let now = self.clock.boot();
        for claim in claims {
            if self.spender.account(claim.key(), now).is_none() {
                self.open_account(claim, now);
            }
        }
    }

    fn open_account<C: Claim>(&self, claim: &C, now: BootTime) -> Option<Arc<Account>> {
        let wall = self.clock.wall();
        let open = claim.windows().ok()?.open_at(wall).ok()?;
        self.spender.open(claim.key(), &open.span(&open.current, wall), now);
        self.spender.account(claim.key(), now)
    }

    fn uncovered(&self, charges: &[BudgetCharge<'_>], failed: Failed) -> Uncovered {
        let charge = &charges[failed.claim];
        let BudgetCharge { rule, key, amount } = charge;
        metric::count_refusal();
        let account = self.spender.account(key, self.clock.boot());
        let settled = account.as_ref().map(|account| account.settled()).unwrap_or_default();
        let known = account.map(|account| account.budget());
        // An account without an answer does not know its budget.
        let known = known.filter(|state| *state != BudgetState::default());
        let limit = known.map_or(rule.budget.limit, |state| state.limit);
        let used = known.map(|BudgetState { settled: reported, exposed, in_doubt, .. }| {
            let spent = reported.max(settled);
            let reserved = exposed.saturating_sub(spent).max(Amount::ZERO);
            UsedBudget { spent, reserved, in_doubt }
        });
        let shortage = BudgetShortage {
            budget: Some(rule.budget.name.clone()),
            scope: rule.budget.per.as_str(),
            limit,
            used,
            requested: *amount,
            resets_at: self.end_of_window(charge),
            is_unavailable: !self.is_available(),
            is_recovering: failed.is_recovering,
            is_timeout: failed.is_timeout,
        };
        Uncovered { charge: failed.claim, shortage }
    }

    fn end_of_window<C: Claim>(&self, claim: &C) -> Option<Timestamp> {
        claim.windows().ok()?.window_at(self.clock.wall()).ok()?.end
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
struct WaitingCall<'a, C: Claim> {
    spending: &'a Spending,
    claims: &'a [C],
    /// The number of reports before the call.
    added: u64,
}

impl<'a, C: Claim> WaitingCall<'a, C> {
    fn new(spending: &'a Spending, claims: &'a [C]) -> Self {
        let amounts = claims.iter().map(|claim| (claim.key(), claim.amount()));
        let added = lock(&spending.waiting).add(amounts);
        Self { spending, claims, added }
    }
}

impl<C: Claim> Drop for WaitingCall<'_, C> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.spending.waiting);
        for claim in self.claims {
            waiting.remove(claim.key(), claim.amount());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
