//! Which term is in which entity, and how much it weighs there.
//!
//! Eight bytes each, in a few sorted runs that versions of the index share; the runs grow
//! geometrically, so that an addition costs in proportion to itself, times the logarithm of all.
//! Documents never change, so nothing is ever taken out.

use std::sync::Arc;

/// The number of a term.
pub(super) type Term = u32;
/// The number of an entity, in the order of registration.
pub(super) type Doc = u32;

/// How many terms and how many entities there can be: their numbers take 24 bits.
pub(super) const MOST: usize = 1 << 24;
/// A run is merged into the one before unless that one is so many times longer.
const GROWTH: usize = 4;

/// One term in one entity: from the top, 24 bits of term, 24 of entity, 16 of weight.
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

/// All postings.
#[derive(Debug, Clone, Default)]
pub(super) struct Postings {
    /// Each sorted; none is more than a fraction of the one before.
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

    /// The postings of a term in the entities before this one: a few slices, each by entity.
    pub(super) fn of(&self, term: Term, end: Doc) -> impl Iterator<Item = &[Posting]> {
        let bounds = (Posting::first_of(term, 0), Posting::first_of(term, end));
        self.runs.iter().filter_map(move |run| {
            let start = run.partition_point(|posting| *posting < bounds.0);
            let rest = &run[start..];
            let slice = &rest[..rest.partition_point(|posting| *posting < bounds.1)];
            (!slice.is_empty()).then_some(slice)
        })
    }

    /// In how many entities before this one a term is.
    pub(super) fn count(&self, term: Term, end: Doc) -> usize {
        self.of(term, end).map(<[Posting]>::len).sum()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.runs.iter().map(|run| run.len()).sum()
    }
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
    fn what_was_added_in_parts_is_found_as_a_whole() {
        let mut postings = Postings::default();
        for doc in 0..1_000 {
            postings.add(vec![Posting::new(7, doc, 3), Posting::new(doc % 5, doc, 1)]);
            let all = postings.runs.iter().map(|run| run.len()).collect::<Vec<_>>();
            assert!(all.windows(2).all(|w| w[0] >= GROWTH * w[1]), "{all:?}");
        }
        assert_eq!(postings.len(), 2_000);
        let docs = |term, end| {
            let mut docs: Vec<_> =
                postings.of(term, end).flatten().map(|p| (p.doc(), p.weight())).collect();
            docs.sort_unstable();
            docs
        };
        assert_eq!(docs(7, 600), (0..600).map(|doc| (doc, 3)).collect::<Vec<_>>());
        assert_eq!(docs(4, 1_000), (0..200).map(|i| (5 * i + 4, 1)).collect::<Vec<_>>());
        assert_eq!((postings.count(7, 9), postings.count(8, 1_000)), (9, 0));
    }
}
