//! What auditors do: verify the log, keep checkpoints, prove commits, export the trail.

use std::path::Path;

use acceptance::{Database, Registry, access::server, root};
use registry_core::{
    Action, ChainHash, Change, Commit, Digest, Key, Kind, Notice, Revision, SealedCommit, Timestamp,
};
use registry_proto::v1::{self, audit_service_client::AuditServiceClient};
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use tempfile::tempdir;

/// Three commits, the last one a deprecation.
fn filled(database: &Database) -> Registry {
    let registry = Registry::start_on(&database.url());
    registry.apply_example();
    registry.apply_file(&root().join("examples/new-version.json"));
    registry.run(&["deprecate", "tool/fetch@1.2.3", "--message", "slow", "--sunset", "2027-01-31"]);
    registry
}

#[tokio::test]
async fn a_sound_log_is_verified() {
    for database in Database::both().await {
        let registry = filled(&database);
        registry.run(&["transfer", "tool/fetch", "web-team"]);
        assert!(registry.run(&["audit", "verify"]).starts_with("sound: 4 commits"));
    }
}

#[tokio::test]
async fn the_log_takes_no_edits_from_the_service_itself() {
    for database in Database::both().await {
        let registry = filled(&database);
        registry.run(&["archive", "tool/fetch"]);
        for sql in [
            "UPDATE commits SET author = 'x'",
            "DELETE FROM commits",
            "UPDATE changes SET reason = 'x'",
            "DELETE FROM changes",
            "DELETE FROM entities",
            "UPDATE setting_changes SET setting = 'x'",
        ] {
            assert!(database.execute(sql).await.is_err(), "{sql}");
        }
    }
}

/// Edits of a log of four commits, the last one a transfer: where they are found, and what is said.
const EDITS: &[(&str, &str, &str)] = &[
    // commits
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
        "the chain breaks",
    ),
    (
        "UPDATE commits SET chain = (SELECT chain FROM commits WHERE revision = 1) WHERE revision = 2",
        "revision 2",
        "the chain breaks",
    ),
    ("DELETE FROM commits WHERE revision = 2", "revision 2", "it is missing"),
    ("DELETE FROM commits WHERE revision IN (1, 2)", "revisions 1 to 2", "they are missing"),
    (
        "DELETE FROM commits WHERE revision = 4; DELETE FROM setting_changes;
         UPDATE head SET revision = 3, chain = (SELECT chain FROM commits WHERE revision = 3)",
        "revision 4",
        "the end of the log was cut off",
    ),
    (
        "INSERT INTO commits SELECT 9000000000000000000, author, committed_at, message, 'other',
         changes, chain, canonical FROM commits WHERE revision = 4",
        "revisions 5 to 8999999999999999999",
        "they are missing",
    ),
    // head and registry
    (
        "UPDATE head SET chain = (SELECT chain FROM commits WHERE revision = 1)",
        "the table head",
        "column chain",
    ),
    ("UPDATE head SET revision = 3", "the table head", "column revision has 3, the log says 4"),
    ("DELETE FROM head", "the table head", "INSERT INTO head"),
    ("UPDATE registry SET id = 'x'", "the table registry", "column id has \"x\""),
    ("UPDATE registry SET needs_version = 1", "the table registry", "column needs_version has 1"),
    ("UPDATE registry SET needs_version = 9", "the table registry", "column needs_version has 9"),
    ("UPDATE registry SET checkpoint_key = NULL", "the table registry", "checkpoint_key has null"),
    ("DELETE FROM registry", "the table registry", "its row is missing"),
    // changes
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
        "the table changes has 1 rows of it, but no such commit",
    ),
    (
        "INSERT INTO changes SELECT -1, 0, action, kind, name, version, digest, reason, detail
         FROM changes WHERE revision = 3",
        "revision -1",
        "no such commit",
    ),
    // settings
    (
        "UPDATE setting_changes SET selector = 'tool/x'",
        "revision 4, setting 0",
        "its column selector has \"tool/x\", the log says \"tool/fetch\"",
    ),
    ("UPDATE setting_changes SET setting = 'x'", "revision 4, setting 0", "column setting"),
    ("UPDATE setting_changes SET ordinal = 7", "revision 4, setting 0", "no row"),
    ("INSERT INTO setting_changes VALUES (4, 1, 'x', 'zzz')", "revision 4, setting 1", "does not"),
    ("INSERT INTO setting_changes VALUES (0, 0, '*', 'zzz')", "revision 0", "no such commit"),
    ("INSERT INTO setting_changes VALUES (99, 0, '*', 'zzz')", "revision 99", "no such commit"),
    // entities
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

