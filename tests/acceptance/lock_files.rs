//! Lock files: `lock`, `apply --locked` and `outdated`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use acceptance::{CtlOutput, Registry, postgres, root};
use serde_json::Value;
use tempfile::TempDir;

/// A directory with requirements, and a registry.
struct Project {
    registry: Registry,
    dir: TempDir,
}

impl Project {
    fn new(registry: Registry, requirements: &str) -> Self {
        registry.apply_example();
        let project = Self { registry, dir: tempfile::tempdir().expect("a directory") };
        project.require(requirements);
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn require(&self, requirements: &str) {
        fs::write(self.path("registry-requirements.json"), requirements).expect("written");
    }

    fn run(&self, command: &[&str], more: &[&str]) -> CtlOutput {
        let file = self.path("registry.lock");
        let lock_file = ["--lock-file", text(&file)];
        self.registry.ctl(&[command, &lock_file[..], more].concat())
    }

    fn lock(&self, more: &[&str]) -> CtlOutput {
        let file = self.path("registry-requirements.json");
        self.run(&["lock", "-f", text(&file)], more)
    }

    fn locked(&self) -> Value {
        let bytes = fs::read(self.path("registry.lock")).expect("a lock file");
        serde_json::from_slice(&bytes).expect("JSON")
    }

    fn new_version(&self) {
        self.registry.apply_file(&root().join("examples/new-version.json"));
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

const QUERY: &str = r#"{ "schemas": { "SearchQuery": "^1" }, "tools": { "fetch": "latest" } }"#;

fn a_lock_is_kept_until_it_is_updated(registry: Registry) {
    let project = Project::new(registry, QUERY);
    let locked = project.lock(&[]);
    assert!(locked.success(), "{locked:?}");
    let first = project.locked();
    assert_eq!(first["requirements"]["schema/SearchQuery"]["version"], "1.0.0");
    assert_eq!(first["requirements"]["tool/fetch"]["version"], "1.2.3");
    assert_eq!(first["revision"], 1);
    let entities = first["entities"].as_object().expect("entities");
    for needed in ["schema/SearchFilters@1.0.0", "server/fetch-server@1.2.3"] {
        assert!(
            entities.get(needed).is_some_and(|d| d.to_string().contains("sha256:")),
            "{needed}"
        );
    }
    project.new_version();
    let again = project.lock(&[]);
    assert!(again.success(), "{again:?}");
    assert_eq!(project.locked(), first, "what is locked stays");
    assert!(project.lock(&["--update"]).success());
    let updated = project.locked();
    assert_eq!(updated["requirements"]["schema/SearchQuery"]["version"], "1.1.0");
    assert_eq!(updated["revision"], 2);
    let retire =
        ["retire", "--yes", "schema/SearchQuery@1.1.0", "--message", "wrong", "--force", "wrong"];
    assert!(project.registry.ctl(&retire).success());
    assert!(project.lock(&[]).success(), "a range excludes retired versions");
    assert_eq!(project.locked()["requirements"]["schema/SearchQuery"]["version"], "1.0.0");
    project.require(r#"{ "schemas": { "SearchQuery": "~1.0" } }"#);
    assert!(project.lock(&[]).success());
    let narrowed = project.locked();
    assert_eq!(narrowed["requirements"]["schema/SearchQuery"]["version"], "1.0.0");
    assert!(narrowed["entities"].get("tool/fetch@1.2.3").is_none(), "it is no longer required");
}

#[test]
fn locked_versions_are_kept_until_update_on_sqlite() {
    a_lock_is_kept_until_it_is_updated(Registry::start());
}

#[tokio::test]
async fn locked_versions_are_kept_until_update_on_postgres() {
    let database = postgres::database().await;
    a_lock_is_kept_until_it_is_updated(Registry::start_on(database.url()));
}

#[test]
fn unlockable_requirements_are_reported() {
    let project = Project::new(Registry::start(), r#"{ "tools": { "fetch": "^9" } }"#);
    let refused = project.lock(&[]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("1.2.3"), "{refused:?}");
    assert!(!project.path("registry.lock").exists());
    project.require(r#"{ "tools": { "fetsch": "^1" } }"#);
    let misspelled = project.lock(&[]);
    assert!(misspelled.code == 1 && misspelled.stderr.contains("tool/fetch?"), "{misspelled:?}");
    project.require(r#"{ "tools": { "fetch": "newest" } }"#);
    assert_eq!(project.lock(&[]).code, 2);
    project.require(QUERY);
    assert!(project.lock(&[]).success());
    let lock = fs::read_to_string(project.path("registry.lock")).expect("a lock file");
    let made_up = lock.replace(r#""version": "1.0.0""#, r#""version": "1.0.9""#);
    assert_ne!(made_up, lock);
    fs::write(project.path("registry.lock"), made_up).expect("written");
    let refused = project.lock(&[]);
    assert!(refused.code == 1 && refused.stderr.contains("1.0.9"), "{refused:?}");
    assert!(project.lock(&["--update"]).success());
    let other = Registry::start();
    other.apply_example();
    let (file, lock) = (project.path("registry-requirements.json"), project.path("registry.lock"));
    let elsewhere = ["lock", "-f", text(&file), "--lock-file", text(&lock)];
    let refused = other.ctl(&elsewhere);
    assert_eq!(refused.code, 1, "the lock file belongs to another registry: {refused:?}");
    assert!(other.ctl(&[&elsewhere[..], &["--update"]].concat()).success());
}

#[test]
fn changed_digest_is_replaced_by_update_only() {
    let project = Project::new(Registry::start(), QUERY);
    assert!(project.lock(&[]).success());
    let lock = project.locked();
    let digest = lock["entities"]["schema/SearchQuery@1.0.0"].as_str().expect("a digest");
    let text = fs::read_to_string(project.path("registry.lock")).expect("a lock file");
    let forged = text.replace(digest, &format!("sha256:{}", "0".repeat(64)));
    fs::write(project.path("registry.lock"), &forged).expect("written");
    let refused = project.lock(&[]);
    assert_eq!(refused.code, 1, "{refused:?}");
    insta::assert_snapshot!(refused.stderr.replace(digest, "sha256:REGISTERED"), @r"
    error: the digest of schema/SearchQuery@1.0.0 is sha256:0000000000000000000000000000000000000000000000000000000000000000 in the lock file, and sha256:REGISTERED in the registry
      = help: restore the lock file from version control; if the registry is right, replace the digests with `registryctl lock --update`
    ");
    let file = fs::read_to_string(project.path("registry.lock")).expect("a lock file");
    assert_eq!(file, forged, "the file is unchanged");
    let updated = project.lock(&["--update"]);
    assert!(updated.success(), "{updated:?}");
    insta::assert_snapshot!(updated.stderr.replace(digest, "sha256:REGISTERED"), @"warning: the digest of schema/SearchQuery@1.0.0 is sha256:0000000000000000000000000000000000000000000000000000000000000000 in the lock file, and sha256:REGISTERED in the registry; the lock file now has the latter");
    assert_eq!(project.locked()["entities"], lock["entities"]);
}

/// A tool that refers to one registered schema and to one of its own file.
const TOOL: &str = r##"{ "schemaVersion": "2.0",
  "schemas": [{ "name": "Mine", "version": "1.0.0", "schema": { "$ref": "#SearchQuery:1.0.0" } }],
  "agents": [],
  "servers": [{ "name": "mine", "version": "1.0.0",
    "provides": [{ "tool": "mine", "version": "1.0.0" }] }],
  "tools": [{ "name": "mine", "version": "1.0.0",
    "source": { "server": "mine", "serverVersion": "1.0.0", "tool": "mine" },
    "inputSchema": { "$ref": "#SearchQuery:1.0.0" },
    "outputSchema": { "$ref": "#Mine:1.0.0" } }] }"##;

#[tokio::test]
async fn apply_locked_rejects_drift_with_location() {
    let project = Project::new(Registry::start(), r#"{ "tools": { "fetch": "^1" } }"#);
    let file = project.path("mine.json");
    fs::write(&file, TOOL).expect("written");
    let apply = ["apply", "-f", text(&file), "--yes", "--locked"];
    let missing = project.run(&apply, &[]);
    assert_eq!(missing.code, 2, "there is no lock file: {missing:?}");
    assert!(project.lock(&[]).success());
    let refused = project.run(&apply, &[]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert_eq!(refused.stderr.matches("error[lock-missing]").count(), 2, "{refused:?}");
    assert!(refused.stderr.contains("mine.json:2:"), "{refused:?}");
    assert!(refused.stderr.contains("mine.json:8:"), "{refused:?}");
    project.require(r#"{ "schemas": { "SearchQuery": "~1.0" } }"#);
    assert!(project.lock(&[]).success());
    let lock = fs::read_to_string(project.path("registry.lock")).expect("a lock file");
    let digest = project.locked()["entities"]["schema/SearchQuery@1.0.0"].clone();
    let other = format!("sha256:{}", "0".repeat(64));
    let forged = lock.replace(digest.as_str().expect("a digest"), &other);
    fs::write(project.path("registry.lock"), forged).expect("written");
    let refused = project.run(&apply, &[]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("error[lock-drift]"), "{refused:?}");
    assert_eq!(project.lock(&[]).code, 1, "neither may a lock drift");
    // Transitive dependencies are checked too.
    let below = "schema/SearchFilters@1.0.0";
    let digest = project.locked()["entities"][below].as_str().expect("a digest").to_owned();
    for (forged, code) in [
        (lock.replace(&digest, &other), "error[lock-drift]"),
        (lock.replace(&format!("\"{below}\""), "\"schema/Other@1.0.0\""), "error[lock-missing]"),
        (lock.replace(&digest, "sha256:xyz"), "`schema/SearchFilters@1.0.0` in `entities`"),
    ] {
        fs::write(project.path("registry.lock"), forged).expect("written");
        let refused = project.run(&apply, &[]);
        assert!(refused.code != 0 && refused.stderr.contains(code), "{code}: {refused:?}");
    }
    fs::write(project.path("registry.lock"), lock).expect("written");
    assert_eq!(project.registry.revision().await, 1, "nothing was changed");
    let applied = project.run(&apply, &[]);
    assert!(applied.success(), "{applied:?}");
    assert_eq!(project.registry.revision().await, 2);
}

#[test]
fn references_inside_files_need_no_lock() {
    let requirements = r#"{ "schemas": { "SearchQuery": "~1.0" } }"#;
    let project = Project::new(Registry::start(), requirements);
    assert!(project.lock(&[]).success());
    let (mine, other) = (project.path("mine.json"), project.path("other.json"));
    fs::write(&mine, TOOL).expect("written");
    project.registry.apply_file(&mine);
    let refers = r##"{ "schemaVersion": "2.0",
        "schemas": [{ "name": "Mineral", "version": "1.0.0", "schema": { "$ref": "#Mine:1.0.0" } }] }"##;
    fs::write(&other, refers).expect("written");
    let alone = ["apply", "-f", text(&other), "--locked", "--dry-run"];
    let missing = project.run(&alone, &[]);
    assert!(missing.code == 1 && missing.has_code("lock-missing"), "{missing:?}");
    let both = project.run(&alone, &["-f", text(&mine)]);
    assert!(both.success(), "{both:?}");
}

#[test]
fn lock_of_other_registry_is_rejected() {
    let project = Project::new(Registry::start(), QUERY);
    assert!(project.lock(&[]).success());
    let lock = fs::read_to_string(project.path("registry.lock")).expect("a lock file");
    let id = project.locked()["registry"].as_str().expect("an id").to_owned();
    fs::write(project.path("registry.lock"), lock.replace(&id, "another")).expect("written");
    let file = project.path("alone.json");
    let alone = r#"{ "schemaVersion": "2.0",
        "schemas": [{ "name": "Alone", "version": "1.0.0", "schema": { "type": "string" } }] }"#;
    fs::write(&file, alone).expect("written");
    let refused = project.run(&["apply", "--locked", "-f", text(&file), "--yes"], &[]);
    assert!(refused.code == 1 && refused.stderr.contains("another"), "{refused:?}");
}

#[test]
fn outdated_shows_changes_and_broken_dependents() {
    let project = Project::new(Registry::start(), QUERY);
    assert!(project.lock(&[]).success());
    assert!(project.run(&["outdated", "--exit-code"], &[]).success());
    project.new_version();
    let fetch =
        ["deprecate", "--yes", "tool/fetch@1.2.3", "--replacement", "tool/get_webpage@1.0.0"];
    assert!(project.registry.ctl(&fetch).success());
    let outdated = project.run(&["outdated"], &[]);
    assert!(outdated.success(), "{outdated:?}");
    insta::assert_snapshot!("outdated", outdated.stdout);
    let for_ci = project.run(&["outdated", "--exit-code"], &[]);
    assert_eq!(for_ci.code, 5, "{for_ci:?}");
    let json = project.run(&["outdated", "--output", "json"], &[]);
    let rows: Value = serde_json::from_str(&json.stdout).expect("JSON");
    let query = &rows[0];
    assert_eq!((&query["current"], &query["wanted"]), (&"1.0.0".into(), &"1.1.0".into()));
    assert_eq!(query["upgrade"]["dependents"], 7);
    assert_eq!(query["upgrade"]["comparison"]["outcome"], "compatible");
    assert_eq!(rows[1]["lifecycle"]["replacement"], "tool/get_webpage@1.0.0");
}

#[test]
fn outdated_names_rejected_values_of_breaking_upgrade() {
    let project = Project::new(Registry::start(), r#"{ "schemas": { "Order": "latest" } }"#);
    let apply = |version: &str, kind: &str| {
        let file = project.path("order.json");
        let text = format!(
            r#"{{ "schemaVersion": "2.0", "schemas": [
                {{ "name": "Order", "version": "{version}", "schema": {{ "type": "{kind}" }} }}] }}"#
        );
        fs::write(&file, text).expect("written");
        project.registry.apply_file(&file);
    };
    apply("1.0.0", "string");
    assert!(project.lock(&[]).success());
    apply("2.0.0", "integer");
    let outdated = project.run(&["outdated"], &[]);
    assert!(outdated.success(), "{outdated:?}");
    assert!(outdated.stdout.contains("schema/Order 1.0.0 -> 2.0.0: breaking"), "{outdated:?}");
    assert!(outdated.stdout.contains("`type`"), "{outdated:?}");
}

#[test]
fn outdated_lists_deprecated_dependencies_and_no_downgrades() {
    let project = Project::new(Registry::start(), r#"{ "schemas": { "SearchQuery": "latest" } }"#);
    assert!(project.lock(&[]).success());
    let below = ["deprecate", "--yes", "schema/SearchFilters@1.0.0", "--message", "unused"];
    project.registry.run(&below);
    let outdated = project.run(&["outdated", "--exit-code"], &[]);
    assert_eq!(outdated.code, 5, "{outdated:?}");
    assert!(outdated.stdout.contains("unused"), "{outdated:?}");
    assert!(outdated.stderr.contains("0 of 1 "), "{outdated:?}");

    let file = project.path("preview.json");
    let preview = r#"{ "schemaVersion": "2.0", "schemas": [
        { "name": "Own", "version": "1.1.0", "schema": { "type": "string" } },
        { "name": "Own", "version": "2.0.0-rc.1", "schema": { "type": "string" } }] }"#;
    fs::write(&file, preview).expect("written");
    project.registry.apply_file(&file);
    let requirements = r#"{ "schemas": { "Own": "=2.0.0-rc.1" } }"#;
    fs::write(project.path("registry-requirements.json"), requirements).expect("written");
    assert!(project.lock(&[]).success());
    let fresh = project.run(&["outdated", "--exit-code"], &[]);
    assert!(fresh.success(), "{fresh:?}");
}

#[test]
fn lock_commands_accept_past_revision() {
    let project = Project::new(Registry::start(), QUERY);
    project.new_version();
    let ctl = |arguments: &[&str]| {
        let output = project.registry.ctl(arguments);
        assert!(output.success(), "{arguments:?}: {output:?}");
        output.stdout
    };
    assert!(ctl(&["resolve", "schema/SearchQuery"]).contains("1.1.0"));
    assert!(ctl(&["resolve", "schema/SearchQuery", "--at", "1"]).contains("1.0.0"));
    let dependents = ["tree", "schema/SearchFilters@1.0.0", "--dependents"];
    assert!(ctl(&dependents).contains("1.1.0"));
    assert!(!ctl(&[&dependents[..], &["--at", "1"]].concat()).contains("1.1.0"));
    let early = project.registry.ctl(&["tree", "schema/SearchQuery@1.1.0", "--at", "1"]);
    assert_eq!(early.code, 1, "{early:?}");
    assert_eq!(project.registry.ctl(&["resolve", "tool/fetch", "--at", "99"]).code, 1);
}
