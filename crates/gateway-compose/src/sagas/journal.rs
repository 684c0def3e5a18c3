//! The saga journal: a file of lines with checksums, written before each step.
//!
//! A line is the first 16 hexadecimal digits of the SHA-256 of its JSON, a space, and the JSON. One
//! thread writes; concurrent entries share one write and one flush. An incomplete last line was
//! never acknowledged and is truncated. Complete lines that are damaged are reported, and the file
//! is copied aside.

use std::{
    borrow::Cow,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
};

use atomic_file::{Access, with_suffix};
use gateway_protocol::jsonrpc;
use registry_core::Digest;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::{
    clock::now_ms,
    history::{Event, History, SagaStart},
};

/// Length of a checksum in hexadecimal digits.
const CHECKSUM_DIGITS: usize = 16;
/// Maximum jobs per write.
const MAX_BATCH: usize = 1_000;
/// Maximum nesting of a new line. A rewritten line is a few levels deeper, and 127 levels can be
/// read.
const MAX_DEPTH: usize = 115;

/// Below this size the file is not rewritten, in bytes.
const MIN_REWRITE_BYTES: u64 = 16 * 1024 * 1024;

/// The size of the journal in bytes.
#[derive(Debug)]
pub(super) struct JournalSize {
    now: AtomicU64,
    /// The threshold for a rewrite.
    pub(in crate::sagas) threshold: AtomicU64,
}

impl JournalSize {
    fn new(length: u64) -> Arc<Self> {
        Arc::new(Self { now: length.into(), threshold: MIN_REWRITE_BYTES.into() })
    }

    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn grow(&self, by: usize) {
        self.now.fetch_add(by as u64, Ordering::Relaxed);
    }
}

/// One line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry<'a> {
    pub(super) saga: Cow<'a, str>,
    /// Milliseconds since 1970.
    pub(super) at_ms: i64,
    pub(super) what: EntryKind<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum EntryKind<'a> {
    Started(Cow<'a, SagaStart>),
    Event(Cow<'a, Event>),
    /// The whole history of a saga in a rewritten journal.
    Saved(Box<Cow<'a, History>>),
}

impl<'a> Entry<'a> {
    pub(super) fn now(saga: &'a str, what: EntryKind<'a>) -> Self {
        Self { saga: saga.into(), at_ms: now_ms(), what }
    }

    /// Appends the entry as a line and returns its length. Fails if the line could not be read
    /// back.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<usize, String> {
        let json = self.json();
        if !jsonrpc::nests_within(&json, MAX_DEPTH) {
            return Err("the entry is nested too deeply".to_owned());
        }
        let before = out.len();
        append(&json, out);
        Ok(out.len() - before)
    }

    fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("an entry serializes as JSON")
    }

    fn read(line: &[u8]) -> Option<Self> {
        let (sum, json) = line.split_at_checked(CHECKSUM_DIGITS)?;
        let json = json.strip_prefix(b" ")?;
        if checksum(json).as_bytes() != sum {
            return None;
        }
        serde_json::from_slice(json).ok()
    }
}

fn append(json: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(checksum(json).as_bytes());
    out.push(b' ');
    out.extend_from_slice(json);
    out.push(b'\n');
}

fn checksum(json: &[u8]) -> String {
    let digest = Digest::compute(json);
    let mut hex = digest.to_string().rsplit(':').next().unwrap_or_default().to_owned();
    hex.truncate(CHECKSUM_DIGITS);
    hex
}

/// The content of a journal file.
#[derive(Debug, Default)]
pub(super) struct JournalContent {
    /// The readable entries and the lengths of their lines.
    pub(super) entries: Vec<(Entry<'static>, usize)>,
    /// The numbers of damaged lines, from 1.
    pub(super) damaged: Vec<usize>,
    /// The number of entries before the last damaged line.
    pub(super) doubtful: usize,
    /// The length without an incomplete last line.
    length: u64,
    is_torn: bool,
}

impl JournalContent {
    fn read(content: &[u8]) -> Self {
        let mut found = Self::default();
        for (i, line) in content.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let whole = line.strip_suffix(b"\n");
            match whole.and_then(Entry::read) {
                Some(entry) => found.entries.push((entry, line.len())),
                // Only a complete line can have been acknowledged.
                None if whole.is_none() => found.is_torn = true,
                None => {
                    found.damaged.push(i + 1);
                    found.doubtful = found.entries.len();
                }
            }
            found.length += if found.is_torn { 0 } else { line.len() as u64 };
        }
        found
    }
}

/// The handle of the writer thread.
#[derive(Debug)]
pub(super) struct Journal {
    jobs: mpsc::Sender<Job>,
    pub(super) size: Arc<JournalSize>,
}

/// A saga in the rewritten journal.
pub(super) struct SavedSaga {
    pub(super) saga: Box<str>,
    pub(super) at_ms: i64,
    pub(super) history: Arc<History>,
}

/// Whether lines are on disk.
pub(super) type Written = Result<(), String>;

enum Job {
    Append { lines: Vec<u8>, done: oneshot::Sender<Written> },
    Replace { kept: Vec<SavedSaga> },
}

