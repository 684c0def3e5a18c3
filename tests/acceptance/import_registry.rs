//! `registryctl import registry`: the field example, and files of version 1.

use acceptance::{
    Backend, CtlOutput, Gateway, GatewayOptions, ModernClient, Registry, ctl, eventually,
};
use serde_json::{Value, json};

const FIELD: &str = "crates/registry-core/tests/data/field-example.json";

/// The number of repaired places, and of those to review.
fn repairs(output: &CtlOutput) -> (usize, usize) {
    let count = |label| output.stderr.lines().filter(|line| line.starts_with(label)).count();
    (count("repaired: "), count("review: "))
}

#[test]
fn field_example_is_repaired_and_registered() {
    let registry = Registry::start();
    let refused = registry.ctl(&["apply", "-f", FIELD, "--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    let done = registry.ctl(&["import", "registry", FIELD, "--apply", "--yes"]);
    assert!(done.success(), "{done:?}");
    assert_eq!(repairs(&done), (5, 0), "{done:?}");
    let got = registry.ctl(&["get", "tool/get_user@1.0.0", "--document"]).stdout;
    let got: Value = serde_json::from_str(&got).expect("a document");
    assert_eq!(got["source"]["server"], "user-service");
    assert!(registry.ctl(&["get", "agent/research-agent@2.1.0"]).success());
}

#[test]
fn version_1_file_is_converted_to_valid_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let (old, new) = (dir.path().join("old.yaml"), dir.path().join("new.json"));
    let text = "tools:\n  - $comment: '=== search ==='\n  - name: search\n    source: { target: backend, tool: find }\n";
    std::fs::write(&old, text).expect("written");
    let (old, new) = (old.to_str().expect("UTF-8"), new.to_str().expect("UTF-8"));
    let nowhere = "http://127.0.0.1:1";
    let done = ctl(nowhere, &["import", "registry", old, "--out", new, "--managed-by", "git/x"]);
    assert!(done.success() && done.stdout.contains("written: "), "{done:?}");
    assert!(done.stderr.contains("`target`") && done.stderr.contains("`server`"), "{done:?}");
    let valid = ctl(nowhere, &["validate", "-f", new]);
    assert!(valid.success() && valid.stdout.contains("3 register"), "{valid:?}");
    let written: Value =
        serde_json::from_slice(&std::fs::read(new).expect("a file")).expect("JSON");
    assert_eq!(written["tools"][0]["metadata"]["managedBy"], "git/x");
    let scripted = ctl(nowhere, &["import", "registry", old, "--output", "json"]).stdout;
    let scripted: Value = serde_json::from_str(&scripted).expect("JSON");
    assert_eq!(scripted["repairs"][0]["by"], "import");
    assert_eq!(scripted["file"]["schemaVersion"], "2.0");
}

#[test]
fn existing_files_are_replaced_with_force_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let (old, out) = (dir.path().join("old.json"), dir.path().join("registry"));
    let search = json!({ "name": "search", "source": { "target": "backend", "tool": "find" } });
    std::fs::write(&old, json!({ "tools": [search] }).to_string()).expect("written");
    let (old, out_text) = (old.to_str().expect("UTF-8"), out.to_str().expect("UTF-8"));
    let import = |more: &[&str]| {
        let words = ["import", "registry", old, "--out", out_text];
        ctl("http://127.0.0.1:1", &[&words[..], more].concat())
    };
    let tools = out.join("tools.json");
    let read = || std::fs::read_to_string(&tools).expect("a file");
    assert!(import(&[]).success());
    let written = read();
    let again = import(&[]);
    assert!(again.success(), "equal files are no conflict: {again:?}");
    std::fs::write(&tools, "mine").expect("written");
    let rejected = import(&[]);
    assert_eq!(rejected.code, 2, "{rejected:?}");
    for expected in [tools.to_str().expect("UTF-8"), "--force"] {
        assert!(rejected.stderr.contains(expected), "{rejected:?}");
    }
    assert!(!rejected.stderr.contains("servers.json"), "{rejected:?}");
    assert_eq!(read(), "mine");
    assert!(import(&["--force"]).success());
    assert_eq!(read(), written);
}

