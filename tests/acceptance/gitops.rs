//! `apply --prune` and `--on-conflict`, on both databases: a directory is the source of truth for
//! the entities that it manages.

use std::{collections::BTreeMap, fs, path::Path};

use acceptance::{CtlOutput, Database, Registry, access::Guarded, postgres};
use serde_json::{Value, json};

const SOURCE: &str = "git.example/tools";

fn tool(name: &str, manager: &str) -> Value {
    json!({ "name": name, "version": "1.0.0", "metadata": { "managedBy": manager },
        "source": { "server": format!("{name}-server"), "serverVersion": "1.0.0", "tool": name } })
}

fn server(name: &str, manager: &str) -> Value {
    json!({ "name": format!("{name}-server"), "version": "1.0.0",
        "metadata": { "managedBy": manager }, "provides": [{ "tool": name, "version": "1.0.0" }] })
}

/// Writes one file per tool, with its server.
fn write(dir: &Path, names: &[&str], manager: &str) {
    let _ = fs::remove_dir_all(dir);
    fs::create_dir_all(dir).expect("a directory");
    for name in names {
        let file = json!({ "schemaVersion": "2.0",
            "tools": [tool(name, manager)], "servers": [server(name, manager)] });
        fs::write(dir.join(format!("{name}.json")), file.to_string()).expect("written");
    }
}

fn apply(registry: &Registry, dir: &Path, more: &[&str]) -> CtlOutput {
    let dir = dir.to_str().expect("UTF-8");
    registry.ctl(&[&["apply", "-f", dir, "--yes", "--author", "team-a"], more].concat())
}

fn prune(registry: &Registry, dir: &Path, more: &[&str]) -> CtlOutput {
    let flags = ["--prune", "--managed-by", SOURCE, "--output", "json"];
    apply(registry, dir, &[&flags[..], more].concat())
}

/// The number of planned changes by effect.
fn planned(output: &CtlOutput) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for change in output.json()["plan"].as_array().expect("a plan") {
        *counts.entry(change["effect"].as_str().expect("an effect").to_owned()).or_default() += 1;
    }
    counts
}

fn counts<const N: usize>(effects: [(&str, usize); N]) -> BTreeMap<String, usize> {
    effects.into_iter().map(|(effect, count)| (effect.to_owned(), count)).collect()
}

fn state(registry: &Registry, key: &str) -> String {
    let shown = registry.ctl(&["get", key, "--output", "json"]);
    assert!(shown.success(), "{shown:?}");
    let shown: Value = serde_json::from_str(&shown.stdout).expect("JSON");
    shown["lifecycle"]["state"].as_str().expect("a state").to_owned()
}

