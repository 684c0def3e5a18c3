//! `maxStaleness`: as the catalog ages, first calls that may change something are rejected, then
//! all calls, also after a restart. Calls are served again when the registry returns.

use acceptance::{
    Backend, Gateway, GatewayOptions, ModernClient, Registry, eventually, mcp::Answer, root,
};
use serde_json::{Value, json};

use crate::deployment::readiness;

const READ_ONLY: [&str; 3] = ["inventory_check", "payment_authorize", "shipping_track"];

struct StalenessScene {
    registry: Registry,
    _backend: Backend,
    gateway: Gateway,
    options: GatewayOptions,
    _dir: tempfile::TempDir,
}

impl StalenessScene {
    async fn start(limits: &str) -> Self {
        Self::confirmed_every("300ms", limits).await
    }

    async fn confirmed_every(interval: &str, limits: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let database = format!("sqlite:{}", dir.path().join("registry.db").display());
        let registry = Registry::start_with(&database, &["--heartbeat-interval", interval]);
        registry.apply_example();
        let backend = Backend::start();
        let source = format!("grpc://{}\n  maxStaleness: {limits}", registry.address);
        let (targets, runtime, more) = (backend.targets(), None, String::new());
        let options = GatewayOptions { source, targets, runtime, more };
        let gateway = Gateway::start(&options);
        let scene = Self { registry, _backend: backend, gateway, options, _dir: dir };
        scene.serves_everything().await;
        eventually("the cache is on disk", || async { scene.gateway.cache().exists() }).await;
        scene
    }

    fn client(&self) -> ModernClient {
        ModernClient::anonymous(&self.gateway.mcp_url())
    }

    async fn check(&self) -> Answer {
        self.client().call("inventory_check", json!({})).await
    }

    async fn create(&self) -> Answer {
        self.client().call("create_task", json!({ "title": "a task" })).await
    }

    async fn ready(&self) -> (u16, Value) {
        readiness(&self.gateway.address).await
    }

    async fn comes_to(&self, verdict: &str) {
        eventually(verdict, || async { self.ready().await.1["staleness"] == verdict }).await;
    }

    async fn serves_everything(&self) {
        eventually("everything is served", || async {
            let (status, ready) = self.ready().await;
            // Without limits, the gateway is ready as soon as it has a catalog.
            status == 200
                && ready["staleness"] == "serve"
                && self.client().tool_names().await.len() > 20
        })
        .await;
    }

    async fn metric(&self, line: &str) -> bool {
        let url = format!("http://{}/metrics", self.gateway.address);
        let text = reqwest::get(url).await.expect("it answers").text().await.expect("text");
        text.lines().any(|found| found == line)
    }

    /// Audit events of calls, oldest first.
    fn audited(&self, tool: &str) -> Vec<String> {
        let log = self.gateway.process.stderr();
        let named = format!("tool=\"{tool}\"");
        let is_event = |line: &&str| line.contains(&named) && line.contains("permit=");
        log.lines().filter(is_event).map(str::to_owned).collect()
    }
}

fn refused(answer: &Answer, limit: u64) {
    assert!(answer.is_tool_error(), "{answer:?}");
    let told = &answer.result()["_meta"]["registry/catalog"];
    assert_eq!(told["reason"], "STALE_CATALOG", "{answer:?}");
    assert_eq!(told["maxAgeSeconds"], limit, "{answer:?}");
    assert!(told["ageSeconds"].as_u64() >= Some(limit), "{answer:?}");
}

#[tokio::test]
async fn calls_are_rejected_as_catalog_ages() {
    let mut scene = StalenessScene::start("{ tools: 3s, readOnlyTools: 9s }").await;
    let current = scene.check().await;
    assert!(!current.is_tool_error(), "{current:?}");
    assert_eq!(current.result()["_meta"]["registry/catalog"], Value::Null, "{current:?}");
    assert!(!scene.create().await.is_tool_error());

    scene.registry.process.kill_9();
    scene.comes_to("read-only").await;
    assert_eq!(scene.ready().await.0, 200, "it still serves something");
    assert_eq!(scene.client().tool_names().await, READ_ONLY, "rejected tools are not listed");
    refused(&scene.create().await, 3);
    let served = scene.check().await;
    assert!(!served.is_tool_error(), "{served:?}");
    let told = &served.result()["_meta"]["registry/catalog"];
    assert_eq!(told["revision"], 1, "{served:?}");
    assert!(told["ageSeconds"].as_u64() >= Some(3), "{served:?}");
    let unknown = scene.client().call("no_such_tool", json!({})).await;
    assert_eq!(unknown.error_code(), -32602, "an unknown tool is reported as before: {unknown:?}");

    scene.comes_to("reject").await;
    let (status, ready) = scene.ready().await;
    assert_eq!((status, &ready["ready"]), (503, &json!(false)), "{ready}");
    assert!(ready["reason"].as_str().is_some_and(|why| why.contains("maxStaleness")), "{ready}");
    assert_eq!(scene.client().tool_names().await, [""; 0]);
    refused(&scene.check().await, 9);
    assert!(scene.metric("gateway_staleness_level{level=\"reject\"} 1").await);
    let counted = "gateway_stale_calls_total{level=\"read-only\",outcome=\"served\"} 1";
    assert!(scene.metric(counted).await);
    let last = scene.audited("inventory_check").pop().expect("an event");
    for part in ["permit=\"deny:stale-catalog\"", "staleness=\"reject\"", "catalog_age_seconds="] {
        assert!(last.contains(part), "{last}");
    }

    scene.registry.restart();
    scene.serves_everything().await;
    assert!(!scene.create().await.is_tool_error());
}

/// Neither writing nor reading the cache resets the age of the catalog.
#[tokio::test]
async fn restart_keeps_catalog_age() {
    let mut scene = StalenessScene::start("{ tools: 2s, readOnlyTools: 4s }").await;
    let obstacle = scene.gateway.cache().with_extension("json.tmp");
    std::fs::create_dir(&obstacle).expect("a directory where a file is to be");
    scene.registry.apply_file(&root().join("examples/new-version.json"));
    eventually("the cache cannot be written", || async {
        let ready = scene.ready().await.1;
        ready["revision"] == 2 && ready["persistedRevision"] == 1
    })
    .await;
    scene.registry.process.kill_9();
    scene.comes_to("reject").await;
    std::fs::remove_dir(&obstacle).expect("it is empty");
    eventually("it is written after all", || async {
        scene.ready().await.1["persistedRevision"] == 2
    })
    .await;
    scene.gateway.process.kill_9();
    let options = scene.options.clone();
    scene.gateway.restart(&options);
    let (status, ready) = scene.ready().await;
    assert_eq!((status, &ready["staleness"]), (503, &json!("reject")), "{ready}");
    refused(&scene.check().await, 4);
    scene.registry.restart();
    scene.serves_everything().await;
}

#[tokio::test]
async fn too_small_staleness_limit_is_warned() {
    let scene = StalenessScene::confirmed_every("2s", "{ tools: 3s, readOnlyTools: 1h }").await;
    let warning = ["WARN", "setting=\"registry.maxStaleness.tools\"", "limit_s=3 ", "least_s="];
    eventually("the setting and a sufficient value are logged", || async {
        scene.gateway.process.logged(&warning).len() == 1
    })
    .await;
}

#[tokio::test]
async fn catalog_is_served_indefinitely_without_limit() {
    let mut scene = StalenessScene::start("{}").await;
    scene.registry.process.kill_9();
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(scene.ready().await.1["staleness"], "serve");
    assert!(!scene.create().await.is_tool_error());
}
