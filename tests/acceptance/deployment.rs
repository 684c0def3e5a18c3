//! A complete deployment: registry with the example, demo backend, and gateway.

use acceptance::{Backend, Gateway, GatewayOptions, ModernClient, Registry};

pub(crate) struct Deployment {
    pub(crate) registry: Registry,
    _backend: Backend,
    pub(crate) gateway: Gateway,
    pub(crate) options: GatewayOptions,
}

impl Deployment {
    /// Starts everything with default rules and waits until the gateway has the catalog.
    pub(crate) async fn start() -> Self {
        Self::with_runtime(None).await
    }

    /// Starts everything with `registry.validation.runtime` set.
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
        let deployment = Self { registry, _backend: backend, gateway, options };
        deployment.caught_up().await;
        deployment.upstreams_are_up().await;
        deployment
    }

    /// An anonymous client.
    pub(crate) fn anonymous(&self) -> ModernClient {
        ModernClient::anonymous(&self.gateway.mcp_url())
    }

    pub(crate) fn agent(&self, name: &str, version: &str) -> ModernClient {
        ModernClient::agent(&self.gateway.mcp_url(), name, version)
    }

    /// Waits until the tools of all upstreams are known, so that lists no longer change.
    async fn upstreams_are_up(&self) {
        self.gateway.upstreams_up(acceptance::gateway::SERVERS.len()).await;
        let url = format!("http://{}/metrics", self.gateway.address);
        acceptance::eventually("callers are shown what they list", || async {
            let text = reqwest::get(&url).await.expect("it answers").text().await.expect("text");
            text.contains("gateway_contract_tools{state=\"pending\"} 0\n")
        })
        .await;
    }

    /// Waits until the gateway has the registry's revision.
    pub(crate) async fn caught_up(&self) {
        let revision = self.registry.revision().await;
        self.at_revision(revision).await;
    }

    pub(crate) async fn at_revision(&self, revision: u64) {
        acceptance::eventually("the gateway catches up", || async {
            gateway_revision(&self.gateway).await >= Some(revision)
        })
        .await;
    }
}

/// Status and body of `/readyz` of either program.
pub(crate) async fn readiness(address: &str) -> (u16, serde_json::Value) {
    let answer = reqwest::get(format!("http://{address}/readyz")).await.expect("it answers");
    let status = answer.status().as_u16();
    let text = answer.text().await.expect("text");
    (status, serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}")))
}

/// The catalog revision that a gateway serves.
pub(crate) async fn gateway_revision(gateway: &Gateway) -> Option<u64> {
    let url = format!("http://{}/readyz", gateway.address);
    let text = reqwest::get(url).await.ok()?.text().await.ok()?;
    let ready: serde_json::Value = serde_json::from_str(&text).ok()?;
    ready["revision"].as_u64()
}
