//! Texts in base64 and percent-encoding. They are decoded once.

use std::ops::Range;

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use memchr::memchr_iter;

use crate::finding::Encoding;

/// The shortest base64 text that is decoded, without padding. It has the 15 digits of a card number.
const BASE64_CHARACTERS: usize = 20;
/// The shortest value in percent-encoding: `a%40b.co`.
const PERCENT_BYTES: usize = 8;
/// The start of a base64 text that is decoded first. Most base64 is no text.
const SAMPLE_CHARACTERS: usize = 64;

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Decoded bytes between two entries of [`Decoded::checkpoints`].
const CHECKPOINT_BYTES: usize = 1_024;

/// A decoded part of a text.
pub(crate) struct Decoded<'a> {
    pub(crate) text: String,
    pub(crate) encoding: Encoding,
    /// The position of the part in the text.
    start: usize,
    encoded: &'a [u8],
    /// The encoded length of each multiple of [`CHECKPOINT_BYTES`]; empty for base64.
    checkpoints: Vec<usize>,
    /// The positions in the decoded text of the characters of Latin-1.
    latin: Vec<usize>,
}

impl Decoded<'_> {
    /// The bytes in the text of a span of the decoded text. For base64, they are the whole part.
    pub(crate) fn source(&self, span: &Range<usize>) -> Range<usize> {
        match self.encoding {
            Encoding::Base64 => self.start..self.start + self.encoded.len(),
            Encoding::Percent => {
                self.start + self.encoded_length(span.start)
                    ..self.start + self.encoded_length(span.end)
            }
        }
    }

    fn encoded_length(&self, decoded: usize) -> usize {
        // A character of Latin-1 is one decoded byte, and two bytes of UTF-8.
        let decoded = decoded - self.latin.partition_point(|at| *at < decoded);
        let checkpoint = self.checkpoints.get(decoded / CHECKPOINT_BYTES);
        let mut at = checkpoint.copied().unwrap_or_default();
        for _ in 0..decoded % CHECKPOINT_BYTES {
            at += unit(&self.encoded[at..]).1;
        }
        at
    }
}

/// Calls `visit` with each decoded part.
pub(crate) fn decode<'a>(text: &'a str, mut visit: impl FnMut(Decoded<'a>)) {
    let bytes = text.as_bytes();
    for span in base64_runs(bytes) {
        if let Some(Utf8 { text, latin }) = base64_text(&text[span.clone()]) {
            let (start, encoded) =
                (span.start, &bytes[span.start..span.end + padding(bytes, &span)]);
            let encoding = Encoding::Base64;
            visit(Decoded { text, encoding, start, encoded, checkpoints: Vec::new(), latin });
        }
    }
    let mut end = 0;
    for percent in memchr_iter(b'%', bytes) {
        if percent < end || escape(&bytes[percent..]).is_none() {
            continue;
        }
        let span = word(bytes, end, percent);
        end = span.end;
        if span.len() >= PERCENT_BYTES {
            visit(percent_text(span.start, &bytes[span]));
        }
    }
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// The runs of base64 characters. Most bytes are skipped: each run has one of the positions whose
/// distance is the shortest run.
fn base64_runs(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut start = 0;
    std::iter::from_fn(move || {
        while let Some(window) = bytes.get(start..start + BASE64_CHARACTERS) {
            if let Some(other) = window.iter().rposition(|byte| !is_base64(*byte)) {
                start += other + 1;
            } else {
                let run = start..run_end(bytes, start + BASE64_CHARACTERS);
                start = run.end;
                return Some(run);
            }
        }
        None
    })
}

fn run_end(bytes: &[u8], from: usize) -> usize {
    let rest = &bytes[from..];
    from + rest.iter().position(|byte| !is_base64(*byte)).unwrap_or(rest.len())
}

/// The length of the padding after a base64 text.
fn padding(bytes: &[u8], span: &Range<usize>) -> usize {
    let most = match span.len() % 4 {
        2 => 2,
        3 => 1,
        _ => 0,
    };
    bytes[span.end..].iter().take(most).take_while(|byte| **byte == b'=').count()
}

/// A text, and the positions of the characters that were no UTF-8.
struct Utf8 {
    text: String,
    latin: Vec<usize>,
}

/// Decodes UTF-8. Bytes that are no UTF-8 are characters of Latin-1, so that one of them does not hide
/// the other ones.
fn utf8(bytes: Vec<u8>) -> Utf8 {
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => return Utf8 { text, latin: Vec::new() },
        Err(error) => error.into_bytes(),
    };
    let (mut text, mut latin) = (String::with_capacity(bytes.len()), Vec::new());
    for chunk in bytes.utf8_chunks() {
        text += chunk.valid();
        for byte in chunk.invalid() {
            latin.push(text.len());
            text.push(char::from(*byte));
        }
    }
    Utf8 { text, latin }
}

