//! Limits that keep one client from using up shared capacity: connections per address, and work for
//! canceled scopes. Probes stay available.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use acceptance::{Gateway, GatewayOptions, Process, Registry, eventually};
use registry_proto::v1::{
    self, follow_scope, sync_request, sync_response::Message,
    sync_service_client::SyncServiceClient,
};
use serde_json::json;
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use tonic_types::StatusExt as _;

/// The address of the attacker; all other clients use 127.0.0.1.
const ATTACKER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// Longer than any response here takes, and shorter than the timeout of silent connections.
const PROMPT: Duration = Duration::from_secs(5);

/// Opens a connection of the attacker that sends nothing.
async fn half_open(address: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::new(ATTACKER, 0)).expect("an address of loopback");
    socket.connect(address.parse().expect("an address")).await.expect("a connection")
}

/// Whether the server closes this connection at once.
async fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(timeout(PROMPT, stream.read(&mut [0])).await, Ok(Ok(0) | Err(_)))
}

fn gateway(more: &str) -> Gateway {
    let example = acceptance::root().join("examples/registry-v2.json");
    Gateway::start(&GatewayOptions {
        source: format!("file://{}", example.display()),
        targets: String::new(),
        runtime: None,
        more: more.to_owned(),
    })
}

/// Whether clients of other addresses are served promptly.
async fn answers(url: &str) -> bool {
    let answer = timeout(PROMPT, reqwest::get(format!("{url}/livez"))).await;
    answer.is_ok_and(|answer| answer.is_ok_and(|answer| answer.status().is_success()))
}

#[tokio::test]
async fn registry_serves_others_despite_half_open_connections() {
    let registry = Registry::start_fresh(&["--max-connections", "40"]);
    let mut attack = Vec::new();
    for _ in 0..60 {
        attack.push(half_open(&registry.address).await);
    }
    assert!(answers(&registry.url()).await);
    let mut last = attack.pop().expect("a connection");
    assert!(is_closed(&mut last).await, "a quarter is the limit of one address");
    let metrics = registry.metrics().await;
    assert!(metrics.contains("registry_connections_rejected_total 50"), "{metrics}");
    drop(attack);
    eventually("closed connections make room", || async {
        !is_closed_soon(&registry.address).await
    })
    .await;
}

/// Whether a new connection of the attacker is closed before its first byte.
async fn is_closed_soon(address: &str) -> bool {
    let mut stream = half_open(address).await;
    timeout(Duration::from_millis(500), stream.read(&mut [0])).await.is_ok()
}

#[tokio::test]
async fn gateway_closes_connections_beyond_the_address_limit() {
    let gateway = gateway("limits: { addressConnections: 10 }\n");
    let mut attack = Vec::new();
    for _ in 0..11 {
        attack.push(half_open(&gateway.address).await);
    }
    let mut last = attack.pop().expect("a connection");
    assert!(is_closed(&mut last).await);
    assert!(answers(&gateway.url()).await, "other addresses have room");
    let metrics = reqwest::get(format!("{}/metrics", gateway.url())).await.expect("an answer");
    let metrics = metrics.text().await.expect("text");
    assert!(metrics.contains("gateway_connections_rejected_total 1"), "{metrics}");
    drop(attack);
    eventually("closed connections make room", || async {
        !is_closed_soon(&gateway.address).await
    })
    .await;
}

#[tokio::test]
async fn registry_probes_answer_while_port_is_full() {
    let flags = ["--max-connections", "4", "--max-connections-per-address", "4"];
    let registry = Registry::start_fresh(&flags);
    let admin = registry.admin_address();
    let mut attack = Vec::new();
    for _ in 0..8 {
        attack.push(half_open(&registry.address).await);
    }
    for (path, status) in
        [("/livez", 200), ("/readyz", 200), ("/metrics", 200), ("/registry.json", 404)]
    {
        let url = format!("http://{admin}{path}");
        let answer = timeout(PROMPT, reqwest::get(url)).await.expect("in time");
        assert_eq!(answer.expect("an answer").status(), status, "{path}");
    }
}

