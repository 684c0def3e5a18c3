//! What failures look like where the front door cannot make them easily.

use serde_json::Value;

use super::*;
use crate::upstream::Breach;

fn answer(error: &Error, era: Era) -> Value {
    let id = Id::parse("1").unwrap();
    let answer = call_error(id, era, "t", error);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let body = axum::body::to_bytes(answer.response.into_body(), usize::MAX);
    let body = runtime.block_on(body).unwrap();
    assert_eq!(body.len(), answer.bytes);
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn upstream_trouble_is_a_result_that_says_whether_anything_was_done() {
    let target = "server/internal-name@1.0.0".parse().unwrap();
    let source = "connection refused by 10.1.2.3".into();
    let rows = [
        (upstream::Error::Unavailable { target, source }, "nothing was done"),
        (upstream::Error::Timeout { phase: Phase::Connect, after_ms: 5 }, "nothing was done"),
        (upstream::Error::Timeout { phase: Phase::Call, after_ms: 5 }, "not known"),
        (upstream::Error::TooLarge { limit_bytes: 9 }, "longer than 9 bytes"),
        (upstream::Error::from(Breach::Closed), "not known"),
    ];
    for (error, says) in rows {
        let error = Error::Upstream(error);
        for era in [Era::Modern, Era::Legacy] {
            let answer = answer(&error, era);
            let result = &answer["result"];
            assert_eq!(result["isError"], true);
            assert_eq!(result["resultType"].is_string(), era == Era::Modern);
            let text = result["content"][0]["text"].as_str().unwrap();
            assert!(text.contains(says), "{text}");
            assert!(!text.contains("10.1.2.3") && !text.contains("internal-name"), "{text}");
        }
    }
}

#[test]
fn texts_are_escaped() {
    let violation =
        Violation { pointer: "/a\"b".to_owned(), message: "line\nbreak \u{1}".to_owned() };
    let error = Error::InvalidInput { violations: vec![violation] };
    let text = answer(&error, Era::Modern)["result"]["content"][0]["text"].clone();
    assert_eq!(text, "Invalid arguments for t:\n- /a\"b: line\nbreak \u{1}");
    let log = error.to_string();
    assert_eq!(log, "the arguments break the input schema: at [/a\"b]", "no values in the log");
}
