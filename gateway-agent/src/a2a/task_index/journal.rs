//! The journal of the index beside the cache, `PATH.tasks`: one line of JSON per change. It is
//! rewritten when most of its lines are obsolete.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use a2a::TaskState;
use atomic_file::{Access, with_suffix};
use registry_core::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::{Entry, ListedTask, State, TaskIndex};
use crate::{batched_file::BatchedFile, clock, pipeline::TaskOwner};

const FORMAT: &str = r#"{"format":"gateway-tasks-v2"}"#;
/// The format whose tasks belong to credentials. Their ids are no longer valid, so that the file is
/// read as an empty one and replaced by the next write.
const OBSOLETE_FORMAT: &str = r#"{"format":"gateway-tasks-v1"}"#;
/// Maximum size of the file, in bytes; above that of all tasks with obsolete lines.
const FILE_BYTES: u64 = 512 * 1024 * 1024;
/// Obsolete lines that are always tolerated.
const SLACK: usize = 1_000;

/// A change of a task. Without a task, the task was removed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    owner: TaskOwner,
    id: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<WrittenTask>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTask {
    context: Box<str>,
    agent: Box<str>,
    state: Box<str>,
    at: Timestamp,
    recorded: Timestamp,
}

/// Keeps the index on disk.
#[derive(Debug)]
pub(crate) struct TaskJournal {
    index: Arc<TaskIndex>,
    disk: Option<Disk>,
}

#[derive(Debug)]
struct Disk {
    path: PathBuf,
    /// `None`: the next write replaces the file.
    file: Option<File>,
    lines: usize,
    /// Whether the last write failed. Its changes are on no disk.
    has_failed: bool,
}

/// The lines of changed tasks, or of all tasks.
#[derive(Debug)]
struct Batch {
    text: Vec<u8>,
    lines: usize,
    replaces: bool,
}

impl TaskJournal {
    /// Reads the file beside a cache into an index. Blocks.
    pub(super) fn open(cache: &Path, index: &Arc<TaskIndex>, now: Timestamp) -> io::Result<Self> {
        let path = with_suffix(cache, ".tasks");
        let mut state = index.state();
        match File::open(&path) {
            Ok(file) => read(file, &mut state)?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        state.remove_expired(now);
        drop(state);
        let disk = Disk { path, file: None, lines: 0, has_failed: false };
        Ok(Self { index: Arc::clone(index), disk: Some(disk) })
    }
}

impl BatchedFile for TaskJournal {
    const CONTENT: &'static str = "the list of A2A tasks";

    fn path(&self) -> &Path {
        self.disk.as_ref().map_or(Path::new(""), |disk| &disk.path)
    }

    async fn changed(&self) {
        self.index.changed.notified().await;
    }

    async fn write(&mut self) -> io::Result<()> {
        let Some(disk) = self.disk.take() else { return Ok(()) };
        let batch = disk.batch(&mut self.index.state(), clock::timestamp());
        if batch.lines == 0 {
            self.disk = Some(disk);
            return Ok(());
        }
        let written = spawn_blocking(move || disk.write(&batch)).await;
        let (disk, outcome) = written.unwrap_or_else(|e| std::panic::resume_unwind(e.into_panic()));
        self.disk = Some(disk);
        outcome
    }
}

impl Disk {
    /// Takes the changes of an index, or the whole index if the file has many obsolete lines.
    fn batch(&self, state: &mut State, now: Timestamp) -> Batch {
        let pending = state.pending.as_mut().map(std::mem::take).unwrap_or_default();
        let is_obsolete = self.lines > 2 * state.count + SLACK;
        let is_changed = !pending.is_empty() || self.has_failed;
        let replaces = is_changed && (self.file.is_none() || is_obsolete);
        let mut batch = Batch { text: Vec::new(), lines: 0, replaces };
        if replaces {
            state.remove_expired(now);
            batch.text.extend([FORMAT.as_bytes(), b"\n"].concat());
            for (owner, tasks) in &state.owners {
                for (id, entry) in tasks {
                    batch.push(*owner, id, Some(entry));
                }
            }
            batch.lines += 1;
        } else {
            for (owner, id) in &pending {
                let entry = state.owners.get(owner).and_then(|tasks| tasks.get(id));
                batch.push(*owner, id, entry);
            }
        }
        batch
    }

    fn write(mut self, batch: &Batch) -> (Self, io::Result<()>) {
        let outcome = self.append_or_replace(batch);
        self.has_failed = outcome.is_err();
        if self.has_failed {
            // A part of the batch can be in the file; the next write replaces it.
            self.file = None;
        }
        (self, outcome)
    }