#[test]
fn repairs_of_large_file_are_listed_and_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.json");
    let tools: Vec<_> =
        (0..400).map(|i| json!({ "name": format!("t{i}"), "source": "s" })).collect();
    std::fs::write(&path, json!({ "tools": tools }).to_string()).expect("written");
    let args = ["import", "registry", path.to_str().expect("UTF-8"), "--output", "json"];
    let [scripted, shown] = [&args[..], &args[..3]].map(|args| ctl("http://127.0.0.1:1", args));
    let scripted: Value = serde_json::from_str(&scripted.stdout).expect("JSON");
    let count = scripted["repairs"].as_array().expect("a list").len();
    assert!(count > 1_200, "{count}");
    assert_eq!(scripted["unlisted"], json!({ "person": 0, "import": 0 }));
    let more = format!("and {} more; --output json lists all\n{count} repaired, 0 to", count - 100);
    assert!(shown.stderr.contains(&more), "{more}: {shown:?}");
}

#[test]
fn unreadable_file_is_rejected() {
    let dir = tempfile::tempdir().expect("a directory");
    let nowhere = "http://127.0.0.1:1";
    for (text, code) in [("{ \"tools\": [,] }", 2), ("7", 1), ("{}", 1)] {
        let path = dir.path().join("x.json");
        std::fs::write(&path, text).expect("written");
        let failed = ctl(nowhere, &["import", "registry", path.to_str().expect("UTF-8")]);
        assert_eq!(failed.code, code, "{text}: {failed:?}");
    }
    assert_eq!(ctl(nowhere, &["import", "registry", "/no/such/file"]).code, 2);
}

/// The files of the migration phases of the registry v2 design, completed.
fn migration_phases() -> [Value; 3] {
    let query = json!({ "name": "SearchQuery", "version": "1.0.0", "schema": { "type": "object",
        "properties": { "query": { "type": "string" } }, "required": ["query"] } });
    let provides = json!([{ "tool": "search", "version": "1.0.0" }]);
    let server = json!({ "name": "doc-svc", "version": "1.0.0", "provides": provides });
    let source = json!({ "server": "doc-svc", "serverVersion": "1.0.0", "tool": "search" });
    let sbom = json!({ "uri": "urn:agentgateway:sbom", "params": { "depends": [
        { "type": "tool", "name": "search", "version": "1.0.0" }] } });
    let agent = json!({ "name": "researcher", "version": "1.0.0", "url": "https://agents.example/researcher",
        "skills": [{ "id": "research", "name": "Research", "description": "Researches", "tags": [],
            "inputSchema": { "type": "schema", "name": "SearchQuery", "version": "1.0.0" } }],
        "capabilities": { "extensions": [sbom] } });
    [
        json!({ "schemaVersion": "2.0", "schemas": [query], "tools": [
            { "name": "search", "source": { "target": "backend", "tool": "search" },
                "inputSchema": { "$ref": "#SearchQuery:1.0.0" } }] }),
        json!({ "servers": [server], "tools": [{ "name": "search", "version": "1.0.0", "source": source }] }),
        json!({ "schemaVersion": "2.0", "schemas": [query], "servers": [server], "agents": [agent],
            "tools": [{ "name": "search", "version": "1.0.0", "source": source }] }),
    ]
}

/// The file of phase 1 as the design shows it: its tool has no source.
fn first_phase_as_written() -> Value {
    let mut phase = migration_phases()[0].clone();
    phase["tools"] = json!([{ "name": "search", "inputSchema": { "$ref": "#SearchQuery:1.0.0" } }]);
    phase
}

