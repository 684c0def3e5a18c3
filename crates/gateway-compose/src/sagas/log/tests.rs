//! A full disk: no entry is acknowledged, pending events are kept, and no saga id is released
//! early. A growing journal is rewritten.

use std::sync::atomic::Ordering;

use gateway_policy::CallerIdentity;
use registry_core::Revision;
use serde_json::json;

use super::*;
use crate::{
    Cause,
    history::{SagaStart, SagaStatus},
    sagas::{Journal, StartResult, journal_path},
};

fn began() -> SagaStart {
    SagaStart {
        tool: "tool/t@1.0.0".parse().unwrap(),
        pointer: String::new(),
        instance: Some("7".to_owned()),
        parent: None,
        identity: CallerIdentity::Anonymous,
        quota_key: None,
        revision: Revision(1),
        input: json!({}),
    }
}

/// The log of a new saga.
fn first(sagas: &Arc<Sagas>, began: SagaStart) -> SagaLog {
    let Ok(StartResult::Started(log)) = sagas.begin(began) else { panic!("the saga exists") };
    log
}

fn end(status: SagaStatus) -> SagaEnd {
    SagaEnd { status, failed_step: None, error: None, steps: Vec::new(), output: None }
}

#[tokio::test]
async fn saga_id_is_released_after_end_is_on_disk() {
    let journal = Some(Journal::full());
    let sagas = Arc::new(Sagas { journal, ..Sagas::default() });
    let log = first(&sagas, began());
    log.note(&Event::ActionCompleted { step: 0, result: json!("kept") }).unwrap();
    let error = log.write(&Event::ActionStarted { step: 1, input: json!({}) }).await.unwrap_err();
    insta::assert_snapshot!(error, @"No space left on device (os error 28)");
    let pending = String::from_utf8(log.pending().clone()).unwrap();
    assert_eq!(
        pending.lines().count(),
        2,
        "the start and the completed action, not the planned one"
    );
    assert!(log.end(end(SagaStatus::Completed)).await.is_err());
    log.write(&Event::Failed { step: None, error: json!({}), is_unknown: false })
        .await
        .unwrap_err();
    assert_eq!(
        log.history().result(0),
        Some(&json!("kept")),
        "the result is needed for compensation"
    );
    assert!(log.history().ended().is_none());
    assert!(log.end(end(SagaStatus::Compensated)).await.is_err());
    assert!(matches!(sagas.begin(began()), Ok(StartResult::Existing { .. })));
}

#[tokio::test]
async fn saga_without_entry_on_disk_is_removed() {
    let journal = Some(Journal::full());
    let sagas = Arc::new(Sagas { journal, ..Sagas::default() });
    let log = first(&sagas, began());
    let mut ended = log.ended();
    log.write(&Event::ActionStarted { step: 0, input: json!({}) }).await.unwrap_err();
    assert!(!log.is_on_disk());
    log.abandon(end(SagaStatus::Compensated));
    let told = ended.wait_for(Option::is_some).await.unwrap().clone();
    assert_eq!(told.unwrap().status, SagaStatus::Compensated);
    assert_eq!(sagas.lock().iter().count(), 0);
    assert!(matches!(sagas.begin(began()), Ok(StartResult::Started(_))), "the saga id is free");

    let dir = tempfile::tempdir().unwrap();
    let sagas = Arc::new(Sagas::open(&dir.path().join("cache")).unwrap());
    let log = first(&sagas, began());
    log.write(&Event::ActionStarted { step: 0, input: json!({}) }).await.unwrap();
    assert!(log.is_on_disk());
}

#[tokio::test]
async fn failed_retry_request_restores_state() {
    let journal = Some(Journal::full());
    let sagas = Arc::new(Sagas { journal, ..Sagas::default() });
    let log = first(&sagas, began());
    log.note(&Event::CompensationFailed { step: 0, error: json!("no") }).unwrap();
    log.note(&Event::Ended(end(SagaStatus::CompensationFailed))).unwrap();
    let told = |history: &History| serde_json::to_string(history).unwrap();
    let before = sagas.lock().claim(log.id()).unwrap();
    assert!(log.history().ended().is_none());
    assert!(log.request_retry(Arc::clone(&before)).await.is_err());
    assert_eq!(told(&log.history()), told(&before), "the state is unchanged");
    assert!(sagas.lock().claim(log.id()).is_ok());
}

/// A cancelled writer does not know whether its entry is on disk.
#[tokio::test]
async fn entry_of_cancelled_writer_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let sagas = Arc::new(Sagas::open(&cache).unwrap());
    let log = first(&sagas, began());
    let acting = Event::ActionStarted { step: 0, input: json!({}) };
    let mut cut_off = Box::pin(log.write(&acting));
    assert!(futures_util::poll!(cut_off.as_mut()).is_pending());
    drop(cut_off);
    assert!(log.is_on_disk(), "the entry may be on disk");
    let failed = Event::Failed { step: Some(0), error: json!("cut off"), is_unknown: true };
    log.write(&failed).await.unwrap();
    assert!(log.pending().is_empty());
    let written = std::fs::read_to_string(journal_path(&cache)).unwrap();
    assert_eq!(written.lines().count(), 4, "the start is written twice: {written}");
    drop((log, sagas));
    let sagas = Sagas::open(&cache).unwrap();
    let table = sagas.lock();
    let (_, known) = table.iter().next().unwrap();
    assert_eq!(table.iter().count(), 1);
    assert_eq!(known.history.error(), Some(&json!("cut off")));
}

