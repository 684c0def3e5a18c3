//! Web pages as clients: the list of origins, and gRPC-web.

use acceptance::{Registry, access::Guarded};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::HeaderMap;
use prost::Message as _;
use registry_proto::v1;
use serde_json::json;

use super::{APPLY, Answer, INFO, LIST, VERIFY, call, post, schema};

const PAGE: &str = "https://app.example";
const EVIL: &str = "https://evil.example";
const ALLOW_ORIGIN: &str = "access-control-allow-origin";

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("", |value| value.to_str().expect("text"))
}

/// The documents that the registry serves next to the API.
const DOCUMENTS: [&str; 4] =
    ["openapi.json", "registry.json", "schemas/", "schemas/tool.schema.json"];

async fn preflight(registry: &Registry, path: &str, origin: &str) -> Answer {
    let method = if DOCUMENTS.contains(&path) { "GET" } else { "POST" };
    let request = reqwest::Client::new()
        .request(reqwest::Method::OPTIONS, format!("{}/{path}", registry.url()))
        .header("origin", origin)
        .header("access-control-request-method", method)
        .header(
            "access-control-request-headers",
            "authorization,connect-protocol-version,content-type",
        );
    Answer::of(request).await
}

#[tokio::test]
async fn listed_origins_may_call() {
    let other = "http://localhost:5173";
    let registry = Registry::start_fresh(&["--cors-origin", PAGE, "--cors-origin", other]);
    for path in [LIST, VERIFY, "registry.v1.SyncService/ListGateways"] {
        for origin in [PAGE, other] {
            let asked = preflight(&registry, path, origin).await;
            assert_eq!(asked.status, 200, "{path}: {asked:?}");
            assert_eq!(text(&asked.headers, ALLOW_ORIGIN), origin);
            assert!(text(&asked.headers, "access-control-allow-methods").contains("POST"));
            let headers = text(&asked.headers, "access-control-allow-headers");
            for header in
                ["authorization", "connect-protocol-version", "content-type", "x-grpc-web"]
            {
                assert!(headers.contains(header), "{headers}");
            }
            assert!(!asked.headers.contains_key("access-control-allow-credentials"));
        }
        assert_eq!(text(&preflight(&registry, path, EVIL).await.headers, ALLOW_ORIGIN), "");
    }
    let listed = Answer::of(post(&registry, LIST).header("origin", PAGE).body("{}")).await;
    assert_eq!((listed.status, text(&listed.headers, ALLOW_ORIGIN)), (200, PAGE));
    let exposed = text(&listed.headers, "access-control-expose-headers");
    assert!(exposed.contains("grpc-status-details-bin"), "{exposed}");
    let failed = Answer::of(post(&registry, LIST).header("origin", PAGE).body("[]")).await;
    assert_eq!(
        (failed.status, text(&failed.headers, ALLOW_ORIGIN)),
        (400, PAGE),
        "pages read errors"
    );
    let foreign = Answer::of(post(&registry, LIST).header("origin", EVIL).body("{}")).await;
    assert_eq!((foreign.code(), foreign.reason()), ((403, "permission_denied"), "ORIGIN_DENIED"));
    assert_eq!(text(&foreign.headers, ALLOW_ORIGIN), "");
}

#[tokio::test]
async fn listed_origins_may_read_documents() {
    let guarded = Guarded::start(&["--cors-origin", PAGE]);
    let read = async |path: &str, origin: &str, token: &str| {
        let request = reqwest::Client::new().get(format!("{}/{path}", guarded.registry.url()));
        Answer::of(request.header("origin", origin).bearer_auth(token)).await
    };
    for path in DOCUMENTS {
        for (origin, allowed) in [(PAGE, PAGE), (EVIL, "")] {
            let asked = preflight(&guarded.registry, path, origin).await;
            assert_eq!(text(&asked.headers, ALLOW_ORIGIN), allowed, "{path}: {asked:?}");
            let answer = read(path, origin, &guarded.admin).await;
            assert_eq!((answer.status, text(&answer.headers, ALLOW_ORIGIN)), (200, allowed));
        }
        let asked = preflight(&guarded.registry, path, PAGE).await;
        let headers = text(&asked.headers, "access-control-allow-headers");
        assert!(asked.status == 200 && headers.contains("authorization"), "{path}: {asked:?}");
    }
    let rejected = read("registry.json", PAGE, "wrong").await;
    assert_eq!(
        (rejected.status, text(&rejected.headers, ALLOW_ORIGIN)),
        (401, PAGE),
        "pages read errors"
    );
}