#[test]
fn phase_one_file_without_source_is_rejected() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("phase-1.json");
    let path = path.to_str().expect("UTF-8");
    let mut phase = first_phase_as_written();
    std::fs::write(path, phase.to_string()).expect("written");
    let registry = Registry::start();
    for refused in [
        ctl("http://127.0.0.1:1", &["validate", "-f", path]),
        registry.ctl(&["apply", "-f", path, "--yes"]),
    ] {
        assert_eq!(refused.code, 1, "{refused:?}");
        let remedy = format!("registryctl import registry {path} --out NEW.json");
        assert_eq!(refused.stderr.matches(&remedy).count(), 1, "{refused:?}");
    }
    let partly = registry.ctl(&["import", "registry", path, "--apply", "--yes"]);
    assert_eq!(partly.code, 1, "{partly:?}");
    assert_eq!(repairs(&partly), (1, 1), "{partly:?}");
    assert!(partly.has_code("implementation-ambiguous"), "{partly:?}");
    assert!(!registry.ctl(&["get", "tool/search@1.0.0"]).success());
    phase["tools"][0]["source"] = json!({ "target": "backend" });
    std::fs::write(path, phase.to_string()).expect("written");
    let done = registry.ctl(&["import", "registry", path, "--apply", "--yes"]);
    assert!(done.success() && repairs(&done).1 == 0, "{done:?}");
    assert!(registry.ctl(&["get", "tool/search@1.0.0"]).success());
}

#[test]
fn misspelled_field_is_rejected_by_import() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("typo.json");
    let path = path.to_str().expect("UTF-8");
    let registry = Registry::start();
    let file = json!({ "schemaVersion": "2.0",
        "servers": [{ "name": "s", "version": "1.0.0", "provides": [{ "tool": "t", "version": "1.0.0" }] }],
        "tools": [{ "name": "t", "version": "1.0.0", "inputschema": { "type": "object" },
            "source": { "server": "s", "serverVersion": "1.0.0", "tool": "t" } }] });
    std::fs::write(path, file.to_string()).expect("written");
    let refused = registry.ctl(&["apply", "-f", path, "--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("`inputSchema`"), "{refused:?}");
    let imported = registry.ctl(&["import", "registry", path, "--apply", "--yes"]);
    assert_eq!((imported.code, repairs(&imported)), (1, (0, 1)), "{imported:?}");
    assert!(!registry.ctl(&["get", "tool/t@1.0.0"]).success(), "nothing is registered");
}

#[test]
fn error_of_wrong_value_names_no_import() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("tool.yaml");
    let registry = Registry::start();
    registry.apply_example();
    let tool = |more: &str| {
        format!(
            "schemaVersion: \"2.0\"\ntools:\n  - name: fetch_again\n    version: 1.0.0\n    \
             source: {{ server: fetch-server, serverVersion: 1.2.3, tool: fetch }}\n    {more}\n"
        )
    };
    for more in ["annotations: { readOnlyHint: yes }", "metadata: []"] {
        std::fs::write(&path, tool(more)).expect("written");
        let path = path.to_str().expect("UTF-8");
        let refused = registry.ctl(&["apply", "-f", path, "--dry-run"]);
        assert_eq!(refused.code, 1, "{more}: {refused:?}");
        let remedy = format!("registryctl import registry {path}");
        assert_eq!(refused.stderr.matches(&remedy).count(), 0, "{more}: {refused:?}");
    }
}

#[test]
fn migration_files_name_repairing_import() {
    let dir = tempfile::tempdir().expect("a directory");
    for (i, phase) in migration_phases().iter().enumerate() {
        let path = dir.path().join(format!("phase-{}.json", i + 1));
        let path = path.to_str().expect("UTF-8");
        std::fs::write(path, format!("{phase:#}")).expect("written");
        let refused = ctl("http://127.0.0.1:1", &["validate", "-f", path]);
        assert_eq!(refused.code, 1, "{refused:?}");
        // The import adds the server of phase 1, which a person reviews.
        let option = if i == 0 { "--out NEW.json" } else { "--apply" };
        let remedy = format!("registryctl import registry {path} {option}");
        assert_eq!(refused.stderr.matches(&remedy).count(), 1, "phase {}: {refused:?}", i + 1);
        let registry = Registry::start();
        let done = registry.ctl(&["import", "registry", path, "--apply", "--yes"]);
        assert!(done.success() && repairs(&done).1 == 0, "{done:?}");
        assert!(registry.ctl(&["get", "tool/search@1.0.0"]).success());
    }
}

