//! Clients with several servers continue when one of them fails.

use std::time::{Duration, Instant};

use acceptance::{FaultProxy, Gateway, GatewayOptions, Registry, ctl, eventually, postgres, root};
use registry_proto::v1::registry_service_client::RegistryServiceClient;
use tokio::{net::TcpListener, time::timeout};

use crate::{concurrent_writers::pair, deployment::gateway_revision};

/// The response is lost after the commit. The other server recognizes the request id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_at_another_server_returns_first_outcome() {
    let database = postgres::database().await;
    let servers = [(); 2].map(|()| Registry::start_on(database.url()));
    let proxy = FaultProxy::start(&servers[0].address).await;
    let url = format!("http://{}", proxy.address());
    let mut client = RegistryServiceClient::connect(url).await.expect("connected");
    client.apply_changes(pair("Before", 0)).await.expect("accepted");
    proxy.swallow_answers();
    let lost = timeout(Duration::from_secs(2), client.apply_changes(pair("Lost", 0))).await;
    assert!(lost.is_err(), "no answer: {lost:?}");
    assert_eq!(servers[0].revision().await, 2, "it is committed");
    let again = servers[1].client().await.apply_changes(pair("Lost", 0)).await.expect("known");
    let again = again.into_inner();
    assert_eq!((again.revision, again.committed), (2, true), "{again:?}");
    assert_eq!(servers[1].revision().await, 2, "once");
}

/// The connection breaks before or after the commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_line_retries_at_next_server() {
    let database = postgres::database().await;
    let servers = [(); 2].map(|()| Registry::start_on(database.url()));
    servers[0].apply_example();
    let proxy = FaultProxy::start(&servers[0].address).await;
    let urls = format!("http://{},{}", proxy.address(), servers[1].url());
    for (i, bytes) in (60..460).step_by(25).enumerate() {
        proxy.fail_after(bytes);
        let level = if i % 2 == 0 { "backward" } else { "none" };
        let set = ctl(&urls, &["compatibility", "set", "--yes", "*", level]);
        assert!(set.success(), "cut after {bytes}: {set:?}");
        eventually("one commit exists", || async { servers[1].revision().await == 2 + i as u64 })
            .await;
    }
    assert!(proxy.cuts() > 8, "{}", proxy.cuts());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unresponsive_server_is_skipped() {
    let registry = Registry::start();
    registry.apply_example();
    let hangs = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let hangs = hangs.local_addr().expect("an address");
    let urls = format!("http://{hangs},{}", registry.address);
    let begun = Instant::now();
    let listed = ctl(&urls, &["list", "agent", "--connect-timeout", "1"]);
    assert!(listed.success() && listed.stdout.contains("research-agent"), "{listed:?}");
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    // The second server has no TLS.
    let urls = format!("https://{hangs},{}", registry.address);
    let failed = ctl(&urls, &["list", "agent", "--connect-timeout", "1"]);
    assert_eq!(failed.code, 3, "{failed:?}");
    assert!(failed.stderr.contains("handshake"), "{failed:?}");
    assert!(failed.stderr.contains(&format!(",https://{}: ", registry.address)), "{failed:?}");
    let source = format!("grpc://{hangs},{}", registry.address);
    let (targets, more) = (String::new(), String::new());
    let gateway = Gateway::start(&GatewayOptions { source, targets, runtime: None, more });
    eventually("the gateway has passed it over", || async {
        gateway_revision(&gateway).await == Some(1)
    })
    .await;
    let source = format!("grpcs://{hangs},{}", registry.address);
    let (targets, more) = (String::new(), String::new());
    let gateway = Gateway::start(&GatewayOptions { source, targets, runtime: None, more });
    eventually("the gateway tries the next server, which has no TLS", || async {
        gateway.process.stderr().contains("write grpc://")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollout_wait_continues_at_next_server() {
    let database = postgres::database().await;
    let mut servers = [(); 2].map(|()| Registry::start_on(database.url()));
    servers[0].apply_example();
    let gateway = super::gateway_of(&[&servers[1]]);
    eventually("it follows", || async { gateway_revision(&gateway).await == Some(1) }).await;
    let urls = format!("{},{}", servers[0].url(), servers[1].url());
    let waiting = tokio::task::spawn_blocking(move || {
        ctl(&urls, &["rollout", "status", "2", "--wait", "--timeout", "20s"])
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished(), "no gateway has it yet");
    servers[0].process.kill_9();
    servers[1].client().await.apply_changes(pair("Second", 0)).await.expect("accepted");
    let waited = waiting.await.expect("it ends");
    assert!(waited.success(), "{waited:?}");
}

/// Each server is tried once, then the delay grows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateway_without_servers_backs_off() {
    let (targets, more) = (String::new(), String::new());
    let source = "grpc://127.0.0.1:1,127.0.0.1:2".to_owned();
    let gateway = Gateway::start(&GatewayOptions { source, targets, runtime: None, more });
    tokio::time::sleep(Duration::from_secs(5)).await;
    let tries = super::metric(&gateway.address, "gateway_sync_reconnects_total").await;
    let tries = tries.expect("it tries");
    assert!((4.0..16.0).contains(&tries), "in 5 s: {tries}");
}

/// A server of another registry in the list is a configuration error that must be reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_registry_is_rejected() {
    let (mut registry, other) = (Registry::start(), Registry::start());
    registry.apply_file(&root().join("examples/registry-v2.json"));
    other.apply_file(&root().join("examples/registry-v2.json"));
    let source = format!("grpc://{},{}", registry.address, other.address);
    let (targets, more) = (String::new(), String::new());
    let gateway = Gateway::start(&GatewayOptions { source, targets, runtime: None, more });
    eventually("it follows", || async { gateway_revision(&gateway).await == Some(1) }).await;

    let proxy = FaultProxy::start(&registry.address).await;
    let urls = format!("http://{},{}", proxy.address(), other.url());
    // The request for the registry id succeeds, the change does not.
    let mut refused = None;
    for bytes in (200..700).step_by(10) {
        proxy.fail_after(bytes);
        let set = ctl(&urls, &["compatibility", "set", "--yes", "*", "none"]);
        if set.has_code("REGISTRY_MISMATCH") {
            refused = Some(set);
            break;
        }
    }
    let refused = refused.expect("a cut falls between the two");
    assert_eq!(refused.code, 1, "{refused:?}");

    let revision = registry.revision().await;
    eventually("it follows", || async { gateway_revision(&gateway).await == Some(revision) }).await;
    registry.process.kill_9();
    eventually("the gateway says so", || async {
        gateway.process.stderr().contains("FailedPrecondition")
    })
    .await;
    assert_eq!(gateway_revision(&gateway).await, Some(revision), "and keeps its catalog");
}
