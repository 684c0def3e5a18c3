//! Each value has one name for every spelling that a sender uses.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    error::ErrorKind,
    request::Request,
    rest, rpc, translate,
    version::{Binding, Dialect, Version},
};

/// The definition of the protocol.
const PROTO: &str = include_str!("../../../a2a-grpc/proto/lf/a2a/v1/a2a.proto");

fn dialects() -> [Dialect; 4] {
    [
        Dialect::json_rpc(Version::V1),
        Dialect::http_json(Version::V1),
        Dialect::json_rpc(Version::V03),
        Dialect::http_json(Version::V03),
    ]
}

fn snake(name: &str) -> String {
    let letter = |letter: char| {
        let word = letter.is_ascii_uppercase().then_some('_');
        word.into_iter().chain([letter.to_ascii_lowercase()])
    };
    name.chars().flat_map(letter).collect()
}

/// Other spellings that readers accept: that of Protocol Buffers, and any case.
fn spellings(name: &str) -> Vec<String> {
    let kelvin = name.replacen('k', "\u{212a}", 1).replacen('s', "ſ", 1);
    let mut found = vec![snake(name), name.to_uppercase(), kelvin];
    found.retain(|spelling| spelling != name);
    found
}

/// A request with each field that the gateway reads.
fn full(operation: Operation) -> Value {
    let config = json!({ "id": "c", "taskId": "t", "url": "https://c.example", "token": "k",
        "authentication": { "scheme": "Bearer", "credentials": "s" } });
    match operation {
        Operation::SendMessage | Operation::SendStreamingMessage => json!({
            "message": { "messageId": "m", "contextId": "c", "taskId": "t", "role": "ROLE_USER",
                "referenceTaskIds": ["r"], "metadata": { "task_id": 1, "kind": 2 },
                "parts": [{ "data": { "task_id": [{ "media_type": 3 }] } },
                    { "url": "u", "mediaType": "a/b", "filename": "f" }] },
            "configuration": { "acceptedOutputModes": ["a/b"], "historyLength": 1,
                "returnImmediately": true, "taskPushNotificationConfig": config },
            "metadata": { "push_notification_config": 4 },
        }),
        Operation::GetTask | Operation::CancelTask | Operation::SubscribeToTask => {
            json!({ "id": "t", "historyLength": 1 })
        }
        Operation::ListTasks => json!({ "contextId": "c", "pageSize": 1, "pageToken": "p",
            "status": "TASK_STATE_WORKING", "includeArtifacts": true,
            "statusTimestampAfter": "2026-01-02T03:04:05.000Z" }),
        Operation::CreatePushConfig => config,
        Operation::GetPushConfig | Operation::DeletePushConfig => {
            json!({ "taskId": "t", "id": "c" })
        }
        Operation::ListPushConfigs => json!({ "taskId": "t" }),
        Operation::GetExtendedAgentCard => json!({}),
    }
}

/// The pointers of the protocol's objects in a value, with their shapes.
fn objects(shape: &'static Shape, value: &Value, at: &str) -> Vec<(String, &'static Shape)> {
    match value {
        Value::Object(object) => {
            let nested = shape.nested.iter().filter_map(|(name, shape)| {
                Some(objects(shape, object.get(*name)?, &format!("{at}/{name}")))
            });
            [(at.to_owned(), shape)].into_iter().chain(nested.flatten()).collect()
        }
        Value::Array(values) => {
            let values = values.iter().enumerate();
            values.flat_map(|(i, value)| objects(shape, value, &format!("{at}/{i}"))).collect()
        }
        _ => Vec::new(),
    }
}

fn object_at<'a>(value: &'a mut Value, pointer: &str) -> &'a mut Object {
    value.pointer_mut(pointer).and_then(Value::as_object_mut).expect("an object")
}

/// Each request with one member under another name, and the pointer of that member.
fn respelled(operation: Operation, value: &Value) -> Vec<(Value, String)> {
    let mut found = Vec::new();
    for (at, _) in objects(params(operation), value, "") {
        let names: Vec<_> = object_at(&mut value.clone(), &at).keys().cloned().collect();
        for (name, spelling) in
            names.iter().flat_map(|name| spellings(name).into_iter().map(move |to| (name, to)))
        {
            let mut other = value.clone();
            let object = object_at(&mut other, &at);
            let value = object.remove(name).expect("the member");
            object.insert(spelling.clone(), value);
            found.push((other, format!("{at}/{spelling}")));
        }
    }
    found
}

