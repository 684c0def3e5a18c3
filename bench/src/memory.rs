//! Memory of both processes.

use std::time::{Duration, Instant};

use acceptance::{Gateway, GatewayOptions, ModernClient, Registry, process::resident_bytes};
use registry_proto::v1;
use tonic::transport::Channel;

use crate::{
    etcd::{self, Etcd, Watchers},
    follow::Follower,
    followers::{self, Followers},
    idle_server, load, reads,
    report::{Report, Row},
    sample,
};

/// The tools of a gateway with a large catalog.
pub(crate) const TOOLS: usize = 10_000;
/// The agent that calls it, and its declared tools.
pub(crate) const AGENT: &str = "bench-agent";
const DECLARED: usize = 501;
const STREAMS: usize = 1_000;
/// Commits that each stream receives before it is idle.
const COMMITS: usize = 10;
/// Time for memory to settle.
const SETTLE: Duration = Duration::from_secs(2);

/// A gateway with [`TOOLS`] tools, and its registry.
pub(crate) struct Site {
    pub(crate) registry: Registry,
    pub(crate) gateway: Gateway,
    pub(crate) options: GatewayOptions,
}

/// Measures a gateway with 10,000 tools, and 1,000 idle streams.
pub(crate) async fn measure(report: &mut Report) {
    gateway(report).await;
    streams(report).await;
}

impl Site {
    /// Starts both, and waits until the gateway has all tools.
    pub(crate) async fn start() -> Self {
        let registry = Registry::start();
        reads::apply_all(&registry, TOOLS).await;
        let mut last = sample::own();
        last.push(sample::agent(AGENT, DECLARED));
        registry.client().await.apply_changes(sample::request(last)).await.expect("accepted");
        let options = GatewayOptions {
            source: format!("grpc://{}", registry.address),
            targets: targets(DECLARED),
            runtime: None,
            more: String::new(),
        };
        let gateway = Gateway::start(&options);
        gateway.ready().await;
        let client = ModernClient::agent(&gateway.mcp_url(), AGENT, "1.0.0");
        acceptance::eventually("the gateway has all tools", || async {
            client.tool_names().await.len() == DECLARED
        })
        .await;
        Self { registry, gateway, options }
    }
}

async fn gateway(report: &mut Report) {
    let site = Site::start().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    report.add_alone(
        format!("gateway memory, {TOOLS} tools, one agent's view of {DECLARED}"),
        format!("{} MiB", site.gateway.process.resident_bytes() >> 20),
        "≤ 60 MiB",
    );
}

/// Unreachable targets for the servers of `tools` tools. Only tools with a target are listed.
fn targets(tools: usize) -> String {
    let target = |server: String| {
        format!("  - {{ server: {server}, version: \"*\", http: \"http://127.0.0.1:1/mcp\" }}\n")
    };
    let servers = (0..tools.div_ceil(sample::TOOLS_PER_SERVER)).map(|i| format!("server-{i}"));
    let targets: String = servers.chain(["bench-server".to_owned()]).map(target).collect();
    format!("targets:\n{targets}")
}

async fn streams(report: &mut Report) {
    for (connections, what) in [(10, "100 on a connection"), (STREAMS, "a connection each")] {
        let registry = Registry::start();
        // Excludes one-time allocations of the first commits and the first stream.
        let _warm = Follower::connect(&registry).await;
        let mut client = registry.client().await;
        for number in 1..=COMMITS {
            client
                .apply_changes(sample::request(vec![sample::schema(number)]))
                .await
                .expect("accepted");
        }
        tokio::time::sleep(SETTLE).await;
        let before = registry.process.resident_bytes();
        let channels = followers::connections(&registry.url(), connections).await;
        let mut followers = Followers::open(&channels, STREAMS, |_| None).await;
        tokio::time::sleep(SETTLE).await;
        let fresh = each(registry.process.resident_bytes().saturating_sub(before));
        for number in COMMITS + 1..=2 * COMMITS {
            client
                .apply_changes(sample::request(vec![sample::schema(number)]))
                .await
                .expect("accepted");
            followers.all_reach(number as u64, &mut load::histogram(), Instant::now()).await;
        }
        tokio::time::sleep(SETTLE).await;
        let used = each(registry.process.resident_bytes().saturating_sub(before));
        let floor = floor(connections).await;
        let theirs = watches(connections).await;
        let etcd = theirs.map(|kib| format!("; etcd: {kib:.1} KiB per watch")).unwrap_or_default();
        report.add(Row {
            path: format!("registry memory per idle stream, {STREAMS} streams, {what}"),
            value: format!("{fresh:.1} KiB, after {COMMITS} commits {used:.1} KiB"),
            baseline: format!("a server of tonic that only keeps them open: {floor:.1} KiB{etcd}"),
            ratio: Some(used / floor),
            budget: "≤ 16 KiB",
        });
    }
}

/// The memory of a stream that never sends a message, in KiB.
async fn floor(connections: usize) -> f64 {
    let server = idle_server::start();
    let address = format!("http://{}", server.address);
    let open = async |channels: &[Channel], count: usize| {
        let mut streams = Vec::new();
        for number in 0..count {
            let channel = channels[number % channels.len()].clone();
            streams.push(followers::open(channel, v1::ClientHello::default()).await);
        }
        streams
    };
    let warm = followers::connections(&address, 1).await;
    let _warm = open(&warm, 1).await;
    tokio::time::sleep(SETTLE).await;
    let before = server.resident_bytes();
    let channels = followers::connections(&address, connections).await;
    let _streams = open(&channels, STREAMS).await;
    tokio::time::sleep(SETTLE).await;
    each(server.resident_bytes().saturating_sub(before))
}

/// The memory of an etcd watch after as many changes.
async fn watches(connections: usize) -> Option<f64> {
    let etcd = Etcd::start().await?;
    let before = resident_bytes(etcd.id());
    let channels = followers::connections(&etcd.address, connections).await;
    let mut watchers = Watchers::open(&channels, STREAMS, |_| "/0/".to_owned()).await;
    let put = async |number| {
        etcd::put(&channels[0], &format!("/0/{number}"), &[b'x'; 700]).await;
    };
    watchers.latencies(COMMITS, put).await;
    tokio::time::sleep(SETTLE).await;
    Some(each(resident_bytes(etcd.id()).saturating_sub(before)))
}

/// KiB per stream.
#[expect(clippy::cast_precision_loss, reason = "sizes fit a double")]
fn each(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / STREAMS as f64
}
