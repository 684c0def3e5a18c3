//! A database for one test, with direct access for manual edits.

use std::path::PathBuf;

use acceptance::postgres::{TestDatabase, database};
use registry_server::store::{DatabaseUrl, Error, Store};
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, SqliteConnection,
    sqlite::SqliteConnectOptions,
};
use tempfile::TempDir;

/// An empty database.
pub(crate) enum Fixture {
    Sqlite(TempDir),
    Postgres(TestDatabase),
}

impl Fixture {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) async fn postgres() -> Self {
        Self::Postgres(database().await)
    }

    /// Another empty database of the same type.
    pub(crate) async fn another(&self) -> Self {
        match self {
            Self::Sqlite(_) => Self::sqlite(),
            Self::Postgres(_) => Self::postgres().await,
        }
    }

    pub(crate) fn url(&self) -> DatabaseUrl {
        match self {
            Self::Sqlite(_) => DatabaseUrl::sqlite(self.file()),
            Self::Postgres(database) => database.url().parse().unwrap(),
        }
    }

    /// Path of the SQLite file.
    pub(crate) fn file(&self) -> PathBuf {
        match self {
            Self::Sqlite(dir) => dir.path().join("registry.db"),
            Self::Postgres(_) => panic!("a Postgres database is no file"),
        }
    }

    pub(crate) async fn open(&self) -> Store {
        self.try_open().await.unwrap()
    }

    pub(crate) async fn try_open(&self) -> Result<Store, Error> {
        Store::open(&self.url()).await
    }

    /// Runs statements as an attacker with database access, without triggers.
    pub(crate) async fn execute(&self, sql: &str) {
        match self {
            Self::Sqlite(_) => {
                let mut console = self.sqlite_console().await;
                let triggers = "SELECT group_concat(name, '; DROP TRIGGER ') FROM sqlite_schema
                                WHERE type = 'trigger'";
                let triggers: Option<String> =
                    sqlx::query_scalar(triggers).fetch_one(&mut console).await.unwrap();
                let drop = triggers.map_or_else(String::new, |all| format!("DROP TRIGGER {all};"));
                let sql = AssertSqlSafe(drop + sql);
                sqlx::raw_sql(sql).execute(&mut console).await.unwrap();
                console.close().await.unwrap();
            }
            Self::Postgres(database) => {
                let mut console = PgConnection::connect(database.url()).await.unwrap();
                let sql = format!("SET session_replication_role = replica; {sql}");
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut console).await.unwrap();
            }
        }
    }

    /// Runs a statement as an operator by mistake, and returns the error of the database.
    pub(crate) async fn mistake(&self, sql: &'static str) -> Result<(), String> {
        let done = match self {
            Self::Sqlite(_) => {
                sqlx::raw_sql(sql).execute(&mut self.sqlite_console().await).await.map(drop)
            }
            Self::Postgres(database) => {
                let mut console = PgConnection::connect(database.url()).await.unwrap();
                sqlx::raw_sql(sql).execute(&mut console).await.map(drop)
            }
        };
        done.map_err(|e| e.to_string())
    }

    /// Number returned by a query.
    pub(crate) async fn number(&self, sql: &'static str) -> i64 {
        match self {
            Self::Sqlite(_) => {
                sqlx::query_scalar(sql).fetch_one(&mut self.sqlite_console().await).await.unwrap()
            }
            Self::Postgres(database) => {
                let mut console = PgConnection::connect(database.url()).await.unwrap();
                sqlx::query_scalar(sql).fetch_one(&mut console).await.unwrap()
            }
        }
    }

    async fn sqlite_console(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(self.file()).create_if_missing(true);
        options.connect().await.unwrap()
    }
}
