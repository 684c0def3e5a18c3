//! Suggestions for misspelled words and incomplete versions.

/// The message, followed by the suggestion.
pub(crate) fn with_suggestion(message: impl Into<String>, suggestion: Option<&str>) -> String {
    let mut message = message.into();
    if let Some(suggestion) = suggestion {
        message.push_str("; did you mean `");
        message.push_str(suggestion);
        message.push_str("`?");
    }
    message
}

/// The complete version for an incomplete one: `1.0.0` for `1`, `1.0` and `v1.0.0`.
pub(crate) fn complete_version(text: &str) -> Option<String> {
    let numbers = text.strip_prefix(['v', 'V']).unwrap_or(text);
    let parts: Vec<&str> = numbers.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if parts.len() > 3 || !parts.iter().all(is_number) {
        return None;
    }
    let parts = parts.iter().copied().chain(["0", "0"]).take(3);
    Some(parts.map(without_leading_zeros).collect::<Vec<_>>().join("."))
}

fn without_leading_zeros(number: &str) -> &str {
    let rest = number.trim_start_matches('0');
    if rest.is_empty() { "0" } else { rest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_versions_are_completed() {
        for (text, expected) in [
            ("1", Some("1.0.0")),
            ("1.0", Some("1.0.0")),
            ("1.20", Some("1.20.0")),
            ("v2.1.3", Some("2.1.3")),
            ("01.2", Some("1.2.0")),
            ("1.2.3.4", None),
            ("latest", None),
            ("1.x", None),
            ("", None),
        ] {
            assert_eq!(complete_version(text).as_deref(), expected, "{text}");
        }
    }
}
