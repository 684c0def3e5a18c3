//! Messages of `registryctl` for common mistakes, as snapshots.

use std::{fs, net::TcpListener, path::Path};

use acceptance::{Registry, access::Guarded, ctl};
use tempfile::TempDir;

/// An address that no test connects to.
const OFFLINE: &str = "http://127.0.0.1:1";

/// A tool whose schema reference lacks the version.
const UNVERSIONED: &str = r##"{
  "schemaVersion": "2.0",
  "servers": [{ "name": "s", "version": "1.0.0", "provides": [{ "tool": "t", "version": "1.0.0" }] }],
  "tools": [
    {
      "name": "t",
      "version": "1.0.0",
      "source": { "server": "s", "serverVersion": "1.0.0", "tool": "t" },
      "inputSchema": { "$ref": "#CityQuery" }
    }
  ]
}
"##;

/// The command, its exit code and its standard error. `variable` is replaced in both.
fn message(registry: &str, arguments: &[&str], variable: &[(&str, &str)]) -> String {
    let output = ctl(registry, arguments);
    let mut text = format!(
        "$ registryctl {}\n{}exit code {}\n",
        arguments.join(" "),
        output.stderr,
        output.code
    );
    for (from, to) in variable {
        text = text.replace(from, to);
    }
    text
}

/// A directory with one file, and the path of the file.
fn file(name: &str, text: &str) -> (TempDir, String) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join(name);
    fs::write(&path, text).expect("a file");
    let path = path.to_str().expect("UTF-8").to_owned();
    (directory, path)
}

/// The message for a file that is validated offline.
fn invalid_file(name: &str, text: &str) -> String {
    let (directory, path) = file(name, text);
    let directory = format!("{}/", directory.path().display());
    message(OFFLINE, &["validate", &path], &[(&directory, "")])
}

#[test]
fn misspelled_fields_have_suggestions() {
    let json = "{\n  \"schemaVersion\": \"2.0\",\n  \"servers\": [\n    { \"nme\": \"a\", \"version\": \"1.0.0\" }\n  ]\n}\n";
    insta::assert_snapshot!("unknown-field-json", invalid_file("registry.json", json));
    let yaml = "schemaVersion: '2.0'\nservers:\n  - name: a\n    versoin: 1.0.0\n";
    insta::assert_snapshot!("unknown-field-yaml", invalid_file("registry.yaml", yaml));
}

#[test]
fn misspelled_callers_and_tools_have_suggestions() {
    let explain = |words: &[&str]| {
        let files = ["-f", "examples/registry-v2.json"];
        message(OFFLINE, &[&["policy", "explain"], words, &files].concat(), &[])
    };
    insta::assert_snapshot!("unknown-called-tool", explain(&["payment_chrage"]));
    insta::assert_snapshot!("unknown-skill", explain(&["research-agent/quick_lokup"]));
    insta::assert_snapshot!("unknown-agent-of-skill", explain(&["reserch-agent/quick_lookup"]));
    insta::assert_snapshot!("agent-without-skill", explain(&["agent/research-agent"]));
    let caller = explain(&["fetch", "{}", "--caller", "reserch-agent"]);
    insta::assert_snapshot!("unknown-caller", caller);
    insta::assert_snapshot!("invalid-arguments", explain(&["fetch", "{url: 1}"]));
}

#[test]
fn explain_names_settings_for_undeclared_calls() {
    let explain = |words: &[&str]| {
        let files = ["-f", "examples/registry-v2.json"];
        message(OFFLINE, &[&["policy", "explain"], words, &files].concat(), &[])
    };
    let undeclared = explain(&["payment_charge", "{}", "--caller", "research-agent"]);
    insta::assert_snapshot!("undeclared-call", undeclared);
    insta::assert_snapshot!("unregistered-caller", explain(&["fetch"]));
}

#[test]
fn failed_import_of_servers_prints_no_targets() {
    let servers = r#"{ "mcpServers": { "gone": { "command": "/nonexistent/server" } } }"#;
    let (_directory, path) = file("mcp.json", servers);
    let failed = ctl(OFFLINE, &["import", "mcp-servers", &path]);
    assert!(!failed.success() && failed.stderr.contains("gone: "), "{failed:?}");
    assert!(!failed.stderr.contains("targets:"), "{failed:?}");
}

