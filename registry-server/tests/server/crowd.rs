//! Many concurrent writers: one chain without gaps, and correct results.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use registry_proto::v1;

use crate::{
    follower::Follower,
    harness::{
        TestServer, batch, findings, get_admin, new_schema, proven_log, register, schema_of,
    },
};

const WRITERS: usize = 64;
const EACH: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writers_produce_one_gap_free_chain() {
    let registry = TestServer::start().await;
    let mut follower = Follower::new(&registry).await;
    let writers = (0..WRITERS).map(|writer| {
        let registry = &registry;
        async move {
            let mut client = registry.registry().await;
            let mut revisions = Vec::new();
            for i in 0..EACH {
                let request = new_schema(&format!("S{writer}-{i}"));
                revisions.push(client.apply_changes(request).await.unwrap().into_inner().revision);
            }
            assert!(revisions.is_sorted(), "one writer's commits are in its order");
            revisions
        }
    });
    let revisions: Vec<u64> = join_all(writers).await.concat();
    let all = WRITERS * EACH;
    assert_eq!(revisions.iter().copied().collect::<BTreeSet<_>>(), (1..=all as u64).collect());
    let log = proven_log(&registry).await;
    assert_eq!(log.len(), all);
    let times: Vec<_> =
        log.iter().map(|c| c.commit_time.unwrap()).map(|t| (t.seconds, t.nanos)).collect();
    assert!(times.is_sorted(), "time never goes backwards");
    follower.reach(all as u64).await;

    // Group commit: fewer transactions than commits.
    let (_, _, metrics) = get_admin(&registry, "/metrics").await;
    let value = |name: &str| -> f64 {
        let line =
            metrics.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let (groups, commits) =
        (value("registry_append_group_commits_count"), value("registry_append_group_commits_sum"));
    assert!(groups * 1.5 < commits, "{groups} transactions for {commits} commits");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_registrations_of_a_name_succeed_once() {
    let registry = TestServer::start().await;
    let client = registry.registry().await;
    let writers =
        (0..WRITERS).map(|writer| {
            let mut client = client.clone();
            let schema = format!(r#"{{"const":{writer}}}"#);
            async move {
                client.apply_changes(batch([register(schema_of("A", "1.0.0", &schema))])).await
            }
        });
    let answers = join_all(writers).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, WRITERS - 1));
    for refused in lost {
        assert_eq!(findings(&refused.unwrap_err())[0].code, "already-registered");
    }
    assert_eq!(proven_log(&registry).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writes_at_one_revision_succeed_once() {
    let registry = TestServer::start().await;
    let client = registry.registry().await;
    let writers = (0..WRITERS).map(|writer| {
        let mut client = client.clone();
        let request =
            v1::ApplyChangesRequest { base_revision: Some(0), ..new_schema(&format!("S{writer}")) };
        async move { client.apply_changes(request).await.is_ok() }
    });
    let won = join_all(writers).await.into_iter().filter(|won| *won).count();
    assert_eq!((won, proven_log(&registry).await.len()), (1, 1));
}
