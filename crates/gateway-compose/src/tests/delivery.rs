//! Dead letter and claim check.

use super::*;

#[tokio::test(start_paused = true)]
async fn failed_input_is_sent_to_dead_letter_tool() {
    let letter = |inner: &str, more: Value| {
        let body = extended(
            json!({ "inner": { "tool": { "name": inner } }, "deadLetterTool": "keep",
            "maxAttempts": 2, "backoff": { "fixed": { "delayMs": 1 } }, "rethrow": false }),
            more,
        );
        json!({ "deadLetter": body })
    };
    let composed = Composed::start(vec![
        composition("kept", letter("fail", json!({}))),
        composition("thrown", letter("fail", json!({ "rethrow": true }))),
        composition("both", letter("fail", json!({ "deadLetterTool": "fail" }))),
        composition("lost", letter("lose", json!({}))),
        composition("fine", letter("echo", json!({}))),
    ]);
    let input = json!({ "message": "x" });
    let kept = composed.value("kept", input.clone()).await;
    assert_eq!((&kept["input"], &kept["attempts"]), (&input, &json!(2)));
    assert_eq!(
        (&kept["error"]["reason"], &kept["error"]["result"]),
        (&json!("tool-error"), &json!("x"))
    );
    assert_eq!(composed.failure("thrown", input.clone()).await.2, "fail failed: x");
    assert_eq!(composed.upstream.calls("keep").len(), 2);
    assert_eq!(composed.failure("both", input.clone()).await.1, "dead-letter-failed");
    let lost = composed.value("lost", json!({})).await;
    assert_eq!(lost["attempts"], 1, "unknown effects are not repeated");
    composed.value("fine", input).await;
    assert_eq!(composed.upstream.calls("keep").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn claim_check_stores_and_retrieves_payload() {
    let check = |is_retrieved: bool| {
        json!({ "claimCheck": { "storeTool": "keep", "retrieveTool": "echo", "retrieveAtEnd": is_retrieved,
            "inner": { "pattern": pipeline(&[step("in", "say", json!({ "construct": { "fields": {
                "value": { "construct": { "fields": { "got": { "path": "$" } } } } } } }))]) } } })
    };
    let composed =
        Composed::start(vec![composition("plain", check(false)), composition("back", check(true))]);
    let payload = json!({ "large": "x" });
    assert_eq!(composed.value("plain", payload.clone()).await, json!({ "got": payload }));
    assert_eq!(composed.value("back", payload.clone()).await, payload);
    assert_eq!(
        composed.calls("back", payload).await,
        ["storeTool keep ok", "in say ok", "retrieveTool echo ok"]
    );
}
