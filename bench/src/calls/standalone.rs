//! A gateway without a registry: the first call, and calls of one of many servers compared with one
//! of one server.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use acceptance::{Backend, ModernClient, Process};
use serde_json::{Map, Value, json};

use super::{ANONYMOUS, Hop, MODERN, drive};
use crate::report::{Report, Row};

/// The servers in the larger file. Each has three tools.
const SERVERS: usize = 17;
/// Concurrent calls.
const CONNECTIONS: usize = 16;
/// The number of alternating measurements.
const TURNS: usize = 5;

/// Measures the first call of a new and of a restarted gateway, and routing.
pub(crate) async fn measure(report: &mut Report, seconds: u64) {
    first_calls(report).await;
    routing(report, seconds).await;
}

async fn first_calls(report: &mut Report) {
    let dir = tempfile::tempdir().expect("a directory");
    let program = acceptance::binary("demo-backend");
    let names =
        ["document-service", "task-service", "user-service", "memory-server", "time-server"];
    let server = |name: &str| json!({ "command": program, "args": ["--stdio", name] });
    let servers: Map<_, _> =
        names.map(|name| (name.to_owned(), server(name))).into_iter().collect();
    write(dir.path(), &servers);
    let call = async || {
        let begin = Instant::now();
        let gateway = start(dir.path());
        let client = client(&gateway);
        let time = json!({ "timezone": "Europe/Berlin" });
        while client.call("time-server_get_current_time", time.clone()).await.is_tool_error() {}
        (gateway, begin.elapsed())
    };
    let (mut gateway, discovered) = call().await;
    gateway.kill_9();
    let (_gateway, restarted) = call().await;
    for (what, elapsed, budget) in
        [("start", discovered, "≤ 10 s"), ("restart after kill -9", restarted, "≤ 2 s")]
    {
        report.add_alone(
            format!("first call after the {what}, {} servers over stdio, no registry", names.len()),
            milliseconds(elapsed),
            budget,
        );
    }
}

fn milliseconds(elapsed: Duration) -> String {
    format!("{} ms", elapsed.as_millis())
}

async fn routing(report: &mut Report, seconds: u64) {
    let backend = Backend::start();
    let url = format!("http://{}/bench/mcp", backend.process.address());
    let mut gateways = Vec::new();
    for count in [1, SERVERS] {
        let dir = tempfile::tempdir().expect("a directory");
        let servers = (0..count).map(|i| (format!("s{i}"), json!({ "url": url })));
        write(dir.path(), &servers.collect());
        let gateway = start(dir.path());
        let tools = client(&gateway).tool_names().await.len();
        gateways.push((gateway, tools, dir));
    }
    let params = json!({ "name": "s0_echo", "arguments": { "payload": "x".repeat(40) } });
    let mut cpu = [const { Vec::new() }; 2];
    for _ in 0..TURNS {
        for ((gateway, ..), cpu) in gateways.iter().zip(&mut cpu) {
            let hop = Hop {
                name: "gateway",
                url: format!("http://{}/mcp", gateway.address()),
                cpu: Box::new(|| gateway.cpu_seconds()),
            };
            let request = (MODERN, "tools/call", params.clone());
            let measured =
                drive(&hop, CONNECTIONS, seconds.div_ceil(2), (ANONYMOUS, request)).await;
            cpu.push(measured.cpu_us());
        }
    }
    let [one, many] = cpu.map(|mut turns| {
        turns.sort_by(f64::total_cmp);
        turns[turns.len() / 2]
    });
    let [(_, few, _), (_, all, _)] = &gateways[..] else { unreachable!("two gateways") };
    report.add(Row {
        path: format!("call of 40 B, {SERVERS} servers with {all} tools, no registry"),
        value: format!("{many:.1} µs of CPU"),
        baseline: format!("1 server with {few} tools: {one:.1} µs"),
        ratio: Some(many / one),
        budget: "≤ 1.05",
    });
}

fn write(dir: &Path, servers: &Map<String, Value>) {
    let file = json!({ "mcpServers": servers }).to_string();
    std::fs::write(dir.join("servers.json"), file).expect("the file is written");
}

fn start(dir: &Path) -> Process {
    Process::start("gateway-agent", dir, |command| {
        command.arg("--mcp-servers").arg(dir.join("servers.json")).current_dir(dir);
        command.args(["--tool-prefix", "always", "--listen", "127.0.0.1:0"]);
    })
}

fn client(gateway: &Process) -> ModernClient {
    ModernClient::anonymous(&format!("http://{}/mcp", gateway.address()))
}