/// The same where only SQLite takes them: no text, and numbers that no server writes.
const STRANGE: &[(&str, &str, &str)] = &[
    (
        "UPDATE commits SET author = CAST(x'ff61' AS text) WHERE revision = 2",
        "revision 2",
        "its column author has \"\\xffa\" (2 bytes, no UTF-8), the log says \"anonymous\"",
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

/// What `audit verify` finds.
fn findings(registry: &Registry) -> Vec<(String, String)> {
    let verified = registry.ctl(&["audit", "verify", "--output", "json"]);
    assert_eq!(verified.code, 1, "{verified:?}");
    let found: Value = serde_json::from_str(&verified.stdout).expect("JSON");
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    let findings = found["findings"].as_array().expect("findings").iter();
    findings.map(|finding| (text(finding, "place"), text(finding, "problem"))).collect()
}

#[tokio::test]
async fn rows_that_were_edited_behind_its_back_are_named() {
    for database in Database::both().await {
        let registry = filled(&database);
        registry.run(&["transfer", "tool/fetch", "web-team"]);
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
        assert!(registry.run(&["audit", "verify"]).starts_with("sound: 4 commits"));
    }
}

/// SQL that retires a tool by a fourth commit, just as a server would do it.
async fn forgery(registry: &Registry, database: &Database, committed_at: Timestamp) -> String {
    let last = v1::GetCommitRequest { revision: 3, include_canonical: false };
    let last = registry.history().await.get_commit(last).await.expect("a commit").into_inner();
    let chain = Digest::parse(&last.commit.expect("a commit").chain).expect("a digest");
    let key = Key::parse(Kind::Tool, "get_user", "1.0.0").expect("a key");
    let action = Action::Retire(Notice::saying(Some("x")));
    let commit = Commit {
        revision: Revision(4),
        author: "ann".to_owned(),
        committed_at,
        changes: vec![Change { key, action }],
        ..Commit::default()
    };
    let chain = ChainHash::from_bytes(*chain.as_bytes());
    let sealed = SealedCommit::seal(&chain, commit, Vec::new()).expect("it can be sealed");
    let canonical = str::from_utf8(sealed.bytes()).expect("JSON");
    let bytes = match database {
        Database::Sqlite(_) => format!("CAST('{canonical}' AS blob)"),
        Database::Postgres(_) => format!("convert_to('{canonical}', 'UTF8')"),
    };
    let chain = sealed.chain();
    format!(
        "BEGIN; INSERT INTO commits (revision, author, committed_at, message, changes, chain, canonical)
             VALUES (4, 'ann', '{committed_at}', '', 1, '{chain}', {bytes});
         INSERT INTO changes (revision, ordinal, action, kind, name, version, digest, reason)
             SELECT 4, 0, 'retire', kind, name, version, digest, 'x' FROM entities
             WHERE kind = 'tool' AND name = 'get_user';
         UPDATE entities SET lifecycle = 'retired', lifecycle_revision = 4, lifecycle_reason = 'x'
             WHERE kind = 'tool' AND name = 'get_user';
         UPDATE head SET revision = 4, chain = '{chain}'; COMMIT"
    )
}

#[tokio::test]
async fn a_commit_that_no_server_made_is_found_and_not_served() {
    let times = ["2020-01-01T00:00:00.000Z", "2099-01-01T00:00:00.000Z"].map(Timestamp::parse);
    let [old, new] = times.map(|time| time.expect("a time"));
    for (database, at) in Database::both().await.into_iter().zip([new, old]) {
        let mut registry = filled(&database);
        // With nothing but the service's own rights.
        let sql = forgery(&registry, &database, at).await;
        database.execute(&sql).await.expect("rows can be appended");
        let found = findings(&registry);
        let problem = match database {
            Database::Sqlite(_) => "was put there by somebody else",
            Database::Postgres(_) => "no server writes that",
        };
        assert_eq!((found.len(), &*found[0].0), (1, "revision 4"), "{found:?}");
        assert!(found[0].1.contains(problem), "{found:?}");
        let refused = registry.ctl(&["transfer", "tool/fetch", "web-team"]);
        assert!(refused.stderr.contains("DATABASE_CORRUPT"), "{refused:?}");
        assert!(registry.run(&["get", "tool/get_user@1.0.0"]).contains("active"));
        assert_eq!(registry.revision().await, 3);
        registry.process.kill_9();
        registry.restart();
        assert_eq!(registry.revision().await, 4, "nothing is known that does not fit");
    }
}

#[tokio::test]
async fn a_second_row_where_there_is_one_is_named() {
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
            assert!(problem.contains("it has 2 rows"), "{problem}");
        }
    }
}

