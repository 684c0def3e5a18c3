//! tools/call and tools/list: direct, through nginx, and through the gateway with everything on.
//!
//! Deliberately absent: stdio and streaming.

use acceptance::{Backend, Gateway, GatewayOptions, Registry, mcp::MODERN};
use serde_json::{Value, json};

use crate::{
    load::{self, Load},
    nginx::Nginx,
    report::{Report, Row},
    sample,
};

/// Where requests go, and who works for them.
struct Hop<'a> {
    name: &'static str,
    url: String,
    cpu: Box<dyn Fn() -> f64 + 'a>,
}

/// One load on one hop, with the processor time that the hop itself took.
struct Measured {
    load: Load,
    cpu_us: f64,
}

/// Measures calls at 1, 16 and 64 connections, and lists of 1,000 tools.
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
    wait_for_agent(&gateway).await;
    let nginx = Nginx::start(&backend.process.address()).expect("nginx is installed");
    let hops = [
        Hop {
            name: "direct",
            url: format!("http://{}/bench/mcp", backend.process.address()),
            cpu: Box::new(|| 0.0),
        },
        Hop {
            name: "nginx",
            url: format!("http://{}/bench/mcp", nginx.address),
            cpu: Box::new(|| nginx.cpu_seconds()),
        },
        Hop {
            name: "gateway",
            url: gateway.mcp_url(),
            cpu: Box::new(|| gateway.process.cpu_seconds()),
        },
    ];
    for connections in [1, 16, 64] {
        calls(report, &hops, connections, seconds).await;
    }
    lists(report, &hops, seconds).await;
}

async fn calls(report: &mut Report, hops: &[Hop<'_>; 3], connections: usize, seconds: u64) {
    let arguments = json!({ "payload": "x".repeat(1024) });
    let params = json!({ "name": "echo", "arguments": arguments });
    let mut results = Vec::new();
    for hop in hops {
        results.push(drive(hop, connections, seconds, ("tools/call", params.clone())).await);
    }
    let [direct, nginx, gateway] = results.try_into().ok().expect("three hops");
    report.add(Row {
        path: format!("tools/call, 1 KiB, {connections} connections: throughput and latency"),
        value: format!("gateway {}", gateway.load.text()),
        beside: format!("nginx {}; direct {}", nginx.load.text(), direct.load.text()),
        ratio: Some(gateway.load.per_second / nginx.load.per_second),
        budget: "",
    });
    report.add(Row {
        path: format!("tools/call, {connections} connections: CPU per call in the hop"),
        value: format!("gateway {:.0} µs", gateway.cpu_us),
        beside: format!("nginx {:.0} µs", nginx.cpu_us),
        ratio: Some(gateway.cpu_us / nginx.cpu_us),
        budget: "≤ 2 × nginx",
    });
}

async fn lists(report: &mut Report, hops: &[Hop<'_>; 3], seconds: u64) {
    let [direct, nginx, gateway] = hops;
    let many = |hop: &Hop<'_>| hop.url.replace("/bench/mcp", "/bench-many/mcp");
    let behind = Hop { name: nginx.name, url: many(nginx), cpu: Box::new(|| (nginx.cpu)()) };
    let _ = direct;
    let params = json!({});
    let nginx = drive(&behind, 16, seconds, ("tools/list", params.clone())).await;
    let gateway = drive(gateway, 16, seconds, ("tools/list", params)).await;
    report.add(Row {
        path: "tools/list of 1,000 tools, scoped, 16 connections".to_owned(),
        value: format!("gateway {}, {:.0} µs CPU a list", gateway.load.text(), gateway.cpu_us),
        beside: format!("nginx before the upstream {}", nginx.load.text()),
        ratio: Some(gateway.load.per_second / nginx.load.per_second),
        budget: "≥ 3 × nginx before the upstream",
    });
}

#[expect(clippy::cast_precision_loss, reason = "counts of requests fit a double")]
async fn drive(
    hop: &Hop<'_>,
    connections: usize,
    seconds: u64,
    (method, params): (&'static str, Value),
) -> Measured {
    let mut clients = Vec::new();
    for _ in 0..connections {
        let client = Client::new(&hop.url, method, &params);
        client.once().await;
        clients.push(client);
    }
    let before = (hop.cpu)();
    let load = load::run(clients, seconds, |client: Client, _| async move { client.once().await });
    let load = load.await;
    let cpu_us = ((hop.cpu)() - before) * 1e6 / load.count as f64;
    println!("  {} {method} with {connections} connections: {}", hop.name, load.text());
    Measured { load, cpu_us }
}

/// One connection that sends the same request again and again.
#[derive(Clone)]
struct Client {
    http: reqwest::Client,
    request: std::sync::Arc<Request>,
}

struct Request {
    url: String,
    method: &'static str,
    name: Option<String>,
    body: String,
}

impl Client {
    fn new(url: &str, method: &'static str, params: &Value) -> Self {
        let mut params = params.clone();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let name = params["name"].as_str().map(str::to_owned);
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let request = Request { url: url.to_owned(), method, name, body: body.to_string() };
        let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(1).build();
        Self { http: http.expect("a client"), request: request.into() }
    }

    async fn once(&self) {
        let Request { url, method, name, body } = &*self.request;
        let mut request = self
            .http
            .post(url)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("mcp-protocol-version", MODERN)
            .header("mcp-method", *method)
            .header("x-agent-name", "bench-agent")
            .header("x-agent-version", "1.0.0");
        if let Some(name) = name {
            request = request.header("mcp-name", name);
        }
        let answer = request.body(body.clone()).send().await.expect("an answer");
        assert!(answer.status().is_success(), "{}", answer.status());
        let text = answer.bytes().await.expect("a body");
        assert!(text.len() > 100 && !text.windows(9).any(|w| w == b"\"isError\":true"));
    }
}

/// The benchmark's server with 1,000 tools, the echo among them, and an agent that declares all.
async fn register(registry: &Registry) {
    let mut client = registry.client().await;
    let mut batches = sample::registry(1_000);
    batches.push(sample::echo());
    for batch in batches {
        client.apply(sample::request(batch)).await.expect("accepted");
    }
    let agent = sample::agent_with_echo("bench-agent", 0..999);
    client.apply(sample::request(vec![agent])).await.expect("accepted");
}

fn targets(backend: &str) -> String {
    let servers = (0..10).map(|number| format!("server-{number}"));
    let target = |server: String| {
        format!(
            "  - {{ server: {server}, version: 1.0.0, http: \"http://{backend}/bench/mcp\" }}\n"
        )
    };
    let targets: String = servers.chain(["bench-server".to_owned()]).map(target).collect();
    format!("targets:\n{targets}")
}

async fn wait_for_agent(gateway: &Gateway) {
    gateway.ready().await;
    let url = gateway.mcp_url();
    let client = acceptance::ModernClient::agent(&url, "bench-agent", "1.0.0");
    acceptance::eventually("the gateway knows the agent", || async {
        client.tool_names().await.len() == 1_000
    })
    .await;
}
