//! Tests of the parser of client files.

use super::*;

fn variable(name: &str) -> Option<String> {
    match name {
        "TOKEN" => Some("secret".to_owned()),
        "HOME" => Some("/home/u".to_owned()),
        "BLANK" => Some(String::new()),
        _ => None,
    }
}

fn read(text: &str) -> McpServers {
    parse(text, &variable).unwrap()
}

fn problem(server: &str) -> String {
    let found = read(&format!("{{\"mcpServers\": {{\n\"a\": {server} }} }}"));
    assert!(found.servers.is_empty(), "{found:?}");
    assert_eq!(found.problems.len(), 1, "{found:?}");
    found.problems[0].to_string()
}

#[test]
fn three_forms_have_the_same_servers() {
    let server = r#""command": "npx", "args": ["-y", "files"]"#;
    let forms = [
        format!(r#"{{ "mcpServers": {{ "files": {{ {server} }} }} }}"#),
        format!(r#"{{ "servers": {{ "files": {{ "type": "stdio", {server} }} }}, "inputs": [] }}"#),
        format!(r#"{{ "servers": [{{ "name": "files", {server} }}] }}"#),
        format!("// a comment\n[{{ \"name\": \"files\", {server}, }},]"),
    ];
    let expected = McpServer {
        name: Name::parse(Kind::Server, "files").unwrap(),
        transport: Transport::Stdio {
            command: "npx".into(),
            args: vec!["-y".into(), "files".into()],
            env: BTreeMap::new(),
            cwd: None,
        },
        timeout: Duration::from_mins(1),
        auto_start: true,
        expanded_fields: Vec::new(),
    };
    for form in forms {
        let found = McpServers { servers: vec![expected.clone()], ..McpServers::default() };
        assert_eq!(read(&form), found, "{form}");
    }
}

#[test]
fn all_fields_are_read() {
    let found = read(
        r#"{ "mcpServers": {
            "Local Files": { "command": "${userHome}/bin/files", "cwd": "/srv", "timeout": 30000,
                "autoStart": false, "env": { "A": "${TOKEN}", "N": 7, "B": "${MISSING:-d}",
                "E": "${BLANK:-d}" }, "autoApprove": ["x"] },
            "remote": { "type": "http", "url": "https://h/mcp",
                "headers": { "Authorization": "Bearer ${env:TOKEN}" } },
            "off": { "command": "x", "disabled": true } } }"#,
    );
    assert_eq!(found.problems, []);
    let [local, remote] = &found.servers[..] else { panic!("{found:?}") };
    assert_eq!((local.name.as_str(), local.auto_start), ("Local-Files", false));
    assert_eq!((local.timeout, remote.timeout), (Duration::from_secs(30), URL_TIMEOUT));
    let Transport::Stdio { command, env, cwd, .. } = &local.transport else { panic!("{local:?}") };
    assert_eq!((command.as_str(), cwd.as_deref()), ("/home/u/bin/files", Some("/srv".as_ref())));
    let values: Vec<_> = env.iter().map(|(n, v)| (n.as_str(), v.value.as_str())).collect();
    assert_eq!(values, [("A", "secret"), ("B", "d"), ("E", "d"), ("N", "7")]);
    let Transport::Http { url, headers } = &remote.transport else { panic!("{remote:?}") };
    let authorization = &headers["Authorization"];
    assert_eq!((url.as_str(), authorization.value.as_str()), ("https://h/mcp", "Bearer secret"));
    assert_eq!(authorization.variable(), Some(("Bearer ", "TOKEN")));
    assert_eq!(env["B"].variable(), None);
    assert!(!format!("{found:?}").contains("secret"));
}

#[test]
fn invalid_servers_are_left_out_with_line_pointer_and_remedy() {
    for (server, expected) in [
        ("{}", "line 2, /mcpServers/a: the server has neither `command` nor `url`; add one"),
        ("7", "the server is not an object"),
        (r#"{"command": ""}"#, "/mcpServers/a/command: empty; write a value"),
        (r#"{"command": 7, "args": "x"}"#, "/mcpServers/a/args: not a list"),
        (r#"{"command": "x", "url": "http://h"}"#, "both `command` and `url`"),
        (r#"{"url": "h/mcp"}"#, "not a URL"),
        (r#"{"url": "http://h\n/mcp"}"#, "not a URL"),
        (r#"{"type": "http", "command": "x"}"#, "the type is `http`"),
        (r#"{"type": "pipe", "command": "x"}"#, "`pipe` is not a type"),
        (r#"{"command": "x", "timeout": 60}"#, "write 60000 for 60 s"),
        (r#"{"command": "x", "timeout": "1"}"#, "not a time in milliseconds from 100"),
        (r#"{"command": "x", "autoStart": "no"}"#, "neither `true` nor `false`"),
        (r#"{"command": "x", "env": {"K": "${UNSET}"}}"#, "variable `UNSET` is not set; set it"),
        (r#"{"command": "x", "env": {"K": "${input:key}"}}"#, "VS Code only"),
        (r#"{"command": "x", "args": ["${workspaceFolder}/a"]}"#, "write the path of the folder"),
        (r#"{"command": "x", "args": [["a"]]}"#, "not a string"),
        (
            r#"{"command": "x", "env": {"A=B": "v"}}"#,
            "/mcpServers/a/env/A=B: `A=B` is not the name of",
        ),
        (r#"{"command": "x", "envFile": ".env"}"#, "`envFile` is not read"),
        ("{\"command\": \"x\", \"cwd\": \"a\\u0000\"}", "NUL"),
    ] {
        let found = problem(server);
        assert!(found.contains(expected), "{server}: {found}");
    }
}

#[test]
fn sse_type_is_read_with_a_warning() {
    let found = read(
        "{\"mcpServers\": {\n\"a\": { \"type\": \"sse\", \"url\": \"http://h/sse\" },\n\"b\": { \"type\": \"http\", \"url\": \"http://h\" }}}",
    );
    assert_eq!((found.servers.len(), found.problems.len()), (2, 0));
    let [warning] = &found.warnings[..] else { panic!("{found:?}") };
    assert_eq!((warning.line, warning.pointer.as_str()), (2, "/mcpServers/a/type"));
    insta::assert_snapshot!(
        warning.message,
        @"the type `sse` (HTTP+SSE of 2024-11-05) is not supported, and the URL is called with \
          Streamable HTTP; write `http` and the server's URL for Streamable HTTP, which often ends \
          with `/mcp`"
    );
}

#[test]
fn misspelled_fields_have_suggestions() {
    let found = read(
        r#"{"mcpServers": {"a": {"command": "x", "timeuot": 100, "alwaysAllow": [], "trust": true}}}"#,
    );
    assert_eq!((found.servers.len(), found.problems.len()), (1, 0));
    let [warning] = &found.warnings[..] else { panic!("{found:?}") };
    assert_eq!(warning.pointer, "/mcpServers/a/timeuot");
    assert!(warning.message.contains("`timeout`"), "{warning}");
}

#[test]
fn workspace_folder_is_the_folder_above_the_settings() {
    for (file, expected) in [
        ("/w/app/.vscode/mcp.json", "/w/app"),
        ("/w/app/.cursor/mcp.json", "/w/app"),
        ("/w/app/mcp.json", "/w/app"),
    ] {
        assert_eq!(workspace_folder(Path::new(file)).unwrap(), Path::new(expected), "{file}");
    }
    let text = r#"{"servers": {"a": {"command": "${workspaceFolder}/run"}}}"#;
    let folder = |name: &str| (name == WORKSPACE_FOLDER).then(|| "/w/app".to_owned());
    let found = parse(text, &folder).unwrap();
    let Transport::Stdio { command, .. } = &found.servers[0].transport else { panic!("{found:?}") };
    assert_eq!(command, "/w/app/run");
    let text = expand::expand("${workspaceFolder}", &folder).unwrap();
    assert_eq!(text.variable(), None);
}

#[test]
fn all_server_lists_of_a_file_are_read() {
    let found = read(
        r#"{"servers": {"a": {"command": "1"}, "b": {"command": "2"}}, "mcpServers": {"a": {"command": "3"}},
            "mcpServers": {"c": {"command": "4"}}}"#,
    );
    let names: Vec<_> = found.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["a", "c", "b"]);
    let [problem] = &found.problems[..] else { panic!("{found:?}") };
    assert_eq!(problem.pointer, "/servers/a");
    insta::assert_snapshot!(
        problem.message,
        @"`a` is the name of an earlier server; rename one of them"
    );
}

#[test]
fn servers_of_projects_are_reported() {
    let projects = r#""projects": {"/w": {"mcpServers": {"b": {"command": "2"}}}, "/v": {}}"#;
    let found = read(&format!(r#"{{"mcpServers": {{"a": {{"command": "1"}}}}, {projects}}}"#));
    assert_eq!(found.servers.len(), 1);
    let [warning] = &found.warnings[..] else { panic!("{found:?}") };
    assert_eq!(warning.pointer, "/projects");
    insta::assert_snapshot!(
        warning.message,
        @"the servers of 1 projects of Claude Code are not read; copy the servers that you need to \
          `mcpServers`"
    );
    let only = parse(&format!(r#"{{"mcpServers": {{}}, {projects}}}"#), &variable);
    assert_eq!(only, Err(InvalidFile::OnlyProjects));
    let none = read(r#"{"mcpServers": {"a": {"command": "1"}}, "projects": {"/v": {}}}"#);
    assert_eq!(none.warnings, []);
}

#[test]
fn summary_names_ten_conflicts() {
    let name = |name: &str| Name::parse(Kind::Server, name).unwrap();
    let conflict =
        |i: usize| Conflict { tool: format!("t{i}"), server: name("b"), owner: name("a") };
    let conflicts: Vec<_> = (0..12).map(conflict).collect();
    assert_eq!(summary(&[]), None);
    assert_eq!(summary(&conflicts[..1]).unwrap(), conflicts[0].to_string());
    let all = summary(&conflicts).unwrap();
    insta::assert_snapshot!(
        all,
        @"12 tools are left out because earlier servers have tools of these names: `t0` of b (also \
          of a), `t1` of b (also of a), `t2` of b (also of a), `t3` of b (also of a), `t4` of b \
          (also of a), `t5` of b (also of a), `t6` of b (also of a), `t7` of b (also of a), `t8` \
          of b (also of a), `t9` of b (also of a), and 2 more; `--tool-prefix always` keeps all of \
          them as SERVER_TOOL"
    );
}

#[test]
fn variables_without_a_reference_are_listed() {
    let fields = |server: &str| {
        let found = read(&format!("{{\"mcpServers\": {{\"a\": {server}}}}}"));
        assert_eq!(found.problems, []);
        found.servers[0].expanded_fields.clone()
    };
    let kept = r#"{ "command": "x", "env": { "A": "${TOKEN}", "B": "p ${env:TOKEN}", "C": "${userHome}", "D": "$" } }"#;
    assert!(fields(kept).is_empty());
    let mixed = r#"{ "command": "${userHome}/x", "args": ["a", "${TOKEN}"], "cwd": "${HOME}",
        "env": { "A": "${TOKEN:-none}", "B": "pre ${env:TOKEN} post", "C/D": "${HOME}${TOKEN}" } }"#;
    assert_eq!(fields(mixed), ["args/1", "env/A", "env/B", "env/C~1D", "cwd", "command"]);
    let remote = r#"{ "url": "https://h/${TOKEN}", "headers": { "A": "${TOKEN};" } }"#;
    assert_eq!(fields(remote), ["headers/A", "url"]);
}

#[test]
fn shell_expansions_are_literal_text() {
    let script = r#"{ "command": "sh", "args": ["-c", "echo ${line#x} ${a b} ${A ${TOKEN}"] }"#;
    let found = read(&format!("{{\"mcpServers\": {{\"a\": {script}}}}}"));
    assert_eq!(found.problems, []);
    let Transport::Stdio { args, .. } = &found.servers[0].transport else { panic!("{found:?}") };
    assert_eq!(args[1], "echo ${line#x} ${a b} ${A secret");
    assert_eq!(found.servers[0].expanded_fields, ["args/1"]);
    let literal = read(r#"[{ "name": "a", "command": "sh", "args": ["${line#x}"] }]"#);
    assert!(literal.servers[0].expanded_fields.is_empty(), "{literal:?}");
}

#[test]
fn user_home_is_a_reference_to_home() {
    let text = expand::expand("${userHome}", &variable).unwrap();
    assert_eq!(text.variable(), Some(("", "HOME")));
}

#[test]
fn names_of_two_servers_are_reported_and_the_first_is_kept() {
    let found = read(
        "{\"servers\": {\n\"a b\": {\"command\": \"1\"},\n\"a-b\": {\"command\": \"2\"},\n\"a b\": {\"command\": \"3\"}, \"…\": {}}}",
    );
    assert_eq!(found.servers.len(), 1);
    let said: Vec<_> = found.problems.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(said.join("\n"), @"
    line 3, /servers/a-b: `a-b` and `a b` are both named `a-b`; rename one of them
    line 4, /servers/a b: `a b` is the name of an earlier server; rename one of them
    line 4, /servers/…: `…` has no ASCII letter or digit; give the server another name
    ");
}

#[test]
fn files_without_servers_are_errors() {
    let error = |text: &str| parse(text, &variable).unwrap_err();
    for (text, expected) in [
        ("", InvalidFile::Form),
        ("  // nothing", InvalidFile::Form),
        ("7", InvalidFile::Form),
        (r#"{"other": {}}"#, InvalidFile::Form),
        (r#"{"mcpServers": 7}"#, InvalidFile::Form),
        (r#"{"mcpServers": {}}"#, InvalidFile::Empty),
        ("[]", InvalidFile::Empty),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
    let syntax = error("{\n  \"mcpServers\": {]").to_string();
    assert!(syntax.starts_with("line 2, column "), "{syntax}");
    let many: Vec<_> = (0..=SERVERS).map(|i| format!(r#"{{"name": "s{i}"}}"#)).collect();
    assert_eq!(error(&format!("[{}]", many.join(","))), InvalidFile::TooMany(SERVERS + 1));
    assert!(parse(&"[".repeat(100_000), &variable).is_err());
}
