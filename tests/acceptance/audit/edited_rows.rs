//! Rows that were edited directly in the database: each edit is found and named.

use acceptance::Database;

use super::{filled, findings};

/// Edits of a log of four commits, the last one a transfer, each with the expected place and
/// finding.
const EDITS: &[(&str, &str, &str)] = &[
    (
        "UPDATE commits SET author = 'mallory' WHERE revision = 2",
        "revision 2",
        "its column author has \"mallory\", the log says \"anonymous\"",
    ),
    ("UPDATE commits SET message = 'x' WHERE revision = 3", "revision 3", "column message"),
    ("UPDATE commits SET request_id = '' WHERE revision = 2", "revision 2", "column request_id"),
    ("UPDATE commits SET changes = 9 WHERE revision = 2", "revision 2", "column changes has 9"),
    (
        "UPDATE commits SET canonical = (SELECT canonical FROM commits WHERE revision = 1) WHERE revision = 2",
        "revision 2",
        "the chain is broken",
    ),
    (
        "UPDATE commits SET chain = (SELECT chain FROM commits WHERE revision = 1) WHERE revision = 2",
        "revision 2",
        "the chain is broken",
    ),
    ("DELETE FROM commits WHERE revision = 2", "revision 2", "it is missing"),
    ("DELETE FROM commits WHERE revision IN (1, 2)", "revisions 1 to 2", "they are missing"),
    (
        "DELETE FROM commits WHERE revision = 4; DELETE FROM setting_changes;
         UPDATE head SET revision = 3, chain = (SELECT chain FROM commits WHERE revision = 3)",
        "revision 4",
        "the end of the log was deleted",
    ),
    (
        "INSERT INTO commits SELECT 9000000000000000000, author, committed_at, message, 'other',
         changes, chain, canonical FROM commits WHERE revision = 4",
        "revisions 5 to 8999999999999999999",
        "they are missing",
    ),
    (
        "UPDATE head SET chain = (SELECT chain FROM commits WHERE revision = 1)",
        "the table head",
        "column chain",
    ),
    ("UPDATE head SET revision = 3", "the table head", "column revision has 3, the log says 4"),
    ("DELETE FROM head", "the table head", "INSERT INTO head"),
    ("UPDATE registry SET id = 'x'", "the table registry", "column id has \"x\""),
    ("UPDATE registry SET needs_version = 1", "the table registry", "column needs_version has 1"),
    ("UPDATE registry SET needs_version = 99", "the table registry", "column needs_version has 99"),
    ("UPDATE registry SET checkpoint_key = NULL", "the table registry", "checkpoint_key has null"),
    ("DELETE FROM registry", "the table registry", "its row is missing"),
    ("DELETE FROM changes WHERE revision = 2 AND ordinal = 0", "revision 2, change 0", "no row"),
    (
        "UPDATE changes SET reason = 'fast' WHERE revision = 3",
        "revision 3, change 0",
        "its column reason has \"fast\", the log says \"slow\"",
    ),
    ("UPDATE changes SET digest = 'x' WHERE revision = 3", "revision 3, change 0", "column digest"),
    ("UPDATE changes SET ordinal = 50 WHERE revision = 3", "revision 3, change 0", "no row"),
    (
        "UPDATE changes SET detail = '{\"zz\":1}' WHERE revision = 2 AND ordinal = 0",
        "revision 2, change 0",
        "its column detail has \"{\\\"zz\\\":1}\", the log says null",
    ),
    (
        "INSERT INTO changes SELECT 3, 1, action, kind, name, version, digest, reason, detail
         FROM changes WHERE revision = 3",
        "revision 3, change 1",
        "the commit does not",
    ),
    ("UPDATE changes SET revision = 77 WHERE revision = 3", "revision 3, change 0", "no row"),
    (
        "INSERT INTO changes SELECT 77, 0, action, kind, name, version, digest, reason, detail
         FROM changes WHERE revision = 3",
        "revision 77",
        "the table changes has 1 rows of it, but the commit does not exist",
    ),
    (
        "INSERT INTO changes SELECT -1, 0, action, kind, name, version, digest, reason, detail
         FROM changes WHERE revision = 3",
        "revision -1",
        "the commit does not exist",
    ),
    (
        "UPDATE setting_changes SET selector = 'tool/x'",
        "revision 4, setting 0",
        "its column selector has \"tool/x\", the log says \"tool/fetch\"",
    ),
    ("UPDATE setting_changes SET setting = 'x'", "revision 4, setting 0", "column setting"),
    ("UPDATE setting_changes SET ordinal = 7", "revision 4, setting 0", "no row"),
    ("INSERT INTO setting_changes VALUES (4, 1, 'x', 'zzz')", "revision 4, setting 1", "does not"),
    (
        "INSERT INTO setting_changes VALUES (0, 0, '*', 'zzz')",
        "revision 0",
        "the commit does not exist",
    ),
    (
        "INSERT INTO setting_changes VALUES (99, 0, '*', 'zzz')",
        "revision 99",
        "the commit does not exist",
    ),
    (
        "UPDATE entities SET lifecycle = 'active' WHERE name = 'fetch' AND kind = 'tool'",
        "tool/fetch@1.2.3",
        "its column lifecycle has \"active\", the log says \"deprecated\"",
    ),
    (
        "UPDATE entities SET lifecycle_reason = 'fast' WHERE name = 'fetch' AND kind = 'tool'",
        "tool/fetch@1.2.3",
        "its column lifecycle_reason has \"fast\", the log says \"slow\"",
    ),
    (
        "UPDATE entities SET lifecycle_reason = '' WHERE name = 'get_user' AND kind = 'tool'",
        "tool/get_user@1.0.0",
        "its column lifecycle_reason has \"\", the log says null",
    ),
    (
        "UPDATE entities SET lifecycle_notice = '{\"zz\":1}' WHERE name = 'fetch' AND kind = 'tool'",
        "tool/fetch@1.2.3",
        "column lifecycle_notice",
    ),
    (
        "UPDATE entities SET lifecycle_revision = 2 WHERE name = 'fetch' AND kind = 'tool'",
        "tool/fetch@1.2.3",
        "its column lifecycle_revision has 2, the log says 3",
    ),
    (
        "UPDATE entities SET registered_revision = 99 WHERE name = 'fetch' AND kind = 'tool'",
        "tool/fetch@1.2.3",
        "its column registered_revision has 99, the log says 1",
    ),
    (
        "UPDATE entities SET owner = 'mallory' WHERE name = 'fetch' AND kind = 'tool'",
        "tool/fetch@1.2.3",
        "its column owner has \"mallory\", the log says \"anonymous\"",
    ),
    (
        "UPDATE entities SET document = (SELECT document FROM entities WHERE name = 'get_user'
         AND kind = 'tool') WHERE name = 'fetch' AND kind = 'tool'",
        "tool/fetch@1.2.3",
        "its column document has the digest",
    ),
    (
        "DELETE FROM entities WHERE name = 'fetch' AND kind = 'tool'",
        "tool/fetch@1.2.3",
        "the table entities lacks it",
    ),
    (
        "UPDATE entities SET version = '9.9.9' WHERE name = 'fetch' AND kind = 'tool'",
        "tool/fetch@9.9.9",
        "no commit registers it",
    ),
];