fn a_directory_is_the_truth_for_what_it_manages(registry: &Registry) {
    let dir = tempfile::tempdir().expect("a directory");
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    write(&theirs, &["other"], "git.example/other");
    assert!(apply(registry, &theirs, &[]).success());
    // The same source label under another owner is not managed.
    write(&theirs, &["foreign"], SOURCE);
    let foreign = theirs.to_str().expect("UTF-8");
    let done = registry.ctl(&["apply", "-f", foreign, "--yes", "--author", "team-b"]);
    assert!(done.success(), "{done:?}");

    write(&ours, &["a", "b", "c"], SOURCE);
    let first = prune(registry, &ours, &[]);
    assert_eq!(planned(&first), counts([("register", 6)]));
    // An unmanaged agent depends on c.
    let agent = json!({ "schemaVersion": "2.0", "agents": [{
        "name": "outside", "version": "1.0.0", "description": "d", "url": "u",
        "protocolVersion": "0.3", "defaultInputModes": [], "defaultOutputModes": [], "skills": [],
        "capabilities": { "extensions": [{ "uri": "urn:agentgateway:sbom", "params": { "depends": [
            { "type": "tool", "name": "c", "version": "1.0.0" } ] } }] } }] });
    let outside = dir.path().join("agent.json");
    fs::write(&outside, agent.to_string()).expect("written");
    registry.apply_file(&outside);

    write(&ours, &["a"], SOURCE);
    let dry = prune(registry, &ours, &["--dry-run", "--exit-code"]);
    assert_eq!(dry.code, 5, "{dry:?}");
    let plan = counts([("deprecate", 2), ("retire", 2), ("unchanged", 2)]);
    assert_eq!(planned(&dry), plan);
    let kept = json!([
        { "key": "server/c-server@1.0.0", "neededBy": ["tool/c@1.0.0"] },
        { "key": "tool/c@1.0.0", "neededBy": ["agent/outside@1.0.0"] },
    ]);
    assert_eq!(dry.json()["kept"], kept);
    let old = prune(registry, &ours, &["--base-revision", "1"]);
    assert!(old.code == 1 && old.has_code("BASE_REVISION_MISMATCH"), "{old:?}");
    assert_eq!(state(registry, "tool/b@1.0.0"), "active");

    let done = prune(registry, &ours, &[]);
    assert!(done.success() && planned(&done) == plan, "{done:?}");
    for (key, expected) in [
        ("tool/a@1.0.0", "active"),
        ("tool/b@1.0.0", "retired"),
        ("server/b-server@1.0.0", "retired"),
        ("tool/c@1.0.0", "deprecated"),
        ("server/c-server@1.0.0", "deprecated"),
        ("tool/other@1.0.0", "active"),
        ("tool/foreign@1.0.0", "active"),
    ] {
        assert_eq!(state(registry, key), expected, "{key}");
    }
    // Nothing changes until the agent has moved.
    let again = prune(registry, &ours, &["--dry-run", "--exit-code"]);
    assert!(again.success() && again.json()["kept"] == kept, "{again:?}");
    let shown = apply(registry, &ours, &["--prune", "--managed-by", SOURCE]).stdout;
    let line =
        "kept: tool/c@1.0.0 is deprecated and not retired, because agent/outside@1.0.0 needs it";
    assert!(shown.lines().any(|shown| shown == line), "{shown}");
    assert!(registry.ctl(&["retire", "--yes", "agent/outside@1.0.0"]).success());
    let rest = prune(registry, &ours, &[]);
    assert!(rest.success() && planned(&rest)["retire"] == 2, "{rest:?}");

    // Batches that would retire everything, or could never be pruned, are rejected.
    write(&ours, &["a"], "git.example/typo");
    let unmarked = prune(registry, &ours, &[]);
    assert_eq!(unmarked.code, 1, "{unmarked:?}");
    let found = &unmarked.json()["diagnostics"];
    assert_eq!(found.as_array().map(Vec::len), Some(2), "{found}");
    assert_eq!(
        found[0]["message"],
        "server/a-server@1.0.0 is not managed by `git.example/tools`, but by `git.example/typo`"
    );
    assert_eq!(found[0]["file"], ours.join("a.json").to_str().expect("UTF-8"));
    assert_eq!(
        (&found[0]["line"], &found[0]["pointer"]),
        (&json!(1), &json!("/servers/0/metadata/managedBy"),)
    );
    write(&ours, &[], SOURCE);
    fs::write(ours.join("empty.json"), "{ \"schemaVersion\": \"2.0\" }").expect("written");
    let empty = prune(registry, &ours, &[]);
    assert_eq!(empty.code, 1, "{empty:?}");
    insta::assert_snapshot!("prune-everything", empty.stderr);
    assert_eq!(state(registry, "tool/a@1.0.0"), "active");
}

#[test]
fn files_must_not_need_removed_entities() {
    let registry = Registry::start();
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), &["parcel"], SOURCE);
    let mut label = tool("label", SOURCE);
    label.as_object_mut().expect("an object").remove("source");
    label["depends"] = json!([{ "type": "tool", "name": "parcel", "version": "1.0.0" }]);
    let step = json!({ "id": "quote", "operation": { "tool": "parcel" } });
    label["spec"] = json!({ "pipeline": { "steps": [step] } });
    let label = json!({ "schemaVersion": "2.0", "tools": [label] });
    let file = dir.path().join("label.json");
    fs::write(&file, label.to_string()).expect("written");
    assert_eq!(planned(&prune(&registry, dir.path(), &[])), counts([("register", 3)]));

    fs::remove_file(dir.path().join("parcel.json")).expect("removed");
    for _ in 0..2 {
        let rejected = prune(&registry, dir.path(), &[]);
        assert_eq!(rejected.code, 1, "{rejected:?}");
        let found = &rejected.json()["diagnostics"];
        assert_eq!(found[0]["code"], "still-needed", "{found}");
        assert_eq!(found[0]["file"], file.to_str().expect("UTF-8"));
        assert_eq!(found[0]["pointer"], "/tools/0/depends/0");
        let message = "tool/label@1.0.0 needs tool/parcel@1.0.0, which was removed from the files";
        assert_eq!(found[0]["message"], message);
        // It is rejected, too, once the removed tool is deprecated.
        registry.run(&["deprecate", "--yes", "tool/parcel@1.0.0"]);
    }
}

