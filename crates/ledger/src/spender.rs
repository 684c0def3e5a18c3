//! The accounts of one gateway process: reservations in memory, reports to the ledger, crash marks.
//!
//! One task calls [`Spender::tick`], sends [`Spender::ended_reports`] and [`Spender::report`], passes
//! the results to [`Spender::answer`], and writes [`Spender::marks`]. Calls only reserve and settle.

mod account;
mod reservation;
mod sizing;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use registry_core::{Amount, Timestamp};

use self::sizing::SpendingRate;
pub use self::{
    account::{Account, Demand, IDLE_AFTER, Shortfall, Unit},
    reservation::{Charge, Reservation, Uncovered},
    sizing::BootTime,
};
use crate::{
    key::{AccountKey, BudgetKey, Epoch},
    mark::{Mark, ProcessMarks, SpentAllowance},
    message::{AccountAnswer, AccountReport, Answer, ProcessOwner, Recall, Report, Totals, Want},
    window::{WindowId, WindowSpan},
};

/// How long marks of closed accounts are repeated.
const REPEATED_FOR: Duration = Duration::from_hours(24);
/// Accounts of the next window are opened within this time, so that gateways do not report at once.
const JITTER: u128 = 30_000;

/// A time that does not come.
const NEVER: u64 = u64::MAX;

/// The waiting calls, by budget.
pub type Demands = BTreeMap<BudgetKey, Demand>;

/// How a budget is spent at this gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetSettings {
    /// The unit.
    pub unit: Unit,
    /// The spending without rights that is allowed in one window while the ledger is unavailable.
    pub allowance: Amount,
}

/// The accounts of one gateway process.
#[derive(Debug)]
pub struct Spender {
    process: Epoch,
    /// The end of reservations without a further answer, in milliseconds of the boot clock.
    /// [`NEVER`] without rights.
    offline_at: AtomicU64,
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    generation: u64,
    generation_proof: Vec<u8>,
    /// See [`Spender::reported_generation`].
    reported: Option<u64>,
    /// The owner of the accounts of this process.
    owner: Option<ProcessOwner>,
    is_available: bool,
    budgets: BTreeMap<BudgetKey, Entry>,
    /// Whether the file of marks names this process and its owner. Before, it opens no accounts: the
    /// next process could not close them.
    is_recorded: bool,
    /// Whether the process opens no more accounts.
    is_stopped: bool,
    /// The finished accounts of this process.
    closed: Vec<Closed>,
    /// The earlier processes on this disk.
    ended: Vec<Ended>,
    /// The spending of allowances by finished accounts and by earlier processes.
    allowances: BTreeMap<(BudgetKey, WindowId), Allowance>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Allowance {
    spent: Amount,
    /// The end of the window by the wall clock.
    ends_at: Option<Timestamp>,
}

#[derive(Debug)]
struct Entry {
    settings: BudgetSettings,
    /// The epoch of new accounts.
    epoch: Epoch,
    accounts: Vec<Arc<Account>>,
}

#[derive(Debug)]
struct Closed {
    mark: Mark,
    /// Whether the mark is on disk. Before that, a crash would charge a higher one, whose rights the
    /// final report returns.
    is_recorded: bool,
    /// The first write of the file after the end of the account.
    written_at: Option<Timestamp>,
    /// The generation of the answer. `None`: there is none.
    acknowledged: Option<u64>,
}

#[derive(Debug)]
struct Ended {
    marks: ProcessMarks,
    /// The generation of the answer. `None`: there is none.
    acknowledged: Option<u64>,
}

impl Spender {
    /// Creates a process without accounts. `predecessors`: the content of the file of marks, whose
    /// accounts it closes. It opens accounts once its own first file is on disk.
    pub fn new(process: Epoch, predecessors: Vec<ProcessMarks>) -> Self {
        let allowances = spent_allowances(&predecessors);
        let ended = predecessors.into_iter();
        let ended = ended.map(|marks| Ended { marks, acknowledged: None }).collect();
        Self {
            process,
            offline_at: AtomicU64::new(NEVER),
            state: RwLock::new(State {
                generation: 0,
                generation_proof: Vec::new(),
                reported: None,
                owner: None,
                is_available: true,
                is_recorded: false,
                is_stopped: false,
                budgets: BTreeMap::new(),
                closed: Vec::new(),
                ended,
                allowances,
            }),
        }
    }

