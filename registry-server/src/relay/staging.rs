//! Commits that have come and that no signature of the registry covers yet: nothing of them is in the
//! database, and nobody is told. A page is in memory; what is before it in a file without a name.

use std::io;

use bytes::BytesMut;
use prost::Message as _;
use registry_core::{ChainHash, Revision, SealedCommit};
use registry_proto::{convert::sealed_commit, v1::Delta};
use tokio::{
    fs::File,
    io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _},
};

/// Most commits in a page, which are stored together.
const COMMITS: usize = 256;
/// From so many bytes on a page is full.
const BYTES: usize = 8 << 20;

/// A place in the log.
pub(super) type Place = (Revision, ChainHash);

/// Why a commit cannot wait.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotStaged {
    /// As much waits as may.
    #[error(
        "more than {most} bytes of commits have come since the last that led to a state with the \
         registry's signature, and no more may wait for one; where the registry's log is that long, \
         raise --max-unsigned-bytes"
    )]
    Full {
        /// How much may wait, in bytes.
        most: usize,
    },
    /// The file.
    #[error(
        "the relay cannot keep it in a temporary file until it is signed: {dir}: {0}; TMPDIR names \
         another place",
        dir = std::env::temp_dir().display()
    )]
    File(#[from] io::Error),
}

/// What waits for a signature, in the order in which it came.
pub(super) struct Staging {
    /// What it follows on.
    after: Place,
    page: Vec<SealedCommit>,
    bytes: usize,
    /// Of all that waits, and how many that may be.
    all_bytes: usize,
    most: usize,
    /// Pages, each after its length in bytes.
    file: Option<File>,
    pages: usize,
}

impl Staging {
    /// Nothing, so far, that follows on a place; later so many bytes at most.
    pub(super) fn after(after: Place, most: usize) -> Self {
        Self { after, page: Vec::new(), bytes: 0, all_bytes: 0, most, file: None, pages: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.page.is_empty() && self.pages == 0
    }

    /// Adds the next commit.
    pub(super) async fn push(&mut self, commit: SealedCommit) -> Result<(), NotStaged> {
        let documents = commit.documents().iter().map(|document| document.bytes().len());
        let bytes = commit.bytes().len() + documents.sum::<usize>();
        if self.all_bytes.saturating_add(bytes) > self.most {
            return Err(NotStaged::Full { most: self.most });
        }
        if self.page.len() >= COMMITS || self.bytes >= BYTES {
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
            // A buffer that grows has room for everything.
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

    /// All of it, page by page; what was in the file is proved once more by the chain.
    pub(super) async fn into_pages(self) -> io::Result<Pages> {
        let Self { after, page, mut file, pages, .. } = self;
        if let Some(file) = &mut file {
            file.flush().await?;
            file.rewind().await?;
        }
        Ok(Pages { file, left: pages, last: page, after })
    }
}

/// What waited.
pub(super) struct Pages {
    file: Option<File>,
    left: usize,
    last: Vec<SealedCommit>,
    after: Place,
}

impl Pages {
    /// The next page and the place that it follows on; `None`: that was all.
    pub(super) async fn next(&mut self) -> io::Result<Option<(Place, Vec<SealedCommit>)>> {
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

    /// Whether the page that came last was the last one.
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

    fn commits(count: u64) -> (Place, Vec<SealedCommit>) {
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
    async fn what_went_in_comes_out_however_much_it_is() {
        for count in [0, 1, COMMITS as u64, 3 * COMMITS as u64 + 1] {
            let (place, all) = commits(count);
            let mut staging = Staging::after(place, usize::MAX);
            for commit in all.clone() {
                staging.push(commit).await.unwrap();
            }
            assert_eq!(staging.is_empty(), count == 0);
            let (mut pages, mut back) = (staging.into_pages().await.unwrap(), Vec::new());
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
    async fn no_more_waits_than_may() {
        let (place, all) = commits(2 * COMMITS as u64);
        let each = all[0].bytes().len();
        let most = (COMMITS + 10) * each + each / 2;
        let mut staging = Staging::after(place, most);
        let (mut taken, mut refused) = (0, None);
        for commit in all {
            match staging.push(commit).await {
                Ok(()) => taken += 1,
                Err(why) => {
                    refused = Some(why);
                    break;
                }
            }
        }
        // Also what is in the file counts; revisions of more digits are longer.
        assert!((COMMITS..=COMMITS + 10).contains(&taken), "{taken}");
        assert!(matches!(refused, Some(NotStaged::Full { most: limit }) if limit == most));
    }
}
