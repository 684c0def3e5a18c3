//! HTTP, health checks, reflection, deadlines and drain.

use std::time::{Duration, Instant};

use prost::Message as _;
use registry_core::{PublishedSchema, registry_file};
use registry_proto::v1;
use serde_json::json;
use tonic::{Code, Request, Status};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_reflection::pb::{v1 as reflection, v1alpha as reflection_alpha};

use crate::{
    follower::{Follower, digest, hello},
    harness::{TestServer, eventually, get, get_admin, lock, new_schema, reason, started},
};

#[tokio::test(flavor = "multi_thread")]
async fn health_endpoints_report_state() {
    let registry = TestServer::start().await;
    registry.registry().await.apply_changes(new_schema("A")).await.unwrap();
    assert_eq!(get(&registry, "/livez", "").await.0, 200);
    let (code, _, body) = get(&registry, "/readyz", "").await;
    let ready: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, &ready["status"], &ready["revision"]), (200, &"ready".into(), &1.into()));
    assert_eq!(get(&registry, "/metrics", "").await.0, 404, "only on the admin address");
    assert_eq!(get_admin(&registry, "/livez").await.0, 200);
    assert!(get_admin(&registry, "/readyz").await.2.contains(r#""searchRevision":"#));
    let (code, head, body) = get_admin(&registry, "/metrics").await;
    assert_eq!(code, 200);
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    for name in [
        "# HELP registry_apply_requests_total",
        "registry_revision",
        "registry_entities{kind=\"schema\"}",
    ] {
        assert!(body.contains(name), "no {name} in {body}");
    }
    assert_eq!(get(&registry, "/nothing", "").await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn export_is_cached_by_revision() {
    let registry = TestServer::start().await;
    registry.registry().await.apply_changes(new_schema("A")).await.unwrap();
    let (code, head, body) = get(&registry, "/registry.json", "").await;
    assert_eq!(code, 200);
    assert!(head.contains("etag: \"1-") && head.contains("application/json"), "{head}");
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned();
    let known = format!("if-none-match: {tag}");
    let catalog = registry_file::read_export(body.as_bytes()).unwrap();
    assert_eq!(catalog.digest(), digest(&registry).await);

    let (code, head, body) = get(&registry, "/registry.json", &known).await;
    assert_eq!((code, &*body), (304, ""));
    assert!(head.contains(&format!("etag: {tag}")), "{head}");
    registry.registry().await.apply_changes(new_schema("B")).await.unwrap();
    let (code, head, _) = get(&registry, "/registry.json", &known).await;
    assert!(code == 200 && head.contains("etag: \"2-"), "{head}");
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_are_listed_and_served() {
    let registry = TestServer::start().await;
    let (code, _, body) = get(&registry, "/schemas/", "").await;
    let listed: serde_json::Value = serde_json::from_str(&body).unwrap();
    let files = PublishedSchema::ALL.map(PublishedSchema::file_name);
    assert_eq!((code, listed), (200, json!({ "schemas": files })));
    for schema in PublishedSchema::ALL {
        let path = format!("/schemas/{}", schema.file_name());
        let (code, head, body) = get(&registry, &path, "").await;
        assert_eq!((code, &*body), (200, &*schema.text()), "{path}");
        assert!(head.contains("content-type: application/schema+json"), "{head}");
        let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
        let (code, _, body) = get(&registry, &path, &format!("if-none-match: {tag}")).await;
        assert_eq!((code, &*body), (304, ""), "{path}");
    }
    for unknown in ["/schemas", "/schemas/tool", "/schemas/tools.schema.json"] {
        assert_eq!(get(&registry, unknown, "").await.0, 404, "{unknown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection_supports_v1_and_v1alpha() {
    let registry = TestServer::start().await;
    let mut client =
        reflection::server_reflection_client::ServerReflectionClient::new(registry.channel().await);
    let request = reflection::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(reflection::server_reflection_request::MessageRequest::ListServices(
            String::new(),
        )),
    };
    let mut answers =
        client.server_reflection_info(tokio_stream::iter([request])).await.unwrap().into_inner();
    let answer = format!("{:?}", answers.message().await.unwrap().unwrap());
    for service in [
        "RegistryService",
        "HistoryService",
        "DiscoveryService",
        "SyncService",
        "grpc.health.v1.Health",
    ] {
        assert!(answer.contains(service), "{answer}");
    }
    let mut client = reflection_alpha::server_reflection_client::ServerReflectionClient::new(
        registry.channel().await,
    );
    let request = reflection_alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(
            reflection_alpha::server_reflection_request::MessageRequest::FileContainingSymbol(
                "registry.v1.RegistryService".to_owned(),
            ),
        ),
    };
    let mut answers =
        client.server_reflection_info(tokio_stream::iter([request])).await.unwrap().into_inner();
    let answer = format!("{:?}", answers.message().await.unwrap().unwrap());
    assert!(answer.contains("FileDescriptorResponse"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_method_is_unimplemented() {
    let registry = TestServer::start().await;
    let mut client = tonic::client::Grpc::new(registry.channel().await);
    client.ready().await.unwrap();
    let path = http::uri::PathAndQuery::from_static("/registry.v9.Nothing/At");
    let codec = tonic_prost::ProstCodec::<v1::GetEntityRequest, v1::GetEntityResponse>::default();
    let status =
        client.unary(Request::new(v1::GetEntityRequest::default()), path, codec).await.unwrap_err();
    assert_eq!((status.code(), &*reason(&status)), (Code::Unimplemented, "UNIMPLEMENTED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn gzip_requests_and_responses_work() {
    let registry = TestServer::start().await;
    let gzip = tonic::codec::CompressionEncoding::Gzip;
    let mut client = registry.registry().await.send_compressed(gzip).accept_compressed(gzip);
    assert!(client.apply_changes(new_schema("A")).await.unwrap().into_inner().committed);
    let mut client = registry.sync().await.send_compressed(gzip).accept_compressed(gzip);
    let answer = client.sync(tokio_stream::iter([hello(None)])).await.unwrap();
    assert!(answer.into_inner().message().await.unwrap().is_some(), "a snapshot begins");
}

/// Calls Apply without a gRPC library, which would enforce the deadline on the client.
async fn call_apply(
    registry: &TestServer,
    request: &v1::ApplyChangesRequest,
) -> http::Response<()> {
    let socket = tokio::net::TcpStream::connect(registry.address).await.unwrap();
    let (client, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(async move { connection.await.unwrap() });
    let head = http::Request::post("http://x/registry.v1.RegistryService/ApplyChanges")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-timeout", "300m")
        .body(())
        .unwrap();
    let mut client = client.ready().await.unwrap();
    let (answer, mut body) = client.send_request(head, false).unwrap();
    let message = request.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let frame = [&[0], &length[..], &message].concat();
    body.send_data(frame.into(), true).unwrap();
    answer.await.unwrap().map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_request_over_http2_may_send_body() {
    let registry = TestServer::start().await;
    let socket = tokio::net::TcpStream::connect(registry.address).await.unwrap();
    let (client, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(async move { connection.await.unwrap() });
    let head = http::Request::post("http://localhost/nothing").body(()).unwrap();
    let mut client = client.ready().await.unwrap();
    let (answer, mut body) = client.send_request(head, false).unwrap();
    // The server has read the head when it answers another request.
    assert_eq!(get(&registry, "/livez", "").await.0, 200);
    for is_last in [false, true] {
        body.send_data(vec![b' '; 16_000].into(), is_last).expect("the stream is open");
    }
    let answer = answer.await.expect("an answer");
    assert_eq!(answer.status(), 404);
    let mut content = answer.into_body();
    while let Some(data) = content.data().await {
        data.expect("the stream is not reset");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deadline_is_enforced_and_write_is_retryable() {
    let registry = TestServer::start().await;
    let lock = lock(&registry).await;
    let wanted = v1::ApplyChangesRequest { request_id: "r1".to_owned(), ..new_schema("A") };
    let began = Instant::now();
    let answer = call_apply(&registry, &wanted).await;
    assert!(began.elapsed() < Duration::from_secs(3));
    let status = Status::from_header_map(answer.headers()).unwrap();
    assert_eq!((status.code(), &*reason(&status)), (Code::DeadlineExceeded, "DEADLINE_EXCEEDED"));
    drop(lock);
    let answer = registry.registry().await.apply_changes(wanted).await.unwrap().into_inner();
    assert_eq!((answer.revision, answer.committed), (1, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_finishes_requests_and_ends_streams() {
    let registry = TestServer::with(&["--drain-notice", "500ms"]).await;
    let mut health = HealthClient::new(registry.channel().await);
    let check = || HealthCheckRequest { service: "registry.v1.RegistryService".to_owned() };
    assert_eq!(health.check(check()).await.unwrap().into_inner().status, 1);
    let mut watching = health.watch(check()).await.unwrap().into_inner();
    assert_eq!(watching.message().await.unwrap().unwrap().status, 1);
    let mut follower = Follower::new(&registry).await;
    follower.hear().await.unwrap();

    let lock = lock(&registry).await;
    let client = registry.registry().await;
    let mut writer = client.clone();
    let write = async move { writer.apply_changes(new_schema("A")).await };
    let writing = started(&client, [write]).await.remove(0);
    registry.begin_stop();

    let end = loop {
        if let Err(status) = follower.hear().await {
            break status;
        }
    };
    assert_eq!((end.code(), &*reason(&end)), (Code::Unavailable, "DRAINING"));
    assert_eq!(watching.message().await.unwrap().unwrap().status, 2, "not serving");
    let (code, _, body) = get(&registry, "/readyz", "").await;
    assert!(code == 503 && body.contains("draining"), "{code} {body}");
    drop(lock);
    assert!(writing.await.unwrap().unwrap().into_inner().committed);

    let registry = TestServer::on(registry.stop().await, &[]).await;
    eventually("it serves again", || async {
        get(&registry, "/readyz", "").await.2.contains(r#""revision":1"#)
    })
    .await;
}
