//! Names of principals and teams. A name must have no hidden characters.

pub(super) use registry_core::rules::ANONYMOUS;
use registry_core::visible::has_invisible_characters;

/// Prefix of personal teams. Only the server assigns such a team, so a token or certificate cannot claim the
/// team of another person.
const PERSONAL: &str = "user:";

/// Personal team of a principal without a team.
pub(super) fn personal_team(name: &str) -> String {
    format!("{PERSONAL}{name}")
}

/// Whether the name is that of a personal team.
pub fn is_personal(team: &str) -> bool {
    team.get(..PERSONAL.len()).is_some_and(|start| start.eq_ignore_ascii_case(PERSONAL))
}

/// Why a text is not a valid name of a principal or team, as a predicate ("is empty").
pub(super) fn invalid_reason(text: &str, max_bytes: usize) -> Option<&'static str> {
    if text.is_empty() {
        Some("is empty")
    } else if text.len() > max_bytes {
        Some("is too long")
    } else if has_invisible_characters(text) {
        Some("has spaces at its ends, control or invisible characters")
    } else if text.contains('*') {
        Some("has a `*`")
    } else if text == ANONYMOUS {
        Some("is reserved for unauthenticated callers")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_rejects_hidden_characters() {
        for good in ["ann", "ann@x", "gr\u{f6}\u{df}e", "Ann Smith", "spiffe://td/a"] {
            assert_eq!(invalid_reason(good, 64), None, "{good}");
        }
        let hidden = [
            "a\u{202e}b",
            "a\u{200b}",
            "a\u{feff}",
            "a\nb",
            "a\tb",
            "a\u{a0}b",
            "a\u{2066}",
            "a\u{fe0f}",
            "a\u{2800}",
        ];
        for bad in hidden.into_iter().chain(["", "anonymous", "gw-*", "0123456789", "a\u{1b}[1m"]) {
            assert!(invalid_reason(bad, 9).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn personal_team_prefix_ignores_case() {
        assert!(is_personal(&personal_team("docs")) && is_personal("USER:docs"));
        assert!(!is_personal("users") && !is_personal("docs") && !is_personal("us\u{e9}r:"));
    }
}
