//! The official SDKs: each client uses each operation of each agent, in each version and binding of
//! both, through the gateway and directly. The records of the answers must be equal.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use acceptance::{Process, PythonEnvironment, tls::Files};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::{Agent, Scene, fixture, skill};
use crate::conformance::{official, run};

/// The answers of all steps of a client, by step.
type Record = Map<String, Value>;

/// An SDK with a client and an agent. The agent has each version in each binding.
struct Sdk {
    name: &'static str,
    versions: &'static [&'static str],
    bindings: &'static [&'static str],
}

const HTTP: &[&str] = &["JSONRPC", "HTTP+JSON"];
const GRPC: Dialect = Dialect { version: "1.0", binding: "GRPC" };

const PYTHON: Sdk = Sdk { name: "python", versions: &["1.0", "0.3"], bindings: HTTP };
const PYTHON_03: Sdk = Sdk { name: "python-0.3", versions: &["0.3"], bindings: HTTP };
const JAVASCRIPT: Sdk = Sdk { name: "javascript", versions: &["1.0", "0.3"], bindings: HTTP };
/// The agent of the SDK for Python over gRPC, which is a process of its own.
const PYTHON_GRPC: Sdk = Sdk { name: "python", versions: &["1.0"], bindings: &["GRPC"] };
static AGENTS: [Sdk; 4] = [PYTHON, PYTHON_03, JAVASCRIPT, PYTHON_GRPC];

/// The steps that must fail.
const FAILING: [&str; 7] = [
    "get_unknown",
    "cancel_unknown",
    "cancel_completed",
    "send_to_completed",
    "send_to_unknown",
    "subscribe_to_completed",
    "push",
];

/// An error of A2A, as the SDKs report it.
struct Cause {
    name: &'static str,
    code: i64,
    /// The status over HTTP+JSON.
    status: u16,
}

const TASK_NOT_FOUND: Cause = Cause { name: "TaskNotFoundError", code: -32001, status: 404 };
const TASK_NOT_CANCELABLE: Cause =
    Cause { name: "TaskNotCancelableError", code: -32002, status: 400 };
const PUSH_NOT_SUPPORTED: Cause =
    Cause { name: "PushNotificationNotSupportedError", code: -32003, status: 400 };
const UNSUPPORTED_OPERATION: Cause =
    Cause { name: "UnsupportedOperationError", code: -32004, status: 400 };
const INVALID_PARAMS: Cause = Cause { name: "InvalidParamsError", code: -32602, status: 400 };

/// A version and a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dialect {
    version: &'static str,
    binding: &'static str,
}

impl Dialect {
    /// The path of the dialect at an agent of the tests.
    fn path(self) -> String {
        let binding = if self.binding == "JSONRPC" { "jsonrpc" } else { "rest" };
        format!("{}/{binding}", self.version)
    }

    fn url(self, agent: &Process) -> String {
        // gRPC has no path.
        let path = if self == GRPC { String::new() } else { format!("{}/", self.path()) };
        format!("http://{}/{path}", agent.address())
    }

    fn is_old_rest(self) -> bool {
        self == Self { version: "0.3", binding: "HTTP+JSON" }
    }
}

impl Sdk {
    fn dialects(&self) -> Vec<Dialect> {
        let all = |version: &'static str| {
            self.bindings.iter().copied().map(move |binding| Dialect { version, binding })
        };
        self.versions.iter().copied().flat_map(all).collect()
    }

    /// The dialects of the client at the gateway.
    fn client_dialects(&self) -> Vec<Dialect> {
        let mut dialects = self.dialects();
        if self.name == PYTHON.name {
            dialects.push(GRPC);
        }
        dialects
    }

    /// The command of the client or the agent.
    fn program(&self, role: &str) -> Command {
        match self.name {
            "python" => {
                let mut python = official().python();
                python.arg(fixture(&format!("{role}.py")));
                if self.dialects() == [GRPC] {
                    python.arg("grpc");
                }
                python
            }
            "python-0.3" => {
                let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("a2a-0.3");
                std::fs::create_dir_all(&dir).expect("the target directory is writable");
                let environment = PythonEnvironment::of(&fixture("requirements-0.3.txt"), &dir);
                let mut python = environment.python();
                python.arg(fixture(&format!("{role}_0_3.py")));
                python
            }
            _ => {
                let mut node = official().node(&fixture(&format!("{role}.mjs")));
                node.arg(modules());
                node
            }
        }
    }

    /// The record of a step that fails with this error at the gateway.
    fn failure(&self, dialect: Dialect, step: &str, cause: &Cause) -> Value {
        let Cause { name, code, status } = *cause;
        match self.name {
            "python" => json!({ "error": name }),
            "python-0.3" if step == "subscribe_to_completed" => {
                // This SDK reads no errors instead of a stream.
                json!({ "error": "A2AClientHTTPError", "code": 400 })
            }
            "python-0.3" if dialect.binding == "JSONRPC" => {
                json!({ "error": "A2AClientJSONRPCError", "code": code })
            }
            "python-0.3" => json!({ "error": "A2AClientHTTPError", "code": status }),
            _ if name == INVALID_PARAMS.name => json!({ "error": "RequestMalformedError" }),
            _ => json!({ "error": name }),
        }
    }

    /// Runs the client, and returns the record of each peer.
    fn records(&self, peers: &[Value]) -> Vec<Record> {
        let mut client = self.program("client");
        client.arg(Value::from(peers).to_string());
        let printed = run(client);
        let records: Vec<_> = printed
            .lines()
            .map(|line| {
                let record: Result<Record, _> = serde_json::from_str(line);
                let mut record = record.unwrap_or_else(|e| panic!("{e}: {line}"));
                record.values_mut().for_each(unify_numbers);
                record
            })
            .collect();
        assert_eq!(records.len(), peers.len(), "{printed}");
        records
    }
}

