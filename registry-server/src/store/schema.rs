//! Prepares a database: recognizes it, migrates it and creates its identity.

use std::{collections::BTreeSet, sync::LazyLock};

use registry_core::{ChainHash, RegistryId};
use sqlx::{
    ColumnIndex, Connection, Database, Decode, Encode, Executor, IntoArguments, SqlSafeStr, Type,
    migrate::{Migrate, MigrateError, Migration, MigrationType, Migrator},
};
use uuid::Uuid;

use super::{Error, sql};

/// Migrations of one database, and the query for its tables.
pub(super) struct Schema {
    migrator: LazyLock<Migrator>,
    /// Query for the names of all tables, without views.
    pub(super) tables: &'static str,
}

/// Latest migration of this program.
pub(super) const KNOWN: i64 = 20;

/// Value of `registry.needs_version` after these migrations; later migrations may raise it.
pub(super) const NEEDED: i64 = 9;

pub(super) static SQLITE: Schema = Schema {
    migrator: LazyLock::new(|| {
        migrator([
            ("log", include_str!("../../../migrations/sqlite/0001_log.sql")),
            ("governance", include_str!("../../../migrations/sqlite/0002_governance.sql")),
            ("access", include_str!("../../../migrations/sqlite/0003_access.sql")),
            ("proof", include_str!("../../../migrations/sqlite/0004_proof.sql")),
            ("fleet", include_str!("../../../migrations/sqlite/0005_fleet.sql")),
            ("relay", include_str!("../../../migrations/sqlite/0006_relay.sql")),
            ("requests", include_str!("../../../migrations/sqlite/0007_requests.sql")),
            ("commit_events", include_str!("../../../migrations/sqlite/0008_commit_events.sql")),
            ("policies", include_str!("../../../migrations/sqlite/0009_policies.sql")),
            ("ledger", include_str!("../../../migrations/sqlite/0010_ledger.sql")),
            ("usage", include_str!("../../../migrations/sqlite/0011_usage.sql")),
            ("ledger_bounds", include_str!("../../../migrations/sqlite/0012_ledger_bounds.sql")),
            ("usage_findings", include_str!("../../../migrations/sqlite/0013_usage_findings.sql")),
            ("ledger_claims", include_str!("../../../migrations/sqlite/0014_ledger_claims.sql")),
            ("approvals", include_str!("../../../migrations/sqlite/0015_approvals.sql")),
            ("currency", include_str!("../../../migrations/sqlite/0016_currency.sql")),
            (
                "unknown_outcomes",
                include_str!("../../../migrations/sqlite/0017_unknown_outcomes.sql"),
            ),
            ("traces", include_str!("../../../migrations/sqlite/0018_traces.sql")),
            (
                "operator_events",
                include_str!("../../../migrations/sqlite/0019_operator_events.sql"),
            ),
            (
                "decision_events",
                include_str!("../../../migrations/sqlite/0020_decision_events.sql"),
            ),
        ])
    }),
    tables: "SELECT name FROM sqlite_schema
             WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
};

pub(super) static POSTGRES: Schema = Schema {
    migrator: LazyLock::new(|| {
        migrator([
            ("log", include_str!("../../../migrations/postgres/0001_log.sql")),
            ("governance", include_str!("../../../migrations/postgres/0002_governance.sql")),
            ("access", include_str!("../../../migrations/postgres/0003_access.sql")),
            ("proof", include_str!("../../../migrations/postgres/0004_proof.sql")),
            ("fleet", include_str!("../../../migrations/postgres/0005_fleet.sql")),
            ("relay", include_str!("../../../migrations/postgres/0006_relay.sql")),
            ("requests", include_str!("../../../migrations/postgres/0007_requests.sql")),
            ("commit_events", include_str!("../../../migrations/postgres/0008_commit_events.sql")),
            ("policies", include_str!("../../../migrations/postgres/0009_policies.sql")),
            ("ledger", include_str!("../../../migrations/postgres/0010_ledger.sql")),
            ("usage", include_str!("../../../migrations/postgres/0011_usage.sql")),
            ("ledger_bounds", include_str!("../../../migrations/postgres/0012_ledger_bounds.sql")),
            (
                "usage_findings",
                include_str!("../../../migrations/postgres/0013_usage_findings.sql"),
            ),
            ("ledger_claims", include_str!("../../../migrations/postgres/0014_ledger_claims.sql")),
            ("approvals", include_str!("../../../migrations/postgres/0015_approvals.sql")),
            ("currency", include_str!("../../../migrations/postgres/0016_currency.sql")),
            (
                "unknown_outcomes",
                include_str!("../../../migrations/postgres/0017_unknown_outcomes.sql"),
            ),
            ("traces", include_str!("../../../migrations/postgres/0018_traces.sql")),
            (
                "operator_events",
                include_str!("../../../migrations/postgres/0019_operator_events.sql"),
            ),
            (
                "decision_events",
                include_str!("../../../migrations/postgres/0020_decision_events.sql"),
            ),
        ])
    }),
    tables: "SELECT tablename::text FROM pg_tables
             WHERE schemaname = current_schema() ORDER BY tablename",
};