#[test]
fn arguments_rejected_in_a_policy_case_name_the_tool() {
    let text = "cases:\n  - name: a\n    caller: orchestrator-agent\n    tool: payment_charge\n    \
                arguments: { amount: many }\n    expect: deny\n";
    let (_directory, path) = file("cases.yaml", text);
    let files = ["-f", "examples/registry-v2.json", "-f", "examples/policies.yaml"];
    let rejected = ctl(OFFLINE, &[&["policy", "test", &path][..], &files].concat());
    assert!(rejected.stderr.contains(" in tool/payment_charge@1.0.0\n"), "{rejected:?}");
}

#[test]
fn invalid_policy_case_shows_its_line() {
    let text = "cases:\n  - name: pages\n    tool: fetch\n    argumnets: {}\n";
    let (directory, path) = file("cases.yaml", text);
    let directory = format!("{}/", directory.path().display());
    let command = ["policy", "test", &path, "-f", "examples/registry-v2.json"];
    insta::assert_snapshot!("invalid-policy-case", message(OFFLINE, &command, &[(&directory, "")]));
}

#[test]
fn incomplete_versions_have_suggestions() {
    let yaml = "schemaVersion: '2.0'\nservers:\n  - name: a\n    version: 1.0\n";
    insta::assert_snapshot!("incomplete-version", invalid_file("registry.yaml", yaml));
    let argument = message(OFFLINE, &["get", "tool/fetch@1.0"], &[]);
    insta::assert_snapshot!("incomplete-version-argument", argument);
}

#[test]
fn misspelled_hidden_fields_have_suggestions() {
    let tool = |source: &str| {
        format!(
            r#"{{ "schemaVersion": "2.0",
            "servers": [{{ "name": "s", "version": "1.0.0", "provides": [{{ "tool": "t", "version": "1.0.0" }}] }}],
            "tools": [{{ "name": "t", "version": "1.0.0",
                "source": {{ "server": "s", "serverVersion": "1.0.0", "tool": "t", {source} }},
                "inputSchema": {{ "type": "object", "properties": {{ "maxLength": {{ "type": "integer" }} }},
                    "additionalProperties": false }} }}] }}"#
        )
    };
    for (source, code) in [
        (r#""hideFields": ["maxLengthh"]"#, 1),
        (r#""defaults": { "maxLengthh": 5 }"#, 0),
        (r#""defaults": { "maxLength": 5 }, "hideFields": ["maxLength"]"#, 0),
    ] {
        let (_directory, path) = file("registry.json", &tool(source));
        let output = ctl(OFFLINE, &["validate", &path]);
        assert_eq!(output.code, code, "{source}: {output:?}");
        let is_suggested = output.stderr.contains("`maxLength`");
        assert_eq!(is_suggested, source.contains("maxLengthh"), "{source}: {output:?}");
    }
}

#[test]
fn other_files_name_their_command() {
    for (name, text) in [
        ("client-configuration", r#"{ "mcpServers": { "time": { "command": "uvx" } } }"#),
        ("server-json", r#"{ "name": "a/b", "version": "1.0.0", "packages": [] }"#),
        ("requirements", r#"{ "tools": { "fetch": "^1.2" } }"#),
        ("schema-without-version", UNVERSIONED),
    ] {
        insta::assert_snapshot!(name, invalid_file("file.json", text));
    }
}

#[test]
fn registered_content_is_not_repaired_by_import() {
    let registry = Registry::start();
    registry.apply_example();
    let changed = r#"{ "schemaVersion": "2.0", "servers": [
        { "name": "time-server", "version": "1.0.0", "provides": [{ "tool": "a", "version": "1.0.0" }] }] }"#;
    let (_directory, path) = file("changed.json", changed);
    let rejected = registry.ctl(&["apply", &path, "--yes"]);
    insta::assert_snapshot!(rejected.stderr.replace(&path, "changed.json"), @r#"
    error[already-registered]: server/time-server@1.0.0 was registered with other content in revision 1, and registered content is immutable; the first difference is at /description
     --> changed.json:2:45
      |
    2 | …    { "name": "time-server", "version": "1.0.0", "provides": [{ "tool": "a", "version": "1.0.0" }] }…
      |                                          ^^^^^^^
      = help: register the new content under a new version

    error[provision-unknown]: the server provides tool/a@1.0.0, which is not registered
     --> changed.json:2:67
      |
    2 | … { "name": "time-server", "version": "1.0.0", "provides": [{ "tool": "a", "version": "1.0.0" }] }] }
      |                                                             ^
      = help: register tool/a@1.0.0 first, or in the same batch

    error: rejected: 2 errors; nothing was changed
    "#);
}

#[test]
fn offline_checks_do_not_judge_the_registry() {
    let text = r#"{ "schemaVersion": "2.0", "tools": [{
  "name": "both", "version": "1.0.0",
  "depends": [{ "type": "tool", "name": "fetch", "version": "1.2.3" }],
  "spec": { "pipeline": { "steps": [{ "id": "a", "operation": { "tool": "fetch" } }] } } }] }"#;
    let (_directory, path) = file("both.json", text);
    let validated = ctl(OFFLINE, &["validate", &path]);
    insta::assert_snapshot!(validated.stderr.replace(&path, "both.json"), @r#"
    error[dependency-unknown]: tool/both@1.0.0 depends on tool/fetch@1.2.3, which is not in the files
     --> both.json:3:15
      |
    3 |   "depends": [{ "type": "tool", "name": "fetch", "version": "1.2.3" }],
      |               ^
      = help: register tool/fetch@1.2.3 first, or in the same batch; if it is registered, add `--against` with a file of `registryctl export`, or check with `registryctl apply --dry-run`

    error: invalid: 1 error
    "#);
    assert_eq!(ctl(OFFLINE, &["compose", "check", &path]).stderr, validated.stderr);
    let against = ["--against", "examples/registry-v2.json"];
    let checked = ctl(OFFLINE, &[&["compose", "check", &path][..], &against].concat());
    assert!(checked.success(), "{checked:?}");
}

