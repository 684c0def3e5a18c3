//! Calls of a data agent on its connection, and its availability.

use agent_rpc::envelope::{Message, read_message};
use gateway_protocol::jsonrpc::Limits;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;

/// The agent side of a connection.
struct Agent {
    session: Arc<AgentSession>,
    connection: Arc<AgentConnection>,
    queue: mpsc::Receiver<QueuedMessage>,
}

impl Agent {
    /// Registers the agent `under-test` with the function `t`.
    fn attach(upstreams: &Upstreams, call_timeout: Option<Duration>) -> Self {
        let (connection, queue) = AgentConnection::new();
        let functions = RawValue::from_string(format!(r#"{{"tools":{TOOLS}}}"#)).unwrap();
        let description = AgentDescription {
            server: key(),
            functions,
            call_timeout,
            heartbeat_interval: Duration::from_mins(1),
        };
        let session = AgentSession::new(description, &connection);
        upstreams.attach_agent(&session);
        Self { session, connection, queue }
    }

    /// The next request of the gateway.
    async fn received(&mut self) -> Value {
        serde_json::from_slice(&self.queue.recv().await.unwrap().text).unwrap()
    }

    fn answers(&self, body: &Value) {
        let text = body.to_string();
        let message = read_message(text.as_bytes(), Limits::with_max_bytes(64 * 1024)).unwrap();
        let Message::Answer(answer) = message else { panic!("{body} is no answer") };
        self.connection.answer(&answer);
    }
}

fn started() -> Arc<Upstreams> {
    let upstreams = Upstreams::start_with(&[], limits(), TIMING);
    upstreams.set_data_agents([(key().name, Some(DataAgentTransport::Connection))].into());
    upstreams
}

async fn connected(call_timeout: Option<Duration>) -> (Arc<Upstreams>, Agent) {
    let upstreams = started();
    let agent = Agent::attach(&upstreams, call_timeout);
    upstreams.until_up().await;
    (upstreams, agent)
}

#[tokio::test]
async fn call_is_sent_on_connection_and_matched_by_id() {
    let (upstreams, mut agent) = connected(None).await;
    assert_eq!(upstreams.listed(), ["t"]);
    let agent_side = async {
        let [first, second] = [agent.received().await, agent.received().await];
        assert_eq!(first["method"], "agent.execute");
        assert_eq!(
            (&first["params"]["agent_id"], &first["params"]["function"]),
            (&json!("under-test"), &json!("t"))
        );
        assert!(first["params"]["meta"]["task_id"].is_string(), "{first}");
        for request in [second, first] {
            let input = request["params"]["input"].clone();
            agent.answers(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": input }));
        }
    };
    let [one, two] = [r#"{"n":1}"#, r#"{"n":2}"#];
    let (one, two, ()) =
        tokio::join!(upstreams.must_call(one), upstreams.must_call(two), agent_side);
    for (result, n) in [(one, 1), (two, 2)] {
        let result: Value = serde_json::from_str(&result).unwrap();
        assert_eq!(result["structuredContent"], json!({ "n": n }));
    }
    upstreams.shutdown().await;
}

#[tokio::test]
async fn errors_of_agent_are_results_or_keep_their_code() {
    let (upstreams, mut agent) = connected(None).await;
    for (code, is_result) in [(-32000, true), (-32601, false), (-32602, false)] {
        let agent_side = async {
            let request = agent.received().await;
            let error = json!({ "code": code, "message": "no" });
            agent.answers(&json!({ "id": request["id"], "error": error }));
        };
        let (outcome, ()) = tokio::join!(upstreams.try_call("{}"), agent_side);
        match outcome {
            Ok(result) => assert!(is_result && result.is_error, "{code}"),
            Err(Error::Rpc { code: found, .. }) => assert!(!is_result && found == code),
            Err(other) => panic!("{code}: {other}"),
        }
    }
    upstreams.shutdown().await;
}

#[tokio::test]
async fn late_answer_is_dropped() {
    let (upstreams, mut agent) = connected(Some(Duration::from_millis(20))).await;
    let late = upstreams.try_call("{}").await.unwrap_err();
    assert!(matches!(late, Error::Timeout { phase: Phase::Call, after_ms: 20 }), "{late}");
    let request = agent.received().await;
    assert!(agent.connection.is_idle());
    agent.answers(&json!({ "id": request["id"], "result": {} }));
    agent.answers(&json!({ "id": "never sent", "result": {} }));
    upstreams.shutdown().await;
}

#[tokio::test]
async fn queued_call_keeps_the_memory_of_its_request() {
    let (upstreams, mut agent) = connected(None).await;
    let buffers = Arc::new(gateway_policy::BufferPool::default());
    let buffered = Arc::new(buffers.open(None, 4_000));
    buffered.reserve(100).unwrap();
    let context = RequestContext { buffered: Some(buffered), ..RequestContext::default() };
    let request = Request::plain(Method::CallTool, &[], &context);
    // The caller leaves after its call is queued.
    let queued = tokio::select! {
        answered = upstreams.send(permit(&key(), "t"), request) => panic!("{answered:?}"),
        queued = agent.queue.recv() => queued.unwrap(),
    };
    drop(context);
    assert_eq!(buffers.total(), 100);
    drop(queued);
    assert_eq!(buffers.total(), 0);
    upstreams.shutdown().await;
}

#[tokio::test]
async fn disconnect_fails_pending_calls_and_marks_target() {
    let (upstreams, mut agent) = connected(None).await;
    let agent_side = async {
        agent.received().await;
        agent.connection.close();
        upstreams.detach_agent(&agent.session);
    };
    let (outcome, ()) = tokio::join!(upstreams.try_call("{}"), agent_side);
    assert!(matches!(outcome, Err(Error::Ended { .. })), "{outcome:?}");
    upstreams.until_down().await;
    assert!(!upstreams.definitions().borrow().is_available(&key()));
    assert_eq!(upstreams.listed(), ["t"], "the tools stay listed");
    let refused = upstreams.try_call("{}").await.unwrap_err();
    insta::assert_snapshot!(
        refused,
        @"could not reach server/under-test@*: the agent is not connected"
    );

    let _returned = Agent::attach(&upstreams, None);
    upstreams.until_up().await;
    assert!(upstreams.definitions().borrow().is_available(&key()));
    upstreams.shutdown().await;
}

#[tokio::test]
async fn former_connection_does_not_end_the_next_one() {
    let (upstreams, former) = connected(None).await;
    let next = Agent::attach(&upstreams, None);
    former.connection.close();
    upstreams.detach_agent(&former.session);
    let found = upstreams.data_agent(&key().name).unwrap();
    assert!(Arc::ptr_eq(&found, &next.session));
    upstreams.shutdown().await;
}

#[tokio::test]
async fn other_status_is_unavailable_until_active() {
    let (upstreams, agent) = connected(None).await;
    upstreams.heartbeat(&agent.session, Some("draining"));
    assert!(upstreams.until_down().await.contains("draining"));
    upstreams.heartbeat(&agent.session, None);
    upstreams.until_up().await;
    upstreams.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn two_missed_heartbeats_are_unavailable() {
    let (connection, _queue) = AgentConnection::new();
    let description = AgentDescription {
        server: key(),
        functions: RawValue::from_string("{}".to_owned()).unwrap(),
        call_timeout: None,
        heartbeat_interval: Duration::from_mins(1),
    };
    let session = AgentSession::new(description, &connection);
    tokio::time::advance(Duration::from_mins(2)).await;
    assert!(!session.beat(None), "no change: the second heartbeat is not late yet");
    tokio::time::advance(Duration::from_secs(121)).await;
    assert!(session.beat(None), "the agent was unavailable");
}

/// The transport of the only target, which calls of any version use.
fn only_transport(upstreams: &Upstreams) -> TransportConfig {
    assert_eq!(upstreams.health().len(), 1);
    upstreams.targets.config(&key()).unwrap().transport.clone()
}

#[tokio::test]
async fn configured_target_gets_no_calls_of_data_agent() {
    let server = modern_server(|seen| seen.result(&json!({ "content": [] }))).await;
    let agent = || RegisteredAgents::from([(key().name, Some(DataAgentTransport::Connection))]);
    let upstreams = start(transport(&server), limits(), TIMING);
    assert_eq!(upstreams.configured_kind(&key().name), Some(Kind::Server));
    upstreams.set_data_agents(agent());
    assert_eq!(only_transport(&upstreams), TransportConfig::DataAgent(None), "target first");
    upstreams.shutdown().await;

    let configured = [target_of(key(), transport(&server))];
    let upstreams = Upstreams::start_with(&[], limits(), TIMING);
    upstreams.set_data_agents(agent());
    assert_eq!(upstreams.configured_kind(&key().name), None);
    upstreams.configure(&configured, limits());
    assert_eq!(only_transport(&upstreams), TransportConfig::DataAgent(None), "agent first");

    upstreams.set_data_agents([(key().name, None)].into());
    assert!(upstreams.health().is_empty(), "an agent that may not be called");
    upstreams.set_data_agents(BTreeMap::new());
    assert_eq!(only_transport(&upstreams), transport(&server));
    upstreams.shutdown().await;
}

#[tokio::test]
async fn configured_agent_gets_no_calls_of_data_agent() {
    let server = modern_server(|seen| seen.result(&json!({ "content": [] }))).await;
    let mut configured = target_of(key(), transport(&server));
    configured.server = TargetId { kind: Kind::Agent, ..configured.server };
    let upstreams = Upstreams::start_with(&[configured], limits(), TIMING);
    assert_eq!(upstreams.configured_kind(&key().name), Some(Kind::Agent));
    upstreams.set_data_agents([(key().name, Some(DataAgentTransport::Connection))].into());
    assert_eq!(only_transport(&upstreams), TransportConfig::DataAgent(None));
    upstreams.shutdown().await;
}

#[tokio::test]
async fn agents_keep_their_connections_when_configuration_changes() {
    let (upstreams, _agent) = connected(None).await;
    upstreams.configure(&[], limits());
    assert!(matches!(upstreams.state(), TargetState::Up { .. }));
    upstreams.set_data_agents(BTreeMap::new());
    assert!(upstreams.health().is_empty());
    upstreams.shutdown().await;
}

/// A gateway with an agent that is called at this server.
async fn at_endpoint(server: &Server, call_timeout: Option<Duration>) -> Arc<Upstreams> {
    let upstreams = Upstreams::start_with(&[], limits(), TIMING);
    let functions = format!(r#"{{"tools":{TOOLS}}}"#);
    let endpoint = AgentEndpoint { url: server.url(), functions, call_timeout };
    let transport = DataAgentTransport::Endpoint(Arc::new(endpoint));
    upstreams.set_data_agents([(key().name, Some(transport))].into());
    upstreams.until_up().await;
    upstreams
}

#[tokio::test]
async fn stopped_agent_stays_stopped_with_other_content() {
    let server = Server::serve(async |seen: Arc<Received>| seen.result(&json!({}))).await;
    let upstreams = at_endpoint(&server, None).await;
    assert!(upstreams.stop(&data_agent::target_id(&key().name)));
    for transport in [DataAgentTransport::Mcp(server.url()), DataAgentTransport::Connection] {
        upstreams.set_data_agents([(key().name, Some(transport))].into());
        assert!(matches!(upstreams.state(), TargetState::Stopped));
    }
    upstreams.shutdown().await;
}

#[tokio::test]
async fn call_is_posted_to_endpoint() {
    let server =
        Server::serve(async |seen: Arc<Received>| seen.result(&seen.body["params"]["input"])).await;
    let upstreams = at_endpoint(&server, None).await;
    assert_eq!(upstreams.listed(), ["t"]);
    let result: Value = serde_json::from_str(&upstreams.must_call(r#"{"n":1}"#).await).unwrap();
    assert_eq!(result["structuredContent"], json!({ "n": 1 }));
    let sent = server.seen("agent.execute");
    let params = &sent[0].body["params"];
    assert_eq!((&params["agent_id"], &params["function"]), (&json!("under-test"), &json!("t")));
    assert!(params["meta"]["task_id"].is_string(), "{params}");
    upstreams.shutdown().await;
}

#[tokio::test]
async fn invalid_answers_of_endpoint_are_errors() {
    for (answer, is_answer) in [
        (json_reply(200, &json!({ "result": {} })), true),
        (json_reply(500, &json!({ "id": 1, "error": { "code": -32000, "message": "no" } })), true),
        (json_reply(200, &json!({ "id": 2, "result": {} })), false),
        (json_reply(200, &json!({ "id": 1, "method": "m" })), false),
        (json_reply(200, &json!([])), false),
        (json_reply(404, &json!({})), false),
        (json_reply(302, &json!({})), false),
        (json_reply(200, &json!({ "id": 1, "result": "x".repeat(64 * 1024) })), false),
    ] {
        let shown = format!("{answer:?}");
        let answer = std::sync::Mutex::new(Some(answer));
        let server = Server::serve(move |_| {
            let answer = answer.lock().unwrap().take().unwrap();
            async move { answer }
        })
        .await;
        let upstreams = at_endpoint(&server, None).await;
        assert_eq!(upstreams.try_call("{}").await.is_ok(), is_answer, "{shown}");
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn endpoint_call_has_time_limit_of_agent() {
    let server = Server::serve(async |_: Arc<Received>| std::future::pending().await).await;
    let upstreams = at_endpoint(&server, Some(Duration::from_millis(20))).await;
    let late = upstreams.try_call("{}").await.unwrap_err();
    assert!(matches!(late, Error::Timeout { phase: Phase::Call, after_ms: 20 }), "{late}");
    upstreams.shutdown().await;
}

#[tokio::test]
async fn status_of_agent_with_endpoint_is_used() {
    let server = Server::serve(async |seen: Arc<Received>| seen.result(&json!({}))).await;
    let upstreams = at_endpoint(&server, None).await;
    let session = AgentSession::at_endpoint(AgentDescription {
        server: key(),
        functions: RawValue::from_string("{}".to_owned()).unwrap(),
        call_timeout: None,
        heartbeat_interval: Duration::from_mins(1),
    });
    upstreams.attach_agent(&session);
    upstreams.heartbeat(&session, Some("draining"));
    assert!(upstreams.until_down().await.contains("draining"));
    assert!(upstreams.try_call("{}").await.is_err());
    upstreams.heartbeat(&session, None);
    upstreams.until_up().await;
    upstreams.must_call("{}").await;
    upstreams.set_data_agents(BTreeMap::new());
    assert!(upstreams.data_agent(&key().name).is_none());
    upstreams.shutdown().await;
}
