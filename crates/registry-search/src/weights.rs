//! The terms of one entity with their weights, which increase with the significance of the field,
//! its brevity and the term frequency.
//!
//! The weights are those of BM25F with fixed instead of average lengths, so that they depend only
//! on the document.

use std::collections::{BTreeSet, HashMap};

use registry_core::catalog::Record;
use serde_json::Value;

use crate::limits;
use crate::{
    terms::{name_term, tag_term},
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

/// The terms of an entity, in order. Beyond [`limits::SEARCH_TERMS`] words, less significant ones are
/// omitted.
pub(super) fn terms(record: &Record) -> Vec<(String, u16)> {
    let document = &record.document;
    // A verified document is valid JSON.
    let value: Value = serde_json::from_slice(document.bytes()).unwrap_or_default();
    let mut counts: HashMap<String, Counts> = HashMap::new();
    let mut lengths = Counts::default();
    let mut filters = BTreeSet::from([name_term(document.key())]);
    let mut left = limits::SEARCH_TERMS;
    text::each(document.key(), &value, &mut |field, text| {
        if field == Field::Tag && filters.len() < limits::SEARCH_TERMS {
            filters.insert(tag_term(text));
        }
        words::each(text, &mut |piece, _, word| {
            if left == 0 || piece == Token::Part && words::is_stop(word) {
                return;
            }
            left -= 1;
            lengths[field as usize] += if piece == Token::Part { 1.0 } else { 0.0 };
            let stem = words::stem(word);
            if let Some(known) = counts.get_mut(&*stem) {
                known[field as usize] += 1.0;
            } else {
                let mut first = Counts::default();
                first[field as usize] = 1.0;
                counts.insert(stem.into_owned(), first);
            }
        });
    });
    let weighed = counts.into_iter().map(|(word, counts)| (word, whole(weight(&counts, &lengths))));
    let mut terms: Vec<_> = filters.into_iter().map(|term| (term, 0)).chain(weighed).collect();
    terms.sort_unstable();
    terms
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
