//! Requests, answers and events survive both versions.

use proptest::{collection::vec, option, prelude::*};
use serde_json::{Map, Value, json};

use super::*;
use crate::{model::TaskState, version::Binding};

fn dialects() -> [Dialect; 2] {
    [Dialect::json_rpc(Version::V03), Dialect::http_json(Version::V03)]
}

/// An object of these members that are not null.
fn present(members: Value) -> Value {
    let Value::Object(members) = members else { return members };
    members.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>().into()
}

fn text() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9:/é\"]{1,8}"
}

fn id() -> impl Strategy<Value = String> {
    "[a-z0-9-]{1,8}"
}

fn metadata() -> impl Strategy<Value = Value> {
    prop_oneof![Just(Value::Null), text().prop_map(|text| json!({ "kind": text, "parts": [1] }))]
}

fn data() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        text().prop_map(Value::from),
        Just(Value::Null),
    ];
    let name = prop::sample::select(vec!["data", "kind", "value", "text", "n_1"]);
    leaf.prop_recursive(3, 12, 3, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(name.clone().prop_map(str::to_owned), inner, 0..3)
                .prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

/// Parts that both bindings of 0.3 express.
fn part() -> impl Strategy<Value = Value> {
    let file = (prop::sample::select(vec!["raw", "url"]), text(), option::of(text()), metadata());
    let file = file.prop_map(|(name, content, file, metadata)| {
        let mut part = json!({ "filename": file, "metadata": metadata, "x-own": 1 });
        part[name] = content.into();
        part["mediaType"] = "image/png".into();
        present(part)
    });
    prop_oneof![
        (text(), metadata())
            .prop_map(|(text, metadata)| present(json!({ "text": text, "metadata": metadata }))),
        (data(), metadata()).prop_map(|(data, metadata)| {
            let mut part = present(json!({ "metadata": metadata }));
            part["data"] = data;
            part
        }),
        file,
    ]
}

fn message() -> impl Strategy<Value = Value> {
    let role = prop::sample::select(vec!["ROLE_USER", "ROLE_AGENT"]);
    let ids = (id(), option::of(id()), option::of(id()));
    (role, ids, vec(part(), 0..3), metadata()).prop_map(|(role, ids, parts, metadata)| {
        present(json!({
            "messageId": ids.0, "taskId": ids.1, "contextId": ids.2, "role": role, "parts": parts,
            "metadata": metadata, "extensions": ["urn:x"], "x-own": { "kind": 1 },
        }))
    })
}

fn status() -> impl Strategy<Value = Value> {
    let state = prop::sample::select(TaskState::ALL.to_vec());
    (state, option::of(message())).prop_map(|(state, message)| {
        present(json!({ "state": state.name(), "message": message,
            "timestamp": "2026-01-02T03:04:05.678Z" }))
    })
}

fn artifact() -> impl Strategy<Value = Value> {
    (id(), option::of(text()), vec(part(), 0..3)).prop_map(|(id, name, parts)| {
        present(json!({ "artifactId": id, "name": name, "parts": parts }))
    })
}

fn task() -> impl Strategy<Value = Value> {
    let lists = (option::of(vec(artifact(), 0..2)), option::of(vec(message(), 0..2)));
    (id(), option::of(id()), status(), lists).prop_map(|(id, context, status, lists)| {
        present(json!({ "id": id, "contextId": context, "status": status, "artifacts": lists.0,
            "history": lists.1, "metadata": { "final": true } }))
    })
}

fn event() -> impl Strategy<Value = Value> {
    prop_oneof![
        task().prop_map(|task| json!({ "task": task })),
        message().prop_map(|message| json!({ "message": message })),
        (id(), id(), status()).prop_map(|(task, context, status)| {
            json!({ "statusUpdate": { "taskId": task, "contextId": context, "status": status } })
        }),
        (id(), id(), artifact(), any::<bool>()).prop_map(|(task, context, artifact, append)| {
            json!({ "artifactUpdate": { "taskId": task, "contextId": context,
                "artifact": artifact, "append": append, "lastChunk": !append } })
        }),
    ]
}

fn push_config() -> impl Strategy<Value = Value> {
    (option::of(id()), option::of(text()), option::of(text())).prop_map(|(id, token, secret)| {
        let authentication = secret.map(|s| json!({ "scheme": "Bearer", "credentials": s }));
        present(json!({ "id": id, "url": "https://client.example/hook", "token": token,
            "authentication": authentication }))
    })
}

fn request() -> impl Strategy<Value = (Operation, Value)> {
    let config = (any::<bool>(), option::of(push_config()), option::of(0..9));
    let send = (message(), config, metadata()).prop_map(|(message, config, metadata)| {
        let configuration = present(json!({ "returnImmediately": config.0,
            "taskPushNotificationConfig": config.1, "historyLength": config.2 }));
        let params = json!({ "message": message, "configuration": configuration,
            "metadata": metadata });
        (Operation::SendMessage, present(params))
    });
    let of_task = (
        prop::sample::select(vec![
            Operation::GetTask,
            Operation::CancelTask,
            Operation::SubscribeToTask,
        ]),
        id(),
    );
    let of_task =
        of_task.prop_map(|(operation, id)| (operation, json!({ "id": id, "x-own": [1] })));
    let state = prop::sample::select(TaskState::ALL.to_vec());
    let list = (option::of(id()), state, 1..100).prop_map(|(context, state, size)| {
        let params = json!({ "contextId": context, "status": state.name(), "pageSize": size,
            "statusTimestampAfter": "2026-01-02T03:04:05.000Z", "includeArtifacts": true });
        (Operation::ListTasks, present(params))
    });
    let create = (id(), push_config()).prop_map(|(task, mut config)| {
        config["taskId"] = task.into();
        (Operation::CreatePushConfig, config)
    });
    let one = prop::sample::select(vec![Operation::GetPushConfig, Operation::DeletePushConfig]);
    let one = (one, id(), id())
        .prop_map(|(operation, task, id)| (operation, json!({ "taskId": task, "id": id })));
    prop_oneof![
        send,
        of_task,
        list,
        create,
        one,
        id().prop_map(|task| (Operation::ListPushConfigs, json!({ "taskId": task }))),
        Just((Operation::GetExtendedAgentCard, json!({}))),
    ]
}

/// The name of members that no version defines. Agents of 0.3 over HTTP+JSON reject them.
const UNKNOWN: &str = "x-own";

fn remove_unknown(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.remove(UNKNOWN);
            object.values_mut().for_each(remove_unknown);
        }
        Value::Array(values) => values.iter_mut().for_each(remove_unknown),
        _ => {}
    }
}

