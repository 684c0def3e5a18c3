//! Pages of results: matching, filtering, ordering and cursors.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashSet},
};

use registry_core::{lifecycle::LifecycleState, reference::Key, version::Version};

use crate::limits;
use crate::{
    entry::Entry,
    filter::Filter,
    index::Index,
    postings::Doc,
    query::{Cursor, Hit, Query, ResultPage, Total},
    rank::{QueryTerms, Scored},
    snippet::highlights,
    terms::{Terms, name_term},
};

impl Index {
    /// The results after a cursor, at most `size`.
    pub fn search(&self, query: &Query, after: Option<Cursor>, size: usize) -> ResultPage {
        let filter = Filter::new(self, query);
        if query.text.trim().is_empty() {
            self.list(&filter, after, size)
        } else {
            self.rank(query, &filter, after, size)
        }
    }

    /// Matching entities, best first.
    fn rank(
        &self,
        query: &Query,
        filter: &Filter<'_>,
        after: Option<Cursor>,
        size: usize,
    ) -> ResultPage {
        let wanted = QueryTerms::read(self, &query.text);
        let (matching, is_all) = wanted.scores();
        // Most matches ascend, and a focus finds the next entry without a search.
        let mut entries = self.entries.focus();
        let after = after.map(order);
        // The best ones, and one more; the worst of them is on top.
        let (mut count, mut best) = (0, BinaryHeap::new());
        // Among equal scores the latest ranks first, so the reverse order replaces the fewest.
        for Scored { doc, score } in matching.into_iter().rev() {
            let entry = entries.get(doc as usize).filter(|entry| filter.accepts(doc, entry));
            let Some(entry) = entry else { continue };
            count += 1;
            let result = order(Cursor { score: (score * standing(entry)).to_bits(), doc });
            let is_better =
                || best.len() <= size || best.peek().is_some_and(|worst| result < *worst);
            if after.is_none_or(|after| result > after) && is_better() {
                if best.len() > size {
                    best.pop();
                }
                best.push(result);
            }
        }
        let total = if is_all { Total::Exactly(count) } else { Total::AtLeast(count) };
        let is_more = best.len() > size;
        let places = best.into_sorted_vec().into_iter().take(size);
        let places = places.map(|(Reverse(score), Reverse(doc))| Cursor { score, doc });
        let places: Vec<Cursor> = places.collect();
        let next = places.last().copied().filter(|_| is_more);
        let terms: HashSet<&str> = wanted.terms().collect();
        let hits = places.into_iter().filter_map(|place| {
            let record = self.entry(place.doc)?.record.clone();
            let highlights = highlights(&record, &terms);
            Some(Hit { record, score: f32::from_bits(place.score), place, highlights })
        });
        ResultPage { hits: hits.collect(), total, next }
    }

    /// Entities that satisfy the filters, by name.
    fn list(&self, filter: &Filter<'_>, after: Option<Cursor>, size: usize) -> ResultPage {
        let after = after.and_then(|place| self.entry(place.doc));
        let after = after.map(|entry| entry.record.document.key());
        let from = after.map_or(Terms::FIRST_NAME.to_owned(), name_term);
        let mut names: Box<dyn Iterator<Item = (String, Vec<Doc>)>> = match filter.among() {
            Some(docs) => Box::new(self.by_name(docs).skip_while(|(n, _)| *n < from)),
            None => Box::new(self.terms.names(&from).map(|n| (n.to_owned(), self.docs_with(n)))),
        };
        let (mut hits, mut count, mut is_more, mut last) = (Vec::new(), 0, false, None);
        for (name, docs) in names.by_ref().take(limits::SEARCH_NAMES) {
            let before = after.filter(|_| name == from).map(|key| &key.version);
            for (version, doc) in self.versions(docs) {
                let is_before = before.is_some_and(|before| version >= before);
                let entry = self.entry(doc).filter(|entry| filter.accepts(doc, entry));
                let entry = entry.filter(|_| !is_before);
                count += usize::from(entry.is_some());
                if hits.len() < size {
                    last = Some(doc);
                    hits.extend(entry.map(|entry| Hit {
                        record: entry.record.clone(),
                        score: 0.0,
                        place: Cursor { score: 0, doc },
                        highlights: Vec::new(),
                    }));
                } else {
                    is_more |= entry.is_some();
                }
            }
        }
        let is_cut = names.next().is_some();
        let total = if is_cut { Total::AtLeast(count) } else { Total::Exactly(count) };
        let next = last.filter(|_| is_cut || is_more).map(|doc| Cursor { score: 0, doc });
        ResultPage { hits, total, next }
    }

    /// Entities by name, in the order of the terms of names.
    fn by_name(&self, docs: &[Doc]) -> impl Iterator<Item = (String, Vec<Doc>)> {
        let keys =
            docs.iter().filter_map(|doc| Some((self.entry(*doc)?.record.document.key(), *doc)));
        let mut keys: Vec<(&Key, Doc)> = keys.collect();
        keys.sort_unstable_by(|(a, _), (b, _)| (&a.name, a.kind).cmp(&(&b.name, b.kind)));
        let mut keys = keys.into_iter().peekable();
        // A page needs the terms of few names.
        std::iter::from_fn(move || {
            let (key, doc) = keys.next()?;
            let mut docs = vec![doc];
            let is_same =
                |(next, _): &(&Key, Doc)| (next.kind, &next.name) == (key.kind, &key.name);
            while let Some((_, doc)) = keys.next_if(is_same) {
                docs.push(doc);
            }
            Some((name_term(key), docs))
        })
    }

    /// Versions of one name, newest first.
    fn versions(&self, docs: Vec<Doc>) -> Vec<(&Version, Doc)> {
        let version = |doc| Some((&self.entry(doc)?.record.document.key().version, doc));
        let mut versions: Vec<_> = docs.into_iter().filter_map(version).collect();
        versions.sort_unstable_by(|a, b| b.cmp(a));
        versions
    }
}

/// Best first, and equal scores by latest registration. Scores are never negative, so their bit
/// patterns have the same order.
fn order(Cursor { score, doc }: Cursor) -> (Reverse<u32>, Reverse<Doc>) {
    (Reverse(score), Reverse(doc))
}

/// A factor that demotes deprecated and retired entities, and versions that have a newer one.
fn standing(entry: &Entry) -> f32 {
    let of_state = match entry.state {
        LifecycleState::Active => 1.0,
        LifecycleState::Deprecated => 0.5,
        LifecycleState::Retired => 0.4,
    };
    if entry.is_newest() { of_state } else { 0.8 * of_state }
}
