//! Pages: their size, what goes on them, and the opaque tokens by which the next one is asked for.
//!
//! A token carries where to go on, a fingerprint of the query that it belongs to and one of both, so
//! that a token with other filters, or one that was changed, is refused and not silently wrong. It
//! holds no secret and grants nothing.

use std::fmt::Write as _;

use registry_core::{Digest, Record};

const DEFAULT_SIZE: usize = 100;
const LARGEST_SIZE: usize = 1_000;
const DEFAULT_SEARCH_SIZE: usize = 20;
const LARGEST_SEARCH_SIZE: usize = 100;
const LONGEST_TOKEN: usize = 2_048;
const FINGERPRINT: usize = 8;
/// A page of entities ends here even where it is not full, so that it fits into a message.
pub(super) const PAGE_BYTES: usize = 3 << 20;
/// About what a record takes beside its document and what is said about it.
pub(super) const OUTLINE_BYTES: usize = 512;

/// A page of a list with the token of the next one; empty at the end.
#[derive(Debug)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where to go on.
    pub next_page_token: String,
}

impl<T> Page<T> {
    /// The first `size` of these items, of which there is one more where there is another page.
    /// `cursor` says where an item is; `query` is everything that must stay the same.
    pub(super) fn of(
        mut items: Vec<T>,
        size: usize,
        query: &str,
        cursor: impl FnOnce(&T) -> String,
    ) -> Self {
        let more = items.len() > size;
        items.truncate(size);
        let next_page_token = next(query, &items, more, cursor);
        Self { items, next_page_token }
    }
}

/// The token of the page after these items, if there are more.
pub(super) fn next<T>(
    query: &str,
    items: &[T],
    more: bool,
    cursor: impl FnOnce(&T) -> String,
) -> String {
    let last = items.last().filter(|_| more);
    last.map(|last| token(query, &cursor(last))).unwrap_or_default()
}

/// As many of these items as go on one page, at least one; and whether there are more.
pub(super) fn fill<T>(
    items: impl Iterator<Item = T>,
    size: usize,
    bytes_of: impl Fn(&T) -> usize,
) -> (Vec<T>, bool) {
    let (mut page, mut bytes) = (Vec::new(), 0);
    for item in items {
        bytes += bytes_of(&item);
        let full = page.len() == size || bytes > PAGE_BYTES;
        if full && !page.is_empty() {
            return (page, true);
        }
        page.push(item);
    }
    (page, false)
}

/// About what a record takes without its document.
pub(super) fn outline_bytes(record: &Record) -> usize {
    let said = record.lifecycle.notice.as_ref().map_or(0, |notice| notice.text_bytes());
    OUTLINE_BYTES + said
}

/// Why a page cannot be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPage {
    /// More entries than a page holds.
    #[error("page_size is {wanted}, at most {largest} are allowed")]
    Size {
        /// How many were wanted.
        wanted: u32,
        /// How many a page holds.
        largest: usize,
    },
    /// Not a token that was given out.
    #[error("page_token is not one that this server gave out; begin again without it")]
    Token,
    /// A token of another query.
    #[error("page_token belongs to a query with other filters; begin again without it")]
    OtherQuery,
}

/// Reads the size of a page of a list.
pub fn size(wanted: u32) -> Result<usize, InvalidPage> {
    size_within(wanted, DEFAULT_SIZE, LARGEST_SIZE)
}

/// Reads the size of a page of search results.
pub fn search_size(wanted: u32) -> Result<usize, InvalidPage> {
    size_within(wanted, DEFAULT_SEARCH_SIZE, LARGEST_SEARCH_SIZE)
}

fn size_within(wanted: u32, default: usize, largest: usize) -> Result<usize, InvalidPage> {
    match usize::try_from(wanted) {
        Ok(0) => Ok(default),
        Ok(size) if size <= largest => Ok(size),
        _ => Err(InvalidPage::Size { wanted, largest }),
    }
}