    /// Adds a budget, or changes its settings. They apply to open accounts, too.
    pub fn add_budget(&self, budget: &BudgetKey, settings: BudgetSettings) {
        let epoch = self.process;
        let mut state = self.write();
        let State { is_available, budgets, .. } = &mut *state;
        let new = || Entry { settings, epoch, accounts: Vec::new() };
        let entry = budgets.entry(budget.clone()).or_insert_with(new);
        entry.settings = settings;
        for account in entry.accounts.iter().filter(|account| account.settings() != settings) {
            account.change_allowance(settings.allowance, *is_available);
        }
    }

    /// The account of a budget in the current window; `None` until the ledger has opened it.
    pub fn account(&self, budget: &BudgetKey, now: BootTime) -> Option<Arc<Account>> {
        self.read().budgets.get(budget)?.current(now).cloned()
    }

    /// The accounts that can still spend, or have news.
    pub fn accounts(&self) -> Vec<Arc<Account>> {
        self.read().accounts().cloned().collect()
    }

    /// Opens an account without rights in a window that the gateway computed, so that calls can
    /// spend the allowance before the ledger has answered.
    pub fn open(&self, budget: &BudgetKey, window: &WindowSpan, now: BootTime) {
        let mut state = self.write();
        let State { is_available, budgets, closed, allowances, .. } = &mut *state;
        let Some(entry) = budgets.get_mut(budget) else { return };
        entry.leave_finished(budget, &window.id, closed);
        let spent = spent_before(allowances, budget, &window.id);
        let account = entry.find_or_open(budget, &window.id, spent, now, *is_available);
        account.set_window(window.starts_in, window.ends_in, now, now);
    }

    /// Reserves all charges of a call, or none.
    pub fn reserve(&self, charges: Vec<Charge>, now: BootTime) -> Result<Reservation, Uncovered> {
        if self.is_offline(now) {
            self.return_all_rights(now);
        }
        match charges.first() {
            // A call has just released rights.
            Some(charge) if self.is_offline(now) => {
                Err(Uncovered { charge: charge.clone(), shortfall: Shortfall::Offline })
            }
            _ => Reservation::new(charges, now),
        }
    }

    /// Reserves all charges of a compensation, which budgets never reject. The caller writes the
    /// marks before it sends, if [`Self::needs_mark`].
    pub fn force(&self, charges: Vec<Charge>) -> Reservation {
        Reservation::forced(charges)
    }

    /// Updates the spending rates, and returns idle rights. A gateway that is offline returns all
    /// rights, after which calls can spend allowances only.
    pub fn tick(&self, demands: &Demands, now: BootTime) {
        let state = self.read();
        for account in state.accounts() {
            account.tick(demand(demands, account, now), now);
        }
        drop(state);
        if self.is_offline(now) {
            self.return_all_rights(now);
        }
    }

    /// Returns all rights of a gateway that is offline, and starts the allowances.
    fn return_all_rights(&self, now: BootTime) {
        let state = self.write();
        // Another call can have returned them meanwhile.
        if !self.is_offline(now) {
            return;
        }
        let mut has_rights = false;
        for account in state.accounts() {
            has_rights |= !account.return_all_rights();
            if !state.is_available {
                account.start_allowance();
            }
        }
        if !has_rights {
            self.offline_at.store(NEVER, Ordering::Release);
        }
    }

    /// The final reports of earlier processes, whose owners can be others than that of this process.
    /// They precede [`Self::report`], which can use the rights that they release.
    pub fn ended_reports(&self) -> Vec<Report> {
        let state = self.read();
        let unanswered =
            state.ended.iter().filter(|ended| ended.acknowledged != Some(state.generation));
        let report = |Ended { marks, .. }: &Ended| Report {
            process: marks.process,
            owner: marks.owner.clone(),
            generation: state.generation,
            generation_proof: state.generation_proof.clone(),
            complete: vec![marks.process],
            ended: vec![marks.process],
            accounts: marks.marks.iter().map(final_report).collect(),
        };
        unanswered.map(report).collect()
    }

