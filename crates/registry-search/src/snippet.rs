//! Highlights of results: the best matching text of each field with the matching ranges.

use std::{
    collections::{BTreeMap, HashSet},
    ops::Range,
};

use registry_core::catalog::Record;

use crate::{
    text::{self, Field},
    words::{self, Token},
};

/// Approximate maximum size of a text in bytes; longer ones are truncated around the match.
const LONGEST: usize = 160;
/// Maximum size of the text before the first match in bytes.
const BEFORE: usize = 40;
/// The ellipsis for truncated text.
const CUT: &str = "…";

/// A matching text of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Highlight {
    /// The matching field.
    pub field: Field,
    /// The text, truncated with `…` if long.
    pub text: String,
    /// The matching byte ranges of the text, ordered and disjoint.
    pub ranges: Vec<Range<usize>>,
}

/// The matches of these terms in an entity.
pub(super) fn highlights(record: &Record, terms: &HashSet<&str>) -> Vec<Highlight> {
    let mut best: BTreeMap<Field, (String, Vec<Range<usize>>)> = BTreeMap::new();
    text::each(&record.document, &mut |field, text| {
        let ranges = matches(text, terms);
        let most = best.get(&field).map_or(0, |(_, ranges)| ranges.len());
        if ranges.len() > most {
            best.insert(field, (text.to_owned(), ranges));
        }
    });
    best.into_iter().map(|(field, (text, ranges))| cut(field, &text, ranges)).collect()
}

fn matches(text: &str, terms: &HashSet<&str>) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    words::each(text, &mut |piece, place, word| {
        if !terms.contains(&*words::stem(word)) {
            return;
        }
        // A compound comes after its parts and covers them.
        if piece == Token::Joined {
            ranges.retain(|range| range.start < place.start);
        }
        ranges.push(place);
    });
    ranges
}

fn cut(field: Field, text: &str, ranges: Vec<Range<usize>>) -> Highlight {
    let first = ranges.first().map_or(0, |range| range.start);
    let start = if text.len() <= LONGEST { 0 } else { space_after(text, first) };
    let end = if text.len() - start <= LONGEST {
        text.len()
    } else {
        let end = text.floor_char_boundary(start + LONGEST);
        text[start..end].rfind(char::is_whitespace).map_or(end, |at| start + at)
    };
    let mut shown = String::with_capacity(end - start + 2 * CUT.len());
    if start > 0 {
        shown.push_str(CUT);
    }
    let offset = shown.len();
    shown.push_str(&text[start..end]);
    if end < text.len() {
        shown.push_str(CUT);
    }
    let inside = ranges.into_iter().filter(|range| range.start >= start && range.end <= end);
    let ranges = inside.map(|r| r.start - start + offset..r.end - start + offset).collect();
    Highlight { field, text: shown, ranges }
}

/// The start of a word shortly before the first match.
fn space_after(text: &str, first: usize) -> usize {
    if first <= BEFORE {
        return 0;
    }
    let start = text.ceil_char_boundary(first - BEFORE);
    let space = text[start..first].char_indices().find(|(_, c)| c.is_whitespace());
    space.map_or(first, |(at, c)| start + at + c.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, terms: &[&str]) -> (String, Vec<String>) {
        let terms = terms.iter().copied().collect();
        let Highlight { text, ranges, .. } = cut(Field::Detail, text, matches(text, &terms));
        let marked = ranges.into_iter().map(|range| text[range].to_owned()).collect();
        (text, marked)
    }

    #[test]
    fn short_texts_are_not_truncated() {
        let (text, marked) = shown("Search documents", &["document"]);
        assert_eq!((&*text, &*marked), ("Search documents", &["documents".to_owned()][..]));
        let (_, marked) = shown("a read_file tool", &["readfil", "fil", "tool"]);
        assert_eq!(marked, ["read_file", "tool"]);
    }

    #[test]
    fn long_texts_are_truncated_around_match() {
        let text = format!("{} needle {}", "größer ".repeat(60), "ähnlich ".repeat(60));
        let (shown, marked) = shown(&text, &["needl"]);
        assert!(shown.starts_with("…größer ") && shown.ends_with("ähnlich…"), "{shown}");
        assert!(shown.len() <= LONGEST + 2 * CUT.len(), "{shown}");
        assert_eq!(marked, ["needle"]);
        let solid = "ß".repeat(50) + &"x".repeat(300);
        assert_eq!(self::shown(&solid, &[]).0.chars().last(), Some('…'));
    }
}
