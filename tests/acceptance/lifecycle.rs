//! Lifecycle of registered entities, and settings of names.

use acceptance::{Database, Registry, root};

fn refused(registry: &Registry, arguments: &[&str]) -> String {
    let output = registry.ctl(arguments);
    assert_eq!(output.code, 1, "{arguments:?}: {output:?}");
    output.stderr
}

async fn examples() -> Vec<(Database, Registry)> {
    let start = |database: Database| {
        let registry = Registry::start_on(&database.url());
        registry.apply_example();
        (database, registry)
    };
    Database::both().await.map(start).into()
}

#[tokio::test]
async fn deprecation_has_replacement_and_sunset() {
    for (_database, mut registry) in examples().await {
        let tool = "tool/get_webpage@1.0.0";
        let unknown = ["deprecate", "--yes", tool, "--replacement", "tool/nothing@1.0.0"];
        assert!(refused(&registry, &unknown).contains("replacement-unknown"));
        let notice = ["--replacement", "tool/fetch@1.2.3", "--sunset", "2027-01-31", "-m", "slow"];
        registry.run(&[&["deprecate", "--yes", tool][..], &notice].concat());
        registry.process.kill_9();
        registry.restart();
        let shown = registry.run(&["get", tool]);
        for part in ["tool/fetch@1.2.3", "2027-01-31"] {
            assert!(shown.contains(part), "{part} is missing:\n{shown}");
        }
        let now = registry.json(&["get", tool])["lifecycle"].clone();
        assert_eq!((&now["state"], &now["revision"]), (&"deprecated".into(), &2.into()), "{now}");
        assert_eq!(now["message"], "slow");
        let before = registry.json(&["get", tool, "--at", "1"])["lifecycle"].clone();
        assert_eq!((&before["state"], &before["revision"]), (&"active".into(), &1.into()));
        let listed = registry.run(&["list", "tool", "--lifecycle", "deprecated", "--at", "2"]);
        assert!(listed.contains("get_webpage") && !listed.contains("list_users"), "{listed}");
        assert_eq!(registry.ctl(&["get", tool, "--at", "3"]).code, 1, "there is no revision 3 yet");
    }
}

#[tokio::test]
async fn needed_entity_is_retired_only_by_force() {
    for (_database, registry) in examples().await {
        let said = refused(&registry, &["retire", "--yes", "server/fetch-server@1.2.3"]);
        assert!(said.contains("still-needed"), "{said}");
        assert!(said.contains("-> server/fetch-server@1.2.3"), "{said}");
        registry.run(&["retire", "--yes", "server/fetch-server@1.2.3", "--force", "leak"]);
        let shown = registry.json(&["show", "2"]);
        assert_eq!(shown["changes"][0]["forceReason"], "leak", "{shown}");
    }
}

#[tokio::test]
async fn archived_name_rejects_new_versions() {
    for (_database, mut registry) in examples().await {
        registry.run(&["archive", "--yes", "schema/SearchQuery", "-m", "superseded"]);
        registry.process.kill_9();
        registry.restart();
        let new = root().join("examples/new-version.json");
        let new = new.to_str().expect("UTF-8");
        let said = refused(&registry, &["apply", "-f", new, "--yes"]);
        assert!(said.contains("name-archived"), "{said}");
        registry.run(&["unarchive", "--yes", "schema/SearchQuery"]);
        registry.run(&["apply", "-f", new, "--yes"]);
        let log = registry.run(&["log"]);
        assert!(log.contains("archive schema/SearchQuery"), "{log}");
    }
}

#[tokio::test]
async fn names_and_namespaces_are_transferred() {
    for (_database, registry) in examples().await {
        registry.run(&["transfer", "--yes", "tool/fetch", "web-team"]);
        registry.run(&["compatibility", "set", "--yes", "*", "full_transitive"]);
        assert!(registry.run(&["get", "tool/fetch@1.2.3"]).contains("web-team"));
        assert!(registry.run(&["list", "--owner", "web-team"]).contains("fetch"));
        assert!(!registry.run(&["get", "tool/fetch@1.2.3", "--at", "1"]).contains("web-team"));
        let settings = registry.run(&["settings"]);
        assert!(
            settings.contains("full_transitive") && settings.contains("web-team"),
            "{settings}"
        );
        assert_eq!(registry.run(&["settings", "--at", "1"]).lines().count(), 1, "only a heading");
        let export = registry.run(&["export"]);
        assert!(export.contains("\"settings\":["), "{export}");
        assert!(refused(&registry, &["transfer", "--yes", "*", "me"]).contains("setting-invalid"));
        // `tool/*` does not select every tool.
        for wanted in [
            &["compatibility", "set", "--yes", "tool/*", "full"][..],
            &["transfer", "--yes", "tool/*", "me"],
        ] {
            let said = registry.ctl(wanted);
            assert_eq!(said.code, 2, "{said:?}");
            insta::assert_snapshot!(format!("every-tool-{}", wanted[0]), said.stderr);
        }
        let owned = |team: &str| registry.run(&["list", "--owner", team]).lines().skip(1).count();
        let head = registry.revision().await;
        registry.run(&["transfer", "--yes", "server/user-service", "tool/get_user", "docs-team"]);
        registry.run(&["transfer", "--yes", "team/*", "web-team"]);
        assert_eq!((owned("web-team"), owned("docs-team")), (1, 2));
        let dry = registry.run(&["transfer", "--from", "web-team", "docs-team", "--dry-run"]);
        assert!(dry.contains("plan: 2 settings"), "{dry}");
        registry.run(&["transfer", "--yes", "--from", "web-team", "docs-team"]);
        assert_eq!((owned("web-team"), owned("docs-team")), (0, 3));
        assert_eq!(registry.revision().await, head + 3, "each transfer is one commit");
        let none = refused(&registry, &["transfer", "--yes", "--from", "web-team", "docs-team"]);
        insta::allow_duplicates! {
            insta::assert_snapshot!(none, @"error: `web-team` owns no name and no namespace");
        }
        for (name, is_new) in [("tool/fetch", false), ("tool/nothere", true)] {
            let set = registry.ctl(&["compatibility", "set", "--yes", name, "full"]);
            assert!(set.success(), "{set:?}");
            assert_eq!(set.stderr.contains("tool/nothere"), is_new, "{set:?}");
        }
    }
}