/// A trigger defined by the migrations.
pub(super) struct Trigger<'a> {
    pub(super) name: &'a str,
    pub(super) table: &'a str,
    /// Its statement, in the form that the database reports.
    pub(super) statement: String,
}

impl Schema {
    /// Text after each occurrence of these words in the migrations.
    fn after<'a>(&'a self, words: &'a str) -> impl Iterator<Item = &'a str> {
        let texts = self.migrator.iter().map(|migration| migration.sql.as_str());
        texts.flat_map(move |sql| sql.split(words).skip(1))
    }

    /// Triggers defined by the migrations. A later definition replaces an earlier one.
    pub(super) fn triggers(&self) -> Vec<Trigger<'_>> {
        let mut triggers: Vec<Trigger<'_>> = Vec::new();
        for made in self.after("CREATE TRIGGER ").map(Trigger::read) {
            triggers.retain(|earlier| earlier.name != made.name);
            triggers.push(made);
        }
        triggers
    }

    /// Tables created by the migrations.
    pub(super) fn tables_created(&self) -> Vec<&str> {
        let made = self.after("CREATE TABLE ").filter_map(|rest| rest.split_whitespace().next());
        made.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Body of the Postgres trigger function.
    pub(super) fn trigger_function(&self) -> Option<&str> {
        let mut made = self.after("FUNCTION refuse_edit() RETURNS trigger LANGUAGE plpgsql AS $$");
        Some(made.next()?.split_once("$$")?.0)
    }
}

impl<'a> Trigger<'a> {
    /// Parses a trigger from its name on. SQLite reports the original text; Postgres reports one line, with the
    /// events in its own order.
    fn read(rest: &'a str) -> Self {
        let mut words = rest.split_whitespace();
        let name = words.next().unwrap_or_default();
        let table = words.skip_while(|word| *word != "ON").nth(1).unwrap_or_default();
        let statement = if let Some((body, _)) = rest.split_once("END;") {
            format!("CREATE TRIGGER {body}END")
        } else {
            let text = rest.split(';').next().unwrap_or_default();
            let words: Vec<_> = text.split_whitespace().collect();
            let text = words.join(" ").replace("UPDATE OR DELETE", "DELETE OR UPDATE");
            format!("CREATE TRIGGER {text}")
        };
        Self { name, table, statement }
    }
}

/// A failed preparation.
pub(super) enum Unprepared {
    Driver(sqlx::Error),
    Store(Error),
}

impl From<sqlx::Error> for Unprepared {
    fn from(error: sqlx::Error) -> Self {
        Self::Driver(error)
    }
}

/// Numbers the migrations from 1.
fn migrator<const N: usize>(steps: [(&'static str, &'static str); N]) -> Migrator {
    let migrations = steps.into_iter().zip(1_i64..).map(|((name, sql), version)| {
        let no_tx = sql.starts_with("-- no-transaction");
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), no_tx)
    });
    let mut migrator = Migrator::with_migrations(migrations.collect());
    // A newer program may have added migrations; `needs_version` shows whether this program is compatible.
    migrator.set_ignore_missing(true);
    migrator
}

/// Handling of an older schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaMode {
    /// Migrate it.
    Migrate,
    /// Reject it, because other programs may use it. An empty database is created in any case.
    Require,
}

