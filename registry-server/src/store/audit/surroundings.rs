//! What stands around the log: its tables themselves, rows of no commit, the row that says which registry this is, and the
//! triggers that keep the log from being edited, with whatever else could meddle with a write.
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
    backend::{Backend, Meddler, Snapshot, run},
    schema::{Guard, NEEDED},
    sql,
};

/// Verifies what stands around the log, for this registry and the key that its server signs with.
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
            let problem = format!("the table {table} has {strays} rows of it, but no such commit");
            found.report(format_args!("revision {revision}"), problem);
        }
    }
    for (table, sql) in [("head", sql::HEADS), ("registry", sql::REGISTRIES)] {
        let (rows,): (i64,) =
            run!(Snapshot(&mut *snapshot), (i64,), sql, [], fetch_one).map_err(explain)?;
        if rows > 1 {
            let problem = format!("it has {rows} rows; only one is read, delete the others");
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
    let there = backend.meddlers(snapshot).await?;
    guards(&backend.schema().triggers(), &there, found);
    Ok(())
}

/// Finds the tables that are not there; without them, nothing else is read.
pub(super) async fn missing_tables(
    backend: &Backend,
    snapshot: &mut Snapshot,
) -> Result<Findings, Error> {
    let schema = backend.schema();
    let there: Vec<(String,)> = run!(Snapshot(snapshot), (String,), schema.tables, [], fetch_all)
        .map_err(|e| backend.explain(&e))?;
    let mut found = Findings::default();
    for table in schema.created() {
        if !there.iter().any(|(name,)| name == table) {
            let problem = "there is no such table: it was dropped or renamed, or something else, as \
                           a view, is in its place; nothing else was read; bring the table back, or \
                           restore it from a backup";
            found.report(format_args!("the table {table}"), problem);
        }
    }
    Ok(found)
}

/// Holds the triggers that there are against those that the migrations make.
fn guards(wanted: &[Guard<'_>], there: &[Meddler], found: &mut Findings) {
    for Guard { name, table, statement } in wanted {
        if !there.iter().any(|(_, _, on, has)| on == table && has.as_ref() == Some(statement)) {
            let problem = "it is missing, disabled or another one, so that nothing keeps rows of the \
                           log from being edited; make it again as in migrations/";
            found.report(format_args!("the trigger {name}"), problem);
        }
    }
    for (sort, name, table, _) in there {
        if table.is_empty() {
            let problem = "for this server it is `replica`, so that no trigger keeps rows of the log \
                           from being edited; reset it, of the role and of the database";
            found.report(format_args!("the {sort} {name}"), problem);
        } else if !wanted.iter().any(|guard| guard.name == name && guard.table == table) {
            let problem = "no migration that this program knows makes it, and it may change or drop \
                           what is written; look at it, and drop it where nobody needs it";
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
    const PLACE: &str = "the table registry";
    let Some(RegistryRow { id, needs_version, checkpoint_key }) = row else {
        let problem = format!(
            "its row is missing; the next server that starts would begin another registry on this \
             log; restore it from a backup, or: INSERT INTO registry (id, needs_version, \
             checkpoint_key) VALUES ('{registry}', {NEEDED}, '{key}')"
        );
        return found.report(PLACE, problem);
    };
    if *id != *registry.as_str().as_bytes() {
        let id = Value(Some(&id));
        let problem = format!("its column id has {id}, this server opened {registry}");
        found.report(PLACE, problem);
    }
    if !(NEEDED..=migrated.max(NEEDED)).contains(&needs_version) {
        let problem = format!(
            "its column needs_version has {needs_version}, the migrations up to {migrated} left \
             {NEEDED}"
        );
        found.report(PLACE, problem);
    }
    let known = key.to_string();
    if checkpoint_key.as_deref() != Some(known.as_bytes()) {
        let has = Value(checkpoint_key.as_deref());
        let problem =
            format!("its column checkpoint_key has {has}, this server signs with {known}");
        found.report(PLACE, problem);
    }
}
