//! Selects the primary among the hosts of a database URL.
//!
//! The driver supports one host, so this module connects to each until one is not in recovery. Promotion of a
//! standby and fencing of the former primary are the task of the failover tool.

use std::{
    io,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use retry_backoff::jittered_by;
use sqlx::{Connection as _, PgConnection, postgres::PgConnectOptions};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

/// Timeout of connecting to one host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Delay between two rounds over all hosts.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Hosts in the order of connection attempts.
pub(super) struct Hosts {
    all: Vec<PgConnectOptions>,
    current: Mutex<PgConnectOptions>,
    /// Why the last connection attempt failed. `None`: it succeeded.
    problem: Mutex<Option<String>>,
    lost: Notify,
}

impl Hosts {
    /// Creates the list from at least one host.
    pub(super) fn new(all: Vec<PgConnectOptions>) -> Self {
        let current = Mutex::new(all.first().cloned().unwrap_or_default());
        Self { all, current, problem: Mutex::default(), lost: Notify::new() }
    }

    /// Whether there are several hosts.
    pub(super) fn has_several(&self) -> bool {
        self.all.len() > 1
    }

    /// Last known primary.
    pub(super) fn current(&self) -> PgConnectOptions {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why the last connection attempt failed. `None`: it succeeded.
    pub(super) fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    /// Requests a new selection of the primary.
    pub(super) fn request_selection(&self) {
        self.lost.notify_one();
    }

    /// Connects to the primary. A single host is used without a check.
    pub(super) async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        let mut problems = Vec::new();
        for host in &self.all {
            let connecting = async {
                let mut connection = PgConnection::connect_with(host).await?;
                if self.has_several() {
                    reject_standby(&mut connection).await?;
                }
                Ok(connection)
            };
            let problem = match timeout(CONNECT_TIMEOUT, connecting).await {
                Ok(Ok(connection)) => {
                    *self.current.lock().unwrap_or_else(PoisonError::into_inner) = host.clone();
                    self.set_problem(None);
                    return Ok(connection);
                }
                Ok(Err(error)) => error,
                Err(_) => sqlx::Error::PoolTimedOut,
            };
            problems.push((format!("{}:{}", host.get_host(), host.get_port()), problem));
        }
        let failure = summary(problems);
        self.set_problem(Some(describe(&failure)));
        Err(failure)
    }

    /// Reports the primary after each selection; never returns.
    pub(super) async fn keep_on_primary(&self, select: impl Fn(PgConnectOptions)) {
        loop {
            self.lost.notified().await;
            loop {
                let found = self.connect().await;
                if let Ok(connection) = found {
                    select(self.current());
                    // A failed close is harmless.
                    let _ = connection.close().await;
                    break;
                }
                sleep(jittered_by(RETRY_DELAY, 0.1)).await;
            }
            sleep(jittered_by(RETRY_DELAY, 0.1)).await;
        }
    }
}

/// Rejects a host in recovery: it accepts no writes, and its reads may be stale.
pub(super) async fn reject_standby(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let is_standby: bool =
        sqlx::query_scalar("SELECT pg_is_in_recovery()").fetch_one(connection).await?;
    if is_standby {
        return Err(sqlx::Error::Io(io::Error::other("the server is a standby")));
    }
    Ok(())
}

/// Combines the errors of all hosts. An error of a database has priority over connection failures.
fn summary(mut problems: Vec<(String, sqlx::Error)>) -> sqlx::Error {
    let rejected = problems.iter().position(|(_, problem)| problem.as_database_error().is_some());
    if let Some(at) = rejected.or((problems.len() == 1).then_some(0)) {
        return problems.swap_remove(at).1;
    }
    let messages: Vec<String> =
        problems.iter().map(|(host, problem)| format!("{host}: {}", describe(problem))).collect();
    sqlx::Error::Io(io::Error::other(messages.join("; ")))
}

fn describe(problem: &sqlx::Error) -> String {
    match problem {
        sqlx::Error::Io(cause) => cause.to_string(),
        sqlx::Error::PoolTimedOut => format!("timed out after {} s", CONNECT_TIMEOUT.as_secs()),
        other => other.to_string(),
    }
}
