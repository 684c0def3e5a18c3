//! Answers and errors in both versions and bindings.

use a2a::Version;
use axum::body::Body;
use http::{Method, Request};
use serde_json::{Value, json};

use super::harness::{
    A2aBench, NEW_TASK, OWN_CONTEXT, OWN_TASK, OWN_UUID, caller, events, helper, message,
    old_message, request, rpc, stranger,
};
use crate::mcp::tests::{harness::Got, relayed::acceptable};

/// The reason and the domain of an error of 1.0 in any binding.
fn reason(got: &Got) -> (String, String) {
    let json = got.json();
    let details = json["error"]["details"].as_array().or_else(|| json["error"]["data"].as_array());
    let info = details.and_then(|details| details.first()).cloned().unwrap_or_default();
    let text = |name: &str| info[name].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("domain"))
}

#[tokio::test]
async fn message_is_answered_in_each_version_and_binding() {
    let bench = A2aBench::start([]).await;
    let new = bench.rpc("a", "SendMessage", message("go")).await;
    let task = new.result()["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
    let old = bench.got(rpc(Version::V03, "a", ("message/send", old_message("go")))).await;
    let old = old.result();
    assert_eq!((&old["kind"], &old["status"]["state"]), (&json!("task"), &json!("completed")));
    let path = "/a2a/office/helper/message:send";
    let rest = bench.got(request(Version::V1, (Method::POST, path), ("a", &message("go")))).await;
    assert_eq!((rest.status.as_u16(), &rest.json()["task"]["id"]), (200, &task["id"]));
    assert_eq!(rest.headers["content-type"], "application/a2a+json");
    let path = "/a2a/office/helper/v1/message:send";
    let body = json!({ "message": { "messageId": "m", "role": "ROLE_USER",
        "content": [{ "text": "go" }, { "data": { "data": { "topic": "go" } } }] } });
    let rest = bench.got(request(Version::V03, (Method::POST, path), ("a", &body))).await;
    assert_eq!(rest.status, 200, "{rest:?}");
    for own in [OWN_TASK, OWN_CONTEXT] {
        assert!(!new.text.contains(own) && !rest.text.contains(own), "ids are sealed");
    }
    assert_eq!(old["id"], task["id"], "one task has one id");
}

#[tokio::test]
async fn task_is_read_and_canceled_by_its_caller_only() {
    let bench = A2aBench::start([]).await;
    let id = bench.started_task().await["id"].clone();
    let got = bench.rpc("a", "GetTask", json!({ "id": id })).await;
    assert_eq!(got.result()["id"], id);
    let path = format!("/a2a/office/helper/tasks/{}:cancel", id.as_str().unwrap());
    let got = bench.got(request(Version::V1, (Method::POST, &path), ("a", &json!({})))).await;
    assert_eq!(got.json()["status"]["state"], "TASK_STATE_CANCELED", "{got:?}");
    let before = bench.agent.all_seen().len();
    for foreign in ["", "unknown"] {
        let got = bench.rpc(foreign, "GetTask", json!({ "id": id })).await;
        assert_eq!(got.error(), (200, -32001), "{foreign}");
    }
    let got = bench.rpc("a", "GetTask", json!({ "id": OWN_TASK })).await;
    assert_eq!(got.error(), (200, -32001), "ids of the agent are no ids of the gateway");
    assert_eq!(bench.agent.all_seen().len(), before);
}

#[tokio::test]
async fn retirement_forbids_messages_and_ends_no_task() {
    let bench = A2aBench::start([]).await;
    let id = bench.working_task().await["id"].clone();
    bench.bench.publish(2, vec![helper().retired(), caller(), stranger()]);
    let mut continued = message("go");
    continued["message"]["taskId"] = id.clone();
    for sent in [message("go"), continued] {
        let got = bench.rpc("a", "SendMessage", sent).await;
        assert_eq!(reason(&got).0, "AGENT_RETIRED", "{got:?}");
        assert_eq!(got.status, 404);
    }
    let hidden = bench.rpc("stranger", "SendMessage", message("go")).await;
    assert_eq!(reason(&hidden).0, "AGENT_NOT_FOUND");
    let hidden = bench.rpc("stranger", "ListTasks", json!({})).await;
    assert_eq!(reason(&hidden).0, "AGENT_NOT_FOUND");
    let listed = bench.rpc("a", "ListTasks", json!({})).await.result();
    assert_eq!((&listed["tasks"][0]["id"], &listed["totalSize"]), (&id, &json!(1)), "{listed}");
    let subscribed = bench.rpc("a", "SubscribeToTask", json!({ "id": id })).await;
    let last = events(&subscribed).pop().unwrap_or_default();
    assert_eq!(last["result"]["statusUpdate"]["taskId"], id, "{subscribed:?}");
    for method in ["GetTask", "CancelTask"] {
        let got = bench.rpc("a", method, json!({ "id": id })).await;
        assert_eq!(got.result()["id"], id, "{method}");
    }
    assert_eq!(bench.agent.seen("SendMessage").len(), 1);
}

#[tokio::test]
async fn undeclared_agent_is_not_found() {
    let bench = A2aBench::start([]).await;
    let unknown = bench.got(request(
        Version::V1,
        (Method::POST, "/a2a/ghost"),
        (
            "stranger",
            &json!({ "jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": message("go") }),
        ),
    ));
    let (unknown, denied) =
        (unknown.await, bench.rpc("stranger", "SendMessage", message("go")).await);
    for got in [&unknown, &denied] {
        assert_eq!(got.status, 404);
        let expected = ("AGENT_NOT_FOUND".to_owned(), "gateway-agent".to_owned());
        assert_eq!(reason(got), expected, "{got:?}");
    }
    assert_eq!(denied.text.replace("office/helper", "ghost"), unknown.text);
    for path in ["/a2a/office/helper@2.0.0", "/a2a/a/b/c", "/a2a/office/helper@x"] {
        let body =
            json!({ "jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": { "id": "x" } });
        let got = bench.got(request(Version::V1, (Method::POST, path), ("a", &body))).await;
        assert_eq!(got.status, 404, "{path}");
    }
    assert_eq!(bench.agent.seen("SendMessage").len(), 0);
}

#[tokio::test]
async fn invalid_data_is_rejected_with_pointer() {
    let bench = A2aBench::start([]).await;
    let mut invalid = message("go");
    invalid["message"]["parts"][1]["data"] = json!({ "subject": "go" });
    let got = bench.rpc("a", "SendMessage", invalid).await;
    let error = got.json()["error"].clone();
    assert_eq!(error["code"], -32602, "{error}");
    let pointer = error["data"][0]["metadata"]["pointer"].as_str().unwrap().to_owned();
    assert!(pointer.starts_with("/message/parts/1/data"), "{pointer}");
    assert_eq!(bench.agent.seen("SendMessage").len(), 0);
}

#[tokio::test]
async fn request_to_gateway_names_its_agent() {
    let bench = A2aBench::start([]).await;
    let send = async |params: Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": params });
        bench.got(request(Version::V1, (Method::POST, "/a2a"), ("a", &body))).await
    };
    let mut by_tenant = message("go");
    by_tenant["tenant"] = json!("office/helper@1.0.0");
    send(by_tenant).await.result();
    let mut by_metadata = message("go");
    by_metadata["metadata"] = json!({ "agent": "office/helper" });
    send(by_metadata).await.result();
    let mut by_message = message("go");
    by_message["message"]["metadata"] = json!({ "agent": "office/helper" });
    send(by_message).await.result();
    assert_eq!(send(message("go")).await.error(), (200, -32602));
    let path = "/a2a/office%2Fhelper/message:send";
    let got = bench.got(request(Version::V1, (Method::POST, path), ("a", &message("go")))).await;
    assert_eq!(got.status, 200, "{got:?}");
    let seen = bench.agent.seen("SendMessage");
    assert_eq!(seen.len(), 4);
    for seen in seen {
        let params = &seen.body["params"];
        assert!(params["tenant"].is_null(), "{params}");
        let named = [&params["metadata"]["agent"], &params["message"]["metadata"]["agent"]];
        assert!(named.iter().all(|named| named.is_null()), "{params}");
    }
}

