//! Paths, queries and bodies.

use http::Method;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn limits() -> Limits {
    Limits::with_max_bytes(1 << 16)
}

fn found(version: Version, method: &Method, path: &str) -> Option<(Operation, Option<String>)> {
    route(version, method, path).ok().map(|route| (route.operation, route.tenant))
}

#[test]
fn paths_of_1_0_have_tenant_twins_and_optional_slash() {
    let paths = [
        (Method::POST, "/message:send", Operation::SendMessage),
        (Method::POST, "/message:stream", Operation::SendStreamingMessage),
        (Method::GET, "/tasks/t", Operation::GetTask),
        (Method::GET, "/tasks", Operation::ListTasks),
        (Method::POST, "/tasks/t:cancel", Operation::CancelTask),
        (Method::GET, "/tasks/t:subscribe", Operation::SubscribeToTask),
        (Method::POST, "/tasks/t:subscribe", Operation::SubscribeToTask),
        (Method::POST, "/tasks/t/pushNotificationConfigs", Operation::CreatePushConfig),
        (Method::GET, "/tasks/t/pushNotificationConfigs", Operation::ListPushConfigs),
        (Method::GET, "/tasks/t/pushNotificationConfigs/c", Operation::GetPushConfig),
        (Method::DELETE, "/tasks/t/pushNotificationConfigs/c", Operation::DeletePushConfig),
        (Method::GET, "/extendedAgentCard", Operation::GetExtendedAgentCard),
    ];
    for (method, path, operation) in paths {
        assert_eq!(found(Version::V1, &method, path), Some((operation, None)));
        assert_eq!(found(Version::V1, &method, &format!("{path}/")), Some((operation, None)));
        let tenant = Some("a/b".to_owned());
        assert_eq!(
            found(Version::V1, &method, &format!("/a%2Fb{path}")),
            Some((operation, tenant)),
            "{path}"
        );
        let old = format!("/v1{}", path.replace("extendedAgentCard", "card"));
        assert_eq!(found(Version::V03, &method, &old), Some((operation, None)));
    }
}

#[test]
fn other_paths_and_methods_do_not_exist() {
    let paths = [
        (Method::GET, "/message:send"),
        (Method::POST, "/tasks"),
        (Method::GET, "/tasks/t:cancel"),
        (Method::PUT, "/tasks/t"),
        (Method::DELETE, "/tasks/t/pushNotificationConfigs"),
        (Method::GET, "/tasks/t/other"),
        (Method::GET, "/a/b/tasks/t"),
        (Method::GET, "/"),
        (Method::GET, ""),
        (Method::GET, "/tasks/%ff"),
        (Method::GET, "/a/tasks/t/pushNotificationConfigs/c/d"),
    ];
    for (method, path) in paths {
        assert_eq!(found(Version::V1, &method, path), None, "{method} {path}");
    }
    assert_eq!(found(Version::V03, &Method::GET, "/tasks/t"), None);
    assert_eq!(found(Version::V03, &Method::GET, "/v1/tenant/tasks/t"), None);
}

fn read(version: Version, method: &Method, path: &str, body: &str) -> Result<Request, Failure> {
    let (path, query) = path.split_once('?').map_or((path, None), |(p, q)| (p, Some(q)));
    let route = route(version, method, path)?;
    read_call(version, route, query, body.as_bytes(), limits())
}

#[test]
fn query_parameters_have_their_types() {
    let path = "/t1/tasks?pageSize=7&includeArtifacts=true&contextId=a%20b&A2A-Version=1.0\
        &status=TASK_STATE_WORKING&statusTimestampAfter=2026-01-01T00:00:00Z";
    let request = read(Version::V1, &Method::GET, path, "").unwrap();
    assert_eq!(
        Value::from(request.params),
        json!({ "tenant": "t1", "pageSize": 7, "includeArtifacts": true, "contextId": "a b",
            "status": "TASK_STATE_WORKING", "statusTimestampAfter": "2026-01-01T00:00:00Z" })
    );
    for query in ["pageSize=x", "pageSize=0", "includeArtifacts=1", "pageSize=1&pageSize=2"] {
        let failure = read(Version::V1, &Method::GET, &format!("/tasks?{query}"), "").unwrap_err();
        assert_eq!(failure.kind, ErrorKind::InvalidParams, "{query}");
    }
}

#[test]
fn path_takes_precedence_over_body() {
    let body = r#"{"id":"other","tenant":"other","metadata":{"a":1}}"#;
    let request = read(Version::V1, &Method::POST, "/tasks/t:cancel", body).unwrap();
    assert_eq!(Value::from(request.params), json!({ "id": "t", "metadata": { "a": 1 } }));
    let body = r#"{"url":"https://x.example","taskId":"other"}"#;
    let path = "/tasks/t/pushNotificationConfigs";
    let request = read(Version::V1, &Method::POST, path, body).unwrap();
    assert_eq!((request.task_id(), request.push_config_id()), (Some("t"), None));
    let body = r#"{"parent":"tasks/o","configId":"c","config":{"name":"n",
        "pushNotificationConfig":{"url":"https://x.example"}}}"#;
    let request = read(Version::V03, &Method::POST, &format!("/v1{path}"), body).unwrap();
    assert_eq!((request.task_id(), request.push_config_id()), (Some("t"), Some("c")));
}

