//! `registryctl`: each command once, with its exit code.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Output, Stdio},
};

use acceptance::{Registry, binary, root};
use registry_core::PublishedSchema;

/// A registry with the example and a second version.
fn two_versions() -> Registry {
    let registry = Registry::start();
    registry.apply_example();
    registry.apply_file(&root().join("examples/new-version.json"));
    registry
}

#[test]
fn validation_needs_no_registry() {
    let ctl = |arguments: &[&str]| {
        let mut command = Command::new(binary("registryctl"));
        command.args(arguments).current_dir(root()).env("REGISTRY_URL", "http://127.0.0.1:1");
        command.output().expect("registryctl runs").status.code()
    };
    assert_eq!(ctl(&["validate", "-f", "examples/registry-v2.json"]), Some(0));
    let field = "crates/registry-core/tests/data/field-example.json";
    assert_eq!(ctl(&["validate", "-f", field]), Some(1));
    // Validated alone, the file has unresolved references. Validated with the example, it has none.
    let new = ["validate", "-f", "examples/new-version.json"];
    assert_eq!(ctl(&new), Some(1));
    assert_eq!(ctl(&[&new[..], &["--against", "examples/registry-v2.json"]].concat()), Some(0));
    assert_eq!(ctl(&["list"]), Some(3), "nobody is at that address");
}

#[test]
fn registered_entity_is_shown_in_every_format() {
    let registry = two_versions();
    assert!(registry.run(&["get", "tool/fetch@1.2.3"]).contains("fetch-server"));
    let listed = registry.run(&["list", "tool"]);
    assert_eq!(registry.run(&["list", "--kind", "tool"]), listed);
    assert!(listed.contains("search_documents") && !listed.contains("research-agent"), "{listed}");
    let difference = registry.run(&["diff", "schema/SearchQuery", "1.0.0", "1.1.0"]);
    assert!(difference.contains("minScore"), "{difference}");
    let commit = registry.run(&["show", "2"]);
    assert!(commit.contains("SearchQuery") && !commit.contains("SearchFilters"), "{commit}");
    assert!(registry.run(&["export"]).contains("\"schemaVersion\""));
    assert!(registry.run(&["fleet", "list"]).contains("revision 2"));
    assert_eq!(registry.ctl(&["get", "tool/nobody@1.0.0"]).code, 1);
    assert_eq!(registry.ctl(&["rollout", "status", "2"]).code, 0);
    for read in [&["rollout", "status", "99"][..], &["audit", "export", "--after", "99"]] {
        let ahead = registry.ctl(read);
        assert!(ahead.code == 1 && ahead.has_code("REVISION_AHEAD"), "{ahead:?}");
    }
    assert_eq!(registry.run(&["audit", "export", "--after", "2"]), "");
    for unknown in ["tool/nope", "tool/fetch@9.9.9"] {
        let compared = registry.ctl(&["diff", "1..2", unknown]);
        assert!(compared.code == 1 && compared.has_code("NOT_FOUND"), "{compared:?}");
    }
    assert_eq!(registry.ctl(&["diff", "1..2", "tool/fetch"]).code, 0);
}

#[test]
fn lifecycle_changes_are_recorded_in_history() {
    let registry = two_versions();
    let tool = "tool/get_webpage@1.0.0";
    registry.run(&["deprecate", "--yes", tool, "--message", "use fetch"]);
    assert_eq!(registry.json(&["get", tool])["lifecycle"]["message"], "use fetch");
    registry.run(&["retire", "--yes", tool, "--force", "a test"]);
    registry.run(&["restore", "--yes", tool]);
    let history = registry.run(&["history", tool]);
    for action in ["register", "deprecate", "retire", "restore"] {
        assert!(history.contains(action), "{action} is missing:\n{history}");
    }
    assert!(registry.run(&["log"]).lines().nth(1).is_some_and(|line| line.starts_with('5')));
}

