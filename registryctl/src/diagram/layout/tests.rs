//! Tests of the layout.

use super::*;

fn edges(edges: &[(usize, usize)]) -> BTreeSet<(usize, usize)> {
    edges.iter().copied().collect()
}

fn overlap(a: Rect, b: Rect) -> bool {
    a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height
}

#[test]
fn dependencies_are_to_the_right_without_overlap() {
    let needs = edges(&[(0, 1), (0, 2), (1, 3), (2, 3), (0, 3), (4, 2)]);
    let layout = layout(&[100, 80, 120, 60, 90], &needs);
    for (from, to) in &needs {
        let (from, to) = (layout.boxes[*from], layout.boxes[*to]);
        assert!(from.x + from.width < to.x, "{from:?} {to:?}");
    }
    for (i, a) in layout.boxes.iter().enumerate() {
        assert!(a.x >= 0 && a.x + a.width <= layout.width);
        assert!(a.y >= 0 && a.y + a.height <= layout.height);
        for b in &layout.boxes[i + 1..] {
            assert!(!overlap(*a, *b), "{a:?} {b:?}");
        }
    }
}

#[test]
fn edges_avoid_boxes_of_passed_layers() {
    let needs = edges(&[(0, 1), (1, 2), (0, 2)]);
    let layout = layout(&[50, 50, 50], &needs);
    let passing = &layout.edges[1];
    assert_eq!(passing.len(), 4, "two corners in the passed layer");
    let (middle, level) = (layout.boxes[1], passing[1].1);
    assert!(level < middle.y || level > middle.y + middle.height, "{passing:?} {middle:?}");
}

#[test]
fn parallel_chains_do_not_cross() {
    // The second nodes of two chains are in the wrong order.
    let layout = layout(&[50; 6], &edges(&[(0, 3), (1, 2), (3, 4), (2, 5)]));
    let above = |a: usize, b: usize| layout.boxes[a].y < layout.boxes[b].y;
    assert_eq!(above(0, 1), above(3, 2));
    assert_eq!(above(3, 2), above(4, 5));
}

#[test]
fn cycles_and_many_edges_are_laid_out() {
    assert_eq!(layout(&[50, 50], &edges(&[(0, 1), (1, 0)])).boxes.len(), 2);
    let chain: BTreeSet<_> = (0..400).flat_map(|i| (i + 1..400).map(move |j| (i, j))).collect();
    let layout = layout(&[10; 400], &chain);
    assert_eq!(layout.edges.len(), chain.len());
    let corners: usize = layout.edges.iter().map(Vec::len).sum();
    assert!(corners <= 2 * (BENDS + chain.len()));
}
