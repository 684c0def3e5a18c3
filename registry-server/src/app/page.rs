//! Pages of lists: their sizes and the opaque tokens of further pages.
//!
//! A token contains a cursor, a fingerprint of the request that it belongs to and a fingerprint of both.
//! A changed token, or one that is sent with other filters, is therefore rejected. The request is
//! fingerprinted in its wire encoding, so that tokens stay valid while servers are upgraded. A token is not a
//! secret and grants nothing.

use std::fmt::Write as _;

use registry_core::{Digest, Record};

const DEFAULT_SIZE: usize = 100;
/// The maximum of `page_size` in lists.
pub const LARGEST_SIZE: usize = 1_000;
const DEFAULT_SEARCH_SIZE: usize = 20;
/// The maximum of `page_size` in searches.
pub const LARGEST_SEARCH_SIZE: usize = 100;
const LONGEST_TOKEN: usize = 4_096;
const FINGERPRINT: usize = 8;
/// The maximum size of a page of entities in bytes, so that it fits into a message.
pub(super) const PAGE_BYTES: usize = 3 << 20;
/// The approximate size of a record without its document and its notice.
pub(super) const OUTLINE_BYTES: usize = 512;

/// A page of a list.
#[derive(Debug)]
pub struct Page<T> {
    /// Its items.
    pub items: Vec<T>,
    /// The token of the next page; empty on the last page.
    pub next_page_token: String,
}

/// The page that a client requests.
#[derive(Debug, Clone)]
pub struct PageRequest {
    /// The maximum number of items.
    pub size: usize,
    token: String,
    query: Fingerprint,
}

type Fingerprint = [u8; FINGERPRINT];

impl PageRequest {
    /// Requests a page. `query` is the encoded request without the fields that can differ between pages.
    pub fn new(size: usize, token: String, method: &str, query: &[u8]) -> Self {
        let query = fingerprint(&[method.as_bytes(), b"\n", query].concat());
        Self { size, token, query }
    }

    /// Reads the cursor of the token. The first page has none.
    pub(super) fn cursor<T>(
        &self,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, InvalidPage> {
        if self.token.is_empty() {
            return Ok(None);
        }
        let bytes = unhex(&self.token).ok_or(InvalidPage::Token)?;
        let (query, rest) = bytes.split_at_checked(FINGERPRINT).ok_or(InvalidPage::Token)?;
        let (seal, cursor) = rest.split_at_checked(FINGERPRINT).ok_or(InvalidPage::Token)?;
        let cursor = str::from_utf8(cursor).map_err(|_| InvalidPage::Token)?;
        if query != self.query {
            return Err(InvalidPage::OtherQuery);
        }
        if seal != self.seal(cursor) {
            return Err(InvalidPage::Token);
        }
        read(cursor).map(Some).ok_or(InvalidPage::Token)
    }

    /// The token of the page after a cursor.
    pub(super) fn token_after(&self, cursor: &str) -> String {
        let mut bytes = self.query.to_vec();
        bytes.extend(self.seal(cursor));
        bytes.extend_from_slice(cursor.as_bytes());
        let mut token = String::with_capacity(bytes.len() * 2);
        for byte in bytes {
            // Writing into a string cannot fail.
            let _ = write!(token, "{byte:02x}");
        }
        token
    }

    /// The first items as a page. `items` has one more than the page if there is another page. `cursor`
    /// identifies an item.
    pub(super) fn page<T>(&self, mut items: Vec<T>, cursor: impl FnOnce(&T) -> String) -> Page<T> {
        let more = items.len() > self.size;
        items.truncate(self.size);
        let next_page_token = self.next_token(&items, more, cursor);
        Page { items, next_page_token }
    }

    /// The token of the page after these items, or empty text if there are no more.
    pub(super) fn next_token<T>(
        &self,
        items: &[T],
        more: bool,
        cursor: impl FnOnce(&T) -> String,
    ) -> String {
        let last = items.last().filter(|_| more);
        last.map(|last| self.token_after(&cursor(last))).unwrap_or_default()
    }

    fn seal(&self, cursor: &str) -> Fingerprint {
        fingerprint(&[&self.query[..], cursor.as_bytes()].concat())
    }
}

/// The items that fit on one page, at least one, and whether there are more.
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

/// The approximate size of a record without its document.
pub(super) fn outline_bytes(record: &Record) -> usize {
    let said = record.lifecycle.notice.as_ref().map_or(0, |notice| notice.text_bytes());
    OUTLINE_BYTES + said
}

/// An invalid page size or page token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPage {
    /// A negative size.
    #[error("page_size is {0}; set it to a positive number, or to 0 for the default")]
    Size(i32),
    /// Not a token of this registry.
    #[error("invalid page_token; restart from the first page")]
    Token,
    /// A token of another query.
    #[error("page_token belongs to a request with other fields; restart from the first page")]
    OtherQuery,
}

