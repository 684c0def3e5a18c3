//! Tasks of auditors: verify the log, keep checkpoints, prove commits, export the trail.

mod edited_rows;
mod triggers;

use std::path::Path;

use acceptance::{Database, Registry, access::server, root};
use registry_proto::v1::{self, audit_service_client::AuditServiceClient};
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use tempfile::tempdir;

/// Three commits, the last one a deprecation.
fn filled(database: &Database) -> Registry {
    let registry = Registry::start_on(&database.url());
    registry.apply_example();
    registry.apply_file(&root().join("examples/new-version.json"));
    registry.run(&[
        "deprecate",
        "--yes",
        "tool/fetch@1.2.3",
        "--message",
        "slow",
        "--sunset",
        "2027-01-31",
    ]);
    registry
}

#[tokio::test]
async fn intact_log_passes_verification() {
    for database in Database::both().await {
        let registry = filled(&database);
        registry.run(&["transfer", "--yes", "tool/fetch", "web-team"]);
        assert_eq!(
            registry.json(&["audit", "verify"]),
            json!({ "revision": 4, "findings": [], "more": 0 })
        );
    }
}

#[tokio::test]
async fn database_rejects_edits_of_log() {
    for database in Database::both().await {
        let registry = filled(&database);
        registry.run(&["archive", "--yes", "tool/fetch"]);
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

/// The findings of `audit verify`.
fn findings(registry: &Registry) -> Vec<(String, String)> {
    let verified = registry.ctl(&["audit", "verify", "--output", "json"]);
    assert_eq!(verified.code, 1, "{verified:?}");
    let found: Value = serde_json::from_str(&verified.stdout).expect("JSON");
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    let findings = found["findings"].as_array().expect("findings").iter();
    findings.map(|finding| (text(finding, "place"), text(finding, "problem"))).collect()
}

#[tokio::test]
async fn edited_log_is_never_signed() {
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
                assert!(refused.has_code("DATABASE_CORRUPT"), "{edit}: {refused:?}");
                assert!(refused.stderr.contains("revision 2"), "{edit}: {refused:?}");
            }
            database.restore().await;
        }
        // The end of the log is deleted from the database. The server still serves it from memory.
        let cut = "DELETE FROM commits WHERE revision = 3; UPDATE head SET revision = 2";
        database.tamper(cut).await;
        let refused = registry.ctl(&["audit", "checkpoint"]);
        assert!(refused.has_code("DATABASE_CORRUPT"), "{refused:?}");
        assert!(refused.stderr.contains("revision 3"), "{refused:?}");
        database.restore().await;
        assert!(registry.run(&["audit", "checkpoint"]).contains("\n3\n"));
    }
}

