//! Compositions: the cost of a step, an 8-way scatter and a journaled step in addition to their
//! calls.

use std::{
    fs::OpenOptions,
    io::Write as _,
    path::Path,
    time::{Duration, Instant},
};

use acceptance::{Backend, Gateway, GatewayOptions, mcp::MODERN};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{ANONYMOUS, Client};
use crate::{
    load,
    report::{Report, Row},
};

/// Steps of the measured pipelines.
const STEPS: usize = 9;
/// Targets of the scatter.
const TARGETS: usize = 8;

/// A gateway with compositions of the echo tool, and the echo server.
struct Scene {
    gateway: Gateway,
    backend: Backend,
    _dir: tempfile::TempDir,
}

fn steps(count: usize, extra: &Value) -> Vec<Value> {
    let step = |i: usize| {
        let mut step = json!({ "id": format!("s{i}") });
        step.as_object_mut().expect("an object").extend(extra.as_object().expect("one").clone());
        step
    };
    (0..count).map(step).collect()
}

fn registry() -> Value {
    let echo = json!({ "tool": { "name": "echo" } });
    let composed = |name: &str, spec: Value| {
        json!({ "name": name, "version": "1.0.0", "description": name, "spec": spec,
            "inputSchema": { "type": "object" },
            "depends": [{ "type": "tool", "name": "echo", "version": "1.0.0" }] })
    };
    let pipeline =
        |count| json!({ "pipeline": { "steps": steps(count, &json!({ "operation": echo })) } });
    let saga = |count| {
        let extra = json!({ "name": "n", "action": echo, "compensate": echo });
        json!({ "saga": { "steps": steps(count, &extra) } })
    };
    let targets = vec![json!({ "tool": "echo" }); TARGETS];
    let scatter = json!({ "scatterGather": { "targets": targets, "aggregation": { "ops": [] } } });
    let schema = json!({ "type": "object", "properties": { "payload": { "type": "string" } },
        "required": ["payload"], "additionalProperties": false });
    json!({
        "schemaVersion": "2.0", "schemas": [], "agents": [],
        "servers": [{ "name": "bench-server", "version": "1.0.0",
            "provides": [{ "tool": "echo", "version": "1.0.0" }] }],
        "tools": [
            { "name": "echo", "version": "1.0.0", "description": "echo", "inputSchema": schema,
              "source": { "server": "bench-server", "serverVersion": "1.0.0", "tool": "echo" } },
            composed("pipeline_1", pipeline(1)), composed("pipeline_9", pipeline(STEPS)),
            composed("saga_9", saga(STEPS)), composed("scatter", scatter),
        ],
    })
}

impl Scene {
    async fn start() -> Self {
        let (backend, dir) = (Backend::start(), tempfile::tempdir().expect("a directory"));
        let file = dir.path().join("registry.json");
        std::fs::write(&file, registry().to_string()).expect("written");
        let url = format!("http://{}/bench/mcp", backend.process.address());
        let gateway = Gateway::start(&GatewayOptions {
            source: format!("file://{}", file.display()),
            targets: format!(
                "targets: [{{ server: bench-server, version: 1.0.0, http: \"{url}\" }}]\n"
            ),
            runtime: Some("{ inputValidation: deny, outputValidation: deny }".to_owned()),
            more: String::new(),
        });
        gateway.ready().await;
        Self { gateway, backend, _dir: dir }
    }

    /// A client of a tool of the gateway.
    async fn tool(&self, tool: &str) -> Vec<Client> {
        vec![client(&self.gateway.mcp_url(), tool).await]
    }

    /// Clients of the server itself.
    async fn direct(&self, at_once: usize) -> Vec<Client> {
        let url = format!("http://{}/bench/mcp", self.backend.process.address());
        let mut clients = Vec::new();
        for _ in 0..at_once {
            clients.push(client(&url, "echo").await);
        }
        clients
    }
}

