//! Reports of gateways.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ledger::{
    AccountKey, AccountReport, AccountState, BudgetState, Epoch, GatewayAccount, Generation, Grant,
    ProcessRow, Refusal, Rejection, Totals, WindowSpan,
    budget::{Holding, Terms, close, find_shortage, post},
};
use registry_core::{Amount, Timestamp};
use sqlx::{FromRow, Row as _, postgres::PgRow, sqlite::SqliteRow};

use super::{
    Accounts, BookKey, BookTerms, LedgerFailure, LockedBudget, PostContext, PostRequest, Posting,
    ProcessKey, StoredAccount,
    alerts::record_crossings,
    sql,
    transaction::{Failed, LedgerTransaction, epoch, execute_in, signed},
};
use crate::store::{
    Error, OPERATION_TIMEOUT, Store,
    backend::{Backend, execute, run},
    row::row,
    sql_timestamp::SqlTimestamp,
};

row!(
    /// An open account.
    OpenAccountRecord {
        policy: String,
        budget: String,
        subject: String,
        window_id: String,
        epoch: String,
    }
);

impl Store {
    /// Merges the reports about one budget and grants what they request, in one transaction.
    pub async fn post_to_budget(
        &self,
        book: &BookKey,
        terms: &BookTerms,
        requests: &[PostRequest],
        context: PostContext,
    ) -> Result<Posting, LedgerFailure> {
        let posting = async {
            let done = post_all(&self.backend, book, terms, requests, context).await;
            done.map_err(|failed| failed.explain(&self.backend))
        };
        self.within(OPERATION_TIMEOUT, posting).await
    }

    /// Stores the time of a report of a process.
    pub async fn record_contact(
        &self,
        gateway: &str,
        process: Epoch,
        now: Timestamp,
    ) -> Result<(), Error> {
        let (epoch, now) = (process.to_string(), SqlTimestamp(now));
        let contact =
            async { execute!(&self.backend, sql::CONTACT, [gateway, epoch.as_str(), now, false]) };
        self.within(OPERATION_TIMEOUT, contact).await
    }

    /// Stores that a process has reported all its accounts in a generation.
    pub async fn complete_process(
        &self,
        gateway: &str,
        process: Epoch,
        generation: u64,
    ) -> Result<(), Error> {
        let (epoch, generation) = (process.to_string(), signed(generation));
        let complete = async {
            execute!(&self.backend, sql::COMPLETE_PROCESS, [gateway, epoch.as_str(), generation])
        };
        self.within(OPERATION_TIMEOUT, complete).await
    }

    /// Closes the accounts of an ended process that its last report does not mention, then stores its end.
    pub async fn end_process(
        &self,
        gateway: &str,
        process: Epoch,
        reported: &[AccountReport],
        now: Timestamp,
    ) -> Result<(), LedgerFailure> {
        for (book, epoch) in self.open_accounts(gateway, process, now).await? {
            let is_reported = reported.iter().any(|account| {
                (&account.budget, account.window.as_ref(), account.epoch)
                    == (&book.budget, Some(&book.window), epoch)
            });
            if !is_reported {
                let key = ProcessKey { gateway: gateway.to_owned(), epoch };
                let closing = async {
                    let done = close_unused(&self.backend, &book, &key, now).await;
                    done.map_err(|failed| failed.explain(&self.backend))
                };
                self.within(OPERATION_TIMEOUT, closing).await?;
            }
        }
        let (epoch, now) = (process.to_string(), SqlTimestamp(now));
        let ending = async {
            execute!(&self.backend, sql::END_PROCESS, [gateway, epoch.as_str(), now, true])
        };
        Ok(self.within(OPERATION_TIMEOUT, ending).await?)
    }

    async fn open_accounts(
        &self,
        gateway: &str,
        process: Epoch,
        now: Timestamp,
    ) -> Result<Vec<(BookKey, Epoch)>, Error> {
        let (backend, process, now) = (&self.backend, process.to_string(), SqlTimestamp(now));
        let rows: Result<Vec<OpenAccountRecord>, _> = run!(
            Backend(backend),
            OpenAccountRecord,
            sql::ACCOUNTS_OF_PROCESS,
            [gateway, process.as_str(), now],
            fetch_all
        );
        let rows = rows.map_err(|e| backend.explain(&e))?;
        rows.into_iter().map(|row| Ok((row.book(), epoch(&row.epoch)?))).collect()
    }
}

