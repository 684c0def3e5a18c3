//! `registryctl revert` and `retire --with-tools`: one commit that undoes a revision, or retires a
//! server and its tools.

use std::sync::Arc;

use acceptance::{Backend, Registry, ctl};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy},
    net::{TcpListener, TcpStream},
};

/// A registry with these versions of the demo fetch server, imported in one revision each.
fn imported(backend: &Backend, versions: &[&str]) -> Registry {
    let registry = Registry::start();
    let url = format!("http://{}/fetch/mcp", backend.process.address());
    for version in versions {
        let flags = ["--name", "web", "--version", version, "--apply", "--yes"];
        registry.run(&[&["import", "mcp", &url], &flags[..]].concat());
    }
    registry
}

/// Repeats an import and returns its output.
fn import_again(registry: &Registry, backend: &Backend, version: &str) -> String {
    let url = format!("http://{}/fetch/mcp", backend.process.address());
    registry.run(&[
        "import",
        "mcp",
        &url,
        "--name",
        "web",
        "--version",
        version,
        "--apply",
        "--yes",
    ])
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
async fn revert_retires_registered_entities() {
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
    assert_eq!(registry.revision().await, 3, "{done}");
    for (key, state) in [
        ("tool/fetch@1.1.0", "retired"),
        ("server/web@1.1.0", "retired"),
        ("tool/fetch@1.0.0", "active"),
        ("server/web@1.0.0", "active"),
    ] {
        assert_eq!(lifecycle(&registry, key), state, "{key}");
    }
    assert!(registry.run(&["log"]).contains("Revert"));
    let again = registry.run(&["revert", "2", "--yes"]);
    assert_eq!(registry.revision().await, 3, "{again}");
    // A revert can be reverted.
    registry.run(&["revert", "3", "--yes"]);
    assert_eq!(lifecycle(&registry, "tool/fetch@1.1.0"), "active");
}

#[tokio::test]
async fn revert_restores_lifecycles_and_settings() {
    let backend = Backend::start();
    let registry = imported(&backend, &["1.0.0"]);
    let tool = "tool/fetch@1.0.0";
    registry.run(&["deprecate", "--yes", tool, "-m", "slow", "--sunset", "2027-01-31"]);
    registry.run(&["retire", "--yes", tool, "-m", "gone"]);
    registry.run(&["revert", "3", "--yes", "-m", "early"]);
    assert!(registry.run(&["get", tool]).contains("2027-01-31"));
    let shown = registry.json(&["get", tool])["lifecycle"].clone();
    assert_eq!((&shown["state"], &shown["revision"]), (&"deprecated".into(), &4.into()), "{shown}");
    assert_eq!(shown["message"], "slow");
    assert_eq!(registry.json(&["show", "4"])["message"], "early");

    registry.run(&["compatibility", "set", "--yes", "tool/fetch", "full"]);
    registry.run(&["archive", "--yes", "tool/fetch"]);
    registry.run(&["transfer", "--yes", "tool/fetch", "web-team"]);
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
async fn revert_explains_conflicts() {
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

    registry.run(&["deprecate", "--yes", "tool/read@1.0.0", "-m", "old"]);
    registry.run(&["retire", "--yes", "tool/read@1.0.0", "-m", "gone"]);
    let changed = registry.ctl(&["revert", "3", "--yes"]);
    assert_eq!(changed.code, 1, "{changed:?}");
    let reason = "tool/read@1.0.0 was changed again in revision 4; revert that revision first";
    assert!(changed.stderr.contains(reason), "{changed:?}");
    assert_eq!(registry.ctl(&["revert", "99", "--yes"]).code, 1, "there is no such revision");
    assert_eq!(registry.ctl(&["revert", "0"]).code, 2);
}

#[tokio::test]
async fn revert_keeps_later_deprecation() {
    let backend = Backend::start();
    let registry = imported(&backend, &["1.0.0"]);
    let tool = "tool/fetch@1.0.0";
    registry.run(&["deprecate", "--yes", tool, "-m", "slow"]);
    let refused = registry.ctl(&["revert", "1", "--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    insta::assert_snapshot!("revert-of-changed-entity", refused.stderr);
    assert_eq!(registry.json(&["get", tool])["lifecycle"]["message"], "slow");
    registry.run(&["revert", "2", "--yes"]);
    registry.run(&["revert", "1", "--yes"]);
    assert_eq!(lifecycle(&registry, tool), "retired");
}

#[tokio::test]
async fn import_of_retired_version_suggests_restore() {
    let backend = Backend::start();
    let registry = imported(&backend, &["1.0.0"]);
    assert!(!import_again(&registry, &backend, "1.0.0").contains("retired"));
    registry.run(&["revert", "1", "--yes"]);
    let again = import_again(&registry, &backend, "1.0.0");
    assert_eq!(registry.revision().await, 2, "{again}");
    assert!(again.contains("server/web@1.0.0, tool/fetch@1.0.0 stay"), "{again}");
    registry.run(&["restore", "--yes", "server/web@1.0.0"]);
    let again = import_again(&registry, &backend, "1.0.0");
    assert!(!again.contains("server/web@1.0.0 stay"), "{again}");
    assert!(again.contains("tool/fetch@1.0.0 stays"), "{again}");
}

/// Forwards one connection. Runs `act` before the first response that contains `text`.
async fn forward(
    upstream: String,
    text: &'static [u8],
    act: impl FnOnce() + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let (client, _) = listener.accept().await.expect("a connection");
        let server = TcpStream::connect(upstream).await.expect("the registry");
        let ((mut asks, mut told), (mut answers, mut asked)) =
            (client.into_split(), server.into_split());
        tokio::spawn(async move { copy(&mut asks, &mut asked).await });
        let (mut act, mut buffer) = (Some(act), vec![0; 1 << 16]);
        while let Ok(read @ 1..) = answers.read(&mut buffer).await {
            if buffer[..read].windows(text.len()).any(|part| part == text)
                && let Some(act) = act.take()
            {
                tokio::task::block_in_place(act);
            }
            if told.write_all(&buffer[..read]).await.is_err() {
                break;
            }
        }
    });
    format!("http://{address}")
}

#[tokio::test(flavor = "multi_thread")]
async fn retire_with_tools_misses_no_version_registered_meanwhile() {
    let backend = Backend::start();
    let registry = Arc::new(imported(&backend, &["1.0.0"]));
    let register = {
        let registry = Arc::clone(&registry);
        move || {
            import_again(&registry, &backend, "1.1.0");
        }
    };
    let url = forward(registry.address.clone(), b"1.0.0", register).await;
    let retire = ["retire", "server/web", "--with-tools", "--yes"];
    let refused = ctl(&url, &retire);
    assert_eq!(refused.code, 1, "{refused:?}");
    let told = "base_revision is 1 but the registry is at revision 2";
    assert!(refused.stderr.contains(told), "{refused:?}");
    assert_eq!(registry.revision().await, 2);
    assert_eq!(lifecycle(&registry, "server/web@1.0.0"), "active");
    registry.run(&retire);
    assert_eq!(lifecycle(&registry, "server/web@1.1.0"), "retired");
}

#[tokio::test]
async fn retire_with_tools_retires_server_and_tools() {
    let backend = Backend::start();
    let registry = imported(&backend, &["1.0.0", "1.1.0"]);
    let usage = registry.ctl(&["retire", "--yes", "server/web"]);
    assert_eq!(usage.code, 2, "{usage:?}");
    assert!(usage.stderr.contains("--with-tools"), "{usage:?}");
    assert_eq!(registry.ctl(&["retire", "--yes", "tool/fetch@1.0.0", "--with-tools"]).code, 2);

    let one = ["retire", "server/web@1.0.0", "--with-tools", "-m", "replaced"];
    let planned = registry.run(&[&one[..], &["--dry-run"]].concat());
    assert!(planned.contains("1.0.0") && !planned.contains("1.1.0"), "{planned}");
    registry.run(&[&one[..], &["--yes"]].concat());
    assert_eq!(registry.revision().await, 3, "one commit");
    assert_eq!(lifecycle(&registry, "tool/fetch@1.0.0"), "retired");
    assert_eq!(lifecycle(&registry, "tool/fetch@1.1.0"), "active");

    let all = registry.run(&["retire", "server/web", "--with-tools", "--yes"]);
    assert_eq!(registry.revision().await, 4, "{all}");
    for key in ["server/web@1.1.0", "tool/fetch@1.1.0"] {
        assert_eq!(lifecycle(&registry, key), "retired", "{key}");
    }
}
