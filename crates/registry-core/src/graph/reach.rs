//! Breadth-first traversal along dependencies or dependents, with the distance and a shortest path
//! to each entity.
//!
//! A traversal borrows from the catalog and visits each level in the order of keys, so that hubs with
//! 100,000 dependents cost neither copies nor a search per entity.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::paths::ways;
use crate::{
    catalog::{Ascending, Catalog, Record},
    kind::Kind,
    reference::Key,
};

/// The direction of the traversal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From an entity to its dependencies.
    Dependencies,
    /// From an entity to its dependents.
    Dependents,
}

/// An entity of the catalog with its key.
type Entry<'a> = (&'a Key, &'a Arc<Record>);

impl Direction {
    /// A function that returns the direct neighbors of an entity without duplicates, by key. Calls in
    /// the order of keys cost least.
    fn neighbors<'a>(self, catalog: &'a Catalog) -> impl FnMut(Entry<'a>) -> Vec<Entry<'a>> {
        let mut dependents = Ascending::new(move |from: &Key| catalog.dependents_from(from));
        let mut records = Ascending::new(move |from: &Key| catalog.records_from(from));
        move |(key, record): Entry<'a>| match self {
            // A server refers only to the tools that it provides, and does not depend on them.
            Self::Dependencies if key.kind == Kind::Server => Vec::new(),
            Self::Dependencies => {
                let edges = record.document.edges().iter();
                let registered = edges.filter_map(|edge| Some((edge, catalog.find(edge)?)));
                let mut registered: Vec<Entry<'a>> = registered.collect();
                registered.sort_unstable_by_key(|(key, _)| *key);
                registered.dedup_by_key(|(key, _)| *key);
                registered
            }
            Self::Dependents => {
                let mut users = Vec::new();
                dependents.each(key, |user: &'a Key| {
                    if user.kind != Kind::Server
                        && let Some(record) = records.find(user)
                    {
                        users.push((user, record));
                    }
                });
                users
            }
        }
    }

    fn reversed(self) -> Self {
        match self {
            Self::Dependencies => Self::Dependents,
            Self::Dependents => Self::Dependencies,
        }
    }
}

/// An entity found by the traversal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached<'a> {
    /// The entity's key.
    pub key: &'a Key,
    /// The entity.
    pub record: &'a Arc<Record>,
    /// The distance from the nearest root.
    pub depth: usize,
    /// The index of its predecessor on a shortest path; `None` for roots.
    pub via: Option<usize>,
}

/// The result of a traversal: the roots in the given order, then by distance and key.
#[derive(Debug, Clone)]
pub struct Reach<'a> {
    catalog: &'a Catalog,
    direction: Direction,
    deepest: Option<usize>,
    nodes: Vec<Reached<'a>>,
    /// The identities of the first nodes: of all, or only of a single root whose neighbors have no neighbors.
    seen: HashSet<usize>,
}

