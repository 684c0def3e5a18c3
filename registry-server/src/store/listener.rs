//! What wakes whoever follows the log.
//!
//! A wake only says "look again"; what there is to see is in the log. A connection that is quiet is
//! asked for a sign of life, because one whose other end vanished looks like one without news.

use std::{fmt, future::pending, time::Duration};

use sqlx::postgres::PgListener;
use tokio::time::timeout;

use super::{Error, postgres::PostgresStore};

/// A connection that brought no news for so long is asked whether it lives.
const QUIET: Duration = Duration::from_secs(5);
/// How long it may take to answer.
const ANSWER: Duration = Duration::from_secs(3);

/// Waits for news of the log.
pub struct Listener(Source);

enum Source {
    /// SQLite has nobody who could tell.
    Never,
    /// A connection that listens; without one, the next wait makes it.
    Postgres { store: PostgresStore, connection: Option<Box<PgListener>> },
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Somebody appended.
    News,
    /// The connection is gone; the next wait makes another one.
    Lost(Loss),
    /// There is a connection again. Something may have been missed before.
    Again,
}

/// How a connection was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// It was closed or reset.
    Closed,
    /// It was open, and nobody answered.
    Silent,
}

impl Loss {
    /// As metrics and logs write it.
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
        let connection = store.listen().await.map_err(|e| store.explain(&e))?;
        Ok(Self(Source::Postgres { store, connection: Some(Box::new(connection)) }))
    }

    /// Returns when there may be new commits: after an append by anybody, and after the connection
    /// was lost and made again, since something may have been missed between. A lost connection is
    /// noticed within about 8 seconds. An error says that the database cannot be reached; wait again
    /// after a pause. On SQLite it never returns: nobody else writes. In any case, also look at the
    /// log every few seconds.
    pub async fn wait(&mut self) -> Result<Wake, Error> {
        let Source::Postgres { store, connection } = &mut self.0 else { return pending().await };
        let Some(listener) = connection else {
            let fresh = store.listen().await.map_err(|e| store.explain(&e))?;
            *connection = Some(Box::new(fresh));
            return Ok(Wake::Again);
        };
        let wake = news(listener).await;
        if let Wake::Lost(_) = wake {
            *connection = None;
        }
        Ok(wake)
    }
}

/// Waits for a notification on a connection, for as long as that lives.
async fn news(listener: &mut PgListener) -> Wake {
    loop {
        match timeout(QUIET, listener.try_recv()).await {
            Ok(Ok(Some(_))) => {
                // One look at the log serves all that has been announced.
                while listener.next_buffered().is_some() {}
                return Wake::News;
            }
            Ok(_) => return Wake::Lost(Loss::Closed),
            Err(_quiet) => {}
        }
        match timeout(ANSWER, sqlx::query("SELECT 1").execute(&mut *listener)).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => return Wake::Lost(Loss::Closed),
            Err(_) => return Wake::Lost(Loss::Silent),
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::Never => "Listener(never)",
            Source::Postgres { .. } => "Listener(postgres)",
        })
    }
}
