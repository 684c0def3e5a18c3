//! Forged commits, and database objects that protect the log or bypass its protection: triggers,
//! rules and settings.

use acceptance::{Database, Registry, access::server};
use registry_core::{
    Action, ChainHash, Change, Commit, Digest, Key, Kind, Notice, Revision, SealedCommit, Timestamp,
};
use registry_proto::v1;

use super::{filled, findings};

/// SQL that retires a tool in a fourth commit, in the form that a server would write.
async fn forgery(registry: &Registry, database: &Database, committed_at: Timestamp) -> String {
    let last = v1::GetCommitRequest { revision: 3, ..Default::default() };
    let last = registry.history().await.get_commit(last).await.expect("a commit").into_inner();
    let chain = Digest::parse(&last.commit.expect("a commit").chain).expect("a digest");
    let key = Key::parse(Kind::Tool, "get_user", "1.0.0").expect("a key");
    let action = Action::Retire(Notice::with_message(Some("x")));
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
async fn forged_commit_is_reported_and_not_served() {
    let times = ["2020-01-01T00:00:00.000Z", "2099-01-01T00:00:00.000Z"].map(Timestamp::parse);
    let [old, new] = times.map(|time| time.expect("a time"));
    for (database, at) in Database::both().await.into_iter().zip([new, old]) {
        let mut registry = filled(&database);
        // The forgery needs only the service's own database rights.
        let sql = forgery(&registry, &database, at).await;
        database.execute(&sql).await.expect("rows can be appended");
        let found = findings(&registry);
        let problem = match database {
            Database::Sqlite(_) => "was put there by somebody else",
            Database::Postgres(_) => "no server writes",
        };
        assert_eq!((found.len(), &*found[0].0), (1, "revision 4"), "{found:?}");
        assert!(found[0].1.contains(problem), "{found:?}");
        let refused = registry.ctl(&["transfer", "--yes", "tool/fetch", "web-team"]);
        assert!(refused.stderr.contains("DATABASE_CORRUPT"), "{refused:?}");
        assert!(registry.run(&["get", "tool/get_user@1.0.0"]).contains("active"));
        assert_eq!(registry.revision().await, 3);
        registry.process.kill_9();
        registry.restart();
        assert_eq!(registry.revision().await, 4, "nothing is known that does not fit");
    }
}

#[tokio::test]
async fn missing_triggers_are_reported() {
    for database in Database::both().await {
        let registry = filled(&database);
        database.disarm().await;
        let found = findings(&registry);
        let guard = match database {
            Database::Sqlite(_) => "the trigger commits_are_not_updated",
            Database::Postgres(_) => "the trigger commits_only_grow",
        };
        assert!(found.iter().any(|(place, _)| place == guard), "{found:?}");
        assert!(found.iter().all(|(place, _)| place.contains(" trigger ")), "{found:?}");
    }
}

/// Restores a trigger that some of the cases replace.
const GUARD: &str = "DROP TRIGGER IF EXISTS commits_only_grow ON commits;
                     CREATE TRIGGER commits_only_grow BEFORE UPDATE OR DELETE OR TRUNCATE ON commits
                     FOR EACH STATEMENT EXECUTE FUNCTION refuse_edit()";

/// Postgres objects that interfere with writes, the SQL that removes them, and the place of the
/// finding.
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
        "ALTER TABLE commits RENAME TO kept; CREATE VIEW commits AS SELECT * FROM kept",
        "DROP VIEW commits; ALTER TABLE kept RENAME TO commits",
        "the table commits",
    ),
    (
        "ALTER TABLE changes RENAME TO kept; CREATE VIEW changes AS SELECT revision, kind FROM kept",
        "DROP VIEW changes; ALTER TABLE kept RENAME TO changes",
        "the table changes",
    ),
    (
        "ALTER TABLE entities RENAME TO kept",
        "ALTER TABLE kept RENAME TO entities",
        "the table entities",
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
async fn altered_triggers_are_reported() {
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
        assert_eq!(registry.json(&["audit", "verify"])["revision"], 3, "{undo}");
    }
}

#[tokio::test]
async fn trigger_suppressing_access_trail_blocks_token_creation() {
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
        // A token would enable authentication.
        let found = findings(&registry);
        let places: Vec<_> = found.iter().map(|(place, _)| &**place).collect();
        assert_eq!(places, ["the trigger evil on access_events"], "{found:?}");
    }
}
