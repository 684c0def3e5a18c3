//! Statements of the ledger. Those without the name of a database run on both.
//!
//! The names of fleet rates start with `rate:`, see `ledger::FleetRate`.

/// A statement over the rows `given`. SQLite receives them as values between two parts of the statement, and Postgres
/// as an array for each column.
pub(super) struct OverRows {
    /// The part before the values.
    pub(super) before: &'static str,
    /// The part after the values.
    pub(super) after: &'static str,
    /// The statement over arrays.
    pub(super) postgres: &'static str,
}

/// A statement over rows: the columns, their arrays in Postgres, the statement, and its clause for locks in Postgres.
macro_rules! over_rows {
    ($columns:literal, $arrays:literal, $statement:literal) => {
        over_rows!($columns, $arrays, $statement, "")
    };
    ($columns:literal, $arrays:literal, $statement:literal, $lock:literal) => {
        OverRows {
            before: concat!("WITH given (", $columns, ") AS ("),
            after: concat!(") ", $statement),
            postgres: concat!(
                "WITH given (",
                $columns,
                ") AS (SELECT * FROM unnest(",
                $arrays,
                ")) ",
                $statement,
                $lock
            ),
        }
    };
}

/// The generation, with the identity of the database.
pub(super) const POSTGRES_STATE: &str = "
    SELECT generation, since, known_until, is_recovered, system AS seen_system,
           timeline AS seen_timeline,
           (SELECT system_identifier::text FROM pg_control_system()) AS system,
           ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint AS timeline,
           nextval('ledger_counter') AS counter
    FROM ledger";

/// The same on SQLite. A copy of the file has no identity of its own.
pub(super) const SQLITE_STATE: &str = "
    UPDATE ledger SET counter = counter + 1
    RETURNING generation, since, known_until, is_recovered, '' AS seen_system, 0 AS seen_timeline,
              '' AS system, 0 AS timeline, counter";

/// The clock of the database.
pub(super) const POSTGRES_TIME: &str = "SELECT date_trunc('milliseconds', clock_timestamp())";

/// Locks the generation.
pub(super) const POSTGRES_LOCK_STATE: &str = "SELECT generation FROM ledger FOR UPDATE";

/// Stores a generation: $1 number, $2 start, $3 newest known report, $4 recovered, $5 system, $6 timeline.
pub(super) const POSTGRES_SET_GENERATION: &str = "
    UPDATE ledger SET generation = $1, since = $2, known_until = $3, is_recovered = $4, system = $5,
                      timeline = $6";

/// The same on SQLite, without the identity.
pub(super) const SQLITE_SET_GENERATION: &str =
    "UPDATE ledger SET generation = $1, since = $2, known_until = $3, is_recovered = $4";

/// Ends the recovery: $1 generation.
pub(super) const SET_RECOVERED: &str = "UPDATE ledger SET is_recovered = $2 WHERE generation = $1";

/// All processes.
pub(super) const PROCESSES: &str =
    "SELECT gateway, epoch, last_contact, generation, is_ended FROM ledger_processes";

/// The processes that have not ended.
pub(super) const RUNNING_PROCESSES: &str = "
    SELECT gateway, epoch, last_contact, generation, is_ended FROM ledger_processes
    WHERE NOT is_ended";

/// The processes that have ended, among those with these gateways and epochs.
pub(super) const ENDED_PROCESSES: OverRows = over_rows!(
    "gateway, epoch",
    "$1::text[], $2::text[]",
    "SELECT p.gateway, p.epoch
     FROM given JOIN ledger_processes p ON p.gateway = given.gateway AND p.epoch = given.epoch
     WHERE p.is_ended"
);

/// Stores a report of a process: $1 gateway, $2 epoch, $3 time, $4 false.
pub(super) const CONTACT: &str = "
    INSERT INTO ledger_processes (gateway, epoch, last_contact, generation, is_ended)
    VALUES ($1, $2, $3, 0, $4)
    ON CONFLICT (gateway, epoch) DO UPDATE SET last_contact = excluded.last_contact
        WHERE ledger_processes.last_contact < excluded.last_contact";

