//! Usage of tools: adds reports of gateways once, merges old minutes into hours, and sums usage for operators.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ledger::usage::{UsageCaller, UsageKey, UsageReport, UsageTotals};
use registry_core::{Amount, Kind, Selector, Timestamp};
use serde::{Deserialize, Serialize};
use sqlx::{
    Database, Encode, FromRow, Postgres, QueryBuilder, Row as _, Sqlite, Type, postgres::PgRow,
    sqlite::SqliteRow,
};

use super::{
    sql,
    transaction::{LedgerTransaction, signed, unsigned},
};
use crate::store::{
    Error, OPERATION_TIMEOUT, Store,
    backend::{Backend, execute, run},
    row::row,
    sql_timestamp::SqlTimestamp,
};

const MINUTES_PER_HOUR: i64 = 60;
const MILLIS_PER_MINUTE: i64 = 60_000;

/// The limits of the age of usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageAges {
    /// Usage before this time is stored by hour.
    pub hours_before: Timestamp,
    /// Usage before this time is deleted.
    pub deleted_before: Timestamp,
}

/// A property of usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UsageProperty {
    /// The principal of the gateway.
    Gateway,
    /// The agent.
    Agent,
    /// The team that owned the agent.
    Team,
    /// The owner of the credential.
    Principal,
    /// The tool.
    Tool,
    /// The verdict.
    Verdict,
}

/// The length of intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageInterval {
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day in UTC.
    Day,
}

/// Selects usage, and the properties to sum it by.
#[derive(Debug, Clone, Default)]
pub struct UsageQuery {
    /// The properties to sum by.
    pub group_by: BTreeSet<UsageProperty>,
    /// Also sums by interval.
    pub interval: Option<UsageInterval>,
    /// Only minutes that start at or after this time.
    pub start: Option<Timestamp>,
    /// Only minutes that start before this time.
    pub end: Option<Timestamp>,
    /// Only usage with these values.
    pub filters: BTreeMap<UsageProperty, String>,
    /// Only usage of tools or agents with these names. Empty: all.
    pub scopes: Arc<[Selector]>,
    /// Only groups after this one. `None`: from the first one on.
    pub after: Option<UsageGroupKey>,
    /// Maximum number of groups.
    pub limit: usize,
}

/// The identity of a group. Properties that the query does not sum by are empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UsageGroupKey {
    /// Minutes from 1970-01-01T00:00:00Z to the start of the interval. 0: the query has none.
    pub minute: i64,
    /// The principal of the gateway.
    pub gateway: String,
    /// The agent.
    pub agent: String,
    /// The team that owned the agent.
    pub team: String,
    /// The owner of the credential.
    pub principal: String,
    /// The tool.
    pub tool: String,
    /// The verdict.
    pub verdict: String,
}

/// Sums over the calls of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageGroup {
    /// The group.
    pub key: UsageGroupKey,
    /// The sums.
    pub totals: UsageTotals,
}

row!(
    /// Sums over the calls of a group.
    GroupRecord {
        interval_start: i64,
        gateway: String,
        agent: String,
        team: String,
        principal: String,
        tool: String,
        verdict: String,
        calls: i64,
        cost: i64,
        duration_micros: i64,
        request_bytes: i64,
        response_bytes: i64,
        findings: i64,
    }
);

impl UsageProperty {
    /// All properties, in the order of groups.
    pub const ALL: [Self; 6] =
        [Self::Gateway, Self::Agent, Self::Team, Self::Principal, Self::Tool, Self::Verdict];

    fn column(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Agent => "agent",
            Self::Team => "team",
            Self::Principal => "principal",
            Self::Tool => "tool",
            Self::Verdict => "verdict",
        }
    }
}

impl UsageInterval {
    fn minutes(self) -> i64 {
        match self {
            Self::Minute => 1,
            Self::Hour => MINUTES_PER_HOUR,
            Self::Day => 24 * MINUTES_PER_HOUR,
        }
    }
}

