//! `registryctl` with a token: token administration, `whoami`, commit authors and the access trail.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use acceptance::{Database, access::Guarded, binary, root};
use registry_proto::v1::{
    self, access_service_client::AccessServiceClient, audit_service_client::AuditServiceClient,
};
use serde_json::Value;
use tonic::Code;

struct Ctl<'a> {
    guarded: &'a Guarded,
    token: &'a str,
}

impl Ctl<'_> {
    /// Returns the exit code, standard output and standard error.
    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = Command::new(binary("registryctl"))
            .args(["--registry", &self.guarded.registry.url()])
            .args(arguments)
            .env("REGISTRY_TOKEN", self.token)
            .env("USER", "somebody")
            .current_dir(root())
            .output()
            .expect("registryctl runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let (code, out, err) = self.run(&[arguments, &["--output", "json"]].concat());
        assert_eq!(code, 0, "{arguments:?}: {err}");
        serde_json::from_str(&out).expect("JSON")
    }
}

#[test]
fn admin_creates_and_revokes_token() {
    let guarded = Guarded::start(&[]);
    let admin = Ctl { guarded: &guarded, token: &guarded.admin };
    let made = admin.json(&[
        "token",
        "create",
        "--yes",
        "--name",
        "ci",
        "--team",
        "docs",
        "--role",
        "publisher",
    ]);
    let secret = made["secret"].as_str().expect("a text");
    let ci = Ctl { guarded: &guarded, token: secret };
    let who = ci.json(&["whoami"]);
    assert_eq!((&who["name"], &who["team"]), (&"ci".into(), &"docs".into()));
    assert_eq!(
        (&who["roles"], &who["address"]),
        (&serde_json::json!(["publisher"]), &"127.0.0.1".into())
    );
    assert_eq!(who["method"], format!("token {}", &secret[4..16]));

    let (code, _, err) = ci.run(&["token", "list"]);
    assert_eq!(code, 1);
    assert!(err.contains("[PERMISSION_DENIED]"), "{err}");
    let (code, list, _) = admin.run(&["token", "list"]);
    assert!(code == 0 && list.contains("ci") && !list.contains(&secret[17..]), "{list}");

    let applied = ["apply", "-f", "examples/registry-v2.json", "--yes"];
    let (code, _, err) = ci.run(&[&applied[..], &["--author", "boss"]].concat());
    assert_eq!(code, 1);
    assert!(err.contains("[INVALID_REQUEST]") && err.contains("`boss`"), "{err}");
    assert_eq!(ci.run(&applied).0, 0);
    assert_eq!(ci.json(&["show", "1"])["author"], "ci", "not the user of this machine");

    let id = made["token"]["id"].as_str().expect("an id");
    assert_eq!(admin.run(&["token", "revoke", "--yes", id]).0, 0);
    let (code, _, err) = ci.run(&["whoami"]);
    assert_eq!(code, 1);
    assert!(err.contains("[CREDENTIALS_INVALID]") && !err.contains(secret), "{err}");
    let ended = admin.json(&["token", "list", "--all"]);
    assert!(ended.as_array().expect("a list").iter().any(|token| token["revokedBy"] == "root"));
}

