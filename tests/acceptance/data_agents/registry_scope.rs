//! Registrations in a registry at a gateway that follows a part of it.

use acceptance::Registry;

use super::*;

#[tokio::test]
async fn agent_with_server_in_scope_is_registered() {
    let registry = Registry::start();
    let scope = "scope: [\"server/extractor@*\", \"agent/extractor@*\"]";
    let source = format!("grpc://{}\n  {scope}", registry.address);
    let gateway = Gateway::start(&GatewayOptions {
        source,
        targets: String::new(),
        runtime: None,
        more: "agents: { selfRegistration: accept }\nidentity: { trustHeaders: true }\n".to_owned(),
    });
    gateway.ready().await;
    let opened = WebSocket::open(&gateway.address, &[("x-agent-name", "owner")]).await;
    let mut extractor = opened.expect("a WebSocket");
    let answer = extractor.asked(&registration("extractor")).await;
    assert_eq!(answer["result"]["version"], "1.0.0", "{answer}");
    let servers = registry.json(&["list", "server"]);
    assert!(servers.to_string().contains("extractor"), "{servers}");
}
