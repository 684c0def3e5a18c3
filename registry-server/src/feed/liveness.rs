//! Liveness of servers that share a database.
//!
//! A server is alive if its last heartbeat is recent relative to the second last heartbeat of this server.
//! The current time is not used, because after an outage of the database all heartbeats are old.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use registry_core::Timestamp;

/// Tolerated age of another server's heartbeat, before the second last heartbeat of this server.
const TOLERANCE: Duration = Duration::from_secs(30);

/// Heartbeats of this server.
#[derive(Debug)]
pub(super) struct Liveness {
    last: AtomicI64,
    second_last: AtomicI64,
    tolerance: Duration,
}

impl Liveness {
    /// For a database with several servers.
    pub(super) fn multi_server(now: Timestamp) -> Self {
        let (last, second_last) = (now.as_millis().into(), now.as_millis().into());
        Self { last, second_last, tolerance: TOLERANCE }
    }

    /// For a database with one server, where all other servers have stopped.
    pub(super) fn single_server(now: Timestamp) -> Self {
        Self { tolerance: Duration::ZERO, ..Self::multi_server(now) }
    }

    /// Records a heartbeat of this server.
    pub(super) fn record_heartbeat(&self, now: Timestamp) {
        let last = self.last.swap(now.as_millis(), Ordering::Relaxed);
        if !self.tolerance.is_zero() {
            self.second_last.store(last, Ordering::Relaxed);
        }
    }

    /// Time of the last heartbeat that a server needs to count as alive.
    pub(super) fn alive_since(&self) -> Timestamp {
        let since = Timestamp::from_millis(self.second_last.load(Ordering::Relaxed));
        before(since, self.tolerance)
    }
}

/// Subtracts a duration from a time.
pub(super) fn before(at: Timestamp, time: Duration) -> Timestamp {
    let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(at.as_millis().saturating_sub(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(at: i64) -> Timestamp {
        Timestamp::from_millis(at * 1_000)
    }

    #[test]
    fn silent_server_is_dead_within_a_minute() {
        let liveness = Liveness::multi_server(seconds(100));
        assert_eq!(liveness.alive_since(), seconds(70));
        let since = [115, 130, 145].map(|at| {
            liveness.record_heartbeat(seconds(at));
            liveness.alive_since()
        });
        assert_eq!(since, [70, 85, 100].map(seconds));
    }

    #[test]
    fn database_outage_does_not_mark_servers_dead() {
        let liveness = Liveness::multi_server(seconds(100));
        liveness.record_heartbeat(seconds(115));
        liveness.record_heartbeat(seconds(1_000));
        assert_eq!(
            liveness.alive_since(),
            seconds(85),
            "the other servers get time for a heartbeat"
        );
        liveness.record_heartbeat(seconds(1_015));
        assert_eq!(liveness.alive_since(), seconds(970));
    }

    #[test]
    fn single_server_has_no_live_peers() {
        let liveness = Liveness::single_server(seconds(100));
        liveness.record_heartbeat(seconds(115));
        liveness.record_heartbeat(seconds(130));
        assert_eq!(liveness.alive_since(), seconds(100));
    }
}
