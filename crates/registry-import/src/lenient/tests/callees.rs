//! Steps that name the server and the version of their tool.

use registry_core::{Catalog, RegistryFile, RegistryId, rules::plan};
use serde_json::{Value, json};

use super::{accepted, import_registry_file, lines};
use crate::{Imported, RepairedBy};

fn tool(name: &str, version: &str, source: &str) -> Value {
    let [server, server_version, tool] = source.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{source}")
    };
    json!({ "name": name, "version": version,
        "source": { "server": server, "serverVersion": server_version, "tool": tool } })
}

/// A file with these tools and a composition that calls each of these in a step.
fn file(tools: &[Value], calls: &[Value], depends: &Value) -> Value {
    let step = |(i, call): (usize, &Value)| json!({ "id": format!("s{i}"), "operation": { "tool": call } });
    let steps: Vec<_> = calls.iter().enumerate().map(step).collect();
    let mut all = vec![json!({ "name": "both", "version": "1.0.0", "depends": depends,
        "spec": { "pipeline": { "steps": steps } } })];
    all.extend_from_slice(tools);
    json!({ "schemaVersion": "2.0", "tools": all })
}

fn search_tools() -> [Value; 2] {
    [tool("search", "1.0.0", "docs 1.0.0 search"), tool("search", "2.0.0", "wiki 1.0.0 search")]
}

fn depends_of(found: &Imported) -> Vec<String> {
    let depends = found.draft.tools[0]["depends"].as_array().unwrap();
    depends.iter().map(|d| format!("{}@{}", d["name"], d["version"]).replace('"', "")).collect()
}

fn called(found: &Imported, step: usize) -> &Value {
    &found.draft.tools[0]["spec"]["pipeline"]["steps"][step]["operation"]["tool"]
}

/// Asserts that the import reports exactly this for review and the registry rejects the result.
fn is_left(found: &Imported, expected: &str) {
    let person: Vec<_> =
        lines(found).into_iter().filter(|line| line.starts_with("Person")).collect();
    let [line] = &person[..] else { panic!("{expected}\nnot alone in\n{person:#?}") };
    assert!(line.contains(expected), "{expected}\nnot in\n{line}");
    let is_accepted = RegistryFile::from_value(&found.draft.to_value()).is_ok_and(|file| {
        plan(&Catalog::empty(RegistryId::new("test")), file.proposals()).is_acceptable()
    });
    assert!(!is_accepted, "{found:?}");
}