#[test]
fn missing_files_and_tokens_name_the_remedy() {
    let (directory, token) = file("token", "\n");
    let place = format!("{}/", directory.path().display());
    let requirements = format!("{place}requirements.json");
    for (name, arguments) in [
        ("missing-requirements", &["lock", "-f", &requirements][..]),
        ("empty-token-file", &["list", "--token-file", &token]),
        ("two-tokens", &["list", "--token", "rgt_000000000000_x", "--token-file", &token]),
        ("name-without-kind", &["get", "fetch"]),
        ("name-with-namespace-without-kind", &["get", "acme/docs"]),
        ("log-of-name-without-kind", &["log", "fetch"]),
        ("revision-of-entity", &["show", "tool/fetch"]),
        ("import-of-url", &["import", "https://tools.example/mcp"]),
        ("invalid-day", &["log", "--until", "yesterday"]),
    ] {
        insta::assert_snapshot!(name, message(OFFLINE, arguments, &[(&place, "")]));
    }
}

#[test]
fn closed_admin_address_names_its_setting() {
    let refused = message(OFFLINE, &["gateway", "--admin", OFFLINE, "targets"], &[]);
    assert!(refused.contains("`admin`"), "{refused}");
}

#[test]
fn invisible_characters_are_escaped() {
    let yaml =
        "schemaVersion: '2.0'\nservers:\n  - name: \"a\\u200b\\u202e\"\n    version: 1.0.0\n";
    let text = invalid_file("registry.yaml", yaml);
    assert!(text.is_ascii() || !text.contains(['\u{200b}', '\u{202e}']), "{text}");
    insta::assert_snapshot!("invisible-characters", text);
}

#[test]
fn misspelled_arguments_have_suggestions() {
    for (name, arguments) in [
        ("unknown-kind", &["get", "tol/fetch@1.0.0"][..]),
        ("unknown-kind-option", &["list", "--kind", "sever"]),
        ("missing-version", &["tree", "tool/fetch"]),
        ("unknown-command", &["valdate", "file.json"]),
        ("unknown-option", &["list", "--onwer", "docs"]),
        ("invalid-scheme", &["--registry", "ftp://registry", "whoami"]),
        ("mixed-schemes", &["--registry", "https://a:7070,http://b:7070", "whoami"]),
        ("graph-format", &["list", "--output", "mermaid"]),
    ] {
        insta::assert_snapshot!(name, message(OFFLINE, arguments, &[]));
    }
}

