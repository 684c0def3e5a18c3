//! A registry's database, of either sort, with a way behind the service's back.
//!
//! Deliberately absent: starting the servers of Postgres (`postgres.rs`).

use sqlx::{Connection as _, PgConnection, SqliteConnection};
use tempfile::TempDir;

use crate::postgres;

/// A fresh database.
#[derive(Debug)]
pub enum Database {
    /// A file.
    Sqlite(TempDir),
    /// A database of a private cluster.
    Postgres(postgres::TestDatabase),
}

impl Database {
    /// One of each sort: what holds at the front door holds on both.
    pub async fn both() -> [Self; 2] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        [Self::Sqlite(dir), Self::Postgres(postgres::database().await)]
    }

    /// The URL that the server takes.
    pub fn url(&self) -> String {
        match self {
            Self::Sqlite(dir) => format!("sqlite:{}", dir.path().join("registry.db").display()),
            Self::Postgres(database) => database.url().to_owned(),
        }
    }

    /// Runs SQL on it, as somebody who has the service's own rights.
    pub async fn execute(&self, sql: &str) -> Result<(), sqlx::Error> {
        let sql = sqlx::AssertSqlSafe(sql.to_owned());
        match self {
            Self::Sqlite(_) => {
                let mut connection = SqliteConnection::connect(&self.url()).await?;
                sqlx::raw_sql(sql).execute(&mut connection).await.map(drop)
            }
            Self::Postgres(_) => {
                let mut connection = PgConnection::connect(&self.url()).await?;
                sqlx::raw_sql(sql).execute(&mut connection).await.map(drop)
            }
        }
    }

    /// Takes away what keeps the log from being edited.
    pub async fn disarm(&self) {
        let sql = match self {
            Self::Sqlite(_) => {
                "DROP TRIGGER commits_are_not_updated; DROP TRIGGER commits_are_not_deleted;
                 DROP TRIGGER changes_are_not_updated; DROP TRIGGER changes_are_not_deleted;
                 DROP TRIGGER entities_are_not_deleted"
            }
            Self::Postgres(_) => {
                "ALTER TABLE commits DISABLE TRIGGER USER; ALTER TABLE changes DISABLE TRIGGER USER;
                 ALTER TABLE entities DISABLE TRIGGER USER"
            }
        };
        self.execute(sql).await.expect("the owner of tables may drop triggers");
    }
}
