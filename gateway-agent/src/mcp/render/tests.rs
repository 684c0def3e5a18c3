//! Rendering of failures that are hard to provoke through the endpoint.

use std::time::Duration;

use gateway_policy::StaleCatalog;
use gateway_protocol::mcp::{RawResult, ResultType};
use gateway_upstream::ProtocolViolation;
use registry_core::Revision;
use schema_compat::schema_compile::Violation;
use serde_json::{Value, json};

use super::*;
use crate::{
    freshness::{Freshness, MaxStaleness},
    pipeline::OperationResult,
};

fn answer(error: &Error, era: Era) -> Value {
    let id = Id::parse("1").unwrap();
    read(call_error(id, era, ("t", DenialForm::default()), error))
}

fn read(answer: SizedResponse) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let bytes = answer.bytes;
    let body = axum::body::to_bytes(answer.into_body(), usize::MAX);
    let body = runtime.block_on(body).unwrap();
    assert_eq!(body.len(), bytes);
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn upstream_errors_state_whether_call_was_made() {
    let target = "server/internal-name@1.0.0".parse().unwrap();
    let source = "connection refused by 10.1.2.3".into();
    let rows = [
        (gateway_upstream::Error::Unavailable { target, source }, "The call was not made"),
        (
            gateway_upstream::Error::Timeout {
                phase: gateway_upstream::Phase::Connect,
                after_ms: 5,
            },
            "The call was not made",
        ),
        (
            gateway_upstream::Error::Timeout { phase: gateway_upstream::Phase::Call, after_ms: 5 },
            "is unknown",
        ),
        (gateway_upstream::Error::TooLarge { limit_bytes: 9 }, "exceeds 9 bytes"),
        (gateway_upstream::Error::from(ProtocolViolation::Closed), "is unknown"),
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
fn stale_catalog_is_reported_to_models_and_programs() {
    let (age, limit) = (Some(Duration::from_secs(700)), Some(Duration::from_mins(10)));
    let unknown = json!({ "reason": "STALE_CATALOG", "ageSeconds": null, "maxAgeSeconds": 600 });
    let known = json!({ "reason": "STALE_CATALOG", "ageSeconds": 700, "maxAgeSeconds": 600 });
    for (age, told, says) in [(age, known, "700 s ago"), (None, unknown, "an unknown time ago")] {
        let stale = StaleCatalog { age, limit, is_read_only: false };
        let error = Error::Denied(stale.into());
        for era in [Era::Modern, Era::Legacy] {
            let result = &answer(&error, era)["result"];
            assert_eq!(result["isError"], true);
            assert_eq!(result["resultType"].is_string(), era == Era::Modern);
            assert_eq!(result["_meta"]["registry/catalog"], told);
            let text = result["content"][0]["text"].as_str().unwrap();
            assert!(text.contains(says) && text.contains("after 600 s"), "{text}");
        }
    }
}

/// An upstream cannot report the age of the gateway's catalog.
#[test]
fn only_gateway_reports_stale_catalog() {
    let upstreams = r#"{"content":[],"_meta":{"registry/catalog":{"revision":1},"a/b":1}}"#;
    for (upstream, has_own) in [(r#"{"content":[]}"#, false), (upstreams, true)] {
        for (seconds, told) in [(29, Value::Null), (31, json!({ "revision": 7, "ageSeconds": 31 }))]
        {
            for era in [Era::Modern, Era::Legacy] {
                let raw = RawValue::from_string(upstream.to_owned()).unwrap();
                let age = Some(Duration::from_secs(seconds));
                let outcome = OperationResult {
                    names: None,
                    steps: None,
                    shown_steps: None,
                    tasks: None,
                    result: RawResult {
                        era: Era::Modern,
                        result: raw,
                        is_error: false,
                        result_type: ResultType::Absent,
                        has_meta: has_own,
                    },
                    revision: Revision(7),
                    freshness: Freshness::new(age, MaxStaleness::default()),
                };
                let id = Id::parse("1").unwrap();
                let result = read(result::tool(id, era, &outcome, None))["result"].clone();
                assert_eq!(result["_meta"]["registry/catalog"], told, "{result}");
                assert_eq!(result["_meta"]["a/b"] == 1, has_own, "{result}");
                assert_eq!(result["content"], json!([]));
            }
        }
    }
}

#[test]
fn error_texts_are_escaped() {
    let violation =
        Violation { pointer: "/a\"b".to_owned(), message: "line\nbreak \u{1}".to_owned() };
    let error = Error::InvalidInput { violations: vec![violation] };
    let text = answer(&error, Era::Modern)["result"]["content"][0]["text"].clone();
    assert_eq!(text, "Invalid arguments for t:\n- /a\"b: line\nbreak \u{1}");
    let log = error.to_string();
    assert_eq!(log, "the arguments violate the input schema: at [/a\"b]", "no values in the log");
}

#[test]
fn error_text_names_each_place_once() {
    let at = |pointer: &str| Violation { pointer: pointer.to_owned(), message: String::new() };
    let error = Error::InvalidInput { violations: vec![at(""), at("/q"), at(""), at("/q")] };
    insta::assert_snapshot!(error, @"the arguments violate the input schema: at [the top level, /q]");
}
