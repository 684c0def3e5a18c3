//! Complete, incomplete and damaged lines of the journal, and its file.

use gateway_policy::CallerIdentity;
use registry_core::Revision;
use serde_json::json;

use super::*;

fn entry(saga: &str, step: usize) -> Entry<'_> {
    let event = Event::ActionStarted { step, input: json!({ "a": "ä\n" }) };
    Entry { saga: saga.into(), at_ms: 7, what: EntryKind::Event(Cow::Owned(event)) }
}

fn began() -> SagaStart {
    SagaStart {
        tool: "tool/t@1.0.0".parse().unwrap(),
        pointer: String::new(),
        instance: None,
        parent: None,
        identity: CallerIdentity::Anonymous,
        quota_key: None,
        revision: Revision(1),
        input: json!({}),
    }
}

fn lines(count: usize) -> Vec<u8> {
    let mut lines = Vec::new();
    let first = Entry { saga: "s".into(), at_ms: 1, what: EntryKind::Started(Cow::Owned(began())) };
    first.write(&mut lines).unwrap();
    (1..count).for_each(|step| _ = entry("s", step).write(&mut lines).unwrap());
    lines
}

#[test]
fn incomplete_end_is_truncated_other_damage_reported() {
    let whole = lines(3);
    let ends: Vec<_> =
        whole.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1).collect();
    for cut in 0..=whole.len() {
        let found = JournalContent::read(&whole[..cut]);
        let good = ends.iter().filter(|end| **end <= cut).count();
        let read: usize = found.entries.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(found.entries.len(), good, "cut at {cut}");
        let length = if good == 0 { 0 } else { ends[good - 1] };
        assert_eq!((found.length, found.is_torn), (length as u64, cut != length));
        assert_eq!(read, length);
        assert!(found.damaged.is_empty());
    }
    // This includes the last line: it is complete, so it may have been acknowledged.
    for at in 0..whole.len() - 1 {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        if damaged[at] == b'\n' || whole[at] == b'\n' {
            continue;
        }
        let found = JournalContent::read(&damaged);
        let line = 1 + ends.iter().filter(|end| **end <= at).count();
        assert_eq!(found.damaged, [line], "at {at}");
        assert_eq!(found.entries.len(), 2);
    }
}

#[tokio::test]
async fn acknowledged_entries_survive_an_incomplete_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let (journal, found) = Journal::open(&path).unwrap();
    assert!(found.entries.is_empty());
    journal.append(lines(2)).await.unwrap().unwrap();
    drop(journal);
    let mut torn = fs::read(&path).unwrap();
    torn.extend_from_slice(b"0123456789abcdef {\"saga\"");
    fs::write(&path, &torn).unwrap();
    let (journal, found) = Journal::open(&path).unwrap();
    assert_eq!((found.entries.len(), found.is_torn), (2, true));
    let mut line = Vec::new();
    entry("s", 9).write(&mut line).unwrap();
    journal.append(line).await.unwrap().unwrap();
    let history = Arc::new(History::new(began()));
    journal.replace(vec![SavedSaga { saga: "s".into(), at_ms: 7, history }]);
    let mut line = Vec::new();
    entry("s", 10).write(&mut line).unwrap();
    journal.append(line).await.unwrap().unwrap();
    let (_, found) = Journal::open(&path).unwrap();
    assert_eq!((found.entries.len(), found.is_torn), (2, false));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn damaged_journal_is_copied_aside() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let mut damaged = lines(3);
    damaged[30] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let (_, found) = Journal::open(&path).unwrap();
    assert_eq!(found.damaged, [1]);
    let aside = || fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let aside = || aside().filter(|path| path.to_string_lossy().contains("journal.damaged-"));
    assert_eq!(fs::read(aside().next().unwrap()).unwrap(), damaged);
    std::thread::sleep(std::time::Duration::from_millis(2));
    Journal::open(&path).unwrap();
    assert_eq!(aside().count(), 2, "the earlier copy is not overwritten");
}

#[test]
fn acknowledged_length_is_known_after_each_write() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let file = Some(File::create(&path).unwrap());
    let mut writer = Writer { path: path.clone(), file, size: JournalSize::new(0) };
    for count in [2, 3] {
        writer.write(&lines(count)).unwrap();
        assert_eq!(writer.size.now(), fs::metadata(&path).unwrap().len());
    }
}

#[test]
fn failed_write_is_retried_at_acknowledged_length() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("later/journal");
    let mut writer = Writer { path: path.clone(), file: None, size: JournalSize::new(0) };
    writer.write(&lines(1)).unwrap_err();
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(&path, "part of a line").unwrap();
    writer.write(&lines(2)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), lines(2));

    // The file can be neither written nor truncated.
    writer.file = Some(File::open(&path).unwrap());
    writer.write(&lines(1)).unwrap_err();
    writer.write(&lines(1)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), [lines(2), lines(1)].concat());

    // It is not rewritten while its valid length is unknown.
    let kept =
        || vec![SavedSaga { saga: "s".into(), at_ms: 7, history: Arc::new(History::new(began())) }];
    writer.file = None;
    fs::rename(&path, dir.path().join("aside")).unwrap();
    writer.replace(kept());
    assert!(writer.file.is_none() && !path.exists());
    let (now, most) = (writer.size.now(), writer.size.threshold.load(Ordering::Relaxed));
    assert_eq!(most, now + MIN_REWRITE_BYTES, "no immediate second rewrite");
    let half = [&lines(2)[..], &lines(1)[..], b"part of a line"].concat();
    fs::write(&path, half).unwrap();
    writer.write(&lines(1)).unwrap();
    let whole = [lines(2), lines(1), lines(1)].concat();
    assert_eq!(fs::read(&path).unwrap(), whole);

    // The current file stays if no new one can be written.
    fs::create_dir(with_suffix(&path, ".tmp")).unwrap();
    writer.replace(kept());
    assert_eq!((fs::read(&path).unwrap(), writer.size.now()), (whole.clone(), whole.len() as u64));
    fs::remove_dir(with_suffix(&path, ".tmp")).unwrap();
    writer.replace(kept());
    assert!(fs::read(&path).unwrap().len() < whole.len());
    assert_eq!(writer.size.now(), fs::metadata(&path).unwrap().len());
}

#[cfg(unix)]
#[test]
fn unreadable_journal_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    std::os::unix::fs::symlink(&path, &path).unwrap();
    assert!(Journal::open(&path).is_err());
    assert!(path.is_symlink());
}
