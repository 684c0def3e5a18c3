//! MCP Apps of npm through the gateway: callers receive the definitions and results of the servers.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
};

use acceptance::{Gateway, GatewayOptions, ctl, eventually, mcp::ModernClient};
use serde_json::{Value, json, value::RawValue};
use tempfile::TempDir;

use crate::conformance::official;

/// The registered names of the servers, with their packages.
const APPS: [(&str, &str); 3] = [
    ("basic", "server-basic-vanillajs"),
    ("budget", "server-budget-allocator"),
    ("threejs", "server-threejs"),
];

/// The command that starts a server over stdio.
fn program(package: &str) -> [String; 3] {
    let script = official().modules().join("@modelcontextprotocol").join(package);
    let script = script.join("dist/index.js");
    let text = |path: std::path::PathBuf| path.display().to_string();
    [text(official().node_path()), text(script), "--stdio".to_owned()]
}

/// The raw results of these requests, sent directly to a server.
fn directly(package: &str, requests: &[(&str, Value)]) -> Vec<Box<RawValue>> {
    let [node, script, stdio] = program(package);
    let mut command = Command::new(node);
    command.args([script, stdio]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = command.stdin(Stdio::piped()).spawn().expect("the server starts");
    let mut input = server.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(server.stdout.take().expect("a pipe")).lines();
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" } });
    let mut ask = |method: &str, params: &Value| {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        writeln!(input, "{request}").expect("the server reads");
        let line = lines.next().expect("an answer").expect("text");
        let answer: std::collections::HashMap<String, Box<RawValue>> =
            serde_json::from_str(&line).expect("JSON");
        answer.into_iter().find(|(name, _)| name == "result").expect("a result").1
    };
    ask("initialize", &hello);
    let results = requests.iter().map(|(method, params)| ask(method, params)).collect();
    server.kill().expect("the server ends");
    server.wait().expect("the server ends");
    results
}

/// The texts of the members of a list.
fn items(result: &str, list: &str) -> Vec<String> {
    let mut members: std::collections::HashMap<String, Box<RawValue>> =
        serde_json::from_str(result).expect("an object");
    let list = members.remove(list).expect("a list");
    let items: Vec<Box<RawValue>> = serde_json::from_str(list.get()).expect("a list");
    items.iter().map(|item| item.get().to_owned()).collect()
}

/// The registry file and the printed gateway target of `import mcp`.
fn imported(name: &str, package: &str, flags: &[&str]) -> (Value, String) {
    let command = program(package).map(|word| format!("'{word}'")).join(" ");
    let arguments = ["import", "mcp", "--stdio", &command, "--name", name];
    let out = ctl("http://127.0.0.1:1", &[&arguments, flags].concat());
    assert!(out.success(), "{out:?}");
    let target = out.stderr.lines().find(|line| line.starts_with("  - {")).expect("a target");
    (serde_json::from_str(&out.stdout).expect("a registry file"), format!("{target}\n"))
}

/// A gateway with these entities and targets, ready to call all of them.
async fn gateway(dir: &TempDir, file: &Value, targets: &[String]) -> (Gateway, GatewayOptions) {
    let path = dir.path().join("registry.json");
    std::fs::write(&path, file.to_string()).expect("the registry file is written");
    let options = GatewayOptions {
        source: format!("file://{}", path.display()),
        targets: format!("targets:\n{}", targets.concat()),
        runtime: None,
        more: String::new(),
    };
    let gateway = Gateway::start(&options);
    gateway.ready().await;
    gateway.upstreams_up(targets.len()).await;
    (gateway, options)
}

/// The registry file and the targets of all servers.
fn all_imported() -> (Value, Vec<String>) {
    let (mut file, mut targets) = (json!({ "schemaVersion": "2.0" }), Vec::new());
    for (name, package) in APPS {
        let (imported, target) = imported(name, package, &[]);
        for kind in ["servers", "tools"] {
            let all = file.as_object_mut().expect("an object").entry(kind).or_insert(json!([]));
            let more = imported[kind].as_array().expect("a list").clone();
            all.as_array_mut().expect("a list").extend(more);
        }
        targets.push(target);
    }
    (file, targets)
}

async fn ask(client: &ModernClient, method: &str, params: Value) -> acceptance::mcp::Answer {
    client.request(method, params).await.expect("the gateway answers")
}

#[tokio::test(flavor = "multi_thread")]
async fn apps_are_served_unchanged() {
    let (file, targets) = all_imported();
    let (mut tools, mut resources) = (Vec::new(), Vec::new());
    for (_, package) in APPS {
        let none = json!({});
        let lists = [("tools/list", none.clone()), ("resources/list", none)];
        let lists = directly(package, &lists);
        tools.extend(items(lists[0].get(), "tools"));
        resources.extend(items(lists[1].get(), "resources"));
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (gateway, _) = gateway(&dir, &file, &targets).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());

    // Equal bytes, except for the registered version.
    let listed = ask(&client, "tools/list", json!({})).await;
    let version = r#""registry/version":"1.0.0""#;
    let same = |tool: String| {
        tool.replace(&format!(r#","_meta":{{{version}}}"#), "").replace(&format!(",{version}"), "")
    };
    let answer: std::collections::HashMap<String, Box<RawValue>> =
        serde_json::from_str(&listed.text).expect("an object");
    let text = answer["result"].get();
    let through: Vec<_> = items(text, "tools").into_iter().map(same).collect();
    assert_eq!(through, tools);

    let listed = ask(&client, "resources/list", json!({})).await;
    let through = listed.result()["resources"].as_array().expect("a list").clone();
    let mut direct: Vec<Value> =
        resources.iter().map(|text| serde_json::from_str(text).expect("JSON")).collect();
    direct.sort_by_key(|resource| resource["uri"].to_string());
    assert_eq!(through, direct);

    for (package, tool) in APPS.iter().zip(["get-time", "get-budget-data", "show_threejs_scene"]) {
        let tools = client.tools().await;
        let tool = tools.iter().find(|listed| listed["name"] == tool).expect("the tool is listed");
        let params = json!({ "uri": tool["_meta"]["ui"]["resourceUri"] });
        let direct = directly(package.1, &[("resources/read", params.clone())]);
        let direct: Value = serde_json::from_str(direct[0].get()).expect("JSON");
        let through = ask(&client, "resources/read", params).await;
        assert_eq!(through.result()["contents"], direct["contents"]);
    }
}

/// A text with digits replaced by zeros, because `get-time` returns the current time.
fn timeless(text: &str, tool: &str) -> String {
    let zero = |c: char| if c.is_ascii_digit() { '0' } else { c };
    if tool == "get-time" { text.chars().map(zero).collect() } else { text.to_owned() }
}

/// Equal bytes for clients before 2026-07-28. Newer results also have `resultType` and name the
/// responding program.
#[tokio::test(flavor = "multi_thread")]
async fn app_calls_return_server_results() {
    let (file, targets) = all_imported();
    let dir = tempfile::tempdir().expect("a directory");
    let (gateway, _) = gateway(&dir, &file, &targets).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    let scene = json!({ "code": "scene.add(new THREE.AxesHelper(2));", "height": 300 });
    let calls =
        [("get-time", json!({})), ("get-budget-data", json!({})), ("show_threejs_scene", scene)];
    for ((_, package), (tool, arguments)) in APPS.iter().zip(calls) {
        let params = json!({ "name": tool, "arguments": arguments });
        let direct = directly(package, &[("tools/call", params.clone())]);
        let direct = timeless(direct[0].get(), tool);
        assert!(direct.contains("\"structuredContent\""), "{tool}: {direct}");

        let request =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let post = reqwest::Client::new().post(gateway.mcp_url()).body(request.to_string());
        let answer = post.header("content-type", "application/json").send().await;
        let text = answer.expect("the gateway answers").text().await.expect("text");
        let answer: std::collections::HashMap<String, Box<RawValue>> =
            serde_json::from_str(&text).expect("an object");
        assert_eq!(timeless(answer["result"].get(), tool), direct, "{tool}");

        let through = client.call(tool, arguments).await;
        let through = timeless(&through.result().to_string(), tool);
        let mut through: Value = serde_json::from_str(&through).expect("JSON");
        let members = through.as_object_mut().expect("an object");
        assert_eq!(members.remove("resultType"), Some(json!("complete")), "{tool}");
        let meta = members.remove("_meta").expect("metadata");
        let names: Vec<_> = meta.as_object().expect("an object").keys().collect();
        assert_eq!(names, ["io.modelcontextprotocol/serverInfo"], "{tool}");
        let direct: Value = serde_json::from_str(&direct).expect("JSON");
        assert_eq!(through, direct, "{tool}");
    }
}

/// A registered server with one tool that registers no optional field.
fn budget(name: &str) -> (Value, Value) {
    let tool = format!("budget_{name}");
    let server = json!({ "name": name, "version": "1.0.0", "exposes": ["resources"],
        "provides": [{ "tool": tool, "version": "1.0.0" }] });
    let source = json!({ "server": name, "serverVersion": "1.0.0", "tool": "get-budget-data" });
    (server, json!({ "name": tool, "version": "1.0.0", "source": source }))
}

#[tokio::test(flavor = "multi_thread")]
async fn app_interfaces_of_two_servers_are_distinct() {
    let ((one, one_tool), (two, two_tool)) = (budget("one"), budget("two"));
    let file =
        json!({ "schemaVersion": "2.0", "servers": [one, two], "tools": [one_tool, two_tool] });
    let (_, target) = imported("one", "server-budget-allocator", &[]);
    let targets = [target.clone(), target.replace("server: one", "server: two")];
    let dir = tempfile::tempdir().expect("a directory");
    let (gateway, _) = gateway(&dir, &file, &targets).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    let known =
        ["ui://one+budget-allocator/mcp-app.html", "ui://two+budget-allocator/mcp-app.html"];
    eventually("both servers' interfaces are listed", || async {
        let listed = ask(&client, "resources/list", json!({})).await;
        let listed = listed.result()["resources"].as_array().expect("a list").clone();
        listed.iter().map(|resource| &resource["uri"]).eq(known)
    })
    .await;
    let tools = client.tools().await;
    let named: Vec<_> = tools.iter().map(|tool| &tool["_meta"]["ui"]["resourceUri"]).collect();
    assert_eq!(named, known);
    for uri in known {
        let read = ask(&client, "resources/read", json!({ "uri": uri })).await;
        assert_eq!(read.result()["contents"][0]["uri"], uri);
    }
    let shared = json!({ "uri": "ui://budget-allocator/mcp-app.html" });
    assert_eq!(ask(&client, "resources/read", shared).await.error_code(), -32602);
}

#[tokio::test(flavor = "multi_thread")]
async fn import_prints_and_exposes_features() {
    let command = program("server-basic-vanillajs").map(|word| format!("'{word}'")).join(" ");
    let import = |flags: &[&str]| {
        let arguments = ["import", "mcp", "--stdio", &command, "--name", "basic"];
        ctl("http://127.0.0.1:1", &[&arguments, flags].concat())
    };
    let usual = import(&[]);
    for expected in [
        "found: 1 tool, 1 resource\n",
        "imported: 1 server, 1 tool\n",
        "exposed in addition to tools: resources\n",
        "targets:\n  - { server: basic, version: \"1.0.0\", stdio: { command: ",
    ] {
        assert!(usual.stderr.contains(expected), "{expected}: {}", usual.stderr);
    }
    assert!(usual.stdout.contains("\"exposes\""), "{}", usual.stdout);
    let tools_only = import(&["--tools-only"]);
    assert!(!tools_only.stdout.contains("exposes"), "{}", tools_only.stdout);
    let none = "exposed in addition to tools: none\n";
    assert!(tools_only.stderr.contains(none), "{tools_only:?}");
    let outcome: Value = serde_json::from_str(&import(&["--output", "json"]).stdout).expect("JSON");
    assert_eq!(
        (&outcome["found"]["tools"], &outcome["found"]["resources"]),
        (&json!(1), &json!(1))
    );
    assert!(outcome["target"].as_str().is_some_and(|text| text.contains("version: \"1.0.0\"")));
}

#[tokio::test(flavor = "multi_thread")]
async fn exposure_follows_the_target_after_registration() {
    let (file, target) = imported("basic", "server-basic-vanillajs", &["--tools-only"]);
    let dir = tempfile::tempdir().expect("a directory");
    let (gateway, options) = gateway(&dir, &file, std::slice::from_ref(&target)).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    let list = || ask(&client, "resources/list", json!({}));
    assert_eq!(list().await.error_code(), -32601);
    let exposing = target.replace("server: basic", "exposes: [resources], server: basic");
    let targets = format!("targets:\n{exposing}");
    gateway.configure(&GatewayOptions { targets, ..options.clone() });
    eventually("the resources are exposed", || async {
        let listed = list().await.message;
        listed["result"]["resources"][0]["uri"] == "ui://get-time/mcp-app.html"
    })
    .await;
    gateway.configure(&options);
    eventually("the resources are hidden again", || async {
        list().await.message["error"]["code"] == -32601
    })
    .await;
    assert_eq!(gateway.process.logged(&[" target.era="]).len(), 1, "it connects once");
}
