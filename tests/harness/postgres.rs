//! A real Postgres for tests: the server of `DATABASE_URL`, or a private cluster. The private
//! cluster uses a temporary directory, a Unix socket and a loopback port, and ends with the test
//! process.

mod binaries;
mod certificates;
mod cluster;
mod standby;

use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, postgres::PgConnectOptions};

pub use cluster::{Fsync, PrivateCluster};
pub use standby::Replication;

/// A database for one test, dropped at its end.
#[derive(Debug)]
pub struct TestDatabase {
    admin_url: String,
    name: String,
    url: String,
}

/// Creates an empty database on the server of `DATABASE_URL`, or on a private cluster that all
/// tests of this process share.
pub async fn database() -> TestDatabase {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let admin_url = admin_url().await;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("registry_test_{}_{number}", std::process::id());
    create_database(&admin_url, &name).await;
    let url = with_database(&admin_url, &name);
    TestDatabase { admin_url, name, url }
}

impl TestDatabase {
    /// The URL `postgres://…`.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for TestDatabase {
    /// Best effort: a test that failed because of a missing server should not fail twice.
    fn drop(&mut self) {
        let sql = format!("DROP DATABASE IF EXISTS \"{}\" WITH (FORCE)", self.name);
        let url = self.admin_url.clone();
        let drop = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(execute(&url, sql)))
        });
        let _ = drop.join();
    }
}

/// The server that the tests of this process share.
async fn admin_url() -> String {
    static SHARED: OnceLock<PrivateCluster> = OnceLock::new();
    if let Some(url) = std::env::var_os("DATABASE_URL").filter(|url| !url.is_empty()) {
        return url.into_string().expect("DATABASE_URL is text");
    }
    let start = || SHARED.get_or_init(|| PrivateCluster::start(Fsync::Off)).url("postgres");
    tokio::task::spawn_blocking(start).await.expect("the cluster starts")
}

/// Creates a database on the server of this URL.
pub(crate) async fn create_database(admin_url: &str, name: &str) {
    let sql = format!("CREATE DATABASE \"{name}\"");
    execute(admin_url, sql).await.unwrap_or_else(|e| panic!("the database {name}: {e}"));
}

async fn execute(url: &str, sql: String) -> Result<(), sqlx::Error> {
    let options: PgConnectOptions = url.parse()?;
    let mut connection = options.disable_statement_logging().connect().await?;
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await?;
    connection.close().await
}

async fn truth(url: &str, sql: &str) -> Result<bool, sqlx::Error> {
    let options: PgConnectOptions = url.parse()?;
    let mut connection = options.disable_statement_logging().connect().await?;
    let sql = AssertSqlSafe(sql.to_owned());
    let answer = sqlx::query_scalar(sql).fetch_one(&mut connection).await?;
    connection.close().await?;
    Ok(answer)
}

/// Replaces the database in a URL.
fn with_database(url: &str, name: &str) -> String {
    let (address, query) = url.split_once('?').map_or((url, None), |(a, q)| (a, Some(q)));
    let authority = address.find("://").map_or(0, |at| at + 3);
    let server = address[authority..].find('/').map_or(address, |at| &address[..authority + at]);
    match query {
        Some(query) => format!("{server}/{name}?{query}"),
        None => format!("{server}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_database_is_replaced() {
        for (url, replaced) in [
            ("postgres://u:p@h:1/old", "postgres://u:p@h:1/new"),
            ("postgres://u@h", "postgres://u@h/new"),
            ("postgres://u@h/old?host=/run", "postgres://u@h/new?host=/run"),
            ("postgres://h/?sslmode=disable", "postgres://h/new?sslmode=disable"),
        ] {
            assert_eq!(with_database(url, "new"), replaced);
        }
    }
}
