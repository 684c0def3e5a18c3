//! Approvals of calls by gateways, with people at the command line.

use std::{fs, path::Path, process::Command, sync::Arc};

use acceptance::{
    CtlOutput, Gateway, GatewayOptions, ModernClient, Registry, access::Guarded, binary, ctl,
    eventually,
};
use gateway_testkit::{McpServer, Received, Reply, Server};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    agent, bank, bank_at, limit,
    relayed_budgets::relay_of,
    roles::{apply, run},
};

const REQUIRED: &str = "APPROVAL_REQUIRED";

fn charged(received: &Received) -> Reply {
    match received.rpc_method() {
        "tools/call" => received.result(&json!({ "resultType": "complete", "content": [] })),
        _ => received.unknown_method(),
    }
}

async fn bank_server() -> Server {
    McpServer::modern().with_tool_names(&["charge", "balance"]).start(charged).await
}

/// A bank whose calls end with the process of their gateway.
async fn silent_bank() -> Server {
    let answer = |received: Arc<Received>| async move {
        match received.rpc_method() {
            "tools/call" => std::future::pending::<Reply>().await,
            _ => received.unknown_method(),
        }
    };
    McpServer::modern().with_tool_names(&["charge", "balance"]).serve(answer).await
}

/// The bank, its clerks, and a policy that demands approvals.
fn catalog(approval: &Value) -> [Value; 2] {
    let mut catalog = bank();
    let tools = [("charge", "1.0.0"), ("balance", "1.0.0")];
    catalog["agents"] = json!([agent("clerk", &tools), agent("cashier", &tools)]);
    [catalog, limit("1.0.0", &json!({ "approval": approval }))]
}

/// A registry with a policy that demands approvals of destructive calls.
fn registry(flags: &[&str]) -> Guarded {
    let guarded = Guarded::start(flags);
    for file in catalog(&json!({ "when": "destructive" })) {
        let applied = apply(&guarded, &guarded.admin, &file);
        assert!(applied.success(), "{applied:?}");
    }
    guarded
}

/// A gateway that follows a server with a token.
async fn following(server: &Registry, token: &str, bank: &Server) -> (Gateway, TempDir) {
    sharing(server, token, bank, "").await
}

/// A gateway that follows a server, with more configuration.
async fn sharing(server: &Registry, token: &str, bank: &Server, more: &str) -> (Gateway, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("gateway.token");
    fs::write(&file, token).expect("written");
    let source = format!("grpc://{}\n  tokenFile: {}", server.address, file.display());
    (started(source, bank, more).await, dir)
}

async fn started(source: String, bank: &Server, more: &str) -> Gateway {
    let more = format!("admin: 127.0.0.1:0\n{more}");
    let gateway = Gateway::start(&GatewayOptions {
        source,
        targets: bank_at(&bank.url()),
        runtime: None,
        more,
    });
    gateway.ready().await;
    gateway.upstreams_up(1).await;
    gateway
}

async fn call(gateway: &Gateway, agent: &str, tool: &str, amount: u64) -> Value {
    let client = ModernClient::agent(&gateway.mcp_url(), agent, "1.0.0");
    client.call(tool, json!({ "amount": amount })).await.result().clone()
}

/// The denial of a call by `clerk`, or null.
async fn denial(gateway: &Gateway, amount: u64) -> Value {
    call(gateway, "clerk", "charge", amount).await["_meta"]["registry/governance"].clone()
}

fn id(denial: &Value) -> String {
    assert_eq!(denial["reason"], REQUIRED, "{denial}");
    denial["error"]["details"]["approvalId"].as_str().expect("an id").to_owned()
}

