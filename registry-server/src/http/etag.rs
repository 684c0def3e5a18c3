//! Entity tags of what is made of the catalog (RFC 9110, section 8.8.3).

use std::fmt::Display;

use axum::http::{HeaderMap, HeaderValue, header};
use registry_core::Revision;

/// The tag of what this revision has and this SHA-256 tells apart: after a restore, a revision may
/// come again with other content.
pub(super) fn tag(revision: Revision, digest: impl Display) -> String {
    let digest = digest.to_string();
    format!("\"{revision}-{}\"", &digest["sha256:".len()..][..8])
}

/// A tag as the value of a header.
pub(super) fn value(tag: &str) -> HeaderValue {
    // A number and hex digits are always a header.
    HeaderValue::from_str(tag).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Whether the caller has what this tag stands for already.
pub(super) fn knows(headers: &HeaderMap, current: &str) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|v| v.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == current)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_tags_as_http_does() {
        let knows = |value: &'static str| {
            let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, value.parse().unwrap())]);
            knows(&headers, "\"42\"")
        };
        assert!(knows("\"42\"") && knows("W/\"42\"") && knows("\"1\", \"42\"") && knows("*"));
        assert!(!knows("\"4\"") && !knows("42") && !knows(""));
        assert!(!super::knows(&HeaderMap::new(), "\"42\""));
    }
}
