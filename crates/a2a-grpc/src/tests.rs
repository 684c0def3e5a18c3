//! Both forms of messages.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::{collection, prelude::*};
use serde_json::json;

use super::*;

/// A message in both forms, as `a2a-sdk` 1.3.0 for Python writes them.
struct Sample {
    method: &'static str,
    is_request: bool,
    /// Base64.
    bytes: &'static str,
    json: &'static str,
}

#[rustfmt::skip]
const SAMPLES: &[Sample] = &[
    Sample {
        method: "SendMessage",
        is_request: true,
        bytes: "Cg1vZmZpY2UvaGVscGVyEs0BCgFtEgFjGgF0IAEqAgoAKiYSAwD/gDIFYS5iaW46GGFwcGxpY2F0aW9uL29jdGV0LXN0cmVhbSoVGhNodHRwczovL2UuZXhhbXBsZS94KlgiSypJCg4KAWYSCREAAAAAAAD4PwobCgRsaXN0EhMyEQoCIAEKAggACgMaAXgKAioACgoKBG5vbmUSAggACg4KAW4SCREAAAAAAADwPyoJCgcKAWsSAjIAKgQiAggAMhMKEQoHc2tpbGxJZBIGGgR3b3JrOgV1cm46YUIBchoyCgp0ZXh0L3BsYWluEiAiEWh0dHBzOi8vaC5leGFtcGxlMgsKBkJlYXJlchIBeBgAIAEiEAoOCgFhEgkRAAAAAAAAAsA=",
        json: r#"{"tenant": "office/helper", "message": {"messageId": "m", "contextId": "c", "taskId": "t", "role": "ROLE_USER", "parts": [{"text": ""}, {"raw": "AP+A", "filename": "a.bin", "mediaType": "application/octet-stream"}, {"url": "https://e.example/x"}, {"data": {"n": 1, "f": 1.5, "list": [true, null, "x", {}], "none": null}, "metadata": {"k": []}}, {"data": null}], "metadata": {"skillId": "work"}, "extensions": ["urn:a"], "referenceTaskIds": ["r"]}, "configuration": {"acceptedOutputModes": ["text/plain"], "historyLength": 0, "returnImmediately": true, "taskPushNotificationConfig": {"url": "https://h.example", "authentication": {"scheme": "Bearer", "credentials": "x"}}}, "metadata": {"a": -2.25}}"#,
    },
    Sample {
        method: "SendStreamingMessage",
        is_request: false,
        bytes: "IhgKAXQSAWMaDAoBYRIBbiIECgLDqSABKAE=",
        json: r#"{"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": {"artifactId": "a", "name": "n", "parts": [{"text": "é"}]}, "append": true, "lastChunk": true}}"#,
    },
    Sample {
        method: "SendMessage",
        is_request: false,
        bytes: "Ci8KAXQSAWMaGwgGEgoKAW0gAioDCgE/GgsIpevcygYQgOWadyoKCgFtIAEqAwoBeA==",
        json: r#"{"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_INPUT_REQUIRED", "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "?"}]}, "timestamp": "2026-01-02T03:04:05.250Z"}, "history": [{"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}]}}"#,
    },
    Sample {
        method: "ListTasks",
        is_request: true,
        bytes: "CgFhEgFjGAIgBSoBcDACOgYIpevcygZAAA==",
        json: r#"{"tenant": "a", "contextId": "c", "status": "TASK_STATE_WORKING", "pageSize": 5, "pageToken": "p", "historyLength": 2, "statusTimestampAfter": "2026-01-02T03:04:05Z", "includeArtifacts": false}"#,
    },
    Sample {
        method: "GetExtendedAgentCard",
        is_request: false,
        bytes: "CgFuEgFkGiEKEWh0dHBzOi8vZy5leGFtcGxlEgRHUlBDGgFhIgMxLjAqATE6HQgBGhkKBXVybjphIhAKDgoBcBIJEQAAAAAAAPA/QhoKAWsSFQoTEgZoZWFkZXIaCVgtQVBJLUtleUImCgFvEiEaHxIdEhsKEWh0dHBzOi8vdC5leGFtcGxlGgYKAXMSAVNKCgoICgFrEgMKAXNSCnRleHQvcGxhaW5aCnRleHQvcGxhaW5iDAoBdxIBVxoBZCIBdGoXCgNlMzASAkFBGgwKCgoDa2lkEgMaATE=",
        json: r#"{"name": "n", "description": "d", "version": "1", "supportedInterfaces": [{"url": "https://g.example", "protocolBinding": "GRPC", "tenant": "a", "protocolVersion": "1.0"}], "capabilities": {"streaming": true, "extensions": [{"uri": "urn:a", "params": {"p": 1}}]}, "securitySchemes": {"k": {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"}}, "o": {"oauth2SecurityScheme": {"flows": {"clientCredentials": {"tokenUrl": "https://t.example", "scopes": {"s": "S"}}}}}}, "securityRequirements": [{"schemes": {"k": {"list": ["s"]}}}], "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [{"id": "w", "name": "W", "description": "d", "tags": ["t"]}], "signatures": [{"protected": "e30", "signature": "AA", "header": {"kid": "1"}}]}"#,
    },
    Sample {
        method: "ListTaskPushNotificationConfigs",
        is_request: true,
        bytes: "CgF0EAEaAW4iAWE=",
        json: r#"{"taskId": "t", "pageSize": 1, "pageToken": "n", "tenant": "a"}"#,
    },
];

