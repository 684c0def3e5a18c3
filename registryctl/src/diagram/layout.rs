//! Layered layout (Sugiyama) with layers from left to right. Dependencies are to the right of dependents.
//!
//! Longest-path layering assigns layers. Sweeps order each layer by the mean position of the neighbors
//! to reduce crossings; minimizing them is NP-hard. An edge that passes a layer gets its own row in that
//! layer, so that it does not cross boxes. Integers make the layout deterministic.

use std::collections::BTreeSet;

const SWEEPS: usize = 12;
/// Maximum number of bends. Further edges are straight.
const BENDS: usize = 20_000;

/// The height of a box, and the heights of rows with a box or a bend.
const BOX: i64 = 28;
const BOX_ROW: i64 = 44;
const BEND_ROW: i64 = 14;
/// The space between layers, and around the diagram.
const GAP: i64 = 72;
const MARGIN: i64 = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rect {
    pub(super) x: i64,
    pub(super) y: i64,
    pub(super) width: i64,
    pub(super) height: i64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) boxes: Vec<Rect>,
    /// The corners of each edge.
    pub(super) edges: Vec<Vec<(i64, i64)>>,
    pub(super) width: i64,
    pub(super) height: i64,
}

/// The cells of the layers: boxes and bends of edges.
struct Grid {
    /// The layer of each cell; boxes precede bends.
    layer: Vec<usize>,
    boxes: usize,
    /// The cells of each edge.
    chains: Vec<Vec<usize>>,
    /// The cells of each layer, from top to bottom.
    layers: Vec<Vec<usize>>,
}

/// Lays out boxes of these widths with edges from dependents to dependencies.
pub(super) fn layout(widths: &[i64], edges: &BTreeSet<(usize, usize)>) -> Layout {
    let mut grid = Grid::new(widths.len(), edges);
    for sweep in 0..SWEEPS {
        grid.sweep(sweep % 2 == 0);
    }
    grid.place(widths)
}

/// The length of the longest path to each node.
fn depths(count: usize, edges: &BTreeSet<(usize, usize)>) -> Vec<usize> {
    let (mut missing, mut nexts) = (vec![0_usize; count], vec![Vec::new(); count]);
    for &(from, to) in edges {
        missing[to] += 1;
        nexts[from].push(to);
    }
    let mut depths = vec![0; count];
    let mut ready: Vec<usize> = (0..count).filter(|node| missing[*node] == 0).collect();
    while let Some(node) = ready.pop() {
        for &next in &nexts[node] {
            depths[next] = depths[next].max(depths[node] + 1);
            missing[next] -= 1;
            if missing[next] == 0 {
                ready.push(next);
            }
        }
    }
    depths
}

impl Grid {
    fn new(boxes: usize, edges: &BTreeSet<(usize, usize)>) -> Self {
        let mut layer = depths(boxes, edges);
        let mut chains = Vec::with_capacity(edges.len());
        for &(from, to) in edges {
            let passed = layer[from] + 1..layer[to];
            let mut chain = vec![from];
            if layer.len() + passed.len() <= boxes + BENDS {
                for between in passed {
                    chain.push(layer.len());
                    layer.push(between);
                }
            }
            chain.push(to);
            chains.push(chain);
        }
        let mut layers = vec![Vec::new(); layer.iter().max().map_or(0, |last| last + 1)];
        for (cell, layer) in layer.iter().enumerate() {
            layers[*layer].push(cell);
        }
        Self { layer, boxes, chains, layers }
    }

    /// Orders each layer by the mean position of the neighbors in the previous or the next layer.
    fn sweep(&mut self, rightwards: bool) {
        let mut neighbors = vec![Vec::new(); self.layer.len()];
        for step in self.chains.iter().flat_map(|chain| chain.windows(2)) {
            let (from, to) = (step[0], step[1]);
            if rightwards { neighbors[to].push(from) } else { neighbors[from].push(to) }
        }
        let mut rank = vec![0_u64; self.layer.len()];
        let mut order: Vec<usize> = (0..self.layers.len()).collect();
        if !rightwards {
            order.reverse();
        }
        for layer in order {
            for (place, cell) in (0..).zip(&self.layers[layer]) {
                rank[*cell] = place;
            }
            // The mean as a fraction. Cells without neighbors keep their position.
            let mean = |cell: &usize| match neighbors[*cell].as_slice() {
                [] => (rank[*cell], 1),
                near => (near.iter().map(|n| rank[*n]).sum(), near.len() as u64),
            };
            let means: Vec<(u64, u64)> = self.layers[layer].iter().map(mean).collect();
            let mut places: Vec<usize> = (0..means.len()).collect();
            places.sort_by(|a, b| (means[*a].0 * means[*b].1).cmp(&(means[*b].0 * means[*a].1)));
            self.layers[layer] = places.iter().map(|place| self.layers[layer][*place]).collect();
            for (place, cell) in (0..).zip(&self.layers[layer]) {
                rank[*cell] = place;
            }
        }
    }

    fn place(&self, widths: &[i64]) -> Layout {
        let row = |cell: &usize| if *cell < self.boxes { BOX_ROW } else { BEND_ROW };
        let heights: Vec<i64> =
            self.layers.iter().map(|layer| layer.iter().map(row).sum()).collect();
        let tallest = heights.iter().copied().max().unwrap_or_default();
        let empty = Rect { x: 0, y: 0, width: 0, height: 0 };
        let mut places = vec![empty; self.layer.len()];
        let mut x = MARGIN;
        for (layer, height) in self.layers.iter().zip(heights) {
            let width =
                layer.iter().filter_map(|cell| widths.get(*cell)).copied().max().unwrap_or(0);
            let mut y = MARGIN + (tallest - height) / 2;
            for cell in layer {
                let high = if *cell < self.boxes { BOX } else { 0 };
                places[*cell] = Rect { x, y: y + (row(cell) - high) / 2, width, height: high };
                y += row(cell);
            }
            x += width + GAP;
        }
        let edges = self.chains.iter().map(|chain| corners(chain, &places)).collect();
        let (width, height) = ((x - GAP + MARGIN).max(2 * MARGIN), tallest + 2 * MARGIN);
        places.truncate(self.boxes);
        Layout { boxes: places, edges, width, height }
    }
}

/// The corners of an edge from the right side of a box to the left side of another, with a level segment in
/// each layer between.
fn corners(chain: &[usize], places: &[Rect]) -> Vec<(i64, i64)> {
    let left = |cell: usize| (places[cell].x, places[cell].y + places[cell].height / 2);
    let right = |cell: usize| (places[cell].x + places[cell].width, left(cell).1);
    let mut corners = Vec::with_capacity(2 * chain.len());
    for step in chain.windows(2) {
        corners.extend([right(step[0]), left(step[1])]);
    }
    corners
}

#[cfg(test)]
mod tests;