#[tokio::test]
async fn gateway_names_import_for_migration_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("registry.json");
    let nothing = json!({ "schemaVersion": "2.0" });
    std::fs::write(&path, nothing.to_string()).expect("written");
    let gateway = Gateway::start(&GatewayOptions {
        source: format!("file://{}", path.display()),
        targets: String::new(),
        runtime: None,
        more: String::new(),
    });
    gateway.ready().await;
    let remedy = format!("registryctl import registry {} --", path.display());
    let phases = migration_phases().into_iter().chain([first_phase_as_written()]);
    for (i, phase) in phases.enumerate() {
        std::fs::write(&path, phase.to_string()).expect("written");
        eventually("the refusal names the remedy", || async {
            let log = gateway.process.stderr();
            log.matches(&remedy).count() == i + 1
        })
        .await;
    }
}

/// A composition that names backend tools by their servers, from the file to its result.
#[tokio::test(flavor = "multi_thread")]
async fn steps_with_servers_are_imported_and_run() {
    let (registry, backend, dir) =
        (Registry::start(), Backend::start(), tempfile::tempdir().expect("a directory"));
    let call = |tool: &str, server: &str| json!({ "tool": { "name": tool, "server": server } });
    let both = json!({ "pipeline": { "steps": [
        { "id": "docs", "operation": call("search_documents", "document-service") },
        { "id": "text", "operation": { "schemaMap": { "mappings": { "found": { "nested": { "path": "$.first",
            "mappings": { "title": { "path": "$.title" } } } } } } },
            "input": { "first": { "path": "$.steps.docs.results[0]" } } }] } });
    let cached = json!({ "cache": { "keyPaths": ["$.query"], "ttlSeconds": 60, "store": "titles",
        "inner": { "tool": { "name": "first_title" } } } });
    let output = json!({ "pipeline": { "steps": [
        { "id": "docs", "operation": call("search_documents", "document-service") }],
        "output": { "of": { "path": "$.input.query" }, "title": { "path": "$.steps.docs.results[0].title" } } } });
    let moved = json!({ "mappings": { "found": { "nested": { "path": "$.results[0]",
        "mappings": { "title": { "path": "$.title" } } } } } });
    let query = json!({ "type": "object", "properties": { "query": { "type": "string" } } });
    let composed = |name: &str, spec: &Value| {
        json!({ "name": name, "version": "1.0.0", "spec": spec,
        "description": "The first title", "inputSchema": query })
    };
    let file = json!({ "schemaVersion": "2.0",
        "servers": [{ "name": "document-service", "version": "1.2.0" }],
        "tools": [composed("first_title", &both), composed("cached_title", &cached), composed("titled", &output),
            { "name": "nested_title", "version": "1.0.0", "description": "The first title", "outputTransform": moved,
                "source": { "server": "document-service", "tool": "search_documents" } }] });
    let path = dir.path().join("loose.json");
    std::fs::write(&path, file.to_string()).expect("written");
    let path = path.to_str().expect("UTF-8");
    let done = registry.ctl(&["import", "registry", path, "--apply", "--yes"]);
    assert!(done.success() && repairs(&done).1 == 0, "{done:?}");
    for expected in ["`store`", "`output`", "`search_documents`"] {
        assert!(done.stderr.contains(expected), "{expected}: {done:?}");
    }
    let gateway = Gateway::start(&GatewayOptions {
        source: registry.url().replace("http", "grpc"),
        targets: backend.targets(),
        runtime: None,
        more: String::new(),
    });
    gateway.ready().await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    eventually("the server is reached", || async {
        let answer = client.call("first_title", json!({ "query": "vehicles" })).await;
        answer.message["result"]["structuredContent"]["found"]["title"]
            == "Electric vehicle market notes"
    })
    .await;
    let title = "Electric vehicle market notes";
    for (tool, expected) in [
        ("cached_title", json!({ "found": { "title": title } })),
        ("nested_title", json!({ "found": { "title": title } })),
        ("titled", json!({ "of": "vehicles", "title": title })),
    ] {
        let answer = client.call(tool, json!({ "query": "vehicles" })).await;
        assert_eq!(answer.message["result"]["structuredContent"], expected, "{tool}: {answer:?}");
    }
}

