//! Postgres connections and servers that stop, hang and recover.

use std::{
    io,
    time::{Duration, Instant},
};

use acceptance::postgres::PrivateCluster;
use nix::errno::Errno;
use registry_server::store::{AppendError, Error, Store};
use tokio::time::{sleep, timeout};

use crate::{
    append::{assert_holds, whole_log},
    fixture::Fixture,
    log::{Draft, Log},
};

const TERMINATE: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                         WHERE datname = current_database() AND pid <> pg_backend_pid()";

/// Appends until success, like a registrar during outages; returns the number of failures.
async fn insist(store: &Store, log: &mut Log, draft: &Draft) -> usize {
    let expected = log.catalog.revision();
    let sealed = log.commit(draft.clone());
    for failures in 0..500 {
        match store.append(expected, std::slice::from_ref(&sealed)).await {
            Ok(()) => return failures,
            // The commit was stored before the connection was lost.
            Err(AppendError::Conflict { head }) if head == sealed.revision() && failures > 0 => {
                return failures;
            }
            Err(AppendError::Store(Error::Unavailable { .. })) => {
                sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the database never came back")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminated_connection_is_replaced() {
    let fixture = Fixture::postgres().await;
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    let mut failures = 0;
    for i in 0..10 {
        failures +=
            insist(&store, &mut log, &Draft::new().register(&format!("S{i}"), "1.0.0")).await;
        fixture.execute(TERMINATE).await;
    }
    assert!(failures > 0, "a dead connection was noticed");
    while store.check().await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    assert_holds(&store, &log).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listener_reconnects_after_a_lost_connection() {
    let fixture = Fixture::postgres().await;
    let store = fixture.open().await;
    let mut listener = store.listener().await.unwrap();
    let mut log = Log::new(&store);
    for i in 0..3 {
        fixture.execute(TERMINATE).await;
        timeout(Duration::from_secs(5), listener.wait()).await.expect("woken").unwrap();
        // One cause may wake the listener more than once.
        while let Ok(woken) = timeout(Duration::from_millis(300), listener.wait()).await {
            woken.unwrap();
        }
        insist(&store, &mut log, &Draft::new().register(&format!("S{i}"), "1.0.0")).await;
        timeout(Duration::from_secs(5), listener.wait()).await.expect("still listens").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_database_keeps_acknowledged_commits() {
    let mut cluster = PrivateCluster::durable().await;
    let url = cluster.create_database("store").await;
    let store = Store::open(&url.parse().unwrap()).await.unwrap();
    let mut listener = store.listener().await.unwrap();
    let mut log = Log::new(&store);
    for i in 0..20 {
        insist(&store, &mut log, &Draft::new().register(&format!("Before{i}"), "1.0.0")).await;
    }

    cluster.pause();
    let begin = Instant::now();
    let error = store.check().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(3), "a probe is not held up");
    cluster.resume();
    insist(&store, &mut log, &Draft::new().register("Resumed", "1.0.0")).await;

    cluster.kill_9().await;
    let sealed = [log.seal(Draft::new().register("Dead", "1.0.0"))];
    let refused = io::Error::from(Errno::ECONNREFUSED);
    let caused = timeout(Duration::from_secs(30), async {
        loop {
            let error = store.append(log.catalog.revision(), &sealed).await.unwrap_err();
            assert!(matches!(error, AppendError::Store(Error::Unavailable { .. })), "{error}");
            let causes = [sqlx::Error::PoolTimedOut.to_string(), refused.to_string()];
            if causes.iter().all(|cause| error.to_string().contains(cause)) {
                break;
            }
        }
    });
    caused.await.expect("the error names the cause");
    let lost = timeout(Duration::from_secs(30), async { while listener.wait().await.is_ok() {} });
    lost.await.expect("the listener says that the database is gone");
    cluster.restart().await;
    insist(&store, &mut log, &Draft::new().register("After", "1.0.0")).await;
    assert_holds(&store, &log).await;
    assert_eq!(whole_log(&store, 5).await.len(), 22);
    while listener.wait().await.is_err() {
        sleep(Duration::from_millis(50)).await;
    }
}