/// Edits that only SQLite accepts: values that are not text, and numbers out of range.
const STRANGE: &[(&str, &str, &str)] = &[
    (
        "UPDATE commits SET author = CAST(x'ff61' AS text) WHERE revision = 2",
        "revision 2",
        "its column author has \"\\xffa\" (2 bytes, invalid UTF-8), the log says \"anonymous\"",
    ),
    (
        "UPDATE commits SET committed_at = CAST(x'ff' AS text) WHERE revision = 2",
        "revision 2",
        "its column committed_at has \"\\xff\"",
    ),
    (
        "UPDATE commits SET changes = 4294967297 WHERE revision = 1",
        "revision 1",
        "its column changes has 4294967297",
    ),
    (
        "UPDATE commits SET changes = 9223372036854775807",
        "revision 1",
        "its column changes has 9223372036854775807",
    ),
    (
        "UPDATE changes SET ordinal = 4294967296 WHERE revision = 3",
        "revision 3, change 0",
        "no row",
    ),
    (
        "UPDATE setting_changes SET setting = CAST(x'ff' AS text)",
        "revision 4, setting 0",
        "its column setting has \"\\xff\"",
    ),
    (
        "UPDATE entities SET name = CAST(x'61ff62' AS text) WHERE name = 'fetch' AND kind = 'tool'",
        "tool/a\u{fffd}b@1.2.3",
        "the table entities",
    ),
    (
        "UPDATE entities SET owner = CAST(x'ff' AS text) WHERE name = 'fetch' AND kind = 'tool'",
        "tool/fetch@1.2.3",
        "its column owner has \"\\xff\"",
    ),
    ("UPDATE head SET chain = CAST(x'ff' AS text)", "the table head", "its column chain has"),
    (
        "UPDATE registry SET checkpoint_key = CAST(x'ff' AS text)",
        "the table registry",
        "its column checkpoint_key has \"\\xff\"",
    ),
];