/// Stores the end of a process: $1 gateway, $2 epoch, $3 time, $4 true.
pub(super) const END_PROCESS: &str = "
    INSERT INTO ledger_processes (gateway, epoch, last_contact, generation, is_ended)
    VALUES ($1, $2, $3, 0, $4)
    ON CONFLICT (gateway, epoch) DO UPDATE SET is_ended = excluded.is_ended
        WHERE ledger_processes.is_ended <> excluded.is_ended";

/// Stores that a process reported all its accounts: $1 gateway, $2 epoch, $3 generation of the report. Reports of
/// another generation than the current one change nothing. A repetition changes the row to the same values.
pub(super) const COMPLETE_PROCESS: &str = "
    UPDATE ledger_processes SET generation = $3
    WHERE gateway = $1 AND epoch = $2 AND generation <= $3
      AND $3 = (SELECT generation FROM ledger)";

/// The last contact of a process that has not ended: $1 gateway, $2 epoch.
pub(super) const LAST_CONTACT: &str = "
    SELECT last_contact FROM ledger_processes WHERE gateway = $1 AND epoch = $2 AND NOT is_ended";

/// Creates budgets. An insertion waits for that of another server. The order prevents deadlocks.
pub(super) const INSERT_BUDGETS: OverRows = over_rows!(
    "policy, budget, subject, window_id, ends_at",
    "$1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[]",
    "INSERT INTO ledger_budgets
         (policy, budget, subject, window_id, ends_at, exposed, settled, overshoot, reclaimed,
          adjustment, alerted)
     SELECT policy, budget, subject, window_id, ends_at, 0, 0, 0, 0, 0, 0 FROM given WHERE true
     ORDER BY policy, budget, subject, window_id
     ON CONFLICT (policy, budget, subject, window_id) DO NOTHING"
);

/// Locks budgets by policy, budget, subject and window. The values of this statement are not older than the lock, but
/// those of its subqueries would be. The order prevents deadlocks. On SQLite the transaction excludes other writers.
pub(super) const LOCK_BUDGETS: OverRows = over_rows!(
    "policy, budget, subject, window_id",
    "$1::text[], $2::text[], $3::text[], $4::text[]",
    "SELECT b.policy, b.budget, b.subject, b.window_id, b.id, b.ends_at, b.exposed, b.settled,
            b.overshoot, b.reclaimed, b.adjustment, b.peak_limit, b.peak_allowance, b.unexplained,
            b.alerted
     FROM given JOIN ledger_budgets b
          ON b.policy = given.policy AND b.budget = given.budget AND b.subject = given.subject
             AND b.window_id = given.window_id
     ORDER BY b.policy, b.budget, b.subject, b.window_id",
    " FOR UPDATE OF b"
);

/// Stores the amounts of budgets by their ids.
pub(super) const UPDATE_BUDGETS: OverRows = over_rows!(
    "id, exposed, settled, overshoot, reclaimed, adjustment, peak_limit, peak_allowance, unexplained",
    "$1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
     $7::bigint[], $8::bigint[], $9::bigint[]",
    "UPDATE ledger_budgets
     SET exposed = given.exposed, settled = given.settled, overshoot = given.overshoot,
         reclaimed = given.reclaimed, adjustment = given.adjustment,
         peak_limit = given.peak_limit, peak_allowance = given.peak_allowance,
         unexplained = given.unexplained
     FROM given WHERE ledger_budgets.id = given.id"
);

/// The accounts of a budget: $1 id.
pub(super) const ACCOUNTS: &str = "
    SELECT budget_id, gateway, epoch, process, granted, returned, settled, forced, unexplained,
           closed_at
    FROM ledger_accounts WHERE budget_id = $1";

