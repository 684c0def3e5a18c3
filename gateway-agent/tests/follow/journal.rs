//! The journal of a large snapshot: appended, replayed, damaged, foreign, stale and compacted.

use std::{fs, path::Path};

use registry_core::{Catalog, SealedCommit};

use crate::{
    disk::{beside, live, loaded, place},
    history::History,
};

/// The size of a document, so that six documents need a journal.
const BIG: usize = 200_000;
const SNAPSHOT: usize = 6;

/// A history whose first six revisions are a snapshot on disk.
async fn snapshot_of(history: &History, path: &Path) {
    live(path, |cache| cache.replace(history.at(SNAPSHOT).clone())).await;
}

/// A history with a large snapshot and small commits after it.
fn history(more: usize) -> History {
    let mut history = History::with_documents("r", SNAPSHOT, BIG);
    (0..more).for_each(|_| history.grow(50));
    history
}

fn step(history: &History, revision: usize) -> (Catalog, SealedCommit) {
    (history.at(revision).clone(), history.commit(revision).clone())
}

/// Writes the commits after the snapshot up to a revision, each in its own process life.
async fn journal_of(history: &History, path: &Path, to: usize) {
    for revision in SNAPSHOT + 1..=to {
        let (catalog, commit) = step(history, revision);
        live(path, |cache| cache.advance(catalog, [commit])).await;
    }
}

#[tokio::test]
async fn large_catalog_is_appended_not_rewritten() {
    let (_dir, path) = place();
    let history = history(3);
    snapshot_of(&history, &path).await;
    let snapshot = fs::read(&path).expect("the snapshot");
    assert!(snapshot.len() > 1024 * 1024);
    live(&path, |cache| {
        for revision in 7..=8 {
            let (catalog, commit) = step(&history, revision);
            cache.advance(catalog, [commit]);
        }
    })
    .await;
    assert_eq!(fs::read(&path).expect("the snapshot"), snapshot);
    assert_eq!(loaded(&path), Some(history.at(8).digest()));
    journal_of(&history, &path, SNAPSHOT).await;
    let (catalog, commit) = step(&history, 9);
    let cache = live(&path, |cache| cache.advance(catalog, [commit])).await;
    assert_eq!(cache.persisted().borrow().0, 9);
    drop(cache);
    assert_eq!(fs::read(&path).expect("the snapshot"), snapshot);
    assert_eq!(loaded(&path), Some(history.head().digest()));
}

#[tokio::test]
async fn damaged_tail_loses_only_tail() {
    let (_dir, path) = place();
    let history = history(3);
    snapshot_of(&history, &path).await;
    let log = beside(&path, ".log");
    let mut ends = vec![0];
    for revision in 7..=9 {
        journal_of_one(&history, &path, revision).await;
        ends.push(usize::try_from(fs::metadata(&log).expect("the journal").len()).expect("small"));
    }
    let whole = fs::read(&log).expect("the journal");
    let complete =
        |length: usize| SNAPSHOT + ends.iter().rposition(|&end| end <= length).expect("0");
    for length in (0..=whole.len()).step_by(23).chain([whole.len() - 1]) {
        fs::write(&log, &whole[..length]).expect("written");
        let expected = history.at(complete(length)).digest();
        assert_eq!(loaded(&path), Some(expected), "torn after {length} bytes");
    }
    for at in (0..whole.len()).step_by(13) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&log, &bytes).expect("written");
        let expected = history.at(complete(at)).digest();
        assert_eq!(loaded(&path), Some(expected), "byte {at}");
    }
}

async fn journal_of_one(history: &History, path: &Path, revision: usize) {
    let (catalog, commit) = step(history, revision);
    live(path, |cache| cache.advance(catalog, [commit])).await;
}

#[tokio::test]
async fn damaged_journal_is_not_extended() {
    let (_dir, path) = place();
    let history = history(4);
    snapshot_of(&history, &path).await;
    journal_of(&history, &path, 9).await;
    let log = beside(&path, ".log");
    let whole = fs::read(&log).expect("the journal");
    fs::write(&log, &whole[..whole.len() - 5]).expect("written");
    live(&path, |cache| {
        assert_eq!(cache.current().revision().0, 8);
        for revision in 9..=10 {
            let (catalog, commit) = step(&history, revision);
            cache.advance(catalog, [commit]);
        }
    })
    .await;
    assert_eq!(loaded(&path), Some(history.at(10).digest()));
    assert!(!log.exists(), "the whole was written anew");
}

#[tokio::test]
async fn stale_frames_after_compaction_are_skipped() {
    let (_dir, path) = place();
    let history = history(4);
    snapshot_of(&history, &path).await;
    journal_of(&history, &path, 8).await;
    let log = beside(&path, ".log");
    let stale = fs::read(&log).expect("the journal");
    live(&path, |cache| cache.replace(history.at(9).clone())).await;
    assert!(!log.exists());
    fs::write(&log, &stale).expect("as if it had not been removed");
    assert_eq!(loaded(&path), Some(history.at(9).digest()));
    journal_of_one(&history, &path, 10).await;
    assert_eq!(loaded(&path), Some(history.at(10).digest()));
}

#[tokio::test]
async fn foreign_journal_is_rejected() {
    let (_dir, path) = place();
    let history = history(2);
    snapshot_of(&history, &path).await;
    let (_other_dir, other_path) = place();
    let mut other = History::with_documents("other", SNAPSHOT, BIG);
    other.grow(50);
    snapshot_of(&other, &other_path).await;
    journal_of(&other, &other_path, 7).await;
    fs::copy(beside(&other_path, ".log"), beside(&path, ".log")).expect("copied");
    assert_eq!(loaded(&path), Some(history.at(SNAPSHOT).digest()));
    journal_of_one(&history, &path, 7).await;
    assert_eq!(loaded(&path), Some(history.at(7).digest()));
}

#[tokio::test]
async fn long_journal_is_compacted() {
    let (_dir, path) = place();
    let mut history = history(0);
    snapshot_of(&history, &path).await;
    let snapshot = fs::metadata(&path).expect("the snapshot").len();
    let log = beside(&path, ".log");
    let mut compactions = 0;
    for revision in 7..=16 {
        history.grow(BIG);
        journal_of_one(&history, &path, revision).await;
        assert_eq!(loaded(&path), Some(history.head().digest()), "revision {revision}");
        let length = fs::metadata(&log).map_or(0, |log| log.len());
        assert!(length <= fs::metadata(&path).expect("the snapshot").len() / 2);
        compactions += usize::from(length == 0);
    }
    assert!((1..=3).contains(&compactions), "{compactions}");
    assert!(fs::metadata(&path).expect("the snapshot").len() > snapshot);
}

#[tokio::test]
async fn nonconsecutive_commit_rewrites_snapshot() {
    let (_dir, path) = place();
    let history = history(3);
    snapshot_of(&history, &path).await;
    live(&path, |cache| {
        cache.replace(history.at(8).clone());
        let (catalog, commit) = step(&history, 9);
        cache.advance(catalog, [commit]);
    })
    .await;
    assert!(!beside(&path, ".log").exists());
    assert_eq!(loaded(&path), Some(history.at(9).digest()));
}
