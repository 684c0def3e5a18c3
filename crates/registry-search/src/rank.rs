//! Scoring of entities for the words of a query.
//!
//! Each word contributes by its rarity and its best match in the entity: exact, as a prefix (the
//! last word, and words without an exact match), or fuzzy (only without other matches). Entities
//! that match more words rank above those that match one word well.

use crate::limits;
use crate::{
    index::Index,
    postings::{Doc, Posting, Term},
    weights::ONE,
    words::{self, Token},
};

/// The weight with half of the maximum contribution.
const SATURATION: f32 = 3.0;
/// The maximum contribution of a prefix match.
const BEGINNING: f32 = 0.7;
/// The contribution of a fuzzy match.
const NEARLY: f32 = 0.8;
/// The contribution of adjacent words that match as one compound.
const TOGETHER: f32 = 0.8;

/// The words of a query with their matching terms.
pub(super) struct QueryTerms<'a> {
    index: &'a Index,
    words: Vec<Word<'a>>,
    /// Whether all matching terms of the words are included.
    is_whole: bool,
}

/// The remaining term visits of a query, and whether they sufficed.
struct ExpansionLimit {
    steps: usize,
    was_enough: bool,
}

struct Word<'a> {
    terms: Vec<WordTerm<'a>>,
    /// The number of entities with its terms, as an upper bound.
    count: usize,
    /// Whether a missing match lowers the score.
    is_needed: bool,
}

/// A term that matches a word.
struct WordTerm<'a> {
    term: &'a str,
    postings: Vec<&'a [Posting]>,
    /// The contribution of the match.
    factor: f32,
}

/// An entity with its score.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scored {
    pub(super) doc: Doc,
    pub(super) score: f32,
}

impl<'a> QueryTerms<'a> {
    pub(super) fn read(index: &'a Index, text: &str) -> Self {
        let QueryWords { words, together } = QueryWords::read(text);
        let last = words.len().saturating_sub(1);
        let is_typing = text.ends_with(char::is_alphanumeric);
        let mut room = ExpansionLimit { steps: limits::SEARCH_STEPS, was_enough: true };
        let words = words.iter().enumerate().map(|(i, word)| {
            let terms = index.expand(word, is_typing && i == last, &mut room);
            Word::new(terms, true)
        });
        let together = together.iter().filter_map(|word| {
            let term = index.known(&words::stem(word), TOGETHER)?;
            Some(Word::new(vec![term], false))
        });
        let mut words: Vec<_> = words.chain(together).collect();
        words.sort_by_key(|word| word.count);
        Self { index, words, is_whole: room.was_enough }
    }

    /// The terms that a match may contain.
    pub(super) fn terms(&self) -> impl Iterator<Item = &'a str> {
        self.words.iter().flat_map(|word| word.terms.iter().map(|matching| matching.term))
    }

    /// Every matching entity with its score, and whether all could be visited.
    pub(super) fn scores(&self) -> (Vec<Scored>, bool) {
        let end = self.index.end();
        let mut tally = Accumulator::new(end as usize);
        let (mut left, mut all) = (limits::SEARCH_POSTINGS, 0.0);
        for word in &self.words {
            let rarity = rarity(word.count, end as usize);
            all += if word.is_needed { rarity } else { 0.0 };
            for WordTerm { term: _, postings, factor } in &word.terms {
                for posting in postings.iter().copied().flatten() {
                    if left == 0 {
                        break;
                    }
                    left -= 1;
                    let weight = f32::from(posting.weight()) / ONE;
                    tally.match_word(posting.doc(), factor * weight / (weight + SATURATION));
                }
            }
            tally.end_word(rarity, word.is_needed);
        }
        (tally.scores(all), left > 0 && self.is_whole)
    }
}

/// The words of a query text.
struct QueryWords {
    words: Vec<String>,
    /// Compounds of adjacent words, which may be names.
    together: Vec<String>,
}

impl QueryWords {
    fn read(text: &str) -> Self {
        let (mut all, mut together): (Vec<String>, Vec<String>) = Default::default();
        words::each(text, &mut |piece, _, word| {
            let list = if piece == Token::Part { &mut all } else { &mut together };
            if list.len() < limits::SEARCH_WORDS && !list.iter().any(|other| other == word) {
                list.push(word.to_owned());
            }
        });
        together.extend(all.windows(2).map(<[String]>::concat));
        if all.len() > 2 {
            together.push(all.concat());
        }
        together.sort();
        together.dedup();
        let telling: Vec<_> = all.iter().filter(|word| !words::is_stop(word)).cloned().collect();
        // A partially typed word may be a stop word.
        let words = if telling.is_empty() { all } else { telling };
        Self { words, together }
    }
}

impl<'a> Word<'a> {
    fn new(terms: Vec<WordTerm<'a>>, is_needed: bool) -> Self {
        let slices = terms.iter().flat_map(|term| &term.postings);
        let count = slices.map(|slice| slice.len()).sum();
        Self { terms, count, is_needed }
    }
}

