//! Received commits that no signature covers yet. They are neither stored nor served. The last page is in memory,
//! earlier pages are in a temporary file.

use std::io;

use bytes::BytesMut;
use prost::Message as _;
use registry_core::{ChainHash, Revision, SealedCommit};
use registry_proto::{convert::sealed_commit, v1::Delta};
use tokio::{
    fs::File,
    io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _},
};

/// Maximum commits of a page, which are stored together.
const PAGE_COMMITS: usize = 256;
/// Bytes after which a page is full.
const PAGE_BYTES: usize = 8 << 20;

/// A position in the log.
pub(super) type LogPosition = (Revision, ChainHash);

/// A commit that cannot be buffered.
#[derive(Debug, thiserror::Error)]
pub(super) enum BufferError {
    /// The limit of buffered bytes.
    #[error(
        "the upstream registry sent more than {max_bytes} bytes of commits without a signed state; if its log \
         is larger, raise --relay-buffer-bytes"
    )]
    Full {
        /// The limit.
        max_bytes: usize,
    },
    /// A failure of the temporary file.
    #[error(
        "cannot write a temporary file in {dir}: {0}; set TMPDIR to another directory",
        dir = std::env::temp_dir().display()
    )]
    File(#[from] io::Error),
}

/// Buffered commits in order.
pub(super) struct CommitBuffer {
    /// Position before the first commit.
    after: LogPosition,
    page: Vec<SealedCommit>,
    bytes: usize,
    /// Total bytes and their limit.
    all_bytes: usize,
    max_bytes: usize,
    /// Pages, each with its length in bytes.
    file: Option<File>,
    pages: usize,
}

impl CommitBuffer {
    /// Creates an empty buffer after a position, limited to `max_bytes` bytes.
    pub(super) fn after(after: LogPosition, max_bytes: usize) -> Self {
        Self { after, page: Vec::new(), bytes: 0, all_bytes: 0, max_bytes, file: None, pages: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.page.is_empty() && self.pages == 0
    }

    /// Appends the next commit.
    pub(super) async fn push(&mut self, commit: SealedCommit) -> Result<(), BufferError> {
        let documents = commit.documents().iter().map(|document| document.bytes().len());
        let bytes = commit.bytes().len() + documents.sum::<usize>();
        if self.all_bytes.saturating_add(bytes) > self.max_bytes {
            return Err(BufferError::Full { max_bytes: self.max_bytes });
        }
        if self.page.len() >= PAGE_COMMITS || self.bytes >= PAGE_BYTES {
            self.spill().await?;
        }
        self.bytes += bytes;
        self.all_bytes += bytes;
        self.page.push(commit);
        Ok(())
    }

    async fn spill(&mut self) -> io::Result<()> {
        let mut bytes = BytesMut::new();
        for commit in std::mem::take(&mut self.page) {
            // A growing buffer has room.
            let _ = Delta::from(&commit).encode_length_delimited(&mut bytes);
        }
        self.bytes = 0;
        let mut file = match self.file.take() {
            Some(file) => file,
            None => File::from_std(tempfile::tempfile()?),
        };
        file.write_u64(bytes.len() as u64).await?;
        file.write_all(&bytes).await?;
        self.pages += 1;
        self.file = Some(file);
        Ok(())
    }

    /// Converts to pages. Pages of the file are verified again by the chain.
    pub(super) async fn into_pages(self) -> io::Result<Pages> {
        let Self { after, page, mut file, pages, .. } = self;
        if let Some(file) = &mut file {
            file.flush().await?;
            file.rewind().await?;
        }
        Ok(Pages { file, left: pages, last: page, after })
    }
}

/// Pages of a buffer.
pub(super) struct Pages {
    file: Option<File>,
    left: usize,
    last: Vec<SealedCommit>,
    after: LogPosition,
}

impl Pages {
    /// Returns the next page and the position before it; `None` at the end.
    pub(super) async fn next(&mut self) -> io::Result<Option<(LogPosition, Vec<SealedCommit>)>> {
        let after = self.after;
        let page = match &mut self.file {
            Some(file) if self.left > 0 => {
                self.left -= 1;
                read(file, after.1).await?
            }
            _ => std::mem::take(&mut self.last),
        };
        let Some(last) = page.last() else { return Ok(None) };
        self.after = (last.revision(), last.chain());
        Ok(Some((after, page)))
    }

    /// Whether the last returned page was the last one.
    pub(super) fn is_over(&self) -> bool {
        self.left == 0 && self.last.is_empty()
    }
}

async fn read(file: &mut File, mut chain: ChainHash) -> io::Result<Vec<SealedCommit>> {
    let length = usize::try_from(file.read_u64().await?).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_exact(&mut bytes).await?;
    let mut bytes = bytes::Bytes::from(bytes);
    let mut commits = Vec::new();
    while !bytes.is_empty() {
        let delta = Delta::decode_length_delimited(&mut bytes).map_err(io::Error::other)?;
        let commit = sealed_commit(&chain, delta).map_err(io::Error::other)?;
        chain = commit.chain();
        commits.push(commit);
    }
    Ok(commits)
}

#[cfg(test)]
mod tests {
    use registry_core::{Commit, RegistryId};

    use super::*;

    fn commits(count: u64) -> (LogPosition, Vec<SealedCommit>) {
        let first = (Revision(0), ChainHash::genesis(&RegistryId::new("a")));
        let mut chain = first.1;
        let seal = |revision| {
            let author = "ann".to_owned();
            let commit = Commit { revision: Revision(revision), author, ..Commit::default() };
            let sealed = SealedCommit::seal(&chain, commit, Vec::new()).unwrap();
            chain = sealed.chain();
            sealed
        };
        (first, (1..=count).map(seal).collect())
    }

    #[tokio::test]
    async fn buffered_commits_are_returned_in_order() {
        for count in [0, 1, PAGE_COMMITS as u64, 3 * PAGE_COMMITS as u64 + 1] {
            let (position, all) = commits(count);
            let mut buffer = CommitBuffer::after(position, usize::MAX);
            for commit in all.clone() {
                buffer.push(commit).await.unwrap();
            }
            assert_eq!(buffer.is_empty(), count == 0);
            let (mut pages, mut back) = (buffer.into_pages().await.unwrap(), Vec::new());
            while let Some((after, page)) = pages.next().await.unwrap() {
                assert_eq!(after.0.0, back.len() as u64);
                back.extend(page);
                assert_eq!(pages.is_over(), back.len() == all.len());
            }
            let chains = |commits: &[SealedCommit]| {
                commits.iter().map(SealedCommit::chain).collect::<Vec<_>>()
            };
            assert_eq!(chains(&back), chains(&all));
        }
    }
    #[tokio::test]
    async fn byte_limit_rejects_further_commits() {
        let (position, all) = commits(2 * PAGE_COMMITS as u64);
        let each = all[0].bytes().len();
        let max_bytes = (PAGE_COMMITS + 10) * each + each / 2;
        let mut buffer = CommitBuffer::after(position, max_bytes);
        let (mut taken, mut refused) = (0, None);
        for commit in all {
            match buffer.push(commit).await {
                Ok(()) => taken += 1,
                Err(reason) => {
                    refused = Some(reason);
                    break;
                }
            }
        }
        // The file counts too. Commits with longer revisions are larger.
        assert!((PAGE_COMMITS..=PAGE_COMMITS + 10).contains(&taken), "{taken}");
        assert!(
            matches!(refused, Some(BufferError::Full { max_bytes: limit }) if limit == max_bytes)
        );
    }
}
