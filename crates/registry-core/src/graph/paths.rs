//! Paths between two entities: the shortest ones and their total number.
//!
//! A best-first search with exact distances never leaves the way to the goal, so its cost is
//! proportional to the requested paths instead of all paths.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use super::reach::{Direction, Reach};
use crate::{catalog::Catalog, limits, reference::Key};

/// Maximum number of search steps. Only cycles, which registered entities cannot form, would exceed
/// it.
const STEPS: usize = 1_000_000;

/// The paths between two entities.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Paths {
    /// The shortest paths in order of length, including both ends.
    pub shown: Vec<Vec<Key>>,
    /// The number of all paths, saturating at `u64::MAX`.
    pub total: u64,
}

/// The `most` shortest paths from an entity to one of its dependencies; empty if it does not depend
/// on it.
pub fn paths(catalog: &Catalog, from: &Key, to: &Key, most: usize) -> Paths {
    let reach = Reach::from_roots(catalog, [from], Direction::Dependencies, None);
    let Some(goal) = reach.nodes().iter().position(|node| node.key == to) else {
        return Paths::default();
    };
    let steps = reach.steps(usize::MAX);
    let key = |at: &usize| reach.nodes()[*at].key.clone();
    let mut keys = 0;
    let shown: Vec<Vec<Key>> = shortest(&steps, goal, most)
        .iter()
        .take_while(|path| {
            keys += path.len();
            keys == path.len() || keys <= limits::GRAPH_EDGES
        })
        .map(|path| path.iter().map(key).collect())
        .collect();
    let total = ways(&steps, [0])[goal].max(shown.len() as u64);
    Paths { shown, total }
}

/// The number of paths from the roots to each node of an acyclic graph.
pub(super) fn ways(steps: &[Vec<usize>], roots: impl IntoIterator<Item = usize>) -> Vec<u64> {
    let mut ways = vec![0_u64; steps.len()];
    let mut missing = vec![0_usize; steps.len()];
    for next in steps.iter().flatten() {
        missing[*next] += 1;
    }
    for root in roots {
        ways[root] = 1;
    }
    let mut ready: Vec<usize> = (0..steps.len()).filter(|node| missing[*node] == 0).collect();
    while let Some(node) = ready.pop() {
        for &next in &steps[node] {
            ways[next] = ways[next].saturating_add(ways[node]);
            missing[next] -= 1;
            if missing[next] == 0 {
                ready.push(next);
            }
        }
    }
    ways
}

/// The distance of each node to the goal; `None` if the goal is unreachable.
fn distances(steps: &[Vec<usize>], goal: usize) -> Vec<Option<usize>> {
    let mut before = vec![Vec::new(); steps.len()];
    for (node, nexts) in steps.iter().enumerate() {
        for &next in nexts {
            before[next].push(node);
        }
    }
    let mut distances = vec![None; steps.len()];
    distances[goal] = Some(0);
    let mut waiting = VecDeque::from([(goal, 0)]);
    while let Some((node, distance)) = waiting.pop_front() {
        for &earlier in &before[node] {
            if distances[earlier].is_none() {
                distances[earlier] = Some(distance + 1);
                waiting.push_back((earlier, distance + 1));
            }
        }
    }
    distances
}

/// A path prefix: a node and the index of the preceding prefix.
struct Begun {
    node: usize,
    before: Option<usize>,
    length: usize,
}

/// An extension of a prefix in the order of exploration: by total length, then by proximity to the
/// goal.
type Way = Reverse<(usize, Reverse<usize>, usize, usize)>;

struct Search {
    /// The successors of each node on the way to the goal with their distances, nearest first.
    nexts: Vec<Vec<(usize, usize)>>,
    begun: Vec<Begun>,
    waiting: BinaryHeap<Way>,
}

/// The shortest paths from node 0 to the goal.
fn shortest(steps: &[Vec<usize>], goal: usize, most: usize) -> Vec<Vec<usize>> {
    if goal == 0 {
        return vec![vec![0]];
    }
    let distances = distances(steps, goal);
    let leading = |nexts: &Vec<usize>| {
        let mut leading: Vec<(usize, usize)> =
            nexts.iter().filter_map(|next| Some((distances[*next]?, *next))).collect();
        leading.sort_unstable();
        leading
    };
    let nexts = steps.iter().map(leading).collect();
    let start = Begun { node: 0, before: None, length: 0 };
    let mut search = Search { nexts, begun: vec![start], waiting: BinaryHeap::new() };
    search.wait(0, 0);
    let mut found = Vec::new();
    for _ in 0..STEPS {
        if found.len() == most {
            break;
        }
        let Some(Reverse((_, _, place, way))) = search.waiting.pop() else { break };
        found.extend(search.advance(place, way, goal));
    }
    found
}

impl Search {
    /// Queues the extension with this index, if the prefix has that many.
    fn wait(&mut self, place: usize, way: usize) {
        let Begun { node, length, .. } = self.begun[place];
        if let Some((distance, _)) = self.nexts[node].get(way) {
            let whole = length + 1 + distance;
            self.waiting.push(Reverse((whole, Reverse(length), place, way)));
        }
    }

    /// Takes one step; returns the path if it is complete.
    fn advance(&mut self, place: usize, way: usize, goal: usize) -> Option<Vec<usize>> {
        self.wait(place, way + 1);
        let Begun { node, length, .. } = self.begun[place];
        let (_, next) = self.nexts[node][way];
        let mut path = self.path(place);
        if next == goal {
            path.push(goal);
            return Some(path);
        }
        if !path.contains(&next) {
            self.begun.push(Begun { node: next, before: Some(place), length: length + 1 });
            self.wait(self.begun.len() - 1, 0);
        }
        None
    }

    fn path(&self, place: usize) -> Vec<usize> {
        let places = std::iter::successors(Some(place), |place| self.begun[*place].before);
        let mut path: Vec<usize> = places.map(|place| self.begun[place].node).collect();
        path.reverse();
        path
    }
}
