//! The term dictionary with exact, prefix and fuzzy lookup.
//!
//! It also contains whole names (with the prefix `!`) and tags (`#`), so that all versions of a
//! name and all entities with a tag form one posting list. These prefixes sort before all words.

use std::{ops::Bound, sync::Arc};

use imbl::OrdMap;
use registry_core::{kind::Kind, reference::Key};

use crate::{
    edit_distance::{EditDistance, Verdict},
    postings::{MOST, Term},
};

const TAGS: &str = "#";
/// Words start with digits in the sort order.
const WORDS: &str = "0";
/// Maximum length of a tag in characters; longer ones are truncated.
const LONGEST_TAG: usize = 64;

/// The terms with their ids.
#[derive(Debug, Clone, Default)]
pub(super) struct Terms(OrdMap<Arc<str>, Term>);

impl Terms {
    /// The prefix of terms for names; all of them sort after it.
    pub(super) const FIRST_NAME: &str = "!";

    /// The id of a term, which is added if new; `None` if there are too many.
    pub(super) fn intern(&mut self, term: &str) -> Option<Term> {
        if let Some(number) = self.0.get(term) {
            return Some(*number);
        }
        let number = Term::try_from(self.0.len()).ok().filter(|_| self.0.len() < MOST)?;
        self.0.insert(term.into(), number);
        Some(number)
    }

    /// The id of a term.
    pub(super) fn find(&self, term: &str) -> Option<Term> {
        self.0.get(term).copied()
    }

    /// A term as stored in the dictionary, with its id.
    pub(super) fn get(&self, term: &str) -> Option<(&str, Term)> {
        self.0.get_key_value(term).map(|(term, number)| (&**term, *number))
    }

    /// The words with this prefix in order, without the word itself.
    pub(super) fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = (&str, Term)> {
        let range = (Bound::Excluded(prefix), Bound::Unbounded);
        let terms = self.0.range::<_, str>(range).map(|(term, number)| (&**term, *number));
        terms.take_while(move |(term, _)| term.starts_with(prefix))
    }

    /// The terms of names from this one on, in order.
    pub(super) fn names(&self, from: &str) -> impl Iterator<Item = &str> {
        let range = (Bound::Included(from), Bound::Unbounded);
        let terms = self.0.range::<_, str>(range).map(|(term, _)| &**term);
        terms.take_while(|term| term.starts_with(Self::FIRST_NAME))
    }

    /// The significant words within this edit distance: one edit, or two edits with the same first
    /// letter, which limits the search.
    pub(super) fn near(
        &self,
        word: &str,
        most: usize,
        counts: impl Fn(Term) -> bool,
        steps: &mut usize,
    ) -> Vec<(&str, Term)> {
        let first = word.chars().next().map(String::from).unwrap_or_default();
        let walks = [(1, ""), (2, first.as_str())];
        for (edits, prefix) in walks.into_iter().filter(|(edits, _)| *edits <= most) {
            let mut found = self.walk(EditDistance::new(word, edits), prefix, steps);
            found.retain(|(_, term)| counts(*term));
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    /// The words with this prefix that match, as far as the step limit allows.
    fn walk(&self, mut near: EditDistance, prefix: &str, steps: &mut usize) -> Vec<(&str, Term)> {
        let mut found = Vec::new();
        let mut seek = Bound::Included(WORDS.max(prefix).to_owned());
        while *steps > 0 {
            *steps -= 1;
            let from = seek.as_ref().map(String::as_str);
            let mut rest = self.0.range::<_, str>((from, Bound::Unbounded));
            let next = rest.next().filter(|(term, _)| term.starts_with(prefix));
            let Some((term, number)) = next else { break };
            seek = match near.walk(term) {
                Verdict::Beyond(next) => Bound::Included(next),
                Verdict::End => break,
                Verdict::Far => Bound::Excluded(term.to_string()),
                Verdict::Within => {
                    found.push((&**term, *number));
                    Bound::Excluded(term.to_string())
                }
            };
        }
        found
    }

    /// The number of terms.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The term of all versions of a name, ordered by name and kind.
pub(super) fn name_term(key: &Key) -> String {
    let Key { kind, name, version: _ } = key;
    let rank = match kind {
        Kind::Schema => '0',
        Kind::Server => '1',
        Kind::Tool => '2',
        Kind::Agent => '3',
        Kind::Policy => '4',
    };
    format!("{}{name}\u{1}{rank}", Terms::FIRST_NAME)
}

/// The term of a tag, which ignores case.
pub(super) fn tag_term(tag: &str) -> String {
    let tag = tag.trim().to_lowercase();
    format!("{TAGS}{}", tag.chars().take(LONGEST_TAG).collect::<String>())
}
