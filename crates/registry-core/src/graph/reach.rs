//! Breadth-first traversal along dependencies or dependents, with the distance and a shortest path
//! to each entity.

use std::collections::{HashMap, HashSet};

use crate::{catalog::Catalog, kind::Kind, reference::Key};

/// The direction of the traversal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From an entity to its dependencies.
    Dependencies,
    /// From an entity to its dependents.
    Dependents,
}

impl Direction {
    /// The direct neighbors without duplicates, by key.
    fn step(self, catalog: &Catalog, key: &Key) -> Vec<Key> {
        let mut next: Vec<Key> = match self {
            // A server refers only to the tools that it provides, and does not depend on them.
            Self::Dependencies if key.kind == Kind::Server => return Vec::new(),
            Self::Dependencies => catalog.find(key).map_or_else(Vec::new, |record| {
                let edges = record.document.edges().iter();
                edges.filter(|edge| catalog.find(edge).is_some()).cloned().collect()
            }),
            Self::Dependents => {
                catalog.dependents(key).filter(|key| key.kind != Kind::Server).cloned().collect()
            }
        };
        next.sort_unstable();
        next.dedup();
        next
    }
}

/// An entity found by the traversal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// The entity's key.
    pub key: Key,
    /// The distance from the nearest root.
    pub depth: usize,
    /// The index of its predecessor on a shortest path; `None` for roots.
    pub via: Option<usize>,
}

/// The result of a traversal: the roots in the given order, then by distance and key.
#[derive(Debug, Clone)]
pub struct Reach {
    direction: Direction,
    deepest: Option<usize>,
    nodes: Vec<Reached>,
}

impl Reach {
    /// Traverses from the registered roots up to this distance.
    pub fn from_roots<'a>(
        catalog: &Catalog,
        roots: impl IntoIterator<Item = &'a Key>,
        direction: Direction,
        deepest: Option<usize>,
    ) -> Self {
        let mut seen: HashSet<Key> = HashSet::new();
        let mut nodes = Vec::new();
        for key in roots {
            let counts = match direction {
                Direction::Dependencies => catalog.find(key).is_some(),
                Direction::Dependents => true,
            };
            if counts && seen.insert(key.clone()) {
                nodes.push(Reached { key: key.clone(), depth: 0, via: None });
            }
        }
        let mut level = 0..nodes.len();
        for depth in 1.. {
            if level.is_empty() || deepest.is_some_and(|deepest| depth > deepest) {
                break;
            }
            let mut found = Vec::new();
            for at in level.clone() {
                for key in direction.step(catalog, &nodes[at].key) {
                    if seen.insert(key.clone()) {
                        found.push(Reached { key, depth, via: Some(at) });
                    }
                }
            }
            found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
            level = nodes.len()..nodes.len() + found.len();
            nodes.append(&mut found);
        }
        Self { direction, deepest, nodes }
    }

    /// The entities found.
    pub fn nodes(&self) -> &[Reached] {
        &self.nodes
    }

    /// The keys of the entities found, in the same order.
    pub fn into_keys(self) -> impl Iterator<Item = Key> {
        self.nodes.into_iter().map(|node| node.key)
    }

    /// The indices of a shortest path from a root to this node, including both.
    pub fn path(&self, position: usize) -> Vec<usize> {
        let mut path: Vec<usize> =
            std::iter::successors(Some(position), |at| self.nodes[*at].via).collect();
        path.reverse();
        path
    }

    /// The edges among the first `most` nodes: for each node, the indices of its successors.
    pub fn steps(&self, catalog: &Catalog, most: usize) -> Vec<Vec<usize>> {
        let nodes = &self.nodes[..most.min(self.nodes.len())];
        let positions: HashMap<&Key, usize> =
            nodes.iter().enumerate().map(|(at, node)| (&node.key, at)).collect();
        let of = |node: &Reached| {
            if self.deepest.is_some_and(|deepest| node.depth >= deepest) {
                return Vec::new();
            }
            let keys = self.direction.step(catalog, &node.key);
            keys.iter().filter_map(|key| positions.get(key).copied()).collect()
        };
        nodes.iter().map(of).collect()
    }
}