    fn append_or_replace(&mut self, batch: &Batch) -> io::Result<()> {
        if let Some(file) = self.file.as_mut().filter(|_| !batch.replaces) {
            file.write_all(&batch.text)?;
            file.sync_data()?;
            self.lines += batch.lines;
        } else {
            atomic_file::replace(&self.path, &batch.text, Access::OwnerOnly)?;
            self.file = Some(OpenOptions::new().append(true).open(&self.path)?);
            self.lines = batch.lines;
        }
        Ok(())
    }
}

impl Batch {
    fn push(&mut self, owner: TaskOwner, id: &str, entry: Option<&Entry>) {
        let task = entry.map(|Entry { task, recorded }| WrittenTask {
            context: task.context.clone(),
            agent: task.agent.clone(),
            state: task.state.name().into(),
            at: task.at,
            recorded: *recorded,
        });
        let line = Line { owner, id: id.into(), task };
        // A line consists of texts, so serialization cannot fail.
        self.text.extend(serde_json::to_vec(&line).unwrap_or_default());
        self.text.push(b'\n');
        self.lines += 1;
    }
}

/// Reads all lines. The last one is ignored if a crash cut it off.
fn read(file: File, state: &mut State) -> io::Result<()> {
    let size = file.metadata()?.len();
    if size > FILE_BYTES {
        let message = format!("the file has {size} bytes; the maximum is {FILE_BYTES}");
        return Err(io::Error::other(message));
    }
    let mut reader = BufReader::new(file);
    let (mut line, mut number) = (String::new(), 0_usize);
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some(text) = line.strip_suffix('\n') else { return Ok(()) };
        number += 1;
        let invalid = |why: &str| io::Error::other(format!("line {number} is invalid: {why}"));
        if number == 1 {
            match text {
                FORMAT => continue,
                OBSOLETE_FORMAT => return Ok(()),
                _ => return Err(invalid("the format is not gateway-tasks-v2")),
            }
        }
        let Line { owner, id, task } =
            serde_json::from_str(text).map_err(|e| invalid(&e.to_string()))?;
        match task {
            None => state.remove(owner, &id),
            Some(WrittenTask { context, agent, state: name, at, recorded }) => {
                let known = TaskState::parse(&name).ok_or_else(|| invalid("the state is unknown"));
                let task = ListedTask { id, context, agent, state: known?, at };
                state.insert(owner, Entry { task, recorded });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio_util::sync::CancellationToken;

    use super::{
        super::tests::{at, owner, task},
        *,
    };
    use crate::batched_file::write_batches;

    fn listed(index: &TaskIndex) -> Vec<ListedTask> {
        index.tasks(owner("a"), at(100))
    }

    /// Runs a journal to its end.
    async fn stopped(journal: TaskJournal) {
        let stop = CancellationToken::new();
        stop.cancel();
        write_batches(journal, stop).await;
    }

    #[tokio::test]
    async fn tasks_survive_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("registry.json");
        let now = clock::timestamp();
        let recent = |id: &str| ListedTask { at: now, ..task(id, 0) };
        let (index, mut journal) = TaskIndex::open(&cache, now).unwrap();
        index.record(owner("a"), recent("kept"), now);
        index.record(owner("a"), recent("removed"), now);
        assert!(journal.write().await.is_ok());
        index.remove(owner("a"), "removed");
        assert!(journal.write().await.is_ok());
        index.record(owner("a"), recent("late"), now);
        stopped(journal).await;
        let file = directory.path().join("registry.json.tasks");
        assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 5, "lines are appended");
        let again = TaskIndex::open(&cache, now).unwrap().0;
        let listed = again.tasks(owner("a"), now).into_iter();
        assert_eq!(listed.map(|task| task.id.to_string()).collect::<Vec<_>>(), ["late", "kept"]);
    }

    #[tokio::test]
    async fn obsolete_lines_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("registry.json");
        let now = clock::timestamp();
        let (index, mut journal) = TaskIndex::open(&cache, now).unwrap();
        let path = directory.path().join("registry.json.tasks");
        let lines = || fs::read_to_string(&path).unwrap().lines().count();
        index.record(owner("a"), ListedTask { at: now, ..task("t", 0) }, now);
        assert!(journal.write().await.is_ok());
        index.remove(owner("a"), "t");
        assert!(journal.write().await.is_ok());
        assert_eq!(lines(), 3);
        journal.disk.as_mut().unwrap().lines = 2 * SLACK;
        index.record(owner("a"), ListedTask { at: now, ..task("u", 0) }, now);
        assert!(journal.write().await.is_ok());
        assert_eq!(lines(), 2);
    }

    #[tokio::test]
    async fn failed_write_is_repeated_completely() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("missing").join("registry.json");
        let now = clock::timestamp();
        let (index, mut journal) = TaskIndex::open(&cache, now).unwrap();
        index.record(owner("a"), ListedTask { at: now, ..task("t", 0) }, now);
        assert!(journal.write().await.is_err() && journal.write().await.is_err());
        fs::create_dir(cache.parent().unwrap()).unwrap();
        assert!(journal.write().await.is_ok());
        let again = TaskIndex::open(&cache, now).unwrap().0;
        assert_eq!(again.tasks(owner("a"), now).len(), 1);
    }

    #[test]
    fn torn_line_and_obsolete_format_are_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("registry.json");
        let file = directory.path().join("registry.json.tasks");
        let mut batch = Batch { text: Vec::new(), lines: 0, replaces: true };
        batch.push(owner("a"), "t", Some(&Entry { task: task("t", 1), recorded: at(1) }));
        let line = String::from_utf8(batch.text).unwrap();
        fs::write(&file, format!("{FORMAT}\n{line}{}", &line[..9])).unwrap();
        let (index, _) = TaskIndex::open(&cache, at(100)).unwrap();
        assert_eq!(listed(&index), [task("t", 1)]);
        fs::write(&file, format!("{OBSOLETE_FORMAT}\n{line}")).unwrap();
        let (index, _) = TaskIndex::open(&cache, at(100)).unwrap();
        assert!(listed(&index).is_empty(), "tasks of credentials are dropped");
        for invalid in ["{}\n".to_owned(), format!("{FORMAT}\n{}\n{line}", &line[..9])] {
            fs::write(&file, invalid).unwrap();
            assert!(TaskIndex::open(&cache, at(100)).is_err());
        }
    }
}
