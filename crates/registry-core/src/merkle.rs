//! The Merkle tree over the log. Short proofs show that the log contains a commit (inclusion) or
//! continues an earlier log (consistency).
//!
//! The construction is that of RFC 9162 section 2.1; leaf `n` is the chain hash after revision
//! `n + 1`. The tree is computed from the chain hashes in the log and is not stored.

use sha2::{Digest as _, Sha256};

use crate::chain::ChainHash;

/// A node hash.
pub type Node = [u8; 32];

/// The leaf hash of a commit.
pub fn leaf(chain: &ChainHash) -> Node {
    Sha256::new().chain_update([0]).chain_update(chain.as_bytes()).finalize().into()
}

fn parent(left: &Node, right: &Node) -> Node {
    Sha256::new().chain_update([1]).chain_update(left).chain_update(right).finalize().into()
}

/// A tree that caches the root of each complete subtree, at 64 bytes per leaf. Roots and proofs of
/// all its sizes take logarithmic time.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// The leaves, then the roots of each 2, 4, 8 … leaves.
    levels: Vec<Vec<Node>>,
}

impl Tree {
    /// The number of leaves.
    pub fn len(&self) -> usize {
        self.levels.first().map_or(0, Vec::len)
    }

    /// Whether it has no leaves.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The leaf hash at this index.
    pub fn leaf(&self, index: usize) -> Option<&Node> {
        self.levels.first()?.get(index)
    }

    /// Appends a leaf.
    pub fn push(&mut self, leaf: Node) {
        let mut node = leaf;
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            let nodes = &mut self.levels[level];
            nodes.push(node);
            if nodes.len() % 2 == 1 {
                return;
            }
            node = parent(&nodes[nodes.len() - 2], &nodes[nodes.len() - 1]);
        }
    }

    /// Removes all leaves after the first `size`.
    pub fn truncate(&mut self, size: usize) {
        for (level, nodes) in self.levels.iter_mut().enumerate() {
            nodes.truncate(size.checked_shr(u32::try_from(level).unwrap_or(u32::MAX)).unwrap_or(0));
        }
    }

    /// The root over the first `size` leaves, or `None` if there are fewer. The root of zero leaves
    /// is the hash of the empty string.
    pub fn root(&self, size: usize) -> Option<Node> {
        (size <= self.len()).then(|| self.root_of(0, size))
    }

    /// The inclusion proof of a leaf in the tree of the first `size` leaves. Empty if the leaf does
    /// not exist.
    pub fn inclusion(&self, index: usize, size: usize) -> Vec<Node> {
        let mut path = Vec::new();
        if size > self.len() || index >= size {
            return path;
        }
        let (mut start, mut length) = (0, size);
        while length > 1 {
            let at = split(length);
            if index < start + at {
                path.push(self.root_of(start + at, length - at));
                length = at;
            } else {
                path.push(self.root_of(start, at));
                (start, length) = (start + at, length - at);
            }
        }
        path.reverse();
        path
    }

    /// The consistency proof between the trees of the first `old` and the first `size` leaves.
    pub fn consistency(&self, old: usize, size: usize) -> Vec<Node> {
        let mut path = Vec::new();
        if old == 0 || old >= size || size > self.len() {
            return path;
        }
        let (mut start, mut length) = (0, size);
        while start + length != old {
            let at = split(length);
            if old <= start + at {
                path.push(self.root_of(start + at, length - at));
                length = at;
            } else {
                path.push(self.root_of(start, at));
                (start, length) = (start + at, length - at);
            }
        }
        // The verifier already has this node if it is the root of the old tree.
        if start > 0 {
            path.push(self.root_of(start, length));
        }
        path.reverse();
        path
    }

    /// The root over `length` leaves from `start`, where a complete subtree of at least that size
    /// starts.
    fn root_of(&self, start: usize, length: usize) -> Node {
        if length == 0 {
            return Sha256::digest(b"").into();
        }
        if length.is_power_of_two() {
            let level = length.trailing_zeros() as usize;
            return self.levels[level][start >> level];
        }
        let at = split(length);
        parent(&self.root_of(start, at), &self.root_of(start + at, length - at))
    }
}