#[tokio::test]
async fn edited_rows_are_reported() {
    for database in Database::both().await {
        let registry = filled(&database);
        registry.run(&["transfer", "--yes", "tool/fetch", "web-team"]);
        database.save().await;
        let finer = match database {
            Database::Sqlite(_) => "replace(committed_at, 'Z', '+00:00')",
            Database::Postgres(_) => "committed_at + interval '900 microseconds'",
        };
        let finer = format!("UPDATE commits SET committed_at = {finer} WHERE revision = 2");
        let finer = (&*finer, "revision 2", "its column committed_at has");
        let strange = if let Database::Sqlite(_) = database { STRANGE } else { &[] };
        for &(sql, place, problem) in EDITS.iter().chain([&finer]).chain(strange) {
            database.tamper(sql).await;
            let found = findings(&registry);
            assert_eq!(found[0].0, place, "{sql}: {found:?}");
            assert!(found[0].1.contains(problem), "{sql}: {found:?}");
            database.restore().await;
        }
        registry.run(&["audit", "verify"]);
    }
}

#[tokio::test]
async fn duplicate_rows_are_reported() {
    for database in Database::both().await {
        let registry = filled(&database);
        for table in ["head", "registry"] {
            let sql = match database {
                Database::Sqlite(_) => format!(
                    "PRAGMA ignore_check_constraints = ON; CREATE TEMP TABLE copy AS SELECT * FROM {table};
                     UPDATE copy SET only_row = 2; INSERT INTO {table} SELECT * FROM copy"
                ),
                Database::Postgres(_) => format!(
                    "ALTER TABLE {table} DROP CONSTRAINT {table}_pkey;
                     INSERT INTO {table} SELECT * FROM {table}"
                ),
            };
            database.execute(&sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
            let (place, problem) = findings(&registry).pop().expect("a finding");
            assert_eq!(place, format!("the table {table}"));
            assert!(problem.contains("2 rows"), "{problem}");
        }
    }
}

#[tokio::test]
async fn edit_is_reported_once() {
    for database in Database::both().await {
        let registry = filled(&database);
        let edit = "SET chain = (SELECT chain FROM commits WHERE revision = 1) WHERE revision = 2";
        database.tamper(&format!("UPDATE commits {edit}")).await;
        assert_eq!(findings(&registry).len(), 1, "the next link holds");
    }
}

#[tokio::test]
async fn excess_findings_are_counted() {
    for database in Database::both().await {
        let registry = filled(&database);
        let rows = "CREATE TABLE many (ordinal integer);
                    INSERT INTO many VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9),(10),(11),(12),
                    (13),(14),(15),(16),(17),(18),(19),(20),(21),(22),(23),(24),(25),(26),(27),(28),
                    (29),(30),(31),(32),(33),(34),(35),(36),(37),(38),(39)";
        let sql = format!(
            "{rows}; INSERT INTO setting_changes SELECT 1, 40 * a.ordinal + b.ordinal, '*', 'x'
             FROM many a, many b; DROP TABLE many"
        );
        database.tamper(&sql).await;
        let verified = registry.ctl(&["audit", "verify", "--output", "json"]);
        assert_eq!(verified.code, 1, "{verified:?}");
        let (found, verified) = (verified.stderr.contains("1,600"), verified.json());
        assert!(found && verified["more"] == 600, "{verified}");
        assert_eq!(verified["findings"].as_array().map(Vec::len), Some(1000));
    }
}
