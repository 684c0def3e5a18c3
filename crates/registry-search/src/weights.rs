//! The terms of one entity with their weights, which increase with the significance of the field,
//! its brevity and the term frequency.
//!
//! The weights are those of BM25F with fixed instead of average lengths, so that they depend only
//! on the document.

use std::collections::BTreeMap;

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

/// The terms of an entity. Beyond [`limits::SEARCH_TERMS`] words, less significant ones are
/// omitted.
pub(super) fn terms(record: &Record) -> Vec<(String, u16)> {
    let document = &record.document;
    // A verified document is valid JSON.
    let value: Value = serde_json::from_slice(document.bytes()).unwrap_or_default();
    let mut counts: BTreeMap<(Field, String), f32> = BTreeMap::new();
    let mut lengths = [0.0_f32; Field::ALL.len()];
    let mut terms = BTreeMap::from([(name_term(document.key()), 0.0)]);
    let mut left = limits::SEARCH_TERMS;
    text::each(document.key(), &value, &mut |field, text| {
        if field == Field::Tag && terms.len() < limits::SEARCH_TERMS {
            terms.insert(tag_term(text), 0.0);
        }
        words::each(text, &mut |piece, _, word| {
            if left == 0 || piece == Token::Part && words::is_stop(word) {
                return;
            }
            left -= 1;
            lengths[field as usize] += if piece == Token::Part { 1.0 } else { 0.0 };
            *counts.entry((field, words::stem(word).into_owned())).or_default() += 1.0;
        });
    });
    for ((field, word), count) in counts {
        let (weight, usual, weakening) = measure(field);
        let length = 1.0 - weakening + weakening * lengths[field as usize] / usual;
        *terms.entry(word).or_default() += weight * count / length;
    }
    terms.into_iter().map(|(term, weight)| (term, whole(weight))).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a saturating cast of a float is intended"
)]
fn whole(weight: f32) -> u16 {
    (weight * ONE) as u16
}
