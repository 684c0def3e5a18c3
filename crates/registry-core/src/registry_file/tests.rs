//! Tests of registry files.

use serde_json::{Value, json};

use super::{FileError, RegistryFile, write, write_export};
use crate::{
    Catalog, RegistryId,
    diagnostic::Diagnostic,
    lifecycle::{
        LifecycleState::{Deprecated, Retired},
        Notice,
    },
    limits,
    rules::{
        plan,
        testing::{
            agent, catalog, lines, policy, schema, server, set, set_with, source_tool, tool, with,
        },
    },
};

fn read(file: &Value) -> RegistryFile {
    RegistryFile::from_value(file).unwrap()
}

fn refused(file: &Value) -> Vec<String> {
    let FileError { diagnostics } = RegistryFile::from_value(file).unwrap_err();
    diagnostics.iter().map(line).collect()
}

fn line(found: &Diagnostic) -> String {
    format!("{} {}: {}", found.code, found.pointer, found.message)
}

fn proposals(file: &RegistryFile) -> Vec<String> {
    let change = |(i, proposed): (usize, &crate::rules::Proposed)| match proposed {
        crate::rules::Proposed::Register(document) => {
            format!("{} {}", file.pointer(i).unwrap(), document.key())
        }
        crate::rules::Proposed::SetLifecycle { key, state, notice } => {
            format!("{} {key} {state} {:?}", file.pointer(i).unwrap(), notice.message)
        }
    };
    file.proposals().iter().enumerate().map(change).collect()
}

#[test]
fn v2_file_yields_changes_with_pointers() {
    let file = read(&json!({
        "$comment": "ours",
        "schemaVersion": "2.0",
        "tools": [
            { "name": "t", "version": "1.0.0", "deprecated": true, "deprecationMessage": "use u",
              "source": { "target": "s", "serverVersion": "1.0.0", "tool": "t" } },
        ],
        "servers": [
            { "name": "s", "version": "1.0.0", "provides": [], "deprecated": false },
            { "name": "r", "version": "1.0.0", "provides": [], "retired": true },
        ],
    }));
    assert_eq!(
        proposals(&file),
        [
            "/servers/0 server/s@1.0.0",
            "/servers/1 server/r@1.0.0",
            "/servers/1 server/r@1.0.0 retired None",
            "/tools/0 tool/t@1.0.0",
            "/tools/0 tool/t@1.0.0 deprecated Some(\"use u\")",
        ]
    );
    let tool = file.proposals()[3].clone();
    let crate::rules::Proposed::Register(document) = tool else { panic!("not a registration") };
    let source = &document.entity().to_value()["source"];
    assert_eq!(*source, json!({ "server": "s", "serverVersion": "1.0.0", "tool": "t" }));
}