#[tokio::test]
async fn an_edit_is_found_once() {
    for database in Database::both().await {
        let registry = filled(&database);
        let edit = "SET chain = (SELECT chain FROM commits WHERE revision = 1) WHERE revision = 2";
        database.tamper(&format!("UPDATE commits {edit}")).await;
        assert_eq!(findings(&registry).len(), 1, "the next link holds");
    }
}

#[tokio::test]
async fn of_many_findings_some_are_listed_and_the_rest_is_counted() {
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
        let verified = registry.ctl(&["audit", "verify"]);
        assert!(verified.stdout.contains("and 600 more"), "{verified:?}");
        assert!(verified.stderr.contains("1,600 findings"), "{verified:?}");
    }
}

#[tokio::test]
async fn the_guards_of_the_log_are_missed() {
    for database in Database::both().await {
        let registry = filled(&database);
        database.disarm().await;
        let found = findings(&registry);
        let guard = match database {
            Database::Sqlite(_) => "the trigger commits_are_not_updated",
            Database::Postgres(_) => "the trigger commits_only_grow",
        };
        assert!(found.iter().any(|(place, _)| place == guard), "{found:?}");
        assert!(found.iter().all(|(place, _)| place.starts_with("the trigger ")), "{found:?}");
    }
}

/// Makes what some of them replace again.
const GUARD: &str = "DROP TRIGGER IF EXISTS commits_only_grow ON commits;
                     CREATE TRIGGER commits_only_grow BEFORE UPDATE OR DELETE OR TRUNCATE ON commits
                     FOR EACH STATEMENT EXECUTE FUNCTION refuse_edit()";

/// What meddles with writes in Postgres, what takes it away again, and where that is found.
const MEDDLERS: &[(&str, &str, &str)] = &[
    (
        "DROP TRIGGER commits_only_grow ON commits; CREATE TABLE other (x integer);
         CREATE TRIGGER commits_only_grow BEFORE UPDATE OR DELETE OR TRUNCATE ON other
         FOR EACH STATEMENT EXECUTE FUNCTION refuse_edit()",
        "DROP TABLE other",
        "the trigger commits_only_grow",
    ),
    (
        "DROP TRIGGER commits_only_grow ON commits;
         CREATE TRIGGER commits_only_grow BEFORE UPDATE OF revision OR DELETE OR TRUNCATE ON commits
         FOR EACH STATEMENT EXECUTE FUNCTION refuse_edit()",
        "",
        "the trigger commits_only_grow",
    ),
    (
        "CREATE TABLE saved_function AS SELECT pg_get_functiondef('refuse_edit'::regproc) AS text;
         CREATE OR REPLACE FUNCTION refuse_edit() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN IF false THEN RAISE EXCEPTION ''refused''; END IF; RETURN NULL; END'",
        "DO $$ BEGIN EXECUTE (SELECT text FROM saved_function); END $$; DROP TABLE saved_function",
        "the trigger commits_only_grow",
    ),
    (
        "CREATE RULE quiet AS ON INSERT TO access_events DO INSTEAD NOTHING",
        "DROP RULE quiet ON access_events",
        "the rule quiet on access_events",
    ),
    (
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET session_replication_role = replica',
                                    current_database()); END $$",
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET session_replication_role',
                                    current_database()); END $$",
        "the setting session_replication_role",
    ),
];

