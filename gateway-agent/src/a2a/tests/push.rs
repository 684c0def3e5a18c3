//! Push notifications: the scripted agent gets an endpoint of the gateway, and a local server receives
//! the deliveries.

use a2a::Version;
use axum::body::Body;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use gateway_testkit::{Received, Reply, Server, json_reply};
use gateway_upstream::Addresses;
use http::{Method, Request};
use registry_core::Digest;
use serde_json::{Value, json};

use super::{
    harness::{
        A2aBench, OWN_CONTEXT, OWN_TASK, caller, helper, message, pushing_helper, request, rpc,
        stranger, task,
    },
    ownership::{API_KEY, identified, keys},
};
use crate::{
    identity::settings::{AuthenticatorConfig, IdentityConfig},
    mcp::tests::{
        audit::Log,
        harness::{Got, Setup},
        relayed::acceptable,
    },
    pipeline::PushSettings,
};

const BASE: &str = "https://gateway.example";
const CREATE: &str = "CreateTaskPushNotificationConfig";

/// A gateway that delivers to these addresses.
async fn bench(addresses: Addresses) -> A2aBench {
    let push = PushSettings { addresses, allow_http: addresses == Addresses::Any };
    let a2a_url = Some(BASE.to_owned());
    A2aBench::start_with(Setup { push: Some(push), a2a_url, ..Setup::default() }, []).await
}

/// A server that accepts all notifications.
async fn receiver() -> Server {
    Server::start(|_| json_reply(200, &json!({}))).await
}

/// The endpoint that the agent knows.
struct Endpoint {
    path: String,
    token: String,
}

impl Endpoint {
    fn of(config: &Value) -> Self {
        let path = config["url"].as_str().unwrap().strip_prefix(BASE).unwrap().to_owned();
        Self { path, token: config["token"].as_str().unwrap().to_owned() }
    }

    /// A notification of the agent.
    async fn notify(&self, bench: &A2aBench, event: &Value) -> Got {
        let request = Request::post(&self.path)
            .header("content-type", "application/json")
            .header("x-a2a-notification-token", &self.token);
        bench.got(request.body(Body::from(event.to_string())).unwrap()).await
    }
}

/// Adds a configuration to a task. Returns the answer and the endpoint for the agent.
async fn configured(bench: &A2aBench, config: Value) -> (Value, Endpoint) {
    let answer = bench.rpc("a", CREATE, config).await.result();
    let sent = bench.agent.seen(CREATE).pop().unwrap();
    (answer, Endpoint::of(&sent.body["params"]))
}

fn completed() -> Value {
    json!({ "statusUpdate": { "taskId": OWN_TASK, "contextId": OWN_CONTEXT,
        "status": { "state": "TASK_STATE_COMPLETED" } } })
}