    /// The report of what the ledger has not answered about this process, and the requests for rights.
    pub fn report(&self, demands: &Demands, now: BootTime) -> Report {
        let mut state = self.write();
        state.finish_accounts(now);
        state.forget_rates(demands);
        let generation = state.generation;
        let is_unanswered = |acknowledged: Option<u64>| acknowledged != Some(generation);
        let mut accounts = Vec::new();
        let recorded = state.closed.iter().filter(|closed| closed.is_recorded);
        let closed = recorded.filter(|closed| is_unanswered(closed.acknowledged));
        accounts.extend(closed.map(|closed| final_report(&closed.mark)));
        if state.is_recorded {
            let demands = if state.is_stopped { &Demands::new() } else { demands };
            for (budget, entry) in &state.budgets {
                let demand = demands.get(budget).copied().unwrap_or_default();
                accounts.extend(entry.reports(budget, demand, generation, now));
            }
        }
        // A ledger that lost transactions may not know the earlier processes, so that it would not wait
        // for them.
        let has_unreported_ends = state.ended.iter().any(|ended| is_unanswered(ended.acknowledged));
        let has_all_open = state.is_recorded || state.accounts().next().is_none();
        let has_all_closed = state.closed.iter().all(|closed| closed.is_recorded);
        let is_complete = has_all_open && has_all_closed && !has_unreported_ends;
        let own = Some(self.process).filter(|_| is_complete);
        let own_end = own.filter(|_| state.is_stopped && state.accounts().next().is_none());
        Report {
            process: self.process,
            owner: state.owner.clone(),
            generation,
            generation_proof: state.generation_proof.clone(),
            complete: own.into_iter().collect(),
            ended: own_end.into_iter().collect(),
            accounts,
        }
    }

    /// Whether the ledger waits for a report in its generation, also from a process without accounts.
    pub fn is_awaited(&self) -> bool {
        let state = self.read();
        state.reported.is_some_and(|reported| reported < state.generation)
    }

    /// The newest generation with an answered complete report; 0 after an incomplete one. `None`: the
    /// ledger has answered none.
    pub fn reported_generation(&self) -> Option<u64> {
        self.read().reported
    }

    /// Applies the answer to a report. `sent_at`: when the report was sent. Returns whether the answer
    /// counts; answers of older generations do not.
    pub fn answer(
        &self,
        report: &Report,
        answer: &Answer,
        sent_at: BootTime,
        now: BootTime,
    ) -> bool {
        let mut state = self.write();
        if answer.generation < state.generation {
            return false;
        }
        state.generation = answer.generation;
        state.generation_proof.clone_from(&answer.generation_proof);
        if report.process == self.process {
            let offline_at = sent_at.after(answer.offline_for).as_millis();
            let known = self.offline_at.load(Ordering::Acquire);
            let offline_at = if known == NEVER { offline_at } else { known.max(offline_at) };
            self.offline_at.store(offline_at, Ordering::Release);
            if answer.owner.is_some() && answer.owner != state.owner {
                // The next process on this disk needs the owner to close the accounts.
                state.owner.clone_from(&answer.owner);
                state.is_recorded = false;
            }
        }
        let is_processed = AccountAnswer::all_processed(&answer.accounts);
        if is_processed && report.process == self.process {
            let is_complete = report.complete.contains(&self.process);
            let generation = if is_complete { report.generation } else { 0 };
            state.reported = state.reported.max(Some(generation));
        }
        for ended in state.ended.iter_mut().filter(|_| is_processed) {
            if ended.marks.process == report.process {
                ended.acknowledged = Some(answer.generation);
                if answer.owner.is_some() {
                    // A repetition under a new name would be charged again without it.
                    ended.marks.owner.clone_from(&answer.owner);
                }
            }
        }
        for (reported, answered) in report.accounts.iter().zip(&answer.accounts) {
            let is_same = (&reported.budget, &reported.window, reported.epoch)
                == (&answered.budget, &answered.window, answered.epoch);
            if is_same && reported.is_final && answered.is_processed() {
                state.acknowledge(reported, answer.generation);
            } else if is_same && !reported.is_final {
                state.apply(reported, answered, answer.generation, (sent_at, now));
            }
        }
        true
    }

    /// Returns idle rights that the ledger needs. The next report after their marks contains them.
    pub fn recall(&self, recall: &Recall, demands: &Demands, now: BootTime) {
        let state = self.read();
        for key in &recall.accounts {
            if let Some(account) = state.find(key) {
                account.recall(demand(demands, account, now), now);
            }
        }
    }

