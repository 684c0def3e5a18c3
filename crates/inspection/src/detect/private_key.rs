//! Private keys in the text forms of PEM (RFC 7468), SSH and PGP.

use memchr::memmem;
use registry_core::entity::policy::DataClass;

use crate::{context::Text, detector::Detector, scan::Scan};

pub(crate) static PRIVATE_KEY: Detector = Detector::new(
    "private-key",
    DataClass::Credential,
    "PEM, OpenSSH and OpenPGP private keys with their content",
);

/// Maximum bytes of a key.
pub(crate) const MAX_BYTES: usize = 32 << 10;
const LABEL_BYTES: usize = 40;
const BEGIN: &str = "-----BEGIN ";
const DASHES: &str = "-----";
/// A key has a line of at least this many base64 characters; most have 64.
const LINE_CHARACTERS: usize = 40;
/// Maximum bytes before the first line and between two lines of a key that is incomplete: header fields,
/// and prefixes as in logs.
const GAP_BYTES: usize = 512;

pub(crate) fn find(scan: &mut Scan<'_>, start: usize, end: usize) {
    let text = scan.text;
    let label_end =
        text.run_end(end, LABEL_BYTES, |byte| byte.is_ascii_uppercase() || byte == b' ');
    let label = text.slice(end..label_end);
    let body = label_end + DASHES.len();
    if !is_private(label) || text.slice(label_end..body) != DASHES {
        return;
    }
    let body_end = body_end(text, body);
    let content = &text.bytes()[body..body_end];
    let mut lines = content.split(|byte| !is_content(*byte));
    if lines.any(|line| line.len() >= LINE_CHARACTERS) {
        scan.add(&PRIVATE_KEY, start..footer_end(text, body_end));
    }
}

/// The start of a private key in the text that further text can end.
pub(crate) fn open_start(text: &str) -> Option<usize> {
    let start = text.rfind(BEGIN)?;
    let (label, body) = text[start + BEGIN.len()..].split_once(DASHES)?;
    let is_open = label.len() <= LABEL_BYTES
        && !body.contains(DASHES)
        && body.len() < MAX_BYTES
        && bytes_after_lines(body) <= GAP_BYTES;
    (is_private(label) && is_open).then_some(start)
}

/// The bytes after the last line of a key. A sentence about keys has no line.
fn bytes_after_lines(body: &str) -> usize {
    let parts = body.as_bytes().rsplit(|byte| !is_content(*byte));
    let after = parts.take_while(|part| part.len() < LINE_CHARACTERS);
    after.map(|part| part.len() + 1).sum()
}

fn is_private(label: &str) -> bool {
    label.ends_with("PRIVATE KEY") || label.ends_with("PRIVATE KEY BLOCK")
}

/// The end of the content: the next dashes, or the end of the base64 text.
fn body_end(text: Text<'_>, body: usize) -> usize {
    let window = &text.bytes()[body..text.len().min(body + MAX_BYTES)];
    if let Some(dashes) = memmem::find(window, DASHES.as_bytes()) {
        body + dashes
    } else {
        let is_key = |byte: u8| is_content(byte) || byte.is_ascii_whitespace() || byte == b'\\';
        let end = text.run_end(body, MAX_BYTES, is_key);
        let trailing = |byte: u8| byte.is_ascii_whitespace() || byte == b'\\';
        text.run_start(end, end - body, trailing)
    }
}

/// The end of `-----END …-----`, if it follows.
fn footer_end(text: Text<'_>, at: usize) -> usize {
    let label = at + "-----END ".len();
    if text.slice(at..label) != "-----END " {
        return at;
    }
    let label_end = text.run_end(label, LABEL_BYTES, |b| b.is_ascii_uppercase() || b == b' ');
    let end = label_end + DASHES.len();
    if text.slice(label_end..end) == DASHES { end } else { label_end }
}

fn is_content(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}