/// A locked table makes the verification wait longer than this test runs.
#[tokio::test]
async fn verification_stops_when_caller_disconnects() {
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
async fn servers_on_one_database_share_signing_key() {
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
    assert!(why.contains(known.trim()) && why.contains("checkpoint-key replace"), "{why}");
    let as_json = server(database.url(), &[&flags[..], &["--log-format", "json"]].concat());
    let lines = String::from_utf8_lossy(&as_json.stderr);
    let lines: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let last = lines.last().expect("a line");
    assert!(last["message"].as_str().is_some_and(|why| why.contains(known.trim())), "{last}");
    let adopted = server(database.url(), &["checkpoint-key", "replace", "--checkpoint-key", other]);
    assert!(adopted.status.success(), "{adopted:?}");
    let process = acceptance::Process::start("registry-server", dir.path(), |command| {
        command.args(flags).args(["--database", database.url(), "--data-dir"]).arg(dir.path());
    });
    let address = format!("http://{}", process.address());
    let now = acceptance::ctl(&address, &["audit", "key"]).stdout;
    assert_eq!(now.as_bytes(), adopted.stdout);
    assert_ne!(now, known);
    let trail = acceptance::ctl(&address, &["audit", "access", "--output", "json"]).json();
    let replaced = ["event", "subject", "detail"].map(|field| trail[0][field].clone());
    let detail = format!("previous key {}", known.trim());
    assert_eq!(replaced, ["checkpoint-key-replaced", now.trim(), &detail]);
}

#[tokio::test]
async fn commit_is_proven_offline() {
    for database in Database::both().await {
        let mut registry = filled(&database);
        let dir = tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name).display().to_string();
        let [key, old, proof, other] = ["key", "old", "proof", "other"].map(path);
        std::fs::write(&key, registry.run(&["audit", "key"])).expect("written");
        for (command, member) in [("key", "key"), ("checkpoint", "checkpoint")] {
            let text = registry.run(&["audit", command]);
            let json = registry.json(&["audit", command]);
            // A checkpoint has the time of its signature from its fifth line on.
            let stable = |text: &str| text.lines().take(4).map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(stable(json[member].as_str().expect("a text")), stable(&text));
        }
        std::fs::write(&old, registry.run(&["audit", "checkpoint"])).expect("written");
        registry.run(&["restore", "--yes", "tool/fetch@1.2.3"]);
        registry.process.kill_9();
        registry.restart();
        registry.run(&["audit", "prove", "2", "--since", "3", "-o", &proof]);
        registry.run(&["audit", "prove", "2", "--since", "2", "-o", &other]);
        let ahead = registry.ctl(&["audit", "prove", "2", "--since", "9"]);
        assert_eq!(ahead.code, 1, "{ahead:?}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(ahead.stderr, @"error[NOT_FOUND]: revision 9 does not exist: the registry is at revision 4; if you have a checkpoint of revision 9, the log was truncated");
        }
        drop(registry);
        let check = |proof: &str, since: &str| {
            acceptance::ctl(
                "http://127.0.0.1:1",
                &["audit", "check", proof, "--key", &key, "--since", since, "--output", "json"],
            )
        };
        let offline = |proof: &str| check(proof, &old);
        let checked = offline(&proof);
        assert!(checked.success(), "{checked:?}");
        let proven = checked.json();
        assert_eq!((&proven["commit"]["revision"], &proven["since"]), (&2.into(), &3.into()));
        let unproven = offline(&other);
        assert!(unproven.code == 1 && unproven.stderr.contains("--since 3"), "{unproven:?}");
        let no_checkpoint = check(&proof, &key);
        assert!(
            no_checkpoint.code == 1 && no_checkpoint.stderr.contains(&key),
            "{no_checkpoint:?}"
        );
        let foreign = edited(&old, dir.path(), "\u{2014} registry/", "\u{2014} other/");
        let unsigned = check(&proof, &foreign);
        assert!(unsigned.code == 1 && unsigned.stderr.contains(&foreign), "{unsigned:?}");
        let nowhere = ["audit", "check", &proof, "--key", "./missing"];
        let nowhere = acceptance::ctl("http://127.0.0.1:1", &nowhere);
        assert!(nowhere.code == 2 && nowhere.stderr.contains("./missing"), "{nowhere:?}");
        for (from, to) in [("SearchQuery", "SearchQuary"), ("\\n4\\n", "\\n5\\n")] {
            let forged = edited(&proof, dir.path(), from, to);
            assert_eq!(offline(&forged).code, 1, "{from} -> {to}");
        }
    }
}

