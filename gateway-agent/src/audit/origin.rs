//! The part of a resource's URI that is logged; the rest can contain values.

/// Returns the scheme and host without user information. Empty if the text is not a URI.
pub fn origin(uri: &str) -> String {
    let Some((scheme, rest)) = uri.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        return String::new();
    };
    let Some(rest) = rest.strip_prefix("//") else { return format!("{scheme}:") };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}")
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_omits_path_query_and_user() {
        for (uri, kept) in [
            ("docs+https://h:1/a?b#c", "docs+https://h:1"),
            ("https://u:p@x@h?b", "https://h"),
            ("file:///a", "file://"),
            ("a.b-c:d:e//f", "a.b-c:"),
            ("x://{id}/y", "x://{id}"),
            (":", ""),
            ("1:a", ""),
            ("a b:c", ""),
            ("a", ""),
            ("", ""),
        ] {
            assert_eq!(origin(uri), kept, "{uri}");
        }
    }
}
