//! Generations of the ledger: the recovery after its database may have lost transactions.

use std::time::Duration;

use registry_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{account::AccountRow, message::Refusal};

/// A new generation grants nothing for this time. Gateways connect and report their rights meanwhile.
pub const RECOVERY: Duration = Duration::from_mins(1);

/// A process without contact for this time is unreachable: its unspent rights are in doubt, and
/// recalls do not wait for it. Processes report at least every five seconds.
pub const UNREACHABLE_AFTER: Duration = Duration::from_secs(10);

/// The identity of a database and its progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseState {
    /// The system identifier of Postgres, or an id in the `SQLite` file.
    pub system: String,
    /// The timeline of Postgres, which a failover increments; 0 for `SQLite`.
    pub timeline: u64,
    /// A counter that each transaction of the ledger increments.
    pub counter: u64,
}

impl DatabaseState {
    /// Whether a database in this state may lack transactions of the one seen before.
    pub fn may_lack(&self, seen: &Self) -> bool {
        self.system != seen.system || self.timeline != seen.timeline || self.counter < seen.counter
    }
}

/// The generation of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Generation {
    /// The number. The first generation is 0, and it needs no recovery. Later ones are above the time
    /// by a random number, so that two recoveries from one backup have different numbers.
    pub number: u64,
    /// The start.
    pub since: Timestamp,
    /// The newest report of any process that the database knew at the start. A restored backup is
    /// older than the start.
    pub known_until: Timestamp,
    /// Whether the ledger grants. An operator can end the recovery by setting this.
    pub is_recovered: bool,
}

/// A process of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProcessRow {
    /// The last report.
    pub last_contact: Timestamp,
    /// The newest generation with reports of all its accounts.
    pub generation: u64,
    /// Whether its last report, or its successor on the same disk, ended it. All its accounts are
    /// closed before this is stored. Late messages open no accounts.
    pub is_ended: bool,
}

impl Generation {
    /// The generation of a new ledger.
    pub fn first(since: Timestamp) -> Self {
        Self { number: 0, since, known_until: since, is_recovered: true }
    }

    /// The generation after a possible loss. Its number is above `seen`, the highest one that the
    /// server or a report knows. The database may have lost generations that no server knows, too. A
    /// gateway that took this one for a lost one would not repeat its reports. `random` separates
    /// generations that two databases start at the same time, or one after a step of its clock.
    /// `None`: `seen` is among the largest numbers.
    pub fn next(
        &self,
        seen: u64,
        processes: &[ProcessRow],
        now: Timestamp,
        random: u32,
    ) -> Option<Self> {
        let time = u64::try_from(now.as_millis()).unwrap_or_default();
        let number = self.number.max(seen).max(time).checked_add(1)?.checked_add(random.into())?;
        let known_until = processes.iter().map(|process| process.last_contact).max();
        let known_until = known_until.unwrap_or(now);
        Some(Self { number, since: now, known_until, is_recovered: false })
    }

    /// Whether the recovery waits for a process, because it was active before the loss and has not
    /// reported all its accounts. A process is active for `offline_for` after a report; then it
    /// reserves nothing more.
    pub fn awaits(&self, process: &ProcessRow, offline_for: Duration, now: Timestamp) -> bool {
        !self.is_recovered
            && now.since(self.since) < offline_for
            && process.generation < self.number
            && !process.is_ended
            && self.known_until.since(process.last_contact) < offline_for
    }

    /// The longest time until the recovery ends. Zero: it is over, although no report may have stored
    /// this yet. `is_waiting`: it waits for a process.
    pub fn remaining(&self, is_waiting: bool, offline_for: Duration, now: Timestamp) -> Duration {
        if self.is_recovered {
            return Duration::ZERO;
        }
        let longest = if is_waiting { offline_for.max(RECOVERY) } else { RECOVERY };
        longest.saturating_sub(now.since(self.since))
    }

    /// Ends the recovery once it waits for no process.
    pub fn recover(&self, processes: &[ProcessRow], offline_for: Duration, now: Timestamp) -> Self {
        let is_awaited = |process: &ProcessRow| self.awaits(process, offline_for, now);
        let is_recovered = self.is_recovered
            || now.since(self.since) >= RECOVERY && !processes.iter().any(is_awaited);
        Self { is_recovered, ..*self }
    }
}

impl ProcessRow {
    /// Whether the process answers recalls.
    pub fn is_reachable(&self, now: Timestamp) -> bool {
        now.since(self.last_contact) < UNREACHABLE_AFTER
    }

    /// The row of an account that the process reports for the first time.
    pub fn new_account(&self) -> AccountRow {
        AccountRow { is_closed: self.is_ended, ..AccountRow::default() }
    }