#[test]
fn lifecycle_of_other_programs_names_members() {
    let server = |member: &str| json!({ "name": member, "version": "1.0.0", "provides": [], member: "retired" });
    let servers = ["lifecycle", "status", "state"].map(server);
    let file = json!({ "schemaVersion": "2.0", "servers": servers });
    let FileError { diagnostics } = RegistryFile::from_value(&file).unwrap_err();
    insta::assert_snapshot!(lines(&diagnostics), @r#"
    error[document-invalid] server/lifecycle@1.0.0 at "/servers/0/lifecycle": unknown field `lifecycle` (write "deprecated": true or "retired": true for the lifecycle)
    error[document-invalid] server/status@1.0.0 at "/servers/1/status": unknown field `status` (write "deprecated": true or "retired": true for the lifecycle)
    error[document-invalid] server/state@1.0.0 at "/servers/2/state": unknown field `state` (write "deprecated": true or "retired": true for the lifecycle)
    "#);
}

#[test]
fn parse_reports_all_problems_of_file() {
    let file = json!({
        "schemaVersion": "2.0",
        "surplus": 1,
        "servers": {},
        "tools": [
            { "name": "a b", "version": "latest", "extra": true, "deprecationMessage": "?" },
            7,
            { "name": "c", "version": "1.0.0",
              "source": { "server": "s", "target": "t", "serverVersion": "1.0.0", "tool": "c" } },
        ],
    });
    assert_eq!(
        refused(&file),
        [
            "document-invalid /tools/0/deprecationMessage: `deprecationMessage` without `deprecated`",
            "name-invalid /tools/0/name: ` ` is not allowed in the name `a b`",
            "version-invalid /tools/0/version: `latest` is not an exact semantic version: \
             unexpected character 'l' while parsing major version number",
            "implementation-ambiguous /tools/0: a tool needs exactly one of `source` and `spec`, \
             but has neither",
            "document-invalid /tools/0/extra: unknown field `extra`",
            "document-invalid /tools/1: expected an object, got the number 7",
            "document-invalid /tools/2/source/target: `target` is `t`, but `server` is `s`",
            "document-invalid /servers: expected an array, got an object",
            "document-invalid /surplus: unknown field `surplus`",
        ]
    );
}

#[test]
fn parse_rejects_unknown_schema_versions() {
    let unknown = [json!("3.0"), json!("2.1"), json!("0.9"), json!(2), json!({})];
    let found = unknown.map(|version| {
        let found = refused(&json!({ "schemaVersion": version, "tools": [] }));
        assert_eq!(found.len(), 1, "{found:?}");
        found.concat()
    });
    insta::assert_snapshot!(found.join("\n"), @r#"
    document-invalid /schemaVersion: the registry file's schema version is the string "3.0"; this program reads "2.0" and "1.0"
    document-invalid /schemaVersion: the registry file's schema version is the string "2.1"; this program reads "2.0" and "1.0"
    document-invalid /schemaVersion: the registry file's schema version is the string "0.9"; this program reads "2.0" and "1.0"
    document-invalid /schemaVersion: the registry file's schema version is the number 2; this program reads "2.0" and "1.0"
    document-invalid /schemaVersion: the registry file's schema version is an object; this program reads "2.0" and "1.0"
    "#);
    let missing = "document-invalid : the required field `schemaVersion` is missing";
    assert_eq!(refused(&json!({})), [missing]);
    assert_eq!(refused(&json!({ "servers": [], "tools": [] })), [missing]);
    let newer = json!({ "name": "t", "source": { "server": "s", "serverVersion": "1.0.0" } });
    assert_eq!(refused(&json!({ "tools": [newer] })), [missing]);
    assert_eq!(refused(&json!([])), ["document-invalid : expected an object, got an array"]);
    let error = RegistryFile::parse(b"{\n  \"tools\": [,] }").unwrap_err();
    assert!(line(&error.diagnostics[0]).contains("line 2 column 13"), "{error}");
}

#[test]
fn v1_file_parses_with_migration_warnings() {
    let file = json!({ "tools": [
        { "name": "search", "source": { "target": "backend", "tool": "search" } },
        { "name": "find", "source": { "target": "backend", "tool": "lookup", "defaults": { "n": 1 } } },
        { "name": "both", "version": "2.0.0",
          "spec": { "pipeline": { "steps": [{ "id": "a", "operation": { "tool": { "name": "search" } } }] } } },
    ] });
    let file = read(&file);
    assert_eq!(
        proposals(&file),
        [
            "/tools/0/source server/backend@1.0.0",
            "/tools/1/source tool/lookup@1.0.0",
            "/tools/0 tool/search@1.0.0",
            "/tools/1 tool/find@1.0.0",
            "/tools/2 tool/both@2.0.0",
        ]
    );
    let empty = Catalog::empty(RegistryId::new("test"));
    let accepted = plan(&empty, file.proposals());
    assert_eq!(lines(&accepted.diagnostics), "");
    let warnings = lines(file.warnings());
    for expected in [
        "at \"/schemaVersion\": this is a registry file of version 1 (write \"schemaVersion\": \"2.0\"",
        "at \"/tools/0\": the tool has no version; 1.0.0 is assumed (add \"version\": \"1.0.0\")",
        "at \"/tools/0/source/target\": `target` is called `server` in version 2: \"backend\" \
         (write \"server\": \"backend\", \"serverVersion\": \"1.0.0\"",
        "at \"/tools/2\": the composition declares no dependencies \
         (add \"depends\": [{\"name\":\"search\",\"type\":\"tool\",\"version\":\"1.0.0\"}])",
        "at \"/tools/0/source\": the target `backend` is not a registered server (add to `servers`: ",
    ] {
        assert!(warnings.contains(expected), "{expected}\nnot in\n{warnings}");
    }
    insta::assert_snapshot!(warnings, @r#"
    warning[document-invalid] at "/schemaVersion": this is a registry file of version 1 (write "schemaVersion": "2.0" and give each tool a version; `registryctl import registry FILE --out NEW.json` converts the file)
    warning[document-invalid] at "/tools/0/source": the target `backend` is not a registered server (add to `servers`: {"name":"backend","version":"1.0.0","provides":[{"tool":"lookup","version":"1.0.0"},{"tool":"search","version":"1.0.0"}]})
    warning[document-invalid] at "/tools/0": the tool has no version; 1.0.0 is assumed (add "version": "1.0.0")
    warning[document-invalid] at "/tools/0/source/target": `target` is called `server` in version 2: "backend" (write "server": "backend", "serverVersion": "1.0.0", and register the server)
    warning[document-invalid] at "/tools/1": the tool has no version; 1.0.0 is assumed (add "version": "1.0.0")
    warning[document-invalid] at "/tools/1/source/target": `target` is called `server` in version 2: "backend" (write "server": "backend", "serverVersion": "1.0.0", and register the server)
    warning[document-invalid] at "/tools/2": the composition declares no dependencies (add "depends": [{"name":"search","type":"tool","version":"1.0.0"}])
    "#);
}

#[test]
fn v1_file_with_nested_implementation_parses() {
    let file = read(&json!({ "schemaVersion": "1.0", "tools": [
        { "name": "t", "implementation": { "source": { "target": "b", "tool": "t" } } },
    ] }));
    assert_eq!(proposals(&file), ["/tools/0/source server/b@1.0.0", "/tools/0 tool/t@1.0.0"]);
    let strict = json!({ "schemaVersion": "1.0", "surplus": 1, "tools": [{ "name": "t" }] });
    assert_eq!(
        refused(&strict),
        [
            "implementation-ambiguous /tools/0: a tool needs exactly one of `source` and `spec`, \
             but has neither",
            "document-invalid /surplus: unknown field `surplus`",
        ]
    );
    let source = json!({ "server": "s", "target": "t", "tool": "t" });
    let both = json!({ "schemaVersion": "1.0", "tools": [{ "name": "t", "source": source }] });
    let both = refused(&both);
    insta::assert_snapshot!(
        both[0],
        @"document-invalid /tools/0/source/target: `target` is `t`, but `server` is `s`"
    );
}

#[test]
fn parse_limits_number_of_problems() {
    let mut tool = json!({ "name": "t", "version": "1.0.0" });
    for i in 0..2 * limits::PROBLEMS {
        tool[format!("f{i}")] = json!(0);
    }
    let file = |tools: Value| json!({ "schemaVersion": "2.0", "tools": tools });
    assert_eq!(refused(&file(json!([tool]))).len(), limits::PROBLEMS);
    let many = file(vec![0; 2 * limits::PROBLEMS].into());
    assert_eq!(refused(&many).len(), limits::PROBLEMS);
}

#[test]
fn retired_entities_with_dependents_can_be_imported() {
    let forced = Notice { force_reason: Some("leaked keys".to_owned()), ..Notice::default() };
    let registered = [
        server("files", &["read"]),
        source_tool("read", "files"),
        set_with("server/files@1.0.0", Retired, forced),
    ];
    let before = catalog(&registered);
    for bytes in [write(&before), write_export(&before)] {
        let file = RegistryFile::parse(&bytes).unwrap();
        let plan = plan(&Catalog::empty(RegistryId::new("other")), file.proposals());
        assert!(plan.is_acceptable(), "{:?}", plan.diagnostics);
        assert_eq!(plan.changes().count(), 3);
    }
}

#[test]
fn write_round_trips_with_lifecycle() {
    let registered = [
        schema("A", &json!({ "type": "object" })),
        server("files", &["read"]),
        source_tool("read", "files"),
        agent("ns/a", &json!([])),
        set("server/files@1.0.0", Deprecated, Some("old")),
        set("agent/ns/a@1.0.0", Retired, None),
    ];
    let before = catalog(&registered);
    let bytes = write(&before);
    assert_eq!(bytes, write(&before.clone()));
    let file = RegistryFile::parse(&bytes).unwrap();
    assert_eq!(file.warnings(), []);
    let after = catalog(file.proposals());
    let lines = |catalog: &Catalog| -> Vec<String> {
        let records = catalog.iter();
        records.map(|(k, r)| format!("{k} {} {:?}", r.document.digest(), r.lifecycle)).collect()
    };
    assert_eq!(lines(&before), lines(&after));
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.starts_with(
        "{\n  \"schemaVersion\": \"2.0\",\n  \"schemas\": [\n    {\n      \"name\": \"A\""
    ));
}

/// `serde_json` keeps the order of the text in programs with `preserve_order`, and sorts by UTF-8 in others.
#[test]
fn write_sorts_open_json_by_utf16() {
    let open = json!({ "z": { "\u{e000}": 1, "😀": [{ "b": 2, "a": 3 }] }, "é": 4, "Z": 5 });
    let spec = json!({ "pipeline": { "steps": [] } });
    let registered = [
        schema("A", &json!({ "default": open })),
        with(&source_tool("t", "s"), json!({ "annotations": open, "_meta": { "m": open } })),
        tool("c", json!({ "metadata": open, "spec": spec })),
        with(&agent("a", &json!([])), json!({ "security": [open], "securitySchemes": open })),
        policy("p", json!({ "metadata": open })),
    ];
    let text = String::from_utf8(write(&catalog(&registered))).unwrap();
    let sorted = r#"{"Z":5,"z":{"😀":[{"a":3,"b":2}],"@":1},"é":4}"#.replace('@', "\u{e000}");
    let compact: String = text.split_whitespace().collect();
    assert_eq!(compact.matches(&sorted).count(), 7, "{text}");
}

/// `registry-dsl` tests its writer with the same files.
#[test]
fn write_equals_writer_of_registry_dsl() {
    for (name, source, written) in [
        (
            "registry-v2.json",
            include_str!("../../../../examples/registry-v2.json"),
            include_str!("../../../../registry-dsl/tests/data/registry-v2.json"),
        ),
        (
            "other-forms.normal.json",
            include_str!("../../../../registry-dsl/tests/data/other-forms.json"),
            include_str!("../../../../registry-dsl/tests/data/other-forms.normal.json"),
        ),
    ] {
        for source in [source, written] {
            let file = RegistryFile::parse(source.as_bytes()).unwrap();
            let text = String::from_utf8(write(&catalog(file.proposals()))).unwrap();
            let different = text.lines().zip(written.lines()).find(|(is, wanted)| is != wanted);
            assert!(text == written, "{name}: the first different line is {different:?}");
        }
    }
}
