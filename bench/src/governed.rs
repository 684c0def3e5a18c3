//! Calls with full governance: authorization by names, a rate, a price with a budget, and
//! inspection of arguments and results, compared with nginx and a gateway without policies.

use acceptance::{
    Backend,
    mcp::{LEGACY, MODERN},
};
use registry_proto::v1::{self, PolicyBudgetScope};

use crate::{
    budgets,
    calls::{self, Hop},
    governance, inspection, nginx,
    report::{Report, Row},
    sample,
    turns::{self, Calls, Site},
};

const AGENT: &str = "governed-agent";

/// Measures 40 B and 1 KiB at 1, 16 and 64 connections in both eras.
pub(crate) async fn measure(report: &mut Report, seconds: u64) {
    let backend = Backend::start();
    let nginx = nginx::start(&backend.process.address());
    let agent = (AGENT, sample::OWN_TOOLS.len());
    let mut changes = sample::own();
    changes.push(sample::agent(AGENT, sample::OWN_TOOLS.len()));
    let ungoverned = Site::start(&backend, changes.clone(), agent).await;
    changes.push(sample::register_policy(policy()));
    let governed = Site::start(&backend, changes, agent).await;
    let hops = [
        Hop::peer("nginx", &nginx, "/bench/mcp"),
        ungoverned.hop("gateway without policies"),
        governed.hop("gateway with policies"),
    ];
    for version in [MODERN, LEGACY] {
        for payload_bytes in [40, 1024] {
            for connections in [1, 16, 64] {
                let calls = Calls { version, payload_bytes, connections };
                measure_calls(report, &hops, calls, seconds).await;
            }
        }
    }
}

async fn measure_calls(report: &mut Report, hops: &[Hop<'_>; 3], calls: Calls, seconds: u64) {
    let callers = hops.each_ref().map(|hop| (hop, AGENT));
    let [nginx, ungoverned, governed] = turns::in_turns(callers, calls, seconds).await;
    let Calls { version, payload_bytes, connections } = calls;
    report.add(Row {
        path: format!(
            "governed tools/call of {version}, {} there and back, {connections} connections: \
             CPU per call in the hop",
            calls::size(payload_bytes)
        ),
        value: format!("{governed:.1} µs"),
        baseline: format!("nginx {nginx:.1} µs; gateway without policies {ungoverned:.1} µs"),
        ratio: Some(governed / nginx),
        budget: "≤ 2.5 × nginx",
    });
}

/// A policy that permits all measured calls.
fn policy() -> v1::Policy {
    let budget = budgets::budget("ample", PolicyBudgetScope::Agent, budgets::AMPLE);
    let by_names = governance::by_names("governed", AGENT, "echo");
    v1::Policy {
        inspection: Some(inspection::strict()),
        ..budgets::with_budgets(by_names, vec![budget])
    }
}