/// A token to go on after a cursor; `query` is everything that must stay the same.
pub fn token(query: &str, cursor: &str) -> String {
    let mut bytes = fingerprint(query).to_vec();
    bytes.extend(fingerprint(&whole(query, cursor)));
    bytes.extend_from_slice(cursor.as_bytes());
    let mut token = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing into a string cannot fail.
        let _ = write!(token, "{byte:02x}");
    }
    token
}

/// Reads the cursor out of a token, and what it means; the empty token has none.
pub fn cursor<T>(
    query: &str,
    token: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, InvalidPage> {
    if token.is_empty() {
        return Ok(None);
    }
    let bytes = unhex(token).ok_or(InvalidPage::Token)?;
    let (mark, rest) = bytes.split_at_checked(FINGERPRINT).ok_or(InvalidPage::Token)?;
    let (seal, cursor) = rest.split_at_checked(FINGERPRINT).ok_or(InvalidPage::Token)?;
    let cursor = str::from_utf8(cursor).map_err(|_| InvalidPage::Token)?;
    if mark != fingerprint(query) {
        return Err(InvalidPage::OtherQuery);
    }
    if seal != fingerprint(&whole(query, cursor)) {
        return Err(InvalidPage::Token);
    }
    read(cursor).map(Some).ok_or(InvalidPage::Token)
}

fn whole(query: &str, cursor: &str) -> String {
    format!("{query}\n{cursor}")
}

fn fingerprint(query: &str) -> [u8; FINGERPRINT] {
    let mut mark = [0; FINGERPRINT];
    mark.copy_from_slice(&Digest::compute(query.as_bytes()).as_bytes()[..FINGERPRINT]);
    mark
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if digits.len() > LONGEST_TOKEN || !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
    digits.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cursor(query: &str, token: &str) -> Result<Option<String>, InvalidPage> {
        super::cursor(query, token, |cursor| Some(cursor.to_owned()))
    }

    proptest! {
        #[test]
        fn only_what_was_given_out_is_a_token(text in "\\PC*|([0-9a-f]{2}){0,80}", query: String) {
            prop_assert!(text.is_empty() || cursor(&query, &text).is_err());
        }

        #[test]
        fn a_token_leads_back_to_its_cursor(query: String, at in "\\PC{0,200}") {
            prop_assert_eq!(cursor(&query, &token(&query, &at)), Ok(Some(at)));
        }
    }

    #[test]
    fn a_token_goes_on_only_with_its_own_query() {
        let token = token("kind=tool", "tool/a@1.0.0");
        assert_eq!(cursor("kind=tool", &token), Ok(Some("tool/a@1.0.0".to_owned())));
        assert_eq!(cursor("kind=agent", &token), Err(InvalidPage::OtherQuery));
        assert_eq!(cursor("kind=tool", ""), Ok(None));
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for bad in ["x", "zz", "abc", "é0", "00", &"00".repeat(4_000)] {
            assert_eq!(cursor("q", bad), Err(InvalidPage::Token), "{bad}");
        }
        let broken = token("q", "a") + "ff";
        assert_eq!(cursor("q", &broken), Err(InvalidPage::Token));
    }

    #[test]
    fn a_token_that_was_changed_anywhere_is_refused() {
        let token = token("q", "tool/a@1.0.0");
        for i in 0..token.len() {
            let digit = if &token[i..=i] == "0" { "1" } else { "0" };
            let changed = format!("{}{digit}{}", &token[..i], &token[i + 1..]);
            assert!(cursor("q", &changed).is_err(), "{changed}");
        }
    }

    #[test]
    fn sizes_have_a_default_and_a_limit() {
        assert_eq!((size(0), size(7), size(1_000)), (Ok(100), Ok(7), Ok(1_000)));
        assert_eq!(size(1_001), Err(InvalidPage::Size { wanted: 1_001, largest: 1_000 }));
        assert_eq!((search_size(0), search_size(100)), (Ok(20), Ok(100)));
        assert_eq!(search_size(101), Err(InvalidPage::Size { wanted: 101, largest: 100 }));
    }
}