/// The claims of the signature of a notification.
fn claims(received: &Received) -> Value {
    let token = received.header("x-a2a-notification-signature").unwrap();
    let payload = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

#[tokio::test]
async fn notification_is_translated_signed_and_delivered() {
    let (bench, receiver) = (bench(Addresses::Any).await, receiver().await);
    let id = bench.started_task().await["id"].clone();
    let config = json!({ "taskId": id, "url": receiver.url(), "token": "of-the-client",
        "authentication": { "scheme": "Basic", "credentials": "c2VjcmV0" } });
    let (answer, endpoint) = configured(&bench, config).await;
    assert_eq!((&answer["taskId"], &answer["url"]), (&id, &json!(receiver.url())));
    assert_eq!(answer["authentication"], json!({ "scheme": "Basic" }));
    let sent = bench.agent.seen(CREATE)[0].clone();
    assert!(!sent.text.contains("of-the-client") && !sent.text.contains(&receiver.url()));
    assert_eq!(sent.body["params"]["taskId"], OWN_TASK);
    assert_eq!(endpoint.notify(&bench, &completed()).await.status, 200);
    acceptable(|| receiver.all_seen().len() == 1).await;
    let delivered = receiver.all_seen().remove(0);
    assert_eq!(delivered.body["statusUpdate"]["taskId"], id);
    assert!(!delivered.text.contains(OWN_TASK) && !delivered.text.contains(OWN_CONTEXT));
    assert_eq!(delivered.header("x-a2a-notification-token"), Some("of-the-client"));
    assert_eq!(delivered.header("authorization"), Some("Basic c2VjcmV0"));
    let claims = claims(&delivered);
    assert_eq!((&claims["iss"], &claims["taskId"]), (&json!(BASE), &id));
    let digest = Digest::compute(delivered.text.as_bytes()).to_string();
    assert_eq!(format!("sha256:{}", claims["request_body_sha256"].as_str().unwrap()), digest);
}

#[tokio::test]
async fn receiver_of_old_version_gets_tasks() {
    let (bench, receiver) = (bench(Addresses::Any).await, receiver().await);
    let id = bench.started_task().await["id"].clone();
    let config = json!({ "taskId": id, "pushNotificationConfig": { "url": receiver.url() } });
    let set = rpc(Version::V03, "a", ("tasks/pushNotificationConfig/set", config));
    bench.got(set).await.result();
    let endpoint = Endpoint::of(&bench.agent.seen(CREATE)[0].body["params"]);
    let mut old = task("completed");
    old["kind"] = json!("task");
    old["artifacts"][0]["parts"] = json!([{ "kind": "text", "text": "done" }]);
    for event in [completed(), json!({ "task": task("TASK_STATE_COMPLETED") }), old] {
        assert_eq!(endpoint.notify(&bench, &event).await.status, 200, "{event}");
    }
    acceptable(|| receiver.all_seen().len() == 3).await;
    for delivered in receiver.all_seen() {
        let Received { body, headers, .. } = &delivered;
        assert_eq!((&body["kind"], &body["id"]), (&json!("task"), &id));
        assert_eq!(body["status"]["state"], "completed");
        assert_eq!(body["artifacts"][0]["parts"][0]["text"], "done");
        assert!(headers["authorization"].starts_with("Bearer "));
    }
}

#[tokio::test]
async fn message_registers_its_configuration() {
    let (bench, receiver) = (bench(Addresses::Any).await, receiver().await);
    let mut sent = message("go");
    let config = json!({ "id": "mine", "url": receiver.url() });
    sent["configuration"] = json!({ "taskPushNotificationConfig": config });
    let id = bench.rpc("a", "SendMessage", sent).await.result()["task"]["id"].clone();
    let forwarded = bench.agent.seen("SendMessage").remove(0);
    let config = &forwarded.body["params"]["configuration"]["taskPushNotificationConfig"];
    let endpoint = Endpoint::of(config);
    assert_eq!(endpoint.notify(&bench, &completed()).await.status, 200);
    acceptable(|| receiver.all_seen().len() == 1).await;
    let list = bench.rpc("a", "ListTaskPushNotificationConfigs", json!({ "taskId": id })).await;
    let expected = json!([{ "taskId": id, "id": "mine", "url": receiver.url() }]);
    assert_eq!(list.result()["configs"], expected);
    let path =
        format!("/a2a/office/helper/tasks/{}/pushNotificationConfigs/mine", id.as_str().unwrap());
    let got = bench.got(request(Version::V1, (Method::GET, &path), ("a", &Value::Null))).await;
    assert_eq!(got.json(), expected[0]);
}

#[tokio::test]
async fn private_and_insecure_urls_are_rejected() {
    let bench = bench(Addresses::Public).await;
    let id = bench.started_task().await["id"].clone();
    for url in [
        "https://169.254.169.254/latest/meta-data",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://10.0.0.1/",
        "https://192.168.0.1:8443/hook",
        "https://[fd00::1]/",
        "https://[::ffff:10.0.0.1]/",
        "http://client.example/hook",
        "ftp://client.example/hook",
        "https://user@client.example/hook",
        "/hook",
    ] {
        let config = json!({ "taskId": id, "url": url });
        let got = bench.rpc("a", CREATE, config.clone()).await;
        assert_eq!(got.error(), (200, -32602), "{url}");
        let mut sent = message("go");
        sent["configuration"] = json!({ "taskPushNotificationConfig": config });
        assert_eq!(bench.rpc("a", "SendMessage", sent).await.error(), (200, -32602), "{url}");
    }
    assert_eq!(bench.agent.seen(CREATE).len(), 0);
}

#[tokio::test]
async fn name_with_private_address_is_not_connected() {
    let (bench, receiver) = (bench(Addresses::Public).await, receiver().await);
    let id = bench.started_task().await["id"].clone();
    let port = receiver.address().port();
    let config = json!({ "taskId": id, "url": format!("https://localhost:{port}/") });
    let (_, endpoint) = configured(&bench, config).await;
    assert_eq!(endpoint.notify(&bench, &completed()).await.status, 200);
    acceptable(|| bench.surface.state.push.configs.waiting() == 0).await;
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let (bench, private) = (bench(Addresses::Any).await, receiver().await);
    let location = private.url();
    let redirecting =
        Server::start(move |_| json_reply(307, &json!({})).with_header("location", &location));
    let redirecting = redirecting.await;
    let id = bench.started_task().await["id"].clone();
    let config = json!({ "taskId": id, "url": redirecting.url() });
    let (_, endpoint) = configured(&bench, config).await;
    assert_eq!(endpoint.notify(&bench, &completed()).await.status, 200);
    acceptable(|| bench.surface.state.push.configs.waiting() == 0).await;
    assert_eq!((redirecting.all_seen().len(), private.connections()), (1, 0));
}

#[tokio::test]
async fn failed_delivery_is_repeated_with_same_id() {
    let bench = bench(Addresses::Any).await;
    let attempts = std::sync::atomic::AtomicUsize::new(0);
    let receiver = Server::start(move |_| -> Reply {
        let attempt = attempts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        json_reply(if attempt == 0 { 503 } else { 200 }, &json!({}))
    });
    let receiver = receiver.await;
    let id = bench.started_task().await["id"].clone();
    let config = json!({ "taskId": id, "url": receiver.url() });
    let (_, endpoint) = configured(&bench, config).await;
    endpoint.notify(&bench, &completed()).await;
    acceptable(|| bench.surface.state.push.configs.waiting() == 0).await;
    let seen = receiver.all_seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(claims(&seen[0])["jti"], claims(&seen[1])["jti"]);
}

#[tokio::test]
async fn forged_and_misdirected_notifications_are_rejected() {
    let (bench, receiver) = (bench(Addresses::Any).await, receiver().await);
    let id = bench.started_task().await["id"].clone();
    let config = json!({ "taskId": id, "id": "mine", "url": receiver.url() });
    let (_, endpoint) = configured(&bench, config).await;
    let Endpoint { path, token } = &endpoint;
    let wrong = Endpoint { path: path.clone(), token: "wrong".to_owned() };
    assert_eq!(wrong.notify(&bench, &completed()).await.status, 401);
    let mut other = completed();
    other["statusUpdate"]["taskId"] = json!("task-of-another-caller");
    assert_eq!(endpoint.notify(&bench, &other).await.status, 404);
    for invalid in [json!({}), json!([]), json!({ "statusUpdate": {} })] {
        assert_eq!(endpoint.notify(&bench, &invalid).await.status, 400, "{invalid}");
    }
    let forged = Endpoint { path: format!("{path}A"), token: token.clone() };
    assert!(forged.notify(&bench, &completed()).await.status.is_client_error());
    let deleted = json!({ "taskId": id, "id": "mine" });
    bench.rpc("a", "DeleteTaskPushNotificationConfig", deleted).await.result();
    assert_eq!(endpoint.notify(&bench, &completed()).await.status, 404, "a replay");
    assert_eq!(receiver.all_seen().len(), 0);
}

#[tokio::test]
async fn deletion_of_configuration_is_idempotent() {
    let bench = bench(Addresses::Public).await;
    let id = bench.started_task().await["id"].clone();
    let config = json!({ "taskId": id, "id": "mine", "url": "https://client.example/hook" });
    configured(&bench, config).await;
    let named = json!({ "taskId": id, "id": "mine" });
    for _ in 0..2 {
        let deleted = bench.rpc("a", "DeleteTaskPushNotificationConfig", named.clone()).await;
        assert_eq!(deleted.result(), json!({}));
    }
    let old = json!({ "id": id, "pushNotificationConfigId": "mine" });
    let deleted = rpc(Version::V03, "a", ("tasks/pushNotificationConfig/delete", old));
    assert_eq!(bench.got(deleted).await.result(), Value::Null);
    let path =
        format!("/a2a/office/helper/tasks/{}/pushNotificationConfigs/mine", id.as_str().unwrap());
    let deleted = request(Version::V1, (Method::DELETE, &path), ("a", &Value::Null));
    assert_eq!(bench.got(deleted).await.status, 200);
    assert_eq!(bench.agent.seen("DeleteTaskPushNotificationConfig").len(), 1);
    let unknown = json!({ "taskId": "unknown", "id": "mine" });
    let deleted = bench.rpc("a", "DeleteTaskPushNotificationConfig", unknown).await;
    assert_eq!(deleted.error(), (200, -32001));
}

#[tokio::test]
async fn configuration_of_retired_agent_is_used_shown_and_deleted() {
    let (bench, receiver) = (bench(Addresses::Any).await, receiver().await);
    let id = bench.working_task().await["id"].clone();
    let config = json!({ "taskId": id, "id": "mine", "url": receiver.url() });
    let (_, endpoint) = configured(&bench, config.clone()).await;
    bench.bench.publish(2, vec![pushing_helper().retired(), caller(), stranger()]);
    assert_eq!(endpoint.notify(&bench, &completed()).await.status, 200);
    acceptable(|| receiver.all_seen().len() == 1).await;
    let new = json!({ "taskId": id, "id": "new", "url": receiver.url() });
    let rejected = bench.rpc("a", CREATE, new).await;
    assert_eq!(rejected.json()["error"]["data"][0]["reason"], "AGENT_RETIRED", "{rejected:?}");
    let named = json!({ "taskId": id, "id": "mine" });
    let got = bench.rpc("a", "GetTaskPushNotificationConfig", named.clone()).await;
    assert_eq!(got.result()["id"], "mine");
    let listed = bench.rpc("a", "ListTaskPushNotificationConfigs", json!({ "taskId": id })).await;
    assert_eq!(listed.result()["configs"], json!([config]));
    let deleted = bench.rpc("a", "DeleteTaskPushNotificationConfig", named).await;
    assert_eq!(deleted.result(), json!({}));
    assert_eq!(bench.agent.seen("DeleteTaskPushNotificationConfig").len(), 1);
    assert_eq!(endpoint.notify(&bench, &completed()).await.status, 404);
}

#[tokio::test]
async fn configurations_belong_to_their_caller() {
    let bench = bench(Addresses::Public).await;
    let id = bench.started_task().await["id"].clone();
    let config = json!({ "taskId": id, "id": "mine", "url": "https://client.example/hook" });
    configured(&bench, config.clone()).await;
    let named = json!({ "taskId": id, "id": "mine" });
    for (method, params) in [
        (CREATE, &config),
        ("GetTaskPushNotificationConfig", &named),
        ("ListTaskPushNotificationConfigs", &named),
        ("DeleteTaskPushNotificationConfig", &named),
    ] {
        let got = bench.rpc("unknown", method, params.clone()).await;
        assert_eq!(got.error(), (200, -32001), "{method}");
        let got = bench.rpc("", method, params.clone()).await;
        assert_eq!(got.status, 401, "{method}: {got:?}");
    }
    let got = bench.rpc("a", "GetTaskPushNotificationConfig", named).await;
    assert_eq!(got.result()["id"], "mine");
    let other = json!({ "taskId": id, "id": "other" });
    let got = bench.rpc("a", "GetTaskPushNotificationConfig", other).await;
    assert_eq!(got.error(), (200, -32001));
}

#[tokio::test]
async fn missing_capability_precedes_missing_identity() {
    let bench = bench(Addresses::Public).await;
    bench.bench.publish(2, vec![helper(), caller(), stranger()]);
    let config = json!({ "taskId": "t", "id": "mine", "url": "https://client.example/hook" });
    let named = json!({ "taskId": "t", "id": "mine" });
    let mut sent = message("go");
    sent["configuration"] = json!({ "taskPushNotificationConfig": config });
    for sender in ["", "a"] {
        for (method, params) in [
            (CREATE, &config),
            ("GetTaskPushNotificationConfig", &named),
            ("ListTaskPushNotificationConfigs", &named),
            ("DeleteTaskPushNotificationConfig", &named),
            ("SendMessage", &sent),
        ] {
            let got = bench.rpc(sender, method, params.clone()).await;
            assert_eq!(got.error(), (200, -32003), "{sender} {method}");
        }
    }
    assert_eq!(bench.agent.seen("SendMessage").len(), 0);
}

#[tokio::test]
async fn notification_for_revoked_api_key_is_not_delivered() {
    let receiver = receiver().await;
    let push = Some(PushSettings { addresses: Addresses::Any, allow_http: true });
    let (a2a_url, authentication) = (Some(BASE.to_owned()), keys(&[("old", "a"), ("new", "a")]));
    let setup = Setup { authentication, a2a_url, push, ..Setup::default() };
    let bench = A2aBench::start_with(setup, []).await;
    let by = |key: &str, request| identified(&[(API_KEY, key)], request);
    let started = bench.got(by("old", ("SendMessage", message("go")))).await.result();
    let config = json!({ "taskId": started["task"]["id"], "url": receiver.url() });
    bench.got(by("old", (CREATE, config.clone()))).await.result();
    let endpoint = Endpoint::of(&bench.agent.seen(CREATE)[0].body["params"]);
    let accept = async |accepted: &[(&str, &str)]| {
        let authenticator = AuthenticatorConfig {
            identity: IdentityConfig::default(),
            authentication: keys(accepted),
            scheme: "http",
        };
        let settings = bench.bench.handle.current().settings().clone();
        bench.bench.handle.reconfigure(settings, authenticator).await.unwrap();
    };
    accept(&[("new", "a")]).await;
    assert_eq!(endpoint.notify(&bench, &completed()).await.status, 404);
    accept(&[("old", "a"), ("new", "a")]).await;
    assert_eq!(endpoint.notify(&bench, &completed()).await.status, 404, "it is removed");
    bench.got(by("new", (CREATE, config))).await.result();
    let endpoint = Endpoint::of(&bench.agent.seen(CREATE)[1].body["params"]);
    accept(&[("new", "a")]).await;
    assert_eq!(endpoint.notify(&bench, &completed()).await.status, 200);
    acceptable(|| receiver.all_seen().len() == 1).await;
}

#[tokio::test]
async fn old_version_gets_first_configuration_without_id() {
    let bench = bench(Addresses::Public).await;
    let id = bench.started_task().await["id"].clone();
    for config in ["first", "second"] {
        let url = format!("https://client.example/{config}");
        configured(&bench, json!({ "taskId": id, "id": config, "url": url })).await;
    }
    let get = ("tasks/pushNotificationConfig/get", json!({ "id": id }));
    let got = bench.got(rpc(Version::V03, "a", get)).await.result();
    let url = got["pushNotificationConfig"]["url"].clone();
    assert!(
        ["https://client.example/first", "https://client.example/second"]
            .map(Value::from)
            .contains(&url)
    );
    let got = bench.rpc("a", "GetTaskPushNotificationConfig", json!({ "taskId": id })).await;
    assert_eq!(got.error(), (200, -32602));
}

#[tokio::test]
async fn notification_is_governed_like_its_task() {
    let (bench, receiver) = (bench(Addresses::Any).await, receiver().await);
    let id = bench.started_task().await["id"].clone();
    let config = json!({ "taskId": id, "url": receiver.url() });
    let (_, endpoint) = configured(&bench, config).await;
    let rule = json!({ "authorization": { "cedar": "forbid (principal, action, resource);" } });
    let closed = crate::testing::policy("closed", rule);
    let entities = vec![pushing_helper(), caller(), closed];
    bench.bench.publish(2, entities);
    assert_eq!(endpoint.notify(&bench, &completed()).await.status, 403);
    assert_eq!(receiver.all_seen().len(), 0);
}

#[tokio::test]
async fn notification_needs_no_required_extension() {
    let (bench, receiver) = (bench(Addresses::Any).await, receiver().await);
    let id = bench.started_task().await["id"].clone();
    let (_, endpoint) = configured(&bench, json!({ "taskId": id, "url": receiver.url() })).await;
    let mut strict = pushing_helper();
    let declared = strict.document["capabilities"]["extensions"].as_array_mut().unwrap();
    declared.push(json!({ "uri": "urn:example:strict", "required": true }));
    bench.bench.publish(2, vec![strict, caller()]);
    assert_eq!(endpoint.notify(&bench, &completed()).await.status, 200);
    acceptable(|| receiver.all_seen().len() == 1).await;
}

#[tokio::test]
async fn operations_served_by_gateway_are_audited() {
    let bench = bench(Addresses::Public).await;
    let id = bench.started_task().await["id"].clone();
    let (log, _guard) = Log::start();
    for (method, params) in [
        ("ListTaskPushNotificationConfigs", json!({ "taskId": id })),
        ("GetTaskPushNotificationConfig", json!({ "taskId": id, "id": "unknown" })),
        ("DeleteTaskPushNotificationConfig", json!({ "taskId": id, "id": "unknown" })),
        ("GetExtendedAgentCard", json!({})),
        ("ListTasks", json!({})),
    ] {
        bench.rpc("a", method, params).await;
    }
    let names = log.events().into_iter().map(|event| {
        assert_eq!(event["agent"], "a", "{event}");
        event["event"].clone()
    });
    let expected = [
        "ListTaskPushNotificationConfigs",
        "GetTaskPushNotificationConfig",
        "DeleteTaskPushNotificationConfig",
        "GetExtendedAgentCard",
        "GetTask",
        "ListTasks",
    ];
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn card_shows_push_notifications_of_its_agent() {
    let bench = bench(Addresses::Public).await;
    for (path, expected) in [
        ("/a2a/office/helper/.well-known/agent-card.json", Some(true)),
        ("/.well-known/agent-card.json", None),
    ] {
        let got = bench.got(request(Version::V1, (Method::GET, path), ("a", &Value::Null))).await;
        let capability = &got.json()["capabilities"]["pushNotifications"];
        assert_eq!(capability.as_bool(), expected, "{path}");
    }
}