    /// Why the process receives no grants, if it has ended.
    pub fn refusal(&self) -> Option<Refusal> {
        self.is_ended.then_some(Refusal::Closed)
    }

    /// Records a report of the process.
    pub fn contacted(&self, now: Timestamp) -> Self {
        Self { last_contact: self.last_contact.max(now), ..*self }
    }

    /// Records that the process, or its successor on the same disk, has reported all accounts. Only
    /// reports in the current generation count: a process in an older one may still accept grants
    /// that the ledger lost.
    pub fn completed(&self, reported: u64, current: u64) -> Self {
        let completed = if reported == current { current } else { self.generation };
        Self { generation: self.generation.max(completed), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn database_lacks_transactions_after_each_sign() {
        let seen = DatabaseState { system: "a".to_owned(), timeline: 1, counter: 5 };
        let later = DatabaseState { counter: 6, ..seen.clone() };
        assert!(!seen.may_lack(&seen) && !later.may_lack(&seen));
        assert!(seen.may_lack(&later));
        assert!(DatabaseState { timeline: 2, ..later.clone() }.may_lack(&seen));
        assert!(DatabaseState { system: "b".to_owned(), ..later }.may_lack(&seen));
    }

    #[test]
    fn recovery_waits_for_each_active_process() {
        let active = ProcessRow { last_contact: at(5_000), generation: 0, is_ended: false };
        let offline = ProcessRow { last_contact: at(1_400), generation: 0, is_ended: false };
        let first = Generation::first(at(0));
        let generation = first.next(4, &[active, offline], at(10_000), 7).unwrap();
        let number = generation.number;
        let is_recovered = |active: ProcessRow, now| {
            generation.recover(&[active, offline], HOUR, at(now)).is_recovered
        };
        assert!(!is_recovered(active, 10_060));
        let partial = active.contacted(at(10_001));
        let older = active.completed(4, number);
        assert!(!is_recovered(partial, 10_060) && !is_recovered(older, 10_060));
        let complete = active.completed(number, number);
        assert!(!is_recovered(complete, 10_059), "others may connect within a minute");
        assert!(is_recovered(complete, 10_060));
        let ended = ProcessRow { is_ended: true, ..active };
        assert!(is_recovered(ended, 10_060));
        assert!(!is_recovered(active, 13_599) && is_recovered(active, 13_600));
    }

    #[test]
    fn recovery_ends_without_a_report() {
        let process = ProcessRow { last_contact: at(1), generation: 0, is_ended: false };
        let generation = Generation::first(at(0)).next(0, &[process], at(100), 0).unwrap();
        let remaining = |is_waiting, now| generation.remaining(is_waiting, HOUR, at(now)).as_secs();
        assert_eq!([100, 118, 159, 160, 206].map(|now| remaining(false, now)), [60, 42, 1, 0, 0]);
        assert_eq!([100, 160, 3_700].map(|now| remaining(true, now)), [3_600, 3_540, 0]);
        let brief = generation.remaining(true, Duration::from_secs(1), at(100));
        assert_eq!(brief, RECOVERY, "a minute is the minimum");
        let ended = Generation { is_recovered: true, ..generation };
        assert_eq!(ended.remaining(true, HOUR, at(100)), Duration::ZERO);
    }

    #[test]
    fn generations_of_one_backup_have_different_numbers() {
        let backup = Generation::first(at(0));
        let next = |seen, now, random| backup.next(seen, &[], at(now), random).unwrap().number;
        assert_ne!(next(0, 10, 0), next(0, 11, 0));
        assert_ne!(next(0, 10, 1), next(0, 10, 2), "two databases start one at the same time");
        let known = next(0, 10, u32::MAX);
        assert!(next(known, 5, 0) > known, "the clock of another server is late");
        let later = backup.next(known, &[], at(10), 0).unwrap();
        let again = |random| later.next(0, &[], at(5), random).unwrap().number;
        assert_ne!(again(1), again(2), "the clock is behind the number");
    }

    #[test]
    fn recovery_ends_by_an_operator() {
        assert!(Generation::first(at(0)).is_recovered);
        let process = ProcessRow { last_contact: at(1), generation: 0, is_ended: false };
        let generation = Generation::first(at(0)).next(0, &[process], at(1), 0).unwrap();
        assert!(!generation.recover(&[process], HOUR, at(62)).is_recovered);
        let ended = Generation { is_recovered: true, ..generation };
        assert!(ended.recover(&[process], HOUR, at(2)).is_recovered);
        assert_eq!(Generation::first(at(0)).next(u64::MAX, &[], at(1), 0), None);
    }
}
