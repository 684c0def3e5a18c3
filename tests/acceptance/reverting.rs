//! `registryctl revert` and `retire --with-tools`: one commit that undoes a revision, or retires a
//! server with all its tools.

use acceptance::{Backend, Registry};

/// A registry that has imported the demo backend's fetch server in these versions, one a revision.
fn imported(backend: &Backend, versions: &[&str]) -> Registry {
    let registry = Registry::start();
    let url = format!("http://{}/fetch/mcp", backend.process.address());
    for version in versions {
        let flags = ["--name", "web", "--version", version, "--apply", "--yes"];
        registry.run(&[&["import", "mcp", &url], &flags[..]].concat());
    }
    registry
}

fn lifecycle(registry: &Registry, key: &str) -> String {
    let shown = registry.run(&["get", key]);
    ["active", "deprecated", "retired"]
        .into_iter()
        .find(|state| shown.contains(&format!("{state} since")))
        .unwrap_or_else(|| panic!("no lifecycle in {shown}"))
        .to_owned()
}

#[tokio::test]
async fn revert_retires_what_the_revision_registered() {
    let backend = Backend::start();
    let registry = imported(&backend, &["1.0.0", "1.1.0"]);
    let asked = registry.ctl(&["revert", "2"]);
    assert_eq!(asked.code, 2, "standard input is no terminal: {asked:?}");
    assert!(asked.stderr.contains("--yes"), "{asked:?}");
    let planned = registry.run(&["revert", "2", "--dry-run"]);
    assert!(planned.contains("retire") && planned.contains("1.1.0"), "{planned}");
    assert!(!planned.contains("1.0.0"), "{planned}");
    assert_eq!(registry.revision().await, 2, "a dry run changes nothing");

    let done = registry.run(&["revert", "2", "--yes"]);
    assert!(done.contains("applied: the registry is at revision 3"), "{done}");
    for (key, state) in [
        ("tool/fetch@1.1.0", "retired"),
        ("server/web@1.1.0", "retired"),
        ("tool/fetch@1.0.0", "active"),
        ("server/web@1.0.0", "active"),
    ] {
        assert_eq!(lifecycle(&registry, key), state, "{key}");
    }
    assert!(registry.run(&["log"]).contains("Revert revision 2"));
    let again = registry.run(&["revert", "2", "--yes"]);
    assert!(again.contains("nothing to change"), "{again}");
    // The revert is a revision like any other.
    registry.run(&["revert", "3", "--yes"]);
    assert_eq!(lifecycle(&registry, "tool/fetch@1.1.0"), "active");
}

#[tokio::test]
async fn revert_restores_lifecycles_and_settings() {
    let backend = Backend::start();
    let registry = imported(&backend, &["1.0.0"]);
    let tool = "tool/fetch@1.0.0";
    registry.run(&["deprecate", tool, "-m", "slow", "--sunset", "2027-01-31"]);
    registry.run(&["retire", tool, "-m", "gone"]);
    registry.run(&["revert", "3", "--yes", "-m", "too early"]);
    let shown = registry.run(&["get", tool]);
    assert!(shown.contains("deprecated since revision 4: slow"), "{shown}");
    assert!(shown.contains("2027-01-31"), "{shown}");
    assert!(registry.run(&["show", "4"]).contains("too early"));

    registry.run(&["compatibility", "tool/fetch", "full"]);
    registry.run(&["archive", "tool/fetch"]);
    registry.run(&["transfer", "tool/fetch", "web-team"]);
    for (revision, set) in
        [("5", "inherited"), ("6", "unarchive tool/fetch"), ("7", "owner of tool/fetch")]
    {
        let done = registry.run(&["revert", revision, "--yes"]);
        assert!(done.contains(set), "{revision}: {done}");
    }
    let settings = registry.run(&["settings"]);
    assert!(!settings.contains("full") && !settings.contains("yes"), "{settings}");
    assert!(!registry.run(&["get", tool]).contains("web-team"));
}

#[tokio::test]
async fn revert_explains_what_it_cannot_undo() {
    let backend = Backend::start();
    let registry = imported(&backend, &["1.0.0"]);
    let composed = r#"{ "schemaVersion": "2.0", "tools": [{ "name": "read", "version": "1.0.0",
        "depends": [{ "type": "tool", "name": "fetch", "version": "1.0.0" }],
        "spec": { "pipeline": { "steps": [{ "id": "a", "operation": { "tool": "fetch" } }] } } }] }"#;
    let file = tempfile::Builder::new().suffix(".json").tempfile().expect("a file");
    std::fs::write(file.path(), composed).expect("written");
    registry.apply_file(file.path());
    let needed = registry.ctl(&["revert", "1", "--yes"]);
    assert_eq!(needed.code, 1, "{needed:?}");
    assert!(needed.stderr.contains("error[still-needed]"), "{needed:?}");
    assert!(needed.stderr.contains("tool/read@1.0.0 -> tool/fetch@1.0.0"), "{needed:?}");
    assert_eq!(registry.revision().await, 2);

    registry.run(&["deprecate", "tool/read@1.0.0", "-m", "old"]);
    registry.run(&["retire", "tool/read@1.0.0", "-m", "gone"]);
    let changed = registry.ctl(&["revert", "3", "--yes"]);
    assert_eq!(changed.code, 1, "{changed:?}");
    let reason = "tool/read@1.0.0 was changed again in revision 4; revert that revision first";
    assert!(changed.stderr.contains(reason), "{changed:?}");
    assert_eq!(registry.ctl(&["revert", "99", "--yes"]).code, 1, "there is no such revision");
    assert_eq!(registry.ctl(&["revert", "0"]).code, 2);
}

#[tokio::test]
async fn retire_with_tools_retires_server_and_its_tools() {
    let backend = Backend::start();
    let registry = imported(&backend, &["1.0.0", "1.1.0"]);
    let usage = registry.ctl(&["retire", "server/web"]);
    assert_eq!(usage.code, 2, "{usage:?}");
    assert!(usage.stderr.contains("--with-tools"), "{usage:?}");
    assert_eq!(registry.ctl(&["retire", "tool/fetch@1.0.0", "--with-tools"]).code, 2);

    let one = ["retire", "server/web@1.0.0", "--with-tools", "-m", "replaced"];
    let planned = registry.run(&[&one[..], &["--dry-run"]].concat());
    assert!(planned.contains("1.0.0") && !planned.contains("1.1.0"), "{planned}");
    registry.run(&[&one[..], &["--yes"]].concat());
    assert_eq!(registry.revision().await, 3, "one commit");
    assert_eq!(lifecycle(&registry, "tool/fetch@1.0.0"), "retired");
    assert_eq!(lifecycle(&registry, "tool/fetch@1.1.0"), "active");

    let all = registry.run(&["retire", "server/web", "--with-tools", "--yes"]);
    assert!(all.contains("applied: the registry is at revision 4"), "{all}");
    for key in ["server/web@1.1.0", "tool/fetch@1.1.0"] {
        assert_eq!(lifecycle(&registry, key), "retired", "{key}");
    }
}