#[test]
fn taken_admin_address_is_fatal_unless_it_is_the_default() {
    let registry = Registry::start();
    let dir = tempfile::tempdir().expect("a directory");
    let start = |flags: &[&str]| {
        Process::try_start("registry-server", dir.path(), |command| {
            command.args(["--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.path()).args(flags);
        })
    };
    let taken = ["--admin-listen", &registry.admin_address()];
    let error = start(&taken).expect_err("the address is taken");
    assert!(error.log.contains(&registry.admin_address()), "{error}");
    // The default address may be in use on this machine.
    drop(start(&[]).expect("it serves"));
    let none = start(&["--admin-listen", "none"]).expect("it serves");
    let log = none.stderr();
    let tried = log.lines().filter(|line| line.contains("address=127.0.0.1:7071")).count();
    assert_eq!(tried, 1, "the start before tried the default address: {log}");
}

/// The largest batch is 48 MiB, so a request of more than 16 MiB is valid.
#[tokio::test]
async fn twenty_mebibyte_batch_is_accepted() {
    let registry = Registry::start();
    let text = "x".repeat(200 << 10);
    let change = |number: usize| {
        let schema = v1::Schema {
            name: format!("Large{number}"),
            version: "1.0.0".to_owned(),
            schema: json!({ "const": text }).to_string(),
            ..Default::default()
        };
        let entity = v1::Entity { kind: Some(v1::entity::Kind::Schema(schema)) };
        v1::EntityChange {
            change: Some(v1::entity_change::Change::RegisterEntity(entity)),
            if_digest: None,
        }
    };
    let changes = (0..110).map(change).collect();
    let request = v1::ApplyChangesRequest { changes, ..Default::default() };
    let applied = registry.client().await.apply_changes(request).await.expect("accepted");
    assert!(applied.into_inner().committed);
}

#[tokio::test]
async fn message_beyond_the_limit_has_a_reason() {
    let registry = Registry::start_fresh(&["--max-message-bytes", "65536"]);
    let request = v1::ApplyChangesRequest { message: "x".repeat(70_000), ..Default::default() };
    let refused =
        registry.client().await.apply_changes(request).await.expect_err("it is too large");
    assert_eq!(refused.code(), tonic::Code::OutOfRange);
    let info = refused.get_details_error_info().expect("an ErrorInfo");
    assert_eq!((&*info.reason, &*info.metadata["maxMessageBytes"]), ("MESSAGE_TOO_LARGE", "65536"));
}

#[tokio::test]
async fn gateway_probes_need_no_admin_token() {
    let dir = tempfile::tempdir().expect("a directory");
    let token = dir.path().join("token");
    std::fs::write(&token, "a-token-of-the-operators-with-entropy").expect("written");
    let more = format!("admin: 127.0.0.1:0\nadminTokenFile: {}\n", token.display());
    let gateway = gateway(&more);
    gateway.ready().await;
    for (path, status) in [
        ("/livez", 200),
        ("/readyz", 200),
        ("/metrics", 200),
        ("/admin/targets", 401),
        ("/admin/budgets", 401),
    ] {
        let answer = reqwest::get(format!("{}{path}", gateway.admin_url())).await;
        assert_eq!(answer.expect("an answer").status(), status, "{path}");
    }
}

/// Entities that the server reads for a scope of tags.
const ENTITIES: usize = 3_000;
/// The number of requested and canceled scopes.
const CANCELLED: usize = 20;

/// Follows a unique scope of many tags.
async fn follow(registry: &Registry, number: usize) -> tonic::Streaming<v1::SyncResponse> {
    let roots = (0..1_000).map(|tag| format!("tag:none-{number}-{tag}")).collect();
    let roots = follow_scope::Scope::Roots(v1::ScopeRoots { roots });
    let scope = Some(v1::FollowScope { scope: Some(roots) });
    let hello = v1::ClientHello { gateway: format!("g{number}"), scope, ..Default::default() };
    let hello = v1::SyncRequest { message: Some(sync_request::Message::Hello(hello)) };
    let mut client = SyncServiceClient::new(registry.channel().await);
    client.sync(tokio_stream::iter([hello])).await.expect("a stream").into_inner()
}

async fn metric(registry: &Registry, name: &str) -> u64 {
    let text = registry.metrics().await;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.unwrap_or_default()
}

/// Registers many schemas with tags.
fn fill(registry: &Registry) {
    let schema = |number: usize| {
        let tags = json!([format!("t{number}"), "x".repeat(100)]);
        json!({ "name": format!("S{number}"), "version": "1.0.0", "schema": {},
            "metadata": { "tags": tags } })
    };
    let schemas: Vec<_> = (0..ENTITIES).map(schema).collect();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("registry.json");
    std::fs::write(&file, json!({ "schemaVersion": "2.0", "schemas": schemas }).to_string())
        .expect("written");
    registry.apply_file(&file);
}

#[tokio::test(flavor = "multi_thread")]
async fn canceled_scope_stops_registry_work() {
    let registry = Registry::start();
    fill(&registry);
    let began = registry.process.cpu_seconds();
    let mut stream = follow(&registry, 0).await;
    while !matches!(next(&mut stream).await, Message::Heartbeat(_)) {}
    let one = registry.process.cpu_seconds() - began;
    for number in 1..=CANCELLED {
        let stream = follow(&registry, number).await;
        eventually("it is being opened, or is open", || async {
            metric(&registry, "registry_stream_stage_active{stage=\"scope\"}").await > 0
                || metric(&registry, "registry_followed_scopes").await > number as u64
        })
        .await;
        drop(stream);
    }
    let mut after = follow(&registry, 0).await;
    let asked = Instant::now();
    while !matches!(next(&mut after).await, Message::Heartbeat(_)) {}
    assert!(asked.elapsed() < PROMPT, "an open scope is served at once");
    eventually("nothing is being opened", || async {
        metric(&registry, "registry_stream_stage_active{stage=\"scope\"}").await == 0
    })
    .await;
    let before = registry.process.cpu_seconds();
    let used = used_until_idle(&registry).await - before;
    assert!(used < one.max(0.2), "{used:.2} s of work afterwards; to open one takes {one:.2} s");
}

/// The processor time of the registry once it is idle.
async fn used_until_idle(registry: &Registry) -> f64 {
    let mut used = registry.process.cpu_seconds();
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = registry.process.cpu_seconds();
        if now - used < 0.05 {
            return now;
        }
        used = now;
    }
}

async fn next(stream: &mut tonic::Streaming<v1::SyncResponse>) -> Message {
    let heard = stream.message().await.expect("a sound stream").expect("it goes on");
    heard.message.expect("a message")
}