#[test]
fn invalid_bodies_are_rejected() {
    let send =
        |body: &str| read(Version::V1, &Method::POST, "/message:send", body).unwrap_err().kind;
    assert_eq!(send("{"), ErrorKind::ParseError);
    assert_eq!(send("[]"), ErrorKind::InvalidRequest);
    assert_eq!(send(&"[".repeat(200)), ErrorKind::InvalidRequest);
    assert_eq!(send(r#"{"message":1,"message":2}"#), ErrorKind::ParseError);
    assert_eq!(send(""), ErrorKind::InvalidParams);
    let message = |part: &str| {
        send(&format!(r#"{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{part}]}}}}"#))
    };
    for part in ["", "{}", r#"{"text":1}"#, r#"{"text":"","data":null}"#, "3"] {
        assert_eq!(message(part), ErrorKind::InvalidParams, "{part}");
    }
}

#[test]
fn old_agents_get_no_unknown_members() {
    let params = json!({ "x": 1, "metadata": { "x": 1 },
        "message": { "messageId": "m", "role": "ROLE_USER", "x": { "y": 1 },
            "parts": [{ "text": "t", "x": 1 }, { "data": { "x": 1 } }] },
        "configuration": { "x": 1 } });
    let Value::Object(params) = params else { unreachable!() };
    let request = Request::new(Operation::SendMessage, params);
    let body = |version| -> Value {
        let written = write_call(version, &request).unwrap();
        serde_json::from_str(&written.body.unwrap()).unwrap()
    };
    assert_eq!(
        body(Version::V03),
        json!({ "metadata": { "x": 1 },
            "message": { "messageId": "m", "role": "ROLE_USER",
                "content": [{ "text": "t" }, { "data": { "data": { "x": 1 } } }] },
            "configuration": { "blocking": true } })
    );
    assert_eq!(body(Version::V1)["message"]["x"], json!({ "y": 1 }));
}

fn ids() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{1,8}",
        Just("..".to_owned()),
        Just(".".to_owned()),
        Just("a:cancel".to_owned())
    ]
}

proptest! {
    #[test]
    fn written_requests_are_routed_back(task in ids(), config in ids(), tenant in ids()) {
        for operation in Operation::ALL {
            let params = match operation {
                Operation::SendMessage | Operation::SendStreamingMessage => json!({
                    "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "" }] },
                    "configuration": { "returnImmediately": true } }),
                Operation::ListTasks => json!({ "pageSize": 3, "contextId": task }),
                Operation::GetExtendedAgentCard => json!({}),
                Operation::CreatePushConfig => {
                    json!({ "taskId": task, "id": config, "url": "https://x.example" })
                }
                Operation::GetPushConfig | Operation::DeletePushConfig => {
                    json!({ "taskId": task, "id": config })
                }
                Operation::ListPushConfigs => json!({ "taskId": task }),
                _ => json!({ "id": task }),
            };
            let Value::Object(params) = params else { unreachable!("all are objects") };
            let mut request = Request::new(operation, params);
            for version in Version::ALL {
                request.set_tenant((version == Version::V1).then_some(&tenant));
                let sent = write_call(version, &request).unwrap();
                prop_assert!(!sent.path.contains("/../") && !sent.path.contains("/./"));
                // `a:cancel` as the id of `GetTask` is encoded, so the colon stays in the id.
                let body = sent.body.unwrap_or_default();
                let again = read(version, &sent.method, &sent.path, &body).unwrap();
                prop_assert_eq!(&again, &request, "{}", sent.path);
            }
        }
    }

    #[test]
    fn arbitrary_paths_never_panic(path in "[/a-z:%0-9]{0,40}", body in "\\PC{0,40}") {
        for version in Version::ALL {
            for method in [Method::GET, Method::POST, Method::DELETE] {
                let _ = read(version, &method, &path, &body);
            }
        }
    }
}

#[test]
fn answers_have_media_type_of_version() {
    let task = json!({ "id": "t", "contextId": "c", "status": { "state": "TASK_STATE_WORKING" } });
    let answer = write_answer(Version::V1, Operation::GetTask, task.clone()).unwrap();
    assert_eq!((answer.status, answer.media_type), (200, "application/a2a+json"));
    assert_eq!(answer.body, task.to_string());
    let request = Request::new(Operation::GetTask, Object::new());
    let read = |version, status, body: &str| {
        read_answer(version, &request, status, body.as_bytes(), limits())
    };
    assert_eq!(read(Version::V1, 200, &answer.body), Ok(task.clone()));
    let old = write_answer(Version::V03, Operation::GetTask, task.clone()).unwrap();
    assert_eq!(old.media_type, "application/json");
    assert_eq!(read(Version::V03, 200, &old.body), Ok(task));
    let failure = write_failure(Version::V1, &Failure::task_not_found("t"), 404);
    let error = read(Version::V1, failure.status, &failure.body).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TaskNotFound);
    assert_eq!(read(Version::V1, 503, "<html>").unwrap_err().kind, ErrorKind::Unavailable);
    assert!(read(Version::V1, 200, "<html>").unwrap_err().is_invalid_answer());
    assert!(accepts_media_type(Some("Application/A2A+JSON; charset=utf-8")));
    assert!(accepts_media_type(None) && !accepts_media_type(Some("text/plain")));
}