#[tokio::test]
async fn what_only_looks_like_a_guard_is_named() {
    let database = Database::Postgres(acceptance::postgres::database().await);
    let registry = filled(&database);
    let run =
        async |sql: &str| database.execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    for &(sql, undo, place) in MEDDLERS {
        run(sql).await;
        let found = findings(&registry);
        assert_eq!(found[0].0, place, "{sql}: {found:?}");
        run(undo).await;
        run(GUARD).await;
        assert!(registry.run(&["audit", "verify"]).starts_with("sound: 3 commits"), "{undo}");
    }
}

#[tokio::test]
async fn what_drops_the_trail_is_named_and_no_token_is_made_beside_it() {
    for database in Database::both().await {
        let registry = filled(&database);
        let meddler = match database {
            Database::Sqlite(_) => {
                "CREATE TRIGGER evil BEFORE INSERT ON access_events
                 BEGIN SELECT RAISE(IGNORE); END"
            }
            Database::Postgres(_) => {
                "CREATE FUNCTION drop_it() RETURNS trigger LANGUAGE plpgsql AS
                     'BEGIN RETURN NULL; END';
                 CREATE TRIGGER evil BEFORE INSERT ON access_events
                     FOR EACH ROW EXECUTE FUNCTION drop_it()"
            }
        };
        database.execute(meddler).await.expect("the owner of tables may make triggers");
        let create = ["token", "create", "--name", "mallory", "--role", "admin"];
        let refused = server(&database.url(), &create);
        let why = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && why.contains("access_events"), "{refused:?}");
        // With a token, everybody would be asked who they are.
        let found = findings(&registry);
        let places: Vec<_> = found.iter().map(|(place, _)| &**place).collect();
        assert_eq!(places, ["the trigger evil on access_events"], "{found:?}");
    }
}

#[tokio::test]
async fn nothing_is_signed_over_an_edited_log() {
    for database in Database::both().await {
        let registry = filled(&database);
        database.save().await;
        for edit in [
            "UPDATE commits SET chain = (SELECT chain FROM commits WHERE revision = 1) WHERE revision = 2",
            "DELETE FROM commits WHERE revision = 2",
            "UPDATE commits SET canonical = (SELECT canonical FROM commits WHERE revision = 1) WHERE revision = 2",
        ] {
            database.tamper(edit).await;
            for wanted in [&["audit", "checkpoint"][..], &["audit", "prove", "3"]] {
                let refused = registry.ctl(wanted);
                assert!(refused.stderr.contains("edited at revision 2"), "{edit}: {refused:?}");
            }
            database.restore().await;
        }
        // The end was cut off behind the server, which still serves it.
        let cut = "DELETE FROM commits WHERE revision = 3; UPDATE head SET revision = 2";
        database.tamper(cut).await;
        let refused = registry.ctl(&["audit", "checkpoint"]);
        assert!(refused.stderr.contains("edited at revision 3"), "{refused:?}");
        database.restore().await;
        assert!(registry.run(&["audit", "checkpoint"]).contains("\n3\n"));
    }
}

/// A table is locked, so that the verification waits for longer than this test takes.
#[tokio::test]
async fn a_verification_ends_with_its_caller() {
    let database = acceptance::postgres::database().await;
    let registry = Registry::start_on(database.url());
    registry.apply_example();
    let mut console = PgConnection::connect(database.url()).await.expect("a connection");
    let lock = "BEGIN; LOCK TABLE entities IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(lock).execute(&mut console).await.expect("a lock");
    let mut client = AuditServiceClient::new(registry.channel().await);
    let first = client.verify_log(v1::VerifyLogRequest {}).await.expect("it begins").into_inner();
    assert!(client.verify_log(v1::VerifyLogRequest {}).await.is_err(), "one at a time");
    drop(first);
    acceptance::eventually("the next one may begin", || {
        let mut client = client.clone();
        async move { client.verify_log(v1::VerifyLogRequest {}).await.is_ok() }
    })
    .await;
    drop(console);
}

