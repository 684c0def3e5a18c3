//! The inspector of texts and JSON documents.

use std::{ops::Range, sync::Arc};

use crate::{
    context::Text,
    detector::Selection,
    finding::{DigestKey, Finding, Findings, Part, normalized},
    json::{self, Candidate, InvalidJson, Reader},
    scan::Hit,
    search::{Hits, search},
};

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
    /// The text is that of a number in another spelling.
    is_respelled: bool,
}

impl Inspector {
    /// An inspector with these detectors, whose findings have digests under this key.
    pub fn new(selection: Selection, key: DigestKey) -> Self {
        Self { selection, key }
    }

    /// The findings in a text.
    pub fn text(&self, text: &str) -> Findings {
        let hits = search(Text { text, key: "" }, &self.selection);
        let place = Place {
            pointer: Arc::from(""),
            part: Part::Value,
            token: 0..text.len(),
            is_respelled: false,
        };
        self.findings(text, &place, hits)
    }

    /// The findings in the keys, strings and numbers of a JSON document. A string that is a JSON object
    /// or array is read like the document, once.
    pub fn json(&self, json: &str) -> Result<Findings, InvalidJson> {
        let mut found = Findings::default();
        let mut reader = Reader::new(json);
        while let Some(Candidate { token, text, key }) = reader.next_candidate()? {
            if token.part == Part::Value
                && let Some(mut inner) = self.inner(&text, &key)
            {
                if !inner.is_empty() {
                    let pointer = reader.pointer();
                    for finding in &mut inner.list {
                        let inner = std::mem::replace(&mut finding.token, token.span.clone());
                        finding.inner = Some(inner);
                        finding.pointer = Arc::clone(&pointer);
                    }
                }
                found.add(inner);
            } else {
                let hits = search(Text { text: &text, key: &key }, &self.selection);
                if hits.list.is_empty() {
                    continue;
                }
                if token.part == Part::Key {
                    reader.hide_key(hits.list[0].detector.class());
                }
                let place = Place {
                    pointer: reader.pointer(),
                    part: token.part,
                    is_respelled: token.is_number && json[token.span.clone()] != *text,
                    token: token.span,
                };
                found.add(self.findings(&text, &place, hits));
            }
            if found.is_truncated {
                break;
            }
        }
        Ok(found)
    }

    /// The findings in a string that is a JSON object or array, and the value of this member. Their
    /// tokens are of the string. The string is a value as a whole, so its keys can be replaced.
    fn inner(&self, json: &str, member: &str) -> Option<Findings> {
        if !json::is_document(json) {
            return None;
        }
        let mut found = Findings::default();
        let pointer = Arc::from("");
        let mut reader = Reader::new(json);
        while let Ok(Some(Candidate { token, text, key })) = reader.next_candidate()
            && !found.is_truncated
        {
            let is_outermost = token.part == Part::Value && key.is_empty();
            let key = if is_outermost { member } else { &key };
            let hits = search(Text { text: &text, key }, &self.selection);
            let place = Place {
                pointer: Arc::clone(&pointer),
                part: Part::Value,
                is_respelled: token.is_number && json[token.span.clone()] != *text,
                token: token.span,
            };
            found.add(self.findings(&text, &place, hits));
        }
        Some(found)
    }

    fn findings(&self, text: &str, place: &Place, hits: Hits) -> Findings {
        let Hits { list, is_truncated } = hits;
        let list = list.into_iter().map(|hit| self.finding(text, place, hit)).collect();
        Findings { list, is_truncated }
    }

    fn finding(&self, text: &str, place: &Place, hit: Hit) -> Finding {
        let Hit { detector, span, encoding, decoded } = hit;
        let value = match &decoded {
            Some(value) => value,
            None => text.get(span.clone()).unwrap_or_default(),
        };
        let digest = self.key.digest(detector, &normalized(detector.class(), value));
        let Place { pointer, part, token, is_respelled } = place;
        // A number in another spelling is replaced as a whole.
        let span = if *is_respelled { 0..token.len() } else { span };
        let (pointer, token) = (Arc::clone(pointer), token.clone());
        Finding { detector, pointer, part: *part, token, inner: None, span, encoding, digest }
    }
}
