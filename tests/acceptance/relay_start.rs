//! Start of relays: a database belongs to a registry or to a relay, and records which.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use acceptance::{
    Registry,
    access::{Guarded, create_token},
    binary, eventually,
    process::signal_process,
    registry::checkpoint_key,
    root,
};

/// Runs a server that exits by itself.
fn run(arguments: &[&str]) -> (i32, String) {
    let ended = Command::new(binary("registry-server"))
        .args(["--listen", "127.0.0.1:0"])
        .args(arguments)
        .stdout(Stdio::null())
        .output();
    said(ended.expect("it ends"))
}

fn said(Output { status, stderr, .. }: Output) -> (i32, String) {
    (status.code().unwrap_or(-1), String::from_utf8_lossy(&stderr).into_owned())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[tokio::test]
async fn waiting_relay_exits_on_signal() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("log");
    for signal in ["TERM", "INT"] {
        let mut waiting = Command::new(binary("registry-server"))
            .args(["--listen", "127.0.0.1:0", "--follow", "grpc://127.0.0.1:1"])
            .arg("--data-dir")
            .arg(dir.path())
            .stderr(fs::File::create(&log).expect("a log"))
            .spawn()
            .expect("it starts");
        let logged = || fs::read_to_string(&log).expect("a log");
        eventually("it waits", || async { logged().contains("relay::introduction: ") }).await;
        signal_process(waiting.id(), signal);
        let status = waiting.wait().expect("it ends");
        assert_eq!(status.code(), Some(0), "{}", logged());
    }
}

#[tokio::test]
async fn relay_database_is_promoted_only_explicitly() {
    let registry = Registry::start();
    registry.apply_example();
    let mut relay = registry.start_relay(&["--follow-name", "near"]);
    eventually("the relay has it", || async { relay.revision().await == 1 }).await;
    let listed = registry.json(&["fleet", "list"]);
    assert_eq!(
        (listed[0]["gateway"].as_str(), listed.as_array().map(Vec::len)),
        (Some("near"), Some(1))
    );
    relay.process.stop();

    let dir = tempfile::tempdir().expect("a directory");
    let key: PathBuf = dir.path().join("new.key");
    let database = ["--database", relay.database(), "--checkpoint-key", text(&key)];
    let adopt = [&["checkpoint-key", "replace"][..], &database].concat();
    for refused in [&database[..], &adopt] {
        let (code, said) = run(refused);
        assert_eq!(code, 2, "{refused:?}: {said}");
        for words in ["--follow", "--promote-relay"] {
            assert!(said.contains(words), "{refused:?}: {said}");
        }
        assert!(!key.exists(), "{refused:?} makes no key");
    }
    let (code, said) = run(&[&adopt[..], &["--promote-relay"]].concat());
    assert_eq!(code, 0, "{said}");
    let promoted = Registry::start_with(relay.database(), &["--checkpoint-key", text(&key)]);
    promoted.apply_file(&root().join("examples/new-version.json"));
    assert_eq!(promoted.revision().await, 2);
}

#[tokio::test]
async fn promoted_relay_keeps_key_of_registry() {
    let mut registry = Registry::start();
    registry.apply_example();
    let mut relay = registry.start_relay(&[]);
    eventually("the relay has it", || async { relay.revision().await == 1 }).await;
    relay.process.stop();
    registry.process.stop();
    let key = checkpoint_key(registry.database());
    let database = ["--database", relay.database(), "--checkpoint-key", text(&key)];
    let promote = ["checkpoint-key", "replace", "--promote-relay"];
    let (code, said) = run(&[&promote[..], &database].concat());
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("--follow"), "{said}");
    let promoted = Registry::start_with(relay.database(), &["--checkpoint-key", text(&key)]);
    assert_eq!(promoted.revision().await, 1);
}

#[test]
fn registry_database_is_rejected_by_relay() {
    let registry = Registry::start();
    registry.apply_example();
    let mut own = Registry::start();
    own.process.stop();
    let follow = format!("grpc://{}", registry.address);
    let (code, said) = run(&["--database", own.database(), "--follow", &follow]);
    assert!(code == 2 && said.contains("relay"), "{said}");
}

#[test]
fn open_relay_of_guarded_registry_warns() {
    let guarded = Guarded::start(&[]);
    let dir = tempfile::tempdir().expect("a directory");
    let token = dir.path().join("relay.token");
    fs::write(&token, guarded.token("relay-1", "fleet", "relay")).expect("written");
    let follow = format!("grpc://{}", guarded.registry.address);
    let flags = ["--follow", &follow, "--follow-token-file", text(&token)];
    let database = format!("sqlite:{}", dir.path().join("registry.db").display());
    let warns = || {
        let relay = Registry::start_with(&database, &flags);
        !relay.process.logged(&["WARN registry_server::server: ", "principal="]).is_empty()
    };
    assert!(warns());
    create_token(&database, "root", "platform", "admin");
    assert!(!warns());
}

#[test]
fn unreadable_relay_files_are_rejected() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = ["--data-dir", text(dir.path()), "--follow", "grpc://127.0.0.1:1"];
    for flag in ["--follow-token-file", "--follow-ca"] {
        let (code, said) = run(&[&data[..], &[flag, "/nope"]].concat());
        assert!(code == 2 && said.matches("/nope").count() == 1, "{flag}: {said}");
    }
    let token = dir.path().join("token");
    fs::write(&token, "two\nlines").expect("written");
    let (code, said) = run(&[&data[..], &["--follow-token-file", text(&token)]].concat());
    assert!(code == 2 && said.contains(text(&token)), "{said}");
    let (code, said) = run(&[&data[..], &["--follow-name", &"x".repeat(129)]].concat());
    assert!(code == 2 && said.contains("128"), "{said}");
}
