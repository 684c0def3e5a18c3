//! A set of lines with an incremental digest: a Merkle tree whose shape depends only on the lines,
//! so that equal sets have equal digests regardless of the order of their changes.
//!
//! A line is represented by its SHA-256. Up to [`BUCKET`] lines form a bucket with the digest
//! SHA-256(0 ‖ sorted line hashes). A larger set is a branch with sixteen children by the next four
//! bits, and has the digest SHA-256(1 ‖ the children's digests).

use std::sync::{Arc, OnceLock};

use sha2::{Digest as _, Sha256};

/// Maximum number of lines in a bucket.
const BUCKET: usize = 16;
/// Number of children of a branch.
const FAN: usize = 16;

type Hash = [u8; 32];

#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    root: Arc<Node>,
}

#[derive(Debug, Clone, Default)]
struct Node {
    digest: OnceLock<Hash>,
    inside: Inside,
}

#[derive(Debug, Clone)]
enum Inside {
    Bucket(Vec<Hash>),
    Branch { len: usize, nodes: [Arc<Node>; FAN] },
}

impl Default for Inside {
    fn default() -> Self {
        Self::Bucket(Vec::new())
    }
}

impl Content {
    /// Adds a line unless it is present.
    pub(super) fn insert(&mut self, line: &str) {
        Arc::make_mut(&mut self.root).insert(Sha256::digest(line).into(), 0);
    }

    /// Removes a line if it is present.
    pub(super) fn remove(&mut self, line: &str) {
        Arc::make_mut(&mut self.root).remove(&Sha256::digest(line).into(), 0);
    }

    pub(super) fn digest(&self) -> Hash {
        self.root.digest()
    }
}

impl Node {
    fn len(&self) -> usize {
        match &self.inside {
            Inside::Bucket(lines) => lines.len(),
            Inside::Branch { len, .. } => *len,
        }
    }

    fn digest(&self) -> Hash {
        *self.digest.get_or_init(|| {
            let hash = match &self.inside {
                Inside::Bucket(lines) => {
                    lines.iter().fold(Sha256::new_with_prefix([0]), Sha256::chain_update)
                }
                Inside::Branch { nodes, .. } => {
                    nodes.iter().fold(Sha256::new_with_prefix([1]), |hash, node| {
                        hash.chain_update(node.digest())
                    })
                }
            };
            hash.finalize().into()
        })
    }

    /// Returns whether the line is new.
    fn insert(&mut self, line: Hash, depth: usize) -> bool {
        let is_new = match &mut self.inside {
            Inside::Bucket(lines) => match lines.binary_search(&line) {
                Ok(_) => false,
                Err(place) => {
                    lines.insert(place, line);
                    true
                }
            },
            Inside::Branch { len, nodes } => {
                let is_new =
                    Arc::make_mut(&mut nodes[branch(&line, depth)]).insert(line, depth + 1);
                *len += usize::from(is_new);
                is_new
            }
        };
        if is_new {
            self.digest.take();
            self.split(depth);
        }
        is_new
    }

    /// Turns a bucket that has become too large into a branch.
    fn split(&mut self, depth: usize) {
        let Inside::Bucket(lines) = &mut self.inside else { return };
        if lines.len() <= BUCKET {
            return;
        }
        let lines = std::mem::take(lines);
        let len = lines.len();
        let mut parts: [Vec<Hash>; FAN] = Default::default();
        for line in lines {
            parts[branch(&line, depth)].push(line);
        }
        let nodes = parts.map(|lines| {
            let mut node = Self { inside: Inside::Bucket(lines), ..Self::default() };
            node.split(depth + 1);
            Arc::new(node)
        });
        self.inside = Inside::Branch { len, nodes };
    }

    /// Returns whether the line was present.
    fn remove(&mut self, line: &Hash, depth: usize) -> bool {
        let was_there = match &mut self.inside {
            Inside::Bucket(lines) => match lines.binary_search(line) {
                Ok(place) => {
                    lines.remove(place);
                    true
                }
                Err(_) => false,
            },
            Inside::Branch { len, nodes } => {
                let was_there =
                    Arc::make_mut(&mut nodes[branch(line, depth)]).remove(line, depth + 1);
                *len -= usize::from(was_there);
                was_there
            }
        };
        if was_there {
            self.digest.take();
            if self.len() <= BUCKET {
                let mut lines = Vec::with_capacity(self.len());
                self.collect(&mut lines);
                self.inside = Inside::Bucket(lines);
            }
        }
        was_there
    }

    /// Appends all line hashes in order.
    fn collect(&self, into: &mut Vec<Hash>) {
        match &self.inside {
            Inside::Bucket(lines) => into.extend(lines),
            Inside::Branch { nodes, .. } => nodes.iter().for_each(|node| node.collect(into)),
        }
    }
}

/// The index of the child that contains a line. SHA-256 collision resistance bounds the depth below
/// 64 levels.
fn branch(line: &Hash, depth: usize) -> usize {
    let byte = usize::from(line[depth / 2]);
    if depth.is_multiple_of(2) { byte >> 4 } else { byte & 15 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn from_lines<'a>(lines: impl IntoIterator<Item = &'a String>) -> Content {
        let mut content = Content::default();
        lines.into_iter().for_each(|line| content.insert(line));
        content
    }

    /// A direct implementation of the definition, as the reference.
    fn direct(lines: &[Hash], depth: usize) -> Hash {
        if lines.len() <= BUCKET {
            return Sha256::digest([&[0], lines.concat().as_slice()].concat()).into();
        }
        let mut text = vec![1];
        for i in 0..FAN {
            let part: Vec<Hash> =
                lines.iter().filter(|line| branch(line, depth) == i).copied().collect();
            text.extend(direct(&part, depth + 1));
        }
        Sha256::digest(text).into()
    }

    proptest! {
        #[test]
        fn content_digest_is_independent_of_change_order(
            steps in prop::collection::vec((0_u16..400, any::<bool>()), 0..900),
        ) {
            let (mut content, mut lines) = (Content::default(), BTreeSet::new());
            let mut before = Vec::new();
            for (line, is_in) in steps {
                let line = format!("line {line}");
                if before.len() < 8 {
                    before.push((content.clone(), content.digest()));
                }
                if is_in {
                    content.insert(&line);
                    lines.insert(line);
                } else {
                    content.remove(&line);
                    lines.remove(&line);
                }
            }
            let mut hashes: Vec<Hash> = lines.iter().map(|l| Sha256::digest(l).into()).collect();
            hashes.sort_unstable();
            prop_assert_eq!(content.digest(), direct(&hashes, 0));
            prop_assert_eq!(content.digest(), from_lines(lines.iter().rev()).digest());
            prop_assert_eq!(content.root.len(), lines.len());
            // Earlier clones are unaffected by later changes.
            for (copy, digest) in before {
                prop_assert_eq!(copy.digest(), digest);
            }
        }
    }

    #[test]
    fn content_digest_changes_with_each_line() {
        let lines: Vec<String> = (0..40).map(|i| format!("line {i}")).collect();
        let whole = from_lines(&lines).digest();
        for i in 0..lines.len() {
            let mut less = from_lines(&lines);
            less.remove(&lines[i]);
            assert_ne!(less.digest(), whole);
            less.insert("another");
            assert_ne!(less.digest(), whole);
        }
    }
}
