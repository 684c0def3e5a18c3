//! Suggestions for misspelled words.

/// Longer words, in characters, get no suggestion, which bounds the cost of the comparison.
const MAX_LENGTH: usize = 64;

/// The candidate with the least edit distance, if the text is likely a typo of it.
pub fn closest<'c>(text: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let most = (text.chars().count() / 3).max(1);
    closest_within(text, candidates, |_| most)
}

/// Like [`closest`], with a maximum edit distance for each candidate.
pub(crate) fn closest_within<'c>(
    text: &str,
    candidates: impl IntoIterator<Item = &'c str>,
    most: impl Fn(&str) -> usize,
) -> Option<&'c str> {
    let is_short = |word: &str| word.chars().nth(MAX_LENGTH).is_none();
    if !is_short(text) {
        return None;
    }
    let text = text.to_lowercase();
    let distance = |candidate: &str| strsim::osa_distance(&text, &candidate.to_lowercase());
    let candidates = candidates.into_iter().filter(|candidate| is_short(candidate));
    let close = candidates.map(|candidate| (distance(candidate), candidate));
    let close = close.filter(|(distance, candidate)| *distance <= most(candidate));
    close.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closest_accepts_typos_only() {
        let kinds = ["schema", "server", "tool", "agent"];
        for (text, expected) in [
            ("tol", Some("tool")),
            ("Tool", Some("tool")),
            ("sever", Some("server")),
            ("shcema", Some("schema")),
            ("gadget", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(closest(text, kinds), expected, "{text}");
        }
    }

    #[test]
    fn long_words_get_no_suggestion() {
        let long = "x".repeat(MAX_LENGTH + 1);
        assert_eq!(closest(&long, [long.as_str()]), None);
        assert_eq!(closest("tol", [long.as_str(), "tool"]), Some("tool"));
    }
}
