//! Alerts about the spending of budgets, and their delivery.
//!
//! The transaction of a report stores the thresholds that the spending reaches. A delivery claims an alert for some
//! time, so that other servers do not deliver it, too.

use ledger::budget::BudgetRow;
use registry_core::{Amount, Timestamp, entity::policy::Fraction};
use sqlx::{FromRow, Row as _, postgres::PgRow, sqlite::SqliteRow};
use uuid::Uuid;

use super::{
    BookKey, BookTerms, LedgerFailure, LockedBudget, PostContext, sql,
    transaction::{Failed, LedgerTransaction, columns, execute_in},
};
use crate::store::{
    Error, OPERATION_TIMEOUT, Store,
    backend::{Backend, execute, run},
    row::row,
    sql_timestamp::SqlTimestamp,
};

/// A threshold of a budget that the spending has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crossing {
    /// The fraction of the limit.
    pub threshold: Fraction,
    /// The time of the report.
    pub at: Timestamp,
    /// The spending at that time.
    pub settled: Amount,
    /// The limit at that time, with adjustments.
    pub limit: Amount,
}

/// An alert that this server delivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedAlert {
    /// The identity for receivers.
    pub id: String,
    /// The budget and window.
    pub book: BookKey,
    /// The end of the window.
    pub end: Option<Timestamp>,
    /// The threshold.
    pub crossing: Crossing,
    /// The number of attempts, with this one.
    pub attempts: u32,
}

/// An alert for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedAlert {
    /// The threshold.
    pub crossing: Crossing,
    /// The state of its delivery.
    pub delivery: AlertDelivery,
}

/// The state of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlertDelivery {
    /// The server had no webhook.
    NoWebhook,
    /// The webhook has not accepted the alert yet.
    Pending,
    /// The webhook accepted the alert at this time.
    Delivered(Timestamp),
    /// The webhook accepted no attempt.
    Failed,
}

/// The result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlertAttempt {
    /// The webhook accepted the alert at this time.
    Delivered(Timestamp),
    /// The next attempt is at this time.
    Retry(Timestamp),
    /// There is no further attempt.
    GivenUp,
}

row!(
    /// An alert to deliver.
    DueAlertRecord {
        id: String,
        threshold: i64,
        crossed_at: SqlTimestamp,
        settled: i64,
        effective_limit: i64,
        attempts: i64,
        policy: String,
        budget: String,
        subject: String,
        window_id: String,
        ends_at: Option<SqlTimestamp>,
    }
);
row!(
    /// An alert with the state of its delivery.
    ListedAlertRecord {
        threshold: i64,
        crossed_at: SqlTimestamp,
        settled: i64,
        effective_limit: i64,
        attempts: i64,
        next_attempt_at: Option<SqlTimestamp>,
        delivered_at: Option<SqlTimestamp>,
    }
);

impl Store {
    /// The time of the next attempt to deliver an alert.
    pub async fn next_alert_attempt(&self) -> Result<Option<Timestamp>, Error> {
        let backend = &self.backend;
        let row: Result<Option<(SqlTimestamp,)>, _> =
            run!(Backend(backend), (SqlTimestamp,), sql::NEXT_ALERT_ATTEMPT, [], fetch_optional);
        Ok(row.map_err(|e| backend.explain(&e))?.map(|(SqlTimestamp(at),)| at))
    }

