//! A2A: messages and streams of 1,000 events, direct, through nginx without buffering, through a bare
//! hop, and through the gateway without translation between versions; inspection; memory of open
//! streams.

use std::time::Duration;

use acceptance::{Backend, Gateway, GatewayOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    bare_hop,
    calls::{Hop, Measured},
    load, nginx,
    report::{Report, Row},
    turns::ROUNDS,
};

const CALLER: &str = "bench-caller";
const CONNECTIONS: usize = 16;
const STREAM_CONNECTIONS: usize = 8;
/// Pieces of the artifact of one stream.
const EVENTS: u32 = 1_000;
/// Events of one stream: its task, the pieces, and the last status.
const ALL_EVENTS: u32 = EVENTS + 2;
const OPEN_STREAMS: u64 = 300;
/// Time for memory to settle.
const SETTLE: Duration = Duration::from_secs(2);

/// A gateway in front of the agent.
struct Site {
    gateway: Gateway,
    _dir: TempDir,
}

/// A repeated request.
struct Message {
    method: &'static str,
    text: String,
    /// Expected in each answer.
    expected: &'static str,
}

/// Measures messages, streams, both with inspection, and open streams.
pub(crate) async fn measure(report: &mut Report, seconds: u64) {
    let backend = Backend::start();
    let plain = Site::start(&backend, None).await;
    let inspect = json!({ "name": "inspect", "version": "1.0.0",
        "inspection": { "arguments": { "credential": "block" },
            "results": { "credential": "block", "contact": "redact" } } });
    let inspecting = Site::start(&backend, Some(inspect)).await;
    let nginx = nginx::start(&backend.process.address());
    let bare = bare_hop::start(&backend.process.address());
    let hops = [
        Hop {
            name: "direct",
            url: format!("http://{}/bench/a2a", backend.process.address()),
            cpu: Box::new(|| 0.0),
        },
        Hop::peer("nginx", &nginx, "/bench/a2a"),
        Hop::peer("bare hop", &bare, "/bench/a2a"),
        plain.hop("gateway"),
        inspecting.hop("gateway with inspection"),
    ];
    for bytes in [40, 1024] {
        let message =
            Message { method: "SendMessage", text: "x".repeat(bytes), expected: "\"ROLE_AGENT\"" };
        let what = format!("SendMessage of {bytes} B there and back, {CONNECTIONS} connections");
        let results = drive_all(&hops, CONNECTIONS, seconds, &message).await;
        add_rows(report, &what, "message", (&results, 1));
    }
    // nginx forwards many events of a burst with one write.
    for (suffix, pace) in [(" paced", "1 ms apart"), ("", "at once")] {
        let message = Message {
            method: "SendStreamingMessage",
            text: format!("{EVENTS}{suffix}"),
            expected: "\"TASK_STATE_COMPLETED\"",
        };
        let what = format!(
            "SendStreamingMessage with {EVENTS} events {pace}, {STREAM_CONNECTIONS} connections"
        );
        let results = drive_all(&hops, STREAM_CONNECTIONS, seconds, &message).await;
        add_rows(report, &what, "event", (&results, ALL_EVENTS));
    }
    drop(hops);
    open_streams(report, &plain).await;
}