#[test]
fn hidden_options_are_not_suggested() {
    let rejected = ctl(OFFLINE, &["--server", OFFLINE, "log"]);
    assert!(rejected.code == 2 && !rejected.stderr.contains("--env"), "{rejected:?}");
}

#[test]
fn misspelled_names_have_suggestions() {
    let registry = Registry::start();
    registry.apply_example();
    for (name, arguments) in [
        ("unknown-name", &["get", "tool/fecth@1.2.3"][..]),
        ("unknown-name-without-version", &["get", "tool/fecth"]),
        ("unknown-version", &["get", "tool/fetch@9.9.9"]),
        ("unknown-entity-of-tree", &["tree", "tool/fecth@1.2.3"]),
        ("unknown-name-of-history", &["history", "tool/fecth"]),
        ("unknown-version-of-history", &["history", "tool/fetch@9.9.9"]),
        ("unknown-name-of-log", &["log", "tool/fecth"]),
        ("unknown-server-with-tools", &["retire", "server/time-servr", "--with-tools", "--yes"]),
        ("token-name-instead-of-id", &["token", "revoke", "docs-ci", "--yes"]),
        ("confirmation-without-terminal", &["deprecate", "tool/fetch@1.2.3"]),
    ] {
        insta::assert_snapshot!(name, message(&registry.url(), arguments, &[]));
    }
    // The name is registered, and the other filters select no commit.
    let filtered = ["log", "tool/fetch", "--author", "another"];
    assert!(registry.ctl(&filtered).success());
}

#[test]
fn misspelled_references_have_suggestions() {
    let registry = Registry::start();
    registry.apply_example();
    let text = r##"{ "schemaVersion": "2.0", "tools": [
        { "name": "tell_time", "version": "1.0.0",
          "source": { "server": "time-sever", "serverVersion": "1.0.0", "tool": "tell_time" },
          "inputSchema": { "$ref": "#SearchQery:1.0.0" } },
        { "name": "both", "version": "1.0.0",
          "depends": [{ "type": "tool", "name": "fecth", "version": "1.2.3" }],
          "spec": { "pipeline": { "steps": [{ "id": "a", "operation": { "tool": "fecth" } }] } } }
    ] }"##;
    let (_directory, path) = file("misspelled.json", text);
    let rejected = registry.ctl(&["apply", &path, "--yes"]);
    assert_eq!(rejected.code, 1, "{rejected:?}");
    for meant in ["server/time-server", "schema/SearchQuery", "tool/fetch"] {
        assert!(rejected.stderr.contains(meant), "{meant}: {rejected:?}");
    }
}

#[test]
fn past_reads_name_revision_of_later_registration() {
    let registry = Registry::start();
    registry.apply_example();
    let later = r#"{ "schemaVersion": "2.0",
        "servers": [{ "name": "later", "version": "1.0.0", "provides": [] }] }"#;
    let (_directory, path) = file("later.json", later);
    let applied = registry.ctl(&["apply", &path, "--yes"]);
    assert!(applied.success(), "{applied:?}");
    let (name, key) = ("server/later", "server/later@1.0.0");
    for command in [
        &["get", name][..],
        &["get", key],
        &["history", name],
        &["log", key],
        &["blame", name],
        &["tree", key],
        &["impact", key],
        &["why", key, "tool/fetch@1.2.3"],
        &["sbom", "where-used", name],
    ] {
        let early = registry.ctl(&[command, &["--at", "1"]].concat());
        assert!(early.code == 1 && early.has_code("NOT_FOUND"), "{early:?}");
    }
    let unresolved = registry.ctl(&["resolve", name, "--at", "1"]);
    assert!(!unresolved.success(), "{unresolved:?}");
    let shown = message(&registry.url(), &["get", name, "--at", "1"], &[]);
    insta::assert_snapshot!("name-registered-later", shown);
}