impl UsageGroupKey {
    /// The start of the interval.
    pub fn start(&self) -> Timestamp {
        Timestamp::from_millis(self.minute.saturating_mul(MILLIS_PER_MINUTE))
    }
}

impl Store {
    /// Adds a report of a gateway, unless it was added before.
    pub async fn add_usage(
        &self,
        gateway: &str,
        report: &UsageReport,
        hours_before: Timestamp,
        now: Timestamp,
    ) -> Result<(), Error> {
        let backend = &self.backend;
        let adding = async {
            let added = add(backend, gateway, report, hours_before, now).await;
            added.map_err(|e| backend.explain(&e))
        };
        self.within(OPERATION_TIMEOUT, adding).await
    }

    /// Sums usage by group, in the order of the groups.
    pub async fn query_usage(&self, query: &UsageQuery) -> Result<Vec<UsageGroup>, Error> {
        let backend = &self.backend;
        let reading = async {
            let groups = groups(backend, query).await;
            groups.map_err(|e| backend.explain(&e))
        };
        let records = self.within(OPERATION_TIMEOUT, reading).await?;
        Ok(records.into_iter().map(UsageGroup::from).collect())
    }

    /// Deletes old usage, and merges minutes into hours.
    pub async fn expire_usage(&self, ages: UsageAges) -> Result<(), Error> {
        let backend = &self.backend;
        let UsageAges { hours_before, deleted_before } = ages;
        let first = minute_of(deleted_before);
        // The number of a report is kept while gateways may repeat the report.
        let before = SqlTimestamp(deleted_before.min(hours_before));
        let expiring = async {
            execute!(backend, sql::DELETE_USAGE, [first])?;
            execute!(backend, sql::DELETE_USAGE_REPORTS, [before])?;
            let merged = merge_minutes(backend, hour_of(minute_of(hours_before))).await;
            merged.map_err(|e| backend.explain(&e))
        };
        self.within(OPERATION_TIMEOUT, expiring).await
    }
}

/// Adds the rows of a report in one transaction with its number.
async fn add(
    backend: &Backend,
    gateway: &str,
    report: &UsageReport,
    hours_before: Timestamp,
    now: Timestamp,
) -> Result<(), sqlx::Error> {
    let rows = stored_rows(report, hours_before, now);
    let (process, sequence) = (report.process.to_string(), signed(report.sequence));
    let mut transaction = LedgerTransaction::begin(backend).await?;
    let is_new: Option<(i64,)> = run!(
        LedgerTransaction(&mut transaction),
        (i64,),
        sql::RECORD_USAGE_REPORT,
        [gateway, process.as_str(), sequence, SqlTimestamp(now)],
        fetch_optional
    )?;
    if is_new.is_none() {
        return Ok(());
    }
    insert(&mut transaction, gateway, &rows).await?;
    transaction.commit().await
}

/// The rows of a report by minute, or by hour if they are old. Their order prevents deadlocks between two gateways with
/// one name.
fn stored_rows(
    report: &UsageReport,
    hours_before: Timestamp,
    now: Timestamp,
) -> BTreeMap<(i64, &UsageKey), UsageTotals> {
    let mut rows = BTreeMap::<_, UsageTotals>::new();
    for row in &report.rows {
        let age = i64::try_from(row.age.as_millis()).unwrap_or(i64::MAX);
        let minute = minute_of(Timestamp::from_millis(now.as_millis().saturating_sub(age).max(0)));
        let is_old = minute < minute_of(hours_before);
        let minute = if is_old { hour_of(minute) } else { minute };
        rows.entry((minute, &row.key)).or_default().add(&row.totals);
    }
    rows
}

