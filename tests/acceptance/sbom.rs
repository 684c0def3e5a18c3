//! Bills of materials: validity by independent validators, completeness, reproducibility, and the
//! reverse lookup. The validators are Python packages with the official schemas, pinned in
//! `sbom/requirements.txt`.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use acceptance::{PythonEnvironment, Registry, postgres, root};
use registry_proto::v1;
use serde_json::Value;
use tonic::Code;

const FORMATS: [&str; 4] = ["cyclonedx-1.6", "cyclonedx-1.7", "spdx-2.3", "spdx-3.0"];

fn fixture(file: &str) -> PathBuf {
    root().join("tests/acceptance/sbom").join(file)
}

/// Registers the example, its second version, and entities with all kinds of metadata.
fn fill(registry: &Registry) {
    registry.apply_example();
    registry.apply_file(&root().join("examples/new-version.json"));
    registry.apply_file(&fixture("odd.json"));
}

fn export(registry: &Registry, root: &str, format: &str) -> String {
    registry.run(&["sbom", "export", root, "--format", format])
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// The report of the validators about these files, and whether all are valid.
fn judge(files: &[PathBuf]) -> (bool, String) {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let environment = PythonEnvironment::of(&fixture("requirements.txt"), target);
    let output = environment.python().arg(fixture("validate.py")).args(files).output();
    let output = output.expect("Python runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn bills_pass_independent_validators() {
    let dir = tempfile::tempdir().expect("a directory");
    let roots = [
        "--all",
        "agent/orchestrator-agent@1.0.0",
        "agent/team/odd-agent@1.0.0",
        "tool/process_order@1.0.0",
        "server/io.example/odd-server@1.0.0",
        "schema/SearchQuery@1.1.0",
    ];
    let empty = Registry::start();
    let registry = Registry::start();
    fill(&registry);
    let mut files = Vec::new();
    for format in FORMATS {
        let mut write = |registry: &Registry, root: &str| {
            let file = dir.path().join(format!("{}.{format}.json", files.len()));
            let path = file.to_str().expect("UTF-8");
            registry.run(&["sbom", "export", root, "--format", format, "--out", path]);
            files.push(file);
        };
        write(&empty, "--all");
        for root in roots {
            write(&registry, root);
        }
    }
    assert_eq!(judge(&files), (true, String::new()));
}

/// A validator that accepts everything would make every bill valid.
#[test]
fn validators_reject_invalid_bills() {
    let dir = tempfile::tempdir().expect("a directory");
    let registry = Registry::start();
    fill(&registry);
    let broken = |format: &str, what: &str, by: &str| {
        let text = export(&registry, "agent/team/odd-agent@1.0.0", format);
        assert!(text.contains(what), "{what} is not in {text}");
        let file = dir.path().join(format!("{format}-{}.json", what.len()));
        std::fs::write(&file, text.replace(what, by)).expect("written");
        file
    };
    let cases = [
        ("cyclonedx-1.6", "\"library\"", "\"gadget\""),
        ("cyclonedx-1.7", "\"ref\": \"tool/odd_tool@1.0.0\"", "\"ref\": \"tool/nobody@1.0.0\""),
        ("cyclonedx-1.7", "\"expression\": ", "\"licence\": "),
        ("spdx-2.3", "\"licenseId\": \"LicenseRef-", "\"licenseId\": \"LicenseRef-x"),
        (
            "spdx-2.3",
            "\"relatedSpdxElement\": \"SPDXRef-tool",
            "\"relatedSpdxElement\": \"SPDXRef-x",
        ),
        (
            "spdx-3.0",
            "\"software_primaryPurpose\": \"library\"",
            "\"software_primaryPurpose\": \"gadget\"",
        ),
        ("spdx-3.0", "\"suppliedBy\": \"urn", "\"suppliedBy\": \"urm"),
        ("spdx-3.0", "\"hashValue\": ", "\"hash\": "),
    ];
    let files: Vec<_> = cases.iter().map(|(format, what, by)| broken(format, what, by)).collect();
    let (valid, said) = judge(&files);
    assert!(!valid && !said.contains("Traceback"), "{said}");
    for (file, case) in files.iter().zip(cases) {
        let found = said.contains(&format!("{}: ", file.display()));
        assert!(found, "nobody minds {case:?}:\n{said}");
    }
}

#[test]
fn bill_has_digests_licenses_suppliers_and_edges() {
    let registry = Registry::start();
    fill(&registry);
    let bill = json(&export(&registry, "agent/team/odd-agent@1.0.0", "cyclonedx-1.6"));
    let find = |list: &str, name: &str| {
        let things = bill[list].as_array().expect("a list").iter();
        things.clone().find(|thing| thing["bom-ref"] == name).expect(name).clone()
    };
    let tool = find("components", "tool/odd_tool@1.0.0");
    let shown = json(&registry.run(&["get", "tool/odd_tool@1.0.0", "--output", "json"]));
    let digest = format!("sha256:{}", tool["hashes"][0]["content"].as_str().expect("a hash"));
    assert_eq!(shown["digest"], digest);
    assert_eq!(tool["licenses"][0]["license"]["name"], "Ask \"the\" owner; © 2026 größe");
    assert_eq!(tool["supplier"]["name"], "Acme, Inc. (support@acme.example)");
    let server = find("services", "server/io.example/odd-server@1.0.0");
    assert_eq!((&server["group"], &server["name"]), (&"io.example".into(), &"odd-server".into()));
    let expression = "GPL-3.0-or-later WITH Classpath-exception-2.0";
    assert_eq!(server["licenses"][0]["expression"], expression);
    let endpoint = "https://odd_host.example:8443/mcp?x=%20&y=(1)#here";
    assert_eq!(server["endpoints"], serde_json::json!([endpoint]));
    assert_eq!(server["provider"], serde_json::json!({ "name": "Größe & Söhne <gmbh>" }));
    assert!(!bill.to_string().contains("secret"), "a password is not for passing around");
    let agent = find("services", "agent/team/odd-agent@1.0.0");
    assert_eq!(
        (&agent["authenticated"], &agent["provider"]["name"]),
        (&true.into(), &"Team Ω".into())
    );
    let depends = bill["dependencies"].as_array().expect("a list").iter();
    let depends = depends.clone().find(|d| d["ref"] == "tool/odd_tool@1.0.0").expect("an entry");
    let needed =
        ["schema/Plain_Schema-1.x@1.0.0-rc.1+build.5", "server/io.example/odd-server@1.0.0"];
    assert_eq!(depends["dependsOn"], serde_json::json!(needed));
}

fn what_holds_on(database: Option<&str>) {
    let mut registry = database.map_or_else(Registry::start, Registry::start_on);
    registry.apply_example();
    let take = |registry: &Registry, at: &[&str]| {
        FORMATS.map(|format| {
            ["--all", "agent/research-agent@2.1.0"].map(|root| {
                registry.run(&[&["sbom", "export", root, "--format", format], at].concat())
            })
        })
    };
    let first = take(&registry, &[]);
    assert_eq!(take(&registry, &[]), first, "a second export has other bytes");
    registry.process.kill_9();
    registry.restart();
    assert_eq!(take(&registry, &[]), first, "after a restart the bytes are others");
    registry.apply_file(&root().join("examples/new-version.json"));
    let replacement = ["--replacement", "tool/get_webpage@1.0.0", "--sunset", "2027-01-31"];
    let deprecate = ["deprecate", "--yes", "tool/fetch@1.2.3", "--message", "old"];
    registry.run(&[&deprecate[..], &replacement].concat());
    registry.run(&["transfer", "--yes", "tool/fetch", "web-team"]);
    let now = take(&registry, &[]);
    assert_ne!(now, first);
    for said in ["web-team", "2027-01-31", "tool/get_webpage@1.0.0", "deprecated"] {
        assert!(now.iter().all(|bills| bills[1].contains(said)), "{said}");
    }
    assert_eq!(take(&registry, &["--at", "1"]), first, "the past has changed");
    let time = json(&first[0][0])["metadata"]["timestamp"].as_str().expect("a time").to_owned();
    assert_eq!(take(&registry, &["--at", &time]), first, "the time of a commit is its revision");
    registry.process.kill_9();
    registry.restart();
    assert_eq!(take(&registry, &["--at", "1"]), first, "after a restart the past has changed");
    assert_eq!(take(&registry, &["--at", "4"]), now);
    let changes = registry.ctl(&["sbom", "diff", "all", "all", "--old-at", "1"]);
    assert!(changes.code == 1 && changes.stdout.contains("1.1.0"), "{changes:?}");
    let nothing = registry.ctl(&["sbom", "diff", "all", "all", "--old-at", "4"]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (0, ""), "{nothing:?}");
    who_had_it_then(&registry);
}

fn who_had_it_then(registry: &Registry) {
    let has = |at: &str| {
        registry
            .run(&["sbom", "where-used", "schema/SearchFilters@1.0.0", "--at", at])
            .contains("schema/SearchQuery@1.1.0")
    };
    assert!(has("2") && !has("1"));
    let ahead = registry.ctl(&["sbom", "export", "--all", "--at", "99"]);
    assert!(ahead.code == 1 && ahead.has_code("REVISION_AHEAD"), "{ahead:?}");
    let later = registry.ctl(&["sbom", "export", "schema/SearchQuery@1.1.0", "--at", "1"]);
    assert!(later.code == 1 && later.has_code("NOT_FOUND"), "{later:?}");
}

#[test]
fn bill_is_reproducible_on_sqlite() {
    what_holds_on(None);
}

#[tokio::test]
async fn bill_is_reproducible_on_postgres() {
    let database = postgres::database().await;
    let url = database.url().to_owned();
    tokio::task::spawn_blocking(move || what_holds_on(Some(&url))).await.expect("it holds");
}

#[tokio::test]
async fn missing_entity_has_no_bill() {
    let registry = Registry::start();
    registry.apply_example();
    let missing = registry.ctl(&["sbom", "export", "tool/fetch@9.9.9"]);
    assert_eq!((missing.code, missing.stdout.as_str()), (1, ""));
    assert!(missing.has_code("NOT_FOUND") && missing.stderr.contains("1.2.3"), "{missing:?}");
    let nobody = registry.ctl(&["sbom", "where-used", "tool/nobody"]);
    assert!(nobody.code == 1 && nobody.has_code("NOT_FOUND"), "{nobody:?}");
    for usage in [
        &["sbom", "export"][..],
        &["sbom", "export", "tool/fetch"],
        &["sbom", "export", "--all", "--format", "spdx-4.0"],
        &["sbom", "export", "--all", "tool/fetch@1.2.3"],
        &["sbom", "diff", "all", "no/such/file.json"],
        &["sbom", "diff", "all", "Cargo.toml"],
    ] {
        let output = registry.ctl(usage);
        assert_eq!(output.code, 2, "{usage:?}: {output:?}");
    }
    let nothing = registry.ctl(&["sbom", "export"]);
    assert!(nothing.stderr.contains("<KIND/NAME@VERSION|--all>"), "{nothing:?}");
    let mut client = registry.sbom().await;
    let no_format = client.export_sbom(v1::ExportSbomRequest::default()).await.unwrap_err();
    assert_eq!(no_format.code(), Code::InvalidArgument, "{no_format:?}");
    let no_name =
        client.find_component_users(v1::FindComponentUsersRequest::default()).await.unwrap_err();
    assert_eq!(no_name.code(), Code::InvalidArgument, "{no_name:?}");
}

#[tokio::test]
async fn holders_are_listed_with_paths() {
    let registry = Registry::start();
    fill(&registry);
    let who_has = ["sbom", "where-used", "tool/fetch@1.2.3", "--output", "json"];
    for (kind, one) in
        [("agent", "agent/research-agent@2.1.0"), ("server", "server/fetch-server@1.2.3")]
    {
        let found = json(&registry.run(&[&who_has[..], &["--kind", kind]].concat()));
        let holders: BTreeSet<&str> =
            found.as_array().expect("a list").iter().filter_map(|h| h["user"].as_str()).collect();
        // Exactly the entities with the component in their SBOM.
        let listed = registry.run(&["list", kind, "--output", "json"]);
        for entity in json(&listed).as_array().expect("a list") {
            let text = |name: &str| entity[name].as_str().expect("text");
            let key = format!("{kind}/{}@{}", text("name"), text("version"));
            let bill = export(&registry, &key, "cyclonedx-1.6");
            assert_eq!(bill.contains("\"tool/fetch@1.2.3\""), holders.contains(&*key), "{key}");
        }
        assert!(holders.contains(one), "{holders:?}");
    }
    let table = registry.run(&["sbom", "where-used", "schema/SearchFilters"]);
    assert!(table.contains(" → schema/SearchQuery@1.0.0 → schema/SearchFilters@1.0.0"), "{table}");
    pages_have_all_of_it(&registry).await;
}

async fn pages_have_all_of_it(registry: &Registry) {
    let mut client = registry.sbom().await;
    let mut wanted = v1::FindComponentUsersRequest {
        component: Some(v1::EntitySelector {
            kind: v1::EntityKind::Schema.into(),
            name: "SearchFilters".to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let all =
        client.find_component_users(wanted.clone()).await.expect("an answer").into_inner().users;
    assert!(all.len() > 3, "{all:?}");
    wanted.page_size = 2;
    let mut paged = Vec::new();
    loop {
        let page = client.find_component_users(wanted.clone()).await.expect("a page").into_inner();
        paged.extend(page.users);
        if page.next_page_token.is_empty() {
            break;
        }
        wanted.page_token = page.next_page_token;
    }
    assert_eq!(paged, all);
    wanted.page_token = "00".repeat(20);
    let tampered = client.find_component_users(wanted).await.expect_err("a token of elsewhere");
    assert_eq!(tampered.code(), Code::InvalidArgument, "{tampered:?}");
}

#[test]
fn bills_are_compared_across_files_formats_and_versions() {
    let registry = Registry::start();
    registry.apply_example();
    let dir = tempfile::tempdir().expect("a directory");
    let old = dir.path().join("old.json");
    let old = old.to_str().expect("UTF-8");
    registry.run(&["sbom", "export", "--all", "--format", "spdx-3.0", "-o", old]);
    let same = registry.ctl(&["sbom", "diff", old, "all"]);
    assert_eq!((same.code, same.stdout.as_str()), (0, ""), "{same:?}");
    registry.apply_file(&root().join("examples/new-version.json"));
    registry.run(&["deprecate", "--yes", "tool/fetch@1.2.3"]);
    let changed = registry.ctl(&["sbom", "diff", old, "all"]);
    assert_eq!((changed.code, changed.stderr.as_str()), (1, ""));
    let has = |start: &str, end: &str| {
        changed.stdout.lines().any(|line| line.starts_with(start) && line.ends_with(end))
    };
    assert!(has("+  schema/SearchQuery", "1.1.0"), "{}", changed.stdout);
    assert!(has("~  tool/fetch", "deprecated"), "{}", changed.stdout);
    let arguments =
        ["sbom", "diff", "tool/fetch@1.2.3", "tool/get_webpage@1.0.0", "--output", "json"];
    let tools = registry.ctl(&arguments);
    assert_eq!(tools.code, 1);
    let found = json(&tools.stdout);
    let added = |d: &Value| d["name"] == "tool/get_webpage" && d["change"] == "added";
    assert!(found.as_array().expect("a list").iter().any(added), "{found}");
}
