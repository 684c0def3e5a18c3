//! A ledger in memory, for a gateway without a registry. It uses the accounts like a database does:
//! a function of [`crate::budget`] computes the new rows, which replace the old ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use registry_core::{Amount, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    account::AccountRow,
    budget::{
        BudgetRow, Holding, OfflineLimits, ReclaimError, Terms, close, find_shortage, post, reclaim,
    },
    generation::{Generation, ProcessRow},
    key::{AccountKey, BudgetKey, Epoch},
    message::{
        AccountAnswer, AccountReport, AccountState, Answer, LedgerError, Recall, Refusal,
        Rejection, Report, Totals,
    },
    window::{KEPT_FOR, WindowId, WindowRule, WindowSpan},
};

/// The limit and the windows of a budget in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetRule {
    /// The limit in each window.
    pub limit: Amount,
    /// The spending of a gateway that is allowed while the ledger is unavailable.
    pub allowance: Amount,
    /// The windows.
    pub windows: WindowRule,
}

/// A ledger in memory. Its owner writes it to disk before it passes on an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLedger {
    limits: OfflineLimits,
    generation: Generation,
    #[serde(with = "entries")]
    processes: BTreeMap<ProcessKey, ProcessRow>,
    #[serde(with = "entries")]
    books: BTreeMap<BookKey, Book>,
}

/// Maps as lists of entries: JSON has no objects with structured keys.
mod entries {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(super) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// The identity of a budget in one window.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct BookKey {
    budget: BudgetKey,
    window: WindowId,
}

/// The identity of a process in the fleet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct ProcessKey {
    gateway: String,
    epoch: Epoch,
}

/// A budget in one window.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Book {
    row: BudgetRow,
    /// The end of the window.
    end: Option<Timestamp>,
    #[serde(with = "entries")]
    accounts: BTreeMap<ProcessKey, Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    row: AccountRow,
    /// The process of the account. Its own epoch differs after the ledger closed an account.
    process: Epoch,
}

/// The answer to a report, and the recalls that it causes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The answer.
    pub answer: Answer,
    /// The recalls, by gateway.
    pub recalls: BTreeMap<String, Recall>,
}

impl MemoryLedger {
    /// Creates a ledger without accounts.
    pub fn new(limits: OfflineLimits, now: Timestamp) -> Self {
        Self {
            limits,
            generation: Generation::first(now),
            processes: BTreeMap::new(),
            books: BTreeMap::new(),
        }
    }

    /// Merges a report and grants what it requests. `rule` finds the budgets in force.
    pub fn report(
        &mut self,
        gateway: &str,
        report: &Report,
        rule: impl Fn(&BudgetKey) -> Option<BudgetRule>,
        now: Timestamp,
    ) -> Result<Reply, LedgerError> {
        if report.generation > self.generation.number {
            self.start_generation(report.generation, now)?;
        }
        let process = |epoch| ProcessKey { gateway: gateway.to_owned(), epoch };
        // The end of a process is reported by its successor.
        if !report.ended.contains(&report.process) {
            let own = self.processes.entry(process(report.process)).or_default();
            *own = own.contacted(now);
        }
        let processes: Vec<_> = self.processes.values().copied().collect();
        self.generation = self.generation.recover(&processes, self.limits.offline_for, now);
        let mut recalls = BTreeMap::new();
        let mut accounts = Vec::with_capacity(report.accounts.len());
        for account in &report.accounts {
            let key = process(account.epoch);
            let rule = rule(&account.budget);
            let result = self.post(&key, report.process, account, rule.as_ref(), now, &mut recalls);
            accounts.push(account.answered(result));
        }
        // The gateway repeats a report with an invalid account.
        if AccountAnswer::all_processed(&accounts) {
            for ended in &report.ended {
                self.processes.entry(process(*ended)).or_default().is_ended = true;
                self.close_unused(gateway, *ended, report)?;
            }
            for epoch in &report.complete {
                if let Some(row) = self.processes.get_mut(&process(*epoch)) {
                    *row = row.completed(report.generation, self.generation.number);
                }
            }
        }
        let (generation, offline_for) = (self.generation.number, self.limits.offline_for);
        // The only gateway is the owner of this ledger.
        let generation_proof = Vec::new();
        let answer = Answer { generation, generation_proof, owner: None, offline_for, accounts };
        Ok(Reply { answer, recalls })
    }

