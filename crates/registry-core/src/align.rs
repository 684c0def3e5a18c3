//! Alignment of two arrays: pairs the items that correspond, so that an insertion or removal does
//! not mark every later item as changed.
//!
//! Equal items are matched by a longest common subsequence. The items between two matches are
//! paired by index.

use std::{collections::HashMap, ops::Range};

use serde_json::Value;

use crate::limits;

/// Indices of an item in the old and the new array. An added or removed item has only one.
pub type Pair = (Option<usize>, Option<usize>);

/// Aligns pairs of arrays within one budget of comparisons.
#[derive(Debug)]
pub struct Aligner {
    /// Remaining item comparisons.
    left: usize,
    is_positional: bool,
}

impl Default for Aligner {
    fn default() -> Self {
        Self::with_budget(limits::ALIGNED_PAIRS)
    }
}

impl Aligner {
    /// An aligner that makes at most this many item comparisons in total.
    pub fn with_budget(pairs: usize) -> Self {
        Self { left: pairs, is_positional: false }
    }

    /// Whether the last two arrays were paired by index because the budget did not suffice.
    pub fn is_positional(&self) -> bool {
        self.is_positional
    }

    /// Pairs the items of two arrays in the order of both. Falls back to pairing by index when the
    /// remaining budget does not suffice.
    pub fn align(&mut self, old: &[Value], new: &[Value]) -> Vec<Pair> {
        let front = old.iter().zip(new).take_while(|(old, new)| old == new).count();
        let ends = old[front..].iter().rev().zip(new[front..].iter().rev());
        let back = ends.take_while(|(old, new)| old == new).count();
        let (olds, news) = (front..old.len() - back, front..new.len() - back);
        let anchors = (0..front).map(|at| (at, at));
        let left = self.left.checked_sub(olds.len().saturating_mul(news.len()));
        self.is_positional = left.is_none();
        let middle = if let Some(left) = left {
            self.left = left;
            common(&old[olds.clone()], &new[news.clone()])
        } else {
            Vec::new()
        };
        let anchors = anchors.chain(middle.into_iter().map(|(i, j)| (front + i, front + j)));
        let anchors = anchors.chain((olds.end..old.len()).zip(news.end..));
        let mut pairs = Vec::with_capacity(old.len().max(new.len()));
        let mut next = (0, 0);
        for (i, j) in anchors {
            between(next.0..i, next.1..j, &mut pairs);
            pairs.push((Some(i), Some(j)));
            next = (i + 1, j + 1);
        }
        between(next.0..old.len(), next.1..new.len(), &mut pairs);
        pairs
    }
}

fn between(olds: Range<usize>, news: Range<usize>, pairs: &mut Vec<Pair>) {
    let longer = olds.len().max(news.len());
    let padded = |range: Range<usize>| range.map(Some).chain(std::iter::repeat(None));
    pairs.extend(padded(olds).zip(padded(news)).take(longer));
}

fn common(old: &[Value], new: &[Value]) -> Vec<(usize, usize)> {
    // Comparing numbers instead of values makes the quadratic part cheap.
    let mut numbers = HashMap::new();
    let mut number = |item| {
        let next = numbers.len();
        *numbers.entry(item).or_insert(next)
    };
    let old: Vec<usize> = old.iter().map(&mut number).collect();
    let new: Vec<usize> = new.iter().map(&mut number).collect();
    // `longest[i][j]`: length of the longest common subsequence of `old[i..]` and `new[j..]`.
    let mut longest = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i][j] = if old[i] == new[j] {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut places) = (0, 0, Vec::new());
    while i < old.len() && j < new.len() {
        let (without_old, without_new) = (longest[i + 1][j], longest[i][j + 1]);
        if old[i] == new[j] {
            places.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if without_new > without_old || (without_new == without_old && j <= i) {
            // Among equal candidates, the one closest to the diagonal is chosen.
            j += 1;
        } else {
            i += 1;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn aligned(old: &str, new: &str) -> String {
        let items = |text: &str| text.chars().map(|c| json!(c.to_string())).collect::<Vec<_>>();
        let show = |at: Option<usize>| at.map(|at| at.to_string()).unwrap_or_default();
        let pairs = Aligner::default().align(&items(old), &items(new)).into_iter();
        let pairs = pairs.map(|(old, new)| format!("{}:{}", show(old), show(new)));
        pairs.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn align_pairs_equal_items() {
        for (old, new, pairs) in [
            ("", "", ""),
            ("xyz", "wxyz", ":0 0:1 1:2 2:3"),
            ("wxyz", "xyz", "0: 1:0 2:1 3:2"),
            ("xyz", "xz", "0:0 1: 2:1"),
            ("abcd", "axcd", "0:0 1:1 2:2 3:3"),
            ("abc", "xbyc", "0:0 1:1 :2 2:3"),
            ("ab", "ba", ":0 0:1 1:"),
            ("abc", "bb", "0:0 1:1 2:"),
            ("aa", "a", "0:0 1:"),
            ("ab", "xyz", "0:0 1:1 :2"),
        ] {
            assert_eq!(aligned(old, new), pairs, "{old} {new}");
        }
    }

    #[test]
    fn align_over_budget_pairs_by_index() {
        let numbers = |from: usize, many: usize| (from..from + many).map(|n| json!(n)).collect();
        let mut aligner = Aligner::default();
        let mut first = |old: &[Value], new: &[Value]| aligner.align(old, new).first().copied();
        let half = limits::ALIGNED_PAIRS.isqrt() / 2;
        let (old, new): (Vec<Value>, Vec<Value>) = (numbers(1, half), numbers(2, half));
        for _ in 0..4 {
            assert_eq!(first(&old, &new), Some((Some(0), None)));
        }
        assert_eq!(first(&old, &new), Some((Some(0), Some(0))));
        let new: Vec<Value> = numbers(0, 10_000);
        assert_eq!(first(&new[1..], &new), Some((None, Some(0))), "one came");
    }
}