#[tokio::test]
async fn wrong_requests_are_rejected_in_their_form() {
    let bench = A2aBench::start([]).await;
    let unknown_version = Request::post("/a2a/office/helper")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("a2a-version", "2.0")
        .body(Body::from("{}"))
        .unwrap();
    assert_eq!(bench.got(unknown_version).await.error(), (200, -32009));
    let unknown_method = rpc(Version::V1, "a", ("message/send", message("go")));
    assert_eq!(bench.got(unknown_method).await.error(), (200, -32601));
    let path = "/a2a/office/helper/message:send";
    let got = bench.got(request(Version::V03, (Method::POST, path), ("a", &message("go")))).await;
    assert_eq!(got.status, 404, "0.3 has another path");
    let path = "/a2a/office/helper";
    let got = bench.got(request(Version::V1, (Method::GET, path), ("a", &Value::Null))).await;
    assert_eq!(got.status, 405);
    assert_eq!(got.headers["allow"], "POST");
    let mut form = rpc(Version::V1, "a", ("SendMessage", message("go")));
    form.headers_mut().insert("content-type", "text/plain".parse().unwrap());
    assert_eq!(bench.got(form).await.error(), (200, -32005));
    let mut foreign = rpc(Version::V1, "a", ("SendMessage", message("go")));
    foreign.headers_mut().insert("origin", "https://evil.example".parse().unwrap());
    assert_eq!(bench.got(foreign).await.status, 403);
    let large = rpc(Version::V1, "a", ("SendMessage", message(&"x".repeat(64 * 1024))));
    assert_eq!(bench.got(large).await.status, 413);
    assert_eq!(bench.agent.seen("SendMessage").len(), 0);
}