/// Reads the page size of a list. Larger sizes than the maximum are coerced to it.
pub fn size(wanted: i32) -> Result<usize, InvalidPage> {
    size_within(wanted, DEFAULT_SIZE, LARGEST_SIZE)
}

/// Reads the page size of a search. Larger sizes than the maximum are coerced to it.
pub fn search_size(wanted: i32) -> Result<usize, InvalidPage> {
    size_within(wanted, DEFAULT_SEARCH_SIZE, LARGEST_SEARCH_SIZE)
}

fn size_within(wanted: i32, default: usize, largest: usize) -> Result<usize, InvalidPage> {
    match usize::try_from(wanted) {
        Ok(0) => Ok(default),
        Ok(size) => Ok(size.min(largest)),
        Err(_) => Err(InvalidPage::Size(wanted)),
    }
}

fn fingerprint(bytes: &[u8]) -> Fingerprint {
    let mut fingerprint = [0; FINGERPRINT];
    fingerprint.copy_from_slice(&Digest::compute(bytes).as_bytes()[..FINGERPRINT]);
    fingerprint
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

    fn request(query: &str, token: &str) -> PageRequest {
        PageRequest::new(10, token.to_owned(), "List", query.as_bytes())
    }

    fn cursor(query: &str, token: &str) -> Result<Option<String>, InvalidPage> {
        request(query, token).cursor(|cursor| Some(cursor.to_owned()))
    }

    fn token(query: &str, cursor: &str) -> String {
        request(query, "").token_after(cursor)
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_not_a_token(text in "\\PC*|([0-9a-f]{2}){0,80}", query: String) {
            prop_assert!(text.is_empty() || cursor(&query, &text).is_err());
        }

        #[test]
        fn token_returns_its_cursor(query: String, at in "\\PC{0,200}") {
            prop_assert_eq!(cursor(&query, &token(&query, &at)), Ok(Some(at)));
        }
    }

    #[test]
    fn token_is_rejected_with_other_query() {
        let token = token("kind=tool", "tool/a@1.0.0");
        assert_eq!(cursor("kind=tool", &token), Ok(Some("tool/a@1.0.0".to_owned())));
        assert_eq!(cursor("kind=agent", &token), Err(InvalidPage::OtherQuery));
        assert_eq!(cursor("kind=tool", ""), Ok(None));
        let other = PageRequest::new(10, token, "Search", b"kind=tool");
        assert_eq!(other.cursor(|_| Some(())), Err(InvalidPage::OtherQuery));
    }

    #[test]
    fn token_is_stable_across_versions() {
        // Changing this value breaks the paging of clients during an upgrade.
        assert_eq!(token("kind=tool", "a"), "41c1fffeda532a176cace8445233ad7461");
    }

    #[test]
    fn malformed_token_is_rejected() {
        for bad in ["x", "zz", "abc", "é0", "00", &"00".repeat(4_000)] {
            assert_eq!(cursor("q", bad), Err(InvalidPage::Token), "{bad}");
        }
        let broken = token("q", "a") + "ff";
        assert_eq!(cursor("q", &broken), Err(InvalidPage::Token));
    }

    #[test]
    fn changed_token_is_rejected() {
        let token = token("q", "tool/a@1.0.0");
        for i in 0..token.len() {
            let digit = if &token[i..=i] == "0" { "1" } else { "0" };
            let changed = format!("{}{digit}{}", &token[..i], &token[i + 1..]);
            assert!(cursor("q", &changed).is_err(), "{changed}");
        }
    }

    #[test]
    fn page_size_is_coerced_to_its_maximum() {
        assert_eq!((size(0), size(7), size(1_001)), (Ok(100), Ok(7), Ok(1_000)));
        assert_eq!(size(-1), Err(InvalidPage::Size(-1)));
        assert_eq!((search_size(0), search_size(101)), (Ok(20), Ok(100)));
    }
}
