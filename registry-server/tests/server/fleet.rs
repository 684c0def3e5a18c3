//! Connected and disconnected gateways.

use std::time::{Duration, Instant};

use registry_proto::{
    convert,
    v1::{self, GatewayState, sync_request},
};
use tonic::Code;

use crate::{
    follower::Follower,
    harness::{TestServer, connect, eventually, get_admin, lock, new_schema, reason},
};

async fn list(server: &TestServer, wanted: v1::ListGatewaysRequest) -> v1::ListGatewaysResponse {
    server.sync().await.list_gateways(wanted).await.unwrap().into_inner()
}

/// How long a gateway has been behind.
fn lag(status: &v1::GatewayStatus) -> Option<Duration> {
    status.lag_duration.map(convert::read_duration)
}

pub(crate) async fn gateways(server: &TestServer) -> Vec<v1::GatewayStatus> {
    list(server, v1::ListGatewaysRequest::default()).await.gateways
}

async fn apply(server: &TestServer, names: &[&str]) {
    for name in names {
        server.registry().await.apply_changes(new_schema(name)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnected_gateway_is_listed_after_restart() {
    let server = TestServer::start().await;
    apply(&server, &["A"]).await;
    let mut follower = Follower::new(&server).await;
    follower.reach(1).await;
    follower.ack(1, 1).await;
    eventually("the ack is seen", || async { gateways(&server).await[0].applied_revision == 1 })
        .await;
    let here = gateways(&server).await.remove(0);
    assert_eq!((here.state(), here.scope.as_str()), (GatewayState::Connected, "*"));
    assert_eq!((lag(&here), here.lag_revisions), (Some(Duration::ZERO), 0));
    drop(follower);
    eventually("it leaves", || async {
        gateways(&server).await[0].state() == GatewayState::Disconnected
    })
    .await;
    apply(&server, &["B"]).await;
    let left = gateways(&server).await.remove(0);
    assert!(
        left.last_seen_time != here.last_seen_time && lag(&left) > Some(Duration::ZERO),
        "{left:?}"
    );
    let expected = v1::GatewayStatus {
        state: GatewayState::Disconnected.into(),
        lag_revisions: 1,
        lag_duration: left.lag_duration,
        last_seen_time: left.last_seen_time,
        ..here
    };
    assert_eq!(left, expected);
    let server = TestServer::on(server.stop().await, &[]).await;
    let remembered = gateways(&server).await.remove(0);
    let lag_duration = remembered.lag_duration;
    assert!(lag(&remembered) > Some(Duration::ZERO), "from the log: {remembered:?}");
    assert_eq!(gateways(&server).await.len(), 1);
    assert_eq!(remembered, v1::GatewayStatus { lag_duration, ..expected });
    let mut again = Follower::new(&server).await;
    again.reach(2).await;
    let back = gateways(&server).await;
    assert_eq!((back.len(), back[0].state()), (1, GatewayState::Connected), "{back:?}");
    assert_ne!(back[0].server, remembered.server);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejection_is_listed_until_a_revision_is_applied() {
    let server = TestServer::start().await;
    apply(&server, &["A"]).await;
    let mut follower = Follower::new(&server).await;
    follower.reach(1).await;
    follower.ack(1, 1).await;
    let catalog = follower.catalog.clone();
    apply(&server, &["B"]).await;
    follower.reach(2).await;
    let found = v1::Diagnostic {
        code: "source-unknown".to_owned(),
        severity: v1::DiagnosticSeverity::Error.into(),
        message: "not here".to_owned(),
        ..Default::default()
    };
    let nack = v1::Nack { revision: 2, message: "no".to_owned(), diagnostics: vec![found] };
    follower.say(sync_request::Message::Nack(nack.clone())).await;
    let nacked = || async { gateways(&server).await[0].last_nack.as_ref() == Some(&nack) };
    eventually("the refusal is seen", nacked).await;
    let (_, _, metrics) = get_admin(&server, "/metrics").await;
    assert!(metrics.contains("\nregistry_streams_rejecting 1\n"), "{metrics}");
    drop(follower);
    let mut again = Follower::resume(&server, catalog).await.unwrap();
    eventually("the old stream ends", || async {
        let listed = gateways(&server).await;
        listed.len() == 1 && listed[0].state() == GatewayState::Connected
    })
    .await;
    assert!(nacked().await, "{:?}", gateways(&server).await);
    again.reach(2).await;
    // A persisted revision that is not applied does not clear the rejection.
    again.ack(1, 1).await;
    again.ack(2, 2).await;
    eventually("something was applied", || async {
        gateways(&server).await[0].last_nack.is_none()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nack_of_a_future_revision_is_rejected() {
    let server = TestServer::start().await;
    apply(&server, &["A"]).await;
    let mut follower = Follower::new(&server).await;
    follower.reach(1).await;
    let nack = |revision| {
        sync_request::Message::Nack(v1::Nack {
            revision,
            message: "no".to_owned(),
            ..Default::default()
        })
    };
    follower.say(nack(2)).await;
    eventually("the next one may be", || async { gateways(&server).await[0].last_nack.is_some() })
        .await;
    follower.say(nack(3)).await;
    let end = loop {
        match follower.hear().await {
            Ok(_) => {}
            Err(end) => break end,
        }
    };
    assert_eq!((end.code(), &*reason(&end)), (Code::InvalidArgument, "INVALID_ACK"));
    let last = gateways(&server).await[0].last_nack.clone();
    assert_eq!(last.map(|nack| nack.revision), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_one_name_are_listed_and_paged() {
    let server = TestServer::start().await;
    apply(&server, &["A"]).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut follower = Follower::new(&server).await;
        follower.reach(1).await;
        streams.push(follower);
    }
    let (mut paged, mut page_token) = (Vec::new(), String::new());
    loop {
        let wanted = v1::ListGatewaysRequest { page_size: 1, page_token, ..Default::default() };
        let page = list(&server, wanted).await;
        paged.extend(page.gateways);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    let mut addresses: Vec<_> = paged.iter().map(|gateway| gateway.address.clone()).collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!((paged.len(), addresses.len()), (3, 3), "{paged:?}");
    let filtered =
        async |wanted: v1::ListGatewaysRequest| list(&server, wanted).await.gateways.len();
    let any = v1::ListGatewaysRequest::default;
    let gone = GatewayState::Disconnected.into();
    assert_eq!(filtered(v1::ListGatewaysRequest { state: gone, ..any() }).await, 0);
    let connected = GatewayState::Connected.into();
    assert_eq!(filtered(v1::ListGatewaysRequest { state: connected, ..any() }).await, 3);
    assert_eq!(filtered(v1::ListGatewaysRequest { behind_revision: 1, ..any() }).await, 3);
    streams[0].ack(1, 1).await;
    eventually("it has applied it", || async {
        filtered(v1::ListGatewaysRequest { behind_revision: 1, ..any() }).await == 2
    })
    .await;
    let prefix = |prefix: &str| v1::ListGatewaysRequest { name_prefix: prefix.to_owned(), ..any() };
    assert_eq!((filtered(prefix("edge")).await, filtered(prefix("x")).await), (3, 0));
    let wanted = v1::ListGatewaysRequest { state: 9, ..any() };
    let refused = server.sync().await.list_gateways(wanted).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::InvalidArgument, "INVALID_REQUEST"));
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_do_not_wait_for_the_database() {
    let server = TestServer::start().await;
    apply(&server, &["A"]).await;
    let locked = lock(&server).await;
    let mut follower = Follower::new(&server).await;
    follower.reach(1).await;
    follower.ack(1, 1).await;
    eventually("the ack is seen", || async { gateways(&server).await[0].applied_revision == 1 })
        .await;
    drop(follower);
    eventually("it leaves", || async {
        gateways(&server).await[0].state() == GatewayState::Disconnected
    })
    .await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    let listed = gateways(&server).await;
    assert_eq!(listed.len(), 1, "also while that is being written: {listed:?}");
    drop(locked);
    let server = TestServer::on(server.stop().await, &[]).await;
    assert_eq!(gateways(&server).await.len(), 1, "it was noted in the end");
}

/// Stored gateways: name, whether connected, and applied revision.
async fn noted(server: &TestServer) -> Vec<(String, bool, i64)> {
    let mut connection = connect(server).await;
    let rows = "SELECT gateway, gone_at IS NULL, applied FROM gateways ORDER BY gateway";
    sqlx::query_as(rows).fetch_all(&mut connection).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn connected_stream_of_a_name_is_stored() {
    let server = TestServer::start().await;
    apply(&server, &["A"]).await;
    let mut stays = Follower::new(&server).await;
    stays.reach(1).await;
    stays.ack(1, 1).await;
    let leaves = Follower::new(&server).await;
    let is = |there, applied| vec![("edge-1".to_owned(), there, applied)];
    eventually("the last that came is noted", || async { noted(&server).await == is(true, 0) })
        .await;
    drop(leaves);
    eventually("the other is", || async {
        let now = noted(&server).await;
        assert!(now[0].1, "one of them was there all the time");
        now == is(true, 1)
    })
    .await;
    drop(stays);
    eventually("none is there", || async { noted(&server).await == is(false, 1) }).await;
}

/// Many gateways that connect, acknowledge and leave cause few writes and no waiting streams.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_gateways_are_stored_in_batches() {
    const CROWD: usize = 300;
    let server = TestServer::start().await;
    apply(&server, &["A"]).await;
    let mut client = server.sync().await;
    let mut crowd = Vec::new();
    for i in 0..CROWD {
        let (says, said) = tokio::sync::mpsc::channel(4);
        let hello = v1::ClientHello { gateway: format!("gw-{i:03}"), ..Default::default() };
        let hello = sync_request::Message::Hello(hello);
        says.send(v1::SyncRequest { message: Some(hello) }).await.unwrap();
        let said = tokio_stream::wrappers::ReceiverStream::new(said);
        crowd.push((says, client.sync(said).await.unwrap().into_inner()));
    }
    eventually("all are noted", || async { noted(&server).await.len() == CROWD }).await;
    let mut connection = connect(&server).await;
    let writes = "SELECT count(DISTINCT noted_at) FROM gateways";
    let writes: i64 = sqlx::query_scalar(writes).fetch_one(&mut connection).await.unwrap();
    assert!(usize::try_from(writes).unwrap() < CROWD / 5, "{writes} writes for {CROWD} gateways");
    drop(crowd);
    drop(client);
    eventually("all have left", || async {
        noted(&server).await.iter().all(|(_, is_there, _)| !is_there)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn observer_is_not_listed_as_gateway() {
    let server = TestServer::start().await;
    // Same name as the gateway, like the streams of a relay for signatures.
    let hello = v1::ClientHello {
        gateway: "edge-1".to_owned(),
        mode: v1::FollowMode::Observer.into(),
        ..Default::default()
    };
    let nack = v1::Nack { revision: 1, message: "not for me".to_owned(), ..Default::default() };
    let said = [sync_request::Message::Hello(hello), sync_request::Message::Nack(nack)];
    let said = said.map(|message| v1::SyncRequest { message: Some(message) });
    let requests =
        tokio_stream::StreamExt::chain(tokio_stream::iter(said), tokio_stream::pending());
    let mut watcher = server.sync().await.sync(requests).await.unwrap().into_inner();
    watcher.message().await.unwrap().unwrap();
    let _gateway = Follower::new(&server).await;
    eventually("the gateway is noted", || async { !noted(&server).await.is_empty() }).await;
    assert_eq!((noted(&server).await.len(), gateways(&server).await.len()), (1, 1));
    let (_, _, metrics) = get_admin(&server, "/metrics").await;
    assert!(metrics.contains("\nregistry_streams 2\n"), "{metrics}");
    let _again = Follower::new(&server).await;
    let listed = gateways(&server).await;
    assert!(listed.iter().all(|gateway| gateway.last_nack.is_none()), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connected_gateways_are_listed_without_stored_rows() {
    let server = TestServer::start().await;
    let _follower = Follower::new(&server).await;
    let answer = list(&server, v1::ListGatewaysRequest::default()).await;
    assert_eq!((answer.gateways.len(), answer.local_only), (1, false));
    let drop = sqlx::raw_sql("DROP TABLE gateways");
    drop.execute(&mut connect(&server).await).await.unwrap();
    let answer = list(&server, v1::ListGatewaysRequest::default()).await;
    assert_eq!((answer.gateways.len(), answer.local_only), (1, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn lag_of_the_slowest_follower_is_measured() {
    let server = TestServer::start().await;
    apply(&server, &["A"]).await;
    let mut follower = Follower::new(&server).await;
    follower.reach(1).await;
    follower.ack(1, 1).await;
    let measured = || async {
        let (_, _, metrics) = get_admin(&server, "/metrics").await;
        let of = |name: &str| {
            let line = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().parse::<f64>().unwrap()
        };
        (of("registry_stream_max_lag_revisions "), of("registry_stream_max_lag_seconds "))
    };
    eventually("it is not behind", || async { measured().await == (0.0, 0.0) }).await;
    apply(&server, &["B", "C"]).await;
    eventually("it is behind", || async {
        let (revisions, seconds) = measured().await;
        revisions > 1.5 && seconds > 0.0
    })
    .await;
    drop(follower);
    eventually("nobody is", || async { measured().await == (0.0, 0.0) }).await;
    let connecting = Instant::now();
    let _new = Follower::new(&server).await;
    let (revisions, seconds) = measured().await;
    // Server times have a resolution of milliseconds.
    let most = || connecting.elapsed().as_secs_f64() + 0.001;
    assert!(revisions > 2.5 && seconds < most(), "since it connected: {revisions}, {seconds} s");
    let listed = gateways(&server).await;
    assert!(lag(&listed[0]).unwrap().as_secs_f64() < most(), "{listed:?}");
}