#[tokio::test]
async fn error_code_of_http_json_is_its_status() {
    let bench = A2aBench::start([]).await;
    let (send, card) =
        ("/a2a/office/helper/message:send", "/a2a/office/helper/.well-known/agent-card.json");
    let post = |path, text: &str| request(Version::V1, (Method::POST, path), ("a", &message(text)));
    let mut form = post(send, "go");
    form.headers_mut().insert("content-type", "text/plain".parse().unwrap());
    let large = post(send, &"x".repeat(64 * 1024));
    for (request, expected) in [(form, 400_u16), (large, 413), (post(card, "go"), 405)] {
        let got = bench.got(request).await;
        assert_eq!(got.error(), (expected, i64::from(expected)), "{got:?}");
    }
    assert_eq!(bench.agent.seen("SendMessage").len(), 0);
}

#[tokio::test]
async fn error_of_invalid_envelope_has_its_id() {
    let bench = A2aBench::start([]).await;
    for (body, expected) in [
        (json!({ "jsonrpc": "1.0", "id": "x", "method": "GetTask" }), (json!("x"), -32600)),
        (json!({ "jsonrpc": "2.0", "id": 7 }), (json!(7), -32600)),
        (json!({ "jsonrpc": "2.0", "id": 7, "method": 7 }), (json!(7), -32600)),
        (
            json!({ "jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": [] }),
            (json!(7), -32602),
        ),
        (json!({ "jsonrpc": "2.0", "id": {}, "method": "GetTask" }), (Value::Null, -32600)),
        (json!([{ "jsonrpc": "2.0", "id": 7, "method": "GetTask" }]), (Value::Null, -32600)),
    ] {
        for version in Version::ALL {
            let path = "/a2a/office/helper";
            let got = bench.got(request(version, (Method::POST, path), ("a", &body))).await;
            assert_eq!((got.json()["id"].clone(), got.error().1), expected, "{body}: {got:?}");
        }
    }
}