/// Makes 2 and 2.0 equal. Agents with protocol buffers have only floating-point numbers.
fn unify_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let text = number.to_string();
            let whole = text.strip_suffix(".0").and_then(|whole| whole.parse::<i64>().ok());
            *value = whole.map_or(Value::Number(number.clone()), Value::from);
        }
        Value::Array(items) => items.iter_mut().for_each(unify_numbers),
        Value::Object(members) => members.values_mut().for_each(unify_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The agents that send push notifications: their commands and the paths of their dialects.
pub(super) fn pushing_agents() -> Vec<(&'static str, Command, Vec<String>)> {
    let agent = |sdk: Sdk| {
        let mut command = sdk.program("agent");
        command.arg("push");
        (sdk.name, command, sdk.dialects().into_iter().map(Dialect::path).collect())
    };
    [PYTHON, PYTHON_03].map(agent).into()
}

/// The agent over gRPC with TLS.
pub(super) fn grpc_agent(Files { certificate, key }: &Files) -> Command {
    let mut command = PYTHON_GRPC.program("agent");
    command.args([certificate, key]);
    command
}

/// The modules of the SDK for JavaScript.
fn modules() -> PathBuf {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| official().install(&fixture("npm"), "a2a"));
    installed.join("node_modules")
}

/// One agent per SDK, and a gateway that knows each dialect of each as an agent.
struct Agents {
    scene: Scene,
    processes: Vec<Process>,
    _dir: TempDir,
}

impl Agents {
    async fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let start = |sdk: &Sdk| {
            let name = format!("{}-{}", sdk.name, sdk.bindings[0]);
            Process::run(&name, dir.path(), sdk.program("agent"))
        };
        let processes: Vec<_> =
            AGENTS.iter().map(|sdk| start(sdk).unwrap_or_else(|e| panic!("{e}"))).collect();
        let mut agents = Vec::new();
        for (sdk, process) in AGENTS.iter().zip(&processes) {
            for dialect in sdk.dialects() {
                let agent = Agent::new(&name(sdk, dialect), &dialect.url(process), skills());
                agents.push(if dialect == GRPC { agent.over_grpc() } else { agent });
            }
        }
        let scene = Scene::start(&agents, "").await;
        Self { scene, processes, _dir: dir }
    }

    /// The records of a client without the gateway, in all dialects that it has in common with each
    /// agent, by the agent's SDK.
    fn direct(&self, client: &Sdk) -> BTreeMap<&'static str, Vec<Record>> {
        let mut direct = BTreeMap::<_, Vec<Record>>::new();
        for (sdk, process) in AGENTS.iter().zip(&self.processes) {
            let mut common = client.client_dialects();
            common.retain(|dialect| sdk.dialects().contains(dialect));
            let peer = |dialect: Dialect| {
                let base = dialect.url(process);
                // The agent over gRPC serves no card; the agent over HTTP has the same skills.
                let card = match dialect {
                    GRPC => Dialect { binding: "JSONRPC", ..GRPC }.url(&self.processes[0]),
                    _ => base.clone(),
                };
                json!({ "base": base, "version": dialect.version, "binding": dialect.binding,
                    "direct": card })
            };
            let peers: Vec<_> = common.into_iter().map(peer).collect();
            let records = client.records(&peers);
            records.iter().for_each(assert_meaningful);
            direct.entry(sdk.name).or_default().extend(records);
        }
        direct
    }
}

/// Asserts that exactly the right steps of a direct client fail. 0.3 has no list, and clients for
/// Python cannot read the bytes of the agent in JavaScript over HTTP+JSON of 0.3.
fn assert_meaningful(record: &Record) {
    for (step, answer) in record {
        let may_fail = matches!(step.as_str(), "list" | "files");
        let fails = answer.get("error").is_some();
        assert!(may_fail || fails == FAILING.contains(&step.as_str()), "{step}: {answer}");
    }
}