#[tokio::test]
async fn servers_of_one_database_sign_with_one_key() {
    let database = acceptance::postgres::database().await;
    let registry = Registry::start_on(database.url());
    let known = registry.run(&["audit", "key"]);
    assert_eq!(Registry::start_on(database.url()).run(&["audit", "key"]), known);
    let dir = tempdir().expect("a directory");
    let other = dir.path().join("other.key");
    let other = other.to_str().expect("UTF-8");
    let flags = ["--listen", "127.0.0.1:0", "--checkpoint-key", other];
    let refused = server(database.url(), &flags);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains(known.trim()) && why.contains("checkpoint-key adopt"), "{why}");
    let adopted = server(database.url(), &["checkpoint-key", "adopt", "--checkpoint-key", other]);
    assert!(adopted.status.success(), "{adopted:?}");
    let process = acceptance::Process::start("registry-server", dir.path(), |command| {
        command.args(flags).args(["--database", database.url(), "--data-dir"]).arg(dir.path());
    });
    let address = format!("http://{}", process.address());
    let now = acceptance::ctl(&address, &["audit", "key"]).stdout;
    assert_eq!(now.as_bytes(), adopted.stdout);
    assert_ne!(now, known);
}

#[tokio::test]
async fn a_commit_is_proven_without_the_registry() {
    for database in Database::both().await {
        let mut registry = filled(&database);
        let dir = tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name).display().to_string();
        let [key, old, proof] = ["key", "old", "proof"].map(path);
        std::fs::write(&key, registry.run(&["audit", "key"])).expect("written");
        std::fs::write(&old, registry.run(&["audit", "checkpoint"])).expect("written");
        registry.run(&["restore", "tool/fetch@1.2.3"]);
        registry.process.kill_9();
        registry.restart();
        registry.run(&["audit", "prove", "2", "--since", "3", "-o", &proof]);
        drop(registry);
        let offline = |proof: &str| {
            acceptance::ctl(
                "http://127.0.0.1:1",
                &["audit", "check", proof, "--key", &key, "--since", &old],
            )
        };
        let checked = offline(&proof);
        assert!(checked.success(), "{checked:?}");
        assert!(checked.stdout.contains("proven: revision 2"), "{checked:?}");
        assert!(checked.stdout.contains("continues the checkpoint of revision 3"), "{checked:?}");
        let nowhere = ["audit", "check", &proof, "--key", "./missing"];
        let nowhere = acceptance::ctl("http://127.0.0.1:1", &nowhere);
        assert!(nowhere.stderr.contains("cannot read ./missing: No such file"), "{nowhere:?}");
        for (from, to) in [("SearchQuery", "SearchQuary"), ("\\n4\\n", "\\n5\\n")] {
            let forged = edited(&proof, dir.path(), from, to);
            assert_eq!(offline(&forged).code, 1, "{from} -> {to}");
        }
    }
}

/// The path of a copy of a proof with one text changed.
fn edited(proof: &str, dir: &Path, from: &str, to: &str) -> String {
    let text = std::fs::read_to_string(proof).expect("a proof");
    assert!(text.contains(from), "{text}");
    let path = dir.join("forged");
    std::fs::write(&path, text.replace(from, to)).expect("written");
    path.display().to_string()
}

#[tokio::test]
async fn the_log_is_asked_by_author_entity_and_time() {
    for database in Database::both().await {
        let registry = filled(&database);
        let revisions = |arguments: &[&str]| -> Vec<u64> {
            let listed = registry.run(&[&["log", "--output", "json"][..], arguments].concat());
            let commits: Vec<Value> = serde_json::from_str(&listed).expect("JSON");
            commits.iter().filter_map(|commit| commit["revision"].as_u64()).collect()
        };
        assert_eq!(revisions(&[]), [3, 2, 1]);
        assert_eq!(revisions(&["tool/fetch"]), [3, 1]);
        assert_eq!(revisions(&["tool/fetch@9.9.9"]), [0_u64; 0]);
        assert_eq!(revisions(&["schema/SearchQuery@1.1.0"]), [2]);
        assert_eq!(revisions(&["tool", "-n", "1"]), [3]);
        assert_eq!(revisions(&["tool/fetch", "--author", "nobody"]), [0_u64; 0]);
        assert_eq!(revisions(&["--until", "2020-01-01"]), [0_u64; 0]);
        assert_eq!(revisions(&["--since", "2020-01-01", "tool/fetch"]), [3, 1]);
        let second = registry.run(&["show", "2", "--output", "json"]);
        let second: Value = serde_json::from_str(&second).expect("JSON");
        let at = second["committedAt"].as_str().expect("a time");
        assert_eq!(revisions(&["--since", at, "--until", at]), [2]);
        assert_eq!(revisions(&["--until", at]), [2, 1]);
    }
}

