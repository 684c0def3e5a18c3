//! A registry's database, of either sort, with a way behind the service's back.

use sqlx::{Connection as _, PgConnection, SqliteConnection};
use tempfile::TempDir;

use crate::postgres;

/// What the log is made of.
const TABLES: [&str; 6] = ["registry", "head", "commits", "changes", "setting_changes", "entities"];

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

    /// One number that a query gives.
    pub async fn number(&self, sql: &str) -> i64 {
        let sql = sqlx::AssertSqlSafe(sql.to_owned());
        let number = match self {
            Self::Sqlite(_) => {
                let connection = SqliteConnection::connect(&self.url()).await;
                let mut connection = connection.expect("the file is there");
                sqlx::query_scalar(sql).fetch_one(&mut connection).await
            }
            Self::Postgres(_) => {
                let connection = PgConnection::connect(&self.url()).await;
                let mut connection = connection.expect("the database is there");
                sqlx::query_scalar(sql).fetch_one(&mut connection).await
            }
        };
        number.expect("it is a number")
    }

    /// Takes away what keeps the log from being edited.
    pub async fn disarm(&self) {
        let (disarm, _) = self.triggers().await;
        self.execute(&disarm).await.expect("the owner of tables may drop triggers");
    }

    /// Runs SQL past what keeps the log from being edited, which is there again afterwards.
    pub async fn tamper(&self, sql: &str) {
        let (disarm, arm) = self.triggers().await;
        let sql = format!("BEGIN; {disarm}; {sql}; {arm}; COMMIT");
        self.execute(&sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    /// Keeps a copy of its tables, for [`Database::restore`].
    pub async fn save(&self) {
        let copy = |table| format!("CREATE TABLE saved_{table} AS SELECT * FROM {table};");
        self.execute(&TABLES.map(copy).concat()).await.expect("tables can be copied");
    }

    /// Brings back what was kept.
    pub async fn restore(&self) {
        let restore = |table| {
            format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM saved_{table};")
        };
        self.tamper(&TABLES.map(restore).concat()).await;
    }

    /// What takes the triggers away, and what brings them back.
    async fn triggers(&self) -> (String, String) {
        match self {
            Self::Sqlite(_) => {
                let mut connection =
                    SqliteConnection::connect(&self.url()).await.expect("the file is there");
                let found: Vec<(String, String)> =
                    sqlx::query_as("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
                        .fetch_all(&mut connection)
                        .await
                        .expect("the schema can be read");
                let (names, statements): (Vec<_>, Vec<_>) = found.into_iter().unzip();
                let drop = names.join("; DROP TRIGGER ");
                (format!("DROP TRIGGER {drop}"), statements.join(";"))
            }
            Self::Postgres(_) => {
                let turn = |to: &str| {
                    let one = |table| format!("ALTER TABLE {table} {to} TRIGGER USER;");
                    TABLES.map(one).concat()
                };
                (turn("DISABLE"), turn("ENABLE"))
            }
        }
    }
}
