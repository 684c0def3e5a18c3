//! Notifications of commits, including those of this server.
//!
//! A notification has only a revision: the reader checks the log. An idle connection is tested, because a lost peer
//! looks like an idle one.

use std::{fmt, future::pending, time::Duration};

use registry_core::Revision;
use sqlx::postgres::{PgListener, PgNotification};
use tokio::time::timeout;

use super::{
    Error,
    postgres::{COMMIT_CHANNEL, PostgresStore},
};

/// Idle time after which the connection is tested.
const IDLE_TIME: Duration = Duration::from_secs(5);
/// Timeout of the test.
const TEST_TIMEOUT: Duration = Duration::from_secs(3);

/// Listens for notifications.
pub struct Listener(Source);

enum Source {
    /// SQLite has no notifications.
    Never,
    /// A listening connection; `None` after a loss, until the next wait reconnects.
    Postgres { store: PostgresStore, connection: Option<Box<PgListener>> },
}

/// Result of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// A server appended commits up to this revision.
    Commit(Revision),
    /// The connection was lost; the next wait reconnects.
    Lost(Loss),
    /// The connection was restored. Notifications may have been missed.
    Reconnected,
}

/// Cause of a lost connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Closed or reset.
    Closed,
    /// Open, but without a response.
    Silent,
}

impl Loss {
    /// Label in metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Silent => "silent",
        }
    }
}

impl Listener {
    pub(super) fn never() -> Self {
        Self(Source::Never)
    }

    pub(super) async fn postgres(store: PostgresStore) -> Result<Self, Error> {
        let connection = store.listen(COMMIT_CHANNEL).await.map_err(|e| store.explain(&e))?;
        Ok(Self(Source::Postgres { store, connection: Some(Box::new(connection)) }))
    }

    /// Waits until there may be new commits: after a notification, a lost connection or a reconnect. Detects a lost
    /// connection within about 8 seconds. Fails if the database is unreachable; the caller waits before the next
    /// call. Never returns on SQLite. Callers also poll the log, because notifications may be lost.
    pub async fn wait(&mut self) -> Result<Wake, Error> {
        let Source::Postgres { store, connection } = &mut self.0 else { return pending().await };
        let Some(listener) = connection else {
            let fresh = store.listen(COMMIT_CHANNEL).await.map_err(|e| store.explain(&e))?;
            *connection = Some(Box::new(fresh));
            return Ok(Wake::Reconnected);
        };
        let wake = notification(listener).await;
        if let Wake::Lost(_) = wake {
            *connection = None;
        }
        Ok(wake)
    }
}

/// Waits for a notification, as long as the connection works.
async fn notification(listener: &mut PgListener) -> Wake {
    loop {
        match timeout(IDLE_TIME, listener.try_recv()).await {
            Ok(Ok(Some(first))) => {
                // One read of the log covers all notifications.
                let others = std::iter::from_fn(|| listener.next_buffered());
                let newest = others.map(|other| revision(&other)).fold(revision(&first), Ord::max);
                return Wake::Commit(newest);
            }
            Ok(_) => return Wake::Lost(Loss::Closed),
            Err(_idle) => {}
        }
        match timeout(TEST_TIMEOUT, sqlx::query("SELECT 1").execute(&mut *listener)).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => return Wake::Lost(Loss::Closed),
            Err(_) => return Wake::Lost(Loss::Silent),
        }
    }
}

/// The revision of a notification. An unknown text counts as the latest revision, so that the log is read.
fn revision(notification: &PgNotification) -> Revision {
    Revision(notification.payload().parse().unwrap_or(u64::MAX))
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::Never => "Listener(never)",
            Source::Postgres { .. } => "Listener(postgres)",
        })
    }
}
