//! A gateway with one upstream server `up@1.0.0`, and a request builder.

use std::{collections::BTreeMap, future::pending, net::SocketAddr, sync::Arc, time::Duration};

use approval::Approvals;
use axum::{Router, body::Body};
use gateway_compose::{CompositionState, Sagas};
use gateway_policy::{Access, RuntimeValidation, ToolValidation, ValidationMode, ValidationRules};
use gateway_protocol::naming::Prefix;
use gateway_testkit::{McpServer, Received, Reply, Server, empty};
use gateway_upstream::{Addresses, TargetConfig, TransportConfig, UpstreamLimits, Upstreams};
use http::{HeaderMap, Method, Request, StatusCode};
use ledger::usage::{UsageKey, UsageTotals};
use registry_core::{Catalog, Document, Key, entity::policy::Reach};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::relayed::acceptable;
use crate::{
    approvals::{CallApprovals, LocalApprovals},
    cache::Cache,
    contract::{self, Contracts},
    freshness::{MaxStaleness, StalenessMonitor},
    identity::{
        authenticator::Authenticator,
        sender::{ClientConnection, RequestSender},
        settings::{AuthenticationConfig, AuthenticatorConfig, IdentityConfig},
    },
    mcp::Mcp,
    origin::OriginPolicy,
    pipeline::{
        AgentBridges, DenialForm, Gateway, GatewayHandle, GatewayParts, PushSettings, Settings,
    },
    registrations::{DataAgentSettings, Registrations},
    seal::KeyFile,
    spending::{LocalLedger, Spending, SpendingClock},
    testing::{Registered, catalog},
    trace::Tracer,
    usage::Usage,
};

/// The settings of a test's gateway; the default is strict.
pub(crate) struct Setup {
    pub(crate) policy: RuntimeValidation,
    pub(crate) identity: IdentityConfig,
    pub(crate) authentication: AuthenticationConfig,
    pub(crate) denials: DenialForm,
    pub(crate) a2a_url: Option<String>,
    pub(crate) push: Option<PushSettings>,
    pub(crate) bridges: AgentBridges,
    pub(crate) data_agents: DataAgentSettings,
    pub(crate) registrations: Registrations,
    pub(crate) trace_values: bool,
    pub(crate) own_policy: Option<Arc<Document>>,
    pub(crate) hops: u32,
    pub(crate) request_bytes: usize,
    pub(crate) buffered_bytes: usize,
    pub(crate) limits: UpstreamLimits,
    pub(crate) max_staleness: MaxStaleness,
    pub(crate) variables: BTreeMap<String, String>,
    /// Validation overrides of single tools.
    pub(crate) tools: Vec<ToolValidation>,
    /// The upstream's tools, as JSON text.
    pub(crate) lists: String,
    /// Replaces the default upstream.
    pub(crate) transport: Option<TransportConfig>,
    pub(crate) prefix: Prefix,
    /// Further targets.
    pub(crate) agents: Vec<(Key, TransportConfig)>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            policy: RuntimeValidation {
                input_validation: ValidationMode::Error,
                output_validation: ValidationMode::Ignore,
                contract_drift: ValidationMode::Warn,
                unknown_caller: Access::Allow,
                undeclared_dependency: Access::Deny,
            },
            identity: IdentityConfig { trust_headers: true, scope_by_client_info: false },
            authentication: AuthenticationConfig::default(),
            denials: DenialForm::default(),
            a2a_url: None,
            push: None,
            bridges: AgentBridges::default(),
            data_agents: DataAgentSettings::default(),
            registrations: Registrations::none(),
            trace_values: false,
            own_policy: None,
            hops: 16,
            request_bytes: 64 * 1024,
            buffered_bytes: 512 * 1024 * 1024,
            limits: UpstreamLimits {
                sessions: 64,
                call_timeout_ms: 500,
                ..UpstreamLimits::default()
            },
            max_staleness: MaxStaleness::default(),
            variables: BTreeMap::new(),
            tools: Vec::new(),
            lists: "[]".to_owned(),
            transport: None,
            prefix: Prefix::parse("").unwrap(),
            agents: Vec::new(),
        }
    }
}

