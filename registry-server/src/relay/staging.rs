//! Commits that have come and that no signature of the registry covers yet: nothing of them is in the
//! database, and nobody is told. A page is in memory; what is before it in a file without a name.
//!
//! Deliberately absent: proving signatures, and the database.

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

/// Most bytes that wait in the file.
const MOST_BYTES: u64 = 64 << 30;

/// A place in the log.
pub(super) type Place = (Revision, ChainHash);

/// What waits for a signature, in the order in which it came.
pub(super) struct Staging {
    /// What it follows on.
    after: Place,
    page: Vec<SealedCommit>,
    bytes: usize,
    /// Pages, each after its length in bytes.
    file: Option<File>,
    pages: usize,
    in_file: u64,
}

impl Staging {
    /// Nothing, so far, that follows on a place.
    pub(super) fn after(after: Place) -> Self {
        Self { after, page: Vec::new(), bytes: 0, file: None, pages: 0, in_file: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.page.is_empty() && self.pages == 0
    }

    /// Adds the next commit.
    pub(super) async fn push(&mut self, commit: SealedCommit) -> io::Result<()> {
        if self.page.len() >= COMMITS || self.bytes >= BYTES {
            self.spill().await?;
        }
        let documents = commit.documents().iter().map(|document| document.bytes().len());
        self.bytes += commit.bytes().len() + documents.sum::<usize>();
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
        self.in_file += bytes.len() as u64;
        if self.in_file > MOST_BYTES {
            let most = MOST_BYTES >> 30;
            let told =
                format!("more than {most} GiB of commits came without the registry's signature");
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, told));
        }
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
            let mut staging = Staging::after(place);
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
}
