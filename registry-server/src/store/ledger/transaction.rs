//! Transactions of the ledger on either database.

use std::collections::{BTreeMap, BTreeSet};

use ledger::{
    DatabaseState, Epoch, Generation, ProcessRow, account::AccountRow, budget::BudgetRow,
};
use registry_core::{Amount, Timestamp};
use sqlx::{
    FromRow, Postgres, QueryBuilder, Row as _, Sqlite, Transaction, postgres::PgRow,
    sqlite::SqliteRow,
};

use super::{
    Accounts, BookKey, LedgerFailure, LockedBudget, ProcessKey, SeenState, StoredAccount, sql,
};
use crate::store::{
    Error,
    backend::{Backend, run},
    row::{corrupt, row},
    sql_timestamp::SqlTimestamp,
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

    pub(in crate::store) async fn commit(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(SqliteLedger(of)) => of.commit().await,
            Self::Postgres(PostgresLedger(of)) => of.commit().await,
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

    /// Locks a budget. `None`: it has no row.
    pub(super) async fn lock_budget(
        &mut self,
        book: &BookKey,
    ) -> Result<Option<LockedBudget>, sqlx::Error> {
        let statement = match self {
            Self::Sqlite(_) => sql::SQLITE_LOCK_BUDGET,
            Self::Postgres(_) => sql::POSTGRES_LOCK_BUDGET,
        };
        let [policy, budget, subject, window] = columns(book);
        let row: Option<BudgetRecord> = run!(
            LedgerTransaction(self),
            BudgetRecord,
            statement,
            [policy, budget, subject, window],
            fetch_optional
        )?;
        Ok(row.map(LockedBudget::from))
    }

    /// Locks a budget. Creates it if it is missing: the insertion waits for that of another server.
    pub(super) async fn lock_or_insert_budget(
        &mut self,
        book: &BookKey,
        end: Option<Timestamp>,
    ) -> Result<LockedBudget, sqlx::Error> {
        if let Some(found) = self.lock_budget(book).await? {
            return Ok(found);
        }
        let [policy, budget, subject, window] = columns(book);
        let end = end.map(SqlTimestamp);
        execute_in!(self, sql::INSERT_BUDGET, [policy, budget, subject, window, end])?;
        // A row that another server deletes in between is an error, and the gateway repeats its report.
        self.lock_budget(book).await?.ok_or(sqlx::Error::RowNotFound)
    }

    /// Stores the amounts of a locked budget.
    pub(super) async fn update_budget(
        &mut self,
        id: i64,
        budget: &BudgetRow,
    ) -> Result<(), sqlx::Error> {
        let BudgetRow { exposed, settled, overshoot, reclaimed, adjustment, .. } = *budget;
        let BudgetRow { peak_limit, peak_allowance, unexplained, .. } = *budget;
        let [exposed, settled, overshoot, reclaimed, adjustment] =
            [exposed, settled, overshoot, reclaimed, adjustment].map(Amount::as_micros);
        let [limit, allowance, unexplained] =
            [peak_limit, peak_allowance, unexplained].map(Amount::as_micros);
        execute_in!(
            self,
            sql::UPDATE_BUDGET,
            [id, exposed, settled, overshoot, reclaimed, adjustment, limit, allowance, unexplained]
        )
    }

    /// All accounts of a budget.
    pub(super) async fn accounts(&mut self, id: i64) -> Result<Accounts, Failed> {
        let rows: Vec<AccountRecord> =
            run!(LedgerTransaction(self), AccountRecord, sql::ACCOUNTS, [id], fetch_all)?;
        accounts(rows)
    }

    /// The accounts of a budget with unspent rights.
    pub(super) async fn unspent_accounts(&mut self, id: i64) -> Result<Accounts, Failed> {
        let rows: Vec<AccountRecord> =
            run!(LedgerTransaction(self), AccountRecord, sql::UNSPENT_ACCOUNTS, [id], fetch_all)?;
        accounts(rows)
    }

    /// The accounts of a budget with these keys.
    pub(super) async fn accounts_by_key(
        &mut self,
        id: i64,
        keys: &BTreeSet<ProcessKey>,
    ) -> Result<Accounts, Failed> {
        if keys.is_empty() {
            return Ok(Accounts::new());
        }
        macro_rules! fetch {
            ($db:ty, $of:expr) => {
                QueryBuilder::<$db>::new(sql::ACCOUNTS_BY_KEY)
                    .push_values(keys, |mut row, key| {
                        row.push_bind(key.gateway.as_str()).push_bind(key.epoch.to_string());
                    })
                    .push(sql::ACCOUNTS_BY_KEY_OF_BUDGET)
                    .push_bind(id)
                    .build_query_as::<AccountRecord>()
                    // The statement depends on the number of keys, so it is not cached.
                    .persistent(false)
                    .fetch_all($of.reader())
                    .await
            };
        }
        accounts(match self {
            Self::Sqlite(of) => fetch!(Sqlite, of)?,
            Self::Postgres(of) => fetch!(Postgres, of)?,
        })
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

    /// Whether a process has ended.
    pub(super) async fn has_ended(&mut self, key: &ProcessKey) -> Result<bool, sqlx::Error> {
        let (gateway, epoch) = (key.gateway.as_str(), key.epoch.to_string());
        let row: Option<(i64,)> = run!(
            LedgerTransaction(self),
            (i64,),
            sql::ENDED_PROCESS,
            [gateway, epoch.as_str()],
            fetch_optional
        )?;
        Ok(row.is_some())
    }

    /// Stores accounts of a budget.
    pub(super) async fn upsert_accounts(
        &mut self,
        id: i64,
        accounts: &[(&ProcessKey, &StoredAccount)],
    ) -> Result<(), sqlx::Error> {
        if accounts.is_empty() {
            return Ok(());
        }
        macro_rules! upsert {
            ($db:ty, $of:expr) => {
                QueryBuilder::<$db>::new(sql::UPSERT_ACCOUNTS)
                    .push_values(accounts, |mut row, (key, account)| {
                        row.push_bind(id)
                            .push_bind(key.gateway.as_str())
                            .push_bind(key.epoch.to_string())
                            .push_bind(account.process.to_string())
                            .push_bind(account.row.granted.as_micros())
                            .push_bind(account.row.returned.as_micros())
                            .push_bind(account.row.settled.as_micros())
                            .push_bind(account.row.forced.as_micros())
                            .push_bind(account.row.unexplained.as_micros())
                            .push_bind(account.closed_at.map(SqlTimestamp));
                    })
                    .push(sql::UPSERT_ACCOUNTS_CONFLICT)
                    .build()
                    // The statement depends on the number of rows, so it is not cached.
                    .persistent(false)
                    .execute($of.reader())
                    .await
                    .map(drop)
            };
        }
        match self {
            Self::Sqlite(of) => upsert!(Sqlite, of),
            Self::Postgres(of) => upsert!(Postgres, of),
        }
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

fn accounts(rows: Vec<AccountRecord>) -> Result<Accounts, Failed> {
    let accounts: Result<_, Error> = rows.into_iter().map(account).collect();
    Ok(accounts?)
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
