//! Budgets for operators.

use std::collections::BTreeSet;

use ledger::{
    Epoch, ProcessRow,
    account::AccountRow,
    budget::{BudgetRow, OfflineLimits, ReclaimError, reclaim},
};
use registry_core::{Amount, Timestamp};
use sqlx::{FromRow, Row as _, postgres::PgRow, sqlite::SqliteRow};

use super::{
    AccountChange, BookKey, LedgerFailure, LockedBudget, NewBudget, ProcessKey, StoredAccount, sql,
    transaction::{Failed, LedgerTransaction, columns, epoch, execute_in, unsigned},
};
use crate::store::{
    Error, NewAccessEvent, OPERATION_TIMEOUT, Store,
    backend::{Backend, run},
    row::row,
    sql_timestamp::SqlTimestamp,
};

/// A budget with its amounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedBudget {
    /// The budget and window.
    pub book: BookKey,
    /// The end of the window.
    pub end: Option<Timestamp>,
    /// The amounts.
    pub row: BudgetRow,
    /// Unspent rights of unreachable processes.
    pub in_doubt: Amount,
}

/// Selects budgets.
#[derive(Debug, Clone)]
pub struct BudgetPage {
    /// Only budgets after this one. `None`: from the first one on.
    pub after: Option<BookKey>,
    /// The name of the policy. Empty: all.
    pub policy: String,
    /// Only windows that end later.
    pub ends_after: Timestamp,
    /// Processes without a later report are unreachable.
    pub unreachable_since: Timestamp,
    /// Maximum number.
    pub limit: usize,
}

/// An account with its totals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedAccount {
    /// The principal of the gateway.
    pub gateway: String,
    /// The epoch.
    pub epoch: Epoch,
    /// The totals.
    pub row: AccountRow,
    /// The last report of its process.
    pub last_contact: Option<Timestamp>,
}

/// A change of a budget by an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerChange {
    /// The new change of the limit.
    Adjust(Amount),
    /// Rights of a gateway that were reclaimed.
    Reclaim {
        /// The principal of the gateway.
        gateway: String,
        /// The amount.
        amount: Amount,
    },
}

/// A stored change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedChange {
    /// The time, the operator and the reason.
    pub what: ChangeOrigin,
    /// The change.
    pub change: LedgerChange,
}

/// The time, the operator and the reason of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeOrigin {
    /// The time.
    pub at: Timestamp,
    /// The principal of the operator.
    pub principal: String,
    /// The reason.
    pub reason: String,
}

/// Selects the accounts to reclaim.
#[derive(Debug, Clone)]
pub struct Reclaim {
    /// The principal of the gateway.
    pub gateway: String,
    /// The epoch. `None`: all open accounts of processes that spend nothing more.
    pub epoch: Option<Epoch>,
    /// How long a silent gateway may spend.
    pub limits: OfflineLimits,
}

/// The result of a reclaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reclaimed {
    /// The unspent rights.
    pub amount: Amount,
    /// The processes of the gateway that may still spend, and keep their rights.
    pub live: Vec<Epoch>,
}

/// Rights that were not reclaimed.
#[derive(Debug, thiserror::Error)]
pub enum ReclaimFailure {
    /// The state of the accounts.
    #[error(transparent)]
    Account(#[from] ReclaimError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerFailure),
}

impl From<Error> for ReclaimFailure {
    fn from(error: Error) -> Self {
        Self::Ledger(error.into())
    }
}

row!(
    /// A budget with its key.
    ListedBudgetRecord {
        policy: String,
        budget: String,
        subject: String,
        window_id: String,
        ends_at: Option<SqlTimestamp>,
        exposed: i64,
        settled: i64,
        overshoot: i64,
        reclaimed: i64,
        adjustment: i64,
        peak_limit: i64,
        peak_allowance: i64,
        unexplained: i64,
        in_doubt: i64,
    }
);
row!(
    /// An account with the last report of its process.
    ListedAccountRecord {
        gateway: String,
        epoch: String,
        granted: i64,
        returned: i64,
        settled: i64,
        forced: i64,
        unexplained: i64,
        closed_at: Option<SqlTimestamp>,
        last_contact: Option<SqlTimestamp>,
    }
);
row!(
    /// A change by an operator.
    ChangeRecord {
        at: SqlTimestamp,
        principal: String,
        kind: String,
        gateway: String,
        amount: i64,
        reason: String,
    }
);

impl Store {
    /// Lists budgets in the order of their keys and windows.
    pub async fn list_budgets(&self, page: &BudgetPage) -> Result<Vec<ListedBudget>, Error> {
        let backend = &self.backend;
        let [policy, budget, subject, window] = page.after.as_ref().map_or([""; 4], columns);
        let since = SqlTimestamp(page.unreachable_since);
        let (wanted, ends) = (page.policy.as_str(), SqlTimestamp(page.ends_after));
        let limit = i64::try_from(page.limit).unwrap_or(i64::MAX);
        let reading = async {
            let rows: Result<Vec<ListedBudgetRecord>, _> = run!(
                Backend(backend),
                ListedBudgetRecord,
                sql::LIST_BUDGETS,
                [since, policy, budget, subject, window, wanted, ends, limit],
                fetch_all
            );
            rows.map_err(|e| backend.explain(&e))
        };
        let rows: Vec<ListedBudgetRecord> = self.within(OPERATION_TIMEOUT, reading).await?;
        Ok(rows.into_iter().map(ListedBudget::from).collect())
    }