#[tokio::test]
async fn error_of_agent_contains_none_of_its_ids() {
    let bench = A2aBench::start([]).await;
    let got = bench.rpc("a", "SendMessage", message("reject")).await;
    assert_eq!(got.error(), (200, -32004));
    for own in [OWN_TASK, OWN_CONTEXT, OWN_UUID, NEW_TASK] {
        assert!(!got.text.contains(own), "{own}: {}", got.text);
    }
    let data = got.json()["error"]["data"].clone();
    let other = data.as_array().unwrap().iter().find(|detail| detail["domain"] == "a.example");
    assert!(other.unwrap()["metadata"]["taskId"].is_string(), "{data}");
    let info = &data[0];
    assert_eq!(info["reason"], "UNSUPPORTED_OPERATION");
    assert!(info["metadata"]["taskId"].is_string() && info["metadata"]["context_id"].is_string());
}

#[tokio::test]
async fn history_has_at_most_the_requested_length() {
    let bench = A2aBench::start([]).await;
    let id = bench.started_task().await["id"].clone();
    let count = |task: &Value| task["history"].as_array().map(Vec::len);
    for (length, expected) in
        [(json!(0), None), (json!(1), Some(1)), (json!(5), Some(2)), (Value::Null, Some(2))]
    {
        let get = json!({ "id": id, "historyLength": length });
        let got = bench.rpc("a", "GetTask", get.clone()).await;
        assert_eq!(count(&got.result()), expected, "{got:?}");
        let got = bench.got(rpc(Version::V03, "a", ("tasks/get", get))).await;
        assert_eq!(count(&got.result()), expected, "{got:?}");
        let mut sent = message("go");
        sent["configuration"] = json!({ "historyLength": length });
        let got = bench.rpc("a", "SendMessage", sent).await;
        assert_eq!(count(&got.result()["task"]), expected, "{got:?}");
        let got = bench.rpc("a", "ListTasks", json!({ "historyLength": length })).await;
        assert_eq!(count(&got.result()["tasks"][0]), expected, "{got:?}");
    }
}

#[tokio::test]
async fn answer_to_question_need_not_match_input_schema() {
    let bench = A2aBench::start([]).await;
    let sent =
        |data: Value| json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "data": data }] });
    let first = json!({ "message": sent(json!({ "topic": "ask" })) });
    let task = bench.rpc("a", "SendMessage", first).await.result()["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let mut answer = sent(json!({ "confirm": true }));
    let rejected = bench.rpc("a", "SendMessage", json!({ "message": answer.clone() })).await;
    assert_eq!(rejected.error().1, -32602, "a first message needs a topic");
    answer["taskId"] = task["id"].clone();
    let done = bench.rpc("a", "SendMessage", json!({ "message": answer })).await.result();
    assert_eq!(done["task"]["status"]["state"], "TASK_STATE_COMPLETED");
}

#[tokio::test]
async fn answer_has_registered_extensions_that_agent_activates() {
    let bench = A2aBench::start([]).await;
    let mut loud = helper();
    let declared = loud.document["capabilities"]["extensions"].as_array_mut().unwrap();
    declared.push(json!({ "uri": "urn:example:loud" }));
    bench.bench.publish(2, vec![loud, caller(), stranger()]);
    let requested = "urn:example:loud, urn:example:unregistered";
    for (text, expected) in [("go", Some("urn:example:loud")), ("deaf", None)] {
        let mut sent = rpc(Version::V1, "a", ("SendMessage", message(text)));
        sent.headers_mut().insert("a2a-extensions", requested.parse().unwrap());
        let got = bench.got(sent).await;
        assert_eq!(got.result()["task"]["status"]["state"], "TASK_STATE_COMPLETED");
        let answered = got.headers.get("a2a-extensions").map(|value| value.to_str().unwrap());
        assert_eq!(answered, expected, "{text}");
    }
}

