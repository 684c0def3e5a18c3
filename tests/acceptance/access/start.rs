//! Conditions under which a server starts, and its warnings about missing authentication.

use std::process::Command;

use acceptance::{
    Database, Process, Registry,
    access::{create_token, server},
    binary,
};
use tempfile::TempDir;

fn database() -> (TempDir, String) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let database = format!("sqlite:{}", dir.path().join("registry.db").display());
    (dir, database)
}

/// Returns the exit code and standard error of a start that fails.
fn refused(database: &str, flags: &[&str]) -> (Option<i32>, String) {
    let output = server(database, flags);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The warning of a server about authentication, without time and module.
fn warning(registry: &Registry) -> String {
    let warnings = registry.process.logged(&["WARN registry_server::server: "]);
    let [warning] = &warnings[..] else { panic!("not one warning: {warnings:?}") };
    warning.split_once(": ").expect("a module").1.to_owned()
}

/// Whether a server warns that its address is open.
fn is_open(process: &Process) -> bool {
    !process.logged(&["WARN registry_server::server: ", "address="]).is_empty()
}

#[tokio::test]
async fn loopback_without_configuration_is_open_and_warns() {
    let registry = Registry::start();
    registry.apply_example();
    assert!(is_open(&registry.process));
    let who = registry.ctl(&["whoami", "--output", "json"]);
    let who: serde_json::Value = serde_json::from_str(&who.stdout).expect("JSON");
    assert_eq!((&who["name"], &who["method"]), (&"anonymous".into(), &"open".into()));
    assert!(registry.ctl(&["fleet", "list"]).success(), "everybody may do everything");
}

#[test]
fn other_addresses_need_authentication_and_tls() {
    let (data, database) = database();
    let everywhere = ["--listen", "0.0.0.0:0"];
    let with = |flag| [&everywhere[..], &[flag]].concat();
    let (code, why) = refused(&database, &everywhere);
    assert_eq!(code, Some(2));
    let message = why.lines().last().expect("a message").replace(&database, "DATABASE");
    insta::assert_snapshot!("unauthenticated-address", message);
    assert_eq!(refused(&database, &with("--require-auth")).0, Some(2));
    create_token(&database, "root", "platform", "admin");
    let (code, why) = refused(&database, &everywhere);
    assert_eq!(code, Some(2));
    assert!(why.contains("--tls-cert") && why.contains("--plaintext"), "{why}");

    for (flag, expected) in [("--plaintext", false), ("--insecure", true)] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let process = Process::start("registry-server", dir.path(), |command| {
            // The default port can be in use, which is another warning with an address.
            command.args(with(flag)).args(["--admin-listen", "127.0.0.1:0"]);
            command.args(["--database", &database, "--data-dir"]).arg(data.path());
        });
        assert_eq!(is_open(&process), expected, "{flag}");
    }
}

#[test]
fn stored_token_requires_authentication_on_loopback() {
    let (_dir, database) = database();
    let token = create_token(&database, "root", "platform", "admin");
    let registry = Registry::start_with(&database, &[]);
    let without = registry.ctl(&["list"]);
    assert_eq!(without.code, 1, "{without:?}");
    assert!(without.has_code("CREDENTIALS_MISSING"), "{without:?}");
    assert!(registry.ctl(&["list", "--token", &token]).success());
}

#[tokio::test]
async fn first_token_takes_effect_at_next_start() {
    for database in Database::both().await {
        let mut registry = Registry::start_on(&database.url());
        for is_first in [true, false] {
            let create = ["token", "create", "--name", "root", "--role", "admin"];
            let told = String::from_utf8(server(&database.url(), &create).stderr).expect("UTF-8");
            assert_eq!(told.contains("restart"), is_first, "{told}");
        }
        assert!(registry.ctl(&["list"]).success());
        registry.process.kill_9();
        registry.restart();
        assert!(registry.ctl(&["list"]).has_code("CREDENTIALS_MISSING"));
    }
}

#[tokio::test]
async fn server_without_active_tokens_names_remedy() {
    for database in Database::both().await {
        let token = create_token(&database.url(), "root", "platform", "admin");
        let id = &token[4..16];
        assert!(server(&database.url(), &["token", "revoke", id]).status.success());
        let registry = Registry::start_with(&database.url(), &[]);
        insta::assert_snapshot!("no-active-token", warning(&registry));
        assert!(registry.ctl(&["list"]).has_code("CREDENTIALS_MISSING"));
        let again = create_token(&database.url(), "root", "platform", "admin");
        assert!(registry.ctl(&["list", "--token", &again]).success(), "without a restart");
    }
}

#[test]
fn server_without_tokens_explains_token_creation() {
    let (_dir, database) = database();
    let registry = Registry::start_with(&database, &["--require-auth"]);
    insta::assert_snapshot!("no-token", warning(&registry));
    assert_eq!(registry.ctl(&["list"]).code, 1);
}

#[test]
fn first_token_creates_database_and_prints_path() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let typo = dir.path().join("typo");
    let token = |arguments: &[&str]| {
        let mut command = Command::new(binary("registry-server"));
        command.arg("--data-dir").arg(&typo).arg("token").args(arguments);
        let output = command.output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let file = typo.join("registry.db").display().to_string();
    for arguments in [&["revoke", "abcdefabcdef"][..], &["list"]] {
        let (code, why) = token(arguments);
        assert_eq!(code, Some(3), "{why}");
        assert!(why.contains(&file), "{why}");
        assert!(!typo.exists(), "nothing was made");
    }
    let create = ["create", "--name", "root", "--role", "admin"];
    let (code, told) = token(&create);
    assert!(code == Some(0) && told.contains(&file), "the new database is named: {told}");
    assert!(!token(&create).1.contains(&file), "it exists");
    assert_eq!(token(&["list"]).0, Some(0));
    let (code, why) = token(&["revoke", "root"]);
    assert_eq!(code, Some(1));
    insta::assert_snapshot!("token-name-instead-of-id", why);
}

#[test]
fn invalid_token_requests_are_rejected() {
    let (_dir, database) = database();
    for (wrong, about) in [
        (&["--name", "a b", "--role", "reader"][..], "name: `a b`"),
        (&["--name", "anonymous", "--role", "reader"], "anonymous"),
        (&["--name", "a", "--role", "root"], "root"),
        (&["--name", "a", "--role", "reader", "--expires", "soon"], "`soon`"),
        (&["--name", "a", "--role", "reader", "--expires", "2020-01-01T00:00:00Z"], "future"),
        (&["--name", "a"], "--role"),
    ] {
        let (code, why) = refused(&database, &[&["token", "create"], wrong].concat());
        assert_eq!(code, Some(2), "{wrong:?}");
        assert!(why.contains(about), "{why}");
    }
    let missing = Command::new(binary("registry-server")).arg("token").output().expect("it runs");
    assert_eq!(missing.status.code(), Some(2));
}
