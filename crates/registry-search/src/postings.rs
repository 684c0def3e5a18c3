//! Postings: the terms of each entity with their weights.
//!
//! A posting has eight bytes. Postings are stored in a few sorted runs that index versions share.
//! Runs grow geometrically, so the cost of an addition is proportional to its size times the
//! logarithm of the total. Documents are immutable, so nothing is ever removed.

use std::sync::Arc;

/// The id of a term.
pub(super) type Term = u32;
/// The number of an entity in registration order.
pub(super) type Doc = u32;

/// Maximum number of terms and of entities; their ids have 24 bits.
pub(super) const MOST: usize = 1 << 24;
/// A run is merged into its predecessor unless that is this many times longer.
const GROWTH: usize = 4;

/// One term in one entity: 24 bits of term, 24 of entity and 16 of weight, from the top.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Posting(u64);

impl Posting {
    pub(super) fn new(term: Term, doc: Doc, weight: u16) -> Self {
        Self(u64::from(term) << 40 | u64::from(doc) << 16 | u64::from(weight))
    }

    fn first_of(term: Term, doc: Doc) -> Self {
        Self::new(term, doc, 0)
    }

    #[expect(clippy::cast_possible_truncation, reason = "it takes 24 bits")]
    pub(super) fn doc(self) -> Doc {
        (self.0 >> 16) as Doc & 0xff_ffff
    }

    #[expect(clippy::cast_possible_truncation, reason = "it takes 16 bits")]
    pub(super) fn weight(self) -> u16 {
        self.0 as u16
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Postings {
    /// Sorted runs; each is at most a fraction of its predecessor.
    runs: Vec<Arc<Vec<Posting>>>,
}

impl Postings {
    /// Adds postings of new entities.
    pub(super) fn add(&mut self, mut new: Vec<Posting>) {
        if new.is_empty() {
            return;
        }
        new.sort_unstable();
        while let Some(last) = self.runs.last()
            && last.len() < GROWTH * new.len()
        {
            new = merge(last, &new);
            self.runs.pop();
        }
        new.shrink_to_fit();
        self.runs.push(Arc::new(new));
    }

    /// The postings of a term in entities before `end`: a few slices, each ordered by entity.
    pub(super) fn of_term(&self, term: Term, end: Doc) -> impl Iterator<Item = &[Posting]> {
        let bounds = (Posting::first_of(term, 0), Posting::first_of(term, end));
        self.runs.iter().filter_map(move |run| {
            let start = run.partition_point(|posting| *posting < bounds.0);
            let rest = &run[start..];
            let slice = &rest[..count_below(rest, bounds.1)];
            (!slice.is_empty()).then_some(slice)
        })
    }

    /// The postings of each of these terms, which ascend. Terms with a common prefix often have
    /// neighboring ids, so each search starts at the last one.
    pub(super) fn of_terms(
        &self,
        terms: impl IntoIterator<Item = Term>,
        end: Doc,
    ) -> impl Iterator<Item = Vec<&[Posting]>> {
        let mut rests: Vec<&[Posting]> = self.runs.iter().map(|run| run.as_slice()).collect();
        terms.into_iter().map(move |term| {
            let slices = rests.iter_mut().filter_map(|rest| {
                *rest = &rest[count_below(rest, Posting::first_of(term, 0))..];
                let slice = &rest[..count_below(rest, Posting::first_of(term, end))];
                (!slice.is_empty()).then_some(slice)
            });
            slices.collect()
        })
    }

    /// The number of entities before `end` that contain a term.
    pub(super) fn count(&self, term: Term, end: Doc) -> usize {
        self.of_term(term, end).map(<[Posting]>::len).sum()
    }

    /// The number of postings.
    pub(super) fn len(&self) -> usize {
        self.runs.iter().map(|run| run.len()).sum()
    }
}

/// The number of leading postings below a bound, at a cost logarithmic in that number.
fn count_below(postings: &[Posting], bound: Posting) -> usize {
    let mut reach = 1;
    while postings.get(reach - 1).is_some_and(|posting| *posting < bound) {
        reach *= 2;
    }
    let from = reach / 2;
    let rest = &postings[from..reach.min(postings.len())];
    from + rest.partition_point(|posting| *posting < bound)
}

fn merge(left: &[Posting], right: &[Posting]) -> Vec<Posting> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left, right);
    while let (Some((l, more_left)), Some((r, more_right))) =
        (left.split_first(), right.split_first())
    {
        if l <= r {
            merged.push(*l);
            left = more_left;
        } else {
            merged.push(*r);
            right = more_right;
        }
    }
    merged.extend_from_slice(left);
    merged.extend_from_slice(right);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postings_added_in_parts_are_found() {
        let mut postings = Postings::default();
        for doc in 0..1_000 {
            postings.add(vec![Posting::new(7, doc, 3), Posting::new(doc % 5, doc, 1)]);
            let all = postings.runs.iter().map(|run| run.len()).collect::<Vec<_>>();
            assert!(all.windows(2).all(|w| w[0] >= GROWTH * w[1]), "{all:?}");
        }
        assert_eq!(postings.len(), 2_000);
        let docs = |term, end| {
            let mut docs: Vec<_> =
                postings.of_term(term, end).flatten().map(|p| (p.doc(), p.weight())).collect();
            docs.sort_unstable();
            docs
        };
        assert_eq!(docs(7, 600), (0..600).map(|doc| (doc, 3)).collect::<Vec<_>>());
        assert_eq!(docs(4, 1_000), (0..200).map(|i| (5 * i + 4, 1)).collect::<Vec<_>>());
        assert_eq!((postings.count(7, 9), postings.count(8, 1_000)), (9, 0));
        for end in [0, 1, 600, 1_000] {
            let terms = [0, 1, 4, 5, 7, 8];
            let each = terms.map(|term| postings.of_term(term, end).collect::<Vec<_>>());
            assert_eq!(postings.of_terms(terms, end).collect::<Vec<_>>(), each);
        }
    }
}
