//! The words of a text: identifiers are split, and also kept whole.
//!
//! `jira_createTicket` is `jira`, `create`, `ticket` and, joined, `jiracreateticket`, so that it is
//! found by its parts, by its beginning, and written together.

use std::{borrow::Cow, ops::Range};

/// Longer words are cut, so that no term is longer than this many characters.
const LONGEST: usize = 64;

/// Words that say nothing about what is wanted.
const STOP: [&str; 46] = [
    "a", "all", "an", "and", "any", "are", "as", "at", "be", "by", "can", "do", "does", "for",
    "from", "has", "have", "how", "i", "in", "is", "it", "its", "me", "my", "not", "of", "on",
    "or", "so", "that", "the", "their", "they", "this", "to", "was", "we", "what", "when", "where",
    "which", "who", "why", "with", "you",
];

/// How a word stands in its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// A word, or a part of an identifier.
    Part,
    /// All parts of an identifier together.
    Joined,
}

/// Whether a word says nothing about what is wanted.
pub(super) fn is_stop(word: &str) -> bool {
    STOP.binary_search(&word).is_ok()
}

/// Calls `found` with each word in lower case and its place in the text.
pub(super) fn each(text: &str, found: &mut dyn FnMut(Piece, Range<usize>, &str)) {
    let mut rest = 0;
    while let Some(start) = text[rest..].find(char::is_alphanumeric).map(|at| rest + at) {
        let end = chunk_end(text, start);
        in_chunk(text, start..end, found);
        rest = end;
    }
}

/// Where the identifier ends that begins here: single connectors between letters are part of it.
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

fn in_chunk(text: &str, chunk: Range<usize>, found: &mut dyn FnMut(Piece, Range<usize>, &str)) {
    let (mut joined, mut parts) = (String::new(), 0);
    for part in parts_of(text, chunk.clone()) {
        let is_genitive = &text[part.clone()] == "s" && text[..part.start].ends_with(['\'', '’']);
        if is_genitive {
            continue;
        }
        let word = lower(&text[part.clone()]);
        found(Piece::Part, part, &word);
        joined.push_str(&word);
        parts += 1;
    }
    if parts > 1 {
        found(Piece::Joined, chunk, &cut(joined));
    }
}

/// The parts of an identifier: between connectors, and where upper case begins a word.
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

/// The word without the ending of a plural, and without what plurals change: `queries` and `query`
/// are both `queri`.
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
    fn identifiers_are_split_and_kept() {
        assert_eq!(words("jira_createTicket"), ["jira", "create", "ticket", "jiracreateticket"]);
        assert_eq!(words("parseHTTPHeader2"), ["parse", "http", "header2", "parsehttpheader2"]);
        assert_eq!(words("acme/docs.read"), ["acme", "docs", "read", "docsread"]);
        assert_eq!(words("The customer's order."), ["the", "customer", "order"]);
        assert_eq!(words("-_. Größe—ǅ \u{1F600} 数据"), ["größe", "ǆ", "数据"]);
        assert_eq!(words(&"x".repeat(300)), ["x".repeat(64)]);
        assert_eq!(words(""), Vec::<String>::new());
    }

    #[test]
    fn plurals_and_singulars_meet() {
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

    #[test]
    fn stop_words_are_sorted_for_the_search() {
        assert!(STOP.is_sorted());
    }
}
