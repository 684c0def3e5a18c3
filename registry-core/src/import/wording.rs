//! Texts of others on their way into a document.
//!
//! Deliberately absent: judging them; what looks wrong is put before a person.

use super::{
    Repairs,
    text::{Sign, clean, signs},
};
use crate::limits;

/// A text without what is hidden in it, short enough; what speaks to the model is reported.
/// `others` are the names of other tools.
pub(super) fn worded<'a>(
    repairs: &mut Repairs,
    text: &str,
    pointer: &str,
    others: impl IntoIterator<Item = &'a str>,
) -> String {
    let mut cleaned = clean(text);
    if cleaned.removed > 0 {
        let what = format!("{} hidden characters or terminal escapes", cleaned.removed);
        repairs.needed(pointer, what, "they were removed; ask its makers why they are there");
    }
    for sign in signs(&cleaned.text, others) {
        if matches!(sign, Sign::Imperative | Sign::Secret | Sign::OtherTool) {
            let what = format!("the text {}", sign.explain());
            repairs.needed(pointer, what, "read it before you register it");
        }
    }
    let bytes = cleaned.text.len();
    if bytes > limits::TEXT_BYTES {
        let limit = limits::TEXT_BYTES;
        let end = (0..=limit).rev().find(|end| cleaned.text.is_char_boundary(*end));
        cleaned.text.truncate(end.unwrap_or_default());
        let what = format!("{bytes} bytes of text, {limit} are allowed");
        repairs.needed(pointer, what, "it was cut; shorten it");
    }
    cleaned.text
}
