//! Tokenization: identifiers are split and additionally kept whole.
//!
//! `jira_createTicket` yields `jira`, `create`, `ticket` and the compound `jiracreateticket`, so
//! that it is found by its parts, by a prefix, and as one word.

use std::{borrow::Cow, ops::Range};

/// Maximum length of a term in characters; longer words are truncated.
const LONGEST: usize = 64;

/// Stop words.
const STOP: [&str; 46] = [
    "a", "all", "an", "and", "any", "are", "as", "at", "be", "by", "can", "do", "does", "for",
    "from", "has", "have", "how", "i", "in", "is", "it", "its", "me", "my", "not", "of", "on",
    "or", "so", "that", "the", "their", "they", "this", "to", "was", "we", "what", "when", "where",
    "which", "who", "why", "with", "you",
];

/// Maximum length of a stop word in bytes. Most other words are longer.
const LONGEST_STOP: usize = 5;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// A word, or a part of an identifier.
    Part,
    /// All parts of an identifier as one compound.
    Joined,
}

/// Whether a word is a stop word.
pub(super) fn is_stop(word: &str) -> bool {
    word.len() <= LONGEST_STOP && STOP.binary_search(&word).is_ok()
}

/// Calls `found` with each word in lower case and its range in the text.
pub(super) fn each(text: &str, found: &mut dyn FnMut(Token, Range<usize>, &str)) {
    let mut rest = 0;
    while let Some(start) = text[rest..].find(char::is_alphanumeric).map(|at| rest + at) {
        let end = chunk_end(text, start);
        in_chunk(text, start..end, found);
        rest = end;
    }
}

/// The end of the identifier that starts here. Single connectors between letters are part of it.
fn chunk_end(text: &str, start: usize) -> usize {
    let mut chars = text[start..].char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let goes_on = c.is_alphanumeric()
            || is_connector(c) && chars.peek().is_some_and(|(_, next)| next.is_alphanumeric());
        if !goes_on {
            return start + at;
        }
    }
    text.len()
}

fn is_connector(c: char) -> bool {
    matches!(c, '_' | '-' | '.' | '\'' | '’')
}

fn in_chunk(text: &str, chunk: Range<usize>, found: &mut dyn FnMut(Token, Range<usize>, &str)) {
    if is_plain(&text[chunk.clone()]) {
        found(Token::Part, chunk.clone(), &text[chunk]);
    } else {
        in_identifier(text, chunk, found);
    }
}

/// Whether a chunk is one word in lower case. Most are, and need no copy.
fn is_plain(chunk: &str) -> bool {
    let is_in_place = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    // A single letter can be a genitive.
    (2..=LONGEST).contains(&chunk.len()) && chunk.bytes().all(is_in_place)
}

fn in_identifier(
    text: &str,
    chunk: Range<usize>,
    found: &mut dyn FnMut(Token, Range<usize>, &str),
) {
    let (mut joined, mut parts) = (String::new(), 0);
    for part in parts_of(text, chunk.clone()) {
        let is_genitive = &text[part.clone()] == "s" && text[..part.start].ends_with(['\'', '’']);
        if is_genitive {
            continue;
        }
        let word = lower(&text[part.clone()]);
        found(Token::Part, part, &word);
        joined.push_str(&word);
        parts += 1;
    }
    if parts > 1 {
        found(Token::Joined, chunk, &cut(joined));
    }
}

/// The parts of an identifier: between connectors, and at changes from lower to upper case.
fn parts_of(text: &str, chunk: Range<usize>) -> Vec<Range<usize>> {
    let chars: Vec<(usize, char)> =
        text[chunk.clone()].char_indices().map(|(at, c)| (chunk.start + at, c)).collect();
    let mut parts = Vec::new();
    let mut start = chunk.start;
    for (i, (at, c)) in chars.iter().copied().enumerate().skip(1) {
        let before = chars[i - 1].1;
        let begins = if is_connector(before) {
            start = at;
            false
        } else {
            let next_is_lower = chars.get(i + 1).is_some_and(|(_, next)| next.is_lowercase());
            c.is_uppercase() && (!before.is_uppercase() || next_is_lower)
        };
        if is_connector(c) || begins {
            parts.push(start..at);
            start = at;
        }
    }
    parts.push(start..chunk.end);
    parts
}

fn lower(word: &str) -> String {
    cut(word.to_lowercase())
}

fn cut(mut word: String) -> String {
    if let Some((end, _)) = word.char_indices().nth(LONGEST) {
        word.truncate(end);
    }
    word
}

/// The word without a plural ending and the changes that plurals cause: `queries` and `query` both
/// yield `queri`.
pub(super) fn stem(word: &str) -> Cow<'_, str> {
    let is_plain = word.len() > 3 && word.bytes().all(|byte| byte.is_ascii_lowercase());
    if !is_plain {
        return word.into();
    }
    let singular = match word.strip_suffix('s') {
        Some(rest) if !rest.ends_with(['s', 'u', 'i']) => rest,
        _ => word,
    };
    let bare = match singular.strip_suffix('e') {
        Some(rest) if rest.len() >= 3 => rest,
        _ => singular,
    };
    match bare.strip_suffix('y') {
        Some(rest) if !rest.ends_with(['a', 'e', 'o', 'u']) => format!("{rest}i").into(),
        _ => bare.into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        each(text, &mut |_, place, word| {
            assert!(text.is_char_boundary(place.start) && text.is_char_boundary(place.end));
            words.push(word.to_owned());
        });
        words
    }

    #[test]
    fn identifiers_are_split_and_kept_whole() {
        assert_eq!(words("jira_createTicket"), ["jira", "create", "ticket", "jiracreateticket"]);
        assert_eq!(words("parseHTTPHeader2"), ["parse", "http", "header2", "parsehttpheader2"]);
        assert_eq!(words("acme/docs.read"), ["acme", "docs", "read", "docsread"]);
        assert_eq!(words("The customer's order."), ["the", "customer", "order"]);
        assert_eq!(words("-_. Größe—ǅ \u{1F600} 数据"), ["größe", "ǆ", "数据"]);
        assert_eq!(words(&"x".repeat(300)), ["x".repeat(64)]);
        assert_eq!(words(""), Vec::<String>::new());
    }

    #[test]
    fn stem_unifies_singular_and_plural() {
        for (one, many) in [
            ("query", "queries"),
            ("invoice", "invoices"),
            ("address", "addresses"),
            ("search", "searches"),
            ("cache", "caches"),
            ("key", "keys"),
            ("log", "logs"),
        ] {
            assert_eq!(stem(one), stem(many));
        }
        for same in ["status", "sms", "use", "größe", "s3", "analysis"] {
            assert_eq!(stem(same), same);
        }
    }

    proptest! {
        #[test]
        fn plain_chunks_are_their_own_words(text in "[a-z0-9A-ZäßǅΣ_.'’ -]{0,40}") {
            let mut rest = 0;
            while let Some(start) = text[rest..].find(char::is_alphanumeric).map(|at| rest + at) {
                let chunk = start..chunk_end(&text, start);
                rest = chunk.end;
                let (mut short, mut long) = (Vec::new(), Vec::new());
                in_chunk(&text, chunk.clone(), &mut |piece, place, word| {
                    short.push((piece, place, word.to_owned()));
                });
                in_identifier(&text, chunk, &mut |piece, place, word| {
                    long.push((piece, place, word.to_owned()));
                });
                prop_assert_eq!(short, long);
            }
        }
    }

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP.is_sorted());
        assert_eq!(STOP.map(str::len).into_iter().max(), Some(LONGEST_STOP));
    }
}
