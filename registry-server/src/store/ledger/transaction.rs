//! Transactions of the ledger on either database.

use std::collections::{BTreeMap, BTreeSet};

use ledger::{
    DatabaseState, Epoch, Generation, ProcessRow, account::AccountRow, budget::BudgetRow,
};
use registry_core::Amount;
use sqlx::{
    FromRow, Postgres, QueryBuilder, Row as _, Sqlite, Transaction,
    postgres::{PgBindIterExt as _, PgRow},
    sqlite::SqliteRow,
};

use super::{
    AccountChange, AccountId, Accounts, BookKey, LedgerFailure, LockedBudget, NewBudget,
    ProcessKey, SeenState, StoredAccount, sql,
};
use crate::store::{
    Error, NewAccessEvent,
    backend::{Backend, run},
    row::{corrupt, row},
    sql_timestamp::SqlTimestamp,
    tokens::record,
};

row!(
    /// The generation, with the identity of the database.
    StateRow {
        generation: i64,
        since: SqlTimestamp,
        known_until: SqlTimestamp,
        is_recovered: bool,
        seen_system: Option<String>,
        seen_timeline: i64,
        system: String,
        timeline: i64,
        counter: i64,
    }
);
row!(
    /// A process.
    ProcessRecord {
        gateway: String,
        epoch: String,
        last_contact: SqlTimestamp,
        generation: i64,
        is_ended: bool,
    }
);
row!(
    /// A budget in one window.
    BudgetRecord {
        policy: String,
        budget: String,
        subject: String,
        window_id: String,
        id: i64,
        ends_at: Option<SqlTimestamp>,
        exposed: i64,
        settled: i64,
        overshoot: i64,
        reclaimed: i64,
        adjustment: i64,
        peak_limit: i64,
        peak_allowance: i64,
        unexplained: i64,
        alerted: i64,
    }
);
row!(
    /// An account.
    AccountRecord {
        budget_id: i64,
        gateway: String,
        epoch: String,
        process: String,
        granted: i64,
        returned: i64,
        settled: i64,
        forced: i64,
        unexplained: i64,
        closed_at: Option<SqlTimestamp>,
    }
);

/// The state of the ledger in a transaction.
#[derive(Debug, Clone)]
pub(in crate::store) struct LedgerState {
    pub(in crate::store) generation: Generation,
    /// The identity of the database when the generation started. `None`: the ledger was never used.
    known: Option<DatabaseState>,
    /// The identity of the database now.
    pub(super) database: DatabaseState,
}

impl LedgerState {
    /// Whether the ledger was never used.
    pub(super) fn is_new(&self) -> bool {
        self.known.is_none()
    }

    /// Whether the database may lack transactions. `seen` was read before the transaction, so that the counter has
    /// risen since, unless an older database was restored.
    pub(in crate::store) fn is_lossy(&self, seen: SeenState) -> bool {
        let Some(known) = &self.known else { return false };
        let is_same = self.generation.number == seen.generation;
        let counter = if is_same { seen.counter } else { self.database.counter };
        let known = DatabaseState { counter, ..known.clone() };
        self.generation.number < seen.generation || self.database.may_lack(&known)
    }

    pub(super) fn seen(&self) -> SeenState {
        SeenState { generation: self.generation.number, counter: self.database.counter }
    }
}

/// A failure in a transaction.
pub(super) enum Failed {
    Driver(sqlx::Error),
    Ledger(LedgerFailure),
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self::Driver(error)
    }
}

impl From<LedgerFailure> for Failed {
    fn from(failure: LedgerFailure) -> Self {
        Self::Ledger(failure)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Ledger(error.into())
    }
}

impl Failed {
    /// Names the database in an error of its driver.
    pub(super) fn explain(self, backend: &Backend) -> LedgerFailure {
        match self {
            Self::Driver(error) => backend.explain(&error).into(),
            Self::Ledger(failure) => failure,
        }
    }
}

/// A transaction on either database.
pub(in crate::store) enum LedgerTransaction {
    Sqlite(SqliteLedger),
    Postgres(PostgresLedger),
}

