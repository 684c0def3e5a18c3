//! Histories of some seeds. `proof plan --seed N` prints their faults.

use std::time::Duration;

use history_check::Workload;
use proof::soak::{Soak, soak};

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
    let dir = tempfile::tempdir().expect("a temporary directory");
    // Kept for analysis after a failure.
    let path = dir.keep();
    let sample = |seed, histories| {
        soak(Soak {
            workload: Some(Workload::Budgets),
            seed,
            histories,
            lasts: Duration::from_mins(10),
            at_once: 1,
            dir: path.clone(),
        })
    };
    let (first, second, third) = tokio::join!(sample(5, 3), sample(7_100, 1), sample(7_208, 1));
    for soaked in [&first, &second, &third] {
        assert!(soaked.violated.is_empty() && soaked.broken.is_empty(), "{soaked:?}: {path:?}");
    }
    assert_eq!([first, second, third].map(|soaked| soaked.histories), [3, 1, 1]);
    let _ = std::fs::remove_dir_all(path);
}