impl FromIterator<Node> for Tree {
    fn from_iter<I: IntoIterator<Item = Node>>(leaves: I) -> Self {
        let mut tree = Self::default();
        leaves.into_iter().for_each(|leaf| tree.push(leaf));
        tree
    }
}

/// The largest power of two smaller than the number of leaves, which is at least two.
fn split(leaves: usize) -> usize {
    leaves.next_power_of_two() / 2
}

/// The root computed from a leaf and its inclusion proof; `None` if the proof has the wrong length.
pub fn root_of_inclusion(leaf: Node, index: u64, size: u64, path: &[Node]) -> Option<Node> {
    if index >= size {
        return None;
    }
    let (mut at, mut last, mut node) = (index, size - 1, leaf);
    for sibling in path {
        if last == 0 {
            return None;
        }
        if at % 2 == 1 || at == last {
            node = parent(sibling, &node);
            while at.is_multiple_of(2) && at != 0 {
                at /= 2;
                last /= 2;
            }
        } else {
            node = parent(&node, sibling);
        }
        at /= 2;
        last /= 2;
    }
    (last == 0).then_some(node)
}

/// The old and new root computed from a consistency proof; `None` if the proof has the wrong
/// length.
pub fn roots_of_consistency(
    old_root: Node,
    old: u64,
    new: u64,
    path: &[Node],
) -> Option<(Node, Node)> {
    if old == 0 || old >= new {
        return None;
    }
    let mut path = path.iter();
    let first = if old.is_power_of_two() { old_root } else { *path.next()? };
    let (mut at, mut last) = (old - 1, new - 1);
    while at % 2 == 1 {
        at /= 2;
        last /= 2;
    }
    let (mut older, mut newer) = (first, first);
    for sibling in path {
        if last == 0 {
            return None;
        }
        if at % 2 == 1 || at == last {
            older = parent(sibling, &older);
            newer = parent(sibling, &newer);
            while at.is_multiple_of(2) && at != 0 {
                at /= 2;
                last /= 2;
            }
        } else {
            newer = parent(&newer, sibling);
        }
        at /= 2;
        last /= 2;
    }
    (last == 0).then_some((older, newer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Digest;

    /// The definition of the root.
    fn root(leaves: &[Node]) -> Node {
        match leaves {
            [] => Sha256::digest(b"").into(),
            [leaf] => *leaf,
            leaves => {
                let (left, right) = leaves.split_at(split(leaves.len()));
                parent(&root(left), &root(right))
            }
        }
    }

    /// The definition of the inclusion proof.
    fn inclusion(leaves: &[Node], index: usize) -> Vec<Node> {
        if leaves.len() <= 1 || index >= leaves.len() {
            return Vec::new();
        }
        let at = split(leaves.len());
        let (left, right) = leaves.split_at(at);
        let (mut path, sibling) = if index < at {
            (inclusion(left, index), root(right))
        } else {
            (inclusion(right, index - at), root(left))
        };
        path.push(sibling);
        path
    }

    /// The definition of the consistency proof.
    fn consistency(leaves: &[Node], old: usize) -> Vec<Node> {
        if old == 0 || old >= leaves.len() {
            return Vec::new();
        }
        subproof(leaves, old, Whole::Yes)
    }

    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Whole {
        Yes,
        No,
    }

    fn subproof(leaves: &[Node], old: usize, whole: Whole) -> Vec<Node> {
        if old == leaves.len() {
            return if whole == Whole::Yes { Vec::new() } else { vec![root(leaves)] };
        }
        let at = split(leaves.len());
        let (left, right) = leaves.split_at(at);
        let (mut path, sibling) = if old <= at {
            (subproof(left, old, whole), root(right))
        } else {
            (subproof(right, old - at, Whole::No), root(left))
        };
        path.push(sibling);
        path
    }

    fn leaves(count: usize) -> Vec<Node> {
        (0..count).map(|i| *Digest::compute(&i.to_be_bytes()).as_bytes()).collect()
    }

    #[test]
    fn cached_tree_matches_definition() {
        let all = leaves(70);
        let mut tree: Tree = all.iter().copied().collect();
        tree.truncate(65);
        all[65..].iter().for_each(|leaf| tree.push(*leaf));
        for size in 0..=all.len() {
            let leaves = &all[..size];
            assert_eq!(tree.root(size), Some(root(leaves)), "{size}");
            for index in 0..size {
                assert_eq!(
                    tree.inclusion(index, size),
                    inclusion(leaves, index),
                    "{index} of {size}"
                );
                assert_eq!(
                    tree.consistency(index, size),
                    consistency(leaves, index),
                    "{index} of {size}"
                );
            }
        }
        assert_eq!((tree.len(), tree.root(71)), (70, None));
    }

    /// In a tree of a million leaves, each proof needs about 20 hashes.
    #[test]
    fn root_of_any_size_takes_logarithmic_time() {
        let size = (1 << 20) - 1;
        let tree: Tree =
            (0..size as u64).map(|i| *Digest::compute(&i.to_be_bytes()).as_bytes()).collect();
        let began = std::time::Instant::now();
        for less in 0..200 {
            assert!(tree.root(size - less).is_some());
            assert_eq!(tree.inclusion(less, size).len(), 20);
            assert!(began.elapsed().as_secs() < 5, "{less}: {:?}", began.elapsed());
        }
    }

    /// RFC 9162 defines the root recursively; this is the equivalent for perfect trees.
    #[test]
    fn root_of_perfect_tree_matches_levels() {
        let mut level = leaves(8);
        let expected = root(&level);
        while level.len() > 1 {
            level = level.chunks(2).map(|pair| parent(&pair[0], &pair[1])).collect();
        }
        assert_eq!(level[0], expected);
        assert_eq!(
            Digest::from_bytes(root(&[])).to_string(),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn inclusion_proof_verifies_only_its_leaf() {
        for size in 1..40_usize {
            let leaves = leaves(size);
            let root = root(&leaves);
            for (index, leaf) in leaves.iter().enumerate() {
                let path = inclusion(&leaves, index);
                let lead = |index: usize, size: usize, path: &[Node]| {
                    root_of_inclusion(*leaf, index as u64, size as u64, path)
                };
                assert_eq!(lead(index, size, &path), Some(root), "{index} of {size}");
                assert_ne!(lead((index + 1) % (size + 1), size, &path), Some(root));
                let longer = [&path[..], &[*leaf]].concat();
                assert_ne!(lead(index, size, &longer), Some(root));
                for i in 0..path.len() {
                    let mut other = path.clone();
                    other[i][0] ^= 1;
                    assert_ne!(lead(index, size, &other), Some(root));
                    assert_ne!(lead(index, size, &path[..i]), Some(root));
                }
            }
        }
    }

    #[test]
    fn consistency_proof_verifies_only_prefixes() {
        let all = leaves(40);
        for new in 1..all.len() {
            for old in 1..new {
                let (older, newer) = (root(&all[..old]), root(&all[..new]));
                let path = consistency(&all[..new], old);
                let lead =
                    |path: &[Node]| roots_of_consistency(older, old as u64, new as u64, path);
                assert_eq!(lead(&path), Some((older, newer)), "{old} of {new}");
                for i in 0..path.len() {
                    let mut other = path.clone();
                    other[i][0] ^= 1;
                    assert_ne!(lead(&other), Some((older, newer)));
                    assert_ne!(lead(&path[..i]), Some((older, newer)));
                }
            }
        }
        assert_eq!(roots_of_consistency(root(&all), 0, 3, &[]), None);
        assert_eq!(roots_of_consistency(root(&all), 3, 3, &[]), None);
    }
}
