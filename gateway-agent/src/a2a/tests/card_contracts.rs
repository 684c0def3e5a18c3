//! The card of an agent as its contract: differences, quarantine and acceptance.

use std::sync::atomic::Ordering;

use a2a::Version;
use gateway_policy::ValidationMode;
use http::Method;
use registry_core::Digest;
use serde_json::{Value, json};

use super::harness::{A2aBench, message, request};
use crate::mcp::tests::{
    harness::{Got, Setup},
    relayed::acceptable,
};

const AGENT: &str = "agent/office/helper@1.0.0";

/// The card of the agent as registered, with this skill.
fn card(skill: &str) -> Value {
    json!({
        "name": "helper", "version": "1.0.0", "description": "Helps.",
        "url": "http://helper.internal:9000/rpc", "protocolVersion": "0.3.0",
        "preferredTransport": "JSONRPC", "capabilities": { "streaming": true },
        "defaultInputModes": ["text/plain", "application/json"],
        "defaultOutputModes": ["text/plain", "application/json"],
        "skills": [{ "id": skill, "name": "Work", "description": "Works.", "tags": ["work"] }],
    })
}

async fn start(mode: ValidationMode) -> A2aBench {
    let mut setup = Setup::default();
    setup.policy.contract_drift = mode;
    A2aBench::start_with(setup, []).await
}

impl A2aBench {
    /// Serves another card and fetches it. Then the report has this value at a pointer.
    async fn serve_card(&self, card: Value, (pointer, value): (&str, Value)) {
        let text = card.to_string();
        *self.script.card.lock().unwrap() = Some(card);
        self.check_agent();
        let key = AGENT.parse().unwrap();
        let definitions = self.bench.contracts.definitions();
        // The card is compared before it is published.
        let is_published = || {
            let definitions = definitions.borrow();
            definitions.find(&key).and_then(|tools| tools.card()) == Some(text.as_str())
        };
        acceptable(is_published).await;
        assert_eq!(self.report().pointer(pointer), Some(&value));
    }

    fn check_agent(&self) {
        let target = AGENT.parse().unwrap();
        assert_eq!(self.bench.gateway.upstreams().check(&target), Some(true));
    }

    fn report(&self) -> Value {
        serde_json::to_value(self.bench.contracts.report()).unwrap()
    }

    async fn agents(&self) -> usize {
        let list = request(Version::V1, (Method::GET, "/.well-known/agents"), ("a", &Value::Null));
        let list = self.got(list).await.json();
        list["agents"].as_array().unwrap().len()
    }
}

fn is_quarantined(got: &Got) -> bool {
    got.text.contains("QUARANTINED")
}

#[tokio::test]
async fn changed_card_is_reported() {
    let bench = start(ValidationMode::Warn).await;
    bench.serve_card(card("work"), ("/states/unchanged", json!(1))).await;
    bench.serve_card(card("draw"), ("/states/drifted", json!(1))).await;
    let report = bench.report();
    let tool = &report["tools"][0];
    assert_eq!((&tool["tool"], &tool["quarantined"]), (&json!(AGENT), &json!(false)));
    let drift = tool["drift"].as_array().unwrap();
    let classes: Vec<_> = drift.iter().map(|one| (&one["part"], &one["class"])).collect();
    let part = &json!("card");
    assert_eq!(classes, [(part, &json!("breaking")), (part, &json!("compatible"))]);
    assert!(!is_quarantined(&bench.rpc("a", "SendMessage", message("go")).await));
}

#[tokio::test]
async fn agent_with_changed_card_is_quarantined_until_accepted() {
    let bench = start(ValidationMode::Error).await;
    bench.serve_card(card("work"), ("/states/unchanged", json!(1))).await;
    let task = bench.started_task().await["id"].clone();
    bench.serve_card(card("draw"), ("/quarantined", json!(1))).await;
    assert!(is_quarantined(&bench.rpc("a", "SendMessage", message("go")).await));
    assert_eq!(bench.agents().await, 0);
    let known = bench.rpc("a", "GetTask", json!({ "id": task })).await;
    assert_eq!(known.result()["id"], task, "started tasks can be read");

    let live = bench.report()["tools"][0]["live"].as_str().unwrap().to_owned();
    let live = Digest::parse(&live).unwrap();
    bench.bench.contracts.accept(&AGENT.parse().unwrap(), live).unwrap();
    assert!(!is_quarantined(&bench.rpc("a", "SendMessage", message("go")).await));
    assert_eq!(bench.agents().await, 1);
}

#[tokio::test]
async fn new_skill_breaks_no_contract() {
    let bench = start(ValidationMode::Error).await;
    let mut wider = card("work");
    let more = card("draw")["skills"][0].clone();
    wider["skills"].as_array_mut().unwrap().push(more);
    bench.serve_card(wider, ("/states/drifted", json!(1))).await;
    assert_eq!(bench.report()["quarantined"], 0);
    assert!(!is_quarantined(&bench.rpc("a", "SendMessage", message("go")).await));
}

#[tokio::test]
async fn unchanged_card_is_not_sent_again() {
    let bench = start(ValidationMode::Warn).await;
    bench.serve_card(card("work"), ("/states/unchanged", json!(1))).await;
    bench.check_agent();
    acceptable(|| bench.script.unchanged_cards.load(Ordering::Relaxed) > 0).await;
    assert_eq!(bench.report()["states"]["unchanged"], 1);
}