#[test]
fn messages_of_the_sdk_have_the_same_forms() {
    for Sample { method, is_request, bytes, json } in SAMPLES {
        let bytes = STANDARD.decode(bytes).unwrap();
        let json: Value = serde_json::from_str(json).unwrap();
        let decode = if *is_request { decode_request } else { decode_response };
        let encode = if *is_request { encode_request } else { encode_response };
        assert_eq!(decode(method, &bytes).unwrap(), json, "{method}");
        let encoded = encode(method, &json).unwrap();
        // Maps have no order.
        assert_eq!(encoded.len(), bytes.len(), "{method}");
        assert_eq!(decode(method, &encoded).unwrap(), json, "{method}");
    }
}

/// A message with this value as its data.
fn with_data(data: &Value) -> Value {
    json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "data": data }] } })
}

fn any_data() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1_i64 << 53)..=1 << 53).prop_map(Value::from),
        any::<f64>()
            .prop_filter("finite, and not whole", |n| n.is_finite() && n.fract() != 0.0)
            .prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 32, 4, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            collection::btree_map(".{0,4}", inner, 0..4)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn data_survives_both_conversions(data in any_data()) {
        let request = with_data(&data);
        let encoded = encode_request("SendMessage", &request).unwrap();
        prop_assert_eq!(decode_request("SendMessage", &encoded).unwrap(), request);
    }

    #[test]
    fn hostile_bytes_never_panic(bytes in collection::vec(any::<u8>(), 0..256)) {
        for method in ["SendMessage", "ListTasks"] {
            if let Ok(request) = decode_request(method, &bytes) {
                let encoded = encode_request(method, &request).unwrap();
                prop_assert_eq!(decode_request(method, &encoded).unwrap(), request);
            }
        }
    }
}

#[test]
fn deep_messages_are_rejected() {
    // `google.protobuf.Value` with a list of one value, repeated.
    let nested = |depth: usize| {
        let mut value = Vec::new();
        for _ in 0..depth {
            value = length_delimited(6, &length_delimited(1, &value));
        }
        let part = length_delimited(4, &value);
        length_delimited(2, &length_delimited(5, &part))
    };
    assert!(decode_request("SendMessage", &nested(20)).is_ok());
    assert!(decode_request("SendMessage", &nested(10_000)).is_err());
}

/// A field with the wire type of messages.
fn length_delimited(number: u8, content: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    prost::encoding::encode_varint(content.len() as u64, &mut field);
    field.extend_from_slice(content);
    field
}

#[test]
fn values_without_the_other_form_are_rejected() {
    let infinite = {
        let mut data = vec![2 << 3 | 1];
        data.extend_from_slice(&f64::INFINITY.to_le_bytes());
        let part = length_delimited(4, &data);
        length_delimited(2, &length_delimited(5, &part))
    };
    assert!(decode_request("SendMessage", &infinite).is_err());
    for invalid in [
        json!({ "id": 7 }),
        json!({ "id": "t", "artifacts": [{ "parts": [{ "raw": "!" }] }] }),
        json!({ "id": "t", "status": { "timestamp": "yesterday" } }),
        json!([]),
    ] {
        assert!(encode_response("GetTask", &invalid).is_err(), "{invalid}");
    }
    assert!(matches!(encode_request("Other", &json!({})), Err(InvalidMessage::Method(_))));
}

#[test]
fn unknown_members_are_dropped() {
    let task = json!({ "id": "t", "kind": "task", "status": { "state": "TASK_STATE_WORKING" } });
    let decoded = decode_response("GetTask", &encode_response("GetTask", &task).unwrap()).unwrap();
    assert_eq!(decoded, json!({ "id": "t", "status": { "state": "TASK_STATE_WORKING" } }));
}

#[test]
fn times_of_agents_are_read() {
    for (time, expected) in [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.123456+00:00", "2026-01-02T03:04:05.123456Z"),
        ("2026-01-02T05:04:05+02:00", "2026-01-02T03:04:05Z"),
    ] {
        let task = json!({ "id": "t", "status": { "timestamp": time } });
        let encoded = encode_response("GetTask", &task).unwrap();
        let decoded = decode_response("GetTask", &encoded).unwrap();
        assert_eq!(decoded["status"]["timestamp"], expected, "{time}");
    }
}
