//! Registrations that gateways store in a registry.

use acceptance::{Registry, access::Guarded};

use super::*;

/// A gateway of a registry.
async fn gateway_of(registry: &Registry) -> Gateway {
    gateway_at(format!("grpc://{}", registry.address)).await
}

/// A gateway with this source.
async fn gateway_at(source: String) -> Gateway {
    let gateway = Gateway::start(&GatewayOptions {
        source,
        targets: String::new(),
        runtime: None,
        more: "agents: { selfRegistration: accept }\n".to_owned(),
    });
    gateway.ready().await;
    gateway
}

/// A WebSocket of an agent at a gateway.
async fn socket(gateway: &Gateway, agent: &str) -> WebSocket {
    let opened = WebSocket::open(&gateway.address, &[("x-agent-name", agent)]).await;
    opened.expect("a WebSocket")
}

/// The status and the version of a registration.
fn registered(answer: &Value) -> (&str, &str) {
    let member = |name: &str| answer["result"][name].as_str().unwrap_or_default();
    (member("status"), member("version"))
}

/// The lifecycle state of a registered entity.
fn state(registry: &Registry, key: &str) -> Value {
    registry.json(&["get", key])["lifecycle"]["state"].clone()
}

/// Calls the function of `extractor` as an unknown caller.
async fn execute(gateway: &Gateway) -> Value {
    let body = json!({ "method": "agent.execute", "params": { "agent_id": "extractor",
        "function": "extract", "input": { "symbol": "AAPL" }, "meta": { "task_id": "t" } } });
    let request = reqwest::Client::new()
        .post(format!("http://{}/rpc", gateway.address))
        .header("content-type", "application/json")
        .body(body.to_string());
    let text = request.send().await.expect("sent").text().await.expect("a body");
    serde_json::from_str(&text).expect("JSON")
}

/// Answers the next call of an agent.
async fn answer_call(agent: &mut WebSocket) {
    let text = agent.text().await.expect("a call");
    let request: Value = serde_json::from_str(&text).expect("JSON");
    let answer = json!({ "id": request["id"], "result": { "features": [1.5] } });
    assert!(agent.send(answer.to_string()).await);
}

#[tokio::test]
async fn registration_is_stored_in_the_registry() {
    let registry = Registry::start();
    let gateway = gateway_of(&registry).await;
    let mut owner = socket(&gateway, "owner").await;
    let first = registration("extractor");
    assert_eq!(registered(&owner.asked(&first).await), ("registered", "1.0.0"));
    assert_eq!(registered(&owner.asked(&first).await), ("unchanged", "1.0.0"));
    let mut next = first.clone();
    next["params"]["description"] = "reads features".into();
    assert_eq!(registered(&owner.asked(&next).await), ("registered", "1.0.1"));
    for kind in ["server/extractor", "agent/extractor", "tool/extractor.extract"] {
        for version in ["1.0.0", "1.0.1"] {
            assert_eq!(state(&registry, &format!("{kind}@{version}")), "active");
        }
    }
    let mut breaking = registration("extractor");
    breaking["params"]["schema"]["extract"]["input"]["interval"] = "string".into();
    let answer = owner.asked(&breaking).await;
    assert_eq!(error(&answer), (-32602, "INVALID_PARAMS"), "{answer}");
    let answer = socket(&gateway, "other").await.asked(&next).await;
    assert_eq!(error(&answer), (-32003, "AGENT_ID_TAKEN"), "{answer}");
    let (called, ()) = tokio::join!(execute(&gateway), answer_call(&mut owner));
    assert_eq!(called["result"], json!({ "features": [1.5] }), "{called}");
}

#[tokio::test]
async fn agent_registers_at_two_gateways_at_once() {
    let registry = Registry::start();
    let (first, second) = (gateway_of(&registry).await, gateway_of(&registry).await);
    let (mut one, mut other) = (socket(&first, "owner").await, socket(&second, "owner").await);
    for number in 0..4 {
        let request = registration(&format!("extractor{number}"));
        let (at_first, at_second) = tokio::join!(one.asked(&request), other.asked(&request));
        let mut both = [registered(&at_first), registered(&at_second)];
        both.sort_unstable();
        let expected = [("registered", "1.0.0"), ("unchanged", "1.0.0")];
        assert_eq!(both, expected, "{at_first} {at_second}");
    }
}

#[tokio::test]
async fn agent_outside_of_the_scope_is_not_committed() {
    let registry = Registry::start();
    let scope = "scope: [\"server/allowed@*\"]";
    let gateway = gateway_at(format!("grpc://{}\n  {scope}", registry.address)).await;
    let mut owner = socket(&gateway, "owner").await;
    let answer = owner.asked(&registration("extractor")).await;
    assert_eq!(error(&answer), (-32603, "INTERNAL"), "{answer}");
    assert_eq!(registry.revision().await, 0);
    let answer = owner.asked(&registration("allowed")).await;
    assert_eq!(registered(&answer), ("registered", "1.0.0"), "{answer}");
}

#[tokio::test]
async fn retired_agent_has_a_reason_of_its_own() {
    let registry = Registry::start();
    let gateway = gateway_of(&registry).await;
    let request = registration("extractor");
    let answer = socket(&gateway, "owner").await.asked(&request).await;
    assert_eq!(registered(&answer), ("registered", "1.0.0"), "{answer}");
    registry.run(&["retire", "--yes", "server/extractor@1.0.0", "--force", "a test"]);
    let is_refused = || async {
        let answer = socket(&gateway, "owner").await.asked(&request).await;
        error(&answer) == (-32003, "AGENT_RETIRED")
    };
    eventually("the gateway has the retirement", is_refused).await;
}

#[tokio::test]
async fn missing_role_of_the_gateway_is_no_error_of_the_agent() {
    let guarded = Guarded::start(&[]);
    let dir = tempfile::tempdir().expect("a directory");
    let token = dir.path().join("token");
    fs::write(&token, guarded.token("edge", "platform", "gateway")).expect("written");
    let address = &guarded.registry.address;
    let source = format!("grpc://{address}\n  tokenFile: {}", token.display());
    let gateway = gateway_at(source).await;
    let answer = socket(&gateway, "owner").await.asked(&registration("extractor")).await;
    assert_eq!(error(&answer), (-32603, "INTERNAL"), "{answer}");
}