proptest! {
    #[test]
    fn requests_survive_translation((operation, params) in request()) {
        let Value::Object(params) = params else { unreachable!("strategies make objects") };
        let request = Request::new(operation, params);
        for dialect in dialects() {
            let mut expected = request.clone();
            if dialect == Dialect::http_json(Version::V03) {
                expected.params.values_mut().for_each(remove_unknown);
                expected.params.remove(UNKNOWN);
            }
            let sent = request_out(dialect, &request).unwrap();
            prop_assert_eq!(&request_in(dialect, operation, sent).unwrap(), &expected);
        }
    }

    #[test]
    fn events_survive_translation(event in event()) {
        for dialect in dialects() {
            let sent = event_out(dialect, event.clone()).unwrap();
            prop_assert_eq!(&event_in(dialect, sent).unwrap(), &event);
        }
    }

    #[test]
    fn answers_survive_translation(
        task in task(), message in message(), config in push_config(), id in id(),
    ) {
        let mut config = config;
        config["taskId"] = id.into();
        let page = json!({ "tasks": [task], "nextPageToken": "n", "totalSize": 3 });
        let answers = [
            (Operation::SendMessage, json!({ "message": message })),
            (Operation::SendMessage, json!({ "task": task })),
            (Operation::GetTask, task.clone()),
            (Operation::CancelTask, task),
            (Operation::ListTasks, page),
            (Operation::CreatePushConfig, config.clone()),
            (Operation::GetPushConfig, config.clone()),
            (Operation::ListPushConfigs, json!({ "configs": [config], "nextPageToken": "" })),
            (Operation::DeletePushConfig, json!({})),
        ];
        for (operation, answer) in answers {
            for dialect in dialects() {
                let sent = answer_out(dialect, operation, answer.clone()).unwrap();
                prop_assert_eq!(&answer_in(dialect, operation, sent).unwrap(), &answer);
            }
        }
    }

    #[test]
    fn arbitrary_values_never_panic(value in data(), message in message()) {
        for dialect in dialects() {
            for operation in Operation::ALL {
                let _ = request_in(dialect, operation, value.clone());
                let _ = answer_in(dialect, operation, value.clone());
                let _ = answer_out(dialect, operation, value.clone());
                let odd = json!({ "message": message, "configuration": value, "task": value });
                let _ = request_in(dialect, operation, odd);
            }
            let _ = event_in(dialect, value.clone());
            let _ = event_out(dialect, json!({ "task": value }));
        }
    }
}