    /// The row of a budget in a window.
    pub fn budget(&self, budget: &BudgetKey, window: &WindowId) -> Option<BudgetRow> {
        let key = BookKey { budget: budget.clone(), window: window.clone() };
        Some(self.books.get(&key)?.row)
    }

    /// Closes an account whose gateway is gone, at its reported spending. Returns the reclaimed rights.
    pub fn reclaim(
        &mut self,
        gateway: &str,
        account: &AccountKey,
        now: Timestamp,
    ) -> Result<Amount, ReclaimError> {
        let AccountKey { budget, window, epoch } = account.clone();
        let book = self.books.get_mut(&BookKey { budget, window }).ok_or(ReclaimError::Unknown)?;
        let key = ProcessKey { gateway: gateway.to_owned(), epoch };
        let entry = book.accounts.get_mut(&key).ok_or(ReclaimError::Unknown)?;
        let process = ProcessKey { epoch: entry.process, ..key };
        let last_contact = self.processes.get(&process).copied().unwrap_or_default().last_contact;
        let changed = reclaim(&book.row, &entry.row, last_contact, self.limits, now)?;
        let reclaimed = changed.budget.reclaimed.saturating_sub(book.row.reclaimed);
        (book.row, entry.row) = (changed.budget, changed.account);
        Ok(reclaimed)
    }

    /// Forgets windows that have been over for a day, and processes without accounts that have been
    /// silent for a day.
    pub fn expire(&mut self, now: Timestamp) {
        self.books.retain(|_, book| book.end.is_none_or(|end| now.since(end) < KEPT_FOR));
        let accounts = self.books.values().flat_map(|book| &book.accounts);
        let has_account = |(key, entry): (&ProcessKey, &Entry)| ProcessKey {
            gateway: key.gateway.clone(),
            epoch: entry.process,
        };
        let used: BTreeSet<_> = accounts.map(has_account).collect();
        self.processes.retain(|key, process| {
            used.contains(key) || now.since(process.last_contact) < KEPT_FOR
        });
    }

    /// Starts a generation after a possible loss of reports. `seen`: the highest known number.
    pub fn start_generation(&mut self, seen: u64, now: Timestamp) -> Result<(), LedgerError> {
        let processes: Vec<_> = self.processes.values().copied().collect();
        // A ledger in memory has one process, which knows all its generations.
        let next = self.generation.next(seen, &processes, now, 0);
        let exhausted = || LedgerError::Rejected(format!("generation {seen} is unknown"));
        self.generation = next.ok_or_else(exhausted)?;
        Ok(())
    }

    /// Ends the recovery: an operator accepts that unreported grants may be granted again.
    pub fn end_recovery(&mut self) {
        self.generation.is_recovered = true;
    }

    /// The generation.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Closes the accounts of an ended process that its marks do not mention.
    fn close_unused(
        &mut self,
        gateway: &str,
        ended: Epoch,
        report: &Report,
    ) -> Result<(), LedgerError> {
        let is_marked = |budget: &BudgetKey, window: &WindowId, epoch: Epoch| {
            report.accounts.iter().any(|account| {
                (&account.budget, account.window.as_ref(), account.epoch)
                    == (budget, Some(window), epoch)
            })
        };
        for (BookKey { budget, window }, Book { row, accounts, .. }) in &mut self.books {
            for (key, entry) in accounts {
                let is_ended = key.gateway == gateway && entry.process == ended;
                if is_ended && !is_marked(budget, window, key.epoch) {
                    let closed = close(row, &entry.row, Totals::default());
                    let closed = closed.map_err(|e| LedgerError::Rejected(e.to_string()))?;
                    (*row, entry.row) = (closed.budget, closed.account);
                }
            }
        }
        Ok(())
    }

