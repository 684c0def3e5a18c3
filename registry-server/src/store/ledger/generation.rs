//! Generations of the ledger, and the retention of its rows.

use std::{collections::BTreeSet, time::Duration};

use ledger::{Generation, ProcessRow};
use registry_core::{Secret, Timestamp};
use sqlx::{FromRow, Row as _, postgres::PgRow, sqlite::SqliteRow};
use uuid::Uuid;

use super::{
    LedgerFailure, SeenState, sql,
    transaction::{Failed, LedgerTransaction, ProcessRecord, process, signed, unsigned},
};
use crate::store::{
    Error, NewAccessEvent, OPERATION_TIMEOUT, Store,
    backend::{Backend, execute, run},
    row::row,
    sql_timestamp::SqlTimestamp,
    tokens::{record, transact},
};

row!(
    /// The generation.
    GenerationRecord {
        generation: i64,
        since: SqlTimestamp,
        known_until: SqlTimestamp,
        is_recovered: bool,
    }
);

/// The limits of the age of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerAges {
    /// Windows that ended, accounts that closed, and processes that reported before this time are deleted.
    pub before: Timestamp,
    /// The same for windows of rates.
    pub rates_before: Timestamp,
    /// The same for processes that have ended.
    pub ended_before: Timestamp,
}

/// Why a generation may have to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenerationCause<'a> {
    /// The server starts, or a transaction found an older state than this one. A generation starts only if the
    /// database may lack transactions.
    Check(Option<SeenState>),
    /// A gateway knows this generation. A generation starts if it is newer than the stored one.
    Reported(u64),
    /// An operator restored a backup.
    Restored(&'a NewAccessEvent),
}

const STARTED: &str = "ledger-recovery-started";
const ENDED: &str = "ledger-recovery-ended";

impl Store {
    /// Starts a generation if its cause requires one. Returns the state of the ledger.
    pub async fn start_generation(
        &self,
        cause: GenerationCause<'_>,
        now: Timestamp,
    ) -> Result<SeenState, LedgerFailure> {
        let starting = async {
            let done = start(&self.backend, cause, now).await;
            done.map_err(|failed| failed.explain(&self.backend))
        };
        self.within(OPERATION_TIMEOUT, starting).await
    }

    /// The time of the database. `None` on SQLite: the database has the clock of its server.
    pub async fn database_time(&self) -> Result<Option<Timestamp>, Error> {
        let Backend::Postgres(store) = &self.backend else { return Ok(None) };
        let reading = async {
            let read: Result<(SqlTimestamp,), _> =
                sqlx::query_as(sql::POSTGRES_TIME).fetch_one(store.reader()).await;
            let (SqlTimestamp(time),) = read.map_err(|e| store.explain(&e))?;
            Ok(Some(time))
        };
        self.within(OPERATION_TIMEOUT, reading).await
    }

    /// The current generation.
    pub async fn ledger_generation(&self) -> Result<Generation, Error> {
        let backend = &self.backend;
        let row: Result<GenerationRecord, _> =
            run!(Backend(backend), GenerationRecord, sql::READ_GENERATION, [], fetch_one);
        let row = row.map_err(|e| backend.explain(&e))?;
        Ok(Generation {
            number: unsigned(row.generation),
            since: row.since.0,
            known_until: row.known_until.0,
            is_recovered: row.is_recovered,
        })
    }

    /// The gateways that must report before the recovery of a generation ends.
    pub async fn awaited_gateways(
        &self,
        generation: &Generation,
        offline_for: Duration,
        now: Timestamp,
    ) -> Result<BTreeSet<String>, Error> {
        let backend = &self.backend;
        let rows: Result<Vec<ProcessRecord>, _> =
            run!(Backend(backend), ProcessRecord, sql::RUNNING_PROCESSES, [], fetch_all);
        let mut gateways = BTreeSet::new();
        for record in rows.map_err(|e| backend.explain(&e))? {
            let (key, row) = process(record)?;
            if generation.awaits(&row, offline_for, now) {
                gateways.insert(key.gateway);
            }
        }
        Ok(gateways)
    }

    /// The key of the proofs of generations. A backup has the same one.
    pub async fn ledger_secret(&self) -> Result<Secret, Error> {
        let backend = &self.backend;
        let row: Result<(String,), _> =
            run!(Backend(backend), (String,), sql::READ_SECRET, [], fetch_one);
        let (secret,) = row.map_err(|e| backend.explain(&e))?;
        Ok(Secret::from(secret))
    }

