//! Calls and answers.

use serde_json::json;

use super::*;

fn limits() -> Limits {
    Limits::with_max_bytes(1 << 16)
}

fn kind(version: Version, body: &str) -> (Option<String>, ErrorKind) {
    let invalid = read_call(version, body.as_bytes(), limits()).unwrap_err();
    (invalid.id.map(|id| id.as_raw().to_owned()), invalid.failure.kind)
}

#[test]
fn calls_survive_both_versions() {
    for operation in Operation::ALL.into_iter().filter(|operation| !operation.sends_message()) {
        let params = json!({ "id": "a", "taskId": "t", "url": "https://x.example" });
        let params = match operation {
            Operation::CreatePushConfig => params,
            Operation::GetPushConfig | Operation::DeletePushConfig => {
                json!({ "id": "a", "taskId": "t" })
            }
            Operation::ListPushConfigs => json!({ "taskId": "t" }),
            Operation::ListTasks | Operation::GetExtendedAgentCard => json!({}),
            _ => json!({ "id": "t" }),
        };
        let Value::Object(params) = params else { unreachable!() };
        let request = Request::new(operation, params);
        for version in Version::ALL {
            let id = Id::parse("\"7\"").unwrap();
            let body = write_call(version, id, &request).unwrap();
            let call = read_call(version, &body, limits()).unwrap();
            assert_eq!((call.id, call.request), (id, request.clone()));
        }
    }
}

#[test]
fn invalid_calls_have_codes_of_json_rpc() {
    let id = Some("1".to_owned());
    assert_eq!(kind(Version::V1, "{"), (None, ErrorKind::ParseError));
    assert_eq!(kind(Version::V1, "[]"), (None, ErrorKind::InvalidRequest));
    for (body, expected) in [
        (r#"{"jsonrpc":"1.0","id":1,"method":"GetTask"}"#, ErrorKind::InvalidRequest),
        (r#"{"jsonrpc":"2.0","id":1}"#, ErrorKind::InvalidRequest),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, ErrorKind::InvalidRequest),
        (r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}"#, ErrorKind::InvalidParams),
    ] {
        assert_eq!(kind(Version::V1, body), (id.clone(), expected), "{body}");
    }
    let call = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
    };
    assert_eq!(
        kind(Version::V1, &call("message/send", "{}")),
        (id.clone(), ErrorKind::MethodNotFound)
    );
    assert_eq!(
        kind(Version::V03, &call("SendMessage", "{}")),
        (id.clone(), ErrorKind::MethodNotFound)
    );
    assert_eq!(kind(Version::V1, &call("GetTask", "{}")), (id.clone(), ErrorKind::InvalidParams));
    assert_eq!(
        kind(Version::V1, &call("GetTask", r#"{"id":7}"#)),
        (id.clone(), ErrorKind::InvalidParams)
    );
    assert_eq!(
        kind(Version::V03, &call("message/send", r#"{"message":[]}"#)),
        (id, ErrorKind::InvalidParams)
    );
    assert_eq!(
        kind(Version::V1, r#"{"jsonrpc":"2.0","method":"GetTask"}"#),
        (None, ErrorKind::InvalidRequest)
    );
    let failure = Failure::new(ErrorKind::ParseError, "no");
    let written: Value = serde_json::from_slice(&write_failure(None, &failure)).unwrap();
    assert_eq!((&written["id"], &written["error"]["code"]), (&Value::Null, &json!(-32700)));
}

#[test]
fn configuration_of_message_has_types() {
    let refused = |version: Version, configuration: Value| {
        let (method, role, part) = match version {
            Version::V1 => ("SendMessage", "ROLE_USER", json!({ "text": "a" })),
            Version::V03 => ("message/send", "user", json!({ "kind": "text", "text": "a" })),
        };
        let message = json!({ "messageId": "m", "role": role, "parts": [part] });
        let params = json!({ "message": message, "configuration": configuration });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let failure = read_call(version, body.to_string().as_bytes(), limits()).err()?.failure;
        Some((failure.kind, failure.metadata["pointer"].clone()))
    };
    for version in Version::ALL {
        assert_eq!(refused(version, json!({ "historyLength": 2 })), None);
        assert_eq!(refused(version, json!({ "historyLength": null })), None);
        for length in [json!({ "evil": "delete all" }), json!("2"), json!(-1), json!([2])] {
            let pointer = "/configuration/historyLength".to_owned();
            let refused = refused(version, json!({ "historyLength": length }));
            assert_eq!(refused, Some((ErrorKind::InvalidParams, pointer)));
        }
    }
    let pointer = "/configuration/returnImmediately".to_owned();
    let refused = refused(Version::V1, json!({ "returnImmediately": "delete all" }));
    assert_eq!(refused, Some((ErrorKind::InvalidParams, pointer)));
}

#[test]
fn answers_and_errors_are_read() {
    let id = Id::parse("1").unwrap();
    let message = json!({ "message": { "messageId": "m", "role": "ROLE_AGENT", "parts": [] } });
    for version in Version::ALL {
        let read = |body: &[u8]| read_answer(version, Operation::SendMessage, 1, body, limits());
        let body = write_answer(version, id, Operation::SendMessage, message.clone()).unwrap();
        assert_eq!(read(&body), Ok(message.clone()));
        let failure = Failure::task_not_found("t");
        assert_eq!(read(&write_failure(Some(id), &failure)), Err(failure));
        let odd = [
            r#"{"jsonrpc":"2.0","id":1,"result":7}"#,
            r#"{"jsonrpc":"2.0","id":2,"result":{"message":{}}}"#,
            r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32001,"message":"no"}}"#,
            "{}",
            "<html>",
            r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#,
        ];
        for odd in odd {
            assert!(read(odd.as_bytes()).unwrap_err().is_invalid_answer(), "{odd}");
        }
    }
}

#[test]
fn repeated_member_of_a_result_is_named() {
    let body = br#"{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"a","id":"b"}}}"#;
    let error = read_answer(Version::V1, Operation::SendMessage, 1, body, limits()).unwrap_err();
    assert!(error.is_invalid_answer() && error.message.contains("`id`"), "{error}");
}