    /// Records whether the ledger is reachable. While it is not, calls can spend allowances.
    pub fn set_available(&self, is_available: bool) {
        let mut state = self.write();
        state.is_available = is_available;
        for account in state.accounts() {
            if is_available {
                account.end_allowance();
            } else {
                account.start_allowance();
            }
        }
    }

    /// Stops reservations before the process exits. Once no calls are in flight, the next report
    /// closes all accounts, so that nothing stays in doubt without a next process.
    pub fn stop(&self) {
        let mut state = self.write();
        state.is_stopped = true;
        for account in state.accounts() {
            account.close();
        }
    }

    /// Whether the file of marks must be written before calls can reserve more, or rights return.
    pub fn needs_mark(&self, demands: &Demands, now: BootTime) -> bool {
        let state = self.read();
        let mut accounts = state.accounts();
        !state.is_recorded
            || state.closed.iter().any(|closed| !closed.is_recorded)
            || accounts.any(|account| account.needed_mark(demand(demands, account, now)).is_some())
    }

    /// The content of the next file of marks. Closed accounts are repeated for a day, because a
    /// failover of the ledger may lose them. Files are written one after the other, each followed by
    /// [`Self::marks_written`].
    pub fn marks(
        &self,
        demands: &Demands,
        now: BootTime,
        written_at: Timestamp,
    ) -> Vec<ProcessMarks> {
        let mut state = self.write();
        state.finish_accounts(now);
        let generation = state.generation;
        let is_kept = |acknowledged: Option<u64>, first: Timestamp| {
            acknowledged != Some(generation) || written_at.since(first) < REPEATED_FOR
        };
        state.ended.retain(|ended| is_kept(ended.acknowledged, ended.marks.written_at));
        for closed in &mut state.closed {
            closed.written_at.get_or_insert(written_at);
        }
        state
            .closed
            .retain(|closed| is_kept(closed.acknowledged, closed.written_at.unwrap_or(written_at)));
        let closed = state.closed.iter().map(|closed| closed.mark.clone());
        let money = state.accounts().filter(|account| account.unit() == Unit::Money);
        let open = money.map(|account| Mark {
            account: account.key().clone(),
            settled: account.next_mark(demand(demands, account, now)),
            // Read last, so that it is not below its part of the mark.
            forced: account.forced(),
        });
        let marks = closed.chain(open).collect();
        // The spending of an allowance depends on the marks.
        let allowances = state.spent_allowances(now, written_at);
        let owner = state.owner.clone();
        let own = ProcessMarks { process: self.process, owner, written_at, marks, allowances };
        state.ended.iter().map(|ended| ended.marks.clone()).chain([own]).collect()
    }

    /// Records that a file of marks is on disk.
    pub fn marks_written(&self, processes: &[ProcessMarks]) {
        let mut state = self.write();
        for ProcessMarks { process, owner, marks, .. } in processes {
            if *process != self.process {
                continue;
            }
            // An answer can have changed the owner during the write.
            state.is_recorded = *owner == state.owner;
            for mark in marks {
                if let Some(account) = state.find(&mark.account) {
                    account.mark_written(mark.settled);
                }
                if let Some(closed) = state.closed.iter_mut().find(|closed| closed.mark == *mark) {
                    closed.is_recorded = true;
                }
            }
        }
    }

