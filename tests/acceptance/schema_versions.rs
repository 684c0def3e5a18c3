//! Database schema versions: commands of `registry-server` that migrate, and commands that do not.

use acceptance::{Database, access::server};

const VERSION: &str = "SELECT max(version) FROM _sqlx_migrations";

/// Runs a command that is rejected because of the schema version, and returns its error.
fn rejected(database: &Database, arguments: &[&str]) -> String {
    let output = server(&database.url(), arguments);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{arguments:?}: {error}");
    error
}

#[tokio::test]
async fn maintenance_commands_reject_other_schema_versions() {
    let create = ["token", "create", "--name", "a", "--role", "admin"];
    let commands = [&["token", "list"][..], &create, &["checkpoint-key", "replace"]];
    for database in Database::both().await {
        assert!(server(&database.url(), &["migrate"]).status.success());
        let known = database.number(VERSION).await;
        assert!(server(&database.url(), &["token", "list"]).status.success());
        let older = format!("DELETE FROM _sqlx_migrations WHERE version = {known}");
        database.execute(&older).await.expect("it is deleted");
        for command in commands {
            let error = rejected(&database, command);
            let versions =
                error.contains(&known.to_string()) && error.contains(&(known - 1).to_string());
            assert!(versions && error.contains("`registry-server migrate`"), "{error}");
        }
        assert_eq!(database.number(VERSION).await, known - 1, "nothing was migrated");
        let newer = "INSERT INTO _sqlx_migrations
            (version, description, success, checksum, execution_time)
            SELECT 99, 'later', success, checksum, 1 FROM _sqlx_migrations WHERE version = 1";
        database.execute(newer).await.expect("it is inserted");
        for command in commands {
            let error = rejected(&database, command);
            assert!(
                error.contains("99") && !error.contains("`registry-server migrate`"),
                "{error}"
            );
        }
    }
}

#[tokio::test]
async fn migrate_creates_the_schema_and_ends() {
    for database in Database::both().await {
        for _ in 0..2 {
            let output = server(&database.url(), &["migrate"]);
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{output:?}");
            let version = database.number(VERSION).await.to_string();
            assert!(printed.contains(&version), "{printed}");
        }
        let rows = database.number("SELECT count(*) FROM registry").await;
        assert_eq!(rows, 1, "the registry has its identity");
    }
}