/// The text in base64, if it is printable.
fn base64_text(encoded: &str) -> Option<Utf8> {
    let is_url_safe = encoded.bytes().any(|byte| matches!(byte, b'-' | b'_'));
    let engine = if is_url_safe { &URL_SAFE } else { &STANDARD };
    // One character more than a multiple of four has no meaning.
    let whole = |length: usize| length - usize::from(length % 4 == 1);
    let sample = &encoded[..encoded.len().min(SAMPLE_CHARACTERS)];
    let sample = utf8(engine.decode(&sample[..whole(sample.len())]).ok()?).text;
    // The end of the sample may be a part of a character.
    let end = sample.char_indices().nth_back(2).map_or(0, |(at, _)| at);
    if !is_printable(&sample[..end]) {
        return None;
    }
    let decoded = utf8(engine.decode(&encoded[..whole(encoded.len())]).ok()?);
    is_printable(&decoded.text).then_some(decoded)
}

fn is_printable(text: &str) -> bool {
    !text.chars().any(|char| char.is_control() && !matches!(char, '\n' | '\r' | '\t'))
}

/// The run of ASCII graphic characters around a position.
fn word(bytes: &[u8], from: usize, at: usize) -> Range<usize> {
    let is_break = |byte: &u8| !byte.is_ascii_graphic();
    let start = bytes[from..at].iter().rposition(is_break).map_or(from, |before| from + before + 1);
    let end = bytes[at..].iter().position(is_break).map_or(bytes.len(), |after| at + after);
    start..end
}

/// The byte of the escape at the start.
fn escape(bytes: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = bytes else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(*high)? << 4 | digit(*low)?)
}

/// The first decoded byte, and its encoded length.
fn unit(encoded: &[u8]) -> (u8, usize) {
    match escape(encoded) {
        Some(byte) => (byte, 3),
        None => (encoded.first().copied().unwrap_or_default(), 1),
    }
}

fn percent_text(start: usize, encoded: &[u8]) -> Decoded<'_> {
    let (mut decoded, mut checkpoints, mut at) = (Vec::with_capacity(encoded.len()), Vec::new(), 0);
    while at < encoded.len() {
        if decoded.len().is_multiple_of(CHECKPOINT_BYTES) {
            checkpoints.push(at);
        }
        let (byte, length) = unit(&encoded[at..]);
        decoded.push(byte);
        at += length;
    }
    checkpoints.push(at);
    let Utf8 { text, latin } = utf8(decoded);
    Decoded { text, encoding: Encoding::Percent, start, encoded, checkpoints, latin }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Vec<(Encoding, String, &str)> {
        let mut found = Vec::new();
        decode(text, |part| {
            let source = part.source(&(0..part.text.len()));
            found.push((part.encoding, part.text, &text[source]));
        });
        found
    }

    #[test]
    fn base64_of_text_is_decoded_with_its_padding() {
        for encoded in [
            "aGVsbG8gd29ybGQsIGhvdyBhcmUgeW91Pw==",
            "w6TDtsO8IMOkw7bDvCDDpMO2w7wgw6TDtg==",
            "NDExMTExMTExMTExMTExMQ==",
            "Mzc4MjgyMjQ2MzEwMDA1",
            "TfxsbGVyIGFuIEz2d2U7IPY=",
        ] {
            let text = format!("a: {encoded}= b");
            assert_eq!(decoded(&text).len(), 1, "{text}");
            assert_eq!(decoded(&text)[0].2, encoded);
        }
    }

    #[test]
    fn binary_base64_is_not_text() {
        assert_eq!(decoded("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"), []);
        assert_eq!(decoded("c2hvcnQ="), []);
    }

    #[test]
    fn escaped_words_are_decoded_once() {
        let found = decoded("x a%40b%2540 y %zz 100%");
        assert_eq!(found, [(Encoding::Percent, "a@b%40".to_owned(), "a%40b%2540")]);
    }

    #[test]
    fn escapes_of_latin_letters_hide_no_other_ones() {
        let text = "n=M%FCller&m=%C3%B6%40%FCb.de";
        decode(text, |part| {
            assert_eq!(part.text, "n=Müller&m=ö@üb.de");
            for (inner, outer) in [("Müller", "M%FCller"), ("ö@üb.de", "%C3%B6%40%FCb.de")] {
                let start = part.text.find(inner).expect("a part");
                assert_eq!(&text[part.source(&(start..start + inner.len()))], outer);
            }
        });
    }

    #[test]
    fn spans_of_long_words_are_exact() {
        let text = format!("{}ab", "%41x".repeat(3_000));
        decode(&text, |part| {
            for end in [0, 1, 2, 1_023, 1_024, 1_025, 5_999, 6_000, 6_002] {
                let source = part.source(&(0..end));
                let expected = if end > 6_000 { text.len() } else { end / 2 * 4 + end % 2 * 3 };
                assert_eq!(source, 0..expected, "{end}");
            }
        });
    }
}
