//! Data agents with real WebSocket clients.

use std::{
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use approval::Choice;
use gateway_testkit::{Received, Server};
use gateway_upstream::UpstreamLimits;
use http::StatusCode;
use registry_core::Kind;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Error as ClientError, Message as Sent, client::IntoClientRequest as _},
};

use super::*;
use crate::{
    agent_rpc::tests::harness::{execute, posted},
    mcp::tests::{
        harness::{Bench, Setup},
        relayed::acceptable,
    },
    registrations::{DataAgentSettings, LocalRegistrations, Registrations, SelfRegistration},
    testing::{Registered, catalog, policy, registered},
};

/// Time limits that no test should reach.
const PATIENT: Pace = Pace {
    ping: Duration::from_mins(1),
    silence: Duration::from_mins(2),
    write: Duration::from_mins(1),
};

/// Maximum size of a message.
const REQUEST_BYTES: usize = 256 * 1024;

/// A gateway whose catalog has the entities of registered data agents.
struct World {
    bench: Bench,
    address: SocketAddr,
    /// A data agent that is called over HTTP.
    endpoint: Server,
    _dir: TempDir,
}

impl World {
    async fn start(registration: SelfRegistration) -> Self {
        Self::start_with(registration, PATIENT, Vec::new()).await
    }

