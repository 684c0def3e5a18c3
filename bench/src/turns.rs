//! CPU of calls through several hops, in turns.

use acceptance::{Backend, Gateway, GatewayOptions, ModernClient, Registry, mcp::MODERN};
use registry_proto::v1;
use serde_json::json;

use crate::{
    calls::{self, Hop, Measured},
    sample,
};

/// Concurrent calls of cases.
pub(crate) const CONNECTIONS: usize = 16;
/// The loads of all hops alternate this many times.
pub(crate) const ROUNDS: usize = 3;
/// The text of the arguments, which has no findings.
const TEXT: &str =
    "The gateway forwards each call to its upstream and returns the result to the caller. ";
/// Seconds of a first load of each hop, which does not count: rights to spend are granted meanwhile.
const WARM_UP: u64 = 2;

/// An agent whose calls are measured.
pub(crate) struct Case {
    pub(crate) agent: &'static str,
    /// The policy about the agent. `None`: it calls through a gateway without policies.
    pub(crate) policy: Option<v1::Policy>,
}

/// Concurrent calls of the echo tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calls {
    /// The revision of MCP.
    pub(crate) version: &'static str,
    /// The size of the argument and of the result.
    pub(crate) payload_bytes: usize,
    pub(crate) connections: usize,
}

/// A gateway and its registry.
pub(crate) struct Site {
    gateway: Gateway,
    _registry: Registry,
}

/// The CPU time of the gateway per call of each case in microseconds.
pub(crate) async fn cpu_per_call<const N: usize>(
    cases: &[Case; N],
    payload_bytes: usize,
    seconds: u64,
) -> [f64; N] {
    let backend = Backend::start();
    let agent = (cases[0].agent, sample::OWN_TOOLS.len());
    let mut changes = sample::own();
    changes.extend(cases.iter().map(|case| sample::agent(case.agent, sample::OWN_TOOLS.len())));
    let without = Site::start(&backend, changes.clone(), agent).await;
    changes
        .extend(cases.iter().filter_map(|case| case.policy.clone().map(sample::register_policy)));
    let with = Site::start(&backend, changes, agent).await;
    let hops = cases.each_ref().map(|case| {
        let site = if case.policy.is_some() { &with } else { &without };
        (site.hop(case.agent), case.agent)
    });
    let callers = hops.each_ref().map(|(hop, agent)| (hop, *agent));
    in_turns(callers, Calls { version: MODERN, payload_bytes, connections: CONNECTIONS }, seconds)
        .await
}

/// The CPU time of each hop per call in microseconds, with the agent that calls.
#[expect(clippy::cast_precision_loss, reason = "counts of calls fit a double")]
pub(crate) async fn in_turns<const N: usize>(
    callers: [(&Hop<'_>, &'static str); N],
    calls: Calls,
    seconds: u64,
) -> [f64; N] {
    for caller in callers {
        load(caller, calls, WARM_UP).await;
    }
    let mut totals = [(0.0, 0); N];
    for _ in 0..ROUNDS {
        for (total, caller) in totals.iter_mut().zip(callers) {
            let measured = load(caller, calls, seconds).await;
            *total = (total.0 + measured.cpu_seconds, total.1 + measured.load.count);
        }
    }
    totals.map(|(seconds, calls)| seconds * 1e6 / calls as f64)
}

async fn load((hop, agent): (&Hop<'_>, &'static str), calls: Calls, seconds: u64) -> Measured {
    let payload: String = TEXT.chars().cycle().take(calls.payload_bytes).collect();
    let params = json!({ "name": "echo", "arguments": { "payload": payload } });
    let request = (calls.version, "tools/call", params);
    calls::drive(hop, calls.connections, seconds, (agent, request)).await
}

impl Site {
    /// Registers entities and waits until the agent can list this number of tools.
    pub(crate) async fn start(
        backend: &Backend,
        changes: Vec<v1::EntityChange>,
        (agent, tools): (&str, usize),
    ) -> Self {
        let registry = Registry::start();
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
        let client = ModernClient::agent(&gateway.mcp_url(), agent, "1.0.0");
        acceptance::eventually("the gateway lists the tools", || async {
            client.tool_names().await.len() == tools
        })
        .await;
        Self { gateway, _registry: registry }
    }

    /// The gateway as the target of requests.
    pub(crate) fn hop(&self, name: &'static str) -> Hop<'_> {
        Hop {
            name,
            url: self.gateway.mcp_url(),
            cpu: Box::new(|| self.gateway.process.cpu_seconds()),
        }
    }
}
