//! Catch-up of a follower: the time until missed commits are verified and applied, from memory, and
//! from the log after a restart of the server. Compared with a watch of etcd from an old revision.

use std::{collections::BTreeMap, time::Instant};

use acceptance::Registry;
use futures_util::{StreamExt as _, stream};
use registry_core::{Catalog, chain::Position};

use crate::{
    etcd::{self, Etcd},
    follow::Follower,
    followers, load,
    report::{Report, Row},
    sample,
};

const MISSED: [u64; 3] = [1, 100, 10_000];
const HEAD: u64 = 10_000;
const WRITERS: usize = 64;
/// Measurements per case; the median counts.
const TIMES: usize = 5;
/// Approximate size of a commit on the wire.
const BYTES: usize = 700;

/// Measures after 1, 100 and 10,000 missed commits.
pub(crate) async fn measure(report: &mut Report) {
    let mut registry = Registry::start();
    let empty = Follower::connect(&registry).await.snapshot().await;
    commit(&registry).await;
    let past = past(&registry, &empty).await;
    let from_memory = catch_up_all(&registry, &past).await;
    assert!(registry.process.stop().success());
    registry.restart();
    let from_log = catch_up_all(&registry, &past).await;
    drop(registry);
    let theirs = theirs().await;
    for (at, missed) in MISSED.into_iter().enumerate() {
        let (ours, later) = (from_memory[at], from_log[at]);
        report.add(Row {
            path: format!("catch-up after {missed} missed commits, verified and applied"),
            value: format!("{ours:.1} ms; after a restart {later:.1} ms"),
            baseline: theirs
                .as_ref()
                .map(|it| format!("etcd, only read: {:.1} ms", it[at]))
                .unwrap_or_default(),
            ratio: theirs.as_ref().map(|it| ours / it[at]),
            budget: "",
        });
    }
}

/// Commits of one schema each.
async fn commit(registry: &Registry) {
    let channel = registry.client().await;
    let commits = (0..HEAD).map(|number| {
        let mut client = channel.clone();
        async move {
            let schema = sample::schema(usize::try_from(number).expect("it fits"));
            client.apply_changes(sample::request(vec![schema])).await.expect("accepted");
        }
    });
    stream::iter(commits).buffer_unordered(WRITERS).collect::<()>().await;
    assert_eq!(registry.revision().await, HEAD);
}

/// The catalogs before each number of missed commits.
async fn past(registry: &Registry, empty: &Catalog) -> Vec<Catalog> {
    let mut past = BTreeMap::from([(0, empty.clone())]);
    let mut follower =
        Follower::open(registry.channel().await, Some(Position::of_catalog(empty))).await;
    let keep = |catalog: &Catalog| {
        let revision = catalog.revision().0;
        if MISSED.contains(&(HEAD - revision)) {
            past.insert(revision, catalog.clone());
        }
    };
    follower.apply_until(&mut empty.clone(), HEAD, keep).await;
    MISSED.iter().map(|missed| past[&(HEAD - missed)].clone()).collect()
}

/// The catch-up time from each catalog, in milliseconds.
async fn catch_up_all(registry: &Registry, past: &[Catalog]) -> Vec<f64> {
    let mut medians = Vec::new();
    for past in past {
        let mut times = load::histogram();
        for _ in 0..TIMES {
            let (channel, mut catalog) = (registry.channel().await, past.clone());
            let begin = Instant::now();
            let mut follower = Follower::open(channel, Some(Position::of_catalog(past))).await;
            follower.apply_until(&mut catalog, HEAD, |_| {}).await;
            load::record(&mut times, begin.elapsed());
        }
        medians.push(load::quantile_ms(&times, 0.5));
    }
    medians
}

/// The same with etcd, whose watchers only read.
async fn theirs() -> Option<Vec<f64>> {
    let etcd = Etcd::start().await?;
    let channel = followers::connections(&etcd.address, 1).await.remove(0);
    let puts = (0..HEAD).map(|number| {
        let channel = channel.clone();
        async move { etcd::put(&channel, &format!("/0/{number}"), &[b'x'; BYTES]).await }
    });
    let revisions: Vec<i64> = stream::iter(puts).buffer_unordered(WRITERS).collect().await;
    let last = revisions.into_iter().max().expect("there are some");
    let mut medians = Vec::new();
    for missed in MISSED {
        let first = last + 1 - i64::try_from(missed).expect("it fits");
        let mut times = load::histogram();
        for _ in 0..TIMES {
            let channel = followers::connections(&etcd.address, 1).await.remove(0);
            let (begin, mut seen) = (Instant::now(), 0);
            let mut watch = etcd::watch(&channel, "/0/", first).await;
            while seen < missed {
                let response = watch.message().await.expect("sound").expect("it goes on");
                seen += response.events() as u64;
            }
            load::record(&mut times, begin.elapsed());
        }
        medians.push(load::quantile_ms(&times, 0.5));
    }
    Some(medians)
}
