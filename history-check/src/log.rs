//! The log at the end of a history: its commits, and the state after each of them.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{
    closure::{self, Documents},
    event::{Event, Line},
    state::{Entities, State},
};

/// The recorder of the registry's log. The log of a relay is recorded under the relay's name.
pub const RECORDER: &str = "recorder";

/// One commit.
#[derive(Debug, Clone)]
pub struct Commit {
    /// Its line in the history.
    pub line: u64,
    /// Its number.
    pub revision: u64,
    /// The chain hash after it, as the log says.
    pub chain: String,
    /// The canonical commit.
    pub canonical: String,
    /// The digests of the registered documents.
    pub documents: Vec<String>,
    /// The parsed commit, or null if it is invalid.
    pub value: Value,
}

/// The log.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// The registry's id.
    pub registry: String,
    /// The line of the head, its revision and its chain hash.
    pub head: (u64, u64, String),
    /// The commits in their order.
    pub commits: Vec<Commit>,
    /// The documents by their digests.
    pub documents: Documents,
    states: Vec<State>,
    /// Commits that could not be applied, with line and reason. The states end before the first
    /// one.
    pub unfit: Vec<(u64, String)>,
}

impl Log {
    /// The log recorded under this name; empty if there is none.
    pub fn new(lines: &[Line], who: &str) -> Self {
        let mut log = Self { states: vec![State::default()], ..Self::default() };
        for line in lines.iter().filter(|line| line.who == who) {
            match &line.event {
                Event::Log { registry, revision, chain } => {
                    log.registry.clone_from(registry);
                    log.head = (line.n, *revision, chain.clone());
                }
                Event::Commit { revision, chain, canonical, documents } => {
                    let digests = documents.iter().map(|text| log.keep(text)).collect();
                    log.push(Commit {
                        line: line.n,
                        revision: *revision,
                        chain: chain.clone(),
                        canonical: canonical.clone(),
                        documents: digests,
                        value: serde_json::from_str(canonical).unwrap_or_default(),
                    });
                }
                _ => {}
            }
        }
        log
    }

    fn keep(&mut self, document: &str) -> String {
        let digest = digest(&[document.as_bytes()]);
        let value = serde_json::from_str(document).unwrap_or_default();
        self.documents.insert(digest.clone(), value);
        digest
    }

    fn push(&mut self, commit: Commit) {
        if self.unfit.is_empty() {
            let last = self.states.last().expect("there is the empty one");
            match last.after(&commit.value) {
                Ok(next) => self.states.push(next),
                Err(reason) => self.unfit.push((commit.line, reason)),
            }
        }
        self.commits.push(commit);
    }

    /// The revision of the last commit.
    pub fn last(&self) -> u64 {
        self.commits.len() as u64
    }

    /// The state after a revision, if the log has it.
    pub fn state(&self, revision: u64) -> Option<&State> {
        self.states.get(usize::try_from(revision).ok()?)
    }

    /// The entities in a scope after a revision.
    pub fn part(&self, revision: u64, roots: &[String]) -> Option<Entities> {
        let state = self.state(revision)?;
        Some(closure::closure(&state.entities, &self.documents, roots))
    }

    /// The commit with this revision.
    pub fn commit(&self, revision: u64) -> Option<&Commit> {
        let index = usize::try_from(revision).ok()?.checked_sub(1)?;
        self.commits.get(index)
    }

    /// The recorded chain hash after a revision.
    pub fn chain(&self, revision: u64) -> Option<String> {
        match revision {
            0 => Some(genesis(&self.registry)),
            _ => Some(self.commit(revision)?.chain.clone()),
        }
    }

    /// Groups the commits by request id.
    pub fn by_request_id(&self) -> BTreeMap<&str, Vec<&Commit>> {
        let mut found: BTreeMap<&str, Vec<&Commit>> = BTreeMap::new();
        for commit in &self.commits {
            if let Some(id) = commit.value["requestId"].as_str() {
                found.entry(id).or_default().push(commit);
            }
        }
        found
    }
}

/// The SHA-256 of these bytes, concatenated, as `sha256:` and 64 digits.
pub fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    format!("sha256:{}", digits(&hash.finalize()))
}

/// Encodes bytes as hexadecimal digits.
pub fn digits(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The chain hash before the first commit.
pub fn genesis(registry: &str) -> String {
    digest(&[b"registry:", registry.as_bytes()])
}

/// The chain hash after one more commit, if the previous hash is valid.
pub fn append(chain: &str, canonical: &str) -> Option<String> {
    let before = bytes_of(chain.strip_prefix("sha256:")?)?;
    Some(digest(&[&before, canonical.as_bytes()]))
}

/// Decodes hexadecimal digits.
pub(crate) fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(byte).collect()
}
