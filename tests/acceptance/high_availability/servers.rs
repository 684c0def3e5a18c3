//! Servers are replaced one by one under load.

use std::time::Duration;

use acceptance::{Registry, postgres};

use super::{Watch, gateway_of};
use crate::concurrent_writers::{
    ConcurrentWriters, assert_followed_without_gap, assert_no_commit_lost,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_restart_loses_nothing() {
    let database = postgres::database().await;
    let mut servers = [(); 3].map(|()| Registry::start_on(database.url()));
    let gateways = [0, 1].map(|first| {
        let [a, b, c] = [0, 1, 2].map(|i| &servers[(first + i) % 3]);
        gateway_of(&[a, b, c])
    });
    for gateway in &gateways {
        gateway.ready().await;
    }
    let urls: Vec<String> = servers.iter().map(Registry::url).collect();
    let watches: Vec<Watch> = gateways.iter().map(Watch::start).collect();
    let writers = ConcurrentWriters::start(&urls, 3, usize::MAX);
    for server in &mut servers {
        writers.progresses(20).await;
        assert!(server.process.stop().success(), "it drains and ends with 0");
        server.restart();
    }
    writers.progresses(20).await;
    let acknowledged = writers.stop().await;
    assert!(acknowledged.revisions.len() > 50, "writing goes on: {}", acknowledged.revisions.len());
    let pause = acknowledged.longest_pause;
    assert!(pause < Duration::from_secs(2), "a writer waited for {pause:?}");
    assert_no_commit_lost(&servers[0], &acknowledged).await;
    for (gateway, watch) in gateways.iter().zip(watches) {
        let absence = watch.longest_absence().await;
        println!(
            "{} commits, writers waited {pause:?} at most, a gateway was away for {absence:?}",
            acknowledged.revisions.len()
        );
        assert!(absence < Duration::from_secs(2), "a gateway was away for {absence:?}");
        assert_followed_without_gap(gateway, &servers[1]).await;
        assert!(gateway.snapshots() <= 1, "it resumes");
    }
}
