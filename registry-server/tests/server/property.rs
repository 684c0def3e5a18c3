//! Property: after any writes and reconnects, a follower has the catalog of the server.

use std::time::{Duration, Instant};

use proptest::{prelude::*, test_runner::Config};
use registry_core::Catalog;
use registry_proto::v1::{EntityKind, LifecycleState};

use crate::{
    follower::{Follower, digest},
    harness::{TestServer, batch, key, register, schema, schema_of, set_lifecycle},
};

#[derive(Debug, Clone)]
enum Step {
    Register(u8),
    Collide(u8),
    Set(u8, LifecycleState),
    /// Receive up to this many messages.
    Hear(u8),
    /// Disconnect and resume.
    Break,
    /// Reset the follower.
    Forget,
}

fn step() -> impl Strategy<Value = Step> {
    let state = prop_oneof![
        Just(LifecycleState::Active),
        Just(LifecycleState::Deprecated),
        Just(LifecycleState::Retired)
    ];
    prop_oneof![
        6 => (0..12_u8).prop_map(Step::Register),
        1 => (0..12_u8).prop_map(Step::Collide),
        3 => ((0..12_u8), state).prop_map(|(i, state)| Step::Set(i, state)),
        3 => (0..4_u8).prop_map(Step::Hear),
        2 => Just(Step::Break),
        1 => Just(Step::Forget),
    ]
}

async fn run(steps: Vec<Step>, flags: &[&str]) {
    let registry = TestServer::with(flags).await;
    let mut client = registry.registry().await;
    let mut follower = Follower::new(&registry).await;
    for step in steps {
        let name = |i: u8| format!("S{i}");
        match step {
            Step::Register(i) => {
                drop(client.apply_changes(batch([register(schema(&name(i), "1.0.0"))])).await);
            }
            Step::Collide(i) => {
                drop(
                    client
                        .apply_changes(batch([register(schema_of(&name(i), "1.0.0", "true"))]))
                        .await,
                );
            }
            Step::Set(i, state) => {
                let change =
                    set_lifecycle(key(EntityKind::Schema, &name(i), "1.0.0"), state, "why");
                drop(client.apply_changes(batch([change])).await);
            }
            Step::Hear(count) => {
                let all = async {
                    for _ in 0..count {
                        follower.hear().await.unwrap();
                    }
                };
                // There may be fewer messages, which the final check covers.
                let _ = tokio::time::timeout(Duration::from_millis(30), all).await;
            }
            Step::Break => {
                let catalog: Option<Catalog> = follower.catalog.take();
                follower = Follower::resume(&registry, catalog).await.unwrap();
            }
            Step::Forget => follower = Follower::new(&registry).await,
        }
    }
    let wanted = digest(&registry).await;
    let deadline = Instant::now() + Duration::from_secs(20);
    while follower.catalog.as_ref().map(Catalog::digest) != Some(wanted) {
        assert!(Instant::now() < deadline, "never got there: {:?}", follower.heard);
        follower.hear().await.unwrap();
    }
}

proptest! {
    #![proptest_config(Config { cases: 12, max_shrink_iters: 60, failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_follower_ends_with_the_servers_catalog(
        steps in prop::collection::vec(step(), 0..60),
        recent in prop::sample::select(vec!["0", "1", "3", "100"]),
        gap in prop::sample::select(vec!["0", "2", "1000"]),
    ) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(run(steps, &["--recent-commits", recent, "--retain-revisions", gap]));
    }
}
