//! The terms of one entity with their weights, which increase with the significance of the field,
//! its brevity and the term frequency.
//!
//! The weights are those of BM25F with fixed instead of average lengths, so that they depend only
//! on the document.

use std::{collections::BTreeSet, ops::Range};

use registry_core::catalog::Record;

use crate::limits;
use crate::{
    terms::tag_term,
    text::{self, Field},
    words::{self, Token},
};

/// The fixed-point representation of the weight 1 in a posting.
pub(super) const ONE: f32 = 256.0;

/// The weight of a word in a field of ordinary length, that length in words, and the penalty for
/// longer ones (0 to 1).
fn measure(field: Field) -> (f32, f32, f32) {
    match field {
        Field::Name => (6.0, 3.0, 0.5),
        Field::Title => (4.0, 3.0, 0.5),
        Field::Tag => (2.5, 3.0, 0.2),
        Field::Skill => (3.0, 6.0, 0.4),
        Field::Description => (2.0, 12.0, 0.5),
        Field::Property => (1.5, 8.0, 0.2),
        Field::Detail => (1.2, 12.0, 0.3),
        Field::Related => (0.8, 4.0, 0.2),
    }
}

/// The numbers of words in each field.
type Counts = [f32; Field::ALL.len()];

/// The tags and words of an entity with their weights.
pub(super) struct WeightedTerms {
    tags: BTreeSet<String>,
    /// The words one after the other, because most are known terms that need no text of their own.
    text: String,
    words: Vec<(Range<usize>, u16)>,
}

impl WeightedTerms {
    pub(super) fn len(&self) -> usize {
        self.tags.len() + self.words.len()
    }

    /// The terms in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, u16)> {
        let tags = self.tags.iter().map(|tag| (tag.as_str(), 0));
        tags.chain(self.words.iter().map(|(word, weight)| (&self.text[word.clone()], *weight)))
    }
}

/// The tags and words of an entity. Beyond [`limits::SEARCH_TERMS`] words, less significant ones are
/// omitted.
pub(super) fn terms(record: &Record) -> WeightedTerms {
    let mut tags = BTreeSet::new();
    let (mut text, mut words) = (String::new(), Vec::new());
    let mut lengths = Counts::default();
    text::each(&record.document, &mut |field, content| {
        if field == Field::Tag && tags.len() < limits::SEARCH_TERMS {
            tags.insert(tag_term(content));
        }
        words::each(content, &mut |piece, _, word| {
            if words.len() == limits::SEARCH_TERMS || piece == Token::Part && words::is_stop(word) {
                return;
            }
            lengths[field as usize] += if piece == Token::Part { 1.0 } else { 0.0 };
            let start = text.len();
            text.push_str(&words::stem(word));
            words.push((start..text.len(), field));
        });
    });
    let word = |(range, _): &(Range<usize>, Field)| &text[range.clone()];
    words.sort_unstable_by_key(word);
    let weighed = words.chunk_by(|a, b| word(a) == word(b)).map(|occurrences| {
        let mut counts = Counts::default();
        for (_, field) in occurrences {
            counts[*field as usize] += 1.0;
        }
        (occurrences[0].0.clone(), whole(weight(&counts, &lengths)))
    });
    let words = weighed.collect();
    WeightedTerms { tags, text, words }
}

/// The weight of a word with these numbers in the fields, which have these lengths.
fn weight(counts: &Counts, lengths: &Counts) -> f32 {
    let weights = Field::ALL.into_iter().zip(counts).zip(lengths).map(|((field, count), words)| {
        let (weight, usual, weakening) = measure(field);
        let length = 1.0 - weakening + weakening * words / usual;
        weight * count / length
    });
    weights.sum()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a saturating cast of a float is intended"
)]
fn whole(weight: f32) -> u16 {
    (weight * ONE) as u16
}
