//! The API as JSON over HTTP, as `curl` and scripts use it.

mod clients;
mod limits;
mod openapi;
mod web_pages;

use std::process::Command;

use acceptance::{Registry, access::Guarded, root};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::HeaderMap;
use prost::Message as _;
use registry_proto::v1;
use serde_json::{Value, json};

use crate::conformance::run;

const GET_ENTITY: &str = "registry.v1.RegistryService/GetEntity";
const APPLY: &str = "registry.v1.RegistryService/ApplyChanges";
const LIST: &str = "registry.v1.RegistryService/ListEntities";
const INFO: &str = "registry.v1.RegistryService/GetRegistryInfo";
const VERIFY: &str = "registry.v1.AuditService/VerifyLog";

/// A response with its body as JSON; `null` if it is none.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

impl Answer {
    async fn of(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.expect("an answer");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.bytes().await.expect("a body");
        Self { status, headers, body: serde_json::from_slice(&body).unwrap_or_default() }
    }

    /// The HTTP status and the code of an error.
    fn code(&self) -> (u16, &str) {
        assert_eq!(self.headers["content-type"], "application/json", "{self:?}");
        (self.status, self.body["code"].as_str().unwrap_or_default())
    }

    /// The detail of this type, decoded by the server.
    fn detail(&self, name: &str) -> &Value {
        let details = self.body["details"].as_array().map(Vec::as_slice).unwrap_or_default();
        let detail = details.iter().find(|detail| detail["type"] == name);
        &detail.unwrap_or_else(|| panic!("no {name}: {self:?}"))["debug"]
    }

    fn reason(&self) -> &str {
        self.detail("google.rpc.ErrorInfo")["reason"].as_str().expect("a reason")
    }

    /// The invalid fields of a request.
    fn fields(&self) -> Vec<&str> {
        let violations = self.detail("google.rpc.BadRequest")["fieldViolations"].as_array();
        violations.expect("fields").iter().filter_map(|field| field["field"].as_str()).collect()
    }
}

fn post(registry: &Registry, method: &str) -> reqwest::RequestBuilder {
    let request = reqwest::Client::new().post(format!("{}/{method}", registry.url()));
    request.header("content-type", "application/json")
}

async fn call(registry: &Registry, method: &str, message: &Value) -> Answer {
    Answer::of(post(registry, method).body(message.to_string())).await
}

fn schema(name: &str) -> Value {
    json!({ "registerEntity": { "schema": {
        "name": name, "version": "1.0.0", "schema": "{\"type\":\"string\"}",
    } } })
}

/// The shell blocks in `docs/http-api.md`.
fn documented_scripts() -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/http-api.md")).expect("the page");
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(str::to_owned).collect()
}

#[test]
fn documented_curl_commands_work() {
    let registry = Registry::start();
    registry.apply_example();
    let scripts = documented_scripts();
    assert_eq!(scripts.len(), 3, "a search, a write, a read with GET");
    for (script, expected) in scripts.iter().zip(["totalCount", "committed", "records"]) {
        let script = script.replace("127.0.0.1:7070", &registry.address);
        let mut shell = Command::new("sh");
        shell.args(["-euc", &script]).env("NO_PROXY", "127.0.0.1");
        let answer: Value = serde_json::from_str(&run(shell)).expect("JSON");
        assert!(
            answer[expected].is_string() || answer[expected].is_array() || answer[expected] == true,
            "{script}\n{answer}"
        );
    }
}

