//! The frames of a cache journal, parsed by their definition. Signatures of frames are not checked.

use crate::log::{bytes_of, digest, digits};

/// Sizes in bytes of a length, a digest, and a signature with its time.
const LENGTH: usize = 4;
const HASH: usize = 32;
const SIGNATURE: usize = 8 + 64;

/// One commit of a journal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The chain hash after it.
    pub(crate) chain: String,
    /// The canonical commit.
    pub(crate) canonical: String,
    /// The digests of its documents.
    pub(crate) documents: Vec<String>,
}

/// The frames before the first torn or damaged one.
pub(crate) fn frames(hexadecimal: &str) -> Vec<Frame> {
    let bytes = bytes_of(hexadecimal).unwrap_or_default();
    let mut rest = bytes.as_slice();
    std::iter::from_fn(|| frame(&mut rest)).collect()
}

fn frame(rest: &mut &[u8]) -> Option<Frame> {
    let length = take_length(rest)?;
    let (hash, body) = (take(rest, HASH)?, take(rest, length)?);
    let is_whole = bytes_of(digest(&[body]).strip_prefix("sha256:")?)? == hash;
    is_whole.then(|| read(body))?
}

fn read(mut body: &[u8]) -> Option<Frame> {
    let hash = take(&mut body, HASH)?;
    let commit = take_part(&mut body)?;
    let mut documents = Vec::new();
    while !body.is_empty() && body.len() != SIGNATURE {
        documents.push(digest(&[take_part(&mut body)?]));
    }
    let canonical = String::from_utf8_lossy(commit).into_owned();
    Some(Frame { chain: format!("sha256:{}", digits(hash)), canonical, documents })
}

fn take_part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take_length(rest)?;
    take(rest, length)
}

fn take_length(rest: &mut &[u8]) -> Option<usize> {
    let length = take(rest, LENGTH)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(length)).ok()
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(bytes)?;
    *rest = left;
    Some(taken)
}
