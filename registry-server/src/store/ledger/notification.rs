//! Notifications of recalls between the servers of one Postgres database.

use std::{fmt, io, time::Duration};

use sqlx::postgres::PgListener;
use tokio::time::timeout;

use super::{BookKey, sql};
use crate::store::{
    Error, Store,
    backend::Backend,
    postgres::{PostgresStore, RECALL_CHANNEL},
};

/// Idle time after which the connection is tested.
const IDLE_TIME: Duration = Duration::from_secs(5);
/// Timeout of the test.
const TEST_TIMEOUT: Duration = Duration::from_secs(3);

/// The idle rights of a budget are needed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RecallNotice {
    /// The server that noticed it, and has informed its own gateways.
    pub server: String,
    /// The budget.
    pub book: BookKey,
}

/// Listens for recalls of other servers.
pub struct RecallListener {
    store: PostgresStore,
    listener: Box<PgListener>,
}

impl Store {
    /// Notifies the other servers of recalls. On SQLite there are none.
    pub async fn notify_recalls(&self, notices: &[RecallNotice]) -> Result<(), Error> {
        let Backend::Postgres(store) = &self.backend else { return Ok(()) };
        let payload = |notice| serde_json::to_string(notice).unwrap_or_default();
        let payloads: Vec<String> = notices.iter().map(payload).collect();
        let notify = sqlx::query(sql::NOTIFY).bind(RECALL_CHANNEL).bind(payloads);
        notify.execute(store.writer()).await.map(drop).map_err(|e| store.explain(&e))
    }

    /// A listener for recalls, with a connection of its own. `None` on SQLite.
    pub async fn recall_listener(&self) -> Result<Option<RecallListener>, Error> {
        let Backend::Postgres(store) = &self.backend else { return Ok(None) };
        let listener = store.listen(RECALL_CHANNEL).await.map_err(|e| store.explain(&e))?;
        Ok(Some(RecallListener { store: store.clone(), listener: Box::new(listener) }))
    }
}

impl RecallListener {
    /// Waits for the next recall. Fails if the connection is lost, which it notices within 8 seconds. Notices of newer
    /// servers are skipped.
    pub async fn next(&mut self) -> Result<RecallNotice, Error> {
        self.receive().await.map_err(|e| self.store.explain(&e))
    }

    async fn receive(&mut self) -> Result<RecallNotice, sqlx::Error> {
        let lost = |kind: io::ErrorKind| sqlx::Error::Io(kind.into());
        loop {
            let Ok(received) = timeout(IDLE_TIME, self.listener.try_recv()).await else {
                let test = sqlx::query("SELECT 1").execute(&mut *self.listener);
                timeout(TEST_TIMEOUT, test).await.map_err(|_| lost(io::ErrorKind::TimedOut))??;
                continue;
            };
            let received = received?.ok_or_else(|| lost(io::ErrorKind::ConnectionReset))?;
            if let Ok(notice) = serde_json::from_str(received.payload()) {
                return Ok(notice);
            }
        }
    }
}

impl fmt::Debug for RecallListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecallListener")
    }
}
