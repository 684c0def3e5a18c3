//! Reports of gateways.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
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
    AccountChange, AccountId, Accounts, BookKey, BookPosting, BookReports, LedgerFailure,
    LockedBudget, NewBudget, PostContext, PostRequest, Posting, ProcessKey, StoredAccount,
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
    /// Merges the reports about several budgets and grants what they request, in one transaction.
    pub async fn post_reports(
        &self,
        books: &[BookReports<'_>],
        context: PostContext,
    ) -> Result<Posting, LedgerFailure> {
        let posting = async {
            let done = post_all(&self.backend, books, context).await;
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

    /// Stores that a process has reported all its accounts in a generation. Returns whether it is stored: the database
    /// may lack the process, or have another generation.
    pub async fn complete_process(
        &self,
        gateway: &str,
        process: Epoch,
        generation: u64,
    ) -> Result<bool, Error> {
        let (backend, epoch, generation) = (&self.backend, process.to_string(), signed(generation));
        let complete = async {
            execute!(@count backend, sql::COMPLETE_PROCESS, [gateway, epoch.as_str(), generation])
        };
        Ok(self.within(OPERATION_TIMEOUT, complete).await? > 0)
    }

    /// The time of the last report of a process. `None`: it has ended, or is unknown.
    pub async fn last_contact(
        &self,
        gateway: &str,
        process: Epoch,
    ) -> Result<Option<Timestamp>, Error> {
        let (backend, epoch) = (&self.backend, process.to_string());
        let row: Result<Option<(SqlTimestamp,)>, _> = run!(
            Backend(backend),
            (SqlTimestamp,),
            sql::LAST_CONTACT,
            [gateway, epoch.as_str()],
            fetch_optional
        );
        let row = row.map_err(|e| backend.explain(&e))?;
        Ok(row.map(|(SqlTimestamp(at),)| at))
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

    /// The open accounts of a process, without those of rates whose rights have expired.
    pub async fn open_accounts(
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
    books: &[BookReports<'_>],
    context: PostContext,
) -> Result<Posting, Failed> {
    let LockedBooks { mut transaction, budgets } = lock_or_insert(backend, books).await?;
    let state = transaction.state().await?;
    if state.is_lossy(context.seen) {
        return Err(LedgerFailure::Lost.into());
    }
    let mut accounts = transaction.accounts_by_id(&account_ids(books, &budgets)).await?;
    let running = transaction.running_processes().await?;
    let generation = recovered(&mut transaction, state.generation, &running, context).await?;
    let ended = transaction.ended_processes(&unknown_processes(books, &running)).await?;
    let processes = Processes::new(running, ended, context.now);
    let desks = books.iter().filter_map(|reports| {
        let budget = *budgets.get(reports.book)?;
        let accounts = accounts.remove(&budget.id).unwrap_or_default();
        Some(Desk::new(reports, budget, accounts, &processes, generation, context.now))
    });
    let desks: Vec<_> = desks.collect();
    let desks = post_desks(&mut transaction, desks).await?;
    let accounts: Vec<_> = desks.iter().flat_map(Desk::changes).collect();
    transaction.upsert_accounts(&accounts).await?;
    let is_changed = |desk: &&Desk<'_>| desk.budget.row != desk.locked.row;
    let budgets: Vec<_> = desks.iter().filter(is_changed).map(|desk| desk.budget).collect();
    transaction.update_budgets(&budgets).await?;
    let mut postings = HashMap::new();
    for desk in desks {
        let Desk { reports, locked, budget, mut posting, .. } = desk;
        let (row, terms) = (&budget.row, &reports.terms);
        posting.crossings =
            record_crossings(&mut transaction, &locked, row, terms, context).await?;
        posting.overshoot = row.overshoot.saturating_sub(locked.row.overshoot);
        postings.insert(reports.book, posting);
    }
    transaction.commit().await?;
    let postings = books.iter().map(|reports| {
        let posting = postings.remove(reports.book);
        posting.unwrap_or_else(|| rejected(reports))
    });
    Ok(Posting { seen: state.seen(), books: postings.collect() })
}

/// A transaction with its locked budgets.
struct LockedBooks {
    transaction: LedgerTransaction,
    budgets: BTreeMap<BookKey, LockedBudget>,
}

/// Locks budgets in a new transaction. Creates missing ones with a window of their rule.
async fn lock_or_insert(
    backend: &Backend,
    books: &[BookReports<'_>],
) -> Result<LockedBooks, sqlx::Error> {
    let keys: Vec<_> = books.iter().map(|reports| reports.book).collect();
    let mut transaction = LedgerTransaction::begin(backend).await?;
    let budgets = transaction.lock_budgets(&keys).await?;
    let missing = books.iter().filter(|reports| !budgets.contains_key(reports.book));
    let missing = missing.filter_map(|reports| {
        let end = match &reports.terms.open {
            Some(open) => open.end,
            None => Some(reports.terms.ended?),
        };
        Some(NewBudget { book: reports.book, end })
    });
    let missing: Vec<_> = missing.collect();
    if missing.is_empty() {
        return Ok(LockedBooks { transaction, budgets });
    }
    // An insertion must not wait while this server has locks.
    transaction.rollback().await?;
    let mut transaction = LedgerTransaction::begin(backend).await?;
    transaction.insert_budgets(&missing).await?;
    let budgets = transaction.lock_budgets(&keys).await?;
    Ok(LockedBooks { transaction, budgets })
}

/// The accounts of the reports about locked budgets.
fn account_ids(
    books: &[BookReports<'_>],
    budgets: &BTreeMap<BookKey, LockedBudget>,
) -> BTreeSet<AccountId> {
    let mut ids = BTreeSet::new();
    for BookReports { book, requests, .. } in books {
        let Some(budget) = budgets.get(*book) else { continue };
        ids.extend(requests.iter().map(|PostRequest { gateway, report, .. }| AccountId {
            budget: budget.id,
            key: ProcessKey { gateway: gateway.to_string(), epoch: report.epoch },
        }));
    }
    ids
}

/// The senders and the epochs of reports that are not those of running processes.
fn unknown_processes(
    books: &[BookReports<'_>],
    running: &BTreeMap<ProcessKey, ProcessRow>,
) -> BTreeSet<ProcessKey> {
    let requests = books.iter().flat_map(|reports| reports.requests);
    let keys = requests.flat_map(|PostRequest { gateway, process, report }| {
        [*process, report.epoch].map(|epoch| ProcessKey { gateway: gateway.to_string(), epoch })
    });
    keys.filter(|key| !running.contains_key(key)).collect()
}

/// The results of reports about a budget without a row.
fn rejected(reports: &BookReports<'_>) -> BookPosting {
    let missing = match reports.terms.limit {
        Some(_) => Rejection::UnknownWindow,
        None => Rejection::UnknownBudget,
    };
    let results = reports.requests.iter().map(|_| Err(missing.clone())).collect();
    BookPosting { results, ..BookPosting::default() }
}

/// Posts the reports of all desks. Budgets with a refused request are posted again with all accounts that have unspent
/// rights, which one statement reads for all of them.
async fn post_desks<'a>(
    transaction: &mut LedgerTransaction,
    desks: Vec<Desk<'a>>,
) -> Result<Vec<Desk<'a>>, Failed> {
    let mut posted: Vec<_> = desks.iter().map(|desk| desk.clone().posted()).collect();
    let short = posted.iter().filter(|desk| desk.is_short);
    let short: Vec<_> = short.map(|desk| desk.budget.id).collect();
    let mut others = transaction.unspent_accounts(&short).await?;
    for (posted, desk) in posted.iter_mut().zip(desks) {
        if posted.is_short {
            let others = others.remove(&desk.budget.id).unwrap_or_default();
            *posted = desk.with_others(others).posted();
        }
    }
    Ok(posted)
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

/// The processes of gateways.
struct Processes {
    /// Those that have not ended.
    running: BTreeMap<ProcessKey, ProcessRow>,
    /// Those of reports that have ended.
    ended: BTreeSet<ProcessKey>,
    /// The number of reachable ones.
    active: u32,
}

impl Processes {
    fn new(
        running: BTreeMap<ProcessKey, ProcessRow>,
        ended: BTreeSet<ProcessKey>,
        now: Timestamp,
    ) -> Self {
        let active = running.values().filter(|process| process.is_reachable(now)).count();
        Self { running, ended, active: u32::try_from(active).unwrap_or(u32::MAX) }
    }
}

/// A locked budget while reports are merged.
#[derive(Clone)]
struct Desk<'a> {
    reports: &'a BookReports<'a>,
    processes: &'a Processes,
    terms: Terms,
    span: WindowSpan,
    now: Timestamp,
    /// The budget before the reports.
    locked: LockedBudget,
    budget: LockedBudget,
    /// The accounts of the reports, and those of other gateways after `with_others`.
    accounts: Accounts,
    changed: BTreeSet<ProcessKey>,
    posting: BookPosting,
    /// Whether a request was refused because the budget is exhausted.
    is_short: bool,
}

impl<'a> Desk<'a> {
    fn new(
        reports: &'a BookReports<'a>,
        budget: LockedBudget,
        accounts: Accounts,
        processes: &'a Processes,
        generation: Generation,
        now: Timestamp,
    ) -> Self {
        let BookReports { book, terms, .. } = reports;
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
        Self {
            reports,
            processes,
            terms: Terms {
                limit: terms.limit,
                suspended: outside.or(recovering),
                allowance: terms.allowance,
            },
            span: span.unwrap_or_else(past),
            now,
            locked: budget,
            budget,
            accounts,
            changed: BTreeSet::new(),
            posting: BookPosting::default(),
            is_short: false,
        }
    }

    /// Adds the other accounts with unspent rights, before the reports are posted.
    fn with_others(mut self, others: Accounts) -> Self {
        for (key, account) in others {
            self.accounts.entry(key).or_insert(account);
        }
        self
    }

    /// Posts all reports.
    fn posted(mut self) -> Self {
        for request in self.reports.requests {
            let mut result = self.post(request);
            if let Ok(state) = &mut result
                && let Some(missing) = missing_rights(&request.report, &state.grant)
            {
                self.is_short = true;
                self.recall(request, missing, state);
            }
            self.posting.results.push(result);
        }
        self
    }

    /// The accounts to store.
    fn changes(&self) -> impl Iterator<Item = AccountChange<'_>> {
        let budget = self.budget.id;
        let changed = self.changed.iter().filter_map(|key| self.accounts.get_key_value(key));
        changed.map(move |(key, account)| AccountChange { budget, key, account })
    }

    fn post(&mut self, request: &PostRequest) -> Result<AccountState, Rejection> {
        let PostRequest { gateway, process, report } = request;
        let key = |epoch| ProcessKey { gateway: gateway.to_string(), epoch };
        let is_ended = self.processes.ended.contains(&key(*process));
        let sender = self.processes.running.get(&key(*process)).copied();
        let sender = ProcessRow { is_ended, ..sender.unwrap_or_default() };
        let suspended = sender.refusal().or(self.terms.suspended);
        let terms = Terms { suspended, ..self.terms };
        let key = key(report.epoch);
        let known = self.accounts.get(&key).copied();
        if known.is_none() && self.processes.ended.contains(&key) {
            return Ok(self.forgotten(report));
        }
        let row = known.map_or_else(|| sender.new_account(), |known| known.row);
        let posted = post(&terms, &self.budget.row, &row, report)?;
        let known = known.unwrap_or(StoredAccount { row, process: *process, closed_at: None });
        self.budget.row = posted.budget;
        let BookPosting { claimed, unexplained, .. } = &mut self.posting;
        *claimed = claimed.saturating_add(posted.claimed);
        *unexplained = unexplained.saturating_add(posted.unexplained);
        let is_known = self.accounts.insert(key.clone(), known.replaced(posted.account, self.now));
        if is_known.is_none() || posted.account != row {
            self.changed.insert(key);
        }
        let budget = self.state();
        Ok(AccountState { window: self.span.clone(), grant: posted.grant, budget })
    }

    /// The amounts of the budget.
    fn state(&self) -> BudgetState {
        self.budget.row.state(self.terms.limit.unwrap_or_default(), self.processes.active)
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
        self.posting.recalls.extend(recalled);
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
            let process = self.processes.running.get(&key);
            process.is_some_and(|process| process.is_reachable(self.now))
        };
        let holding = |(key, account): (&ProcessKey, &StoredAccount)| Holding {
            gateway: key.gateway.clone(),
            key: AccountKey {
                budget: self.reports.book.budget.clone(),
                window: self.reports.book.window.clone(),
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
    let id = AccountId { budget: budget.id, key: key.clone() };
    let mut accounts = transaction.accounts_by_id(&BTreeSet::from([id])).await?;
    let account = accounts.remove(&budget.id).and_then(|mut accounts| accounts.remove(key));
    let Some(account) = account else { return Ok(()) };
    // Totals of zero are valid, and sums only shrink.
    let Ok(closed) = close(&budget.row, &account.row, Totals::default()) else { return Ok(()) };
    let account = account.replaced(closed.account, now);
    let change = AccountChange { budget: budget.id, key, account: &account };
    transaction.upsert_accounts(&[change]).await?;
    transaction.update_budgets(&[LockedBudget { row: closed.budget, ..budget }]).await?;
    Ok(transaction.commit().await?)
}