/// Accounts by budget, gateway and epoch. The join makes SQLite search each key in the index. `IN` would scan the
/// budgets.
pub(super) const ACCOUNTS_BY_ID: OverRows = over_rows!(
    "budget_id, gateway, epoch",
    "$1::bigint[], $2::text[], $3::text[]",
    "SELECT a.budget_id, a.gateway, a.epoch, a.process, a.granted, a.returned, a.settled, a.forced,
            a.unexplained, a.closed_at
     FROM given JOIN ledger_accounts a
          ON a.budget_id = given.budget_id AND a.gateway = given.gateway AND a.epoch = given.epoch"
);

/// The accounts with unspent rights of budgets by their ids, see `AccountRow::unspent`.
pub(super) const UNSPENT_ACCOUNTS: OverRows = over_rows!(
    "budget_id",
    "$1::bigint[]",
    "SELECT a.budget_id, a.gateway, a.epoch, a.process, a.granted, a.returned, a.settled, a.forced,
            a.unexplained, a.closed_at
     FROM given JOIN ledger_accounts a ON a.budget_id = given.budget_id
     WHERE a.closed_at IS NULL AND a.granted - a.returned > a.settled"
);

/// Stores accounts.
pub(super) const UPSERT_ACCOUNTS: OverRows = over_rows!(
    "budget_id, gateway, epoch, process, granted, returned, settled, forced, unexplained, closed_at",
    "$1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[],
     $8::bigint[], $9::bigint[], $10::timestamptz[]",
    "INSERT INTO ledger_accounts
         (budget_id, gateway, epoch, process, granted, returned, settled, forced, unexplained,
          closed_at)
     SELECT budget_id, gateway, epoch, process, granted, returned, settled, forced, unexplained,
            closed_at
     FROM given WHERE true
     ON CONFLICT (budget_id, gateway, epoch) DO UPDATE
     SET granted = excluded.granted, returned = excluded.returned, settled = excluded.settled,
         forced = excluded.forced, unexplained = excluded.unexplained,
         closed_at = excluded.closed_at"
);

/// The open accounts of a process, without those of rates whose rights have expired: $1 gateway, $2 epoch of the
/// process, $3 now.
pub(super) const ACCOUNTS_OF_PROCESS: &str = "
    SELECT b.policy, b.budget, b.subject, b.window_id, a.epoch
    FROM ledger_accounts a JOIN ledger_budgets b ON b.id = a.budget_id
    WHERE a.gateway = $1 AND a.process = $2 AND a.closed_at IS NULL
      AND (b.budget NOT LIKE 'rate:%' OR b.ends_at > $3)";

/// A page of budgets after a key and window, or one of them.
macro_rules! listed {
    ($filter:literal) => {
        concat!(
            "SELECT b.policy, b.budget, b.subject, b.window_id, b.ends_at, b.exposed, b.settled,
                    b.overshoot, b.reclaimed, b.adjustment, b.peak_limit, b.peak_allowance,
                    b.unexplained,
                    (SELECT CAST(coalesce(sum(
                        CASE WHEN a.granted - a.returned > a.settled
                             THEN a.granted - a.returned - a.settled ELSE 0 END), 0) AS bigint)
                     FROM ledger_accounts a LEFT JOIN ledger_processes p
                          ON p.gateway = a.gateway AND p.epoch = a.process
                     WHERE a.budget_id = b.id AND a.closed_at IS NULL
                       AND (p.last_contact IS NULL OR p.last_contact <= $1)) AS in_doubt
             FROM ledger_budgets b ",
            $filter
        )
    };
}

/// A page of budgets without rates: $1 time of the last contact of unreachable processes, $2 policy, $3 budget,
/// $4 subject and $5 window of the previous budget, $6 policy or empty, $7 minimum end of a window, $8 limit.
pub(super) const LIST_BUDGETS: &str = listed!(
    "WHERE (b.policy, b.budget, b.subject, b.window_id) > ($2, $3, $4, $5)
       AND ($6 = '' OR b.policy = $6) AND (b.ends_at IS NULL OR b.ends_at > $7)
       AND b.budget NOT LIKE 'rate:%'
     ORDER BY b.policy, b.budget, b.subject, b.window_id LIMIT $8"
);

