//! Execution graphs: stores the calls that gateways report once, within limits.

use std::collections::BTreeSet;

use approval::Principal;
use registry_core::Timestamp;
use sqlx::{FromRow, Postgres, QueryBuilder, Row as _, Sqlite, postgres::PgRow, sqlite::SqliteRow};

use super::{
    sql,
    transaction::{signed, unsigned},
};
use crate::store::{
    Error, OPERATION_TIMEOUT, Store,
    backend::{Backend, execute, run},
    row::row,
    sql_timestamp::SqlTimestamp,
};

/// The limits of stored calls. The oldest ones are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceLimits {
    /// Maximum calls of an account.
    pub of_account: u32,
    /// Maximum calls of all accounts.
    pub total: u32,
}

/// Calls that a gateway process reports.
#[derive(Debug, Clone)]
pub struct TraceReport {
    /// The id of the process.
    pub process: String,
    /// The calls.
    pub calls: Vec<ReportedCall>,
}

/// A finished call.
#[derive(Debug, Clone)]
pub struct ReportedCall {
    /// The number of the call in its process.
    pub number: u64,
    /// The account that started the trace, without its person.
    pub account: Principal,
    /// The id of the trace.
    pub trace_id: String,
    /// The start by the clock of the gateway.
    pub started: Timestamp,
    /// The call as a JSON object.
    pub call: String,
}

/// Selects calls.
#[derive(Debug, Clone)]
pub struct TraceQuery {
    /// The id of the trace.
    pub trace_id: String,
    /// Only calls of this account.
    pub account: Option<Principal>,
    /// Only calls after this one. `None`: from the first one on.
    pub after: Option<TraceCursor>,
    /// Maximum number of calls.
    pub limit: usize,
}

/// The place of a call in the order of starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceCursor {
    /// The start.
    pub started: Timestamp,
    /// The position among equal starts.
    pub id: i64,
}

/// A stored call.
#[derive(Debug, Clone)]
pub struct StoredCall {
    /// The place in the order.
    pub at: TraceCursor,
    /// The principal of the gateway.
    pub gateway: String,
    /// The id of its process.
    pub process: String,
    /// The number of the call in its process.
    pub number: u64,
    /// The account that started the trace.
    pub account: Principal,
    /// The call as a JSON object.
    pub call: String,
}

row!(
    /// A call.
    CallRecord {
        id: i64,
        gateway: String,
        process: String,
        number: i64,
        issuer: String,
        subject: String,
        started_at: SqlTimestamp,
        call: String,
    }
);

impl Store {
    /// Stores the calls of a gateway that are not stored yet, and deletes the oldest ones beyond the limits.
    pub async fn add_trace_calls(
        &self,
        gateway: &str,
        report: &TraceReport,
        limits: TraceLimits,
        now: Timestamp,
    ) -> Result<(), Error> {
        let backend = &self.backend;
        let adding = async {
            if report.calls.is_empty() {
                return Ok(());
            }
            insert(backend, gateway, report, now).await.map_err(|e| backend.explain(&e))?;
            // A failure in between is corrected by the repeated report.
            let accounts: BTreeSet<_> = report.calls.iter().map(|call| &call.account).collect();
            let of_account = i64::from(limits.of_account);
            for Principal { issuer, subject, .. } in accounts {
                let (issuer, subject) = (issuer.as_str(), subject.as_str());
                execute!(backend, sql::DELETE_CALLS_OF_ACCOUNT, [issuer, subject, of_account])?;
            }
            execute!(backend, sql::DELETE_OLDEST_CALLS, [i64::from(limits.total)])
        };
        self.within(OPERATION_TIMEOUT, adding).await
    }

    /// Lists calls in the order of their starts.
    pub async fn trace_calls(&self, query: &TraceQuery) -> Result<Vec<StoredCall>, Error> {
        let backend = &self.backend;
        let reading = async {
            let start = TraceCursor { started: Timestamp::EPOCH, id: 0 };
            let TraceCursor { started, id } = query.after.unwrap_or(start);
            let account = query.account.as_ref();
            let issuer = account.map_or("", |account| account.issuer.as_str());
            let subject = account.map_or("", |account| account.subject.as_str());
            let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
            let records: Result<Vec<CallRecord>, _> = run!(
                Backend(backend),
                CallRecord,
                sql::TRACE_CALLS,
                [query.trace_id.as_str(), issuer, subject, SqlTimestamp(started), id, limit],
                fetch_all
            );
            records.map_err(|e| backend.explain(&e))
        };
        let records = self.within(OPERATION_TIMEOUT, reading).await?;
        Ok(records.into_iter().map(StoredCall::from).collect())
    }

    /// Deletes calls that were reported before a time.
    pub async fn expire_trace_calls(&self, before: Timestamp) -> Result<(), Error> {
        let backend = &self.backend;
        let expiring =
            async { execute!(backend, sql::DELETE_CALLS_BEFORE, [SqlTimestamp(before)]) };
        self.within(OPERATION_TIMEOUT, expiring).await
    }
}

async fn insert(
    backend: &Backend,
    gateway: &str,
    report: &TraceReport,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    macro_rules! insert {
        ($db:ty, $of:expr) => {
            QueryBuilder::<$db>::new(sql::INSERT_CALLS)
                .push_values(&report.calls, |mut row, call| {
                    let ReportedCall { number, account, trace_id, started, call } = call;
                    row.push_bind(gateway)
                        .push_bind(report.process.as_str())
                        .push_bind(signed(*number))
                        .push_bind(account.issuer.as_str())
                        .push_bind(account.subject.as_str())
                        .push_bind(trace_id.as_str())
                        .push_bind(SqlTimestamp((*started).max(Timestamp::EPOCH)))
                        .push_bind(SqlTimestamp(now))
                        .push_bind(call.as_str());
                })
                .push(sql::INSERT_CALLS_CONFLICT)
                .build()
                // The statement depends on the number of rows, so it is not cached.
                .persistent(false)
                .execute($of.writer())
                .await
                .map(drop)
        };
    }
    match backend {
        Backend::Sqlite(store) => insert!(Sqlite, store),
        Backend::Postgres(store) => insert!(Postgres, store),
    }
}

impl From<CallRecord> for StoredCall {
    fn from(record: CallRecord) -> Self {
        let CallRecord { id, gateway, process, number, issuer, subject, started_at, call } = record;
        Self {
            at: TraceCursor { started: started_at.0, id },
            gateway,
            process,
            number: unsigned(number),
            account: Principal { issuer, subject, person: None },
            call,
        }
    }
}