async fn insert(
    transaction: &mut LedgerTransaction,
    gateway: &str,
    rows: &BTreeMap<(i64, &UsageKey), UsageTotals>,
) -> Result<(), sqlx::Error> {
    if rows.is_empty() {
        return Ok(());
    }
    macro_rules! insert {
        ($db:ty, $of:expr) => {
            QueryBuilder::<$db>::new(sql::INSERT_USAGE)
                .push_values(rows, |mut row, ((minute, key), totals)| {
                    let UsageKey { caller, tool, verdict } = key;
                    let UsageCaller { agent, team, principal } = caller;
                    row.push_bind(*minute).push_bind(gateway);
                    for name in [agent, team, principal, tool, verdict] {
                        row.push_bind(&**name);
                    }
                    let micros = i64::try_from(totals.duration.as_micros()).unwrap_or(i64::MAX);
                    row.push_bind(signed(totals.calls))
                        .push_bind(totals.cost.as_micros())
                        .push_bind(micros)
                        .push_bind(signed(totals.request_bytes))
                        .push_bind(signed(totals.response_bytes))
                        .push_bind(signed(totals.findings));
                })
                .push(sql::INSERT_USAGE_CONFLICT)
                .build()
                // The statement depends on the number of rows, so it is not cached.
                .persistent(false)
                .execute($of.reader())
                .await
                .map(drop)
        };
    }
    match transaction {
        LedgerTransaction::Sqlite(of) => insert!(Sqlite, of),
        LedgerTransaction::Postgres(of) => insert!(Postgres, of),
    }
}

/// Merges the minutes before the start of an hour into their hours.
async fn merge_minutes(backend: &Backend, before: i64) -> Result<(), sqlx::Error> {
    let mut transaction = LedgerTransaction::begin(backend).await?;
    match &mut transaction {
        LedgerTransaction::Postgres(of) => {
            // One statement, so that each row is merged by one server.
            sqlx::query(sql::POSTGRES_MERGE_MINUTES).bind(before).execute(of.reader()).await?;
        }
        LedgerTransaction::Sqlite(of) => {
            for statement in [sql::SQLITE_MERGE_MINUTES, sql::SQLITE_DELETE_MINUTES] {
                sqlx::query(statement).bind(before).execute(of.reader()).await?;
            }
        }
    }
    transaction.commit().await
}

async fn groups(backend: &Backend, query: &UsageQuery) -> Result<Vec<GroupRecord>, sqlx::Error> {
    macro_rules! fetch {
        ($db:ty, $store:expr, $sums:expr) => {{
            let mut statement = QueryBuilder::<$db>::new("SELECT ");
            push_query(&mut statement, query, $sums);
            // The statement depends on the query, so it is not cached.
            let select = statement.build_query_as::<GroupRecord>().persistent(false);
            select.fetch_all($store.reader()).await
        }};
    }
    match backend {
        Backend::Sqlite(store) => fetch!(Sqlite, store, sql::SQLITE_USAGE_SUMS),
        Backend::Postgres(store) => fetch!(Postgres, store, sql::POSTGRES_USAGE_SUMS),
    }
}

