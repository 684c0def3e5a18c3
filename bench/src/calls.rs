//! `tools/call`: direct, through nginx, and through the gateway with all checks enabled.

pub(crate) mod bridge;
pub(crate) mod composed;
mod counts;
mod lists;
pub(crate) mod standalone;
mod stdio;
mod steady;
mod streams;

use acceptance::{
    Backend, Gateway, GatewayOptions, Registry,
    mcp::{LEGACY, MODERN},
};
use serde_json::{Value, json};

use crate::{
    agentgateway,
    load::{self, Load},
    nginx,
    peer::Peer,
    report::{Report, Row},
    sample,
};

const MOST_TOOLS: usize = 10_000;
/// Agents with their numbers of declared tools.
const AGENTS: [(&str, usize); 2] = [("small-agent", 10), ("bench-agent", 1_000)];

/// A caller without an identity, which sees all tools.
const ANONYMOUS: &str = "";

/// The target of requests, and the processes whose CPU time counts.
pub(crate) struct Hop<'a> {
    pub(crate) name: &'static str,
    pub(crate) url: String,
    pub(crate) cpu: Box<dyn Fn() -> f64 + 'a>,
}

impl<'a> Hop<'a> {
    /// A path of a peer.
    pub(crate) fn peer(name: &'static str, peer: &'a Peer, path: &str) -> Self {
        let url = format!("http://{}{path}", peer.address);
        Self { name, url, cpu: Box::new(|| peer.cpu_seconds()) }
    }
}

/// The result of one load on one hop, with the CPU time of the hop.
pub(crate) struct Measured {
    pub(crate) load: Load,
    pub(crate) cpu_seconds: f64,
}

/// Measures calls at 1, 16 and 64 connections, their system calls and allocations, lists, streams, a
/// million calls, and children.
pub(crate) async fn measure(report: &mut Report, seconds: u64) {
    let backend = Backend::start();
    let registry = Registry::start();
    register(&registry).await;
    let options = GatewayOptions {
        source: format!("grpc://{}", registry.address),
        targets: targets(&backend.process.address()),
        runtime: Some("{ inputValidation: deny, undeclaredDependency: deny }".to_owned()),
        more: String::new(),
    };
    let gateway = Gateway::start(&options);
    wait_for_tools(&gateway, 1_000).await;
    let nginx = nginx::start(&backend.process.address());
    let other = agentgateway::start(&backend.process.address());
    let hops = [
        Hop {
            name: "direct",
            url: format!("http://{}/bench/mcp", backend.process.address()),
            cpu: Box::new(|| 0.0),
        },
        Hop::peer("nginx", &nginx, "/bench/mcp"),
        Hop {
            name: "gateway",
            url: gateway.mcp_url(),
            cpu: Box::new(|| gateway.process.cpu_seconds()),
        },
    ];
    let other = other.as_ref().map(|peer| Hop::peer("agentgateway", peer, "/mcp"));
    for bytes in [40, 1024, 102_400] {
        for version in [MODERN, LEGACY] {
            for connections in [1, 16, 64] {
                let load = (connections, seconds);
                calls(report, (&hops, other.as_ref()), (version, bytes), load).await;
            }
        }
    }
    let processes = (nginx.processes(), gateway.process.id());
    counts::measure(report, &hops, processes, seconds).await;
    lists::measure(report, &hops, seconds).await;
    streams::measure(report, &hops, seconds).await;
    steady::measure(report, &hops[2], &gateway).await;
    drop(hops);
    stdio::measure(report, &registry, seconds).await;
}

async fn calls(
    report: &mut Report,
    (hops, other): (&[Hop<'_>; 3], Option<&Hop<'_>>),
    (version, bytes): (&'static str, usize),
    (connections, seconds): (usize, u64),
) {
    let request = || ("bench-agent", (version, "tools/call", echo("echo", bytes)));
    let mut results = Vec::new();
    for hop in hops {
        results.push(drive(hop, connections, seconds, request()).await);
    }
    let [direct, nginx, gateway] = results.try_into().ok().expect("three hops");
    let what = format!(
        "tools/call of {version}, {} there and back, {connections} connections",
        size(bytes)
    );
    report.add(Row {
        path: what.clone(),
        value: format!("gateway {}", gateway.load.text()),
        baseline: format!("nginx {}; direct {}", nginx.load.text(), direct.load.text()),
        ratio: Some(gateway.load.per_second / nginx.load.per_second),
        budget: "",
    });
    report.add(Row {
        path: format!("{what}: CPU per call in the hop"),
        value: format!("gateway {:.0} µs", gateway.cpu_us()),
        baseline: format!("nginx {:.0} µs", nginx.cpu_us()),
        ratio: Some(gateway.cpu_us() / nginx.cpu_us()),
        budget: "≤ 2 × nginx",
    });
    // Only recent versions of agentgateway know the modern era.
    let Some(other) = other.filter(|_| version == LEGACY) else { return };
    let measured = drive(other, connections, seconds, request()).await;
    report.add(Row {
        path: format!("{what}: CPU per call in {}", other.name),
        value: format!("{:.0} µs; {}", measured.cpu_us(), measured.load.text()),
        baseline: format!("nginx {:.0} µs", nginx.cpu_us()),
        ratio: Some(measured.cpu_us() / nginx.cpu_us()),
        budget: "",
    });
}

/// The parameters of a call of the echo tool, which may have another name, with this payload.
pub(crate) fn echo(tool: &str, bytes: usize) -> Value {
    json!({ "name": tool, "arguments": { "payload": "x".repeat(bytes) } })
}

pub(crate) fn size(bytes: usize) -> String {
    if bytes < 1024 { format!("{bytes} B") } else { format!("{} KiB", bytes / 1024) }
}

pub(crate) async fn drive(
    hop: &Hop<'_>,
    connections: usize,
    seconds: u64,
    (agent, (version, method, params)): (&'static str, (&'static str, &'static str, Value)),
) -> Measured {
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(Client::new(&hop.url, agent, (version, method), &params).await);
    }
    drive_each(hop, clients, seconds).await
}

/// Repeats the request of each client.
pub(crate) async fn drive_each(hop: &Hop<'_>, clients: Vec<Client>, seconds: u64) -> Measured {
    let connections = clients.len();
    for client in &clients {
        client.once().await;
    }
    let before = (hop.cpu)();
    let load = load::run(clients, seconds, |client: Client, _| async move { client.once().await });
    let load = load.await;
    let cpu_seconds = (hop.cpu)() - before;
    println!("  {} with {connections} connections: {}", hop.name, load.text());
    Measured { load, cpu_seconds }
}

impl Measured {
    /// Both loads as one.
    pub(crate) fn and(self, later: Self) -> Self {
        let cpu_seconds = self.cpu_seconds + later.cpu_seconds;
        Self { load: self.load.and(later.load), cpu_seconds }
    }

    /// CPU time per request in microseconds.
    #[expect(clippy::cast_precision_loss, reason = "counts of requests fit a double")]
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.load.count as f64
    }
}

/// One connection that repeats the same request.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    request: std::sync::Arc<Request>,
}