#[test]
fn watch_prints_history_and_new_commits() {
    let registry = Registry::start();
    registry.apply_example();
    let mut watcher = Command::new(binary("registryctl"))
        .args(["watch", "--since", "0", "--output", "json"])
        .env("REGISTRY_URL", registry.url())
        .stdout(Stdio::piped())
        .spawn()
        .expect("registryctl runs");
    let mut lines = BufReader::new(watcher.stdout.take().expect("a pipe")).lines();
    let mut next = || {
        let line = lines.next().expect("a line").expect("UTF-8");
        let commit: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        commit["revision"].as_u64()
    };
    assert_eq!(next(), Some(1));
    registry.apply_file(&root().join("examples/new-version.json"));
    assert_eq!(next(), Some(2));
    watcher.kill().expect("it runs until it is stopped");
    watcher.wait().expect("it ends");
}

/// Runs a program with environment variables.
fn run_with(variables: &[(&str, &str)], program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary(program));
    command.args(arguments).envs(variables.iter().copied()).current_dir(root());
    command.output().expect("the program runs")
}

#[test]
fn empty_environment_variables_count_as_unset() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data = directory.path().to_str().expect("UTF-8");
    let clear = |names: &[&'static str]| names.iter().map(|name| (*name, "")).collect::<Vec<_>>();
    let ctl = clear(&[
        "REGISTRY_URL",
        "REGISTRY_TOKEN_FILE",
        "REGISTRY_ALLOW_INSECURE_TOKEN",
        "REGISTRY_CA_CERT",
        "REGISTRY_CLIENT_CERT",
    ]);
    let server = clear(&["REGISTRY_DATABASE", "REGISTRY_LISTEN", "REGISTRY_WRITE_QUEUE", "USER"]);
    let gateway = clear(&["GATEWAY_LISTEN", "GATEWAY_CONFIG", "GATEWAY_TLS_CERT", "GATEWAY_LOG"]);
    for (variables, program, arguments) in [
        (ctl, "registryctl", &["validate", "examples/registry-v2.json"][..]),
        (server, "registry-server", &["migrate", "--data-dir", data]),
        (gateway, "gateway-agent", &["config", "init", "-"]),
    ] {
        let output = run_with(&variables, program, arguments);
        assert!(output.status.success(), "{program}: {output:?}");
    }
}

#[test]
fn errors_name_the_invalid_environment_variable() {
    let url = ("REGISTRY_URL", "http://ann:s3cret@registry");
    let whoami = &["--registry", "http://127.0.0.1:1", "whoami"][..];
    for (invalid, valid, program, arguments) in [
        (url, ("REGISTRY_TOKEN", "a"), "registryctl", whoami),
        // The key of the certificate is missing.
        (("REGISTRY_CLIENT_CERT", "a"), ("REGISTRY_CA_CERT", "b"), "registryctl", whoami),
        (
            ("REGISTRY_WRITE_QUEUE", "0"),
            ("REGISTRY_DATA_DIR", "a"),
            "registry-server",
            &["migrate"],
        ),
        (("GATEWAY_LOG_FORMAT", "xml"), ("GATEWAY_CACHE", "a"), "gateway-agent", &["--check"]),
        (
            ("GATEWAY_SCOPE", "gadget/a"),
            ("GATEWAY_CACHE", "a"),
            "gateway-agent",
            &["--check", "--registry", "file://./examples/registry-v2.json"],
        ),
    ] {
        let output = run_with(&[invalid, valid], program, arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(invalid.0) && !text.contains(valid.0), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
    // The option is invalid, not a variable.
    let output = run_with(&[("REGISTRY_TOKEN", "a")], "registryctl", &["list", "--kind", "sever"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && !text.contains("REGISTRY_TOKEN"), "{text}");
}

#[test]
fn schema_command_prints_every_schema() {
    for schema in PublishedSchema::ALL {
        let output = Command::new(binary("registryctl")).args(["schema", schema.name()]).output();
        let output = output.expect("registryctl runs");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(output.status.success() && text == schema.text(), "{}", schema.name());
    }
    for arguments in [&["schema", "tools"][..], &["schema"]] {
        let output = Command::new(binary("registryctl")).args(arguments).output();
        let output = output.expect("registryctl runs");
        let help = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{help}");
        for schema in PublishedSchema::ALL {
            assert!(help.contains(schema.name()), "{help}");
        }
    }
}

#[test]
fn completions_exist_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = Command::new(binary("registryctl")).args(["completions", shell]).output();
        let output = output.expect("registryctl runs");
        assert!(output.status.success() && !output.stdout.is_empty(), "{shell}");
    }
}
