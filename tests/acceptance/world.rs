//! A whole system for a test: registry, backend and gateway, with the example registered.

use acceptance::{Backend, Gateway, GatewayOptions, ModernClient, Registry};

pub(crate) struct World {
    pub(crate) registry: Registry,
    _backend: Backend,
    pub(crate) gateway: Gateway,
    pub(crate) options: GatewayOptions,
}

impl World {
    /// The example registered, and a gateway with default rules that has caught up.
    pub(crate) async fn start() -> Self {
        Self::with_runtime(None).await
    }

    /// The same with `registry.validation.runtime` set.
    pub(crate) async fn with_runtime(runtime: Option<&str>) -> Self {
        let registry = Registry::start();
        registry.apply_example();
        let backend = Backend::start();
        let options = GatewayOptions {
            source: format!("grpc://{}", registry.address),
            targets: backend.targets(),
            runtime: runtime.map(str::to_owned),
            more: String::new(),
        };
        let gateway = Gateway::start(&options);
        let world = Self { registry, _backend: backend, gateway, options };
        world.caught_up().await;
        world.upstreams_are_up().await;
        world
    }

    /// A client that does not say who it is.
    pub(crate) fn anonymous(&self) -> ModernClient {
        ModernClient::anonymous(&self.gateway.mcp_url())
    }

    /// A client of a registered agent.
    pub(crate) fn agent(&self, name: &str, version: &str) -> ModernClient {
        ModernClient::agent(&self.gateway.mcp_url(), name, version)
    }

    /// Waits until every upstream is known with its tools; from then on lists do not change by
    /// themselves.
    async fn upstreams_are_up(&self) {
        let up = "upstream is up";
        acceptance::eventually("all upstreams are up", || async {
            let log = self.gateway.process.stderr();
            log.matches(up).count() >= acceptance::gateway::SERVERS.len()
        })
        .await;
        let url = format!("http://{}/metrics", self.gateway.address);
        acceptance::eventually("callers are shown what they list", || async {
            let text = reqwest::get(&url).await.expect("it answers").text().await.expect("text");
            text.contains("gateway_contract_tools{state=\"pending\"} 0\n")
        })
        .await;
    }

    /// Waits until the gateway is at the registry's revision.
    pub(crate) async fn caught_up(&self) {
        let revision = self.registry.revision().await;
        self.at_revision(revision).await;
    }

    /// Waits until the gateway is at least at this revision.
    pub(crate) async fn at_revision(&self, revision: u64) {
        acceptance::eventually("the gateway catches up", || async {
            gateway_revision(&self.gateway).await >= Some(revision)
        })
        .await;
    }
}

/// The readiness page of either program: the status and the body.
pub(crate) async fn readiness(address: &str) -> (u16, serde_json::Value) {
    let answer = reqwest::get(format!("http://{address}/readyz")).await.expect("it answers");
    let status = answer.status().as_u16();
    let text = answer.text().await.expect("text");
    (status, serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}")))
}

/// The revision that a gateway serves, by its readiness page.
pub(crate) async fn gateway_revision(gateway: &Gateway) -> Option<u64> {
    let url = format!("http://{}/readyz", gateway.address);
    let text = reqwest::get(url).await.ok()?.text().await.ok()?;
    let ready: serde_json::Value = serde_json::from_str(&text).ok()?;
    ready["revision"].as_u64()
}
