//! The sagas on disk: a file of lines, each with its own checksum, written before anything is done.
//!
//! A line is the first 16 hexadecimal digits of the SHA-256 of its JSON, a space, and the JSON. One
//! thread writes: what comes at the same time goes to the disk at once. A last line without its end was
//! never acknowledged, and is cut off; whole lines that are damaged are reported, and the file is kept aside.

mod replace;
mod size;

use std::{
    borrow::Cow,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering, mpsc},
    thread,
};

use gateway_protocol::jsonrpc;
use registry_core::Digest;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

pub(super) use self::replace::beside;
use self::{
    replace::replace,
    size::{SMALL, Size},
};
use crate::{
    clock::now_ms,
    history::{Began, Event, History},
};

/// Digits of a checksum.
const DIGITS: usize = 16;
/// Most jobs that go to the disk at once.
const BATCH: usize = 1_000;
/// Deepest line that is written first: written anew, it nests a few levels deeper, and 127 can be read.
const DEPTH: usize = 115;

/// One line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry<'a> {
    pub(super) saga: Cow<'a, str>,
    /// When, in milliseconds since 1970.
    pub(super) at_ms: i64,
    pub(super) what: What<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum What<'a> {
    Began(Cow<'a, Began>),
    Event(Cow<'a, Event>),
    /// All that there is to know, written anew.
    Kept(Cow<'a, History>),
}

impl<'a> Entry<'a> {
    /// Of what happens now.
    pub(super) fn now(saga: &'a str, what: What<'a>) -> Self {
        Self { saga: saga.into(), at_ms: now_ms(), what }
    }

    /// Adds it as a line, and gives the length of that; fails where it could not be read again.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<usize, String> {
        let json = self.json();
        if !jsonrpc::nests_within(&json, DEPTH) {
            return Err("what it has to hold nests too deep".to_owned());
        }
        let before = out.len();
        append(&json, out);
        Ok(out.len() - before)
    }

    fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and JSON values can be written as JSON")
    }

    fn read(line: &[u8]) -> Option<Self> {
        let (sum, json) = line.split_at_checked(DIGITS)?;
        let json = json.strip_prefix(b" ")?;
        if checksum(json).as_bytes() != sum {
            return None;
        }
        serde_json::from_slice(json).ok()
    }
}

/// Adds a line.
fn append(json: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(checksum(json).as_bytes());
    out.push(b' ');
    out.extend_from_slice(json);
    out.push(b'\n');
}

fn checksum(json: &[u8]) -> String {
    let digest = Digest::compute(json);
    let mut hex = digest.to_string().rsplit(':').next().unwrap_or_default().to_owned();
    hex.truncate(DIGITS);
    hex
}

/// What a file holds.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// What can be read, with the lengths of its lines.
    pub(super) entries: Vec<(Entry<'static>, usize)>,
    /// The numbers of lines, from 1, that cannot be read.
    pub(super) damaged: Vec<usize>,
    /// How many entries come before the last of those.
    pub(super) doubtful: usize,
    /// Up to where the file is good.
    length: u64,
    is_torn: bool,
}

