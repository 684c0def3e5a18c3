//! A SQLite file that is deleted, moved or replaced while the registry runs, or lost before it
//! starts.

use std::{fs, path::Path, process::Command};

use acceptance::{Registry, binary, eventually};
use serde_json::{Value, json};

fn file(registry: &Registry) -> &str {
    registry.database().strip_prefix("sqlite:").expect("a SQLite database")
}

/// Registers one more schema. Returns false if the registry rejects it.
fn write(registry: &Registry, name: &str) -> (bool, String) {
    let document = json!({ "schemaVersion": "2.0", "schemas": [{ "name": name, "version": "1.0.0", "schema": {} }] });
    let batch = Path::new(file(registry)).with_file_name("batch.json");
    fs::write(&batch, document.to_string()).expect("a file");
    let applied = registry.ctl(&["apply", "-f", batch.to_str().expect("UTF-8"), "--yes"]);
    (applied.success(), applied.stderr)
}

async fn readiness(registry: &Registry) -> Value {
    let url = format!("http://{}/readyz", registry.admin_address());
    let answer = reqwest::get(url).await.expect("an answer");
    serde_json::from_str(&answer.text().await.expect("a body")).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_rejected_while_the_file_is_gone() {
    let registry = Registry::start();
    assert!(write(&registry, "first").0);
    let (path, aside) = (file(&registry).to_owned(), format!("{}.aside", file(&registry)));
    for (is_replaced, problem) in [(false, "was deleted or moved"), (true, "was replaced")] {
        fs::rename(&path, &aside).expect("renamed");
        if is_replaced {
            fs::copy(&aside, &path).expect("copied");
        }
        let (is_written, error) = write(&registry, "second");
        assert!(!is_written && error.contains("DATABASE_FILE_MISSING"), "{error}");
        let ready = readiness(&registry).await;
        assert_eq!(
            (&ready["status"], &ready["database"]),
            (&json!("degraded"), &json!("read-only"))
        );
        assert!(ready["problem"].as_str().expect("a text").contains(problem), "{ready}");
        assert_eq!(registry.revision().await, 1, "reads go on");
        fs::rename(&aside, &path).expect("renamed back");
        eventually("the file is back", || async {
            readiness(&registry).await["database"] == "writable"
        })
        .await;
    }
    assert!(write(&registry, "second").0);
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_reports_a_deleted_file_without_a_write() {
    let registry = Registry::start();
    fs::remove_file(file(&registry)).expect("removed");
    eventually("the loss is noticed", || async {
        readiness(&registry).await["database"] == "read-only"
    })
    .await;
    assert!(!Path::new(file(&registry)).exists(), "nothing takes its place");
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_rejected_after_the_journal_is_deleted() {
    let mut registry = Registry::start();
    assert!(write(&registry, "first").0);
    let journal = format!("{}-wal", file(&registry));
    fs::remove_file(&journal).expect("removed");
    let (is_written, error) = write(&registry, "second");
    assert!(!is_written && error.contains("DATABASE_FILE_MISSING"), "{error}");
    let ready = readiness(&registry).await;
    assert_eq!((&ready["status"], &ready["database"]), (&json!("degraded"), &json!("read-only")));
    let problem = ready["problem"].as_str().expect("a text");
    assert!(problem.contains(&journal), "{problem}");
    assert_eq!(registry.revision().await, 1, "reads go on");
    // The server still has the journal open, and completes the database file on shutdown.
    assert!(registry.process.stop().success());
    registry.restart();
    assert_eq!(registry.revision().await, 1);
    assert!(write(&registry, "second").0);
}

#[test]
fn missing_database_beside_key_prevents_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let database = format!("sqlite:{}", dir.path().join("registry.db").display());
    let mut registry = Registry::start_with(&database, &[]);
    assert!(registry.process.stop().success());
    for name in ["registry.db", "registry.db-wal", "registry.db-shm"] {
        let _ = fs::remove_file(dir.path().join(name));
    }
    let data_dir = dir.path().to_str().expect("UTF-8");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(binary("registry-server"));
        command.args(["--data-dir", data_dir, "--listen", "127.0.0.1:0"]).args(arguments);
        command.output().expect("it runs")
    };
    let create = ["token", "create", "--name", "a", "--role", "admin"];
    for arguments in [&["--log", "info"][..], &create] {
        let output = run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains("checkpoint.key") && error.contains("--allow-new-database"));
        assert!(!dir.path().join("registry.db").exists(), "{arguments:?}");
    }
    let allowed = Registry::start_with(&database, &["--allow-new-database"]);
    assert!(write(&allowed, "first").0, "a new registry");
}

#[test]
fn key_replacement_requires_a_database() {
    let dir = tempfile::tempdir().expect("a directory");
    let data_dir = dir.path().join("data");
    let database = format!("sqlite:{}", dir.path().join("registy.db").display());
    let cases: [&[&str]; 3] = [
        &[],
        &["--database", database.as_str()],
        &["--database", database.as_str(), "--allow-new-database"],
    ];
    for flags in cases {
        let mut command = Command::new(binary("registry-server"));
        command.arg("--data-dir").arg(&data_dir).args(flags).args(["checkpoint-key", "replace"]);
        let output = command.output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{flags:?}: {error}");
        let created = fs::read_dir(dir.path()).expect("a directory").count();
        assert_eq!(created, 0, "{flags:?}: neither a database nor a key");
    }
}
