//! `tools/call` at 256 connections over 100 tools: the slowest calls, compared with nginx.

use acceptance::{
    Backend,
    mcp::{LEGACY, MODERN},
};

use crate::{
    calls::{Client, Hop, drive_each, echo},
    load::Load,
    nginx,
    report::{Report, Row},
    sample,
    turns::Site,
};

const CONNECTIONS: usize = 256;
const TOOLS: usize = 100;
const PAYLOAD_BYTES: usize = 40;
const AGENT: &str = "contending-agent";

/// Measures both eras. The tools of the gateway have one upstream tool, which nginx calls directly.
pub(crate) async fn measure(report: &mut Report, seconds: u64) {
    let backend = Backend::start();
    let nginx = nginx::start(&backend.process.address());
    let tools: Vec<_> = (0..TOOLS).map(|number| format!("echo_{number:03}")).collect();
    let mut changes = sample::own();
    changes.extend(tools.iter().map(|tool| sample::echo_alias(tool)));
    changes.push(sample::agent_of(AGENT, tools.clone()));
    let site = Site::start(&backend, changes, (AGENT, TOOLS)).await;
    let nginx = Hop::peer("nginx", &nginx, "/bench/mcp");
    let gateway = site.hop("gateway");
    for version in [MODERN, LEGACY] {
        let nginx = load(&nginx, &["echo".to_owned()], (version, seconds)).await;
        let gateway = load(&gateway, &tools, (version, seconds)).await;
        report.add(Row {
            path: format!(
                "tools/call of {version}, {PAYLOAD_BYTES} B there and back, \
                 {CONNECTIONS} connections, {TOOLS} tools: p99"
            ),
            value: format!("gateway {}", gateway.text()),
            baseline: format!("nginx {}", nginx.text()),
            ratio: Some(gateway.quantile_ms(0.99) / nginx.quantile_ms(0.99)),
            budget: "≤ 3 × nginx",
        });
    }
}

/// Each connection calls one of the tools.
async fn load(hop: &Hop<'_>, tools: &[String], (version, seconds): (&'static str, u64)) -> Load {
    let mut clients = Vec::new();
    for tool in tools.iter().cycle().take(CONNECTIONS) {
        let params = echo(tool, PAYLOAD_BYTES);
        clients.push(Client::new(&hop.url, AGENT, (version, "tools/call"), &params).await);
    }
    drive_each(hop, clients, seconds).await.load
}