#[tokio::test]
async fn json_reads_and_writes() {
    let registry = Registry::start();
    let document = json!({ "name": "B", "version": "1.0.0", "schema": true }).to_string();
    let document = json!({ "registerDocument": {
        "kind": "ENTITY_KIND_SCHEMA", "json": STANDARD.encode(document),
    } });
    let batch = json!({ "changes": [schema("A"), document], "message": "two schemas" });
    let applied = call(&registry, APPLY, &batch).await;
    assert_eq!((applied.status, &applied.body["revision"]), (200, &json!("1")), "{applied:?}");
    assert_eq!(applied.headers["content-type"], "application/json");
    let key = json!({ "kind": "ENTITY_KIND_SCHEMA", "name": "A", "version": "1.0.0" });
    let got = call(&registry, GET_ENTITY, &json!({ "key": key, "minRevision": 1 })).await;
    assert_eq!((got.status, &got.body["record"]["key"]), (200, &key), "{got:?}");
    assert_eq!(got.body["record"]["entity"]["schema"]["schema"], r#"{"type":"string"}"#);
    let time = got.body["record"]["registration"]["time"].as_str();
    assert!(time.is_none_or(|time| time.ends_with('Z')), "{got:?}");
    let listed = call(&registry, LIST, &json!({})).await;
    assert_eq!(listed.body["records"].as_array().map(Vec::len), Some(2), "{listed:?}");
}

#[tokio::test]
async fn binary_messages_and_http_2_work() {
    let registry = Registry::start();
    let client = reqwest::Client::builder().http2_prior_knowledge().build().expect("a client");
    let request = client
        .post(format!("{}/{INFO}", registry.url()))
        .header("content-type", "application/proto")
        .header("connect-protocol-version", "1")
        .body(v1::GetRegistryInfoRequest::default().encode_to_vec());
    let response = request.send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    assert_eq!(response.version(), http::Version::HTTP_2);
    assert_eq!(response.headers()["content-type"], "application/proto");
    let body = response.bytes().await.expect("a body");
    let info = v1::GetRegistryInfoResponse::decode(body).expect("a message");
    let json = call(&registry, INFO, &json!({})).await;
    assert_eq!(json.body["head"]["registryId"], info.head.expect("a head").registry_id);
}

#[tokio::test]
async fn reads_work_with_get() {
    let registry = Registry::start();
    call(&registry, APPLY, &json!({ "changes": [schema("A")] })).await;
    let get = async |method: &str, query: &[(&str, &str)]| {
        let query: Vec<_> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let url = format!("{}/{method}?{}", registry.url(), query.join("&"));
        Answer::of(reqwest::Client::new().get(url)).await
    };
    let json = ("encoding", "json");
    for message in [("message", "{}"), ("message", "%7B%22pageSize%22%3A5%7D")] {
        let listed = get(LIST, &[("connect", "v1"), json, message]).await;
        assert_eq!(listed.body["records"].as_array().map(Vec::len), Some(1), "{listed:?}");
        assert_eq!(listed.headers["cache-control"], "no-store");
    }
    let base64 = get(LIST, &[json, ("base64", "1"), ("message", "e30")]).await;
    assert_eq!(base64.status, 200, "{base64:?}");
    let write = get(APPLY, &[json, ("message", "{}")]).await;
    assert_eq!(write.code(), (501, "unimplemented"));
    for query in [
        &[("message", "{}")][..],
        &[json, ("connect", "v2")],
        &[("encoding", "xml")],
        &[("encoding", "proto"), ("message", "%FF")],
        // A field without its value.
        &[("encoding", "proto"), ("base64", "1"), ("message", "_w")],
    ] {
        assert_eq!(get(LIST, query).await.code(), (400, "invalid_argument"), "{query:?}");
    }
    let rebound = reqwest::Client::new()
        .get(format!("{}/{LIST}?encoding=json&message=%7B%7D", registry.url()))
        .header("host", "evil.example");
    assert_eq!(Answer::of(rebound).await.code(), (403, "permission_denied"));
}

#[tokio::test]
async fn credentials_and_roles_are_those_of_grpc() {
    let guarded = Guarded::start(&[]);
    let reader = guarded.token("ann", "search", "reader");
    let call = async |method: &str, token: Option<&str>, message: Value| {
        let request = post(&guarded.registry, method).body(message.to_string());
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        Answer::of(request).await
    };
    let missing = call(LIST, None, json!({})).await;
    assert_eq!(missing.code(), (401, "unauthenticated"));
    assert_eq!(missing.headers["www-authenticate"], "Bearer");
    assert_eq!(missing.reason(), "CREDENTIALS_MISSING");
    let wrong = call(LIST, Some("rgy_wrong"), json!({})).await;
    assert_eq!((wrong.code(), wrong.reason()), ((401, "unauthenticated"), "CREDENTIALS_INVALID"));
    let batch = json!({ "changes": [schema("A")] });
    let denied = call(APPLY, Some(&reader), batch.clone()).await;
    assert_eq!((denied.code(), denied.reason()), ((403, "permission_denied"), "PERMISSION_DENIED"));
    // An invalid message of an unauthenticated caller does not show the fields of the method.
    let unknown = call(LIST, None, json!({ "unknown": 1 })).await;
    assert_eq!(unknown.code(), (401, "unauthenticated"));
    assert_eq!(call(APPLY, Some(&guarded.admin), batch).await.status, 200);
    assert_eq!(call(LIST, Some(&reader), json!({})).await.status, 200);
    let who = call("registry.v1.AccessService/WhoAmI", Some(&reader), json!({})).await;
    assert_eq!(who.body["name"], "ann", "{who:?}");
    let health = call("grpc.health.v1.Health/Check", None, json!({})).await;
    assert_eq!(health.body, json!({ "status": "SERVING" }));
}

#[tokio::test]
async fn invalid_messages_name_their_fields() {
    let registry = Registry::start();
    for (method, message, fields) in [
        (LIST, json!({ "pageSise": 1 }), ["pageSise"]),
        (GET_ENTITY, json!({ "key": { "kind": "TOOL" } }), ["key.kind"]),
        (GET_ENTITY, json!({ "key": { "nam": "a" } }), ["key.nam"]),
        (LIST, json!({ "pageSize": "many" }), ["pageSize"]),
        // This one is rejected by the method.
        (LIST, json!({ "pageSize": -1 }), ["page_size"]),
        (GET_ENTITY, json!({}), ["key"]),
    ] {
        let answer = call(&registry, method, &message).await;
        assert_eq!(answer.code(), (400, "invalid_argument"), "{message}");
        assert_eq!(answer.reason(), "INVALID_REQUEST", "{message}");
        assert_eq!(answer.fields(), fields, "{message}");
    }
    let twice = r#"{ "pageSize": 1, "page_size": 2 }"#;
    let answer = Answer::of(post(&registry, LIST).body(twice)).await;
    assert_eq!((answer.code(), answer.fields()), ((400, "invalid_argument"), vec!["page_size"]));
    for body in ["", "{", "[]", "\"a\"", r#"{ "pageSize": 1, "pageSize": 2 }"#] {
        let answer = Answer::of(post(&registry, LIST).body(body)).await;
        assert_eq!(
            (answer.code(), answer.reason()),
            ((400, "invalid_argument"), "INVALID_REQUEST")
        );
    }
    let bad = json!({ "changes": [{ "registerEntity": { "schema": {
        "name": "a b", "version": "1.0.0", "schema": "true",
    } } }] });
    let rejected = call(&registry, APPLY, &bad).await;
    assert_eq!((rejected.status, rejected.reason()), (400, "VALIDATION_FAILED"));
    let failure = rejected.detail("registry.v1.ValidationFailure");
    assert_eq!(failure["diagnostics"][0]["code"], "name-invalid", "{failure}");
    let details = rejected.body["details"].as_array().expect("details");
    let encoded = details.iter().find(|d| d["type"] == "registry.v1.ValidationFailure");
    let encoded = encoded.and_then(|detail| detail["value"].as_str()).expect("base64");
    let unpadded =
        base64::engine::general_purpose::STANDARD_NO_PAD.decode(encoded).expect("base64");
    let decoded = v1::ValidationFailure::decode(&*unpadded).expect("a message");
    assert_eq!(decoded.diagnostics[0].code, "name-invalid");
}

#[tokio::test]
async fn unknown_methods_and_streams_are_errors() {
    let registry = Registry::start();
    let unknown = call(&registry, "registry.v1.RegistryService/Drop", &json!({})).await;
    assert_eq!((unknown.code(), unknown.reason()), ((404, "unimplemented"), "UNIMPLEMENTED"));
    let other = call(&registry, "registry.v9.Nothing/At", &json!({})).await;
    assert_eq!(other.status, 404);
    for method in [VERIFY, "registry.v1.SyncService/Sync"] {
        let stream = call(&registry, method, &json!({})).await;
        assert_eq!((stream.code(), stream.reason()), ((501, "unimplemented"), "UNIMPLEMENTED"));
    }
    let streaming = reqwest::Client::new()
        .post(format!("{}/{VERIFY}", registry.url()))
        .header("content-type", "application/connect+json")
        .body(b"\0\0\0\0\x02{}".to_vec());
    let response = streaming.send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/connect+json");
    let frame = response.bytes().await.expect("a body");
    assert_eq!(frame[0], 2, "the end of the stream");
    let end: Value = serde_json::from_slice(&frame[5..]).expect("JSON");
    assert_eq!(end["error"]["code"], "unimplemented");
    let other = post(&registry, LIST).header("connect-protocol-version", "2").body("{}");
    assert_eq!(Answer::of(other).await.code(), (400, "invalid_argument"));
    let plain = reqwest::Client::new().post(format!("{}/{LIST}", registry.url())).body("{}");
    assert_eq!(Answer::of(plain).await.status, 415);
    let put = reqwest::Client::new().put(format!("{}/{LIST}", registry.url()));
    assert_eq!(Answer::of(put.header("content-type", "application/json")).await.status, 405);
}