/// Two servers with a tool of the same name, in two versions.
fn two_searches(calls: &[Value]) -> Value {
    let step = |(i, call): (usize, &Value)| json!({ "id": format!("s{i}"), "operation": { "tool": call } });
    let steps: Vec<_> = calls.iter().enumerate().map(step).collect();
    let search = |version: &str, server: &str| {
        json!({ "name": "search", "version": version,
        "source": { "server": server, "serverVersion": "1.0.0", "tool": "search" } })
    };
    json!({ "schemaVersion": "2.0", "tools": [search("1.0.0", "docs"), search("2.0.0", "wiki"),
        { "name": "both", "version": "1.0.0", "description": "Searches",
            "spec": { "pipeline": { "steps": steps } } }] })
}

#[test]
fn steps_call_the_tool_version_of_their_server() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("loose.json");
    let registry = Registry::start();
    let import = |calls: &[Value]| {
        std::fs::write(&path, two_searches(calls).to_string()).expect("written");
        registry.ctl(&["import", "registry", path.to_str().expect("UTF-8"), "--apply", "--yes"])
    };
    let of = |server: &str| json!({ "name": "search", "server": server });
    let unknown = json!({ "name": "search", "server": "docs", "serverVersion": "9.0.0" });
    let version = |version: &str| json!({ "name": "search", "version": version });
    for (calls, expected) in [
        (&[of("docs"), of("wiki")][..], "`search@2.0.0`"),
        (&[version("2.0.0"), version("1.0.0")], "`search@1.0.0`"),
        (&[unknown], "`docs@9.0.0`"),
    ] {
        let refused = import(calls);
        assert!(!refused.success() && repairs(&refused).1 == 1, "{refused:?}");
        assert!(refused.stderr.contains(expected), "{expected}: {refused:?}");
        assert!(!registry.ctl(&["get", "tool/both@1.0.0"]).success(), "nothing is registered");
    }
    let done = import(&[of("docs")]);
    assert!(done.success() && repairs(&done).1 == 0, "{done:?}");
    let got = registry.ctl(&["get", "tool/both@1.0.0", "--document"]).stdout;
    let got: Value = serde_json::from_str(&got).expect("a document");
    assert_eq!(got["depends"], json!([{ "type": "tool", "name": "search", "version": "1.0.0" }]));
}

#[test]
fn all_problems_are_listed_in_one_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("loose.json");
    let step = |operation: &str| json!({ "id": "a", "operation": operation });
    let mut conditional = step("t");
    conditional["condition"] = json!({ "field": "$.x", "op": "eq", "value": 1 });
    let pipeline = |steps: Value| json!({ "pipeline": { "steps": steps } });
    let mut single = pipeline(json!([step("t")]));
    single["pipeline"]["output"] = json!({ "step": { "stepId": "a", "path": "$.x" } });
    let file = json!({ "schemaVersion": "2.0", "tools": [
        { "name": "t", "version": "1.0.0", "source": "s", "inputSchema": { "type": 7 } },
        { "name": "maybe", "version": "1.0.0", "spec": pipeline(json!([conditional])) },
        { "name": "single", "version": "1.0.0", "spec": single },
        { "name": "calls", "version": "1.0.0", "spec": pipeline(json!([step("nowhere")])) },
        { "name": "none", "version": "1.0.0" }] });
    std::fs::write(&path, file.to_string()).expect("written");
    let path = path.to_str().expect("UTF-8");
    let found = ctl("http://127.0.0.1:1", &["import", "registry", path, "--output", "json"]);
    assert!(found.success(), "{found:?}");
    let found: Value = serde_json::from_str(&found.stdout).expect("JSON");
    let repairs = found["repairs"].as_array().expect("a list");
    let person = repairs.iter().filter(|repair| repair["by"] == "person");
    let person: Vec<_> =
        person.map(|repair| format!("{}: {}", repair["pointer"], repair["what"])).collect();
    for expected in [
        "\"/tools/0/inputSchema/type\": ",
        "\"/tools/1/spec/pipeline/steps/0/condition\": \"a step with a `condition`",
        "\"/tools/2/spec/pipeline/output\": \"a pipeline has no `output`",
        "tool/nowhere@1.0.0, which is not registered",
        "\"/tools/4\": \"a tool needs exactly one of `source` and `spec`",
    ] {
        assert!(person.iter().any(|line| line.contains(expected)), "{expected}: {person:#?}");
    }
    assert!(found["file"]["tools"][1].to_string().contains("condition"), "it is not dropped");
}
