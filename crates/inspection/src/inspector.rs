//! The inspector of texts and JSON documents.

use std::{borrow::Cow, ops::Range, sync::Arc};

use crate::{
    context::Text,
    detector::Selection,
    finding::{DigestKey, Finding, Findings, MAX_FINDINGS, Part, normalized},
    json::{self, InvalidJson, Reader},
    scan::Hit,
    search::{Hits, search},
};

/// The shortest value has six bytes: `a@b.co`, with quotes.
const MIN_STRING: usize = 8;
/// The shortest number is one of nine digits.
const MIN_NUMBER: usize = 9;

/// Finds the values of selected detectors.
#[derive(Debug, Clone)]
pub struct Inspector {
    selection: Selection,
    key: DigestKey,
}

/// The place of a text in its document.
struct Place {
    pointer: Arc<str>,
    part: Part,
    token: Range<usize>,
}

impl Inspector {
    /// An inspector with these detectors, whose findings have digests under this key.
    pub fn new(selection: Selection, key: DigestKey) -> Self {
        Self { selection, key }
    }

    /// The findings in a text.
    pub fn text(&self, text: &str) -> Findings {
        self.text_after(text, 0)
    }

    /// The findings in a text that start at `from` or later. The text before is context.
    pub(crate) fn text_after(&self, text: &str, from: usize) -> Findings {
        let Hits { list, is_truncated } = search(Text { text, key: "" }, from, &self.selection);
        let place = Place { pointer: Arc::from(""), part: Part::Value, token: 0..text.len() };
        let list = list.into_iter().map(|hit| self.finding(text, &place, hit)).collect();
        Findings { list, is_truncated }
    }

    /// The findings in the keys, strings and numbers of a JSON document.
    pub fn json(&self, json: &str) -> Result<Findings, InvalidJson> {
        let mut found = Findings::default();
        let mut reader = Reader::new(json);
        while let Some(token) = reader.next_token()? {
            let least = if token.is_number { MIN_NUMBER } else { MIN_STRING };
            if token.span.len() < least {
                continue;
            }
            let text = json::string(&json[token.span.clone()]);
            let key = match token.part {
                Part::Key => Cow::default(),
                Part::Value => reader.nearest_key(),
            };
            let hits = search(Text { text: &text, key: &key }, 0, &self.selection);
            if hits.list.is_empty() {
                continue;
            }
            if token.part == Part::Key {
                reader.hide_key(hits.list[0].detector.class());
            }
            let place = Place { pointer: reader.pointer(), part: token.part, token: token.span };
            let room = MAX_FINDINGS - found.list.len();
            found.is_truncated |= hits.is_truncated || hits.list.len() > room;
            let hits = hits.list.into_iter().take(room);
            found.list.extend(hits.map(|hit| self.finding(&text, &place, hit)));
            if found.is_truncated {
                break;
            }
        }
        Ok(found)
    }

    fn finding(&self, text: &str, place: &Place, hit: Hit) -> Finding {
        let Hit { detector, span, encoding, decoded } = hit;
        let value = match &decoded {
            Some(value) => value,
            None => text.get(span.clone()).unwrap_or_default(),
        };
        let digest = self.key.digest(detector, &normalized(detector.class(), value));
        let Place { pointer, part, token } = place;
        let (pointer, token) = (Arc::clone(pointer), token.clone());
        Finding { detector, pointer, part: *part, token, span, encoding, digest }
    }
}