    fn is_offline(&self, now: BootTime) -> bool {
        now.as_millis() >= self.offline_at.load(Ordering::Acquire)
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The spending of allowances by earlier processes. Files state the sum over all processes.
fn spent_allowances(processes: &[ProcessMarks]) -> BTreeMap<(BudgetKey, WindowId), Allowance> {
    let mut allowances = BTreeMap::<_, Allowance>::new();
    for SpentAllowance { budget, window, spent, ends_at } in
        processes.iter().flat_map(|process| &process.allowances)
    {
        let known = allowances.entry((budget.clone(), window.clone())).or_default();
        *known = Allowance { spent: known.spent.max(*spent), ends_at: *ends_at };
    }
    allowances
}

fn spent_before(
    allowances: &BTreeMap<(BudgetKey, WindowId), Allowance>,
    budget: &BudgetKey,
    window: &WindowId,
) -> Amount {
    let allowance = allowances.get(&(budget.clone(), window.clone()));
    allowance.map(|allowance| allowance.spent).unwrap_or_default()
}

/// The waiting calls of an account. Calls wait for the current window only.
fn demand(demands: &Demands, account: &Account, now: BootTime) -> Demand {
    let waiting = demands.get(&account.key().budget).filter(|_| account.is_current(now));
    waiting.copied().unwrap_or_default()
}

/// The final report of an account.
fn final_report(mark: &Mark) -> AccountReport {
    AccountReport {
        budget: mark.account.budget.clone(),
        window: Some(mark.account.window.clone()),
        epoch: mark.account.epoch,
        totals: Totals { settled: mark.settled, forced: mark.forced, ..Totals::default() },
        is_final: true,
        want: None,
    }
}

impl State {
    fn accounts(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.budgets.values().flat_map(|entry| &entry.accounts)
    }

    fn find(&self, key: &AccountKey) -> Option<&Arc<Account>> {
        self.budgets.get(&key.budget)?.accounts.iter().find(|account| account.key() == key)
    }

    /// Removes the accounts that spend nothing more.
    fn finish_accounts(&mut self, now: BootTime) {
        let Self { budgets, closed, allowances, .. } = self;
        for entry in budgets.values_mut() {
            entry.accounts.retain(|account| {
                let is_finished = account.is_finished(now);
                if is_finished && account.unit() == Unit::Money {
                    let AccountKey { budget, window, .. } = account.key().clone();
                    if let Some(allowance) = allowances.get_mut(&(budget, window)) {
                        allowance.spent = allowance.spent.saturating_add(account.spent_allowance());
                    }
                    let Totals { settled, forced, .. } = account.totals();
                    let mark = Mark { account: account.key().clone(), settled, forced };
                    closed.push(Closed {
                        mark,
                        is_recorded: false,
                        written_at: None,
                        acknowledged: None,
                    });
                }
                !is_finished
            });
        }
    }

    /// The spending of allowances for the file. Windows that are over are forgotten after a day.
    fn spent_allowances(&mut self, now: BootTime, written_at: Timestamp) -> Vec<SpentAllowance> {
        self.allowances.retain(|_, allowance| {
            allowance.ends_at.is_none_or(|end| written_at.since(end) < REPEATED_FOR)
        });
        let mut sums = BTreeMap::<_, Amount>::new();
        for account in self.budgets.values().flat_map(|entry| &entry.accounts) {
            let spent = account.spent_allowance();
            if spent > Amount::ZERO {
                let AccountKey { budget, window, .. } = account.key().clone();
                let key = (budget, window);
                let ends_at = account.ends_at(now, written_at);
                let new = Allowance { ends_at, ..Allowance::default() };
                self.allowances.entry(key.clone()).or_insert(new);
                let sum = sums.entry(key).or_default();
                *sum = sum.saturating_add(spent);
            }
        }
        let spent = |(key, Allowance { spent, ends_at }): (&(BudgetKey, WindowId), &Allowance)| {
            let open = sums.get(key).copied().unwrap_or_default();
            let (budget, window) = key.clone();
            SpentAllowance { budget, window, spent: spent.saturating_add(open), ends_at: *ends_at }
        };
        self.allowances.iter().map(spent).collect()
    }

    /// Removes fleet rates without accounts and waiting calls. There can be one for each caller.
    fn forget_rates(&mut self, demands: &Demands) {
        self.budgets.retain(|budget, entry| {
            let is_used = !entry.accounts.is_empty() || demands.contains_key(budget);
            is_used || entry.settings.unit == Unit::Money
        });
    }

    fn acknowledge(&mut self, reported: &AccountReport, generation: u64) {
        let is_reported = |closed: &&mut Closed| {
            let AccountKey { budget, window, epoch } = &closed.mark.account;
            (budget, Some(window), *epoch)
                == (&reported.budget, reported.window.as_ref(), reported.epoch)
        };
        if let Some(closed) = self.closed.iter_mut().find(is_reported) {
            closed.acknowledged = Some(generation);
        }
    }

    fn apply(
        &mut self,
        reported: &AccountReport,
        answered: &AccountAnswer,
        generation: u64,
        (sent_at, now): (BootTime, BootTime),
    ) {
        let Ok(answered) = &answered.result else { return };
        let Some(entry) = self.budgets.get_mut(&reported.budget) else { return };
        let id = &answered.window.id;
        let known = entry
            .accounts
            .iter()
            .find(|account| account.key().window == *id && account.key().epoch == reported.epoch);
        let is_closed = |closed: &Closed| {
            let AccountKey { budget, window, epoch } = &closed.mark.account;
            (budget, window, *epoch) == (&reported.budget, id, reported.epoch)
        };
        let account = match known {
            Some(account) => Arc::clone(account),
            // A late answer about an account that is finished.
            None if entry.epoch != reported.epoch || self.closed.iter().any(is_closed) => return,
            None => {
                let spent = spent_before(&self.allowances, &reported.budget, id);
                entry.find_or_open(&reported.budget, id, spent, now, self.is_available)
            }
        };
        if self.is_stopped {
            account.close();
        }
        account.answer(answered, reported.totals, generation, sent_at, now);
        if answered.grant.recall {
            account.recall(Demand::default(), now);
        }
        if answered.grant.is_closed && entry.epoch == reported.epoch {
            entry.epoch = entry.epoch.successor();
        }
    }
}

impl Entry {
    fn current(&self, now: BootTime) -> Option<&Arc<Account>> {
        let is_usable = |account: &&Arc<Account>| account.is_open() && account.is_current(now);
        self.accounts.iter().find(is_usable)
    }

    /// Uses a new epoch in a window whose account is finished, because the clock was set back or the
    /// machine was suspended. The totals of a second account with the same key would start at zero.
    fn leave_finished(&mut self, budget: &BudgetKey, window: &WindowId, closed: &[Closed]) {
        let (budget, window) = (budget.clone(), window.clone());
        let mut key = AccountKey { budget, window, epoch: self.epoch };
        while closed.iter().any(|closed| closed.mark.account == key) {
            key.epoch = key.epoch.successor();
        }
        self.epoch = key.epoch;
    }

    fn find_or_open(
        &mut self,
        budget: &BudgetKey,
        window: &WindowId,
        spent: Amount,
        now: BootTime,
        is_available: bool,
    ) -> Arc<Account> {
        let epoch = self.epoch;
        let key = AccountKey { budget: budget.clone(), window: window.clone(), epoch };
        if let Some(known) = self.accounts.iter().find(|account| *account.key() == key) {
            return Arc::clone(known);
        }
        let same_window = self.accounts.iter().filter(|account| account.key().window == *window);
        let spent =
            same_window.fold(spent, |sum, account| sum.saturating_add(account.spent_allowance()));
        // The spending continues in the next window.
        let per_second = self.accounts.last().map(|account| account.per_second());
        let rate = SpendingRate::new(per_second.unwrap_or_default(), now);
        let account = Arc::new(Account::new(key, self.settings, spent, rate, now));
        if !is_available {
            account.start_allowance();
        }
        self.accounts.push(Arc::clone(&account));
        account
    }

    /// The reports about the accounts, and the requests for new ones.
    fn reports(
        &self,
        budget: &BudgetKey,
        demand: Demand,
        generation: u64,
        now: BootTime,
    ) -> Vec<AccountReport> {
        let report = |window, epoch, totals, want| AccountReport {
            budget: budget.clone(),
            window,
            epoch,
            totals,
            is_final: false,
            want,
        };
        let mut reports = Vec::new();
        for account in &self.accounts {
            let is_current = account.is_current(now);
            let demand = if is_current { demand } else { Demand::default() };
            let want = account.want(demand, now).filter(|_| !account.is_over(now));
            if want.is_some() || !account.is_acknowledged(generation) {
                let AccountKey { window, epoch, .. } = account.key();
                reports.push(report(Some(window.clone()), *epoch, account.totals(), want));
            }
            let next = account.next_window(self.jitter(), now);
            let is_new = |id: &WindowId| !self.accounts.iter().any(|a| a.key().window == *id);
            if let Some(next) = next.filter(is_new) {
                let want = Some(account.prefetch_of_next());
                reports.push(report(Some(next), self.epoch, Totals::default(), want));
            }
        }
        if self.current(now).is_none() && demand.total > Amount::ZERO {
            let granted = demand.total.max(demand.lowest);
            let want = Want { minimum: Some(demand.lowest), granted };
            reports.push(report(None, self.epoch, Totals::default(), Some(want)));
        }
        reports
    }

    fn jitter(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.epoch.bits() % JITTER).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