struct Request {
    url: String,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Client {
    pub(crate) async fn new(
        url: &str,
        agent: &str,
        (version, method): (&'static str, &'static str),
        params: &Value,
    ) -> Self {
        let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(1).build();
        let http = http.expect("a client");
        let mut headers = vec![
            ("accept", "application/json, text/event-stream".to_owned()),
            ("content-type", "application/json".to_owned()),
        ];
        if agent != ANONYMOUS {
            headers.push(("x-agent-name", agent.to_owned()));
            headers.push(("x-agent-version", "1.0.0".to_owned()));
        }
        let mut params = params.clone();
        if version == MODERN {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            headers.push(("mcp-method", method.to_owned()));
            headers.extend(params["name"].as_str().map(|name| ("mcp-name", name.to_owned())));
        } else if let Some(id) = session(&http, url, &headers).await {
            headers.push(("mcp-session-id", id));
        }
        headers.push(("mcp-protocol-version", version.to_owned()));
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let request = Request { url: url.to_owned(), headers, body: body.to_string() };
        Self { http, request: request.into() }
    }

    async fn once(&self) {
        let Request { url, headers, body } = &*self.request;
        let request =
            headers.iter().fold(self.http.post(url), |r, (name, value)| r.header(*name, value));
        let answer = request.body(body.clone()).send().await.expect("an answer");
        assert!(answer.status().is_success(), "{}", answer.status());
        let text = answer.bytes().await.expect("a body");
        // Errors are short, and those of JSON-RPC are at the start.
        let is_tool_error = text.len() < 4096 && text.windows(14).any(|w| w == b"\"isError\":true");
        let is_error =
            is_tool_error || text[..text.len().min(128)].windows(9).any(|w| w == b"\"error\":{");
        assert!(text.len() > 100 && !is_error, "{text:?}");
    }
}

/// Opens a session and returns its id, if the server uses sessions.
async fn session(
    http: &reqwest::Client,
    url: &str,
    headers: &[(&'static str, String)],
) -> Option<String> {
    let post = |body: Value, id: Option<&str>| {
        let request =
            headers.iter().fold(http.post(url), |r, (name, value)| r.header(*name, value));
        let request = id.map_or(request.try_clone().expect("no body"), |id| {
            request.header("mcp-session-id", id).header("mcp-protocol-version", LEGACY)
        });
        request.body(body.to_string()).send()
    };
    let params = json!({ "protocolVersion": LEGACY, "capabilities": {},
        "clientInfo": { "name": "bench", "version": "1.0.0" } });
    let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let answer = post(initialize, None).await.expect("an answer");
    let id = answer.headers().get("mcp-session-id")?.to_str().ok()?.to_owned();
    answer.bytes().await.expect("a body");
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let taken = post(initialized, Some(&id)).await.expect("an answer");
    assert!(taken.status().is_success(), "{}", taken.status());
    Some(id)
}

/// Registers the benchmark's server, 10,000 more tools, and agents that declare them.
async fn register(registry: &Registry) {
    let mut client = registry.client().await;
    let mut batches = sample::registry(MOST_TOOLS);
    batches.push(sample::own());
    for batch in batches {
        client.apply_changes(sample::request(batch)).await.expect("accepted");
    }
    for (name, tools) in AGENTS {
        let agent = sample::agent(name, tools);
        client.apply_changes(sample::request(vec![agent])).await.expect("accepted");
    }
}

fn targets(backend: &str) -> String {
    let servers =
        (0..MOST_TOOLS / sample::TOOLS_PER_SERVER).map(|number| format!("server-{number}"));
    let target = |server: String| {
        format!(
            "  - {{ server: {server}, version: 1.0.0, http: \"http://{backend}/bench/mcp\" }}\n"
        )
    };
    let targets: String = servers.chain(["bench-server".to_owned()]).map(target).collect();
    format!("targets:\n{targets}")
}

async fn wait_for_tools(gateway: &Gateway, tools: usize) {
    gateway.ready().await;
    let url = gateway.mcp_url();
    let client = acceptance::ModernClient::agent(&url, "bench-agent", "1.0.0");
    acceptance::eventually("the gateway lists the agent's tools", || async {
        client.tool_names().await.len() == tools
    })
    .await;
}
