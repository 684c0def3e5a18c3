//! A walk from some entities along their dependencies, or back along their dependents: what it
//! reaches, how many steps away, and one shortest path to each.

use std::collections::{HashMap, HashSet};

use crate::{catalog::Catalog, kind::Kind, reference::Key};

/// Which way to walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To what an entity needs.
    Dependencies,
    /// To what needs an entity.
    Dependents,
}

impl Direction {
    /// What is one step away, each once, by key.
    fn step(self, catalog: &Catalog, key: &Key) -> Vec<Key> {
        let mut next: Vec<Key> = match self {
            // Servers refer only to the tools that they provide, which they do not need.
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

/// An entity that a walk reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// Which.
    pub key: Key,
    /// How many steps it is from the nearest root.
    pub depth: usize,
    /// The position of the one before it on a shortest path from a root; `None` for roots.
    pub via: Option<usize>,
}

/// What a walk reached: the roots as they were given, then by depth and key.
#[derive(Debug, Clone)]
pub struct Reach {
    direction: Direction,
    deepest: Option<usize>,
    nodes: Vec<Reached>,
}

impl Reach {
    /// Walks from the roots that are registered, at most so many steps.
    pub fn of<'a>(
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

    /// What was reached.
    pub fn nodes(&self) -> &[Reached] {
        &self.nodes
    }

    /// The keys of what was reached, in the same order.
    pub fn into_keys(self) -> impl Iterator<Item = Key> {
        self.nodes.into_iter().map(|node| node.key)
    }

    /// The positions of a shortest path from a root to the node at a position, both included.
    pub fn path(&self, position: usize) -> Vec<usize> {
        let mut path: Vec<usize> =
            std::iter::successors(Some(position), |at| self.nodes[*at].via).collect();
        path.reverse();
        path
    }

    /// The steps of the walk between its first `most` nodes: for each of them, the positions of
    /// those that it leads to.
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
