//! Errors in each binding.

use serde_json::json;

use super::*;
use crate::{json::Object, operation::Operation, request::Request, version::Version};

#[test]
fn a2a_errors_have_codes_of_the_specification() {
    let codes: Vec<_> = ErrorKind::A2A.iter().map(|kind| kind.code()).collect();
    assert_eq!(codes, (-32009..=-32001).rev().collect::<Vec<i64>>());
    for kind in ErrorKind::A2A {
        assert_eq!(ErrorKind::of_code(kind.code()), kind);
        assert!(!kind.is_own());
    }
}

#[test]
fn errors_survive_every_binding() {
    for kind in ErrorKind::A2A {
        let sent = Failure::new(kind, "no").with_metadata("taskId", "t").with_violation("/a", "b");
        let error = sent.to_json_rpc();
        let code = error["code"].as_i64().unwrap();
        assert_eq!(Failure::of_json_rpc(code, "no", error.get("data")), sent);
        for version in Version::ALL {
            let answer = sent.to_rest(version);
            assert_eq!(Failure::of_rest(answer.status, &answer.body, None), sent);
        }
    }
}

#[test]
fn error_info_is_first_and_typed() {
    let failure = Failure::invalid_params("/message/parts/0/data/n", "must be a number");
    let rest = failure.with_reason("SCHEMA_MISMATCH").to_rest(Version::V1);
    assert_eq!(rest.status, 400);
    assert_eq!(
        rest.body["error"]["details"][0],
        json!({ "@type": ERROR_INFO, "reason": "SCHEMA_MISMATCH", "domain": GATEWAY_DOMAIN,
            "metadata": { "pointer": "/message/parts/0/data/n" } })
    );
    assert_eq!(rest.body["error"]["details"][1]["@type"], BAD_REQUEST);
    assert_eq!(rest.body["error"]["status"], "INVALID_ARGUMENT");
}

#[test]
fn own_errors_use_no_number_of_a2a() {
    let own = [
        (ErrorKind::Unauthenticated, 401),
        (ErrorKind::PermissionDenied, 403),
        (ErrorKind::ResourceExhausted, 429),
        (ErrorKind::Unavailable, 503),
        (ErrorKind::DeadlineExceeded, 504),
    ];
    for (kind, status) in own {
        let failure = Failure::new(kind, "no").with_retry(std::time::Duration::from_millis(1500));
        assert!(kind.is_own() && kind.code() == GATEWAY_CODE);
        assert!(!matches!(ErrorKind::of_code(kind.code()), kind if ErrorKind::A2A.contains(&kind)));
        assert_eq!(failure.to_rest(Version::V1).status, status);
        let details = failure.to_grpc().details;
        assert_eq!(details[0]["domain"], GATEWAY_DOMAIN);
        assert_eq!(details[1]["retryDelay"], "1.500s");
    }
}

#[test]
fn request_decides_about_unnamed_errors() {
    let about = |operation| {
        let mut request = Request::new(operation, Object::new());
        request.set_task_id("t");
        request
    };
    let mut follow_up = Request::new(Operation::SendMessage, Object::new());
    follow_up.params.insert("message".to_owned(), json!({}));
    let first = follow_up.clone();
    follow_up.set_task_id("t");
    let push = about(Operation::CreatePushConfig);
    let body = json!({ "message": "no" });
    for (status, request, kind) in [
        (404, &about(Operation::GetTask), ErrorKind::TaskNotFound),
        (404, &about(Operation::CancelTask), ErrorKind::TaskNotFound),
        (404, &follow_up, ErrorKind::TaskNotFound),
        (404, &push, ErrorKind::TaskNotFound),
        (404, &first, ErrorKind::MethodNotFound),
        (501, &push, ErrorKind::PushNotificationNotSupported),
        (501, &first, ErrorKind::UnsupportedOperation),
        (409, &about(Operation::CancelTask), ErrorKind::TaskNotCancelable),
    ] {
        assert_eq!(
            Failure::of_rest(status, &body, Some(request.subject())).kind,
            kind,
            "{request:?}"
        );
    }
    let named = Failure::new(ErrorKind::MethodNotFound, "no").to_rest(Version::V1);
    let read = Failure::of_rest(404, &named.body, Some(about(Operation::GetTask).subject()));
    assert_eq!(read.kind, ErrorKind::MethodNotFound, "the name of an error decides first");
}

#[test]
fn invalid_answer_differs_from_error_of_agent() {
    let own = Failure::invalid_answer("no id");
    assert!(own.is_invalid_answer() && !ErrorKind::A2A.contains(&own.kind));
    let reported = Failure::of_json_rpc(-32006, "no", None);
    assert_eq!(reported.kind, ErrorKind::InvalidAgentResponse);
    assert!(!reported.is_invalid_answer());
}

#[test]
fn foreign_errors_are_bounded_and_keep_their_code() {
    let long = "x".repeat(100_000);
    let failure = Failure::of_json_rpc(-32050, &long, Some(&json!("text")));
    assert_eq!((failure.kind, failure.kind.code()), (ErrorKind::Other(-32050), -32050));
    assert_eq!(failure.message.len(), 4096);
    for (status, kind) in [
        (409, ErrorKind::TaskNotCancelable),
        (415, ErrorKind::ContentTypeNotSupported),
        (422, ErrorKind::InvalidParams),
        (502, ErrorKind::Unavailable),
    ] {
        assert_eq!(Failure::of_rest(status, &json!("<html>"), None).kind, kind);
    }
    let details = vec![json!({ "@type": "x" }); 1000];
    assert_eq!(Failure::of_json_rpc(-32603, "", Some(&details.into())).details.len(), 32);
}
