//! Inspection of a text that arrives in chunks. Text is held back while a value may be incomplete.

use std::fmt;

use memchr::memmem;

use crate::{detect::private_key, finding::Findings, inspector::Inspector};

/// Maximum bytes that are held back. A word of this length ends the stream.
pub const MAX_HELD_BYTES: usize = 1 << 20;
/// Bytes after a cut that decide about values before it: the longest value with spaces.
const LOOKAHEAD_BYTES: usize = 64;
/// Bytes before a cut that remain as context.
const CONTEXT_BYTES: usize = 512;

/// A text that arrives in chunks.
pub struct Stream {
    inspector: Inspector,
    /// Released bytes, as context, and held bytes.
    buffer: String,
    held_from: usize,
}

/// A released part of the text. All values in it are complete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Released {
    /// The text, unchanged.
    pub text: String,
    /// Its findings. Spans are of this part.
    pub findings: Findings,
}

/// The stream has a word of more than [`MAX_HELD_BYTES`]. Its held text is discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text has more than {MAX_HELD_BYTES} bytes without a space")]
pub struct Unbroken;

impl fmt::Debug for Stream {
    /// The held text is sensitive.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("held", &self.held()).finish_non_exhaustive()
    }
}

impl Stream {
    /// A stream whose text this inspector reads.
    pub fn new(inspector: Inspector) -> Self {
        Self { inspector, buffer: String::new(), held_from: 0 }
    }

    /// Adds a chunk. Returns the text that no later chunk can make sensitive.
    pub fn push(&mut self, chunk: &str) -> Result<Released, Unbroken> {
        self.buffer += chunk;
        let limit = self.buffer.len().saturating_sub(LOOKAHEAD_BYTES);
        if let Some(cut) = self.cut(limit) {
            return Ok(self.release(cut));
        }
        if self.held() > MAX_HELD_BYTES {
            self.buffer.clear();
            self.held_from = 0;
            return Err(Unbroken);
        }
        Ok(Released::default())
    }

    /// Ends the text. Returns the rest.
    pub fn finish(mut self) -> Released {
        self.release(self.buffer.len())
    }

    /// Bytes that are held back. After an error of the sender they must not be forwarded.
    pub fn held(&self) -> usize {
        self.buffer.len() - self.held_from
    }

    /// The last position between two words of the held text, at most `limit`, that is not in a private
    /// key.
    fn cut(&self, limit: usize) -> Option<usize> {
        let cut = self.word_start(limit)?;
        match self.open_key(cut) {
            Some(key) => self.word_start(key),
            None => Some(cut),
        }
    }

    /// The start of a word in the held text, at most `limit`. Values with spaces are found as a whole;
    /// all others are in one word.
    fn word_start(&self, limit: usize) -> Option<usize> {
        let held = self.buffer.as_bytes().get(self.held_from..limit)?;
        let space = held.iter().rposition(|byte| !byte.is_ascii_graphic())?;
        let start = self.buffer.floor_char_boundary(self.held_from + space + 1);
        (start > self.held_from).then_some(start)
    }

    /// The start of a private key before `cut` which may end after it.
    fn open_key(&self, cut: usize) -> Option<usize> {
        let window =
            cut.saturating_sub(private_key::MAX_BYTES + LOOKAHEAD_BYTES).max(self.held_from);
        let held = &self.buffer.as_bytes()[window..];
        let begin = memmem::rfind(&held[..cut - window], private_key::BEGIN.as_bytes())?;
        let after = &held[begin + private_key::BEGIN.len()..];
        // The dashes of the first line, of the last line, and after it.
        let is_complete = memmem::find_iter(after, "-----").take(3).count() == 3;
        (!is_complete).then_some(window + begin)
    }

    /// Inspects and releases the text before `cut`, or before a value around it.
    fn release(&mut self, cut: usize) -> Released {
        let mut findings = self.inspector.text_after(&self.buffer, self.held_from);
        let mut cut = cut;
        let around = |cut: usize| {
            let mut list = findings.list.iter();
            list.find(|found| found.span.start < cut && cut < found.span.end)
        };
        while let Some(finding) = around(cut) {
            match self.word_start(finding.span.start) {
                Some(start) => cut = start,
                None => return Released::default(),
            }
        }
        findings.list.retain(|finding| finding.span.start < cut);
        let text = self.buffer[self.held_from..cut].to_owned();
        for finding in &mut findings.list {
            finding.token = 0..text.len();
            finding.span = finding.span.start - self.held_from..finding.span.end - self.held_from;
        }
        let context = self.buffer.floor_char_boundary(cut.saturating_sub(CONTEXT_BYTES));
        self.buffer.drain(..context);
        self.held_from = cut - context;
        Released { text, findings }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{detector::Selection, finding::DigestKey};

    fn stream() -> Stream {
        Stream::new(Inspector::new(Selection::all(), DigestKey::new(&[2; 32])))
    }

    #[test]
    fn text_is_released_before_its_end() {
        let mut stream = stream();
        let released = stream.push(&"word ".repeat(100)).unwrap();
        assert!(released.text.len() > 400);
    }

    #[test]
    fn split_value_is_held_until_complete() {
        let mut stream = stream();
        let before = stream.push(&format!("{} AKIAIOSF", "word ".repeat(50))).unwrap();
        assert!(!before.text.contains("AKIA") && before.findings.is_empty());
        stream.push("ODNN7EXAMPLE").unwrap();
        let rest = stream.finish();
        assert_eq!(rest.findings.list.len(), 1);
        assert_eq!(&rest.text[rest.findings.list[0].span.clone()], "AKIAIOSFODNN7EXAMPLE");
    }

    #[test]
    fn endless_word_ends_the_stream() {
        let mut stream = stream();
        let word = "x".repeat(MAX_HELD_BYTES / 4);
        let results: Vec<_> = (0..5).map(|_| stream.push(&word)).collect();
        assert!(results[..4].iter().all(Result::is_ok));
        assert_eq!(results[4], Err(Unbroken));
        assert_eq!(stream.held(), 0);
    }

    #[test]
    fn held_text_is_not_printed() {
        let mut stream = stream();
        stream.push("AKIAIOSFODNN7EXAMPLE").unwrap();
        assert!(!format!("{stream:?}").contains("AKIA"));
    }
}
