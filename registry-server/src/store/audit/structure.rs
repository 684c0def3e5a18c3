//! Verifies the structure around the log: tables, rows without a commit, the identity of the registry, and the
//! triggers that make the log immutable.
//!
//! Constraints, indexes and grants are not verified.

use registry_core::{RegistryId, checkpoint::VerifierKey, limits};

use super::{
    Findings,
    findings::Value,
    row::{RegistryRow, StrayRow},
};
use crate::store::{
    Error,
    backend::{Backend, Snapshot, WriteHook, run},
    schema::{NEEDED, Trigger},
    sql,
};

/// Verifies the structure for this registry and the key of its server.
pub(super) async fn verify(
    backend: &Backend,
    snapshot: &mut Snapshot,
    (registry, key): (&RegistryId, &VerifierKey),
    found: &mut Findings,
) -> Result<(), Error> {
    let explain = |e: sqlx::Error| backend.explain(&e);
    let most = i64::try_from(limits::PROBLEMS).unwrap_or(i64::MAX);
    for (table, sql) in [("changes", sql::STRAY_CHANGES), ("setting_changes", sql::STRAY_SETS)] {
        let rows: Vec<StrayRow> =
            run!(Snapshot(&mut *snapshot), StrayRow, sql, [most], fetch_all).map_err(explain)?;
        for StrayRow { revision, strays } in rows {
            let problem =
                format!("the table {table} has {strays} rows of it, but the commit does not exist");
            found.report(format_args!("revision {revision}"), problem);
        }
    }
    for (table, sql) in [("head", sql::HEADS), ("registry", sql::REGISTRIES)] {
        let (rows,): (i64,) =
            run!(Snapshot(&mut *snapshot), (i64,), sql, [], fetch_one).map_err(explain)?;
        if rows > 1 {
            let problem = format!("it has {rows} rows but only one is used; delete the others");
            found.report(format_args!("the table {table}"), problem);
        }
    }
    let (migrated,): (Option<i64>,) =
        run!(Snapshot(&mut *snapshot), (Option<i64>,), sql::MIGRATED, [], fetch_one)
            .map_err(explain)?;
    let row: Option<RegistryRow> =
        run!(Snapshot(&mut *snapshot), RegistryRow, sql::REGISTRY, [], fetch_optional)
            .map_err(explain)?;
    identity(row, (registry, key), migrated.unwrap_or_default(), found);
    let existing = backend.write_hooks(snapshot).await?;
    triggers(&backend.schema().triggers(), &existing, found);
    Ok(())
}

/// Finds missing tables. Nothing else can be read without them.
pub(super) async fn missing_tables(
    backend: &Backend,
    snapshot: &mut Snapshot,
) -> Result<Findings, Error> {
    let schema = backend.schema();
    let existing: Vec<(String,)> =
        run!(Snapshot(snapshot), (String,), schema.tables, [], fetch_all)
            .map_err(|e| backend.explain(&e))?;
    let mut found = Findings::default();
    for table in schema.tables_created() {
        if !existing.iter().any(|(name,)| name == table) {
            let problem = "the table is missing, or another object such as a view has its name; the rest of the \
                           database was not verified. Restore the table from a backup";
            found.report(format_args!("the table {table}"), problem);
        }
    }
    Ok(found)
}

/// Compares the existing triggers with those of the migrations.
fn triggers(expected: &[Trigger<'_>], existing: &[WriteHook], found: &mut Findings) {
    for Trigger { name, table, statement } in expected {
        if !existing.iter().any(|(_, _, on, has)| on == table && has.as_ref() == Some(statement)) {
            let problem = "it is missing, disabled or different, so rows of the log can be edited; create \
                           it again as in migrations/";
            found.report(format_args!("the trigger {name}"), problem);
        }
    }
    for (sort, name, table, _) in existing {
        if table.is_empty() {
            let problem = "it is `replica` for this server, which disables all triggers, so rows of the log \
                           can be edited; reset it for the role and the database";
            found.report(format_args!("the {sort} {name}"), problem);
        } else if !expected.iter().any(|trigger| trigger.name == name && trigger.table == table) {
            let problem = "it is not part of any known migration and may change or discard written rows; \
                           review it, and drop it if it is not needed";
            found.report(format_args!("the {sort} {name} on {table}"), problem);
        }
    }
}

fn identity(
    row: Option<RegistryRow>,
    (registry, key): (&RegistryId, &VerifierKey),
    migrated: i64,
    found: &mut Findings,
) {
    const LOCATION: &str = "the table registry";
    let Some(RegistryRow { id, needs_version, checkpoint_key }) = row else {
        let problem = format!(
            "its row is missing, and the next start of a server would create another registry on this log; \
             restore it from a backup, or run: INSERT INTO registry (id, needs_version, \
             checkpoint_key) VALUES ('{registry}', {NEEDED}, '{key}')"
        );
        return found.report(LOCATION, problem);
    };
    if *id != *registry.as_str().as_bytes() {
        let id = Value(Some(&id));
        let problem = format!("its column id has {id}, this server opened {registry}");
        found.report(LOCATION, problem);
    }
    if !(NEEDED..=migrated.max(NEEDED)).contains(&needs_version) {
        let problem = format!(
            "its column needs_version has {needs_version}, but the migrations up to {migrated} set \
             {NEEDED}"
        );
        found.report(LOCATION, problem);
    }
    let known = key.to_string();
    if checkpoint_key.as_deref() != Some(known.as_bytes()) {
        let has = Value(checkpoint_key.as_deref());
        let problem =
            format!("its column checkpoint_key has {has}, this server signs with {known}");
        found.report(LOCATION, problem);
    }
}
