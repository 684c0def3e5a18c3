//! Relevance of texts for a query: rare words and titles count more.

use std::collections::HashSet;

const TITLE_WEIGHT: f64 = 1.0;
const TAG_WEIGHT: f64 = 0.9;
const BODY_WEIGHT: f64 = 0.8;
const SNIPPET_CHARS: usize = 160;

/// The searchable text of one thing.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a> {
    /// Title or name.
    pub title: &'a str,
    /// Its tags, if it has any.
    pub tags: &'a [String],
    /// The rest of its text.
    pub body: &'a str,
}

/// One score for each text, from 0 (no word of the query) to 1 (every word in the title).
pub fn score(query: &str, texts: &[Text<'_>]) -> Vec<f64> {
    let terms: HashSet<String> = words(query).collect();
    let mut scores = vec![0.0; texts.len()];
    let mut total = 0.0;
    let mut terms: Vec<_> = terms.into_iter().collect();
    terms.sort();
    for term in &terms {
        let weights: Vec<f64> = texts.iter().map(|text| weight(term, text)).collect();
        let found = weights.iter().filter(|weight| **weight > 0.0).count().max(1);
        let rarity = (1.0 + count(texts.len()) / count(found)).ln();
        total += rarity;
        for (score, weight) in scores.iter_mut().zip(weights) {
            *score += rarity * weight;
        }
    }
    if total > 0.0 {
        for score in &mut scores {
            *score = (*score / total * 10_000.0).round() / 10_000.0;
        }
    }
    scores
}

/// The part of `body` around the first word of the query.
pub fn snippet(query: &str, body: &str) -> String {
    let terms: HashSet<String> = words(query).collect();
    let chars: Vec<char> = body.chars().collect();
    let first = body
        .split_inclusive(|c: char| !c.is_alphanumeric())
        .scan(0, |start, word| {
            let here = *start;
            *start += word.chars().count();
            Some((here, word))
        })
        .find(|(_, word)| words(word).any(|word| terms.contains(&word)))
        .map_or(0, |(start, _)| start);
    let start = first.saturating_sub(SNIPPET_CHARS / 4);
    let end = (start + SNIPPET_CHARS).min(chars.len());
    let mut text: String = chars[start..end].iter().collect();
    if start > 0 {
        text.insert(0, '…');
    }
    if end < chars.len() {
        text.push('…');
    }
    text
}

/// The weight of a term in a text, with diminishing returns for repetitions.
fn weight(term: &str, text: &Text<'_>) -> f64 {
    if words(text.title).any(|word| word == term) {
        return TITLE_WEIGHT;
    }
    if text.tags.iter().flat_map(|tag| words(tag)).any(|word| word == term) {
        return TAG_WEIGHT;
    }
    let times = count(words(text.body).filter(|word| word == term).count());
    BODY_WEIGHT * times / (times + 1.0)
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

fn count(number: usize) -> f64 {
    u32::try_from(number).unwrap_or(u32::MAX).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn text<'a>(title: &'a str, body: &'a str) -> Text<'a> {
        Text { title, tags: &[], body }
    }

    #[test]
    fn title_match_outranks_body_match() {
        let texts = [text("Other", "saga saga"), text("Saga", "x"), text("Other", "x")];
        let scores = score("saga", &texts);
        assert!((scores[1] - 1.0).abs() < f64::EPSILON, "{scores:?}");
        assert!(scores[0] > 0.0 && scores[0] < 1.0, "{scores:?}");
        assert!(scores[2] == 0.0, "{scores:?}");
    }

    #[test]
    fn rare_word_scores_higher_than_common_word() {
        let texts = [text("common", ""), text("rare", ""), text("common", ""), text("common", "")];
        let scores = score("common rare", &texts);
        assert!(scores[1] > scores[0], "{scores:?}");
    }

    #[test]
    fn query_without_words_scores_zero() {
        assert_eq!(score(" ?! ", &[text("a", "b")]), [0.0]);
    }

    #[test]
    fn snippet_contains_match() {
        let body = format!("{} needle {}", "é ".repeat(300), "b ".repeat(300));
        let shown = snippet("NEEDLE", &body);
        assert!(shown.contains("needle") && shown.starts_with('…') && shown.ends_with('…'));
        assert_eq!(snippet("x", "short"), "short");
    }
}