    /// Reads one budget.
    pub async fn find_budget(
        &self,
        book: &BookKey,
        unreachable_since: Timestamp,
    ) -> Result<Option<ListedBudget>, Error> {
        let (backend, since) = (&self.backend, SqlTimestamp(unreachable_since));
        let [policy, budget, subject, window] = columns(book);
        let row: Result<Option<ListedBudgetRecord>, _> = run!(
            Backend(backend),
            ListedBudgetRecord,
            sql::GET_BUDGET,
            [since, policy, budget, subject, window],
            fetch_optional
        );
        Ok(row.map_err(|e| backend.explain(&e))?.map(ListedBudget::from))
    }

    /// The accounts of a budget in the order of gateways and epochs.
    pub async fn list_accounts(
        &self,
        book: &BookKey,
        limit: usize,
    ) -> Result<Vec<ListedAccount>, Error> {
        let (backend, limit) = (&self.backend, i64::try_from(limit).unwrap_or(i64::MAX));
        let [policy, budget, subject, window] = columns(book);
        let rows: Result<Vec<ListedAccountRecord>, _> = run!(
            Backend(backend),
            ListedAccountRecord,
            sql::LIST_ACCOUNTS,
            [policy, budget, subject, window, limit],
            fetch_all
        );
        let rows = rows.map_err(|e| backend.explain(&e))?;
        rows.into_iter().map(ListedAccount::try_from).collect()
    }

    /// The number of accounts of a budget.
    pub async fn count_accounts(&self, book: &BookKey) -> Result<u64, Error> {
        let backend = &self.backend;
        let [policy, budget, subject, window] = columns(book);
        let row: Result<(i64,), _> = run!(
            Backend(backend),
            (i64,),
            sql::COUNT_ACCOUNTS,
            [policy, budget, subject, window],
            fetch_one
        );
        Ok(unsigned(row.map_err(|e| backend.explain(&e))?.0))
    }

    /// The changes of a budget by operators, newest first.
    pub async fn list_ledger_changes(
        &self,
        book: &BookKey,
        limit: usize,
    ) -> Result<Vec<ListedChange>, Error> {
        let (backend, limit) = (&self.backend, i64::try_from(limit).unwrap_or(i64::MAX));
        let [policy, budget, subject, window] = columns(book);
        let rows: Result<Vec<ChangeRecord>, _> = run!(
            Backend(backend),
            ChangeRecord,
            sql::LIST_CHANGES,
            [policy, budget, subject, window, limit],
            fetch_all
        );
        let rows = rows.map_err(|e| backend.explain(&e))?;
        Ok(rows.into_iter().map(ListedChange::from).collect())
    }

    /// Replaces the change of a budget's limit. Creates the budget if it has no spending yet. The detail of the event is
    /// the reason.
    pub async fn adjust_budget(
        &self,
        book: &BookKey,
        end: Option<Timestamp>,
        adjustment: Amount,
        event: &NewAccessEvent,
    ) -> Result<(), LedgerFailure> {
        let adjusting = async {
            let done = adjust(&self.backend, book, end, adjustment, event).await;
            done.map_err(|failed| failed.explain(&self.backend))
        };
        self.within(OPERATION_TIMEOUT, adjusting).await
    }

