//! Usage of tools by callers: sums over calls that gateways collect and the registry adds up.
//!
//! A gateway sends its sums in numbered reports. It repeats a report without changes until the
//! registry confirms it, and the registry adds each number once. Lost, repeated and late messages
//! therefore have no effect on the sums.

#[cfg(test)]
mod tests;

use std::{
    borrow::Borrow,
    cmp::Ordering,
    collections::{BTreeMap, HashMap, btree_map::Entry},
    sync::Arc,
    time::Duration,
};

use registry_core::Amount;

use crate::{Epoch, spender::BootTime};

/// The name of an unregistered agent, its team, an unverified principal, or an unknown tool. Names
/// cannot have its parentheses.
pub const UNKNOWN: &str = "(unknown)";
/// The name of callers and tools without rows of their own.
pub const OTHER: &str = "(other)";
/// Maximum number of rows of a report.
pub const MAX_REPORTED_USAGE: usize = 1_000;
/// Maximum length of a name, in bytes.
pub const USAGE_NAME_BYTES: usize = 256;

/// Maximum number of rows that wait for the registry, except for one row of all others per hour.
const MAX_ROWS: usize = 16_384;
/// Maximum number of rows of one caller, except for one row of its other tools per hour.
const MAX_CALLER_ROWS: usize = 1_024;
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// A caller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UsageCaller {
    /// The name of the agent.
    pub agent: Arc<str>,
    /// The team that owns the agent.
    pub team: Arc<str>,
    /// The owner of the credential.
    pub principal: Arc<str>,
}

/// The calls that one row sums.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UsageKey {
    /// The caller.
    pub caller: UsageCaller,
    /// The name of the tool.
    pub tool: Arc<str>,
    /// The verdict about the calls, as in the audit.
    pub verdict: Arc<str>,
}

/// The names of a [`UsageKey`].
#[derive(Debug, Clone, Copy)]
pub struct UsageNames<'a> {
    /// The name of the agent.
    pub agent: &'a str,
    /// The team that owns the agent.
    pub team: &'a str,
    /// The owner of the credential.
    pub principal: &'a str,
    /// The name of the tool.
    pub tool: &'a str,
    /// The verdict about the calls, as in the audit.
    pub verdict: &'a str,
}

/// Sums over calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageTotals {
    /// The number of calls.
    pub calls: u64,
    /// The charged price. Negative: results have reported less than calls before had reserved.
    pub cost: Amount,
    /// The time from request to response.
    pub duration: Duration,
    /// The size of requests.
    pub request_bytes: u64,
    /// The size of responses.
    pub response_bytes: u64,
    /// The number of findings of inspections.
    pub findings: u64,
}

/// A row of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRow {
    /// The time since the start of its minute.
    pub age: Duration,
    /// The calls.
    pub key: UsageKey,
    /// The sums.
    pub totals: UsageTotals,
}

/// A numbered report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageReport {
    /// The process that counted the calls.
    pub process: Epoch,
    /// The number of the report, from 1.
    pub sequence: u64,
    /// At most [`MAX_REPORTED_USAGE`].
    pub rows: Vec<UsageRow>,
}

/// The usage that a gateway has counted and the registry has not confirmed.
#[derive(Debug)]
pub struct UsageBuffer {
    process: Epoch,
    rows: BTreeMap<TimedKey, UsageTotals>,
    rows_of_callers: HashMap<UsageCaller, usize>,
    /// The number of the last report.
    sequence: u64,
    /// The rows of the last report until it is confirmed.
    reported: Vec<(TimedKey, UsageTotals)>,
}

/// The calls of a row in one minute, or in one hour.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct TimedKey {
    start: BootTime,
    key: UsageKey,
}

/// A row as [`TimedKey`] orders it. A look-up by it copies no names, because most calls have a row.
trait Row {
    fn parts(&self) -> (BootTime, [&str; 5]);
}

impl Row for TimedKey {
    fn parts(&self) -> (BootTime, [&str; 5]) {
        let Self { start, key: UsageKey { caller, tool, verdict } } = self;
        (*start, [&caller.agent, &caller.team, &caller.principal, tool, verdict])
    }
}

impl Row for (BootTime, UsageNames<'_>) {
    fn parts(&self) -> (BootTime, [&str; 5]) {
        let (start, UsageNames { agent, team, principal, tool, verdict }) = *self;
        (start, [agent, team, principal, tool, verdict])
    }
}

impl<'a> Borrow<dyn Row + 'a> for TimedKey {
    fn borrow(&self) -> &(dyn Row + 'a) {
        self
    }
}

impl Ord for dyn Row + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl PartialOrd for dyn Row + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Row + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn Row + '_ {}

impl From<UsageNames<'_>> for UsageKey {
    fn from(names: UsageNames<'_>) -> Self {
        let UsageNames { agent, team, principal, tool, verdict } = names;
        let caller =
            UsageCaller { agent: agent.into(), team: team.into(), principal: principal.into() };
        Self { caller, tool: tool.into(), verdict: verdict.into() }
    }
}

impl UsageKey {
    /// The other tools of a caller.
    fn other_tools(caller: UsageCaller) -> Self {
        Self { caller, tool: OTHER.into(), verdict: OTHER.into() }
    }

    /// All other callers.
    fn others() -> Self {
        let other: Arc<str> = OTHER.into();
        let (agent, team) = (Arc::clone(&other), Arc::clone(&other));
        Self::other_tools(UsageCaller { agent, team, principal: other })
    }
}