#[tokio::test]
async fn damage_is_reported_once_and_doubt_persists() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let begins = async |sagas: &Arc<Sagas>, instance: &str| {
        let began = SagaStart { instance: Some(instance.to_owned()), ..began() };
        let log = first(sagas, began);
        log.write(&Event::ActionStarted { step: 0, input: json!({}) }).await.unwrap();
        log.id().to_owned()
    };
    let sagas = Arc::new(Sagas::open(&cache).unwrap());
    let doubtful = begins(&sagas, "1").await;
    let damaged = begins(&sagas, "2").await;
    drop(sagas);
    let journal = journal_path(&cache);
    let mut lines = std::fs::read(&journal).unwrap();
    let third = lines.iter().enumerate().filter(|(_, b)| **b == b'\n').nth(1).unwrap().0 + 1;
    lines[third] ^= 1;
    std::fs::write(&journal, lines).unwrap();
    for damage in [2, 0] {
        let sagas = Arc::new(Sagas::open(&cache).unwrap());
        // Entries of unknown sagas follow the known ones.
        begins(&sagas, &format!("of {damage}")).await;
        let table = sagas.lock();
        assert_eq!(table.damaged, damage, "the damaged line and the entries that depend on it");
        let history = &table.get(&doubtful).unwrap().history;
        assert_eq!(history.ended().unwrap().status, SagaStatus::CompensationFailed);
        assert!(table.get(&damaged).is_none());
    }
}

#[tokio::test]
async fn entry_that_is_too_deep_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let nested = |levels: usize| (0..levels).fold(json!(1), |value, _| json!([value]));
    let sagas = Arc::new(Sagas::open(&cache).unwrap());
    let deep = SagaStart { input: nested(115), ..began() };
    let Err(Cause::Journal(why)) = sagas.begin(deep) else { panic!("the entry is accepted") };
    insta::assert_snapshot!(why, @"the entry is nested too deeply");
    let deepest = SagaStart { input: nested(112), ..began() };
    let log = first(&sagas, deepest);
    let acted = |levels| Event::ActionCompleted { step: 0, result: nested(levels) };
    assert!(log.note(&acted(112)).is_err());
    log.note(&acted(111)).unwrap();
    log.write(&Event::ActionStarted { step: 1, input: nested(111) }).await.unwrap();
    // This also holds for the rewritten journal.
    let journal = sagas.journal.as_ref().unwrap();
    journal.size.threshold.store(0, Ordering::Relaxed);
    log.write(&Event::RetryRequested).await.unwrap();
    log.write(&Event::RetryRequested).await.unwrap();
    let written = std::fs::read_to_string(journal_path(&cache)).unwrap();
    assert!(written.contains(r#""saved""#) && written.lines().count() == 2, "{written}");
    drop((log, sagas));
    let sagas = Sagas::open(&cache).unwrap();
    let table = sagas.lock();
    assert_eq!(table.damaged, 0);
    let (_, known) = table.iter().next().unwrap();
    assert_eq!(known.history.result(0), Some(&nested(111)));
}

/// Another saga triggers a rewrite before this one is on disk.
#[tokio::test]
async fn rewrite_omits_sagas_not_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let sagas = Arc::new(Sagas::open(&cache).unwrap());
    let other = SagaStart { instance: None, ..began() };
    let late = first(&sagas, began());
    let other = first(&sagas, other);
    other.write(&Event::RetryRequested).await.unwrap();
    sagas.journal.as_ref().unwrap().size.threshold.store(0, Ordering::Relaxed);
    other.write(&Event::RetryRequested).await.unwrap();
    other.write(&Event::RetryRequested).await.unwrap();
    let written = || std::fs::read_to_string(journal_path(&cache)).unwrap();
    assert!(written().contains("saved") && !written().contains(late.id()));
    late.write(&Event::RetryRequested).await.unwrap();
    assert!(written().contains(late.id()));
}

#[tokio::test]
async fn journal_is_rewritten_beyond_size_threshold() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let sagas = Arc::new(Sagas::open(&cache).unwrap());
    let log = first(&sagas, began());
    let size = &sagas.journal.as_ref().unwrap().size;
    let written = async || {
        log.write(&Event::RetryRequested).await.unwrap();
        std::fs::metadata(journal_path(&cache)).unwrap().len()
    };
    let first = written().await;
    let line = written().await - first;
    let most = || size.threshold.load(Ordering::Relaxed);
    assert_eq!(most(), 16 << 20);
    size.threshold.store(first + 2 * line, Ordering::Relaxed);
    assert_eq!(written().await, first + 2 * line);
    assert_eq!(written().await, first + 3 * line, "below the threshold");
    written().await;
    let anew = written().await;
    let kept = anew - line;
    assert!(kept < first + line, "{kept}");
    assert_eq!(most(), (16 << 20) + 3 * kept);
    assert_eq!(written().await, anew + line, "later entries are appended");
}