fn push_query<DB>(statement: &mut QueryBuilder<DB>, query: &UsageQuery, sums: &str)
where
    DB: Database,
    for<'q> String: Encode<'q, DB> + Type<DB>,
    for<'q> i64: Encode<'q, DB> + Type<DB>,
{
    const KEY: &str = "interval_start, gateway, agent, team, principal, tool, verdict";
    const SUMMED: &str = "calls, cost, duration_micros, request_bytes, response_bytes, findings";
    statement.push(format_args!("{KEY}, {sums} FROM (SELECT "));
    match query.interval.map(UsageInterval::minutes) {
        Some(minutes) => statement.push(format_args!("minute / {minutes} * {minutes}")),
        None => statement.push("CAST(0 AS bigint)"),
    };
    statement.push(" AS interval_start");
    for property in UsageProperty::ALL {
        let column = property.column();
        let is_wanted = query.group_by.contains(&property);
        let value = if is_wanted { column } else { "CAST('' AS text)" };
        statement.push(format_args!(", {value} AS {column}"));
    }
    statement.push(format_args!(", {SUMMED} FROM usage_totals WHERE minute >= "));
    statement.push_bind(query.start.map_or(0, first_minute_from));
    statement.push(" AND minute < ").push_bind(query.end.map_or(i64::MAX, first_minute_from));
    for (property, value) in &query.filters {
        statement.push(format_args!(" AND {} = ", property.column())).push_bind(value.clone());
    }
    push_scopes(statement, &query.scopes);
    statement.push(") AS selected");
    if let Some(after) = &query.after {
        let UsageGroupKey { minute, gateway, agent, team, principal, tool, verdict } = after;
        statement.push(format_args!(" WHERE ({KEY}) > (")).push_bind(*minute);
        for value in [gateway, agent, team, principal, tool, verdict] {
            statement.push(", ").push_bind(value.clone());
        }
        statement.push(")");
    }
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    statement.push(format_args!(" GROUP BY {KEY} ORDER BY {KEY} LIMIT ")).push_bind(limit);
}

/// Restricts a query to tools and agents with the names of scopes.
fn push_scopes<DB>(statement: &mut QueryBuilder<DB>, scopes: &[Selector])
where
    DB: Database,
    for<'q> String: Encode<'q, DB> + Type<DB>,
{
    if scopes.is_empty() || scopes.contains(&Selector::Everything) {
        return;
    }
    // Nothing matches without further conditions.
    statement.push(" AND (1 = 0");
    for scope in scopes {
        match scope {
            Selector::Namespace(prefix) => {
                // `com.example.` also includes `com.example/`.
                let domain = prefix.strip_suffix('.').map(|domain| format!("{domain}/"));
                for prefix in domain.into_iter().chain([prefix.to_string()]) {
                    for column in ["tool", "agent"] {
                        let length = prefix.chars().count();
                        statement.push(format_args!(" OR substr(lower({column}), 1, {length}) = "));
                        statement.push_bind(prefix.clone());
                        if column == "tool" && prefix.ends_with('/') {
                            // `AGENT/SKILL` of an agent without a namespace is not in one.
                            statement.push(" AND tool LIKE '%/%/%'");
                        }
                    }
                }
            }
            Selector::Name(Kind::Tool, name) => {
                statement.push(" OR tool = ").push_bind(name.as_str().to_owned());
            }
            Selector::Name(Kind::Agent, name) => {
                statement.push(" OR agent = ").push_bind(name.as_str().to_owned());
            }
            Selector::Name(..) | Selector::Everything => {}
        }
    }
    statement.push(")");
}

/// Minutes from 1970-01-01T00:00:00Z to the minute of a time.
fn minute_of(time: Timestamp) -> i64 {
    time.as_millis().div_euclid(MILLIS_PER_MINUTE)
}

/// The first minute that starts at or after a time.
fn first_minute_from(time: Timestamp) -> i64 {
    let millis = time.as_millis();
    minute_of(time) + i64::from(millis.rem_euclid(MILLIS_PER_MINUTE) != 0)
}

/// The first minute of an hour.
fn hour_of(minute: i64) -> i64 {
    minute.div_euclid(MINUTES_PER_HOUR) * MINUTES_PER_HOUR
}

impl From<GroupRecord> for UsageGroup {
    fn from(record: GroupRecord) -> Self {
        Self {
            key: UsageGroupKey {
                minute: record.interval_start,
                gateway: record.gateway,
                agent: record.agent,
                team: record.team,
                principal: record.principal,
                tool: record.tool,
                verdict: record.verdict,
            },
            totals: UsageTotals {
                calls: unsigned(record.calls),
                cost: Amount::from_micros(record.cost),
                duration: Duration::from_micros(unsigned(record.duration_micros)),
                request_bytes: unsigned(record.request_bytes),
                response_bytes: unsigned(record.response_bytes),
                findings: unsigned(record.findings),
            },
        }
    }
}