/// Recognizes and migrates the database, and creates its identity.
pub(super) async fn prepare<DB>(
    connection: &mut DB::Connection,
    schema: &Schema,
    database: &str,
    mode: SchemaMode,
) -> Result<RegistryId, Unprepared>
where
    DB: Database,
    DB::Connection: Migrate,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'q> String: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> i64: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    let tables: Vec<(String,)> = sqlx::query_as(schema.tables).fetch_all(&mut *connection).await?;
    let tables: Vec<String> = tables.into_iter().map(|(name,)| name).collect();
    if recognize(&tables, database).map_err(Unprepared::Store)? == Recognized::Registry {
        let needs: Option<(i64,)> =
            sqlx::query_as(sql::NEEDS_VERSION).fetch_optional(&mut *connection).await?;
        if let Some((found,)) = needs.filter(|(needs,)| *needs > KNOWN) {
            let database = database.to_owned();
            return Err(Unprepared::Store(Error::SchemaTooNew { database, found, known: KNOWN }));
        }
        if mode == SchemaMode::Require {
            let (found,): (i64,) =
                sqlx::query_as(sql::MIGRATED).fetch_one(&mut *connection).await?;
            if found != KNOWN {
                let database = database.to_owned();
                let error = Error::SchemaMismatch { database, found, known: KNOWN };
                return Err(Unprepared::Store(error));
            }
        }
    }
    schema.migrator.run_direct(None, &mut *connection, false).await.map_err(explain_migration)?;
    identify::<DB>(connection).await
}

/// Reads the id of the registry, or creates it.
async fn identify<DB>(connection: &mut DB::Connection) -> Result<RegistryId, Unprepared>
where
    DB: Database,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'q> String: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> i64: Encode<'q, DB> + Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    // Serializes concurrent starts, so that all read the id of the first.
    let mut transaction = connection.begin().await?;
    let id = Uuid::now_v7().to_string();
    sqlx::query(sql::CREATE_IDENTITY).bind(id).bind(NEEDED).execute(&mut *transaction).await?;
    let (id,): (String,) = sqlx::query_as(sql::IDENTITY).fetch_one(&mut *transaction).await?;
    let registry = RegistryId::new(id);
    let genesis = ChainHash::genesis(&registry).to_string();
    sqlx::query(sql::CREATE_HEAD).bind(genesis).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(registry)
}

#[derive(Debug, PartialEq, Eq)]
enum Recognized {
    Empty,
    Registry,
}

fn recognize(tables: &[String], database: &str) -> Result<Recognized, Error> {
    let has = |name: &str| tables.iter().any(|table| table == name);
    if tables.iter().all(|table| table == "_sqlx_migrations") {
        return Ok(Recognized::Empty);
    }
    if ["_sqlx_migrations", "registry", "head", "commits", "changes", "entities"].map(has)
        == [true; 6]
    {
        return Ok(Recognized::Registry);
    }
    let (shown, more) = tables.split_at(tables.len().min(5));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    let found = format!("the tables {}{more}", shown.join(", "));
    Err(Error::NotARegistry { database: database.to_owned(), found })
}

fn explain_migration(error: MigrateError) -> Unprepared {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            Unprepared::Driver(error)
        }
        other => Unprepared::Store(Error::Corrupt {
            what: "the table _sqlx_migrations".to_owned(),
            detail: other.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_databases_have_the_same_migrations() {
        for schema in [&SQLITE, &POSTGRES] {
            let versions: Vec<i64> = schema.migrator.iter().map(|m| m.version).collect();
            assert_eq!(versions, (1..=KNOWN).collect::<Vec<_>>());
        }
    }

    #[test]
    fn required_version_matches_the_last_migration() {
        for schema in [&SQLITE, &POSTGRES] {
            let versions = schema.migrator.iter().filter_map(|migration| {
                let (_, rest) = migration.sql.as_str().split_once("SET needs_version = ")?;
                rest.split_once(';')?.0.parse().ok()
            });
            assert_eq!(versions.max(), Some(NEEDED));
        }
    }

    #[test]
    fn only_empty_databases_and_registries_are_accepted() {
        let recognized = |tables: &[&str]| {
            recognize(&tables.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>(), "db")
        };
        assert_eq!(recognized(&[]), Ok(Recognized::Empty));
        assert_eq!(recognized(&["_sqlx_migrations"]), Ok(Recognized::Empty));
        let registry = ["_sqlx_migrations", "changes", "commits", "entities", "head", "registry"];
        assert_eq!(recognized(&registry), Ok(Recognized::Registry));
        assert!(recognized(&registry[..5]).is_err());
        let error = recognized(&["a", "b", "c", "d", "e", "f", "g"]).unwrap_err().to_string();
        insta::assert_snapshot!(
            error,
            @"the database db is not a registry: it contains the tables a, b, c, d, e and 2 more; \
              use an empty database or the database of a registry"
        );
    }
}
