//! Makes a database ours: recognises it, migrates it, gives it its identity.

use std::{collections::BTreeSet, sync::LazyLock};

use registry_core::{ChainHash, RegistryId};
use sqlx::{
    ColumnIndex, Connection, Database, Decode, Encode, Executor, IntoArguments, SqlSafeStr, Type,
    migrate::{Migrate, MigrateError, Migration, MigrationType, Migrator},
};
use uuid::Uuid;

use super::{Error, sql};

/// The migrations of one kind of database, and how to see which tables there are.
pub(super) struct Schema {
    migrator: LazyLock<Migrator>,
    /// The query for the names of the tables that there are; views are none.
    pub(super) tables: &'static str,
}

/// The newest migration that this program knows.
pub(super) const KNOWN: i64 = 8;

/// What these migrations leave in `registry.needs_version`; later ones may have raised it.
pub(super) const NEEDED: i64 = 2;

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
        ])
    }),
    tables: "SELECT tablename::text FROM pg_tables
             WHERE schemaname = current_schema() ORDER BY tablename",
};

/// A trigger that the migrations make.
pub(super) struct Guard<'a> {
    pub(super) name: &'a str,
    pub(super) table: &'a str,
    /// Its statement, as the database writes it.
    pub(super) statement: String,
}

impl Schema {
    /// What follows these words wherever they are in the migrations.
    fn after<'a>(&'a self, words: &'a str) -> impl Iterator<Item = &'a str> {
        let texts = self.migrator.iter().map(|migration| migration.sql.as_str());
        texts.flat_map(move |sql| sql.split(words).skip(1))
    }

    /// The triggers that the migrations make. A later one replaces an earlier one of its name.
    pub(super) fn triggers(&self) -> Vec<Guard<'_>> {
        let mut triggers: Vec<Guard<'_>> = Vec::new();
        for made in self.after("CREATE TRIGGER ").map(Guard::read) {
            triggers.retain(|earlier| earlier.name != made.name);
            triggers.push(made);
        }
        triggers
    }

    /// The tables that the migrations make.
    pub(super) fn created(&self) -> Vec<&str> {
        let made = self.after("CREATE TABLE ").filter_map(|rest| rest.split_whitespace().next());
        made.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The body of the function that Postgres' triggers call.
    pub(super) fn refusing(&self) -> Option<&str> {
        let mut made = self.after("FUNCTION refuse_edit() RETURNS trigger LANGUAGE plpgsql AS $$");
        Some(made.next()?.split_once("$$")?.0)
    }
}

impl<'a> Guard<'a> {
    /// From its name on. Only SQLite's triggers have a body; it keeps the text to the letter, Postgres
    /// on one line and with the events in its own order.
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

/// Why a database did not become ours: the driver's failure, or ours.
pub(super) enum Unprepared {
    Driver(sqlx::Error),
    Store(Error),
}

impl From<sqlx::Error> for Unprepared {
    fn from(error: sqlx::Error) -> Self {
        Self::Driver(error)
    }
}

/// Numbered from 1 in this order.
fn migrator<const N: usize>(steps: [(&'static str, &'static str); N]) -> Migrator {
    let migrations = steps.into_iter().zip(1_i64..).map(|((name, sql), version)| {
        let no_tx = sql.starts_with("-- no-transaction");
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), no_tx)
    });
    let mut migrator = Migrator::with_migrations(migrations.collect());
    // A newer program may have expanded the schema; `needs_version` says when that matters.
    migrator.set_ignore_missing(true);
    migrator
}

/// The handling of an older schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// Migrate it.
    Migrate,
    /// Leave it: other programs use it. An empty database becomes a registry all the same.
    AsItIs,
}