    /// Closes accounts of a lost gateway at their reported spending. Without an epoch, accounts of processes that may
    /// still spend stay open, unless there are no others. The detail of the event is the reason.
    pub async fn reclaim_accounts(
        &self,
        book: &BookKey,
        wanted: &Reclaim,
        event: &NewAccessEvent,
    ) -> Result<Reclaimed, ReclaimFailure> {
        let reclaiming = async {
            let done = reclaim_all(&self.backend, book, wanted, event).await;
            done.map_err(|failed| failed.explain(&self.backend))
        };
        let done: Result<_, ReclaimError> = self.within(OPERATION_TIMEOUT, reclaiming).await?;
        Ok(done?)
    }
}

async fn adjust(
    backend: &Backend,
    book: &BookKey,
    end: Option<Timestamp>,
    adjustment: Amount,
    event: &NewAccessEvent,
) -> Result<(), Failed> {
    let mut transaction = LedgerTransaction::begin_recorded(backend).await?;
    transaction.insert_budgets(&[NewBudget { book, end }]).await?;
    // A row that another server deletes in between is an error.
    let budget = transaction.lock_budget(book).await?.ok_or(sqlx::Error::RowNotFound)?;
    let row = BudgetRow { adjustment, ..budget.row };
    transaction.update_budgets(&[LockedBudget { row, ..budget }]).await?;
    record(&mut transaction, book, &LedgerChange::Adjust(adjustment), event).await?;
    Ok(transaction.commit().await?)
}

/// The inner error leaves the ledger without changes.
async fn reclaim_all(
    backend: &Backend,
    book: &BookKey,
    wanted: &Reclaim,
    event: &NewAccessEvent,
) -> Result<Result<Reclaimed, ReclaimError>, Failed> {
    // A refused reclaim must not delay commits.
    let mut transaction = LedgerTransaction::begin(backend).await?;
    let decided = decide(&mut transaction, book, wanted, event.at).await?;
    transaction.rollback().await?;
    if let Err(refusal) = decided {
        return Ok(Err(refusal));
    }
    // The accounts can change until the second lock on the budget.
    let mut transaction = LedgerTransaction::begin_recorded(backend).await?;
    let decided = decide(&mut transaction, book, wanted, event.at).await?;
    let Decision { budget, row, accounts, live } = match decided {
        Ok(decision) => decision,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let changes = accounts.iter().map(|(key, account)| {
        let budget = budget.id;
        AccountChange { budget, key, account }
    });
    let changes: Vec<_> = changes.collect();
    transaction.upsert_accounts(&changes).await?;
    transaction.update_budgets(&[LockedBudget { row, ..budget }]).await?;
    let amount = row.reclaimed.saturating_sub(budget.row.reclaimed);
    let change = LedgerChange::Reclaim { gateway: wanted.gateway.clone(), amount };
    record(&mut transaction, book, &change, event).await?;
    transaction.commit().await?;
    Ok(Ok(Reclaimed { amount, live: live.into_iter().collect() }))
}

/// The effect of a reclaim on a locked budget.
struct Decision {
    /// The budget before the reclaim.
    budget: LockedBudget,
    /// The amounts after the reclaim.
    row: BudgetRow,
    /// The closed accounts.
    accounts: Vec<(ProcessKey, StoredAccount)>,
    /// The processes that may still spend.
    live: BTreeSet<Epoch>,
}

/// Locks the budget and decides a reclaim. Changes nothing.
async fn decide(
    transaction: &mut LedgerTransaction,
    book: &BookKey,
    wanted: &Reclaim,
    now: Timestamp,
) -> Result<Result<Decision, ReclaimError>, Failed> {
    let Some(budget) = transaction.lock_budget(book).await? else {
        return Ok(Err(ReclaimError::Unknown));
    };
    let accounts = transaction.accounts(budget.id).await?;
    let processes = transaction.processes().await?;
    let is_wanted = |key: &ProcessKey| {
        key.gateway == wanted.gateway && wanted.epoch.is_none_or(|epoch| epoch == key.epoch)
    };
    // The refusal if there is nothing to reclaim.
    let mut refusal = ReclaimError::Unknown;
    let (mut row, mut closed) = (budget.row, Vec::new());
    let (mut live, mut retry_at) = (BTreeSet::new(), None::<Timestamp>);
    for (key, account) in accounts {
        if !is_wanted(&key) {
            continue;
        }
        if account.row.is_closed && wanted.epoch.is_none() {
            refusal = ReclaimError::Closed;
            continue;
        }
        let process = ProcessKey { epoch: account.process, ..key.clone() };
        let ProcessRow { last_contact, .. } = processes.get(&process).copied().unwrap_or_default();
        match reclaim(&row, &account.row, last_contact, wanted.limits, now) {
            Ok(done) => {
                row = done.budget;
                closed.push((key, account.replaced(done.account, now)));
            }
            Err(ReclaimError::TooEarly(at)) => {
                live.insert(process.epoch);
                retry_at = Some(retry_at.map_or(at, |earliest| earliest.min(at)));
            }
            Err(error) => return Ok(Err(error)),
        }
    }
    if closed.is_empty() {
        return Ok(Err(retry_at.map_or(refusal, ReclaimError::TooEarly)));
    }
    Ok(Ok(Decision { budget, row, accounts: closed, live }))
}

async fn record(
    transaction: &mut LedgerTransaction,
    book: &BookKey,
    change: &LedgerChange,
    event: &NewAccessEvent,
) -> Result<(), sqlx::Error> {
    let [policy, budget, subject, window] = columns(book);
    let reason = event.detail.as_str();
    let (kind, gateway, amount, recorded, detail) = match change {
        LedgerChange::Adjust(amount) => {
            ("adjust", "", amount, "budget-adjusted", format!("by {amount}: {reason}"))
        }
        LedgerChange::Reclaim { gateway, amount } => {
            let detail = format!("{amount} of {gateway}: {reason}");
            ("reclaim", gateway.as_str(), amount, "budget-reclaimed", detail)
        }
    };
    let (at, principal) = (SqlTimestamp(event.at), event.principal.as_str());
    let amount = amount.as_micros();
    execute_in!(
        &mut *transaction,
        sql::INSERT_CHANGE,
        [at, principal, policy, budget, subject, window, kind, gateway, amount, reason]
    )?;
    let subject = format!("{} {window}", book.budget);
    let event = NewAccessEvent { detail, ..event.clone() };
    transaction.record(recorded, &subject, &event).await
}

impl From<ListedBudgetRecord> for ListedBudget {
    fn from(record: ListedBudgetRecord) -> Self {
        let ListedBudgetRecord { policy, budget, subject, window_id, .. } = &record;
        Self {
            book: BookKey::from_columns([policy, budget, subject, window_id]),
            end: record.ends_at.map(|SqlTimestamp(at)| at),
            row: BudgetRow {
                exposed: Amount::from_micros(record.exposed),
                settled: Amount::from_micros(record.settled),
                overshoot: Amount::from_micros(record.overshoot),
                reclaimed: Amount::from_micros(record.reclaimed),
                adjustment: Amount::from_micros(record.adjustment),
                peak_limit: Amount::from_micros(record.peak_limit),
                peak_allowance: Amount::from_micros(record.peak_allowance),
                unexplained: Amount::from_micros(record.unexplained),
            },
            in_doubt: Amount::from_micros(record.in_doubt),
        }
    }
}

impl TryFrom<ListedAccountRecord> for ListedAccount {
    type Error = Error;

    fn try_from(record: ListedAccountRecord) -> Result<Self, Error> {
        Ok(Self {
            epoch: epoch(&record.epoch)?,
            gateway: record.gateway,
            row: AccountRow {
                granted: Amount::from_micros(record.granted),
                returned: Amount::from_micros(record.returned),
                settled: Amount::from_micros(record.settled),
                forced: Amount::from_micros(record.forced),
                unexplained: Amount::from_micros(record.unexplained),
                is_closed: record.closed_at.is_some(),
            },
            last_contact: record.last_contact.map(|SqlTimestamp(at)| at),
        })
    }
}

impl From<ChangeRecord> for ListedChange {
    fn from(record: ChangeRecord) -> Self {
        let ChangeRecord { at, principal, kind, gateway, amount, reason } = record;
        let amount = Amount::from_micros(amount);
        // A constraint allows the two kinds only.
        let change = match kind.as_str() {
            "reclaim" => LedgerChange::Reclaim { gateway, amount },
            _ => LedgerChange::Adjust(amount),
        };
        Self { what: ChangeOrigin { at: at.0, principal, reason }, change }
    }
}