#[test]
fn json_rpc_of_0_3_has_kinds_and_lower_case_names() {
    let params = json!({
        "message": { "messageId": "m", "role": "ROLE_USER", "parts": [
            { "text": "a", "mediaType": "text/markdown" },
            { "raw": "AA==", "mediaType": "image/png", "filename": "a.png" },
            { "url": "https://x.example/f" },
            { "data": { "n": 1 } },
            { "data": [1] },
        ]},
        "tenant": "t",
    });
    let Value::Object(params) = params else { unreachable!() };
    let request = Request::new(Operation::SendMessage, params);
    let sent = request_out(Dialect::json_rpc(Version::V03), &request).unwrap();
    assert_eq!(
        sent,
        json!({
            "message": { "kind": "message", "messageId": "m", "role": "user", "parts": [
                { "kind": "text", "text": "a", "mediaType": "text/markdown" },
                { "kind": "file",
                    "file": { "bytes": "AA==", "mimeType": "image/png", "name": "a.png" } },
                { "kind": "file", "file": { "uri": "https://x.example/f" } },
                { "kind": "data", "data": { "n": 1 } },
                { "kind": "data", "data": { "value": [1] },
                    "metadata": { "data_part_compat": true } },
            ]},
            "configuration": { "blocking": true },
        })
    );
}

#[test]
fn http_json_of_0_3_has_names_of_protocol_buffers() {
    let task = json!({ "id": "t", "contextId": "c", "status": { "state": "TASK_STATE_CANCELED",
        "message": { "messageId": "m", "role": "ROLE_AGENT", "referenceTaskIds": ["r"],
            "parts": [{ "data": {} }, { "url": "u", "mediaType": "x/y" }] } } });
    let dialect = Dialect::http_json(Version::V03);
    let sent = answer_out(dialect, Operation::SendMessage, json!({ "task": task })).unwrap();
    assert_eq!(
        sent,
        json!({ "task": { "id": "t", "contextId": "c", "status": {
            "state": "TASK_STATE_CANCELLED",
            "message": { "messageId": "m", "role": "ROLE_AGENT", "content": [
                { "data": { "data": {} } },
                { "file": { "fileWithUri": "u", "mimeType": "x/y" } },
            ] },
        } } })
    );
}

#[test]
fn clients_of_0_3_may_write_either_form() {
    let wanted = json!({ "messageId": "m", "role": "ROLE_USER", "taskId": "t",
        "parts": [{ "text": "a" }, { "raw": "AA==", "mediaType": "x/y" }] });
    let forms = [
        json!({ "message": { "kind": "message", "messageId": "m", "taskId": "t", "role": "user",
            "parts": [{ "kind": "text", "text": "a" },
                { "kind": "file", "file": { "bytes": "AA==", "mimeType": "x/y" } }] } }),
        json!({ "request": { "message_id": "m", "task_id": "t", "role": "ROLE_USER",
            "content": [{ "text": "a" },
                { "file": { "file_with_bytes": "AA==", "mime_type": "x/y" } }] } }),
    ];
    for form in forms {
        let dialect = Dialect::http_json(Version::V03);
        let request = request_in(dialect, Operation::SendMessage, form).unwrap();
        assert_eq!(request.params["message"], wanted);
    }
}

#[test]
fn missing_blocking_is_false_in_http_json() {
    let read = |binding, configuration: Value| {
        let params = json!({ "message": { "role": "user" }, "configuration": configuration });
        let dialect = Dialect { version: Version::V03, binding };
        let request = request_in(dialect, Operation::SendMessage, params).unwrap();
        request.params.get("configuration")?.get("returnImmediately")?.as_bool()
    };
    assert_eq!(read(Binding::HttpJson, json!({})), Some(true));
    assert_eq!(read(Binding::HttpJson, json!({ "blocking": true })), Some(false));
    assert_eq!(read(Binding::HttpJson, Value::Null), None);
    assert_eq!(read(Binding::JsonRpc, json!({})), None);
}