#[test]
fn directory_is_source_of_truth_on_sqlite() {
    a_directory_is_the_truth_for_what_it_manages(&Registry::start());
}

#[tokio::test(flavor = "multi_thread")]
async fn directory_is_source_of_truth_on_postgres() {
    let database = postgres::database().await;
    a_directory_is_the_truth_for_what_it_manages(&Registry::start_on(database.url()));
}

#[test]
fn prune_retires_entities_of_the_callers_team() {
    let guarded = Guarded::start(&[]);
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().join("files");
    let [first, second] = ["ann", "bob"].map(|name| guarded.token(name, "library", "publisher"));
    let prune = |token: &str| {
        let files = ["apply", "-f", dir.to_str().expect("UTF-8"), "--yes", "--token", token];
        let flags = ["--prune", "--managed-by", SOURCE, "--output", "json"];
        guarded.registry.ctl(&[files.as_slice(), &flags].concat())
    };
    write(&dir, &["a", "b"], SOURCE);
    assert_eq!(planned(&prune(&first)), counts([("register", 4)]));
    write(&dir, &["a"], SOURCE);
    assert_eq!(planned(&prune(&second)), counts([("retire", 2), ("unchanged", 2)]));
}

#[test]
fn files_are_validated_against_export_after_retirement() {
    let registry = Registry::start();
    let dir = tempfile::tempdir().expect("a directory");
    let (files, export) = (dir.path().join("files"), dir.path().join("registry.json"));
    let (files, export) = (files.to_str().expect("UTF-8"), export.to_str().expect("UTF-8"));
    let written = |tools: &[&str]| {
        let provides = ["a", "b"].map(|tool| json!({ "tool": tool, "version": "1.0.0" }));
        let server = json!({ "name": "s", "version": "1.0.0", "provides": provides,
            "metadata": { "managedBy": SOURCE } });
        let of_server = |name: &&str| {
            let mut tool = tool(name, SOURCE);
            tool["source"]["server"] = json!("s");
            tool
        };
        let tools: Vec<_> = tools.iter().map(of_server).collect();
        let file = json!({ "schemaVersion": "2.0", "servers": [server], "tools": tools });
        fs::create_dir_all(files).expect("a directory");
        fs::write(Path::new(files).join("all.json"), file.to_string()).expect("written");
        let done = prune(&registry, Path::new(files), &[]);
        assert!(done.success(), "{done:?}");
    };
    written(&["a", "b"]);
    written(&["a"]);
    assert_eq!(state(&registry, "tool/b@1.0.0"), "retired");
    let alone = registry.ctl(&["validate", files]);
    assert!(alone.has_code("provision-unknown") && alone.stderr.contains("--against"), "{alone:?}");
    registry.run(&["export", "--out", export]);
    registry.run(&["validate", files, "--against", export]);
}

#[test]
fn unread_subdirectories_are_named_in_warning() {
    let registry = Registry::start();
    let dir = tempfile::tempdir().expect("a directory");
    let (files, inner) = (dir.path().join("files"), dir.path().join("files/inner"));
    write(&files, &["a"], SOURCE);
    write(&inner, &["b"], SOURCE);
    write(&dir.path().join("files/.hidden"), &["c"], SOURCE);
    let alone = prune(&registry, &files, &[]);
    assert_eq!(planned(&alone), counts([("register", 2)]));
    insta::assert_snapshot!(
        alone.stderr.replace(dir.path().to_str().expect("UTF-8"), ""),
        @"warning: /files/inner is a subdirectory and is not read; add `-f /files/inner`"
    );
    let both = prune(&registry, &files, &["-f", inner.to_str().expect("UTF-8")]);
    assert_eq!(planned(&both), counts([("register", 2), ("unchanged", 2)]));
    assert_eq!(both.stderr, "");
}