impl<'a> Reach<'a> {
    /// Traverses from the registered roots up to this distance.
    pub fn from_roots<'k>(
        catalog: &'a Catalog,
        roots: impl IntoIterator<Item = &'k Key>,
        direction: Direction,
        deepest: Option<usize>,
    ) -> Self {
        let mut neighbors = direction.neighbors(catalog);
        let (mut seen, mut nodes) = (HashSet::new(), Vec::new());
        for record in roots.into_iter().filter_map(|key| catalog.find(key)) {
            if seen.insert(identity(record)) {
                nodes.push(Reached { key: record.document.key(), record, depth: 0, via: None });
            }
        }
        let mut level = 0..nodes.len();
        for depth in 1.. {
            if level.is_empty() || deepest.is_some_and(|deepest| depth > deepest) {
                break;
            }
            let first = nodes.len();
            for at in level.clone() {
                let Reached { key, record, .. } = nodes[at];
                let next = neighbors((key, record));
                if next.is_empty() {
                    continue;
                }
                let via = Some(at);
                let next =
                    next.into_iter().map(|(key, record)| Reached { key, record, depth, via });
                if nodes.len() == 1 {
                    // The neighbors of one entity differ from each other.
                    nodes.extend(next.filter(|node| !Arc::ptr_eq(node.record, record)));
                } else {
                    seen.extend(nodes[seen.len()..].iter().map(|node| identity(node.record)));
                    nodes.extend(next.filter(|node| seen.insert(identity(node.record))));
                }
            }
            // The neighbors of one entity are ordered already.
            if level.len() > 1 {
                nodes[first..].sort_unstable_by_key(|node: &Reached<'a>| node.key);
            }
            level = first..nodes.len();
        }
        Self { catalog, direction, deepest, nodes, seen }
    }

    /// Whether the traversal found an entity.
    fn contains(&self, (key, record): Entry<'a>) -> bool {
        // The other nodes are the neighbors of a single root, by key.
        let others = &self.nodes[self.seen.len()..];
        self.seen.contains(&identity(record))
            || others.binary_search_by_key(&key, |node| node.key).is_ok()
    }

    /// The entities found.
    pub fn nodes(&self) -> &[Reached<'a>] {
        &self.nodes
    }

    /// The keys of the entities found, in the same order.
    pub fn into_keys(self) -> impl Iterator<Item = Key> {
        self.nodes.into_iter().map(|node| node.key.clone())
    }

    /// The indices of a shortest path from a root to this node, including both.
    pub fn path(&self, position: usize) -> Vec<usize> {
        let mut path: Vec<usize> =
            std::iter::successors(Some(position), |at| self.nodes[*at].via).collect();
        path.reverse();
        path
    }

    /// The edges among the first `most` nodes: for each node, the indices of its successors.
    pub fn steps(&self, most: usize) -> Vec<Vec<usize>> {
        let nodes = &self.nodes[..most.min(self.nodes.len())];
        let positions: HashMap<usize, usize> =
            nodes.iter().enumerate().map(|(at, node)| (identity(node.record), at)).collect();
        let mut neighbors = self.direction.neighbors(self.catalog);
        let of = |node: &Reached<'a>| {
            if self.deepest.is_some_and(|deepest| node.depth >= deepest) {
                return Vec::new();
            }
            let next = neighbors((node.key, node.record));
            next.iter()
                .filter_map(|(_, record)| positions.get(&identity(record)).copied())
                .collect()
        };
        nodes.iter().map(of).collect()
    }

    /// The number of paths from the roots to each of these nodes, after a traversal without a maximum
    /// distance. The cost is proportional to the entities between them.
    pub(super) fn path_counts(&self, wanted: &[usize]) -> Vec<u64> {
        let mut between = Between::default();
        let roots = self.nodes.iter().take_while(|node| node.depth == 0);
        let roots: Vec<usize> = roots.map(|node| between.place((node.key, node.record))).collect();
        let wanted = wanted.iter().map(|at| &self.nodes[*at]);
        let wanted: Vec<usize> =
            wanted.map(|node| between.place((node.key, node.record))).collect();
        let mut predecessors = self.direction.reversed().neighbors(self.catalog);
        let mut edges = Vec::new();
        for at in 0.. {
            let Some(&entity) = between.entities.get(at) else { break };
            for earlier in predecessors(entity) {
                if self.contains(earlier) {
                    edges.push((between.place(earlier), at));
                }
            }
        }
        let mut steps = vec![Vec::new(); between.entities.len()];
        for (from, to) in edges {
            steps[from].push(to);
        }
        let ways = ways(&steps, roots);
        wanted.into_iter().map(|place| ways[place]).collect()
    }
}

/// The entities between the roots and some nodes.
#[derive(Default)]
struct Between<'a> {
    entities: Vec<Entry<'a>>,
    places: HashMap<usize, usize>,
}

impl<'a> Between<'a> {
    /// The index of an entity, which is added if new.
    fn place(&mut self, entity: Entry<'a>) -> usize {
        let Self { entities, places } = self;
        *places.entry(identity(entity.1)).or_insert_with(|| {
            entities.push(entity);
            entities.len() - 1
        })
    }
}

/// The identity of an entity of one catalog, which costs less to hash than its key.
fn identity(record: &Arc<Record>) -> usize {
    Arc::as_ptr(record).addr()
}