#[test]
fn step_binds_the_version_of_its_server() {
    let mut said = Vec::new();
    for (server, version) in [("docs", "1.0.0"), ("wiki", "2.0.0")] {
        for member in ["server", "target"] {
            let call = json!({ "name": "search", member: server });
            let found = import_registry_file(&file(&search_tools(), &[call], &json!([])));
            accepted(&found);
            assert_eq!(depends_of(&found), [format!("search@{version}")]);
            assert_eq!(*called(&found, 0), json!({ "name": "search" }));
            said.push(lines(&found).swap_remove(0));
        }
    }
    insta::assert_snapshot!(said.join("\n"), @"
    Import /tools/0/spec/pipeline/steps/0/operation/tool/server: a step names `search` of the server `docs`; it calls the tool `search`, version 1.0.0
    Import /tools/0/spec/pipeline/steps/0/operation/tool/target: a step names `search` of the server `docs`; it calls the tool `search`, version 1.0.0
    Import /tools/0/spec/pipeline/steps/0/operation/tool/server: a step names `search` of the server `wiki`; it calls the tool `search`, version 2.0.0
    Import /tools/0/spec/pipeline/steps/0/operation/tool/target: a step names `search` of the server `wiki`; it calls the tool `search`, version 2.0.0
    ");
}

#[test]
fn step_binds_the_said_server_version() {
    let tools = [
        tool("search", "1.0.0", "docs 1.0.0 search"),
        tool("search", "2.0.0", "docs 2.0.0 search"),
    ];
    let call = |member: &str, version: &str| json!({ "name": "search", "server": "docs", member: version });
    for (member, said, version) in [
        ("serverVersion", "1.0.0", "1.0.0"),
        ("serverVersion", "v2.0", "2.0.0"),
        ("version", "1.0.0", "1.0.0"),
    ] {
        let found = import_registry_file(&file(&tools, &[call(member, said)], &json!([])));
        accepted(&found);
        assert_eq!(depends_of(&found), [format!("search@{version}")]);
    }
    for (member, said, expected) in [
        (
            "serverVersion",
            "9.0.0",
            "`search` of the server `docs@9.0.0`, which no tool of the file is",
        ),
        ("version", "9.0.0", "`search@9.0.0` of the server `docs`, which no tool of the file is"),
        ("serverVersion", "latest", "`serverVersion` of a step is `latest`, which is not an exact"),
    ] {
        let call = call(member, said);
        let found = import_registry_file(&file(&tools, std::slice::from_ref(&call), &json!([])));
        is_left(&found, expected);
        assert_eq!(*called(&found, 0), call, "the step is unchanged");
        assert_eq!(depends_of(&found), [""; 0]);
    }
}

#[test]
fn two_versions_of_a_name_are_left_to_a_person() {
    let server = |server: &str| json!({ "name": "search", "server": server });
    let version = |version: &str| json!({ "name": "search", "version": version });
    let declared = json!([{ "type": "tool", "name": "search", "version": "2.0.0" }]);
    for (calls, depends) in [
        (vec![server("docs"), server("wiki")], json!([])),
        (vec![version("1.0.0"), version("2.0.0")], json!([])),
        (vec![version("1.0.0")], declared.clone()),
        (vec![server("docs")], declared),
    ] {
        let found = import_registry_file(&file(&search_tools(), &calls, &depends));
        is_left(&found, "but the composition depends on `search@");
        assert_eq!(*called(&found, calls.len() - 1), *calls.last().unwrap());
        assert_eq!(depends_of(&found).len(), 1);
    }
}

#[test]
fn several_fitting_tools_are_listed_unless_one_is_declared() {
    let tools = [
        tool("search", "1.0.0", "docs 1.0.0 search"),
        tool("search", "1.1.0", "docs 1.0.0 search"),
    ];
    let call = [json!({ "name": "search", "server": "docs" })];
    let found = import_registry_file(&file(&tools, &call, &json!([])));
    is_left(
        &found,
        "`search@1.0.0` (`search` of `docs@1.0.0`), `search@1.1.0` (`search` of `docs@1.0.0`)",
    );
    let declared = json!([{ "type": "tool", "name": "search", "version": "1.0.0" }]);
    let found = import_registry_file(&file(&tools, &call, &declared));
    accepted(&found);
    assert_eq!(depends_of(&found), ["search@1.0.0"]);
}

#[test]
fn registered_name_and_server_name_are_both_candidates() {
    let archive = tool("delete", "1.0.0", "docs 1.0.0 archive");
    let call = [json!({ "name": "delete", "server": "docs" })];
    let tools = [archive.clone(), tool("erase", "1.0.0", "docs 1.0.0 delete")];
    let found = import_registry_file(&file(&tools, &call, &json!([])));
    is_left(
        &found,
        "`delete@1.0.0` (`archive` of `docs@1.0.0`), `erase@1.0.0` (`delete` of `docs@1.0.0`)",
    );
    let tools = [archive, tool("archive", "1.0.0", "docs 1.0.0 archive")];
    let call = [json!({ "name": "archive", "server": "docs" })];
    let found = import_registry_file(&file(&tools, &call, &json!([])));
    accepted(&found);
    assert_eq!(depends_of(&found), ["archive@1.0.0"]);
}

#[test]
fn added_tool_is_of_the_said_server_version() {
    let mut with_servers = file(
        &[tool("search", "1.0.0", "docs 1.0.0 search"), tool("docs_read", "1.0.0", "x 1.0.0 y")],
        &[
            json!({ "name": "search", "server": "docs", "serverVersion": "2.0.0" }),
            json!({ "name": "read", "server": "docs" }),
            json!({ "name": "search", "server": "new", "serverVersion": "3.0.0" }),
        ],
        &json!([]),
    );
    let server = |version: &str, provides: Value| json!({ "name": "docs", "version": version, "provides": provides });
    let read = |version: &str| json!({ "tool": "read", "version": version });
    with_servers["servers"] =
        json!([server("1.0.0", json!([])), server("2.0.0", json!([read("1.5.0")]))]);
    let found = import_registry_file(&with_servers);
    accepted(&found);
    assert_eq!(depends_of(&found), ["docs_search@1.0.0", "read@1.5.0", "new_search@1.0.0"]);
    let source = |name: &str| {
        let tool = found.draft.tools.iter().find(|tool| tool["name"] == name).unwrap();
        format!("{} {}", tool["source"]["server"], tool["source"]["serverVersion"]).replace('"', "")
    };
    assert_eq!(
        ["docs_search", "read", "new_search"].map(source),
        ["docs 2.0.0", "docs 2.0.0", "new 3.0.0"]
    );
    with_servers["servers"][0]["provides"] = json!([read("1.0.0")]);
    is_left(
        &import_registry_file(&with_servers),
        "`read` of the server `docs`, which has several versions",
    );
}

#[test]
fn qualified_calls_of_unreadable_servers_are_not_dropped() {
    for (call, expected) in [
        (
            json!({ "name": "search", "serverVersion": "1.0.0" }),
            "the version of a server, but no server",
        ),
        (json!({ "name": "search", "server": 7 }), "the server of a step is not a text"),
        (
            json!({ "name": "search", "server": "docs", "target": "wiki" }),
            "a step names two servers",
        ),
    ] {
        let found =
            import_registry_file(&file(&search_tools(), std::slice::from_ref(&call), &json!([])));
        let said = lines(&found).join("\n");
        assert!(said.contains(expected), "{expected}\nnot in\n{said}");
        assert_eq!(*called(&found, 0), call);
    }
}

#[test]
fn unqualified_call_of_several_versions_is_for_a_person() {
    let found =
        import_registry_file(&file(&search_tools(), &[json!({ "name": "search" })], &json!([])));
    assert!(found.repairs.iter().any(|repair| repair.by == RepairedBy::Person), "{found:?}");
    let said = lines(&found).join("\n");
    let expected =
        "tool/search without a version; 2.0.0 is in `depends`; the file has 1.0.0, 2.0.0";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn second_version_of_an_agent_stays_in_its_step() {
    let agent = |version: &str| {
        json!({ "name": "writer", "version": version, "url": "http://a",
        "description": "d", "skills": [{ "id": "write", "name": "w", "description": "d", "tags": [] }] })
    };
    let step = |i: usize, version: &str| {
        json!({ "id": format!("s{i}"), "operation":
        { "agent": { "name": "writer", "skill": "write", "version": version } } })
    };
    let found = import_registry_file(
        &json!({ "schemaVersion": "2.0", "agents": [agent("1.0.0"), agent("2.0.0")],
        "tools": [{ "name": "both", "version": "1.0.0",
            "spec": { "pipeline": { "steps": [step(0, "1.0.0"), step(1, "2.0.0")] } } }] }),
    );
    is_left(&found, "but the composition depends on `writer@1.0.0`");
    assert_eq!(depends_of(&found), ["writer@1.0.0"]);
}