impl OpenAccountRecord {
    fn book(&self) -> BookKey {
        BookKey::from_columns([&self.policy, &self.budget, &self.subject, &self.window_id])
    }
}

async fn post_all(
    backend: &Backend,
    book: &BookKey,
    terms: &BookTerms,
    requests: &[PostRequest],
    context: PostContext,
) -> Result<Posting, Failed> {
    let mut transaction = LedgerTransaction::begin(backend).await?;
    let budget = match &terms.open {
        Some(open) => Some(transaction.lock_or_insert_budget(book, open.end).await?),
        None => transaction.lock_budget(book).await?,
    };
    let state = transaction.state().await?;
    if state.is_lossy(context.seen) {
        return Err(LedgerFailure::Lost.into());
    }
    let Some(budget) = budget else {
        let missing = match terms.limit {
            Some(_) => Rejection::UnknownWindow,
            None => Rejection::UnknownBudget,
        };
        let results = requests.iter().map(|_| Err(missing.clone())).collect();
        return Ok(Posting {
            seen: state.seen(),
            results,
            recalls: Vec::new(),
            overshoot: Amount::ZERO,
            claimed: Amount::ZERO,
            unexplained: Amount::ZERO,
            crossings: Vec::new(),
        });
    };
    let keys = requests.iter().map(|PostRequest { gateway, report, .. }| ProcessKey {
        gateway: gateway.to_string(),
        epoch: report.epoch,
    });
    let accounts = transaction.accounts_by_key(budget.id, &keys.collect()).await?;
    let processes = transaction.running_processes().await?;
    let generation = recovered(&mut transaction, state.generation, &processes, context).await?;
    let ended = ended_processes(&mut transaction, requests, &processes).await?;
    let rows = Rows { budget, accounts, processes, ended };
    let mut desk = Desk::new(book, terms, context.now, rows, generation);
    let mut results = Vec::with_capacity(requests.len());
    for request in requests {
        let mut result = desk.post(request);
        if let Ok(state) = &mut result
            && let Some(missing) = missing_rights(&request.report, &state.grant)
        {
            if !desk.has_others {
                desk.add_others(transaction.unspent_accounts(budget.id).await?);
            }
            desk.recall(request, missing, state);
        }
        results.push(result);
    }
    let changed: Vec<_> =
        desk.changed.iter().filter_map(|key| desk.accounts.get_key_value(key)).collect();
    transaction.upsert_accounts(budget.id, &changed).await?;
    if desk.budget.row != budget.row {
        transaction.update_budget(budget.id, &desk.budget.row).await?;
    }
    let row = desk.budget.row;
    let crossings = record_crossings(&mut transaction, &budget, &row, terms, context).await?;
    transaction.commit().await?;
    Ok(Posting {
        seen: state.seen(),
        results,
        recalls: desk.recalls,
        overshoot: row.overshoot.saturating_sub(budget.row.overshoot),
        claimed: desk.claimed,
        unexplained: desk.unexplained,
        crossings,
    })
}

/// The processes that have ended, among the senders and the epochs of reports.
async fn ended_processes(
    transaction: &mut LedgerTransaction,
    requests: &[PostRequest],
    running: &BTreeMap<ProcessKey, ProcessRow>,
) -> Result<BTreeSet<ProcessKey>, sqlx::Error> {
    let keys = requests.iter().flat_map(|PostRequest { gateway, process, report }| {
        [*process, report.epoch].map(|epoch| ProcessKey { gateway: gateway.to_string(), epoch })
    });
    let unknown: BTreeSet<_> = keys.filter(|key| !running.contains_key(key)).collect();
    let mut ended = BTreeSet::new();
    for key in unknown {
        if transaction.has_ended(&key).await? {
            ended.insert(key);
        }
    }
    Ok(ended)
}

