//! The ring of recent commits, bounded by count and bytes.

use std::{collections::VecDeque, sync::Arc};

use registry_core::{ChainHash, Revision, SealedCommit, Timestamp};

use super::{Delta, SharedMessage};

#[derive(Debug)]
pub(super) struct RecentCommits {
    commits: VecDeque<Arc<SharedMessage<Delta>>>,
    bytes: usize,
    /// Position before the first commit of the ring.
    before: (Revision, ChainHash),
    limits: Limits,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) commits: usize,
    pub(super) bytes: usize,
}

/// The commit after a revision.
#[derive(Debug)]
pub(super) enum Next {
    Commit(Arc<SharedMessage<Delta>>),
    /// The revision is the head or later.
    Nothing,
    /// The commit is no longer in the ring.
    Older,
}

impl RecentCommits {
    pub(super) fn new(head: (Revision, ChainHash), limits: Limits) -> Self {
        Self { commits: VecDeque::new(), bytes: 0, before: head, limits }
    }

    /// Replaces the ring with commits after a position.
    pub(super) fn reset(&mut self, before: (Revision, ChainHash), commits: Vec<SealedCommit>) {
        *self = Self::new(before, self.limits);
        for commit in commits {
            self.push(SharedMessage::new(Delta { commit, attestation: None }));
        }
    }

    /// Adds a commit and removes the oldest ones beyond the limits.
    pub(super) fn push(&mut self, commit: Arc<SharedMessage<Delta>>) {
        self.bytes += size(&commit.commit);
        self.commits.push_back(commit);
        while self.commits.len() > self.limits.commits || self.bytes > self.limits.bytes {
            let Some(oldest) = self.commits.pop_front() else { return };
            self.bytes -= size(&oldest.commit);
            self.before = (oldest.commit.revision(), oldest.commit.chain());
        }
    }

    /// Returns the commit after a revision.
    pub(super) fn after(&self, revision: Revision) -> Next {
        let Some(index) = revision.0.checked_sub(self.before.0.0) else { return Next::Older };
        let commit = usize::try_from(index).ok().and_then(|index| self.commits.get(index));
        commit.map_or(Next::Nothing, |commit| Next::Commit(commit.clone()))
    }

    /// Revision before the first commit of the ring.
    pub(super) fn ring_start(&self) -> Revision {
        self.before.0
    }

    /// Time of the oldest commit in the ring.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.commits.front().map(|delta| delta.commit.commit().committed_at)
    }

    /// Chain hash of a revision, if the ring has it.
    pub(super) fn chain_at(&self, revision: Revision) -> Option<ChainHash> {
        if revision == self.before.0 {
            return Some(self.before.1);
        }
        let index = usize::try_from(revision.0.checked_sub(self.before.0.next().0)?).ok()?;
        self.commits.get(index).map(|delta| delta.commit.chain())
    }
}

/// Memory of a commit, doubled for its encoded form.
fn size(commit: &SealedCommit) -> usize {
    let documents = commit.documents().iter().map(|d| d.bytes().len());
    2 * (commit.bytes().len() + documents.sum::<usize>())
}

#[cfg(test)]
mod tests {
    use registry_core::{Commit, RegistryId};

    use super::*;

    fn ring(commits: usize, count: u64) -> (RecentCommits, Vec<ChainHash>) {
        let genesis = ChainHash::genesis(&RegistryId::new("test"));
        let limits = Limits { commits, bytes: usize::MAX };
        let mut recent = RecentCommits::new((Revision(0), genesis), limits);
        let mut chains = vec![genesis];
        for revision in 1..=count {
            let commit = Commit {
                revision: Revision(revision),
                author: "ann".to_owned(),
                committed_at: Timestamp::default(),
                changes: Vec::new(),
                ..Commit::default()
            };
            let sealed = SealedCommit::seal(chains.last().unwrap(), commit, Vec::new()).unwrap();
            chains.push(sealed.chain());
            recent.push(SharedMessage::new(Delta { commit: sealed, attestation: None }));
        }
        (recent, chains)
    }

    #[test]
    fn after_returns_the_next_commit_in_the_ring() {
        let (recent, chains) = ring(3, 5);
        for (revision, chain) in (0..).map(Revision).zip(&chains) {
            match recent.after(revision) {
                Next::Older => assert!(revision.0 < 2),
                Next::Commit(next) => assert_eq!(next.commit.revision(), revision.next()),
                Next::Nothing => assert_eq!(revision, Revision(5)),
            }
            let known = (revision.0 >= 2).then_some(*chain);
            assert_eq!(recent.chain_at(revision), known, "{revision}");
        }
        assert!(matches!(recent.after(Revision(9)), Next::Nothing));
        assert_eq!(recent.chain_at(Revision(9)), None);
    }

    #[test]
    fn byte_limit_removes_old_commits() {
        let (mut recent, _) = ring(100, 5);
        recent.limits.bytes = 1;
        let (_, chains) = ring(100, 6);
        let last = ring(100, 6).0.commits.pop_back().unwrap();
        recent.push(last);
        assert!(recent.commits.is_empty() && recent.bytes == 0);
        assert_eq!(recent.chain_at(Revision(6)), chains.last().copied());
        assert!(matches!(recent.after(Revision(6)), Next::Nothing));
    }
}
