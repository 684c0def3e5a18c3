//! Malformed requests of both bindings and versions, and variants of the version header: each has an
//! error in the form of its binding, and no agent receives it.

use gateway_testkit::Server;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{Agent, Caller, Scene, good_reply, skill};

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const VERSION_NOT_SUPPORTED: i64 = -32009;

struct Site {
    server: Server,
    scene: Scene,
    caller: Caller,
}

impl Site {
    async fn start(more: &str) -> Self {
        let server = Server::start(good_reply).await;
        let url = format!("http://{}/", server.address());
        let scene = Scene::start(&[Agent::new("strict", &url, vec![skill("work")])], more).await;
        let caller = scene.caller("caller", "strict");
        Self { server, scene, caller }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.caller.url);
        let request = self.caller.http.request(method, url);
        request.header("x-agent-name", self.caller.name).header("x-agent-version", "1.0.0")
    }

    /// The status and the body of a request with a body of JSON.
    async fn post(&self, path: &str, version: &str, body: impl Into<Vec<u8>>) -> (u16, Value) {
        let request = self.request(Method::POST, path).header("a2a-version", version);
        answer(request.header("content-type", "application/json").body(body.into())).await
    }

    /// Asserts that the agent received no message so far, and that it can be called.
    async fn assert_untouched(&self) {
        assert!(self.server.seen("SendMessage").is_empty());
        let answer = self.caller.send("work", "hello").await;
        assert_eq!(answer.result()["message"]["parts"][0]["text"], "good", "{answer:?}");
        assert!(!self.scene.gateway.process.stderr().contains("panicked"));
    }
}

async fn answer(request: RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.expect("the gateway answers");
    let status = answer.status().as_u16();
    let text = answer.text().await.expect("text");
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status}: {text}")))
}

/// A message of a version with changed members.
fn message(version: &str, changes: &Value) -> Value {
    let mut message = if version == "1.0" {
        json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hello" }] })
    } else {
        json!({ "kind": "message", "messageId": "m", "role": "user",
            "parts": [{ "kind": "text", "text": "hello" }] })
    };
    let members = message.as_object_mut().expect("an object");
    members.extend(changes.as_object().expect("an object").clone());
    // A changed member that is null is absent.
    members.retain(|_, value| !value.is_null());
    message
}