impl Found {
    fn read(content: &[u8]) -> Self {
        let mut found = Self::default();
        for (i, line) in content.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let whole = line.strip_suffix(b"\n");
            match whole.and_then(Entry::read) {
                Some(entry) => found.entries.push((entry, line.len())),
                // One that is whole was perhaps acknowledged.
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

/// The way to the thread that writes.
#[derive(Debug)]
pub(super) struct Journal {
    jobs: mpsc::Sender<Job>,
    pub(super) size: Arc<Size>,
}

/// One saga that is to be known after the file is written anew.
pub(super) struct Kept {
    pub(super) saga: Box<str>,
    pub(super) at_ms: i64,
    pub(super) history: Arc<History>,
}

/// Whether lines are on the disk, or why not.
pub(super) type Written = Result<(), String>;

enum Job {
    Append { lines: Vec<u8>, done: oneshot::Sender<Written> },
    Replace { kept: Vec<Kept> },
}

impl Journal {
    /// Opens or makes a file, and reads what is in it. What cannot be read is kept aside.
    pub(super) fn open(path: &Path) -> io::Result<(Self, Found)> {
        let content = match fs::read(path) {
            Ok(content) => content,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                replace(path, b"")?;
                Vec::new()
            }
            Err(e) => return Err(e),
        };
        let found = Found::read(&content);
        if !found.damaged.is_empty() {
            keep_aside(path, &content, &found.damaged)?;
        }
        if found.is_torn {
            tracing::warn!(path = %path.display(), "the last line of the sagas' journal is torn and is cut off");
        }
        let ((jobs, todo), size) = (mpsc::channel(), Size::of(found.length));
        let mut writer = Writer { path: path.to_owned(), file: None, size: Arc::clone(&size) };
        let file = writer.reopen()?;
        file.sync_all()?;
        writer.file = Some(file);
        thread::Builder::new().name("sagas".to_owned()).spawn(move || writer.run(&todo))?;
        Ok((Self { jobs, size }, found))
    }

    /// One on a disk that is full.
    #[cfg(test)]
    pub(super) fn full() -> Self {
        let file = OpenOptions::new().append(true).open("/dev/full").ok();
        let ((jobs, todo), size) = (mpsc::channel(), Size::of(0));
        // Nothing is there that could be replaced.
        let path = "/dev/full/journal".into();
        let writer = Writer { path, file, size: Arc::clone(&size) };
        thread::spawn(move || writer.run(&todo));
        Self { jobs, size }
    }

    /// Has lines written; what is returned tells when they are on the disk.
    pub(super) fn append(&self, lines: Vec<u8>) -> oneshot::Receiver<Written> {
        let (done, written) = oneshot::channel();
        // Without the thread the sender is dropped, which says that nothing was written.
        let _ = self.jobs.send(Job::Append { lines, done });
        written
    }

    /// Whether the file has grown to much more than what was in it when it was last written anew.
    pub(super) fn is_overgrown(&self) -> bool {
        self.size.now() > self.size.most.load(Ordering::Relaxed)
    }

    /// Has the file replaced by what is still to be known; lines that come later follow on it.
    pub(super) fn replace(&self, kept: Vec<Kept>) {
        // Not again before that is done.
        self.size.most.store(u64::MAX, Ordering::Relaxed);
        let _ = self.jobs.send(Job::Replace { kept });
    }
}

fn keep_aside(path: &Path, content: &[u8], damaged: &[usize]) -> io::Result<()> {
    let aside = beside(path, &format!(".damaged-{}", now_ms()));
    replace(&aside, content)?;
    tracing::error!(
        path = %path.display(), lines = ?damaged, kept = %aside.display(),
        "lines of the sagas' journal cannot be read: the disk has lost something, or somebody has \
         edited it. Sagas of which the first line is among them are not known any more; what they had \
         done is not undone"
    );
    Ok(())
}

struct Writer {
    path: PathBuf,
    /// `None`: what is in it is not certain; it is opened again before anything is written.
    file: Option<File>,
    size: Arc<Size>,
}

impl Writer {
    fn run(mut self, todo: &mpsc::Receiver<Job>) {
        while let Ok(first) = todo.recv() {
            let jobs = std::iter::once(first).chain(todo.try_iter().take(BATCH));
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
        // Half a line would be damage for whatever follows.
        if written.is_ok() || file.set_len(self.size.now()).is_ok() {
            self.file = Some(file);
        }
        written
    }

    fn replace(&mut self, kept: Vec<Kept>) {
        // What is in the present one must be certain, in case that it stays.
        if self.file.is_none() {
            self.file = self.reopen().ok();
        }
        if self.file.is_none() {
            return self.size.most.store(self.size.now() + SMALL, Ordering::Relaxed);
        }
        let mut content = Vec::new();
        for Kept { saga, at_ms, history } in kept {
            let what = What::Kept(Cow::Borrowed(&*history));
            let entry = Entry { saga: (&*saga).into(), at_ms, what };
            append(&entry.json(), &mut content);
        }
        if let Err(error) = replace(&self.path, &content) {
            tracing::warn!("the sagas' journal cannot be written anew, and grows: {error}");
        }
        // Whichever file has the name now is the one that goes on, all of it.
        self.size.now.store(u64::MAX, Ordering::Relaxed);
        self.file = self.reopen().ok();
        let grown = self.size.now().saturating_add(2 * content.len() as u64 + SMALL);
        self.size.most.store(grown, Ordering::Relaxed);
    }

    /// The file as far as it was written.
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