fn state(guarded: &Guarded, approver: &str, id: &str) -> Value {
    run(guarded, approver, &["approvals", "show", id]).json()["approval"]["state"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn approved_call_is_sent_once_by_a_fleet() {
    let bank = bank_server().await;
    let guarded = registry(&["--public-url", "http://127.0.0.1:7070"]);
    let approver = guarded.token("ann", "security", "approver");
    let tokens = ["gateway-1", "gateway-2"].map(|name| guarded.token(name, "fleet", "gateway"));
    let (first, _dir) = following(&guarded.registry, &tokens[0], &bank).await;
    let (second, _other) = following(&guarded.registry, &tokens[1], &bank).await;

    let asked = denial(&first, 7).await;
    let request = id(&asked);
    let url = format!("http://127.0.0.1:7070/approvals/{request}");
    assert_eq!(asked["error"]["details"]["url"], url);
    assert_eq!(id(&denial(&second, 7).await), request, "the fleet has one request");
    let decision = run(&guarded, &approver, &["approve", &request, "--yes"]);
    assert!(decision.success(), "{decision:?}");
    assert_eq!(id(&denial(&second, 8).await).len(), 32, "other arguments need their own");
    let stolen = call(&second, "cashier", "charge", 7).await;
    assert_eq!(stolen["_meta"]["registry/governance"]["reason"], REQUIRED);

    let (one, other) = tokio::join!(denial(&first, 7), denial(&second, 7));
    assert_eq!([&one, &other].iter().filter(|denial| denial.is_null()).count(), 1);
    assert_eq!(bank.seen("tools/call").len(), 1);
    eventually("the outcome is reported", || async {
        state(&guarded, &approver, &request) == "succeeded"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn denial_of_a_person_reaches_the_caller_through_relay() {
    let bank = bank_server().await;
    let guarded = registry(&[]);
    let approver = guarded.token("ann", "security", "approver");
    let relay = relay_of(&guarded);
    let token = relay.token("gateway-1", "gateway");
    let (gateway, _dir) = following(&relay.server, &token, &bank).await;
    let request = id(&denial(&gateway, 7).await);
    let reason = ["approvals", "deny", &request, "--reason", "a duplicate", "--yes"];
    assert!(run(&guarded, &approver, &reason).success());
    let denied = denial(&gateway, 7).await;
    assert_eq!(denied["reason"], "APPROVAL_DENIED");
    assert_eq!(denied["error"]["details"]["reason"], "a duplicate");
    assert!(bank.seen("tools/call").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_registry_approves_nothing() {
    let bank = bank_server().await;
    let mut guarded = registry(&[]);
    let approver = guarded.token("ann", "security", "approver");
    let token = guarded.token("gateway-1", "fleet", "gateway");
    let (gateway, _dir) = following(&guarded.registry, &token, &bank).await;
    let request = id(&denial(&gateway, 7).await);
    assert!(run(&guarded, &approver, &["approve", &request, "--yes"]).success());
    guarded.registry.process.kill_9();
    let denied = denial(&gateway, 7).await;
    assert_eq!(denied["reason"], "APPROVAL_UNAVAILABLE");
    let problem = "approvals are unavailable at the moment; retry later";
    assert_eq!(denied["error"]["details"]["problem"], problem);
    let read = call(&gateway, "clerk", "balance", 7).await;
    assert_ne!(read["isError"], true, "calls without a demand continue: {read}");
    guarded.registry.restart();
    eventually("the approval is used", || async { denial(&gateway, 7).await.is_null() }).await;
    assert_eq!(bank.seen("tools/call").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn crashed_gateway_leaves_a_call_that_is_not_repeated() {
    let (silent, bank) = (silent_bank().await, bank_server().await);
    let guarded = registry(&[]);
    let approver = guarded.token("ann", "security", "approver");
    let tokens = ["gateway-1", "gateway-2"].map(|name| guarded.token(name, "fleet", "gateway"));
    let (mut crashing, _dir) = following(&guarded.registry, &tokens[0], &silent).await;
    let request = id(&denial(&crashing, 7).await);
    assert!(run(&guarded, &approver, &["approve", &request, "--yes"]).success());
    let client = ModernClient::agent(&crashing.mcp_url(), "clerk", "1.0.0");
    let calling = tokio::spawn(async move { client.call("charge", json!({ "amount": 7 })).await });
    eventually("the bank has the call", || async { !silent.seen("tools/call").is_empty() }).await;
    crashing.process.kill_9();
    calling.abort();
    let (gateway, _other) = following(&guarded.registry, &tokens[1], &bank).await;
    let again = denial(&gateway, 7).await;
    assert_ne!(id(&again), request);
    assert_eq!(again["error"]["details"]["uncertainId"], request, "the caller is warned");
    assert!(bank.seen("tools/call").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn reconnected_client_repeats_no_call() {
    // Each request of the client has the same JSON-RPC id.
    let silent = silent_bank().await;
    let guarded = registry(&[]);
    let approver = guarded.token("ann", "security", "approver");
    let token = guarded.token("gateway-1", "fleet", "gateway");
    let (gateway, _dir) = following(&guarded.registry, &token, &silent).await;
    let request = id(&denial(&gateway, 7).await);
    assert!(run(&guarded, &approver, &["approve", &request, "--yes"]).success());
    let client = ModernClient::agent(&gateway.mcp_url(), "clerk", "1.0.0");
    let calling = tokio::spawn(async move { client.call("charge", json!({ "amount": 7 })).await });
    eventually("the bank has the call", || async { !silent.seen("tools/call").is_empty() }).await;
    calling.abort();
    eventually("the outcome is unknown", || async {
        state(&guarded, &approver, &request) == "unknown"
    })
    .await;
    let again = denial(&gateway, 7).await;
    assert_ne!(id(&again), request);
    assert_eq!(again["error"]["details"]["uncertainId"], request, "the caller is warned");
    assert_eq!(silent.seen("tools/call").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_approval_is_not_used() {
    let bank = bank_server().await;
    let guarded = Guarded::start(&[]);
    for file in catalog(&json!({ "expiresAfter": "PT5S" })) {
        let applied = apply(&guarded, &guarded.admin, &file);
        assert!(applied.success(), "{applied:?}");
    }
    let approver = guarded.token("ann", "security", "approver");
    let token = guarded.token("gateway-1", "fleet", "gateway");
    let (gateway, _dir) = following(&guarded.registry, &token, &bank).await;
    let request = id(&denial(&gateway, 7).await);
    let decision = run(&guarded, &approver, &["approve", &request, "--yes"]);
    assert!(decision.success(), "{decision:?}");
    eventually("the approval expires", || async {
        state(&guarded, &approver, &request) == "expired"
    })
    .await;
    assert_ne!(id(&denial(&gateway, 7).await), request);
    assert!(bank.seen("tools/call").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn new_version_of_policy_supersedes_the_request() {
    let bank = bank_server().await;
    let guarded = registry(&[]);
    let approver = guarded.token("ann", "security", "approver");
    let token = guarded.token("gateway-1", "fleet", "gateway");
    let (gateway, _dir) = following(&guarded.registry, &token, &bank).await;
    let request = id(&denial(&gateway, 7).await);
    let newer = limit("1.1.0", &json!({ "approval": { "quorum": 2 } }));
    let applied = apply(&guarded, &guarded.admin, &newer);
    assert!(applied.success(), "{applied:?}");
    eventually("the call needs another request", || async {
        id(&denial(&gateway, 7).await) != request
    })
    .await;
    assert_eq!(state(&guarded, &approver, &request), "superseded");
    let late = run(&guarded, &approver, &["approve", &request, "--yes"]);
    assert!(late.code == 1 && late.has_code("APPROVAL_NOT_PENDING"), "{late:?}");
    assert!(bank.seen("tools/call").is_empty());
}

/// A bank that asks for input, and then completes.
async fn asking_bank() -> Server {
    let answer = |received: &Received| match received.rpc_method() {
        "tools/call" if received.body["params"]["requestState"].is_null() => {
            received.result(&json!({ "resultType": "input_required", "requestState": "s" }))
        }
        _ => charged(received),
    };
    McpServer::modern().with_tool_names(&["charge", "balance"]).start(answer).await
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_continues_a_round_once() {
    let bank = asking_bank().await;
    let guarded = registry(&[]);
    let approver = guarded.token("ann", "security", "approver");
    let tokens = ["gateway-1", "gateway-2"].map(|name| guarded.token(name, "fleet", "gateway"));
    let keys = tempfile::tempdir().expect("a directory");
    let key = keys.path().join("session.key");
    fs::write(&key, "A".repeat(43)).expect("written");
    let key = format!("sessionKeyFile: {}\n", key.display());
    let (first, _dir) = sharing(&guarded.registry, &tokens[0], &bank, &key).await;
    let (second, _other) = sharing(&guarded.registry, &tokens[1], &bank, &key).await;
    let request = id(&denial(&first, 7).await);
    assert!(run(&guarded, &approver, &["approve", &request, "--yes"]).success());
    let asked = call(&first, "clerk", "charge", 7).await;
    let answer = async |gateway: &Gateway, amount: u64| {
        let client = ModernClient::agent(&gateway.mcp_url(), "clerk", "1.0.0");
        let params = json!({ "name": "charge", "arguments": { "amount": amount },
            "requestState": asked["requestState"], "inputResponses": {} });
        let answer = client.request("tools/call", params).await.expect("the gateway answers");
        answer.result()["_meta"]["registry/governance"]["reason"].clone()
    };
    assert_eq!(answer(&second, 8).await, "APPROVAL_UNAVAILABLE", "the arguments are others");
    let (one, other) = tokio::join!(answer(&first, 7), answer(&second, 7));
    assert_eq!([&one, &other].iter().filter(|reason| reason.is_null()).count(), 1);
    assert_eq!(bank.seen("tools/call").len(), 2);
}

/// A gateway without a registry, whose file has a policy.
async fn standalone(dir: &Path, bank: &Server) -> Gateway {
    let [mut file, policy] = catalog(&json!({ "when": "destructive" }));
    file["policies"] = policy["policies"].clone();
    let path = dir.join("registry.json");
    fs::write(&path, file.to_string()).expect("written");
    started(format!("file://{}", path.display()), bank, "").await
}

fn decide(gateway: &Gateway, arguments: &[&str]) -> CtlOutput {
    let admin = gateway.admin_url();
    let start = ["gateway", "--admin", &admin, "--output", "json", "approvals"];
    ctl("http://127.0.0.1:1", &[&start, arguments].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_without_registry_keeps_its_approvals() {
    let (bank, dir) = (bank_server().await, tempfile::tempdir().expect("a directory"));
    let mut gateway = standalone(dir.path(), &bank).await;
    let request = id(&denial(&gateway, 7).await);
    let listed = decide(&gateway, &[]).json();
    let found = &listed[0];
    assert_eq!([&found["id"], &found["state"]], [&json!(request), &json!("pending")]);
    assert_eq!(found["arguments"], json!({ "amount": 7 }));
    let approved = decide(&gateway, &["approve", &request, "--yes"]);
    assert_eq!(approved.json()["state"], "approved", "{approved:?}");
    let unknown = decide(&gateway, &["approve", &"0".repeat(32), "--yes"]);
    assert_eq!(unknown.code, 1, "{unknown:?}");

    gateway.process.kill_9();
    let options = GatewayOptions {
        source: format!("file://{}", dir.path().join("registry.json").display()),
        targets: bank_at(&bank.url()),
        runtime: None,
        more: "admin: 127.0.0.1:0\n".to_owned(),
    };
    gateway.restart(&options);
    gateway.ready().await;
    gateway.upstreams_up(1).await;
    assert_eq!(denial(&gateway, 7).await, Value::Null);
    assert_ne!(id(&denial(&gateway, 7).await), request);
    assert_eq!(bank.seen("tools/call").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_denies_with_a_reason() {
    let (bank, dir) = (bank_server().await, tempfile::tempdir().expect("a directory"));
    let gateway = standalone(dir.path(), &bank).await;
    let request = id(&denial(&gateway, 7).await);
    let denied = decide(&gateway, &["deny", &request, "--reason", "too much", "--yes"]);
    assert_eq!(denied.json()["state"], "denied", "{denied:?}");
    let found = denial(&gateway, 7).await;
    assert_eq!(found["error"]["details"]["reason"], "too much");
    let again = decide(&gateway, &["approve", &request, "--yes"]);
    assert_eq!(again.code, 1, "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_approvals_prevent_the_start() {
    let (bank, dir) = (bank_server().await, tempfile::tempdir().expect("a directory"));
    let mut gateway = standalone(dir.path(), &bank).await;
    denial(&gateway, 7).await;
    gateway.process.kill_9();
    let file = gateway.cache().with_file_name("proposals.json");
    fs::write(&file, "{").expect("written");
    let started = Command::new(binary("gateway-agent"))
        .arg("--config")
        .arg(gateway.config())
        .output()
        .expect("the gateway runs");
    assert_eq!(started.status.code(), Some(1), "{started:?}");
    let stderr = String::from_utf8_lossy(&started.stderr);
    assert!(stderr.contains(&file.display().to_string()), "{stderr}");
    assert_eq!(fs::read(&file).expect("it is kept"), b"{");
}
