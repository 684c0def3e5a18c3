//! Cycle detection in a directed graph in linear time.
//!
//! Nodes are indices into a list of successors. Kosaraju's algorithm finds the strongly
//! connected components; each cyclic one is represented by one path.

use std::collections::{HashMap, VecDeque};

/// One cycle for each cyclic strongly connected component: a shortest path from the smallest node
/// of the component back to itself.
pub fn cycles(successors: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let component = components(successors);
    let mut shown = vec![false; successors.len()];
    let mut found = Vec::new();
    for node in 0..successors.len() {
        if shown[component[node]] {
            continue;
        }
        shown[component[node]] = true;
        found.extend(path_back(successors, &component, node));
    }
    found
}

/// The representative of each node's strongly connected component.
fn components(successors: &[Vec<usize>]) -> Vec<usize> {
    let mut predecessors = vec![Vec::new(); successors.len()];
    for (node, nexts) in successors.iter().enumerate() {
        for &next in nexts {
            predecessors[next].push(node);
        }
    }
    let mut component = vec![None; successors.len()];
    for root in finishing_order(successors).into_iter().rev() {
        let mut waiting = vec![root];
        while let Some(node) = waiting.pop() {
            if component[node].is_none() {
                component[node] = Some(root);
                waiting.extend(&predecessors[node]);
            }
        }
    }
    component.into_iter().map(Option::unwrap_or_default).collect()
}

/// The nodes in finishing order of a depth-first search.
fn finishing_order(successors: &[Vec<usize>]) -> Vec<usize> {
    let mut seen = vec![false; successors.len()];
    let mut order = Vec::with_capacity(successors.len());
    for root in 0..successors.len() {
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        let mut path = vec![(root, 0)];
        while let Some((node, nth)) = path.last_mut() {
            if let Some(&next) = successors[*node].get(*nth) {
                *nth += 1;
                if !std::mem::replace(&mut seen[next], true) {
                    path.push((next, 0));
                }
            } else {
                order.push(*node);
                path.pop();
            }
        }
    }
    order
}

/// The shortest path from a node back to itself within its component.
fn path_back(successors: &[Vec<usize>], component: &[usize], start: usize) -> Option<Vec<usize>> {
    // A map keeps the cost proportional to the component instead of the graph.
    let mut came_from = HashMap::new();
    let mut waiting = VecDeque::from([start]);
    while let Some(node) = waiting.pop_front() {
        for &next in &successors[node] {
            if next == start {
                return Some(trace(&came_from, start, node));
            }
            if component[next] == component[start] && !came_from.contains_key(&next) {
                came_from.insert(next, node);
                waiting.push_back(next);
            }
        }
    }
    None
}

fn trace(came_from: &HashMap<usize, usize>, start: usize, last: usize) -> Vec<usize> {
    let mut path = vec![start];
    let mut node = last;
    while let (true, Some(&before)) = (node != start, came_from.get(&node)) {
        path.push(node);
        node = before;
    }
    path.push(start);
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_returns_one_path_per_component() {
        let graph = [vec![1], vec![2, 3], vec![0], vec![4], vec![3], vec![5], vec![0]];
        assert_eq!(cycles(&graph), [vec![0, 1, 2, 0], vec![3, 4, 3], vec![5, 5]]);
        assert_eq!(cycles(&[vec![1], vec![2], vec![]]), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn cycles_returns_shortest_path() {
        let graph = [vec![5, 1], vec![2], vec![3], vec![4], vec![0], vec![6], vec![0]];
        assert_eq!(cycles(&graph), [vec![0, 5, 6, 0]]);
    }

    #[test]
    fn cycles_handles_long_chains() {
        let chain: Vec<_> = (0..100_000).map(|i| vec![(i + 1) % 100_000]).collect();
        assert_eq!(cycles(&chain)[0].len(), 100_001);
    }

    #[test]
    fn cycles_is_linear_without_cycles() {
        assert_eq!(cycles(&vec![Vec::new(); 1_000_000]), Vec::<Vec<usize>>::new());
    }
}
