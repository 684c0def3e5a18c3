//! The servers of one URL, of which one takes writes: which that is now.
//!
//! The driver knows one server, so several are tried here until one is not in recovery. Promotion of
//! a standby and fencing of the former primary are not supported: the failover tool does both.

use std::{
    io,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use retry_backoff::jittered_by;
use sqlx::{Connection as _, PgConnection, PgPool, postgres::PgConnectOptions};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

/// How long one server may take to answer.
const CONNECT: Duration = Duration::from_secs(3);
/// The pause between two looks at all of them.
const PAUSE: Duration = Duration::from_millis(500);

/// The servers, in the order in which they are tried.
pub(super) struct Hosts {
    all: Vec<PgConnectOptions>,
    current: Mutex<PgConnectOptions>,
    lost: Notify,
}

impl Hosts {
    /// At least one.
    pub(super) fn new(all: Vec<PgConnectOptions>) -> Self {
        let current = Mutex::new(all.first().cloned().unwrap_or_default());
        Self { all, current, lost: Notify::new() }
    }

    /// Whether there is a choice.
    pub(super) fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// The one that was last seen to take writes.
    pub(super) fn current(&self) -> PgConnectOptions {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that the present one may not be the right one any more.
    pub(super) fn note_lost(&self) {
        self.lost.notify_one();
    }

    /// Connects to the one that takes writes. Where there is only one, it is taken as it is.
    pub(super) async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        let mut problems = Vec::new();
        for host in &self.all {
            let connecting = async {
                let mut connection = PgConnection::connect_with(host).await?;
                if self.are_several() {
                    refuse_standby(&mut connection).await?;
                }
                Ok(connection)
            };
            let problem = match timeout(CONNECT, connecting).await {
                Ok(Ok(connection)) => {
                    *self.current.lock().unwrap_or_else(PoisonError::into_inner) = host.clone();
                    return Ok(connection);
                }
                Ok(Err(error)) => error,
                Err(_) => sqlx::Error::PoolTimedOut,
            };
            problems.push((format!("{}:{}", host.get_host(), host.get_port()), problem));
        }
        Err(summary(problems))
    }

    /// Keeps a pool on the one that takes writes; never ends.
    pub(super) async fn follow(&self, pool: PgPool) {
        loop {
            self.lost.notified().await;
            loop {
                let found = self.connect().await;
                if let Ok(connection) = found {
                    pool.set_connect_options(self.current());
                    // Only politeness.
                    let _ = connection.close().await;
                    break;
                }
                sleep(jittered_by(PAUSE, 0.1)).await;
            }
            sleep(jittered_by(PAUSE, 0.1)).await;
        }
    }
}

/// Refuses a server in recovery: it would serve reads, perhaps old ones, and no writes.
pub(super) async fn refuse_standby(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let recovers: bool =
        sqlx::query_scalar("SELECT pg_is_in_recovery()").fetch_one(connection).await?;
    if recovers {
        return Err(sqlx::Error::Io(io::Error::other("it is a standby")));
    }
    Ok(())
}

/// One error for all; a refusal of the database itself says more than that others do not answer.
fn summary(mut problems: Vec<(String, sqlx::Error)>) -> sqlx::Error {
    let refused = problems.iter().position(|(_, problem)| problem.as_database_error().is_some());
    if let Some(at) = refused.or((problems.len() == 1).then_some(0)) {
        return problems.swap_remove(at).1;
    }
    let told: Vec<String> = problems
        .iter()
        .map(|(host, problem)| match problem {
            sqlx::Error::Io(cause) => format!("{host}: {cause}"),
            sqlx::Error::PoolTimedOut => {
                format!("{host}: no answer within {} s", CONNECT.as_secs())
            }
            other => format!("{host}: {other}"),
        })
        .collect();
    sqlx::Error::Io(io::Error::other(told.join("; ")))
}