    async fn start_with(registration: SelfRegistration, pace: Pace, policies: Vec<Value>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let local = LocalRegistrations::open(dir.path().join("agents.json")).unwrap();
        let mut agents = local.subscribe();
        let endpoint = Server::serve(async |seen: Arc<Received>| {
            let input = &seen.body["params"]["input"];
            seen.result(&json!({ "features": [1.5], "input": input }))
        });
        let endpoint = endpoint.await;
        let origin = endpoint.url().trim_end_matches("/mcp").to_owned();
        let endpoints = vec!["http://127.0.0.1:1".to_owned(), origin];
        let limits =
            UpstreamLimits { sessions: 16, call_timeout_ms: 5_000, ..UpstreamLimits::default() };
        let setup = Setup {
            data_agents: DataAgentSettings { registration, endpoints },
            registrations: Registrations::local(local),
            limits,
            request_bytes: REQUEST_BYTES,
            ..Setup::default()
        };
        let entities = move || -> Vec<Registered> {
            policies.iter().map(|members| policy("rules", members.clone())).collect()
        };
        let bench = Bench::start(setup, entities()).await;
        let publish = bench.publish.clone();
        tokio::spawn(async move {
            let mut revision = 1;
            while agents.changed().await.is_ok() {
                revision += 1;
                let mut all = entities();
                for draft in agents.borrow_and_update().values() {
                    for kind in [Kind::Server, Kind::Tool, Kind::Agent] {
                        let documents = draft.documents(kind).iter();
                        all.extend(documents.map(|it| registered(kind, it.clone())));
                    }
                }
                publish.send_replace(catalog(revision, all));
            }
        });
        let surface = AgentRpc { pace, ..AgentRpc::new(bench.handle.clone()) };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, surface.router()).await });
        Self { bench, address, endpoint, _dir: dir }
    }

    async fn dial(&self, headers: &[(&'static str, &str)]) -> Result<Client, ClientError> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let mut request = "ws://localhost:7080/rpc".into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        Ok(Client(client_async(request, stream).await?.0))
    }

    async fn connect(&self, agent: &str) -> Client {
        self.dial(&[("x-agent-name", agent)]).await.unwrap()
    }

    /// Connects and registers the data agent `extractor`.
    async fn registered(&self, agent: &str) -> Client {
        let mut client = self.connect(agent).await;
        let answer = client.asked(&registration("extractor")).await;
        assert!(answer["result"]["version"].is_string(), "{answer}");
        client
    }

    /// Calls the function `extract` as an unknown caller.
    async fn called(&self) -> Value {
        let body = execute("extractor", "extract", r#"{"symbol":"AAPL"}"#);
        let (status, text) = posted(&self.bench, None, body).await;
        assert_eq!(status, StatusCode::OK, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// `registry/availability` of the only listed tool.
    async fn mark(&self) -> Value {
        let got = self.bench.modern("", "tools/list", json!({})).await.result();
        got["tools"][0]["_meta"]["registry/availability"].clone()
    }
}

/// A client of the WebSocket.
struct Client(WebSocketStream<TcpStream>);

impl Client {
    async fn send(&mut self, message: &Value) {
        self.0.send(Sent::text(message.to_string())).await.unwrap();
    }

    /// The next message.
    async fn received(&mut self) -> Value {
        loop {
            match self.0.next().await.unwrap().unwrap() {
                Sent::Text(text) => return serde_json::from_str(text.as_str()).unwrap(),
                Sent::Ping(_) | Sent::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    async fn asked(&mut self, message: &Value) -> Value {
        self.send(message).await;
        self.received().await
    }

    /// Answers the next call with its input.
    async fn echo(&mut self) -> Value {
        let request = self.received().await;
        let result = json!({ "features": [1.5], "input": request["params"]["input"] });
        self.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
        request
    }

    /// The code of the close frame.
    async fn closed(mut self) -> u16 {
        loop {
            match self.0.next().await {
                Some(Ok(Sent::Close(frame))) => return frame.unwrap().code.into(),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => panic!("the connection ended without a close frame"),
            }
        }
    }
}

/// `server.register` of an agent with one function.
fn registration(agent_id: &str) -> Value {
    json!({ "id": 1, "method": "server.register", "params": {
        "agent_id": agent_id, "heartbeat_interval": 60,
        "capabilities": { "tools": ["extract"], "resources": ["ohlcv_source"], "schema": {
            "extract": { "input": { "symbol": "string" }, "output": { "features": "list[float]" } },
        } },
    } })
}

fn heartbeat(status: &str) -> Value {
    json!({ "id": 2, "method": "agent.heartbeat",
        "params": { "agent_id": "extractor", "status": status } })
}

/// The code and the reason of an error.
fn error(answer: &Value) -> (i64, &str) {
    let error = &answer["error"];
    let reason = error["data"]["reason"].as_str();
    (error["code"].as_i64().unwrap_or_default(), reason.unwrap_or_default())
}

#[tokio::test]
async fn agent_registers_and_is_called_on_its_connection() {
    let world = World::start(SelfRegistration::Accept).await;
    let mut agent = world.connect("owner").await;
    let answer = agent.asked(&registration("extractor")).await;
    assert_eq!(
        answer["result"],
        json!({ "agent_id": "extractor", "status": "registered", "version": "1.0.0",
            "heartbeat_interval": 60.0 })
    );
    let (called, request) = tokio::join!(world.called(), agent.echo());
    assert_eq!(called["result"]["input"], json!({ "symbol": "AAPL" }), "{called}");
    assert_eq!(called["meta"]["task_id"], "t-1");
    assert_eq!(
        (&request["method"], &request["params"]["agent_id"], &request["params"]["function"]),
        (&json!("agent.execute"), &json!("extractor"), &json!("extract"))
    );
    assert_eq!(request["params"]["meta"]["task_id"], "t-1");

    let call = world.bench.call("", "extractor.extract", json!({ "symbol": "AAPL" }));
    let (got, request) = tokio::join!(call, agent.echo());
    assert_eq!(got.result()["structuredContent"]["features"], json!([1.5]));
    let meta = &request["params"]["meta"];
    let parent = meta["traceparent"].as_str().unwrap();
    let [_, trace, span, _] = <[&str; 4]>::try_from(parent.split('-').collect::<Vec<_>>()).unwrap();
    assert_eq!(meta["task_id"], format!("call-{trace}-{span}"), "{request}");
}

#[tokio::test]
async fn printed_messages_are_served_verbatim() {
    macro_rules! seed {
        ($name:literal) => {
            include_str!(concat!("../../../../crates/agent-rpc/tests/seeds/", $name, ".json"))
        };
    }
    let world = World::start(SelfRegistration::Accept).await;
    let mut agent = world.connect("owner").await;
    agent.0.send(Sent::text(seed!("register_request"))).await.unwrap();
    let key = "server/feature_extractor@1.0.0".parse().unwrap();
    acceptable(|| world.bench.gateway.views().now().catalog.find(&key).is_some()).await;
    agent.0.send(Sent::text(seed!("heartbeat_request"))).await.unwrap();
    let beat = agent.received().await;
    assert_eq!((&beat["id"], error(&beat)), (&Value::Null, (-32000, "AGENT_NOT_FOUND")));

    let params = seed!("register_flat");
    let flat = format!(r#"{{"id":1,"method":"server.register","params":{params}}}"#);
    agent.0.send(Sent::text(flat)).await.unwrap();
    let registered = agent.received().await;
    assert_eq!(registered["result"]["agent_id"], "binance_agent", "{registered}");

    let (_, text) = posted(&world.bench, None, seed!("execute_request").to_owned()).await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(error(&answer), (-32000, "AGENT_NOT_FOUND"), "{answer}");
    assert_eq!(answer["error"]["data"]["agent_id"], "news_fetcher", "{answer}");
}

#[tokio::test]
async fn tool_agent_execute_calls_the_function() {
    let world = World::start(SelfRegistration::Accept).await;
    let mut agent = world.registered("owner").await;
    let time = "2026-01-01T00:00:00Z";
    let arguments = json!({ "agent_id": "extractor", "function": "extract",
        "input": { "symbol": "AAPL" }, "meta": { "task_id": "t-9", "timestamp": time } });
    let params = json!({ "name": "agent.execute", "arguments": arguments,
        "_meta": { "task_id": "other" } });
    let call = world.bench.modern("", "tools/call", params);
    let (got, request) = tokio::join!(call, agent.echo());
    let result = got.result();
    assert_eq!(result["structuredContent"]["features"], json!([1.5]));
    let meta = &request["params"]["meta"];
    assert_eq!((&meta["task_id"], &meta["timestamp"]), (&json!("t-9"), &json!(time)), "{request}");
    let execution = &result["_meta"]["registry/execution"];
    assert_eq!(
        (&execution["status"], &execution["task_id"], execution["execution_time_ms"].is_u64()),
        (&json!("success"), &json!("t-9"), true),
        "{result}"
    );
}

#[tokio::test]
async fn tool_agent_execute_has_errors_of_rpc() {
    let world = World::start(SelfRegistration::Accept).await;
    let _agent = world.registered("owner").await;
    let valid = json!({ "task_id": "t" });
    for (names, meta, reason, data) in [
        (
            ["extractor", "extract"],
            json!({}),
            (-32602, "INVALID_PARAMS"),
            ("pointer", "/meta/task_id"),
        ),
        (
            ["extractor", "absent"],
            valid.clone(),
            (-32601, "FUNCTION_NOT_FOUND"),
            ("agent_id", "extractor"),
        ),
        (["absent", "extract"], valid, (-32000, "AGENT_NOT_FOUND"), ("agent_id", "absent")),
    ] {
        let [agent_id, function] = names;
        let arguments =
            json!({ "agent_id": agent_id, "function": function, "input": {}, "meta": meta });
        let got = world.bench.call("", "agent.execute", arguments).await.json();
        assert_eq!(error(&got), reason, "{got}");
        assert_eq!(got["error"]["data"][data.0], data.1, "{got}");
    }
}

#[tokio::test]
async fn agent_calls_others_on_the_same_connection() {
    let world = World::start(SelfRegistration::Accept).await;
    let mut agent = world.registered("owner").await;
    let own = execute("extractor", "extract", r#"{"symbol":"AAPL"}"#);
    let mut own: Value = serde_json::from_str(&own).unwrap();
    own["id"] = "own".into();
    agent.send(&own).await;
    agent.echo().await;
    let answer = agent.received().await;
    assert_eq!((&answer["id"], &answer["meta"]["status"]), (&json!("own"), &json!("success")));
}

#[tokio::test]
async fn equal_content_is_unchanged_and_other_content_a_patch() {
    let world = World::start(SelfRegistration::Accept).await;
    let mut agent = world.registered("owner").await;
    let again = agent.asked(&registration("extractor")).await;
    assert_eq!(again["result"]["status"], "unchanged", "{again}");
    let mut other = registration("extractor");
    other["params"]["description"] = "reads features".into();
    let next = agent.asked(&other).await;
    assert_eq!(
        (&next["result"]["status"], &next["result"]["version"]),
        (&json!("registered"), &json!("1.0.1")),
        "{next}"
    );
}

#[tokio::test]
async fn agent_id_of_another_principal_is_taken() {
    let world = World::start(SelfRegistration::Accept).await;
    let _owner = world.registered("owner").await;
    let mut other = world.connect("other").await;
    let answer = other.asked(&registration("extractor")).await;
    assert_eq!(error(&answer), (-32003, "AGENT_ID_TAKEN"));
    let beat = other.asked(&heartbeat("draining")).await;
    assert_eq!(error(&beat), (-32000, "AGENT_NOT_FOUND"));
    assert_eq!(world.mark().await, Value::Null);

    let mut over_http = registration("extractor");
    over_http["params"]["endpoint"] = "http://127.0.0.1:1/mcp".into();
    let (status, text) = posted(&world.bench, Some("other"), over_http.to_string()).await;
    assert_eq!(status, StatusCode::CONFLICT, "{text}");
}

#[tokio::test]
async fn registration_takes_no_identity_of_another_caller() {
    let world = World::start(SelfRegistration::Accept).await;
    let mut owner = world.registered("owner").await;
    let answer = owner.asked(&registration("planner")).await;
    assert_eq!(answer["result"]["status"], "registered", "{answer}");
    let listed = world.bench.modern("planner", "tools/list", json!({})).await.result();
    assert_eq!(listed["tools"].as_array().map(Vec::len), Some(2), "{listed}");
    let call = world.bench.call("planner", "extractor.extract", json!({ "symbol": "AAPL" }));
    let (got, _) = tokio::join!(call, owner.echo());
    assert_eq!(got.result()["structuredContent"]["features"], json!([1.5]));

    let reserved = owner.asked(&registration("gateway")).await;
    assert_eq!(error(&reserved), (-32003, "AGENT_ID_TAKEN"), "the gateway is an agent itself");
}

#[tokio::test]
async fn new_content_of_an_account_is_limited_over_http() {
    let world = World::start(SelfRegistration::Accept).await;
    let register = async |agent_id: &str, account: &str| {
        let mut over_http = registration(agent_id);
        over_http["params"]["endpoint"] = "http://127.0.0.1:1/mcp".into();
        let (_, text) = posted(&world.bench, Some(account), over_http.to_string()).await;
        serde_json::from_str::<Value>(&text).unwrap()
    };
    for number in 0..20 {
        let answer = register(&format!("agent{number}"), "owner").await;
        assert_eq!(answer["result"]["status"], "registered", "{answer}");
    }
    let limited = register("one-more", "owner").await;
    assert_eq!(error(&limited), (-32600, "RATE_LIMITED"), "{limited}");
    let unchanged = register("agent0", "owner").await;
    assert_eq!(unchanged["result"]["status"], "unchanged", "{unchanged}");
    let other = register("one-more", "other").await;
    assert_eq!(other["result"]["status"], "registered", "{other}");
}

#[tokio::test]
async fn endpoints_of_other_origins_are_rejected() {
    let world = World::start(SelfRegistration::Accept).await;
    for endpoint in [Value::Null, json!("http://169.254.169.254/mcp"), json!("http://127.0.0.1:2/")]
    {
        let mut over_http = registration("extractor");
        over_http["params"]["endpoint"] = endpoint;
        let (status, text) = posted(&world.bench, Some("owner"), over_http.to_string()).await;
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, error(&answer)), (StatusCode::OK, (-32602, "INVALID_PARAMS")));
        assert_eq!(answer["error"]["data"]["pointer"], "/endpoint", "{text}");
    }
}

#[tokio::test]
async fn agent_with_endpoint_is_called_with_execute() {
    let world = World::start(SelfRegistration::Accept).await;
    let mut over_http = registration("extractor");
    over_http["params"]["endpoint"] = world.endpoint.url().into();
    over_http["params"]["endpoint_protocol"] = "agent.execute".into();
    let (_, text) = posted(&world.bench, Some("owner"), over_http.to_string()).await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["result"]["version"], "1.0.0", "{answer}");
    let called = world.called().await;
    assert_eq!(called["result"]["input"], json!({ "symbol": "AAPL" }), "{called}");
    let sent = world.endpoint.seen("agent.execute");
    let params = &sent[0].body["params"];
    assert_eq!(
        (&params["function"], &params["meta"]["task_id"]),
        (&json!("extract"), &json!("t-1"))
    );

    let (_, text) = posted(&world.bench, Some("owner"), heartbeat("draining").to_string()).await;
    assert!(text.contains("draining"), "{text}");
    assert_eq!(error(&world.called().await), (-32001, "UNREACHABLE"));
    posted(&world.bench, Some("owner"), heartbeat("active").to_string()).await;
    assert!(world.called().await["result"].is_object());
}

#[tokio::test]
async fn unknown_protocols_of_endpoints_are_rejected() {
    let world = World::start(SelfRegistration::Accept).await;
    for (endpoint, protocol) in [(json!(world.endpoint.url()), "grpc"), (Value::Null, "mcp")] {
        let mut over_http = registration("extractor");
        if !endpoint.is_null() {
            over_http["params"]["endpoint"] = endpoint;
        }
        over_http["params"]["endpoint_protocol"] = protocol.into();
        let (_, text) = posted(&world.bench, Some("owner"), over_http.to_string()).await;
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(error(&answer), (-32602, "INVALID_PARAMS"), "{text}");
        assert_eq!(answer["error"]["data"]["pointer"], "/endpoint_protocol", "{text}");
    }
}

#[tokio::test]
async fn registrations_are_off_by_default() {
    let world = World::start(SelfRegistration::default()).await;
    let answer = world.connect("owner").await.asked(&registration("extractor")).await;
    assert_eq!(error(&answer), (-32601, "METHOD_NOT_FOUND"));
}

#[tokio::test]
async fn reviewed_registration_needs_approval_once_per_content() {
    let world = World::start(SelfRegistration::Review).await;
    let mut agent = world.connect("owner").await;
    let denied = agent.asked(&registration("extractor")).await;
    assert_eq!(error(&denied), (-32003, "APPROVAL_REQUIRED"), "{denied}");
    let id = denied["error"]["data"]["error"]["details"]["approvalId"].as_str().unwrap();
    let choice = Choice::Approve { standing: None };
    world.bench.approvals.decide(id.parse().unwrap(), &choice).await.unwrap();
    assert!(world.bench.gateway.views().now().catalog.is_empty(), "the gateway never acts itself");

    let approved = agent.asked(&registration("extractor")).await;
    assert_eq!(approved["result"]["version"], "1.0.0", "{approved}");
    let mut other = registration("extractor");
    other["params"]["description"] = "other".into();
    assert_eq!(error(&agent.asked(&other).await), (-32003, "APPROVAL_REQUIRED"));
}

#[tokio::test]
async fn disconnected_agent_is_unreachable_until_it_returns() {
    let world = World::start(SelfRegistration::Accept).await;
    let agent = world.registered("owner").await;
    assert_eq!(world.mark().await, Value::Null);
    drop(agent);
    let key = "server/extractor@1.0.0".parse().unwrap();
    let (_, definitions) = world.bench.gateway.views().subscribe();
    acceptable(|| !definitions.borrow().is_available(&key)).await;
    assert_eq!(error(&world.called().await), (-32001, "UNREACHABLE"));
    assert_eq!(world.mark().await, "unavailable");

    let mut agent = world.registered("owner").await;
    assert_eq!(world.mark().await, Value::Null);
    let (called, _) = tokio::join!(world.called(), agent.echo());
    assert_eq!(called["meta"]["status"], "success", "{called}");
}

#[tokio::test]
async fn heartbeat_restores_a_replaced_connection() {
    let world = World::start(SelfRegistration::Accept).await;
    let (_, definitions) = world.bench.gateway.views().subscribe();
    let mut first = world.registered("owner").await;
    drop(world.registered("owner").await);
    let key = "server/extractor@1.0.0".parse().unwrap();
    acceptable(|| !definitions.borrow().is_available(&key)).await;
    first.asked(&heartbeat("active")).await;
    let echo = async {
        first.echo().await;
        pending::<Value>().await
    };
    let called = tokio::select! {
        called = world.called() => called,
        never = echo => never,
    };
    assert_eq!(called["meta"]["status"], "success", "{called}");

    let mut second = world.connect("owner").await;
    let mut other = registration("extractor");
    other["params"]["description"] = "other".into();
    assert_eq!(second.asked(&other).await["result"]["version"], "1.0.1");
    drop(second);
    acceptable(|| !definitions.borrow().is_available(&key)).await;
    first.asked(&heartbeat("active")).await;
    assert_eq!(error(&world.called().await), (-32001, "UNREACHABLE"), "it has other content");
}

#[tokio::test]
async fn other_status_is_unavailable_at_once() {
    let world = World::start(SelfRegistration::Accept).await;
    let mut agent = world.registered("owner").await;
    let beat = agent.asked(&heartbeat("maintenance")).await;
    assert_eq!(beat["result"]["status"], "maintenance", "{beat}");
    assert_eq!(error(&world.called().await), (-32001, "UNREACHABLE"));
    agent.asked(&heartbeat("active")).await;
    let (called, _) = tokio::join!(world.called(), agent.echo());
    assert_eq!(called["meta"]["status"], "success", "{called}");
}

#[tokio::test]
async fn heartbeat_flood_is_limited() {
    let world = World::start(SelfRegistration::Accept).await;
    let mut agent = world.registered("owner").await;
    let mut limited = 0;
    for _ in 0..50 {
        let answer = agent.asked(&heartbeat("active")).await;
        limited += u32::from(error(&answer).1 == "RATE_LIMITED");
    }
    assert!(limited > 0);
}

#[tokio::test]
async fn heartbeat_flood_over_http_is_limited() {
    let world = World::start(SelfRegistration::Accept).await;
    let _agent = world.registered("owner").await;
    let mut limited = 0;
    for _ in 0..500 {
        let (_, text) = posted(&world.bench, Some("owner"), heartbeat("active").to_string()).await;
        let answer: Value = serde_json::from_str(&text).unwrap();
        limited += u32::from(error(&answer) == (-32600, "RATE_LIMITED"));
    }
    assert!(limited > 0);
}

#[tokio::test]
async fn only_errors_of_notifications_are_answered() {
    let world = World::start(SelfRegistration::Accept).await;
    let mut agent = world.registered("owner").await;
    let mut silent = heartbeat("active");
    silent.as_object_mut().unwrap().remove("id");
    agent.send(&silent).await;
    silent["params"]["agent_id"] = "unknown".into();
    let answer = agent.asked(&silent).await;
    assert_eq!((&answer["id"], error(&answer)), (&Value::Null, (-32000, "AGENT_NOT_FOUND")));
}

#[tokio::test]
async fn execution_is_governed() {
    let cedar = "forbid (principal, action, resource);";
    let rules = json!({ "authorization": { "cedar": cedar } });
    let world = World::start_with(SelfRegistration::Accept, PATIENT, vec![rules]).await;
    let _agent = world.registered("owner").await;
    assert_eq!(
        error(&world.called().await),
        (-32000, "AGENT_NOT_FOUND"),
        "hidden like an undeclared one"
    );
}

#[tokio::test]
async fn hostile_registrations_are_rejected() {
    let world = World::start(SelfRegistration::Accept).await;
    let mut agent = world.connect("owner").await;
    let many: Vec<_> = (0..10_000).map(|i| format!("f{i}")).collect();
    let deep = format!("{}string{}", "list[".repeat(100), "]".repeat(100));
    for (pointer, value) in [
        ("/params/capabilities/tools", json!(many)),
        ("/params/capabilities/tools", json!(["extract", "extract"])),
        ("/params/capabilities/schema/extract/input", json!({ "a": deep })),
        ("/params/capabilities/schema/extract/input", json!({ "a": "any" })),
        ("/params/agent_id", json!("../etc")),
        ("/params/agent_id", json!("a.b")),
        ("/params/heartbeat_interval", json!(0)),
    ] {
        let mut hostile = registration("extractor");
        *hostile.pointer_mut(pointer).unwrap() = value;
        let answer = agent.asked(&hostile).await;
        assert_eq!(error(&answer).0, -32602, "{pointer}: {answer}");
    }
}

#[tokio::test]
async fn too_large_frame_closes_the_connection() {
    let world = World::start(SelfRegistration::Accept).await;
    let mut agent = world.connect("owner").await;
    agent.0.send(Sent::text("x".repeat(REQUEST_BYTES + 1))).await.unwrap();
    // Unread bytes can reset the connection before the close frame arrives.
    while let Some(Ok(message)) = agent.0.next().await {
        if let Sent::Close(frame) = message {
            assert_eq!(u16::from(frame.unwrap().code), 1009);
            break;
        }
    }
}

#[tokio::test]
async fn announced_size_of_frame_is_not_allocated() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let world = World::start(SelfRegistration::Accept).await;
    let mut agent = world.connect("owner").await;
    // The head of a text frame of 1 GiB.
    let head = [0x81, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 1, 2, 3, 4];
    let stream = agent.0.get_mut();
    stream.write_all(&head).await.unwrap();
    let mut rest = Vec::new();
    let read = timeout(Duration::from_secs(10), stream.read_to_end(&mut rest)).await;
    assert!(read.is_ok(), "the connection stays open");
}

#[tokio::test]
async fn binary_message_closes_the_connection() {
    let world = World::start(SelfRegistration::Accept).await;
    let mut agent = world.connect("owner").await;
    agent.0.send(Sent::binary(vec![1])).await.unwrap();
    assert_eq!(agent.closed().await, 1003);
}

#[tokio::test]
async fn invalid_frames_have_their_close_codes() {
    use tokio::io::AsyncWriteExt as _;
    let world = World::start(SelfRegistration::Accept).await;
    for (frame, code) in [
        // A text frame without a mask, a reserved opcode, and a text that is not UTF-8.
        (&[0x81, 1, b'x'][..], 1002),
        (&[0x83, 0x80, 0, 0, 0, 0], 1002),
        (&[0x81, 0x81, 0, 0, 0, 0, 0xff], 1007),
    ] {
        let mut agent = world.connect("owner").await;
        agent.0.get_mut().write_all(frame).await.unwrap();
        assert_eq!(agent.closed().await, code, "{frame:?}");
    }
}

#[tokio::test]
async fn silent_peer_is_disconnected() {
    let short = Duration::from_millis(50);
    let pace = Pace { silence: short, ..PATIENT };
    let world = World::start_with(SelfRegistration::Accept, pace, Vec::new()).await;
    assert_eq!(world.connect("owner").await.closed().await, 1008);
}

#[tokio::test]
async fn pings_keep_a_reading_peer_connected() {
    let [ping, silence] = [Duration::from_millis(20), Duration::from_secs(5)];
    let pace = Pace { ping, silence, ..PATIENT };
    let world = World::start_with(SelfRegistration::Accept, pace, Vec::new()).await;
    let mut agent = world.connect("owner").await;
    let mut pings = 0;
    while pings < 3 {
        pings += u32::from(matches!(agent.0.next().await, Some(Ok(Sent::Ping(_)))));
    }
}

#[tokio::test]
async fn connections_are_limited_per_caller() {
    let world = World::start(SelfRegistration::Accept).await;
    let mut open = Vec::new();
    let rejected = loop {
        match world.dial(&[("x-agent-name", "owner")]).await {
            Ok(client) => open.push(client),
            Err(error) => break error,
        }
        assert!(open.len() <= 16, "no limit");
    };
    let ClientError::Http(response) = rejected else { panic!("{rejected:?}") };
    assert!([429, 503].contains(&response.status().as_u16()), "{response:?}");
    open.clear();
    acceptable_connection(&world).await;
}

/// Waits until a place is free again.
async fn acceptable_connection(world: &World) {
    while world.dial(&[("x-agent-name", "owner")]).await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn foreign_origin_and_plain_request_open_no_socket() {
    let world = World::start(SelfRegistration::Accept).await;
    let foreign = world.dial(&[("origin", "https://evil.example")]).await;
    let Err(ClientError::Http(response)) = foreign else { panic!("the origin was accepted") };
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn stop_of_the_gateway_closes_idle_connections() {
    let world = World::start(SelfRegistration::Accept).await;
    let agent = world.registered("owner").await;
    world.bench.gateway.close_streams();
    assert_eq!(agent.closed().await, 1001);
}

/// A sink that accepts nothing.
struct Stuck;

impl Sink<Message> for Stuck {
    type Error = ();

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), ()>> {
        Poll::Pending
    }

    fn start_send(self: Pin<&mut Self>, _: Message) -> Result<(), ()> {
        Err(())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), ()>> {
        Poll::Pending
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), ()>> {
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn peer_that_never_reads_is_disconnected() {
    let (connection, queue) = AgentConnection::new();
    let message = QueuedMessage { text: Bytes::from_static(b"{}"), buffered: None };
    connection.outgoing().send(message).await.unwrap();
    assert_eq!(write(&mut Stuck, queue, Pace::default()).await, End::NotReading);
}

#[tokio::test]
async fn queued_answer_keeps_the_memory_of_its_request() {
    let world = World::start(SelfRegistration::Accept).await;
    let gateway = &world.bench.gateway;
    let (connection, mut queue) = AgentConnection::new();
    let (parts, ()) = http::Request::new(()).into_parts();
    let body = Bytes::from(heartbeat("active").to_string());
    let bytes = body.len();
    let peer = Arc::new(Peer::new(connection));
    Box::pin(answer(Arc::clone(gateway), parts.into(), peer, body)).await;
    assert_eq!(gateway.buffers().total(), bytes);
    drop(queue.recv().await.unwrap());
    assert_eq!(gateway.buffers().total(), 0);
}

#[tokio::test]
async fn burst_of_requests_is_answered() {
    const BURST: usize = 200;
    let world = World::start(SelfRegistration::Accept).await;
    let mut agent = world.registered("owner").await;
    let call = execute("extractor", "extract", r#"{"symbol":"AAPL"}"#);
    for _ in 0..BURST {
        agent.0.feed(Sent::text(call.clone())).await.unwrap();
    }
    agent.0.flush().await.unwrap();
    // Accepted requests come back as calls, because the agent calls itself.
    let mut rejected = 0;
    for _ in 0..BURST {
        let message = agent.received().await;
        rejected += u32::from(error(&message).1 == "TOO_MANY_REQUESTS");
    }
    assert!(rejected > 0);
}