impl Index {
    fn count(&self, term: Term) -> usize {
        self.postings.count(term, self.end())
    }

    fn known(&self, word: &str, factor: f32) -> Option<WordTerm<'_>> {
        let (term, number) = self.terms.get(word)?;
        self.with_postings(vec![(term, number, factor)]).pop()
    }

    /// The terms that entities contain, with their postings.
    fn with_postings<'a>(&'a self, mut terms: Vec<(&'a str, Term, f32)>) -> Vec<WordTerm<'a>> {
        terms.sort_unstable_by_key(|(_, number, _)| *number);
        let numbers: Vec<Term> = terms.iter().map(|(_, number, _)| *number).collect();
        let found = terms.into_iter().zip(self.postings.of_terms(numbers, self.end()));
        let found = found.filter(|(_, postings)| !postings.is_empty());
        found.map(|((term, _, factor), postings)| WordTerm { term, postings, factor }).collect()
    }

    /// The terms matching a word, with their contributions.
    fn expand(
        &self,
        word: &str,
        is_beginning: bool,
        room: &mut ExpansionLimit,
    ) -> Vec<WordTerm<'_>> {
        let stem = words::stem(word);
        let mut terms: Vec<_> = self.known(&stem, 1.0).into_iter().collect();
        if is_beginning || terms.is_empty() {
            let longer = self.prefix_matches(word, room);
            terms.extend(longer.into_iter().filter(|longer| *longer.term != *stem));
        }
        if terms.is_empty() {
            let counts = |term| self.count(term) > 0;
            let near = self.terms.near(&stem, allowed(word), counts, &mut room.steps);
            room.was_enough &= near.len() <= limits::SEARCH_EXPANSIONS && room.steps > 0;
            let near = near.into_iter().take(limits::SEARCH_EXPANSIONS);
            terms = self.with_postings(near.map(|(term, number)| (term, number, NEARLY)).collect());
        }
        terms
    }

    /// The terms with a prefix; a longer remainder contributes less.
    fn prefix_matches(&self, word: &str, room: &mut ExpansionLimit) -> Vec<WordTerm<'_>> {
        let mut all = self.terms.with_prefix(word);
        let most = limits::SEARCH_BEGINNINGS.min(room.steps);
        let typed = length(word);
        let factor = |term| BEGINNING * (0.5 + 0.5 * typed / length(term));
        let terms = all.by_ref().take(most).map(|(term, number)| (term, number, factor(term)));
        let terms: Vec<_> = terms.collect();
        room.steps -= terms.len();
        room.was_enough &= all.next().is_none();
        self.with_postings(terms)
    }
}

#[expect(clippy::cast_precision_loss, reason = "words are short")]
fn length(word: &str) -> f32 {
    word.chars().count() as f32
}

/// The number of allowed edits; zero for numbers, because any edit changes their meaning.
fn allowed(word: &str) -> usize {
    match word.chars().count() {
        _ if word.contains(|c: char| c.is_ascii_digit()) => 0,
        ..4 => 0,
        4..8 => 1,
        _ => 2,
    }
}

/// The inverse document frequency of a word.
#[expect(clippy::cast_precision_loss, reason = "a logarithm needs no more")]
fn rarity(count: usize, all: usize) -> f32 {
    let (count, all) = (count.min(all) as f32, all as f32);
    (1.0 + (all - count + 0.5) / (count + 0.5)).ln()
}

/// Accumulates the scores of words by entity.
struct Accumulator {
    touched: Vec<Doc>,
    /// The best match of the current word.
    best: Vec<f32>,
    score: Vec<f32>,
    /// The rarity of the matched words.
    covered: Vec<f32>,
    /// The entities matched by the current word.
    current: Vec<Doc>,
}

impl Accumulator {
    fn new(entities: usize) -> Self {
        let none = || vec![0.0; entities];
        let (touched, current) = (Vec::new(), Vec::new());
        Self { touched, best: none(), score: none(), covered: none(), current }
    }

    fn match_word(&mut self, doc: Doc, points: f32) {
        let best = &mut self.best[doc as usize];
        if *best == 0.0 {
            self.current.push(doc);
        }
        *best = best.max(points);
    }

    fn end_word(&mut self, rarity: f32, is_needed: bool) {
        for doc in self.current.drain(..) {
            let at = doc as usize;
            if self.score[at] == 0.0 {
                self.touched.push(doc);
            }
            self.score[at] += rarity * std::mem::take(&mut self.best[at]);
            self.covered[at] += if is_needed { rarity } else { 0.0 };
        }
    }

    fn scores(self, all: f32) -> Vec<Scored> {
        let Self { touched, score, covered, .. } = self;
        let scored = touched.into_iter().map(|doc| {
            let at = doc as usize;
            // An entity that matches only a compound, like `rollback` for `roll back`, has all
            // words.
            let part = if covered[at] == 0.0 { 1.0 } else { covered[at] / all };
            // The penalty for missing words is the power 1.5 of the matched part.
            Scored { doc, score: score[at] * part * part.sqrt() }
        });
        scored.collect()
    }
}