#[tokio::test]
async fn audit_export_is_verified_offline() {
    for database in Database::both().await {
        let registry = filled(&database);
        let dir = tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name).display().to_string();
        let [key, foreign, since, export] = ["key", "foreign", "since", "export"].map(path);
        std::fs::write(&key, registry.run(&["audit", "key"])).expect("written");
        std::fs::write(&foreign, Registry::start().run(&["audit", "key"])).expect("written");
        std::fs::write(&since, registry.run(&["audit", "checkpoint"])).expect("written");
        registry.run(&["transfer", "--yes", "tool/fetch", "web-team"]);
        registry.run(&["audit", "export", "-o", &export]);
        drop(registry);
        let check = |export: &str, key: &str| {
            let args = ["audit", "check", export, "--key", key, "--since", &since];
            acceptance::ctl("http://127.0.0.1:1", &args)
        };
        let read = |file: &str| std::fs::read_to_string(file).expect("a file");
        let (own_key, foreign_key, checkpoint) = (read(&key), read(&foreign), read(&since));
        // A verifier key is `registry/ID+HASH+KEY`.
        let signer = own_key.splitn(3, '+').take(2).collect::<Vec<_>>().join("+");
        let id = signer.split(['/', '+']).nth(1).expect("an id");
        let time = checkpoint.lines().find_map(|line| line.strip_prefix("time ")).expect("a time");
        let verified = check(&export, &key);
        assert!(verified.success(), "{verified:?}");
        let message = verified.stdout.replace(id, "ID").replace(time, "TIME");
        insta::allow_duplicates! {
            insta::assert_snapshot!(message, @r"
            verified: revisions 1 to 3 are the log of registry ID, as signed on TIME
            not signed: revisions 4 to 4 continue this log, but are later than the checkpoint
            ");
        }
        let unsigned = ["audit", "check", &export, "--key", &key];
        let unsigned = acceptance::ctl("http://127.0.0.1:1", &unsigned);
        assert!(unsigned.code == 2 && unsigned.stderr.contains("--since"), "{unsigned:?}");
        let other_key = check(&export, &foreign);
        assert_eq!(other_key.code, 1, "{other_key:?}");
        let message = other_key.stderr.replace(&since, "SINCE");
        let message = message.replace(foreign_key.trim(), "KEY").replace(&signer, "SIGNER");
        insta::allow_duplicates! {
            insta::assert_snapshot!(message, @r"
            error: invalid checkpoint SINCE: the checkpoint has no signature by the key KEY; it is signed by SIGNER
              = help: --since and --key require files of the same registry and key; a replacement key does not verify older checkpoints
            ");
        }

        let text = read(&export);
        let lines: Vec<_> = text.lines().collect();
        let author = |from: &str, to: &str| {
            let changed = lines[1].replace(from, to);
            assert_ne!(changed, lines[1]);
            changed
        };
        let shown = author(r#""author":"anonymous""#, r#""author":"mallory""#);
        let canonical = author(r#"\"author\":\"anonymous\""#, r#"\"author\":\"mallory\""#);
        let both = author("anonymous", "mallory");
        let repeated = author(r#""author":"#, r#""author":"mallory","author":"#);
        let nested = author(r#""changes":[{"#, r#""changes":[{"reason":"mallory","reason":"","#);
        for (tampered, expected) in [
            (vec![lines[0], &shown, lines[2]], "line 2: `author` differs"),
            (vec![lines[0], &canonical, lines[2]], "line 2: `author` differs"),
            (vec![lines[0], &both, lines[2]], "line 2: the chain hash is"),
            (vec![lines[0], &repeated, lines[2]], "line 2: not a commit of `audit export`"),
            (vec![lines[0], &nested, lines[2]], "line 2: not a commit of `audit export`"),
            (vec![lines[0], lines[2]], "line 2: revision 3 instead of revision 2"),
            (vec![lines[1], lines[0], lines[2]], "line 1: revision 2 instead of revision 1"),
            (vec![lines[0], lines[1]], "ends at revision 2, before the checkpoint of revision 3"),
        ] {
            let file = path("tampered");
            std::fs::write(&file, tampered.join("\n")).expect("written");
            let found = check(&file, &key);
            assert!(found.code == 1 && found.stderr.contains(expected), "{expected}: {found:?}");
        }
    }
}

/// Writes a copy of a file with one text changed, and returns its path.
fn edited(file: &str, dir: &Path, from: &str, to: &str) -> String {
    let text = std::fs::read_to_string(file).expect("a file");
    assert!(text.contains(from), "{text}");
    let path = dir.join("forged");
    std::fs::write(&path, text.replace(from, to)).expect("written");
    path.display().to_string()
}

#[tokio::test]
async fn log_is_filtered_by_author_entity_and_time() {
    for database in Database::both().await {
        let registry = filled(&database);
        let revisions = |arguments: &[&str]| -> Vec<u64> {
            let listed = registry.run(&[&["log", "--output", "json"][..], arguments].concat());
            let commits: Vec<Value> = serde_json::from_str(&listed).expect("JSON");
            commits.iter().filter_map(|commit| commit["revision"].as_u64()).collect()
        };
        assert_eq!(revisions(&[]), [3, 2, 1]);
        assert_eq!(revisions(&["tool/fetch"]), [3, 1]);
        assert!(registry.ctl(&["log", "tool/fetch@9.9.9"]).has_code("NOT_FOUND"));
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
async fn settings_are_part_of_name_history() {
    for database in Database::both().await {
        let registry = filled(&database);
        registry.run(&["transfer", "--yes", "tool/fetch", "web-team"]);
        registry.run(&["transfer", "--yes", "tool/get_user", "data-team"]);
        registry.run(&["archive", "--yes", "tool/fetch"]);
        registry.run(&["restore", "--yes", "tool/fetch@1.2.3"]);
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
        registry.run(&["transfer", "--yes", "acme/*", "web-team"]);
        registry.run(&["transfer", "--yes", "acme.*", "web-team"]);
        assert_eq!(revisions(&read(&["log", "acme/*", "--author", "anonymous"])), [8]);
        assert_eq!(revisions(&read(&["log", "acme.*"])), [9]);
        assert_eq!(revisions(&read(&["log", "*"])), [0_u64; 0]);
        assert_eq!(registry.ctl(&["log", "tool/*"]).code, 2, "that would not be every tool");
        let history = read(&["history", "tool/fetch"]);
        assert_eq!(revisions(&history), [1, 3, 4, 6, 7]);
        assert_eq!(history[2]["setting"], json!({"target": "tool/fetch", "owner": "web-team"}));
        assert_eq!(revisions(&read(&["history", "tool/fetch@1.2.3"])), [1, 3, 7]);
        let table = registry.run(&["history", "tool/fetch"]);
        assert!(table.contains("archive tool/fetch"), "{table}");
        let mut pages = Vec::new();
        let mut wanted = v1::ListEntityEventsRequest {
            entity: Some(v1::EntitySelector {
                kind: v1::EntityKind::Tool.into(),
                name: "fetch".to_owned(),
                ..Default::default()
            }),
            page_size: 2,
            ..Default::default()
        };
        loop {
            let page = registry.history().await.list_entity_events(wanted.clone()).await;
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
async fn log_shows_settings_of_commit() {
    for database in Database::both().await {
        let registry = filled(&database);
        registry.run(&["transfer", "--yes", "acme/*", "web-team"]);
        let expected = json!([{"target": "acme/*", "owner": "web-team"}]);
        let shown = registry.run(&["show", "4", "--output", "json"]);
        assert_eq!(serde_json::from_str::<Value>(&shown).expect("JSON")["settings"], expected);
        let trail = registry.run(&["audit", "export", "--after", "3"]);
        assert_eq!(serde_json::from_str::<Value>(&trail).expect("JSON")["settings"], expected);
    }
}

#[tokio::test]
async fn audit_export_has_one_line_per_commit() {
    for database in Database::both().await {
        let registry = filled(&database);
        let trail = registry.run(&["audit", "export"]);
        let lines: Vec<Value> =
            trail.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let revisions: Vec<_> = lines.iter().map(|line| line["revision"].as_u64()).collect();
        assert_eq!(revisions, [Some(1), Some(2), Some(3)]);
        assert_eq!(lines[2]["changes"][0]["reason"], "slow");
        assert_eq!(lines[2]["changes"][0]["sunsetDate"], "2027-01-31");
        assert_eq!(registry.run(&["audit", "export", "--after", "2"]).lines().count(), 1);
    }
}