/// The registered name of a dialect of an agent.
fn name(sdk: &Sdk, dialect: Dialect) -> String {
    let binding = dialect.binding.to_lowercase().replace('+', "-");
    format!("{}/{}-{binding}", sdk.name, dialect.version)
}

/// The registered skills.
fn skills() -> Vec<Value> {
    let object = |required: &str| json!({ "type": "object", "required": [required] });
    let mut report = skill("report");
    report["inputSchema"] = object("topic");
    report["outputSchema"] = object("pages");
    let mut files = skill("files");
    files["outputModes"] = json!(["image/png", "text/plain"]);
    ["echo", "ask", "wait", "release", "fail"]
        .map(skill)
        .into_iter()
        .chain([report, files])
        .collect()
}

/// One run of a client at one agent through the gateway.
struct Run<'a> {
    sdk: &'a Sdk,
    client: Dialect,
    agent: &'a Sdk,
    upstream: Dialect,
}

impl Run<'_> {
    /// The steps whose answer the client gets from no direct agent of the same SDK. The version and
    /// the binding of the direct agent do not matter.
    fn differences(&self, record: &Record, direct: &BTreeMap<&str, Vec<Record>>) -> Vec<String> {
        let mut found = Vec::new();
        for (step, answer) in record {
            if FAILING.contains(&step.as_str()) {
                if !self.fails_as_expected(step, answer) {
                    found.push(self.difference(step, answer));
                }
                continue;
            }
            let mut same_agent = direct[self.agent.name].iter();
            let is_usual = same_agent.any(|record| record[step] == *answer);
            // Agents of 0.3 have no list.
            let is_common =
                step == "list" && direct.values().flatten().any(|record| record[step] == *answer);
            let is_known = match step.as_str() {
                // SDKs of 0.3 read 0 as no limit, but the gateway limits the history of every agent.
                "get_without_history" => *answer == without_history(&record["get"]),
                // The SDKs disagree about bytes here: those for Python encode them twice.
                "files" => self.client.is_old_rest() || self.upstream.is_old_rest(),
                // Registered skills are in the order of the registry.
                "skills" => sorted(answer) == sorted(&direct["python"][0][step]),
                // The gateway has an extended card for every agent.
                "extended" => sorted(answer) == sorted(&record["skills"]),
                _ => false,
            };
            if !(is_usual || is_common || is_known) {
                found.push(self.difference(step, answer));
            }
        }
        found
    }

    fn difference(&self, step: &str, answer: &Value) -> String {
        let Self { client, agent, upstream, .. } = self;
        format!("{client:?} at {} in {upstream:?}: {step}: {answer}", agent.name)
    }

    /// Whether a step that must fail has exactly the error of the agent or the gateway.
    fn fails_as_expected(&self, step: &str, answer: &Value) -> bool {
        let is_old = self.agent.name == PYTHON_03.name;
        let cause = match step {
            "get_unknown" | "cancel_unknown" | "send_to_unknown" => TASK_NOT_FOUND,
            "cancel_completed" => TASK_NOT_CANCELABLE,
            "push" => PUSH_NOT_SUPPORTED,
            "subscribe_to_completed" => UNSUPPORTED_OPERATION,
            _ if is_old => INVALID_PARAMS,
            _ => UNSUPPORTED_OPERATION,
        };
        *answer == self.sdk.failure(self.client, step, &cause)
    }
}

fn without_history(task: &Value) -> Value {
    let mut task = task.clone();
    if let Some(history) = task.get_mut("history") {
        *history = json!([]);
    }
    task
}

fn sorted(list: &Value) -> Vec<&str> {
    let mut list: Vec<_> =
        list.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    list.sort_unstable();
    list
}

async fn answers_are_the_same(client: &Sdk) {
    let agents = Agents::start().await;
    let direct = agents.direct(client);
    let (mut runs, mut peers) = (Vec::new(), Vec::new());
    for agent in &AGENTS {
        for upstream in agent.dialects() {
            for dialect in client.client_dialects() {
                let base = format!("{}/", agents.scene.url(&name(agent, upstream)));
                peers.push(json!({ "base": base, "version": dialect.version,
                    "binding": dialect.binding }));
                runs.push(Run { sdk: client, client: dialect, agent, upstream });
            }
        }
    }
    let records = client.records(&peers);
    let found: Vec<_> = runs
        .iter()
        .zip(&records)
        .flat_map(|(run, record)| run.differences(record, &direct))
        .collect();
    let mut directly = String::new();
    for (agent, records) in &direct {
        for record in records {
            let _ = writeln!(directly, "{agent}: {}", Value::from(record.clone()));
        }
    }
    assert!(found.is_empty(), "{}\ndirectly:\n{directly}", found.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn python_client_gets_the_answers_of_each_agent() {
    answers_are_the_same(&PYTHON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_client_of_0_3_gets_the_answers_of_each_agent() {
    answers_are_the_same(&PYTHON_03).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn javascript_client_gets_the_answers_of_each_agent() {
    answers_are_the_same(&JAVASCRIPT).await;
}