#[test]
fn shapes_have_all_fields_of_the_protocol() {
    let messages = [
        ("SendMessageConfiguration", &CONFIGURATION),
        ("Task", &TASK),
        ("TaskStatus", &STATUS),
        ("Part", &PART),
        ("Message", &MESSAGE),
        ("Artifact", &ARTIFACT),
        ("TaskStatusUpdateEvent", &STATUS_UPDATE),
        ("TaskArtifactUpdateEvent", &ARTIFACT_UPDATE),
        ("AuthenticationInfo", &AUTHENTICATION),
        ("TaskPushNotificationConfig", &PUSH_CONFIG),
        ("SendMessageRequest", &SEND),
        ("GetTaskRequest", &OF_TASK),
        ("CancelTaskRequest", &OF_TASK),
        ("SubscribeToTaskRequest", &OF_TASK),
        ("ListTasksRequest", &LIST_TASKS),
        ("ListTasksResponse", &TASKS),
        ("GetTaskPushNotificationConfigRequest", &OF_PUSH_CONFIG),
        ("DeleteTaskPushNotificationConfigRequest", &OF_PUSH_CONFIG),
        ("ListTaskPushNotificationConfigsRequest", &LIST_PUSH_CONFIGS),
        ("ListTaskPushNotificationConfigsResponse", &PUSH_CONFIGS),
        ("StreamResponse", &EVENT),
    ];
    for (message, shape) in messages {
        let (_, body) = PROTO.split_once(&format!("\nmessage {message} {{")).expect(message);
        let (body, _) = body.split_once("\n}").expect(message);
        let fields = body.lines().filter_map(|line| line.trim().split_once(" = "));
        let fields: Vec<_> = fields.filter_map(|(left, _)| left.rsplit(' ').next()).collect();
        assert!(!fields.is_empty(), "{message}");
        for field in fields {
            let is_known = shape.names().any(|name| snake(name) == field);
            let is_own = shape.foreign.iter().all(|name| snake(name) != field);
            assert!(is_known && is_own, "{message}.{field}");
        }
    }
}

#[test]
fn other_spellings_are_read_as_fields() {
    for operation in Operation::ALL {
        let value = full(operation);
        let dialect = Dialect::json_rpc(Version::V1);
        let wanted = translate::request_in(dialect, operation, value.clone()).unwrap();
        assert_eq!(Value::Object(wanted.params.clone()), value, "free content is kept");
        for (sent, at) in respelled(operation, &value) {
            let read = translate::request_in(dialect, operation, sent).unwrap();
            assert_eq!(read, wanted, "{at}");
        }
    }
    let params = json!({ "message": { "task_id": "t", "context_id": "c",
        "reference_task_ids": ["r"] } });
    for dialect in dialects() {
        let read = translate::request_in(dialect, Operation::SendMessage, params.clone()).unwrap();
        assert_eq!(read.task_id(), Some("t"), "{dialect:?}");
        assert_eq!(read.message().unwrap().context_id(), Some("c"), "{dialect:?}");
        assert_eq!(read.params["message"]["referenceTaskIds"], json!(["r"]), "{dialect:?}");
    }
}

#[test]
fn other_spellings_of_0_3_are_read() {
    for dialect in [Dialect::json_rpc(Version::V03), Dialect::http_json(Version::V03)] {
        for operation in Operation::ALL {
            let Value::Object(params) = full(operation) else { unreachable!() };
            let sent = translate::request_out(dialect, &Request::new(operation, params)).unwrap();
            let wanted = translate::request_in(dialect, operation, sent.clone()).unwrap();
            for (sent, at) in respelled(operation, &sent) {
                if at.to_lowercase().ends_with("ind") {
                    continue; // the kind follows from the content
                }
                let read = translate::request_in(dialect, operation, sent);
                assert_eq!(read.as_ref(), Ok(&wanted), "{dialect:?} {operation:?} {at}");
            }
        }
    }
}

#[test]
fn field_with_two_names_is_rejected() {
    for operation in Operation::ALL {
        let value = full(operation);
        for (mut sent, at) in respelled(operation, &value) {
            let (parent, spelling) = at.rsplit_once('/').unwrap();
            let original = value.pointer(parent).and_then(Value::as_object).unwrap();
            let name = original.keys().find(|name| is_same(name, spelling)).unwrap();
            object_at(&mut sent, parent).insert(name.clone(), original[name].clone());
            for dialect in dialects() {
                if dialect.version == Version::V03 && !value["message"].is_null() {
                    continue; // 0.3 has other parts
                }
                let error = translate::request_in(dialect, operation, sent.clone()).unwrap_err();
                assert_eq!(error.pointer, at, "{dialect:?}");
                let failure = error.into_request_failure();
                assert_eq!(failure.kind, ErrorKind::InvalidParams, "{dialect:?}");
                assert_eq!(failure.metadata["pointer"], at, "{dialect:?}");
            }
        }
    }
}

#[test]
fn two_other_spellings_are_rejected() {
    let params = json!({ "message": { "task_id": "t", "TASKID": "u" } });
    for dialect in dialects() {
        let read = translate::request_in(dialect, Operation::SendMessage, params.clone());
        let problem = read.unwrap_err().problem;
        assert_eq!(problem, Problem::Alias("taskId"), "{dialect:?}");
    }
}

#[test]
fn query_parameters_have_other_spellings() {
    let route = rest::route(Version::V1, &http::Method::GET, "/tasks/t").unwrap();
    let limits = gateway_protocol::jsonrpc::Limits::with_max_bytes(1 << 10);
    let read = rest::read_call(Version::V1, route, Some("history_length=2"), b"", limits);
    assert_eq!(Value::Object(read.unwrap().params), json!({ "id": "t", "historyLength": 2 }));
}

