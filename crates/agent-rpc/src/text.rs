//! Checks of texts: ids and names of the caller.

use registry_core::visible::has_invisible_characters;

/// Maximum characters of a `trace_id`, a `task_id` and other opaque texts.
pub(crate) const OPAQUE_CHARACTERS: usize = 128;

/// Whether a text has 1 to this many characters, all of them visible.
pub(crate) fn is_printable(text: &str, most: usize) -> bool {
    // A character has at most four bytes, so long texts are not read.
    let is_short = text.len() <= 4 * most && text.chars().count() <= most;
    !text.is_empty() && is_short && !has_invisible_characters(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_texts_are_short_and_visible() {
        for good in ["a", "AIO-TR-20250326-0001", "größe", &"é".repeat(128)] {
            assert!(is_printable(good, 128), "{good}");
        }
        for bad in ["", "\n", "a\u{0}", "a\u{202e}b", " a", &"a".repeat(129), &"é".repeat(1 << 20)]
        {
            assert!(!is_printable(bad, 128), "{bad:?}");
        }
    }
}
