//! Writes a bill of materials in chunks, outside of the async runtime.
//!
//! A bill of the whole registry can have tens of megabytes, so it is never in memory as a whole: its writer
//! waits for the reader. The number of concurrent writers is limited, and a slow reader is disconnected.

use std::{io, time::Duration};

use bytes::Bytes;
use registry_core::{Catalog, Key, PointInTime, Revision, Timestamp};
use registry_sbom::{Bill, Format};
use tokio::{
    runtime::Handle,
    sync::mpsc,
    time::{Instant, timeout_at},
};

use super::{
    Catalogs, ReadError,
    concurrency::{ConcurrencyLimit, Slot},
    history,
};
use crate::store::Store;

/// The number of bills that are written concurrently.
pub const WRITERS: usize = 2;
/// The size of a chunk in bytes.
const PART_BYTES: usize = 256 << 10;
/// The longest time for reading one chunk.
const PART_PATIENCE: Duration = Duration::from_secs(30);
/// The longest time for reading a bill.
const BILL_PATIENCE: Duration = Duration::from_mins(5);

/// The reader was too slow.
#[derive(Debug, thiserror::Error)]
#[error("the bill was not read in time and is incomplete; request it again and read faster")]
pub struct Incomplete;

/// A bill that is being written.
#[derive(Debug)]
pub struct Parts {
    /// The revision of the bill.
    pub revision: Revision,
    receiver: mpsc::Receiver<Part>,
}

#[derive(Debug)]
enum Part {
    Bytes(Bytes),
    /// The bill is complete.
    End,
}

impl Parts {
    /// The next chunk; `None` at the end; an error if the bill is incomplete.
    pub async fn next(&mut self) -> Option<Result<Bytes, Incomplete>> {
        match self.receiver.recv().await {
            Some(Part::Bytes(bytes)) => Some(Ok(bytes)),
            Some(Part::End) => None,
            None => Some(Err(Incomplete)),
        }
    }
}

/// The requested bill.
#[derive(Debug)]
pub struct Wanted {
    /// The entity; `None`: the whole registry.
    pub root: Option<Key>,
    /// The format.
    pub format: Format,
    /// The point in history; `None` is the present.
    pub at: Option<PointInTime>,
}

/// Starts to write the bill of an entity or of the whole registry.
pub async fn export(
    catalogs: &Catalogs,
    store: &Store,
    writers: &ConcurrencyLimit,
    wanted: Wanted,
) -> Result<Parts, ReadError> {
    let Wanted { root, format, at } = wanted;
    let catalog = catalogs.at(at).await?;
    if let Some(root) = &root
        && catalog.find(root).is_none()
    {
        return Err(ReadError::not_registered(&catalog, root.to_string(), root.kind, &root.name));
    }
    let revision = catalog.revision();
    let time = time_of(catalogs, store, &catalog).await?;
    let slot = writers.take().await;
    let (sender, receiver) = mpsc::channel(2);
    let end = Instant::now() + BILL_PATIENCE;
    let out = Out { part: Vec::new(), sender, runtime: Handle::current(), end };
    tokio::task::spawn_blocking(move || {
        // The catalog contains it, see above.
        let Some(bill) = Bill::build(&catalog, time, root.as_ref()) else { return };
        write(&bill, format, out, slot);
    });
    Ok(Parts { revision, receiver })
}

/// The time of a revision. Revision 0 has no time and gets the epoch. The database is read only for a
/// revision that changed no entity.
async fn time_of(
    catalogs: &Catalogs,
    store: &Store,
    catalog: &Catalog,
) -> Result<Timestamp, ReadError> {
    match (catalog.revision(), catalog.committed_at()) {
        (Revision(0), _) => Ok(Timestamp::default()),
        (_, Some(time)) => Ok(time),
        (revision, None) => {
            Ok(history::get_commit(catalogs, store, revision).await?.commit.committed_at)
        }
    }
}

fn write(bill: &Bill, format: Format, mut out: Out, slot: Slot) {
    let written = bill.write(format, &mut out).and_then(|()| out.finish());
    if let Err(error) = written {
        tracing::debug!(%error, "a bill of materials was not read to its end");
    }
    drop(slot);
}

/// Sends the bill in chunks.
struct Out {
    part: Vec<u8>,
    sender: mpsc::Sender<Part>,
    runtime: Handle,
    end: Instant,
}

impl Out {
    fn send(&self, part: Part) -> io::Result<()> {
        let end = self.end.min(Instant::now() + PART_PATIENCE);
        match self.runtime.block_on(timeout_at(end, self.sender.send(part))) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the reader left")),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the reader does not read")),
        }
    }

    fn finish(mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.part);
        self.send(Part::Bytes(rest.into()))?;
        self.send(Part::End)
    }
}

impl io::Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = PART_BYTES - self.part.len();
        let taken = bytes.len().min(room);
        self.part.extend_from_slice(&bytes[..taken]);
        if self.part.len() == PART_BYTES {
            let full = std::mem::replace(&mut self.part, Vec::with_capacity(PART_BYTES));
            self.send(Part::Bytes(full.into()))?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn pipe() -> (Out, Parts) {
        let (sender, receiver) = mpsc::channel(2);
        let end = Instant::now() + BILL_PATIENCE;
        let out = Out { part: Vec::new(), sender, runtime: Handle::current(), end };
        (out, Parts { revision: Revision(1), receiver })
    }

    #[tokio::test]
    async fn parts_put_together_are_what_was_written() {
        let (mut out, mut parts) = pipe();
        let text = "a bill of materials\n".repeat(PART_BYTES / 4);
        let expected = text.clone();
        let writing = tokio::task::spawn_blocking(move || {
            out.write_all(text.as_bytes()).and_then(|()| out.finish())
        });
        let mut read = Vec::new();
        while let Some(part) = parts.next().await {
            let part = part.unwrap();
            assert!(part.len() <= PART_BYTES);
            read.extend_from_slice(&part);
        }
        assert_eq!(read, expected.as_bytes());
        writing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_bill_without_its_end_is_an_error() {
        let (out, mut parts) = pipe();
        tokio::task::spawn_blocking(move || out.send(Part::Bytes("[".into())))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(parts.next().await.unwrap().unwrap(), "[");
        assert!(matches!(parts.next().await, Some(Err(Incomplete))));
    }

    #[tokio::test]
    async fn writing_ends_when_the_reader_leaves() {
        let (mut out, parts) = pipe();
        drop(parts);
        let writing = tokio::task::spawn_blocking(move || out.write_all(&vec![0; 4 * PART_BYTES]));
        let error = writing.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
