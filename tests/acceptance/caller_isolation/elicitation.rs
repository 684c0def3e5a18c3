//! Calls with elicitation, and their effect on other callers.

use std::time::Duration;

use acceptance::{ModernClient, mcp::Answer};
use serde_json::{Value, json};

use super::{DECLARING, OTHER, Scene, elicitation_capabilities, eliciting_server};

#[tokio::test]
async fn breaker_probe_question_blocks_no_other_caller() {
    let scene = Scene::start(eliciting_server(), "limits: { callTimeoutMs: 500 }\n").await;
    let [one, other] =
        [DECLARING, OTHER].map(|agent| scene.client(agent, elicitation_capabilities()));
    let call = async |client: &acceptance::ModernClient, url: &str| {
        client.call("fetch", json!({ "url": url })).await
    };
    for _ in 0..5 {
        let late = call(&other, "http://hangs/").await;
        assert!(late.is_tool_error(), "{late:?}");
    }
    assert_eq!(scene.gateway.audited("upstream-timeout").len(), 5);
    assert!(call(&other, "http://page/").await.is_tool_error());
    assert_eq!(scene.gateway.audited("upstream-busy").len(), 1, "the circuit breaker is open");
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let asked = call(&one, "http://stays/").await;
    assert_eq!(asked.result()["resultType"], "input_required", "{asked:?}");
    assert_eq!(call(&other, "http://page/").await.text(), "a page", "at once");
}

#[tokio::test]
async fn resumed_call_keeps_its_original_arguments() {
    let scene = Scene::start(eliciting_server(), "").await;
    let client = scene.client(DECLARING, elicitation_capabilities());
    let asked = client.call("fetch", json!({ "url": "http://asks/", "maxLength": 5 })).await;
    let state = asked.result()["requestState"].as_str().expect("a handle").to_owned();
    assert!(state.len() >= 22, "128 bits: {state}");
    let bring = async |client: &ModernClient, arguments: &str| -> Answer {
        let arguments: Value = serde_json::from_str(arguments).expect("JSON");
        let params = json!({ "name": "fetch", "arguments": arguments, "requestState": state,
            "inputResponses": { "input": { "action": "accept" } } });
        client.request("tools/call", params).await.expect("an answer")
    };
    for other in [
        r#"{ "url": "http://asks/", "maxLength": 6 }"#,
        r#"{ "url": "http://asks/" }"#,
        r#"{ "url": "http://page/", "maxLength": 5 }"#,
        "null",
    ] {
        let refused = bring(&client, other).await;
        assert_eq!((refused.status, refused.error_code()), (200, -32602), "{other}: {refused:?}");
    }
    let same = r#"{ "maxLength":5, "url":"http:\/\/asks/" }"#;
    assert_eq!(bring(&client, same).await.text(), "a page", "however it is written");
    assert_eq!(bring(&client, same).await.error_code(), -32602, "once");
}