/// Concurrent clients, and the number of consecutive calls.
type Turn = (Vec<Client>, usize);

/// Median times in milliseconds. The cases take turns, so that other load on the machine affects
/// them equally. With several clients, the slowest counts.
async fn medians<const N: usize>(turns: [Turn; N], seconds: u64) -> [f64; N] {
    let alone = Duration::from_secs(seconds);
    let measuring = tokio::spawn(async move {
        let mut latencies = turns.each_ref().map(|_| load::histogram());
        let began = Instant::now();
        while began.elapsed() < alone * u32::try_from(N).expect("few") {
            for ((clients, times), latencies) in turns.iter().zip(&mut latencies) {
                let sent = Instant::now();
                for _ in 0..*times {
                    join_all(clients.iter().map(Client::once)).await;
                }
                load::record(latencies, sent.elapsed());
            }
        }
        latencies
    });
    let latencies = measuring.await.expect("it ends");
    latencies.map(|latencies| load::quantile_ms(&latencies, 0.5))
}

async fn client(url: &str, tool: &str) -> Client {
    let params = json!({ "name": tool, "arguments": { "payload": "x".repeat(1024) } });
    let client = Client::new(url, ANONYMOUS, (MODERN, "tools/call"), &params).await;
    client.once().await;
    client
}

/// Measures latencies with one caller.
pub(crate) async fn measure(report: &mut Report, seconds: u64) {
    let scene = Scene::start().await;
    let turns = [
        (scene.direct(1).await, 1),
        (scene.direct(1).await, STEPS),
        (scene.tool("pipeline_1").await, 1),
        (scene.tool("pipeline_9").await, 1),
    ];
    let [direct_1, direct_9, one, nine] = medians(turns, seconds).await;
    let (direct, step) = ((direct_9 - direct_1) / 8.0, (nine - one) / 8.0);
    report.add(Row {
        path: "a step of a pipeline, 1 KiB: overhead in addition to its call".to_owned(),
        value: format!("{:.0} µs of {:.0}", (step - direct) * 1e3, step * 1e3),
        baseline: format!("the same number of direct calls: {:.0} µs", direct * 1e3),
        ratio: Some(step / direct),
        budget: "≤ 50 µs",
    });
    let both = [(scene.direct(TARGETS).await, 1), (scene.tool("scatter").await, 1)];
    let [slowest, scatter] = medians(both, seconds).await;
    report.add(Row {
        path: "an 8-way scatter, 1 KiB each".to_owned(),
        value: format!("{scatter:.2} ms"),
        baseline: format!("the slowest of 8 concurrent direct calls: {slowest:.2} ms"),
        ratio: Some(scatter / slowest),
        budget: "slowest + 0.3 ms",
    });
    let both = [(scene.tool("pipeline_9").await, 1), (scene.tool("saga_9").await, 1)];
    let [nine, saga] = medians(both, seconds).await;
    let journaled = (saga - nine) / 9.0;
    let flush = flushes(scene.gateway.cache().parent().expect("a directory"));
    report.add(Row {
        path: "a journaled step of a saga, 1 KiB: overhead in addition to a pipeline step"
            .to_owned(),
        value: format!("{:.0} µs", journaled * 1e3),
        baseline: format!("appending and flushing the same bytes: {:.0} µs", flush * 1e3),
        ratio: Some(journaled / flush),
        budget: "",
    });
}

/// The median time to flush one journal record to this disk, in milliseconds.
fn flushes(dir: &Path) -> f64 {
    let path = dir.join("flushed");
    let mut file = OpenOptions::new().create(true).append(true).open(&path).expect("a file");
    let mut latencies = load::histogram();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        let written = Instant::now();
        file.write_all(&[b'x'; 2_600]).expect("written");
        file.sync_data().expect("flushed");
        load::record(&mut latencies, written.elapsed());
    }
    load::quantile_ms(&latencies, 0.5)
}
