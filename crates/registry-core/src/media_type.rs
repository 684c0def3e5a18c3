//! Media types.

/// A media type without parameters.
pub fn essence(text: &str) -> &str {
    text.split(';').next().unwrap_or_default().trim()
}

/// Whether a media type is one of these. Its parameters are ignored.
pub fn is_any(text: &str, known: &[&str]) -> bool {
    known.iter().any(|known| essence(text).eq_ignore_ascii_case(known))
}
