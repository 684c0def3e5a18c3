//! The paths from one entity to another: the shortest ones, and how many there are.
//!
//! A best-first search with exact distances: each step that it takes leads to the goal, so that it
//! costs in proportion to the paths that are asked for, not to those that there are.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use super::reach::{Direction, Reach};
use crate::{catalog::Catalog, limits, reference::Key};

/// Most steps of a search. Only circles, which no registered entities form, can use them up.
const STEPS: usize = 1_000_000;

/// How one entity leads to another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Paths {
    /// The shortest paths, shortest first, both ends included.
    pub shown: Vec<Vec<Key>>,
    /// How many paths there are; `u64::MAX` stands for that many or more.
    pub total: u64,
}

/// The shortest `most` paths by which one entity needs another; none if it does not.
pub fn paths(catalog: &Catalog, from: &Key, to: &Key, most: usize) -> Paths {
    let reach = Reach::of(catalog, [from], Direction::Dependencies, None);
    let Some(goal) = reach.nodes().iter().position(|node| node.key == *to) else {
        return Paths::default();
    };
    let steps = reach.steps(catalog, usize::MAX);
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

/// For each node, how many paths lead to it from one of the roots, in a graph without circles.
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

/// For each node, how many steps it is from the goal, if it leads there.
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

/// The beginning of a path: a node and the place of the one before it.
struct Begun {
    node: usize,
    before: Option<usize>,
    length: usize,
}

/// A way to go on from the beginning of a path, in the order in which ways are tried: by the
/// length of the whole path, then the one that is nearer to its end.
type Way = Reverse<(usize, Reverse<usize>, usize, usize)>;

struct Search {
    /// What each node leads to on its way to the goal, nearest to the goal first, with the distance.
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
        found.extend(search.go(place, way, goal));
    }
    found
}

impl Search {
    /// Puts one way on from a beginning into the queue, if it has that many.
    fn wait(&mut self, place: usize, way: usize) {
        let Begun { node, length, .. } = self.begun[place];
        if let Some((distance, _)) = self.nexts[node].get(way) {
            let whole = length + 1 + distance;
            self.waiting.push(Reverse((whole, Reverse(length), place, way)));
        }
    }

    /// Goes one step; gives the path if it ends there.
    fn go(&mut self, place: usize, way: usize, goal: usize) -> Option<Vec<usize>> {
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