/// Recognises, migrates and names the database behind this connection.
pub(super) async fn prepare<DB>(
    connection: &mut DB::Connection,
    schema: &Schema,
    database: &str,
    opening: Opening,
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
    if recognise(&tables, database).map_err(Unprepared::Store)? == Recognised::Ours {
        let needs: Option<(i64,)> =
            sqlx::query_as(sql::NEEDS_VERSION).fetch_optional(&mut *connection).await?;
        if let Some((found,)) = needs.filter(|(needs,)| *needs > KNOWN) {
            let database = database.to_owned();
            return Err(Unprepared::Store(Error::SchemaVersion { database, found, known: KNOWN }));
        }
        if opening == Opening::AsItIs {
            let (found,): (i64,) =
                sqlx::query_as(sql::MIGRATED).fetch_one(&mut *connection).await?;
            if found != KNOWN {
                let database = database.to_owned();
                let error = Error::OtherSchema { database, found, known: KNOWN };
                return Err(Unprepared::Store(error));
            }
        }
    }
    schema.migrator.run_direct(None, &mut *connection, false).await.map_err(explain_migration)?;
    identify::<DB>(connection).await
}

/// Reads the registry's id, or gives it one.
async fn identify<DB>(connection: &mut DB::Connection) -> Result<RegistryId, Unprepared>
where
    DB: Database,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'q> String: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    for<'q> i64: Encode<'q, DB> + Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    // Waits for whoever does the same, so that all read the id of whoever was first.
    let mut transaction = connection.begin().await?;
    let fresh = Uuid::now_v7().to_string();
    sqlx::query(sql::CREATE_IDENTITY).bind(fresh).bind(NEEDED).execute(&mut *transaction).await?;
    let (id,): (String,) = sqlx::query_as(sql::IDENTITY).fetch_one(&mut *transaction).await?;
    let registry = RegistryId::new(id);
    let genesis = ChainHash::genesis(&registry).to_string();
    sqlx::query(sql::CREATE_HEAD).bind(genesis).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(registry)
}

#[derive(Debug, PartialEq, Eq)]
enum Recognised {
    Empty,
    Ours,
}

fn recognise(tables: &[String], database: &str) -> Result<Recognised, Error> {
    let has = |name: &str| tables.iter().any(|table| table == name);
    if tables.iter().all(|table| table == "_sqlx_migrations") {
        return Ok(Recognised::Empty);
    }
    if ["_sqlx_migrations", "registry", "head", "commits", "changes", "entities"].map(has)
        == [true; 6]
    {
        return Ok(Recognised::Ours);
    }
    let (shown, more) = tables.split_at(tables.len().min(5));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    let found = format!("the tables {}{more}", shown.join(", "));
    Err(Error::NotOurs { database: database.to_owned(), found })
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
    fn both_databases_know_the_same_migrations() {
        for schema in [&SQLITE, &POSTGRES] {
            let versions: Vec<i64> = schema.migrator.iter().map(|m| m.version).collect();
            assert_eq!(versions, (1..=KNOWN).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_programs_must_know_is_what_the_last_migration_says() {
        for schema in [&SQLITE, &POSTGRES] {
            let said = schema.migrator.iter().filter_map(|migration| {
                let (_, rest) = migration.sql.as_str().split_once("SET needs_version = ")?;
                rest.split_once(';')?.0.parse().ok()
            });
            assert_eq!(said.max(), Some(NEEDED));
        }
    }

    #[test]
    fn only_an_empty_database_or_a_registry_is_taken() {
        let judge = |tables: &[&str]| {
            recognise(&tables.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>(), "db")
        };
        assert_eq!(judge(&[]), Ok(Recognised::Empty));
        assert_eq!(judge(&["_sqlx_migrations"]), Ok(Recognised::Empty));
        let ours = ["_sqlx_migrations", "changes", "commits", "entities", "head", "registry"];
        assert_eq!(judge(&ours), Ok(Recognised::Ours));
        assert!(judge(&ours[..5]).is_err());
        let error = judge(&["a", "b", "c", "d", "e", "f", "g"]).unwrap_err().to_string();
        assert!(error.contains("the tables a, b, c, d, e and 2 more"), "{error}");
    }
}