#[tokio::test]
async fn only_messages_need_required_extensions() {
    let bench = A2aBench::start([]).await;
    let id = bench.started_task().await["id"].clone();
    let mut strict = helper();
    let declared = strict.document["capabilities"]["extensions"].as_array_mut().unwrap();
    declared.push(json!({ "uri": "urn:example:strict", "required": true }));
    bench.bench.publish(2, vec![strict, caller(), stranger()]);
    for method in ["SendMessage", "SendStreamingMessage"] {
        let got = bench.rpc("a", method, message("go")).await;
        assert_eq!(got.error(), (200, -32008), "{method}");
    }
    let mut sent = rpc(Version::V1, "a", ("SendMessage", message("go")));
    sent.headers_mut().insert("a2a-extensions", "urn:example:strict".parse().unwrap());
    assert_eq!(bench.got(sent).await.result()["task"]["id"], id);
    let listed = bench.rpc("a", "ListTasks", json!({ "includeArtifacts": true })).await.result();
    assert!(listed["tasks"][0]["artifacts"].is_array(), "the task is read: {listed}");
    for method in ["GetTask", "CancelTask"] {
        let got = bench.rpc("a", method, json!({ "id": id })).await;
        assert_eq!(got.result()["id"], id, "{method}");
    }
    let unknown = bench.rpc("a", "GetTask", json!({ "id": "unknown" })).await;
    assert_eq!(unknown.error(), (200, -32001));
}

#[tokio::test]
async fn agent_without_streams_gets_none() {
    let bench = A2aBench::start([]).await;
    let id = bench.started_task().await["id"].clone();
    let mut plain = helper();
    plain.document["capabilities"]["streaming"] = json!(false);
    bench.bench.publish(2, vec![plain, caller(), stranger()]);
    for (method, params) in
        [("SendStreamingMessage", message("go")), ("SubscribeToTask", json!({ "id": id }))]
    {
        let got = bench.rpc("a", method, params).await;
        assert_eq!(got.error(), (200, -32004), "{method}");
        assert!(bench.agent.seen(method).is_empty(), "{method}");
    }
}

#[tokio::test]
async fn push_notifications_are_not_supported() {
    let bench = A2aBench::start([]).await;
    let config = json!({ "taskId": "t", "url": "https://client.example/hook" });
    let got = bench.rpc("a", "CreateTaskPushNotificationConfig", config.clone()).await;
    assert_eq!(got.error(), (200, -32003));
    let mut with_push = message("go");
    with_push["configuration"] = json!({ "taskPushNotificationConfig": config });
    assert_eq!(bench.rpc("a", "SendMessage", with_push).await.error(), (200, -32003));
    assert_eq!(bench.agent.seen("SendMessage").len(), 0);
}

#[tokio::test]
async fn operation_continues_without_its_client() {
    let bench = A2aBench::start([]).await;
    let sent = bench.send(rpc(Version::V1, "a", ("SendMessage", message("wait"))));
    let mut sent = Box::pin(sent);
    tokio::select! {
        _ = &mut sent => panic!("the agent has not answered"),
        () = acceptable(|| bench.agent.seen("SendMessage").len() == 1) => {}
    }
    drop(sent);
    bench.script.released.notify_one();
    bench.surface.drained().await;
    assert_eq!(bench.agent.cut_off(), 0, "the request to the agent was not cancelled");
    let listed = bench.rpc("a", "ListTasks", json!({})).await.result();
    assert_eq!(listed["totalSize"], 1, "its task is known");
}

#[tokio::test]
async fn address_of_agent_is_in_no_answer() {
    let bench = A2aBench::start([]).await;
    let port = bench.agent.address().port().to_string();
    let list =
        bench.got(request(Version::V1, (Method::GET, "/.well-known/agents"), ("a", &Value::Null)));
    let mut answers = vec![list.await];
    for (method, text) in [
        ("SendMessage", "reveal"),
        ("SendMessage", "reveal an error"),
        ("SendStreamingMessage", "reveal events"),
        ("SendStreamingMessage", "reveal an error"),
    ] {
        answers.push(bench.rpc("a", method, message(text)).await);
        let old = match method {
            "SendMessage" => "message/send",
            _ => "message/stream",
        };
        answers.push(bench.got(rpc(Version::V03, "a", (old, old_message(text)))).await);
    }
    for got in &answers {
        assert!(!got.text.contains("127.0.0.1") && !got.text.contains(&port), "{got:?}");
    }
    let task = &answers[1].result()["task"];
    assert_eq!(task["artifacts"][0]["parts"][0]["url"], "http://agent.invalid/files/1");
    let id = task["id"].clone();
    let got = bench.rpc("a", "GetTask", json!({ "id": id })).await;
    assert_eq!(got.result()["id"], id, "ids are unchanged");
}