    /// The currency of all amounts. Stores `ours` while there is no amount.
    pub async fn ledger_currency(&self, ours: &str) -> Result<String, Error> {
        let backend = &self.backend;
        let storing = async { execute!(backend, sql::SET_CURRENCY, [ours]) };
        self.within(OPERATION_TIMEOUT, storing).await?;
        let row: Result<(Option<String>,), _> =
            run!(Backend(backend), (Option<String>,), sql::READ_CURRENCY, [], fetch_one);
        let (stored,) = row.map_err(|e| backend.explain(&e))?;
        Ok(stored.unwrap_or_else(|| ours.to_owned()))
    }

    /// Ends the recovery of the current generation.
    pub async fn end_recovery(&self, event: &NewAccessEvent) -> Result<Generation, Error> {
        let generation = self.ledger_generation().await?;
        self.within(OPERATION_TIMEOUT, end(&self.backend, generation.number, event)).await?;
        Ok(Generation { is_recovered: true, ..generation })
    }

    /// Deletes old windows, closed accounts, and silent processes.
    pub async fn expire_ledger(&self, ages: LedgerAges) -> Result<(), Error> {
        let LedgerAges { before, rates_before, ended_before } = ages;
        let (backend, before) = (&self.backend, SqlTimestamp(before));
        let [rates_before, ended_before] = [rates_before, ended_before].map(SqlTimestamp);
        let (rates, budgets) = match backend {
            Backend::Sqlite(_) => {
                (sql::SQLITE_DELETE_ENDED_RATES, sql::SQLITE_DELETE_ENDED_BUDGETS)
            }
            Backend::Postgres(_) => {
                (sql::POSTGRES_DELETE_ENDED_RATES, sql::POSTGRES_DELETE_ENDED_BUDGETS)
            }
        };
        let expiring = async {
            execute!(backend, rates, [rates_before])?;
            execute!(backend, budgets, [before])?;
            execute!(backend, sql::DELETE_CLOSED_ACCOUNTS, [before])?;
            execute!(backend, sql::DELETE_PROCESSES, [before, ended_before])
        };
        self.within(OPERATION_TIMEOUT, expiring).await
    }
}

async fn end(backend: &Backend, generation: u64, event: &NewAccessEvent) -> Result<(), Error> {
    let (number, subject) = (signed(generation), generation.to_string());
    transact!(backend, tx => {
        sqlx::query(sql::SET_RECOVERED).bind(number).bind(true).execute(&mut *tx).await?;
        record!(tx, event, ENDED, subject.as_str());
    })
}

async fn start(
    backend: &Backend,
    cause: GenerationCause<'_>,
    now: Timestamp,
) -> Result<SeenState, Failed> {
    let mut transaction = match cause {
        GenerationCause::Restored(_) => LedgerTransaction::begin_recorded(backend).await?,
        GenerationCause::Check(_) | GenerationCause::Reported(_) => {
            LedgerTransaction::begin(backend).await?
        }
    };
    let state = transaction.lock_state().await?;
    let number = state.generation.number;
    let (is_needed, known) = match cause {
        GenerationCause::Check(None) => (state.is_lossy(state.seen()), number),
        GenerationCause::Check(Some(seen)) => (state.is_lossy(seen), seen.generation),
        GenerationCause::Reported(reported) => (reported > number, reported),
        GenerationCause::Restored(_) => (true, number),
    };
    let generation = if is_needed {
        let processes: Vec<ProcessRow> = transaction.processes().await?.into_values().collect();
        // The first field of a random UUID has no fixed bits.
        let random = Uuid::new_v4().as_fields().0;
        let next = state.generation.next(known, &processes, now, random);
        next.ok_or(LedgerFailure::UnknownGeneration(known))?
    } else {
        state.generation
    };
    if is_needed || state.is_new() {
        transaction.set_generation(&generation, &state.database).await?;
    }
    if let GenerationCause::Restored(event) = cause {
        transaction.record(STARTED, &generation.number.to_string(), event).await?;
    }
    transaction.commit().await?;
    Ok(SeenState { generation: generation.number, ..state.seen() })
}