#[test]
fn file_that_is_named_twice_is_read_once() {
    let registry = Registry::start();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("a.json");
    fs::write(&file, "{ \"schemaVersion\": ").expect("written");
    let file = file.to_str().expect("UTF-8");
    let twice = prune(&registry, dir.path(), &["-f", file]);
    assert_eq!(twice.code, 1, "{twice:?}");
    assert_eq!(twice.json()["diagnostics"].as_array().map(Vec::len), Some(1), "{twice:?}");
}

/// Writes the schema in its current version.
fn write_schema(dir: &Path, version: &str) {
    fs::create_dir_all(dir).expect("a directory");
    let file = json!({ "schemaVersion": "2.0", "schemas": [{
        "name": "Web", "version": version, "metadata": { "managedBy": SOURCE },
        "schema": { "type": "string", "title": version } }] });
    fs::write(dir.join("web.json"), file.to_string()).expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn rolled_back_files_restore_pruned_entities() {
    for database in Database::both().await {
        let registry = Registry::start_on(&database.url());
        let dir = tempfile::tempdir().expect("a directory");
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        write(&old, &["a", "b"], SOURCE);
        write_schema(&old, "1.0.0");
        write(&new, &["a"], SOURCE);
        write_schema(&new, "1.0.1");
        let states = |expected: [&str; 3]| {
            for (key, expected) in
                ["tool/b@1.0.0", "schema/Web@1.0.0", "schema/Web@1.0.1"].iter().zip(expected)
            {
                assert_eq!(state(&registry, key), expected, "{key}");
            }
        };
        assert!(prune(&registry, &old, &[]).success());
        let there = prune(&registry, &new, &[]);
        assert_eq!(planned(&there), counts([("register", 1), ("retire", 3), ("unchanged", 2)]));
        states(["retired", "retired", "active"]);
        for _ in 0..2 {
            let back = prune(&registry, &old, &[]);
            assert_eq!(planned(&back), counts([("retire", 1), ("restore", 3), ("unchanged", 5)]));
            states(["active", "active", "retired"]);
            assert!(prune(&registry, &old, &["--dry-run", "--exit-code"]).success());
            let there = prune(&registry, &new, &[]);
            let plan = planned(&there);
            assert_eq!((plan["retire"], plan["restore"]), (3, 1), "{there:?}");
            states(["retired", "retired", "active"]);
        }
        // An explicitly retired entity stays retired and is reported.
        assert!(registry.ctl(&["retire", "--yes", "schema/Web@1.0.1", "-m", "leaks"]).success());
        let held = prune(&registry, &new, &[]);
        states(["retired", "retired", "retired"]);
        let held = &held.json()["held"][0];
        assert_eq!(
            (&held["key"], &held["reason"]),
            (&"schema/Web@1.0.1".into(), &"leaks".into()),
            "{held}"
        );
    }
}

#[test]
fn explicitly_retired_entity_is_listed_as_held() {
    let registry = Registry::start();
    let dir = tempfile::tempdir().expect("a directory");
    let applied = || apply(&registry, dir.path(), &["--prune", "--managed-by", SOURCE]);
    write_schema(dir.path(), "1.0.0");
    assert!(applied().success());
    registry.run(&["retire", "--yes", "schema/Web@1.0.0", "-m", "leaks"]);
    let shown = applied().stdout;
    insta::assert_snapshot!(
        shown.lines().find(|line| line.starts_with("held: ")).expect("a line"),
        @"held: schema/Web@1.0.0 was explicitly set to retired (leaks); `registryctl restore schema/Web@1.0.0` makes it active"
    );
    let drift = prune(&registry, dir.path(), &["--dry-run", "--exit-code"]);
    assert_eq!(drift.code, 5, "{drift:?}");
    assert!(registry.ctl(&["restore", "--yes", "schema/Web@1.0.0"]).success());
    assert!(prune(&registry, dir.path(), &["--dry-run", "--exit-code"]).success());
}

#[test]
fn inactive_entity_of_file_is_listed_as_held() {
    let registry = Registry::start();
    let dir = tempfile::tempdir().expect("a directory");
    write_schema(dir.path(), "1.0.0");
    let applied = |more: &[&str]| apply(&registry, dir.path(), more);
    assert!(applied(&[]).success());
    let active = applied(&[]).stdout;
    assert!(!active.contains("held: "), "{active}");
    for (change, state) in [("deprecate", "deprecated"), ("retire", "retired")] {
        registry.run(&[change, "--yes", "schema/Web@1.0.0"]);
        let shown = applied(&[]).stdout;
        let held = format!(
            "held: schema/Web@1.0.0 stays {state}; `registryctl restore schema/Web@1.0.0` makes \
             that version active"
        );
        assert!(shown.lines().any(|line| line == held), "{shown}");
        let shown = applied(&["--output", "json"]).json();
        assert_eq!(shown[state], json!(["schema/Web@1.0.0"]), "{shown}");
    }
}

#[test]
fn entities_without_mark_are_adopted_with_next_versions() {
    let registry = Registry::start();
    let dir = tempfile::tempdir().expect("a directory");
    write_schema(dir.path(), "1.0.0");
    let file = dir.path().join("web.json");
    let marked = fs::read_to_string(&file).expect("read");
    let mut unmarked: Value = serde_json::from_str(&marked).expect("JSON");
    let schema = unmarked["schemas"][0].as_object_mut().expect("an object");
    schema.remove("metadata");
    fs::write(&file, unmarked.to_string()).expect("written");
    assert!(apply(&registry, dir.path(), &[]).success());
    fs::write(&file, &marked).expect("written");
    let refused = apply(&registry, dir.path(), &["--prune", "--managed-by", SOURCE]);
    assert!(refused.stderr.contains("another `metadata.managedBy`"), "{refused:?}");
    write(&dir.path().join("new"), &["a"], SOURCE);
    let new = dir.path().join("new/a.json");
    fs::rename(new, dir.path().join("a.json")).expect("moved");
    fs::remove_dir(dir.path().join("new")).expect("removed");
    let skipped = prune(&registry, dir.path(), &["--on-conflict", "skip"]);
    assert_eq!(planned(&skipped), counts([("register", 2)]));
    for expected in [counts([("register", 1), ("unchanged", 2)]), counts([("unchanged", 3)])] {
        let bumped = prune(&registry, dir.path(), &["--on-conflict", "bump"]);
        assert_eq!(planned(&bumped), expected);
        assert_eq!(bumped.json()["conflicts"][0]["instead"], "schema/Web@1.0.1");
    }
    write_schema(dir.path(), "1.0.2");
    let adopted = prune(&registry, dir.path(), &[]);
    assert_eq!(planned(&adopted), counts([("register", 1), ("retire", 1), ("unchanged", 2)]));
}

#[test]
fn entity_of_other_owner_is_listed_as_foreign() {
    let registry = Registry::start();
    let dir = tempfile::tempdir().expect("a directory");
    write_schema(dir.path(), "1.0.0");
    assert!(prune(&registry, dir.path(), &[]).success());
    registry.run(&["transfer", "schema/Web", "team-b", "--yes"]);
    let shown = apply(
        &registry,
        dir.path(),
        &["--prune", "--managed-by", SOURCE, "--dry-run", "--exit-code"],
    );
    assert!(shown.success(), "the files do not state the owner: {shown:?}");
    insta::assert_snapshot!(
        shown.stdout.lines().find(|line| line.starts_with("foreign: ")).expect("a line"),
        @"foreign: schema/Web@1.0.0 belongs to team-b, so that this run never retires it; change its owner with `registryctl transfer`, or apply it in a run with `--owner team-b`"
    );
}

/// Writes the policy in one version, with a limit of calls by the version.
fn write_policy(dir: &Path, version: &str, limit: u32) {
    let file = json!({ "schemaVersion": "2.0", "policies": [{
        "name": "calls", "version": version, "metadata": { "managedBy": SOURCE },
        "rates": [{ "limit": limit, "window": "PT1M" }] }] });
    fs::write(dir.join("policy.json"), file.to_string()).expect("written");
}

#[test]
fn files_with_earlier_policy_version_are_rejected() {
    let registry = Registry::start();
    let dir = tempfile::tempdir().expect("a directory");
    let written = |version: &str, limit: u32| {
        write_policy(dir.path(), version, limit);
        prune(&registry, dir.path(), &[])
    };
    assert!(written("1.0.0", 5).success());
    assert!(written("1.1.0", 7).success());
    let reverted = written("1.0.0", 5);
    assert_eq!(reverted.code, 1, "{reverted:?}");
    insta::assert_snapshot!(reverted.stderr, @"error: policy/calls would have no version in force: the highest registered version 1.1.0 is not in the files, and lower versions are never in force again; give the policy a version above it, or remove the policy from the files to turn it off");
    assert_eq!(state(&registry, "policy/calls@1.1.0"), "active");
    let forward = written("1.1.1", 5);
    assert!(forward.success(), "{forward:?}");
    let shown = registry.run(&["list", "policies"]);
    let columns = |line: &str| {
        line.split("  ").filter(|c| !c.is_empty()).map(|c| c.trim().to_owned()).collect::<Vec<_>>()
    };
    let lifecycles: Vec<_> = shown.lines().map(|line| columns(line)[2..4].join(" ")).collect();
    insta::assert_snapshot!(lifecycles.join("\n"), @r"
    VERSION LIFECYCLE
    1.0.0 retired
    1.1.0 retired
    1.1.1 active, in force
    ");
    let retired = registry.json(&["list", "policies", "--lifecycle", "retired"]);
    assert!(
        retired.as_array().expect("a list").iter().all(|one| one["inForce"] == false),
        "{retired}"
    );
}

#[test]
fn rolled_back_policy_stays_in_force_with_files() {
    let registry = Registry::start();
    let dir = tempfile::tempdir().expect("a directory");
    for (version, limit) in [("1.0.0", 5), ("1.1.0", 7)] {
        write_policy(dir.path(), version, limit);
        assert!(prune(&registry, dir.path(), &[]).success());
    }
    registry.run(&["policy", "rollback", "calls", "1.0.0", "--yes", "--author", "team-a"]);
    let again = prune(&registry, dir.path(), &["--dry-run", "--exit-code"]);
    assert!(again.success(), "{again:?}");
    let in_force = |key: &str| registry.json(&["get", key])["inForce"].clone();
    assert_eq!(
        (in_force("policy/calls@1.1.1"), in_force("policy/calls@1.1.0")),
        (json!(true), json!(false))
    );
}

#[test]
fn conflicts_follow_on_conflict_option() {
    let registry = Registry::start();
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), &["a"], SOURCE);
    assert!(apply(&registry, dir.path(), &[]).success());
    let mut changed = tool("a", SOURCE);
    changed["description"] = json!("says more now");
    let file =
        json!({ "schemaVersion": "2.0", "tools": [changed], "servers": [server("a", SOURCE)] });
    fs::write(dir.path().join("a.json"), file.to_string()).expect("written");
    let refused = apply(&registry, dir.path(), &[]);
    assert!(refused.code == 1 && refused.stderr.contains("already-registered"), "{refused:?}");
    let skipped = apply(&registry, dir.path(), &["--on-conflict", "skip"]);
    assert!(skipped.success() && skipped.stdout.contains("skipped"), "{skipped:?}");
    assert_eq!(registry.json(&["log"])[0]["revision"], 1, "{skipped:?}");
    let bumped = apply(&registry, dir.path(), &["--on-conflict", "bump", "--output", "json"]);
    let outcome: Value = serde_json::from_str(&bumped.stdout).expect("JSON");
    assert_eq!(outcome["conflicts"][1]["instead"], "tool/a@1.0.1", "{outcome}");
    let document = registry.ctl(&["get", "tool/a@1.0.1", "--document"]).stdout;
    let document: Value = serde_json::from_str(&document).expect("JSON");
    assert_eq!(document["source"]["serverVersion"], "1.0.1");
    let again = apply(&registry, dir.path(), &["--on-conflict", "bump", "--output", "json"]);
    assert_eq!(again.json()["committed"], false, "{again:?}");
}
