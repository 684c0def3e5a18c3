//! The requirements of the orchestrator, FR-001 to FR-017 and SC-001 to SC-006, with real processes.
//! FR-001, FR-002 and FR-010 are also those of the classes in `examples/agents`.

mod examples;
mod lifecycle;
mod success;

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use acceptance::{CtlOutput, eventually, signal_process};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::{Standalone, run, write};

/// A modern server over stdio, as a shell script. It does not start while the file `NAME.down`
/// exists, and writes its process id to `NAME.pid`.
struct Server<'a> {
    name: &'a str,
    tools: &'a [&'a str],
    /// The shell command that answers a call.
    call: &'a str,
}

/// The time limit of the detection of an unreachable server.
const DETECTION: Duration = Duration::from_secs(10);
/// Answers with the text `done`.
const DONE: &str = "text done";
/// Never answers.
const SILENT: &str = ":";

/// A server whose tools answer `done`.
fn quick<'a>(name: &'a str, tools: &'a [&'a str]) -> Server<'a> {
    Server { name, tools, call: DONE }
}

impl Server<'_> {
    fn definitions(&self) -> Value {
        let schema = json!({ "type": "object", "properties": { "n": { "type": "number" } } });
        let tool = |name: &&str| {
            let description = format!("Does {name}.");
            json!({ "name": name, "description": description, "inputSchema": schema })
        };
        self.tools.iter().map(tool).collect()
    }

    /// Writes the script. Returns its entry of a servers file.
    fn entry(&self, dir: &Path) -> Value {
        let Self { name, call, .. } = self;
        let (at, tools) = (dir.display(), self.definitions());
        let script = format!(
            r#"test ! -e {at}/{name}.down || exit 7
echo $$ > {at}/{name}.pid
answer() {{ printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$1"; }}
text() {{ answer '{{"resultType":"complete","content":[{{"type":"text","text":"'"$1"'"}}]}}'; }}
while IFS= read -r line; do id=${{line#*\"id\":}}; id=${{id%%,*}}; case $line in
  *'"server/discover"'*) answer '{{"supportedVersions":["2026-07-28"]}}';;
  *'"initialize"'*) printf '{{"jsonrpc":"2.0","id":%s,"error":{{"code":-32601,"message":"Method not found"}}}}\n' "$id";;
  *'"tools/list"'*) answer '{{"tools":{tools}}}';;
  *'"tools/call"'*) printf '%s\n' "$line" >> {at}/{name}.calls; {call};;
  *'"error"'*) printf '%s\n' "$line" >> {at}/{name}.errors;;
esac; done"#
        );
        let file = dir.join(format!("{name}.sh"));
        fs::write(&file, script).expect("written");
        json!({ "command": "sh", "args": [file] })
    }
}

/// A standalone gateway with these servers and an admin address.
struct Scene {
    standalone: Standalone,
    scripts: TempDir,
    http: Client,
}

/// The start of a [`Scene`].
#[derive(Default)]
struct Start<'a> {
    servers: &'a [Server<'a>],
    /// The servers that cannot start.
    down: &'a [&'a str],
    arguments: &'a [&'a str],
    /// More lines of the configuration file.
    settings: &'a str,
}

impl Scene {
    fn start(start: &Start<'_>) -> Self {
        let scripts = tempfile::tempdir().expect("a directory");
        let entry = |server: &Server<'_>| (server.name.to_owned(), server.entry(scripts.path()));
        let entries: Map<_, _> = start.servers.iter().map(entry).collect();
        for server in start.down {
            let file = scripts.path().join(format!("{server}.down"));
            fs::write(file, "").expect("written");
        }
        let dir = tempfile::tempdir().expect("a directory");
        let settings = format!("admin: 127.0.0.1:0\n{}", start.settings);
        fs::write(dir.path().join("gateway.yaml"), settings).expect("written");
        write(dir.path(), &json!({ "mcpServers": entries }));
        let gateway = run(dir.path(), start.arguments);
        let standalone = Standalone { gateway, dir, log_start: 0 };
        Self { standalone, scripts, http: Client::new() }
    }

    /// Starts the servers, and waits for all of their tools.
    async fn listed(start: Start<'_>) -> Self {
        let scene = Self::start(&start);
        let tools: BTreeSet<_> = start.servers.iter().flat_map(|server| server.tools).collect();
        eventually("all tools are listed", || async {
            scene.standalone.tools().await.len() == tools.len()
        })
        .await;
        scene
    }

