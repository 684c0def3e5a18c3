//! Listed versions: latest, deprecated, deleted, updated since, and search.

use serde_json::json;

use super::{Api, OFFICIAL};

const A: &str = "/v0.1/servers/com.example%2Fa";

#[tokio::test]
async fn exactly_one_version_is_the_latest_by_semver() {
    let api = Api::start();
    for version in ["1.9.0", "1.10.0", "2.0.0-rc.1", "1.2.0"] {
        api.publish("com.example/a", version).await;
    }
    api.publish("com.example/b", "0.1.0-beta").await;
    let latest = api.get("/v0.1/servers?version=latest").await;
    assert_eq!(latest.listed(), ["com.example/a@1.10.0", "com.example/b@0.1.0-beta"]);
    let all = api.get("/v0.1/servers").await;
    assert_eq!(
        all.listed(),
        [
            "com.example/a@1.2.0",
            "com.example/a@1.9.0",
            "com.example/a@1.10.0",
            "com.example/a@2.0.0-rc.1",
            "com.example/b@0.1.0-beta",
        ]
    );
    let newest_first = api.get(&format!("{A}/versions")).await;
    let expected = ["1.2.0", "2.0.0-rc.1", "1.10.0", "1.9.0"].map(|v| format!("com.example/a@{v}"));
    assert_eq!(newest_first.listed(), expected);
    let list = newest_first.json();
    let flags = list["servers"].as_array().unwrap().iter();
    let flags: Vec<_> = flags.map(|item| item["_meta"][OFFICIAL]["isLatest"] == true).collect();
    assert_eq!(flags, [false, false, true, false]);
    let one = api.get("/v0.1/servers?version=1.9.0").await;
    assert_eq!(one.listed(), ["com.example/a@1.9.0"]);
    assert!(api.get("/v0.1/servers?version=9.9.9").await.listed().is_empty());
}

#[tokio::test]
async fn deleted_versions_are_listed_only_on_request() {
    let api = Api::start();
    for version in ["1.0.0", "2.0.0"] {
        api.publish("com.example/a", version).await;
    }
    let reason = format!("use b; {}", "because ".repeat(90));
    let ctl = api.registry.ctl(&[
        "deprecate",
        "--yes",
        "server/com.example/a@1.0.0",
        "--message",
        &reason,
    ]);
    assert!(ctl.success(), "{ctl:?}");
    let ctl =
        api.registry.ctl(&["retire", "--yes", "server/com.example/a@2.0.0", "--message", "broken"]);
    assert!(ctl.success(), "{ctl:?}");
    // The next version becomes the latest.
    let list = api.get("/v0.1/servers?version=latest").await;
    assert_eq!(list.listed(), ["com.example/a@1.0.0"]);
    let official = &list.json()["servers"][0]["_meta"][OFFICIAL];
    assert_eq!(official["status"], "deprecated");
    let message = official["statusMessage"].as_str().unwrap();
    assert!(reason.starts_with(message.trim_end_matches('…')), "{message}");
    assert!((400..=500).contains(&message.chars().count()), "{message}");
    assert!(official["statusChangedAt"].as_str() > official["publishedAt"].as_str());
    // It became the latest later.
    assert!(official["updatedAt"].as_str() > official["statusChangedAt"].as_str());
    let gone = api.get(&format!("{A}/versions/2.0.0")).await;
    assert_eq!(gone.status, 404);
    let asked = api.get(&format!("{A}/versions/2.0.0?include_deleted=true")).await;
    assert_eq!(asked.status, 200);
    let official = &asked.json()["_meta"][OFFICIAL];
    assert_eq!(official["status"], "deleted");
    assert_eq!(
        (&official["statusMessage"], &official["isLatest"]),
        (&json!("broken"), &json!(false))
    );
    assert_eq!(api.get("/v0.1/servers").await.listed().len(), 1);
    assert_eq!(api.get("/v0.1/servers?include_deleted=true").await.listed().len(), 2);
    assert_eq!(api.get(&format!("{A}/versions")).await.listed().len(), 1);
    assert_eq!(api.get(&format!("{A}/versions?include_deleted=true")).await.listed().len(), 2);
    // A server is not listed if all its versions are deleted.
    api.registry.ctl(&["retire", "--yes", "server/com.example/a@1.0.0"]);
    for path in ["versions", "versions/latest"] {
        assert_eq!(api.get(&format!("{A}/{path}")).await.status, 404, "{path}");
        let shown = api.get(&format!("{A}/{path}?include_deleted=true")).await;
        assert_eq!(shown.status, 200, "{path}");
    }
    let latest = api.get(&format!("{A}/versions/latest?include_deleted=true")).await.json();
    assert_eq!(latest["server"]["version"], "2.0.0");
    // And back.
    api.registry.ctl(&["restore", "--yes", "server/com.example/a@2.0.0"]);
    let latest = api.get(&format!("{A}/versions/latest")).await.json();
    assert_eq!(latest["server"]["version"], "2.0.0");
    assert_eq!(latest["_meta"][OFFICIAL].get("statusMessage"), None);
}

