//! Histories of some seeds. `proof plan --seed N` prints their faults.

use std::time::Duration;

use history_check::Workload;
use proof::soak::{Soak, soak};
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread")]
async fn sampled_histories_satisfy_all_invariants() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // Kept for analysis after a failure.
    let path = dir.keep();
    let lasts = Duration::from_secs(40);
    let soak = soak(Soak {
        workload: Some(Workload::Catalog),
        seed: 1,
        histories: 8,
        lasts,
        at_once: 2,
        dir: path.clone(),
    });
    let soaked = soak.await;
    assert!(soaked.violated.is_empty() && soaked.broken.is_empty(), "{soaked:?}: {path:?}");
    assert!(soaked.histories >= 2 && soaked.commits > 0 && soaked.faults > 0, "{soaked:?}");
    let _ = std::fs::remove_dir_all(path);
}

/// One history in a synchronous failover and one after a restore are among them, and two with more
/// compensations than the limit.
#[tokio::test(flavor = "multi_thread")]
async fn sampled_budgets_satisfy_all_invariants() {
    let samples = [Sample { seed: 5, histories: 3 }, Sample::one(7_100), Sample::one(7_208)];
    check(Workload::Budgets, &samples).await;
}

/// A database without losses, a restored one, and a synchronous failover.
#[tokio::test(flavor = "multi_thread")]
async fn sampled_approvals_satisfy_all_invariants() {
    check(Workload::Approvals, &[Sample { seed: 6, histories: 3 }]).await;
}

/// Histories of consecutive seeds.
struct Sample {
    seed: u64,
    histories: u64,
}

impl Sample {
    fn one(seed: u64) -> Self {
        Self { seed, histories: 1 }
    }
}

/// Records and checks the samples concurrently.
async fn check(workload: Workload, samples: &[Sample]) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // Kept for analysis after a failure.
    let path = dir.keep();
    let mut running = JoinSet::new();
    for &Sample { seed, histories } in samples {
        let soaking = soak(Soak {
            workload: Some(workload),
            seed,
            histories,
            lasts: Duration::from_mins(10),
            at_once: 1,
            dir: path.clone(),
        });
        running.spawn(async move { (soaking.await, histories) });
    }
    for (soaked, histories) in running.join_all().await {
        assert!(
            soaked.violated.is_empty() && soaked.broken.is_empty(),
            "{soaked:?}: {}",
            path.display()
        );
        assert_eq!(soaked.histories, histories);
    }
    let _ = std::fs::remove_dir_all(path);
}
