//! Large batches, and many commits in one append.

use std::time::Instant;

use registry_core::{Revision, limits};

use crate::{
    append::{assert_holds, whole_log},
    fixture::Fixture,
    log::{Draft, Log},
};

fn big(prefix: &str, changes: usize) -> Draft {
    (0..changes).fold(Draft::new(), |draft, i| draft.register(&format!("{prefix}{i}"), "1.0.0"))
}

#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn report(what: &str, count: usize, begin: Instant) {
    let rate = count as f64 / begin.elapsed().as_secs_f64();
    println!("{what}: {count} in {:?}, {rate:.0}/s", begin.elapsed());
}

pub(crate) async fn commit_with_five_thousand_changes_is_stored(fixture: &Fixture) {
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    log.commit(big("S", limits::BATCH_CHANGES));
    let begin = Instant::now();
    store.append(Revision(0), &log.commits).await.unwrap();
    report("changes in one commit", limits::BATCH_CHANGES, begin);
    assert_holds(&store, &log).await;
}

pub(crate) async fn many_commits_are_appended_together(fixture: &Fixture) {
    const COMMITS: usize = 300;
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    log.append(&store, Draft::new().register("First", "1.0.0")).await;
    for i in 0..COMMITS {
        let draft = Draft::new().register(&format!("S{i}"), "1.0.0").request(&format!("r{i}"));
        log.commit(draft.deprecate("First", "1.0.0", &format!("reason {i}")));
    }
    let begin = Instant::now();
    store.append(Revision(1), &log.commits[1..]).await.unwrap();
    report("commits in one append", COMMITS, begin);
    assert_holds(&store, &log).await;
}

pub(crate) async fn pages_end_early_at_large_commits(fixture: &Fixture) {
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    for part in ["A", "B", "C"] {
        log.append(&store, big(part, 3_400)).await;
    }
    log.append(&store, Draft::new().register("D", "1.0.0")).await;
    let position = (Revision(0), registry_core::ChainHash::genesis(store.registry()));
    // The third commit exceeds 10,000 changes in total, so it ends the page.
    assert_eq!(store.commits_after(position, 100).await.unwrap().len(), 3);
    assert_eq!(store.commits_after(position, 2).await.unwrap().len(), 2);
    assert!(whole_log(&store, 100).await == log.commits);
}