#[tokio::test]
async fn updated_since_includes_ties_and_deletions() {
    let api = Api::start();
    // Three versions of one commit have the same time.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("three.json");
    let one = |name: &str| json!({ "name": name, "version": "1.0.0", "provides": [] });
    let three = json!({ "schemaVersion": "2.0", "servers": [one("t/a"), one("t/b"), one("t/c")] });
    std::fs::write(&file, three.to_string()).unwrap();
    api.registry.apply_file(&file);
    let list = api.get("/v0.1/servers").await.json();
    let at = list["servers"][0]["_meta"][OFFICIAL]["updatedAt"].as_str().unwrap().to_owned();
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    api.publish("com.example/later", "1.0.0").await;

    // A client that continues from the time of one of them misses none of the others.
    let mut path = format!("/v0.1/servers?updated_since={at}&limit=1");
    let mut seen = Vec::new();
    loop {
        let page = api.get(&path).await;
        seen.extend(page.listed());
        let Some(cursor) = page.cursor() else { break };
        path = format!("/v0.1/servers?limit=1&cursor={cursor}");
    }
    assert_eq!(seen, ["com.example/later@1.0.0", "t/a@1.0.0", "t/b@1.0.0", "t/c@1.0.0"]);

    let later = api.get("/v0.1/servers/com.example%2Flater/versions/latest").await.json();
    let since = later["_meta"][OFFICIAL]["updatedAt"].as_str().unwrap().to_owned();
    let path = format!("/v0.1/servers?updated_since={since}");
    assert_eq!(api.get(&path).await.listed(), ["com.example/later@1.0.0"]);
    let ctl = api.registry.ctl(&["retire", "--yes", "server/t/b@1.0.0", "--message", "gone"]);
    assert!(ctl.success(), "{ctl:?}");
    assert_eq!(api.get(&path).await.listed(), ["com.example/later@1.0.0", "t/b@1.0.0"]);
    let offset = since.replace('Z', "+00:00");
    for zone in [offset.clone(), offset.replace('+', "%2B")] {
        let path = format!("/v0.1/servers?updated_since={zone}");
        assert_eq!(api.get(&path).await.listed().len(), 2, "{zone}");
    }
    assert!(api.get("/v0.1/servers?updated_since=2999-01-01T00:00:00Z").await.listed().is_empty());
}

#[tokio::test]
async fn updated_since_includes_new_latest_version() {
    let api = Api::start();
    for version in ["1.0.0", "2.0.0"] {
        api.publish("com.example/kept", version).await;
    }
    let seen = api.get("/v0.1/servers/com.example%2Fkept/versions/latest").await.json();
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    api.registry.run(&["retire", "--yes", "server/com.example/kept@2.0.0", "--message", "gone"]);
    let gone = api.get("/v0.1/servers?version=2.0.0&updated_since=2026-01-01T00:00:00Z").await;
    let since = gone.json()["servers"][0]["_meta"][OFFICIAL]["updatedAt"].clone();
    assert_ne!(since, seen["_meta"][OFFICIAL]["updatedAt"]);
    let since = since.as_str().unwrap();
    for (version, expected) in [
        ("&version=latest", &["com.example/kept@1.0.0"][..]),
        ("", &["com.example/kept@1.0.0", "com.example/kept@2.0.0"]),
    ] {
        let list = api.get(&format!("/v0.1/servers?updated_since={since}{version}")).await;
        assert_eq!(list.listed(), expected);
        assert_eq!(list.json()["servers"][0]["_meta"][OFFICIAL]["updatedAt"], since);
    }
}

#[tokio::test]
async fn search_matches_names_and_descriptions_ignoring_case() {
    let api = Api::start();
    for (name, text) in [("com.example/weather", "Rain or SHINE"), ("org.x/sun", "Größe")] {
        let body = json!({ "name": name, "version": "1.0.0", "description": text });
        assert_eq!(api.post("/v0.1/publish", &body).await.status, 200);
    }
    let found = async |text: &str| {
        let answer = api.get(&format!("/v0.1/servers?search={text}")).await;
        answer.listed().join(" ").replace("@1.0.0", "")
    };
    assert_eq!(found("WEATH").await, "com.example/weather");
    assert_eq!(found("example%2Fwea").await, "com.example/weather");
    assert_eq!(found("shine").await, "com.example/weather");
    assert_eq!(found("or+shine").await, "com.example/weather");
    assert_eq!(found("gr%C3%B6%C3%9Fe").await, "org.x/sun");
    assert_eq!(found("nothing").await, "");
    assert_eq!(found("").await, "com.example/weather org.x/sun");
}