/// Ends the recovery of a generation if its conditions are met.
async fn recovered(
    transaction: &mut LedgerTransaction,
    generation: Generation,
    processes: &BTreeMap<ProcessKey, ProcessRow>,
    context: PostContext,
) -> Result<Generation, sqlx::Error> {
    if generation.is_recovered {
        return Ok(generation);
    }
    let processes: Vec<_> = processes.values().copied().collect();
    let new = generation.recover(&processes, context.offline_for, context.now);
    if new.is_recovered {
        let number = signed(new.number);
        execute_in!(&mut *transaction, sql::SET_RECOVERED, [number, true])?;
    }
    Ok(new)
}

/// The rows of a locked budget.
struct Rows {
    budget: LockedBudget,
    /// The accounts of the reports.
    accounts: Accounts,
    /// The processes that have not ended.
    processes: BTreeMap<ProcessKey, ProcessRow>,
    /// The processes of reports that have ended.
    ended: BTreeSet<ProcessKey>,
}

/// The rows of a locked budget while reports are merged.
struct Desk<'a> {
    book: &'a BookKey,
    terms: Terms,
    span: WindowSpan,
    now: Timestamp,
    budget: LockedBudget,
    /// The accounts of the reports, and those of other gateways after `add_others`.
    accounts: Accounts,
    has_others: bool,
    processes: BTreeMap<ProcessKey, ProcessRow>,
    ended: BTreeSet<ProcessKey>,
    active: u32,
    changed: BTreeSet<ProcessKey>,
    recalls: Vec<GatewayAccount>,
    claimed: Amount,
    unexplained: Amount,
}

impl<'a> Desk<'a> {
    fn new(
        book: &'a BookKey,
        terms: &BookTerms,
        now: Timestamp,
        rows: Rows,
        generation: Generation,
    ) -> Self {
        let Rows { budget, accounts, processes, ended } = rows;
        let span = terms.open.as_ref().map(|open| open.span.clone());
        let outside = span.is_none().then_some(Refusal::OutsideWindow);
        // The rights of a rate expire soon, so that lost grants do not matter for long.
        let is_recovering = !generation.is_recovered && !book.budget.is_rate();
        let recovering = is_recovering.then_some(Refusal::Recovering);
        let past = || WindowSpan {
            id: book.window.clone(),
            starts_in: Duration::ZERO,
            ends_in: budget.end.map(|end| end.since(now)),
            next: None,
        };
        let active = processes.values().filter(|process| process.is_reachable(now)).count();
        Self {
            book,
            terms: Terms {
                limit: terms.limit,
                suspended: outside.or(recovering),
                allowance: terms.allowance,
            },
            span: span.unwrap_or_else(past),
            now,
            budget,
            accounts,
            has_others: false,
            processes,
            ended,
            active: u32::try_from(active).unwrap_or(u32::MAX),
            changed: BTreeSet::new(),
            recalls: Vec::new(),
            claimed: Amount::ZERO,
            unexplained: Amount::ZERO,
        }
    }

    fn post(&mut self, request: &PostRequest) -> Result<AccountState, Rejection> {
        let PostRequest { gateway, process, report } = request;
        let key = |epoch| ProcessKey { gateway: gateway.to_string(), epoch };
        let is_ended = self.ended.contains(&key(*process));
        let sender = self.processes.get(&key(*process)).copied();
        let sender = ProcessRow { is_ended, ..sender.unwrap_or_default() };
        let suspended = sender.refusal().or(self.terms.suspended);
        let terms = Terms { suspended, ..self.terms };
        let key = key(report.epoch);
        let known = self.accounts.get(&key).copied();
        if known.is_none() && self.ended.contains(&key) {
            return Ok(self.forgotten(report));
        }
        let row = known.map_or_else(|| sender.new_account(), |known| known.row);
        let posted = post(&terms, &self.budget.row, &row, report)?;
        let known = known.unwrap_or(StoredAccount { row, process: *process, closed_at: None });
        self.budget.row = posted.budget;
        self.claimed = self.claimed.saturating_add(posted.claimed);
        self.unexplained = self.unexplained.saturating_add(posted.unexplained);
        let is_known = self.accounts.insert(key.clone(), known.replaced(posted.account, self.now));
        if is_known.is_none() || posted.account != row {
            self.changed.insert(key);
        }
        let budget = self.state();
        Ok(AccountState { window: self.span.clone(), grant: posted.grant, budget })
    }