/// The results of direct, nginx, the bare hop, gateway and gateway with inspection.
async fn drive_all(
    hops: &[Hop<'_>; 5],
    connections: usize,
    seconds: u64,
    message: &Message,
) -> [Measured; 5] {
    let mut results: [Option<Measured>; 5] = [const { None }; 5];
    // The numbers of connections of each worker differ between loads.
    for _ in 0..ROUNDS {
        for (result, hop) in results.iter_mut().zip(hops) {
            let client = Client::new(&hop.url, message);
            client.once().await;
            let clients = (0..connections).map(|_| Client::new(&hop.url, message)).collect();
            let before = (hop.cpu)();
            let load = load::run(clients, seconds, |client: Client, _| async move {
                client.once().await;
            });
            let load = load.await;
            let cpu_seconds = (hop.cpu)() - before;
            println!("  {} {}: {}", hop.name, message.method, load.text());
            let new = Measured { load, cpu_seconds };
            *result = Some(match result.take() {
                Some(earlier) => earlier.and(new),
                None => new,
            });
        }
    }
    results.map(|result| result.expect("a round"))
}

/// Adds the rows of a request that consists of this number of units.
fn add_rows(
    report: &mut Report,
    what: &str,
    unit: &str,
    ([direct, nginx, bare, gateway, inspecting], units): (&[Measured; 5], u32),
) {
    let per_unit = |measured: &Measured| measured.cpu_us() / f64::from(units);
    report.add(Row {
        path: what.to_owned(),
        value: format!("gateway {}", gateway.load.text()),
        baseline: format!("nginx {}; direct {}", nginx.load.text(), direct.load.text()),
        ratio: Some(gateway.load.per_second / nginx.load.per_second),
        budget: "",
    });
    report.add(Row {
        path: format!("{what}: CPU per {unit} in the hop"),
        value: format!("gateway {:.1} µs", per_unit(gateway)),
        baseline: format!("nginx {:.1} µs", per_unit(nginx)),
        ratio: Some(per_unit(gateway) / per_unit(nginx)),
        budget: if units == 1 { "≤ 2.5 × nginx" } else { "≤ 1.5 × nginx" },
    });
    report.add(Row {
        path: format!("{what}: CPU per {unit} in a bare hop of the same HTTP library"),
        value: format!("{:.1} µs", per_unit(bare)),
        baseline: format!("nginx {:.1} µs", per_unit(nginx)),
        ratio: Some(per_unit(bare) / per_unit(nginx)),
        budget: "",
    });
    report.add(Row {
        path: format!("{what}: CPU per {unit} with inspection in both directions"),
        value: format!("{:.1} µs", per_unit(inspecting)),
        baseline: format!("without inspection {:.1} µs", per_unit(gateway)),
        ratio: Some(per_unit(inspecting) / per_unit(gateway)),
        budget: "",
    });
}

/// Streams that wait for their next event.
async fn open_streams(report: &mut Report, site: &Site) {
    let message = Message { method: "SendStreamingMessage", text: "open".to_owned(), expected: "" };
    let url = site.url();
    let before = site.gateway.process.resident_bytes();
    let mut open = Vec::new();
    for _ in 0..OPEN_STREAMS {
        let mut answer = Client::new(&url, &message).send().await;
        let first = answer.chunk().await.expect("a chunk").expect("an event");
        assert!(first.starts_with(b"data: "), "{first:?}");
        open.push(answer);
    }
    tokio::time::sleep(SETTLE).await;
    let grown = site.gateway.process.resident_bytes().saturating_sub(before);
    report.add_alone(
        format!("gateway memory per open stream of A2A, {OPEN_STREAMS} streams"),
        format!("{} KiB", (grown >> 10) / OPEN_STREAMS),
        "",
    );
}

impl Site {
    async fn start(backend: &Backend, policy: Option<Value>) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let catalog = dir.path().join("registry.json");
        std::fs::write(&catalog, registry(policy).to_string()).expect("a registry file");
        let url = format!("http://{}/bench/a2a", backend.process.address());
        let options = GatewayOptions {
            source: format!("file://{}", catalog.display()),
            targets: format!(
                "targets: [{{ agent: bench-agent, version: 1.0.0, http: \"{url}\" }}]\n"
            ),
            runtime: Some("{ inputValidation: deny, undeclaredDependency: deny }".to_owned()),
            // An open stream occupies a place at its agent.
            more: "limits: { upstreamRequests: 4096 }\n".to_owned(),
        };
        let gateway = Gateway::start(&options);
        gateway.ready().await;
        gateway.upstreams_up(1).await;
        Self { gateway, _dir: dir }
    }

    fn url(&self) -> String {
        format!("{}/a2a/bench-agent", self.gateway.url())
    }

    fn hop(&self, name: &'static str) -> Hop<'_> {
        Hop { name, url: self.url(), cpu: Box::new(|| self.gateway.process.cpu_seconds()) }
    }
}

/// The agent, and its caller.
fn registry(policy: Option<Value>) -> Value {
    let agent = |name: &str, extensions: Value| {
        json!({
            "name": name, "version": "1.0.0", "description": "An agent of the benchmark",
            "url": "https://registered.example/", "protocolVersion": "1.0",
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "capabilities": { "streaming": true, "extensions": extensions },
            "skills": [{ "id": "echo", "name": "Echo", "description": "Echoes", "tags": ["bench"] }],
        })
    };
    let declared =
        json!({ "type": "agent", "name": "bench-agent", "version": "1.0.0", "skill": "echo" });
    let sbom = json!({ "uri": "urn:agentgateway:sbom", "params": { "depends": [declared] } });
    let agents = [agent("bench-agent", json!([])), agent(CALLER, json!([sbom]))];
    json!({ "schemaVersion": "2.0", "agents": agents,
        "policies": policy.into_iter().collect::<Vec<_>>() })
}

/// One connection that repeats the same request.
#[derive(Debug, Clone)]
struct Client {
    http: reqwest::Client,
    url: String,
    body: String,
    expected: &'static str,
}

impl Client {
    fn new(url: &str, message: &Message) -> Self {
        let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(1).build();
        let sent = json!({ "messageId": "m", "role": "ROLE_USER",
            "parts": [{ "text": message.text }] });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": message.method,
            "params": { "message": sent } });
        let (http, url) = (http.expect("a client"), url.to_owned());
        Self { http, url, body: body.to_string(), expected: message.expected }
    }

    async fn send(&self) -> reqwest::Response {
        let request = self
            .http
            .post(&self.url)
            .header("content-type", "application/json")
            .header("a2a-version", "1.0")
            .header("x-agent-name", CALLER)
            .header("x-agent-version", "1.0.0");
        let answer = request.body(self.body.clone()).send().await.expect("an answer");
        assert!(answer.status().is_success(), "{}", answer.status());
        answer
    }

    async fn once(&self) {
        let text = self.send().await.bytes().await.expect("a body");
        // The expected text is in the last event.
        let end = &text[text.len().saturating_sub(512)..];
        let end = String::from_utf8_lossy(if text.len() < 4096 { &text[..] } else { end });
        assert!(end.contains(self.expected), "{end}");
    }
}
