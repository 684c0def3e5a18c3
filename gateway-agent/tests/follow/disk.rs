//! The copy on disk: damaged, edited, foreign, interrupted at any point, and shared by mistake.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use gateway_agent::{
    cache::{Cache, CacheError},
    startup::StartupValidation,
};
use gateway_policy::ValidationMode;
use registry_core::{Catalog, Digest, Document, Kind, registry_file::write_export};
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::history::History;

/// The cache's path in its own directory.
pub(crate) fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("registry-v2.json");
    (dir, path)
}

/// A file next to the cache.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", path.display()))
}

/// Opens the cache, runs an action, and flushes.
pub(crate) async fn live(path: &Path, act: impl FnOnce(&Cache)) -> Cache {
    let (cache, writer) = Cache::open(path, StartupValidation::default()).expect("a cache");
    act(&cache);
    let stop = CancellationToken::new();
    stop.cancel();
    writer.run(stop).await;
    cache
}

/// The catalog that a gateway would load.
pub(crate) fn loaded(path: &Path) -> Option<Digest> {
    let (cache, _writer) = Cache::open(path, StartupValidation::default()).expect("a cache");
    cache.has_catalog().then(|| cache.current().digest())
}

async fn two_states(path: &Path) -> (Digest, Digest) {
    let history = History::new("r", 2);
    for revision in 1..=2 {
        live(path, |cache| cache.replace(history.at(revision).clone())).await;
    }
    (history.at(1).digest(), history.at(2).digest())
}

#[tokio::test]
async fn written_catalog_is_loaded() {
    let (_dir, path) = place();
    assert_eq!(loaded(&path), None);
    let history = History::new("r", 6);
    let cache = live(&path, |cache| cache.replace(history.head().clone())).await;
    assert_eq!(cache.persisted().borrow().0, 6);
    drop(cache);
    let (cache, _writer) = Cache::open(&path, StartupValidation::default()).expect("a cache");
    assert_eq!(*cache.current(), *history.head());
    assert_eq!(cache.persisted().borrow().0, 6);
    assert!(cache.age().is_some(), "the file's age is known");
    assert!(!beside(&path, ".previous").exists(), "there is no previous one yet");
}

#[tokio::test]
async fn truncated_file_falls_back_to_previous() {
    let (_dir, path) = place();
    let (first, second) = two_states(&path).await;
    let whole = fs::read(&path).expect("the copy");
    assert_eq!(loaded(&path), Some(second));
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).expect("written");
        let digest = loaded(&path).expect("one of both");
        // Only the final line break is optional.
        let expected = if length + 1 == whole.len() { second } else { first };
        assert_eq!(digest, expected, "torn after {length} of {} bytes", whole.len());
    }
}

#[tokio::test]
async fn corrupted_bytes_are_rejected_or_harmless() {
    let (_dir, path) = place();
    let (first, second) = two_states(&path).await;
    let whole = fs::read(&path).expect("the copy");
    let mut outcomes = HashSet::new();
    let mut harmless = Vec::new();
    for at in 0..whole.len() {
        for mask in [0x01, 0x20, 0x80] {
            let mut bytes = whole.clone();
            bytes[at] ^= mask;
            fs::write(&path, &bytes).expect("written");
            let digest = loaded(&path).expect("one of both");
            assert!([first, second].contains(&digest), "byte {at} with {mask:#x}");
            outcomes.insert(digest);
            if digest == second {
                harmless.push((at, mask));
            }
        }
    }
    assert_eq!(outcomes.len(), 2);
    // White space, and the case of hexadecimal digits.
    assert!(harmless.len() * 20 < whole.len() * 3, "{harmless:?}");
}

#[tokio::test]
async fn invalid_copies_load_nothing() {
    let (_dir, path) = place();
    two_states(&path).await;
    fs::write(&path, "{}").expect("written");
    fs::write(beside(&path, ".previous"), [0xff; 100]).expect("written");
    assert_eq!(loaded(&path), None);
    let history = History::new("r", 3);
    live(&path, |cache| cache.replace(history.head().clone())).await;
    assert_eq!(loaded(&path), Some(history.head().digest()), "it is good again");
}

#[tokio::test]
async fn invalid_copy_never_replaces_previous() {
    let (_dir, path) = place();
    let (first, _) = two_states(&path).await;
    fs::write(&path, "torn").expect("written");
    let history = History::new("r", 5);
    live(&path, |cache| {
        assert_eq!(cache.current().digest(), first);
        cache.replace(history.head().clone());
    })
    .await;
    assert_eq!(loaded(&path), Some(history.head().digest()));
    fs::write(&path, "torn again").expect("written");
    assert_eq!(loaded(&path), Some(first), "the previous good one is still there");
}

