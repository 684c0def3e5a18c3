//! Policies: CPU of governed calls, and views with 10,000 policies.

use std::{fmt::Write as _, time::Instant};

use acceptance::{Gateway, GatewayOptions, ModernClient, Registry, mcp::MODERN};
use registry_proto::v1;

use crate::{
    report::{Report, Row},
    sample,
    turns::{self, CONNECTIONS, Case},
};

const PAYLOAD_BYTES: usize = 40;
const AGENTS: usize = 1_000;
const POLICIES: usize = 10_000;
/// Declared tools of an agent. A policy about each applies to the agent.
const TOOLS_PER_AGENT: usize = POLICIES / AGENTS;
/// Changes per batch.
const BATCH: usize = 2_000;

/// Measures calls, then lists.
pub(crate) async fn measure(report: &mut Report, seconds: u64) {
    governed_calls(report, seconds).await;
    views(report).await;
}

/// Statements that read the argument `payload` and are not satisfied.
fn conditions(count: usize) -> String {
    let mut text = String::new();
    for number in 0..count {
        let _ = writeln!(
            text,
            "forbid (principal, action == Action::\"call\", resource) when {{ \
             context.arguments.payload == \"forbidden-{number}\" }};"
        );
    }
    text
}

fn with_conditions(policy: v1::Policy, cedar: String) -> v1::Policy {
    v1::Policy { authorization: Some(v1::PolicyAuthorization { cedar }), ..policy }
}

/// Name-based authorization and a rate that is never reached.
pub(crate) fn by_names(name: &str, caller: &str, tool: &str) -> v1::Policy {
    let rate = v1::PolicyRate {
        per: vec![v1::PolicyRateKey::Caller.into(), v1::PolicyRateKey::Tool.into()],
        limit: Some(1_000_000),
        window: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
        ..Default::default()
    };
    let cedar = "forbid (principal == Agent::\"intruder\", action, resource);".to_owned();
    v1::Policy { rates: vec![rate], ..with_conditions(sample::policy(name, caller, tool), cedar) }
}

async fn apply(registry: &Registry, changes: Vec<v1::EntityChange>) {
    let mut client = registry.client().await;
    for batch in changes.chunks(BATCH) {
        client.apply_changes(sample::request(batch.to_vec())).await.expect("accepted");
    }
}

fn cases() -> [Case; 4] {
    let conditional = |agent, count| Case {
        agent,
        policy: Some(with_conditions(sample::policy(agent, agent, "echo"), conditions(count))),
    };
    [
        Case { agent: "ungoverned", policy: None },
        Case { agent: "names", policy: Some(by_names("names", "names", "echo")) },
        conditional("one-condition", 1),
        conditional("six-conditions", 6),
    ]
}

async fn governed_calls(report: &mut Report, seconds: u64) {
    let [none, names, one, six] = turns::cpu_per_call(&cases(), PAYLOAD_BYTES, seconds).await;
    let baseline = format!("without policies {none:.1} µs");
    let what =
        format!("CPU per tools/call of {MODERN}, {PAYLOAD_BYTES} B, {CONNECTIONS} connections");
    report.add(Row {
        path: format!("{what}, with a policy by names and a rate"),
        value: format!("{names:.1} µs"),
        baseline: baseline.clone(),
        ratio: Some(names / none),
        budget: "≤ 1.05 × without policies",
    });
    report.add(Row {
        path: format!("{what}, with one condition on an argument"),
        value: format!("{one:.1} µs, {:.1} µs more", one - none),
        baseline: baseline.clone(),
        ratio: Some(one / none),
        budget: "≤ 40 µs more",
    });
    report.add(Row {
        path: format!("{what}, with six conditions on an argument"),
        value: format!("{six:.1} µs, {:.1} µs more for each further one", (six - one) / 5.0),
        baseline,
        ratio: Some(six / none),
        budget: "≤ 5 µs for each further one",
    });
}

/// Compares a gateway with 10,000 policies with one without, for 1,000 agents.
async fn views(report: &mut Report) {
    let [without, with] = [views_of(0).await, views_of(POLICIES).await];
    let text = |views: &ViewCosts| {
        let ViewCosts { start_ms, list_us, mib } = views;
        format!("ready after {start_ms} ms, {list_us:.0} µs per first list, {mib} MiB")
    };
    report.add(Row {
        path: format!(
            "gateway, {AGENTS} agents with {TOOLS_PER_AGENT} tools each, {POLICIES} policies: \
             start, CPU of the first list of each agent, memory"
        ),
        value: text(&with),
        baseline: format!("without policies: {}", text(&without)),
        ratio: Some(with.list_us / without.list_us),
        budget: "",
    });
}

struct ViewCosts {
    /// From the start of the process until it has the catalog.
    start_ms: u128,
    list_us: f64,
    mib: u64,
}

#[expect(clippy::cast_precision_loss, reason = "counts of agents fit a double")]
async fn views_of(policies: usize) -> ViewCosts {
    let registry = Registry::start();
    let mut changes: Vec<_> = sample::registry(TOOLS_PER_AGENT).concat();
    changes.extend(sample::own());
    let declared = TOOLS_PER_AGENT + sample::OWN_TOOLS.len();
    changes.extend((0..AGENTS).map(|agent| sample::agent(&format!("agent-{agent}"), declared)));
    let about = |number: usize| {
        let (agent, tool) = (format!("agent-{}", number % AGENTS), number / AGENTS);
        sample::register_policy(by_names(
            &format!("policy-{number}"),
            &agent,
            &sample::tool_name(tool),
        ))
    };
    changes.extend((0..policies).map(about));
    apply(&registry, changes).await;
    let options = GatewayOptions {
        source: format!("grpc://{}", registry.address),
        targets: "targets:\n\
                  \x20 - { server: server-0, version: \"*\", http: \"http://127.0.0.1:1/mcp\" }\n\
                  \x20 - { server: bench-server, version: \"*\", http: \"http://127.0.0.1:1/mcp\" }\n"
            .to_owned(),
        runtime: None,
        more: String::new(),
    };
    let begin = Instant::now();
    let gateway = Gateway::start(&options);
    gateway.ready().await;
    let start_ms = begin.elapsed().as_millis();
    let before = gateway.process.cpu_seconds();
    for agent in 0..AGENTS {
        let client = ModernClient::agent(&gateway.mcp_url(), &format!("agent-{agent}"), "1.0.0");
        assert_eq!(client.tool_names().await.len(), declared);
    }
    let list_us = (gateway.process.cpu_seconds() - before) * 1e6 / AGENTS as f64;
    ViewCosts { start_ms, list_us, mib: gateway.process.resident_bytes() >> 20 }
}