/// One budget: $1 time of the last contact of unreachable processes, $2 policy, $3 budget, $4 subject, $5 window.
pub(super) const GET_BUDGET: &str =
    listed!("WHERE b.policy = $2 AND b.budget = $3 AND b.subject = $4 AND b.window_id = $5");

/// A page of accounts with the last contact of their processes: $1 policy, $2 budget, $3 subject, $4 window,
/// $5 limit.
pub(super) const LIST_ACCOUNTS: &str = "
    SELECT a.gateway, a.epoch, a.granted, a.returned, a.settled, a.forced, a.unexplained, a.closed_at,
           p.last_contact
    FROM ledger_accounts a JOIN ledger_budgets b ON b.id = a.budget_id
         LEFT JOIN ledger_processes p ON p.gateway = a.gateway AND p.epoch = a.process
    WHERE b.policy = $1 AND b.budget = $2 AND b.subject = $3 AND b.window_id = $4
    ORDER BY a.gateway, a.epoch LIMIT $5";

/// The number of accounts: $1 policy, $2 budget, $3 subject, $4 window.
pub(super) const COUNT_ACCOUNTS: &str = "
    SELECT count(*) FROM ledger_accounts a JOIN ledger_budgets b ON b.id = a.budget_id
    WHERE b.policy = $1 AND b.budget = $2 AND b.subject = $3 AND b.window_id = $4";

/// Records a change by an operator.
pub(super) const INSERT_CHANGE: &str = "
    INSERT INTO ledger_changes
        (at, principal, policy, budget, subject, window_id, kind, gateway, amount, reason)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

/// The newest changes by operators: $1 policy, $2 budget, $3 subject, $4 window, $5 limit.
pub(super) const LIST_CHANGES: &str = "
    SELECT at, principal, kind, gateway, amount, reason FROM ledger_changes
    WHERE policy = $1 AND budget = $2 AND subject = $3 AND window_id = $4
    ORDER BY number DESC LIMIT $5";

/// The generation, without a change of the counter.
pub(super) const READ_GENERATION: &str =
    "SELECT generation, since, known_until, is_recovered FROM ledger";

/// The key of the proofs of generations.
pub(super) const READ_SECRET: &str = "SELECT secret FROM ledger";

/// Stores the currency while there is no amount in another one: $1 currency.
pub(super) const SET_CURRENCY: &str = "
    UPDATE ledger SET currency = $1
    WHERE currency IS NULL
       OR (currency <> $1
           AND NOT EXISTS (SELECT 1 FROM ledger_budgets)
           AND NOT EXISTS (SELECT 1 FROM usage_totals WHERE cost <> 0))";

/// The currency of all amounts.
pub(super) const READ_CURRENCY: &str = "SELECT currency FROM ledger";