    async fn ready(servers: &[Server<'_>], arguments: &[&str]) -> Self {
        Self::listed(Start { servers, arguments, ..Start::default() }).await
    }

    fn admin(&self) -> String {
        let lines = self.standalone.gateway.logged(&["gateway_agent::server: ", " address="]);
        let line = lines.last().expect("the admin address is logged");
        let (_, address) = line.split_once(" address=").expect("an address");
        format!("http://{}", address.trim())
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("http://{}{path}", self.standalone.gateway.address());
        self.http.request(method, url).header("content-type", "application/json")
    }

    async fn get(&self, path: &str) -> Value {
        json_of(self.request(Method::GET, path)).await
    }

    /// The answer of `POST /execute`.
    async fn execute(&self, tool: &str, params: Value) -> Value {
        let body = json!({ "tool": tool, "params": params }).to_string();
        json_of(self.request(Method::POST, "/execute").body(body)).await
    }

    /// The target of a server at the admin address.
    async fn target(&self, server: &str) -> Value {
        let url = format!("{}/admin/targets", self.admin());
        let all = json_of(self.http.get(url)).await;
        let mut targets = all["targets"].as_array().expect("a list").iter();
        let id = format!("server/{server}@*");
        targets.find(|target| target["server"] == id.as_str()).cloned().expect("the target")
    }

    async fn metrics(&self) -> String {
        let answer = self.http.get(format!("{}/metrics", self.admin())).send().await;
        answer.expect("an answer").text().await.expect("text")
    }

    fn gateway_command(&self, arguments: &[&str]) -> CtlOutput {
        let admin = self.admin();
        let own = ["gateway", "--admin", &admin];
        acceptance::ctl("http://127.0.0.1:1", &[&own[..], arguments].concat())
    }

    /// The content of a file of a server.
    fn file(&self, server: &str, kind: &str) -> String {
        let path = self.scripts.path().join(format!("{server}.{kind}"));
        fs::read_to_string(path).unwrap_or_default()
    }

    /// Kills the child of a server, which can start again only after [`Scene::allow`].
    fn forbid(&self, server: &str) {
        fs::write(self.scripts.path().join(format!("{server}.down")), "").expect("written");
        self.kill(server);
    }

    /// Waits until the gateway has noticed the end of a child.
    async fn noticed(&self, server: &str) {
        let id = format!("target.server=server/{server}@*");
        eventually("the end of the child is noticed", || async {
            !self.standalone.gateway.logged(&[" wait_ms=", &id]).is_empty()
        })
        .await;
    }

    fn allow(&self, server: &str) {
        fs::remove_file(self.scripts.path().join(format!("{server}.down"))).expect("removed");
    }

    /// Kills the child of a server, which the gateway starts again.
    fn kill(&self, server: &str) {
        let id = self.file(server, "pid").trim().parse().expect("a process id");
        signal_process(id, "KILL");
    }

    /// The mark of a tool in the list of MCP clients.
    async fn availability(&self, tool: &str) -> Value {
        let tools = self.standalone.client().tools().await;
        let found = tools.into_iter().find(|listed| listed["name"] == tool).expect("it is listed");
        found["_meta"]["registry/availability"].clone()
    }
}

async fn json_of(request: RequestBuilder) -> Value {
    let text = request.send().await.expect("an answer").text().await.expect("text");
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn done() -> Value {
    json!({ "success": true, "data": { "content": [{ "type": "text", "text": "done" }] } })
}

#[tokio::test]
async fn fr_002_slow_call_blocks_no_other() {
    let slow = Server { name: "slow", tools: &["wait"], call: SILENT };
    let scene = Scene::ready(&[slow, quick("fast", &["go"])], &[]).await;
    let waiting = scene.execute("wait", json!({}));
    let quick = async {
        eventually("the slow call runs", || async { !scene.file("slow", "calls").is_empty() })
            .await;
        scene.execute("go", json!({})).await
    };
    tokio::select! {
        answer = waiting => panic!("the slow call was answered: {answer}"),
        answer = quick => assert_eq!(answer, done()),
    }
}

#[tokio::test]
async fn fr_003_servers_cannot_call_each_other() {
    let call = r#"printf '{"jsonrpc":"2.0","id":"own","method":"tools/call","params":{"name":"go","arguments":{}}}\n'; text done"#;
    let asking = Server { name: "asking", tools: &["ask"], call };
    let scene = Scene::ready(&[asking, quick("other", &["go"])], &[]).await;
    assert_eq!(scene.execute("ask", json!({})).await, done());
    eventually("the request is rejected", || async {
        scene.file("asking", "errors").contains(r#""own""#)
    })
    .await;
    assert_eq!(scene.file("other", "calls"), "");
}

#[tokio::test]
async fn fr_004_005_tools_of_servers_are_discovered_and_called() {
    let scene = Scene::ready(&[quick("one", &["a", "b"]), quick("two", &["c"])], &[]).await;
    let tools = scene.standalone.tools().await;
    assert_eq!(tools.into_iter().collect::<Vec<_>>(), ["a", "b", "c"]);
    for tool in ["a", "b", "c"] {
        assert_eq!(scene.execute(tool, json!({ "n": 1 })).await, done());
    }
}

#[tokio::test]
async fn fr_006_unreachable_server_is_marked_and_harms_no_other() {
    let scene = Scene::ready(&[quick("one", &["a"]), quick("two", &["b"])], &[]).await;
    assert_eq!(scene.availability("a").await, Value::Null);
    scene.forbid("one");
    eventually("its tools are marked", || async { scene.availability("a").await == "unavailable" })
        .await;
    assert_eq!(scene.availability("b").await, Value::Null);
    let failed = scene.execute("a", json!({})).await;
    assert_eq!(
        (&failed["success"], &failed["code"], &failed["reason"]),
        (&json!(false), &json!("AGENT_UNAVAILABLE"), &json!("UNREACHABLE")),
        "{failed}"
    );
    assert_eq!(scene.execute("b", json!({})).await, done());
    scene.allow("one");
    eventually("its tools are available", || async {
        scene.availability("a").await == Value::Null
    })
    .await;
    assert_eq!(scene.execute("a", json!({})).await, done());
}

#[tokio::test]
async fn fr_007_agents_and_their_tools_are_known() {
    let scene = Scene::ready(&[quick("one", &["a", "b"]), quick("two", &["c"])], &[]).await;
    let manifest = scene.get("/agents/one/manifest").await;
    assert_eq!(
        (&manifest["id"], &manifest["tools"], &manifest["requiresApproval"]),
        (&json!("one"), &json!(["a", "b"]), &json!(false)),
        "{manifest}"
    );
    let unknown = scene.get("/agents/three/manifest").await;
    assert_eq!(unknown["code"], "AGENT_NOT_FOUND", "{unknown}");
    for server in ["one", "two"] {
        assert_eq!(scene.target(server).await["lifecycle"], "running");
    }
}

#[tokio::test]
async fn fr_008_calls_are_routed_by_name_of_tool() {
    let scene = Scene::ready(&[quick("one", &["a.b"]), quick("two", &["c"])], &[]).await;
    for name in ["a.b", "a_dot_b"] {
        assert_eq!(scene.execute(name, json!({})).await, done());
    }
    assert_eq!(scene.file("one", "calls").lines().count(), 2);
    assert_eq!(scene.file("two", "calls"), "");
    let unknown = scene.execute("d", json!({})).await;
    assert_eq!(unknown["code"], "TOOL_NOT_FOUND", "{unknown}");
}

#[tokio::test]
async fn fr_011_destructive_calls_wait_for_approval() {
    let scene = Scene::ready(&[quick("one", &["erase"])], &["--approve", "destructive"]).await;
    let manifest = scene.get("/agents/one/manifest").await;
    assert_eq!(manifest["requiresApproval"], true, "{manifest}");
    let denied = scene.execute("erase", json!({ "n": 1 })).await;
    assert_eq!(denied["reason"], "APPROVAL_REQUIRED", "{denied}");
    assert_eq!(scene.file("one", "calls"), "");
    let listed = scene.gateway_command(&["approvals", "--output", "json"]).json();
    let id = listed[0]["id"].as_str().expect("an id");
    assert!(scene.gateway_command(&["approvals", "approve", "--yes", id]).success());
    assert_eq!(scene.execute("erase", json!({ "n": 1 })).await, done());
    let again = scene.execute("erase", json!({ "n": 1 })).await;
    assert_eq!(again["reason"], "APPROVAL_REQUIRED", "an approval allows one call: {again}");
}

/// The remote addresses of the TCP sockets of a process, as in `/proc/net/tcp`.
fn remote_addresses(process: u32) -> Vec<String> {
    let links = fs::read_dir(format!("/proc/{process}/fd")).expect("it runs").flatten();
    let target = |link: fs::DirEntry| fs::read_link(link.path()).ok();
    let sockets: Vec<_> = links.filter_map(target).collect();
    let is_own = |inode: &str| {
        let socket = format!("socket:[{inode}]");
        sockets.iter().any(|target| target.as_os_str() == socket.as_str())
    };
    let tables = ["tcp", "tcp6"].map(|table| {
        fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap_or_default()
    });
    let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let rows = tables.iter().flat_map(|table| table.lines().skip(1)).map(fields);
    rows.filter(|row| is_own(&row[9])).map(|row| row[2].clone()).collect()
}

#[tokio::test]
async fn fr_012_gateway_connects_to_no_other_machine() {
    let scene = Scene::ready(&[quick("one", &["a"])], &[]).await;
    assert_eq!(scene.execute("a", json!({})).await, done());
    let remote = remote_addresses(scene.standalone.gateway.id());
    assert!(!remote.is_empty(), "the listeners are found");
    // Hexadecimal in the byte order of the machine: 0.0.0.0, 127.0.0.1 and their forms of IPv6.
    let is_local = |address: &String| {
        let (ip, _) = address.split_once(':').expect("an address and a port");
        ip.trim_start_matches('0').is_empty() || ip.ends_with("0100007F") || ip.ends_with("1000000")
    };
    assert!(remote.iter().all(is_local), "{remote:?}");
}

#[tokio::test]
async fn fr_014_manifest_has_the_tools_for_a_model() {
    let scene = Scene::ready(&[quick("one", &["a.b"]), quick("two", &["c"])], &[]).await;
    let mcp = scene.get("/manifest?format=mcp").await;
    assert_eq!(mcp["tools"][0]["name"], "a.b", "{mcp}");
    assert_eq!(mcp["tools"][0]["description"], "Does a.b.");
    let openai = scene.get("/manifest?format=openai").await;
    let function = &openai["tools"][0]["function"];
    assert_eq!(function["parameters"]["properties"]["n"]["type"], "number", "{openai}");
    let anthropic = scene.get("/manifest?format=anthropic").await;
    assert_eq!(anthropic["tools"][1]["input_schema"]["type"], "object", "{anthropic}");
    let gemini = scene.get("/manifest?format=gemini").await;
    let declared = &gemini["tools"][0]["functionDeclarations"];
    assert_eq!(declared.as_array().map(Vec::len), Some(2), "{gemini}");
    // The intent of a model has the name of its manifest.
    let intended = function["name"].as_str().expect("a name");
    assert_eq!(scene.execute(intended, json!({ "n": 1 })).await, done());
}

#[tokio::test]
async fn fr_015_lifecycle_and_calls_are_logged() {
    let failing = Server { name: "bad", tools: &["fail"], call: "exit 3" };
    let scene = Scene::ready(&[quick("one", &["a"]), failing], &[]).await;
    scene.execute("a", json!({})).await;
    scene.execute("fail", json!({})).await;
    assert!(scene.gateway_command(&["health", "one@*"]).success());
    assert!(scene.gateway_command(&["stop", "--yes", "one@*"]).success());
    assert!(scene.gateway_command(&["start", "--yes", "one@*"]).success());
    let logged = |parts: &[&str]| !scene.standalone.gateway.logged(parts).is_empty();
    for parts in [
        &["target.server=server/one@*", "target.era="][..],
        &[" audit: ", "event=\"health\"", "target.server=server/one@*", "is_healthy=true"],
        &[" audit: ", "event=\"target\"", "target.server=server/one@*", "stopped"],
        &[" audit: ", "event=\"target\"", "target.server=server/one@*", "started"],
        &[" audit: ", "event=\"execute\"", "tool=\"a\"", "outcome=\"ok\""],
        &[" audit: ", "event=\"execute\"", "tool=\"fail\"", "outcome=\"upstream-failed\""],
    ] {
        eventually(&format!("logged: {parts:?}"), || async { logged(parts) }).await;
    }
}

#[tokio::test]
async fn fr_016_calls_are_counted_by_server_and_tool() {
    let scene = Scene::ready(&[quick("one", &["a"])], &[]).await;
    for _ in 0..3 {
        scene.execute("a", json!({})).await;
    }
    let metrics = scene.metrics().await;
    for series in [
        r#"gateway_calls_by_tool_total{tool="a",outcome="ok"} 3"#,
        r#"gateway_call_duration_by_tool_seconds_count{tool="a"} 3"#,
        r#"gateway_upstream_calls_total{server="one",outcome="ok"} 3"#,
        r#"gateway_upstream_call_duration_seconds_count{server="one"} 3"#,
    ] {
        assert!(metrics.contains(series), "{series}: {metrics}");
    }
}

#[tokio::test]
async fn fr_017_calls_have_correlation_ids() {
    let scene = Scene::ready(&[quick("one", &["a"])], &[]).await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let request = scene
        .request(Method::POST, "/execute")
        .header("x-request-id", "r-17")
        .header("traceparent", format!("00-{trace}-b7ad6b7169203331-01"))
        .body(r#"{"tool":"a"}"#);
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.headers()["x-request-id"], "r-17");
    assert!(scene.file("one", "calls").contains(trace), "the server receives the trace");
    let event = [" audit: ", "event=\"execute\"", "request_id=\"r-17\"", trace];
    eventually("the event has both", || async {
        !scene.standalone.gateway.logged(&event).is_empty()
    })
    .await;
}