/// Changes of a message that make it invalid in each version.
fn invalid_messages() -> Vec<Value> {
    vec![
        json!({ "messageId": null }),
        json!({ "messageId": 7 }),
        json!({ "messageId": "" }),
        json!({ "role": "stranger" }),
        json!({ "role": null }),
        json!({ "parts": null }),
        json!({ "parts": {} }),
        json!({ "parts": [] }),
        json!({ "parts": ["text"] }),
        json!({ "parts": [{}] }),
        json!({ "parts": [{ "kind": "text", "text": 7 }] }),
        json!({ "taskId": 7 }),
        json!({ "contextId": [] }),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_json_rpc_is_rejected_with_its_code() {
    let site = Site::start("").await;
    for (version, method, other) in
        [("1.0", "SendMessage", "message/send"), ("0.3", "message/send", "SendMessage")]
    {
        let call = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let good = json!({ "message": message(version, &json!({})) });
        let mut cases: Vec<(Vec<u8>, &[i64])> = vec![
            (Vec::new(), &[PARSE_ERROR, INVALID_REQUEST]),
            (b"{".to_vec(), &[PARSE_ERROR]),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}".to_vec(),
                &[PARSE_ERROR, INVALID_REQUEST],
            ),
            (b"[]".to_vec(), &[PARSE_ERROR, INVALID_REQUEST]),
            (b"7".to_vec(), &[PARSE_ERROR, INVALID_REQUEST]),
            ("[".repeat(100_000).into_bytes(), &[PARSE_ERROR, INVALID_REQUEST]),
        ];
        let nested = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let nested =
            call(method, json!({ "message": "NESTED" })).to_string().replace("\"NESTED\"", &nested);
        cases.push((nested.into_bytes(), &[PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS]));
        let mut add = |body: Value, codes: &'static [i64]| {
            cases.push((body.to_string().into_bytes(), codes));
        };
        let mut changed = |member: &str, value: Value| {
            let mut call = call(method, good.clone());
            call[member] = value;
            add(call, &[INVALID_REQUEST, PARSE_ERROR]);
        };
        changed("jsonrpc", json!("1.0"));
        changed("id", json!({}));
        changed("method", json!(7));
        let notification = json!({ "jsonrpc": "2.0", "method": method, "params": good });
        add(notification, &[INVALID_REQUEST]);
        add(call("unknown", json!({})), &[METHOD_NOT_FOUND]);
        add(call(other, good.clone()), &[METHOD_NOT_FOUND]);
        for params in
            [json!([]), json!({}), json!({ "message": [] }), json!({ "message": "hello" })]
        {
            add(call(method, params), &[INVALID_PARAMS]);
        }
        for changes in invalid_messages() {
            add(call(method, json!({ "message": message(version, &changes) })), &[INVALID_PARAMS]);
        }
        for (body, codes) in cases {
            let shown = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
            let (status, answer) = site.post("", version, body).await;
            let code = answer["error"]["code"].as_i64().unwrap_or_default();
            assert!(codes.contains(&code), "{version} {shown}: {status} {answer}");
            assert_eq!(answer["jsonrpc"], "2.0", "{version} {shown}: {answer}");
        }
    }
    site.assert_untouched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_http_json_is_rejected_as_bad_request() {
    let site = Site::start("").await;
    for (version, prefix) in [("1.0", ""), ("0.3", "/v1")] {
        let send = format!("{prefix}/message:send");
        let mut bodies =
            vec![b"{".to_vec(), b"[]".to_vec(), b"7".to_vec(), b"\xff".to_vec(), Vec::new()];
        bodies.push("[".repeat(100_000).into_bytes());
        bodies.push(b"{\"message\":7}".to_vec());
        bodies.push(br#"{"message":{"messageId":"m","role":"ROLE_USER"}}"#.to_vec());
        for body in bodies {
            let shown = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
            let (status, answer) = site.post(&send, version, body).await;
            assert_eq!(status, 400, "{version} {shown}: {answer}");
        }
        for (method, path) in [
            (Method::GET, "/message:send"),
            (Method::PUT, "/message:send"),
            (Method::POST, "/message:unknown"),
            (Method::POST, "/tasks"),
            (Method::DELETE, "/tasks/a"),
            (Method::GET, "/tasks/%ff"),
            (Method::GET, "/tasks/a/b/c/d/e/f/g"),
            (Method::GET, "/tasks?pageSize=x"),
            (Method::GET, "/tasks?pageSize=0"),
            (Method::GET, "/tasks?pageSize=1&pageSize=2"),
            (Method::GET, "/tasks?pageToken=unknown"),
        ] {
            let request = site.request(method.clone(), &format!("{prefix}{path}"));
            let (status, answer) = answer(request.header("a2a-version", version)).await;
            assert!((400..500).contains(&status), "{version} {method} {path}: {status} {answer}");
        }
        let request = site.request(Method::POST, &send).header("a2a-version", version);
        let (status, answer) =
            answer(request.header("content-type", "text/plain").body("{}")).await;
        assert_eq!(status, 400, "{version}: {answer}");
    }
    site.assert_untouched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn absent_extended_card_has_error_of_version() {
    let site = Site::start("").await;
    let old = ("agent/getAuthenticatedExtendedCard", "/v1/card");
    for (version, (method, path), code, reason) in [
        ("1.0", ("GetExtendedAgentCard", "/extendedAgentCard"), -32004, "UNSUPPORTED_OPERATION"),
        ("0.3", old, -32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
    ] {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method });
        let (_, rejected) = site.post("", version, call.to_string()).await;
        assert_eq!(rejected["error"]["code"], code, "{version}: {rejected}");
        assert_eq!(rejected["error"]["data"][0]["reason"], reason, "{version}: {rejected}");
        let request = site.request(Method::GET, path).header("a2a-version", version);
        let (status, rejected) = answer(request).await;
        assert_eq!(status, 400, "{version}: {rejected}");
        assert!(rejected.to_string().contains(reason), "{version}: {rejected}");
    }
    site.assert_untouched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_request_is_rejected() {
    let site = Site::start("limits: { requestBytes: 20000 }\n").await;
    let text = "x".repeat(30_000);
    let long = json!({ "message": message("1.0", &json!({ "parts": [{ "text": text }] })) });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": long });
    for (path, body) in [("", call), ("/message:send", long)] {
        let (status, answer) = site.post(path, "1.0", body.to_string()).await;
        assert_eq!(status, 413, "{path}: {answer}");
    }
    site.assert_untouched().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn version_is_that_of_header_or_query() {
    let site = Site::start("").await;
    // The method of one version is unknown in the other one.
    let get = |method: &str| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "id": "unknown" } });
    let code_of = async |headers: &[&[u8]], query: &str, method: &str| {
        let mut request = site.request(Method::POST, query);
        for value in headers {
            request = request.header("A2A-Version", *value);
        }
        let body = get(method).to_string();
        let (_, answer) =
            answer(request.header("content-type", "application/json").body(body)).await;
        answer["error"]["code"].as_i64().unwrap_or_default()
    };
    let task_not_found = -32001;
    let new: [(&[&[u8]], &str); 5] = [
        (&[b"1.0"], ""),
        (&[b"1.0.7"], ""),
        (&[b" 1.0 "], ""),
        (&[], "?A2A-Version=1.0"),
        (&[b"1.0"], "?a2a-version=0.3"),
    ];
    let old: [(&[&[u8]], &str); 5] =
        [(&[], ""), (&[b""], ""), (&[b"0.3"], ""), (&[b"0.3.0"], ""), (&[], "?A2A-Version=")];
    for (cases, own, other) in [(new, "GetTask", "tasks/get"), (old, "tasks/get", "GetTask")] {
        for (headers, query) in cases {
            assert_eq!(code_of(headers, query, own).await, task_not_found, "{headers:?} {query}");
            assert_eq!(
                code_of(headers, query, other).await,
                METHOD_NOT_FOUND,
                "{headers:?} {query}"
            );
        }
    }
    let unsupported: [&[u8]; 9] =
        [b"2.0", b"1", b"1.1", b"0.2", b"v1.0", b"1.0-rc", b"1.0.x", b"1.0, 0.3", b"\xff"];
    for header in unsupported {
        let code = code_of(&[header], "", "GetTask").await;
        assert_eq!(code, VERSION_NOT_SUPPORTED, "{}", String::from_utf8_lossy(header));
    }
    site.assert_untouched().await;
}