/// Deletes windows that ended before $1, with their accounts. Windows that reports have locked are deleted later: a
/// wait for several of them could be a deadlock.
macro_rules! delete_ended {
    ($filter:literal, $lock:literal) => {
        concat!(
            "DELETE FROM ledger_budgets
             WHERE id IN (SELECT id FROM ledger_budgets WHERE ends_at < $1",
            $filter,
            $lock,
            ")"
        )
    };
}

/// Deletes ended windows of budgets and rates.
pub(super) const POSTGRES_DELETE_ENDED_BUDGETS: &str = delete_ended!("", " FOR UPDATE SKIP LOCKED");
/// The same on SQLite, whose transaction excludes other writers.
pub(super) const SQLITE_DELETE_ENDED_BUDGETS: &str = delete_ended!("", "");

/// Deletes ended windows of rates. Their number can be large, and late reports do not matter.
pub(super) const POSTGRES_DELETE_ENDED_RATES: &str =
    delete_ended!(" AND budget LIKE 'rate:%'", " FOR UPDATE SKIP LOCKED");
/// The same on SQLite.
pub(super) const SQLITE_DELETE_ENDED_RATES: &str = delete_ended!(" AND budget LIKE 'rate:%'", "");

/// Deletes accounts closed before $1. The sums of their budgets keep their spending. The end of the process, which is
/// kept longer, shows that a late report contains nothing new. Without it the account itself must show this.
pub(super) const DELETE_CLOSED_ACCOUNTS: &str = "
    DELETE FROM ledger_accounts WHERE closed_at < $1 AND EXISTS (
        SELECT 1 FROM ledger_processes p
        WHERE p.gateway = ledger_accounts.gateway AND p.epoch = ledger_accounts.epoch AND p.is_ended)";

/// Deletes processes without accounts and without a report: since $1, or since $2 if they have ended.
pub(super) const DELETE_PROCESSES: &str = "
    DELETE FROM ledger_processes
    WHERE CASE WHEN is_ended THEN last_contact < $2 ELSE last_contact < $1 END
      AND NOT EXISTS (
        SELECT 1 FROM ledger_accounts a
        WHERE a.gateway = ledger_processes.gateway
          AND (a.process = ledger_processes.epoch OR a.epoch = ledger_processes.epoch))";

/// Stores an alert: $1 id, $2 id of the budget, $3 threshold, $4 time, $5 spending, $6 limit, $7 first attempt.
pub(super) const INSERT_ALERT: &str = "
    INSERT INTO ledger_alerts
        (id, budget_id, threshold, crossed_at, settled, effective_limit, attempts, next_attempt_at)
    VALUES ($1, $2, $3, $4, $5, $6, 0, $7)";

/// Stores the highest reached threshold of a budget: $1 id, $2 threshold.
pub(super) const SET_ALERTED: &str = "UPDATE ledger_budgets SET alerted = $2 WHERE id = $1";

/// The time of the next attempt to deliver an alert.
pub(super) const NEXT_ALERT_ATTEMPT: &str = "
    SELECT next_attempt_at FROM ledger_alerts WHERE next_attempt_at IS NOT NULL
    ORDER BY next_attempt_at LIMIT 1";

/// Alerts that are due: $1 now, $2 limit.
macro_rules! due_alerts {
    ($lock:literal) => {
        concat!(
            "SELECT a.id, a.threshold, a.crossed_at, a.settled, a.effective_limit, a.attempts,
                    b.policy, b.budget, b.subject, b.window_id, b.ends_at
             FROM ledger_alerts a JOIN ledger_budgets b ON b.id = a.budget_id
             WHERE a.next_attempt_at <= $1 ORDER BY a.next_attempt_at LIMIT $2",
            $lock
        )
    };
}

/// Locks alerts that are due. Those that another server claims at the same time are skipped.
pub(super) const POSTGRES_DUE_ALERTS: &str = due_alerts!(" FOR UPDATE OF a SKIP LOCKED");
/// The same on SQLite, whose transaction excludes other writers.
pub(super) const SQLITE_DUE_ALERTS: &str = due_alerts!("");

/// Starts an attempt to deliver an alert: $1 id, $2 time of the next attempt if this one has no result.
pub(super) const CLAIM_ALERT: &str =
    "UPDATE ledger_alerts SET attempts = attempts + 1, next_attempt_at = $2 WHERE id = $1";

/// Stores the result of an attempt: $1 id, $2 time of the next one or null, $3 time of the delivery or null.
pub(super) const RECORD_ALERT_ATTEMPT: &str = "
    UPDATE ledger_alerts SET next_attempt_at = $2, delivered_at = $3
    WHERE id = $1 AND delivered_at IS NULL";

/// The alerts of a budget: $1 policy, $2 budget, $3 subject, $4 window, $5 limit.
pub(super) const LIST_ALERTS: &str = "
    SELECT a.threshold, a.crossed_at, a.settled, a.effective_limit, a.attempts, a.next_attempt_at,
           a.delivered_at
    FROM ledger_alerts a JOIN ledger_budgets b ON b.id = a.budget_id
    WHERE b.policy = $1 AND b.budget = $2 AND b.subject = $3 AND b.window_id = $4
    ORDER BY a.threshold LIMIT $5";

/// Notifies other servers of recalls: $1 channel, $2 payloads.
pub(super) const NOTIFY: &str = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload";

/// Stores the number of a report of usage, and returns it. Returns nothing if it was stored before: $1 gateway,
/// $2 epoch of the process, $3 number, $4 time.
pub(super) const RECORD_USAGE_REPORT: &str = "
    INSERT INTO usage_reports (gateway, process, sequence, reported_at) VALUES ($1, $2, $3, $4)
    ON CONFLICT (gateway, process) DO UPDATE
    SET sequence = excluded.sequence, reported_at = excluded.reported_at
        WHERE usage_reports.sequence < excluded.sequence
    RETURNING sequence";

/// The columns of usage.
macro_rules! usage_columns {
    () => {
        "(minute, gateway, agent, team, principal, tool, verdict,
          calls, cost, duration_micros, request_bytes, response_bytes, findings) "
    };
}

