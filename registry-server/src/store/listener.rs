//! What wakes whoever follows the log.
//!
//! A wake only says "look again"; what there is to see is in the log. Deliberately absent: the
//! content of notifications, and pauses between attempts to reconnect.

use std::{fmt, future::pending};

use sqlx::postgres::PgListener;

use super::{Error, postgres::PostgresStore};

/// Waits for news of the log.
pub struct Listener(Source);

enum Source {
    /// SQLite has nobody who could tell.
    Never,
    /// A connection that listens; without one, the next wait makes it.
    Postgres { store: PostgresStore, connection: Option<Box<PgListener>> },
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
    /// was lost and made again, since something may have been missed between. An error says that
    /// the database cannot be reached; wait again after a pause. On SQLite it never returns: nobody
    /// else writes. In any case, also look at the log every few seconds.
    pub async fn wait(&mut self) -> Result<(), Error> {
        let Source::Postgres { store, connection } = &mut self.0 else { return pending().await };
        if let Some(listener) = connection
            && let Ok(Some(_)) = listener.try_recv().await
        {
            // One look at the log serves all that has been announced.
            while listener.next_buffered().is_some() {}
            return Ok(());
        }
        // Dropped first, so that a wait that is cancelled here connects anew as well.
        *connection = None;
        let fresh = store.listen().await.map_err(|e| store.explain(&e))?;
        *connection = Some(Box::new(fresh));
        Ok(())
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
