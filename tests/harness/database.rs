//! Databases of both kinds, with direct SQL access that bypasses the service.

use sqlx::{Connection as _, PgConnection, SqliteConnection};
use tempfile::TempDir;

use crate::postgres;

/// The tables of the log.
const TABLES: [&str; 6] = ["registry", "head", "commits", "changes", "setting_changes", "entities"];

/// A new database.
#[derive(Debug)]
pub enum Database {
    /// A SQLite file.
    Sqlite(TempDir),
    /// A database in a private Postgres cluster.
    Postgres(postgres::TestDatabase),
}

impl Database {
    /// One database of each kind.
    pub async fn both() -> [Self; 2] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        [Self::Sqlite(dir), Self::Postgres(postgres::database().await)]
    }

    /// The URL for `--database`.
    pub fn url(&self) -> String {
        match self {
            Self::Sqlite(dir) => format!("sqlite:{}", dir.path().join("registry.db").display()),
            Self::Postgres(database) => database.url().to_owned(),
        }
    }

    /// Runs SQL with the service's own rights.
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

    /// Returns the number that a query selects.
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

    /// Drops the triggers that protect the log.
    pub async fn disarm(&self) {
        let (disarm, _) = self.triggers().await;
        self.execute(&disarm).await.expect("the owner of tables may drop triggers");
    }

    /// Runs SQL without the triggers that protect the log, and restores them.
    pub async fn tamper(&self, sql: &str) {
        let (disarm, arm) = self.triggers().await;
        let sql = format!("BEGIN; {disarm}; {sql}; {arm}; COMMIT");
        self.execute(&sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    /// Saves a copy of the tables for [`Database::restore`].
    pub async fn save(&self) {
        let copy = |table| format!("CREATE TABLE saved_{table} AS SELECT * FROM {table};");
        self.execute(&TABLES.map(copy).concat()).await.expect("tables can be copied");
    }

    /// Restores the saved tables.
    pub async fn restore(&self) {
        let restore = |table| {
            format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM saved_{table};")
        };
        self.tamper(&TABLES.map(restore).concat()).await;
    }

    /// SQL that drops the triggers, and SQL that creates them.
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
