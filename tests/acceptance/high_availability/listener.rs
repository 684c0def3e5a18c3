//! The notification connection to Postgres dies silently.

use std::time::Instant;

use acceptance::{FaultProxy, Registry, eventually, postgres::PrivateCluster};

use super::metric;
use crate::concurrent_writers::pair;

const LOSSES: &str = r#"registry_database_listener_losses_total{cause="silent"}"#;

/// Without polling, only the listener delivers commits of other servers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_notification_listener_is_replaced() {
    let cluster = PrivateCluster::durable().await;
    let database = cluster.create_database("listening").await;
    let proxy = FaultProxy::start(&format!("127.0.0.1:{}", cluster.port())).await;
    let behind = format!("postgres://postgres@{}/listening", proxy.address());
    let deaf = Registry::start_with(&behind, &["--poll-interval", "10m"]);
    let other = Registry::start_on(&database);
    let arrives = async |i: usize| {
        let applied = other.client().await.apply_changes(pair("Other", i)).await.expect("accepted");
        let revision = applied.into_inner().revision;
        eventually("the other server is notified", || async { deaf.revision().await == revision })
            .await;
    };
    arrives(0).await;
    assert_eq!(metric(&deaf.admin_address(), LOSSES).await, Some(0.0));

    proxy.swallow_answers();
    let since = Instant::now();
    eventually("the silence is noticed", || async {
        metric(&deaf.admin_address(), LOSSES).await == Some(1.0)
    })
    .await;
    println!("noticed after {:?}", since.elapsed());
    assert!(deaf.process.stderr().contains("how=\"silent\""), "{}", deaf.process.stderr());
    arrives(1).await;
    deaf.client().await.apply_changes(pair("Deaf", 0)).await.expect("and writes");
}
