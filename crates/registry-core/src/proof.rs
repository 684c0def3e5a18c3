//! Offline-verifiable proof that the log contains a commit and continues an earlier checkpoint.

use serde::{Deserialize, Serialize};

use crate::{
    chain::{ChainHash, Revision},
    checkpoint::{Checkpoint, InvalidCheckpoint, VerifierKey},
    commit::{Commit, InvalidCommit, SealedCommit},
    document::Digest,
    merkle::{self, Node},
};

/// A proof that the log contains a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Proof {
    /// The signed checkpoint of the tree.
    pub checkpoint: String,
    /// The chain hash before the commit.
    pub previous_chain: ChainHash,
    /// The canonical commit.
    pub commit: String,
    /// The inclusion proof from the commit's leaf to the checkpoint's root.
    pub inclusion: Vec<Digest>,
    /// The consistency proof with an earlier checkpoint; empty if none was requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consistency: Vec<Digest>,
}

/// The verified content of a proof.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifiedProof {
    /// The commit in the log.
    pub commit: Commit,
    /// The verified checkpoint.
    pub checkpoint: Checkpoint,
    /// The earlier checkpoint that the log continues.
    pub since: Option<Checkpoint>,
}

/// A proof is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidProof {
    /// The checkpoint is invalid.
    #[error(transparent)]
    Checkpoint(#[from] InvalidCheckpoint),
    /// The earlier checkpoint is invalid.
    #[error("the earlier checkpoint is invalid: {0}")]
    EarlierCheckpoint(InvalidCheckpoint),
    /// The commit is invalid.
    #[error(transparent)]
    Commit(#[from] InvalidCommit),
    /// The inclusion proof does not match the checkpoint's root.
    #[error("revision {revision} is not in the log of the checkpoint at revision {head}")]
    NotIncluded {
        /// The commit's revision.
        revision: Revision,
        /// The checkpoint's revision.
        head: Revision,
    },
    /// The earlier checkpoint belongs to another registry or is newer.
    #[error(
        "the earlier checkpoint (registry {registry}, revision {revision}) is not a predecessor of this checkpoint"
    )]
    OtherLog {
        /// The registry of the earlier checkpoint.
        registry: String,
        /// The revision of the earlier checkpoint.
        revision: Revision,
    },
    /// The consistency proof does not match the roots.
    #[error(
        "the log at revision {head} does not continue the checkpoint at revision {since}: it was rewritten, or the proof was made for another one"
    )]
    NotContinued {
        /// The revision of the earlier checkpoint.
        since: Revision,
        /// The revision of the later checkpoint.
        head: Revision,
    },
}

impl Proof {
    /// Verifies the proof with the registry's key and, if given, against an earlier checkpoint.
    pub fn check(
        &self,
        key: &VerifierKey,
        since: Option<&str>,
    ) -> Result<VerifiedProof, InvalidProof> {
        let checkpoint = Checkpoint::verify(&self.checkpoint, key)?;
        let commit = SealedCommit::parse(self.commit.as_bytes())?;
        let (revision, head) = (commit.revision, checkpoint.revision);
        let leaf = merkle::leaf(&self.previous_chain.append(self.commit.as_bytes()));
        let index = revision.0.checked_sub(1);
        let path = nodes(&self.inclusion);
        let root = index.and_then(|at| merkle::root_of_inclusion(leaf, at, head.0, &path));
        if root != Some(checkpoint.root) {
            return Err(InvalidProof::NotIncluded { revision, head });
        }
        let since = since.map(|note| self.continued(&checkpoint, note, key)).transpose()?;
        Ok(VerifiedProof { commit, checkpoint, since })
    }