/// Adds a column of usage to the stored one. Sums end at `UsageTotals::MAX`, and costs also at its negative.
macro_rules! added {
    ($column:literal, $max:literal) => {
        concat!(
            $column,
            " = CASE WHEN usage_totals.",
            $column,
            " + excluded.",
            $column,
            " > ",
            $max,
            " THEN ",
            $max,
            " WHEN usage_totals.",
            $column,
            " + excluded.",
            $column,
            " < -",
            $max,
            " THEN -",
            $max,
            " ELSE usage_totals.",
            $column,
            " + excluded.",
            $column,
            " END"
        )
    };
}

/// Adds usage: the part after the rows.
macro_rules! add_usage {
    () => {
        concat!(
            " ON CONFLICT (minute, gateway, agent, team, principal, tool, verdict) DO UPDATE SET ",
            added!("calls", "1000000000000000"),
            ", ",
            added!("cost", "4000000000000000000"),
            ", ",
            added!("duration_micros", "1000000000000000"),
            ", ",
            added!("request_bytes", "1000000000000000"),
            ", ",
            added!("response_bytes", "1000000000000000"),
            ", ",
            added!("findings", "1000000000000000")
        )
    };
}

/// The sum of a column of usage on Postgres, at most the largest cost of a row. A sum of `bigint` is a `numeric`.
macro_rules! postgres_sum {
    ($column:literal) => {
        concat!(
            "CAST(least(greatest(sum(",
            $column,
            "), -4000000000000000000), 4000000000000000000) AS bigint)"
        )
    };
}

/// The same on SQLite. A sum that does not fit fails, so that millions are summed apart from the rest.
macro_rules! sqlite_sum {
    ($column:literal) => {
        concat!(
            "CASE WHEN sum(",
            $column,
            " / 1000000) >= 4000000000000 THEN 4000000000000000000 WHEN sum(",
            $column,
            " / 1000000) <= -4000000000000 THEN -4000000000000000000 ELSE sum(",
            $column,
            " / 1000000) * 1000000 + sum(",
            $column,
            " % 1000000) END"
        )
    };
}

/// The sums of all columns of usage.
macro_rules! usage_sums {
    ($sum:ident) => {
        concat!(
            $sum!("calls"),
            " AS calls, ",
            $sum!("cost"),
            " AS cost, ",
            $sum!("duration_micros"),
            " AS duration_micros, ",
            $sum!("request_bytes"),
            " AS request_bytes, ",
            $sum!("response_bytes"),
            " AS response_bytes, ",
            $sum!("findings"),
            " AS findings"
        )
    };
}