    /// The amounts of the budget.
    fn state(&self) -> BudgetState {
        self.budget.row.state(self.terms.limit.unwrap_or_default(), self.active)
    }

    /// Adds the other accounts with unspent rights. Those of earlier reports are newer here.
    fn add_others(&mut self, others: Accounts) {
        for (key, account) in others {
            self.accounts.entry(key).or_insert(account);
        }
        self.has_others = true;
    }

    /// Recalls the rights that a refused request needs.
    fn recall(&mut self, request: &PostRequest, missing: Amount, state: &mut AccountState) {
        let holdings = self.holdings();
        let is_own = |holding: &&Holding| {
            *holding.gateway == *request.gateway && holding.key.epoch == request.report.epoch
        };
        let Some(own) = holdings.iter().find(is_own) else { return };
        let shortage = find_shortage(&state.budget, &holdings, own, missing);
        state.budget.in_doubt = shortage.in_doubt;
        state.grant.refusal = Some(shortage.refusal());
        let recalled = shortage.recall.into_iter().map(|holding| GatewayAccount {
            gateway: holding.gateway.clone(),
            key: holding.key.clone(),
        });
        self.recalls.extend(recalled);
    }

    /// The answer about an account of an ended process that the ledger does not have: it was deleted, or never opened.
    /// The end of the process followed the final reports of all accounts with spending, so that there is nothing to
    /// charge.
    fn forgotten(&self, report: &AccountReport) -> AccountState {
        let refusal = report.want.and_then(|want| want.minimum).map(|_| Refusal::Closed);
        let granted = report.totals.granted;
        AccountState {
            window: self.span.clone(),
            grant: Grant { granted, is_closed: true, recall: false, refusal },
            budget: self.state(),
        }
    }

    fn holdings(&self) -> Vec<Holding> {
        let is_reachable = |key: ProcessKey| {
            self.processes.get(&key).is_some_and(|process| process.is_reachable(self.now))
        };
        let holding = |(key, account): (&ProcessKey, &StoredAccount)| Holding {
            gateway: key.gateway.clone(),
            key: AccountKey {
                budget: self.book.budget.clone(),
                window: self.book.window.clone(),
                epoch: key.epoch,
            },
            account: account.row,
            is_reachable: is_reachable(ProcessKey { epoch: account.process, ..key.clone() }),
        };
        self.accounts.iter().map(holding).collect()
    }
}

/// The rights that a request lacks because its budget is exhausted.
fn missing_rights(report: &AccountReport, grant: &Grant) -> Option<Amount> {
    let minimum = report.want?.minimum?;
    (grant.refusal == Some(Refusal::Exhausted)).then(|| minimum.saturating_sub(grant.granted))
}

/// Closes an account at zero spending, unless it has spent.
async fn close_unused(
    backend: &Backend,
    book: &BookKey,
    key: &ProcessKey,
    now: Timestamp,
) -> Result<(), Failed> {
    let mut transaction = LedgerTransaction::begin(backend).await?;
    let Some(budget) = transaction.lock_budget(book).await? else { return Ok(()) };
    let keys = BTreeSet::from([key.clone()]);
    let mut accounts = transaction.accounts_by_key(budget.id, &keys).await?;
    let Some(account) = accounts.remove(key) else { return Ok(()) };
    // Totals of zero are valid, and sums only shrink.
    let Ok(closed) = close(&budget.row, &account.row, Totals::default()) else { return Ok(()) };
    let account = account.replaced(closed.account, now);
    transaction.upsert_accounts(budget.id, &[(key, &account)]).await?;
    transaction.update_budget(budget.id, &closed.budget).await?;
    Ok(transaction.commit().await?)
}
