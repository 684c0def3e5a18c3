//! The sagas on disk: a file of lines, each with its own checksum, written before anything is done.
//!
//! A line is the first 16 hexadecimal digits of the SHA-256 of its JSON, a space, and the JSON. One
//! thread writes: what comes at the same time goes to the disk at once. A last line that is torn was
//! never acknowledged, and is cut off; damage before it is reported, and the file is kept aside.
//! Deliberately absent: what the lines mean.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
};

use registry_core::Digest;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::history::{Began, Event, History};
use crate::cache::{beside, replace_private};

/// Digits of a checksum.
const DIGITS: usize = 16;
/// Most jobs that go to the disk at once.
const BATCH: usize = 1_000;

/// One line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) saga: Box<str>,
    /// When, in milliseconds since 1970.
    pub(super) at_ms: i64,
    pub(super) what: What,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum What {
    Began(Began),
    Event(Event),
    /// All that there is to know, written anew.
    Kept(History),
}

impl Entry {
    /// As a line.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        let json = serde_json::to_vec(self)?;
        out.extend_from_slice(checksum(&json).as_bytes());
        out.push(b' ');
        out.extend_from_slice(&json);
        out.push(b'\n');
        Ok(())
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

fn checksum(json: &[u8]) -> String {
    let digest = Digest::of(json);
    let mut hex = digest.to_string().rsplit(':').next().unwrap_or_default().to_owned();
    hex.truncate(DIGITS);
    hex
}

/// What a file holds.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) entries: Vec<Entry>,
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
        let mut lines = content.split_inclusive(|byte| *byte == b'\n').enumerate().peekable();
        while let Some((i, line)) = lines.next() {
            let whole = line.strip_suffix(b"\n");
            match whole.and_then(Entry::read) {
                Some(entry) => found.entries.push(entry),
                None if lines.peek().is_none() => {
                    found.is_torn = true;
                    break;
                }
                None => {
                    found.damaged.push(i + 1);
                    found.doubtful = found.entries.len();
                }
            }
            found.length += line.len() as u64;
        }
        found
    }
}

/// The way to the thread that writes.
#[derive(Debug)]
pub(super) struct Journal {
    jobs: mpsc::Sender<Job>,
}

/// Whether lines are on the disk, or why not.
pub(super) type Written = Result<(), String>;

enum Job {
    Append { lines: Vec<u8>, done: oneshot::Sender<Written> },
    Replace { content: Vec<u8> },
}

impl Journal {
    /// Opens or makes a file, and reads what is in it. What cannot be read is kept aside.
    pub(super) fn open(path: &Path) -> io::Result<(Self, Found)> {
        let content = match fs::read(path) {
            Ok(content) => content,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                replace_private(path, b"")?;
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
        let file = OpenOptions::new().append(true).open(path)?;
        file.set_len(found.length)?;
        file.sync_all()?;
        let (jobs, todo) = mpsc::channel();
        let writer = Writer { path: path.to_owned(), file: Ok(file), length: found.length };
        thread::Builder::new().name("sagas".to_owned()).spawn(move || writer.run(&todo))?;
        Ok((Self { jobs }, found))
    }

    /// One on a disk that is full.
    #[cfg(test)]
    pub(super) fn full() -> Self {
        let file = OpenOptions::new().append(true).open("/dev/full").map_err(|e| e.to_string());
        let (jobs, todo) = mpsc::channel();
        // Nothing is there that could be replaced.
        let writer = Writer { path: "/dev/full/journal".into(), file, length: 0 };
        thread::spawn(move || writer.run(&todo));
        Self { jobs }
    }

    /// Has lines written; what is returned tells when they are on the disk.
    pub(super) fn append(&self, lines: Vec<u8>) -> oneshot::Receiver<Written> {
        let (done, written) = oneshot::channel();
        // Without the thread the sender is dropped, which says that nothing was written.
        let _ = self.jobs.send(Job::Append { lines, done });
        written
    }

    /// Has the file replaced by what is still to be known; lines that come later follow on it.
    pub(super) fn replace(&self, content: Vec<u8>) {
        let _ = self.jobs.send(Job::Replace { content });
    }
}

fn keep_aside(path: &Path, content: &[u8], damaged: &[usize]) -> io::Result<()> {
    let aside = beside(path, ".damaged");
    replace_private(&aside, content)?;
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
    /// Or why there is none any more.
    file: Result<File, String>,
    length: u64,
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
                    Job::Replace { content } => {
                        self.append(&std::mem::take(&mut lines), waiting.drain(..));
                        self.replace(&content);
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
        let file = self.file.as_mut().map_err(|why| why.clone())?;
        if lines.is_empty() {
            return Ok(());
        }
        let written = file.write_all(lines).and_then(|()| file.sync_data());
        let Err(error) = written else {
            self.length += lines.len() as u64;
            return Ok(());
        };
        // Half a line would be damage for whatever follows.
        if let Err(error) = file.set_len(self.length) {
            self.file = Err(error.to_string());
        }
        Err(error.to_string())
    }

    fn replace(&mut self, content: &[u8]) {
        if let Err(error) = replace_private(&self.path, content) {
            tracing::warn!("the sagas' journal cannot be written anew, and grows: {error}");
        }
        // Whichever file has the name now is the one that goes on.
        let opened = OpenOptions::new().append(true).open(&self.path);
        let opened = opened.and_then(|file| Ok((file.metadata()?.len(), file)));
        match opened {
            Ok((length, file)) => (self.file, self.length) = (Ok(file), length),
            Err(error) => self.file = Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