/// The sums of usage.
pub(super) const POSTGRES_USAGE_SUMS: &str = usage_sums!(postgres_sum);
/// The same on SQLite.
pub(super) const SQLITE_USAGE_SUMS: &str = usage_sums!(sqlite_sum);

/// Adds usage: the part before the rows.
pub(super) const INSERT_USAGE: &str = concat!("INSERT INTO usage_totals ", usage_columns!());

/// Adds usage: the part after the rows.
pub(super) const INSERT_USAGE_CONFLICT: &str = add_usage!();

/// Adds rows by minute to those of their hours.
macro_rules! add_hours {
    ($sum:ident, $from:literal) => {
        concat!(
            "INSERT INTO usage_totals ",
            usage_columns!(),
            "SELECT minute / 60 * 60, gateway, agent, team, principal, tool, verdict, ",
            usage_sums!($sum),
            " FROM ",
            $from,
            " GROUP BY minute / 60 * 60, gateway, agent, team, principal, tool, verdict ",
            add_usage!()
        )
    };
}

/// Merges minutes into hours: $1 the first minute that is kept.
pub(super) const POSTGRES_MERGE_MINUTES: &str = concat!(
    "WITH merged AS (
         DELETE FROM usage_totals WHERE minute < $1 AND minute % 60 <> 0 RETURNING *
     ) ",
    add_hours!(postgres_sum, "merged")
);

/// The same on SQLite, before the deletion of the minutes.
pub(super) const SQLITE_MERGE_MINUTES: &str =
    add_hours!(sqlite_sum, "usage_totals WHERE minute < $1 AND minute % 60 <> 0");

/// Deletes merged minutes: $1 the first minute that is kept.
pub(super) const SQLITE_DELETE_MINUTES: &str =
    "DELETE FROM usage_totals WHERE minute < $1 AND minute % 60 <> 0";

/// Deletes usage before the minute $1.
pub(super) const DELETE_USAGE: &str = "DELETE FROM usage_totals WHERE minute < $1";

/// Deletes the numbers of reports of processes without a report since $1.
pub(super) const DELETE_USAGE_REPORTS: &str = "DELETE FROM usage_reports WHERE reported_at < $1";

/// Stores calls of traces: the part before the rows.
pub(super) const INSERT_CALLS: &str = "
    INSERT INTO trace_calls
        (gateway, process, number, issuer, subject, trace_id, started_at, reported_at, call) ";
/// The part after the rows.
pub(super) const INSERT_CALLS_CONFLICT: &str = " ON CONFLICT (gateway, process, number) DO NOTHING";

/// Deletes the oldest calls of an account: $1 issuer, $2 subject, $3 number of calls to keep.
pub(super) const DELETE_CALLS_OF_ACCOUNT: &str = "
    DELETE FROM trace_calls WHERE issuer = $1 AND subject = $2 AND id <=
        (SELECT id FROM trace_calls WHERE issuer = $1 AND subject = $2
         ORDER BY id DESC LIMIT 1 OFFSET $3)";

/// Deletes the oldest calls: $1 number of calls to keep, at most.
pub(super) const DELETE_OLDEST_CALLS: &str =
    "DELETE FROM trace_calls WHERE id <= (SELECT max(id) FROM trace_calls) - $1";

/// Deletes calls that were reported before $1.
pub(super) const DELETE_CALLS_BEFORE: &str = "DELETE FROM trace_calls WHERE reported_at < $1";

/// Lists calls: $1 trace, $2 issuer or nothing, $3 subject, $4 and $5 the last listed call, $6 limit.
pub(super) const TRACE_CALLS: &str = "
    SELECT id, gateway, process, number, issuer, subject, started_at, call FROM trace_calls
    WHERE trace_id = $1 AND ($2 = '' OR (issuer = $2 AND subject = $3))
        AND (started_at, id) > ($4, $5)
    ORDER BY started_at, id LIMIT $6";