pub(crate) struct Bench {
    pub(crate) router: Router,
    pub(crate) handle: GatewayHandle,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) approvals: Arc<LocalApprovals>,
    /// Provides the catalog's age.
    pub(crate) cache: Cache,
    pub(crate) publish: watch::Sender<Arc<Catalog>>,
    pub(crate) contracts: Arc<Contracts>,
    /// The upstream, unless the test has its own.
    pub(crate) upstream: Server,
    _dir: TempDir,
}

/// A response that was read to its end.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// The status and the JSON-RPC error code.
    pub(crate) fn error(&self) -> (u16, i64) {
        let code = self.json()["error"]["code"].as_i64();
        (self.status.as_u16(), code.unwrap_or_else(|| panic!("no error: {self:?}")))
    }

    /// The result of a successful request.
    pub(crate) fn result(&self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{self:?}");
        self.json().get("result").unwrap_or_else(|| panic!("no result: {self:?}")).clone()
    }

    /// The text of a result with `isError`.
    pub(crate) fn failure(&self) -> String {
        let result = self.result();
        assert_eq!(result["isError"], true, "{self:?}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }
}

impl Bench {
    pub(crate) async fn start(setup: Setup, entities: Vec<Registered>) -> Self {
        let upstream = upstream(setup.lists).await;
        let dir = tempfile::tempdir().unwrap();
        let server: Key = "server/up@1.0.0".parse().unwrap();
        let transport = setup.transport.unwrap_or_else(|| http(&upstream));
        let target = |server: &Key, prefix, transport| TargetConfig {
            server: server.into(),
            prefix,
            exposes: None,
            tenant: None,
            transport,
            timeout: None,
            auto_start: true,
        };
        let mut targets = vec![target(&server, setup.prefix, transport)];
        for (agent, transport) in setup.agents {
            targets.push(target(&agent, Prefix::parse("agent").unwrap(), transport));
        }
        let settings = Settings {
            origins: OriginPolicy {
                listen: "127.0.0.1:7080".parse().unwrap(),
                origins: Vec::new(),
                hosts: Vec::new(),
            },
            identity: setup.identity,
            policy: setup.policy,
            denials: setup.denials,
            a2a_url: setup.a2a_url,
            push: setup.push,
            agents: setup.bridges,
            data_agents: setup.data_agents,
            trace_values: setup.trace_values,
            own_policy: setup.own_policy,
            hops: setup.hops,
            request_bytes: setup.request_bytes,
            buffered_bytes: setup.buffered_bytes,
            upstream: setup.limits,
            tool_limits: Vec::new(),
            variables: setup.variables,
        };
        let cache_file = dir.path().join("registry.json");
        let upstreams = Upstreams::start(&targets, setup.limits);
        let mut definitions = upstreams.definitions();
        definitions.wait_for(|all| all.find(&server).is_some()).await.unwrap();
        let (publish, catalog) = watch::channel(catalog(1, entities));
        let cache = Cache::in_memory(None);
        cache.confirm(Duration::ZERO);
        let staleness = StalenessMonitor::new(cache.clone(), setup.max_staleness);
        let rules =
            contract::Settings::new(ValidationRules::new(setup.policy, setup.tools), Vec::new());
        let contracts = Arc::new(Contracts::open(&cache_file, rules, definitions.borrow().clone()));
        let listed = upstreams.definitions();
        let stop = CancellationToken::new();
        tokio::spawn(contracts.clone().monitor(catalog.clone(), listed, stop));
        let clock = SpendingClock::System;
        let ledger = LocalLedger::open(&cache_file, catalog.clone(), clock).unwrap();
        let (spending, reporter) =
            Spending::open(&cache_file, "under-test", Reach::Gateway, clock).unwrap();
        tokio::spawn(reporter.run(Arc::new(ledger), CancellationToken::new()));
        let approvals = Arc::new(
            LocalApprovals::open(&cache_file.with_file_name("proposals.json"), [7; 32], clock)
                .unwrap(),
        );
        let parts = GatewayParts {
            catalog,
            staleness,
            upstreams,
            contracts: contracts.clone(),
            compositions: Arc::new(CompositionState::new(Sagas::open(&cache_file).unwrap())),
            spending,
            approvals: CallApprovals::new(
                Arc::clone(&approvals) as Arc<dyn Approvals>,
                "under-test",
            ),
            registrations: Arc::new(setup.registrations),
            usage: Some(Usage::open(clock).unwrap()),
            graphs: Arc::default(),
            sealer: Arc::new(KeyFile::new(None, &cache_file).open()),
            tracer: Tracer::start(None, None, "under-test"),
        };
        let authenticator = AuthenticatorConfig {
            identity: setup.identity,
            authentication: setup.authentication,
            scheme: "http",
        };
        let authenticator = Authenticator::open(authenticator).await.unwrap();
        let handle = GatewayHandle::new(Gateway::new(settings, authenticator, parts));
        let gateway = handle.current();
        let router = Mcp::new(handle.clone()).router();
        Self { router, handle, gateway, approvals, cache, publish, contracts, upstream, _dir: dir }
    }

    pub(crate) async fn strict(entities: Vec<Registered>) -> Self {
        Self::start(Setup::default(), entities).await
    }

    /// Waits until the upstream's prompts are listed.
    pub(crate) async fn until_features(&self) {
        let server = "server/up@1.0.0".parse().unwrap();
        let mut definitions = self.gateway.upstreams().definitions();
        let is_known = |all: &Arc<gateway_upstream::Definitions>| {
            all.features(&server).is_some_and(|features| !features.prompts().is_empty())
        };
        definitions.wait_for(is_known).await.unwrap();
    }

    /// The calls received by the upstream.
    pub(crate) fn calls(&self) -> Vec<Received> {
        self.upstream.seen("tools/call")
    }

    /// The usage of this number of calls: `AGENT TOOL VERDICT CALLS COST`.
    pub(crate) async fn usage(&self, calls: u64) -> Vec<String> {
        let usage = self.gateway.usage().unwrap();
        acceptable(|| usage.buffer().pending_calls() >= calls).await;
        // Calls of two minutes have two rows.
        let mut sums = BTreeMap::<UsageKey, UsageTotals>::new();
        for row in usage.next_report().unwrap().rows {
            sums.entry(row.key).or_default().add(&row.totals);
        }
        let row = |(key, totals): (UsageKey, UsageTotals)| {
            let UsageKey { caller, tool, verdict } = key;
            format!("{} {tool} {verdict} {} {}", caller.agent, totals.calls, totals.cost)
        };
        sums.into_iter().map(row).collect()
    }

    /// Waits for this number of calls at the upstream.
    pub(crate) async fn until_called(&self, count: usize) {
        acceptable(|| self.calls().len() >= count).await;
    }

    pub(crate) fn arguments(&self) -> Vec<Value> {
        self.calls().iter().map(|seen| seen.body["params"]["arguments"].clone()).collect()
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> axum::response::Response {
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn got(&self, request: Request<Body>) -> Got {
        let response = self.send(request).await;
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Got { status: parts.status, headers: parts.headers, text }
    }

    /// A complete stateless request.
    pub(crate) async fn modern(&self, agent: &str, method: &str, params: Value) -> Got {
        self.got(Ask::modern(method, params).by(agent).build()).await
    }

    /// A stateless call.
    pub(crate) async fn call(&self, agent: &str, tool: &str, arguments: Value) -> Got {
        let params = json!({ "name": tool, "arguments": arguments });
        self.modern(agent, "tools/call", params).await
    }

    /// Opens a session.
    pub(crate) async fn initialize(&self, agent: &str) -> String {
        let got = self.got(Ask::initialize("2025-11-25").by(agent).build()).await;
        got.result();
        got.headers["mcp-session-id"].to_str().unwrap().to_owned()
    }

    /// A request of a session.
    pub(crate) async fn legacy(&self, session: &str, agent: &str, ask: (&str, Value)) -> Got {
        self.got(Ask::legacy(session, ask.0, ask.1).by(agent).build()).await
    }

    pub(crate) fn publish(&self, revision: u64, entities: Vec<Registered>) {
        self.publish.send_replace(catalog(revision, entities));
    }
}

/// The transport to a scripted server.
pub(crate) fn http(server: &Server) -> TransportConfig {
    let (headers, addresses) = (BTreeMap::new(), Addresses::Usual);
    let url = server.url();
    TransportConfig::Http { url, headers, auth: None, tls: None, addresses, is_grpc: false }
}

#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Value,
}

impl Ask {
    fn new(body: Value) -> Self {
        let headers = vec![
            ("host".to_owned(), b"localhost:7080".to_vec()),
            ("accept".to_owned(), b"application/json, text/event-stream".to_vec()),
            ("content-type".to_owned(), b"application/json".to_vec()),
        ];
        Self { method: Method::POST, headers, body }
    }

    pub(crate) fn modern(method: &str, params: Value) -> Self {
        let name = params["name"].as_str().map(str::to_owned);
        let mut params = params;
        if params.get("_meta").is_none() {
            params["_meta"] = json!({});
        }
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        params["_meta"]["io.modelcontextprotocol/clientInfo"] =
            json!({ "name": "tester", "version": "1.0.0" });
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let ask =
            Self::new(body).with("mcp-protocol-version", "2026-07-28").with("mcp-method", method);
        name.map_or(ask.clone(), |name| ask.with("mcp-name", &name))
    }

    pub(crate) fn initialize(version: &str) -> Self {
        let params = json!({ "protocolVersion": version, "capabilities": {},
            "clientInfo": { "name": "team/a", "version": "1.0.0" } });
        Self::new(json!({ "jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params }))
    }

    #[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
    pub(crate) fn legacy(session: &str, method: &str, params: Value) -> Self {
        let body = json!({ "jsonrpc": "2.0", "id": 8, "method": method, "params": params });
        Self::new(body).with("mcp-session-id", session).with("mcp-protocol-version", "2025-11-25")
    }

    /// Sets the network address of the client.
    pub(crate) fn build_from(self, address: &str) -> Request<Body> {
        let mut request = self.build();
        let peer = SocketAddr::new(address.parse().unwrap(), 1);
        let connection = Arc::new(ClientConnection::new(peer, None));
        request.extensions_mut().insert(RequestSender::on(connection));
        request
    }

    pub(crate) fn by(self, agent: &str) -> Self {
        if agent.is_empty() { self } else { self.with("x-agent-name", agent) }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.as_bytes().to_vec()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    pub(crate) fn set(self, name: &str, value: &str) -> Self {
        self.without(name).with(name, value)
    }

    pub(crate) fn build(self) -> Request<Body> {
        let body = if self.body.is_null() { String::new() } else { self.body.to_string() };
        self.build_with(body)
    }

    pub(crate) fn build_with(self, body: impl Into<Body>) -> Request<Body> {
        let mut request = Request::builder().method(self.method).uri("/mcp");
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        request.body(body.into()).unwrap()
    }
}

/// Starts a stateless upstream whose tools are named after their behavior.
async fn upstream(tools: String) -> Server {
    McpServer::modern()
        .with_tools(tools)
        .serve(|received| async move { called(&received).await })
        .await
}

async fn called(received: &Received) -> Reply {
    if received.rpc_method() != "tools/call" {
        return received.unknown_method();
    }
    let params = &received.body["params"];
    let arguments = &params["arguments"];
    received.result(&match params["name"].as_str().unwrap() {
        "fails" => json!({ "resultType": "complete", "isError": true, "content": [] }),
        "rpc" => {
            let code = &arguments["code"];
            let status = if *code == -32601 { 404 } else { 200 };
            let error = json!({ "code": code, "message": "m", "data": [1] });
            return received.error(status, &error);
        }
        "asks" => json!({ "resultType": "input_required", "requestState": "s" }),
        "slow" => return pending().await,
        "closes" => return Reply::Close(Vec::new()),
        "down" => return empty(503),
        // The result has a task id of the client.
        "says" => arguments["result"].clone(),
        _ => json!({ "resultType": "complete", "structuredContent": arguments,
            "content": [{ "type": "text", "text": arguments.to_string() }] }),
    })
}
