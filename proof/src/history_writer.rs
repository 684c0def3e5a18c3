//! Writes a history: one line per event, in the order of observation.

use std::{
    fs::File,
    io::{self, BufWriter, Write as _},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use history_check::{Event, Line, log::RECORDER};

/// A history file that is open for writing.
#[derive(Debug)]
pub struct HistoryWriter {
    began: Instant,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: BufWriter<File>,
    lines: u64,
    ops: u64,
    commits: u64,
    faults: u64,
}

/// The counts of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Events.
    pub lines: u64,
    /// Commits in the registry's log.
    pub commits: u64,
    /// Injected faults.
    pub faults: u64,
}

impl HistoryWriter {
    /// Creates a history file.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = BufWriter::new(File::create_new(path)?);
        let inner = Inner { file, lines: 0, ops: 0, commits: 0, faults: 0 };
        Ok(Self { began: Instant::now(), inner: Mutex::new(inner) })
    }

    /// Writes an event and returns the number of its line.
    pub fn note(&self, who: &str, event: Event) -> u64 {
        let mut inner = self.lock();
        inner.lines += 1;
        let is_of_registry = who == RECORDER;
        inner.commits += u64::from(is_of_registry && matches!(event, Event::Commit { .. }));
        inner.faults += u64::from(matches!(event, Event::Fault { .. }));
        // Read under the lock, so that lines and times have the same order.
        let us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let line = Line { n: inner.lines, us, wall: wall(), who: who.to_owned(), event };
        let mut text = serde_json::to_vec(&line).expect("an event is always JSON");
        text.push(b'\n');
        inner.file.write_all(&text).expect("the history can be written");
        inner.lines
    }

    /// A new call number.
    pub(crate) fn op(&self) -> u64 {
        let mut inner = self.lock();
        inner.ops += 1;
        inner.ops
    }

    /// Flushes the file and returns the counts.
    pub fn finish(&self) -> io::Result<Counts> {
        let mut inner = self.lock();
        inner.file.flush()?;
        Ok(Counts { lines: inner.lines, commits: inner.commits, faults: inner.faults })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wall() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a recorder tells the machine's own time")]
    let now = SystemTime::now();
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