#[tokio::test]
async fn what_is_set_about_a_name_belongs_to_its_history() {
    for database in Database::both().await {
        let registry = filled(&database);
        registry.run(&["transfer", "tool/fetch", "web-team"]);
        registry.run(&["transfer", "tool/get_user", "data-team"]);
        registry.run(&["archive", "tool/fetch"]);
        registry.run(&["restore", "tool/fetch@1.2.3"]);
        let read = |arguments: &[&str]| -> Vec<Value> {
            let listed = registry.run(&[arguments, &["--output", "json"]].concat());
            serde_json::from_str(&listed).expect("JSON")
        };
        let revisions = |items: &[Value]| -> Vec<u64> {
            items.iter().filter_map(|item| item["revision"].as_u64()).collect()
        };
        assert_eq!(revisions(&read(&["log", "tool/fetch"])), [7, 6, 4, 3, 1]);
        assert_eq!(revisions(&read(&["log", "tool/fetch@1.2.3"])), [7, 3, 1]);
        assert_eq!(revisions(&read(&["log", "tool"])), [7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(revisions(&read(&["log", "schema"])), [2, 1]);
        registry.run(&["transfer", "acme/*", "web-team"]);
        registry.run(&["transfer", "acme.*", "web-team"]);
        assert_eq!(revisions(&read(&["log", "acme/*", "--author", "anonymous"])), [8]);
        assert_eq!(revisions(&read(&["log", "acme.*"])), [9]);
        assert_eq!(revisions(&read(&["log", "*"])), [0_u64; 0]);
        assert_eq!(registry.ctl(&["log", "tool/*"]).code, 2, "that would not be every tool");
        let history = read(&["history", "tool/fetch"]);
        assert_eq!(revisions(&history), [1, 3, 4, 6, 7]);
        assert_eq!(history[2]["setting"], json!({"on": "tool/fetch", "owner": "web-team"}));
        assert_eq!(revisions(&read(&["history", "tool/fetch@1.2.3"])), [1, 3, 7]);
        let table = registry.run(&["history", "tool/fetch"]);
        assert!(table.contains("archive tool/fetch"), "{table}");
        let mut pages = Vec::new();
        let mut wanted = v1::GetEntityHistoryRequest {
            kind: v1::Kind::Tool.into(),
            name: "fetch".to_owned(),
            page_size: 2,
            ..Default::default()
        };
        loop {
            let page = registry.history().await.get_entity_history(wanted.clone()).await;
            let page = page.expect("a page").into_inner();
            pages.push(page.events.iter().map(|event| event.revision).collect::<Vec<_>>());
            if page.next_page_token.is_empty() {
                break;
            }
            wanted.page_token = page.next_page_token;
        }
        assert_eq!(pages, [vec![1, 3], vec![4, 6], vec![7]]);
    }
}

#[tokio::test]
async fn settings_are_shown_as_the_commit_has_them() {
    for database in Database::both().await {
        let registry = filled(&database);
        registry.run(&["transfer", "acme/*", "web-team"]);
        let expected = json!([{"on": "acme/*", "owner": "web-team"}]);
        let shown = registry.run(&["show", "4", "--output", "json"]);
        assert_eq!(serde_json::from_str::<Value>(&shown).expect("JSON")["settings"], expected);
        let trail = registry.run(&["audit", "export", "--after", "3"]);
        assert_eq!(serde_json::from_str::<Value>(&trail).expect("JSON")["settings"], expected);
    }
}

#[tokio::test]
async fn the_trail_is_a_commit_a_line() {
    for database in Database::both().await {
        let registry = filled(&database);
        let trail = registry.run(&["audit", "export"]);
        let lines: Vec<Value> =
            trail.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let revisions: Vec<_> = lines.iter().map(|line| line["revision"].as_u64()).collect();
        assert_eq!(revisions, [Some(1), Some(2), Some(3)]);
        assert_eq!(lines[2]["changes"][0]["reason"], "slow");
        assert_eq!(lines[2]["changes"][0]["sunset"], "2027-01-31");
        assert_eq!(registry.run(&["audit", "export", "--after", "2"]).lines().count(), 1);
    }
}