impl UsageTotals {
    /// The largest sums of a row. The sum of two of them fits the numbers of a database.
    pub const MAX: Self = {
        let max: u64 = 1_000_000_000_000_000;
        Self {
            calls: max,
            // One price can be almost as large as an amount.
            cost: Amount::from_micros(4_000_000_000_000_000_000),
            duration: Duration::from_micros(max),
            request_bytes: max,
            response_bytes: max,
            findings: max,
        }
    };

    /// Adds other calls. Sums end at [`Self::MAX`], and costs also at its negative.
    pub fn add(&mut self, other: &Self) {
        let Self { calls, cost, duration, request_bytes, response_bytes, findings } = Self::MAX;
        self.calls = self.calls.saturating_add(other.calls).min(calls);
        let least = Amount::ZERO.saturating_sub(cost);
        self.cost = self.cost.saturating_add(other.cost).clamp(least, cost);
        self.duration = self.duration.saturating_add(other.duration).min(duration);
        self.request_bytes =
            self.request_bytes.saturating_add(other.request_bytes).min(request_bytes);
        self.response_bytes =
            self.response_bytes.saturating_add(other.response_bytes).min(response_bytes);
        self.findings = self.findings.saturating_add(other.findings).min(findings);
    }

    /// Whether the sums are at most [`Self::MAX`].
    pub fn are_valid(&self) -> bool {
        let Self { calls, cost, duration, request_bytes, response_bytes, findings } = Self::MAX;
        self.calls <= calls
            && (Amount::ZERO.saturating_sub(cost)..=cost).contains(&self.cost)
            && self.duration <= duration
            && self.request_bytes <= request_bytes
            && self.response_bytes <= response_bytes
            && self.findings <= findings
    }
}

impl UsageBuffer {
    /// Starts without usage.
    pub fn new(process: Epoch) -> Self {
        Self {
            process,
            rows: BTreeMap::new(),
            rows_of_callers: HashMap::new(),
            sequence: 0,
            reported: Vec::new(),
        }
    }

    /// Counts calls. Returns whether they have a row of their own. Otherwise the rows of the caller,
    /// or all rows, are at their limit, and a row named [`OTHER`] counts the calls.
    pub fn count(&mut self, names: UsageNames<'_>, totals: &UsageTotals, now: BootTime) -> bool {
        let start = start_of(now, MINUTE);
        let known: &dyn Row = &(start, names);
        if let Some(sums) = self.rows.get_mut(known) {
            sums.add(totals);
            return true;
        }
        let key = UsageKey::from(names);
        let has_own = self.has_room(&key.caller);
        let row = if has_own { TimedKey { start, key } } else { self.overflow(key.caller, now) };
        let sums = match self.rows.entry(row) {
            Entry::Occupied(row) => row.into_mut(),
            Entry::Vacant(row) => {
                *self.rows_of_callers.entry(row.key().key.caller.clone()).or_default() += 1;
                row.insert(UsageTotals::default())
            }
        };
        // The registry rejects rows above the largest sums.
        sums.add(totals);
        has_own
    }

    fn has_room(&self, caller: &UsageCaller) -> bool {
        let rows = self.rows_of_callers.get(caller).copied().unwrap_or_default();
        self.rows.len() < MAX_ROWS && rows < MAX_CALLER_ROWS
    }

    /// The row of calls without a row of their own.
    fn overflow(&self, caller: UsageCaller, now: BootTime) -> TimedKey {
        let start = start_of(now, HOUR);
        let own = TimedKey { start, key: UsageKey::other_tools(caller) };
        if self.rows.len() < MAX_ROWS || self.rows.contains_key(&own) {
            own
        } else {
            TimedKey { start, key: UsageKey::others() }
        }
    }

    /// The report to send: the last one until it is confirmed, then the oldest rows. `None`: there is
    /// no usage.
    pub fn report(&mut self, now: BootTime) -> Option<UsageReport> {
        if self.reported.is_empty() {
            self.take_oldest();
        }
        let row = |(TimedKey { start, key }, totals): &(TimedKey, UsageTotals)| UsageRow {
            age: now.since(*start),
            key: key.clone(),
            totals: *totals,
        };
        let rows: Vec<_> = self.reported.iter().map(row).collect();
        let (process, sequence) = (self.process, self.sequence);
        (!rows.is_empty()).then_some(UsageReport { process, sequence, rows })
    }

    fn take_oldest(&mut self) {
        while self.reported.len() < MAX_REPORTED_USAGE
            && let Some((row, totals)) = self.rows.pop_first()
        {
            if let Some(rows) = self.rows_of_callers.get_mut(&row.key.caller) {
                *rows -= 1;
                if *rows == 0 {
                    self.rows_of_callers.remove(&row.key.caller);
                }
            }
            self.reported.push((row, totals));
        }
        if !self.reported.is_empty() {
            self.sequence += 1;
        }
    }

    /// Forgets the rows of a report that the registry has added or rejected. Ignores other reports
    /// than the last one.
    pub fn confirm(&mut self, sequence: u64) {
        if sequence == self.sequence {
            self.reported.clear();
        }
    }

    /// The number of calls that the registry has not confirmed.
    pub fn pending_calls(&self) -> u64 {
        let reported = self.reported.iter().map(|(_, totals)| totals);
        let calls = self.rows.values().chain(reported).map(|totals| totals.calls);
        calls.fold(0, u64::saturating_add)
    }
}

/// The start of the minute or hour of a time, by the clock of the process.
fn start_of(time: BootTime, seconds: u64) -> BootTime {
    let whole = time.as_millis() / 1_000 / seconds * seconds;
    BootTime::new(Duration::from_secs(whole))
}
