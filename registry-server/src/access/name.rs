//! The names of principals and of teams, whoever says them: what a person reads must be what is there.

use registry_core::visible::has_invisible_characters;

/// The name of whoever calls an open server.
pub(super) const ANONYMOUS: &str = "anonymous";
/// What the teams of single persons begin with. Only the server gives such a team, so that nobody
/// becomes a team by being called like it.
const PERSONAL: &str = "user:";

/// The team of somebody who has none.
pub(super) fn personal_team(name: &str) -> String {
    format!("{PERSONAL}{name}")
}

/// Whether a team is somebody's own.
pub fn is_personal(team: &str) -> bool {
    team.get(..PERSONAL.len()).is_some_and(|start| start.eq_ignore_ascii_case(PERSONAL))
}

/// Why a text is no name of a principal or a team; as the end of "it …".
pub(super) fn misfit(text: &str, most_bytes: usize) -> Option<&'static str> {
    if text.is_empty() {
        Some("is empty")
    } else if text.len() > most_bytes {
        Some("is too long")
    } else if has_invisible_characters(text) {
        Some("has control characters, spaces or others that nobody sees")
    } else if text.contains('*') {
        Some("has a `*`")
    } else if text == ANONYMOUS {
        Some("is the name of whoever is not authenticated")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_a_person_reads() {
        for good in ["ann", "ann@x", "gr\u{f6}\u{df}e", "Ann Smith", "spiffe://td/a"] {
            assert_eq!(misfit(good, 64), None, "{good}");
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
            assert!(misfit(bad, 9).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn a_personal_team_is_known_however_it_is_written() {
        assert!(is_personal(&personal_team("docs")) && is_personal("USER:docs"));
        assert!(!is_personal("users") && !is_personal("docs") && !is_personal("us\u{e9}r:"));
    }
}