#[tokio::test]
async fn no_origin_is_allowed_by_default() {
    let registry = Registry::start();
    assert_eq!(call(&registry, LIST, &json!({})).await.status, 200, "other clients have no origin");
    for origin in [PAGE, "null", &registry.url()] {
        let asked = preflight(&registry, LIST, origin).await;
        assert!(!asked.headers.contains_key(ALLOW_ORIGIN), "{asked:?}");
        let called = Answer::of(post(&registry, LIST).header("origin", origin).body("{}")).await;
        assert_eq!(called.code(), (403, "permission_denied"));
        let read = reqwest::Client::new()
            .get(format!("{}/{LIST}?encoding=json&message=%7B%7D", registry.url()))
            .header("origin", origin);
        assert_eq!(Answer::of(read).await.status, 403);
    }
    for path in DOCUMENTS {
        let request = reqwest::Client::new().get(format!("{}/{path}", registry.url()));
        let document = Answer::of(request.header("origin", PAGE)).await;
        assert_eq!((document.status, text(&document.headers, ALLOW_ORIGIN)), (200, ""), "{path}");
    }
}

/// One message as a frame of gRPC.
fn frame(message: &impl prost::Message) -> Vec<u8> {
    let encoded = message.encode_to_vec();
    let length = u32::try_from(encoded.len()).expect("a short message");
    [&[0], &length.to_be_bytes()[..], &encoded].concat()
}

/// The frames of a body: flags and content.
fn frames(mut body: &[u8]) -> Vec<(u8, &[u8])> {
    let mut found = Vec::new();
    while let [flags, a, b, c, d, rest @ ..] = body {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let (content, rest) = rest.split_at(length);
        found.push((*flags, content));
        body = rest;
    }
    assert!(body.is_empty(), "{body:?}");
    found
}

async fn grpc_web(registry: &Registry, method: &str, kind: &str, body: Vec<u8>) -> Vec<u8> {
    let request = reqwest::Client::new()
        .post(format!("{}/{method}", registry.url()))
        .header("origin", PAGE)
        .header("content-type", kind)
        .header("accept", kind)
        .header("x-grpc-web", "1")
        .body(body);
    let response = request.send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    assert_eq!(text(response.headers(), "content-type"), kind);
    assert_eq!(text(response.headers(), ALLOW_ORIGIN), PAGE);
    response.bytes().await.expect("a body").to_vec()
}

/// The frame that ends a response of gRPC-web.
fn assert_ok((flags, trailers): (u8, &[u8])) {
    let trailers = String::from_utf8_lossy(trailers);
    assert_eq!(flags, 0x80, "{trailers}");
    assert!(trailers.lines().any(|line| line.replace(' ', "") == "grpc-status:0"), "{trailers}");
}

#[tokio::test]
async fn grpc_web_serves_calls_and_streams() {
    const BINARY: &str = "application/grpc-web+proto";
    const TEXT: &str = "application/grpc-web-text+proto";
    let registry = Registry::start_fresh(&["--cors-origin", PAGE]);
    call(&registry, APPLY, &json!({ "changes": [schema("A")] })).await;
    let request = frame(&v1::GetRegistryInfoRequest::default());
    let body = grpc_web(&registry, INFO, BINARY, request.clone()).await;
    let [(0, message), end] = frames(&body)[..] else { panic!("{body:?}") };
    let info = v1::GetRegistryInfoResponse::decode(message).expect("a message");
    assert_eq!(info.head.expect("a head").revision, 1);
    assert_ok(end);
    let encoded = STANDARD.encode(&request).into_bytes();
    let body = grpc_web(&registry, INFO, TEXT, encoded).await;
    // Each chunk of text is padded.
    let chunks = body.chunks(4).map(|chunk| STANDARD.decode(chunk).expect("base64"));
    let body = chunks.collect::<Vec<_>>().concat();
    assert_ok(*frames(&body).last().expect("an end"));

    let body = grpc_web(&registry, VERIFY, BINARY, frame(&v1::VerifyLogRequest {})).await;
    let [messages @ .., end] = &frames(&body)[..] else { panic!("{body:?}") };
    let last = messages.last().expect("a message").1;
    let last = v1::VerifyLogResponse::decode(last).expect("a message");
    assert!(last.done && last.revision == 1, "{last:?}");
    assert_ok(*end);
}

#[tokio::test]
async fn grpc_web_errors_have_details() {
    let registry = Registry::start_fresh(&["--cors-origin", PAGE]);
    let request = reqwest::Client::new()
        .post(format!("{}/registry.v1.RegistryService/GetEntity", registry.url()))
        .header("origin", PAGE)
        .header("content-type", "application/grpc-web+proto")
        .body(frame(&v1::GetEntityRequest::default()));
    let response = request.send().await.expect("an answer");
    assert_eq!(text(response.headers(), "grpc-status"), "3");
    assert!(response.headers().contains_key("grpc-status-details-bin"));
    let foreign = reqwest::Client::new()
        .post(format!("{}/{INFO}", registry.url()))
        .header("origin", EVIL)
        .header("content-type", "application/grpc-web+proto")
        .body(frame(&v1::GetRegistryInfoRequest::default()));
    assert_eq!(foreign.send().await.expect("an answer").status(), 403);
}