    /// Finds an open window, or an earlier one, whose late reports are recorded.
    fn place(
        &self,
        report: &AccountReport,
        rule: Option<&BudgetRule>,
        now: Timestamp,
    ) -> Result<Place, Rejection> {
        let id = report.window.as_ref();
        if let Some(open) = rule.and_then(|rule| rule.windows.open_at(now).ok())
            && let Some(window) = open.find(id)
        {
            let span = open.span(window, now);
            return Ok(Place { span, end: window.end, suspended: None });
        }
        let missing = match rule {
            Some(_) => Rejection::UnknownWindow,
            None => Rejection::UnknownBudget,
        };
        let Some(id) = id else { return Err(missing) };
        let key = BookKey { budget: report.budget.clone(), window: id.clone() };
        let ended = || rule?.windows.ended(id, now).map(|window| window.end);
        let known = self.books.get(&key).map(|book| book.end);
        let end = known.or_else(ended).ok_or(missing)?;
        let ends_in = end.map(|end| end.since(now));
        let span = WindowSpan { id: key.window, starts_in: Duration::ZERO, ends_in, next: None };
        Ok(Place { span, end, suspended: Some(Refusal::OutsideWindow) })
    }

    fn post(
        &mut self,
        key: &ProcessKey,
        process: Epoch,
        report: &AccountReport,
        rule: Option<&BudgetRule>,
        now: Timestamp,
        recalls: &mut BTreeMap<String, Recall>,
    ) -> Result<AccountState, Rejection> {
        let place = self.place(report, rule, now)?;
        let is_recovered = self.generation.is_recovered;
        let sender = ProcessKey { epoch: process, ..key.clone() };
        let sender = self.processes.get(&sender).copied().unwrap_or_default();
        let recovering = (!is_recovered).then_some(Refusal::Recovering);
        let suspended = sender.refusal().or(place.suspended).or(recovering);
        let limit = rule.map(|rule| rule.limit);
        let allowance = rule.map(|rule| rule.allowance).unwrap_or_default();
        let terms = Terms { limit, suspended, allowance };
        let (budget, window) = (report.budget.clone(), place.span.id.clone());
        let book = self.books.entry(BookKey { budget, window }).or_default();
        book.end = place.end;
        let known = book.accounts.get(key).map_or_else(|| sender.new_account(), |entry| entry.row);
        let posted = post(&terms, &book.row, &known, report)?;
        book.row = posted.budget;
        let new = || Entry { row: posted.account, process };
        book.accounts.entry(key.clone()).or_insert_with(new).row = posted.account;
        let limit = limit.unwrap_or_default();
        let mut state = book.row.state(limit, active(&self.processes, now));
        let mut grant = posted.grant;
        let minimum = report.want.and_then(|want| want.minimum);
        if let (Some(Refusal::Exhausted), Some(minimum)) = (grant.refusal, minimum) {
            let holdings = book.holdings(&report.budget, &place.span.id, &self.processes, now);
            let missing = minimum.saturating_sub(grant.granted);
            let is_own = |holding: &&Holding| {
                holding.gateway == key.gateway && holding.key.epoch == key.epoch
            };
            if let Some(own) = holdings.iter().find(is_own) {
                let shortage = find_shortage(&state, &holdings, own, missing);
                state.in_doubt = shortage.in_doubt;
                grant.refusal = Some(shortage.refusal());
                for holding in shortage.recall {
                    let recall = recalls.entry(holding.gateway.clone()).or_default();
                    recall.accounts.push(holding.key.clone());
                }
            }
        }
        Ok(AccountState { window: place.span, grant, budget: state })
    }
}

impl Book {
    fn holdings(
        &self,
        budget: &BudgetKey,
        window: &WindowId,
        processes: &BTreeMap<ProcessKey, ProcessRow>,
        now: Timestamp,
    ) -> Vec<Holding> {
        let holding = |(key, entry): (&ProcessKey, &Entry)| {
            let process = ProcessKey { gateway: key.gateway.clone(), epoch: entry.process };
            Holding {
                gateway: key.gateway.clone(),
                key: AccountKey {
                    budget: budget.clone(),
                    window: window.clone(),
                    epoch: key.epoch,
                },
                account: entry.row,
                is_reachable: processes.get(&process).is_some_and(|row| row.is_reachable(now)),
            }
        };
        self.accounts.iter().map(holding).collect()
    }
}

fn active(processes: &BTreeMap<ProcessKey, ProcessRow>, now: Timestamp) -> u32 {
    let count = processes.values().filter(|process| process.is_reachable(now)).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The window of a report.
struct Place {
    span: WindowSpan,
    end: Option<Timestamp>,
    suspended: Option<Refusal>,
}

#[cfg(test)]
mod tests;