impl Journal {
    /// Opens or creates the file and reads it. A damaged file is copied aside.
    pub(super) fn open(path: &Path) -> io::Result<(Self, JournalContent)> {
        let content = match fs::read(path) {
            Ok(content) => content,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                atomic_file::replace(path, b"", Access::OwnerOnly)?;
                Vec::new()
            }
            Err(e) => return Err(e),
        };
        let found = JournalContent::read(&content);
        if !found.damaged.is_empty() {
            keep_aside(path, &content, &found.damaged)?;
        }
        if found.is_torn {
            tracing::warn!(path = %path.display(), "truncating an incomplete last line of the saga journal");
        }
        let ((jobs, todo), size) = (mpsc::channel(), JournalSize::new(found.length));
        let mut writer = Writer { path: path.to_owned(), file: None, size: Arc::clone(&size) };
        let file = writer.reopen()?;
        file.sync_all()?;
        writer.file = Some(file);
        thread::Builder::new().name("sagas".to_owned()).spawn(move || writer.run(&todo))?;
        Ok((Self { jobs, size }, found))
    }

    /// A journal on a full disk.
    #[cfg(test)]
    pub(super) fn full() -> Self {
        let file = OpenOptions::new().append(true).open("/dev/full").ok();
        let ((jobs, todo), size) = (mpsc::channel(), JournalSize::new(0));
        // A path that cannot be replaced.
        let path = "/dev/full/journal".into();
        let writer = Writer { path, file, size: Arc::clone(&size) };
        thread::spawn(move || writer.run(&todo));
        Self { jobs, size }
    }

    /// Queues lines. The receiver resolves when they are on disk.
    pub(super) fn append(&self, lines: Vec<u8>) -> oneshot::Receiver<Written> {
        let (done, written) = oneshot::channel();
        // If the thread has stopped, the sender is dropped and the receiver fails.
        let _ = self.jobs.send(Job::Append { lines, done });
        written
    }

    /// Whether the file has grown beyond the threshold for a rewrite.
    pub(super) fn is_overgrown(&self) -> bool {
        self.size.now() > self.size.threshold.load(Ordering::Relaxed)
    }

    /// Queues a rewrite of the file. Later lines are appended to the new file.
    pub(super) fn replace(&self, kept: Vec<SavedSaga>) {
        // Prevents another rewrite before this one is done.
        self.size.threshold.store(u64::MAX, Ordering::Relaxed);
        let _ = self.jobs.send(Job::Replace { kept });
    }
}

fn keep_aside(path: &Path, content: &[u8], damaged: &[usize]) -> io::Result<()> {
    let aside = with_suffix(path, &format!(".damaged-{}", now_ms()));
    atomic_file::replace(&aside, content, Access::OwnerOnly)?;
    tracing::error!(
        path = %path.display(), lines = ?damaged, kept = %aside.display(),
        "the saga journal has damaged lines and was copied aside; sagas whose first line is damaged \
         are lost, and their completed steps are not compensated"
    );
    Ok(())
}

struct Writer {
    path: PathBuf,
    /// `None`: the end of the file is uncertain, so it is reopened before the next write.
    file: Option<File>,
    size: Arc<JournalSize>,
}

impl Writer {
    fn run(mut self, todo: &mpsc::Receiver<Job>) {
        while let Ok(first) = todo.recv() {
            let jobs = std::iter::once(first).chain(todo.try_iter().take(MAX_BATCH));
            let (mut lines, mut waiting) = (Vec::new(), Vec::new());
            for job in jobs.collect::<Vec<_>>() {
                match job {
                    Job::Append { lines: more, done } => {
                        lines.extend_from_slice(&more);
                        waiting.push(done);
                    }
                    Job::Replace { kept } => {
                        self.append(&std::mem::take(&mut lines), waiting.drain(..));
                        self.replace(kept);
                    }
                }
            }
            self.append(&lines, waiting.drain(..));
        }
    }

    fn append(&mut self, lines: &[u8], waiting: impl Iterator<Item = oneshot::Sender<Written>>) {
        let written = self.write(lines);
        for done in waiting {
            let _ = done.send(written.clone());
        }
    }

    fn write(&mut self, lines: &[u8]) -> Written {
        if lines.is_empty() {
            return Ok(());
        }
        self.try_write(lines).map_err(|error| error.to_string())
    }

    fn try_write(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.reopen()?,
        };
        let written = file.write_all(lines).and_then(|()| file.sync_data());
        if written.is_ok() {
            self.size.grow(lines.len());
        }
        // A partial line would damage the line after it.
        if written.is_ok() || file.set_len(self.size.now()).is_ok() {
            self.file = Some(file);
        }
        written
    }

    fn replace(&mut self, kept: Vec<SavedSaga>) {
        // The current file must be usable if the rewrite fails.
        if self.file.is_none() {
            self.file = self.reopen().ok();
        }
        if self.file.is_none() {
            return self
                .size
                .threshold
                .store(self.size.now() + MIN_REWRITE_BYTES, Ordering::Relaxed);
        }
        let mut content = Vec::new();
        for SavedSaga { saga, at_ms, history } in kept {
            let what = EntryKind::Saved(Box::new(Cow::Borrowed(&*history)));
            let entry = Entry { saga: (&*saga).into(), at_ms, what };
            append(&entry.json(), &mut content);
        }
        if let Err(error) = atomic_file::replace(&self.path, &content, Access::OwnerOnly) {
            tracing::warn!("cannot rewrite the saga journal, which keeps growing: {error}");
        }
        // Continues with the file that has the name now, in its whole length.
        self.size.now.store(u64::MAX, Ordering::Relaxed);
        self.file = self.reopen().ok();
        let grown = self.size.now().saturating_add(2 * content.len() as u64 + MIN_REWRITE_BYTES);
        self.size.threshold.store(grown, Ordering::Relaxed);
    }

    /// Opens the file and truncates it to the acknowledged length.
    fn reopen(&self) -> io::Result<File> {
        let file = OpenOptions::new().append(true).open(&self.path)?;
        let length = file.metadata()?.len().min(self.size.now());
        file.set_len(length)?;
        self.size.now.store(length, Ordering::Relaxed);
        Ok(file)
    }
}

#[cfg(test)]
mod tests;