#[test]
fn members_of_other_dialects_never_reach_agents() {
    const PLANTED: &str = "planted";
    for operation in Operation::ALL {
        let value = full(operation);
        for (at, shape) in objects(params(operation), &value, "") {
            for name in shape.foreign {
                for name in [vec![(*name).to_owned()], spellings(name)].concat() {
                    for planted in
                        [json!(PLANTED), json!([{ "text": PLANTED }]), json!({ "url": PLANTED })]
                    {
                        let mut sent = value.clone();
                        object_at(&mut sent, &at).insert(name.clone(), planted);
                        let dialect = Dialect::json_rpc(Version::V1);
                        let request = translate::request_in(dialect, operation, sent).unwrap();
                        for dialect in dialects() {
                            let written = translate::request_out(dialect, &request).unwrap();
                            assert!(!written.to_string().contains(PLANTED), "{at}/{name}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn content_of_0_3_message_is_its_checked_parts() {
    let params = json!({ "message": { "messageId": "m", "role": "user",
        "parts": [{ "kind": "text", "text": "a" }], "content": [{ "text": "planted" }] } });
    for dialect in [Dialect::json_rpc(Version::V03), Dialect::http_json(Version::V03)] {
        let request = translate::request_in(dialect, Operation::SendMessage, params.clone());
        let request = request.unwrap();
        assert_eq!(request.params["message"]["parts"], json!([{ "text": "a" }]));
        for dialect in dialects() {
            let written = translate::request_out(dialect, &request).unwrap();
            assert!(!written.to_string().contains("planted"), "{dialect:?}");
        }
    }
}

#[test]
fn schemes_of_push_config_follow_its_scheme() {
    let params = json!({ "taskId": "t", "url": "u",
        "authentication": { "scheme": "Bearer", "schemes": ["Basic"] } });
    let operation = Operation::CreatePushConfig;
    let read = translate::request_in(Dialect::json_rpc(Version::V1), operation, params).unwrap();
    let sent = translate::request_out(Dialect::json_rpc(Version::V03), &read).unwrap();
    assert_eq!(sent["pushNotificationConfig"]["authentication"], json!({ "schemes": ["Bearer"] }));
}

#[test]
fn answers_of_agents_have_usual_names() {
    let limits = gateway_protocol::jsonrpc::Limits::with_max_bytes(1 << 16);
    let task = json!({ "id": "t", "context_id": "c", "status": { "state": "TASK_STATE_WORKING",
        "message": { "message_id": "m", "task_id": "t", "role": "ROLE_AGENT",
            "parts": [{ "text": "a", "media_type": "a/b" }] } },
        "artifacts": [{ "artifact_id": "a", "parts": [{ "data": { "task_id": 1 } }] }] });
    let wanted = json!({ "id": "t", "contextId": "c", "status": { "state": "TASK_STATE_WORKING",
        "message": { "messageId": "m", "taskId": "t", "role": "ROLE_AGENT",
            "parts": [{ "text": "a", "mediaType": "a/b" }] } },
        "artifacts": [{ "artifactId": "a", "parts": [{ "data": { "task_id": 1 } }] }] });
    for dialect in dialects() {
        let read = translate::answer_in(dialect, Operation::GetTask, task.clone()).unwrap();
        assert_eq!(read, wanted, "{dialect:?}");
        let event = json!({ "status_update": { "task_id": "t", "status": { "state": "TASK_STATE_WORKING" } } });
        let read = translate::event_in(dialect, event).unwrap();
        assert_eq!(read["statusUpdate"]["taskId"], "t", "{dialect:?}");
        let mut twice = task.clone();
        twice["contextId"] = "d".into();
        let body = if dialect.binding == Binding::JsonRpc {
            json!({ "jsonrpc": "2.0", "id": 1, "result": twice })
        } else {
            twice
        };
        let body = body.to_string().into_bytes();
        let failure = if dialect.binding == Binding::JsonRpc {
            rpc::read_answer(dialect.version, Operation::GetTask, 1, &body, limits).unwrap_err()
        } else {
            let request = Request::new(Operation::GetTask, serde_json::Map::new());
            rest::read_answer(dialect.version, &request, 200, &body, limits).unwrap_err()
        };
        assert!(failure.is_invalid_answer(), "{dialect:?}");
        assert_eq!(failure.metadata["pointer"], "/context_id", "{dialect:?}");
    }
}

proptest! {
    #[test]
    fn normalized_value_is_stable(name in "[_a-zA-Zſ]{0,12}", text in "[a-z]{1,4}") {
        let mut value = full(Operation::SendMessage);
        value["message"][&name] = text.into();
        if SEND.normalize(&mut value).is_ok() {
            let mut again = value.clone();
            SEND.normalize(&mut again).unwrap();
            prop_assert_eq!(again, value);
        }
    }
}