#[test]
fn untranslatable_values_name_their_place() {
    let dialect = Dialect::json_rpc(Version::V03);
    let message = |role: &str, part: Value| {
        let message = json!({ "role": role, "parts": [{ "kind": "text", "text": "" }, part] });
        request_in(dialect, Operation::SendMessage, json!({ "message": message })).unwrap_err()
    };
    let text = || json!({ "kind": "text", "text": "" });
    let found = [
        message("system", text()),
        message("user", json!({ "kind": "form" })),
        message("user", json!({ "kind": "text", "text": 1 })),
        message("user", json!({ "kind": "file", "file": { "uri": "u", "bytes": "" } })),
        message("user", json!({ "text": "", "data": {} })),
        answer_in(dialect, Operation::GetTask, json!({ "status": { "state": "lost" } }))
            .unwrap_err(),
        event_in(dialect, json!({ "kind": "ping" })).unwrap_err(),
        event_out(dialect, json!({})).unwrap_err(),
        answer_out(dialect, Operation::ListPushConfigs, json!({ "nextPageToken": "n" }))
            .unwrap_err(),
        answer_in(Dialect::json_rpc(Version::V1), Operation::SendMessage, json!({})).unwrap_err(),
    ];
    let found = found.map(|error| error.to_string()).join("\n");
    insta::assert_snapshot!(found, @"
    /message/role: the role is unknown
    /message/parts/1: the part has not exactly one known content
    /message/parts/1/text: a string is required
    /message/parts/1/file: the part has not exactly one known content
    /message/parts/1: the part has not exactly one known content
    /status/state: the task state is unknown
    /kind: the value is neither a task nor a message nor an update
    the whole value: the value is neither a task nor a message nor an update
    /nextPageToken: A2A 0.3 cannot express pages of configurations
    the whole value: the value is neither a task nor a message nor an update
    ");
}

#[test]
fn missing_context_is_not_invented() {
    for binding in [Binding::JsonRpc, Binding::HttpJson] {
        let dialect = Dialect { version: Version::V03, binding };
        let task = json!({ "id": "t", "status": { "state": "TASK_STATE_WORKING" } });
        let sent = answer_out(dialect, Operation::GetTask, task.clone()).unwrap();
        assert_eq!(sent["contextId"], "");
        assert_eq!(answer_in(dialect, Operation::GetTask, sent).unwrap(), task);
    }
}

#[test]
fn final_follows_from_state() {
    let is_final = |state: TaskState| {
        let event = json!({ "statusUpdate": { "status": { "state": state.name() } } });
        event_out(Dialect::json_rpc(Version::V03), event).unwrap()["final"] == true
    };
    for state in TaskState::ALL {
        let wanted = state.is_terminal() || state == TaskState::InputRequired;
        assert_eq!(is_final(state), wanted, "{state:?}");
    }
}

#[test]
fn timestamps_without_zone_become_utc() {
    let read = |time: &str| {
        let task = json!({ "status": { "state": "working", "timestamp": time } });
        let task = answer_in(Dialect::json_rpc(Version::V03), Operation::GetTask, task).unwrap();
        task["status"].get("timestamp").cloned()
    };
    assert_eq!(read("2026-01-02T03:04:05"), Some(json!("2026-01-02T03:04:05.000Z")));
    assert_eq!(read("2026-01-02T03:04:05.5+01:00"), Some(json!("2026-01-02T02:04:05.500Z")));
    assert_eq!(read("2026-01-02T03:04:05.123456Z"), Some(json!("2026-01-02T03:04:05.123456Z")));
    assert_eq!(read("yesterday"), None);
}

#[test]
fn several_schemes_of_a_push_config_are_kept() {
    let dialect = Dialect::json_rpc(Version::V03);
    let sent = json!({ "taskId": "t", "pushNotificationConfig": { "url": "u",
        "authentication": { "schemes": ["Bearer", "Basic"], "credentials": "c" } } });
    let request = request_in(dialect, Operation::CreatePushConfig, sent.clone()).unwrap();
    assert_eq!(request.params["authentication"]["scheme"], "Bearer");
    assert_eq!(request_out(dialect, &request).unwrap(), sent);
}
