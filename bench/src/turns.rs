//! CPU of calls with and without policies, in turns.

use acceptance::{Backend, Gateway, GatewayOptions, ModernClient, Registry, mcp::MODERN};
use registry_proto::v1;
use serde_json::json;

use crate::{
    calls::{self, Hop, Measured},
    sample,
};

/// Concurrent calls.
pub(crate) const CONNECTIONS: usize = 16;
/// The loads of all cases alternate this many times.
const ROUNDS: usize = 3;
/// The text of the arguments, which has no findings.
const TEXT: &str =
    "The gateway forwards each call to its upstream and returns the result to the caller. ";
/// Seconds of a first load of each case, which does not count: rights to spend are granted meanwhile.
const WARM_UP: u64 = 2;

/// An agent whose calls are measured.
pub(crate) struct Case {
    pub(crate) agent: &'static str,
    /// The policy about the agent. `None`: it calls through a gateway without policies.
    pub(crate) policy: Option<v1::Policy>,
}

/// A gateway and its registry.
struct Site {
    gateway: Gateway,
    _registry: Registry,
}

/// The CPU time of the gateway per call in microseconds. The argument and the result have this size.
#[expect(clippy::cast_precision_loss, reason = "counts of calls fit a double")]
pub(crate) async fn cpu_per_call<const N: usize>(
    cases: &[Case; N],
    payload_bytes: usize,
    seconds: u64,
) -> [f64; N] {
    let backend = Backend::start();
    let without = Site::start(&backend, cases, |_| None).await;
    let with = Site::start(&backend, cases, |case| case.policy.clone()).await;
    let site = |case: &Case| if case.policy.is_some() { &with } else { &without };
    for case in cases {
        site(case).load(case.agent, payload_bytes, WARM_UP).await;
    }
    let mut totals = [(0.0, 0); N];
    for _ in 0..ROUNDS {
        for (total, case) in totals.iter_mut().zip(cases) {
            let measured = site(case).load(case.agent, payload_bytes, seconds).await;
            *total = (total.0 + measured.cpu_seconds, total.1 + measured.load.count);
        }
    }
    totals.map(|(seconds, calls)| seconds * 1e6 / calls as f64)
}

impl Site {
    async fn start(
        backend: &Backend,
        cases: &[Case],
        policy: impl Fn(&Case) -> Option<v1::Policy>,
    ) -> Self {
        let registry = Registry::start();
        let mut changes = sample::own();
        for case in cases {
            changes.push(sample::agent(case.agent, sample::OWN_TOOLS.len()));
            changes.extend(policy(case).map(sample::register_policy));
        }
        registry.client().await.apply_changes(sample::request(changes)).await.expect("accepted");
        let gateway = Gateway::start(&GatewayOptions {
            source: format!("grpc://{}", registry.address),
            targets: format!(
                "targets:\n  - {{ server: bench-server, version: 1.0.0, http: \"http://{}/bench/mcp\" }}\n",
                backend.process.address()
            ),
            runtime: Some("{ inputValidation: deny, undeclaredDependency: deny }".to_owned()),
            more: String::new(),
        });
        gateway.ready().await;
        let client = ModernClient::agent(&gateway.mcp_url(), cases[0].agent, "1.0.0");
        acceptance::eventually("the gateway lists the tools", || async {
            client.tool_names().await.len() == sample::OWN_TOOLS.len()
        })
        .await;
        Self { gateway, _registry: registry }
    }

    async fn load(&self, agent: &'static str, payload_bytes: usize, seconds: u64) -> Measured {
        let hop = Hop {
            name: agent,
            url: self.gateway.mcp_url(),
            cpu: Box::new(|| self.gateway.process.cpu_seconds()),
        };
        let payload: String = TEXT.chars().cycle().take(payload_bytes).collect();
        let params = json!({ "name": "echo", "arguments": { "payload": payload } });
        let request = (MODERN, "tools/call", params);
        calls::drive(&hop, CONNECTIONS, seconds, (agent, request)).await
    }
}