    /// Claims alerts that are due. After `until`, another server may claim those without a result.
    pub async fn claim_alerts(
        &self,
        now: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<ClaimedAlert>, LedgerFailure> {
        let claiming = async {
            let done = claim(&self.backend, now, until, limit).await;
            done.map_err(|failed| failed.explain(&self.backend))
        };
        self.within(OPERATION_TIMEOUT, claiming).await
    }

    /// Stores the result of an attempt.
    pub async fn record_alert_attempt(&self, id: &str, result: AlertAttempt) -> Result<(), Error> {
        let (next, delivered) = match result {
            AlertAttempt::Delivered(at) => (None, Some(SqlTimestamp(at))),
            AlertAttempt::Retry(at) => (Some(SqlTimestamp(at)), None),
            AlertAttempt::GivenUp => (None, None),
        };
        let recording =
            async { execute!(&self.backend, sql::RECORD_ALERT_ATTEMPT, [id, next, delivered]) };
        self.within(OPERATION_TIMEOUT, recording).await
    }

    /// The alerts of a budget in the order of their thresholds.
    pub async fn list_alerts(
        &self,
        book: &BookKey,
        limit: usize,
    ) -> Result<Vec<ListedAlert>, Error> {
        let (backend, limit) = (&self.backend, i64::try_from(limit).unwrap_or(i64::MAX));
        let [policy, budget, subject, window] = columns(book);
        let rows: Result<Vec<ListedAlertRecord>, _> = run!(
            Backend(backend),
            ListedAlertRecord,
            sql::LIST_ALERTS,
            [policy, budget, subject, window, limit],
            fetch_all
        );
        let rows = rows.map_err(|e| backend.explain(&e))?;
        Ok(rows.into_iter().map(ListedAlert::from).collect())
    }
}

/// Stores the thresholds that the spending of a locked budget has reached since the last report.
pub(super) async fn record_crossings(
    transaction: &mut LedgerTransaction,
    budget: &LockedBudget,
    row: &BudgetRow,
    terms: &BookTerms,
    context: PostContext,
) -> Result<Vec<Crossing>, sqlx::Error> {
    let Some(limit) = terms.limit else { return Ok(Vec::new()) };
    let is_new = |threshold: &&Fraction| {
        i64::from(threshold.ten_thousandths()) > budget.alerted
            && row.has_reached(**threshold, limit)
    };
    let crossing = |threshold: &Fraction| Crossing {
        threshold: *threshold,
        at: context.now,
        settled: row.settled,
        limit: row.effective_limit(limit),
    };
    let crossings: Vec<_> = terms.alert_at.iter().filter(is_new).map(crossing).collect();
    let Some(highest) = crossings.iter().map(|crossing| crossing.threshold).max() else {
        return Ok(crossings);
    };
    for Crossing { threshold, at, settled, limit } in &crossings {
        let id = Uuid::now_v7().to_string();
        let (id, threshold) = (id.as_str(), i64::from(threshold.ten_thousandths()));
        let (settled, limit) = (settled.as_micros(), limit.as_micros());
        let (at, next) = (SqlTimestamp(*at), context.has_webhook.then_some(SqlTimestamp(*at)));
        let budget = budget.id;
        execute_in!(
            &mut *transaction,
            sql::INSERT_ALERT,
            [id, budget, threshold, at, settled, limit, next]
        )?;
    }
    let (id, highest) = (budget.id, i64::from(highest.ten_thousandths()));
    execute_in!(&mut *transaction, sql::SET_ALERTED, [id, highest])?;
    Ok(crossings)
}

async fn claim(
    backend: &Backend,
    now: Timestamp,
    until: Timestamp,
    limit: usize,
) -> Result<Vec<ClaimedAlert>, Failed> {
    let mut transaction = LedgerTransaction::begin(backend).await?;
    let statement = match &transaction {
        LedgerTransaction::Sqlite(_) => sql::SQLITE_DUE_ALERTS,
        LedgerTransaction::Postgres(_) => sql::POSTGRES_DUE_ALERTS,
    };
    let (now, until) = (SqlTimestamp(now), SqlTimestamp(until));
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows: Vec<DueAlertRecord> = run!(
        LedgerTransaction(&mut transaction),
        DueAlertRecord,
        statement,
        [now, limit],
        fetch_all
    )?;
    for DueAlertRecord { id, .. } in &rows {
        let id = id.as_str();
        execute_in!(&mut transaction, sql::CLAIM_ALERT, [id, until])?;
    }
    transaction.commit().await?;
    Ok(rows.into_iter().map(ClaimedAlert::from).collect())
}

fn fraction(ten_thousandths: i64) -> Fraction {
    Fraction::from_ten_thousandths(u32::try_from(ten_thousandths).unwrap_or(u32::MAX))
}

impl From<DueAlertRecord> for ClaimedAlert {
    fn from(record: DueAlertRecord) -> Self {
        let DueAlertRecord { policy, budget, subject, window_id, .. } = &record;
        let book = BookKey::from_columns([policy, budget, subject, window_id]);
        Self {
            id: record.id,
            book,
            end: record.ends_at.map(|SqlTimestamp(at)| at),
            crossing: Crossing {
                threshold: fraction(record.threshold),
                at: record.crossed_at.0,
                settled: Amount::from_micros(record.settled),
                limit: Amount::from_micros(record.effective_limit),
            },
            // The record precedes the claim.
            attempts: u32::try_from(record.attempts).unwrap_or(u32::MAX).saturating_add(1),
        }
    }
}

impl From<ListedAlertRecord> for ListedAlert {
    fn from(record: ListedAlertRecord) -> Self {
        let delivery = match (record.delivered_at, record.next_attempt_at) {
            (Some(SqlTimestamp(at)), _) => AlertDelivery::Delivered(at),
            (None, Some(_)) => AlertDelivery::Pending,
            (None, None) if record.attempts > 0 => AlertDelivery::Failed,
            (None, None) => AlertDelivery::NoWebhook,
        };
        Self {
            crossing: Crossing {
                threshold: fraction(record.threshold),
                at: record.crossed_at.0,
                settled: Amount::from_micros(record.settled),
                limit: Amount::from_micros(record.effective_limit),
            },
            delivery,
        }
    }
}
