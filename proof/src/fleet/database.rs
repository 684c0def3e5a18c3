//! The database of a fleet: shared with other histories, or a cluster with a standby.

use std::{sync::Arc, time::Duration};

use acceptance::{
    access,
    postgres::{Fsync, PrivateCluster, Replication},
};
use history_check::budget_event::{AccountFigures, Book, BookAccount, BudgetId};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, query_as, raw_sql};
use tokio::{sync::Mutex, task::spawn_blocking, time::sleep};

use crate::postgres::Postgres;

/// Attempts to copy a database. A copy requires that no program is connected.
const COPIES: usize = 50;
/// The delay between two attempts, and before accounts are read after the servers have stopped.
const DELAY: Duration = Duration::from_millis(100);

/// A database. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    /// The URL for servers. With a standby it has both hosts.
    pub(crate) url: String,
    name: String,
    place: Arc<Place>,
}

#[derive(Debug)]
enum Place {
    Shared(Postgres),
    Replicated(Box<Pair>),
}

#[derive(Debug)]
struct Pair {
    primary: Mutex<PrivateCluster>,
    standby: PrivateCluster,
}

/// An account with its budget: policy, budget, subject, window, gateway, epoch, granted, returned,
/// settled, and whether it is closed.
type AccountRow = (String, String, String, String, String, String, i64, i64, i64, i64, bool);

impl Database {
    /// Creates a database on the cluster of all histories.
    pub(crate) async fn shared(postgres: &Postgres, name: String) -> Self {
        let url = postgres.create_database(&name).await;
        Self { url, name, place: Arc::new(Place::Shared(postgres.clone())) }
    }

    /// Creates a database on a cluster of its own with a standby.
    pub(crate) async fn replicated(name: String, replication: Replication) -> Self {
        let start = || PrivateCluster::start(Fsync::Off);
        let primary = spawn_blocking(start).await.expect("the cluster starts");
        primary.create_database(&name).await;
        let standby = primary.standby(replication).await;
        let url = format!(
            "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/{name}?target_session_attrs=read-write",
            primary.port(),
            standby.port()
        );
        let pair = Pair { primary: Mutex::new(primary), standby };
        Self { url, name, place: Arc::new(Place::Replicated(Box::new(pair))) }
    }

    /// Kills and restarts a shared cluster.
    pub(crate) async fn kill_9(&self, lasts: Duration) {
        if let Place::Shared(postgres) = &*self.place {
            postgres.kill_9().await;
            sleep(lasts).await;
            postgres.restart().await;
        }
    }

    /// Lets the standby miss all further transactions.
    pub(crate) async fn stop_following(&self) {
        if let Place::Replicated(pair) = &*self.place {
            pair.standby.stop_following(&*pair.primary.lock().await).await;
        }
    }

    /// Kills the primary, and promotes the standby.
    pub(crate) async fn fail_over(&self) {
        if let Place::Replicated(pair) = &*self.place {
            pair.primary.lock().await.kill_9().await;
            pair.standby.promote().await;
        }
    }

    /// Copies a shared database to a backup. No server may run.
    pub(crate) async fn back_up(&self) -> bool {
        self.copy(&self.name, &self.backup()).await
    }

    /// Replaces a shared database by its backup. No server may run.
    pub(crate) async fn restore(&self) -> bool {
        self.copy(&self.backup(), &self.name).await
    }

    /// Runs `registry-server ledger recover`. Returns its error.
    pub(crate) async fn recover(&self) -> Result<(), String> {
        let url = self.url.clone();
        let run = move || access::server(&url, &["ledger", "recover"]);
        let output = spawn_blocking(run).await.map_err(|e| e.to_string())?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(error) }
    }

    /// The accounts of the ledger. Open transactions of stopped servers have ended.
    pub(crate) async fn accounts(&self) -> Result<Vec<BookAccount>, sqlx::Error> {
        sleep(DELAY).await;
        let url = match &*self.place {
            Place::Shared(_) => self.url.clone(),
            Place::Replicated(pair) => pair.primary.lock().await.url(&self.name),
        };
        let mut connection = PgConnection::connect(&url).await?;
        let rows: Vec<AccountRow> = query_as(
            "SELECT b.policy, b.budget, b.subject, b.window_id, a.gateway, a.epoch, a.granted, \
             a.returned, a.settled, a.forced, a.closed_at IS NOT NULL \
             FROM ledger_accounts a JOIN ledger_budgets b ON b.id = a.budget_id",
        )
        .fetch_all(&mut connection)
        .await?;
        connection.close().await?;
        Ok(rows.into_iter().map(account).collect())
    }

    /// The overshoot of each book after a loss of transactions.
    pub(crate) async fn overshoots(&self) -> Result<Vec<(Book, i64)>, sqlx::Error> {
        let url = match &*self.place {
            Place::Shared(_) => self.url.clone(),
            Place::Replicated(pair) => pair.standby.url(&self.name),
        };
        let mut connection = PgConnection::connect(&url).await?;
        let rows: Vec<(String, String, String, String, i64)> =
            query_as("SELECT policy, budget, subject, window_id, overshoot FROM ledger_budgets")
                .fetch_all(&mut connection)
                .await?;
        connection.close().await?;
        let overshoot = |(policy, budget, subject, window, overshoot)| {
            (Book { id: BudgetId { policy, budget, subject }, window }, overshoot)
        };
        Ok(rows.into_iter().map(overshoot).collect())
    }

    fn backup(&self) -> String {
        format!("{}_backup", self.name)
    }

    async fn copy(&self, from: &str, to: &str) -> bool {
        for _ in 0..COPIES {
            if self.try_copy(from, to).await.is_ok() {
                return true;
            }
            sleep(DELAY).await;
        }
        false
    }

    async fn try_copy(&self, from: &str, to: &str) -> Result<(), sqlx::Error> {
        let admin = self.url.replace(&format!("/{}", self.name), "/postgres");
        let mut connection = PgConnection::connect(&admin).await?;
        for sql in [
            format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE datname IN ('{from}', '{to}')"
            ),
            format!("DROP DATABASE IF EXISTS \"{to}\" WITH (FORCE)"),
            format!("CREATE DATABASE \"{to}\" TEMPLATE \"{from}\""),
        ] {
            raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await?;
        }
        connection.close().await
    }
}

fn account(row: AccountRow) -> BookAccount {
    let (policy, budget, subject, window, gateway, epoch, granted, returned, settled, ..) = row;
    let (.., forced, is_closed) = row;
    BookAccount {
        book: Book { id: BudgetId { policy, budget, subject }, window },
        account: AccountFigures { gateway, epoch, granted, returned, settled, forced, is_closed },
    }
}