#[test]
fn get_without_version_shows_the_newest() {
    let registry = Registry::start();
    registry.apply_example();
    registry.apply_file(&acceptance::root().join("examples/new-version.json"));
    let shown = registry.run(&["get", "schema/SearchQuery"]);
    let head: Vec<_> = shown.lines().filter(|line| !line.starts_with("registered")).collect();
    let head = head.split(|line| line.is_empty()).next().expect("fields").join("\n");
    insta::assert_snapshot!("get-newest", head);
    let json = registry.json(&["get", "schema/SearchQuery"]);
    assert_eq!(json["version"], "1.1.0");
    assert_eq!(json["otherVersions"][0]["version"], "1.0.0");
}

#[test]
fn address_mistakes_name_the_remedy() {
    let registry = Registry::start();
    let port = registry.address.rsplit_once(':').expect("a port").1.to_owned();
    let tls = format!("https://{}", registry.address);
    let plain = message(&tls, &["list"], &[(&port, "PORT")]);
    let help = plain.lines().find(|line| line.contains("help: ")).expect("a hint");
    insta::assert_snapshot!("plain-http", help);
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = closed.local_addr().expect("an address");
    drop(closed);
    let port = address.port().to_string();
    let refused = message(&format!("http://{address}"), &["list"], &[(&port, "PORT")]);
    insta::assert_snapshot!("connection-refused", refused);
}

#[test]
fn missing_credentials_name_their_sources() {
    let guarded = Guarded::start(&[]);
    let url = guarded.registry.url();
    insta::assert_snapshot!("missing-credentials", message(&url, &["list"], &[]));
    let invalid = message(&url, &["list", "--token", "rgt_000000000000_x"], &[]);
    insta::assert_snapshot!("invalid-credentials", invalid);
}

#[test]
fn imports_detect_forms_and_mask_values() {
    let tools = r#"{ "tools": [{ "name": "a", "inputSchema": {} }] }"#;
    for (name, text) in [("import-tools-list", tools), ("import-unknown-form", "{ \"a\": 1 }")] {
        let (directory, path) = file("file.json", text);
        let directory = format!("{}/", directory.path().display());
        insta::assert_snapshot!(name, message(OFFLINE, &["import", &path], &[(&directory, "")]));
    }
    let servers = "{ \"mcpServers\": {\n  \"a\": { \"command\": \"false\",\n    \"env\": { \"A=B\": \"secret-value\" } }\n} }";
    let (directory, path) = file("mcp.json", servers);
    let directory = format!("{}/", directory.path().display());
    let invalid = message(OFFLINE, &["import", &path], &[(&directory, "")]);
    assert!(!invalid.contains("secret-value"), "{invalid}");
    insta::assert_snapshot!("import-invalid-variable", invalid);
}

#[test]
fn registry_files_are_imported_and_applied_without_options() {
    let registry = Registry::start();
    let example = acceptance::root().join("examples/registry-v2.json");
    let example = example.to_str().expect("UTF-8");
    assert!(registry.ctl(&["import", example]).success());
    assert!(registry.ctl(&["validate", example]).success());
    assert!(registry.ctl(&["apply", example, "--yes"]).success());
    assert!(Path::new(example).exists());
}

#[test]
fn short_help_is_a_summary() {
    let help = |arguments: &[&str]| ctl(OFFLINE, arguments).stdout;
    insta::assert_snapshot!("help", help(&["-h"]));
    insta::assert_snapshot!("help-apply", help(&["apply", "-h"]));
}

#[test]
fn changes_need_confirmation_or_a_dry_run() {
    let registry = Registry::start();
    registry.apply_example();
    for arguments in [
        &["deprecate", "tool/fetch@1.2.3"][..],
        &["retire", "tool/fetch@1.2.3", "--force", "test"],
        &["archive", "tool/fetch"],
        &["transfer", "tool/fetch", "team"],
        &["transfer", "tool/fetch", "--owner", "team"],
        &["compatibility", "set", "tool/fetch", "full"],
        &["token", "create", "--name", "a", "--role", "reader"],
    ] {
        let asked = registry.ctl(arguments);
        assert_eq!(asked.code, 2, "{asked:?}");
        let planned = registry.ctl(&[arguments, &["--dry-run"]].concat());
        assert!(planned.success(), "{planned:?}");
    }
    assert_eq!(registry.json(&["token", "list"]).as_array().map(Vec::len), Some(0));
    assert!(registry.run(&["log"]).lines().nth(1).is_some_and(|line| line.starts_with('1')));
}