/// Auditors read all token events in order and in pages, on both databases.
#[tokio::test]
async fn auditor_reads_token_administration() {
    for database in Database::both().await {
        let guarded = Guarded::start_on(&database.url(), &[]);
        let admin = Ctl { guarded: &guarded, token: &guarded.admin };
        let made = admin.json(&["token", "create", "--yes", "--name", "ci", "--role", "publisher"]);
        let ci = made["secret"].as_str().expect("a text");
        let id = made["token"]["id"].as_str().expect("an id");
        assert_eq!(admin.run(&["token", "revoke", "--yes", id]).0, 0);
        let auditor = guarded.token("eve", "audit", "auditor");
        let auditor = Ctl { guarded: &guarded, token: &auditor };
        let trail = auditor.json(&["audit", "access"]);
        let trail = trail.as_array().expect("a list");
        let seen: Vec<_> = trail.iter().map(|line| line["event"].as_str().expect("text")).collect();
        assert_eq!(seen, ["token-created", "token-created", "token-revoked", "token-created"]);
        assert_eq!((&trail[0]["method"], &trail[0]["address"]), (&"local".into(), &"".into()));
        let known_by = format!("token {}", &guarded.admin[4..16]);
        for line in &trail[1..3] {
            let said = ["principal", "method", "address", "subject"].map(|field| &line[field]);
            assert_eq!(said, ["root", &*known_by, "127.0.0.1", id]);
        }
        let detail = trail[1]["detail"].as_str().expect("text");
        let granted: Vec<_> = detail.split(", ").take(4).collect();
        assert_eq!(granted, ["name ci", "team ci", "roles publisher", "scopes *"], "{detail}");
        let later = auditor.json(&["audit", "access", "--after", &trail[1]["number"].to_string()]);
        assert_eq!(later.as_array().map(Vec::as_slice), Some(&trail[2..]));
        let (code, table, _) = auditor.run(&["audit", "access"]);
        assert!(code == 0 && table.contains("token-revoked"), "{table}");
        assert!(!table.contains(&ci[17..]), "no text of a token is in it");
        pages_are_all_of_it(&guarded, trail.len()).await;
    }
}

/// The log is permanent, so addresses are stored only in the access trail, which can be deleted.
#[tokio::test]
async fn commit_addresses_are_only_in_access_trail() {
    for database in Database::both().await {
        let guarded = Guarded::start_on(&database.url(), &[]);
        let token = guarded.token("ci", "docs", "publisher");
        let ci = Ctl { guarded: &guarded, token: &token };
        assert_eq!(ci.run(&["apply", "-f", "examples/registry-v2.json", "--yes"]).0, 0);
        let admin = Ctl { guarded: &guarded, token: &guarded.admin };
        let shown = admin.json(&["show", "1"]);
        assert_eq!(shown["origin"]["method"], format!("token {}", &token[4..16]));
        assert_eq!(shown["origin"]["address"], Value::Null);
        let exported = admin.run(&["audit", "export"]).1;
        assert!(
            exported.contains("\"revision\":1") && !exported.contains("127.0.0.1"),
            "{exported}"
        );
        let trail = admin.json(&["audit", "access"]);
        let trail = trail.as_array().expect("a list");
        let line = trail.last().expect("a line");
        let said = ["event", "principal", "address", "subject"].map(|field| &line[field]);
        assert_eq!(said, ["committed", "ci", "127.0.0.1", "1"]);
        let verified = admin.run(&["audit", "verify"]);
        assert_eq!(verified.0, 0, "{verified:?}");

        let deleted = database.execute("DELETE FROM access_events WHERE event = 'committed'").await;
        deleted.expect("an operator may delete addresses");
        let refused =
            database.execute("DELETE FROM access_events").await.expect_err("not the others");
        let code = refused.as_database_error().and_then(sqlx::error::DatabaseError::code);
        let raised = if let Database::Sqlite(_) = database { "1811" } else { "P0001" };
        assert_eq!(code.as_deref(), Some(raised), "the trigger raises an error: {refused}");
        let rest = admin.json(&["audit", "access"]);
        assert_eq!(rest.as_array().map(Vec::as_slice), Some(&trail[..trail.len() - 1]));
    }
}

