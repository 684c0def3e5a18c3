//! What auditors do: verify the log, keep checkpoints, prove commits, export the trail.

use std::path::Path;

use acceptance::{Database, Registry, root};
use serde_json::Value;
use tempfile::tempdir;

fn run(registry: &Registry, arguments: &[&str]) -> String {
    let output = registry.ctl(arguments);
    assert!(output.success(), "{arguments:?}: {output:?}");
    output.stdout
}

/// Three commits, the last one a deprecation.
fn filled(database: &Database) -> Registry {
    let registry = Registry::start_on(&database.url());
    registry.apply_example();
    registry.apply_file(&root().join("examples/new-version.json"));
    run(
        &registry,
        &["deprecate", "tool/fetch@1.2.3", "--message", "slow", "--sunset", "2027-01-31"],
    );
    registry
}

#[tokio::test]
async fn a_sound_log_is_verified() {
    for database in Database::both().await {
        let registry = filled(&database);
        run(&registry, &["transfer", "tool/fetch", "web-team"]);
        assert!(run(&registry, &["audit", "verify"]).starts_with("sound: 4 commits"));
    }
}

#[tokio::test]
async fn the_log_takes_no_edits_from_the_service_itself() {
    for database in Database::both().await {
        let registry = filled(&database);
        run(&registry, &["archive", "tool/fetch"]);
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

#[tokio::test]
async fn rows_that_were_edited_behind_its_back_are_named() {
    for (sql, place) in [
        ("UPDATE commits SET author = 'mallory' WHERE revision = 2", "revision 2"),
        (
            "UPDATE commits SET canonical = (SELECT canonical FROM commits WHERE revision = 1) WHERE revision = 2",
            "revision 2",
        ),
        ("DELETE FROM changes WHERE revision = 2 AND ordinal = 0", "revision 2"),
        ("UPDATE changes SET reason = 'fast' WHERE revision = 3", "revision 3, change 0"),
        ("DELETE FROM commits WHERE revision = 2", "revision 2"),
        (
            "UPDATE entities SET lifecycle = 'active', lifecycle_reason = NULL WHERE name = 'fetch'",
            "tool/fetch@1.2.3",
        ),
        (
            "UPDATE entities SET owner = 'mallory' WHERE name = 'fetch' AND kind = 'tool'",
            "tool/fetch@1.2.3",
        ),
        ("DELETE FROM entities WHERE name = 'fetch' AND kind = 'tool'", "tool/fetch@1.2.3"),
        (
            "UPDATE head SET chain = (SELECT chain FROM commits WHERE revision = 1)",
            "the table head",
        ),
    ] {
        for database in Database::both().await {
            let registry = filled(&database);
            database.disarm().await;
            database.execute(sql).await.expect(sql);
            let verified = registry.ctl(&["audit", "verify", "--output", "json"]);
            assert_eq!(verified.code, 1, "{sql}: {verified:?}");
            let found: Value = serde_json::from_str(&verified.stdout).expect("JSON");
            assert_eq!(found["findings"][0]["place"], place, "{sql}: {found}");
        }
    }
}

#[tokio::test]
async fn a_commit_is_proven_without_the_registry() {
    for database in Database::both().await {
        let mut registry = filled(&database);
        let dir = tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name).display().to_string();
        let [key, old, proof] = ["key", "old", "proof"].map(path);
        std::fs::write(&key, run(&registry, &["audit", "key"])).expect("written");
        std::fs::write(&old, run(&registry, &["audit", "checkpoint"])).expect("written");
        run(&registry, &["restore", "tool/fetch@1.2.3"]);
        registry.process.kill_9();
        registry.restart();
        run(&registry, &["audit", "prove", "2", "--since", "3", "-o", &proof]);
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
            let listed = run(&registry, &[&["log", "--output", "json"][..], arguments].concat());
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
        let second = run(&registry, &["show", "2", "--output", "json"]);
        let second: Value = serde_json::from_str(&second).expect("JSON");
        let at = second["committedAt"].as_str().expect("a time");
        assert_eq!(revisions(&["--since", at, "--until", at]), [2]);
        assert_eq!(revisions(&["--until", at]), [2, 1]);
    }
}

#[tokio::test]
async fn the_trail_is_a_commit_a_line() {
    for database in Database::both().await {
        let registry = filled(&database);
        let trail = run(&registry, &["audit", "export"]);
        let lines: Vec<Value> =
            trail.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let revisions: Vec<_> = lines.iter().map(|line| line["revision"].as_u64()).collect();
        assert_eq!(revisions, [Some(1), Some(2), Some(3)]);
        assert_eq!(lines[2]["changes"][0]["reason"], "slow");
        assert_eq!(lines[2]["changes"][0]["sunset"], "2027-01-31");
        assert_eq!(run(&registry, &["audit", "export", "--after", "2"]).lines().count(), 1);
    }
}