#[tokio::test]
async fn crash_during_write_loses_nothing() {
    let history = History::new("r", 3);
    let new = write_export(history.at(3));
    for step in 0..4 {
        let (_dir, path) = place();
        let (_, second) = two_states(&path).await;
        // The states of an interrupted write: a partial temporary file, a complete one, the link,
        // the second name.
        let temporary = if step == 0 { &new[..new.len() / 2] } else { &new[..] };
        fs::write(beside(&path, ".tmp"), temporary).expect("written");
        if step >= 2 {
            fs::hard_link(&path, beside(&path, ".previous.tmp")).expect("linked");
        }
        if step >= 3 {
            let (link, previous) = (beside(&path, ".previous.tmp"), beside(&path, ".previous"));
            fs::rename(link, previous).expect("renamed");
        }
        assert_eq!(loaded(&path), Some(second), "step {step}");
        live(&path, |cache| cache.replace(history.at(3).clone())).await;
        assert_eq!(loaded(&path), Some(history.at(3).digest()), "step {step}");
        fs::remove_file(&path).expect("removed");
        assert_eq!(loaded(&path), Some(second), "step {step}");
    }
}

#[tokio::test]
async fn two_gateways_cannot_share_cache() {
    let (_dir, path) = place();
    let first = Cache::open(&path, StartupValidation::default()).expect("a cache");
    let second = Cache::open(&path, StartupValidation::default());
    let refused = second.expect_err("it is in use");
    assert!(matches!(refused, CacheError::Locked(_)));
    drop(first);
    Cache::open(&path, StartupValidation::default()).expect("it is free again");
}

#[tokio::test]
async fn uncreatable_directory_is_reported() {
    let (dir, _) = place();
    fs::write(dir.path().join("file"), "").expect("written");
    let refused = Cache::open(&dir.path().join("file/cache.json"), StartupValidation::default());
    let message = refused.expect_err("a file is no directory").to_string();
    assert!(message.contains(&dir.path().join("file").display().to_string()), "{message}");
}

#[tokio::test]
async fn failed_write_is_retried() {
    let (_dir, path) = place();
    let history = History::new("r", 2);
    fs::create_dir(beside(&path, ".tmp")).expect("something is in the way");
    let cache = live(&path, |cache| cache.replace(history.at(1).clone())).await;
    assert_eq!((cache.current().revision().0, cache.persisted().borrow().0), (1, 0));
    drop(cache);
    fs::remove_dir(beside(&path, ".tmp")).expect("out of the way");
    live(&path, |cache| cache.replace(history.at(2).clone())).await;
    assert_eq!(loaded(&path), Some(history.at(2).digest()));
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn unwritable_cache_is_served() {
    let (_dir, path) = place();
    let history = History::new("r", 2);
    live(&path, |cache| cache.replace(history.at(1).clone())).await;
    // Root can write into read-only directories, but cannot create files in /sys.
    let lock = beside(&path, ".lock");
    fs::remove_file(&lock).expect("removed");
    std::os::unix::fs::symlink("/sys/gateway.lock", &lock).expect("a link");
    assert_eq!(loaded(&path), Some(history.at(1).digest()));
    let cache = live(&path, |cache| cache.replace(history.at(2).clone())).await;
    assert_eq!((cache.current().revision().0, cache.persisted().borrow().0), (2, 1));
    assert_eq!(loaded(&path), Some(history.at(1).digest()), "nothing is written without the lock");

    let (cache, writer) = Cache::open(&path, StartupValidation::default()).expect("a cache");
    fs::remove_file(&lock).expect("it can be written again");
    cache.replace(history.at(2).clone());
    let stop = CancellationToken::new();
    stop.cancel();
    writer.run(stop).await;
    assert_eq!(cache.persisted().borrow().0, 2);
}

#[tokio::test]
async fn startup_checks_apply_to_cache() {
    let (_dir, path) = place();
    let server = json!({ "name": "s", "version": "1.0.0",
        "provides": [{ "tool": "gone", "version": "1.0.0" }] });
    let server = Document::parse(Kind::Server, &server).expect("a server");
    let mut record = (**History::new("r", 1).head().iter().next().expect("a record").1).clone();
    record.document = server.into();
    let good = History::new("r", 1);
    let head = good.head();
    let broken = Catalog::restore(head.registry().clone(), head.revision(), head.chain(), [record]);
    fs::write(&path, write_export(&broken)).expect("written");
    assert_eq!(loaded(&path), None, "a missing tool is an error by default");
    fs::write(beside(&path, ".previous"), write_export(head)).expect("written");
    assert_eq!(loaded(&path), Some(head.digest()), "the previous one is good");
    let modes =
        StartupValidation { missing_entity: ValidationMode::Warn, ..StartupValidation::default() };
    let (cache, _writer) = Cache::open(&path, modes).expect("a cache");
    assert_eq!(cache.current().digest(), broken.digest());
}