/// Reads pages of one entry. A page token of one list is rejected by the other.
async fn pages_are_all_of_it(guarded: &Guarded, events: usize) {
    let mut audit = AuditServiceClient::new(guarded.channel(&guarded.admin).await);
    let mut access = AccessServiceClient::new(guarded.channel(&guarded.admin).await);
    let mut wanted = v1::ListAccessEventsRequest { page_size: 1, ..Default::default() };
    let mut numbers = Vec::new();
    loop {
        let page = audit.list_access_events(wanted.clone()).await.expect("a page").into_inner();
        numbers.extend(page.events.iter().map(|event| event.number));
        if page.next_page_token.is_empty() {
            break;
        }
        wanted.page_token = page.next_page_token;
    }
    assert!(numbers.len() == events && numbers.is_sorted(), "{numbers:?}");
    let all = v1::ListTokensRequest { include_inactive: true, ..Default::default() };
    let listed = access.list_tokens(all.clone()).await.expect("a list").into_inner().tokens;
    let (mut paged, mut next) = (Vec::new(), String::new());
    loop {
        let wanted = v1::ListTokensRequest { page_size: 2, page_token: next, ..all.clone() };
        let page = access.list_tokens(wanted).await.expect("a page").into_inner();
        assert!(page.tokens.len() <= 2);
        paged.extend(page.tokens);
        next = page.next_page_token;
        if next.is_empty() {
            break;
        }
        let other = v1::ListTokensRequest { page_token: next.clone(), ..Default::default() };
        let refused = access.list_tokens(other).await.expect_err("another list");
        assert_eq!(refused.code(), Code::InvalidArgument);
    }
    assert_eq!((paged.len(), &paged), (3, &listed));
    let negative = v1::ListTokensRequest { page_size: -1, ..all };
    let refused = access.list_tokens(negative).await.expect_err("negative");
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
}

#[test]
fn token_file_is_never_sent_in_plain_text() {
    let guarded = Guarded::start(&[]);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("token");
    std::fs::write(&file, format!("{}\n", guarded.admin)).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let registry = &guarded.registry;
    assert!(registry.ctl(&["whoami", "--token-file", file]).success());
    assert_eq!(registry.ctl(&["whoami", "--token-file", "/nobody/has/this"]).code, 2);
    // An address of the documentation range (RFC 5737), where no host listens.
    let far = acceptance::ctl("http://192.0.2.1:7070", &["whoami", "--token-file", file]);
    assert_eq!(far.code, 2, "{far:?}");
    assert!(far.stderr.contains("unencrypted") && !far.stderr.contains(&guarded.admin[17..]));
}

#[test]
fn invalid_rate_limit_names_the_expected_form() {
    let mut server = Command::new(binary("registry-server"));
    let output = server.args(["--rate-limit", "many"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let first = said.lines().next().unwrap_or_default();
    insta::assert_snapshot!(first, @"error: invalid value 'many' for '--rate-limit <REQUESTS>': expected an integer");
}

#[test]
fn rate_limited_reads_are_retried() {
    let guarded = Guarded::start(&["--rate-limit", "1", "--rate-burst", "2"]);
    let admin = Ctl { guarded: &guarded, token: &guarded.admin };
    let started = Instant::now();
    let codes: Vec<_> = (0..4).map(|_| admin.run(&["whoami"]).0).collect();
    assert_eq!(codes, [0; 4]);
    assert!(started.elapsed() > Duration::from_millis(900), "{:?}", started.elapsed());
}

#[test]
fn forbidden_calls_count_against_the_rate_limit() {
    let guarded = Guarded::start(&["--rate-limit", "1", "--rate-burst", "2"]);
    let admin = Ctl { guarded: &guarded, token: &guarded.admin };
    let made = admin.json(&["token", "create", "--yes", "--name", "gw", "--role", "gateway"]);
    let gateway = Ctl { guarded: &guarded, token: made["secret"].as_str().expect("a text") };
    let started = Instant::now();
    for _ in 0..4 {
        let (code, _, error) = gateway.run(&["token", "list"]);
        assert!(code == 1 && error.contains("[PERMISSION_DENIED]"), "{error}");
    }
    assert!(started.elapsed() > Duration::from_millis(900), "{:?}", started.elapsed());
}