pub(in crate::store) struct SqliteLedger(Transaction<'static, Sqlite>);
pub(in crate::store) struct PostgresLedger(Transaction<'static, Postgres>);

impl SqliteLedger {
    pub(in crate::store) fn reader(&mut self) -> &mut sqlx::SqliteConnection {
        &mut self.0
    }
}

impl PostgresLedger {
    pub(in crate::store) fn reader(&mut self) -> &mut sqlx::PgConnection {
        &mut self.0
    }
}

/// Runs one statement of a transaction on either database.
macro_rules! execute_in {
    ($transaction:expr, $sql:expr, [$($bind:expr),* $(,)?]) => {
        match $transaction {
            LedgerTransaction::Sqlite(of) => {
                sqlx::query($sql)$(.bind($bind))*.execute(of.reader()).await.map(drop)
            }
            LedgerTransaction::Postgres(of) => {
                sqlx::query($sql)$(.bind($bind))*.execute(of.reader()).await.map(drop)
            }
        }
    };
}
pub(in crate::store) use execute_in;

/// Runs one statement over rows on either database. There must be a row.
macro_rules! fetch_over {
    ($transaction:expr, $statement:expr, $record:ty, $rows:expr,
     |$row:ident| [$($column:expr),* $(,)?]) => {
        match $transaction {
            LedgerTransaction::Sqlite(of) => {
                QueryBuilder::<Sqlite>::new($statement.before)
                    .push_values($rows, |mut values, $row| {
                        $(values.push_bind($column);)*
                    })
                    .push($statement.after)
                    .build_query_as::<$record>()
                    // The statement depends on the number of rows, so it is not cached.
                    .persistent(false)
                    .fetch_all(of.reader())
                    .await
            }
            LedgerTransaction::Postgres(of) => {
                sqlx::query_as::<Postgres, $record>($statement.postgres)
                    $(.bind($rows.iter().map(|$row| $column).bind_iter()))*
                    .fetch_all(of.reader())
                    .await
            }
        }
    };
}

impl LedgerTransaction {
    pub(in crate::store) async fn begin(backend: &Backend) -> Result<Self, sqlx::Error> {
        match backend {
            Backend::Sqlite(store) => {
                store.begin_write().await.map(|of| Self::Sqlite(SqliteLedger(of)))
            }
            Backend::Postgres(store) => {
                store.begin_ledger().await.map(|of| Self::Postgres(PostgresLedger(of)))
            }
        }
    }

    /// Starts a transaction that can store an access event: it excludes other writers of events.
    pub(in crate::store) async fn begin_recorded(backend: &Backend) -> Result<Self, sqlx::Error> {
        match backend {
            Backend::Sqlite(store) => {
                store.begin_write().await.map(|of| Self::Sqlite(SqliteLedger(of)))
            }
            Backend::Postgres(store) => {
                store.begin_recorded().await.map(|of| Self::Postgres(PostgresLedger(of)))
            }
        }
    }

    /// Stores an access event. The transaction must be of `begin_recorded`.
    pub(in crate::store) async fn record(
        &mut self,
        kind: &str,
        subject: &str,
        event: &NewAccessEvent,
    ) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(of) => {
                let tx = of.reader();
                record!(tx, event, kind, subject);
            }
            Self::Postgres(of) => {
                let tx = of.reader();
                record!(tx, event, kind, subject);
            }
        }
        Ok(())
    }

    pub(in crate::store) async fn commit(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(SqliteLedger(of)) => of.commit().await,
            Self::Postgres(PostgresLedger(of)) => of.commit().await,
        }
    }

    pub(super) async fn rollback(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(SqliteLedger(of)) => of.rollback().await,
            Self::Postgres(PostgresLedger(of)) => of.rollback().await,
        }
    }

    /// Reads the generation, and increments the counter.
    pub(in crate::store) async fn state(&mut self) -> Result<LedgerState, sqlx::Error> {
        let statement = match self {
            Self::Sqlite(_) => sql::SQLITE_STATE,
            Self::Postgres(_) => sql::POSTGRES_STATE,
        };
        let row = run!(LedgerTransaction(self), StateRow, statement, [], fetch_one)?;
        let timeline = unsigned(row.seen_timeline);
        let known = row.seen_system.map(|system| DatabaseState { system, timeline, counter: 0 });
        Ok(LedgerState {
            generation: Generation {
                number: unsigned(row.generation),
                since: row.since.0,
                known_until: row.known_until.0,
                is_recovered: row.is_recovered,
            },
            known,
            database: DatabaseState {
                system: row.system,
                timeline: unsigned(row.timeline),
                counter: unsigned(row.counter),
            },
        })
    }

    /// Locks the generation. Waits for other servers that start one.
    pub(super) async fn lock_state(&mut self) -> Result<LedgerState, sqlx::Error> {
        if let Self::Postgres(of) = self {
            sqlx::query(sql::POSTGRES_LOCK_STATE).execute(of.reader()).await?;
        }
        self.state().await
    }

    /// Stores a generation of this database.
    pub(super) async fn set_generation(
        &mut self,
        generation: &Generation,
        database: &DatabaseState,
    ) -> Result<(), sqlx::Error> {
        let Generation { number, since, known_until, is_recovered } = *generation;
        let (number, timeline) = (signed(number), signed(database.timeline));
        let (since, known_until) = (SqlTimestamp(since), SqlTimestamp(known_until));
        match self {
            Self::Sqlite(of) => {
                let set = sqlx::query(sql::SQLITE_SET_GENERATION).bind(number).bind(since);
                let set = set.bind(known_until).bind(is_recovered);
                set.execute(of.reader()).await.map(drop)
            }
            Self::Postgres(of) => {
                let set = sqlx::query(sql::POSTGRES_SET_GENERATION).bind(number).bind(since);
                let set = set.bind(known_until).bind(is_recovered);
                let set = set.bind(database.system.as_str()).bind(timeline);
                set.execute(of.reader()).await.map(drop)
            }
        }
    }

    /// Locks budgets. Those without a row are missing in the result.
    pub(super) async fn lock_budgets(
        &mut self,
        books: &[&BookKey],
    ) -> Result<BTreeMap<BookKey, LockedBudget>, sqlx::Error> {
        if books.is_empty() {
            return Ok(BTreeMap::new());
        }
        let rows: Vec<BudgetRecord> =
            fetch_over!(self, sql::LOCK_BUDGETS, BudgetRecord, books, |book| [
                &*book.budget.policy,
                &*book.budget.budget,
                &*book.budget.subject,
                book.window.as_str(),
            ])?;
        Ok(rows.into_iter().map(|row| (row.book(), LockedBudget::from(row))).collect())
    }

    /// Locks a budget. `None`: it has no row.
    pub(super) async fn lock_budget(
        &mut self,
        book: &BookKey,
    ) -> Result<Option<LockedBudget>, sqlx::Error> {
        Ok(self.lock_budgets(&[book]).await?.remove(book))
    }

    /// Creates budgets that do not exist. An insertion waits for that of another server, which may wait for locked
    /// budgets. It therefore precedes all locks of the transaction.
    pub(super) async fn insert_budgets(
        &mut self,
        budgets: &[NewBudget<'_>],
    ) -> Result<(), sqlx::Error> {
        if budgets.is_empty() {
            return Ok(());
        }
        let _: Vec<()> = fetch_over!(self, sql::INSERT_BUDGETS, (), budgets, |new| [
            &*new.book.budget.policy,
            &*new.book.budget.budget,
            &*new.book.budget.subject,
            new.book.window.as_str(),
            new.end.map(SqlTimestamp),
        ])?;
        Ok(())
    }

    /// Stores the amounts of locked budgets.
    pub(super) async fn update_budgets(
        &mut self,
        budgets: &[LockedBudget],
    ) -> Result<(), sqlx::Error> {
        if budgets.is_empty() {
            return Ok(());
        }
        let _: Vec<()> = fetch_over!(self, sql::UPDATE_BUDGETS, (), budgets, |budget| [
            budget.id,
            budget.row.exposed.as_micros(),
            budget.row.settled.as_micros(),
            budget.row.overshoot.as_micros(),
            budget.row.reclaimed.as_micros(),
            budget.row.adjustment.as_micros(),
            budget.row.peak_limit.as_micros(),
            budget.row.peak_allowance.as_micros(),
            budget.row.unexplained.as_micros(),
        ])?;
        Ok(())
    }

    /// All accounts of a budget.
    pub(super) async fn accounts(&mut self, id: i64) -> Result<Accounts, Failed> {
        let rows: Vec<AccountRecord> =
            run!(LedgerTransaction(self), AccountRecord, sql::ACCOUNTS, [id], fetch_all)?;
        Ok(accounts(rows)?.remove(&id).unwrap_or_default())
    }

    /// The accounts with unspent rights of budgets, by budget.
    pub(super) async fn unspent_accounts(
        &mut self,
        ids: &[i64],
    ) -> Result<BTreeMap<i64, Accounts>, Failed> {
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let rows: Vec<AccountRecord> =
            fetch_over!(self, sql::UNSPENT_ACCOUNTS, AccountRecord, ids, |id| [*id])?;
        accounts(rows)
    }

    /// The accounts with these identities, by budget.
    pub(super) async fn accounts_by_id(
        &mut self,
        ids: &BTreeSet<AccountId>,
    ) -> Result<BTreeMap<i64, Accounts>, Failed> {
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let rows: Vec<AccountRecord> =
            fetch_over!(self, sql::ACCOUNTS_BY_ID, AccountRecord, ids, |id| [
                id.budget,
                id.key.gateway.as_str(),
                id.key.epoch.to_string(),
            ])?;
        accounts(rows)
    }

    /// All processes.
    pub(super) async fn processes(&mut self) -> Result<BTreeMap<ProcessKey, ProcessRow>, Failed> {
        let rows: Vec<ProcessRecord> =
            run!(LedgerTransaction(self), ProcessRecord, sql::PROCESSES, [], fetch_all)?;
        let processes: Result<_, Error> = rows.into_iter().map(process).collect();
        Ok(processes?)
    }

    /// The processes that have not ended. Those that have ended are many.
    pub(super) async fn running_processes(
        &mut self,
    ) -> Result<BTreeMap<ProcessKey, ProcessRow>, Failed> {
        let rows: Vec<ProcessRecord> =
            run!(LedgerTransaction(self), ProcessRecord, sql::RUNNING_PROCESSES, [], fetch_all)?;
        let processes: Result<_, Error> = rows.into_iter().map(process).collect();
        Ok(processes?)
    }

    /// The processes that have ended, among these.
    pub(super) async fn ended_processes(
        &mut self,
        keys: &BTreeSet<ProcessKey>,
    ) -> Result<BTreeSet<ProcessKey>, Failed> {
        if keys.is_empty() {
            return Ok(BTreeSet::new());
        }
        let rows: Vec<(String, String)> =
            fetch_over!(self, sql::ENDED_PROCESSES, (String, String), keys, |key| [
                key.gateway.as_str(),
                key.epoch.to_string(),
            ])?;
        let key = |(gateway, text): (String, String)| -> Result<_, Error> {
            Ok(ProcessKey { epoch: epoch(&text)?, gateway })
        };
        let ended: Result<_, Error> = rows.into_iter().map(key).collect();
        Ok(ended?)
    }

    /// Stores accounts of locked budgets.
    pub(super) async fn upsert_accounts(
        &mut self,
        changes: &[AccountChange<'_>],
    ) -> Result<(), sqlx::Error> {
        if changes.is_empty() {
            return Ok(());
        }
        let _: Vec<()> = fetch_over!(self, sql::UPSERT_ACCOUNTS, (), changes, |change| [
            change.budget,
            change.key.gateway.as_str(),
            change.key.epoch.to_string(),
            change.account.process.to_string(),
            change.account.row.granted.as_micros(),
            change.account.row.returned.as_micros(),
            change.account.row.settled.as_micros(),
            change.account.row.forced.as_micros(),
            change.account.row.unexplained.as_micros(),
            change.account.closed_at.map(SqlTimestamp),
        ])?;
        Ok(())
    }
}

impl BudgetRecord {
    fn book(&self) -> BookKey {
        BookKey::from_columns([&self.policy, &self.budget, &self.subject, &self.window_id])
    }
}

impl From<BudgetRecord> for LockedBudget {
    fn from(record: BudgetRecord) -> Self {
        Self {
            id: record.id,
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
            alerted: record.alerted,
        }
    }
}

/// The columns of the key of a budget.
pub(super) fn columns(book: &BookKey) -> [&str; 4] {
    let BookKey { budget, window } = book;
    [&budget.policy, &budget.budget, &budget.subject, window.as_str()]
}

/// Groups accounts by budget.
fn accounts(rows: Vec<AccountRecord>) -> Result<BTreeMap<i64, Accounts>, Failed> {
    let mut accounts = BTreeMap::<i64, Accounts>::new();
    for row in rows {
        let budget = row.budget_id;
        let (key, account) = account(row)?;
        accounts.entry(budget).or_default().insert(key, account);
    }
    Ok(accounts)
}

fn account(record: AccountRecord) -> Result<(ProcessKey, StoredAccount), Error> {
    let closed_at = record.closed_at.map(|SqlTimestamp(at)| at);
    let row = AccountRow {
        granted: Amount::from_micros(record.granted),
        returned: Amount::from_micros(record.returned),
        settled: Amount::from_micros(record.settled),
        forced: Amount::from_micros(record.forced),
        unexplained: Amount::from_micros(record.unexplained),
        is_closed: closed_at.is_some(),
    };
    let process = epoch(&record.process)?;
    let key = ProcessKey { epoch: epoch(&record.epoch)?, gateway: record.gateway };
    Ok((key, StoredAccount { row, process, closed_at }))
}

pub(super) fn process(record: ProcessRecord) -> Result<(ProcessKey, ProcessRow), Error> {
    let row = ProcessRow {
        last_contact: record.last_contact.0,
        generation: unsigned(record.generation),
        is_ended: record.is_ended,
    };
    Ok((ProcessKey { epoch: epoch(&record.epoch)?, gateway: record.gateway }, row))
}

pub(super) fn epoch(text: &str) -> Result<Epoch, Error> {
    text.parse().map_err(|e| corrupt(format!("the epoch {text:?} of the ledger"), e))
}

/// Reads a number that a constraint keeps from being negative.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