    fn continued(
        &self,
        checkpoint: &Checkpoint,
        note: &str,
        key: &VerifierKey,
    ) -> Result<Checkpoint, InvalidProof> {
        let since = Checkpoint::verify(note, key).map_err(InvalidProof::EarlierCheckpoint)?;
        let (old, new) = (since.revision, checkpoint.revision);
        if since.registry != checkpoint.registry || old > new {
            let registry = since.registry.to_string();
            return Err(InvalidProof::OtherLog { registry, revision: old });
        }
        let is_same = old == new && since.root == checkpoint.root;
        let path = nodes(&self.consistency);
        let roots = merkle::roots_of_consistency(since.root, old.0, new.0, &path);
        // Every log continues the empty log.
        if old != Revision(0) && !is_same && roots != Some((since.root, checkpoint.root)) {
            return Err(InvalidProof::NotContinued { since: old, head: new });
        }
        Ok(since)
    }
}

fn nodes(digests: &[Digest]) -> Vec<Node> {
    digests.iter().map(|digest| *digest.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::Ed25519KeyPair;

    use super::*;
    use crate::merkle::Tree;
    use crate::{RegistryId, Timestamp};

    struct Log {
        chains: Vec<ChainHash>,
        commits: Vec<String>,
        pair: Ed25519KeyPair,
    }

    impl Log {
        fn with_length(length: u64, message: &str) -> Self {
            let mut chains = vec![ChainHash::genesis(&RegistryId::new("r"))];
            let mut commits = Vec::new();
            for n in 1..=length {
                let message = format!("{message} {n}");
                let commit = Commit { revision: Revision(n), message, ..Commit::default() };
                let sealed = SealedCommit::seal(&chains[chains.len() - 1], commit, Vec::new());
                let sealed = sealed.unwrap();
                chains.push(sealed.chain());
                commits.push(String::from_utf8(sealed.bytes().to_vec()).unwrap());
            }
            Self { chains, commits, pair: Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap() }
        }

        fn tree(&self, length: usize) -> Tree {
            self.chains[1..=length].iter().map(merkle::leaf).collect()
        }

        fn checkpoint(&self, length: usize) -> String {
            let checkpoint = Checkpoint {
                registry: RegistryId::new("r"),
                revision: Revision(length as u64),
                root: self.tree(length).root(length).unwrap(),
                chain: self.chains[length],
                time: Timestamp::EPOCH,
            };
            checkpoint.sign(&self.pair)
        }

        fn key(&self) -> VerifierKey {
            Checkpoint::verifier_key(&RegistryId::new("r"), &self.pair)
        }

        fn prove(&self, revision: usize, since: usize) -> Proof {
            let length = self.commits.len();
            let tree = self.tree(length);
            let digests = |nodes: Vec<Node>| nodes.into_iter().map(Digest::from_bytes).collect();
            Proof {
                checkpoint: self.checkpoint(self.commits.len()),
                previous_chain: self.chains[revision - 1],
                commit: self.commits[revision - 1].clone(),
                inclusion: digests(tree.inclusion(revision - 1, length)),
                consistency: digests(tree.consistency(since, length)),
            }
        }
    }

    #[test]
    fn proof_verifies_only_original_commit() {
        let log = Log::with_length(11, "n");
        for revision in 1..=11 {
            let proof = log.prove(revision, 0);
            let proven = proof.check(&log.key(), None).unwrap();
            assert_eq!(proven.commit.revision.0, revision as u64);
            let commit = proof.commit.replace("n ", "m ");
            let forged = Proof { commit, ..proof };
            assert!(matches!(
                forged.check(&log.key(), None),
                Err(InvalidProof::NotIncluded { .. })
            ));
        }
    }

    #[test]
    fn proof_rejects_rewritten_log() {
        let (log, other) = (Log::with_length(9, "n"), Log::with_length(9, "rewritten"));
        for since in 0..=9 {
            let note = log.checkpoint(since);
            let proven = log.prove(3, since).check(&log.key(), Some(&note)).unwrap();
            assert_eq!(proven.since.unwrap().revision.0, since as u64);
            if since > 0 {
                let rewritten = other.prove(3, since).check(&log.key(), Some(&note));
                assert!(matches!(rewritten, Err(InvalidProof::NotContinued { .. })), "{since}");
            }
        }
        let ahead = Log::with_length(12, "n").checkpoint(12);
        let found = log.prove(3, 0).check(&log.key(), Some(&ahead));
        assert!(matches!(found, Err(InvalidProof::OtherLog { .. })));
    }
}
